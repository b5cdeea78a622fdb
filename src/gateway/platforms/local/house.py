"""What the gateway answers when it is asked for terminals, as values."""

from dataclasses import dataclass

from hermes_base.inbound import Outgoing

PAGE = 100  # how much is read from the store at a time


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """The conversation that a hello asked for."""

    conversation: str
    banner: tuple[str, ...] = ()
    hint: str = ""  # a line that stays in sight
    commands: tuple[tuple[str, str, str], ...] = ()  # of plugins: name, arguments, summary


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
