"""The writer of one conversation: on a store and in memory (I1)."""

from contextlib import closing
from typing import Any

import pytest
from hypothesis import strategies as st
from store_places import ENGINES, new_place, try_many

from hermes_base.errors import Fenced, StoreFailure
from hermes_base.turn.journal import Journal, Row, UsageRow, head_row, shown_text
from hermes_state.memory_journal import MemoryJournal
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal

CHAT = "agent:main:local:dm:1"


def say(text: str) -> Row:
    return Row({"role": "user", "content": text})


def texts(rows: object) -> list[str]:
    return [shown_text(row) for row in rows]  # type: ignore[attr-defined]


def test_a_journal_opens_nothing_before_its_first_use(store: Store) -> None:
    opened: list[Store] = []

    def open_store() -> Store:
        opened.append(store)
        return store

    journal = StoreJournal(open_store, NewSession(CHAT, platform="web", model="m"))
    assert opened == []
    transcript = journal.load()
    assert (transcript.version, transcript.rows, transcript.conversation) == (0, (), CHAT)
    assert journal.load().session == transcript.session
    assert len(opened) == 1
    info = store.current(CHAT)
    assert info is not None
    assert (info.platform, info.model) == ("web", "m")
    assert store.sessions() == []


def test_a_journal_goes_on_from_its_own_writes(store: Store) -> None:
    """B2: own writes never fence the own writer, with or without a load between."""
    journal = StoreJournal(lambda: store, NewSession(CHAT), writer="me")
    assert journal.append([say("one")], [UsageRow("p", "m")]) == 1
    assert journal.append([say("two"), say("three")]) == 3
    assert journal.freeze("tools", "d", b"[]") == journal.freeze("0", "d", b"[]")
    journal.charge([UsageRow("p", "m", "title")])
    assert journal.finish([say("four")], [], "four") == 4
    transcript = journal.load()
    assert (transcript.version, transcript.writer) == (4, "me")
    assert transcript.frozen == {("tools", "d"): b"[]"}
    assert store.usage().calls == 2
    with pytest.raises(StoreFailure, match="no part"):
        journal.freeze("nonsense", "d", b"")


def test_a_journal_is_fenced_by_another_writer_until_it_loads(store: Store) -> None:
    """B2, B3"""
    mine, other = StoreJournal(lambda: store, NewSession(CHAT)), StoreJournal(lambda: store, NewSession(CHAT))
    mine.append([say("one")])
    assert texts(other.load().rows) == ["one"]
    assert mine.append([say("two")]) == 2
    with pytest.raises(Fenced):
        other.append([say("lost")])
    assert texts(other.load().rows) == ["one", "two"]
    assert other.append([say("three")]) == 3


def test_a_journal_tells_where_its_transcript_stands(store: Store) -> None:
    """B3: what another writer did shows without reading rows, and looking does not hide it from the fence."""
    mine, other = StoreJournal(lambda: store, NewSession(CHAT)), StoreJournal(lambda: store, NewSession(CHAT))
    assert mine.standing() == ("", 0)
    assert store.current(CHAT) is None
    session = mine.load().session
    mine.append([say("one")])
    assert mine.standing() == other.standing() == (session, 1)
    other.append([say("two")])
    assert mine.standing() == (session, 2)
    with pytest.raises(Fenced):
        mine.append([say("lost")])
    store.end(session, "new")
    assert mine.standing() == ("", 0)


@pytest.mark.parametrize("named", ["", "named"])
def test_a_journal_moves_to_the_child(store: Store, named: str) -> None:
    """B4, B5"""
    journal = StoreJournal(lambda: store, NewSession(CHAT, named))
    first = journal.load()
    journal.append([say("one")])
    child = journal.rotate("compaction", [say("summary")])
    assert journal.append([say("two")]) == 2
    transcript = journal.load()
    assert (transcript.session, transcript.task) == (child, first.session)
    assert texts(transcript.rows) == ["summary", "two"]


def test_a_journal_follows_a_new_session_and_a_named_one_does_not(store: Store) -> None:
    free, named = StoreJournal(lambda: store, NewSession(CHAT)), StoreJournal(lambda: store, NewSession(CHAT, "s1"))
    assert named.load().session == free.load().session == "s1"
    store.end("s1", "new")
    fresh = free.load()
    assert fresh.session != "s1"
    assert named.append([say("late")]) == 1
    assert named.load().session == "s1"


parts = st.tuples(st.just("freeze"), st.sampled_from(["tools", "system", "0", "1"]), st.binary(max_size=3))
moves = st.one_of(
    st.tuples(st.just("append"), st.lists(st.text(max_size=4) | st.integers(0, 4), max_size=3)),
    st.tuples(st.just("rotate"), st.lists(st.text(max_size=4), max_size=2)),
    parts,
)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_journal_in_memory_does_what_one_on_a_store_does(engine: str) -> None:
    """I1: the same transcript after any steps, but for ids."""

    def check(taken: list[tuple[Any, ...]]) -> None:
        with new_place(engine) as where, closing(Store(where)) as store:
            compare(store, taken)

    try_many(engine, 40, check, st.lists(moves, max_size=8))


def compare(store: Store, taken: list[tuple[Any, ...]]) -> None:
    journals: list[Journal] = [StoreJournal(lambda: store, NewSession(CHAT, "s")), MemoryJournal(CHAT, "s")]
    for name, *what in taken:
        for journal in journals:
            journal.load()
            if name == "freeze":
                part, body = what
                if part.isalpha() or int(part) < journal.load().version:
                    journal.freeze(part, "d", body)
                continue
            rows = [head_row(it) if isinstance(it, int) else say(it) for it in what[0]]
            _ = journal.append(rows, [UsageRow("p", "m")]) if name == "append" else journal.rotate("compression", rows)
    kept, held = (journal.load() for journal in journals)
    assert (kept.rows, kept.frozen, kept.version) == (held.rows, held.frozen, held.version)
    assert (kept.conversation, kept.task) == (held.conversation, held.task)
    assert journals[0].standing()[1] == journals[1].standing()[1]


def test_what_is_changed_elsewhere_does_not_change_a_journal_in_memory() -> None:
    message = {"role": "user", "content": "one", "parts": ["a"]}
    journal = MemoryJournal()
    journal.append([Row(message)])
    message["parts"].append("b")  # type: ignore[attr-defined]
    assert journal.load().rows[0].message["parts"] == ["a"]
    journal.load().rows[0].message["parts"].append("c")
    assert journal.load().rows[0].message["parts"] == ["a"]


def test_a_memory_journal_is_alone() -> None:
    first, second = MemoryJournal(), MemoryJournal("chat", "my-session")
    first.append([say("one")])
    assert second.load().session == "my-session"
    assert second.load().rows == ()
    assert texts(first.load().rows) == ["one"]
