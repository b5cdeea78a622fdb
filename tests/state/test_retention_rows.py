"""What is over is let go, a few rows a call, and what is open stays; run against the SQLite file and its twin."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from sqlite_file import explain
from store_places import ENGINES, new_place, read_rows, try_many, write_rows
from test_store_kill import check_file, run_and_kill
from turn_bench import ACCOUNT, CHAT, OTHER, USAGE, Bench, answer, make_bench, say

from hermes_base.store_place import is_address
from hermes_state.people_store import QuestionRow
from hermes_state.sql import retention_sql
from hermes_state.sql.store_sql import Store

MANY = 1_000
DAY = 86_400.0


@pytest.fixture
def bench(where: str) -> Iterator[Bench]:
    made = make_bench(where)
    yield made
    made.store.close()


def deal_with(bench: Bench, conversation: str = CHAT, *answers: str) -> int:
    """One message from its arrival to its end; its answers wait in the outbox."""
    claim, seq = bench.own(conversation=conversation), bench.accept(conversation)
    bench.turns.complete(claim, [seq], answers=[answer(text) for text in answers])
    bench.turns.release(claim)
    return seq


def send_all(bench: Bench, *, failed: bool = False) -> None:
    lease = bench.turns.hold(ACCOUNT, bench.join(), 60)
    assert lease is not None
    while row := bench.turns.outbox_take(ACCOUNT, "7", lease):
        if failed:
            bench.turns.outbox_fail(row.id, lease, "gone")
        else:
            bench.turns.outbox_sent(row.id, lease)
    bench.clock.move(120)  # the lease ends


def ask(bench: Bench, name: str) -> None:
    bench.store.people.ask(QuestionRow(name, CHAT, "t", "approval", "?", expires=bench.clock() + 10))


# --- rows


def test_old_rows_that_are_over_go(bench: Bench) -> None:
    """F7"""
    deal_with(bench, CHAT, "one", "two")
    send_all(bench)
    deal_with(bench, CHAT, "three")
    send_all(bench, failed=True)
    ask(bench, "q1")
    bench.store.people.close_question("q1", "yes", "ann")
    bench.turns.send_control(CHAT, "stop", {})
    node = bench.join()
    bench.own(node)
    assert len(bench.turns.take_controls(node)) == 1
    bench.clock.move(DAY)
    assert bench.turns.sweep(bench.clock() - DAY / 2, MANY) == 2 + 3 + 1 + 1
    assert bench.turns.sweep(bench.clock() - DAY / 2, MANY) == 0
    assert bench.turns.outbox_since(CHAT, 0) == []
    assert bench.turns.inbox_since(CHAT, 0) == []
    assert bench.store.people.question("q1") is None


def test_what_is_open_stays_however_old(bench: Bench) -> None:
    """F7: a waiting message, an unsent answer, an open question, a control nobody took, and a lease's epoch."""
    deal_with(bench, CHAT, "unsent")
    waiting = bench.accept()
    ask(bench, "q1")
    bench.turns.send_control(OTHER, "stop", {})
    lease = bench.turns.hold(ACCOUNT, bench.join(), 1)
    bench.clock.move(1000 * DAY)
    assert bench.turns.sweep(bench.clock(), MANY) == 1  # the message that was dealt with
    assert bench.turns.open_seqs(CHAT) == [waiting]
    assert [row.outgoing.text for row in bench.turns.outbox_since(CHAT, 0)] == ["unsent"]
    assert bench.turns.depth() == (1, 1)
    question = bench.store.people.question("q1")
    assert question is not None
    assert question.state == "open"
    node = bench.join()
    bench.own(node, OTHER)
    assert [control.kind for control in bench.turns.take_controls(node)] == ["stop"]
    assert bench.turns.hold(ACCOUNT, node, 1) == (lease or 0) + 1


def test_what_is_young_stays_and_is_known_again(bench: Bench) -> None:
    """F7, C1: a message that was dealt with lately is not taken a second time, however long it had waited."""
    assert bench.turns.accept(CHAT, ACCOUNT, "7/1/", "x") == 1
    bench.clock.move(10 * DAY)
    bench.turns.complete(bench.own(), [1], answers=[answer("a")])
    send_all(bench)
    assert bench.turns.sweep(bench.clock() - DAY, MANY) == 0
    assert bench.turns.accept(CHAT, ACCOUNT, "7/1/", "x") is None
    assert len(bench.turns.outbox_since(CHAT, 0)) == 1


def test_numbers_are_never_given_twice(bench: Bench) -> None:
    """F7: a client's place stays good when all rows before it are gone."""
    for number in range(3):
        deal_with(bench, CHAT, f"answer {number}")
    deal_with(bench, OTHER, "other")
    send_all(bench)
    known = bench.turns.latest(CHAT)
    bench.clock.move(DAY)
    assert bench.turns.sweep(bench.clock(), MANY) == 8
    assert bench.turns.latest(CHAT) == known
    assert bench.turns.latest("nowhere") == (0, 0)
    deal_with(bench, CHAT, "next")
    row, seq = bench.turns.latest(CHAT)
    assert (row > known[0], seq) == (True, known[1] + 1)
    assert [found.outgoing.text for found in bench.turns.outbox_since(CHAT, known[0])] == ["next"]
    assert bench.turns.post(CHAT, "n", answer("word"))


def test_a_call_lets_go_of_a_few_rows_the_oldest_first(bench: Bench) -> None:
    """F7: one call is one short transaction."""
    for _ in range(5):
        deal_with(bench, CHAT, "a")
        send_all(bench)
    bench.clock.move(DAY)
    assert [bench.turns.sweep(bench.clock(), 3) for _ in range(5)] == [3, 3, 3, 1, 0]
    for _ in range(2):
        deal_with(bench, CHAT)
        bench.clock.move(1)
    bench.turns.sweep(bench.clock(), 1)
    assert [seq for seq, _ in bench.turns.inbox_since(CHAT, 0)] == [7]


def test_a_turn_that_goes_on_keeps_its_numbers(bench: Bench) -> None:
    """What a turn had said and was sent may go while it works; what it says afterwards is stored beside nothing."""
    claim, seq = bench.own(), bench.accept()
    bench.turns.begin(claim, [seq])
    bench.clock.move(10)
    assert bench.turns.begin(claim, [seq], answer("going on")) is not None
    send_all(bench)
    bench.clock.move(DAY)
    assert bench.turns.sweep(bench.clock(), MANY) == 1
    bench.turns.complete(claim, [seq], answers=[answer("done")])
    assert [row.outgoing.text for row in bench.turns.outbox_since(CHAT, 0)] == ["done"]


def test_words_are_found_in_kept_messages(bench: Bench) -> None:
    bench.accept(text='{"files": ["/home/uploads/abc123/x.png"]}')
    deal_with(bench, OTHER, "see /home/shown/def456/y")
    assert bench.turns.mentioned({"abc123", "def456", "none"}) == {"abc123", "def456"}
    assert bench.turns.mentioned(set()) == set()
    send_all(bench)
    bench.clock.move(DAY)
    bench.turns.sweep(bench.clock(), MANY)
    assert bench.turns.mentioned({"abc123", "def456", "none"}) == {"abc123"}


# --- sessions


def speak(bench: Bench, conversation: str = CHAT) -> str:
    session = bench.open_session(conversation)
    bench.store.append(session, "w", 0, [say("hello")])
    bench.clock.move(1)
    return session


def test_untouched_sessions_are_found_and_deleted(bench: Bench) -> None:
    """F7"""
    old, empty = speak(bench), bench.open_session(OTHER)
    bench.clock.move(1)
    middle = bench.clock()
    young = speak(bench)
    assert bench.store.stale_sessions(middle, 10) == [old, empty]
    assert bench.store.stale_sessions(middle, 1) == [old]
    assert bench.store.delete_stale(old, middle)
    assert not bench.store.delete_stale(old, middle)
    assert not bench.store.delete_stale(young, middle)
    assert bench.store.session(old) is None
    assert bench.store.search("hello") != []
    assert bench.store.delete_stale(young, bench.clock() + 1)
    assert bench.store.current(CHAT) is None
    assert bench.store.search("hello") == []


def test_a_session_with_open_messages_or_a_living_owner_stays(bench: Bench) -> None:
    """F7"""
    session, soon = speak(bench), bench.clock() + 1
    seq = bench.accept()
    assert bench.store.stale_sessions(soon, 10) == []
    assert not bench.store.delete_stale(session, soon)
    claim = bench.own()
    bench.turns.complete(claim, [seq])
    assert bench.store.stale_sessions(soon, 10) == []  # it is kept warm
    later = speak(bench)
    assert bench.store.stale_sessions(bench.clock() + 1, 10) == [session]  # the current one is another now
    bench.turns.release(claim)
    assert bench.store.stale_sessions(bench.clock() + 1, 10) == [session, later]


def test_a_dead_owner_keeps_no_session(bench: Bench) -> None:
    session = speak(bench)
    bench.own()
    bench.clock.move(DAY)
    assert bench.store.stale_sessions(bench.clock() + 1, 10) == [session]


def test_a_chain_is_as_young_as_its_last_session(bench: Bench) -> None:
    """F7: what was compacted belongs to a conversation that goes on."""
    parent = speak(bench)
    bench.clock.move(1)
    middle = bench.clock()
    child = bench.store.rotate(parent, "w", 1, "compaction", [say("summary")]).id
    assert bench.store.stale_sessions(middle, 10) == []
    assert not bench.store.delete_stale(parent, middle)
    assert bench.store.stale_sessions(bench.clock() + 1, 10) == [parent, child]


def test_what_was_paid_stays(bench: Bench) -> None:
    """F7: the ledger counts what is gone."""
    session = bench.open_session()
    bench.store.append(session, "w", 0, [say("x")], [USAGE])
    assert bench.store.delete_stale(session, bench.clock() + 1)
    assert bench.store.usage().calls == 1


# --- any history

CHATS = (CHAT, OTHER)
moves = st.sampled_from(
    ["accept", "deal", "answer", "send", "fail", "ask", "close", "control", "take", "wait", "sweep"]
)


@pytest.mark.parametrize("engine", ENGINES)
def test_whatever_is_open_before_a_sweep_is_there_after(engine: str) -> None:
    """F7: and no number that was given is given again."""
    programs = st.lists(st.tuples(moves, st.integers(0, 1), st.integers(1, 4)), max_size=40)
    try_many(engine, 60, partial(sweep_within, engine), programs)


def sweep_within(engine: str, program: list[tuple[str, int, int]]) -> None:
    with new_place(engine) as where:
        bench = make_bench(where)
        given_rows: set[int] = set()
        given_seqs: set[tuple[str, int]] = set()
        for number, (move, place, count) in enumerate([*program, ("sweep", 0, MANY)]):
            before = show_open(bench)
            places = {chat: bench.turns.latest(chat) for chat in CHATS}
            play(bench, move, CHATS[place], number, count)
            if move == "sweep":
                assert show_open(bench) == before
                assert {chat: bench.turns.latest(chat) for chat in CHATS} == places
            for chat in CHATS:
                new_rows = {row.id for row in bench.turns.outbox_since(chat, places[chat][0])}
                new_seqs = {(chat, seq) for seq, _ in bench.turns.inbox_since(chat, places[chat][1])}
                assert not new_rows & given_rows
                assert not new_seqs & given_seqs
                given_rows |= new_rows
                given_seqs |= new_seqs
        bench.store.close()


def play(bench: Bench, move: str, chat: str, number: int, count: int) -> None:
    if move == "accept":
        bench.accept(chat)
    elif move == "deal":
        deal_with(bench, chat)
    elif move == "answer":
        deal_with(bench, chat, *map(str, range(count)))
    elif move in ("send", "fail"):
        send_all(bench, failed=move == "fail")
    elif move == "ask":
        ask(bench, f"q{number}")
    elif move == "close":
        bench.store.people.void_orphans()
    elif move == "control":
        bench.turns.send_control(chat, "stop", {})
    elif move == "take":
        node = bench.join()
        claim = bench.turns.claim_one(node, chat)
        bench.turns.take_controls(node)
        if claim is not None:
            bench.turns.release(claim)
    elif move == "wait":
        bench.clock.move(count * 1000)
    else:
        bench.turns.sweep(bench.clock() + 1, count)


def show_open(bench: Bench) -> dict[str, Any]:
    """Everything that somebody still waits for."""
    unsent = [row for chat in CHATS for row in bench.turns.outbox_since(chat, 0) if row.state not in ("sent", "failed")]
    return {
        "messages": {chat: bench.turns.open_seqs(chat) for chat in CHATS},
        "answers": unsent,
        "questions": bench.store.people.open_questions(CHAT),
        "depth": bench.turns.depth(),
        "holdings": bench.turns.holdings(),
        "steps": [bench.turns.steps(chat, seq) for chat in CHATS for seq in bench.turns.open_seqs(chat)],
    }


# --- the file


@pytest.mark.parametrize("name", [name for name in vars(retention_sql) if name.isupper() and name[0] != "_"])
def test_no_statement_of_a_sweep_scans_a_table(tmp_path: Path, name: str) -> None:
    """F7, F3: what may go is found by an index of its own."""
    texts = getattr(retention_sql, name)
    path = tmp_path / "store.db"
    Store(path).close()
    for text in (texts,) if isinstance(texts, str) else (text for text, _ in texts):
        plan = explain(path, text)
        assert not [step for step in plan if step.startswith("SCAN")], plan


#: The last number that was given to a row of the outbox; the second engine leaves gaps.
LAST_NUMBER = (
    "select coalesce(max(seq), 0) from sqlite_sequence where name = 'outbox'",
    "select last_value from outbox_id_seq",
)
SWEEPER = """
import sys, time
from hermes_base.inbound import Address, Outgoing
from hermes_state.sql.store_sql import Store
from hermes_state.turns import NodeInfo

store = Store(sys.argv[1])
turns = store.turns
node = turns.join(NodeInfo("1", alone=True))
lease = turns.hold("t:b", node, 60)
print("start", turns.latest("c")[1], flush=True)
number, left = turns.latest("c")[1], []
for claim in turns.claim(node, 10):
    turns.complete(claim, [row.seq for row in turns.waiting(claim)])
while True:
    number += 1
    assert turns.accept("c", "t:b", f"7/{number}/", "x", node) == number
    left.append(number)
    if number % 5:
        claim = turns.ready(node)[0]
        turns.complete(claim, left, answers=[Outgoing(Address("t", "b", "7"), str(number))])
        left = []
        if number % 3:
            row = turns.outbox_take("t:b", "7", lease)
            turns.outbox_sent(row.id, lease)
    print("gone", turns.sweep(time.time(), 7), flush=True)
"""


@pytest.mark.slow
def test_a_sweep_that_is_killed_leaves_a_whole_store(where: str) -> None:
    """F7: SIGKILL at random moments; counts and rows agree, unsent answers are there, numbers go on."""
    chance, last = random.Random(3), 0
    for _ in range(12):
        lines = run_and_kill(SWEEPER, where, chance)
        ((opened,),) = read_rows(where, "select count(*) from inbox where done_epoch is null")
        ((pending, next_seq, last_row),) = read_rows(where, "select pending, next_seq, last_row from conversation")
        ((numbers,),) = read_rows(where, LAST_NUMBER[is_address(where)])
        ((kept,),) = read_rows(where, "select coalesce(max(id), 0) from outbox")
        states = {state for (state,) in read_rows(where, "select distinct state from outbox where ended is null")}
        assert opened == pending
        assert next_seq >= last
        assert max(last_row, kept) <= numbers if is_address(where) else max(last_row, kept) == numbers
        assert states <= {"waiting", "sending"}
        assert len(lines) > 0
        last = next_seq
    assert last > 20
    check_file(where)


def test_writers_go_on_during_a_sweep(where: str) -> None:
    """F7: between two calls of a sweep others write."""
    bench = make_bench(where)
    for _ in range(30):
        deal_with(bench)
    bench.clock.move(DAY)
    before = bench.clock()
    swept = 0
    while gone := bench.turns.sweep(before, 4):
        swept += gone
        bench.accept()
    assert swept == 30
    assert len(bench.turns.open_seqs(CHAT)) == 8
    bench.store.close()


def test_messages_of_an_older_program_go_by_their_arrival(where: str) -> None:
    """F7, H4: it does not note when a message was dealt with."""
    bench = make_bench(where)
    deal_with(bench)
    write_rows(where, "update inbox set done = null")
    bench.clock.move(DAY)
    assert bench.turns.sweep(bench.clock() - 2 * DAY, MANY) == 0
    assert bench.turns.sweep(bench.clock() - 1, MANY) == 1
    bench.store.close()
