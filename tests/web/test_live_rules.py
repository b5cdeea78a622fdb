"""What a live view tells: the pure rules, and streams over a hub without a server."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.page.files import FileShelf
from gateway.http.page.live import LiveView, cut_picture, find_fresh, mark
from gateway.http.page.parts import Parts
from gateway.http.page.views import Json
from gateway.platforms import hub as pictures
from gateway.platforms.face import Asking, Begun, Dealt, LiveEvent, Moved
from gateway.platforms.hub import MOST_PICTURES, MOST_WAITING, Hub, Lost, Picture, StreamEnded, Watch, Watched
from gateway.platforms.web.adapter import WebAdapter
from hermes_base.chat import Notice, ReasoningDelta, Tail, TextDelta, TextEnded, ToolEnded, ToolStarted, join_deltas
from hermes_base.inbound import Outgoing
from hermes_base.query_values import NOTE, USER, Caller, Thread, Timeline, TimelineEntry


def rows(*texts: str) -> list[TimelineEntry]:
    return [TimelineEntry(f"m{number}", USER, text, float(number), number) for number, text in enumerate(texts)]


LISTS = st.lists(st.sampled_from("abc"), max_size=12)


@given(LISTS, LISTS)
def test_what_is_new_stands_behind_what_is_known(before: list[str], added: list[str]) -> None:
    whole = rows(*before, *added)
    known = [mark(entry) for entry in whole[: len(before)]]
    assert find_fresh(known, whole, more=False) == whole[len(before) :]


@given(LISTS.filter(len), LISTS, st.integers(0, 11))
def test_a_window_that_moved_on_is_no_change(before: list[str], added: list[str], cut: int) -> None:
    whole = rows(*before, *added)
    known = [mark(entry) for entry in whole[: len(before)]]
    cut = min(cut, len(before) - 1)
    assert find_fresh(known, whole[cut:], more=True) == whole[len(before) :]
    if cut:
        assert find_fresh(known, whole[cut:], more=False) is None


@given(LISTS.filter(len), LISTS, st.integers(0, 11))
def test_a_change_of_what_is_known_needs_a_snapshot(before: list[str], added: list[str], place: int) -> None:
    """Rows that were taken back or replaced are never left standing on the page."""
    place = min(place, len(before) - 1)
    known = [mark(entry) for entry in rows(*before)]
    changed = rows(*before[:place], "changed", *before[place + 1 :], *added)
    gone = [entry for entry in rows(*before, *added) if entry.position != place]
    assert find_fresh(known, changed, more=False) is None
    assert find_fresh(known, gone, more=False) is None


def test_nothing_left_of_what_was_known_needs_a_snapshot() -> None:
    known = [mark(entry) for entry in rows("a", "b")]
    assert find_fresh(known, [], more=False) is None
    assert find_fresh(known, [TimelineEntry("m7", USER, "z")], more=True) is None


def test_what_the_turn_under_way_has_written_is_in_its_picture() -> None:
    """By whose rows they are: whatever time the machine, the store and the gateway that has the turn take it to be."""
    ours = [replace(entry, turn=3, place=place) for place, entry in enumerate(rows("a", "b", "c", "d"), 1)]
    entries = [*rows("before"), *ours, TimelineEntry("o1", NOTE, "note", 9.0)]
    for begun in (0.0, 2.0, 1e12):
        assert [entry.text for entry in cut_picture(entries, Picture((3, 4), begun))] == ["before", "note"]
        second_try = Picture((3, 4), begun, rows=2)
        assert [entry.text for entry in cut_picture(entries, second_try)] == ["before", "a", "b", "note"]
        assert cut_picture(entries, Picture((4,), begun)) == entries
        assert cut_picture(entries, Picture((), begun)) == entries
    assert cut_picture(entries, None) == entries


PIECES = st.lists(
    st.one_of(
        st.builds(TextDelta, st.text(max_size=3)),
        st.builds(ReasoningDelta, st.text(max_size=3)),
        st.just(Dealt((1,))),
    )
)


@given(PIECES)
def test_joined_pieces_say_the_same(events: list[Watched]) -> None:
    joined = join_deltas(events)
    for kind in (TextDelta, ReasoningDelta):
        text = ["".join(event.text for event in some if isinstance(event, kind)) for some in (events, joined)]
        assert text[0] == text[1]
    assert [type(event) for event in joined] == [
        type(event) for n, event in enumerate(events) if not n or not _same_pieces(events[n - 1], event)
    ]


def _same_pieces(one: Watched, other: Watched) -> bool:
    return type(one) is type(other) and isinstance(one, TextDelta | ReasoningDelta)


@given(st.lists(st.text(max_size=30), max_size=30), st.integers(1, 40), st.integers(0, 29))
def test_a_tail_is_the_end_of_all_that_was_said(texts: list[str], most: int, read_at: int) -> None:
    tail = Tail(most)
    for number, text in enumerate(texts):
        tail.add(text)
        if number == read_at:
            tail.read()
    whole = "".join(texts)
    assert tail.read().removeprefix("…") == whole[-most:] or (len(whole) <= most and tail.read() == whole)
    assert len(tail.read()) <= most + 1


def test_a_picture_stays_small_whatever_the_turn_says() -> None:
    """F: a turn that writes without end costs a page no more than a megabyte."""
    picture = Picture((1,), 0.0)
    for number in range(2_000):
        picture.add(TextDelta("x" * 1_000))
        picture.add(ReasoningDelta("y" * 1_000))
        picture.add(TextEnded(kept=True))
        picture.add(ToolStarted(str(number), "tool", "preview"))
        picture.add(ToolEnded(str(number), "tool", True, 0.1, "result"))
    assert len(picture.text.kept) <= pictures.MOST_TEXT + 1
    assert len(picture.reasoning.kept) <= pictures.MOST_REASONING + 1
    assert not picture.text.open
    assert len(picture.tools) == pictures.MOST_TOOLS
    assert picture.tools[-1].result == "result"


def test_pictures_come_and_go(tmp_path: Path) -> None:
    """From the beginning of a turn to its end, and never more than a bound."""
    web = WebAdapter("web", {}, tmp_path)

    def show(*events: LiveEvent) -> None:
        for event in events:
            web.show("c", event)

    show(TextDelta("nobody's"), Begun((1, 2)), TextDelta("a"), Dealt((9,)), TextDelta("b"))
    picture = web.picture("c")
    assert picture is not None
    assert picture.text.open == "ab"
    show(Begun((2, 3)), TextDelta("new"))
    again = web.picture("c")
    assert again is not None
    assert (again.seqs, again.text.open) == ((2, 3), "new")
    show(Dealt((3,)))
    assert web.picture("c") is None

    for number in range(MOST_PICTURES + 5):
        web.show(f"c{number}", Begun((1,)))
    assert web.picture("c0") is None
    assert web.picture(f"c{MOST_PICTURES + 4}") is not None


def test_a_reader_that_is_too_slow_is_told_to_look_again() -> None:
    """A watcher that does not read keeps a bounded number of events, and learns that it lost some; where a message led
    stands in no store, and is kept."""
    hub = Hub()
    with hub.watch("c") as watch:
        hub.show("c", Moved(1, "d"))
        for number in range(MOST_WAITING + 10):
            hub.show("c", TextDelta(str(number)))
        taken = watch.take_all()
        assert taken[:2] == [Lost(), Moved(1, "d")]
        assert len(taken) <= MOST_WAITING
        assert taken[-1] == TextDelta(str(MOST_WAITING + 9))
    assert hub.count() == 0


class RacingThreads:
    """Answers of the store, each with what happens while it is read."""

    def __init__(self, hub: Hub, *reads: tuple[Timeline, Sequence[Watched]]) -> None:
        self._hub = hub
        self._reads = list(reads)

    async def timeline(self, caller: Caller, conversation: str, **_: object) -> Timeline:
        timeline, happens = self._reads.pop(0) if len(self._reads) > 1 else self._reads[0]
        for event in happens:
            self._hub.show(conversation, event)
        return timeline


def view_of(tmp_path: Path, *reads: tuple[Timeline, Sequence[Watched]]) -> list[Json]:
    """What a page is told that comes in while all this happens."""

    async def begin() -> list[Json]:
        web = WebAdapter("web", {}, tmp_path)
        threads = RacingThreads(web.hub, *reads)
        queries: Any = SimpleNamespace(threads=threads, turns=SimpleNamespace(answers=no_answers))
        parts = Parts(tmp_path, queries, web, FileShelf(tmp_path, lambda: 1), Caller())
        with web.hub.watch("c") as watch:
            return await LiveView(parts, "c", watch).begin()

    return asyncio.run(begin())


async def no_answers(conversation: str, seqs: Sequence[int]) -> Sequence[Outgoing]:
    return []


THREAD = Thread("s", "c", "", "", "web", "lab", 0.0, 0.0, 0)
OLD = Timeline("c", THREAD, tuple(rows("a")), version=1)
NEW = Timeline("c", THREAD, tuple(rows("a", "b")), version=2)


def test_what_settles_while_the_store_is_read_is_read_again(tmp_path: Path) -> None:
    """The first event is the whole truth: never a state that had passed when it was told."""
    told = view_of(tmp_path, (OLD, [Dealt((1,)), Notice("by the way")]), (NEW, []))
    assert [one["type"] for one in told] == ["snapshot", "notice"]
    assert told[0]["version"] == 2
    told = view_of(tmp_path, (OLD, [TextDelta("x"), Begun((1,))]), (NEW, []))
    assert [one["version"] for one in told] == [1]


def test_a_conversation_that_does_not_come_to_rest_is_told_all_the_same(tmp_path: Path) -> None:
    """However often it changes, the page gets a snapshot and then what came last."""
    told = view_of(tmp_path, (OLD, [Asking(None)]))
    assert [one["type"] for one in told] == ["snapshot", "asked"]


def test_the_end_is_told_even_if_it_comes_with_the_beginning(tmp_path: Path) -> None:
    told = view_of(tmp_path, (OLD, [StreamEnded()]))
    assert [one["type"] for one in told] == ["snapshot", "closing"]


@pytest.mark.parametrize("steps", range(4))
def test_a_watcher_that_leaves_when_something_comes_leaves(steps: int) -> None:
    """F1: an event, and so many steps of the loop later the end of the page; else its view would stay for ever."""

    async def leave() -> None:
        watch = Watch()
        waiting = asyncio.ensure_future(watch.wait(60))
        await asyncio.sleep(0.01)
        watch.put(Lost())
        for _ in range(steps):
            await asyncio.sleep(0)
        if waiting.cancel():  # it still waited
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(leave())
