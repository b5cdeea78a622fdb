"""After any sequence of writes the SQLite store and its twin answer alike, and the transcript is a plain fold."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_places import ENGINES, SQLITE, new_place, try_many

from hermes_base.errors import StoreFailure
from hermes_base.turn.journal import Row, UsageRow, head_row, visible
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession, SessionInfo
from hermes_state.texts import clean, cut_excerpt, split_query

WORDS = ["alpha", "Beta", "gamma-delta", "naïve", "中文", "x_y", "42", "—", "\ud800", "a\0b"]
words = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
rows = st.builds(
    lambda role, text, shown, sent: Row({"role": role, "content": text}, shown=shown, sent=sent),
    st.sampled_from(["user", "assistant", "tool"]),
    words,
    st.none() | words,
    st.dictionaries(st.sampled_from(["d1", "d2"]), st.sampled_from([b"a", b"b", b"c"]), max_size=2),
)
batches = st.lists(rows | st.integers(0, 6).map(head_row), max_size=4)
steps = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3), batches),
    st.tuples(st.just("stale"), st.integers(0, 3), batches),
    st.tuples(st.just("rotate"), st.integers(0, 3), batches),
    st.tuples(st.just("freeze"), st.integers(-3, 3), st.sampled_from([b"a", b"b"])),
    st.tuples(st.just("open"), st.sampled_from(["c1", "c2"]), st.none()),
    st.tuples(st.just("end"), st.integers(0, 3), st.none()),
    st.tuples(st.just("resume"), st.integers(0, 3), st.none()),
    st.tuples(st.just("delete"), st.integers(0, 3), st.none()),
    st.tuples(st.just("rebuild"), st.none(), st.none()),
    st.tuples(st.just("charge"), st.integers(0, 3), st.sampled_from(["", "t1", "t2", "\ud800"])),
    st.tuples(st.just("note_break"), st.integers(0, 3), st.sampled_from(["undo", "compression", "unknown"])),
)


@dataclass
class Driver:
    """Performs steps on one store and names its sessions by the order of their making."""

    store: Store
    made: list[str]

    def perform(self, step: tuple[str, Any, Any]) -> str:
        """What came of it: a result that both stores must share."""
        name, target, what = step
        try:
            return str(getattr(self, name)(target, what))
        except StoreFailure as error:
            return type(error).__name__

    def pick(self, number: int) -> str:
        return self.made[number % len(self.made)] if self.made else "nobody"

    def open(self, conversation: str, _: None) -> None:
        self.made.append(self.store.open_session(NewSession(conversation)).id)

    def append(self, number: int, batch: list[Row]) -> int:
        session = self.pick(number)
        return self.store.append(session, "w", self.store.load(session).version, batch, [UsageRow("p", "m", cost=0.5)])

    def stale(self, number: int, batch: list[Row]) -> int:
        return self.store.append(self.pick(number), "w", 1, batch)

    def rotate(self, number: int, batch: list[Row]) -> None:
        session = self.pick(number)
        self.made.append(self.store.rotate(session, "w", self.store.load(session).version, "compaction", batch).id)

    def freeze(self, place: int, body: bytes) -> str:
        return self.store.freeze(self.pick(place), place, "d1", body)

    def end(self, number: int, _: None) -> None:
        self.store.end(self.pick(number), "new")

    def resume(self, number: int, _: None) -> None:
        self.store.resume("c1", self.pick(number))

    def delete(self, number: int, _: None) -> bool:
        return self.store.delete(self.pick(number))

    def rebuild(self, _: None, __: None) -> int:
        return self.store.rebuild_search()

    def charge(self, number: int, turn: str) -> None:
        self.store.charge(self.pick(number), [UsageRow("p", turn or "m", turn=turn, input_tokens=1, saved=0.25)])

    def note_break(self, number: int, reason: str) -> None:
        self.store.note_break(self.pick(number), reason, number)

    def number(self, session: str | None) -> int | None:
        return None if session is None else self.made.index(session)

    def show(self, info: SessionInfo | None) -> Any:
        """A session without what differs by nature: ids and times."""
        if info is None:
            return None
        ended = None if info.ended is None else 1.0
        plain = replace(info, id="", task="", parent=None, started=0, updated=0, ended=ended)
        return plain, self.number(info.id), self.number(info.task), self.number(info.parent)

    def observe(self) -> list[Any]:
        seen: list[Any] = [self.show(self.store.current(name)) for name in ("c1", "c2")]
        seen.append([self.show(info) for info in self.store.sessions()])
        for session in self.made:
            if (info := self.store.session(session)) is None:
                continue
            transcript = self.store.load(session)
            history = list(self.store.history(session))
            assert visible(history) == transcript.rows
            assert len(history) == transcript.version == info.version
            seen += [self.show(info), history, transcript.frozen, self.store.usage(session=session)]
        for group in ("day", "model", "turn"):
            seen.append([(found.keys, found.sum) for found in self.store.usage_by(group)])
        seen.append([(self.number(row.session), row.reason, row.position) for row in self.store.breaks()])
        for word in [*WORDS, "alpha beta"]:
            hits = self.store.search(word, limit=50)
            seen.append([(self.number(hit.session), hit.position, hit.role, hit.excerpt) for hit in hits])
        return seen


@pytest.mark.parametrize("engine", ENGINES)
def test_two_stores_agree_after_any_steps_and_so_does_the_next_process(engine: str) -> None:
    """I1, E2: same results, same transcripts, same lists, same hits, whichever the engine is, and whether a store stays
    open or is opened anew after each step; the transcript is the fold of its history."""
    try_many(engine, 60, partial(agree, engine), st.lists(steps, max_size=12))


def agree(engine: str, taken: list[tuple[str, Any, Any]]) -> None:
    with new_place(engine) as first, new_place(SQLITE) as second:
        stays, changing = Driver(Store(first), []), Driver(Store(second), [])
        for step in [("open", "c1", None), *taken]:
            assert stays.perform(step) == changing.perform(step), step
            changing.store.close()
            changing.store = Store(second)
        assert stays.observe() == changing.observe()
        stays.store.close()
        changing.store.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_transcript_is_what_a_list_would_be(engine: str) -> None:
    """Appends and undos do to a transcript what they do to a plain list; any text comes back."""
    batches = st.lists(st.lists(st.text(max_size=12) | st.integers(0, 5), max_size=3), max_size=6)
    try_many(engine, 60, partial(compare_with_list, engine), batches)


def compare_with_list(engine: str, batches: list[list[str | int]]) -> None:
    with new_place(engine) as where:
        store = Store(where)
        session, version, model = store.open_session(NewSession("c")).id, 0, list[str]()
        for batch in batches:
            written = [head_row(it) if isinstance(it, int) else Row({"role": "user", "content": it}) for it in batch]
            version = store.append(session, "w", version, written)
            for it in batch:
                if isinstance(it, int):
                    del model[it:]
                else:
                    model.append(it)
        assert [row.message["content"] for row in store.load(session).rows] == model
        info = store.session(session)
        assert info is not None
        assert info.messages == sum(bool(clean(text).split()) for text in model)
        store.close()


@given(st.text(), st.text())
def test_no_text_breaks_search(query: str, text: str) -> None:
    """Whatever is searched in whatever text: no error, and an excerpt keeps all words of a short text."""
    runs = split_query(query)
    if len(text) < 100:
        excerpt = cut_excerpt(runs, text)
        marked = excerpt.replace("«", "").replace("»", "")
        assert marked.split() == clean(text).replace("«", "").replace("»", "").split()
