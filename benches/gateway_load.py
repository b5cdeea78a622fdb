"""The gateway under load: many conversations at once through the local socket, each process on its own."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_base.local_wire import MAX_LINE, socket_path

HERMES = str(Path(sys.executable).with_name("hermes"))


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
    """Somebody at the local socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._said = 0

    def send(self, **line: Any) -> None:
        self._writer.write(json.dumps(line).encode() + b"\n")

    async def read(self) -> dict[str, Any]:
        line: dict[str, Any] = json.loads(await self._reader.readline())
        return line

    async def open(self, name: str) -> None:
        self.send(type="hello", client=name)
        while (await self.read())["type"] != "welcome":
            pass

    async def ask(self, text: str) -> str:
        """Say something and wait for its answer."""
        self._said += 1
        self.send(type="say", id=str(self._said), text=text)
        while True:
            line = await self.read()
            if line["type"] == "deliver":
                self.send(type="got", row=line["row"])
                return str(line["outgoing"]["text"])

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def client(home: Path, name: str) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_unix_connection(str(socket_path(home)), limit=MAX_LINE)
    made = Client(reader, writer)
    await made.open(name)
    try:
        yield made
    finally:
        await made.close()


@dataclass(frozen=True, slots=True)
class Load:
    seconds: float
    answered: int
    in_order: bool


async def talk(home: Path, conversations: int, turns: int) -> Load:
    """Every conversation asks one question after the other; all of them at once."""

    async def one(number: int) -> list[str]:
        async with client(home, f"bench{number}") as person:
            return [await person.ask(f"[[say {number}-{turn}]]") for turn in range(turns)]

    async with client(home, "first") as person:
        await person.ask("warm up")
    started = time.perf_counter()
    answers = await asyncio.gather(*map(one, range(conversations)))
    seconds = time.perf_counter() - started
    expected = [[f"{number}-{turn}" for turn in range(turns)] for number in range(conversations)]
    return Load(seconds, sum(map(len, answers)), answers == expected)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
