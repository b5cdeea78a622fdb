"""A gateway that is killed at any moment leaves every call whole: done, or not begun."""

import json
import random
from contextlib import closing

import pytest
from store_places import read_rows
from test_store_kill import check_file, run_and_kill

from hermes_base.inbound import Address, Outgoing
from hermes_state.sql.store_sql import Store
from hermes_state.turns import NodeInfo

WORKER = """
import sys
from hermes_base.inbound import Address, Outgoing
from hermes_base.turn.journal import Row, UsageRow
from hermes_state.store import NewSession
from hermes_state.sql.store_sql import Store
from hermes_state.turns import NodeInfo, Written

store = Store(sys.argv[1])
turns = store.turns
info = store.current("c") or store.open_session(NewSession("c"))
node = turns.join(NodeInfo("1", alone=True))
number = turns.latest("c")[1]
print("start", number, flush=True)

def work():
    for claim in turns.claim(node, 10) + turns.ready(node):
        seqs = [row.seq for row in turns.waiting(claim)]
        if not seqs:  # it was claimed a moment ago, and done
            continue
        turn = turns.begin(claim, seqs)
        version = store.load(info.id).version
        if set(seqs) - turn.taken:
            row = Row({"role": "user", "content": "question"}, inbox=tuple(seqs))
            version = turns.append(claim, turn.seq, Written(info.id, "w", version, [row]), [UsageRow("p", "m")])
        turns.step(claim, turn.seq, turn.attempt, "tool", {"attempt": turn.attempt})
        row = Row({"role": "assistant", "content": "answer"})
        answers = [Outgoing(Address("t", "b", "7"), f"{seq}") for seq in seqs]
        turns.complete(claim, seqs, Written(info.id, "w", version, [row]), answers, [UsageRow("p", "m")])
        print("done", *seqs, flush=True)

work()
while True:
    number += 1
    print("accepted", turns.accept("c", "t:b", f"7/{number}/", f"text {number}"), flush=True)
    if number % 3 == 0:
        work()
"""


def check_whole(where: str, lines: list[str]) -> None:
    """All-or-nothing for each call, and everything the worker was told is there."""
    inbox = read_rows(where, "select seq, done_epoch is not null, attempts, taken from inbox order by seq")
    seqs, done = [row[0] for row in inbox], {row[0] for row in inbox if row[1]}
    assert seqs == list(range(1, len(seqs) + 1))
    assert read_rows(where, "select next_seq, pending from conversation") == [(len(seqs), len(seqs) - len(done))]
    told = [line.split() for line in lines]
    assert {int(words[1]) for words in told if words[0] == "accepted"} <= set(seqs)
    assert {int(seq) for words in told if words[0] == "done" for seq in words[1:]} <= done
    assert sorted(int(json.loads(body)["text"]) for (body,) in read_rows(where, "select body from outbox")) == sorted(
        done
    )
    assert all(taken for _, is_done, _, taken in inbox if is_done)
    taken_open = [seq for seq, is_done, _, taken in inbox if taken and not is_done]
    rows = read_rows(where, "select seq, count(*), max(n) from message group by seq")
    assert all(number == last for _, number, last in rows)
    assert {seq for seq, number, _ in rows if number == 1} <= set(taken_open)
    assert read_rows(where, "select count(*) from message") == read_rows(where, "select count(*) from usage")
    assert read_rows(where, "select count(*) from message") == read_rows(where, "select version from session")
    assert not {seq for (seq,) in read_rows(where, "select distinct seq from turn_step")} & done


@pytest.mark.slow
def test_a_killed_worker_leaves_every_call_whole(where: str) -> None:
    """B6, C1, C10: SIGKILL at random moments of accept, claim, begin, append, step and complete; the next start goes on
    at once, and in the end every message is answered once."""
    chance = random.Random(5)
    for _ in range(15):
        lines = run_and_kill(WORKER, where, chance)
        assert lines[0].startswith("start")
        check_whole(where, lines)
    with closing(Store(where)) as store:
        node = store.turns.join(NodeInfo("1", alone=True))
        for claim in store.turns.claim(node, 10):
            seqs = [row.seq for row in store.turns.waiting(claim)]
            assert store.turns.begin(claim, seqs) is not None
            store.turns.complete(claim, seqs, answers=[Outgoing(Address("t", "b", "7"), str(seq)) for seq in seqs])
        accepted = store.turns.latest("c")[1]
        answers = [int(row.outgoing.text) for row in store.turns.outbox_since("c", 0, limit=100_000)]
        assert sorted(answers) == list(range(1, accepted + 1))
        assert accepted > 20
    check_file(where)
