"""A late owner writes nothing: at each of an owner's calls the store is, to the last byte, what it was before."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from turn_bench import ACCOUNT, CHAT, USAGE, Bench, answer, make_bench, say, written

from hermes_base.errors import Fenced
from hermes_state.sql.engines.engine import Transaction
from hermes_state.turns import LEASE_SECONDS, Claim, NodeInfo


@pytest.fixture
def bench(where: str) -> Iterator[Bench]:
    made = make_bench(where)
    yield made
    made.store.close()


def dump(bench: Bench) -> str:
    """Everything that the store holds."""
    return bench.store._db.read(_dump_tables)


def _dump_tables(db: Transaction) -> str:
    """All rows of all tables; those that the search index is made of stand for the index."""
    names = [name for (name,) in db.execute("select name from stored_tables order by name").rows]
    return repr({name: db.execute(f"select * from {name}").rows for name in names if name != "search"})


Call = Callable[[Bench, Claim, str], Any]
CALLS: Mapping[str, Call] = {
    "begin": lambda it, claim, _: it.turns.begin(claim, [1, 2], answer("going on")),
    "append": lambda it, claim, session: it.turns.append(claim, 1, written(session, 1, say("late", 2)), [USAGE]),
    "rotate": lambda it, claim, session: it.turns.rotate(claim, 1, written(session, 1, say("late", 2)), "compaction"),
    "step": lambda it, claim, _: it.turns.step(claim, 1, 1, "late", {}),
    "complete": lambda it, claim, session: it.turns.complete(
        claim, [1], written(session, 1, say("late", 1)), [answer("late")], [USAGE], "new"
    ),
    "complete without rows": lambda it, claim, _: it.turns.complete(claim, [2], answers=[answer("late")]),
    "fail": lambda it, claim, _: it.turns.fail(claim, 1, "late", 2e9),
}


def take_over(bench: Bench, claim: Claim) -> None:
    bench.clock.move(LEASE_SECONDS)
    assert bench.turns.claim(bench.join(), 10)[0].epoch == claim.epoch + 1


def take_again(bench: Bench, claim: Claim) -> None:
    """The same node has it again: its earlier turn is late all the same."""
    bench.turns.release(claim)
    bench.own(claim.node)


def give_up(bench: Bench, claim: Claim) -> None:
    bench.turns.release(claim)


def leave(bench: Bench, claim: Claim) -> None:
    bench.turns.leave(claim.node)


def start_anew(bench: Bench, claim: Claim) -> None:
    bench.own(bench.turns.join(NodeInfo("2", alone=True)))


LOSSES = (take_over, take_again, give_up, leave, start_anew)


def prepare(bench: Bench) -> tuple[Claim, str]:
    """A turn under way: one row is written, one step, and a second message waits."""
    session, claim = bench.open_session(), bench.own()
    bench.accept()
    bench.accept()
    bench.turns.begin(claim, [1])
    bench.turns.append(claim, 1, written(session, 0, say("hello", 1)), [USAGE])
    bench.turns.step(claim, 1, 1, "tool", {"name": "ls"})
    return claim, session


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
def test_a_late_owner_writes_nothing(bench: Bench, name: str, lose: Callable[[Bench, Claim], None]) -> None:
    """B6, B7, C1"""
    claim, session = prepare(bench)
    lose(bench, claim)
    before = dump(bench)
    with pytest.raises(Fenced) as caught:
        CALLS[name](bench, claim, session)
    assert caught.value.kept
    assert not bench.turns.release(claim)
    assert bench.turns.waiting(claim) == []
    assert dump(bench) == before


@pytest.mark.parametrize("name", CALLS)
def test_the_owner_does_write(bench: Bench, name: str) -> None:
    """The other half: each of those calls changes the store of its owner, also when its heartbeat is late but nobody
    has taken the conversation over."""
    claim, session = prepare(bench)
    bench.clock.move(2 * LEASE_SECONDS)
    before = dump(bench)
    CALLS[name](bench, claim, session)
    assert dump(bench) != before


SENDS: Mapping[str, Callable[[Bench, int, int], None]] = {
    "part": lambda it, row, lease: it.turns.outbox_part(row, lease, "late"),
    "sent": lambda it, row, lease: it.turns.outbox_sent(row, lease, "late"),
    "back": lambda it, row, lease: it.turns.outbox_back(row, lease, 0, certain=True),
    "fail": lambda it, row, lease: it.turns.outbox_fail(row, lease, "late"),
    "take": lambda it, _, lease: it.turns.outbox_take(ACCOUNT, "7", lease) and None,
}


@pytest.mark.parametrize("name", SENDS)
@pytest.mark.parametrize("ended", [False, True])
def test_a_late_sender_writes_nothing(bench: Bench, name: str, ended: bool) -> None:
    """B7, C7: once the account's next holder has the row, and after it has sent it."""
    turns = bench.turns
    turns.post(CHAT, "1", answer("1"))
    late = turns.hold(ACCOUNT, bench.join(), 5) or 0
    row = turns.outbox_take(ACCOUNT, "7", late)
    assert row is not None
    bench.clock.move(5)
    lease = turns.hold(ACCOUNT, bench.join(), 5) or 0
    assert turns.outbox_take(ACCOUNT, "7", lease) is not None
    if ended:
        turns.outbox_sent(row.id, lease, "m1")
    before = dump(bench)
    with pytest.raises(Fenced):
        SENDS[name](bench, row.id, late)
    assert dump(bench) == before
