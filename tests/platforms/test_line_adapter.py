"""What every adapter with a line of its own relies on: a line is whole or it is gone, whoever ends it and when."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ParamSpec

import pytest
from waiting import until

from gateway.platforms import line_adapter
from gateway.platforms.face import Core, NeverTaken, NotNow, PlatformSpec
from gateway.platforms.line_adapter import LineAdapter
from hermes_base.errors import ConfigProblem
from hermes_base.inbound import FileRef

STEPS = 5  # of opening a line


class Toy(LineAdapter):
    """Opens in some steps, and keeps count of what is open and what runs."""

    spec = PlatformSpec("toy", "Toy", "toy:Toy", max_file_bytes=10)

    def __init__(self) -> None:
        super().__init__("main", {}, Path())
        self.open = self.running = self.runs = self.step = 0
        self.said: list[str] = []
        self.raises: BaseException | None = None
        self.failing = 0  # runs that fail before one goes on

    async def send(self, part: Any) -> str:
        raise NeverTaken("A toy sends nothing.")

    async def _begin(self, core: Core) -> None:
        self.open += 1
        for self.step in range(STEPS):
            await asyncio.sleep(0)
        if self.raises is not None:
            raise self.raises
        self._keep(self._listen)
        self._note_life()

    async def _listen(self) -> None:
        self.runs += 1
        self.running += 1
        try:
            if self.failing:
                self.failing -= 1
                raise ValueError("what a person wrote")
            await asyncio.Event().wait()
        finally:
            self.running -= 1

    async def _part(self) -> None:
        self.said.append(f"farewell of {self.running}")

    async def _close(self) -> None:
        self.open = 0


CORE: Any = None
P = ParamSpec("P")


def on_a_loop(steps: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    @functools.wraps(steps)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        async def run() -> None:
            await steps(*args, **kwargs)

        asyncio.run(run())

    return test


@on_a_loop
async def test_what_was_connected_runs_until_it_is_disconnected() -> None:
    toy = Toy()
    await toy.connect(CORE)
    await until(lambda: toy.running == 1)
    assert (toy.open, bool(toy.last_seen), toy.problem) == (1, True, "")
    await toy.disconnect()
    assert (toy.open, toy.running, toy.said[-1]) == (0, 0, "farewell of 1")


@on_a_loop
async def test_a_second_connect_takes_the_place_of_the_first() -> None:
    toy = Toy()
    await toy.connect(CORE)
    await toy.connect(CORE)
    await until(lambda: toy.running == 1)
    assert toy.open == 1
    await toy.disconnect()


@pytest.mark.parametrize("steps", range(STEPS + 4))
@on_a_loop
async def test_whoever_disconnects_while_it_connects_leaves_nothing_open(steps: int) -> None:
    toy = Toy()
    connecting = asyncio.create_task(toy.connect(CORE))
    for _ in range(steps):
        await asyncio.sleep(0)
    await toy.disconnect()
    await asyncio.gather(connecting, return_exceptions=True)
    await toy.disconnect()  # where it had not begun when the first one came
    assert (toy.open, toy.running) == (0, 0)


@pytest.mark.parametrize("steps", range(1, STEPS + 4))
@on_a_loop
async def test_whoever_waits_for_the_connection_may_give_up(steps: int) -> None:
    toy = Toy()
    connecting = asyncio.create_task(toy.connect(CORE))
    for _ in range(steps):
        await asyncio.sleep(0)
    connecting.cancel()
    (outcome,) = await asyncio.gather(connecting, return_exceptions=True)
    if outcome is None:  # it was connected by then
        await toy.disconnect()
    assert (toy.open, toy.running) == (0, 0)


@on_a_loop
async def test_switched_off_meanwhile_is_said() -> None:
    toy = Toy()
    connecting = asyncio.create_task(toy.connect(CORE))
    while not toy.step:  # noqa: ASYNC110 - step by step
        await asyncio.sleep(0)
    await toy.disconnect()
    with pytest.raises(NotNow, match="Toy was switched off"):
        await connecting


@pytest.mark.parametrize(
    "problem", [ConfigProblem("The key is wrong.", fix="Get another."), NotNow("Nobody is there.")]
)
@on_a_loop
async def test_a_beginning_that_fails_closes_what_it_opened_and_says_why(problem: Exception) -> None:
    toy = Toy()
    toy.raises = problem
    with pytest.raises(type(problem)):
        await toy.connect(CORE)
    assert (toy.open, toy.running, toy.problem) == (0, 0, str(problem))
    toy.raises = None
    await toy.connect(CORE)
    assert toy.problem == ""
    await toy.disconnect()


@on_a_loop
async def test_listening_that_fails_begins_anew_and_what_people_wrote_is_in_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(line_adapter, "AGAIN_SECONDS", 0.0)
    toy = Toy()
    toy.failing = 3
    await toy.connect(CORE)
    await until(lambda: toy.running == 1)
    assert toy.runs == 4
    assert caplog.text.count("Listening to Toy failed (ValueError)") == 3
    assert "what a person wrote" not in caplog.text
    await toy.disconnect()


@on_a_loop
async def test_a_farewell_that_fails_closes_the_line_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = Toy()
    await toy.connect(CORE)

    async def fail() -> None:
        raise OSError("the line is dead")

    monkeypatch.setattr(toy, "_part", fail)
    with pytest.raises(OSError, match="dead"):
        await toy.disconnect()
    assert (toy.open, toy.running) == (0, 0)


@on_a_loop
async def test_a_file_that_is_gone_or_too_large_is_refused_in_a_sentence(tmp_path: Path) -> None:
    toy, path = Toy(), tmp_path / "it.txt"
    with pytest.raises(NeverTaken, match=r"it\.txt cannot be read any more"):
        await toy._read_upload(FileRef(name="it.txt", path=str(path)))
    path.write_bytes(b"x" * 10)
    assert await toy._read_upload(FileRef(name="it.txt", path=str(path))) == b"x" * 10
    path.write_bytes(b"x" * 11)
    with pytest.raises(NeverTaken, match="larger than Toy takes"):
        await toy._read_upload(FileRef(name="it.txt", path=str(path)))
