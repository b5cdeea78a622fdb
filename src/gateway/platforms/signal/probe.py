"""Asks the daemon who we are there, for whoever sets the account up. It does not listen: what is received while nobody
can store it is lost. A daemon that receives by itself hands over all the same, so it is not asked where a gateway is
connected to it, which knows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.account_settings import CONNECTED
from gateway.platforms.face import ProbeAnswer
from gateway.platforms.signal.introduction import FoundAccount, introduce
from gateway.platforms.signal.link import open_link
from gateway.platforms.signal.rpc_line import JsonObject
from gateway.platforms.signal.signal_settings import SignalSettings, read_settings
from hermes_base.errors import ConfigProblem, DeliveryFailure

HELLO_SECONDS = 10.0  # for the first answer: what does not give one is no daemon
BY_ITSELF = (
    "The daemon receives by itself: what people write while Hermes is off is LOST, and so is what it handed over "
    "during this question ({} in number). Start it with --receive-mode=manual."
)
MANUAL = "see to it that the daemon runs with --receive-mode=manual, or what people write while Hermes is off is lost"


async def probe(settings: Mapping[str, Any], home: Path) -> ProbeAnswer:
    """Which account it is; ConfigProblem when that cannot be found out."""
    del home
    read = read_settings(settings)
    if settings.get(CONNECTED) is True:
        return ProbeAnswer(f"The gateway is connected as {read.number} to the daemon at {read.place}.")
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
    return describe_account(read, found, unasked)


def describe_account(settings: SignalSettings, found: FoundAccount, unasked: int) -> ProbeAnswer:
    """`unasked`: how many messages came although nobody asked for them."""
    who = f"{settings.number} ({found.id})" if found.id and found.id != settings.number else settings.number
    daemon = f"signal-cli {found.version}".rstrip()
    accounts = "" if found.several else "; the daemon has one account and does not say which, so compare the number"
    line = "" if settings.is_near else "; what is said on the line to it can be read and changed by others"
    mode = "" if unasked else f"; {MANUAL}"
    return ProbeAnswer(f"It is {who} on {daemon}{accounts}{line}{mode}.", BY_ITSELF.format(unasked) if unasked else "")
