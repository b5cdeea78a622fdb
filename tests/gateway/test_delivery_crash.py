"""A process that dies at each step of a delivery: with keys each part shows once, without them repeats are marked."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pretending import Post, call_off_loop
from waiting import until

from gateway.core.text.render import LONG_MARK
from gateway.platforms.face import Part
from gateway.platforms.pretend.service import PretendMessage, PretendRules
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import TurnStore

TEXT = "".join(f"word{n} " for n in range(60))
RULES = {"keys": PretendRules(max_length=200), "no keys": PretendRules(max_length=200, takes_keys=False)}


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[TurnStore]:
    store = Store(tmp_path / "state.db")
    yield store.turns
    store.close()


class Clockwork:
    """Counts the steps of a delivery (each call of store and platform has one before and one after it), and lets
    nothing happen any more once the last one is done: as a killed process does."""

    def __init__(self, last: int) -> None:
        self.left = last
        self.stopped = asyncio.Event()

    async def tick(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.stopped.set()
            await asyncio.Event().wait()

    async def call(self, fn: Any, *args: Any) -> Any:
        await self.tick()
        result = await call_off_loop(fn, *args)
        await self.tick()
        return result


async def deliver_until_killed(post: Post, last: int) -> bool:
    """Run a delivery for so many steps; whether it was killed before all was sent."""
    work = Clockwork(last)
    delivery = post.new_delivery(call=work.call)
    send, edit = post.adapter.send, post.adapter.edit

    async def send_slowly(part: Part) -> str:
        await work.tick()
        platform_id = await send(part)
        await work.tick()
        return platform_id

    async def edit_slowly(platform_id: str, part: Part) -> None:
        await work.tick()
        await edit(platform_id, part)
        await work.tick()

    post.adapter.send, post.adapter.edit = send_slowly, edit_slowly  # type: ignore[method-assign]
    await delivery.start()
    await until(lambda: work.stopped.is_set() or post.waits() == 0)
    return work.stopped.is_set()


@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize("kind", RULES)
def test_killed_at_each_step(turns: TurnStore, kind: str, draft: bool) -> None:
    """C7, C9: one final, however often and wherever the process is killed."""
    whole: list[str] = []
    for last in range(200):
        post = Post(turns, RULES[kind])
        if draft:
            post.service.messages.append(PretendMessage("m0", "c1", "word0 …"))
        post.put(TEXT, draft="m0" if draft else "")
        killed = asyncio.run(deliver_until_killed(post, last))
        if killed:
            assert asyncio.run(deliver_until_killed(post, 1000)) is False
        seen = post.service.seen("c1")
        whole = whole or seen  # the first one died before it had done anything
        check(seen, whole, RULES[kind].takes_keys)
        if not killed:
            assert last > 8
            return
    pytest.fail("the delivery never came to its end")


def check(seen: list[str], whole: list[str], takes_keys: bool) -> None:
    assert "".join(text.removeprefix(f"{LONG_MARK}\n") + " " for text in whole).split() == TEXT.split()
    if takes_keys:
        assert seen == whole
        return
    bare = [text.removeprefix(f"{LONG_MARK}\n") for text in seen]
    assert list(dict.fromkeys(bare)) == whole
    unmarked = [text for text in seen if not text.startswith(LONG_MARK)]
    assert len(unmarked) == len(set(unmarked))


@pytest.mark.parametrize("kind", RULES)
def test_killed_again_and_again(turns: TurnStore, kind: str) -> None:
    """C7: each new process comes a little farther; nothing is lost, no repetition goes unmarked."""
    post = Post(turns, RULES[kind])
    texts = [TEXT.replace("word", f"{name}-") for name in ("first", "second", "third")]
    for text in texts:
        post.put(text)
    for last in range(3, 200):
        if not asyncio.run(deliver_until_killed(post, last)):
            break
    assert post.waits() == 0
    seen = post.service.seen("c1")
    unmarked = [text for text in seen if not text.startswith(LONG_MARK)]
    assert len(unmarked) == len(set(unmarked))
    bare = list(dict.fromkeys(text.removeprefix(f"{LONG_MARK}\n") for text in seen))
    assert "".join(text + " " for text in bare).split() == "".join(texts).split()
    if RULES[kind].takes_keys:
        assert "".join(text + " " for text in seen).split() == "".join(texts).split()
