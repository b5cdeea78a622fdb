"""Writes what came of a run in the Chat Completions format, whole or in pieces."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from gateway.http.api.formats.sent_text import SentText
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
from gateway.http.api.runs.run_record import CLOSING, ENDED, REASONING, STARTED, TEXT, TEXT_ENDED, Record
from gateway.http.api.runs.tickets import COMPLETION, RUN
from gateway.http.streams import DONE, PULSE, PULSE_SECONDS, write_event
from hermes_base.journal import CUT, FILTERED

#: How each format says that an answer stopped before its end.
FINISH_REASONS: Mapping[str, str] = {CUT: "length", FILTERED: "content_filter"}
INCOMPLETE: Mapping[str, str] = {CUT: "max_output_tokens", FILTERED: "content_filter"}
STOPPING = (
    "Hermes is stopping; the message is kept, and the run goes on when Hermes runs again. Ask for it by its id: {id}."
)


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


def problem_with(record: Record) -> ApiProblem | None:
    """Why there is no answer; None: there is one."""
    if record.outcome is None:
        return ApiProblem(503, STOPPING.format(id=record.ticket.write(RUN)), "closing")
    if record.outcome.refused:
        return ApiProblem(429, record.outcome.error, "not_taken")
    if record.outcome.error:
        return ApiProblem(502, record.outcome.error, "run_failed")
    if record.outcome.interrupted and not record.outcome.text:
        return ApiProblem(502, record.outcome.reason, "interrupted")
    return None


def find_problem(record: Record, sent: SentText) -> ApiProblem | None:
    """The same for whoever was sent the text in pieces."""
    problem = problem_with(record)
    if problem is None and record.outcome is not None:
        sent.finish(record.outcome.text)
    return problem or sent.problem


async def write_chunks(record: Record, *, usage: bool, events: bool) -> AsyncIterator[bytes]:
    """The run as chunks, from its beginning, however far it is already."""
    yield _chunk(record, {"role": "assistant", "content": ""})
    sent = SentText(record)
    async for event in record.follow(pulse=PULSE_SECONDS):
        if event is None:
            yield PULSE
        elif event.kind in (TEXT, TEXT_ENDED):
            piece = sent.take(event)
            if piece:
                yield _chunk(record, {"content": piece})
            elif sent.problem is not None:
                yield write_event({"error": sent.problem.describe()})
                return
        elif event.kind == REASONING:
            yield _chunk(record, {"reasoning_content": event.data["text"]})
        elif event.kind in (ENDED, CLOSING):
            problem, outcome = find_problem(record, sent), record.outcome
            if problem is not None:
                yield write_event({"error": problem.describe()})
            elif outcome is not None:
                extras = write_extras(outcome)
                yield _chunk(
                    record, {}, FINISH_REASONS.get(outcome.early, "stop"), **({"hermes": extras} if extras else {})
                )
                if usage:
                    yield _write(record, choices=[], usage=write_usage(outcome.usage))
                yield DONE
        elif events:
            # For clients that asked for it: what happens beside the text, in a chunk without choices.
            told = {"event": event.kind, **({} if event.kind == STARTED else event.data)}
            yield _write(record, choices=[], hermes=told)


def _chunk(record: Record, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _write(record, choices=[choice], **more)


def _write(record: Record, **told: Any) -> bytes:
    return write_event({**_head(record), "object": "chat.completion.chunk", **told})


def _head(record: Record) -> dict[str, Any]:
    return {
        "id": record.ticket.write(COMPLETION),
        "created": int(record.created),
        "model": record.model or "hermes",
    }
