"""`ctx`: what a plugin's `register(ctx)` may call. Each call writes into the manager's records or the tool registry."""

import difflib
import logging
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent.backend_provider import BackendProvider
from agent.browser_provider import BrowserProvider
from agent.memory_provider import MemoryProvider
from agent.plugin_llm import PluginLlm
from agent.transcription_provider import TranscriptionProvider
from agent.web_search_provider import WebSearchProvider
from gateway.platform_registry import PlatformEntry
from hermes_base.errors import ConfigProblem
from hermes_base.settings import PluginSettings
from hermes_base.turn.tool_schemas import find_schema_fault
from hermes_cli import config as cli_config
from hermes_cli.middleware import VALID_MIDDLEWARE
from hermes_cli.plugins import plugin_backends
from hermes_cli.plugins.plugin_platforms import add_platform
from hermes_cli.plugins.plugin_records import (
    VALID_HOOKS,
    LoadedPlugin,
    PluginManifest,
    PluginRecords,
    PluginToolOverrideError,
    name_offer,
)
from hermes_cli.profiles import get_active_profile_name
from hermes_constants.home_names import make_data_folder
from tools.registry import ToolEntry, registering_for, registry

log = logging.getLogger("hermes_cli.plugins")

#: Helper calls of the host itself; their settings are not a plugin's to define.
RESERVED_TASKS = frozenset(
    {"approval", "compression", "mcp", "session_search", "skills_hub", "title_generation", "vision", "web_extract"}
)
_TASK_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {"provider": "auto", "model": "", "base_url": "", "api_key": "", "timeout": 60}
)
BUILT_IN_TOOL = (
    "a tool of Hermes has this name. To replace it: register it with override=True, then "
    "`hermes plugins enable {plugin} --allow-tool-override`"
)
_TASK_KEY = re.compile(r"\w+", re.ASCII)
_SKILL_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def load_plugin_settings() -> PluginSettings:
    """The settings; the defaults when they cannot be used, so that a broken file enables nothing."""
    try:
        return cli_config.load_settings().plugins
    except ConfigProblem as problem:
        log.warning("plugins go without settings: %s", problem)
        return PluginSettings()


def _keep_as(kind: str) -> Callable[["PluginContext", Any], None]:
    """What a plugin may register although this host does not use it yet: it is kept, so that the plugin loads."""

    def register(self: "PluginContext", provider: Any) -> None:
        self._keep(kind, provider)

    return register


class PluginContext:
    """One plugin's door into the host."""

    def __init__(self, manifest: PluginManifest, manager: PluginRecords) -> None:
        self.manifest = manifest
        self._manager = manager
        self._plugin = manager._plugins.get(manifest.id) or LoadedPlugin(manifest)

    @property
    def llm(self) -> PluginLlm:
        """The owner's model; what differs from the owner's choice needs consent in `plugins.entries.<plugin>.llm`."""
        return PluginLlm(self.manifest.id, self._read_llm_policy)

    def _read_llm_policy(self) -> Mapping[str, Any]:
        policy = self._read_entry().get("llm")
        return policy if isinstance(policy, Mapping) else {}

    @property
    def profile_name(self) -> str:
        return get_active_profile_name()

    @property
    def data_folder(self) -> Path:
        """Where the plugin keeps what it writes: a folder of the home, made when it is asked for. Updates and removal
        leave it alone, and it is in every back-up."""
        return make_data_folder(self.manifest.name)

    def get_config(self, key: str, default: Any = None) -> Any:
        """The owner's value in `plugins.entries.<plugin>.settings`."""
        given = self._read_entry().get("settings")
        return given.get(key, default) if isinstance(given, Mapping) else default

    def _read_entry(self) -> Mapping[str, Any]:
        entries = load_plugin_settings().entries
        entry = entries.get(self.manifest.id, entries.get(self.manifest.name))
        return entry if isinstance(entry, Mapping) else {}

    def _refuse(self, what: str, why: str) -> None:
        self._manager.refuse(self.manifest.id, what, why)

    def _leave_out(self, what: str, given: Any) -> None:
        self._refuse(what, f"it gives something else ({type(given).__name__})")

    def _can_use(self, what: str, given: Any, form: Any = Callable) -> bool:
        if not isinstance(given, form):
            self._leave_out(what, given)
            return False
        return True

    # --- tools

    def register_tool(
        self,
        name: str,
        toolset: str,
        schema: Mapping[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[[], Any] | None = None,
        requires_env: Collection[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        override: bool = False,
    ) -> None:
        """Give the model a tool; a name that is taken is refused, or with `override` needs the owner's consent. So is
        what no provider of models takes: it would fail every turn."""
        what = f"tool: {name}"
        if not self._can_use(f"function of the tool {name}", handler):
            return
        if fault := find_schema_fault(name, schema):
            self._refuse(what, fault)
            return
        allowed = not override or self.manifest.source == "bundled"
        if not allowed and self._read_entry().get("allow_tool_override") is not True:
            setting = f"plugins.entries.{self.manifest.id}.allow_tool_override"
            raise PluginToolOverrideError(
                f"Plugin {self.manifest.id} wants to replace the tool {name}.",
                fix=f"If you agree: hermes config set {setting} true",
            )
        known = registry.get_entry(name)
        # The module tells; a toolset's name alone proves nothing, since plugins choose it freely.
        module = "" if known is None else str(getattr(known.handler, "__module__", None) or "")
        if not override and module.partition(".")[0] == "tools":
            self._refuse(what, BUILT_IN_TOOL.format(plugin=self.manifest.id))
            return
        rest = (check_fn, requires_env, is_async, description, emoji)
        with registering_for(self.manifest.id):
            taken = registry.register(name, toolset, schema, handler, *rest, override=override)
        if taken:
            self._manager.note_tools(self._plugin)
        elif known is not None:
            self._refuse(what, f"{name_tool_owner(known)} has a tool of this name, of the toolset {known.toolset}")

    def dispatch_tool(self, tool_name: str, args: Mapping[str, Any], **context: Any) -> str:
        """Run a tool as the model would; the terminal's agent, if there is one, goes along as `parent_agent`."""
        agent = getattr(self._manager._cli_ref, "agent", None)
        if agent is not None:
            context.setdefault("parent_agent", agent)
        return registry.dispatch(tool_name, args, **context)

    # --- callbacks

    def register_hook(self, hook_name: str, callback: Any) -> None:
        if hook_name not in VALID_HOOKS:
            near = difflib.get_close_matches(str(hook_name), sorted(VALID_HOOKS), n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            what = "plugin %s registers the unknown hook %s; nothing calls it%s"
            log.warning(what, self.manifest.id, hook_name, hint)
        if not self._can_use(f"function of the hook {hook_name}", callback):
            return
        self._manager._hooks.setdefault(hook_name, []).append(callback)
        self._manager._owners[id(callback)] = self.manifest.id
        self._plugin.hooks_registered.append(hook_name)

    def register_middleware(self, kind: str, callback: Callable[..., Any]) -> None:
        if not self._can_use(f"function of the middleware {kind}", callback):
            return
        if kind not in VALID_MIDDLEWARE:
            log.warning("plugin %s registers middleware of the unknown kind %s", self.manifest.id, kind)
        self._manager._middleware.setdefault(kind, []).append(callback)
        self._manager._owners[id(callback)] = self.manifest.id
        self._plugin.middleware_registered.append(kind)

    # --- commands

    def register_command(
        self, name: str, handler: Callable[[str], Any], description: str = "", args_hint: str = ""
    ) -> None:
        """Add a slash command: `handler(text behind the name)` answers with text, or with None."""
        if not self._can_use(f"function of the command {name}", handler):
            return
        added = self._manager.add_command(name, handler, self.manifest.name, description, args_hint)
        if added:
            self._plugin.commands_registered.append(added)

    def register_cli_command(
        self,
        name: str,
        help: str,
        setup_fn: Callable[..., Any],
        handler_fn: Callable[..., Any] | None = None,
        description: str = "",
    ) -> None:
        """Add a subcommand of `hermes`: `setup_fn(subparser)`, `handler_fn(args)`."""
        if not self._can_use(f"set-up of the subcommand {name}", setup_fn):
            return
        if handler_fn is not None and not self._can_use(f"function of the subcommand {name}", handler_fn):
            return
        facts = {"name": name, "help": help, "description": description, "setup_fn": setup_fn, "handler_fn": handler_fn}
        self._manager.put(self._manager._cli_commands, name, {**facts, "plugin": self.manifest.name})

    def inject_message(self, content: str, role: str = "user") -> bool:
        """Say something in the terminal chat as if it had been typed; False when there is none."""
        submit = getattr(self._manager._cli_ref, "submit", None)
        if submit is None:
            return False
        submit(content if role == "user" else f"[{role}] {content}")
        return True

    # --- the rest

    def register_context_engine(self, engine: Any) -> None:
        """Offer a context engine; it runs only when `context.engine` names it."""
        self._manager.set_context_engine(engine, self.manifest.id)

    def register_skill(self, name: str, path: str | Path, description: str = "") -> None:
        """Offer a skill as `<plugin>:<name>`."""
        if not _SKILL_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a skill: use letters, digits, - and _.")
        place = Path(path)
        if not place.exists():
            raise FileNotFoundError(f"The skill {name} is not at {place}.")
        self._manager._plugin_skills[f"{self.manifest.name}:{name}"] = {
            "path": place,
            "plugin": self.manifest.name,
            "bare_name": name,
            "description": description,
        }

    def register_transcription_provider(self, provider: Any) -> None:
        """Offer to turn recordings into text: a function that takes a path and gives back what is said there, or
        something with such a function as `transcribe`. The last one that was offered is asked."""
        self._offer("transcription_provider", provider)
        if isinstance(provider, TranscriptionProvider):
            plugin_backends.serve("transcription_provider", provider)

    def register_memory_provider(self, provider: Any) -> None:
        """Offer a memory provider; it runs only when `memory.provider` names it."""
        if isinstance(provider, MemoryProvider):
            self._offer("memory_provider", provider)
        else:
            self._leave_out("memory provider", provider)

    def register_web_search_provider(self, provider: Any) -> None:
        """Offer a search of the web, or a reader of pages: `web.search_backend` and `web.extract_backend` name it."""
        if isinstance(provider, WebSearchProvider):
            self._offer("web_search_provider", provider)
            plugin_backends.serve("web_search_provider", provider)
        else:
            self._leave_out("search provider", provider)

    def register_browser_provider(self, provider: Any) -> None:
        """Offer browsers elsewhere: `browser.cloud_provider` names the provider, and each task gets one of its own."""
        if isinstance(provider, BrowserProvider):
            self._offer("browser_provider", provider)
            plugin_backends.serve("browser_provider", provider)
        else:
            self._leave_out("browser provider", provider)

    def register_auxiliary_task(
        self, key: str, *, display_name: str, description: str, defaults: Mapping[str, Any] | None = None
    ) -> None:
        """Declare a helper call of the plugin's own, set up by the owner under `auxiliary.<key>`."""
        if not isinstance(key, str) or not _TASK_KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no name for a task: use letters, digits and _.")
        owner = self._manager._aux_tasks.get(key, {}).get("plugin", self.manifest.name)
        if key in RESERVED_TASKS or owner != self.manifest.name:
            raise ValueError(f"The task {key} belongs to {'the host' if key in RESERVED_TASKS else owner}.")
        self._manager._aux_tasks[key] = {
            "key": key,
            "display_name": display_name,
            "description": description,
            "defaults": {**_TASK_DEFAULTS, "extra_body": {}, **(defaults or {})},
            "plugin": self.manifest.name,
        }

    # --- what is kept and not used yet

    def _offer(self, kind: str, offer: Any) -> None:
        self._manager._offers.setdefault(kind, []).append(offer)
        self._plugin.offers.append((kind, offer))
        self._manager._owners[id(offer)] = self.manifest.id

    def _keep(self, kind: str, offer: Any) -> None:
        if kind in plugin_backends.REGISTRIES and not plugin_backends.REGISTRIES[kind].accepts(offer):
            self._leave_out(kind.replace("_", " "), offer)
            return
        self._offer(kind, offer)
        self._plugin.kept.append((kind, name_offer(offer)))
        if isinstance(offer, BackendProvider) and kind in plugin_backends.REGISTRIES:
            plugin_backends.serve(kind, offer)
        log.info("plugin %s offers a %s; it is kept, this host does not use it yet", self.manifest.id, kind)

    register_image_gen_provider = _keep_as("image_gen_provider")
    register_video_gen_provider = _keep_as("video_gen_provider")
    register_tts_provider = _keep_as("tts_provider")
    register_dashboard_auth_provider = _keep_as("dashboard_auth_provider")

    def register_secret_source(self, source: Any) -> None:
        self._keep("secret_source", source)

    def register_slack_action_handler(self, action_id: str, callback: Callable[..., Any]) -> None:
        if not action_id or not callable(callback):
            raise ValueError("A Slack action needs an id and a function.")
        self._keep("slack_action_handler", (action_id, callback))

    def register_platform(
        self,
        name: str,
        label: str,
        adapter_factory: Callable[..., Any],
        check_fn: Callable[[], Any],
        validate_config: Callable[..., Any] | None = None,
        required_env: list[str] | None = None,
        install_hint: str = "",
        **entry: Any,
    ) -> None:
        """Add a chat platform; what else may be given are the fields of `PlatformEntry`. It runs when its settings or
        its variables switch it on."""
        given = {"source": "plugin", "plugin_name": self.manifest.name, **entry}
        needs = list(required_env or ())
        made = PlatformEntry(
            name,
            label,
            adapter_factory,
            check_fn,
            validate_config,
            required_env=needs,
            install_hint=install_hint,
            **given,
        )
        if add_platform(self.manifest.id, made):
            self._offer("platform", made)


def name_tool_owner(tool: ToolEntry) -> str:
    """Whose tool it is, as people read it."""
    return f"the plugin {tool.owner}" if tool.owner else "Hermes, or one of its servers,"


class EngineProbe(PluginContext):
    """A context over scratch records: runs `register` again for a second engine, and nothing else takes effect."""

    def register_tool(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs  # one of two registrations that would reach beyond the records

    def register_platform(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs  # and the other
