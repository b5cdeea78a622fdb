"""The settings as data: one table of names, kinds and defaults, and pure functions that check values against it."""

import copy
import difflib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

# When a changed setting is noticed.
AT_ONCE = "at once"
NEXT_MESSAGE = "with the next message"
NEW_CONVERSATION = "with the next new conversation (/new)"
NEXT_START = "when hermes starts again"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. A kind that ends in `?` also takes null."""

    key: str
    kind: str  # str, int, float, bool, dict, list[str], list[dict]; with ? null is allowed
    default: Any
    doc: str
    choices: tuple[str, ...] = ()
    secret: bool = False
    breaks_prefix: bool = False  # a change makes a running conversation send its prompt anew, at full price
    takes_effect: str = NEXT_MESSAGE
    at_least: float | None = None
    at_most: float | None = None
    fields: Mapping[str, str] = field(default_factory=dict)  # names and kinds inside the entries of a list[dict]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the settings that is not as it should be; an unknown key is a warning, anything else an error."""

    key: str
    what: str
    fix: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.what} {self.fix}"


API_MODES = ("", "chat_completions", "anthropic_messages", "codex_responses")
REASONING_EFFORTS = ("", "none", "minimal", "low", "medium", "high")
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
#: Names of files and folders that hold secrets; `!` in front makes an exception.
SECRET_FILES = (
    *(".env", ".env.*", "*.env", ".envrc", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "*.keystore", "*.ppk", "id_rsa", "id_dsa", "id_ecdsa*"),
    *("id_ed25519*", "!*.pub", ".ssh", ".gnupg", ".password-store", "authorized_keys", ".aws", ".azure", ".kube"),
    *(".docker", ".gcloud", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".yarnrc.yml", ".pypirc"),
    *(".git-credentials", ".htpasswd", ".vault-token", ".terraformrc", "*.tfstate", "*.tfvars", "environ"),
    *("credential", "credentials", ".credential", ".credentials", "credentials.json", "credentials.toml"),
    *("credentials.y*ml", "service-account*.json", "service_account*.json", "secret", "secrets", "secret.json"),
    *("secrets.json", "secret.y*ml", "secrets.y*ml", "secret.toml", "secrets.toml", "secret.txt", "secrets.txt"),
    *(".?*_history", "shadow", "shadow-", "gshadow", "gshadow-", "sudoers", ".hermes", "web-token*"),
)
FALLBACK_FIELDS = MappingProxyType(
    {
        "provider": "str",
        "model": "str",
        "base_url": "str",
        "key_env": "str",
        "api_mode": "str",
        "context_length": "int?",
        "max_tokens": "int?",
    }
)


def _model_row(name: str, kind: str, default: Any, doc: str, **more: Any) -> Setting:
    """A row of the section `model`: a change there switches a running conversation to other prompt bytes."""
    return Setting(f"model.{name}", kind, default, doc, breaks_prefix=True, **more)


SETTINGS: tuple[Setting, ...] = (
    _model_row("default", "str", "", "The model that answers; empty: the provider's own choice."),
    _model_row("provider", "str", "", "Who serves the model (openrouter, openai, ollama, …); empty: what is found."),
    _model_row("base_url", "str", "", "Address of the model server; empty: the provider's own."),
    _model_row("api_mode", "str", "", "Wire format; empty: the provider's own.", choices=API_MODES),
    _model_row("key_env", "str", "", "Name of the variable that holds the API key; empty: the provider's own."),
    Setting(
        "model.context_length", "int?", None, "The model's window in tokens; wins over what is known of it.", at_least=1
    ),
    Setting("model.max_tokens", "int?", None, "Longest answer in tokens; null: the provider's limit.", at_least=1),
    Setting(
        "model.cache_ttl",
        "str",
        "5m",
        "How long Claude keeps a prompt in its cache; an hour costs more to write. Empty: no caching.",
        choices=("5m", "1h", ""),
    ),
    Setting(
        "model.fallbacks",
        "list[dict]",
        [],
        "Who answers when the model above fails, in order; each with provider, model, base_url, key_env, api_mode, "
        "context_length, max_tokens.",
        fields=FALLBACK_FIELDS,
    ),
    Setting("agent.max_iterations", "int", 90, "Most model calls in one turn.", at_least=1),
    Setting("agent.reasoning_effort", "str", "", "How long the model thinks.", choices=REASONING_EFFORTS),
    Setting(
        "agent.context_files",
        "bool",
        True,
        "Put AGENTS.md and its cousins of the working folder into the prompt.",
        takes_effect=NEW_CONVERSATION,
    ),
    Setting(
        "agent.toolsets",
        "list[str]",
        ["hermes-cli"],
        "Which groups of tools the model has.",
        takes_effect=NEW_CONVERSATION,
    ),
    Setting(
        "context.engine",
        "str",
        "compressor",
        "What keeps long conversations inside the window.",
        takes_effect=NEW_CONVERSATION,
    ),
    Setting("compression.enabled", "bool", True, "Summarise the older part of a long conversation."),
    Setting(
        "compression.threshold",
        "float",
        0.5,
        "Share of the window at which a conversation is compacted.",
        at_least=0.01,
        at_most=1,
    ),
    Setting(
        "compression.target_ratio",
        "float",
        0.2,
        "Share of that threshold which is kept word for word.",
        at_least=0.01,
        at_most=1,
    ),
    Setting("compression.protect_first_n", "int", 3, "Messages at the start that are never summarised.", at_least=0),
    Setting("compression.protect_last_n", "int", 20, "Messages at the end that are never summarised.", at_least=0),
    Setting(
        "compression.abort_on_summary_failure",
        "bool",
        False,
        "Kept for other programs: a failed summary never drops anything here.",
    ),
    Setting("compression.in_place", "bool", False, "Keep the session id when a conversation is compacted."),
    Setting(
        "memory.memory_enabled",
        "bool",
        True,
        "Remember things from one conversation to the next.",
        takes_effect=NEW_CONVERSATION,
    ),
    Setting(
        "memory.provider",
        "str",
        "",
        "Plugin that keeps the memory, once the plugin host loads such plugins; empty: files in the home.",
        takes_effect=NEW_CONVERSATION,
    ),
    Setting("plugins.enabled", "list[str]", [], "Plugins that may run.", takes_effect=NEXT_START),
    Setting(
        "plugins.disabled", "list[str]", [], "Plugins that never run, even when enabled above.", takes_effect=NEXT_START
    ),
    Setting("terminal.timeout", "int", 120, "Seconds a command of the model may take.", at_least=1),
    Setting(
        "terminal.backend",
        "str",
        "auto",
        "Where commands run: in a sandbox (bubblewrap) or on the machine itself (local); auto: the sandbox if it can.",
        choices=("auto", "bubblewrap", "local"),
    ),
    Setting("terminal.network", "bool", True, "Whether commands in the sandbox reach the network."),
    Setting(
        "terminal.env",
        "list[str]",
        [],
        "Variables of the environment Hermes was started in that commands get, too, beside those that programs need "
        "to be found and to speak. A command that runs unasked sees them.",
    ),
    Setting(
        "files.roots",
        "list[str]",
        [],
        "Folders beside the working folder that the file tools and commands may use unasked.",
    ),
    Setting(
        "files.secrets",
        "list[str]",
        list(SECRET_FILES),
        "Names of files and folders that hold secrets: hidden from commands that look, and from those that run unasked "
        "with the network; asked for by the file tools. `!` in front makes an exception. What you set takes the place "
        "of the whole list.",
    ),
    Setting(
        "approvals.mode",
        "str",
        "ask",
        "Commands of the model: ask runs what only reads and asks for the rest; auto also runs ordinary work in the "
        "folder; deny never asks.",
        choices=("ask", "auto", "deny"),
    ),
    Setting(
        "gateway.busy",
        "str",
        "interrupt",
        "What a message does while an answer is under way: stop it and go on with both, go into it, or wait.",
        choices=("interrupt", "steer", "queue"),
    ),
    Setting(
        "gateway.silence_minutes",
        "float",
        30.0,
        "A turn in which nothing moves for so long is stopped, after a warning. A running command, an open question "
        "and a working sub-agent count as movement.",
        at_least=0.01,
    ),
    Setting("gateway.turn_minutes", "float", 0.0, "Longest time of one turn; 0: as long as it takes.", at_least=0),
    Setting("gateway.agents", "int", 128, "Most agents that are kept ready.", at_least=1),
    Setting(
        "gateway.agent_idle_minutes",
        "float",
        60.0,
        "An agent that nobody used for so long is let go; its conversation stays.",
        at_least=0.01,
    ),
    Setting("gateway.agent_megabytes", "int", 256, "Most memory for the agents that are kept ready.", at_least=1),
    Setting(
        "gateway.tool_progress",
        "str",
        "short",
        "How much of the tools' work is shown in chats.",
        choices=("off", "short", "full"),
    ),
    Setting(
        "gateway.model_notices",
        "bool",
        True,
        "Say when another model stands in for one that fails, and when that one is back.",
    ),
    Setting(
        "people.shared",
        "bool",
        True,
        "Several people use this Hermes: memory, search, past conversations, usage and files belong to each of them. "
        "False: everybody who may speak shares the owner's.",
        takes_effect=NEW_CONVERSATION,
    ),
    Setting(
        "people.members_approve",
        "bool",
        False,
        "Members may approve the commands of their own turns; otherwise only the owner and admins approve.",
        takes_effect=AT_ONCE,
    ),
    Setting(
        "people.roots",
        "list[str]",
        [],
        "Folders that the file tools may use unasked for everybody, beside each person's own workspace.",
    ),
    Setting(
        "web.enabled", "bool", True, "Serve the web page and the API while the gateway runs.", takes_effect=NEXT_START
    ),
    Setting(
        "web.host",
        "str",
        "127.0.0.1",
        "The address that the page and the API listen on. Any but this machine's own needs HERMES_WEB_PASSWORD.",
        takes_effect=NEXT_START,
    ),
    Setting(
        "web.port",
        "int?",
        None,
        "The port of the page and the API; null: 8642, or the next free one.",
        at_least=0,
        at_most=65535,
        takes_effect=NEXT_START,
    ),
    Setting(
        "web.names",
        "list[str]",
        [],
        "Host names under which the page may be reached, beside this machine's own (behind a proxy, for example).",
        takes_effect=NEXT_START,
    ),
    Setting("web.upload_megabytes", "int", 50, "Largest file that the page takes.", at_least=1, takes_effect=AT_ONCE),
    Setting(
        "retention.queue_days",
        "float",
        30.0,
        "Delivered messages, answered questions and files that were handed over are kept so long; the conversations "
        "themselves stay. 0: for ever.",
        at_least=0,
        takes_effect=AT_ONCE,
    ),
    Setting(
        "retention.session_days",
        "float",
        0.0,
        "Conversations that nobody touched for so long are deleted; their cost stays in the ledger. 0: never.",
        at_least=0,
        takes_effect=AT_ONCE,
    ),
    Setting("display.markdown", "bool", True, "Render markdown in the terminal.", takes_effect=NEXT_START),
    Setting(
        "display.tool_progress",
        "str",
        "short",
        "How much of the tools' work is shown.",
        choices=("off", "short", "full"),
        takes_effect=NEXT_START,
    ),
    Setting("display.reasoning", "bool", False, "Show the model's reasoning.", takes_effect=NEXT_START),
    Setting(
        "log.level",
        "str",
        "warning",
        "How much of the log goes to the terminal; the gateway's file holds `info` and above, with `debug` everything.",
        choices=LOG_LEVELS,
        takes_effect=AT_ONCE,
    ),
    Setting(
        "log.megabytes",
        "int",
        10,
        "Size at which the gateway's log begins a new file.",
        at_least=1,
        takes_effect=NEXT_START,
    ),
    Setting("log.files", "int", 5, "How many old log files are kept.", at_least=1, takes_effect=NEXT_START),
    Setting(
        "titles.enabled",
        "bool",
        True,
        "Have the model name new conversations: one short call each. Otherwise the first words are the name.",
        takes_effect=AT_ONCE,
    ),
)

_BY_KEY: Mapping[str, Setting] = MappingProxyType({row.key: row for row in SETTINGS})

#: Where plugins and providers own the keys: what matches may hold anything. `*` stands for one name.
OPEN_SECTIONS: tuple[str, ...] = ("plugins.entries.*", "memory.*.*", "auxiliary.*", "providers.*", "platforms.*")
_OPEN_PARENTS = frozenset({"plugins.entries", "auxiliary", "providers", "platforms"})

_SECRET_NAMES = ("api_key", "token", "secret", "password")
_KIND_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "str": "text",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "dict": "a section of its own",
        "list[str]": "a list of names",
        "list[dict]": "a list of entries",
    }
)
_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "dict": (dict,)}
)
_BOOL_WORDS: Mapping[str, bool] = MappingProxyType(
    {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
)
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
    return [row.key for row in SETTINGS if row.key.startswith(section + ".")]


def suggest(key: str) -> str:
    """The setting that was probably meant; empty when nothing is close."""
    names = {row.key.rpartition(".")[2]: row.key for row in reversed(SETTINGS)}
    whole = difflib.get_close_matches(key.lower(), _BY_KEY, n=1, cutoff=0.6)
    last = difflib.get_close_matches(key.lower().rpartition(".")[2], names, n=1, cutoff=0.8)
    return whole[0] if whole else names[last[0]] if last else ""


def is_open(key: str) -> bool:
    """Whether a plugin or a provider owns this key."""
    if key in _BY_KEY:
        return False
    parts = key.split(".")
    for pattern in (section.split(".") for section in OPEN_SECTIONS):
        pairs = zip(parts, pattern, strict=False)
        if len(parts) >= len(pattern) and all(want in ("*", have) for have, want in pairs):
            return True
    return False


def when_owned(key: str) -> str:
    """When a change of a key takes effect that no row of the table is about."""
    return NEXT_START if key.startswith("platforms.") else "when its owner reads it"


def is_secret(key: str) -> bool:
    """Whether the value must not be shown: marked in the table, or named like a key in an open section."""
    row = find(key)
    return row.secret if row else key.rpartition(".")[2].lower().endswith(_SECRET_NAMES)


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


# --- checking


def check(config: Mapping[Any, Any]) -> list[Problem]:
    """Everything that is wrong with a config: errors for values, warnings for keys that nobody here knows."""
    return list(_check_section(config, ""))


def _check_section(section: Mapping[Any, Any], path: str) -> Iterator[Problem]:
    for name, value in section.items():
        key = f"{path}{name}"
        row = find(key)
        if row is not None:
            yield from check_value(row, value)
        elif section_keys(key) or key in _OPEN_PARENTS:
            if isinstance(value, Mapping):
                yield from _check_section(value, key + ".")
            elif value is not None:  # a section whose lines are all commented out reads as null
                inside = section_keys(key)
                example = f" such as {inside[0]}" if inside else ""
                what = f"{key} holds {_show(value)}, but it is a section."
                yield Problem(key, what, f"Put settings{example} under it.")
        # `memory.<provider>` is a plugin's when it holds a section; as a plain value it is a misspelt setting.
        elif not is_open(key) and not (isinstance(value, Mapping) and is_open(f"{key}.any")):
            near = suggest(key)
            fix = f"Did you mean {near}?" if near else "`hermes config list` shows all settings."
            yield Problem(key, f"{key} is not a known setting; it is kept and ignored.", fix, warning=True)


def check_value(row: Setting, value: Any) -> list[Problem]:
    """What is wrong with one value; null stands for the default."""
    if value is None:
        return []
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    low, high = row.at_least, row.at_most
    if not _has_kind(row.kind, value):
        quotes = row.kind == "str" and isinstance(value, int | float)
        return [_problem(row, value, f"it must be {'text: put quotes around it' if quotes else _word_of(row.kind)}")]
    if row.choices and value not in row.choices:
        return [_problem(row, value, f"it must be one of {_list_choices(row.choices)}")]
    if is_number and ((low is not None and value < low) or (high is not None and value > high)):
        bounds = (("at least", low), ("at most", high))
        words = " and ".join(f"{word} {limit:g}" for word, limit in bounds if limit is not None)
        return [_problem(row, value, f"it must be {words}")]
    if row.fields:
        return [problem for number, entry in enumerate(value) for problem in _check_entry(row, number, entry)]
    return []


def _check_entry(row: Setting, number: int, entry: Mapping[Any, Any]) -> Iterator[Problem]:
    """One entry of a list of sections, such as a fallback."""
    for name, value in entry.items():
        key = f"{row.key}[{number}].{name}"
        kind = row.fields.get(str(name))
        if kind is None:
            fix = f"It takes {', '.join(row.fields)}."
            yield Problem(key, f"{key} is not known; it is kept and ignored.", fix, warning=True)
        elif value is not None and not _has_kind(kind, value):
            yield Problem(key, f"{key} is {_show(value)}, but it must be {_word_of(kind)}.", "Correct it in the file.")
        elif name == "api_mode" and value not in API_MODES:
            fix = "Correct it in the file."
            yield Problem(key, f"{key} is {_show(value)}, but it must be one of {_list_choices(API_MODES)}.", fix)


def _has_kind(kind: str, value: Any) -> bool:
    base = kind.removesuffix("?")
    if base.startswith("list["):
        return isinstance(value, list) and all(_has_kind(base[5:-1], item) for item in value)
    if isinstance(value, bool):
        return base == "bool"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _TYPES[base])


def _list_choices(choices: tuple[str, ...]) -> str:
    return ", ".join(choice or '""' for choice in choices)


def _word_of(kind: str) -> str:
    return _KIND_WORDS[kind.removesuffix("?")] + (" or null" if kind.endswith("?") else "")


def _show(value: Any) -> str:
    """A value in a sentence, short."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"


def _problem(row: Setting, value: Any, but: str) -> Problem:
    shown = "hidden" if row.secret else _show(value)
    return Problem(row.key, f"{row.key} is {shown}, but {but}.", f"`hermes config set {row.key} VALUE` puts it right.")


# --- from the command line


def coerce(row: Setting, text: str) -> Any:
    """The value that a text stands for; raises ValueError with a sentence when it is none of the setting's kind."""
    base = row.kind.removesuffix("?")
    if row.kind.endswith("?") and text.strip().lower() in _NULL_WORDS:
        return None
    value = _read_list(text) if base.startswith("list[") else _READERS[base](text)
    problems = [problem for problem in check_value(row, value) if not problem.warning]
    if problems:
        raise ValueError(problems[0].what)
    if value is None:
        raise ValueError(f"{row.key} is {_show(text)}, but it must be {_word_of(row.kind)}.")
    return value


def guess(text: str) -> Any:
    """The value of a text for a key that has no row: JSON when it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_number(text: str) -> Any:
    value = guess(text.strip())
    return value if isinstance(value, int | float) else text


def _read_bool(text: str) -> Any:
    return _BOOL_WORDS.get(text.strip().lower(), text)


def _read_list(text: str) -> Any:
    """JSON, or names with commas between them."""
    if text.lstrip().startswith("["):
        return guess(text)
    return [item.strip() for item in text.split(",") if item.strip()]


_READERS: Mapping[str, Any] = MappingProxyType(
    {"str": str, "int": _read_number, "float": _read_number, "bool": _read_bool, "dict": guess}
)
