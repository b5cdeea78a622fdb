"""Two calls that meet in the midst of one another: writers work side by side on PostgreSQL, and what comes of them is
what would have come of one after the other, as on SQLite, where they are.

One call is held before or after the statement that decides; the other is begun and ends, or waits for the first one's
lock; then the first goes on."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from postgres_server import PostgresServer, get_server
from turn_bench import ACCOUNT, CHAT, answer, say

from hermes_base.errors import Fenced, StoreFailure
from hermes_base.inbound import Address
from hermes_base.turn.consent import Deed
from hermes_state.approval_store import KeptAnswer
from hermes_state.people_store import MEMBER, OWNER, QuestionRow
from hermes_state.sql import approvals_sql, habits_sql, people_sql, statements, turn_statements
from hermes_state.sql.engines.engine import Found, Sql
from hermes_state.sql.engines.postgres import PostgresTransaction
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import NodeInfo, Written

LIMIT = 60  # seconds; ends only what hangs
HERE = Address("telegram", "bot", "1")


@dataclass
class Meeting:
    """What came of both calls, and whether the second one had to wait for the first."""

    first: Any
    second: Any
    waited: bool


class Meet:
    def __init__(self, server: PostgresServer, patch: pytest.MonkeyPatch) -> None:
        self._server = server
        self._patch = patch
        self.address = server.make_database()
        self.name = urlsplit(self.address).path[1:]

    def __call__(
        self, statement: str, first: Callable[[], Any], second: Callable[[], Any], *, after: bool = False
    ) -> Meeting:
        """The first one is held at the batch with this statement, once."""
        reached, go_on, original = threading.Event(), threading.Event(), PostgresTransaction.run
        outcomes: dict[str, Any] = {}

        def run(db: PostgresTransaction, *batch: Sql) -> list[Found]:
            mine = threading.current_thread() is threads[0] and any(one.statement == statement for one in batch)
            if after:
                found = original(db, *batch)
            if mine and not reached.is_set():
                reached.set()
                assert go_on.wait(LIMIT)
            return found if after else original(db, *batch)

        def act(name: str, call: Callable[[], Any]) -> None:
            try:
                outcomes[name] = call()
            except StoreFailure as failure:
                outcomes[name] = failure

        threads = [threading.Thread(target=act, args=pair) for pair in (("first", first), ("second", second))]
        self._patch.setattr(PostgresTransaction, "run", run)
        try:
            threads[0].start()
            assert reached.wait(LIMIT)
            threads[1].start()
            waited = self.wait_for(threads[1])
        finally:
            go_on.set()
        for thread in threads:
            thread.join(LIMIT)
        self._patch.undo()
        return Meeting(outcomes["first"], outcomes["second"], waited)

    def wait_for(self, thread: threading.Thread) -> bool:
        """Until it has ended or waits for a lock; whether it waits."""
        query = f"select 1 from pg_stat_activity where datname = '{self.name}' and wait_event_type = 'Lock'"
        with self._server.connect() as admin:
            end = time.monotonic() + LIMIT
            while thread.is_alive() and time.monotonic() < end:
                if admin.execute(query).fetchone():
                    return True
                time.sleep(0.002)
        assert not thread.is_alive()
        return False


@pytest.fixture
def meet(monkeypatch: pytest.MonkeyPatch) -> Meet:
    return Meet(get_server(), monkeypatch)


@pytest.fixture
def store(meet: Meet) -> Iterator[Store]:
    with closing(Store(meet.address)) as made:
        yield made


# --- sessions


def test_of_two_that_rotate_a_session_one_is_fenced(meet: Meet, store: Store) -> None:
    """B5, B7: it has one child."""
    session = store.open_session(NewSession("c")).id

    def rotate() -> Any:
        return store.rotate(session, "w", 0, "full", [say("x")])

    met = meet(statements.SET_SUCCESSOR, rotate, rotate)
    outcomes = [met.first, met.second]
    (child,) = [one for one in outcomes if not isinstance(one, StoreFailure)]
    assert sum(isinstance(one, Fenced) for one in outcomes) == 1
    current = store.current("c")
    assert current is not None
    assert current.id == child.id
    assert len(store._db.find("select id from session")) == 2


def test_rows_that_come_while_a_session_is_rotated_are_not_lost(meet: Meet, store: Store) -> None:
    """B5, E1: whoever is second is told."""
    session = store.open_session(NewSession("c")).id
    met = meet(
        statements.SET_SUCCESSOR,
        lambda: store.rotate(session, "w", 0, "full", [say("x")]),
        lambda: store.append(session, "other", 0, [say("y")]),
    )
    assert (isinstance(met.first, Fenced), met.second) == (True, 1)
    assert store.load(session).version == 1


def test_a_session_is_not_gone_back_to_while_a_message_comes_in(meet: Meet, store: Store) -> None:
    """B9: the message is answered in the session that was the current one when it came."""
    old, new = (store.open_session(NewSession(CHAT)).id for _ in range(2))
    met = meet(
        turn_statements.ADD_MESSAGE,
        lambda: store.turns.accept(CHAT, ACCOUNT, "1/1/", "x"),
        lambda: store.resume(CHAT, old),
        after=True,
    )
    assert (met.first, met.waited, type(met.second).__name__) == (1, True, "AtWork")
    current = store.current(CHAT)
    assert current is not None
    assert current.id == new


@pytest.mark.parametrize("stale", [False, True])
def test_a_session_is_not_deleted_under_a_turn_that_begins(meet: Meet, store: Store, stale: bool) -> None:
    """F7, C2: the turn has its session, or it begins in none."""
    session = store.open_session(NewSession(CHAT)).id
    node = store.turns.join(NodeInfo("1"))
    seq = store.turns.accept(CHAT, ACCOUNT, "1/1/", "x", node)
    claim = store.turns.claim_one(node, CHAT)
    assert claim is not None
    assert seq is not None
    late = store.turns.now() + 1
    met = meet(
        turn_statements.BEGIN_MESSAGE,
        lambda: store.turns.begin(claim, [seq]),
        lambda: store.delete_stale(session, late) if stale else store.delete(session),
        after=True,
    )
    assert met.first is not None
    assert met.waited
    assert met.second is False if stale else type(met.second).__name__ == "AtWork"
    assert store.session(session) is not None


# --- messages


def test_a_message_that_comes_twice_at_once_is_stored_once(meet: Meet, store: Store) -> None:
    """C1: also in two conversations, as when a thread was made of it meanwhile."""
    met = meet(
        turn_statements.ADD_MESSAGE,
        lambda: store.turns.accept("a", ACCOUNT, "1/1/", "x"),
        lambda: store.turns.accept("b", ACCOUNT, "1/1/", "x"),
        after=True,
    )
    assert (met.first, met.second, met.waited) == (1, None, True)
    assert store._db.find("select id, next_seq, pending from conversation") == [("a", 1, 1)]


CLAIMED = "update conversation set owner = %s, last_owner = %s, epoch = epoch + 1 where id = 'c'"


@pytest.mark.parametrize("way", ["claim one", "accept"])
def test_a_conversation_that_another_one_is_about_to_have_is_not_taken_from_it(
    meet: Meet, store: Store, way: str
) -> None:
    """B6, B7: whoever waited for the other one's write looks at what it has written."""
    turns = store.turns
    first, second = (turns.join(NodeInfo("1", alone=False)) for _ in range(2))
    turns.accept("c", ACCOUNT, "chat/0/0", "x")
    ways: dict[str, Callable[[], Any]] = {
        "claim one": lambda: turns.claim_one(second, "c"),
        "accept": lambda: turns.accept("c", ACCOUNT, "chat/1/0", "y", second),
    }
    with psycopg.connect(meet.address) as other:
        other.execute(CLAIMED, (first, first))
        taking = threading.Thread(target=ways[way])
        taking.start()
        assert meet.wait_for(taking)
        other.commit()
        taking.join(LIMIT)
    assert store._db.find("select owner, epoch from conversation") == [(first, 1)]


def test_conversations_that_another_one_takes_while_one_looks_are_not_taken_from_it(meet: Meet, store: Store) -> None:
    """B6, B7: between the look at what is free and the lock on it."""
    turns = store.turns
    first, second = (turns.join(NodeInfo("1", alone=False)) for _ in range(2))
    turns.accept("c", ACCOUNT, "chat/0/0", "x")
    slowly = turn_statements.CLAIM.replace("where c.pending > 0", "where pg_advisory_xact_lock(7) is not null", 1)
    assert slowly != turn_statements.CLAIM
    wanted = {"node": second, "grace": -60.0, "age": -60.0, "limit": 10}
    taken: list[Found] = []
    with psycopg.connect(meet.address, autocommit=True) as other:
        other.execute("select pg_advisory_lock(7)")
        taking = threading.Thread(target=lambda: taken.extend(store._db.run(Sql(slowly, wanted))))
        taking.start()
        assert meet.wait_for(taking)
        other.execute(CLAIMED, (first, first))
        other.execute("select pg_advisory_unlock(7)")
        taking.join(LIMIT)
    assert [found.rows for found in taken] == [[]]
    assert store._db.find("select owner, epoch from conversation") == [(first, 1)]


def test_a_lease_that_another_one_is_about_to_have_is_not_taken_from_it(meet: Meet, store: Store) -> None:
    """I3: also when the other one has joined since one looked."""
    turns = store.turns
    first, second = (turns.join(NodeInfo("1", alone=False)) for _ in range(2))
    turns.hold("telegram:bot", first, 30.0)
    turns.drop("telegram:bot", first)
    joined = "insert into node select 'new', expires, draining, version, capacity, address from node limit 1"
    held: list[int | None] = []
    with psycopg.connect(meet.address) as other:
        other.execute(joined)
        other.execute("update lease set owner = 'new', epoch = epoch + 1, expires = 1e12 where name = 'telegram:bot'")
        holding = threading.Thread(target=lambda: held.append(turns.hold("telegram:bot", second, 30.0)))
        holding.start()
        assert meet.wait_for(holding)
        other.commit()
        holding.join(LIMIT)
    assert held == [None]


@pytest.mark.parametrize("first", ["accept", "claim one", "claim"])
@pytest.mark.parametrize("second", ["accept", "claim one", "claim"])
def test_of_two_that_take_a_conversation_at_once_one_has_it(meet: Meet, store: Store, first: str, second: str) -> None:
    """B6, B7: whoever was first keeps it, and the claim of whoever was second is none."""
    turns = store.turns
    nodes = {name: turns.join(NodeInfo("1", alone=False)) for name in ("first", "second")}
    turns.accept("c", ACCOUNT, "chat/0/0", "x")
    ways: dict[str, tuple[str, Callable[[str], Any]]] = {
        "accept": (
            turn_statements.CLAIM_ONE,
            lambda name: turns.accept("c", ACCOUNT, f"chat/{name}/0", "x", nodes[name]),
        ),
        "claim one": (turn_statements.CLAIM_ONE, lambda name: turns.claim_one(nodes[name], "c")),
        "claim": (turn_statements.CLAIM, lambda name: turns.claim(nodes[name], 10)),
    }
    statement, take = ways[first]
    meet(statement, lambda: take("first"), lambda: ways[second][1]("second"), after=True)
    assert (turns.owner("c"), turns.claim_one(nodes["second"], "c")) == (nodes["first"], None)
    claim = turns.claim_one(nodes["first"], "c")
    assert claim is not None
    assert claim.epoch == 1


def test_an_owner_that_is_late_by_a_moment_writes_nothing(meet: Meet, store: Store) -> None:
    """B6, B7: it has closed its message already when another node takes the conversation over."""
    node = store.turns.join(NodeInfo("1"))
    seq = store.turns.accept(CHAT, ACCOUNT, "1/1/", "x", node)
    late = store.turns.claim_one(node, CHAT)
    assert late is not None
    assert seq is not None
    other = store.turns.join(NodeInfo("1"))

    def take_over() -> Any:
        store._db.run(Sql("update node set expires = 0 where id = ?", (node,)))
        claim = store.turns.claim_one(other, CHAT)
        assert claim is not None
        return store.turns.complete(claim, [seq], answers=[answer("new")])

    met = meet(turn_statements.COUNT_OUT, lambda: store.turns.complete(late, [seq], answers=[answer("old")]), take_over)
    told = [row.outgoing.text for row in store.turns.outbox_since(CHAT, 0)]
    assert len(told) == 1
    assert isinstance(met.first if told == ["new"] else met.second, Fenced)


def test_answers_of_a_conversation_are_seen_in_the_order_of_their_numbers(meet: Meet, store: Store) -> None:
    """C7: a client that goes on behind the last row it knows misses none."""
    node = store.turns.join(NodeInfo("1"))
    seq = store.turns.accept(CHAT, ACCOUNT, "1/1/", "x", node)
    claim = store.turns.claim_one(node, CHAT)
    assert claim is not None
    assert seq is not None
    met = meet(
        turn_statements.ADD_ANSWER,
        lambda: store.turns.post(CHAT, "word", answer("posted")),
        lambda: store.turns.complete(claim, [seq], answers=[answer("answer")]),
        after=True,
    )
    assert met.waited
    assert [row.outgoing.text for row in store.turns.outbox_since(CHAT, 0)] == ["posted", "answer"]


# --- people


def test_a_code_joins_once(meet: Meet, store: Store) -> None:
    """G2"""
    ann = store.people.add("Ann", MEMBER, "telegram", "7")
    code = store.habits.make_code(ann.id, HERE)
    met = meet(habits_sql.DROP_CODE, lambda: store.habits.use_code(code.code), lambda: store.habits.use_code(code.code))
    assert sorted([met.first is None, met.second is None]) == [False, True]


def test_a_request_that_two_approve_makes_one_person(meet: Meet, store: Store) -> None:
    """G2"""
    pairing = store.people.pair("telegram", "7", "Ann", "7")
    assert pairing is not None

    def approve() -> Any:
        return store.people.approve(pairing.code)

    met = meet(people_sql.ADD_IDENTITY, approve, approve)
    assert sum(isinstance(one, StoreFailure) for one in (met.first, met.second)) == 1
    (person,) = store.people.people()
    assert [(one.sender, one.person) for one in store.people.identities()] == [("7", person.id)]


def test_there_is_one_owner_whoever_is_made_it_at_once(meet: Meet, store: Store) -> None:
    """G3"""
    met = meet(
        people_sql.ADD_PERSON,
        lambda: store.people.add("Ann", OWNER, "telegram", "7"),
        lambda: store.people.add("Bob", OWNER, "telegram", "8"),
    )
    assert sum(isinstance(one, StoreFailure) for one in (met.first, met.second)) == 1
    assert [person.role for person in store.people.people()] == [OWNER]


def test_an_identity_that_is_joined_to_somebody_who_is_removed_stays_out(meet: Meet, store: Store) -> None:
    """G3: the settings do not bring it back either."""
    ann = store.people.add("Ann", MEMBER, "telegram", "7")
    met = meet(
        people_sql.DELETE_PERSON,
        lambda: store.people.remove(ann.id),
        lambda: store.people.link(ann.id, "discord", "8"),
    )
    assert met.waited
    assert isinstance(met.second, StoreFailure)
    assert (store.people.people(), store.people.identities()) == ([], [])


def test_nothing_of_somebody_who_is_forgotten_comes_in_meanwhile(meet: Meet, store: Store) -> None:
    """G12: their conversation goes with what was on its way."""
    ann = store.people.add("Ann", MEMBER, "telegram", "7")
    store.turns.accept(CHAT, ACCOUNT, "1/1/", "x")
    store.people.assign(CHAT, ann.id)
    met = meet(
        people_sql.DELETE_CONVERSATION,
        lambda: store.people.forget(ann.id),
        lambda: store.turns.accept(CHAT, ACCOUNT, "1/2/", "y"),
    )
    assert met.waited
    assert met.second == 1  # of a conversation that begins anew, and is nobody's
    assert store.people.person_of(CHAT) == ""
    assert store.turns.open_seqs(CHAT) == [1]


def test_a_rule_that_was_taken_back_meanwhile_allows_nothing(meet: Meet, store: Store) -> None:
    """G4"""
    deed = Deed("shell", "/work", "local", "write", "make", "make", "")
    store.people.ask(QuestionRow("q", CHAT, "t", "approval", "?", expires=store.turns.now() + 60))
    assert store.people.close_question("q", "always", "owner", KeptAnswer(deed, ""))
    met = meet(approvals_sql.USE_RULE, lambda: store.approvals.use(deed, ""), lambda: store.approvals.revoke_all())
    assert (met.first, met.second) == (None, 1)


def test_the_steps_of_a_turn_that_meets_its_own_repetition_are_written_once(meet: Meet, store: Store) -> None:
    """C10: whoever repeats a call whose reply is late changes nothing."""
    session = store.open_session(NewSession(CHAT)).id
    node = store.turns.join(NodeInfo("1"))
    seq = store.turns.accept(CHAT, ACCOUNT, "1/1/", "x", node)
    claim = store.turns.claim_one(node, CHAT)
    assert claim is not None
    assert seq is not None
    done = Written(session, "w", 0, [say("x", seq), say("y", role="assistant")])

    def complete() -> Any:
        return store.turns.complete(claim, [seq], done, [answer("y")])

    met = meet(turn_statements.COUNT_OUT, complete, complete)
    assert (met.first, met.second, met.waited) == (2, 2, True)
    assert store.load(session).version == 2
    assert len(store.turns.outbox_since(CHAT, 0)) == 1
