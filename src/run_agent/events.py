"""The callbacks of an agent: a host sets them for each turn, and each gets the events that are meant for it."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hermes_base.chat import (
    Event,
    LastingNotice,
    Notice,
    ReasoningDelta,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)
from hermes_base.settings import Settings
from hermes_base.text.redact import Redactor
from hermes_cli import config as cli_config

log = logging.getLogger(__name__)


class EventCallbacks:
    """Callbacks may be set and changed at any time; None means that nobody listens."""

    stream_delta_callback: Callable[[str], None] | None = None
    reasoning_callback: Callable[[str], None] | None = None
    text_end_callback: Callable[[TextEnded], None] | None = None  # what was streamed stands, or is taken back
    tool_progress_callback: Callable[[ToolStarted | ToolEnded], None] | None = None
    step_callback: Callable[[int], None] | None = None
    status_callback: Callable[[Notice], None] | None = None
    switch_callback: Callable[[str], None] | None = None  # another provider answers from now on: why
    _turn_stream: Callable[[str], None] | None = None  # given to one turn only
    _settings: Settings = Settings()
    _stand_in: str = ""  # who answers in the place of the first choice
    _told_of: str = ""  # the same, as people were told
    _told: frozenset[str] = frozenset()  # warnings that the person has read

    @property
    def redact(self) -> Redactor:
        """Takes today's secrets out of what is shown and stored."""
        return cli_config.redactor()

    def emit(self, event: Event) -> None:
        """Hand an event to whoever listens; never raises."""
        match event:
            case TextDelta(text):
                self.emit_text(text)
            case ReasoningDelta(text):
                self.emit_reasoning(text)
            case TextEnded():
                self._call_back(self.text_end_callback, event)
            case ToolStarted() | ToolEnded():
                self.emit_progress(event, lambda: False)
            case Notice():
                self._call_back(self.status_callback, replace(event, text=self.redact(event.text)))

    def emit_progress(self, event: ToolStarted | ToolEnded, is_over: Callable[[], bool]) -> None:
        """What the tool of a turn does, from whichever thread. Who listens is looked up first: if the turn is not over
        after that, it is whoever listens to this turn, and not to the next one."""
        listener, redact = self.tool_progress_callback, self.redact
        if not is_over():
            self._call_back(listener, replace(event, name=redact(event.name), preview=redact(event.preview)))

    def emit_text(self, text: str) -> None:
        """The short way for what comes hundreds of times in an answer."""
        try:
            if self.stream_delta_callback is not None:
                self.stream_delta_callback(text)
            if self._turn_stream is not None:
                self._turn_stream(text)
        except Exception:
            log.exception("a callback failed")

    def emit_reasoning(self, text: str) -> None:
        self._call_back(self.reasoning_callback, text)

    def tell_switch(self, before: str, after: str, reason: str, why: str) -> None:
        """D12: another model answers now. A person reads it once, until the first choice is back."""
        self.note_switch(before, after, reason)
        self._stand_in = after
        if after != self._told_of:
            self._told_of = after if self.status_callback is not None else ""
            self._tell_model_change(LastingNotice(f"{why} {after} answers instead of {before} for now.", "warning"))

    def tell_return(self, after: str) -> None:
        """The first choice has answered: if somebody stood in for it, that is over."""
        before, self._stand_in = self._stand_in, ""
        told, self._told_of = self._told_of, ""
        if before:
            self.note_switch(before, after, "restored")
        if told:
            self._tell_model_change(LastingNotice(f"{after} answers again."))

    def _tell_model_change(self, notice: LastingNotice) -> None:
        if self._settings.gateway.model_notices:
            self.emit(notice)

    def tell_once(self, name: str, text: str) -> None:
        """A warning that is worth one reading, however often its cause comes back."""
        if name not in self._told:
            self._told |= {name}
            self.emit(LastingNotice(text, "warning"))

    def tell_again(self, name: str) -> None:
        """The cause is gone; when it comes back, it is told."""
        self._told -= {name}

    def note_switch(self, before: str, after: str, reason: str) -> None:
        """D12: every switch and return stands in the log with from, to and reason."""
        log.info("%s answers instead of %s (%s)", after, before, reason, extra={"reason": reason})
        self._call_back(self.switch_callback, reason)

    def _call_back(self, callback: Callable[..., None] | None, value: Any) -> None:
        """The boundary to somebody's callback: its failure is logged and does not touch the turn."""
        if callback is None:
            return
        try:
            callback(value)
        except Exception:
            log.exception("a callback failed")
