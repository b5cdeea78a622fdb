"""C7, C2: a finished answer is stored before anybody asks where it will stand; its draft is found afterwards."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fresh_store import fresh_store
from gateway_process import read_store
from house import House
from pretending import QUICK, Post, place
from waiting import until, wait_until

from gateway.core.drafts import UNFINISHED
from gateway.core.text.render import LONG_MARK
from gateway.platforms.pretend.service import CLOSED_AFTER, PretendMessage, PretendRules, PretendService
from hermes_lab.server import LabServer

STREAM = "[[say kept and paid for, word by word]][[chunks 30]][[pause 0.02]]"
TEXT = "kept and paid for, word by word"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call for a draft is given up in these tests."""
    monkeypatch.setattr("gateway.delivery.delivery.Pace", lambda: replace(QUICK, draft_call=600.0))


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend={"owner": "ann"}) as made:
        yield made


def wait_stored(home: Path) -> None:
    """Until the message is dealt with in the store, seen from outside."""
    wait_until(lambda: read_store(home, "select count(*) from inbox where done_epoch is not null") == [(1,)])


def hold_drafts(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, Callable[[], None]]:
    """The service takes drafts and does not answer: whether one is held, and a way to let it answer."""
    held, free = threading.Event(), threading.Event()
    send = PretendService.send

    async def hold(self: PretendService, message: PretendMessage) -> str:
        known = await send(self, message)
        if message.text.endswith(UNFINISHED):
            held.set()
            await asyncio.to_thread(free.wait, 60)
        return known

    monkeypatch.setattr(PretendService, "send", hold)
    return held, free.set


def test_c7_an_answer_does_not_wait_for_its_draft(house: House, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: the draft's call hangs; the turn is done, and when the id is known the answer stands there, once."""
    held, free = hold_drafts(monkeypatch)
    ann = house.person("ann")
    ann.say(STREAM)
    assert held.wait(20)
    wait_stored(home)
    assert ann.count(TEXT) == 0
    free()
    house.wait_quiet()
    assert ann.seen == [TEXT]


def test_c7_an_answer_does_not_wait_for_the_event_loop(house: House, home: Path, lab: LabServer) -> None:
    """C7, C2: the loop stands still from the middle of the answer on; the turn is completed all the same."""
    ann = house.person("ann")
    ann.say(STREAM)
    wait_until(lambda: ann.count(UNFINISHED) > 0)
    stored, standing = threading.Event(), threading.Event()

    def stand_still() -> None:
        standing.set()
        assert stored.wait(40)

    blocking = threading.Thread(target=lambda: house.call(stand_still))
    blocking.start()
    try:
        assert standing.wait(20)
        wait_stored(home)
    finally:
        stored.set()
        blocking.join(40)
    house.wait_quiet()
    assert ann.seen == [TEXT]
    assert len(lab.requests) == 1  # it was paid for once


@pytest.mark.parametrize("keys", [True, False])
def test_c7_an_answer_finds_the_draft_of_a_process_that_is_gone(keys: bool) -> None:
    """C7: the draft was taken, its id never came, the process died. Where keys are taken, nothing is left of it; else
    the answer below it is marked."""
    post = Post(fresh_store().turns, PretendRules(takes_keys=keys))
    post.service.troubles.append(CLOSED_AFTER)

    async def steps() -> None:
        async with post.delivering() as delivery:
            delivery.draft(place(), "The ans", "t1")
            await until(lambda: len(post.service.seen("c1")) == 1)
            known = delivery.find_draft(place(), "t1")
        post.put("The answer.", draft=known, turn="t1")
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    asyncio.run(steps())
    assert post.service.seen("c1") == (["The answer."] if keys else ["The ans …", f"{LONG_MARK}\nThe answer."])
