"""`hermes gateway run|stop|status`: runs the gateway in the foreground, ends it, and tells how it is."""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hermes_base.errors import HermesError
from hermes_cli.local_client import Gone, call, connect
from hermes_constants import get_hermes_home
from hermes_state.home_lock import Holder, holder

OK, NOT_RUNNING = 0, 1
NOBODY = "No gateway runs in {home}. `hermes gateway run` starts one."
_CALL_SECONDS = 10.0
_STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_FRESH_SECONDS = 90.0  # a platform with a sign of life in this time is connected


def main(args: list[str]) -> int:
    parsed = _build_parser().parse_args(args)
    return _ACTIONS[parsed.action](parsed, get_hermes_home())


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hermes gateway", description="Run the gateway: chats and platforms of one home.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="run|stop|status")
    actions.add_parser("run", help="run it in the foreground until Ctrl-C")
    actions.add_parser("stop", help="end it and wait until it has ended")
    status = actions.add_parser("status", help="what it does now")
    status.add_argument("--json", action="store_true", help="for programs")
    return parser


def _run(parsed: argparse.Namespace, home: Path) -> int:
    del parsed
    # Loaded here and not above: `stop` and `status` need no agent.
    from gateway.hosting import run_gateway  # noqa: PLC0415

    return run_gateway(home)


# --- stop


def _stop(parsed: argparse.Namespace, home: Path) -> int:
    del parsed
    owner = holder(home)
    if owner is None:
        print(NOBODY.format(home=home))
        return OK
    _ask(home, owner, "shutdown")
    new = _wait_for_end(home, owner)
    print(f"The gateway (process {owner.pid}) has stopped.")
    if new is not None:
        print(f"A terminal that was joined to it hosts now (process {new.pid}).")
    return OK


def _wait_for_end(home: Path, owner: Holder) -> Holder | None:
    """Wait until the owner has left the home; who has taken it meanwhile."""
    end = time.monotonic() + _STOP_SECONDS
    while (now := holder(home)) == owner:
        if time.monotonic() > end:
            raise HermesError(
                f"The gateway (process {owner.pid}) was told to stop and has not ended yet.",
                fix=f"Wait, or end it: kill {owner.pid}",
            )
        time.sleep(_LOOK_SECONDS)
    return now if now is not None and now.pid else None


def _ask(home: Path, owner: Holder, name: str) -> dict[str, Any]:
    connection = connect(home)
    if connection is None:
        raise HermesError(
            f"Process {owner.pid} owns the home {home} and does not listen: it is starting or ending.",
            fix="Try again in a moment.",
        )
    with closing(connection):
        try:
            return call(connection, name, {}, _CALL_SECONDS)
        except Gone as gone:
            if name == "shutdown":
                return {}  # it left before it could say so
            fix = f"If it stays so: kill {owner.pid}"
            raise HermesError(f"The gateway (process {owner.pid}) does not answer.", fix=fix) from gone


# --- status


def _status(parsed: argparse.Namespace, home: Path) -> int:
    owner = holder(home)
    if owner is None:
        print(json.dumps({"running": False}) if parsed.json else NOBODY.format(home=home))
        return NOT_RUNNING
    status = {"running": True, "pid": owner.pid, "since": owner.since, **_ask(home, owner, "status")}
    print(json.dumps(status, ensure_ascii=False, indent=2) if parsed.json else "\n".join(write_status(status)))
    return OK


def write_status(status: Mapping[str, Any], now: float | None = None) -> Iterator[str]:
    """The status in lines; what the gateway does not tell is left out."""
    now = time.time() if now is None else now
    yield f"Running: process {status['pid']}, since {_write_time(status['since'])} (node {status.get('node', '?')})"
    working = status.get("working", [])
    yield f"At work: {len(working)} conversation{'' if len(working) == 1 else 's'}"
    yield from (f"  {conversation}" for conversation in working)
    queue = status.get("queue", {})
    yield f"Waiting: {queue.get('inbox', 0)} messages to deal with, {queue.get('outbox', 0)} to deliver"
    yield "Platforms:"
    yield from (f"  {_write_platform(platform, now)}" for platform in status.get("platforms", []))
    held = status.get("leases", [])
    if held:
        yield "Held:"
        yield from (f"  {_write_lease(lease)}" for lease in held)


def _write_platform(platform: Mapping[str, Any], now: float) -> str:
    """C13: connected means a sign of life in the last 90 seconds."""
    seen = float(platform.get("last_seen", 0.0))
    name = f"{platform['name']} ({platform.get('account', '')})"
    if not seen:
        return f"{name}: never connected"
    state = "connected" if now - seen <= _FRESH_SECONDS else "not connected"
    return f"{name}: {state}, last sign of life {max(0.0, now - seen):.0f} s ago"


def _write_lease(lease: Mapping[str, Any]) -> str:
    alive = "" if lease.get("live", True) else ", dead"
    return f"{lease['name']}: {lease.get('owner') or 'nobody'}{alive}, generation {lease.get('epoch', 0)}"


def _write_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Path], int]] = MappingProxyType(
    {"run": _run, "stop": _stop, "status": _status}
)
