"""Answers the requests of one wire format: checks, chooses, bills, then sends the answer or what goes wrong instead."""

from dataclasses import dataclass

from hermes_lab.answering import choose_step, compose_answer
from hermes_lab.bill import Bill, make_row, measure_usage
from hermes_lab.cache import PrefixCache
from hermes_lab.connection import EVENTS, JSON, Connection, Headers
from hermes_lab.formats import Format
from hermes_lab.formats.base import Overflow, find_account
from hermes_lab.limits import Window, find_room, find_window, overflows, shorten_answer
from hermes_lab.plan import Fault, Plan, Step
from hermes_lab.problems import describe_failure
from hermes_lab.thoughts import Thoughts
from hermes_lab.values import Answer, Ask, Problem, Refused, Usage

_OVERFLOW = "context_length_exceeded"
_SMALL_WINDOW = 8192  # told by an overflow that was asked for


@dataclass(frozen=True, slots=True)
class Desk:
    """What all formats answer from."""

    plan: Plan
    bill: Bill
    cache: PrefixCache
    thoughts: Thoughts
    window: Window


class AnswerRoute:
    """The route of one wire format."""

    def __init__(self, desk: Desk, wire: Format) -> None:
        self._desk = desk
        self._wire = wire

    async def __call__(self, connection: Connection, body: bytes) -> None:
        headers = dict(connection.headers)
        try:
            self._wire.check_headers(headers)
            ask = self._wire.decode(body)
            self._check(ask)
            step = choose_step(ask, self._desk.plan)
        except Refused as refused:
            await connection.send_whole(refused.problem.status, self._wire.encode_problem(refused.problem))
            return
        if step.stall_first and await connection.wait(step.stall_first):
            return
        fault = step.fault or Fault()
        breaks_off = fault.error_after_chunks is not None
        if fault.hang_up:
            await connection.cut()
        elif (not ask.stream) if breaks_off else (fault.status is not None):
            await self._fail(connection, ask, fault)
        else:
            await self._answer(connection, ask, step, find_account(headers))

    def _check(self, ask: Ask) -> None:
        """The rules that need more than the request itself."""
        window = find_window(self._desk.window, ask.model)
        if window is not None and overflows(ask, window):
            raise Refused(self._wire.describe_overflow(Overflow(ask.prompt.tokens, ask.limit, window)))
        describe = self._wire.describe_missing_thoughts
        if describe and ask.replay and self._desk.thoughts.are_missing(ask.replay):
            raise Refused(describe(ask.replay.place))

    async def _fail(self, connection: Connection, ask: Ask, fault: Fault) -> None:
        problem = self._describe(ask, fault)
        if fault.failed_answer and self._wire.encode_failed:
            await connection.send_whole(200, self._wire.encode_failed(ask, problem, None))
            return
        kind: Headers = JSON
        if fault.body is None:
            body = self._wire.encode_problem(problem)
        else:
            body = fault.body.encode("utf-8")
            kind = JSON if fault.body.startswith(("{", "[")) else (("content-type", "text/plain; charset=utf-8"),)
        given = {name for name, _ in fault.headers}
        headers = (*(pair for pair in kind if pair[0] not in given), *fault.headers)
        await connection.send_whole(problem.status, body, headers)

    def _describe(self, ask: Ask, fault: Fault) -> Problem:
        if fault.code == _OVERFLOW and fault.message is None:
            told = max(ask.prompt.tokens, _SMALL_WINDOW + 1)
            return self._wire.describe_overflow(Overflow(told, None, _SMALL_WINDOW))
        return describe_failure(fault.status or 500, fault.code, fault.message)

    async def _answer(self, connection: Connection, ask: Ask, step: Step, account: str) -> None:
        fault = step.fault or Fault()
        answer = self._compose(ask, step)
        found = self._desk.cache.visit((account, self._wire.name, ask.model), ask.prompt)
        usage = measure_usage(ask, answer, found, step.usage)
        parts, kind = self._encode(ask, answer, usage)
        sent = self._spoil(ask, parts, fault)
        needed = len(parts) - (self._wire.closing_events if ask.stream else 0)
        complete = sent[:needed] == parts[:needed]
        self._desk.bill.charge(make_row(account, self._wire.name, ask, usage, found, complete))
        request_id = (self._wire.request_id_header, f"req_{ask.seed[:24]}")
        await connection.start(200, (*kind, request_id, *fault.headers))
        await connection.send_parts(sent, step.stall_between)
        if fault.cut_after_chunks is None and fault.cut_after_bytes is None:
            await connection.finish()
        else:
            await connection.cut()

    def _compose(self, ask: Ask, step: Step) -> Answer:
        room = find_room(ask, find_window(self._desk.window, ask.model))
        answer = shorten_answer(compose_answer(ask, step, self._wire.call_prefix), room)
        if ask.thinks and self._wire.describe_missing_thoughts:
            self._desk.thoughts.note((call.id for call in answer.calls), bool(answer.reasoning))
        return answer

    def _encode(self, ask: Ask, answer: Answer, usage: Usage) -> tuple[list[bytes], Headers]:
        if ask.stream:
            return self._wire.encode_stream(ask, answer, usage), EVENTS
        body = self._wire.encode_whole(ask, answer, usage)
        # Two parts, so that a whole answer can be cut in the middle as well.
        middle = len(body) // 2
        return [body[:middle], body[middle:]], (*JSON, ("content-length", str(len(body))))

    def _spoil(self, ask: Ask, parts: list[bytes], fault: Fault) -> list[bytes]:
        """What is sent of the answer, with the error that ends it."""
        if fault.error_after_chunks is None:
            return _cut_parts(parts, fault)
        kept = parts[: fault.error_after_chunks]
        problem = self._describe(ask, fault)
        if fault.failed_answer and self._wire.encode_failed:
            return [*kept, self._wire.encode_failed(ask, problem, len(kept))]
        return [*kept, self._wire.encode_error_event(problem, len(kept))]


def _cut_parts(parts: list[bytes], fault: Fault) -> list[bytes]:
    """The parts that are still sent before the connection is cut."""
    if fault.cut_after_chunks is not None:
        parts = parts[: fault.cut_after_chunks]
    if fault.cut_after_bytes is None:
        return parts
    kept: list[bytes] = []
    left = fault.cut_after_bytes
    for part in parts:
        kept.append(part[:left])
        left -= len(kept[-1])
    return [part for part in kept if part]
