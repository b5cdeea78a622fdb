"""Gateways on one PostgreSQL, each a process of its own beside the server: turns a second, what they cost while nobody
says anything, and a thousand conversations on two."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from benches.gateway_load import IDLE_SECONDS, Load, cpu_seconds, fill, gateway, resident_mb, talk, warm_up
from benches.measure import Figure
from hermes_lab.database import PostgresServer, find_programs

TURNS = 4
TRIES = 3


@contextlib.contextmanager
def database_server() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.end()


@contextlib.contextmanager
def nodes(folder: Path, base_url: str, address: str, *names: str) -> Iterator[list[int]]:
    """Gateways with homes of their own; their process ids."""
    parts = urlsplit(address)
    os.environ["HERMES_STORE_PASSWORD"] = unquote(parts.password or "")
    store = {"url": urlunsplit(parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}"))}
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(
                gateway(folder / name, base_url, store=store, web={"enabled": False}, gateway={"agents": 2000})
            ).pid
            for name in names
        ]
    del os.environ["HERMES_STORE_PASSWORD"]


def talk_to(homes: list[Path], conversations: int) -> float:
    """Turns a second, all conversations at once and dealt out; 0 if one was not answered, or not in order."""

    async def talk_to_all() -> list[Load]:
        share = conversations // len(homes)
        return await asyncio.gather(*(talk(home, share, TURNS, name=home.name) for home in homes))

    loads = asyncio.run(talk_to_all())
    answered = sum(load.answered for load in loads)
    if not all(load.in_order for load in loads) or answered != conversations * TURNS:
        return 0
    return answered / max(load.seconds for load in loads)


def measure_nodes(base_url: str, folder: Path) -> list[Figure]:
    if find_programs() is None:
        print("PostgreSQL is not installed: several gateways are not measured (scripts/setup peers)")
        return []
    one, two = [folder / "one"], [folder / "first", folder / "second"]
    with database_server() as server:
        with nodes(folder, base_url, server.make_database(), "one") as (pid,):
            speed = max(talk_to(one, 50) for _ in range(TRIES))
            time.sleep(2)
            cpu, served = cpu_seconds(pid), server.cpu_seconds()
            time.sleep(IDLE_SECONDS)
            idle = 100 * (cpu_seconds(pid) - cpu) / IDLE_SECONDS
            idle_server = 100 * (server.cpu_seconds() - served) / IDLE_SECONDS
        with nodes(folder, base_url, server.make_database(), "first", "second") as pids:
            speed_of_two = max(talk_to(two, 50) for _ in range(TRIES))
            empty = sum(map(resident_mb, pids))
            began = time.monotonic()
            asyncio.run(_fill_all(two, 500))
            filling = 1000 / (time.monotonic() - began)
            grown = sum(map(resident_mb, pids)) - empty
    return [
        Figure("PostgreSQL, one gateway: 50 conversations x 4 turns", speed, "turns/s", 60, at_least=True),
        Figure("PostgreSQL, two gateways: 50 conversations x 4 turns", speed_of_two, "turns/s", 60, at_least=True),
        Figure("PostgreSQL, two gateways: 1,000 first turns", filling, "turns/s", 30, at_least=True),
        Figure("PostgreSQL, two gateways: memory of 1,000 conversations", grown, "MB", 80),
        Figure("PostgreSQL, an idle gateway, share of a core", idle, "%", 2.0),
        Figure("PostgreSQL, its server beside that gateway", idle_server, "%", 3.0),
    ]


async def _fill_all(homes: list[Path], conversations: int) -> None:
    for home in homes:
        await warm_up(home)
    await asyncio.gather(*(fill(home, conversations, name=f"{home.name}-fill") for home in homes))
