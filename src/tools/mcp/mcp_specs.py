"""The section `mcp_servers` of the settings as values, in the shape that other programs write it, too. Pure."""

import fnmatch
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from hermes_base.errors import ConfigProblem
from hermes_constants.ordinary_files import expand_home

SECTION = "mcp_servers"
STDIO, HTTP, SSE = "stdio", "http", "sse"
#: What others call the ways to speak to a server, in small letters and without what stands between words.
TRANSPORTS: Mapping[str, str] = MappingProxyType(
    {STDIO: STDIO, "local": STDIO, HTTP: HTTP, "streamablehttp": HTTP, "remote": HTTP, SSE: SSE}
)
#: What others call a key.
_ALIASES: Mapping[str, str] = MappingProxyType({"serverUrl": "url", "httpUrl": "url", "environment": "env"})
#: Keys of others that have another meaning here, or none, and what stands in their place.
_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("autoApprove", "alwaysAllow"), "`trust` names the tools that are called without asking"),
        **dict.fromkeys(("includeTools", "allowedTools"), "`tools` names those that the model has"),
        **dict.fromkeys(("excludeTools", "disabledTools"), "`tools.exclude` names those that the model has not"),
        "envFile": "variables stand in `env`, and may name those of .env as ${VAR}",
        "startup_timeout_sec": "`connect_timeout` is that time",
        "tool_timeout_sec": "`timeout` is that time",
    }
)
LEVELS = ("work", "setup", "outside")
CALL_SECONDS, CONNECT_SECONDS = 120.0, 60.0
MOST_SECONDS = 3600.0
SAMPLING_TOKENS = 4_000
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._/@-]{0,62}[A-Za-z0-9])?")
#: As VS Code and Cursor write a variable, too.
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
#: What an editor would fill in by asking, or from its own settings.
_OF_EDITORS = re.compile(r"\$\{(?:input|command|config):[^}]*\}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_KNOWN = frozenset(
    {
        *("command", "args", "env", "cwd", "url", "headers", "timeout", "connect_timeout", "transport", "type"),
        *("enabled", "disabled", "tools", "trust", "level", "network", "sampling", "description"),
        *("oauth", "auth"),
    }
)


@dataclass(frozen=True, slots=True)
class LoginApp:
    """Who Hermes is at the login of a server that gives out no names by itself."""

    client_id: str = ""  # empty: a name is given out at the first login
    client_secret: str = ""
    port: int = 0  # of this machine, where the browser is led back to; 0: any


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One server as the owner wrote it down; `${VAR}` stands in it as it was written."""

    name: str
    transport: str = STDIO
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = CALL_SECONDS
    connect_timeout: float = CONNECT_SECONDS
    enabled: bool = True
    include: tuple[str, ...] = ()  # empty: all of its tools
    exclude: tuple[str, ...] = ()
    trust: bool | tuple[str, ...] = False  # which of its tools are called unasked
    level: str = LEVELS[0]
    network: bool | None = None  # None: as `terminal.network`
    sampling: int = 0  # tokens that it may have the model write in one turn; 0: none
    oauth: LoginApp = LoginApp()
    guessed: bool = False  # the way to speak to its address was not named

    @property
    def print(self) -> str:
        """What a remembered list of tools belongs to: another program or address has other tools."""
        what = [self.transport, self.command, self.args, dict(self.env), self.cwd, self.url, sorted(self.headers)]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def toolset(self) -> str:
        return f"mcp-{self.name}"

    def offers(self, tool: str) -> bool:
        """Whether the owner lets the model have this tool of it."""
        wanted = not self.include or _matches(tool, self.include)
        return wanted and not _matches(tool, self.exclude)

    def trusts(self, tool: str) -> bool:
        return self.trust if isinstance(self.trust, bool) else _matches(tool, self.trust)


@dataclass(frozen=True, slots=True)
class SpecFault:
    """Something in the section that is not as it should be; `fatal`: the server is left out."""

    server: str
    what: str
    fatal: bool = True


def read_servers(section: object) -> tuple[tuple[ServerSpec, ...], tuple[SpecFault, ...]]:
    """The servers that can be used, and what is wrong with the others."""
    if section is None:
        return (), ()
    if not isinstance(section, Mapping):
        return (), (SpecFault("", f"{SECTION} must be a section with one entry for each server."),)
    specs, faults = [], []
    for name, given in section.items():
        try:
            specs.append(read_server(str(name), given))
        except ConfigProblem as problem:
            faults.append(SpecFault(str(name), str(problem)))
            continue
        odd = sorted(set(map(str, given)) - _KNOWN - set(_ALIASES))
        if odd:
            instead = "".join(
                f" Here {what}." for what in dict.fromkeys(_INSTEAD[key] for key in odd if key in _INSTEAD)
            )
            what = f"{SECTION}.{name} does not know {', '.join(odd)}.{instead}"
            faults.append(SpecFault(str(name), what, fatal=False))
    return tuple(specs), tuple(faults)


def read_server(name: str, given: object) -> ServerSpec:
    """One entry; ConfigProblem with a sentence when it is no server."""
    place = f"{SECTION}.{name}"
    if not _NAME.fullmatch(name):
        fix = "Use up to 64 letters, digits, dots, dashes and underscores."
        raise ConfigProblem(f"'{name[:80]}' cannot be the name of an MCP server.", fix=fix)
    if not isinstance(given, Mapping):
        raise ConfigProblem(f"{place} must be a section.", fix="Give it a `command` or a `url`.")
    given = _in_our_words(given)
    command, url = _text(place, given, "command"), _text(place, given, "url")
    if bool(command) == bool(url):
        which = "both a command and a url" if url else "neither a command nor a url"
        raise ConfigProblem(f"{place} has {which}.", fix="A server is a program (command, args) or an address (url).")
    level = _text(place, given, "level") or LEVELS[0]
    if level not in LEVELS:
        raise ConfigProblem(f"{place}.level is '{level}', but it must be one of {', '.join(LEVELS)}.")
    cwd = expand_home(_text(place, given, "cwd"))
    if cwd and not os.path.isabs(cwd):
        raise ConfigProblem(f"{place}.cwd must be a whole path, or one that begins with ~.")
    include, exclude = _read_filter(place, given.get("tools"))
    network = given.get("network")
    if network is not None and not isinstance(network, bool):
        raise ConfigProblem(f"{place}.network must be true or false.")
    return ServerSpec(
        name,
        _find_transport(place, given, url),
        command,
        _texts(place, given, "args"),
        _pairs(place, given, "env"),
        cwd,
        url,
        _headers(place, given),
        _seconds(place, given, "timeout", CALL_SECONDS),
        _seconds(place, given, "connect_timeout", CONNECT_SECONDS),
        _flag(place, given, "enabled", default=True) and not _flag(place, given, "disabled", default=False),
        include,
        exclude,
        _read_trust(place, given.get("trust")),
        level,
        network,
        _read_sampling(place, given.get("sampling")),
        _read_login(place, given.get("oauth")),
        guessed=bool(url) and not (_text(place, given, "transport") or _text(place, given, "type")),
    )


def expand(text: str, look_up: Callable[[str], str], place: str) -> str:
    """The text with `${VAR}` and `${VAR:-else}` filled in; ConfigProblem when a variable is not set."""

    def fill(found: re.Match[str]) -> str:
        value = look_up(found[1]) or found[2]
        if value is None:
            raise ConfigProblem(f"{place} needs {found[1]}, which is not set.", fix=f"hermes config set {found[1]}")
        return value

    filled = _VARIABLE.sub(fill, text)
    if found := _OF_EDITORS.search(text):
        fix = "Write ${NAME} in its place, and set it: hermes config set NAME"
        raise ConfigProblem(f"{place} holds {found[0][:60]}, which only an editor fills in.", fix=fix)
    return filled


def find_unfilled(spec: ServerSpec, look_up: Callable[[str], str]) -> ConfigProblem | None:
    """The first thing of its entry that could not be filled in; None: all could."""
    texts = {"command": spec.command, "url": spec.url}
    texts |= {f"args[{at}]": word for at, word in enumerate(spec.args)}
    texts |= {f"env.{name}": text for name, text in spec.env.items()}
    texts |= {f"headers.{name}": text for name, text in spec.headers.items()}
    try:
        for key, text in texts.items():
            expand(text, look_up, f"{SECTION}.{spec.name}.{key}")
    except ConfigProblem as problem:
        return problem
    return None


def find_variables(text: str) -> list[str]:
    """Which variables would be filled in, each once."""
    return list(dict.fromkeys(found[1] for found in _VARIABLE.finditer(text)))


def check_header(place: str, name: str, value: str) -> None:
    """ConfigProblem for what cannot be sent as a header; its value is not shown."""
    if not _HEADER.fullmatch(name):
        raise ConfigProblem(f"{place} holds '{name[:40]}', which cannot be the name of a header.")
    if not value.isascii() or not value.isprintable():
        fix = "It is one line of letters, digits and signs of ASCII."
        raise ConfigProblem(f"{place}.{name} holds what cannot be sent in a header.", fix=fix)


def find_opened(spec: ServerSpec) -> Iterator[str]:
    """Whole paths that the owner wrote among the arguments: the program is meant to see them."""
    for word in (spec.command, *spec.args):
        value = word.partition("=")[2] if word.startswith("-") else word
        path = expand_home(value)
        if os.path.isabs(path):
            yield os.path.normpath(path)


def _matches(tool: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(tool, pattern) for pattern in patterns)


def _find_transport(place: str, given: Mapping[Any, Any], url: str) -> str:
    named = _text(place, given, "transport") or _text(place, given, "type")
    plain = re.sub("[-_ ]", "", named).lower()
    if named and plain not in TRANSPORTS:
        raise ConfigProblem(f"{place}.transport is '{named}', but it must be stdio, http or sse.")
    transport = TRANSPORTS.get(plain, HTTP if url else STDIO)
    if (transport == STDIO) == bool(url):
        raise ConfigProblem(
            f"{place}.transport is {transport}, which does not go with a {'url' if url else 'command'}."
        )
    if url and "${" not in url:
        check_address(place, url)
    return transport


def check_address(place: str, url: str) -> None:
    """ConfigProblem for what is no address of the web."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a host or a port that there cannot be
        fits = False
    if not fits:
        raise ConfigProblem(f"{place}.url is no address that begins with http:// or https://.")


def _read_filter(place: str, given: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`tools` is a list of names, or a section with include and exclude; names may hold `*`."""
    if isinstance(given, Mapping):
        return _texts(f"{place}.tools", given, "include"), _texts(f"{place}.tools", given, "exclude")
    return _texts(place, {"tools": given}, "tools"), ()


def _read_trust(place: str, given: object) -> bool | tuple[str, ...]:
    if given is None or isinstance(given, bool):
        return bool(given)
    return _texts(place, {"trust": given}, "trust")


def _read_sampling(place: str, given: object) -> int:
    """How many tokens: false, true for the usual number, or a number."""
    if given is None or isinstance(given, bool):
        return SAMPLING_TOKENS if given else 0
    if isinstance(given, int) and 0 <= given <= 1_000_000:
        return given
    raise ConfigProblem(f"{place}.sampling must be false, true or a number of tokens.")


def _read_login(place: str, given: object) -> LoginApp:
    if given is None:
        return LoginApp()
    if not isinstance(given, Mapping) or (odd := set(given) - {"client_id", "client_secret", "port"}):
        what = f" It does not know {', '.join(sorted(map(str, odd)))}." if isinstance(given, Mapping) else ""
        raise ConfigProblem(f"{place}.oauth must be a section with client_id, client_secret and port.{what}")
    port = given.get("port", 0)
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 65_536:
        raise ConfigProblem(f"{place}.oauth.port must be the number of a port.")
    own = f"{place}.oauth"
    app = LoginApp(_text(own, given, "client_id"), _text(own, given, "client_secret"), port)
    if app.client_secret and not app.client_id:
        raise ConfigProblem(f"{own} has a client_secret without a client_id.")
    return app


def _text(place: str, given: Mapping[Any, Any], key: str) -> str:
    value = given.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value:
        raise ConfigProblem(f"{place}.{key} must be text.")
    return value.strip()


def _texts(place: str, given: Mapping[Any, Any], key: str) -> tuple[str, ...]:
    value = given.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str | int | float) for item in value):
        raise ConfigProblem(f"{place}.{key} must be a list of texts.")
    return tuple(map(str, value))


def _pairs(place: str, given: Mapping[Any, Any], key: str) -> Mapping[str, str]:
    value = given.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(item, str | int | float) for item in value.values()):
        raise ConfigProblem(f"{place}.{key} must be a section of names and texts.")
    return {str(name): _write(item) for name, item in value.items()}


def _headers(place: str, given: Mapping[Any, Any]) -> Mapping[str, str]:
    headers = _pairs(place, given, "headers")
    for name, value in headers.items():
        check_header(f"{place}.headers", name, value)
    return headers


def _in_our_words(given: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """As we call it: names of keys, and a program that stands with its arguments in one list."""
    named = {key: value for key, value in given.items() if key not in _ALIASES}
    ours = {**{_ALIASES[key]: value for key, value in given.items() if key in _ALIASES}, **named}
    words, args = ours.get("command"), ours.get("args") or []
    if isinstance(words, list) and words and all(isinstance(word, str) for word in words) and isinstance(args, list):
        ours |= {"command": words[0], "args": [*words[1:], *args]}
    return ours


def _write(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _seconds(place: str, given: Mapping[Any, Any], key: str, default: float) -> float:
    value = given.get(key)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= MOST_SECONDS:
        whole = isinstance(value, int) and not isinstance(value, bool) and MOST_SECONDS < value <= MOST_SECONDS * 1000
        fix = f"If milliseconds are meant, write {value / 1000:g}." if whole else ""
        raise ConfigProblem(f"{place}.{key} must be a number of seconds, at most {MOST_SECONDS:g}.", fix=fix)
    return float(value)


def _flag(place: str, given: Mapping[Any, Any], key: str, *, default: bool) -> bool:
    value = given.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ConfigProblem(f"{place}.{key} must be true or false.")
    return value
