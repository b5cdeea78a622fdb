"""What has happened in one run so far, kept for all who follow it: the request that began it, and any that come later.

A record belongs to no connection: when a client vanishes the run goes on, and it can be read again from any place.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.http.answers import write_question
from gateway.http.api.runs.outcomes import RunOutcome
from gateway.http.api.runs.tickets import Ticket
from hermes_base.chat import Notice, Question, ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted, TurnTexts
from hermes_base.query_values import Caller

QUEUED, RUNNING, COMPLETED, FAILED, STOPPED = "queued", "in_progress", "completed", "failed", "stopped"
#: Kinds of events.
TEXT, REASONING, TEXT_ENDED = "text", "reasoning", "text.ended"
TOOL_STARTED, TOOL_ENDED, NOTICE = "tool.started", "tool.ended", "notice"
STARTED, QUESTION, ENDED, CLOSING = "run.started", "question", "run.ended", "closing"
MOST_CHARS = 2_000_000  # of events of one run; the answer comes whole at its end
_TAKEN_BACK: Mapping[str, Any] = {"kept": False, "all": True}  # of TEXT_ENDED: no text that came before counts


@dataclass(frozen=True, slots=True)
class RunEvent:
    number: int  # counted from 1
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)


class Record:
    """One run. Written by its recorder, on the event loop."""

    def __init__(self, ticket: Ticket, caller: Caller, model: str, created: float) -> None:
        self.ticket = ticket
        self.caller = caller  # who began it
        self.model = model
        self.created = created
        self.begun = created
        self.seq = 0
        self.status = QUEUED
        self.question: Question | None = None
        self.first_question = ""  # the one that an answer without an id means
        self.outcome: RunOutcome | None = None
        self.judged = asyncio.Event()  # it is known whether the message was taken
        self.closing = False  # the gateway ends before the run does
        self.ended = 0.0  # time.monotonic()
        self.lossy = False  # something that was shown was not seen here
        self.events: list[RunEvent] = []
        self._life = secrets.token_hex(4)  # the ids of another process, or of a record that was let go, are not ours
        self.size = 0
        self._texts = TurnTexts()
        self._thoughts = TurnTexts()
        self._woken: set[asyncio.Event] = set()

    @property
    def streamed(self) -> str:
        return self._texts.whole

    @property
    def reasoning(self) -> str:
        return self._thoughts.whole

    @property
    def is_over(self) -> bool:
        return self.outcome is not None or self.closing

    # --- writing

    def begin(self, now: float) -> None:
        """The turn begins, for the first time or once more."""
        if self.status == QUEUED:
            self.begun = now
        self.status = RUNNING
        self._add(STARTED)

    def show(self, event: TextDelta | ReasoningDelta | TextEnded | ToolStarted | ToolEnded | Notice) -> None:
        """Between the texts of two model calls stands an empty line, the same for everybody who reads along."""
        match event:
            case TextDelta(text):
                if self.size > MOST_CHARS:
                    self.lossy = True
                else:
                    self._add(TEXT, text=self._texts.add(text))
            case ReasoningDelta(text) if self.size <= MOST_CHARS:
                self._add(REASONING, text=self._thoughts.add(text))
            case TextEnded(kept):
                self._texts.end(kept)
                self._thoughts.end(kept)
                self._add(TEXT_ENDED, kept=kept)
            case ToolStarted(id, name, preview):
                self._add(TOOL_STARTED, id=id, name=name, preview=preview)
            case ToolEnded(id, name, ok, seconds, preview):
                self._add(TOOL_ENDED, id=id, name=name, ok=ok, seconds=round(seconds, 3), preview=preview)
            case Notice(text, level):
                self._add(NOTICE, text=text, level=level)

    def note_first(self, question: Question | None) -> None:
        """This question was told to somebody."""
        self.first_question = self.first_question or (question.id if question else "")

    def ask(self, question: Question | None) -> None:
        self.question = question
        self.note_first(question)
        self._add(QUESTION, question=write_question(question))

    def end(self, outcome: RunOutcome) -> None:
        """What is missing of the text is added; another one than was streamed takes its place: whoever joins the
        events has the answer."""
        if not outcome.error and outcome.text.strip() != self.streamed.strip():
            if not outcome.text.startswith(self.streamed):
                self._texts = TurnTexts()
                self._add(TEXT_ENDED, **_TAKEN_BACK)
            self._add(TEXT, text=outcome.text[len(self.streamed) :])
        self.question = None
        self.outcome = outcome
        self.model = outcome.model or self.model  # from here on it is named who answered, not who was asked for
        self.ended = time.monotonic()
        self.status = FAILED if outcome.error else STOPPED if outcome.interrupted else COMPLETED
        self._add(ENDED)

    def close(self) -> None:
        self.closing = True
        self._add(CLOSING)

    def _add(self, kind: str, **data: Any) -> None:
        self.judged.set()
        self.size += 100 + len(data.get("text", ""))
        if self.size <= MOST_CHARS or kind not in (REASONING, TOOL_STARTED, TOOL_ENDED, NOTICE):
            self.events.append(RunEvent(len(self.events) + 1, kind, data))
        for woken in self._woken:
            woken.set()

    # --- reading

    def write_id(self, event: RunEvent) -> str:
        return f"{self._life}-{event.number}"

    async def follow(self, last: str = "", pulse: float | None = None) -> AsyncIterator[RunEvent | None]:
        """The events after the one with this id, until the run is over, whose end always comes; None whenever nothing
        has come for `pulse` seconds. An id that is not of this record begins anew, and takes back what was read."""
        after = next((event.number for event in self.events if last and self.write_id(event) == last), 0)
        if last and not after:
            yield RunEvent(0, TEXT_ENDED, _TAKEN_BACK)
        woken = asyncio.Event()
        self._woken.add(woken)
        try:
            if self.is_over:
                after = min(after, len(self.events) - 1)
            while True:
                woken.clear()
                for event in self.events[after:]:
                    yield event
                    after = event.number
                if after >= len(self.events):
                    if self.is_over:
                        return
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pulse):
                            await woken.wait()
                    if not woken.is_set():
                        yield None
        finally:
            self._woken.discard(woken)

    async def wait(self) -> None:
        """Until the run is over."""
        async for _ in self.follow():
            pass
