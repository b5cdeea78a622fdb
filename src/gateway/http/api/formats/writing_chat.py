"""Writes what came of a run in the Chat Completions format, whole or in pieces."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from gateway.http.api.formats.sent_text import EVENT_NAMES, describe_event
from gateway.http.api.messages import (
    ChatAnswer,
    ChatChoice,
    Extras,
    GivenFile,
    SaidText,
    TokenUsage,
)
from gateway.http.api.problems import ApiProblem
from gateway.http.api.runs.outcomes import RunOutcome
from gateway.http.api.runs.run_record import Record, RunEvent
from gateway.http.api.runs.tickets import COMPLETION
from gateway.http.calls import DONE, write_event
from hermes_base.chat import ReasoningDelta
from hermes_base.turn.journal import CUT, FILTERED

#: How each format says that an answer stopped before its end.
FINISH_REASONS: Mapping[str, str] = {CUT: "length", FILTERED: "content_filter"}
INCOMPLETE: Mapping[str, str] = {CUT: "max_output_tokens", FILTERED: "content_filter"}


def write_completion(record: Record) -> ChatAnswer:
    """What came of a run that ended without a problem."""
    outcome = record.outcome
    assert outcome is not None
    said = SaidText(outcome.text, reasoning_content=record.reasoning or UNSET)
    return ChatAnswer(
        **_head(record),
        choices=[ChatChoice(said, FINISH_REASONS.get(outcome.early, "stop"))],
        usage=write_usage(outcome.usage),
        hermes=write_extras(outcome),
    )


def write_usage(usage: Mapping[str, int]) -> TokenUsage:
    read, written = usage.get("input", 0), usage.get("output", 0)
    cached = {"cached_tokens": usage.get("cached", 0), "cache_write_tokens": 0}
    return TokenUsage(read, written, read + written, cached, {"reasoning_tokens": usage.get("reasoning", 0)})


def write_extras(outcome: RunOutcome | None) -> Extras | UnsetType:
    if outcome is None or not (outcome.interrupted or outcome.early in INCOMPLETE or outcome.files):
        return UNSET
    return Extras(
        interrupted=outcome.interrupted or UNSET,
        reason=outcome.reason if outcome.interrupted else UNSET,
        incomplete=INCOMPLETE.get(outcome.early, UNSET),
        files=[GivenFile(file.name, file.kind, file.size) for file in outcome.files] or UNSET,
    )


class ChatStream:
    """The run as chunks."""

    def __init__(self, record: Record, *, usage: bool, events: bool) -> None:
        self._record = record
        self._usage = usage
        self._events = events

    def begin(self) -> list[bytes]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def write_text(self, piece: str) -> list[bytes]:
        return [self._chunk({"content": piece})]

    def write_event(self, event: RunEvent) -> list[bytes]:
        """For clients that asked for it: what happens beside the text, in a chunk without choices."""
        if isinstance(event, ReasoningDelta):
            return [self._chunk({"reasoning_content": event.text})]
        told = {"event": EVENT_NAMES[type(event)], **describe_event(event)}
        return [self._write(choices=[], hermes=told)] if self._events else []

    def fail(self, problem: ApiProblem) -> list[bytes]:
        return [write_event({"error": problem.describe()})]

    def finish(self, outcome: RunOutcome) -> list[bytes]:
        extras = write_extras(outcome)
        more = {"hermes": extras} if extras else {}
        last = self._chunk({}, FINISH_REASONS.get(outcome.early, "stop"), **more)
        usage = [self._write(choices=[], usage=write_usage(outcome.usage))] if self._usage else []
        return [last, *usage, DONE]

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._write(choices=[choice], **more)

    def _write(self, **told: Any) -> bytes:
        return write_event({**_head(self._record), "object": "chat.completion.chunk", **told})


def _head(record: Record) -> dict[str, Any]:
    return {
        "id": record.ticket.write(COMPLETION),
        "created": int(record.created),
        "model": record.model or "hermes",
    }
