"""What happens in a chat, as values: questions to the person and their answers, the events of a turn, and what a chat
surface needs of whoever runs the agent (`ChatHost`)."""

import sys
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from hermes_base.inbound import FileRef
from hermes_base.turn.consent import Deed


@dataclass(frozen=True, slots=True)
class Question:
    """Something only a person can decide; ended by an answer, by its expiry or by the end of its turn."""

    kind: str  # approval, clarification, confirmation
    text: str
    choices: tuple[str, ...] = ()  # empty: free text
    expires_in: float = 300.0
    reason: str = ""  # why it is asked; the text itself is what the answer binds
    conversation: str = ""  # an answer holds for this conversation
    turn: str = ""  # and this turn alone
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:12], kw_only=True)  # the only one of its name anywhere
    deed: Deed | None = field(default=None, kw_only=True)  # what a kept yes would be about; None: it cannot be kept
    unkept: str = field(default="", kw_only=True)  # why no new rule may be made of the answer; empty: one may
    origins: tuple[str, ...] = field(default=(), kw_only=True)  # foreign text that was in sight of who asks (G9)


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    given: bool = True  # False: nobody answered; an approval counts as denied
    by: str = "owner"  # who answered; at the terminal that is the owner of the machine
    rule: str = ""  # nobody was asked: this kept approval holds, in words


#: Asks a person; blocks on the turn's thread.
Asker = Callable[[Question], Answer]


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class TextEnded:
    """The text and the thoughts of a model call that were shown so far are over. `kept`: they stand in the transcript,
    and what comes next is another text. If not, they do not count: whoever shows them takes them back, and the text
    begins anew. The text that ends a turn has no such event: the turn's answer says how it stands."""

    kept: bool


@dataclass(frozen=True, slots=True)
class ToolStarted:
    id: str
    name: str
    preview: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    id: str
    name: str
    ok: bool
    seconds: float
    preview: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A word to the person that is not the model's."""

    text: str
    level: str = "info"  # info, warning, error


@dataclass(frozen=True, slots=True)
class LastingNotice(Notice):
    """One that is also a message of its own in chats that do not show what happens while it happens."""


@dataclass(frozen=True, slots=True)
class Asked:
    question: Question


@dataclass(frozen=True, slots=True)
class TurnEnded:
    answer: str
    completed: bool
    interrupted: bool = False
    reason: str = ""  # of an interrupted one: the sentence that says who or what stopped it


@dataclass(frozen=True, slots=True)
class Said:
    """Somebody else wrote in the same conversation."""

    text: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class FileSent:
    """The agent hands over a file."""

    path: str
    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Idle:
    """What was submitted is dealt with; the next line may come."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The chat is over (`/quit`)."""


Event = (
    TextDelta
    | ReasoningDelta
    | TextEnded
    | ToolStarted
    | ToolEnded
    | Notice
    | Asked
    | Said
    | FileSent
    | TurnEnded
    | Idle
    | Closed
)

#: What a turn does while it runs, by the names under which pages and terminals are told.
EVENT_NAMES: Mapping[type, str] = MappingProxyType(
    {
        TextDelta: "text",
        ReasoningDelta: "reasoning",
        TextEnded: "text_ended",
        ToolStarted: "tool_started",
        ToolEnded: "tool_ended",
        LastingNotice: "notice",
        Notice: "notice",
    }
)


GAP = "\n\n"  # between the texts of a turn that are read as one


@dataclass(eq=False, slots=True)
class Tail:
    """The end of a growing text. Pieces go as wholes and the rest is cut when it is read, so that a piece costs what it
    is long."""

    _most: int
    _pieces: deque[str] = field(default_factory=deque)
    size: int = 0
    _cut: bool = False

    def add(self, text: str) -> None:
        self._pieces.append(text[-self._most :])
        self.size += len(self._pieces[-1])
        self._cut = self._cut or self.size > self._most or len(text) > self._most
        while self.size - len(self._pieces[0]) >= self._most:
            self.size -= len(self._pieces.popleft())

    def read(self) -> str:
        """The whole, joined so that the next reader finds it joined."""
        whole = "".join(self._pieces)[-self._most :]
        self._pieces, self.size = deque([whole] if whole else []), len(whole)
        return f"…{whole}" if self._cut else whole


class TurnTexts:
    """The texts of a turn as events tell them: those that stand, and the one that is under way; of each the end."""

    def __init__(self, most: int = sys.maxsize) -> None:
        self._most = most
        self._kept, self._open = Tail(most), Tail(most)

    @property
    def kept(self) -> str:
        return self._kept.read()

    @property
    def open(self) -> str:
        return self._open.read()

    def add(self, piece: str) -> str:
        """Take a piece of text; how it is read, with the gap before it if it begins another text."""
        if piece and self._kept.size and not self._open.size:
            piece = GAP + piece
        self._open.add(piece)
        return piece

    def end(self, kept: bool) -> None:
        """The text under way is over; what is not kept is taken back."""
        if kept and self._open.size:
            self._kept.add(self._open.read())
        self._open = Tail(self._most)


T = TypeVar("T")


@dataclass(eq=False, slots=True)
class DeltaJoiner:
    """Collects events; neighbouring pieces of text become one, and each is copied once, however many there are."""

    _runs: list[tuple[type, list[Any]]] = field(default_factory=list)  # pieces of one kind of text, or one other event

    def add(self, event: object) -> bool:
        """Whether it is the first since `take`."""
        kind, is_first = type(event), not self._runs
        if not isinstance(event, TextDelta | ReasoningDelta):
            self._runs.append((kind, [event]))
        elif self._runs and self._runs[-1][0] is kind:
            self._runs[-1][1].append(event.text)
        else:
            self._runs.append((kind, [event.text]))
        return is_first

    def take(self) -> list[Any]:
        """What was collected, in order; nothing of it is kept."""
        runs, self._runs = self._runs, []
        return [kind("".join(held)) if kind in (TextDelta, ReasoningDelta) else held[0] for kind, held in runs]


def join_deltas(events: Sequence[T]) -> list[T]:
    """The events with neighbouring pieces of text made one."""
    if len(events) < 2:  # as it is for most readers, most of the time
        return list(events)
    joiner = DeltaJoiner()
    for event in events:
        joiner.add(event)
    return joiner.take()


class ChatHost(Protocol):
    """What a chat surface talks to: it submits text, reads events, stops, answers questions; nothing else."""

    def submit(self, text: str, files: tuple[FileRef, ...] = ()) -> None:
        """Hand over a message or a slash command; returns at once."""

    def events(self) -> Iterator[Event]:
        """Everything that happens, in order; blocks for the next one; ends after `Closed`."""

    def stop(self) -> bool:
        """Interrupt the turn under way; False when there is none."""

    def answer(self, question_id: str, text: str) -> bool:
        """Answer an open question; False when it is not open any more."""

    def close(self) -> None: ...
