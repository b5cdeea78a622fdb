"""What is stored together: a claim with its first message, choices with a begun turn, encoded forms with their rows;
and what many do at once."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from store_places import read_rows
from turn_bench import ACCOUNT, CHAT, USAGE, Bench, answer, make_bench, say, written

from hermes_base.errors import Fenced
from hermes_base.turn.journal import SYSTEM, Row, TurnEnd
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from hermes_state.turns import Claim, NodeInfo, Written

KEY = "agent:main:local:dm:one"


def test_a_message_brings_its_claim_along(store: Store) -> None:
    """B6: only where nobody who lives has one."""
    turns = store.turns  # type: ignore[attr-defined]
    mine, other = turns.join(NodeInfo("1")), turns.join(NodeInfo("1"))
    assert turns.accept(KEY, "local:local", "a", "{}", mine) == 1
    assert turns.claim_one(mine, KEY) == Claim(KEY, 1, mine)
    assert turns.accept(KEY, "local:local", "b", "{}", other) == 2
    assert turns.claim_one(other, KEY) is None
    assert turns.accept(KEY, "local:local", "b", "{}", other) is None


def test_choices_are_kept_with_the_turn_that_they_hold_for(store: Store) -> None:
    turns = store.turns  # type: ignore[attr-defined]
    node = turns.join(NodeInfo("1"))
    turns.accept(KEY, "local:local", "a", "{}", node)
    claim = turns.claim_one(node, KEY)
    with pytest.raises(Fenced):
        turns.begin(Claim(KEY, 9, node), [1], None, {"model": "wrong"})
    assert turns.choices(KEY) == {}
    turns.begin(claim, [1], None, {"model": "right"})
    assert turns.choices(KEY) == {"model": "right"}


def test_encoded_forms_are_kept_with_the_rows_or_not_at_all(store: Store) -> None:
    """A6, B2: a writer that is refused leaves nothing, and the bytes stand with the first row."""
    turns = store.turns  # type: ignore[attr-defined]
    node = turns.join(NodeInfo("1"))
    turns.accept(KEY, "local:local", "a", "{}", node)
    claim = turns.claim_one(node, KEY)
    turn = turns.begin(claim, [1])
    session = store.open_session(NewSession(KEY)).id
    late = Written(session, "late", 7, [Row({"role": "user", "content": "no"})], [(-1, "chat", b"wrong")])
    with pytest.raises(Fenced):
        turns.append(claim, 1, late)
    assert not store.load(session).frozen

    journal = StoreJournal(lambda: store, NewSession(KEY), owned=True)
    journal.load()
    journal.bind(claim, turn, lambda end: ())
    journal.freeze(SYSTEM, "chat", b"prompt")
    assert not store.load(session).frozen
    journal.append([Row({"role": "user", "content": "yes"}, inbox=(1,))])
    assert store.load(session).frozen == {(SYSTEM, "chat"): b"prompt"}
    journal.freeze(SYSTEM, "other", b"again")
    journal.finish([Row({"role": "assistant", "content": "done"})], (), TurnEnd("done"))
    assert set(store.load(session).frozen) == {(SYSTEM, "chat"), (SYSTEM, "other")}
    with pytest.raises(Fenced):
        journal.freeze(SYSTEM, "chat", b"too late")


# --- whose a row is, and many at once


@pytest.fixture
def bench(where: str) -> Iterator[Bench]:
    made = make_bench(where)
    yield made
    made.store.close()


def test_rows_and_calls_say_whose_turn_they_are_of(bench: Bench, where: str) -> None:
    """B6: seq, a number that counts up within the turn, and the epoch; also over a rotation and a takeover."""
    turns, session, claim = bench.turns, bench.open_session(), bench.own()
    bench.store.append(session, "w", 0, [say("before all turns")], [USAGE])
    bench.accept()
    bench.accept()
    turns.append(claim, 1, written(session, 1, say("a"), say("b")), [USAGE])
    child = turns.rotate(claim, 1, written(session, 3, say("c")), "compaction").id
    node = turns.join(NodeInfo("1", alone=True))
    claim = bench.own(node)
    turns.complete(claim, [1], written(child, 1, say("d")), [answer("x")], [USAGE, USAGE])
    turns.complete(claim, [2], written(child, 2, say("e")), [answer("y")], [USAGE])
    assert read_rows(where, "select seq, n, epoch, position from message order by id") == [
        (None, None, 0, 0),
        (1, 1, 1, 1),
        (1, 2, 1, 2),
        (1, 3, 1, 0),
        (1, 4, 2, 1),
        (2, 1, 2, 2),
    ]
    assert read_rows(where, "select seq, call from usage order by id") == [(None, None), (1, 1), (1, 2), (1, 3), (2, 1)]
    assert read_rows(where, "select conversation, seq, n, account, chat from outbox order by id") == [
        (CHAT, 1, 1, ACCOUNT, "7"),
        (CHAT, 2, 1, ACCOUNT, "7"),
    ]
    assert read_rows(where, "select seq, done_epoch, taken from inbox order by seq") == [(1, 2, 0), (2, 2, 0)]


def test_deleting_a_session_leaves_its_messages_on_their_way(bench: Bench, where: str) -> None:
    turns, session, claim = bench.turns, bench.open_session(), bench.own()
    bench.accept()
    bench.accept()
    turns.complete(claim, [1], written(session, 0, say("a", 1)), [answer("x")])
    bench.store.delete(session)
    assert turns.depth() == (1, 1)
    assert [row.seq for row in turns.waiting(claim)] == [2]


def test_threads_accept_and_claim_at_once(bench: Bench) -> None:
    """C1, C3, B6: every message has one place, no place is empty, and every conversation one owner."""
    nodes = [bench.join() for _ in range(4)]
    places: list[int | None] = []
    claims: list[Claim] = []
    barrier = threading.Barrier(4)

    def work(node: str) -> None:
        barrier.wait()
        for number in range(30):
            places.append(bench.turns.accept(CHAT, ACCOUNT, f"7/{number}/", "x"))
            bench.turns.accept(f"c{number}", ACCOUNT, f"{node}/{number}/", "x")
            claims.extend(bench.turns.claim(node, 3))

    threads = [threading.Thread(target=work, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(place for place in places if place is not None) == list(range(1, 31))
    claims.extend(bench.turns.claim(nodes[0], 100))
    owned = [claim.conversation for claim in claims]
    assert sorted(owned) == sorted({CHAT, *(f"c{number}" for number in range(30))})


def test_a_reader_beside_the_owner_sees_the_state(bench: Bench, where: str) -> None:
    """F6: `status` looks without touching."""
    bench.accept()
    with closing(Store.open_readonly(where)) as reader:
        assert reader.turns.depth() == (1, 0)
        assert [row.conversation for row in reader.turns.holdings()] == [CHAT]
