"""What one message costs a gateway: calls (Python and C) a turn, and which functions of ours it enters.

python -m scripts.message_cost            prints the figures
python -m scripts.message_cost --list     and the functions of one message, by file
python -m scripts.message_cost --counted  is the gateway itself: SIGUSR1 begins to count, SIGUSR2 writes the count
"""

import asyncio
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benches.gateway_load import client, lab_server

from hermes_cli.main import main as hermes

SOURCE = str(Path(__file__).parents[1] / "src") + os.sep
COUNTED = "counted.json"  # in the home
CLIENTS = 20
TURNS = 10
ALONE = 10  # often enough that what ticks twice a second misses one of them


# --- the gateway that is counted


class Count:
    """Calls while it is on, on all threads that begin after it was made."""

    def __init__(self) -> None:
        self._on = False
        self._calls = 0
        self._entered: collections.Counter[CodeType] = collections.Counter()
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def begin(self, *_: object) -> None:
        self._entered.clear()
        self._calls, self._on = 0, True

    def write(self, *_: object) -> None:
        self._on = False
        ours = {
            f"{code.co_filename.removeprefix(SOURCE)}:{code.co_qualname}": times
            for code, times in self._entered.copy().items()
            if code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<")
        }
        path = Path(os.environ["HERMES_HOME"]) / COUNTED
        path.with_suffix(".new").write_text(json.dumps({"calls": self._calls, "ours": ours}))
        path.with_suffix(".new").replace(path)

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        del arg
        if not self._on:
            return
        if event == "call":
            self._calls += 1
            self._entered[frame.f_code] += 1
        elif event == "c_call":
            self._calls += 1


def run_counted() -> None:
    count = Count()
    signal.signal(signal.SIGUSR1, count.begin)
    signal.signal(signal.SIGUSR2, count.write)
    sys.exit(hermes(["gateway", "run"]))


# --- whoever asks it


@contextlib.contextmanager
def counted_gateway(home: Path, base_url: str) -> Iterator[subprocess.Popen[str]]:
    home.mkdir()
    settings = {"model": {"base_url": base_url, "default": "bench"}, "titles": {"enabled": False}}
    (home / "config.yaml").write_text(json.dumps(settings))
    environment = {**os.environ, "HERMES_HOME": str(home)}
    child = subprocess.Popen(
        [sys.executable, "-m", "scripts.message_cost", "--counted"], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
    finally:
        child.terminate()
        child.wait(60)


async def count_turns(home: Path, gateway: subprocess.Popen[str], clients: int, turns: int) -> dict[str, Any]:
    """What `turns` turns of so many clients cost, all of them warm."""
    counted = home / COUNTED
    counted.unlink(missing_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        people = [await stack.enter_async_context(client(home, f"counted{number}")) for number in range(clients)]

        async def ask(number: int, times: int) -> None:
            for turn in range(times):
                await people[number].ask(f"[[say {number}-{turn}]]")

        await asyncio.gather(*(ask(number, 3) for number in range(clients)))
        await asyncio.sleep(0.5)  # what follows an answer is over
        gateway.send_signal(signal.SIGUSR1)
        await asyncio.gather(*(ask(number, turns) for number in range(clients)))
        await asyncio.sleep(0.3)
        gateway.send_signal(signal.SIGUSR2)
        await asyncio.to_thread(wait_for, counted)
    found: dict[str, Any] = json.loads(counted.read_text())
    return found


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class MessageCost:
    calls: float  # a turn
    functions: list[str]  # of ours, that one message enters

    @property
    def files(self) -> set[str]:
        return {name.partition(":")[0] for name in self.functions}


def measure() -> MessageCost:
    with tempfile.TemporaryDirectory() as folder, lab_server() as base_url:
        home = Path(folder) / "home"
        with counted_gateway(home, base_url) as gateway:
            many = asyncio.run(count_turns(home, gateway, CLIENTS, TURNS))
            alone = [asyncio.run(count_turns(home, gateway, 1, 1))["ours"] for _ in range(ALONE)]
    functions = set(alone[0]).intersection(*alone[1:])  # chores that came in between are not the message's
    return MessageCost(many["calls"] / (CLIENTS * TURNS), sorted(functions))


def main() -> None:
    if "--counted" in sys.argv:
        run_counted()
        return
    began = time.monotonic()
    cost = measure()
    if "--list" in sys.argv:
        print(*cost.functions, sep="\n")
    print(f"calls a turn: {cost.calls:,.0f}")
    print(f"functions of ours for one message: {len(cost.functions)} in {len(cost.files)} files")
    print(f"(measured in {time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
