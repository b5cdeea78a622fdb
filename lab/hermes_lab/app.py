"""The application behind the server: finds the route, records the request, lets it be answered or go wrong."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from hermes_lab.answer_route import AnswerRoute, Desk
from hermes_lab.bill import Bill
from hermes_lab.cache import DOCUMENTED_MINIMUM, LabClock, PrefixCache
from hermes_lab.connection import Connection
from hermes_lab.formats import FORMATS
from hermes_lab.formats.chat_completions import encode_problem
from hermes_lab.limits import Window
from hermes_lab.plan import Plan, PlanInput, parse_plan
from hermes_lab.recorder import Recorder
from hermes_lab.thoughts import Thoughts
from hermes_lab.values import LabProblem, Problem

MODELS = ("lab", "lab-small")

Handler = Callable[[Connection, bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the model behind the server can do."""

    window: Window = None  # tokens of prompt and answer together
    cache_minimum: int | None = DOCUMENTED_MINIMUM  # tokens from which a prefix is cached; None: no cache


class LabApp:
    """Plan, recorder and bill, and the routes that use them; speaks raw ASGI to keep a streamed chunk cheap."""

    def __init__(
        self, plan: Plan | PlanInput = (), record_file: str | Path | None = None, settings: Settings | None = None
    ) -> None:
        settings = settings or Settings()
        self.plan = plan if isinstance(plan, Plan) else Plan(plan)
        self.recorder = Recorder(record_file)
        self.bill = Bill()
        self.clock = LabClock()
        self.in_flight = 0
        self.most_in_flight = 0
        self.model_calls = 0  # so far
        cache = PrefixCache(self.clock, settings.cache_minimum)
        desk = Desk(self.plan, self.bill, cache, Thoughts(), settings.window)
        self._routes: Mapping[tuple[str, str], Handler] = {
            ("GET", "/health"): self._show_health,
            ("GET", "/v1/models"): self._list_models,
            ("GET", "/lab/requests"): self._list_requests,
            ("DELETE", "/lab/requests"): self._clear_requests,
            ("GET", "/lab/plan"): self._show_plan,
            ("POST", "/lab/plan"): self._replace_plan,
            ("GET", "/lab/bill"): self._show_bill,
            ("DELETE", "/lab/bill"): self._clear_bill,
            ("POST", "/lab/clock"): self._advance_clock,
            ("GET", "/lab/load"): self._show_load,
            **{("POST", wire.path): AnswerRoute(desk, wire) for wire in FORMATS},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = Connection(scope, receive, send)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.model_calls += scope.get("method") == "POST" and scope["path"].startswith("/v1/")
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
        describe = _describe_claude if "anthropic-version" in dict(connection.headers) else _describe_model
        models = [describe(name) for name in MODELS]
        ends = {"has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
        await _send_json(connection, {"object": "list", "data": models, **ends})

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
        except LabProblem as problem:
            await _send_problem(connection, Problem(400, str(problem), code="bad_plan"))
            return
        await self._show_plan(connection, body)

    async def _show_bill(self, connection: Connection, body: bytes) -> None:
        accounts = {account: asdict(sums) for account, sums in self.bill.list_sums().items()}
        await _send_json(connection, {"accounts": accounts, "requests": [asdict(row) for row in self.bill.list_rows()]})

    async def _clear_bill(self, connection: Connection, body: bytes) -> None:
        self.bill.clear()
        await _send_json(connection, {"requests": 0})

    async def _show_load(self, connection: Connection, body: bytes) -> None:
        """How many requests are under way, and how many were at most."""
        await _send_json(
            connection,
            {
                "in_flight": self.in_flight,
                "most_in_flight": self.most_in_flight,
                "model_calls": self.model_calls,
            },
        )

    async def _advance_clock(self, connection: Connection, body: bytes) -> None:
        try:
            self.clock.advance(float(json.loads(body)["advance"]))
        except (ValueError, TypeError, KeyError):
            message = 'The clock takes {"advance": SECONDS}.'
            await _send_problem(connection, Problem(400, message, code="bad_clock"))
            return
        await _send_json(connection, {"now": self.clock.now})


def _describe_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "lab"}


def _describe_claude(name: str) -> dict[str, Any]:
    return {"id": name, "type": "model", "display_name": name, "created_at": "2023-11-14T22:13:20Z"}


async def _send_json(connection: Connection, value: Any) -> None:
    await connection.send_whole(200, json.dumps(value, ensure_ascii=False).encode("utf-8"))


async def _send_problem(connection: Connection, problem: Problem) -> None:
    await connection.send_whole(problem.status, encode_problem(problem))
