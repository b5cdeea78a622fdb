"""What a plugin is, and what all plugins have registered: records that `PluginContext` fills and the manager reads."""

import logging
import re
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from agent.context_engine import ContextEngine
from hermes_base.errors import HermesError
from hermes_cli import commands
from hermes_cli.plugins import plugin_backends
from hermes_cli.plugins.plugin_models import forget_models
from hermes_cli.plugins.plugin_platforms import add_platform, drop_platform
from tools.registry import registry

log = logging.getLogger("hermes_cli.plugins")

MODEL_PROVIDER = "model-provider"
KINDS = frozenset({"standalone", "backend", "exclusive", "platform", MODEL_PROVIDER})
VALID_HOOKS = frozenset(
    {
        "on_session_start",
        "pre_llm_call",
        "pre_api_request",
        "post_api_request",
        "api_request_error",
        "pre_tool_call",
        "post_tool_call",
        "transform_tool_result",
        "transform_terminal_output",
        "transform_llm_output",
        "post_llm_call",
        "pre_verify",
        "on_session_end",
        "on_session_finalize",
        "on_session_reset",
        "subagent_start",
        "subagent_stop",
        "pre_gateway_dispatch",
        "pre_approval_request",
        "post_approval_response",
        "kanban_task_claimed",
        "kanban_task_completed",
        "kanban_task_blocked",
    }
)
_BLANKS = re.compile(r"\s+")


class PluginToolOverrideError(HermesError):
    """A plugin wants to replace a tool without the owner's consent."""


@dataclass
class PluginManifest:
    name: str
    version: str = ""
    description: str = ""
    author: str = ""
    requires_env: list[Any] = field(default_factory=list)
    provides_tools: list[str] = field(default_factory=list)
    provides_hooks: list[str] = field(default_factory=list)
    source: str = ""  # bundled, user, project, entrypoint
    path: str | None = None  # the folder; of an entry point, its value
    kind: str = "standalone"
    key: str = ""
    faults: tuple[str, ...] = ()  # what stands there in another form than it should, and how it was read

    @property
    def id(self) -> str:
        """What the settings call it."""
        return self.key or self.name


@dataclass
class LoadedPlugin:
    manifest: PluginManifest
    module: ModuleType | None = None
    tools_registered: list[str] = field(default_factory=list)
    hooks_registered: list[str] = field(default_factory=list)
    middleware_registered: list[str] = field(default_factory=list)
    commands_registered: list[str] = field(default_factory=list)
    offers: list[tuple[str, Any]] = field(default_factory=list)  # what others than the host use, by kind
    kept: list[tuple[str, str]] = field(default_factory=list)  # what nobody uses yet: its kind and its name
    enabled: bool = False
    error: str | None = None
    trace: str = ""  # of the error, for whoever looks for its reason
    changed: bool = False  # not loaded: its code is not what the owner enabled
    set_aside: str = ""  # why it is not called any more
    deferred: bool = False
    refused: dict[str, str] = field(default_factory=dict)  # what it may not register ("tool: name"), and why


class PluginRecords:
    """Everything that plugins registered. The fields' names are part of the interface: tests of plugins read them."""

    def __init__(self) -> None:
        self._cli_ref: Any = None  # the terminal chat, while there is one
        self._begin()

    def _begin(self) -> None:
        self._plugins: dict[str, LoadedPlugin] = {}
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        self._owners: dict[int, str] = {}  # the plugin of a hook's or a middleware's callback, by its identity
        self._middleware: dict[str, list[Callable[..., Any]]] = {}
        self._plugin_tool_names: set[str] = set()
        self._plugin_commands: dict[str, dict[str, Any]] = {}
        self._cli_commands: dict[str, dict[str, Any]] = {}
        self._context_engine: Any = None
        self._plugin_skills: dict[str, dict[str, Any]] = {}
        self._aux_tasks: dict[str, dict[str, Any]] = {}
        self._offers: dict[str, list[Any]] = {}  # what others than the host use, or nobody yet, by kind
        self._displaced: list[tuple[dict[str, dict[str, Any]], str, dict[str, Any]]] = []  # by a later plugin
        self._engine_owner = ""  # the plugin that registered the context engine

    def clear(self) -> None:
        """Forget all plugins and take their tools back; tools that they replaced return."""
        tools = filter(None, map(registry.get_entry, self._plugin_tool_names))
        owners = {tool.owner: "" for tool in tools} | {key: name_module(one) for key, one in self._plugins.items()}
        for owner, module in owners.items():
            registry.take_back(owner, module)
        for platform in self._offers.get("platform", ()):
            drop_platform(platform.name)
        for plugin in self._plugins.values():
            forget_models(plugin.offers)
            plugin_backends.forget(plugin.offers)
        self._begin()

    def drop(self, key: str) -> list[str]:
        """Forget what one plugin registered; the names of threads that it leaves running."""
        plugin = self._plugins[key]
        for registered in (self._hooks, self._middleware):
            for kind, callbacks in list(registered.items()):
                callbacks[:] = [one for one in callbacks if self._owners.get(id(one)) != key]
                if not callbacks:
                    del registered[kind]
        self._plugin_tool_names.difference_update(registry.take_back(key, name_module(plugin)))
        self._drop_named({key, plugin.manifest.name})
        if self._engine_owner == key:
            self._context_engine, self._engine_owner = None, ""
        for kind, offer in plugin.offers:
            if kind == "platform":
                drop_platform(offer.name)
        forget_models(plugin.offers)
        plugin_backends.forget(plugin.offers)
        for offers in self._offers.values():
            offers[:] = [one for one in offers if self._owners.get(id(one)) != key]
        gone = [(kind, name_offer(offer)) for kind, offer in plugin.offers]
        for names in (plugin.tools_registered, plugin.hooks_registered, plugin.middleware_registered):
            names.clear()
        for told in (plugin.commands_registered, plugin.offers, plugin.kept):
            told.clear()
        for kind, name in gone:
            self._serve_last(kind, name)
        plugin.enabled, plugin.set_aside = False, ""
        return _find_threads(plugin.module)

    def _serve_last(self, kind: str, name: str) -> None:
        """A plugin that offered something under this name is gone: what another one offers under it counts now."""
        offered = [(key, one) for key, each in self._plugins.items() for known, one in each.offers if known == kind]
        left = [(key, one) for key, one in offered if name_offer(one) == name]
        if left and kind == "platform":
            add_platform(*left[-1])
        elif left:
            plugin_backends.serve_offer(kind, left[-1][1])

    def refuse(self, owner: str, what: str, why: str) -> None:
        """A plugin does not get what it registers; whoever looks for the reason finds it."""
        log.warning("plugin %s: %s is refused: %s", owner, what, why)
        known = (plugin for key, plugin in self._plugins.items() if owner in (key, plugin.manifest.name))
        for plugin in known:
            plugin.refused[what] = why

    def fail(self, key: str, problem: BaseException) -> None:
        """A plugin could not be loaded to its end. What it had registered by then stays: its author counts on that."""
        plugin = self._plugins[key]
        plugin.error = str(problem) or type(problem).__name__
        if isinstance(problem, SystemExit):
            plugin.error = f"it wanted to end the program (SystemExit: {problem})"
        plugin.trace = "".join(traceback.format_exception(problem))
        log.warning("plugin %s could not be loaded: %s (see: hermes plugins info)", key, plugin.error)
        log.debug("plugin %s: the trace", key, exc_info=problem)

    def note_tools(self, plugin: LoadedPlugin) -> None:
        """Put down which tools are a plugin's, also those that it put into the registry by itself."""
        owned = registry.list_owned(plugin.manifest.id)
        plugin.tools_registered.extend(name for name in owned if name not in plugin.tools_registered)
        self._plugin_tool_names.update(owned)

    def add_command(
        self,
        name: str,
        handler: Callable[..., Any],
        owner: str,
        description: str = "",
        args_hint: str = "",
        *,
        may_replace: bool = True,
    ) -> str:
        """Add a slash command; its name as people type it, or empty when it is refused."""
        clean = _BLANKS.sub("-", name.lower().strip().removeprefix("/").strip())
        holder = self._plugin_commands.get(clean, {}).get("plugin", owner)
        why = "it has no name" if not clean else ""
        if commands.resolve_command(clean) is not None:
            why = "a command of Hermes has this name"
        elif holder != owner and not may_replace:
            why = f"{holder} has a command of this name"
        if why:
            self.refuse(owner, f"command: /{clean}", why)
            return ""
        facts = {"handler": handler, "description": description or "Plugin command", "plugin": owner}
        self.put(self._plugin_commands, clean, {**facts, "args_hint": args_hint.strip()})
        return clean

    def put(self, kept: dict[str, dict[str, Any]], name: str, facts: dict[str, Any]) -> None:
        """Keep what a plugin registers by name. What another one had there comes back when this one goes."""
        if name in kept and kept[name]["plugin"] != facts["plugin"]:
            self._displaced.append((kept, name, kept[name]))
        kept[name] = facts

    def _drop_named(self, owners: set[str]) -> None:
        """Forget what these names registered by name, and give back what stood there before."""
        for kept in (self._plugin_commands, self._cli_commands, self._plugin_skills, self._aux_tasks):
            for name in [name for name, facts in kept.items() if facts["plugin"] in owners]:
                del kept[name]
        self._displaced = [one for one in self._displaced if one[2]["plugin"] not in owners]
        for kept, name, facts in reversed(self._displaced):
            kept.setdefault(name, facts)

    def drop_commands(self, owners: str, keep: str) -> None:
        """Forget the commands of all whose name begins like this, except of the one that stays."""
        found = {facts["plugin"] for facts in self._plugin_commands.values()}
        self._drop_named({owner for owner in found if owner.startswith(owners) and owner != keep})

    def set_context_engine(self, engine: Any, owner: str) -> bool:
        """Keep the one engine that plugins may offer; it runs only when `context.engine` names it."""
        what, why = "context engine", ""
        if self._context_engine is not None:
            why = f"the plugin {self._engine_owner} has registered one, and there is one only"
        elif not isinstance(engine, ContextEngine):
            why = f"it is none ({type(engine).__name__})"
        if why:
            self.refuse(owner, what, why)
            return False
        self._context_engine, self._engine_owner = engine, owner
        return True

    def find_plugin_skill(self, qualified: str) -> Path | None:
        """Where the skill `plugin:name` stands."""
        found = self._plugin_skills.get(qualified)
        return found["path"] if found else None

    def list_plugin_skills(self, plugin: str) -> list[str]:
        return sorted(skill["bare_name"] for skill in self._plugin_skills.values() if skill["plugin"] == plugin)

    def remove_plugin_skill(self, qualified: str) -> None:
        self._plugin_skills.pop(qualified, None)

    def list_plugins(self) -> list[dict[str, Any]]:
        """One dict a plugin, sorted by key; tools, hooks, middleware and commands are counts."""
        return [_summarise(self._plugins[key]) for key in sorted(self._plugins)]


def name_offer(offer: Any) -> str:
    """What an offer is called, as far as it says so."""
    if isinstance(offer, tuple | list) and offer:
        return str(offer[0])
    name = offer.get("name") if isinstance(offer, Mapping) else None
    if name is None:
        try:
            name = offer.name
        except Exception:  # noqa: BLE001 - other people's code
            name = None
    return name if isinstance(name, str) and name else type(offer).__name__


def name_module(plugin: LoadedPlugin) -> str:
    """The module that a plugin's code stands in; empty: none was loaded."""
    return plugin.module.__name__ if plugin.module is not None else ""


def _find_threads(module: ModuleType | None) -> list[str]:
    """The threads that run code of a module or of one below it: nobody can end them from outside."""
    if module is None:
        return []
    found = []
    for thread in threading.enumerate():
        target = getattr(thread, "_target", None)
        at_work = str(getattr(target, "__module__", "") or "") if target is not None else type(thread).__module__
        if at_work == module.__name__ or at_work.startswith(module.__name__ + "."):
            found.append(thread.name)
    return found


def _summarise(plugin: LoadedPlugin) -> dict[str, Any]:
    manifest = plugin.manifest
    return {
        "name": manifest.name,
        "key": manifest.id,
        "kind": manifest.kind,
        "version": manifest.version,
        "description": manifest.description,
        "source": manifest.source,
        "enabled": plugin.enabled,
        "tools": len(plugin.tools_registered),
        "hooks": len(plugin.hooks_registered),
        "middleware": len(plugin.middleware_registered),
        "commands": len(plugin.commands_registered),
        "error": plugin.error,
    }
