"""Messages, turns and ownership, as the store keeps them."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from turn_bench import ACCOUNT, CHAT, OTHER, USAGE, Bench, answer, make_bench, say, written

from hermes_base.errors import AtWork, Fenced, StoreFailure
from hermes_base.turn.journal import Row, head_row, shown_text
from hermes_state.store import NewSession
from hermes_state.turns import (
    FRESH_SECONDS,
    GRACE_SECONDS,
    LEASE_SECONDS,
    MAX_ATTEMPTS,
    Claim,
    ConversationStand,
    MessageTimes,
    NodeInfo,
)


@pytest.fixture
def bench(where: str) -> Iterator[Bench]:
    made = make_bench(where)
    yield made
    made.store.close()


# --- processes


def test_a_node_lives_by_its_heartbeat(bench: Bench) -> None:
    """B7: without a heartbeat a node is dead after the lease, and stays dead."""
    node = bench.join()
    bench.clock.move(LEASE_SECONDS - 1)
    assert bench.turns.heartbeat(node)
    bench.clock.move(LEASE_SECONDS - 1)
    assert bench.turns.heartbeat(node)
    bench.clock.move(LEASE_SECONDS)
    assert not bench.turns.heartbeat(node)
    assert not bench.turns.heartbeat(node)
    assert not bench.turns.heartbeat("nobody")
    assert bench.join() != node


def test_a_lone_node_claims_at_once_what_a_dead_one_had(bench: Bench) -> None:
    """B7: who owns the home by lock waits for nobody: neither for a conversation nor for an account."""
    dead = bench.join()
    bench.accept()
    first = bench.turns.claim(dead, 10)
    assert bench.turns.hold(ACCOUNT, dead, 60) == 1
    node = bench.turns.join(NodeInfo("1", alone=True))
    assert bench.turns.claim(node, 10) == [Claim(CHAT, first[0].epoch + 1, node)]
    assert bench.turns.hold(ACCOUNT, node, 60) == 2
    assert not bench.turns.heartbeat(dead)


def test_a_node_that_joins_others_takes_nothing_from_them(bench: Bench) -> None:
    """B6"""
    first = bench.join()
    bench.accept()
    claims = bench.turns.claim(first, 10)
    second = bench.join()
    assert len(claims) == 1
    assert bench.turns.claim(second, 10) == []
    assert bench.turns.claim_one(second, CHAT) is None
    assert bench.turns.ready(first) == claims
    assert bench.turns.ready(second) == []
    assert bench.turns.fair(first) == (2, 1, 1, True)
    assert bench.turns.fair(second) == (2, 1, 0, True)


def test_a_dead_or_draining_node_claims_nothing(bench: Bench) -> None:
    """C14: what drains goes on with what it owns."""
    node, other = bench.join(), bench.join()
    mine = bench.own(node)
    bench.turns.drain(node)
    bench.accept()
    bench.accept(OTHER)
    assert bench.turns.claim(node, 10) == []
    assert bench.turns.claim_one(node, OTHER) is None
    assert bench.turns.claim_one(node, CHAT) == mine
    assert bench.turns.ready(node) == [mine]
    bench.clock.move(LEASE_SECONDS)
    assert bench.turns.claim(other, 10) == []
    assert bench.turns.claim_one(other, "c") is None
    assert "c" not in bench.store.people.conversations_of("")
    assert bench.turns.claim("nobody", 10) == []


def test_nobody_waits_for_a_node_that_drains(bench: Bench) -> None:
    """C14"""
    warm, other = bench.join(), bench.join()
    claim = bench.own(warm)
    bench.turns.drain(warm)
    bench.turns.release(claim)
    bench.accept()
    assert bench.turns.claim(other, 10) == [Claim(CHAT, claim.epoch + 1, other)]


def test_leaving_gives_everything_back(bench: Bench) -> None:
    """C14: the next node needs no patience."""
    node, other = bench.join(), bench.join()
    bench.accept()
    claim = bench.turns.claim(node, 10)[0]
    bench.turns.hold(ACCOUNT, node, 60)
    bench.turns.leave(node)
    with pytest.raises(Fenced):
        bench.turns.begin(claim, [1])
    assert bench.turns.claim(other, 10) == [Claim(CHAT, claim.epoch + 1, other)]
    assert bench.turns.hold(ACCOUNT, other, 60) == 2
    assert bench.turns.fair(other) == (1, 1, 1, True)


# --- messages


def test_a_message_is_accepted_once(bench: Bench) -> None:
    """C1: however often the platform sends it; a duplicate leaves no gap and no trace."""
    turns = bench.turns
    assert turns.accept(CHAT, ACCOUNT, "7/1/", "one") == 1
    assert turns.accept(CHAT, ACCOUNT, "7/1/", "again") is None
    assert turns.accept(OTHER, ACCOUNT, "7/1/", "elsewhere") is None
    assert turns.accept(CHAT, "telegram:second", "7/1/", "another account") == 2
    assert turns.accept(CHAT, ACCOUNT, "7/2/", "two") == 3
    assert turns.inbox_since(CHAT, 0) == [(1, "one"), (2, "another account"), (3, "two")]
    assert turns.inbox_since(CHAT, 1, limit=1) == [(2, "another account")]
    assert turns.depth() == (3, 0)
    assert turns.latest(CHAT) == (0, 3)
    assert turns.latest(OTHER) == (0, 0)


def test_any_text_is_accepted(bench: Bench) -> None:
    bench.turns.accept("c\ud800", "a\0", "\ud83d\ude00/", "lone \ud800 and joined \ud83d\ude00")
    assert bench.turns.accept("c\ud800", "a\0", "\ud83d\ude00/", "again") is None
    assert bench.turns.inbox_since("c\ud800", 0) == [(1, "lone \ufffd and joined 😀")]


def test_the_revisions_of_a_message_are_found(bench: Bench) -> None:
    """C1: an edit is a message of its own, found by the stem; what only looks alike is not."""
    turns, claim = bench.turns, bench.own()
    names = ["7/5/", "7/5/a", "7/5/b", "7/51/", "7/5/9/", "8/5/"]
    seqs = {name: turns.accept(CHAT, ACCOUNT, name, name) for name in names}
    turns.accept(CHAT, "telegram:second", "7/5/c", "another account's")
    assert turns.begin(claim, [1]) is not None
    assert turns.begin(claim, [2]) is not None
    turns.complete(claim, [2])
    assert turns.find_message(ACCOUNT, "7/5") == [(1, True, False), (2, True, True), (3, False, False)]
    assert turns.find_message(ACCOUNT, "7/5/9") == [(seqs["7/5/9/"], False, False)]
    assert turns.find_message(ACCOUNT, "7/6") == []


def test_work_goes_to_who_had_it_last_and_then_to_anybody(bench: Bench) -> None:
    """B6: for a moment it waits for the living node that has the warm agent."""
    warm, other = bench.join(), bench.join()
    claim = bench.own(warm)
    assert bench.turns.release(claim)
    assert not bench.turns.release(claim)
    bench.accept()
    assert bench.turns.claim(other, 10) == []
    assert bench.turns.claim(other, 10, late=True) == []
    bench.clock.move(GRACE_SECONDS + 0.1)
    assert bench.turns.claim(other, 10, late=True) == [Claim(CHAT, claim.epoch + 1, other)]
    bench.accept(OTHER)
    assert bench.turns.claim(warm, 10, late=True) == []
    assert [found.conversation for found in bench.turns.claim(warm, 10)] == [OTHER]


def test_the_longest_waiting_is_claimed_first(bench: Bench) -> None:
    """C3"""
    node = bench.join()
    for number in range(5):
        bench.accept(f"c{4 - number}")
        bench.clock.move(0.5)
    bench.accept("c4")
    assert [claim.conversation for claim in bench.turns.claim(node, 2)] == ["c4", "c3"]
    assert [claim.conversation for claim in bench.turns.claim(node, 9)] == ["c2", "c1", "c0"]
    assert [claim.conversation for claim in bench.turns.ready(node)] == ["c4", "c3", "c2", "c1", "c0"]


def test_a_dead_owners_work_is_taken_over_under_a_new_epoch(bench: Bench) -> None:
    """B7"""
    dead, node = bench.join(), bench.join()
    bench.accept()
    first = bench.turns.claim(dead, 10)[0]
    bench.clock.move(LEASE_SECONDS / 2)
    bench.turns.heartbeat(node)
    assert bench.turns.claim(node, 10) == []
    bench.clock.move(LEASE_SECONDS / 2)
    assert bench.turns.claim(node, 10) == [Claim(CHAT, first.epoch + 1, node)]
    assert bench.turns.waiting(first) == []


def test_a_conversation_can_be_owned_without_messages(bench: Bench) -> None:
    node = bench.join()
    claim = bench.own(node)
    assert bench.own(node) == claim
    assert bench.turns.ready(node) == []
    bench.accept()
    assert bench.turns.ready(node) == [claim]
    assert [row.body for row in bench.turns.waiting(claim)] == ["hello"]


def test_waiting_messages_come_in_order(bench: Bench) -> None:
    """C3: bursts keep all items."""
    claim = bench.own()
    for number in range(20):
        bench.accept(text=str(number))
    found = bench.turns.waiting(claim)
    assert [row.body for row in found] == [str(number) for number in range(20)]
    assert [row.seq for row in bench.turns.waiting(claim, limit=3)] == [1, 2, 3]
    assert (found[0].attempts, found[0].taken, found[0].begun, found[0].accepted) == (0, False, None, bench.clock.time)


def test_holdings_show_who_has_what(bench: Bench) -> None:
    """B7"""
    node = bench.join()
    bench.accept()
    bench.own(node, OTHER)
    assert bench.turns.holdings()[0].conversation == CHAT
    shown = {row.conversation: (row.epoch, row.owner, row.live, row.pending) for row in bench.turns.holdings()}
    assert shown == {CHAT: (0, "", False, 1), OTHER: (1, node, True, 0)}
    bench.clock.move(LEASE_SECONDS)
    assert [row.live for row in bench.turns.holdings()] == [False, False]
    assert len(bench.turns.holdings(limit=1)) == 1


# --- a turn


def test_a_turn_from_its_message_to_its_answer(bench: Bench) -> None:
    """C1, C2: rows, usage, answers and the end of the message come together."""
    turns, session, claim = bench.turns, bench.open_session(), bench.own()
    bench.accept()
    bench.accept()
    turn = turns.begin(claim, [2, 1])
    assert turn is not None
    assert (turn.seq, turn.seqs, turn.attempt, turn.taken, turn.given_up) == (1, (1, 2), 1, frozenset(), "")
    assert turns.append(claim, 1, written(session, 0, say("both", 1, 2)), [USAGE]) == 1
    assert [row.taken for row in turns.waiting(claim)] == [True, True]
    turns.step(claim, 1, 1, "tool", {"name": "ls"})
    last = written(session, 1, say("done", role="assistant"))
    assert turns.complete(claim, [1, 2], last, [answer("done"), answer("more")], [USAGE]) == 2
    assert [shown_text(row) for row in bench.store.load(session).rows] == ["both", "done"]
    assert bench.store.usage(session=session).calls == 2
    assert turns.waiting(claim) == []
    assert turns.steps(CHAT, 1) == []
    assert turns.ready(claim.node) == []
    assert turns.depth() == (0, 2)
    rows = turns.outbox_since(CHAT, 0)
    assert [(row.seq, row.n, row.outgoing.text, row.state) for row in rows] == [
        (1, 1, "done", "waiting"),
        (1, 2, "more", "waiting"),
    ]


def test_completing_twice_after_a_lost_reply_writes_once(bench: Bench) -> None:
    """C1, C7"""
    turns, session, claim = bench.turns, bench.open_session(), bench.own()
    bench.accept()
    turns.begin(claim, [1])
    call = ([1], written(session, 0, say("a", 1)), [answer("b")], [USAGE])
    assert turns.complete(claim, *call) == turns.complete(claim, *call) == 1
    assert bench.store.load(session).version == 1
    assert bench.store.usage().calls == 1
    assert len(turns.outbox_since(CHAT, 0)) == 1
    assert turns.depth() == (0, 1)
    assert bench.store.delete(session)
    assert turns.complete(claim, *call) == 1


def test_a_message_done_by_another_is_not_done_again(bench: Bench) -> None:
    """B6: also when the conversation came back to the late one under a new epoch."""
    turns, claim = bench.turns, bench.own()
    bench.accept()
    turns.complete(claim, [1], answers=[answer("first")])
    turns.release(claim)
    again = bench.own(claim.node)
    assert turns.begin(again, [1]) is None
    with pytest.raises(Fenced):
        turns.complete(again, [1], answers=[answer("second")])
    assert [row.outgoing.text for row in turns.outbox_since(CHAT, 0)] == ["first"]


def test_a_command_is_closed_while_a_turn_runs(bench: Bench) -> None:
    """C4: `/stop` is never stuck behind the turn that it stops."""
    turns, claim = bench.turns, bench.own()
    bench.accept(text="work")
    turns.begin(claim, [1])
    bench.accept(text="/stop")
    assert turns.complete(claim, [2], answers=[answer("stopped")]) is None
    assert [(row.seq, row.attempts) for row in turns.waiting(claim)] == [(1, 1)]
    assert turns.depth() == (1, 1)


def test_what_was_partly_closed_is_closed_to_the_end(bench: Bench) -> None:
    """C2: of a turn's messages those that are open are closed with its answer."""
    turns, claim = bench.turns, bench.own()
    bench.accept()
    bench.accept()
    turns.complete(claim, [2])
    turns.complete(claim, [1, 2], answers=[answer("both")])
    assert turns.depth() == (0, 1)
    assert turns.ready(claim.node) == []


def test_completing_nothing_or_what_is_not_there_is_refused(bench: Bench) -> None:
    claim = bench.own()
    bench.accept()
    for seqs in ([], [1, 7]):
        with pytest.raises(StoreFailure):
            bench.turns.complete(claim, seqs, answers=[answer("x")])
    assert bench.turns.depth() == (1, 0)
    assert bench.turns.begin(claim, []) is None
    assert bench.turns.begin(claim, [1, 7]) is None
    assert bench.turns.waiting(claim)[0].attempts == 0


def test_usage_of_a_turn_without_rows_is_kept(bench: Bench) -> None:
    """The money is spent even where nothing was written."""
    turns, claim = bench.turns, bench.own()
    bench.accept()
    turns.complete(claim, [1], usage=[USAGE])
    session = bench.open_session()
    bench.accept()
    turns.complete(claim, [2], usage=[USAGE, USAGE])
    assert (bench.store.usage().calls, bench.store.usage(session=session).calls) == (3, 2)


def test_a_second_attempt_says_that_it_goes_on(bench: Bench) -> None:
    """C10: and knows what the first one had done; the fourth is given up, and tells nothing."""
    turns, session = bench.turns, bench.open_session()
    bench.accept()
    told = []
    for attempt in range(1, MAX_ATTEMPTS + 2):
        claim = bench.own(turns.join(NodeInfo("1", alone=True)))
        turn = turns.begin(claim, [1], answer(f"going on {attempt}"))
        assert turn is not None
        assert (turn.attempt, turn.given_up) == (attempt, "attempts" if attempt > MAX_ATTEMPTS else "")
        assert turn.taken == (frozenset({1}) if attempt > 1 else frozenset())
        assert [(step.n, step.kind, step.body) for step in turns.steps(CHAT, 1)] == [(n, "t", {"n": n}) for n in told]
        if attempt == 1:
            turns.append(claim, 1, written(session, 0, say("it", 1)))
        turns.step(claim, 1, attempt, "t", {"n": attempt})
        told.append(attempt)
    assert [row.outgoing.text for row in turns.outbox_since(CHAT, 0)] == ["going on 2", "going on 3"]
    turns.complete(claim, [1], answers=[answer("excuse")])
    assert turns.depth() == (0, 3)


def test_an_old_turn_is_not_gone_on_with(bench: Bench) -> None:
    """C10"""
    bench.accept()
    claim = bench.own(bench.turns.join(NodeInfo("1", alone=True)))
    bench.turns.begin(claim, [1])
    bench.clock.move(FRESH_SECONDS)
    claim = bench.own(bench.turns.join(NodeInfo("1", alone=True)))
    turn = bench.turns.begin(claim, [1], answer("going on"))
    assert turn is not None
    assert turn.given_up == ""
    bench.clock.move(1)
    turn = bench.turns.begin(claim, [1], answer("going on"))
    assert turn is not None
    assert turn.given_up == "age"
    assert len(bench.turns.outbox_since(CHAT, 0)) == 1


def test_what_waited_long_without_a_turn_is_fresh(bench: Bench) -> None:
    """C2"""
    bench.accept()
    bench.clock.move(10 * FRESH_SECONDS)
    turn = bench.turns.begin(bench.own(), [1])
    assert turn is not None
    assert turn.given_up == ""


def test_what_a_turn_shows_is_kept_as_long_as_it_runs(bench: Bench) -> None:
    """C7, B7: by its owner alone; the newest counts, no step of the turn is lost by it, and the end takes it away."""
    turns, claim = bench.turns, bench.own()
    bench.accept()
    turns.begin(claim, [1])
    assert turns.find_shown(CHAT, 1) is None
    assert turns.keep_shown(claim, 1, {"text": "one"})
    assert turns.keep_shown(claim, 1, {"text": "one two \ud800"})
    turns.step(claim, 1, 1, "tool", {})
    assert turns.find_shown(CHAT, 1) == (claim.epoch, {"text": "one two \ud800"})
    assert [step.kind for step in turns.steps(CHAT, 1)] == ["tool"]
    assert not turns.keep_shown(replace(claim, epoch=claim.epoch - 1), 1, {"text": "late"})
    assert not turns.keep_shown(replace(claim, node="other"), 1, {"text": "late"})
    assert not turns.keep_shown(claim, 2, {"text": "no such message"})
    bench.clock.move(LEASE_SECONDS + GRACE_SECONDS)
    newer = bench.own()
    assert turns.find_shown(CHAT, 1) == (claim.epoch, {"text": "one two \ud800"})
    assert turns.keep_shown(newer, 1, {"text": "anew"})
    assert turns.find_shown(CHAT, 1) == (newer.epoch, {"text": "anew"})
    turns.complete(newer, [1])
    assert turns.find_shown(CHAT, 1) is None
    assert not turns.keep_shown(newer, 1, {"text": "after the end"})
    assert turns.find_shown(CHAT, 1) is None


def test_how_far_conversations_have_come(bench: Bench) -> None:
    """I2: what somebody who looks on compares from one look to the next, for any number of them."""
    turns, claim = bench.turns, bench.own()
    assert turns.standings([]) == {}
    assert turns.standings([OTHER]) == {}
    bench.accept()
    bench.accept()
    before = turns.standings([CHAT, OTHER])
    assert before == {CHAT: ConversationStand(claim.epoch, frozenset({1, 2}))}
    session = bench.open_session()
    turns.complete(claim, [1], written(session, 0, say("hello", 1)), [answer("hi")])
    after = turns.standings([CHAT])[CHAT]
    assert after == ConversationStand(claim.epoch, frozenset({2}), after.row, session, 1)
    assert after.row > 0
    many = [f"agent:main:telegram:dm:9{number}" for number in range(300)]
    for name in many:
        bench.accept(name)
    assert turns.standings([*many, CHAT, CHAT]) == {
        CHAT: after,
        **{name: ConversationStand(0, frozenset({1})) for name in many},
    }


def test_a_step_with_the_same_number_replaces(bench: Bench) -> None:
    turns, claim = bench.turns, bench.own()
    bench.accept()
    turns.step(claim, 1, 2, "tool", {"b": [1, {"x": "é\ud800"}]})
    turns.step(claim, 1, 1, "tool", {})
    turns.step(claim, 1, 2, "ended", {"ok": True})
    assert [(step.n, step.kind, step.body) for step in turns.steps(CHAT, 1)] == [
        (1, "tool", {}),
        (2, "ended", {"ok": True}),
    ]
    assert turns.steps(CHAT, 2) == []


def test_rotation_by_the_owner(bench: Bench) -> None:
    """B5"""
    turns, session, claim = bench.turns, bench.open_session(), bench.own()
    bench.accept()
    turns.append(claim, 1, written(session, 0, say("long")))
    child = turns.rotate(claim, 1, written(session, 1, say("short", 1)), "compaction")
    assert bench.store.current(CHAT) == child
    assert (child.parent, child.version) == (session, 1)
    assert turns.waiting(claim)[0].taken
    with pytest.raises(Fenced):
        turns.append(claim, 1, written(session, 1, say("late")))
    assert turns.complete(claim, [1], written(child.id, 1, say("end"))) == 2


def test_the_writers_version_still_counts(bench: Bench) -> None:
    """B2: an owner that does not know the transcript writes nothing, and no message is marked."""
    turns, session, claim = bench.turns, bench.open_session(), bench.own()
    foreign = bench.open_session(OTHER)
    bench.accept()
    for base, target, error in ((1, session, Fenced), (0, foreign, StoreFailure), (0, "gone", StoreFailure)):
        wrong = written(target, base, say("x", 1))
        with pytest.raises(error):
            turns.append(claim, 1, wrong, [USAGE])
        with pytest.raises(error):
            turns.complete(claim, [1], wrong, [answer("x")], [USAGE])
        with pytest.raises(error):
            turns.rotate(claim, 1, wrong, "compaction")
    assert bench.store.load(session).version == bench.store.load(foreign).version == 0
    assert bench.store.usage().calls == 0
    assert [row.taken for row in turns.waiting(claim)] == [False]
    assert turns.depth() == (1, 0)


def test_completing_can_end_the_session(bench: Bench) -> None:
    session, claim = bench.open_session(), bench.own()
    bench.accept(text="/new")
    bench.turns.complete(claim, [1], answers=[answer("a new one")], end_session="new")
    ended = bench.store.session(session)
    assert ended is not None
    assert ended.end_reason == "new"
    assert bench.store.current(CHAT) is None
    bench.accept(text="/new")
    bench.turns.complete(claim, [2], end_session="new")


def test_a_conversation_with_open_messages_is_moved_by_its_owner_alone(bench: Bench) -> None:
    """B6, B9: whoever else asks is refused, and nothing is changed; the owner moves it with the message that asks."""
    first, second = bench.open_session(), bench.open_session()
    claim = bench.own()
    bench.accept(text="hello")
    for move in (lambda: bench.store.resume(CHAT, first), lambda: bench.store.branch(first)):
        with pytest.raises(AtWork):
            move()
    copy = bench.store.branch(first, current=False)
    current = bench.store.current(CHAT)
    assert current is not None
    assert current.id == second
    assert copy.task == copy.id
    bench.turns.complete(claim, [1], go_on_in=first)
    moved = bench.store.current(CHAT)
    assert moved is not None
    assert moved.id == first
    assert bench.store.resume(CHAT, second).id == second
    bench.accept(text="again")
    with pytest.raises(StoreFailure, match="does not belong"):
        bench.turns.complete(claim, [2], go_on_in=bench.store.open_session(NewSession(OTHER)).id)
    assert [row.seq for row in bench.turns.waiting(claim)] == [2]


def test_a_session_is_not_deleted_under_its_turn(bench: Bench) -> None:
    """B6: as long as the process lives that is in the middle of it."""
    session, claim = bench.open_session(), bench.own()
    bench.accept()
    bench.turns.begin(claim, [1])
    with pytest.raises(AtWork):
        bench.store.delete(session)
    assert bench.store.session(session) is not None
    bench.clock.move(LEASE_SECONDS + 1)
    assert bench.store.delete(session)


def test_a_branch_has_the_rows_that_stand_and_their_bytes(bench: Bench) -> None:
    """A6, B5"""
    session, store = bench.open_session(), bench.store
    store.freeze(session, -1, "d", b"system")
    rows = [Row({"role": "user", "content": str(number)}, sent={"d": b"%d" % number}) for number in range(4)]
    store.append(session, "w", 0, [*rows, head_row(3)])
    whole, part = store.branch(session), store.branch(session, before=2, conversation=OTHER)
    assert [row.message["content"] for row in store.load(whole.id).rows] == ["0", "1", "2"]
    assert [row.sent for row in store.load(whole.id).rows] == [{"d": b"0"}, {"d": b"1"}, {"d": b"2"}]
    assert store.load(whole.id).frozen == store.load(session).frozen
    assert (part.conversation, part.version) == (OTHER, 2)
    assert [store.current(name) for name in (CHAT, OTHER)] == [whole, part]


def test_a_branch_never_ends_with_calls_that_have_no_result(bench: Bench) -> None:
    """B5: wherever it is cut, and while a round is under way: no model would take the copy."""
    session, store = bench.open_session(), bench.store
    calls = [{"id": id, "type": "function", "function": {"name": "todo", "arguments": "{}"}} for id in ("a", "b")]
    asks = {"role": "assistant", "content": "", "tool_calls": calls}
    done = [{"role": "tool", "tool_call_id": id, "content": id} for id in ("a", "b")]
    said = [{"role": "user", "content": "go"}, asks, *done, {"role": "assistant", "content": "on"}, asks, *done]
    kept = [0, 1, 1, 1, 4, 5, 5, 5, 8]
    for length in range(len(said) + 1):
        assert store.branch(session, current=False).version == kept[length]
        if length < len(said):
            store.append(session, "w", length, [Row(said[length])])
    for before, rows in enumerate(kept):
        copy = store.branch(session, before=before, current=False)
        assert [row.message for row in store.load(copy.id).rows] == said[:rows]


def test_the_last_session_of_a_chain_is_found_by_its_task(bench: Bench) -> None:
    """B10"""
    session, store = bench.open_session(), bench.store
    child = store.rotate(session, "w", 0, "compression", [Row({"role": "user", "content": "on"})])
    found = store.last_of(session)
    assert found is not None
    assert found.id == child.id
    store.delete(session)
    assert store.last_of(session) == found
    assert store.last_of("nothing") is None


def test_the_chats_that_somebody_spoke_in_last_are_found(bench: Bench) -> None:
    """G3"""
    bench.turns.choose(CHAT, {"person": "p-1", "role": "member"})
    bench.turns.choose(OTHER, {"model": "p-1"})
    people = bench.store.people
    assert [people.spoken_last_by(person) for person in ("p-1", "p-2", "")] == [[CHAT], [], []]


def test_a_failed_turn_waits_for_its_time(bench: Bench) -> None:
    """C2: nobody is handed what is not due; what came after it is not held up."""
    turns, node = bench.turns, bench.join()
    claim = bench.own(node)
    bench.accept()
    turns.begin(claim, [1])
    turns.fail(claim, 1, "no provider", turns.now() + 5)
    assert turns.waiting(claim) == []
    assert turns.ready(node) == []
    turns.release(claim)
    assert turns.claim(node, 10) == []
    bench.accept()
    claim = turns.claim(node, 10)[0]
    assert [row.seq for row in turns.waiting(claim)] == [2]
    turns.complete(claim, [2])
    assert turns.ready(node) == []
    bench.clock.move(5)
    assert turns.ready(node) == [claim]
    assert [(row.seq, row.attempts) for row in turns.waiting(claim)] == [(1, 1)]


# --- control, leases, choices


def test_control_messages_reach_the_owner_once(bench: Bench) -> None:
    """C4"""
    turns, node, other = bench.turns, bench.join(), bench.join()
    assert not turns.send_control(CHAT, "stop", {}).live
    bench.own(node)
    assert turns.send_control(CHAT, "steer", {"text": "left"}).live
    assert turns.take_controls(other) == []
    found = turns.take_controls(node)
    assert [(control.conversation, control.kind, control.body) for control in found] == [
        (CHAT, "stop", {}),
        (CHAT, "steer", {"text": "left"}),
    ]
    assert found[0].created == bench.clock.time
    assert turns.take_controls(node) == []
    bench.clock.move(LEASE_SECONDS)
    assert not turns.send_control(CHAT, "stop", {}).live


def test_a_lease_has_one_holder(bench: Bench) -> None:
    """B7: epochs only rise, and rise with each new holder."""
    turns = bench.turns
    first, second = bench.join(), bench.join()

    def pass_by(seconds: float) -> None:
        bench.clock.move(seconds)
        assert turns.heartbeat(first)
        assert turns.heartbeat(second)

    assert turns.hold("x", first, 5) == 1
    assert turns.hold("x", second, 5) is None
    pass_by(4)
    assert turns.hold("x", first, 5) == 1
    pass_by(4)
    assert turns.hold("x", second, 5) is None
    pass_by(1)
    assert turns.hold("x", second, 5) == 2
    turns.drop("x", first)
    assert turns.hold("x", first, 5) is None
    turns.drop("x", second)
    assert turns.hold("x", first, 5) == 3
    pass_by(5)
    assert turns.hold("x", first, 5) == 4
    assert turns.hold("y", second, 5) == 1


def test_the_leases_of_a_dead_node_are_free_at_once(bench: Bench) -> None:
    """I3: however long they were asked for; one that lives and is slow has them until it is taken for dead."""
    turns = bench.turns
    first, second = bench.join(), bench.join()
    assert turns.hold("x", first, 1000) == 1
    bench.clock.move(LEASE_SECONDS - 1)
    assert turns.heartbeat(second)
    assert turns.hold("x", second, 1000) is None
    bench.clock.move(1)
    assert turns.hold("x", second, 1000) == 2
    assert turns.hold("x", first, 1000) is None


def test_a_node_that_is_gone_gets_no_lease(bench: Bench) -> None:
    """B7: a call of the old node that comes late does not keep the new one waiting for a lease to pass."""
    turns, gone = bench.turns, bench.join()
    node = turns.join(NodeInfo("1", alone=True))
    assert turns.hold("x", gone, 60) is None
    assert turns.hold("x", node, 60) == 1


def test_choices_are_replaced_as_a_whole(bench: Bench) -> None:
    turns = bench.turns
    assert turns.choices(CHAT) == {}
    turns.choose(CHAT, {"model": "m", "deep": {"a": [1]}})
    turns.choose(CHAT, {"effort": "hoch ✓"})
    assert turns.choices(CHAT) == {"effort": "hoch ✓"}
    with pytest.raises(StoreFailure):
        turns.choose(CHAT, {"bad": object()})
    assert turns.choices(CHAT) == {"effort": "hoch ✓"}


# --- delivery


def texts(bench: Bench, state: str) -> list[str]:
    return [row.outgoing.text for row in bench.turns.outbox_since(CHAT, 0) if row.state == state]


def test_a_posted_word_is_there_once(bench: Bench) -> None:
    """C7"""
    turns = bench.turns
    sent: dict[str, Any] = {"kind": "question", "question": "q", "choices": ("a", "b")}
    assert turns.post(CHAT, "hello", answer("one", **sent))
    assert not turns.post(CHAT, "hello", answer("two"))
    assert turns.post(OTHER, "hello", answer("three"))
    assert turns.post(CHAT, "again", answer("four"))
    rows = turns.outbox_since(CHAT, 0)
    assert [(row.seq, row.n) for row in rows] == [(0, 1), (0, 2)]
    assert rows[0].outgoing == answer("one", **sent)
    assert turns.outbox_since(CHAT, rows[0].id) == rows[1:]
    assert len(turns.outbox_since(CHAT, 0, limit=1)) == 1
    assert turns.latest(CHAT) == (rows[1].id, 0)


def test_a_chat_gets_its_messages_in_order(bench: Bench) -> None:
    """C3, C9: one that waits for its time holds back the later ones of its chat, and of no other."""
    turns, node = bench.turns, bench.join()
    for name, chat in (("1", "7"), ("2", "7"), ("3", "8")):
        turns.post(CHAT, name, answer(name, chat))
    lease = turns.hold(ACCOUNT, node, 60)
    assert lease == 1
    assert turns.outbox_chats(ACCOUNT) == ["7", "8"]
    assert turns.outbox_chats("slack:bot") == []
    first = turns.outbox_take(ACCOUNT, "7", lease)
    assert first is not None
    assert (first.outgoing.text, first.state, first.attempts, first.unsure) == ("1", "sending", 1, False)
    turns.outbox_back(first.id, lease, turns.now() + 5, certain=True)
    assert turns.outbox_take(ACCOUNT, "7", lease) is None
    assert turns.outbox_take(ACCOUNT, "9", lease) is None
    other = turns.outbox_take(ACCOUNT, "8", lease)
    assert other is not None
    turns.outbox_fail(other.id, lease, "blocked")
    bench.clock.move(5)
    again = turns.outbox_take(ACCOUNT, "7", lease)
    assert again is not None
    assert (again.id, again.attempts, again.unsure) == (first.id, 2, False)
    assert turns.outbox_sent(again.id, lease, "m1")  # there is more
    second = turns.outbox_take(ACCOUNT, "7", lease)
    assert second is not None
    assert second.outgoing.text == "2"
    assert turns.outbox_chats(ACCOUNT) == ["7"]
    assert not turns.outbox_sent(second.id, lease, "m2")
    assert turns.outbox_chats(ACCOUNT) == []
    assert (texts(bench, "sent"), texts(bench, "failed")) == (["1", "2"], ["3"])
    assert turns.depth() == (0, 0)


def test_what_did_not_arrive_after_all_waits_again_from_that_part_on(bench: Bench) -> None:
    """C9: a platform may tell so when it was sent already; what arrived of it is not sent again."""
    turns = bench.turns
    turns.post(CHAT, "long", answer("long"))
    turns.post(CHAT, "next", answer("next"))
    lease = turns.hold(ACCOUNT, bench.join(), 60)
    assert lease is not None
    row = turns.outbox_take(ACCOUNT, "7", lease)
    assert row is not None
    turns.outbox_part(row.id, lease, "m1")
    assert turns.outbox_return(CHAT, "m1") is None  # it is being sent: later
    turns.outbox_part(row.id, lease, "m2")
    turns.outbox_sent(row.id, lease, "m3")
    assert turns.outbox_return(OTHER, "m2") is None
    assert turns.outbox_return(CHAT, "m") is None
    back = turns.outbox_return(CHAT, "m2")
    assert back is not None
    assert (back.id, back.state, back.parts_sent, back.platform_ids) == (row.id, "waiting", 1, ("m1",))
    assert turns.outbox_return(CHAT, "m2") is None
    assert turns.outbox_return(CHAT, "m3") is None  # it comes again anyway
    back = turns.outbox_return(CHAT, "m1")  # that is told in any order
    assert back is not None
    assert (back.id, back.parts_sent, back.platform_ids) == (row.id, 0, ())
    again = turns.outbox_take(ACCOUNT, "7", lease)
    assert again is not None
    assert (again.id, again.unsure) == (row.id, False)
    turns.outbox_sent(row.id, lease, "m4")
    lost = turns.outbox_return(CHAT, "m4", "It is gone.")
    assert lost is not None
    assert (lost.state, lost.platform_ids) == ("failed", ("m4",))
    assert turns.list_refused(0.0)[0].reason == "It is gone."
    assert texts(bench, "waiting") == ["next"]


def test_a_message_that_its_sender_left_behind_is_taken_up_again(bench: Bench) -> None:
    """C9: a chat has one sender at a time, so under the same lease, too; nobody knows whether it arrived."""
    turns = bench.turns
    turns.post(CHAT, "1", answer("1"))
    lease = turns.hold(ACCOUNT, bench.join(), 60)
    assert lease is not None
    first, again = (turns.outbox_take(ACCOUNT, "7", lease) for _ in range(2))
    assert first is not None
    assert again == replace(first, attempts=2, unsure=True)


def test_parts_that_arrived_are_not_sent_again(bench: Bench) -> None:
    """C7: after a crash in mid-delivery the next sender knows what arrived, and that it cannot know about one part."""
    turns = bench.turns
    turns.post(CHAT, "long", answer("long"))
    lease = turns.hold(ACCOUNT, bench.join(), 60)
    assert lease is not None
    row = turns.outbox_take(ACCOUNT, "7", lease)
    assert row is not None
    turns.outbox_part(row.id, lease, "m1")
    node = turns.join(NodeInfo("1", alone=True))
    lease = turns.hold(ACCOUNT, node, 60)
    assert lease is not None
    row = turns.outbox_take(ACCOUNT, "7", lease)
    assert row is not None
    assert (row.parts_sent, row.platform_ids, row.unsure, row.attempts) == (1, ("m1",), True, 2)
    turns.outbox_back(row.id, lease, 0, certain=True)
    row = turns.outbox_take(ACCOUNT, "7", lease)
    assert row is not None
    assert row.unsure  # that this attempt failed says nothing about the one before
    turns.outbox_part(row.id, lease, "m2")
    turns.outbox_back(row.id, lease, 0, certain=True)
    row = turns.outbox_take(ACCOUNT, "7", lease)
    assert row is not None
    assert not row.unsure
    turns.outbox_back(row.id, lease, 0, certain=False)
    row = turns.outbox_take(ACCOUNT, "7", lease)
    assert row is not None
    assert row.unsure
    turns.outbox_sent(row.id, lease)
    turns.outbox_sent(row.id, lease)
    done = turns.outbox_since(CHAT, 0)[0]
    assert (done.state, done.platform_ids, done.parts_sent, done.unsure) == ("sent", ("m1", "m2"), 2, False)
    with pytest.raises(Fenced):
        turns.outbox_fail(row.id, lease, "after all")


def test_a_sender_that_lost_its_lease_may_say_what_it_knows(bench: Bench) -> None:
    """C7: until the next holder takes the row, that it arrived is the truth, and saves the doubt."""
    turns = bench.turns
    turns.post(CHAT, "1", answer("1"))
    turns.post(CHAT, "2", answer("2"))
    late = turns.hold(ACCOUNT, bench.join(), 5)
    assert late is not None
    row = turns.outbox_take(ACCOUNT, "7", late)
    assert row is not None
    bench.clock.move(5)
    lease = turns.hold(ACCOUNT, bench.join(), 5)
    assert lease is not None
    turns.outbox_sent(row.id, late, "m1")
    following = turns.outbox_take(ACCOUNT, "7", lease)
    assert following is not None
    assert (following.outgoing.text, following.unsure) == ("2", False)


def test_nobody_sends_without_the_lease(bench: Bench) -> None:
    """B7, C7"""
    turns, node = bench.turns, bench.join()
    turns.post(CHAT, "1", answer("1"))
    for lease in (0, 1):
        with pytest.raises(Fenced):
            turns.outbox_take(ACCOUNT, "7", lease)
    lease = turns.hold(ACCOUNT, node, 5) or 0
    turns.drop(ACCOUNT, node)
    with pytest.raises(Fenced):
        turns.outbox_take(ACCOUNT, "7", lease)
    assert texts(bench, "waiting") == ["1"]


def test_a_closed_store_says_so(bench: Bench) -> None:
    node = bench.join()
    bench.store.close()
    with pytest.raises(StoreFailure, match="closed"):
        bench.turns.heartbeat(node)


# --- whose rows they are, and by which clock


def test_rows_are_told_by_their_turn_over_all_its_attempts(bench: Bench) -> None:
    """B2, C10: a second attempt goes on behind what the first one has written; no time is asked."""
    seq, turns, claim, session = bench.accept(), bench.turns, bench.own(), bench.open_session()
    assert turns.count_rows(CHAT, seq) == 0
    turns.begin(claim, [seq])
    turns.append(claim, seq, written(session, 0, say("one"), say("two", role="assistant")))
    assert turns.count_rows(CHAT, seq) == 2
    turns.begin(claim, [seq])
    turns.complete(claim, [seq], written(session, 2, say("three", role="assistant")))
    bench.store.append(session, "w", 3, [say("nobody's")])
    rows = bench.store.page(session, limit=9)
    assert [(row.turn, row.place) for row in rows] == [(seq, 1), (seq, 2), (seq, 3), (0, 0)]


def test_times_of_messages_are_the_stores(bench: Bench) -> None:
    """C2: when they came and when their turn began can be told from the times of rows, which no other clock can."""
    began, seq, turns, claim = bench.clock.time, bench.accept(), bench.turns, bench.own()
    bench.clock.move(5.0)
    (waits,) = turns.waiting(claim)
    assert (time.time() + waits.ahead) == pytest.approx(bench.clock.time, abs=2.0)
    assert turns.times(CHAT, seq, seq) == {seq: MessageTimes(began)}
    turns.begin(claim, [seq])
    bench.clock.move(5.0)
    turns.begin(claim, [seq])
    assert turns.times(CHAT, 0, 99)[seq] == MessageTimes(began, began + 5.0)
    assert turns.times(OTHER, 0, 99) == {}
