"""What a server asks while it works on a call: a question to the person, or a text of the model.

Both are asked of the person whose turn it is, with the name of the server; where nobody is asked, the answer is no.
What the model writes for a server is within a budget, and only where the owner allowed it.
"""

import asyncio
import contextvars
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hermes_base.chat import Question
from hermes_base.text.harmless import show_hidden
from hermes_base.turn.tool_context import ToolContext
from mcp import types
from tools.approval import EXPIRES_SECONDS, ask_approval
from tools.mcp.elicited_answers import (
    MOST_FIELDS,
    Value,
    WayOut,
    describe_answer,
    describe_choices,
    find_choices,
    find_ways_out,
    offer_ways_out,
    read_answer,
    read_fields,
    read_way_out,
)
from tools.mcp.mcp_results import clean_line
from tools.mcp.mcp_schemas import clean_text
from tools.mcp.mcp_specs import ServerSpec

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.context import RequestContext

log = logging.getLogger(__name__)

MOST_TRIES = 3  # for one answer
ASKED_CHARS = 1_500
SAMPLE_CHARS = 20_000  # of a conversation that the model is to continue; a person reads it before
MOST_CHOICES = 8
T = TypeVar("T")


@dataclass
class ServerCall:
    """A request under way: whom it works for, and when something of it moved last."""

    context: ToolContext | None = None
    number: int = -1
    moved: float = 0.0
    asking: int = 0  # questions of the server that a person has not answered yet
    unanswered: bool = False  # nobody answers: the server asks no more in this call
    spent: int = 0  # tokens that the server had the model write
    variables: contextvars.Context = field(default_factory=contextvars.copy_context)  # of the turn's thread

    def note_progress(self) -> None:
        self.moved = asyncio.get_running_loop().time()
        if self.context is not None and self.context.note_activity is not None:
            self.context.note_activity()

    async def ask(self, question: Callable[[], T]) -> T:
        """Ask on a thread of its own: a person takes their time, and nothing else waits for a free one."""
        answer: Future[T] = Future()
        answer.set_running_or_notify_cancel()

        def run() -> None:
            try:
                answer.set_result(self.variables.copy().run(question))
            except BaseException as problem:  # noqa: BLE001 - the top of a thread; whoever asked gets it
                answer.set_exception(problem)

        with self.held():
            threading.Thread(target=run, name="mcp-question", daemon=True).start()
            return await asyncio.wrap_future(answer)

    @contextmanager
    def held(self) -> Iterator[None]:
        """It waits for a person: its own time stands still."""
        self.asking += 1
        try:
            yield
        finally:
            self.asking -= 1
            self.note_progress()


@dataclass(frozen=True, slots=True)
class ServerAsks:
    spec: ServerSpec
    find_call: Callable[[], ServerCall | None]
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # a person is asked one thing at a time

    async def elicit(
        self,
        context: "RequestContext[ClientSession, Any]",
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        """The person's answers to a question of the server, field by field."""
        call = self.find_call()
        if call is None or call.context is None or call.context.asker is None:
            return types.ElicitResult(action="cancel")
        given = params.model_dump(by_alias=True)
        fields = list(read_fields(given.get("requestedSchema")))
        if len(fields) > MOST_FIELDS:
            return _refuse(f"A person is asked for {MOST_FIELDS} things at a time at most.")
        found: dict[str, Value] = {}
        with call.held():
            async with self.turn:
                for name, schema in fields or [("", {"type": "boolean"})]:
                    value = await self._ask_field(call, given, name, schema)
                    if value is None:
                        return types.ElicitResult(action="cancel")
                    if value is WayOut.DECLINE or (not name and value is not True):
                        return types.ElicitResult(action="decline")
                    if name and not isinstance(value, WayOut):
                        found[name] = value
                    elif "default" in schema:
                        found[name] = schema["default"]
        return types.ElicitResult(action="accept", content=found)

    async def _ask_field(
        self, call: ServerCall, given: Mapping[str, Any], name: str, schema: Mapping[str, Any]
    ) -> Value | WayOut:
        """The person's answer; one that is none of its kind is asked for again. None: there is none."""
        turn, wrong = call.context, ""
        ways = find_ways_out(given.get("requestedSchema"), name, schema) if name else ()
        assert turn is not None
        assert turn.asker is not None
        for _ in range(MOST_TRIES):
            if turn.cancel.cancelled or call.unanswered:
                return None
            question = self._make_question(given, name, schema, turn, wrong, ways)
            answer = await call.ask(partial(turn.asker, question))
            call.unanswered |= not answer.given
            if not answer.given or turn.cancel.cancelled:
                return None
            value = read_way_out(answer.text, ways) or read_answer(answer.text, schema)
            if value is not None:
                return value
            expected = clean_line(describe_answer(schema))
            wrong = f'"{clean_line(answer.text)[:80]}" is not what is asked for; it has to be {expected}.'
        return None

    def _make_question(
        self,
        given: Mapping[str, Any],
        name: str,
        schema: Mapping[str, Any],
        turn: ToolContext,
        wrong: str,
        ways: tuple[WayOut, ...],
    ) -> Question:
        asked = clean_text(given.get("message"), ASKED_CHARS)
        lines = [wrong] if wrong else []
        lines.append(f"The MCP server {self.spec.name} asks: {asked}")
        if given.get("url"):
            lines.append(f"It wants you to open {clean_line(given['url'])} yourself. Say yes when that is done.")
        if name:
            about = clean_text(schema.get("description") or schema.get("title"), 200)
            lines.append(f"{clean_line(name)}{f' ({about})' if about else ''}:")
            lines += filter(None, (clean_line(describe_choices(schema)), clean_line(offer_ways_out(ways, schema))))
        text = turn.redact("\n".join(lines))
        choices = tuple(find_choices(schema))
        shown = (*choices, *(way.value for way in ways)) if 0 < len(choices) <= MOST_CHOICES else ()
        return Question("clarification", text, shown, EXPIRES_SECONDS, origins=turn.foreign.origins)

    async def sample(
        self,
        context: "RequestContext[ClientSession, Any]",
        params: types.CreateMessageRequestParams,
    ) -> types.CreateMessageResult | types.CreateMessageResultWithTools | types.ErrorData:
        """A text of the model for the server, if the person agrees and the budget of the call allows it."""
        call = self.find_call()
        turn = call.context if call is not None else None
        if call is None or turn is None or turn.ask_model is None:
            return _refuse("There is nobody here who could agree to it.")
        most = params.maxTokens
        if most <= 0 or call.spent + most > self.spec.sampling:
            return _refuse(f"It is more than the {self.spec.sampling} tokens that the owner allows for one call.")
        call.spent += most
        try:
            messages = list(_read_messages(params))
        except ValueError as problem:
            return _refuse(str(problem))
        said = "\n".join(f"{one['role']}: {one['content']}" for one in messages)
        if len(said) > SAMPLE_CHARS:
            return _refuse("It is too long to be shown to whoever is asked.")
        what = f"Have the model write up to {most} tokens for the MCP server {self.spec.name}:\n{said}"
        turn.foreign.note(f"MCP server {self.spec.name}")
        ask_model = turn.ask_model
        with call.held():
            async with self.turn:
                consent = await call.ask(lambda: ask_approval(turn, what, "a server of yours asks for it"))
        if not consent:
            return _refuse(consent.why)
        try:
            text = await call.ask(lambda: ask_model(messages, most))
        except Exception as problem:
            log.exception("a text for MCP server %s failed", self.spec.name)
            return _refuse(f"The model did not answer ({type(problem).__name__}).")
        content = types.TextContent(type="text", text=turn.redact(text))
        return types.CreateMessageResult(role="assistant", content=content, model="hermes", stopReason="endTurn")


def _read_messages(params: types.CreateMessageRequestParams) -> Iterator[dict[str, str]]:
    """The conversation that the server wants continued; texts only. What is shown is what is sent."""
    if params.systemPrompt:
        yield {"role": "system", "content": show_hidden(params.systemPrompt)}
    for message in params.messages:
        parts = message.content if isinstance(message.content, list) else [message.content]
        if not all(isinstance(part, types.TextContent) for part in parts):
            raise ValueError("Only texts can be continued here.")
        text = "\n".join(part.text for part in parts if isinstance(part, types.TextContent))
        yield {"role": message.role, "content": show_hidden(text)}


def _refuse(why: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=json.dumps(why)[1:-1])
