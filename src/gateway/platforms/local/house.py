"""What is asked of the gateway for terminals, beyond what every platform asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.platforms.face import Core
from hermes_base.chat import Question
from hermes_base.inbound import Inbound, Outgoing
from hermes_base.local_wire import Hello

PAGE = 100  # how much is read from the store at a time


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """The conversation that a hello asked for."""

    conversation: str
    banner: tuple[str, ...] = ()
    hint: str = ""  # a line that stays in sight


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of the outbox, whoever it is addressed to."""

    id: int
    outgoing: Outgoing
    created: float = 0.0
    seq: int = 0  # the first message of its turn; 0: it belongs to none
    waits: bool = False  # nobody has confirmed it


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """What became of a message that was seen before."""

    seq: int
    done: bool


class LocalHouse(Core, Protocol):
    """All calls are made on the gateway's event loop; a HermesError becomes a sentence for the client."""

    version: str

    async def open(self, hello: Hello) -> OpenedConversation:
        """Find or make the conversation; keep model, provider and folder as its choices when they are given."""
        ...

    def question(self, conversation: str) -> Question | None:
        """What is asked there and not answered yet."""
        ...

    async def stop(self, conversation: str, by: str) -> tuple[bool, str]:
        """Interrupt the turn under way; False and why not (an empty reason: nothing is running)."""
        ...

    async def answer(self, question: str, text: str, by: str) -> bool:
        """Answer an open question, with an empty text: leave it unanswered; False when it is not open any more."""
        ...

    async def perform(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """An operator's call; the result is JSON."""
        ...

    async def outbox_since(self, conversation: str, row: int) -> Sequence[StoredRow]:
        """The first PAGE rows after this one, in order; fewer: there are no more."""
        ...

    async def inbox_since(self, conversation: str, seq: int) -> Sequence[tuple[int, Inbound]]:
        """The first PAGE messages after this one, in order; fewer: there are no more."""
        ...

    async def latest(self, conversation: str) -> tuple[int, int]:
        """The newest outbox row and the newest seq."""
        ...

    async def open_seqs(self, conversation: str) -> Sequence[int]:
        """Messages that are not dealt with yet."""
        ...

    async def find(self, inbound: Inbound) -> SeenMessage | None:
        """What became of a message that `take` had seen before."""
        ...
