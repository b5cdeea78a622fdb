"""Model calls beside the conversation (summaries, titles, plugins): resolve a provider, make one call, give the answer.

`call_llm` is the interface that plugins are written against; it answers with an object in OpenAI's form.
"""

import os
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import anyio.to_thread

from agent.formats.plugin_requests import RequestFacts, make_tail, prepare_body
from agent.formats.repair import repair_messages
from agent.formats.reply import Reply
from agent.formats.wire import CallSettings, dialect_of
from agent.http import clients
from agent.providers import embedded
from agent.providers.local_servers import probe_model_servers
from agent.providers.profile_calls import find_headers
from agent.providers.runtime import NOTHING_ELSE, Runtime, resolve_runtime, runtime_of_entry
from agent.usage_pricing import ledger_row
from hermes_base.errors import ConfigProblem, HermesError, Interrupted, ModelFailure
from hermes_base.settings import Settings
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.journal import UsageRow, text_of
from hermes_base.turn.turn_context import TurnContext, current_turn
from hermes_cli import config as cli_config

INLINE_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
DEFAULT_TIMEOUT = 60.0
Charge = Callable[[UsageRow], None]


@dataclass(frozen=True, slots=True)
class AuxiliaryCall:
    """What one call beside the conversation asks for."""

    messages: Sequence[Mapping[str, Any]]
    kind: str  # its name in the ledger
    max_tokens: int | None = None
    temperature: float | None = None
    timeout: float = DEFAULT_TIMEOUT
    tools: Sequence[Mapping[str, Any]] = ()
    extra_body: Mapping[str, Any] | None = None
    reasoning: Mapping[str, Any] | None = None
    patience: float | None = None  # the answer has to begin in so many seconds; None: within the timeout


def resolve_provider_client(
    provider: str,
    model: str | None = None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    key_env: str | None = None,
    api_mode: str | None = None,
    cancel: CancelToken | None = None,
) -> tuple[Any, str | None]:
    """A client for a provider of the table (or a custom address) with today's key, and the model it resolved to.

    The built-in model may have to be started first; `cancel` ends the wait for it.
    """
    entry = {
        "provider": provider,
        "model": model,
        "base_url": base_url,
        "api_key": api_key,
        "key_env": key_env,
        "api_mode": api_mode,
    }
    runtime = connect_runtime(runtime_of_entry(entry, environment()), cancel)
    return build_client(runtime), runtime.model


def find_runtime(settings: Settings, *, model: str = "", provider: str = "") -> Runtime:
    """Which model answers, by what was asked for, the settings, the keys and what runs on this machine."""
    return resolve_runtime(
        settings,
        environment(),
        probe_model_servers,
        model=model,
        provider=provider,
        embedded_found=embedded.is_installed(),
    )


def connect_runtime(runtime: Runtime, cancel: CancelToken | None = None) -> Runtime:
    """The runtime with an address to call: the built-in model's is known once its server runs.

    Who waits for that stops waiting when `cancel` is set, or else the token of the turn that this thread works for.
    """
    if runtime.provider != "embedded":
        return runtime
    turn = current_turn.get()
    server = embedded.ensure_started(cancel or (turn.cancel if turn is not None else None))
    return replace(runtime, base_url=server.base_url, api_key=server.api_key)


def build_client(runtime: Runtime) -> Any:
    headers = find_headers(runtime.facts)
    return clients.build_client(
        runtime.api_mode, api_key=runtime.api_key, base_url=runtime.base_url, default_headers=headers
    )


def complete(
    runtime: Runtime, client: Any, call: AuxiliaryCall, charge: Charge, cancel: CancelToken | None = None
) -> Reply:
    """One answer, not shown to anybody; raises ModelFailure or Interrupted. What was begun is charged however it ends:
    without a count where nobody told what it cost (A8, A11)."""
    dialect = dialect_of(runtime.api_mode, runtime.facts)
    settings = CallSettings(runtime.model, call.max_tokens, call.reasoning)
    tail = make_tail(dialect, runtime.facts, settings, RequestFacts(runtime.base_url, temperature=call.temperature))
    tail |= dict(call.extra_body or {})
    spoken = [message for message in call.messages if message.get("role") != "system"]
    told = "\n\n".join(text_of(message) for message in call.messages if message.get("role") == "system")
    body = dialect.format.join_request(
        runtime.model,
        dialect.format.encode_tools(call.tools),
        dialect.format.encode_system(told),
        [dialect.encode(message) for message in repair_messages(spoken)],
        tail,
    )
    body = prepare_body(dialect, runtime.facts, body)
    first_byte = call.timeout if call.patience is None else min(call.patience, call.timeout)
    request = clients.StreamCall(dialect.format, body, runtime.facts.label, first_byte, call.timeout)
    uncounted = ledger_row(None, runtime.provider, runtime.model, call.kind)
    cancel = cancel or CancelToken()
    cancel.check()
    try:
        reply = clients.stream(client, request, dialect.format.read_answer(dialect.name), cancel, lambda: None)
    except ModelFailure as failure:
        if failure.began:
            charge(uncounted)
        raise
    except Interrupted:
        charge(uncounted)
        raise
    charge(ledger_row(reply.usage, runtime.provider, runtime.model, call.kind))
    return reply


def complete_once(runtime: Runtime, call: AuxiliaryCall, charge: Charge, cancel: CancelToken | None = None) -> Reply:
    """`complete` with a client of its own, which is let go afterwards."""
    client = build_client(runtime)
    try:
        return complete(runtime, client, call, charge, cancel)
    finally:
        clients.release_client(client)


def call_llm(
    task: str | None = None,
    *,
    provider: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
    main_runtime: Mapping[str, Any] | None = None,
    messages: Sequence[Mapping[str, Any]],
    temperature: float | None = None,
    max_tokens: int | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    timeout: float | None = None,
    extra_body: Mapping[str, Any] | None = None,
    reasoning_config: Mapping[str, Any] | None = None,
    api_mode: str | None = None,
    stream: bool = False,
    stream_options: Mapping[str, Any] | None = None,
) -> Any:
    """One model call for `task` (settings in `auxiliary.<task>`); RuntimeError when no model can be had.

    Inside a turn it ends with the turn: a stop raises Interrupted through it.
    """
    del stream, stream_options  # the answer is handed over whole
    own = {"provider": provider, "model": model, "base_url": base_url, "api_key": api_key, "api_mode": api_mode}
    settings = cli_config.load_settings()
    configured = settings.auxiliary.get(task or "") or {}
    call = AuxiliaryCall(
        messages=messages,
        kind=task or "auxiliary",
        max_tokens=max_tokens,
        temperature=temperature,
        timeout=float(timeout or configured.get("timeout") or DEFAULT_TIMEOUT),
        tools=tools or (),
        extra_body={**(configured.get("extra_body") or {}), **(extra_body or {})},
        reasoning=reasoning_config,
    )
    try:
        chosen = _choose_runtime(own, configured, main_runtime or {}, settings)
        if chosen.source == NOTHING_ELSE:  # the built-in model writes no summaries; a plugin has a way of its own then
            raise ConfigProblem("No model is set up.", fix="`hermes setup` asks for one.")
        runtime = connect_runtime(chosen)
        turn = current_turn.get() or TurnContext(CancelToken())
        reply = complete_once(runtime, call, turn.charge, turn.cancel)  # it belongs to that turn's conversation
        return as_openai_response(reply, runtime.model)
    except HermesError as problem:
        raise RuntimeError(str(problem)) from problem


def get_text_auxiliary_client(task: str = "") -> "tuple[AuxiliaryTextClient, str] | tuple[None, None]":
    """What is called as one calls OpenAI's client, and the model that `task` means; twice None when there is none."""
    settings = cli_config.load_settings()
    try:
        runtime = connect_runtime(_choose_runtime({}, settings.auxiliary.get(task) or {}, {}, settings))
    except HermesError:
        return None, None
    return AuxiliaryTextClient(task, runtime), runtime.model


class AuxiliaryTextClient:
    """`client.chat.completions.create(model=…, messages=…)`, whatever format the provider speaks: each is a `call_llm`,
    charged and stopped like one."""

    def __init__(self, task: str, runtime: Runtime) -> None:
        self.base_url, self.api_key = runtime.base_url, runtime.api_key
        self._task = task
        self._named: dict[str, Any] = {
            "provider": runtime.provider,
            "base_url": runtime.base_url,
            "api_key": runtime.api_key,
        }
        self._named["api_mode"] = runtime.api_mode
        self._model = runtime.model
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, *, messages: Sequence[Mapping[str, Any]], model: str | None = None, **options: Any) -> Any:
        if options.get("stream"):
            raise RuntimeError("This client hands answers over whole: ask without `stream`.")
        options["max_tokens"] = options.pop("max_completion_tokens", None) or options.get("max_tokens")
        return call_llm(self._task or None, messages=messages, model=model or self._model, **options, **self._named)


async def async_call_llm(task: str | None = None, **arguments: Any) -> Any:
    """`call_llm` on a worker thread."""
    return await anyio.to_thread.run_sync(lambda: call_llm(task, **arguments))


def extract_content_or_reasoning(response: Any) -> str:
    """The answer without inline thinking; else the reasoning; else nothing."""
    choices = getattr(response, "choices", None)
    message = getattr(choices[0], "message", None) if choices else None
    content = INLINE_THINKING.sub("", getattr(message, "content", None) or "").strip()
    if content:
        return content
    fields = (getattr(message, name, None) for name in ("reasoning", "reasoning_content"))
    return next((text.strip() for text in fields if isinstance(text, str) and text.strip()), "")


def as_openai_response(reply: Reply, model: str) -> Any:
    calls = [
        SimpleNamespace(id=call.id, type="function", function=SimpleNamespace(name=call.name, arguments=call.arguments))
        for call in reply.tool_calls
    ]
    message = SimpleNamespace(
        role="assistant",
        content=reply.text,
        tool_calls=calls or None,
        reasoning=reply.reasoning or None,
        reasoning_content=reply.reasoning or None,
    )
    usage = SimpleNamespace(**reply.usage.as_engine_usage()) if reply.usage else None
    choice = SimpleNamespace(index=0, message=message, finish_reason=reply.finish_reason)
    return SimpleNamespace(choices=[choice], model=reply.model or model, usage=usage)


def _choose_runtime(
    own: Mapping[str, Any], configured: Mapping[str, Any], main: Mapping[str, Any], settings: Settings
) -> Runtime:
    """The call's own words, then the task's settings, then the caller's runtime, then what answers the chat."""
    env = environment()
    for source in (own, configured, main):
        named = {name: value for name, value in source.items() if value and value != "auto"}
        if "provider" in named or "base_url" in named:
            return runtime_of_entry({**named, "model": named.get("model") or own.get("model")}, env)
    model = str(own.get("model") or configured.get("model") or "")
    return find_runtime(settings, model=model)


def environment() -> Mapping[str, str]:
    """What the process was started with, and the names of the home's `.env` that it does not set."""
    return ChainMap(cli_config.load_env(), os.environ)  # looked into, not copied: every turn asks for one name
