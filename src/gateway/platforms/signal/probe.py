"""Asks the daemon who we are there, for whoever sets the account up. It does not listen: what is received while nobody
can store it is lost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.id_forms import refuse_own
from gateway.platforms.signal import SPEC
from gateway.platforms.signal.introduction import FoundAccount, introduce
from gateway.platforms.signal.link import open_link
from gateway.platforms.signal.rpc_line import JsonObject
from gateway.platforms.signal.signal_settings import SignalSettings, read_settings
from hermes_base.errors import ConfigProblem, DeliveryFailure

BY_ITSELF = (
    "the daemon receives by itself, so what people write while Hermes is off is LOST: start it with "
    "--receive-mode=manual"
)
MANUAL = "see to it that the daemon runs with --receive-mode=manual, or what people write while Hermes is off is lost"


async def probe(settings: Mapping[str, Any], home: Path) -> str:
    """Which account it is, in a sentence; ConfigProblem when that cannot be found out."""
    del home
    read = read_settings(settings)
    unasked = 0

    async def listen(method: str, params: JsonObject) -> None:
        nonlocal unasked
        unasked += method == "receive" and "result" not in params

    try:
        link = await open_link(read, listen, lambda: None)
        try:
            found = await introduce(link, read)
        finally:
            await link.close()
    except DeliveryFailure as problem:
        raise ConfigProblem(f"Signal cannot be asked: {problem}", fix="Then try again.") from None
    refuse_own(SPEC.person_ids, settings, found.id)
    return describe_account(read, found, unasked)


def describe_account(settings: SignalSettings, found: FoundAccount, unasked: int) -> str:
    """`unasked`: how many messages came although nobody asked for them."""
    who = f"{settings.number} ({found.id})" if found.id and found.id != settings.number else settings.number
    daemon = f"signal-cli {found.version}".rstrip()
    accounts = "" if found.several else "; the daemon has one account and does not say which, so compare the number"
    line = "" if settings.is_near else "; what is said on the line to it can be read and changed by others"
    return f"It is {who} on {daemon}{accounts}{line}; {BY_ITSELF if unasked else MANUAL}."
