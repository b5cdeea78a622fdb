"""Asks Telegram whose token it is, for whoever sets the bot up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.id_forms import refuse_own
from gateway.platforms.telegram import SPEC
from gateway.platforms.telegram.link import open_link, read_token
from gateway.platforms.telegram.refusals import BAD_TOKEN, BotTrouble, TroubleKind
from gateway.platforms.telegram.wire_out import BotCall
from hermes_base.errors import ConfigProblem

_HEARS_ALL = "in groups it reads every message (its privacy mode is off)"
_HEARS_SOME = (
    "in groups it reads commands, replies to it and what names it (its privacy mode is on; @BotFather's /setprivacy "
    "changes that)"
)
_NO_GROUPS = "it cannot be added to groups (@BotFather's /setjoingroups changes that)"


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which bot it is, in a sentence; ConfigProblem when that cannot be found out."""
    del home
    account = str(settings.get("account") or "")
    token = read_token(settings.get("token"), account)
    link = await open_link(token, str(settings.get("base_url") or ""), account)
    try:
        me = await link.call(BotCall("getMe", {}))
        refuse_own(SPEC.person_ids, settings, me.get("id"))
        return describe_bot(me)
    except BotTrouble as trouble:
        if trouble.kind is TroubleKind.TOKEN:
            raise ConfigProblem(BAD_TOKEN, fix=trouble.fix) from None
        raise ConfigProblem(f"Telegram cannot be asked: {trouble}.", fix="Check the network, and try again.") from None
    finally:
        await link.close()


def describe_bot(me: Mapping[str, Any]) -> str:
    groups = _HEARS_ALL if me.get("can_read_all_group_messages") is True else _HEARS_SOME
    if me.get("can_join_groups") is False:
        groups = _NO_GROUPS
    return f"It is @{me.get('username')} ({me.get('first_name')}); {groups}."
