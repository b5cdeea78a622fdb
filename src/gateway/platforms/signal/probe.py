"""Asks the daemon who we are there, for whoever sets the account up. It does not listen: what is received while nobody
can store it is lost. A daemon that receives by itself hands over all the same, to everybody who is connected: where a
gateway is, that costs nothing; where none is, it is told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.account_settings import CONNECTED
from gateway.platforms.face import ProbeAnswer
from gateway.platforms.id_forms import refuse_own
from gateway.platforms.signal import SPEC
from gateway.platforms.signal.introduction import FoundAccount, introduce
from gateway.platforms.signal.link import open_link
from gateway.platforms.signal.rpc_line import JsonObject
from gateway.platforms.signal.signal_settings import SignalSettings, read_settings
from hermes_base.errors import ConfigProblem, DeliveryFailure

HELLO_SECONDS = 10.0  # for the first answer: what does not give one is no daemon
BY_ITSELF = (
    "The daemon receives by itself: what people write while Hermes is off is LOST{}. Start it with "
    "--receive-mode=manual."
)
COST = ", and so is what it handed over during this question ({} in number)"
MANUAL = "see to it that the daemon runs with --receive-mode=manual, or what people write while Hermes is off is lost"


async def probe(settings: Mapping[str, Any], home: Path) -> ProbeAnswer:
    """Which account it is; ConfigProblem when that cannot be found out."""
    del home
    read = read_settings(settings)
    unasked = 0

    async def listen(method: str, params: JsonObject) -> None:
        nonlocal unasked
        unasked += method == "receive" and "result" not in params

    try:
        link = await open_link(read, listen, lambda: None)
        try:
            found = await introduce(link, read, patience=HELLO_SECONDS)
        finally:
            await link.close()
    except DeliveryFailure as problem:
        raise ConfigProblem(f"Signal cannot be asked: {problem}", fix="Then try again.") from None
    refuse_own(SPEC.person_ids, settings, found.id)
    return describe_account(read, found, unasked, is_stored=settings.get(CONNECTED) is True)


def describe_account(
    settings: SignalSettings, found: FoundAccount, unasked: int, *, is_stored: bool = False
) -> ProbeAnswer:
    """`unasked`: how many messages came although nobody asked for them; `is_stored`: a gateway has them, too."""
    who = f"{settings.number} ({found.id})" if found.id and found.id != settings.number else settings.number
    daemon = f"signal-cli {found.version}".rstrip()
    accounts = "" if found.several else "; the daemon has one account and does not say which, so compare the number"
    line = "" if settings.is_near else "; what is said on the line to it can be read and changed by others"
    told = f"It is {who} on {daemon}{accounts}{line}"
    if not unasked:
        return ProbeAnswer(f"{told}; {MANUAL}.")
    return ProbeAnswer(f"{told}.", BY_ITSELF.format("" if is_stored else COST.format(unasked)))
