"""What belongs to one person is not seen by another, and can be forgotten without a trace (G12)."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_file import explain

from hermes_base.errors import StoreFailure
from hermes_base.inbound import Address, Outgoing
from hermes_base.turn.journal import Row, UsageRow
from hermes_state.people_store import MEMBER, OWNER, QuestionRow
from hermes_state.sql import people_sql
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import NodeInfo

CANARY = "zugvogel"


def live(store: Store, person: str, chat: str, word: str) -> str:
    """One conversation with everything that can hang on it; its session."""
    conversation = f"agent:main:chat:dm:{chat}"
    store.people.assign(conversation, person)
    node = store.turns.join(NodeInfo("1"))
    seq = store.turns.accept(conversation, "chat:bot", f"{chat}/1/", f'{{"text": "{word} came in"}}')
    assert seq is not None
    claim = store.turns.claim_one(node, conversation)
    assert claim is not None
    turn = store.turns.begin(claim, [seq])
    assert turn is not None
    session = store.open_session(NewSession(conversation, person=person, title=f"title {word}", model="m")).id
    store.freeze(session, -1, "d", f"prompt of {word}".encode())
    store.freeze(session, -2, "d", b"tools that everybody has")
    rows = [Row({"role": "user", "content": f"hello {word}"}, sent={"d": f"sent {word}".encode()})]
    call = UsageRow("p", "m", input_tokens=10, output_tokens=1, cost=0.5, turn=f"turn-{word}")
    store.append(session, "w", 0, rows, [call])
    store.note_break(session, "because", 0)
    store.turns.step(claim, seq, 1, "tool", {"args": word})
    store.turns.send_control(conversation, "steer", {"text": word})
    store.turns.post(conversation, f"note-{word}", Outgoing(Address("chat", "bot", chat), f"{word} went out"))
    store.turns.choose(conversation, {"model": word})
    store.people.ask(
        QuestionRow(f"q-{word}", conversation, "t", "approval", f"rm {word}", (word,), person, expires=9e9)
    )
    store.turns.leave(node)
    return session


def read_view(store: Store, person: str) -> dict[str, object]:
    return {
        "sessions": {info.id for info in store.sessions(person=person)},
        "hits": {hit.session for hit in store.search("hello", person=person)},
        "usage": store.usage(person=person),
        "by": store.usage_by("model", person=person),
    }


@pytest.fixture
def reopen(where: str) -> Callable[[], Store]:
    return lambda: Store(where)


def test_people_see_what_is_theirs_and_the_owner_the_rest(reopen: Callable[[], Store]) -> None:
    """G12: sessions, search and usage of one are not seen by the other; without a person asked for, all are there."""
    with closing(reopen()) as store:
        ann, bob = store.people.add("Ann", MEMBER, "chat", "1"), store.people.add("Bob", MEMBER, "chat", "2")
        mine = {
            person: live(store, person, chat, word)
            for person, chat, word in [(ann.id, "1", "amsel"), (bob.id, "2", "biber"), ("", "0", "ochse")]
        }
        for person, session in mine.items():
            view = read_view(store, person)
            assert view["sessions"] == view["hits"] == {session}
            assert store.usage(person=person).calls == 1
            assert store.usage(person=person, session=session).calls == 1
            assert [group.sum.calls for group in store.usage_by("model", person=person)] == [1]
            for other, foreign in mine.items():
                if other != person:
                    assert store.usage(person=person, session=foreign).calls == 0
                    assert store.sessions(person=person, conversation=store.session(foreign).conversation) == []  # type: ignore[union-attr]
            assert store.session(session).person == person  # type: ignore[union-attr]
        assert store.search("biber", person=ann.id) == []
        assert len(store.sessions()) == len(store.search("hello")) == store.usage().calls == 3
        assert store.usage(person="p-none").calls == 0


def test_usage_stays_with_its_person_when_the_session_is_deleted(reopen: Callable[[], Store]) -> None:
    """G12: deleting a conversation's session does not move its cost to somebody else."""
    with closing(reopen()) as store:
        store.delete(live(store, "p-1", "1", "amsel"))
        assert store.usage(person="p-1").calls == 1
        assert store.usage(person="").calls == 0


def test_children_of_a_session_stay_with_its_person(reopen: Callable[[], Store]) -> None:
    """G12: compaction opens a new session of the same conversation."""
    with closing(reopen()) as store:
        session = live(store, "p-1", "1", "amsel")
        child = store.rotate(session, "w", 1, "compressed", [Row({"role": "user", "content": "hello again"})])
        assert child.person == "p-1"
        assert {info.id for info in store.sessions(person="p-1")} == {session, child.id}
        assert store.sessions(person="") == []


def test_sessions_go_with_their_conversation(reopen: Callable[[], Store]) -> None:
    """G12: a session that was opened before the conversation had a person is theirs, too."""
    with closing(reopen()) as store:
        session = store.open_session(NewSession("c"))
        store.append(session.id, "w", 0, [Row({"role": "user", "content": "hello"})])
        assert session.person == ""
        store.people.assign("c", "p-1")
        assert [info.person for info in store.sessions(person="p-1")] == ["p-1"]


def test_forgetting_leaves_nothing_of_the_person_and_all_of_the_others(reopen: Callable[[], Store]) -> None:
    """G12: counts say what went; everybody else's view is as it was; money stays counted."""
    with closing(reopen()) as store:
        ann, bob = store.people.add("Ann", MEMBER, "chat", "1"), store.people.add("Bob", MEMBER, "chat", "2")
        owner = store.people.add("Me", OWNER, "chat", "0")
        for person, chat, word in [(ann.id, "1", CANARY), (bob.id, "2", "biber"), ("", "0", "ochse")]:
            live(store, person, chat, word)
        before, total = [read_view(store, person) for person in (bob.id, "")], store.usage()
        gone = store.people.forget(ann.id)
        assert (gone.sessions, gone.messages, gone.inbox, gone.outbox, gone.conversations) == (1, 1, 1, 1, 1)
        assert (gone.questions, gone.identities, gone.calls) == (1, 1, 1)
        assert [read_view(store, person) for person in (bob.id, "")] == before
        assert store.people.people() == sorted([bob, owner], key=lambda person: (person.created, person.id))
        assert store.usage() == total
        assert store.usage(person=ann.id).calls == 0
        assert store.sessions(person=ann.id) == []
        assert store.search(CANARY) == []
        assert store.turns.inbox_since("agent:main:chat:dm:1", 0) == []
        assert store.turns.outbox_since("agent:main:chat:dm:1", 0) == []
        assert store.turns.choices("agent:main:chat:dm:1") == {}
        assert [row.session for row in store.breaks()].count("") == 1
        assert len(store.turns.inbox_since("agent:main:chat:dm:2", 0)) == 1
        assert len(store.people.open_questions("agent:main:chat:dm:2")) == 1
        assert store.people.forget(ann.id).sessions == 0


def test_the_owners_data_is_not_forgotten_by_an_empty_name(reopen: Callable[[], Store]) -> None:
    """G12: an empty person is the owner of the machine."""
    with closing(reopen()) as store:
        live(store, "", "0", "ochse")
        with pytest.raises(StoreFailure, match="owner of the machine"):
            store.people.forget("")
        assert len(store.sessions()) == 1


def test_no_byte_of_a_forgotten_person_is_in_the_file(tmp_path: Path) -> None:
    """G12: not in a row, not in the search index, not in a freed page."""
    path = tmp_path / "store.db"
    with closing(Store(path)) as store:
        ann = store.people.add(f"Ann {CANARY}", MEMBER, "chat", f"{CANARY}-id")
        store.people.pair("chat", "2", "Bob", "2")
        for number in range(3):
            live(store, ann.id, f"{CANARY}-{number}", f"{CANARY}{number}")
        live(store, "", "0", "ochse")
    assert CANARY.encode() in path.read_bytes()
    with closing(Store(path)) as store:
        store.people.forget(ann.id)
    with closing(sqlite3.connect(path)) as db:
        names = db.execute("select name from sqlite_master where type = 'table' and name <> 'search'").fetchall()
        rows = [row for (table,) in names for row in db.execute(f"select * from {table}").fetchall()]
    assert not [row for row in rows if CANARY in str(row).lower() or ann.id in str(row)]
    assert not [part for part in tmp_path.iterdir() if CANARY.encode() in part.read_bytes()]
    assert b"ochse" in path.read_bytes()


def test_no_byte_of_a_forgotten_person_is_in_any_file_while_the_store_is_open(tmp_path: Path) -> None:
    """G12: not in the write-ahead log, and not in a page that an earlier deletion freed."""
    with closing(Store(tmp_path / "store.db")) as store:
        ann = store.people.add("Ann", MEMBER, "chat", "1")
        long = f"{CANARY} " * 5_000  # it fills pages of its own
        sessions = [live(store, ann.id, str(number), f"{CANARY}{number}") for number in range(3)]
        store.append(sessions[0], "w", 1, [Row({"role": "user", "content": long})])
        store.delete(sessions[0])
        store.append(sessions[1], "w", 1, [Row({"role": "user", "content": long})])
        live(store, "", "owner", "ochse")
        assert [part.name for part in tmp_path.iterdir() if CANARY.encode() in part.read_bytes()]
        store.people.forget(ann.id)
        assert not [part.name for part in tmp_path.iterdir() if CANARY.encode() in part.read_bytes()]
        assert b"ochse" in (tmp_path / "store.db").read_bytes()


def test_what_was_stored_before_there_were_people_is_the_owners(tmp_path: Path) -> None:
    """G12: a conversation that nobody was given is the owner's; others do not find it."""
    with closing(Store(tmp_path / "store.db")) as store:
        session = store.open_session(NewSession("old"))
        store.append(session.id, "w", 0, [Row({"role": "user", "content": "hello"})])
        assert store.sessions(person="p-1") == []
        assert store.search("hello", person="p-1") == []
        assert len(store.sessions(person="")) == len(store.search("hello", person="")) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "FIND_PERSON",
        "GET_OWNER",
        "GET_PAIRING_OF",
        "OPEN_QUESTIONS",
        "CLOSE_QUESTION",
        "VOID_QUESTION",
        "HAS_ORPHANS",
        "VOID_ORPHANS",
        "VOID_PERSON",
        "CONVERSATIONS_OF",
        "PERSON_OF",
    ],
)
def test_what_each_message_and_each_start_asks_is_found_by_an_index(tmp_path: Path, statement: str) -> None:
    """F3: no query of people at start-up, or for a message, scans a table."""
    Store(tmp_path / "store.db").close()
    plan = explain(tmp_path / "store.db", getattr(people_sql, statement))
    assert all("USING" in step for step in plan if step.startswith(("SCAN", "SEARCH"))), plan
