"""What the gateway answers when it is asked for terminals, as values."""

from dataclasses import dataclass

PAGE = 100  # how much is read from the store at a time


@dataclass(frozen=True, slots=True)
class OpenedConversation:
    """The conversation that a hello asked for."""

    conversation: str
    banner: tuple[str, ...] = ()
    hint: str = ""  # a line that stays in sight
    commands: tuple[tuple[str, str, str], ...] = ()  # of plugins: name, arguments, summary


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """What became of a message that was seen before."""

    seq: int
    done: bool
