"""Every name that published plugins import from the host is there, with the parameters that they give."""

import importlib
import inspect
import re
from typing import Any

import pytest

_RESPONSE = "error, error_type, provider, model, prompt, aspect_ratio"
_SOURCE = (
    "chat_id, chat_name, chat_type, user_id, user_name, thread_id, chat_topic, user_id_alt, chat_id_alt, is_bot, "
    "scope_id, guild_id, parent_chat_id, message_id, role_authorized"
)
_REGISTRY = ("register_provider", "list_providers()", "get_provider(name)")

#: Module -> names; a callable with the parameters that plugins give at this place or by this name;
#: `_` is a place whose name nobody uses, and what follows `*` is given by name alone.
NAMES: dict[str, tuple[str, ...]] = {
    "agent": (),
    "agent.context_engine": ("ContextEngine", "sanitize_memory_context(text)", "MEMORY_CONTEXT_MAX_CHARS"),
    "agent.context_compressor": (
        "ContextCompressor(model, threshold_percent, protect_first_n, protect_last_n, summary_target_ratio, "
        "quiet_mode, summary_model_override, base_url, api_key, config_context_length, provider, api_mode, "
        "abort_on_summary_failure, max_tokens)",
    ),
    "agent.memory_provider": (
        *("MemoryProvider", "MemoryProvider.initialize(session_id)", "MemoryProvider.is_available()"),
        *("MemoryProvider.prefetch(query, *, session_id)", "MemoryProvider.queue_prefetch(query, *, session_id)"),
        "MemoryProvider.sync_turn(user_content, assistant_content, *, session_id, messages)",
        "MemoryProvider.on_memory_write(action, target, content, metadata)",
    ),
    "agent.memory_manager": (
        *("MemoryManager(*, external_prefetch_timeout)", "MemoryManager.add_provider(provider)"),
        *("MemoryManager.prefetch_all(query, *, session_id)", "MemoryManager.handle_tool_call(tool_name, args)"),
        *("MemoryManager.flush_pending(timeout)", "MemoryManager.shutdown_all()", "MemoryManager.initialize_all"),
        *("normalize_tool_schema", "sanitize_context", "build_memory_context_block"),
    ),
    "agent.auxiliary_client": (
        "call_llm(task, *, provider, model, base_url, api_key, main_runtime, messages, temperature, max_tokens, tools, "
        "timeout, extra_body, reasoning_config, api_mode, stream, stream_options)",
        *("async_call_llm(task)", "extract_content_or_reasoning(response)", "get_text_auxiliary_client(task)"),
    ),
    "agent.model_metadata": (
        "get_model_context_length(model, base_url, api_key, config_context_length, provider, custom_providers)",
        *("estimate_tokens_rough", "estimate_messages_tokens_rough", "estimate_request_tokens_rough"),
        *("MINIMUM_CONTEXT_LENGTH", "DEFAULT_FALLBACK_CONTEXT"),
    ),
    "agent.plugin_llm": (
        *("PluginLlm", "PluginLlmTrustError", "PluginLlmTextInput(text)"),
        "PluginLlmImageInput(*, data, url, mime_type, file_name)",
    ),
    "agent.secret_scope": ("get_secret(name, default)", "UnscopedSecretError"),
    "agent.image_gen_provider": (
        *("ImageGenProvider", "ImageGenProvider.generate(prompt, aspect_ratio, *, image_url, reference_image_urls)"),
        *("ImageGenProvider.capabilities()", "DEFAULT_ASPECT_RATIO", "VALID_ASPECT_RATIOS", "resolve_aspect_ratio"),
        "success_response(*, image, model, prompt, aspect_ratio, provider, modality, extra)",
        *(f"error_response(*, {_RESPONSE})", "save_b64_image(_, *, prefix, extension)"),
        "save_url_image(url, *, prefix, timeout, max_bytes)",
    ),
    "agent.video_gen_provider": (
        "VideoGenProvider.generate(prompt, *, model, image_url, reference_image_urls, duration, aspect_ratio, "
        "resolution, negative_prompt, audio, seed)",
        *("DEFAULT_ASPECT_RATIO", f"error_response(*, {_RESPONSE})", "save_b64_video"),
        "success_response(*, video, model, prompt, modality, aspect_ratio, duration, provider, extra)",
        "save_bytes_video(raw, *, prefix, extension)",
    ),
    "agent.tts_provider": (
        "TTSProvider.synthesize(text, output_path, *, voice, model, speed, format)",
        *("TTSProvider.list_voices()", "TTSProvider.default_voice()", "TTSProvider.stream"),
        *("DEFAULT_OUTPUT_FORMAT", "VALID_OUTPUT_FORMATS", "resolve_output_format"),
    ),
    "agent.transcription_provider": ("TranscriptionProvider.transcribe(file_path, *, model, language)",),
    "agent.web_search_provider": (
        *("WebSearchProvider.supports_search()", "WebSearchProvider.supports_extract()"),
        *("WebSearchProvider.search(query, limit)", "WebSearchProvider.extract(urls)", "get_provider_env(name)"),
    ),
    "agent.browser_provider": (
        *("BrowserProvider.create_session(task_id)", "BrowserProvider.close_session(session_id)"),
        *("BrowserProvider.emergency_cleanup", "BrowserProvider.is_configured()", "BrowserProvider.provider_name()"),
    ),
    **{
        f"agent.{kind}_registry": _REGISTRY
        for kind in ("image_gen", "video_gen", "tts", "transcription", "web_search", "browser")
    },
    "agent.redact": ("redact_sensitive_text(text, *, force)",),
    "agent.display": ("get_tool_emoji(tool_name, default)",),
    "agent.title_generator": ("generate_title(user, assistant, timeout)",),
    "agent.skill_utils": ("get_external_skills_dirs()", "iter_skill_index_files(skills_dir, filename)"),
    "cron": (),
    "cron.jobs": (
        "create_job(prompt, schedule, name, repeat, deliver, origin, skill, skills, model, provider, base_url, script, "
        "context_from, enabled_toolsets, workdir, no_agent, attach_to_session)",
        *("get_job(job_id)", "update_job(job_id, updates)", "pause_job(job_id, reason)", "resume_job(job_id)"),
        *("trigger_job(job_id)", "list_jobs(include_disabled)", "load_jobs()", "remove_job(job_id)"),
        *("parse_schedule(schedule)", "OUTPUT_DIR"),
    ),
    "gateway.config": (
        *("Platform", "load_gateway_config()", "HomeChannel(platform, chat_id, name, thread_id)"),
        "PlatformConfig(enabled, token, api_key, home_channel, reply_to_mode, gateway_restart_notification, "
        "typing_indicator, typing_status_text, channel_overrides, extra)",
        *("PlatformConfig.to_dict()", "PlatformConfig.from_dict(data)"),
        "GatewayConfig(*, platforms, group_sessions_per_user, thread_sessions_per_user)",
        *("GatewayConfig.get_connected_platforms()", "GatewayConfig.get_home_channel(platform)"),
        "GatewayConfig.get_unauthorized_dm_behavior(platform)",
    ),
    "gateway.session": (
        f"SessionSource(platform, {_SOURCE}, profile, auto_thread_created, auto_thread_initial_name, "
        "delivered_via_upstream_relay)",
        *("SessionSource.to_dict()", "SessionSource.from_dict(data)"),
        "build_session_key(source, group_sessions_per_user, thread_sessions_per_user, profile)",
        *("SessionStore.get_or_create_session(source, force_new)", "SessionStore.load_transcript(session_id)"),
        "SessionStore.append_to_transcript(session_id, message, skip_db)",
        "SessionStore.update_session(session_key, last_prompt_tokens)",
        *("SessionStore.peek_session_id(_)", "SessionStore.lookup_by_session_id(session_id)"),
        *("SessionStore._ensure_loaded()", "canonical_whatsapp_identifier(_)"),
    ),
    "gateway.session_context": ("get_session_env(name, default)",),
    "gateway.whatsapp_identity": ("canonical_whatsapp_identifier(_)", "expand_whatsapp_aliases(_)"),
    "gateway.platform_registry": (
        "PlatformEntry(name, label, adapter_factory, check_fn, validate_config, is_connected, required_env, "
        "install_hint, setup_fn, source, plugin_name, allowed_users_env, allow_all_env, max_message_length, pii_safe, "
        "emoji, allow_update_command, platform_hint, env_enablement_fn, apply_yaml_config_fn, cron_deliver_env_var, "
        "standalone_sender_fn)",
        *("platform_registry", "platform_registry.register(entry)", "platform_registry.unregister(name)"),
        *("platform_registry.get(name)", "platform_registry.all_entries()", "platform_registry.plugin_entries()"),
        *("platform_registry.is_registered(name)", "platform_registry.create_adapter(name, config)"),
    ),
    "gateway.platforms.base": (
        *("MessageType", "ProcessingOutcome", "EphemeralReply(text, ttl_seconds)"),
        "MessageEvent(text, message_type, source, raw_message, message_id, platform_update_id, media_urls, "
        "media_types, reply_to_message_id, reply_to_text, reply_to_author_id, reply_to_author_name, "
        "reply_to_is_own_message, auto_skill, channel_prompt, channel_context, internal, metadata, timestamp)",
        *("MessageEvent.is_command()", "MessageEvent.get_command()", "MessageEvent.get_command_args()"),
        "SendResult(success, message_id, error, raw_response, retryable, retry_after, continuation_message_ids, "
        "error_kind)",
        *(
            "cache_image_from_bytes(data, ext)",
            "cache_audio_from_bytes(data, ext)",
            "cache_video_from_bytes(data, ext)",
        ),
        *("cache_document_from_bytes(data, filename)", "cache_image_from_url(url, ext, retries)"),
        *("cache_audio_from_url(url, ext, retries)", "utf16_len(text)", "resolve_proxy_url(_, *, target_hosts)"),
        "cache_media_bytes(data, *, filename, mime_type, default_kind)",
        "merge_pending_message_event(pending, key, event, *, merge_text)",
        "resolve_channel_prompt(extra, channel_id, parent_id)",
        "_thread_metadata_for_source(source, reply_to_message_id)",
        *("BasePlatformAdapter(config, platform)", "BasePlatformAdapter.connect(*, is_reconnect)"),
        *("BasePlatformAdapter.disconnect()", "BasePlatformAdapter.send(chat_id, content, reply_to, metadata)"),
        "BasePlatformAdapter.edit_message(chat_id, message_id, content, *, finalize)",
        *("BasePlatformAdapter.get_chat_info(chat_id)", "BasePlatformAdapter.delete_message(chat_id, message_id)"),
        *("BasePlatformAdapter.send_typing(chat_id, metadata)", "BasePlatformAdapter.stop_typing(chat_id)"),
        *(
            f"BasePlatformAdapter.send_{kind}(chat_id, {what}, caption, reply_to, metadata)"
            for kind, what in (
                *(("image", "image_url"), ("animation", "animation_url"), ("image_file", "image_path")),
                *(("voice", "audio_path"), ("video", "video_path")),
            )
        ),
        "BasePlatformAdapter.send_document(chat_id, file_path, caption, file_name, reply_to, metadata)",
        "BasePlatformAdapter.send_multiple_images(chat_id, images, metadata, human_delay)",
        "BasePlatformAdapter.send_private_notice(chat_id, user_id, content, reply_to, metadata)",
        "BasePlatformAdapter.send_clarify(chat_id, question, choices, clarify_id, session_key, metadata)",
        "BasePlatformAdapter.send_slash_confirm(chat_id, title, message, session_key, confirm_id, metadata)",
        "BasePlatformAdapter.send_draft(chat_id, draft_id, content, metadata)",
        *("BasePlatformAdapter.play_tts(chat_id, audio_path)", "BasePlatformAdapter.format_message(content)"),
        *("BasePlatformAdapter.format_tool_event(event, *, mode, preview_max_len)", "BasePlatformAdapter.name"),
        *("BasePlatformAdapter.on_processing_start(event)", "BasePlatformAdapter.handle_message(event)"),
        *("BasePlatformAdapter.on_processing_complete(event, outcome)", "BasePlatformAdapter.is_connected"),
        f"BasePlatformAdapter.build_source({_SOURCE})",
        *("BasePlatformAdapter._mark_connected()", "BasePlatformAdapter._mark_disconnected()"),
        *("BasePlatformAdapter._set_fatal_error(code, message, *, retryable)", "BasePlatformAdapter.has_fatal_error"),
        "BasePlatformAdapter._acquire_platform_lock(scope, identity, resource_desc)",
        "BasePlatformAdapter.cancel_session_processing(session_key, *, release_guard, discard_pending)",
        "BasePlatformAdapter.register_post_delivery_callback(session_key, callback, *, generation)",
        "BasePlatformAdapter._send_with_retry(chat_id, content, reply_to, metadata, max_retries, base_delay)",
        *("BasePlatformAdapter.truncate_message(content, max_length, len_fn)", "BasePlatformAdapter.extract_media"),
        *("BasePlatformAdapter.extract_images(_)", "BasePlatformAdapter.extract_local_files(_)"),
        "BasePlatformAdapter.validate_media_delivery_path(path)",
        *("BasePlatformAdapter._notify_fatal_error()", "BasePlatformAdapter._release_platform_lock()"),
        *("BasePlatformAdapter.cancel_background_tasks()", "BasePlatformAdapter.pause_typing_for_chat(chat_id)"),
        *("BasePlatformAdapter.resume_typing_for_chat(chat_id)", "BasePlatformAdapter.has_pending_interrupt(_)"),
        *("BasePlatformAdapter.get_pending_message(_)", "BasePlatformAdapter.enforces_own_access_policy"),
        *(
            f"BasePlatformAdapter.{name}(_)"
            for name in (
                *("set_message_handler", "set_fatal_error_handler", "set_session_store", "set_busy_session_handler"),
                *("set_topic_recovery_fn", "set_authorization_check"),
            )
        ),
    ),
    "gateway.platforms.helpers": (
        *("MessageDeduplicator(max_size, ttl_seconds)", "MessageDeduplicator.is_duplicate(message_id)"),
        *("MessageDeduplicator.contains(_)", "MessageDeduplicator.discard(_)", "MessageDeduplicator.clear()"),
    ),
    "gateway.run": ("_gateway_runner_ref()",),
    "gateway.slash_access": (
        *("SlashAccessPolicy(enabled, admin_user_ids, user_allowed_commands)", "policy_from_extra(extra, scope)"),
        *("SlashAccessPolicy.is_admin(user_id)", "SlashAccessPolicy.can_run(user_id, command)"),
    ),
    "gateway.status": ("acquire_scoped_lock(scope, identity, metadata)", "release_scoped_lock(scope, identity)"),
    "hermes_cli": ("__version__",),
    "hermes_cli.commands": (
        *("resolve_command(name)", "COMMAND_REGISTRY", "ACTIVE_SESSION_BYPASS_COMMANDS"),
        "CommandDef(name, description, category, aliases, args_hint, subcommands, cli_only, gateway_only, "
        "gateway_config_gate)",
        "is_gateway_known_command(name)",
    ),
    "hermes_cli.config": (
        *("load_config()", "cfg_get(cfg, *, default)", "get_hermes_home()", "load_config_readonly()"),
        *("get_config_path()", "save_env_value(key, value)", "get_env_value(key)", "save_env_value_secure(key, value)"),
        *("remove_env_value(key)", "load_env()", "set_config_value(key, value, force)", "read_raw_config()"),
        "write_platform_config_field(platform, field, value, *, raw)",
        "save_config(cfg, *, strip_defaults, preserve_keys, merge_existing)",
        *("DEFAULT_CONFIG", "OPTIONAL_ENV_VARS"),
    ),
    "hermes_cli.logs": ("LOG_FILES", "_read_tail(path, num_lines)"),
    "hermes_cli.middleware": (),
    "hermes_cli.plugins": (
        *("PluginContext(manifest, manager)", "PluginManager()", "LoadedPlugin", "VALID_HOOKS", "ENTRY_POINTS_GROUP"),
        "PluginManifest(*, name, version, description, author, requires_env, provides_tools, provides_hooks, source, "
        "path, kind, key)",
        *("PluginToolOverrideError", "get_plugin_manager()", "discover_plugins", "invoke_hook", "has_hook"),
        *("invoke_middleware", "has_middleware", "resolve_pre_tool_block", "get_pre_tool_call_directive"),
        *("get_pre_tool_call_block_message", "get_pre_verify_continue_message", "get_plugin_context_engine"),
        *("get_plugin_commands", "get_plugin_command_handler", "resolve_plugin_command_result"),
        *("get_plugin_auxiliary_tasks", "get_plugin_toolsets", "set_thread_tool_whitelist"),
        "clear_thread_tool_whitelist",
        *("PluginContext.register_cli_command(name, help, setup_fn, handler_fn, description)", "PluginContext.llm"),
        *("PluginContext.register_skill(name, path, description)", "PluginContext.dispatch_tool(tool_name, args)"),
        "PluginContext.register_platform(name, label, adapter_factory, check_fn, validate_config, required_env, "
        "install_hint)",
        "PluginContext.register_tool(name, toolset, schema, handler, check_fn, requires_env, is_async, description, "
        "emoji, override)",
        *("PluginContext.register_command(name, handler, description, args_hint)", "PluginContext.profile_name"),
        *("PluginContext.register_hook(hook_name, callback)", "PluginContext.register_middleware(kind, callback)"),
        "PluginContext.register_auxiliary_task(key, *, display_name, description, defaults)",
        *("PluginContext.inject_message(content, role)", "PluginContext.get_config(key, default)"),
        *("PluginContext.register_context_engine(engine)", "PluginContext.register_memory_provider(provider)"),
        *(
            f"PluginContext.register_{kind}(_)"
            for kind in (
                *("image_gen_provider", "video_gen_provider", "web_search_provider", "browser_provider"),
                *("tts_provider", "transcription_provider", "dashboard_auth_provider", "secret_source"),
            )
        ),
        "PluginContext.register_slack_action_handler(action_id, callback)",
    ),
    "hermes_cli.profiles": ("get_active_profile_name()",),
    "hermes_cli.runtime_provider": ("resolve_runtime_provider(*, requested)",),
    "hermes_cli.setup": (
        *("print_header(title)", "print_info(text)", "print_success(text)", "print_warning(text)", "print_error(text)"),
        *("prompt(question, default, password)", "prompt_yes_no(question, default)"),
        *("prompt_choice(question, choices, default, description)", "get_env_value(key)", "save_env_value(key, value)"),
    ),
    "hermes_cli.skills_config": (
        *("get_disabled_skills(config, platform)", "save_disabled_skills(config, disabled, platform)"),
    ),
    "hermes_constants": ("get_hermes_home()", "display_hermes_home()", "get_hermes_dir(new_subpath, old_name)"),
    "hermes_state": (
        *("DEFAULT_DB_PATH", "SessionDB(db_path, read_only)", "SessionDB.close()", "SessionDB.get_session(_)"),
        *("SessionDB.create_session(_, source)", "SessionDB.ensure_session(_, source, model)"),
        *("SessionDB.resolve_session_id(_)", "SessionDB.get_messages(_, include_inactive, limit, offset)"),
        "SessionDB.append_message(session_id, role, content, tool_name, tool_calls, tool_call_id, token_count, "
        "finish_reason)",
        *("SessionDB.get_session_title(_)", "SessionDB.set_session_title(_, title)"),
        "SessionDB.list_sessions_rich(source, exclude_sources, cwd_prefix, limit, offset, include_children, "
        "min_message_count)",
        *("SessionDB.session_count(source)", "SessionDB.delete_session(_, sessions_dir)"),
    ),
    "model_tools": (
        "_run_async",
        "handle_function_call(function_name, function_args, task_id, tool_call_id, session_id, turn_id, "
        "api_request_id, user_task, enabled_tools, skip_pre_tool_call_hook)",
    ),
    "plugins": (),
    "plugins.context_engine": ("discover_context_engines()", "load_context_engine(name)"),
    "plugins.memory": (
        *("discover_memory_providers()", "load_memory_provider(name)", "find_provider_dir(name)"),
        *("list_memory_provider_names()", "discover_plugin_cli_commands()"),
    ),
    "run_agent": ("AIAgent",),
    "tools.approval": (
        *("resolve_gateway_approval(session_key, choice, resolve_all, reason)", "_gateway_queues"),
        *("get_current_session_key(default)", "_get_approval_mode()"),
        "request_tool_approval(tool_name, reason, *, rule_key, approval_callback)",
        "check_dangerous_command(command, env_type, approval_callback, has_host_access)",
    ),
    "tools.clarify_gateway": (
        *("resolve_gateway_clarify(clarify_id, response)", "mark_awaiting_text(clarify_id)"),
        *("register(clarify_id, session_key, question, choices)", "wait_for_response(clarify_id, timeout)"),
        *("get_pending_for_session(_, *, include_choice_prompts)", "clear_session(_)", "get_clarify_timeout()"),
    ),
    "tools.env_passthrough": ("register_env_passthrough(names)", "get_all_passthrough()"),
    "tools.interrupt": ("is_interrupted()",),
    "tools.memory_tool": ("ENTRY_DELIMITER", "get_memory_dir()"),
    "tools.path_security": ("validate_within_dir(path, root)",),
    "tools.registry": (
        *("ToolRegistry", "tool_error(message)", "tool_result(data)", "registry", "registry.deregister(name)"),
        "registry.register(name, toolset, schema, handler, check_fn, requires_env, is_async, description, emoji, "
        "max_result_size_chars, dynamic_schema_overrides, override)",
        *("registry.get_entry(name)", "registry.get_definitions(names, quiet)", "registry.dispatch(name, args)"),
    ),
    "tools.send_message_tool": ("send_message_tool(args)",),
    "tools.skill_usage": ("load_usage()",),
    "tools.skills_tool": (
        *("_parse_frontmatter(text)", "SKILLS_DIR", "_find_all_skills(*, skip_disabled)"),
        *("skill_matches_platform(frontmatter)", "_get_required_environment_variables(frontmatter, legacy)"),
        "set_secret_capture_callback(callback)",
    ),
    "tools.slash_confirm": (
        *("register(session_key, confirm_id, command, handler)", "get_pending(_)", "clear(_)"),
        "resolve(session_key, confirm_id, choice, timeout)",
    ),
    "tools.url_safety": ("is_safe_url(url)",),
}


@pytest.mark.parametrize("module", NAMES)
def test_it_is_there(module):
    found = importlib.import_module(module)
    faults = [fault for name in NAMES[module] for fault in find_faults(found, name)]
    assert not faults, f"{module}: {'; '.join(faults)}"


def find_faults(module: Any, written: str) -> list[str]:
    """What is not there of `name`, `Class.name` or `name(place, place, *, by_name)`."""
    path, bracket, inside = written.partition("(")
    owner, found = None, module
    for part in path.split("."):
        try:
            owner, found = found, getattr(found, part)
        except AttributeError:
            return [f"{path} is missing"]
    if not bracket:
        return []
    signature = inspect.signature(found)
    places, by_name = ([word for word in re.split(r"[ ,)]+", part) if word] for part in (inside + "*").split("*")[:2])
    own = [None] if inspect.isclass(owner) and "self" in signature.parameters else []
    named = [name for name in (*places, *by_name) if name != "_"]
    try:
        signature.bind_partial(*own, *places, **dict.fromkeys(by_name))
        signature.bind_partial(**dict.fromkeys(named))
    except TypeError as problem:
        return [f"{path}: {problem}"]
    return []
