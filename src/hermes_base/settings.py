"""The settings: one frozen class whose fields are the table of names, kinds, defaults and meanings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, TypeVar, get_args

from hermes_base.secret_files import SECRET_FILES

# When a changed setting is noticed.
AT_ONCE = "at once"
NEXT_MESSAGE = "with the next message"
NEW_CONVERSATION = "with the next new conversation (/new)"
NEXT_START = "when hermes starts again"

ApiMode = Literal["", "chat_completions", "anthropic_messages", "codex_responses"]
Progress = Literal["off", "short", "full"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LOG_LEVELS: tuple[str, ...] = get_args(LogLevel)
T = TypeVar("T")


def row(default: T, doc: str, takes_effect: str = NEXT_MESSAGE, **rules: Any) -> T:
    """A field of a section, and what people are told about it. Its type says which values it may have."""
    return field(default=default, metadata={"doc": doc, "takes_effect": takes_effect, **rules})


class Fallback(TypedDict, total=False):
    """An entry of `model.fallbacks`."""

    provider: str
    model: str
    base_url: str
    key_env: str
    api_mode: ApiMode
    context_length: int | None
    max_tokens: int | None


@dataclass(frozen=True, slots=True)
class ModelSettings:
    default: str = row("", "The model that answers; empty: the provider's own choice.", breaks_prefix=True)
    provider: str = row(
        "", "Who serves the model (openrouter, openai, ollama, …); empty: what is found.", breaks_prefix=True
    )
    base_url: str = row("", "Address of the model server; empty: the provider's own.", breaks_prefix=True)
    api_mode: ApiMode = row("", "Wire format; empty: the provider's own.", breaks_prefix=True)
    key_env: str = row(
        "", "Name of the variable that holds the API key; empty: the provider's own.", breaks_prefix=True
    )
    context_length: int | None = row(None, "The model's window in tokens; wins over what is known of it.", at_least=1)
    max_tokens: int | None = row(None, "Longest answer in tokens; null: the provider's limit.", at_least=1)
    cache_ttl: Literal["5m", "1h", ""] = row(
        "5m", "How long Claude keeps a prompt in its cache; an hour costs more to write. Empty: no caching."
    )
    fallbacks: tuple[Fallback, ...] = row(
        (),
        "Who answers when the model above fails, in order; each with provider, model, base_url, key_env, api_mode, "
        "context_length, max_tokens.",
    )


@dataclass(frozen=True, slots=True)
class AgentSettings:
    max_iterations: int = row(90, "Most model calls in one turn.", at_least=1)
    reasoning_effort: Literal["", "none", "minimal", "low", "medium", "high"] = row("", "How long the model thinks.")
    context_files: bool = row(
        True, "Put AGENTS.md and its cousins of the working folder into the prompt.", NEW_CONVERSATION
    )
    toolsets: tuple[str, ...] = row(("hermes-cli",), "Which groups of tools the model has.", NEW_CONVERSATION)


@dataclass(frozen=True, slots=True)
class ContextSettings:
    engine: str = row("compressor", "What keeps long conversations inside the window.", NEW_CONVERSATION)


@dataclass(frozen=True, slots=True)
class CompressionSettings:
    enabled: bool = row(True, "Summarise the older part of a long conversation.")
    threshold: float = row(0.5, "Share of the window at which a conversation is compacted.", at_least=0.01, at_most=1)
    target_ratio: float = row(0.2, "Share of that threshold which is kept word for word.", at_least=0.01, at_most=1)
    protect_first_n: int = row(3, "Messages at the start that are never summarised.", at_least=0)
    protect_last_n: int = row(20, "Messages at the end that are never summarised.", at_least=0)
    abort_on_summary_failure: bool = row(False, "Kept for other programs: a failed summary never drops anything here.")
    in_place: bool = row(True, "Keep the session id when a conversation is compacted.")


@dataclass(frozen=True, slots=True)
class MemorySettings:
    memory_enabled: bool = row(True, "Remember things from one conversation to the next.", NEW_CONVERSATION)
    provider: str = row(
        "",
        "Plugin that keeps the memory beside the notes; `hermes memory setup` chooses one. Empty: notes alone.",
        NEW_CONVERSATION,
    )


@dataclass(frozen=True, slots=True)
class PluginSettings:
    enabled: tuple[str, ...] = row((), "Plugins that may run.", NEXT_START)
    disabled: tuple[str, ...] = row((), "Plugins that never run, even when enabled above.", AT_ONCE)
    index: str = row("", "Where `hermes plugins search` looks: a folder of plugins, or a file that lists them.")
    entries: Mapping[str, Any] = field(default_factory=dict)  # what plugins own


@dataclass(frozen=True, slots=True)
class SkillSettings:
    disabled: tuple[str, ...] = row((), "Skills that the model neither finds nor reads.")
    platform_disabled: Mapping[str, Any] = field(default_factory=dict)  # platform -> further ones, for its chats


@dataclass(frozen=True, slots=True)
class TerminalSettings:
    timeout: int = row(120, "Seconds a command of the model may take.", at_least=1)
    backend: Literal["auto", "bubblewrap", "local"] = row(
        "auto",
        "Where commands run: in a sandbox (bubblewrap) or on the machine itself (local); auto: the sandbox if it can.",
    )
    network: bool = row(
        True, "Whether commands in the sandbox reach the network, through a proxy that judges every address."
    )
    env: tuple[str, ...] = row(
        (),
        "Variables of the environment Hermes was started in that commands get, too, beside those that programs need "
        "to be found and to speak. A command that runs unasked sees them.",
    )


@dataclass(frozen=True, slots=True)
class FileSettings:
    roots: tuple[str, ...] = row(
        (), "Folders beside the working folder that the file tools and commands may use unasked."
    )
    secrets: tuple[str, ...] = row(
        SECRET_FILES,
        "Names of files and folders that hold secrets: hidden from commands that look, and from those that run "
        "unasked with the network; asked for by the file tools. `!` in front makes an exception. What you set takes "
        "the place of the whole list.",
    )


@dataclass(frozen=True, slots=True)
class ApprovalSettings:
    mode: Literal["ask", "auto", "deny"] = row(
        "ask",
        "Commands of the model: ask runs what only reads and asks for the rest; auto also runs ordinary work in the "
        "folder; deny never asks.",
    )
    keys: tuple[str, ...] = row((), "Ids of the owner's API keys with which programs may answer questions.", AT_ONCE)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    busy: Literal["interrupt", "steer", "queue"] = row(
        "interrupt",
        "What a message does while an answer is under way: stop it and go on with both, go into it, or wait.",
    )
    silence_minutes: float = row(
        30.0,
        "A turn in which nothing moves for so long is stopped, after a warning. A running command, an open question "
        "and a working sub-agent count as movement.",
        at_least=0.01,
    )
    turn_minutes: float = row(0.0, "Longest time of one turn; 0: as long as it takes.", at_least=0)
    agents: int = row(128, "Most agents that are kept ready.", at_least=1)
    agent_idle_minutes: float = row(
        60.0, "An agent that nobody used for so long is let go; its conversation stays.", at_least=0.01
    )
    agent_megabytes: int = row(256, "Most memory for the agents that are kept ready.", at_least=1)
    tool_progress: Progress = row("short", "How much of the tools' work is shown in chats.")
    model_notices: bool = row(True, "Say when another model stands in for one that fails, and when that one is back.")


@dataclass(frozen=True, slots=True)
class PeopleSettings:
    shared: bool = row(
        True,
        "Several people use this Hermes: memory, search, past conversations, usage and files belong to each of them. "
        "False: everybody who may speak shares the owner's.",
        NEW_CONVERSATION,
    )
    members_approve: bool = row(
        False,
        "Members may approve the commands of their own turns; otherwise only the owner and admins approve.",
        AT_ONCE,
    )
    roots: tuple[str, ...] = row(
        (), "Folders that the file tools may use unasked for everybody, beside each person's own workspace."
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    enabled: bool = row(True, "Serve the web page and the API while the gateway runs.", NEXT_START)
    host: str = row(
        "127.0.0.1",
        "The address that the page and the API listen on. Any but this machine's own needs HERMES_WEB_PASSWORD.",
        NEXT_START,
    )
    port: int | None = row(
        None,
        "The port of the page and the API; null: 8642, or the next free one.",
        NEXT_START,
        at_least=0,
        at_most=65535,
    )
    names: tuple[str, ...] = row(
        (),
        "Host names under which the page may be reached, beside this machine's own (behind a proxy, for example).",
        NEXT_START,
    )
    upload_megabytes: int = row(50, "Largest file that is taken, from the page or a chat app.", AT_ONCE, at_least=1)
    page_megabytes: int = row(10, "Most of a web page that is fetched for the model.", at_least=1, at_most=100)
    page_seconds: float = row(30.0, "Seconds that fetching a web page may take.", at_least=0.1, at_most=600)
    backend: str = row("", "Which service searches and reads pages, where the next two name none.", NEW_CONVERSATION)
    search_backend: str = row("", "Which service web_search asks; empty: the first one set up.", NEW_CONVERSATION)
    extract_backend: str = row(
        "", "Which plugin reads pages for web_extract; empty: Hermes fetches them itself.", NEW_CONVERSATION
    )
    searxng_url: str = row("", "Address of a SearXNG; it has to allow answers in JSON.", NEW_CONVERSATION)
    brave_url: str = row("", "Address of a server in the place of Brave's search API.")
    tavily_url: str = row("", "Address of a server in the place of Tavily's search API.")
    exa_url: str = row("", "Address of a server in the place of Exa's search API.")
    serper_url: str = row("", "Address of a server in the place of Serper's search API.")
    firecrawl_url: str = row("", "Address of a server in the place of Firecrawl's API, such as one of your own.")


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    private: tuple[str, ...] = row(
        (),
        "Hosts, addresses and ranges (nas.lan, 192.168.1.5, 10.0.0.0/8) that may be called although they are private, "
        "where others may have chosen the address. What a cloud tells its machines about themselves is never called.",
        NEXT_START,
    )


@dataclass(frozen=True, slots=True)
class BrowserSettings:
    enabled: bool = row(True, "Offer the model a browser, where all that it needs is installed.", NEW_CONVERSATION)
    program: str = row("", "Path of the Chromium or Chrome to start; empty: the one that is found.", NEW_CONVERSATION)
    cloud_provider: str = row("", "The plugin that lends the browser, one for each task.", NEW_CONVERSATION)
    cdp_url: str = row("", "DevTools address of a browser on this machine to use in its place.", NEW_CONVERSATION)
    timeout: int = row(30, "Seconds that a page or an action in the browser may take.", at_least=1, at_most=300)
    idle_minutes: float = row(30.0, "Tabs that nobody used for so long are closed.", NEXT_START, at_least=0.01)


@dataclass(frozen=True, slots=True)
class ToolSettings:
    direct_bytes: int = row(
        10_240,
        "Most bytes of the descriptions of tools that MCP servers and plugins bring. If they are more, the model looks "
        "them up (find_tools) and calls them by name (use_tool), and its prompt stays small.",
        NEW_CONVERSATION,
        at_least=0,
    )


@dataclass(frozen=True, slots=True)
class StoreSettings:
    url: str = row(
        "",
        "A PostgreSQL database that several gateways share (`postgresql://USER@HOST/NAME`); its password is the "
        "variable `HERMES_STORE_PASSWORD`. Empty: a file in the home, for one gateway.",
        NEXT_START,
    )


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    queue_days: float = row(
        30.0,
        "Delivered messages, answered questions and files that were handed over are kept so long; the conversations "
        "themselves stay. 0: for ever.",
        AT_ONCE,
        at_least=0,
    )
    session_days: float = row(
        0.0,
        "Conversations that nobody touched for so long are deleted; their cost stays in the ledger. 0: never.",
        AT_ONCE,
        at_least=0,
    )


@dataclass(frozen=True, slots=True)
class DisplaySettings:
    markdown: bool = row(True, "Render markdown in the terminal.", NEXT_START)
    tool_progress: Progress = row("short", "How much of the tools' work is shown.", NEXT_START)
    reasoning: bool = row(False, "Show the model's reasoning.", NEXT_START)


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: LogLevel = row(
        "warning",
        "How much of the log goes to the terminal; the gateway's file holds `info` and above, with `debug` everything.",
        AT_ONCE,
    )
    megabytes: int = row(10, "Size at which the gateway's log begins a new file.", NEXT_START, at_least=1)
    files: int = row(5, "How many old log files are kept.", NEXT_START, at_least=1)


@dataclass(frozen=True, slots=True)
class TitleSettings:
    enabled: bool = row(
        True,
        "Have the model name new conversations: one short call each. Otherwise the first words are the name.",
        AT_ONCE,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    model: ModelSettings = ModelSettings()
    agent: AgentSettings = AgentSettings()
    context: ContextSettings = ContextSettings()
    compression: CompressionSettings = CompressionSettings()
    memory: MemorySettings = MemorySettings()
    plugins: PluginSettings = PluginSettings()
    skills: SkillSettings = SkillSettings()
    terminal: TerminalSettings = TerminalSettings()
    files: FileSettings = FileSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    gateway: GatewaySettings = GatewaySettings()
    people: PeopleSettings = PeopleSettings()
    web: WebSettings = WebSettings()
    network: NetworkSettings = NetworkSettings()
    browser: BrowserSettings = BrowserSettings()
    tools: ToolSettings = ToolSettings()
    store: StoreSettings = StoreSettings()
    retention: RetentionSettings = RetentionSettings()
    display: DisplaySettings = DisplaySettings()
    log: LogSettings = LogSettings()
    titles: TitleSettings = TitleSettings()
    # What others own may hold anything; nobody here changes it.
    auxiliary: Mapping[str, Any] = field(default_factory=dict)
    platforms: Mapping[str, Any] = field(default_factory=dict)
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)
    foreign: Mapping[str, Any] = field(default_factory=dict)  # dotted key -> value, of all that no setting is about
