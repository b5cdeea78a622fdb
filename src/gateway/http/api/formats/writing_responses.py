"""Writes what came of a run in the Responses format, whole or as typed events."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from gateway.http.api.formats.sent_text import EVENT_NAMES, describe_event, problem_with
from gateway.http.api.formats.writing_chat import INCOMPLETE, write_extras, write_usage
from gateway.http.api.messages import (
    OutputItem,
    OutputText,
    PlaceObject,
    ResponseAnswer,
    ResponseUsage,
)
from gateway.http.api.problems import ApiProblem
from gateway.http.api.runs.outcomes import RunOutcome
from gateway.http.api.runs.run_record import Record, RunEvent
from gateway.http.api.runs.tickets import ITEM, RESPONSE
from gateway.http.calls import write_event


def write_response(record: Record) -> ResponseAnswer:
    """The response as it stands."""
    outcome = record.outcome
    problem = problem_with(record) if record.is_over else None
    missing = _find_missing(outcome) if outcome else ""
    return ResponseAnswer(
        id=record.ticket.write(RESPONSE),
        created_at=int(record.created),
        status="incomplete" if missing else record.status,  # of one that was stopped, something is missing
        model=record.model or "hermes",
        output=[_write_item(record, outcome.text, _name_status(outcome))] if outcome and problem is None else [],
        error={"code": "server_error", "message": problem.message} if problem else None,
        incomplete_details={"reason": missing} if missing else None,
        conversation=PlaceObject(record.ticket.conversation),
        usage=_write_usage(outcome.usage) if outcome else None,
        hermes=write_extras(outcome),
    )


def _find_missing(outcome: RunOutcome) -> str:
    """Why the text is not all there is to say; empty: it is."""
    return "interrupted" if outcome.interrupted else INCOMPLETE.get(outcome.early, "")


def _name_status(outcome: RunOutcome) -> str:
    return "incomplete" if _find_missing(outcome) else "completed"


def _write_item(record: Record, text: str | None, status: str) -> OutputItem:
    return OutputItem(record.ticket.write(ITEM), status, [] if text is None else [OutputText(text)])


def _write_usage(usage: Mapping[str, int]) -> ResponseUsage:
    counted = write_usage(usage)
    read, written = counted.prompt_tokens, counted.completion_tokens
    details = counted.prompt_tokens_details, counted.completion_tokens_details
    return ResponseUsage(read, details[0], written, details[1], counted.total_tokens)


class ResponseStream:
    """The run as the typed events of this format, with their numbers."""

    def __init__(self, record: Record, *, events: bool) -> None:
        self._record = record
        self._events = events
        self._number = -1
        self._item = {"item_id": record.ticket.write(ITEM), "output_index": 0}
        self._opened = False

    def begin(self) -> list[bytes]:
        """A client that reads an ended run again sees it grow as the first one did."""
        whole = write_response(self._record)
        empty = replace(whole, status="in_progress", output=[], error=None, incomplete_details=None, usage=None)
        grown = {"response": empty}
        return [self._write("response.created", grown), self._write("response.in_progress", grown)]

    def open(self) -> list[bytes]:
        """The item and its part, once, before the first piece of text."""
        if self._opened:
            return []
        self._opened = True
        item = _write_item(self._record, None, "in_progress")
        return [
            self._write("response.output_item.added", {"output_index": 0, "item": item}),
            self._write("response.content_part.added", {**self._item, "content_index": 0, "part": OutputText("")}),
        ]

    def write_text(self, piece: str) -> list[bytes]:
        delta = {**self._item, "content_index": 0, "delta": piece, "logprobs": []}
        return [*self.open(), self._write("response.output_text.delta", delta)]

    def finish(self, outcome: RunOutcome) -> list[bytes]:
        place = {**self._item, "content_index": 0}
        status = _name_status(outcome)
        item = _write_item(self._record, outcome.text, status)
        return [
            *self.open(),
            self._write("response.output_text.done", {**place, "text": outcome.text, "logprobs": []}),
            self._write("response.content_part.done", {**place, "part": OutputText(outcome.text)}),
            self._write("response.output_item.done", {"output_index": 0, "item": item}),
            self._write(f"response.{status}", {"response": write_response(self._record)}),
        ]

    def write_event(self, event: RunEvent) -> list[bytes]:
        told = {"event": EVENT_NAMES[type(event)], **describe_event(event)}
        return [self._write("hermes.event", told)] if self._events else []

    def fail(self, problem: ApiProblem) -> list[bytes]:
        """A run that failed is a failed response; one that goes on, or has ended well, is an error of this stream."""
        if self._record.outcome is not None and problem_with(self._record) is not None:
            failed = replace(write_response(self._record), status="failed")
            return [self._write("response.failed", {"response": failed})]
        return [self._write("error", {"code": problem.code, "message": problem.message, "param": None})]

    def _write(self, kind: str, data: Mapping[str, Any]) -> bytes:
        self._number += 1
        return write_event({"type": kind, "sequence_number": self._number, **data}, event=kind)
