"""The calls of a whole account: never more than it allows, in turn, and progress last. On a clock of the test's own."""

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.budget import FINAL, PROGRESS, WORD, PlaceInLine, progress_pause
from gateway.delivery.purse import SAME_PENALTY_SECONDS, AskedPatience, Purse
from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import Address

SPEC = PlatformSpec(
    "x",
    "X",
    "x:X",
    calls_per_second=1.0,
    group_calls_per_second=0.25,
    burst_calls=3,
    account_calls_per_second=30.0,
    account_burst_calls=30,
)


def chat(name: str, kind: str = "dm", thread: str = "") -> Address:
    return Address("x", "a", name, kind, thread)


@dataclass
class World:
    """Chats that want to call, each one call after the other; an event is a moment when one of them asks."""

    purse: Purse
    made: list[tuple[float, str, str]] = field(default_factory=list)  # when, chat, kind
    _events: list[tuple[float, int, Address, str, int, PlaceInLine | None]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def want(self, address: Address, kind: str, calls: int, at: float = 0.0, ticket: PlaceInLine | None = None) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), address, kind, calls, ticket))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            now, _, address, kind, calls, ticket = heapq.heappop(self._events)
            pause, ticket = self.purse.pay(address, kind, now, ticket)
            if not pause:
                self.made.append((now, address.chat, kind))
                calls -= 1
            if pause < math.inf and calls:
                self.want(address, kind, calls, now + pause + 1e-9, ticket)


def busiest(times: list[float], seconds: float) -> int:
    """The most calls within a stretch of so many seconds."""
    times = sorted(times)
    return max((sum(1 for time in times if start <= time < start + seconds) for start in times), default=0)


def test_two_hundred_chats_at_once() -> None:
    """C8: 200 answers of three messages each, while every chat streams: the account's rate is kept, no chat waits for
    another's second message, and all of it is out as soon as the rate allows."""
    world = World(Purse(SPEC, 0.0))
    for n in range(200):
        world.want(chat(f"c{n}"), PROGRESS, 1000)
    world.run(10.0)
    for n in range(200):
        world.want(chat(f"c{n}"), FINAL, 3, at=10.0)
    world.run(60.0)
    finals = [(when, name) for when, name, kind in world.made if kind == FINAL]
    assert len(finals) == 600
    assert {name for _, name in finals[:200]} == {f"c{n}" for n in range(200)}
    assert finals[-1][0] <= 10.0 + 600 / 30 + 4
    assert busiest([when for when, _, _ in world.made], 1.0) <= 30 + 30


def test_finals_do_not_wait_for_progress() -> None:
    """C8: a third of the account's burst is there for them whatever is streamed."""
    world = World(Purse(SPEC, 0.0))
    for n in range(100):
        world.want(chat(f"c{n}"), PROGRESS, 50)
    world.run(5.0)
    for n in range(10):
        assert world.purse.pay(chat(f"new{n}"), FINAL, 5.0) == (0.0, None)


def test_progress_stops_while_finals_stand_in_line() -> None:
    purse = Purse(SPEC, 0.0)
    for n in range(60):
        purse.pay(chat(f"c{n}"), FINAL, 0.0)
    assert purse.pause_for(chat("other"), PROGRESS, 0.0) > 1.0
    assert purse.pay(chat("other"), WORD, 0.0)[0] < 1.2


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([FINAL, WORD, PROGRESS]), st.floats(0, 5)), max_size=40),
    st.lists(st.tuples(st.floats(0, 8), st.floats(0.1, 4), st.booleans()), max_size=3),
)
def test_rates_and_penalties_hold_whatever_comes(
    wishes: list[tuple[int, str, float]], penalties: list[tuple[float, float, bool]]
) -> None:
    """C8: no stretch of time has more calls than the buckets allow, and none falls into a penalty."""
    spec = replace(SPEC, account_calls_per_second=4.0, account_burst_calls=6)
    world = World(Purse(spec, 0.0))
    for number, kind, at in wishes:
        world.want(chat(f"c{number}"), kind, 2, at)
    closed = []
    for at, seconds, whole in sorted(penalties):
        world.run(at)
        world.purse.close("" if whole else "c0", "dm", at, seconds)
        closed.append((at, at + seconds, whole))
    world.run(200.0)
    for start, end, whole in closed:
        assert not [call for call in world.made if start < call[0] < end - 1e-6 and (whole or call[1] == "c0")]
    names = {name for _, name, _ in world.made}
    for name in names:
        times = [when for when, other, _ in world.made if other == name]
        assert all(busiest(times, span) <= 3 + span for span in (1.0, 5.0))
    if not closed:
        assert all(busiest([when for when, _, _ in world.made], span) <= 6 + 4 * span + 1e-6 for span in (0.5, 2.0))
    certain = Counter(name for number, kind, _ in wishes if kind != PROGRESS for name in [f"c{number}"] * 2)
    assert Counter(name for _, name, kind in world.made if kind != PROGRESS) == certain


def test_a_group_is_slower_and_its_topics_share_its_calls() -> None:
    purse = Purse(SPEC, 0.0)
    topics = [chat("g", "group", thread) for thread in ("1", "2", "3", "4")]
    pauses = [purse.pay(topic, FINAL, 0.0)[0] for topic in topics]
    assert pauses == [0.0, 0.0, 0.0, pytest.approx(4.0)]


def test_what_a_group_streams_leaves_its_finals_alone() -> None:
    """C8: in a group with one call in four seconds an answer of two messages waits for nothing after a long stream."""
    purse, now = Purse(SPEC, 0.0), 0.0
    for _ in range(50):
        purse.pay(chat("g", "group"), PROGRESS, now)
        now += progress_pause(SPEC, "group")
    assert [purse.pay(chat("g", "group"), FINAL, now)[0] for _ in range(2)] == [0.0, 0.0]
    assert progress_pause(SPEC, "dm") == 0.0


def test_after_a_penalty_of_the_account_all_ask_again() -> None:
    """C8: nobody goes ahead on a place that was given before the penalty, and the rate holds after it."""
    world = World(Purse(replace(SPEC, account_burst_calls=1), 0.0))
    for n in range(30):
        world.want(chat(f"c{n}"), FINAL, 1)
    world.run(0.2)
    world.purse.close("", "dm", 0.2, 5.0)
    world.run(60.0)
    later = [when for when, _, _ in world.made if when > 0.2]
    assert len(world.made) == 30
    assert min(later) >= 5.2 - 1e-6
    assert busiest(later, 0.1) <= 5


def test_what_is_asked_for_again_and_again_is_one_penalty() -> None:
    """C8: it begins once, however often it is named, and is told until it is over."""
    purse, later = Purse(SPEC, 0.0), SAME_PENALTY_SECONDS
    assert purse.close("c", "dm", 0.0, 9.0, "slow down")
    assert not purse.close("c", "dm", 10.0, 30.0, "slower")
    assert not purse.close("c", "dm", 11.0, 1.0, "a moment")
    assert purse.waits(12.0) == [AskedPatience("c", 40.0, "slower")]
    assert purse.close("", "dm", 12.0, 28.0, "all of you")
    assert purse.waits(13.0) == [AskedPatience("", 40.0, "all of you")]
    purse.forget(40.0)
    assert purse.waits(40.0) == []
    assert not purse.close("c", "dm", 30.0 + later, 5.0)
    assert purse.close("c", "dm", 36.0 + 2 * later, 5.0)


def test_chats_with_all_their_calls_are_forgotten() -> None:
    purse = Purse(SPEC, 0.0)
    purse.pay(chat("c"), FINAL, 0.0)
    purse.close("d", "dm", 0.0, 9.0)
    purse.forget(5.0)
    assert purse.penalty(chat("d"), 5.0) == 4.0
    assert purse.pay(chat("c"), PROGRESS, 5.0)[0] == 0.0
