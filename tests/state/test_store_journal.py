"""The journal of one conversation does the same on every store (I1)."""

import pytest

from hermes_base.errors import Fenced, StoreFailure
from hermes_base.journal import Row, UsageRow, shown_text
from hermes_state.store import Store
from hermes_state.store_journal import StoreJournal, memory_journal

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

    journal = StoreJournal(open_store, CHAT, platform="web", model="m")
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
    journal = StoreJournal(lambda: store, CHAT, writer="me")
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
    mine, other = StoreJournal(lambda: store, CHAT), StoreJournal(lambda: store, CHAT)
    mine.append([say("one")])
    assert texts(other.load().rows) == ["one"]
    assert mine.append([say("two")]) == 2
    with pytest.raises(Fenced):
        other.append([say("lost")])
    assert texts(other.load().rows) == ["one", "two"]
    assert other.append([say("three")]) == 3


def test_a_journal_tells_where_its_transcript_stands(store: Store) -> None:
    """B3: what another writer did shows without reading rows, and looking does not hide it from the fence."""
    mine, other = StoreJournal(lambda: store, CHAT), StoreJournal(lambda: store, CHAT)
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
    journal = StoreJournal(lambda: store, CHAT, session=named)
    first = journal.load()
    journal.append([say("one")])
    child = journal.rotate("compaction", [say("summary")])
    assert journal.append([say("two")]) == 2
    transcript = journal.load()
    assert (transcript.session, transcript.task) == (child, first.session)
    assert texts(transcript.rows) == ["summary", "two"]


def test_a_journal_follows_a_new_session_and_a_named_one_does_not(store: Store) -> None:
    free, named = StoreJournal(lambda: store, CHAT), StoreJournal(lambda: store, CHAT, session="s1")
    assert named.load().session == free.load().session == "s1"
    store.end("s1", "new")
    fresh = free.load()
    assert fresh.session != "s1"
    assert named.append([say("late")]) == 1
    assert named.load().session == "s1"


def test_a_memory_journal_is_alone() -> None:
    first, second = memory_journal(), memory_journal("chat", "my-session")
    first.append([say("one")])
    assert second.load().session == "my-session"
    assert second.load().rows == ()
    assert texts(first.load().rows) == ["one"]
