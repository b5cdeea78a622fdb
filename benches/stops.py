"""How long an end takes: of a turn that a person stops (C4), and of a gateway that is told to end (C14)."""

import asyncio
import time
from pathlib import Path

from benches.gateway_load import client, gateway, warm_up
from benches.measure import Figure

#: What a turn is doing when it is stopped. Each would go on for five minutes.
STEPS = {
    "waits for the first word": "[[stall 300]]",
    "runs a command": '[[tool terminal {"command": "sleep 300"}]]',
    "runs two commands": '[[tool terminal {"command": "sleep 300"}]][[tool terminal {"command": "sleep 301"}]]',
}
BEGUN = 1.5  # seconds after which it is at that step


async def stop_turn(home: Path, name: str, script: str) -> float:
    """Seconds from `/stop` to the answer of the next message."""
    async with client(home, name) as person:
        await person.say(script)
        await asyncio.sleep(BEGUN)
        told = time.perf_counter()
        await person.stop()
        while await person.ask("[[say on]]") != "on":  # what the stopped turn left is delivered first
            pass
        return time.perf_counter() - told


async def begin_turn(home: Path) -> None:
    async with client(home, "last") as person:
        await person.say(STEPS["waits for the first word"])
        await asyncio.sleep(BEGUN)


def measure_stops(base_url: str, folder: Path) -> list[Figure]:
    home = folder / "stops"
    with gateway(home, base_url, approvals={"mode": "auto"}) as child:
        asyncio.run(warm_up(home))
        slowest = max(
            asyncio.run(stop_turn(home, f"stop{number}", script)) for number, script in enumerate(STEPS.values())
        )
        asyncio.run(begin_turn(home))
        told = time.perf_counter()
        child.terminate()
        orderly = child.wait() == 0
        ended = time.perf_counter() - told
    return [
        Figure("from /stop to the next answer, slowest step", slowest, "s", 5.0),
        Figure("from SIGTERM to the end, a turn hanging", ended if orderly else float("inf"), "s", 10.0),
    ]
