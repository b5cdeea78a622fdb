"""Writes what came of a run in the Responses format, whole or as typed events."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from gateway.http.api.formats.sent_text import SentText
from gateway.http.api.formats.writing_chat import INCOMPLETE, find_problem, problem_with, write_extras
from gateway.http.api.problems import ApiProblem
from gateway.http.api.runs.outcomes import RunOutcome
from gateway.http.api.runs.run_record import CLOSING, ENDED, TEXT, TEXT_ENDED, Record
from gateway.http.api.runs.tickets import ITEM, RESPONSE
from gateway.http.streams import PULSE, PULSE_SECONDS, write_event


def write_response(record: Record) -> dict[str, Any]:
    """The response as it stands."""
    outcome = record.outcome
    problem = problem_with(record) if record.is_over else None
    missing = _find_missing(outcome) if outcome else ""
    return {
        "id": record.ticket.write(RESPONSE),
        "object": "response",
        "created_at": int(record.created),
        "status": "incomplete" if missing else record.status,  # of one that was stopped, something is missing
        "model": record.model or "hermes",
        "output": [_write_item(record, outcome.text, _name_status(outcome))] if outcome and problem is None else [],
        "error": {"code": "server_error", "message": problem.message} if problem else None,
        "incomplete_details": {"reason": missing} if missing else None,
        "conversation": {"id": record.ticket.conversation},
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
        "usage": _write_usage(outcome) if outcome else None,
        **(write_extras(outcome) if outcome else {}),
    }


def _find_missing(outcome: RunOutcome) -> str:
    """Why the text is not all there is to say; empty: it is."""
    return "interrupted" if outcome.interrupted else INCOMPLETE.get(outcome.early, "")


def _name_status(outcome: RunOutcome) -> str:
    return "incomplete" if _find_missing(outcome) else "completed"


def _write_item(record: Record, text: str | None, status: str) -> dict[str, Any]:
    content = [] if text is None else [_write_part(text)]
    name = record.ticket.write(ITEM)
    return {"id": name, "type": "message", "role": "assistant", "status": status, "content": content}


def _write_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _write_usage(outcome: RunOutcome) -> dict[str, Any]:
    usage = outcome.usage
    read, written = usage.get("input", 0), usage.get("output", 0)
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": usage.get("cached", 0), "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning", 0)},
        "total_tokens": read + written,
    }


class _Events:
    """Typed events with their numbers."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._number = -1
        self._item = {"item_id": record.ticket.write(ITEM), "output_index": 0}
        self._opened = False

    def write(self, kind: str, data: Mapping[str, Any]) -> str:
        self._number += 1
        return write_event({"type": kind, "sequence_number": self._number, **data}, event=kind)

    def begin(self) -> list[str]:
        """A client that reads an ended run again sees it grow as the first one did."""
        empty: dict[str, Any] = {
            "status": "in_progress",
            "output": [],
            "error": None,
            "incomplete_details": None,
            "usage": None,
        }
        grown = {"response": {**write_response(self._record), **empty}}
        return [self.write("response.created", grown), self.write("response.in_progress", grown)]

    def open(self) -> list[str]:
        """The item and its part, once, before the first piece of text."""
        if self._opened:
            return []
        self._opened = True
        item = _write_item(self._record, None, "in_progress")
        return [
            self.write("response.output_item.added", {"output_index": 0, "item": item}),
            self.write("response.content_part.added", {**self._item, "content_index": 0, "part": _write_part("")}),
        ]

    def text(self, piece: str) -> list[str]:
        delta = {**self._item, "content_index": 0, "delta": piece, "logprobs": []}
        return [*self.open(), self.write("response.output_text.delta", delta)]

    def finish(self, outcome: RunOutcome) -> list[str]:
        place = {**self._item, "content_index": 0}
        status = _name_status(outcome)
        item = _write_item(self._record, outcome.text, status)
        return [
            *self.open(),
            self.write("response.output_text.done", {**place, "text": outcome.text, "logprobs": []}),
            self.write("response.content_part.done", {**place, "part": _write_part(outcome.text)}),
            self.write("response.output_item.done", {"output_index": 0, "item": item}),
            self.write(f"response.{status}", {"response": write_response(self._record)}),
        ]

    def fail(self, problem: ApiProblem) -> str:
        """A run that failed is a failed response; one that goes on, or has ended well, is an error of this stream."""
        if self._record.outcome is not None and problem_with(self._record) is not None:
            return self.write("response.failed", {"response": {**write_response(self._record), "status": "failed"}})
        return self.write("error", {"code": problem.code, "message": problem.message, "param": None})


async def write_typed_events(record: Record, *, events: bool) -> AsyncIterator[str]:
    """The run as the typed events of this format, from its beginning."""
    written = _Events(record)
    for piece in written.begin():
        yield piece
    sent = SentText(record)
    async for event in record.follow(pulse=PULSE_SECONDS):
        if event is None:
            yield PULSE
        elif event.kind in (TEXT, TEXT_ENDED):
            new = sent.take(event)
            for piece in written.text(new) if new else ():
                yield piece
            if sent.problem is not None:
                yield written.fail(sent.problem)
                return
        elif event.kind in (ENDED, CLOSING):
            problem = find_problem(record, sent)
            outcome = record.outcome
            pieces = [written.fail(problem)] if problem is not None else written.finish(outcome) if outcome else []
            for piece in pieces:
                yield piece
        elif events:
            yield written.write("hermes.event", {"event": event.kind, **event.data})
