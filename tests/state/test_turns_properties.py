"""After any program of nodes that join, work, stop, wake late and die, nothing is lost and nothing is doubled."""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from store_places import ENGINES, new_place, try_many
from turn_bench import ACCOUNT, USAGE, Bench, answer, make_bench, say, written

from hermes_base.errors import Fenced
from hermes_base.inbound import OutboxRow
from hermes_state.store import NewSession
from hermes_state.turns import LEASE_SECONDS, Claim, NodeInfo

USUAL, MANY = 50, 1_000  # examples, in every run and in the long one
CONVERSATIONS = ("c0", "c1")
NODES = 3
#: What a worker must have for a step to mean something.
NEEDS = {
    "release": "claims",
    "begin": "claims",
    "append": "turns",
    "complete": "turns",
    "fail": "turns",
    "repeat": "ended",
}
slots, places = st.integers(0, NODES - 1), st.sampled_from(CONVERSATIONS)
#: How often each step is drawn: mostly work, now and then an accident.
STEPS = {
    "accept": (4, places, st.integers(0, 9)),
    "jump": (1, st.sampled_from([0.5, 1.5, LEASE_SECONDS / 2, LEASE_SECONDS]), st.none()),
    "beat": (1, slots, st.none()),
    "crash": (1, slots, st.none()),
    "overtake": (2, slots, st.integers(1, 2)),
    "claim": (2, slots, st.integers(1, 2)),
    "own": (1, slots, places),
    "start": (3, slots, places),
    "release": (1, slots, places),
    "begin": (3, slots, places),
    "append": (2, slots, places),
    "complete": (4, slots, places),
    "repeat": (2, slots, places),
    "fail": (1, slots, places),
    "late": (2, st.integers(0, 20), st.booleans()),
}
drawn = st.sampled_from([name for name, (often, _, _) in STEPS.items() for _ in range(often)])
steps = drawn.flatmap(lambda name: st.tuples(st.just(name), *STEPS[name][1:]))


@dataclass(frozen=True)
class Ended:
    claim: Claim
    seqs: tuple[int, ...]


@dataclass
class Worker:
    """What a process knows; it may be wrong."""

    node: str
    claims: dict[str, Claim] = field(default_factory=dict)
    turns: dict[str, tuple[int, ...]] = field(default_factory=dict)
    ended: dict[str, Ended] = field(default_factory=dict)


@dataclass
class Driver:
    """Performs a program on one store and checks after each step what must always hold."""

    bench: Bench
    workers: list[Worker] = field(default_factory=list)
    given: list[Claim] = field(default_factory=list)  # every claim that was ever given
    accepted: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in CONVERSATIONS})
    seen: set[str] = field(default_factory=set)
    done: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in CONVERSATIONS})

    def open(self) -> None:
        self.workers = [Worker(self.bench.join()) for _ in range(NODES)]
        for name in CONVERSATIONS:
            self.bench.store.open_session(NewSession(name, id=f"session {name}"))

    def perform(self, step: tuple[str, Any, Any]) -> Any:
        """What came of it, the same on both stores; a refused worker forgets what it held."""
        name, target, what = step
        if name in NEEDS:
            found = self.find_able(target, what, NEEDS[name])
            if found is None:
                return None
            target, what = found
        try:
            return getattr(self, name)(target, what)
        except Fenced:
            if isinstance(target, int) and name != "late":
                self.workers[target] = Worker(self.workers[target].node)
            return "fenced"

    def find_able(self, slot: int, wanted: str, has: str) -> tuple[int, str] | None:
        """The first worker from `slot` on that has what the step needs, and in which conversation."""
        for one in (*range(slot, NODES), *range(slot)):
            names = {name for name in vars(self.workers[one])[has] if has != "claims" or self.is_idle(one, name)}
            if names:
                return one, wanted if wanted in names else min(names)
        return None

    def is_idle(self, slot: int, name: str) -> bool:
        return name not in self.workers[slot].turns

    # --- steps

    def accept(self, name: str, number: int) -> int | None:
        ext_id = f"{name}/{number}/"
        seq = self.bench.turns.accept(name, ACCOUNT, ext_id, ext_id)
        assert (seq is None) == (ext_id in self.seen)
        if seq is not None:
            self.seen.add(ext_id)
            self.accepted[name].append(ext_id)
            assert seq == len(self.accepted[name])
        return seq

    def jump(self, seconds: float, _: None) -> None:
        self.bench.clock.move(seconds)

    def beat(self, slot: int, _: None) -> bool:
        """A node that finds itself dead joins anew, but what it was about goes on for a while (a late thread)."""
        worker = self.workers[slot]
        alive = self.bench.turns.heartbeat(worker.node)
        if not alive:
            worker.node = self.bench.join()
        return alive

    def crash(self, slot: int, _: None) -> None:
        self.workers[slot] = Worker(self.bench.join())

    def claim(self, slot: int, room: int) -> list[tuple[str, int]]:
        worker = self.workers[slot]
        claims = self.bench.turns.claim(worker.node, room)
        for claim in claims:
            self.note(worker, claim)
        return [(claim.conversation, claim.epoch) for claim in claims]

    def overtake(self, slot: int, room: int) -> list[tuple[str, int]]:
        """Everybody was stopped for too long, and this one is the first to wake."""
        self.jump(LEASE_SECONDS, None)
        self.beat(slot, None)
        return self.claim(slot, room)

    def own(self, slot: int, name: str) -> int | None:
        worker = self.workers[slot]
        claim = self.bench.turns.claim_one(worker.node, name)
        if claim is None:
            return None
        if claim not in self.given:
            self.note(worker, claim)
        worker.claims[name] = claim
        return claim.epoch

    def start(self, slot: int, name: str) -> Any:
        """A message comes, and whoever gets it begins with it."""
        self.accept(name, 10 + len(self.seen))
        return self.claim(slot, 2), self.begin(slot, name) if name in self.workers[slot].claims else None

    def note(self, worker: Worker, claim: Claim) -> None:
        """Epochs only rise, and each has one owner."""
        earlier = [known.epoch for known in self.given if known.conversation == claim.conversation]
        assert claim.epoch == max(earlier, default=0) + 1
        self.given.append(claim)
        worker.claims[claim.conversation] = claim
        worker.turns.pop(claim.conversation, None)

    def release(self, slot: int, name: str) -> bool:
        return self.bench.turns.release(self.workers[slot].claims.pop(name))

    def begin(self, slot: int, name: str) -> Any:
        worker = self.workers[slot]
        worker.turns.pop(name, None)
        rows = self.bench.turns.waiting(worker.claims[name])
        assert [row.seq for row in rows] == sorted(row.seq for row in rows)
        assert not {row.seq for row in rows} & self.done[name]
        turn = self.bench.turns.begin(worker.claims[name], [row.seq for row in rows])
        if turn is not None:
            worker.turns[name] = turn.seqs
        return turn

    def append(self, slot: int, name: str) -> int:
        worker = self.workers[slot]
        row = say("work", *worker.turns[name])
        return self.bench.turns.append(worker.claims[name], worker.turns[name][0], self.write(name, row), [USAGE])

    def complete(self, slot: int, name: str) -> int | None:
        worker = self.workers[slot]
        seqs = worker.turns.pop(name)
        version = self.finish(worker.claims[name], seqs)
        worker.ended[name] = Ended(worker.claims[name], seqs)
        assert not self.done[name] & set(seqs), "done twice"
        self.done[name] |= set(seqs)
        return version

    def repeat(self, slot: int, name: str) -> int | None:
        """The reply to the last completion was lost."""
        worker = self.workers[slot]
        return self.finish(worker.ended[name].claim, worker.ended[name].seqs)

    def finish(self, claim: Claim, seqs: tuple[int, ...]) -> int | None:
        name = claim.conversation
        answers = [answer(f"{name} {seq}") for seq in seqs]
        return self.bench.turns.complete(claim, seqs, self.write(name, say("end")), answers, [USAGE])

    def fail(self, slot: int, name: str) -> None:
        worker = self.workers[slot]
        seqs = worker.turns.pop(name)
        self.bench.turns.fail(worker.claims[name], seqs[0], "no provider", self.bench.clock.time + 2)

    def late(self, number: int, rows: bool) -> str:
        """Somebody wakes with an old claim: refused, whatever it wants."""
        newest = {claim.conversation: claim.epoch for claim in self.given}
        old = [claim for claim in self.given if claim.epoch < newest[claim.conversation]]
        old = [claim for claim in old if self.accepted[claim.conversation]]
        if not old:
            return "nobody"
        claim = old[number % len(old)]
        try:
            if rows:
                self.bench.turns.append(claim, 1, self.write(claim.conversation, say("late", 1)))
            else:
                self.finish(claim, (len(self.accepted[claim.conversation]),))
        except Fenced:
            return "refused"
        raise AssertionError("a late owner wrote")

    def write(self, name: str, *rows: Any) -> Any:
        info = self.bench.store.session(f"session {name}")
        assert info is not None
        return written(info.id, info.version, *rows)

    # --- what always holds

    def check(self) -> None:
        turns = self.bench.turns
        owners = [row for row in turns.holdings() if row.live]
        assert len({row.conversation for row in owners}) == len(owners)
        pending = {row.conversation: row.pending for row in turns.holdings()}
        for name in CONVERSATIONS:
            stored = turns.inbox_since(name, 0)
            assert stored == list(enumerate(self.accepted[name], 1)), "lost, doubled or out of order"
            flags = [found for ext in self.accepted[name] for found in turns.find_message(ACCOUNT, ext.rstrip("/"))]
            assert {seq for seq, _, done in flags if done} == self.done[name]
            assert pending.get(name, 0) == len(stored) - len(self.done[name])
            answers = Counter(row.outgoing.text for row in turns.outbox_since(name, 0))
            assert answers == Counter(f"{name} {seq}" for seq in self.done[name]), "an answer too many or too few"

    def settle(self) -> None:
        """The next start deals with everything that is open."""
        self.bench.clock.move(10)
        self.workers = [Worker(self.bench.turns.join(NodeInfo("1", alone=True)))]
        self.claim(0, 10)
        for name in self.workers[0].claims:
            self.begin(0, name)
            self.complete(0, name)
        self.check()
        assert all(len(self.done[name]) == len(self.accepted[name]) for name in CONVERSATIONS)
        assert self.bench.turns.depth()[0] == 0
        usage = self.bench.store.usage()
        versions = [self.bench.store.load(f"session {name}").version for name in CONVERSATIONS]
        assert usage.calls == sum(versions)


def live_through(engine: str, program: list[tuple[str, Any, Any]]) -> None:
    with new_place(engine) as where:
        driver = Driver(make_bench(where))
        driver.open()
        for step in program:
            driver.perform(step)
            driver.check()
        driver.settle()
        driver.bench.store.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_lost_and_nothing_is_doubled(engine: str) -> None:
    """B6, B7, C1, C3: whatever the nodes do and whenever they die."""
    try_many(engine, USUAL, partial(live_through, engine), st.lists(steps, min_size=10, max_size=60))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.soak
def test_nothing_is_lost_and_nothing_is_doubled_in_many_lives(engine: str) -> None:
    """B6, B7, C1, C3: the same."""
    try_many(engine, MANY, partial(live_through, engine), st.lists(steps, min_size=10, max_size=60))


delivery = st.one_of(
    st.tuples(st.just("post"), st.sampled_from(["7", "7", "8"])),
    st.tuples(st.just("take"), st.sampled_from(["7", "7", "8"])),
    st.tuples(st.just("take"), st.sampled_from(["7", "7", "8"])),
    st.tuples(st.just("part"), st.just("")),
    st.tuples(st.just("sent"), st.just("")),
    st.tuples(st.just("back"), st.sampled_from(["sure", "unsure"])),
    st.tuples(st.just("fail"), st.just("")),
    st.tuples(st.just("crash"), st.just("")),
    st.tuples(st.just("late"), st.sampled_from(["part", "sent", "back", "fail"])),
    st.tuples(st.just("jump"), st.just("")),
)


@dataclass
class Sender:
    """A holder of the account's lease that may die at any moment and forgets everything then."""

    bench: Bench
    lease: int = 0
    row: int = 0
    posted: int = 0
    old: tuple[int, int] = (0, 0)  # what the sender before was at: row and lease
    at_work: set[int] = field(default_factory=set)  # rows that this sender has taken and said nothing of

    def start(self) -> None:
        node = self.bench.turns.join(NodeInfo("1", alone=True))
        lease = self.bench.turns.hold(ACCOUNT, node, 1e9)
        assert lease == self.lease + 1
        self.old, self.at_work = (self.row, self.lease), set()
        self.lease, self.row = lease, 0

    def perform(self, name: str, what: str) -> Any:
        turns = self.bench.turns
        if name == "post":
            self.posted += 1
            return turns.post("c", str(self.posted), answer(str(self.posted), what))
        if name == "take":
            return self.take(what)
        if name == "crash":
            return self.start()
        if name == "jump":
            return self.bench.clock.move(1)
        if name == "late":
            return self.advance(what, "sure", *self.old) if self.old[0] else None
        if name != "part":
            self.at_work.discard(self.row)
        return self.advance(name, what, self.row, self.lease) if self.row else None

    def take(self, chat: str) -> OutboxRow | None:
        found = self.bench.turns.outbox_take(ACCOUNT, chat, self.lease)
        if found is not None:
            assert found.unsure or found.id not in self.at_work, "handed out twice, and nobody knows"
            self.at_work.add(found.id)
            self.row = found.id
        return found

    def advance(self, name: str, what: str, row: int, lease: int) -> Any:
        turns, retry_at = self.bench.turns, self.bench.clock.time + 1
        calls = {
            "part": lambda: turns.outbox_part(row, lease, "m"),
            "sent": lambda: turns.outbox_sent(row, lease, "m"),
            "back": lambda: turns.outbox_back(row, lease, retry_at, certain=what == "sure"),
            "fail": lambda: turns.outbox_fail(row, lease, "no"),
        }
        try:
            return calls[name]()
        except Fenced:
            return "fenced"

    def check(self) -> None:
        """In each chat everything before the first open row has ended, and at most one row is being sent."""
        rows = self.bench.turns.outbox_since("c", 0)
        assert [row.outgoing.text for row in rows] == [str(number + 1) for number in range(self.posted)]
        for chat in ("7", "8"):
            states = [row.state for row in rows if row.outgoing.address.chat == chat]
            still = [state for state in states if state in ("waiting", "sending")]
            assert states[len(states) - len(still) :] == still
            assert still[1:] == ["waiting"] * len(still[1:])


def deliver_all(engine: str, program: list[tuple[str, str]]) -> None:
    with new_place(engine) as where:
        sender = Sender(make_bench(where))
        sender.start()
        for name, what in program:
            sender.perform(name, what)
            sender.check()
        sender.bench.store.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_chats_get_their_messages_in_order_whatever_happens(engine: str) -> None:
    """C3, C7, C9: no message is skipped, and one that was left behind is known to be unsure."""
    try_many(engine, USUAL, partial(deliver_all, engine), st.lists(delivery, min_size=10, max_size=40))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.soak
def test_chats_get_their_messages_in_order_whatever_happens_for_long(engine: str) -> None:
    """C3, C7, C9: the same."""
    try_many(engine, MANY, partial(deliver_all, engine), st.lists(delivery, min_size=10, max_size=40))
