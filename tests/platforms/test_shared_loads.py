"""A mail with many files is fetched once, however many of them are asked for."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.platforms.mail import shared_loads
from gateway.platforms.mail.shared_loads import SharedLoads


def run(steps: Callable[[SharedLoads[str], list[str]], Awaitable[None]], most: int = 2) -> None:
    async def all_steps() -> None:
        loads: SharedLoads[str] = SharedLoads(most)
        await steps(loads, [])
        await loads.close()
        assert loads._loads == {}

    asyncio.run(all_steps())


def test_who_asks_meanwhile_or_soon_after_shares_one_load() -> None:
    async def steps(loads: SharedLoads[str], loaded: list[str]) -> None:
        async def load() -> str:
            loaded.append("a")
            await asyncio.sleep(0.01)
            return "the mail"

        assert await asyncio.gather(*(loads.share("a", load) for _ in range(100))) == ["the mail"] * 100
        assert await loads.share("a", load) == "the mail"
        assert loaded == ["a"]

    run(steps)


def test_what_failed_is_told_to_all_and_loaded_again_by_the_next() -> None:
    async def steps(loads: SharedLoads[str], loaded: list[str]) -> None:
        async def load() -> str:
            loaded.append("a")
            await asyncio.sleep(0)
            if len(loaded) == 1:
                raise OSError("cut")
            return "the mail"

        found = await asyncio.gather(*(loads.share("a", load) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in found] == [OSError] * 3
        assert await loads.share("a", load) == "the mail"

    run(steps)


def test_few_are_kept_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(loads: SharedLoads[str], loaded: list[str]) -> None:
        async def load() -> str:
            return "a mail"

        for number in range(10):
            await loads.share(number, load)
        await asyncio.sleep(0)
        assert len(loads._loads) <= 2
        monkeypatch.setattr(shared_loads, "KEEP_SECONDS", 0.0)
        await loads.share("last", load)
        while "last" in loads._loads:  # noqa: ASYNC110 - it goes by itself
            await asyncio.sleep(0.01)

    run(steps)


def test_whoever_gives_up_leaves_the_load_to_the_others() -> None:
    async def steps(loads: SharedLoads[str], loaded: list[str]) -> None:
        go = asyncio.Event()

        async def load() -> str:
            await go.wait()
            return "the mail"

        first, second = (asyncio.create_task(loads.share("a", load)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        go.set()
        assert await second == "the mail"

    run(steps)
