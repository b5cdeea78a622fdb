"""The application behind the server: finds the route, records the request, lets it be answered or go wrong."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from hermes_base.errors import ConfigProblem
from hermes_lab.answering import choose_step, compose_answer
from hermes_lab.bill import Bill
from hermes_lab.connection import EVENTS, JSON, Connection, Headers
from hermes_lab.formats import FORMATS, Format
from hermes_lab.formats.chat_completions import encode_problem
from hermes_lab.plan import Fault, Plan, PlanInput, Step, parse_plan
from hermes_lab.problems import describe_failure
from hermes_lab.recorder import Recorder
from hermes_lab.values import Answer, Ask, Problem, Refused, Usage

MODELS = ("lab", "lab-small")

Handler = Callable[[Connection, bytes], Awaitable[None]]


class LabApp:
    """Plan, recorder and bill, and the routes that use them; speaks raw ASGI to keep a streamed chunk cheap."""

    def __init__(self, plan: PlanInput = (), record_file: str | Path | None = None) -> None:
        self.plan = Plan(plan)
        self.recorder = Recorder(record_file)
        self.bill = Bill()
        self.in_flight = 0
        self._routes: Mapping[tuple[str, str], Handler] = {
            ("GET", "/health"): self._show_health,
            ("GET", "/v1/models"): self._list_models,
            ("GET", "/lab/requests"): self._list_requests,
            ("DELETE", "/lab/requests"): self._clear_requests,
            ("GET", "/lab/plan"): self._show_plan,
            ("POST", "/lab/plan"): self._replace_plan,
            ("GET", "/lab/bill"): self._show_bill,
            **{("POST", wire.path): _Answering(self, wire) for wire in FORMATS},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = Connection(scope, receive, send)
        self.in_flight += 1
        try:
            await self._dispatch(connection)
        finally:
            self.in_flight -= 1

    async def _dispatch(self, connection: Connection) -> None:
        body = await connection.read_body()
        if body is None:
            return
        if connection.path.startswith("/v1/"):
            self.recorder.note(connection.method, connection.path, connection.headers, body)
        handler = self._routes.get((connection.method, connection.path))
        if handler is None:
            message = f"Unknown request URL: {connection.method} {connection.path}."
            await _send_problem(connection, Problem(404, message, code="unknown_url"))
            return
        await handler(connection, body)

    async def _show_health(self, connection: Connection, body: bytes) -> None:
        await _send_json(connection, {"status": "ok"})

    async def _list_models(self, connection: Connection, body: bytes) -> None:
        models = [{"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "lab"} for name in MODELS]
        await _send_json(connection, {"object": "list", "data": models})

    async def _list_requests(self, connection: Connection, body: bytes) -> None:
        await _send_json(connection, [recorded.describe() for recorded in self.recorder.list_requests()])

    async def _clear_requests(self, connection: Connection, body: bytes) -> None:
        self.recorder.clear()
        await _send_json(connection, {"requests": 0})

    async def _show_plan(self, connection: Connection, body: bytes) -> None:
        await _send_json(connection, {"steps": self.plan.count_left()})

    async def _replace_plan(self, connection: Connection, body: bytes) -> None:
        try:
            self.plan.replace(parse_plan(body))
        except ConfigProblem as problem:
            await _send_problem(connection, Problem(400, str(problem), code="bad_plan"))
            return
        await self._show_plan(connection, body)

    async def _show_bill(self, connection: Connection, body: bytes) -> None:
        await _send_json(connection, {account: asdict(usage) for account, usage in self.bill.list_sums().items()})


class _Answering:
    """The route of one wire format."""

    def __init__(self, app: LabApp, wire: Format) -> None:
        self._app = app
        self._wire = wire

    async def __call__(self, connection: Connection, body: bytes) -> None:
        try:
            ask = self._wire.decode(body)
            step = choose_step(ask, self._app.plan)
        except Refused as refused:
            await connection.send_whole(refused.problem.status, self._wire.encode_problem(refused.problem))
            return
        if step.stall_first and await connection.wait(step.stall_first):
            return
        fault = step.fault or Fault()
        if fault.hang_up:
            await connection.cut()
        elif fault.status is not None:
            await self._fail(connection, fault, fault.status)
        else:
            await self._answer(connection, ask, step, fault)

    async def _fail(self, connection: Connection, fault: Fault, status: int) -> None:
        kind: Headers = JSON
        if fault.body is None:
            body = self._wire.encode_problem(describe_failure(status, fault.code, fault.message))
        else:
            body = fault.body.encode("utf-8")
            kind = JSON if fault.body.startswith(("{", "[")) else (("content-type", "text/plain; charset=utf-8"),)
        given = {name for name, _ in fault.headers}
        await connection.send_whole(status, body, (*(pair for pair in kind if pair[0] not in given), *fault.headers))

    async def _answer(self, connection: Connection, ask: Ask, step: Step, fault: Fault) -> None:
        answer = compose_answer(ask, step)
        account = dict(connection.headers).get(self._wire.key_header, "")
        usage = self._app.bill.charge(account, ask, answer, step.usage)
        headers = (("x-request-id", f"req_{ask.seed[:24]}"), *fault.headers)
        parts, kind = self._encode(ask, answer, usage)
        await connection.start(200, (*kind, *headers))
        await connection.send_parts(_cut_parts(parts, fault), step.stall_between)
        if fault.cut_after_chunks is None and fault.cut_after_bytes is None:
            await connection.finish()
        else:
            await connection.cut()

    def _encode(self, ask: Ask, answer: Answer, usage: Usage) -> tuple[list[bytes], Headers]:
        if ask.stream:
            return self._wire.encode_stream(ask, answer, usage), EVENTS
        body = self._wire.encode_whole(ask, answer, usage)
        # Two parts, so that a whole answer can be cut in the middle as well.
        middle = len(body) // 2
        return [body[:middle], body[middle:]], (*JSON, ("content-length", str(len(body))))


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


async def _send_json(connection: Connection, value: Any) -> None:
    await connection.send_whole(200, json.dumps(value, ensure_ascii=False).encode("utf-8"))


async def _send_problem(connection: Connection, problem: Problem) -> None:
    await connection.send_whole(problem.status, encode_problem(problem))
