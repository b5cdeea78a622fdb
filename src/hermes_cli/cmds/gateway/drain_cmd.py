"""`hermes gateway drain`: empties the gateway of this home, so that others on its store go on with what it has."""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_base.errors import HermesError
from hermes_cli.chat.local_client import Gone, call_owner
from hermes_state.home_lock import holder

_CALL_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_LEAVE_SECONDS = 30.0


def drain(parsed: argparse.Namespace, home: Path) -> int:
    owner = holder(home)
    if owner is None:
        print(f"No gateway runs in {home}: there is nothing to drain.")
        return 0
    told = _ask(home, "drain")
    if not told["draining"]:
        print(told["why"])
        return 1
    print(f"The gateway (process {owner.pid}) takes nothing new any more; others take over. {_describe(told)}")
    if not parsed.wait:
        print("`hermes gateway drain --wait` waits for the rest and ends it; `hermes gateway stop` ends it at once.")
        return 0
    while told["turns"] or told["conversations"] or told["accounts"]:
        time.sleep(_LOOK_SECONDS)
        told = _ask(home, "drain")
    _ask(home, "shutdown")
    end = time.monotonic() + _LEAVE_SECONDS
    while holder(home) == owner:
        if time.monotonic() > end:
            raise HermesError(f"The gateway (process {owner.pid}) is empty, was told to end, and has not ended yet.")
        time.sleep(_LOOK_SECONDS / 10)
    print(f"The gateway (process {owner.pid}) is empty and has ended.")
    return 0


def _describe(told: Mapping[str, Any]) -> str:
    kept = f"{told['turns']} turns run on here, {told['conversations']} conversations are still its own"
    return f"{kept}, and so are these accounts: {', '.join(told['accounts'])}." if told["accounts"] else f"{kept}."


def _ask(home: Path, name: str) -> dict[str, Any]:
    try:
        told = call_owner(home, name, {}, _CALL_SECONDS)
    except Gone:
        if name == "shutdown":
            return {}  # it left before it could say so
        raise
    if told is None:
        raise HermesError(f"The gateway of {home} does not listen: it is starting or ending.", fix="Try again.")
    return told
