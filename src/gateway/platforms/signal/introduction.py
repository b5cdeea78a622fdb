"""Asks the daemon whether it has our account, and who that is."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.platforms.face import NotNow
from gateway.platforms.signal.link import SignalLink
from gateway.platforms.signal.refusals import (
    BAD_PARAMS,
    FOREIGN,
    NO_ANSWER,
    NO_METHOD,
    UNREACHED_SECONDS,
    LineTrouble,
    RpcTrouble,
    as_failure,
)
from gateway.platforms.signal.signal_settings import SignalSettings, is_account_id
from hermes_base.errors import ConfigProblem

_log = logging.getLogger(__name__)
ASK_SECONDS = 30.0
LINK_IT = (
    "Link or register it there first: `signal-cli link -n hermes`, or `signal-cli -a NUMBER register`. Then start the "
    "daemon anew, and run `hermes setup signal`."
)


@dataclass(frozen=True, slots=True)
class FoundAccount:
    version: str
    several: bool  # the daemon has several accounts, or might
    id: str = ""  # empty: not told


async def introduce(
    link: SignalLink, settings: SignalSettings, known_id: str = "", patience: float = ASK_SECONDS
) -> FoundAccount:
    """What the daemon knows of our account. ConfigProblem where it has none such, DeliveryFailure where it does not
    say, or says nothing at all for so many seconds. With `known_id` Signal itself is not asked."""
    try:
        version = await _find_version(link, settings, patience)
        accounts = await _list_accounts(link)
    except RpcTrouble as trouble:
        raise _as_problem(trouble, settings) from None
    own = None
    if accounts is not None:
        own = next((one for one in accounts if settings.number in (one.get("number"), one.get("aci"))), None)
        if own is None:
            raise ConfigProblem(f"signal-cli's daemon has no account {settings.number}.", fix=LINK_IT)
    told = own.get("aci") if own else None
    return FoundAccount(
        version, accounts is not None, str(told) if is_account_id(told) else known_id or await _find_id(link, settings)
    )


async def _find_version(link: SignalLink, settings: SignalSettings, patience: float) -> str:
    found = await link.call("version", {"account": settings.number}, patience)
    return str(found.get("version") or "") if isinstance(found, Mapping) else ""


async def _list_accounts(link: SignalLink) -> list[Mapping[str, Any]] | None:
    """The accounts of the daemon; None: it was started for a single one, and does not say for which."""
    try:
        found = await link.call("listAccounts", {}, ASK_SECONDS)
    except RpcTrouble as trouble:
        if trouble.kind is LineTrouble.REFUSED and trouble.code == NO_METHOD:
            return None
        raise
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


async def _find_id(link: SignalLink, settings: SignalSettings) -> str:
    """Our own id, from Signal's directory. Without it we are known by our number until it is told."""
    if is_account_id(settings.number):
        return settings.number
    try:
        asked = {"account": settings.number, "recipient": [settings.number]}
        found = await link.call("getUserStatus", asked, ASK_SECONDS)
    except RpcTrouble as trouble:
        if trouble.kind is not LineTrouble.REFUSED:
            raise as_failure(trouble) from None
        _log.info("Signal did not tell our own id (%s); we go by the number.", trouble.text)
        return ""
    entries = found if isinstance(found, list) else []
    ids = [one.get("uuid") for one in entries if isinstance(one, Mapping)]
    return next((str(id) for id in ids if is_account_id(id)), "")


def _as_problem(trouble: RpcTrouble, settings: SignalSettings) -> Exception:
    if trouble.kind is LineTrouble.REFUSED and trouble.code == BAD_PARAMS:
        return ConfigProblem(f"signal-cli's daemon has no account {settings.number}.", fix=LINK_IT)
    if trouble.text not in (NO_ANSWER, FOREIGN):
        return as_failure(trouble)
    what = f"What answers at {settings.place} does not speak as signal-cli's daemon does."
    return NotNow(f"{what} Name the place of its --socket or --tcp.", UNREACHED_SECONDS, whole_account=True)
