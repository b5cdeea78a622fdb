"""What only the SQLite file promises about messages and turns: query plans, numbers in the rows, locks and layouts."""

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_file import explain, migrate_file
from turn_bench import ACCOUNT, CHAT, USAGE, Bench, answer, make_bench, say, written

from hermes_state.sql import statements, turn_statements
from hermes_state.sql.engines.sqlite import read_layout
from hermes_state.sql.schema import MIGRATIONS, SCHEMA_VERSION
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import Claim, NodeInfo


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = make_bench(str(tmp_path / "store.db"))
    yield made
    made.store.close()


def ask(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


# --- query plans

STATEMENTS = {
    f"{name}{number or ''}": text.format("?, ?")
    for name, found in vars(turn_statements).items()
    if name.isupper() and not name.startswith("_")
    for number, text in enumerate([found] if isinstance(found, str) else found)
}
#: These read an index that holds open rows alone, so what they read is what there is to do.
OPEN_ONLY = {
    "HOLDINGS": ("conversation_ready", "conversation_owner"),
    "COUNT_OPEN": ("inbox_open", "outbox_open"),
    "COUNT_HELD": ("outbox_held",),
    "COUNT_UNSENT": ("outbox_open",),
    "UNSENT_CHATS": ("outbox_open",),
    "DROP_ALL": ("lease_owner",),
    "MOVES3": ("inbox_open",),
    "MOVES4": ("inbox_open",),
    "MOVES5": ("outbox_open",),
    "MOVES9": ("question_open", "question_node"),
}
#: Tables of few rows: one for each bot account or each thing that is paced, or gone after minutes.
SMALL = ("lease", "pairing", "link_code", "penalty", "pace")


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_no_statement_scans_a_table(bench: Bench, path: Path, name: str) -> None:
    """F3: a start on a store of any size looks at what is open, never at what was."""
    scans = [step for step in explain(path, STATEMENTS[name]) if step.startswith("SCAN")]
    allowed = OPEN_ONLY.get(name, ())
    for step in scans:
        is_small = step == "SCAN CONSTANT ROW" or step.removeprefix("SCAN ") in SMALL
        harmless = is_small or re.match(r"SCAN \(?subquery", step, re.IGNORECASE)
        assert harmless or any(step.endswith(f"INDEX {index}") for index in allowed), scans


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("FIND_REVISIONS", "sqlite_autoindex_inbox_2 (account=? AND ext_id>? AND ext_id<?)"),
        ("CLAIM", "conversation_ready (ready_at<?)"),
        ("CLAIM", "inbox_open (conversation=?)"),
        ("FIND_READY", "conversation_ready_owner (owner=?)"),
        ("FIND_READY", "inbox_open (conversation=?)"),
        ("WAITING", "inbox_open (conversation=?)"),
        ("FIND_CHATS", "outbox_open (account=?)"),
        ("TAKE_UNSENT", "outbox_open (account=? AND chat=?)"),
        ("COUNT_HELD_FOR", "outbox_held (held_for=? AND hold_until>?)"),
        ("HOLD_ANEW", "outbox_held (held_for=? AND hold_until>?)"),
        ("TAKE_CONTROLS", "control_open (taken_by=?)"),
        ("OUTBOX_SINCE", "outbox_of_conversation (conversation=? AND id>?)"),
        ("RELEASE_ALL", "conversation_owner (owner=?)"),
        ("COUNT_OWNED", "conversation_owner (owner=?)"),
    ],
)
def test_statements_use_the_index_of_what_is_open(bench: Bench, path: Path, name: str, index: str) -> None:
    """F3: the key of a table would be searched too, and yet read everything that was ever said."""
    assert index in " ".join(explain(path, STATEMENTS[name]))


@pytest.mark.parametrize("name", ["CLAIM", "FIND_READY", "WAITING", "TAKE_UNSENT", "INBOX_SINCE", "OUTBOX_SINCE"])
def test_what_is_first_is_found_without_sorting(bench: Bench, path: Path, name: str) -> None:
    """F3: the order is the index's."""
    assert "TEMP B-TREE" not in " ".join(explain(path, STATEMENTS[name]))


@pytest.mark.parametrize(
    ("text", "index"),
    [
        (statements.ADD_MESSAGE, "message_turn (conversation=? AND seq=?)"),
        (statements.ADD_USAGE, "usage_call (conversation=? AND seq=?)"),
    ],
)
def test_the_numbers_of_a_turn_are_looked_up(bench: Bench, path: Path, text: str, index: str) -> None:
    """F3"""
    assert index in " ".join(explain(path, text))


# --- other processes on the file


def test_a_locked_store_delays_and_loses_nothing(path: Path) -> None:
    """F6: while another connection holds the file's lock every call waits, and all of them are done afterwards."""
    with closing(Store(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        claim = store.turns.claim_one(store.turns.join(NodeInfo("1")), CHAT)
        assert claim is not None
        session, done = open_session(store), list[int]()

        def work(claim: Claim) -> None:
            for number in range(1, 6):
                assert store.turns.accept(CHAT, ACCOUNT, f"7/{number}/", "x") == number
                assert store.turns.begin(claim, [number]) is not None
                store.turns.complete(claim, [number], written(session, number - 1, say("a", number)), [answer("y")])
                done.append(number)

        thread = threading.Thread(target=work, args=(claim,))
        other.execute("begin immediate")
        thread.start()
        thread.join(0.3)
        held = list(done)
        other.execute("rollback")
        thread.join()
        assert (held, done) == ([], [1, 2, 3, 4, 5])
        assert store.turns.depth() == (0, 5)
        assert store.load(session).version == 5


def open_session(store: Store) -> str:
    return store.open_session(NewSession(CHAT)).id


# --- layouts

#: What the program of layout 2 does to a store, in its own words.
OLD_PROGRAM = (
    ("insert into conversation (id) values (?) on conflict (id) do nothing", (CHAT,)),
    ("insert into conversation (id) values (?) on conflict (id) do nothing", ("new",)),
    (
        "insert into session (id, conversation, task, parent, platform, model, title, started, updated) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do nothing",
        ("s2", "new", "s2", None, "local", "", "", 1.0, 1.0),
    ),
    ("update conversation set current = ? where id = ?", ("s2", "new")),
    *(
        (
            "insert into message (session, position, conversation, writer, kind, body, shown, created) "
            "values (?, ?, ?, ?, ?, ?, ?, ?)",
            ("s2", position, "new", "w", "message", '{"role":"user","content":"old"}', None, 1.0),
        )
        for position in range(2)
    ),
    *(
        (
            "insert into usage (conversation, session, task, provider, model, kind, input_tokens, cache_read_tokens, "
            "cache_write_tokens, output_tokens, reasoning_tokens, cost, settled, turn, saved, created) "
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ("new", "s2", "s2", "p", "m", "turn", 1, 0, 0, 0, 0, None, 1, None, None, 1.0),
        )
        for _ in range(2)
    ),
    ("update session set version = 2, writer = 'w', messages = 2, preview = 'old', updated = 2 where id = ?", ("s2",)),
    ("delete from session where id = ?", ("s1",)),
)


def test_a_store_of_layout_2_is_brought_up_to_date(path: Path) -> None:
    """H4: what was there stays, the older program's statements go on working, and turns are kept beside them."""
    migrate_file(path, [step for step in MIGRATIONS if step.version <= 2])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("insert into conversation (id) values (?)", (CHAT,))
        db.execute(
            "insert into session (id, conversation, task, platform, model, title, started, updated) "
            "values ('s1', ?, 's1', 'local', '', '', 1, 1)",
            (CHAT,),
        )
    with closing(Store(path)) as store:
        claim = store.turns.claim_one(store.turns.join(NodeInfo("1")), CHAT)
        assert claim is not None
        assert store.turns.accept(CHAT, ACCOUNT, "7/1/", "x") == 1
        assert store.turns.complete(claim, [1], written("s1", 0, say("a", 1)), [answer("b")], [USAGE]) == 1
        assert store.turns.choices(CHAT) == {}
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma foreign_keys = on")
        for statement, values in OLD_PROGRAM:
            db.execute(statement, values)
    assert read_layout(path) == SCHEMA_VERSION
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select value from meta where key = 'min_reader'").fetchone() == ("1",)
    with closing(Store(path)) as store:
        assert store.load("s2").version == 2
        assert store.usage().calls == 3
        node = store.turns.join(NodeInfo("1", alone=True))
        assert store.turns.accept("new", ACCOUNT, "7/2/", "y") == 1
        assert [found.conversation for found in store.turns.claim(node, 10)] == ["new"]
