"""A stored row that cannot be read: it is set aside with its bytes, something readable takes its place, and it is told
once. The clock that goes back, and the store that is lost, are here too."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from store_places import POSTGRES, SQLITE, read_rows, write_rows
from turn_bench import ACCOUNT, CHAT, Bench, answer, make_bench, say, written

from hermes_base.errors import StoreFailure
from hermes_base.inbound import Address, Inbound, read_inbound, write_inbound
from hermes_base.store_place import is_address
from hermes_base.turn.journal import LOST, Row, head_row
from hermes_state.damage import LOST_TEXT, WORDS, DamagedRow, find_address, make_marker
from hermes_state.people_store import VOID, QuestionRow
from hermes_state.sql.damage_sql import find_damaged
from hermes_state.sql.engines.opening import open_engine
from hermes_state.sql.engines.sqlite import MARK
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import Claim, NodeInfo

#: What a disk makes of a text. PostgreSQL itself notices bytes that are none, so there it is one that breaks off.
BAD = {SQLITE: b'{"ro\xff\x00\xfe": "x', POSTGRES: b'{"role": "x'}
PLACE = Address("telegram", "bot", "1")


class Scene:
    """A store with one of each, as a talk leaves them in mid-turn."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.bad = BAD[POSTGRES if is_address(where) else SQLITE]
        self.store = Store(where)
        turns = self.store.turns
        self.node = turns.join(NodeInfo("1", alone=True))
        self.claim = self.claim_one()
        for number in (1, 2):
            inbound = Inbound(PLACE, str(number), "someone", f"message {number}")
            turns.accept(CHAT, ACCOUNT, inbound.ext_id, write_inbound(inbound))
        self.session = self.store.open_session(self.new).id
        rows = (say("question", 1), say("wrong", role="assistant"), head_row(1), say("right", role="assistant"))
        turns.append(self.claim, 1, written(self.session, 0, *rows))
        self.store.freeze(self.session, -1, "chat", b"system")
        turns.step(self.claim, 1, 1, "tool_started", {"call": "c1", "name": "x"})
        turns.choose(CHAT, {"model": "m"})
        turns.post(CHAT, "one", answer("first", chat="1"))
        turns.post(CHAT, "two", answer("second", chat="1"))
        turns.send_control(CHAT, "stop", {"reason": "x"})
        person = self.store.people.add("Ann", "owner", "chat", "ann")
        self.person = person.id
        self.store.people.ask(QuestionRow("q1", CHAT, "t", "approval", "?", ("yes",), expires=turns.now() + 600))

    new = NewSession(CHAT)

    def claim_one(self) -> Claim:
        claim = self.store.turns.claim_one(self.node, CHAT)
        assert claim is not None
        return claim

    def damage(self, statement: str) -> None:
        """Beside the store, as a disk does it."""
        assert write_rows(self.where, statement, self.bad) == 1

    def told(self) -> list[str]:
        return [row.outgoing.text for row in self.store.turns.outbox_since(CHAT, 0)]


@pytest.fixture
def scene(where: str) -> Iterator[Scene]:
    made = Scene(where)
    yield made
    made.store.close()


def read_twice(read: Callable[[], Any]) -> Any:
    """A call that writes sets the row aside and fails once."""
    try:
        return read()
    except DamagedRow:
        return read()


#: What is damaged, how it is met, what is read then, and whether the person is told.
CASES: dict[str, tuple[str, Callable[[Scene], Any], Any, bool]] = {
    "inbox": (
        "update inbox set body = cast(? as text) where seq = 1",
        lambda it: [row.seq for row in it.store.turns.waiting(it.claim, 10, read_inbound)],
        [2],
        True,
    ),
    "message": (
        "update message set body = cast(? as text) where position = 0",
        lambda it: [row.message["content"] for row in it.store.load(it.session).rows],
        [LOST_TEXT, "right"],
        True,
    ),
    "head": (
        "update message set body = cast(? as text) where position = 2",
        lambda it: [row.row.message["content"] for row in it.store.page(it.session)],
        ["question", "wrong", "right"],
        True,
    ),
    "blob": ("update blob set body = ?", lambda it: dict(it.store.load(it.session).frozen), {}, False),
    "turn_step": (
        "update turn_step set body = cast(? as text)",
        lambda it: [(step.kind, dict(step.body)) for step in it.store.turns.steps(CHAT, 1)],
        [(LOST, {})],
        True,
    ),
    "conversation": (
        "update conversation set choices = cast(? as text)",
        lambda it: it.store.turns.choices(CHAT),
        {},
        True,
    ),
    "control": (
        "update control set body = cast(? as text)",
        lambda it: [(one.kind, dict(one.body)) for one in it.store.turns.take_controls(it.node)],
        [("stop", {})],
        False,
    ),
    "question": (
        "update question set choices = cast(? as text)",
        lambda it: (it.store.people.open_questions(CHAT), it.store.people.question("q1").state),  # type: ignore[union-attr]
        ([], VOID),
        True,
    ),
    "person": (
        "update person set role = cast(? as text)",
        lambda it: it.store.people.find("chat", "ann").role,  # type: ignore[union-attr]
        "member",
        False,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_that_cannot_be_read_is_set_aside(scene: Scene, name: str) -> None:
    """C2, H3: its bytes are kept, the rest is read, the person is told once, and it is met once."""
    statement, read, expected, told = CASES[name]
    scene.damage(statement)
    assert len(look_through(scene)) == 1
    before = scene.told()
    assert read_twice(lambda: read(scene)) == expected
    if name != "control":  # they are handed out once
        assert read(scene) == expected
    (row,) = scene.store.damaged()
    assert scene.store.count_damaged() == 1
    assert (row.table, row.conversation) == (
        "message" if name == "head" else name,
        "" if name in ("blob", "person") else CHAT,
    )
    assert len(scene.told()) == len(before) + told
    assert read_rows(scene.where, "select body from damaged") == [(scene.bad,)]
    assert look_through(scene) == []


def look_through(scene: Scene) -> list[DamagedRow]:
    """What is found by who reads all there is."""
    with closing(open_engine(scene.where, 5.0, readonly=True, clock=None)) as engine:
        return engine.read(lambda db: list(find_damaged(db)))


def test_a_damaged_answer_becomes_the_word_on_it(scene: Scene) -> None:
    """C2: it keeps its place in the order, goes out once, and what was sent of it before is not counted."""
    turns = scene.store.turns
    scene.damage('update outbox set body = cast(? as text), parts_sent = 2, platform_ids = \'["a", "b"]\' where id = 1')
    lease = turns.hold(ACCOUNT, scene.node, 60)
    assert lease is not None
    for expected in (WORDS["outbox"], "second"):
        row = read_twice(lambda: turns.outbox_take(ACCOUNT, "1", lease))
        assert (row.outgoing.text, row.parts_sent, row.outgoing.address) == (expected, 0, PLACE)
        turns.outbox_sent(row.id, lease, "m")
    assert turns.outbox_take(ACCOUNT, "1", lease) is None


def test_an_answer_whose_receipts_are_damaged_is_sent_on(scene: Scene) -> None:
    """C2: the text can be read, so it goes out from where it was; nothing is sent twice."""
    turns = scene.store.turns
    scene.damage("update outbox set platform_ids = cast(? as text), parts_sent = 1 where id = 1")
    lease = turns.hold(ACCOUNT, scene.node, 60)
    assert lease is not None
    row = read_twice(lambda: turns.outbox_take(ACCOUNT, "1", lease))
    assert (row.outgoing.text, row.parts_sent, row.platform_ids) == ("first", 1, ())


def test_many_threads_that_meet_the_same_row_set_it_aside_once(scene: Scene) -> None:
    """C2: and each of them gets what can be read."""
    for _ in range(20):
        scene.damage("update inbox set body = cast(? as text), done_epoch = null where seq = 1")
        with ThreadPoolExecutor(8) as pool:
            reads = [pool.submit(scene.store.turns.inbox_since, CHAT, 0, 10, read_inbound) for _ in range(8)]
            assert all([seq for seq, _ in read.result()] == [1, 2] for read in reads)
    assert scene.store.count_damaged() == 20


def test_a_reader_beside_the_owner_says_what_is_wrong_and_changes_nothing(scene: Scene) -> None:
    """H8."""
    scene.damage("update message set body = cast(? as text) where position = 0")
    with closing(Store.open_readonly(scene.where)) as reader, pytest.raises(StoreFailure, match="cannot be read"):
        reader.load(scene.session)
    assert scene.store.damaged() == []


def test_what_was_set_aside_goes_with_its_session_with_its_person_and_with_time(scene: Scene) -> None:
    """F7, G3."""
    for ending in (
        lambda: scene.store.delete(scene.session),
        lambda: scene.store.turns.sweep(scene.store.turns.now() + 60, 100),
    ):
        scene.damage("update message set body = cast(? as text) where position = 0")
        scene.store.load(scene.session)
        assert scene.store.count_damaged() == 1
        ending()
        assert scene.store.count_damaged() == 0
        scene.session = scene.store.open_session(scene.new).id
        scene.store.append(scene.session, "w", 0, [say("again")])


def test_what_arrives_at_once_with_a_damaged_row_is_told_all_the_same(scene: Scene) -> None:
    """C9: nothing counts as arrived that its client could not read."""
    turns, account = scene.store.turns, answer("x", chat="1").address.account_key
    scene.damage("update outbox set body = cast(? as text) where name = 'one'")
    arrived = read_twice(lambda: turns.outbox_arrived_all(account, "1"))
    assert [row.outgoing.text for row in arrived][-1] == "second"
    assert len(arrived) == 2
    assert scene.store.count_damaged() == 1


def test_a_search_goes_on_over_lost_rows(scene: Scene) -> None:
    """C2: the index is not harmed when the session of a lost row is deleted."""
    scene.store.rebuild_search()
    scene.damage("update message set body = cast(? as text) where position = 3")
    assert scene.store.search("right")[0].excerpt == ""
    scene.store.delete(scene.session)
    scene.store.rebuild_search()
    assert scene.store.search("right") == []


# --- pure


def test_the_marker_keeps_calls_and_results_together() -> None:
    calls = {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}
    user, one, two = {"role": "user"}, {"role": "tool", "tool_call_id": "a"}, {"role": "tool", "tool_call_id": "b"}
    assert make_marker([], [])["role"] == "user"
    assert make_marker([user], [])["role"] == "assistant"
    assert make_marker([user, {"role": "assistant"}], [])["role"] == "user"
    assert make_marker([user, calls, one], [user])["tool_call_id"] == "b"
    assert make_marker([user, calls], [two])["tool_call_id"] == "a"
    assert [call["id"] for call in make_marker([user], [one, two, user])["tool_calls"]] == ["a", "b"]
    assert make_marker([user, calls, one, two], [user])["role"] == "assistant"


def test_an_address_is_told_from_what_is_left() -> None:
    assert find_address("agent:main:telegram:group:7:9", "telegram:bot") == Address(
        "telegram", "bot", "7", "group", "9"
    )
    assert find_address("agent:main:telegram:dm:7", "local:local", "term") == Address("local", "local", "term")
    assert find_address("", "telegram:bot", "7") == Address("telegram", "bot", "7")
    assert find_address("", "house") is None


# --- the clock


@pytest.fixture
def bench(where: str) -> Iterator[Bench]:
    made = make_bench(where)
    yield made
    made.store.close()


@pytest.mark.parametrize("noticed_by", ["join", "heartbeat"])
def test_a_clock_that_goes_back_makes_nothing_wait_longer(bench: Bench, noticed_by: str) -> None:
    """C2, B7: over a crash and while it runs, a wait of ten seconds stays one of ten seconds."""
    turns = bench.turns
    node = turns.join(NodeInfo("1", alone=True))
    claim = bench.own(node)
    seq = bench.accept()
    turns.fail(claim, seq, "not now", bench.clock.time + 10)
    turns.post(CHAT, "a", answer("a"))
    lease = turns.hold(ACCOUNT, node, 30)
    assert lease is not None
    row = turns.outbox_take(ACCOUNT, "7", lease)
    assert row is not None
    turns.outbox_back(row.id, lease, bench.clock.time + 10, certain=True)
    assert turns.heartbeat(node)
    bench.clock.move(-3600)
    if noticed_by == "join":
        node = turns.join(NodeInfo("1", alone=True))
    else:
        assert turns.heartbeat(node)
    lease = turns.hold(ACCOUNT, node, 30)
    claim = bench.own(node)
    assert lease is not None
    assert (turns.waiting(claim), turns.outbox_take(ACCOUNT, "7", lease)) == ([], None)
    bench.clock.move(10)
    assert [found.seq for found in turns.waiting(claim)] == [seq]
    assert turns.outbox_take(ACCOUNT, "7", lease) is not None


# --- a store that is lost


@pytest.mark.parametrize("left", [None, b"", "a database without tables"])
def test_a_lost_store_is_no_new_store(tmp_path: Path, left: bytes | str | None) -> None:
    """F7: nothing is changed until somebody says that it may begin anew."""
    path = tmp_path / "store.db"
    Store(path).close()
    path.unlink()
    if isinstance(left, bytes):
        path.write_bytes(left)
    elif left:
        with closing(sqlite3.connect(path)) as db:
            db.execute("pragma user_version = 1")
    before = path.read_bytes() if path.exists() else None
    for open_store in (Store, Store.open_readonly):
        with pytest.raises(StoreFailure, match=r"there was one before|is empty or was last used") as caught:
            open_store(path)
        assert caught.value.fix
    assert before == (path.read_bytes() if path.exists() else None)
    path.with_name(path.name + MARK).unlink()
    Store(path).close()


def test_a_store_from_before_the_mark_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Store(path).close()
    mark = path.with_name(path.name + MARK)
    mark.unlink()
    Store(path).close()
    assert mark.exists()


def test_a_broken_file_is_remembered(tmp_path: Path) -> None:
    """F7: so that `/ready` can say so, whoever met it."""
    path = tmp_path / "store.db"
    with closing(Store(path)) as store:
        session = store.open_session(Scene.new).id
        store.append(session, "w", 0, [Row({"role": "user", "content": "x" * 5000}) for _ in range(250)])
    with open(path, "r+b") as file:
        half = path.stat().st_size // 2
        file.seek(half)
        file.write(b"\xff" * half)
    with closing(Store(path)) as store:
        assert store.broken == ""
        with pytest.raises(StoreFailure, match="is damaged"):
            store.load(session)
        assert "is damaged" in store.broken
