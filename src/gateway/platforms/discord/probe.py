"""Asks Discord whose token it is, for whoever sets the bot up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.discord import SPEC
from gateway.platforms.discord.link import DiscordLink, choose_intents, read_token
from gateway.platforms.discord.refusals import BAD_TOKEN, BAD_TOKEN_FIX, DiscordTrouble, Trouble
from gateway.platforms.discord.wire_out import GET_APPLICATION
from gateway.platforms.id_forms import refuse_own
from hermes_base.errors import ConfigProblem

_READS = (1 << 18) | (1 << 19)  # flags of an application: it may read messages
#: See channels, write in them and in threads, send files, read what was said, put a sign on messages.
PERMISSIONS = sum(1 << bit for bit in (6, 10, 11, 15, 16, 38))
_HEARS_ALL = "it may read messages"
_HEARS_SOME = (
    "it may NOT read messages of servers that do not name it: switch on `Message Content Intent` on its page in the "
    "developer portal, or set `platforms.discord.message_content` to false"
)
_INVITE = "https://discord.com/oauth2/authorize?client_id={}&scope=bot+applications.commands&permissions={}"


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which bot it is, in a sentence; ConfigProblem when that cannot be found out."""
    del home
    token, base_url = read_token(settings.get("token")), str(settings.get("base_url") or "")
    link = DiscordLink(token, base_url, choose_intents(False), lambda kind, data: None, ())
    try:
        me, application = await link.login(), await link.call(GET_APPLICATION)
        refuse_own(SPEC.person_ids, settings, me.get("id"))
        return describe_bot(me, application)
    except DiscordTrouble as trouble:
        if trouble.kind is Trouble.TOKEN:
            raise ConfigProblem(BAD_TOKEN, fix=BAD_TOKEN_FIX) from None
        raise ConfigProblem(f"Discord cannot be asked: {trouble}.", fix="Check the network, and try again.") from None
    finally:
        await link.close()


def describe_bot(me: Mapping[str, Any], application: Mapping[str, Any]) -> str:
    flags = application.get("flags")
    reads = _HEARS_ALL if isinstance(flags, int) and flags & _READS else _HEARS_SOME
    invite = _INVITE.format(application.get("id"), PERMISSIONS)
    return f"It is {me.get('username')} ({application.get('name')}); {reads}. Add it to a server: {invite}"
