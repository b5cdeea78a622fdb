"""The program one version older on a store that this one has brought up to date.

The older program is this one with the layouts it knew and the statements it had; that it needs nothing newer is shown
by running it on a store of its own layout, too. What both of them left behind is then used by this program.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from sqlite_file import migrate_file
from turn_bench import ACCOUNT, CHAT, USAGE, answer, say, written

from hermes_base.files.home_files import OwnName
from hermes_base.turn.journal import head_row
from hermes_state.people_store import MEMBER, QuestionRow
from hermes_state.sql import schema, statements, turn_statements
from hermes_state.sql.engines.sqlite import check_file, read_layout
from hermes_state.sql.schema import MIGRATIONS, SCHEMA_VERSION
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import NodeInfo


def forget_abilities(statement: str) -> str:
    """It left no conversation to nodes that serve it better."""
    for one in ("c", "conversation"):
        statement = statement.replace(f" and not {turn_statements._BETTER.replace('{0}', f'{one}.needs')}", "")
    return statement


#: How the older program said what is said in another way today: it knew no files in the store, and no abilities of
#: nodes.
OLD_STATEMENTS: dict[tuple[ModuleType, str], str] = {
    (statements, "DROP_UNUSED_BLOB"): (
        "delete from blob where hash = ? and not exists (select 1 from sent where sent.hash = blob.hash)"
    ),
    (turn_statements, "ADD_NODE"): (
        "insert into node (id, expires, version, capacity, address) "
        "values (:id, clock() + :lease, :version, :capacity, :address)"
    ),
    **{(turn_statements, name): forget_abilities(getattr(turn_statements, name)) for name in ("CLAIM", "CLAIM_ONE")},
}
NEW_TABLE = "kept_file"
FILE = OwnName("", "uploads/0123456789abcdef/notes.txt")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@contextmanager
def older_program() -> Iterator[None]:
    """Within the block, a store that is opened is opened by the older program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", MIGRATIONS[:-1])
        patch.setattr(schema, "SCHEMA_VERSION", SCHEMA_VERSION - 1)
        patch.setattr(schema.migrate, "__defaults__", (MIGRATIONS[:-1],))
        for (module, name), text in OLD_STATEMENTS.items():
            patch.setattr(module, name, text)
        yield


def work(store: Store, mark: str) -> str:
    """A day of the older program: a message, a turn, a delivery, a person, a question, a search, a compaction."""
    turns, people = store.turns, store.people
    node = turns.join(NodeInfo("1", alone=True))
    session = store.open_session(NewSession(CHAT)).id
    seq = turns.accept(CHAT, ACCOUNT, f"7/{mark}/", "x", node)
    assert seq is not None
    (claim,) = turns.ready(node)
    assert turns.begin(claim, [seq]) is not None
    turns.append(claim, seq, written(session, 0, say(f"{mark} question", seq), say("wrong"), head_row(1)), [USAGE])
    turns.step(claim, seq, 1, "tool", {})
    turns.complete(claim, [seq], written(session, 3, say(f"{mark} answer", role="assistant")), [answer("a")], [USAGE])
    lease = turns.hold(ACCOUNT, node, 60)
    assert lease is not None
    row = turns.outbox_take(ACCOUNT, "7", lease)
    assert row is not None
    turns.outbox_sent(row.id, lease, "m1")
    turns.post(CHAT, mark, answer("unsent"))
    turns.send_control(CHAT, "stop", {})
    assert len(turns.take_controls(node)) == 1
    person = people.add(mark, MEMBER, "chat", mark)
    people.ask(QuestionRow(f"q-{mark}", CHAT, "t", "approval", "?", approver=person.id, expires=turns.now() + 60))
    assert people.close_question(f"q-{mark}", "yes", person.id)
    people.remove(person.id)
    child = store.rotate(session, "w", 4, "compaction", [say(f"{mark} summary")])
    assert [hit.session for hit in store.search(f"{mark} question")] == [session]
    assert {info.id for info in store.sessions(conversation=CHAT)} >= {session, child.id}
    assert len(store.load(session).rows) == 2
    assert turns.latest(CHAT)[1] == seq
    assert turns.depth()[0] == 0
    turns.leave(node)
    return session


def test_the_older_program_works_on_a_store_of_this_layout(path: Path) -> None:
    """H4: it starts, reads what this one wrote, writes, and leaves the layout as it is; this one goes on from there."""
    with closing(Store(path)) as store:
        mine = work(store, "new")
        store.keys.add("laptop", "", "digest")
        store.files.put(FILE, lambda: (b"notes",))
    with older_program():
        with closing(Store(path)) as store:
            assert [row.message["content"] for row in store.load(mine).rows] == ["new question", "new answer"]
            theirs = work(store, "old")
        with closing(Store.open_readonly(path)) as reader:
            assert reader.session(theirs) is not None
    with closing(Store(path)) as store:
        for session, mark in ((mine, "new"), (theirs, "old")):
            texts = [paged.row.message["content"] for paged in store.page(session)]
            assert texts == [f"{mark} question", f"{mark} answer"]
        assert store.keys.find("digest") is not None
        assert [b"".join(store.files.read(file)) for file in store.files.list_below("", "uploads")] == [b"notes"]
        assert store.usage().calls == 4
        latest = store.turns.latest(CHAT)
        assert store.turns.sweep(store.turns.now() + 3600, 1000) == 2 + 2 + 2 + 2
        assert store.turns.latest(CHAT) == latest
        assert [row.state for row in store.turns.outbox_since(CHAT, 0)] == ["waiting", "waiting"]
        work(store, "again")
    assert (read_layout(path), check_file(path)) == (SCHEMA_VERSION, "")


def test_it_is_the_older_program(path: Path) -> None:
    """It needs nothing of this layout: it does the same on a store of its own, which has none of it."""
    with older_program(), closing(Store(path)) as store:
        work(store, "old")
        store.delete(store.sessions()[0].id)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("select name from sqlite_master where name = ?", (NEW_TABLE,)).fetchone() is None
        assert db.execute("select value from meta where key = 'schema'").fetchone() == (str(SCHEMA_VERSION - 1),)


def test_a_store_of_the_older_layout_is_brought_up_to_date(path: Path) -> None:
    """H4: what it has done is found by the indexes of today."""
    with older_program(), closing(Store(path)) as store:
        session = work(store, "old")
    with closing(Store(path)) as store:
        assert [paged.row.position for paged in store.page(session)] == [0, 3]
        assert store.turns.sweep(store.turns.now() + 3600, 1000) == 4
        assert store.turns.latest(CHAT)[0] == 2
        work(store, "new")


# --- every migration

ADDING = re.compile(
    r"create table |create virtual table |create (unique )?index |alter table \w+ add column |insert into meta "
)


def read_columns(path: Path) -> dict[tuple[str, str], tuple[object, ...]]:
    """Each column with its type, whether it must be given, its default and its place in the key."""
    with closing(sqlite3.connect(path)) as db:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        return {
            (table, str(column[1])): tuple(column[2:])
            for table in tables
            for column in db.execute(f"pragma table_info('{table}')")
        }


@pytest.mark.parametrize("version", [step.version for step in MIGRATIONS[1:]])
def test_a_migration_only_adds(path: Path, version: int) -> None:
    """H4: what was there is there as it was; a new column of an old table needs no value; the older program may read
    it; and a new unique index on an old table refuses nothing that the older program writes."""
    step = next(one for one in MIGRATIONS if one.version == version)
    assert step.min_reader <= version - 1
    migrate_file(path, [one for one in MIGRATIONS if one.version < version])
    before = read_columns(path)
    migrate_file(path, [one for one in MIGRATIONS if one.version <= version])
    after = read_columns(path)
    assert {column: after.get(column) for column in before} == before
    old_tables = {table for table, _ in before}
    for table, name in after.keys() - before.keys():
        _, needed, default, _ = after[table, name]
        assert table not in old_tables or not needed or default is not None, (table, name)
    for statement in step.statements:
        assert ADDING.match(" ".join(statement.split())), statement
        if unique := re.match(r"create unique index \w+ on (\w+)\(.*\) where (\w+) is not null", statement):
            assert unique[1] not in old_tables or leaves_empty(version, unique[1], unique[2])
        else:
            found = re.match(r"create unique index \w+ on (\w+)", statement)
            assert found is None or found[1] not in old_tables


def leaves_empty(version: int, table: str, column: str) -> bool:
    """Columns that no program before this layout fills."""
    return (version, table, column) in {(3, "message", "seq"), (3, "usage", "seq")}
