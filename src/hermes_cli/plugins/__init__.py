"""The plugin host: finds plugins, loads those the owner enabled, and calls what they registered, each in isolation.

Nothing is searched or run on import; `discover_plugins()` does that once.
"""

import copy
import inspect
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

import model_tools  # the built-in tools are registered first, so that no plugin takes their names
from hermes_base.text.redact import RedactingFilter
from hermes_cli import config as cli_config
from hermes_cli import middleware
from hermes_cli.config import exported_env
from hermes_cli.plugins.plugin_context import EngineProbe, PluginContext, load_plugin_settings
from hermes_cli.plugins.plugin_loading import Register, load_plugin
from hermes_cli.plugins.plugin_records import (
    VALID_HOOKS,
    LoadedPlugin,
    PluginManifest,
    PluginRecords,
    PluginToolOverrideError,
)
from hermes_cli.plugins.plugin_seals import CodeChanged
from hermes_cli.plugins.plugin_sources import ENTRY_POINTS_GROUP, find_manifests, is_set
from tools.registry import registry

__all__ = [
    "ENTRY_POINTS_GROUP",
    "VALID_HOOKS",
    "LoadedPlugin",
    "PluginContext",
    "PluginHooks",
    "PluginManager",
    "PluginManifest",
    "PluginToolOverrideError",
]

log = logging.getLogger(__name__)

TELEMETRY_SCHEMA_VERSION = "hermes.observer.v1"
DISABLED = "disabled via config"
NOT_ENABLED = "not enabled in config"
#: How long a thread waits for another one that loads the plugins, and a command for its coroutine.
_WAIT_SECONDS = 30.0
#: Plugins require these keywords to be there, whoever calls the hook.
_TOOL_FACTS: Mapping[str, Any] = MappingProxyType(
    {"task_id": "", "session_id": "", "tool_call_id": "", "turn_id": "", "api_request_id": ""}
)


# --- what may be loaded


class PluginGate(Enum):
    """What discovery does with a plugin."""

    LOAD = "load"
    DISABLED = DISABLED
    NOT_ENABLED = NOT_ENABLED
    ELSEWHERE = "recorded; its category's own loader takes it when its setting names it"
    KNOWN = "counts as enabled without being imported here"
    DEFERRED = "imported when it is needed"


#: Kinds with a way of their own, for every source or (with a source) for one; all others need `plugins.enabled`.
_GATES: Mapping[tuple[str, str], PluginGate] = MappingProxyType(
    {
        ("exclusive", ""): PluginGate.ELSEWHERE,
        ("model-provider", ""): PluginGate.KNOWN,
        ("backend", "bundled"): PluginGate.LOAD,
        ("platform", "bundled"): PluginGate.DEFERRED,
    }
)


def decide_gate(manifest: PluginManifest, enabled: Collection[str], disabled: Collection[str]) -> PluginGate:
    """Whether a plugin's code may run: only by consent of the owner, who names it in the settings."""
    names = {manifest.id, manifest.name}
    if names & set(disabled):
        return PluginGate.DISABLED
    by_kind = _GATES.get((manifest.kind, "")) or _GATES.get((manifest.kind, manifest.source))
    if by_kind is not None:
        return by_kind
    return PluginGate.LOAD if names & set(enabled) else PluginGate.NOT_ENABLED


# --- the manager


class PluginManager(PluginRecords):
    """The plugins of this process and what they registered."""

    def __init__(self) -> None:
        super().__init__()
        self._discovered = False
        # Held while plugins register: other threads wait for them, a plugin that asks on its own thread passes.
        self._sweeping = threading.RLock()

    def discover_and_load(self, force: bool = False) -> None:
        """Find all plugins and load the enabled ones; once, or anew with `force`."""
        if is_set("HERMES_SAFE_MODE"):
            log.info("HERMES_SAFE_MODE is set: no plugin is loaded")
            return
        if not self._sweeping.acquire(timeout=_WAIT_SECONDS):
            log.warning("plugins are still being loaded; going on with those that are there")
            return
        try:
            if self._discovered and not force:
                return
            if force:
                self.clear()
            self._discovered = True  # first, so that a plugin which asks for discovery does not start it again
            try:
                self._sweep()
                self._ready = True
            except BaseException:
                self._discovered = False
                raise
        finally:
            self._sweeping.release()

    def _sweep(self) -> None:
        if is_set("HERMES_PLUGINS_DEBUG"):
            log.setLevel(logging.DEBUG)
            if not log.hasHandlers():  # every record of the plugin host reaches stderr, without secrets
                handler = logging.StreamHandler()
                handler.addFilter(RedactingFilter(cli_config.redactor))
                log.addHandler(handler)
        settings = load_plugin_settings()
        enabled, disabled = frozenset(settings.enabled), frozenset(settings.disabled)
        if enabled:
            exported_env.export(cli_config.load_env())  # plugins look for their variables in the environment
        for manifest in find_manifests():
            gate = decide_gate(manifest, enabled, disabled)
            log.debug("plugin %s (%s, %s): %s", manifest.id, manifest.source, manifest.kind, gate.value)
            if gate is PluginGate.LOAD:
                self._load(manifest)
                continue
            plugin = self._plugins[manifest.id] = LoadedPlugin(manifest, deferred=gate is PluginGate.DEFERRED)
            plugin.enabled = gate in (PluginGate.KNOWN, PluginGate.DEFERRED)
            plugin.error = gate.value if gate in (PluginGate.DISABLED, PluginGate.NOT_ENABLED) else None
        known = {name for plugin in self._plugins.values() for name in (plugin.manifest.id, plugin.manifest.name)}
        for name in sorted(enabled - known):
            log.warning("plugins.enabled names %s, which is not installed", name)

    def _load(self, manifest: PluginManifest) -> None:
        plugin = self._plugins[manifest.id] = LoadedPlugin(manifest)
        try:
            plugin.module, register = load_plugin(manifest)
            self._registrars[manifest.id] = register
            register(PluginContext(manifest, self))
            plugin.enabled = True
        except CodeChanged as problem:
            plugin.error, plugin.changed = str(problem), True
            log.warning("plugin %s", problem)
        except (Exception, SystemExit) as problem:  # a plugin must not end the program either
            plugin.error = str(problem) or type(problem).__name__
            log.warning("plugin %s could not be loaded: %s", manifest.id, plugin.error, exc_info=True)

    def _begin(self) -> None:
        super()._begin()
        self._ready = False  # all of them have registered
        self._registrars: dict[str, Register] = {}

    # --- calling

    def has_hook(self, hook_name: str) -> bool:
        return bool(self._hooks.get(hook_name))

    def invoke_hook(self, hook_name: str, **facts: Any) -> list[Any]:
        """Call a hook's callbacks in the order of their registration; what they answer, without the Nones."""
        answers = []
        facts.setdefault("telemetry_schema_version", TELEMETRY_SCHEMA_VERSION)
        for callback in tuple(self._hooks.get(hook_name, ())):
            try:
                answer = callback(**facts)
            except Exception:
                log.warning("hook %s: %s failed", hook_name, middleware.describe(callback), exc_info=True)
                continue
            if answer is not None:
                answers.append(answer)
        return answers

    def has_middleware(self, kind: str) -> bool:
        return bool(self._middleware.get(kind))

    def invoke_middleware(self, kind: str, **facts: Any) -> list[Any]:
        return middleware.invoke_all(kind, self._middleware.get(kind, ()), **facts)

    # --- the context engine

    def make_context_engine(self) -> Any:
        """An engine for one agent, made from the one that a plugin registered; None when there is none."""
        engine = self._context_engine
        if engine is None:
            return None
        try:
            return copy.deepcopy(engine)
        except Exception as problem:  # noqa: BLE001 - engines with open files or locks cannot be copied
            log.info("context engine %s cannot be copied (%s); its plugin makes another", self._engine_owner, problem)
        again = self._register_engine_again()
        if again is None:
            log.warning("all agents share the one context engine of plugin %s", self._engine_owner)
        return engine if again is None else again

    def _register_engine_again(self) -> Any:
        register = self._registrars.get(self._engine_owner)
        if register is None:
            return None
        scratch = PluginRecords()
        try:
            register(EngineProbe(self._plugins[self._engine_owner].manifest, scratch))
        except (Exception, SystemExit):
            log.warning("plugin %s could not make a second context engine", self._engine_owner, exc_info=True)
        return scratch._context_engine


# --- the host of this process

_plugin_manager: PluginManager | None = None
_lock = threading.Lock()


def get_plugin_manager() -> PluginManager:
    """The manager of this process; asking for it loads nothing."""
    global _plugin_manager
    if _plugin_manager is None:
        with _lock:
            _plugin_manager = _plugin_manager or PluginManager()
    return _plugin_manager


def discover_plugins(force: bool = False) -> None:
    """Load the enabled plugins, once in this process unless `force`."""
    get_plugin_manager().discover_and_load(force=force)


def _find_loaded() -> PluginManager:
    """The manager, with its plugins loaded."""
    if _plugin_manager is not None and _plugin_manager._ready:
        return _plugin_manager
    discover_plugins()
    return get_plugin_manager()


def list_changed() -> list[str]:
    """A line for each plugin that was left out because its code is not what the owner enabled."""
    return [str(plugin.error) for plugin in get_plugin_manager()._plugins.values() if plugin.changed]


def has_hook(hook_name: str) -> bool:
    return get_plugin_manager().has_hook(hook_name)


def invoke_hook(hook_name: str, **facts: Any) -> list[Any]:
    return get_plugin_manager().invoke_hook(hook_name, **facts)


def has_middleware(kind: str) -> bool:
    return get_plugin_manager().has_middleware(kind)


def invoke_middleware(kind: str, **facts: Any) -> list[Any]:
    return get_plugin_manager().invoke_middleware(kind, **facts)


class PluginHooks:
    """The host as a turn sees it (`hermes_base.turn.hooks.Hooks`); costs a look-up where nobody registered anything."""

    def __init__(self, manager: PluginManager | None = None) -> None:
        self._manager = manager or get_plugin_manager()

    def has(self, name: str) -> bool:
        """Whether a hook or a kind of middleware of this name has callbacks."""
        return bool(self._manager._hooks.get(name) or self._manager._middleware.get(name))

    def invoke(self, name: str, **facts: Any) -> list[Any]:
        return self._manager.invoke_hook(name, **facts) if name in self._manager._hooks else []

    def refuse_tool(
        self, name: str, args: Mapping[str, Any], approve: Callable[[str], bool] | None, **facts: Any
    ) -> str | None:
        """Why plugins (or the thread's whitelist) do not let a tool run; `approve` asks a person."""
        return _resolve_block(self._manager.invoke_hook, name, args, approve, facts)

    def request(self, kind: str, payload: Mapping[str, Any], **facts: Any) -> Mapping[str, Any]:
        """The payload (of tools: their arguments) after request middleware; the same object when nobody replaced it."""
        return middleware.apply_request(kind, payload, self._manager._middleware.get(kind, ()), **facts)

    def execute(self, kind: str, payload: Mapping[str, Any], call: Callable[[Any], Any], **facts: Any) -> Any:
        """Run `call(payload)` inside execution middleware; what `call` raises passes through."""
        return middleware.run_execution(kind, payload, self._manager._middleware.get(kind, ()), call, **facts)


# --- what hooks say about a tool call


class _Whitelist(threading.local):
    """The tools that the current thread may use; None: all."""

    names: frozenset[str] | None = None
    refusal = "The tool {tool_name} is not available here."


_whitelist = _Whitelist()


def set_thread_tool_whitelist(names: Collection[str], deny_msg_fmt: str | None = None) -> None:
    """Let this thread use these tools only; `deny_msg_fmt` may hold `{tool_name}`."""
    _whitelist.names = frozenset(names)
    _whitelist.refusal = deny_msg_fmt or _Whitelist.refusal


def clear_thread_tool_whitelist() -> None:
    _whitelist.names = None


class _Directive(NamedTuple):
    action: str | None = None  # block, approve
    message: str | None = None
    rule_key: str | None = None


def _find_directive(
    invoke: Callable[..., list[Any]], tool_name: str, args: Mapping[str, Any] | None, facts: Mapping[str, Any]
) -> _Directive:
    """The first valid directive about a tool call; this asks the hook `pre_tool_call`, so once per call."""
    if _whitelist.names is not None and tool_name not in _whitelist.names:
        return _Directive("block", _whitelist.refusal.format(tool_name=tool_name))
    all_facts = {**_TOOL_FACTS, "middleware_trace": [], **facts}
    answers = invoke("pre_tool_call", tool_name=tool_name, args={} if args is None else args, **all_facts)
    return next((found for found in map(_read_directive, answers) if found.action), _Directive())


def _read_directive(answer: Any) -> _Directive:
    if not isinstance(answer, Mapping):
        return _Directive()
    message, rule_key = _text_or_none(answer.get("message")), _text_or_none(answer.get("rule_key"))
    action = answer.get("action")
    if action == "block" and message:
        return _Directive("block", message)
    return _Directive("approve", message, rule_key) if action == "approve" else _Directive()


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def get_pre_tool_call_directive(
    tool_name: str, args: Mapping[str, Any] | None, **facts: Any
) -> tuple[str | None, str | None]:
    """What plugins say about a tool call: `block`, `approve` (a person must agree) or None, and their message."""
    found = _find_directive(invoke_hook, tool_name, args, facts)
    return found.action, found.message


def get_pre_tool_call_block_message(tool_name: str, args: Mapping[str, Any] | None, **facts: Any) -> str | None:
    """Why a tool call is blocked; None when no plugin blocks it."""
    found = _find_directive(invoke_hook, tool_name, args, facts)
    return found.message if found.action == "block" else None


def resolve_pre_tool_block(
    tool_name: str,
    args: Mapping[str, Any] | None,
    *,
    approve: Callable[[str], bool] | None = None,
    **facts: Any,
) -> str | None:
    """Why a tool must not run, or None. `approve` asks a person; where nobody can be asked the answer is no."""
    return _resolve_block(invoke_hook, tool_name, args, approve, facts)


def _resolve_block(
    invoke: Callable[..., list[Any]],
    tool_name: str,
    args: Mapping[str, Any] | None,
    approve: Callable[[str], bool] | None,
    facts: Mapping[str, Any],
) -> str | None:
    found = _find_directive(invoke, tool_name, args, facts)
    if found.action != "approve":
        return found.message
    question = found.message or f"A plugin asks for your consent before {tool_name} runs."
    if found.rule_key:
        question = f"{question} ({found.rule_key})"
    try:
        agreed = approve is not None and approve(question)
    except Exception:
        log.exception("asking for consent to %s failed, which counts as no", tool_name)
        agreed = False
    return None if agreed else f"{tool_name} was not run: a plugin asks for a person's consent, and there was none."


def get_pre_verify_continue_message(
    *,
    session_id: str = "",
    platform: str = "",
    model: str = "",
    coding: bool = False,
    attempt: int = 0,
    final_response: str = "",
    changed_paths: list[str] | None = None,
) -> str | None:
    """What plugins want done before the turn ends; None when it may end."""
    answers = invoke_hook(
        "pre_verify",
        session_id=session_id,
        platform=platform,
        model=model,
        coding=coding,
        attempt=attempt,
        final_response=final_response,
        changed_paths=list(changed_paths or ()),
    )
    return next(filter(None, map(_read_continuation, answers)), None)


def _read_continuation(answer: Any) -> str | None:
    if not isinstance(answer, Mapping):
        return None
    if answer.get("action") == "continue":
        return _text_or_none(answer.get("message"))
    return _text_or_none(answer.get("reason")) if answer.get("decision") == "block" else None


# --- what plugins added


def get_plugin_context_engine() -> Any:
    """The engine that a plugin registered, or None; an agent gets its own from `make_context_engine`."""
    return _find_loaded()._context_engine


def get_plugin_commands() -> dict[str, dict[str, Any]]:
    """Slash commands of plugins: name -> handler, description, plugin, args_hint."""
    return _find_loaded()._plugin_commands


def get_plugin_command_handler(name: str) -> Callable[[str], Any] | None:
    handler: Callable[[str], Any] | None = get_plugin_commands().get(name, {}).get("handler")
    return handler


def find_offers(kind: str) -> list[Any]:
    """What plugins offer of a kind that the host itself does not use, in the order in which they were loaded."""
    return list(_find_loaded()._offers.get(kind, ()))


def get_plugin_auxiliary_tasks() -> list[dict[str, Any]]:
    """The helper calls that plugins declared, sorted by key."""
    tasks = _find_loaded()._aux_tasks
    return [tasks[key] for key in sorted(tasks)]


def get_plugin_toolsets() -> list[tuple[str, str, str]]:
    """The toolsets that plugins brought: key, label, and the names of their tools."""
    tools: dict[str, list[str]] = {}
    for name in sorted(_find_loaded()._plugin_tool_names):
        entry = registry.get_entry(name)
        if entry is not None:
            tools.setdefault(entry.toolset, []).append(name)
    return [(key, key.replace("_", " ").title(), ", ".join(names)) for key, names in sorted(tools.items())]


def resolve_plugin_command_result(result: Any) -> Any:
    """What a command's handler answered; a coroutine is run to its end, beside a running loop for a limited time."""
    if not inspect.isawaitable(result):
        return result
    return model_tools._run_async(result, _WAIT_SECONDS)
