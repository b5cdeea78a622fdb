"""One model call: frozen fragments joined to a body, plugins asked around it, the engine told what it cost, and what
the person is shown of the answer while it comes."""

import copy
import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agent.auxiliary_client import as_openai_response
from agent.context_compressor import is_request
from agent.formats.chat_completions import encode_json
from agent.formats.repair import write_reply
from agent.formats.reply import Reply
from agent.formats.wire import AnswerReader, Dialect
from agent.turn.compaction import guarded
from agent.turn.conversation import Conversation, PrefixBreak
from agent.turn.ports import Ports, TurnFacts
from agent.turn.rules import TurnLimits
from hermes_base.chat import TextEnded
from hermes_base.errors import ModelFailure
from hermes_base.text.addresses import describe_address
from hermes_base.text.redact import LiveText
from hermes_base.turn.indirect import unwrap
from hermes_base.turn.journal import STEERED, SYSTEM, TOOLS

#: Hooks that may edit older messages in place; only while one is registered are those compared with what was sent.
EDITING_HOOKS = ("pre_llm_call", "pre_api_request")
#: The fields of a request that make up its prefix, in all formats.
PROMPT_FIELDS = ("model", "tools", "system", "instructions", "messages", "input")
#: How often plugins may keep a turn from ending.
MOST_CONTINUATIONS = 3
WRITING_TOOLS = frozenset({"write_file", "patch"})
#: How the formats call their output limit.
OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class ModelCaller:
    """Makes the model calls of one turn."""

    def __init__(self, ports: Ports, facts: TurnFacts) -> None:
        self._ports = ports
        self._facts = facts
        self._more = 0  # how often plugins wanted the turn to go on
        self._failed = 0  # calls in a row
        self.calls = 0
        self.breaks: list[PrefixBreak] = []

    def ask_plugins_for_context(
        self, text: str, parts: Sequence[Mapping[str, Any]], conversation: Conversation
    ) -> tuple[str | None, list[str]]:
        """What `pre_llm_call` hooks make of the text of the newest message, if they edit it, and what they add."""
        written: dict[str, Any] = {"type": "text", "text": text}
        said: dict[str, Any] = {"role": "user", "content": [written, *parts] if parts else text}
        answers = self._ports.hooks.invoke(
            "pre_llm_call",
            **self._ids(),
            user_message=text,
            conversation_history=[*conversation.messages, said],
            is_first_turn=not conversation.messages,
            model=self._ports.model.model,
            platform=self._facts.platform,
            sender_id=self._facts.sender,
        )
        pieces = (answer.get("context") if isinstance(answer, Mapping) else answer for answer in answers)
        edited = written["text"] if parts else said.get("content")
        kept = edited if isinstance(edited, str) and edited != text else None
        return kept, [piece for piece in pieces if isinstance(piece, str) and piece]

    def ask_plugins_for_more(self, held: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
        """What plugins want done before the turn ends with the answer that is held (`pre_verify`); empty: nothing."""
        if self._more >= MOST_CONTINUATIONS:
            return ""
        changed = find_changed_paths(messages)
        wanted = self._ports.hooks.invoke(
            "pre_verify",
            session_id=self._facts.session,
            platform=self._facts.platform,
            model=self._ports.model.model,
            coding=bool(changed),
            attempt=self._more,
            final_response=held["content"],
            changed_paths=changed,
        )
        more = next(filter(None, map(read_continuation, wanted)), "")
        self._more += bool(more)
        return more

    def frozen_parts(self, conversation: Conversation, dialect: Dialect) -> tuple[bytes, bytes]:
        """Tools and system prompt as they were first sent; rendered and kept if this conversation has none yet."""
        frozen, name = conversation.frozen, dialect.name
        for part in (TOOLS, SYSTEM):
            if (part, name) not in frozen:
                self._freeze(conversation, part, dialect)
        return frozen[TOOLS, name], frozen[SYSTEM, name]

    def call(
        self,
        conversation: Conversation,
        decoder: AnswerReader,
        *,
        with_tools: bool = True,
        patience: float | None = None,
    ) -> Reply:
        """The model's answer, which has to begin within `patience` seconds; raises ModelFailure or Interrupted."""
        self.calls += 1
        ports, has_hook = self._ports, self._ports.hooks.has
        body = self._body(conversation, with_tools=with_tools)
        started = time.time()
        if has_hook("pre_api_request"):
            self._tell_before(conversation, body, started)
        try:
            if has_hook("llm_execution"):
                reply = self._send_through_plugins(body, decoder, patience)
            else:
                reply = ports.model.send(body, decoder, ports.cancel, ports.on_chunk, patience)
        except ModelFailure as failure:
            if has_hook("api_request_error"):
                self._tell_error(failure, body, started)
            self._failed += 1
            raise
        self._failed = 0
        ports.model.note_success()
        if reply.usage is not None:
            conversation.grown_bytes = 0
            guarded(ports.engine.update_from_response, reply.usage.as_engine_usage())
        if has_hook("post_api_request"):
            self._tell_after(conversation, reply, started)
        return reply

    def _freeze(self, conversation: Conversation, part: str, dialect: Dialect) -> None:
        frozen, freeze = conversation.frozen, self._ports.journal.freeze
        neutral = frozen.get((part, dialect.neutral))
        if neutral is None:
            if conversation.was_sent_in(dialect.name):
                self._note_break(PrefixBreak("prompt_repaired", -1))  # its stored form was damaged (A7)
            neutral = encode_json(self._ports.render_part(part, dialect))
            freeze(part, dialect.neutral, neutral)
            frozen[part, dialect.neutral] = neutral
        value = json.loads(neutral)
        body = dialect.format.encode_system(value) if part == SYSTEM else dialect.format.encode_tools(value)
        freeze(part, dialect.name, body)
        frozen[part, dialect.name] = body

    def _body(self, conversation: Conversation, *, with_tools: bool) -> bytes:
        model, hooks = self._ports.model, self._ports.hooks
        dialect = model.dialect
        tools, system = self.frozen_parts(conversation, dialect)
        messages = conversation.fragments(dialect.name, dialect.encode, self._ports.journal)
        if any(hooks.has(name) for name in EDITING_HOOKS):
            conversation.refresh(dialect.name, dialect.encode)
        writer = f"{model.provider}/{model.model}"
        broken = conversation.check_prefix(dialect.name, writer, tools, system)
        if broken is not None:
            self._note_break(broken)
        tail = model.make_tail(with_tools=with_tools or not tools)
        body = dialect.format.join_request(model.model, tools, system, messages, tail)
        if not hooks.has("llm_request"):
            return body
        # What a plugin leaves alone keeps its bytes; what it changes in the prompt is a break with its name.
        request = json.loads(body)
        replaced = dict(hooks.request("llm_request", copy.deepcopy(request), **self._call_facts()))
        if replaced == request:
            return body
        if any(replaced.get(name) != request.get(name) for name in PROMPT_FIELDS):
            self._note_break(PrefixBreak("llm_request_middleware", 0))
        return encode_json(replaced)

    def _note_break(self, broken: PrefixBreak) -> None:
        """Known before the request leaves, and kept with its reason (A2)."""
        self.breaks.append(broken)
        self._ports.journal.broke(broken.reason, broken.position)

    def _send_through_plugins(self, body: bytes, decoder: AnswerReader, patience: float | None) -> Reply:
        ports, request = self._ports, json.loads(body)

        def send(payload: Any) -> Any:
            new = body if payload is None or payload is request else encode_json(dict(payload))
            return ports.model.send(new, decoder, ports.cancel, ports.on_chunk, patience)

        reply = ports.hooks.execute("llm_execution", request, send, **self._call_facts(), middleware_trace=[])
        if not isinstance(reply, Reply):
            raise ModelFailure("A plugin put something else in the place of the model's answer.")
        return reply

    # --- what observers are told; nothing is put together while nobody listens

    def name_call(self) -> dict[str, str]:
        """Turn and last request, as plugins are told, for a tool that the last answer called."""
        turn = self._facts.told_turn
        return {"turn_id": turn, "request_id": f"{turn}:api:{self.calls}"}

    def _ids(self) -> dict[str, Any]:
        return {"session_id": self._facts.session, "task_id": self._facts.task, "turn_id": self._facts.told_turn}

    def _call_facts(self) -> dict[str, Any]:
        model = self._ports.model
        return {
            **self._ids(),
            "api_request_id": self.name_call()["request_id"],
            "platform": self._facts.platform,
            "model": model.model,
            "provider": model.provider,
            "base_url": describe_address(model.base_url),
            "api_mode": model.api_mode,
            "api_call_count": self.calls,
        }

    def _tell_before(self, conversation: Conversation, body: bytes, started: float) -> None:
        request = json.loads(body)
        self._ports.hooks.invoke(
            "pre_api_request",
            **self._call_facts(),
            user_message=self._facts.said,
            conversation_history=list(conversation.messages),
            request_messages=request.get("messages") or request.get("input") or [],
            message_count=len(conversation),
            tool_count=len(request.get("tools", ())),
            approx_input_tokens=len(body) // 4,
            request_char_count=len(body),
            max_tokens=next((request[name] for name in OUTPUT_LIMITS if name in request), None),
            started_at=started,
            middleware_trace=[],
            request={"method": "POST", "body": request},
        )

    def _tell_after(self, conversation: Conversation, reply: Reply, started: float) -> None:
        answer = as_openai_response(reply, self._ports.model.model)
        used = reply.usage.as_engine_usage() if reply.usage else {}
        self._ports.hooks.invoke(
            "post_api_request",
            **self._call_facts(),
            **_times(started),
            finish_reason=reply.finish_reason,
            message_count=len(conversation),
            response_model=reply.model,
            response={
                "model": answer.model,
                "finish_reason": reply.finish_reason,
                "assistant_message": write_reply(reply),
                "usage": used,
            },
            usage=used,
            assistant_message=answer.choices[0].message,
            assistant_content_chars=len(reply.text),
            assistant_tool_call_count=len(reply.tool_calls),
        )

    def _tell_error(self, failure: ModelFailure, body: bytes, started: float) -> None:
        self._ports.hooks.invoke(
            "api_request_error",
            **self._call_facts(),
            **_times(started),
            status_code=failure.status,
            retry_count=self._failed,
            max_retries=TurnLimits().max_retries,
            retryable=failure.kind.value == "retry",
            reason=failure.kind.value,
            error={"type": type(failure).__name__, "message": failure.what},
            request={"method": "POST", "body": json.loads(body)},
        )


def read_continuation(answer: Any) -> str:
    """What a `pre_verify` hook wants done, in one of the two forms that are in use; empty: nothing."""
    if not isinstance(answer, Mapping):
        return ""
    forms = (("action", "continue", "message"), ("decision", "block", "reason"))
    wanted = next((answer.get(text) for name, value, text in forms if answer.get(name) == value), "")
    return wanted if isinstance(wanted, str) and wanted.strip() else ""


def find_changed_paths(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The files that tools were told to write since a person last said something."""
    found: dict[str, None] = {}
    for message in reversed(messages):
        if message.get("role") == "user" and not message.get(STEERED) and is_request(message):
            break
        for call in message.get("tool_calls") or ():
            name, args = unwrap(call["function"]["name"], json.loads(call["function"]["arguments"]))
            if name in WRITING_TOOLS and isinstance(args.get("path"), str):
                found[args["path"]] = None
    return list(reversed(found))


def _times(started: float) -> dict[str, float]:
    ended = time.time()
    return {"api_duration": ended - started, "started_at": started, "ended_at": ended}


# --- what the person is shown


_BLANK_LINES = re.compile(r"\A(?:\s*\Z|\s*\n)")


def trim_start(text: str) -> str:
    """Without the blank lines at its start, which some models write before a call; a blank text is none."""
    return _BLANK_LINES.sub("", text)


class ShownText:
    """The text and the thoughts of one model call. In the end each text stands as the transcript has it (`keep`), or is
    taken back (`take_back`); the text that ends a turn is put right (`correct`) and stands with the turn's end."""

    def __init__(self, ports: Ports, *, live: bool = True) -> None:
        """Not `live`: nothing is shown before it is known how it will stand."""
        self._ports = ports
        self._live = live
        self._told: list[str] = []
        self._blank = ""  # white space that came so far; it is shown when a word follows it
        self._thought = False
        self.text = LiveText(ports.redact, self._tell)
        self.reasoning = LiveText(ports.redact, self._tell_reasoning)

    def flush(self) -> None:
        """Nothing more comes."""
        self.text.flush()
        self.reasoning.flush()

    def correct(self, text: str) -> None:
        """Make what is shown this text."""
        text = trim_start(text)
        told = "".join(self._told)
        if not text.startswith(told):
            self.take_back()
            told = ""
        if len(text) > len(told):
            self._told.append(text[len(told) :])
            self._ports.on_text(self._told[-1])

    def keep(self, text: str) -> None:
        """The transcript has this text now."""
        self.correct(text)
        self._end(kept=True)

    def take_back(self) -> None:
        """The transcript has nothing of it."""
        self._end(kept=False)

    def _end(self, *, kept: bool) -> None:
        if self._told or self._thought:
            self._ports.emit(TextEnded(kept))
        self._told, self._blank, self._thought = [], "", False

    def _tell(self, piece: str) -> None:
        if not self._told:
            piece, self._blank = self._blank + piece, ""
            if not piece.strip():
                self._blank = piece
                return
            piece = trim_start(piece)
        if self._live:
            self._told.append(piece)
            self._ports.on_text(piece)

    def _tell_reasoning(self, piece: str) -> None:
        self._thought = True
        self._ports.on_reasoning(piece)
