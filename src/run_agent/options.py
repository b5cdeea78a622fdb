"""What an agent can be told when it is built. Every option may be left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, TypedDict

from agent.model_metadata import get_model_context_length
from agent.providers.runtime import Runtime
from agent.providers.table import PROVIDERS, provider_or_custom
from hermes_base.chat import Asker, Notice, TextEnded, ToolEnded, ToolStarted
from hermes_base.inbound import Inbound
from hermes_base.settings import Settings
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.hooks import Hooks
from hermes_base.turn.journal import Journal
from hermes_base.turn.messaging import Messenger
from hermes_base.turn.tool_context import FileSender, PostNotice, Searcher
from run_agent.events import Listeners


class AgentOptions(TypedDict, total=False):
    # which model answers; what is missing is found at the first call
    model: str
    provider: str
    base_url: str
    api_key: str  # left out: the provider's variable in the environment, looked up anew when it is needed
    key_env: str  # the name of another variable for it
    api_mode: str
    max_tokens: int | None
    context_length: int | None
    reasoning_config: Mapping[str, Any] | None
    fallback_model: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    # how it works
    max_iterations: int
    enabled_toolsets: Sequence[str] | None
    disabled_toolsets: Sequence[str] | None
    ephemeral_system_prompt: str
    skip_context_files: bool
    skip_memory: bool
    quiet_mode: bool
    folder: str  # the working folder; the process's own when left out
    settings: Mapping[str, Any]  # over the defaults; the home's settings when left out
    # whom it works for
    session_id: str
    platform: str
    gateway_session_key: str
    sender_id: str
    person: str  # whose the conversation is; left out: the owner's
    memory_scope: Mapping[str, str]  # what a memory provider is told of person and chat: user_id, chat_id, chat_type, …
    own_folder: str  # the person's own folder, with memory, lists and workspace; left out: the home itself
    notes: list[str]  # what the next user message tells the model, once; whoever gives it keeps it when the agent goes
    reset_from: Callable[[], str]  # the session that a person left for a new one, once; empty: none
    journal: Journal  # left out: nothing is written to disk
    hooks: Hooks  # left out: the plugins of this process
    asker: Asker
    post_notice: PostNotice
    search: Searcher
    send_file: FileSender
    messenger: Messenger | None
    # what is called while it works
    stream_delta_callback: Callable[[str], None] | None
    reasoning_callback: Callable[[str], None] | None
    text_end_callback: Callable[[TextEnded], None] | None
    tool_progress_callback: Callable[[ToolStarted | ToolEnded], None] | None
    step_callback: Callable[[int], None] | None
    status_callback: Callable[[Notice], None] | None


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """What a turn is run with, as it may change from one to the next; what is left out stays as the agent has it."""

    folder: str = ""
    sender: str = ""
    asker: Asker | None = None
    asked: Inbound | None = None  # what it answers: plugins read it as the session's environment
    settings: Settings | None = None
    fallbacks: Sequence[Mapping[str, Any]] | None = None
    max_iterations: int = 0
    foreign: tuple[str, ...] = ()  # origins of what comes along with the message and is not the sender's own words
    cancel: CancelToken | None = None  # what stops it, and may have done so already
    listeners: Listeners | None = None
    turn: str = ""  # its name; left out: one is made up
    zone: tzinfo | None = None  # of the person, for the date that the model is told; left out: the machine's own


def with_options(found: Runtime, options: AgentOptions) -> Runtime:
    """A runtime that was found, with what the caller said in so many words."""
    return replace(
        found,
        api_key=options.get("api_key") or found.api_key,
        api_mode=options.get("api_mode") or found.api_mode,
        max_tokens=options.get("max_tokens") or found.max_tokens,
        context_length=options.get("context_length") or found.context_length,
    )


def runtime_of_options(options: AgentOptions) -> Runtime:
    """What the options say of the model; an empty address means that it is found at the first call."""
    base_url = options.get("base_url") or ""
    provider = options.get("provider") or ("custom" if base_url else "")
    facts = provider_or_custom(provider)
    if provider in PROVIDERS and not base_url:
        base_url = facts.base_url
    model = options.get("model") or (facts.default_model if provider else "")
    return Runtime(
        provider=provider,
        model=model,
        base_url=base_url,
        api_key=options.get("api_key") or "",
        api_mode=options.get("api_mode") or facts.api_mode,
        context_length=get_model_context_length(model, config_context_length=options.get("context_length")),
        max_tokens=options.get("max_tokens"),
        source="named by the caller",
        key_env=options.get("key_env") or "",
    )
