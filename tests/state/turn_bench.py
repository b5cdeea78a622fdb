"""What the tests of messages and turns share: a clock set by hand, a store, and short ways to say things."""

import itertools
from dataclasses import dataclass, field

from hermes_base.inbound import Address, Outgoing
from hermes_base.turn.journal import Row, UsageRow
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.store import NewSession
from hermes_state.turns import Claim, NodeInfo, Written

CHAT, OTHER = "agent:main:telegram:dm:1", "agent:main:telegram:dm:2"
ACCOUNT = "telegram:bot"


@dataclass
class Clock:
    """A clock that stands until it is moved."""

    time: float = 1_000_000.0

    def __call__(self) -> float:
        return self.time

    def move(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class Bench:
    """One store with its clock, and messages that never meet."""

    store: Store
    clock: Clock
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def turns(self) -> TurnStore:
        return self.store.turns

    def join(self) -> str:
        return self.turns.join(NodeInfo("1"))

    def accept(self, conversation: str = CHAT, text: str = "hello") -> int:
        seq = self.turns.accept(conversation, ACCOUNT, f"chat/{next(self.numbers)}/", text)
        assert seq is not None
        return seq

    def own(self, node: str = "", conversation: str = CHAT) -> Claim:
        claim = self.turns.claim_one(node or self.join(), conversation)
        assert claim is not None
        return claim

    def open_session(self, conversation: str = CHAT) -> str:
        return self.store.open_session(NewSession(conversation)).id


def make_bench(where: str) -> Bench:
    clock = Clock()
    return Bench(Store(where, clock=clock), clock)


def say(text: str, *inbox: int, role: str = "user") -> Row:
    return Row({"role": role, "content": text}, inbox=inbox)


def answer(text: str, chat: str = "7", **fields: str) -> Outgoing:
    return Outgoing(Address("telegram", "bot", chat), text, **fields)  # type: ignore[arg-type]


def written(session: str, base: int, *rows: Row) -> Written:
    return Written(session, "w", base, rows)


USAGE = UsageRow("p", "m", input_tokens=1)
