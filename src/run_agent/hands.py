"""Runs one tool call of a turn: plugins are asked, the person is asked where it matters, and the result is text."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import model_tools
from agent.formats.repair import INVALID_ARGUMENTS
from agent.formats.reply import ToolCall
from hermes_base.chat import Answer, Question, ToolEnded, ToolStarted
from hermes_base.errors import Interrupted
from hermes_base.text.tool_views import cut, read_object, show_call, view_outcome, write_plain
from hermes_base.turn.hooks import Hooks
from hermes_base.turn.indirect import unwrap
from hermes_base.turn.tool_context import ToolContext
from model_tools.hooked import RefusedByPlugin, edit_args, is_error, run_hooked, tell_after
from run_agent.memory_binding import AgentMemory
from tools import memory_tool
from tools.approval import ask_approval
from tools.process_registry import process_registry
from tools.registry import tool_error

log = logging.getLogger(__name__)

PREVIEW_CHARS = 120
RESULT_CHARS = 1_000  # of a result while the turn runs; the whole stands in the transcript


@dataclass(frozen=True, slots=True)
class AgentHands:
    """The hands of one turn. `allowed` are the tools that this conversation was offered."""

    hooks: Hooks
    emit: Callable[[ToolStarted | ToolEnded], None]  # never raises; nobody hears it when the turn is over
    allowed: Callable[[], frozenset[str]]
    context: ToolContext
    engine: Any
    engine_tools: frozenset[str]
    memory: AgentMemory | None = None
    user_task: str = ""  # what the person asks for

    def run(
        self,
        call: ToolCall,
        *,
        turn_id: str,
        request_id: str,
        messages: Sequence[Mapping[str, Any]],
        note_question: Callable[[bool], None],
    ) -> str:
        started = time.monotonic()
        name, meant = unwrap(call.name, json.loads(call.arguments))  # the message was repaired before: it is an object
        call, args = replace(call, name=name), dict(meant)
        shown = cut(" ".join(show_call(call.name, args).split()), PREVIEW_CHARS)  # on one line
        self.emit(ToolStarted(call.id, call.name, shown))
        ids = {
            "tool_name": call.name,
            "task_id": self.context.task,
            "session_id": self.context.session,
            "tool_call_id": call.id,
            "turn_id": turn_id,
            "api_request_id": request_id,
        }
        if call.name in self.allowed() and INVALID_ARGUMENTS not in args:
            args = dict(edit_args(self.hooks, ids, args))
        asker, waited = self.context.asker, 0.0
        used: list[str] = []  # kept approvals that let it happen

        def ask(question: Question) -> Answer:
            """Notes how long the person took, which is not the tool's time, and whether there was an answer."""
            nonlocal waited
            assert asker is not None
            note_question(False)
            begun = time.monotonic()
            try:
                answer = asker(question)
            finally:
                waited += time.monotonic() - begun
            if answer.given:
                note_question(True)
            if answer.rule:
                used.append(answer.rule)
            return answer

        hands = replace(self, context=replace(self.context, call=call.id, asker=None if asker is None else ask))
        found, refused = hands._run_guarded(call, args, ids, messages)
        seconds = time.monotonic() - started - waited
        result = tell_after(self.hooks, ids, args, note_rules(found, used), seconds, refused=refused)
        told = write_plain(view_outcome(call.name, args, result), RESULT_CHARS)
        done = not (is_error(result) or self.context.cancel.cancelled)  # what was stopped does not look done
        self.emit(ToolEnded(call.id, call.name, done, seconds, told))
        return result

    def is_working(self) -> bool:
        return bool(process_registry.awaited(self.context.task))

    def _run_guarded(
        self, call: ToolCall, args: dict[str, Any], ids: dict[str, Any], messages: Sequence[Mapping[str, Any]]
    ) -> tuple[str, bool]:
        """The boundary to tools, engines and plugins: whatever is raised becomes a text for the model. And whether a
        plugin refused it."""
        try:
            return self._checked_run(call, args, ids, messages), False
        except RefusedByPlugin as refusal:
            return tool_error(str(refusal)), True
        except Interrupted as stop:  # the turn hears it by itself, and waits for the other tools of the round
            return tool_error(f"{call.name} was interrupted: {stop.what}"), False
        except BaseException as problem:
            log.exception("tool %s failed", call.name)
            return tool_error(f"{call.name} failed: {type(problem).__name__}: {problem}"), False

    def _checked_run(
        self, call: ToolCall, args: dict[str, Any], ids: dict[str, Any], messages: Sequence[Mapping[str, Any]]
    ) -> str:
        if INVALID_ARGUMENTS in args:
            return tool_error(f"The arguments of {call.name} were not a valid JSON object; nothing was run.")
        if call.name not in self.allowed():
            known = self.allowed() - self.context.indirect.keys()  # names of others' choosing come by `find_tools` (G9)
            return tool_error(f"There is no tool called '{call.name}'.", available=sorted(known))

        def perform(given: Mapping[str, Any]) -> str:
            if call.name in self.engine_tools:
                return str(self.engine.handle_tool_call(call.name, dict(given), messages=messages))
            if self.memory is not None and call.name in self.memory.tool_names:
                return self.memory.run_tool(call.name, dict(given), self.context.foreign)
            task, session = self.context.task, self.context.session
            result = model_tools.handle_function_call(
                call.name, given, task, session_id=session, user_task=self.user_task, context=self.context
            )
            if self.memory is not None and call.name == memory_tool.NAME and not is_error(result):
                self.memory.mirror(given, self.context.redact)
            return result

        # Asks the person on behalf of a plugin; nobody there, or no answer, means no.
        return run_hooked(self.hooks, ids, args, perform, lambda what: bool(ask_approval(self.context, what)))


def note_rules(result: str, rules: Sequence[str]) -> str:
    """The result with a word on the kept approvals that it was allowed by: it stands in the transcript (G4)."""
    if not rules or '"_multimodal"' in result[:100]:
        return result
    told = "allowed by " + " and ".join(dict.fromkeys(rules))
    value = read_object(result)
    return f"{result}\n[{told}]" if value is None else json.dumps({**value, "approval": told}, ensure_ascii=False)


@lru_cache(maxsize=64)
def tool_names_in(tools: bytes) -> frozenset[str]:
    """The tools that a conversation was offered, by the array that is sent."""
    return frozenset(tool["function"]["name"] for tool in json.loads(tools))
