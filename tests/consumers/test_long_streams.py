"""F5: a stream costs what it is long. Whoever reads along copies each piece once, and nothing waits without a bound."""

import asyncio
import threading
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from waiting import wait_until

from gateway.delivery import delivery as live_events
from gateway.delivery.delivery import Delivery, DraftFeed
from gateway.http.api.runs import run_record
from gateway.http.api.runs.run_record import Record
from gateway.platforms import hub
from gateway.platforms import hub as pictures
from gateway.platforms.face import Begun, LiveEvent
from gateway.platforms.hub import Lost, Picture, Watch
from gateway.turns import threads
from gateway.turns.threads import EventPipe
from hermes_base.chat import ReasoningDelta, TextDelta, join_deltas
from hermes_base.inbound import Address
from hermes_base.query_values import Caller

PIECE, PIECES = 1_000, 1_600
Take = Callable[[TextDelta | ReasoningDelta], object]


def count_bytes(take: Take) -> int:
    """How many bytes were made new while the pieces were taken, one after another."""
    made = 0
    tracemalloc.start()
    try:
        for event in [TextDelta("x" * PIECE) for _ in range(PIECES)]:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            take(event)
            made += tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return made


def _draft() -> Take:
    feed = DraftFeed(cast(Delivery, SimpleNamespace(draft=lambda *_: None)), Address("a", "b", "c"), "t", "off")
    return feed.show


def _page_that_is_looked_at() -> Take:
    """A page opens in the middle of a long text, and the text goes on."""
    picture = Picture((1,), 0.0)
    picture.add(TextDelta("x" * 2 * pictures.MOST_TEXT))
    assert picture.text.open
    return picture.add


def _record() -> Record:
    record = Record(cast(Any, None), Caller(person=None), "m", 0.0)
    record.begin(Begun((1,)))
    return record


CONSUMERS: dict[str, Callable[[], Take]] = {
    "draft": _draft,
    "page": _page_that_is_looked_at,
    "record": lambda: _record().show,
    "watch": lambda: Watch().put,
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_piece_costs_what_it_is_long(name: str) -> None:
    """F5: however much came before it."""
    assert count_bytes(CONSUMERS[name]()) < 5 * PIECES * PIECE


def test_joining_copies_each_piece_once() -> None:
    """F5: however many there are. A text that knows how often it is copied tells."""
    copied = 0

    class Piece(str):
        def __add__(self, other: str) -> "Piece":
            nonlocal copied
            copied += len(self) + len(other)
            return Piece(str(self).__add__(other))

    (whole,) = join_deltas([TextDelta(Piece("x" * PIECE)) for _ in range(PIECES)])
    assert whole.text == "x" * PIECE * PIECES
    assert copied < 5 * PIECES * PIECE


def test_the_loop_gets_one_piece_however_many_came() -> None:
    """F5: what a turn streams while the loop is busy is handed over as one."""
    shown: list[LiveEvent] = []

    async def stand_still_meanwhile() -> None:
        pipe = EventPipe(asyncio.get_running_loop(), shown.append)
        streaming = threading.Thread(target=lambda: [pipe.put(TextDelta(str(number % 10))) for number in range(1_000)])
        streaming.start()
        streaming.join()
        await asyncio.sleep(0)

    asyncio.run(stand_still_meanwhile())
    assert shown == [TextDelta("0123456789" * 100)]


def test_a_turn_that_streams_faster_than_the_loop_takes_waits() -> None:
    """F5: what waits for the loop has a bound, and nothing of it is lost."""
    shown: list[LiveEvent] = []
    sent: list[int] = []
    pieces = 20 * threads.MOST_PIPED // PIECE

    def stream(pipe: EventPipe) -> None:
        for number in range(pieces):
            pipe.put(TextDelta("x" * PIECE))
            sent.append(number)

    async def be_slow() -> None:
        pipe = EventPipe(asyncio.get_running_loop(), shown.append)
        threading.Thread(target=stream, args=(pipe,), daemon=True).start()
        wait_until(lambda: len(sent) * PIECE > threads.MOST_PIPED)  # the loop stands still for so long
        await asyncio.to_thread(wait_until, lambda: len(sent) == pieces)

    asyncio.run(be_slow())
    sizes = [len(event.text) for event in shown if isinstance(event, TextDelta)]
    assert sum(sizes) == pieces * PIECE
    assert max(sizes) <= threads.MOST_PIPED + 2 * PIECE


def test_a_turn_does_not_wait_for_a_loop_that_is_gone() -> None:
    """C14: the last words of a turn that outlived the gateway hold nobody."""
    loop = asyncio.new_event_loop()
    pipe = EventPipe(loop, lambda _event: None)
    loop.close()
    for _ in range(3):
        pipe.put(TextDelta("x" * threads.MOST_PIPED))


def test_what_is_kept_of_a_stream_has_a_bound() -> None:
    """F5: of thoughts, of text for a slow page, and of a draft."""
    record, watch, drafts = _record(), Watch(), list[str]()
    feed = DraftFeed(
        cast(Delivery, SimpleNamespace(draft=lambda _a, text, _t: drafts.append(text))),
        Address("a", "b", "c"),
        "t",
        "off",
    )
    for _ in range(60):
        record.show(ReasoningDelta("x" * 100_000))
        watch.put(TextDelta("x" * 100_000))
        feed.show(TextDelta("x" * 100_000))
    assert len(record.reasoning) <= run_record.MOST_CHARS + 100_000
    waiting = watch.take_all()
    assert isinstance(waiting[0], Lost)
    assert sum(len(event.text) for event in waiting if isinstance(event, TextDelta)) <= hub.MOST_WAITING_CHARS + 100_000
    assert drafts == ["x" * live_events.MOST_DRAFT]
