"""The plugin host: finds plugins, loads those the owner enabled, and calls what they registered, each in isolation.

Nothing is searched or run on import; `discover_plugins()` does that once.
"""

import inspect
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import model_tools  # the built-in tools are registered first, so that no plugin takes their names
import providers
from hermes_base.errors import STOPS
from hermes_base.text.redact import RedactingFilter
from hermes_base.turn.hooks import TELEMETRY_SCHEMA_VERSION, offer_hooks
from hermes_cli import config as cli_config
from hermes_cli import middleware
from hermes_cli.plugins import command_book, plugin_models, set_aside
from hermes_cli.plugins.engine_keeper import EngineKeeper
from hermes_cli.plugins.plugin_calls import (
    MAY_BLOCK,
    HookCall,
    PluginCalls,
    PluginStanding,
    could_not_answer,
    find_limit,
    is_answer,
    refuse_unasked,
)
from hermes_cli.plugins.plugin_context import PluginContext, load_plugin_settings
from hermes_cli.plugins.plugin_gates import DISABLED, NO_WORDS, NOT_ENABLED, PluginGate, decide_gate
from hermes_cli.plugins.plugin_loading import load_plugin, settle_code
from hermes_cli.plugins.plugin_models import is_named
from hermes_cli.plugins.plugin_names import find_pretenders
from hermes_cli.plugins.plugin_records import (
    VALID_HOOKS,
    LoadedPlugin,
    PluginManifest,
    PluginToolOverrideError,
)
from hermes_cli.plugins.plugin_seals import CodeChanged
from hermes_cli.plugins.plugin_sources import ENTRY_POINTS_GROUP, find_manifests
from hermes_constants import is_set
from tools import skills_tool
from tools.registry import registering_for, registry

__all__ = [
    "DISABLED",
    "ENTRY_POINTS_GROUP",
    "NOT_ENABLED",
    "VALID_HOOKS",
    "LoadedPlugin",
    "PluginContext",
    "PluginGate",
    "PluginHooks",
    "PluginManager",
    "PluginManifest",
    "PluginToolOverrideError",
    "decide_gate",
]

log = logging.getLogger(__name__)

#: How long a thread waits for another one that loads the plugins, and a command for its coroutine.
_WAIT_SECONDS = 30.0
#: Plugins require these keywords to be there, whoever calls the hook.
_TOOL_FACTS: Mapping[str, Any] = MappingProxyType(
    {"task_id": "", "session_id": "", "tool_call_id": "", "turn_id": "", "api_request_id": ""}
)


# --- the manager


class PluginManager(EngineKeeper):
    """The plugins of this process and what they registered."""

    def __init__(self, find_limit: Callable[[str], float] = find_limit) -> None:
        super().__init__()
        self._discovered = False
        self._asking = PluginCalls(find_limit, self._note_set_aside)
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
        models = plugin_models.read_wanted()
        manifests = find_manifests()
        left_out = find_pretenders(manifests, enabled, models)
        found = [(manifest, decide_gate(manifest, enabled, disabled, models)) for manifest in manifests]
        found = [(one, PluginGate.NOT_ENABLED if one.id in left_out else gate) for one, gate in found]
        if any(gate is PluginGate.LOAD for _, gate in found):
            cli_config.lend_env()
        for manifest, gate in found:
            log.debug("plugin %s (%s, %s): %s", manifest.id, manifest.source, manifest.kind, gate.value)
            if gate is PluginGate.LOAD:
                self._load(manifest)
                continue
            plugin = self._plugins[manifest.id] = LoadedPlugin(manifest, deferred=gate is PluginGate.DEFERRED)
            plugin.enabled = gate is PluginGate.DEFERRED
            plugin.error = gate.value if gate in (PluginGate.DISABLED, PluginGate.NOT_ENABLED) else None
        command_book.keep(self._cli_commands)
        known = {name for plugin in self._plugins.values() for name in (plugin.manifest.id, plugin.manifest.name)}
        for name in sorted(enabled - known):
            log.warning("plugins.enabled names %s, which is not installed", name)

    def _load(self, manifest: PluginManifest) -> None:
        plugin = self._plugins[manifest.id] = LoadedPlugin(manifest)
        before = providers.count_registered()
        try:
            with registering_for(manifest.id):
                plugin.module, register = load_plugin(manifest)
                self._registrars[manifest.id] = register
                register(PluginContext(manifest, self))
            settle_code(manifest)
            plugin.enabled = True
        except CodeChanged as problem:
            plugin.error, plugin.changed = str(problem), True
            log.warning("plugin %s", problem)
        except STOPS:
            raise
        except BaseException as problem:  # noqa: BLE001 - a plugin must not end the program either; `fail` logs it
            self.fail(manifest.id, problem)
        finally:
            self.note_tools(plugin)
            plugin.offers += plugin_models.settle_models(manifest.id, before, keep=plugin.enabled)

    def load_models(self, names: Collection[str]) -> None:
        """Load the plugins that bring providers of these names and were not loaded yet."""
        with self._sweeping:
            waiting = [plugin.manifest for plugin in self._plugins.values() if plugin_models.is_waiting(plugin)]
            left_out = find_pretenders([plugin.manifest for plugin in self._plugins.values()], NO_WORDS, names)
            for manifest in (one for one in waiting if is_named(one, names) and one.id not in left_out):
                cli_config.lend_env()
                self._load(manifest)

    def _begin(self) -> None:
        super()._begin()
        self._ready = False  # all of them have registered
        self._standings: dict[str, PluginStanding] = {}  # by plugin
        self._calls: dict[str, tuple[tuple[Any, ...], list[HookCall]]] = {}  # by hook: its callbacks as they were then

    # --- calling

    def has_hook(self, hook_name: str) -> bool:
        return bool(self._hooks.get(hook_name))

    def invoke_hook(self, hook_name: str, **facts: Any) -> list[Any]:
        """Call a hook's callbacks in the order of their registration, on another thread; what they answer, without the
        Nones. A plugin that may forbid something and cannot be asked forbids it."""
        callbacks = self._hooks.get(hook_name)
        if not callbacks:
            return []
        facts.setdefault("telemetry_schema_version", TELEMETRY_SCHEMA_VERSION)
        calls = self._find_calls(hook_name, tuple(callbacks))
        answered = self._asking.ask(hook_name, calls, facts)
        answers = [answer for answer in answered if answer is not None and is_answer(answer)]
        if hook_name in MAY_BLOCK:
            asked = zip(calls, answered, strict=True)
            unasked = (call.standing for call, answer in asked if could_not_answer(answer))
            blocking = [standing for standing in unasked if not self._may_fail_open(standing.plugin)]
            answers[:0] = [refuse_unasked(standing, str(facts.get("tool_name", ""))) for standing in blocking]
        return answers

    def _find_calls(self, hook_name: str, callbacks: tuple[Callable[..., Any], ...]) -> list[HookCall]:
        known = self._calls.get(hook_name)
        if known is None or known[0] != callbacks:
            calls = [HookCall(callback, self._find_standing(callback)) for callback in callbacks]
            known = self._calls[hook_name] = callbacks, calls
        return known[1]

    def _find_standing(self, callback: Callable[..., Any]) -> PluginStanding:
        plugin = self._owners.get(id(callback)) or middleware.describe(callback)
        return self._standings.setdefault(plugin, PluginStanding(plugin))

    def _may_fail_open(self, plugin: str) -> bool:
        entry = load_plugin_settings().entries.get(plugin)
        return isinstance(entry, Mapping) and entry.get("fail_open") is True

    def _note_set_aside(self, standing: PluginStanding) -> None:
        if standing.plugin in self._plugins:
            self._plugins[standing.plugin].set_aside = standing.set_aside
            set_aside.note(standing.plugin, standing.set_aside)

    @property
    def has_set_aside(self) -> bool:
        return any(standing.set_aside for standing in self._standings.values())

    def take_back(self) -> list[str]:
        """Call those again that were set aside and that the owner enabled since; their names."""
        waiting = [name for name, standing in self._standings.items() if standing.set_aside and name in self._plugins]
        still = set_aside.read() if waiting else {}
        back = [name for name in waiting if name not in still]
        for name in back:
            self._standings[name].set_aside, self._standings[name].failures = "", 0
            self._plugins[name].set_aside = ""
            log.info("plugin %s is called again", name)
        return back

    def has_middleware(self, kind: str) -> bool:
        return bool(self._middleware.get(kind))

    def invoke_middleware(self, kind: str, **facts: Any) -> list[Any]:
        return middleware.invoke_all(kind, self._middleware.get(kind, ()), **facts)

    def register_again(self, owner: str, collector: Any) -> None:
        """Run a plugin's `register` once more, for what the collector takes; its failure is logged."""
        register = self._registrars.get(owner)
        if register is None:
            return
        try:
            with registering_for(owner):
                register(collector)
        except (Exception, SystemExit):
            log.warning("plugin %s could not register a second time", owner, exc_info=True)

    def follow_settings(self) -> None:
        """The settings or `.env` have changed: what a plugin registered that may not run any more is gone. One that is
        newly enabled is loaded at the next start."""
        off = (DISABLED, NOT_ENABLED)
        loaded = [one for one in self._plugins.values() if one.module is not None and one.error not in off]
        if not loaded:
            return
        cli_config.lend_env()
        settings = load_plugin_settings()
        enabled, disabled = frozenset(settings.enabled), frozenset(settings.disabled)
        for plugin in loaded:
            gate = decide_gate(plugin.manifest, enabled, disabled)
            if gate in (PluginGate.LOAD, PluginGate.KNOWN):  # a provider may still answer in some conversation
                continue
            threads, plugin.error = self.drop(plugin.manifest.id), gate.value
            command_book.forget({plugin.manifest.name})
            log.info("plugin %s is switched off", plugin.manifest.id)
            if threads:
                log.warning("plugin %s leaves threads running until the next start: %s", plugin.manifest.id, threads)


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


def load_named_models() -> None:
    """Load what may be loaded, with the providers of models that the settings name by now."""
    discover_plugins()
    manager = get_plugin_manager()
    if any(map(plugin_models.is_waiting, list(manager._plugins.values()))):
        manager.load_models(plugin_models.read_wanted())


def agree_to_model(name: str) -> None:
    """The owner is about to name this provider in the settings: if a plugin brings it, that plugin may run."""
    discover_plugins()
    manager = get_plugin_manager()
    manager.load_models({name.strip().lower()})
    plugin_models.refuse_failed(name, manager._plugins.values())


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


offer_hooks(PluginHooks)
providers.load_plugins = load_named_models
skills_tool.find_added = lambda: get_plugin_manager()._plugin_skills


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
    """What runs a command, however it is written: chat apps have no `-` in the names of commands."""
    handler: Callable[[str], Any] | None = _find_command(name).get("handler")
    return handler


def find_command_owner(name: str) -> str:
    """Whose command it is, as people read it."""
    owner = str(_find_command(name).get("plugin", ""))
    return owner.replace(":", " ") if ":" in owner else f"the plugin {owner}"


def _find_command(name: str) -> Mapping[str, Any]:
    commands, name = get_plugin_commands(), name.lower()
    return commands.get(name) or next((commands[known] for known in commands if _plain(known) == _plain(name)), {})


def _plain(name: str) -> str:
    return name.replace("_", "-")


def list_plugin_words() -> frozenset[str]:
    """The names of plugins' commands in every way in which people write them."""
    names = get_plugin_commands()
    return frozenset(names).union(*((_plain(name), name.replace("-", "_")) for name in names)) if names else NO_WORDS


def find_offers(kind: str) -> list[Any]:
    """What plugins offer of a kind that the host itself does not use, in the order in which they were loaded."""
    return list(_find_loaded()._offers.get(kind, ()))


def find_owned_offers(kind: str) -> list[tuple[str, Any]]:
    """The same, each with the plugin that offers it."""
    plugins = _find_loaded()._plugins.values()
    return [(plugin.manifest.id, offer) for plugin in plugins for known, offer in plugin.offers if known == kind]


def get_plugin_auxiliary_tasks() -> list[dict[str, Any]]:
    """The helper calls that plugins declared, sorted by key."""
    return [task for _, task in sorted(_find_loaded()._aux_tasks.items())]


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
