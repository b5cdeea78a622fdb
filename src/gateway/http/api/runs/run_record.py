"""What has happened in one run so far, kept for all who follow it: the request that began it, and any that come later.

A record belongs to no connection: when a client vanishes the run goes on, and it can be read again from any place.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from gateway.http.api.runs.outcomes import RunOutcome
from gateway.http.api.runs.tickets import Ticket
from gateway.platforms.face import Asking, Begun
from gateway.platforms.hub import Picture, StreamEnded
from hermes_base.chat import (
    GAP,
    Notice,
    Question,
    ReasoningDelta,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    TurnTexts,
)
from hermes_base.query_values import Caller

QUEUED, RUNNING, COMPLETED, FAILED, STOPPED = "queued", "in_progress", "completed", "failed", "stopped"
MOST_CHARS = 2_000_000  # of events of one run; the answer comes whole at its end


@dataclass(frozen=True, slots=True)
class TextVoid:
    """No text that came before counts."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The outcome is there."""


#: What a turn does while it runs, and what else a run is about.
TurnEvent = TextDelta | ReasoningDelta | TextEnded | ToolStarted | ToolEnded | Notice
RunEvent = TurnEvent | Begun | Asking | TextVoid | RunEnded | StreamEnded


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    number: int  # counted from 1
    event: RunEvent


class Record:
    """One run. Written by its recorder, on the event loop."""

    def __init__(self, ticket: Ticket, caller: Caller, model: str, created: float) -> None:
        self.ticket = ticket
        self.caller = caller  # who began it
        self.model = model
        self.created = created
        self.seq = 0
        self.status = QUEUED
        self.first_question = ""  # the one that an answer without an id means
        self.outcome: RunOutcome | None = None
        self.judged = asyncio.Event()  # it is known whether the message was taken
        self.closing = False  # the gateway ends before the run does
        self.ended = 0.0  # time.monotonic()
        self.lossy = False  # something that was shown was not seen here
        self.events: list[RecordedEvent] = []
        self._life = secrets.token_hex(4)  # the ids of another process, or of a record that was let go, are not ours
        self.size = 0
        self._texts = TurnTexts()
        self._thoughts = TurnTexts()
        self._more = asyncio.Event()  # set by whatever comes next, which puts another in its place

    @property
    def streamed(self) -> str:
        return self._texts.kept + self._texts.open

    @property
    def reasoning(self) -> str:
        return self._thoughts.kept + self._thoughts.open

    @property
    def is_over(self) -> bool:
        return self.outcome is not None or self.closing

    # --- writing

    def begin(self, begun: Begun) -> None:
        """The turn begins, for the first time or once more."""
        self.status = RUNNING
        self._add(begun)

    def show(self, event: TurnEvent) -> None:
        """Between the texts of two model calls stands an empty line, the same for everybody who reads along."""
        is_full = self.size > MOST_CHARS
        match event:
            case TextDelta() if is_full:
                self.lossy = True
                return
            case ReasoningDelta() if is_full:
                return
            case TextDelta(text):
                event = TextDelta(self._texts.add(text))
            case ReasoningDelta(text):
                event = ReasoningDelta(self._thoughts.add(text))
            case TextEnded(kept):
                self._texts.end(kept)
                self._thoughts.end(kept)
        self._add(event)

    def redraw(self, picture: Picture) -> None:
        """Another process has the run, and this is what it has shown by now."""
        if self.status == QUEUED:
            self.begin(Begun(picture.seqs, picture.begun, picture.rows))
        self.lossy = True
        if self.streamed:
            self._texts, self._thoughts = TurnTexts(), TurnTexts()
            self._add(TextVoid())
        for event in (
            TextDelta(picture.text.kept),
            TextEnded(kept=True),
            TextDelta(picture.text.open.removeprefix(GAP)),
        ):
            self.show(event)

    def note_first(self, question: Question | None) -> None:
        """This question was told to somebody."""
        self.first_question = self.first_question or (question.id if question else "")

    def ask(self, asking: Asking) -> None:
        self.note_first(asking.question)
        self._add(asking)

    def end(self, outcome: RunOutcome) -> None:
        """What is missing of the text is added; another one than was streamed takes its place: whoever joins the
        events has the answer."""
        if not outcome.error and outcome.text.strip() != self.streamed.strip():
            if not outcome.text.startswith(self.streamed):
                self._texts = TurnTexts()
                self._add(TextVoid())
            self._add(TextDelta(outcome.text[len(self.streamed) :]))
        self.outcome = outcome
        self.model = outcome.model or self.model  # from here on it is named who answered, not who was asked for
        self.ended = time.monotonic()
        self.status = FAILED if outcome.error else STOPPED if outcome.interrupted else COMPLETED
        self._add(RunEnded())

    def close(self) -> None:
        self.closing = True
        self._add(StreamEnded())

    def _add(self, event: RunEvent) -> None:
        self.judged.set()
        self.size += 100 + len(event.text if isinstance(event, TextDelta | ReasoningDelta | Notice) else "")
        if self.size <= MOST_CHARS or not isinstance(event, ReasoningDelta | ToolStarted | ToolEnded | Notice):
            self.events.append(RecordedEvent(len(self.events) + 1, event))
        more, self._more = self._more, asyncio.Event()
        more.set()

    # --- reading

    def write_id(self, recorded: RecordedEvent) -> str:
        return f"{self._life}-{recorded.number}"

    async def follow(self, last: str = "", pulse: float | None = None) -> AsyncIterator[RecordedEvent | None]:
        """The events after the one with this id, until the run is over, whose end always comes; None whenever nothing
        has come for `pulse` seconds. An id that is not of this record begins anew, and takes back what was read."""
        after = next((one.number for one in self.events if last and self.write_id(one) == last), 0)
        if last and not after:
            yield RecordedEvent(0, TextVoid())
        if self.is_over:
            after = min(after, len(self.events) - 1)
        while True:
            more = self._more
            for recorded in self.events[after:]:
                yield recorded
                after = recorded.number
            if self.is_over and after == len(self.events):
                return
            try:
                async with asyncio.timeout(pulse):
                    await more.wait()
            except TimeoutError:
                yield None

    async def wait(self) -> None:
        """Until the run is over."""
        while not self.is_over:
            await self._more.wait()
