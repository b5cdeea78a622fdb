"""The gateway under load: many conversations at once through the local socket, each process on its own."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.measure import Figure
from hermes_base.local_wire import MOST_BODY, socket_path

HERMES = str(Path(sys.executable).with_name("hermes"))
IDLE_SECONDS = 10.0


@contextlib.contextmanager
def lab_server() -> Iterator[str]:
    """The lab server as a process of its own, so that its work is not counted as ours."""
    child = subprocess.Popen([HERMES, "lab", "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield next(word for word in child.stdout.readline().split() if word.startswith("http"))
    finally:
        child.terminate()
        child.wait()


@contextlib.contextmanager
def gateway(home: Path, base_url: str, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """`hermes gateway run` in a home that asks the model server at this address."""
    home.mkdir(parents=True, exist_ok=True)
    config = {"model": {"base_url": base_url, "default": "bench"}, **settings}
    (home / "config.yaml").write_text(json.dumps(config))
    environment = {**os.environ, "HERMES_HOME": str(home)}
    child = subprocess.Popen([HERMES, "gateway", "run"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
    finally:
        child.terminate()
        child.wait(30)


class Client:
    """Somebody at the socket of the home: one connection is followed, another one says things."""

    def __init__(self, home: Path, conversation: str) -> None:
        self._path = str(socket_path(home))
        self._conversation = conversation
        self._said = 0

    async def open(self) -> None:
        self._stream, self._streaming = await asyncio.open_unix_connection(self._path, limit=MOST_BODY)
        self._reader, self._writer = await asyncio.open_unix_connection(self._path, limit=MOST_BODY)
        asked = f"GET /web/live?conversation={self._conversation} HTTP/1.1\r\nhost: bench\r\n\r\n"
        self._streaming.write(asked.encode())
        while (await self._read_told())["type"] != "snapshot":
            pass

    async def _read_told(self) -> dict[str, Any]:
        """The next event; what lies between two of them is the form in which they are sent."""
        while not (line := await self._stream.readline()).startswith(b"data: "):
            assert line, "the gateway hung up"
        told: dict[str, Any] = json.loads(line[len(b"data: ") :])
        return told

    async def _post(self, path: str, **body: Any) -> None:
        given = json.dumps({"conversation": self._conversation, **body}).encode()
        kind = f"content-type: application/json\r\ncontent-length: {len(given)}\r\n"
        self._writer.write(f"POST {path} HTTP/1.1\r\nhost: bench\r\n{kind}\r\n".encode() + given)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await self._reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))

    async def say(self, text: str) -> None:
        self._said += 1
        await self._post("/web/say", id=f"{time.time_ns()}-{self._said}", text=text)

    async def stop(self) -> None:
        await self._post("/web/stop")

    async def ask(self, text: str) -> str:
        """Say something and wait for its answer."""
        await self.say(text)
        while (told := await self._read_told())["type"] != "row":
            pass
        await self._post("/web/got", rows=[told["row"]])
        return str(told["outgoing"]["text"])

    async def close(self) -> None:
        for writer in (self._streaming, self._writer):
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def client(home: Path, name: str) -> AsyncIterator[Client]:
    made = Client(home, f"agent:main:local:dm:{name}")
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@dataclass(frozen=True, slots=True)
class Load:
    seconds: float
    answered: int
    in_order: bool


async def warm_up(home: Path) -> None:
    """The first answer loads the SDK."""
    async with client(home, "first") as person:
        await person.ask("warm up")


async def talk(home: Path, conversations: int, turns: int, script: str = "", name: str = "bench") -> Load:
    """Every conversation asks one question after the other; all of them at once."""

    await warm_up(home)
    async with contextlib.AsyncExitStack() as stack:
        people = [await stack.enter_async_context(client(home, f"{name}{number}")) for number in range(conversations)]

        async def ask_all(number: int) -> list[str]:
            return [await people[number].ask(f"{script}[[say {number}-{turn}]]") for turn in range(turns)]

        started = time.perf_counter()
        answers = await asyncio.gather(*map(ask_all, range(conversations)))
        seconds = time.perf_counter() - started
    expected = [[f"{number}-{turn}" for turn in range(turns)] for number in range(conversations)]
    return Load(seconds, sum(map(len, answers)), answers == expected)


async def fill(home: Path, conversations: int, at_once: int = 25, name: str = "fill") -> None:
    """One question in each of many conversations, some at a time."""
    for first in range(0, conversations, at_once):
        await asyncio.gather(*(_ask_one(home, f"{name}{number}") for number in range(first, first + at_once)))


async def _ask_one(home: Path, name: str) -> None:
    async with client(home, name) as person:
        await person.ask(f"[[say {name}]]")


def measure_gateway(base_url: str, folder: Path) -> list[Figure]:
    """Turns a second, calls in flight, agents kept warm, and what it costs while nobody says anything."""
    with gateway(folder / "busy", base_url) as child:
        best = max((asyncio.run(talk(folder / "busy", 50, 4)) for _ in range(3)), key=lambda load: 1 / load.seconds)
        in_flight = max(count_in_flight(folder / "busy", base_url) for _ in range(3))
    with gateway(folder / "full", base_url, gateway={"agents": 2000}) as child:
        asyncio.run(warm_up(folder / "full"))
        time.sleep(2)
        empty, cpu = resident_mb(child.pid), cpu_seconds(child.pid)
        time.sleep(IDLE_SECONDS)
        idle = 100 * (cpu_seconds(child.pid) - cpu) / IDLE_SECONDS
        asyncio.run(fill(folder / "full", 1000))
        grown = resident_mb(child.pid) - empty
    answered = best.answered if best.in_order else 0
    return [
        Figure("50 conversations x 4 turns: answered, in order", answered, "", 200, 197, at_least=True),
        Figure("50 conversations x 4 turns", best.answered / best.seconds, "turns/s", 100, 6.5, at_least=True),
        Figure("200 conversations, 1 s of thought: in flight", in_flight, "", 200, at_least=True),
        Figure("1,000 agents kept warm, memory over idle", grown, "MB", 60),
        Figure("the gateway while idle, share of a core", idle, "%", 1.0),
    ]


def count_in_flight(home: Path, base_url: str) -> int:
    """How many model calls were under way together when 200 conversations asked at once."""
    asyncio.run(talk(home, 200, 1, "[[stall 1]]"))
    with urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/lab/load") as told:
        return int(json.loads(told.read())["most_in_flight"])


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
