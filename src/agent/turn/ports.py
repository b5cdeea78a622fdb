"""What a turn is given: the model, the hands, the journal, the plugins and the person, each as a small protocol."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.formats.reply import Reply, ToolCall
from agent.formats.wire import AnswerReader, Dialect
from hermes_base.chat import Event
from hermes_base.errors import ModelFailure
from hermes_base.text.foreign import ForeignText
from hermes_base.text.redact import Redactor
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.hooks import Hooks
from hermes_base.turn.journal import Journal
from hermes_base.turn.tool_context import ToolContext, name_turn


class ModelPort(Protocol):
    """The model in use; it may change in mid-turn (fallback), so it is asked anew for each call."""

    @property
    def model(self) -> str: ...

    @property
    def provider(self) -> str: ...

    @property
    def base_url(self) -> str: ...

    @property
    def api_mode(self) -> str: ...

    @property
    def context_length(self) -> int: ...

    @property
    def dialect(self) -> Dialect: ...

    def make_tail(self, *, with_tools: bool) -> dict[str, Any]: ...

    def send(
        self,
        body: bytes,
        answer: AnswerReader,
        cancel: CancelToken,
        on_chunk: Callable[[], None],
        patience: float | None = None,
    ) -> Reply:
        """`patience`: seconds in which the answer has to begin, if that is less than the provider may take."""

    def could_switch(self) -> bool:
        """Whether another provider is well and could take over now."""

    def switch(self, failure: ModelFailure) -> bool: ...

    def recover(self, error: BaseException, pause: Callable[[float], None]) -> bool: ...

    def note_success(self) -> None: ...

    def note_failure(self, failure: ModelFailure) -> None:
        """The turn ends with this failure."""


class Hands(Protocol):
    """Runs one tool call; an error is a text for the model, never an exception."""

    @property
    def context(self) -> ToolContext:
        """What the tools of the turn are told."""

    def run(
        self,
        call: ToolCall,
        *,
        turn_id: str,
        request_id: str,
        messages: Sequence[Mapping[str, Any]],
        note_question: Callable[[bool], None],
    ) -> str:
        """`note_question` is told False before a person is asked, and True when they have answered."""

    def is_working(self) -> bool:
        """Whether something of this task makes progress, such as a running process (C12)."""


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """Names of this turn, for hooks and logs."""

    session: str
    task: str
    turn: str
    platform: str
    sender: str = ""
    said: str = ""  # what the person asks for, in their words

    @property
    def told_turn(self) -> str:
        """The turn as plugins are told of it: they read session and task out of it."""
        return name_turn(self.session, self.task, self.turn)


@dataclass(frozen=True, slots=True)
class Ports:
    model: ModelPort
    hands: Hands
    journal: Journal
    hooks: Hooks
    engine: Any  # a ContextEngine, or something with its methods
    emit: Callable[[Event], None]  # never raises
    on_text: Callable[[str], None]  # a piece of the answer; never raises
    on_reasoning: Callable[[str], None]
    on_chunk: Callable[[], None]  # a sign of life while the answer is read
    redact: Redactor
    touch: Callable[[str], None]  # a sign of life, with what is being done
    render_part: Callable[[str, Dialect], str | list[dict[str, Any]]]  # system prompt or tools of a new conversation
    on_rotated: Callable[[str, str, list[dict[str, Any]]], None]  # old session, new session, old messages
    tell_once: Callable[[str, str], None]  # a warning to the person under a name, until it may be told again
    tell_again: Callable[[str], None]
    make_spare_engine: Callable[[], Any]  # the built-in engine, where another one is in use; else None
    recall: Callable[[str, Sequence[Mapping[str, Any]]], str] | None = None  # what memory adds to a message
    brief_summary: Callable[[Sequence[Mapping[str, Any]]], str] | None = None  # what it wants in a summary
    compression_enabled: bool = True
    compress_in_place: bool = True
    cancel: CancelToken = field(default_factory=CancelToken)
    foreign: ForeignText = field(default_factory=ForeignText)  # the same that the hands have
