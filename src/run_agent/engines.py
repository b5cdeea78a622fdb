"""The context engine of an agent: which one, how it is told about models, and the order of its session's life."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.context_compressor import ContextCompressor
from agent.context_engine import accepted_arguments
from agent.providers.runtime import Runtime
from agent.turn.compaction import guarded, read_engine_name
from hermes_base.errors import STOPS
from hermes_base.settings import Settings
from hermes_base.turn.tool_schemas import complete_schema, find_schema_fault
from plugins import context_engine as engine_plugins

log = logging.getLogger(__name__)

UNTOLD = (
    "The context engine {name} failed in update_model ({what}), so it does not know how much fits into the model's "
    "window, and may not make the conversation shorter in time. The log has the trace."
)


def choose_engine(settings: Settings, runtime: Runtime, *, lend: bool = False) -> Any:
    """The engine that `context.engine` names; where it cannot be had, the built-in one, with a warning."""
    engine = engine_plugins.select_context_engine(settings.context.engine, lend=lend)
    return build_compressor(settings, runtime) if engine is None else engine


def tell_model(engine: Any, runtime: Runtime) -> str:
    """Tell an engine which model answers from now on, as far as it wants to know. A sentence when that fails: it may
    never make a conversation shorter then."""
    facts = {
        "model": runtime.model,
        "context_length": runtime.context_length,
        "base_url": runtime.base_url,
        "api_key": runtime.api_key,
        "provider": runtime.provider,
        "api_mode": runtime.api_mode,
        "max_tokens": runtime.max_tokens,
    }
    try:
        engine.update_model(**accepted_arguments(engine.update_model, facts))
        return ""
    except STOPS:
        raise
    except BaseException as problem:
        told = UNTOLD.format(name=read_engine_name(engine), what=f"{type(problem).__name__}: {problem}")
        log.exception("%s", told)
        return told


def add_engine_tools(
    shared: Sequence[Mapping[str, Any]], engine: Any
) -> tuple[Sequence[Mapping[str, Any]], frozenset[str]]:
    """The shared tools with those of the engine behind them, in the form of the API, and the names of the latter; a
    name is given once."""
    schemas = guarded(engine.get_tool_schemas) or [] if hasattr(engine, "get_tool_schemas") else []
    known = {tool["function"]["name"] for tool in shared}
    own: dict[str, dict[str, Any]] = {}
    for schema in (schema.get("function", schema) for schema in schemas if isinstance(schema, Mapping)):
        name = schema.get("name") if isinstance(schema, Mapping) else None
        if fault := find_schema_fault(name, schema):
            log.warning("context engine %s: its tool %s is left out: %s", read_engine_name(engine), name, fault)
        elif name not in known:
            own.setdefault(str(name), {"type": "function", "function": complete_schema(schema)})
    return [*shared, *own.values()] if own else shared, frozenset(own)


def bind_session(engine: Any, session: str, facts: Mapping[str, Any]) -> None:
    """Tell the engine which session it works for."""
    call_if_there(engine, "on_session_start", session, **{name: value for name, value in facts.items() if value})


def tell_end(settings: Settings, session: str, messages: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> None:
    """A session that no agent holds is over: the engine that the settings name is made, bound to it and told. The
    built-in one keeps nothing of a session."""
    engine = engine_plugins.select_context_engine(settings.context.engine) if messages else None
    if engine is not None:
        bind_session(engine, session, facts)
        call_if_there(engine, "on_session_end", session, list(messages))


def call_if_there(engine: Any, name: str, *args: Any, **kwargs: Any) -> None:
    """Call a method that an engine may have; its failure is logged."""
    method: Callable[..., Any] | None = getattr(engine, name, None)
    if method is not None:
        guarded(method, *args, **kwargs)


def build_compressor(settings: Settings, runtime: Runtime) -> ContextCompressor:
    """The built-in engine."""
    section = settings.compression
    return ContextCompressor(
        model=runtime.model,
        threshold_percent=section.threshold,
        protect_first_n=section.protect_first_n,
        protect_last_n=section.protect_last_n,
        summary_target_ratio=section.target_ratio,
        base_url=runtime.base_url,
        api_key=runtime.api_key,
        config_context_length=runtime.context_length,
        provider=runtime.provider,
        api_mode=runtime.api_mode,
        abort_on_summary_failure=section.abort_on_summary_failure,
        max_tokens=runtime.max_tokens,
    )
