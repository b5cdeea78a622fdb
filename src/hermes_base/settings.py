"""The settings: one frozen class that is the table of names, kinds, defaults and meanings, and pure functions that say
what is wrong with a mapping and read it into that class."""

import copy
import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypedDict, TypeVar, get_args, get_origin, get_type_hints

from hermes_base.errors import ConfigProblem
from hermes_base.secret_files import SECRET_FILES, names_secret
from hermes_base.setting_values import ValueKind, holds, is_number, read_bool, read_list, read_number

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
    """A field of a section, and what people are told about it (`Setting`). Its type says which values it may have."""
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
    in_place: bool = row(False, "Keep the session id when a conversation is compacted.")


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


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as people see it. A kind that ends in `?` also takes null."""

    key: str
    kind: str
    default: Any
    doc: str
    takes_effect: str
    choices: tuple[str, ...] = ()
    breaks_prefix: bool = False  # a change makes a running conversation send its prompt anew, at full price
    at_least: float = -math.inf
    at_most: float = math.inf


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the settings that is not as it should be; an unknown key is a warning, anything else an error."""

    key: str
    what: str
    fix: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.what} {self.fix}"


# --- kinds of values

_WHOLE = partial(is_number, types=int)
_KINDS: Mapping[Any, ValueKind] = {
    str: ValueKind("str", "text", lambda value: isinstance(value, str), str),
    bool: ValueKind("bool", "true or false", lambda value: isinstance(value, bool), read_bool),
    int: ValueKind("int", "a whole number", _WHOLE, read_number),
    float: ValueKind("float", "a number", is_number, read_number),
    int | None: ValueKind("int?", "a whole number or null", _WHOLE, read_number),
    tuple[str, ...]: ValueKind("list[str]", "a list of names", holds(str), read_list),
    tuple[Fallback, ...]: ValueKind("list[dict]", "a list of entries", holds(dict), read_list),
}
_BY_NAME = {kind.name: kind for kind in _KINDS.values()}


# --- the table


def _make_row(key: str, hint: Any, default: Any, **facts: Any) -> Setting:
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    shown = list(default) if isinstance(default, tuple) else default
    return Setting(key, "str" if choices else _KINDS[hint].name, shown, choices=choices, **facts)


_SECTIONS: Mapping[str, Any] = {each.name: each.type for each in fields(Settings) if is_dataclass(each.type)}
SETTINGS: tuple[Setting, ...] = tuple(
    _make_row(f"{section}.{each.name}", each.type, each.default, **each.metadata)
    for section, kind in _SECTIONS.items()
    for each in fields(kind)
    if each.metadata
)
_BY_KEY: Mapping[str, Setting] = MappingProxyType({row.key: row for row in SETTINGS})
#: What stands in an entry of a `list[dict]`.
_ENTRY = {name: _make_row(name, hint, None, doc="", takes_effect="") for name, hint in get_type_hints(Fallback).items()}

#: Where plugins and providers own the keys: what matches may hold anything. `*` stands for one name.
OPEN_SECTIONS: tuple[str, ...] = (
    *(
        "plugins.entries.*",
        "skills.platform_disabled.*",
        "memory.*.*",
        "auxiliary.*",
        "providers.*",
        "platforms.*",
        "mcp_servers.*",
    ),
)
_OPEN_PARENTS = frozenset(section[:-2] for section in OPEN_SECTIONS if section.count("*") == 1)
#: What platforms and their chats may set of what holds for all.
_OF_CHATS = {
    "model": NEXT_MESSAGE,
    "provider": NEXT_MESSAGE,
    "instructions": NEW_CONVERSATION,
    "toolsets": NEW_CONVERSATION,
}
_NULL_WORDS = frozenset({"null", "none", "~", ""})


def defaults() -> dict[str, Any]:
    """All defaults as a fresh nested dict."""
    tree: dict[str, Any] = {}
    for row in SETTINGS:
        section, name = row.key.split(".")
        tree.setdefault(section, {})[name] = copy.deepcopy(row.default)
    return tree


def find(key: str) -> Setting | None:
    return _BY_KEY.get(key)


def section_keys(section: str) -> list[str]:
    """The settings of a section, in the order of the table."""
    return [key for key in _BY_KEY if key.startswith(section + ".")]


def suggest(key: str) -> str:
    """What to do about a key that nobody knows: the setting that was probably meant, if one is close."""
    names = {row.key.rpartition(".")[2]: row.key for row in reversed(SETTINGS)}
    whole = difflib.get_close_matches(key.lower(), _BY_KEY, n=1, cutoff=0.6)
    last = difflib.get_close_matches(key.lower().rpartition(".")[2], names, n=1, cutoff=0.8)
    near = whole[0] if whole else names[last[0]] if last else ""
    return f"Did you mean {near}?" if near else "`hermes config list` shows all settings."


def is_open(key: str) -> bool:
    """Whether a plugin or a provider owns this key."""
    patterns = (pattern.replace(".", r"\.").replace("*", "[^.]*") for pattern in OPEN_SECTIONS)
    return key not in _BY_KEY and any(re.match(rf"{pattern}(\.|$)", key) for pattern in patterns)


def when_owned(key: str) -> str:
    """When a change of a key takes effect that no row of the table is about."""
    if key.startswith("platforms."):
        return _OF_CHATS.get(key.rpartition(".")[2], AT_ONCE)
    if key.startswith("mcp_servers."):
        return NEW_CONVERSATION
    return "when its owner reads it"


def is_secret(key: str) -> bool:
    """Whether the value must not be shown: named like a key where others own it. No setting of ours is a secret."""
    return key not in _BY_KEY and names_secret(key)


def walk(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value inside sections and lists, with its dotted key."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from walk(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from walk(inner, f"{key}[{number}]")
    else:
        yield key, value


# --- reading


def read_settings(config: Mapping[Any, Any]) -> Settings:
    """The settings that a mapping holds over the defaults; what is wrong first is a ConfigProblem."""
    for problem in check(config):
        if not problem.warning:
            raise ConfigProblem(problem.what, fix=problem.fix)
    return make_settings(config)


def make_settings(config: Mapping[Any, Any]) -> Settings:
    """The same of a mapping that was checked; null, and what is left out, stand for the default."""
    given = _pick(config, Settings)
    for name in given.keys() & _SECTIONS:
        given[name] = _SECTIONS[name](**_pick(given[name], _SECTIONS[name]))
    known = tuple(_BY_KEY)
    foreign = {key: value for key, value in walk(config) if value is not None and not key.startswith(known)}
    return Settings(**given | {"foreign": foreign})


def _pick(given: Mapping[Any, Any], kind: Any) -> dict[str, Any]:
    """What is given for the fields of a class; lists become tuples, which nobody changes."""
    found = ((name, value) for name, value in given.items() if value is not None and name in kind.__dataclass_fields__)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found}


# --- checking


def check(config: Mapping[Any, Any], path: str = "") -> Iterator[Problem]:
    """Everything that is wrong with a config: errors for values, warnings for keys that nobody here knows."""
    for name, value in config.items():
        key = f"{path}{name}"
        row = find(key)
        if row is not None:
            yield from check_value(row, value)
        elif key in _SECTIONS or key in _OPEN_PARENTS:
            if isinstance(value, Mapping):
                yield from check(value, key + ".")
            elif value is not None:  # a section whose lines are all commented out reads as null
                example = f" such as {section_keys(key)[0]}" if key in _SECTIONS else ""
                what = f"{key} holds {_show(value)}, but it is a section."
                yield Problem(key, what, f"Put settings{example} under it.")
        # `memory.<provider>` is a plugin's when it holds a section; as a plain value it is a misspelt setting.
        elif not is_open(key) and not (isinstance(value, Mapping) and is_open(f"{key}.any")):
            yield Problem(key, f"{key} is not a known setting; it is kept and ignored.", suggest(key), warning=True)


def check_value(row: Setting, value: Any) -> list[Problem]:
    """What is wrong with one value; null stands for the default."""
    if fault := _find_fault(row, value):
        fix = f"`hermes config set {row.key} VALUE` puts it right."
        return [Problem(row.key, f"{row.key} is {_show(value)}, but it must be {fault}.", fix)]
    entries = enumerate(value or ()) if row.kind == "list[dict]" else ()
    return [problem for number, entry in entries for problem in _check_entry(f"{row.key}[{number}]", entry)]


def _check_entry(place: str, entry: Mapping[Any, Any]) -> Iterator[Problem]:
    """One entry of a list of sections, such as a fallback."""
    for name, value in entry.items():
        key, row = f"{place}.{name}", _ENTRY.get(str(name))
        if row is None:
            fix = f"It takes {', '.join(_ENTRY)}."
            yield Problem(key, f"{key} is not known; it is kept and ignored.", fix, warning=True)
        elif fault := _find_fault(row, value):
            yield Problem(key, f"{key} is {_show(value)}, but it must be {fault}.", "Correct it in the file.")


def _find_fault(row: Setting, value: Any) -> str:
    """What a value must be and is not; empty: nothing is wrong with it."""
    kind = _BY_NAME[row.kind]
    if value is None:
        return ""
    if not kind.takes(value):
        return "text: put quotes around it" if row.kind == "str" and isinstance(value, int | float) else kind.words
    if row.choices and value not in row.choices:
        return "one of " + ", ".join(choice or '""' for choice in row.choices)
    if is_number(value) and not row.at_least <= value <= row.at_most:
        limits = (("at least", row.at_least), ("at most", row.at_most))
        return " and ".join(f"{word} {limit:g}" for word, limit in limits if math.isfinite(limit))
    return ""


def _show(value: Any) -> str:
    """A value in a sentence, short."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"


def coerce(row: Setting, text: str) -> Any:
    """The value that a text stands for; raises ValueError with a sentence when it is none of the setting's kind."""
    kind = _BY_NAME[row.kind]
    if row.kind.endswith("?") and text.strip().lower() in _NULL_WORDS:
        return None
    value = kind.read(text)
    for problem in check_value(row, value):
        if not problem.warning:
            raise ValueError(problem.what)
    if value is None:
        raise ValueError(f"{row.key} is {_show(text)}, but it must be {kind.words}.")
    return value
