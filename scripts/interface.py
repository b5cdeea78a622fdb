"""Writes docs/interface.md: the names that others may import, with their parameters as the code has them.

`FIXED` says what is fixed. A test compares the page, so a name or a parameter that goes, changes or is new is seen.
"""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args, get_type_hints

PAGE = Path(__file__).resolve().parent.parent / "docs" / "interface.md"

INTRO = """# What others may rely on

Written by `scripts/interface.py` from the code; do not edit. What stands under a module is fixed: a change of it is
told in the [changelog](../CHANGELOG.md). Everything else in Hermes may move or change without a word.

- Programs in any language: the [HTTP API](api.md), and the [socket of this machine](local-protocol.md).
- Scripts: the [command line](../README.md) with its exit codes, and the [settings](settings.md).
- Plugins get a `PluginContext`, see `hermes_cli.plugins`. A chat platform is written against `PlatformSpec` and
  `Adapter`: [how to add one](tour.md#a-platform).
- Python programs: `AIAgent`, see `run_agent`.

A bare `*` stands before what has to be named. Names that begin with `_` are fixed where they are listed, and nowhere
else.
"""

#: Modules that do not move, and the names in each that stay. A class is fixed with its public members.
FIXED: dict[str, tuple[str, ...]] = {
    "run_agent": ("AIAgent", "OpenAI", "check_toolset_requirements", "cleanup_vm", "get_tool_definitions"),
    "hermes_cli.plugins": (
        *("PluginContext", "PluginManager", "PluginManifest", "PluginHooks", "LoadedPlugin", "PluginToolOverrideError"),
        *("ENTRY_POINTS_GROUP", "VALID_HOOKS", "get_plugin_manager", "discover_plugins", "has_hook", "invoke_hook"),
        *("has_middleware", "invoke_middleware", "get_plugin_context_engine", "get_plugin_commands"),
        *("get_plugin_command_handler", "get_plugin_toolsets", "get_plugin_auxiliary_tasks"),
    ),
    "tools.registry": ("registry", "ToolRegistry", "tool_result", "tool_error"),
    "tools.interrupt": ("is_interrupted",),
    "tools.process_registry": ("process_registry", "ProcessRegistry"),
    "tools.terminal_tool": ("cleanup_vm",),
    "tools.url_safety": ("is_safe_url",),
    "tools.path_security": ("validate_within_dir",),
    "tools.send_message_tool": ("send_message_tool",),
    "tools.memory_tool": ("ENTRY_DELIMITER", "get_memory_dir"),
    "tools.skill_usage": ("load_usage",),
    "tools.skills_tool": (
        *("SKILLS_DIR", "_find_all_skills", "_parse_frontmatter", "skill_matches_platform"),
        *("_get_required_environment_variables", "set_secret_capture_callback"),
    ),
    "agent.redact": ("redact_sensitive_text",),
    "agent.display": ("get_tool_emoji",),
    "agent.title_generator": ("generate_title",),
    "agent.skill_utils": ("get_external_skills_dirs", "iter_skill_index_files"),
    "cron.jobs": (
        *("create_job", "get_job", "update_job", "pause_job", "resume_job", "trigger_job", "list_jobs", "load_jobs"),
        *("remove_job", "parse_schedule", "OUTPUT_DIR"),
    ),
    "hermes_cli": ("__version__",),
    "hermes_cli.logs": ("LOG_FILES", "_read_tail"),
    "hermes_cli.runtime_provider": ("resolve_runtime_provider",),
    "hermes_cli.skills_config": ("get_disabled_skills", "save_disabled_skills"),
    "tools.browser_tool": ("cleanup_browser",),
    "model_tools": ("check_toolset_requirements", "get_tool_definitions", "handle_function_call"),
    "agent.context_engine": ("ContextEngine", "sanitize_memory_context"),
    "agent.memory_provider": ("MemoryProvider",),
    "agent.plugin_llm": (
        *("PluginLlm", "PluginLlmTrustError", "PluginLlmCompleteResult", "PluginLlmStructuredResult", "PluginLlmUsage"),
        *("PluginLlmTextInput", "PluginLlmImageInput"),
    ),
    "agent.context_compressor": ("ContextCompressor",),
    "agent.auxiliary_client": (
        *("call_llm", "async_call_llm", "resolve_provider_client", "extract_content_or_reasoning"),
        "get_text_auxiliary_client",
    ),
    "agent.anthropic_adapter": ("build_anthropic_client",),
    "agent.usage_pricing": ("CanonicalUsage",),
    "agent.model_metadata": (
        *("get_model_context_length", "estimate_tokens_rough", "estimate_messages_tokens_rough"),
        "estimate_request_tokens_rough",
    ),
    "plugins.context_engine": ("discover_context_engines", "load_context_engine", "_EngineCollector"),
    "providers": ("register_provider", "get_provider_profile", "list_providers"),
    "providers.base": ("ProviderProfile", "OMIT_TEMPERATURE", "_profile_user_agent"),
    "hermes_cli.auth": ("PROVIDER_REGISTRY",),
    "hermes_cli.models": ("CANONICAL_PROVIDERS",),
    "gateway.run": (
        *("GatewayRunner", "time", "_AGENT_CACHE_MAX_SIZE", "_AGENT_CACHE_IDLE_TTL_SECS", "_AGENT_PENDING_SENTINEL"),
        "_gateway_runner_ref",
    ),
    "gateway.session_context": ("get_session_env",),
    "gateway.config": ("Platform", "PlatformConfig", "HomeChannel", "GatewayConfig", "load_gateway_config"),
    "gateway.session": ("SessionSource", "SessionStore", "build_session_key", "canonical_whatsapp_identifier"),
    "gateway.whatsapp_identity": ("canonical_whatsapp_identifier", "expand_whatsapp_aliases"),
    "gateway.platform_registry": ("PlatformEntry", "platform_registry"),
    "gateway.status": ("acquire_scoped_lock", "release_scoped_lock"),
    "gateway.slash_access": ("SlashAccessPolicy", "policy_from_extra"),
    "gateway.platforms.base": (
        *("BasePlatformAdapter", "MessageEvent", "MessageType", "ProcessingOutcome", "SendResult", "EphemeralReply"),
        *("cache_image_from_bytes", "cache_audio_from_bytes", "cache_video_from_bytes", "cache_document_from_bytes"),
        *("cache_media_bytes", "cache_image_from_url", "cache_audio_from_url", "merge_pending_message_event"),
        *("resolve_channel_prompt", "resolve_proxy_url", "utf16_len", "_thread_metadata_for_source"),
    ),
    "gateway.platforms.helpers": ("MessageDeduplicator",),
    "tools.approval": (
        *("resolve_gateway_approval", "request_tool_approval", "check_dangerous_command", "get_current_session_key"),
        *("_gateway_queues", "_get_approval_mode"),
    ),
    "tools.clarify_gateway": (
        *("resolve_gateway_clarify", "mark_awaiting_text", "register", "wait_for_response"),
        *("get_pending_for_session", "clear_session", "get_clarify_timeout"),
    ),
    "tools.slash_confirm": ("register", "resolve", "get_pending", "clear"),
    "hermes_cli.config": (
        *("load_config", "load_config_readonly", "save_config", "cfg_get", "get_config_path", "get_env_path"),
        *("get_hermes_home", "load_env"),
    ),
    "hermes_cli.commands": (
        *("COMMAND_REGISTRY", "CommandDef", "ACTIVE_SESSION_BYPASS_COMMANDS", "is_gateway_known_command"),
        "resolve_command",
    ),
    "hermes_cli.middleware": ("NextCall",),
    "hermes_cli.profiles": ("get_active_profile_name",),
    "hermes_cli.plugins_cmd": ("_discover_context_engines",),
    "hermes_constants": ("VERSION", "get_hermes_home"),
}
#: Of these classes only so much is fixed; of the others all that is public.
FIXED_MEMBERS: dict[str, tuple[str, ...]] = {
    "AIAgent": (
        *("run_conversation", "interrupt", "steer", "compress_now", "reset_session_state", "release_clients", "close"),
        *("messages", "tools", "context_compressor", "client", "session_id", "task_id", "platform", "max_iterations"),
        *("model", "provider", "base_url", "api_key", "api_mode", "stream_delta_callback", "reasoning_callback"),
        *("status_callback", "step_callback", "tool_progress_callback"),
    ),
    "GatewayRunner": (
        *("_agent_config_signature", "_extract_cache_busting_config", "_init_cached_agent_for_turn"),
        *("_cleanup_agent_resources", "_enforce_agent_cache_cap", "_evict_cached_agent"),
        *("_release_evicted_agent_soft", "_sweep_idle_cached_agents"),
    ),
    "PluginManager": (
        *("discover_and_load", "has_hook", "invoke_hook", "has_middleware", "invoke_middleware", "list_plugins"),
        *("find_plugin_skill", "list_plugin_skills"),
    ),
}


def write_page() -> str:
    parts = [INTRO.strip()]
    for name, fixed in FIXED.items():
        module = importlib.import_module(name)
        lines = [line for each in fixed for line in _describe(module, each)]
        rest = ", ".join(f"`{each}`" for each in sorted(find_own_names(module) - set(fixed)))
        parts += [f"## `{name}`", "\n".join(lines)]
        parts += [f"For Hermes itself, not fixed: {rest}."] if rest else []
    return "\n\n".join(parts) + "\n"


def find_own_names(module: ModuleType) -> set[str]:
    """Public functions and classes that are written there."""
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    return {name for name in own if not name.startswith("_") and callable(vars(module)[name])}


def find_members(owner: type) -> set[str]:
    """Public ones, but for those of Python's own classes."""
    ours = [base for base in owner.__mro__ if base.__module__ not in ("builtins", "abc", "typing")]
    return {name for base in ours for name in vars(base) if not name.startswith("_")}


def _describe(module: ModuleType, name: str) -> Iterator[str]:
    value = getattr(module, name)  # fails, by name, when it has gone
    if inspect.isclass(value):
        public = find_members(value)
        fixed = FIXED_MEMBERS.get(name, tuple(sorted(public)))
        yield f"- class `{name}{_write_parameters(value)}`"
        yield from (_describe_member(value, each) for each in fixed)
        yield from _describe_options(value)
        rest = ", ".join(f"`{each}`" for each in sorted(public - set(fixed)))
        yield from [f"  - not fixed: {rest}"] if rest else []
    elif inspect.isroutine(value):
        yield f"- `{name}{_write_parameters(value)}`"
    elif isinstance(value, set | frozenset):
        yield f"- `{name}`: {', '.join(f'`{each}`' for each in sorted(value))}"
    else:
        yield f"- `{name}`"


def _describe_member(owner: type, name: str) -> str:
    member = inspect.getattr_static(owner, name)
    called = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    if not inspect.isroutine(called):
        return f"  - `{name}`"
    return f"  - `{name}{_write_parameters(called)}`"


def _describe_options(owner: type) -> Iterator[str]:
    """What may be given by name to a class that takes `**options`."""
    made = vars(owner).get("__init__")
    for options in get_args(get_type_hints(made).get("options")) if inspect.isfunction(made) else ():
        yield f"  - options: {', '.join(f'`{name}`' for name in sorted(options.__annotations__))}"


def _write_parameters(called: object) -> str:
    """Names, what has a default, and how they may be given; types differ in how Pythons write them."""
    assert callable(called)
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return ""
    plain = [
        parameter.replace(annotation=parameter.empty, default=_Shown(parameter.default))
        if parameter.default is not parameter.empty
        else parameter.replace(annotation=parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    return str(inspect.Signature(plain))


class _Shown:
    """A default as it is written on the page."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __repr__(self) -> str:
        plain = self._value is None or isinstance(self._value, bool | int | float | str | tuple)
        return repr(self._value) if plain else "…"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
