"""Thousands of conversations through one gateway that keeps few agents ready: nothing of them stays behind."""

import asyncio
import os
import random
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from gateway_process import GatewayProcess
from waiting import wait_until

from agent.http.transport import MOST_IDLE
from hermes_base import local_wire as wire
from hermes_cli.chat.local_client import connect
from hermes_lab.server import LabServer

CONVERSATIONS = 2_000
AT_ONCE = 40
AGENTS = 16


@dataclass(frozen=True, slots=True)
class Footprint:
    threads: int
    descriptors: int
    resident: int  # kilobytes


def measure(pid: int) -> Footprint:
    folder = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    return Footprint(int(status["Threads"]), len(os.listdir(folder / "fd")), int(status["VmRSS"].split()[0]))


async def ask(home: Path, number: int, text: str) -> str:
    """One person comes, asks, is answered and goes."""
    return await asyncio.to_thread(_ask, home, f"agent:main:local:dm:soak{number}", text)


def _ask(home: Path, conversation: str, text: str) -> str:
    connection, answer = connect(home), ""
    assert connection is not None
    with closing(connection):
        connection.follow(conversation, None)
        while not isinstance(connection.read(), wire.Welcome):
            pass
        connection.post("/web/say", {"conversation": conversation, "id": f"{random.getrandbits(60):x}", "text": text})
        while not isinstance(told := connection.read(), wire.DealtWith):
            if isinstance(told, wire.Deliver):
                answer = told.outgoing.text
                connection.post("/web/got", {"conversation": conversation, "rows": [told.row]})
    return answer


async def talk_to_all(home: Path, order: list[int]) -> None:
    """Everyone asks once, a few at a time; whoever comes again finds an agent that was let go meanwhile."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            answer = await asyncio.wait_for(ask(home, number, f"[[say {number}]]"), 60)
            assert answer == str(number)

    await asyncio.gather(*map(one, order))


def play_round(gateway: GatewayProcess, lab: LabServer, seed: int) -> None:
    chance = random.Random(seed)
    order = [*chance.sample(range(CONVERSATIONS), CONVERSATIONS), *chance.sample(range(CONVERSATIONS), 500)]
    for first in range(0, len(order), 500):
        asyncio.run(talk_to_all(gateway.home, order[first : first + 500]))
        lab.clear_requests()


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_conversations_and_evictions_leave_nothing_behind(home: Path, lab: LabServer) -> None:
    """F1, F2: threads and descriptors return to the baseline; a second round leaves memory within 3 %."""
    with GatewayProcess(home, lab.base_url, gateway={"agents": AGENTS}) as gateway:
        gateway.start()
        asyncio.run(talk_to_all(home, list(range(AT_ONCE))))
        before = measure_at_rest(gateway.pid)
        play_round(gateway, lab, 1)
        wait_until(lambda: is_back(measure(gateway.pid), before), 60)
        first = measure(gateway.pid)
        play_round(gateway, lab, 2)
        wait_until(lambda: is_back(measure(gateway.pid), before), 60)
        second = measure(gateway.pid)
        assert second.resident <= first.resident * 1.03, (before, first, second)
        assert "Traceback" not in gateway.log, gateway.log[-5000:]


def measure_at_rest(pid: int) -> Footprint:
    """When nothing has come or gone for a while."""
    now = measure(pid)
    while True:
        time.sleep(1.0)
        last, now = now, measure(pid)
        if (last.threads, last.descriptors) == (now.threads, now.descriptors):
            return now


def is_back(now: Footprint, before: Footprint) -> bool:
    """Threads of the last turns and connections of the last clients have ended; some to the model are kept ready."""
    return now.threads <= before.threads and now.descriptors <= before.descriptors + MOST_IDLE
