"""A plan: steps as data, each of which answers one request; read from JSON with the place of every mistake."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hermes_lab.values import Ask, Finish, LabProblem, Usage


@dataclass(frozen=True, slots=True)
class PlannedCall:
    name: str
    arguments: str = "{}"
    id: str | None = None  # None: made from the request


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong: an error answer (`status`), or an answer that ends too early."""

    status: int | None = None
    message: str | None = None
    code: str | None = None
    body: str | None = None  # None: the usual one of the status
    headers: tuple[tuple[str, str], ...] = ()
    cut_after_chunks: int | None = None  # close the connection after so many events of the stream
    cut_after_bytes: int | None = None  # the same, counted in bytes of the body
    hang_up: bool = False  # close the connection without any answer
    error_after_chunks: int | None = None  # an error event after so many events; `status` and `code` say which error
    failed_answer: bool = False  # it comes as an answer of status failed, in formats that have one


@dataclass(frozen=True, slots=True)
class Step:
    """One answer. What is left out is filled in: text by the default answer, ids and usage from the request."""

    text: str | None = None
    reasoning: str = ""
    hide_reasoning: bool = False  # the client gets it sealed, without its text
    tool_calls: tuple[PlannedCall, ...] = ()
    finish_reason: Finish | None = None
    usage: Mapping[str, int] = field(default_factory=dict)  # replaces single counts
    chunks: int | None = None
    chunk_size: int | None = None
    stall_first: float = 0.0  # seconds before the first byte
    stall_between: float = 0.0  # seconds between two events of the stream
    fault: Fault | None = None
    model: str = ""  # answers only requests for this model
    contains: str = ""  # answers only when the newest user message contains this
    times: int = 1  # how many requests it answers; 0 = no end

    def fits(self, ask: Ask) -> bool:
        return self.model in ("", ask.model) and self.contains in ask.user_text


PlanInput = Iterable[Step | Mapping[str, Any]]


class Plan:
    """The steps still to come; each request takes the first one that fits it."""

    def __init__(self, steps: PlanInput = ()) -> None:
        self._lock = threading.Lock()
        self._left: list[tuple[Step, int]] = []
        self.replace(steps)

    def replace(self, steps: PlanInput) -> None:
        whole = [step if isinstance(step, Step) else read_step(step, f"step {n}") for n, step in enumerate(steps, 1)]
        with self._lock:
            self._left = [(step, step.times) for step in whole]

    def take(self, ask: Ask) -> Step | None:
        with self._lock:
            for place, (step, left) in enumerate(self._left):
                if step.fits(ask):
                    self._left[place : place + 1] = [] if left == 1 else [(step, max(left - 1, 0))]
                    return step
        return None

    def count_left(self) -> int:
        with self._lock:
            return len(self._left)


def load_plan(path: str | Path) -> tuple[Step, ...]:
    """Read a plan file; a mistake is a LabProblem that names file and place."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise LabProblem(f"The plan {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise LabProblem(f"The plan {path} is not UTF-8: byte {error.start} is wrong.") from error
    return parse_plan(text, str(path))


def parse_plan(text: str | bytes, source: str = "plan") -> tuple[Step, ...]:
    """Read the JSON text of a plan; `source` is named in the sentence about a mistake."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise LabProblem(f"{source}, {place}: this is not JSON ({error.msg}).") from error
    except UnicodeDecodeError as error:
        raise LabProblem(f"{source} is not UTF-8: byte {error.start} is wrong.") from error
    if not isinstance(data, list):
        raise LabProblem(f"{source}: a plan is a JSON array of steps, not {_show(data)}.")
    return tuple(read_step(step, f"{source}, step {number}") for number, step in enumerate(data, 1))


def read_step(data: object, place: str) -> Step:
    return Step(**_read_fields(data, _STEP_FIELDS, place))


# A reader turns the JSON value of one field into its Python value, or says what the field must be.
Reader = Callable[[object, str], Any]


def _read_fields(data: object, readers: Mapping[str, Reader], place: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise LabProblem(f"{place}: expected an object, not {_show(data)}.")
    for name in data:
        if name not in readers:
            raise LabProblem(f"{place}: {name!r} is not known here.", fix=f"Known are: {', '.join(readers)}.")
    return {name: readers[name](value, f"{place}, {name}") for name, value in data.items()}


def _show(value: object) -> str:
    return json.dumps(value, default=repr)[:60]


def _wrong(place: str, wanted: str, value: object) -> LabProblem:
    return LabProblem(f"{place}: must be {wanted}, not {_show(value)}.")


def _read_text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise _wrong(place, "a text", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LabProblem(f"{place}: character {error.start} is half of a surrogate pair.") from error
    return value


def _read_flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(place, "true or false", value)
    return value


def _read_count(least: int, most: int | None = None) -> Reader:
    wanted = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"

    def read(value: object, place: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least or (most and value > most):
            raise _wrong(place, wanted, value)
        return value

    return read


def _read_seconds(value: object, place: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 86_400:
        raise _wrong(place, "a number of seconds from 0 to 86400", value)
    return float(value)


def _read_finish(value: object, place: str) -> Finish:
    if not isinstance(value, str) or value not in list(Finish):
        raise _wrong(place, f"one of {', '.join(Finish)}", value)
    return Finish(value)


def _read_arguments(value: object, place: str) -> str:
    """An object is written as JSON; a text is sent as it stands, so that it may be broken on purpose."""
    if isinstance(value, Mapping):
        value = json.dumps(value, ensure_ascii=False)
    return _read_text(value, place)


def _read_call(value: object, place: str) -> PlannedCall:
    read = _read_fields(value, _CALL_FIELDS, place)
    if not read.get("name"):
        raise LabProblem(f"{place}: a tool call needs a name.")
    return PlannedCall(**read)


def _read_calls(value: object, place: str) -> tuple[PlannedCall, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(place, "an array of tool calls", value)
    return tuple(
        call if isinstance(call, PlannedCall) else _read_call(call, f"{place} {number}")
        for number, call in enumerate(value, 1)
    )


def _read_usage(value: object, place: str) -> Mapping[str, int]:
    return MappingProxyType(_read_fields(value, _USAGE_FIELDS, place))


def _read_body(value: object, place: str) -> str:
    return _read_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), place)


def _read_headers(value: object, place: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise _wrong(place, "an object of texts", value)
    for name, content in value.items():
        if not (isinstance(content, str) and f"{name}{content}".isascii() and f"{name}{content}".isprintable()):
            raise _wrong(f"{place}, {name}", "a printable ASCII text", content)
    return tuple((name.lower(), content) for name, content in value.items())


def _read_fault(value: object, place: str) -> Fault:
    if isinstance(value, Fault):
        return value
    read = _read_fields(value, _FAULT_FIELDS, place)
    seconds = read.pop("retry_after", None)
    if seconds is not None:
        read["headers"] = (*read.get("headers", ()), ("retry-after", f"{seconds:g}"))
    return Fault(**read)


_CALL_FIELDS: Mapping[str, Reader] = {"name": _read_text, "arguments": _read_arguments, "id": _read_text}
_USAGE_FIELDS: Mapping[str, Reader] = {count.name: _read_count(0) for count in fields(Usage)}
_FAULT_FIELDS: Mapping[str, Reader] = {
    "status": _read_count(400, 599),
    "message": _read_text,
    "code": _read_text,
    "body": _read_body,
    "headers": _read_headers,
    "retry_after": _read_seconds,
    "cut_after_chunks": _read_count(0),
    "cut_after_bytes": _read_count(0),
    "hang_up": _read_flag,
    "error_after_chunks": _read_count(0),
    "failed_answer": _read_flag,
}
_STEP_FIELDS: Mapping[str, Reader] = {
    "text": _read_text,
    "reasoning": _read_text,
    "hide_reasoning": _read_flag,
    "tool_calls": _read_calls,
    "finish_reason": _read_finish,
    "usage": _read_usage,
    "chunks": _read_count(1),
    "chunk_size": _read_count(1),
    "stall_first": _read_seconds,
    "stall_between": _read_seconds,
    "fault": _read_fault,
    "model": _read_text,
    "contains": _read_text,
    "times": _read_count(0),
}
