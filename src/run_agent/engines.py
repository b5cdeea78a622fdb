"""The context engine of an agent: which one, how it is told about models, and the order of its session's life."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.context_compressor import ContextCompressor
from agent.context_engine import accepted_arguments
from agent.providers.runtime import Runtime
from agent.turn.compaction import guarded
from hermes_cli import config as cli_config
from plugins import context_engine as engine_plugins

log = logging.getLogger(__name__)


def choose_engine(settings: Mapping[str, Any], runtime: Runtime) -> Any:
    """The engine that `context.engine` names; where it cannot be had, the built-in one, with a warning."""
    engine = engine_plugins.select_context_engine(_read_name(settings))
    if engine is None:
        return build_compressor(settings, runtime)
    tell_model(engine, runtime)
    return engine


def _read_name(settings: Mapping[str, Any]) -> str:
    return str(cli_config.cfg_get(settings, "context", "engine", default="") or "")


def tell_model(engine: Any, runtime: Runtime) -> None:
    """Tell an engine which model answers from now on, as far as it wants to know."""
    facts = {
        "model": runtime.model,
        "context_length": runtime.context_length,
        "base_url": runtime.base_url,
        "api_key": runtime.api_key,
        "provider": runtime.provider,
        "api_mode": runtime.api_mode,
        "max_tokens": runtime.max_tokens,
    }
    guarded(engine.update_model, **accepted_arguments(engine.update_model, facts))


def engine_tools(engine: Any) -> list[dict[str, Any]]:
    """The engine's own tools in the form of the API."""
    schemas = guarded(engine.get_tool_schemas) or [] if hasattr(engine, "get_tool_schemas") else []
    bare = [schema.get("function", schema) for schema in schemas if isinstance(schema, Mapping)]
    for schema in bare:
        if not schema.get("name"):
            log.warning("a tool of the context engine has no name and is left out")
    return [{"type": "function", "function": dict(schema)} for schema in bare if schema.get("name")]


def add_engine_tools(
    shared: Sequence[Mapping[str, Any]], engine: Any
) -> tuple[Sequence[Mapping[str, Any]], frozenset[str]]:
    """The shared tools with those of the engine behind them, and the names of the latter; a name is given once."""
    known = {tool["function"]["name"] for tool in shared}
    own = [tool for tool in engine_tools(engine) if tool["function"]["name"] not in known] if engine else []
    return [*shared, *own] if own else shared, frozenset(tool["function"]["name"] for tool in own)


def bind_session(engine: Any, session: str, facts: Mapping[str, Any]) -> None:
    """Tell the engine which session it works for."""
    call_if_there(engine, "on_session_start", session, **{name: value for name, value in facts.items() if value})


def change_session(
    engine: Any,
    *,
    old: str | None,
    new: str,
    messages: Sequence[Mapping[str, Any]] | None,
    carry_over: bool,
    facts: Mapping[str, Any],
) -> None:
    """End, reset, start, carry over: each step stands on its own, so that one failing leaves the others."""
    if messages:
        call_if_there(engine, "on_session_end", old or new, list(messages))
    call_if_there(engine, "on_session_reset")
    if not (old or messages or carry_over):
        return
    bind_session(engine, new, {"old_session_id": old, "carry_over_context": carry_over, **facts})
    if carry_over:
        call_if_there(engine, "carry_over_new_session_context", old, new)


def tell_end(
    settings: Mapping[str, Any], session: str, messages: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> None:
    """A session that no agent holds is over: the engine that the settings name is made, bound to it and told. The
    built-in one keeps nothing of a session."""
    engine = engine_plugins.select_context_engine(_read_name(settings)) if messages else None
    if engine is not None:
        bind_session(engine, session, facts)
        call_if_there(engine, "on_session_end", session, list(messages))


def call_if_there(engine: Any, name: str, *args: Any, **kwargs: Any) -> None:
    """Call a method that an engine may have; its failure is logged."""
    method: Callable[..., Any] | None = getattr(engine, name, None)
    if method is not None:
        guarded(method, *args, **kwargs)


def build_compressor(settings: Mapping[str, Any], runtime: Runtime) -> ContextCompressor:
    """The built-in engine."""
    section = settings.get("compression")
    section = section if isinstance(section, Mapping) else {}
    return ContextCompressor(
        model=runtime.model,
        threshold_percent=float(section.get("threshold", 0.5)),
        protect_first_n=int(section.get("protect_first_n", 3)),
        protect_last_n=int(section.get("protect_last_n", 20)),
        summary_target_ratio=float(section.get("target_ratio", 0.2)),
        base_url=runtime.base_url,
        api_key=runtime.api_key,
        config_context_length=runtime.context_length,
        provider=runtime.provider,
        api_mode=runtime.api_mode,
        abort_on_summary_failure=bool(section.get("abort_on_summary_failure", False)),
        max_tokens=runtime.max_tokens,
    )
