"""Reads and writes the settings in the home: `config.yaml`, parsed once per change, and the secrets in `.env`.

Each setting has one home: dotted names live in `config.yaml`, names in capitals in `.env`, where a variable of the
environment wins over the file.
"""

import copy
import json
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hermes_base import setting_table as table
from hermes_base.account_names import name_all_accounts, write_variable
from hermes_base.errors import ConfigProblem
from hermes_base.secret_files import find_server_secrets, hide_arguments
from hermes_base.setting_table import Problem
from hermes_base.setting_values import guess
from hermes_base.settings import NEXT_START, Settings
from hermes_base.store_place import learn_addresses
from hermes_base.text.addresses import describe_address, find_in_addresses
from hermes_base.text.placeholders import refuse_placeholder
from hermes_base.text.redact import SHORTEST_SECRET, RedactingFilter, Redactor
from hermes_base.text.store_address import describe_store_address, put_password, take_password
from hermes_cli.config import config_edit, lent_env
from hermes_cli.config.config_text import merge, name_place, parse_sections
from hermes_cli.config.lent_env import find_exported, lend
from hermes_cli.config.own_files import UNCHANGED, WatchedFile, hold_folder, read_text, replace_file
from hermes_constants import WEB_TOKEN_FILE
from hermes_constants import get_hermes_home as get_hermes_home

log = logging.getLogger(__name__)

CONFIG_FILE, ENV_FILE = "config.yaml", ".env"
TERMINAL = "terminal"  # name of the handler that writes to stderr
TERMINAL_LINE = "%(levelname)s %(name)s: %(message)s"
_ENV_NAME = re.compile(r"[A-Z_][A-Z0-9_]*", re.ASCII)
_SECRET_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY", "_PRIVATE_KEY")
#: Values in `.env` under such names are no secrets, unless they carry a password (`user:password@host`).
_PLAIN_ENDINGS = ("_URL", "_HOST", "_PORT", "_MODEL", "_PATH", "_DIR", "_HOME", "_LEVEL", "_REGION")
#: Read before any file is, so a line in `.env` could not have an effect.
_ENVIRONMENT_ONLY = frozenset({"HERMES_HOME", "HERMES_PROFILE"})


@dataclass(slots=True)
class _Loaded:
    """What `config.yaml` holds."""

    raw: dict[Any, Any]
    merged: dict[str, Any]
    problems: list[Problem]  # each with the file and the line that it stands in
    settings: Settings  # the defaults, where a value is wrong
    told: bool = False  # the log knows its warnings


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a setting's value comes from; `shown` is masked when it is a secret."""

    key: str
    shown: str
    source: str
    shadows: tuple[str, ...]
    doc: str
    takes_effect: str = ""
    breaks_prefix: bool = False
    problem: str = ""


class _HomeFiles(NamedTuple):
    config: WatchedFile[_Loaded]
    env: WatchedFile[dict[str, tuple[str, int]]]  # name -> value and line


def _find_files() -> _HomeFiles:
    return _watch_files(get_hermes_home())


@lru_cache(maxsize=64)
def _watch_files(home: Path) -> _HomeFiles:
    config = WatchedFile(home / CONFIG_FILE, "settings", _make_config)
    return _HomeFiles(config, WatchedFile(home / ENV_FILE, "variables", _make_env))


def get_config_path() -> Path:
    return _find_files().config.path


def get_env_path() -> Path:
    return _find_files().env.path


# --- reading config.yaml


def load_config() -> dict[str, Any]:
    """The settings merged over the defaults, as a copy that the caller may change."""
    return copy.deepcopy(load_config_readonly())


def load_config_readonly() -> dict[str, Any]:
    """The settings merged over the defaults, shared by all callers: read it, never change it."""
    return _check(_find_files().config.read()).merged


def load_settings() -> Settings:
    """The settings; ConfigProblem when they cannot be read or one of them is wrong."""
    return _check(_find_files().config.read()).settings


def load_last_good() -> Settings:
    """The settings; while the file is broken, those that were read last, and the log says so once for each problem."""
    return _find_files().config.read_last_good(_check).settings


def _check(loaded: _Loaded) -> _Loaded:
    """The log is told of warnings once; the first error is raised."""
    told, loaded.told = loaded.told, True
    for problem in () if told else loaded.problems:
        if problem.warning:
            log.warning("%s", problem)
    errors = [problem for problem in loaded.problems if not problem.warning]
    if errors:
        more = f" ({len(errors) - 1} more: see `hermes doctor`.)" if len(errors) > 1 else ""
        raise ConfigProblem(errors[0].what, kept=UNCHANGED, fix=errors[0].fix + more)
    return loaded


def cfg_get(cfg: Any, *keys: str, default: Any = None) -> Any:
    """A nested value; `default` when anything on the way is missing or no section."""
    for key in keys:
        if not isinstance(cfg, Mapping) or key not in cfg:
            return default
        cfg = cfg[key]
    return cfg


def find_problems() -> list[Problem]:
    """Everything that is wrong in `config.yaml`, with lines; raises ConfigProblem when it cannot be read at all."""
    return _find_files().config.read().problems


def _make_config(path: Path, text: str) -> _Loaded:
    raw = parse_sections(path, text)
    problems = list(table.check(raw))
    is_good = all(problem.warning for problem in problems)
    if problems:
        tree = config_edit.load_round_trip(text)
        problems = [replace(each, what=f"{name_place(path, tree, each.key)}: {each.what}") for each in problems]
    return _Loaded(raw, merge(table.defaults(), raw), problems, table.make_settings(raw if is_good else {}))


# --- reading .env


def load_env() -> dict[str, str]:
    """The names set in `.env`; where the environment sets one too, its value counts. While the file cannot be read,
    as it was read last, and the log says so once."""
    return {name: find_exported(name) or value for name, (value, _) in _find_files().env.read_last_good().items()}


def env_value(name: str) -> str:
    """The value of a name from the environment, else from `.env`, else empty."""
    return find_exported(name) or load_env().get(name, "")


def lend_env() -> None:
    """Put what `.env` says into the environment, for plugins, which read it there; again after each change of it."""
    lines = _find_files().env.read_last_good().items()
    lend({name: value for name, (value, _) in lines if name not in _ENVIRONMENT_ONLY})


def find_env_value(names: Sequence[str]) -> str:
    """The same for the first of several names that has one, without blanks around it."""
    lines = _find_files().env.read_last_good()
    values = (os.environ.get(name) or lines.get(name, ("", 0))[0] for name in names)
    return next((value.strip() for value in values if value.strip()), "")


def _make_env(path: Path, text: str) -> dict[str, tuple[str, int]]:  # noqa: ARG001 - both files are made alike
    lines = enumerate(map(config_edit.ENV_LINE.fullmatch, text.split("\n")), start=1)
    return {line[1]: (config_edit.read_env_value(line[2]), number) for number, line in lines if line}


def find_bad_env_lines() -> list[int]:
    """Lines of `.env` that are neither NAME=VALUE nor a comment."""
    lines = enumerate(read_text(get_env_path()).split("\n"), start=1)
    return [
        number
        for number, line in lines
        if line.strip() and not line.lstrip().startswith("#") and not config_edit.ENV_LINE.fullmatch(line)
    ]


# --- the store

STORE_ADDRESS, STORE_PASSWORD = "store.url", "HERMES_STORE_PASSWORD"


def find_store_address(home: Path) -> str:
    """The database that holds the store of a home, with its password; empty: the store is a file. ConfigProblem while
    it cannot be read what the settings say of that; what else is wrong in them does not matter."""
    config = _watch_files(home).config
    try:
        url = config.read_last_good(_check).settings.store.url
    except ConfigProblem:
        url = cfg_get(config.read().merged, "store", "url", default="")
    return put_password(str(url), find_store_password(home)) if url else ""


def find_store_password(home: Path) -> str:
    """The one in force: of the environment, else of `.env`."""
    lines = _watch_files(home).env.read_last_good()
    return find_exported(STORE_PASSWORD) or lines.get(STORE_PASSWORD, ("", 0))[0]


learn_addresses(find_store_address)


# --- secrets


def secrets() -> dict[str, str]:
    """Every configured secret by name, for redaction; never raises, since broken files are reported elsewhere."""
    files = _find_files()
    with suppress(ConfigProblem):
        files.config.read()
    raw = (
        files.config.made.raw if files.config.made else {}
    )  # of a broken file what it said last: that is still in force
    accounts = list(name_all_accounts(raw.get("platforms")))
    endings = (*_SECRET_ENDINGS, *(write_variable(end, account) for end in _SECRET_ENDINGS for account in accounts))
    found = {name: value for name, value in os.environ.items() if name.endswith(endings)}
    found |= find_in_addresses(os.environ.items())
    found |= {key: value for key, value in table.walk(raw) if isinstance(value, str) and table.is_secret(key)}
    found |= {key: value for key, value in find_server_secrets(raw.get("mcp_servers")) if "${" not in value}
    found |= {name: os.environ.get(name, "") for name in _find_key_names(raw)}
    found |= find_in_addresses(table.walk(raw))
    found["the page's token"] = _read_token()
    with suppress(ConfigProblem):  # typed as it is, it may hold any sign
        found["store.url"] = take_password(str(cfg_get(raw, "store", "url", default="")))[1]
    with suppress(ConfigProblem):
        # The environment may hold another value of the same name: both are secrets.
        lines = {name: value for name, (value, _) in files.env.read_last_good().items()}
        found |= find_in_addresses(lines.items(), f" in {ENV_FILE}")
        for name, value in lines.items():
            if not name.endswith(_PLAIN_ENDINGS) or "@" in value:
                found[name if found.get(name, value) == value else f"{name} in {ENV_FILE}"] = value
    return {name: value for name, value in found.items() if len(value) >= SHORTEST_SECRET}


def _read_token() -> str:
    with suppress(OSError, UnicodeDecodeError):
        return (get_hermes_home() / WEB_TOKEN_FILE).read_text("ascii").strip()
    return ""


def _find_key_names(raw: Mapping[Any, Any]) -> Iterator[str]:
    """The variables that the settings name as holders of a key."""
    fallbacks = cfg_get(raw, "model", "fallbacks")
    for entry in (raw.get("model"), *(fallbacks if isinstance(fallbacks, list) else ())):
        name = cfg_get(entry, "key_env")
        if isinstance(name, str) and name:
            yield name


def redactor() -> Redactor:
    """Takes today's secrets out of a text. Asked for many times in a turn: a change of `.env` is noticed at once, one
    of the settings as soon as anybody reads them, one of the environment alone a second later."""
    global _known_redactor
    files, now = _find_files(), time.monotonic()
    with suppress(ConfigProblem):
        files.env.read()
    key, known = (files.env.path, files.env.made, files.config.made), _known_redactor
    if known is not None and known.key == key and now - known.looked <= _REDACTOR_SECONDS:
        return known.redactor
    beside = dict(os.environ), _read_token()
    if known is not None and (known.key, known.beside) == (key, beside):
        _known_redactor = known._replace(looked=now)
    else:
        found = secrets()  # which reads the settings
        key = files.env.path, files.env.made, files.config.made
        _known_redactor = _KnownRedactor(key, beside, now, _make_redactor(tuple(found.items())))
    return _known_redactor.redactor


class _KnownRedactor(NamedTuple):
    key: object  # the files that its secrets stand in, as they were read
    beside: object  # what else they stand in, looked at once a second
    looked: float
    redactor: Redactor


_REDACTOR_SECONDS = 1.0
_make_redactor = lru_cache(1)(lambda found: Redactor(dict(found)))
_known_redactor: _KnownRedactor | None = None


def start_logging() -> None:
    """Send log records to stderr, without secrets, from the configured level on."""
    handler = logging.StreamHandler()
    handler.set_name(TERMINAL)
    handler.addFilter(RedactingFilter(redactor))
    logging.basicConfig(format=TERMINAL_LINE, handlers=[handler])
    with suppress(ConfigProblem):  # the command itself will report it
        logging.getLogger().setLevel(load_settings().log.level.upper())
    handler.setLevel(logging.getLogger().level)


# --- writing


def set_value(key: str, text: str) -> Explanation:
    """Set one setting (`model.default`) or variable (`OPENROUTER_API_KEY`) from text, and explain what holds now."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = f"The value for {key} is not valid UTF-8."
        raise ConfigProblem(what, kept=UNCHANGED, fix="Type it in a UTF-8 terminal.") from error
    refuse_placeholder(key, text)
    if key == STORE_ADDRESS and text:
        text, password = take_password(text)
        if password:
            set_value(STORE_PASSWORD, password)
    if is_env_name(key):
        _check_env(key, text)
        _rewrite(get_env_path(), lambda before: config_edit.set_in_env(before, key, text))
    else:
        value, path = _read_value(key, text), get_config_path()
        what, fix = f"{key} cannot be changed without changing other settings.", f"Open {path} and set {key} by hand."
        _rewrite(path, lambda before: config_edit.set_in_yaml(before, key.split("."), value), what, fix)
    return explain(key)


def unset_value(key: str) -> Path:
    """Take one setting or variable out of its file, whether it is known or misspelt; returns which file that is."""
    path = get_env_path() if is_env_name(key) else get_config_path()
    drop = config_edit.drop_from_env if is_env_name(key) else config_edit.drop_from_yaml
    if not _rewrite(path, lambda before: drop(before, key), f"{key} cannot be taken out of {path}."):
        raise ConfigProblem(f"{key} is not set in {path}.", kept=UNCHANGED)
    return path


def set_path(names: Sequence[str], value: Any) -> None:
    """Set one value of a section that others own, by the names on the way to it, in which dots mean nothing."""
    path, key = get_config_path(), ".".join(names)
    what, fix = f"{key} cannot be changed without changing other settings.", f"Open {path} and set {key} by hand."
    _rewrite(path, lambda before: config_edit.set_by_names(before, names, value), what, fix)


def unset_path(names: Sequence[str]) -> bool:
    """Take such a value out of the file, with the sections that it leaves empty; whether it was there."""
    path = get_config_path()
    what = f"{'.'.join(names)} cannot be taken out of {path}."
    return _rewrite(path, lambda before: config_edit.drop_by_names(before, names), what)


def is_env_name(key: str) -> bool:
    return _ENV_NAME.fullmatch(key) is not None


def save_config(
    cfg: Mapping[str, Any],
    *,
    strip_defaults: bool = True,
    preserve_keys: Collection[str] | None = None,
    merge_existing: bool = False,
) -> None:
    """Make the file hold these settings; comments, and defaults nobody wrote down, stay as they are. Defaults are
    written down in the sections `preserve_keys`, or all; with `merge_existing` what is left out here stays there."""
    path = get_config_path()

    def change(before: str) -> str:
        raw = parse_sections(path, before)
        held = merge(table.defaults() if strip_defaults else {}, raw)
        wanted = merge(copy.deepcopy(held), cfg) if merge_existing else cfg
        known = {name: value for name, value in held.items() if name not in (preserve_keys or ())}
        return config_edit.make_yaml_hold(before, config_edit.carry_over(raw, known, wanted))

    _rewrite(path, change, f"The changed settings cannot be written into {path}.")


def save_together(variables: Mapping[str, str], cfg: Mapping[str, Any]) -> None:
    """Keep variables and settings, the variables first: both, or neither."""
    path = get_env_path()
    existed, before = path.exists(), _find_files().env.read_last_good()
    try:
        for name, value in variables.items():
            set_value(name, value)
        save_config(cfg)
    except ConfigProblem:
        for name in variables:
            _put_back(path, name, before.get(name))
        if not existed and not read_text(path).strip():
            path.unlink(missing_ok=True)
        raise


def _put_back(path: Path, name: str, before: tuple[str, int] | None) -> None:
    """Let `.env` say of one variable what it said before, which the environment has no part in."""
    if before is None:
        _rewrite(path, lambda text: config_edit.drop_from_env(text, name))
    else:
        _rewrite(path, lambda text: config_edit.set_in_env(text, name, before[0]))


def _check_env(name: str, value: str) -> None:
    if name in _ENVIRONMENT_ONLY:
        fix = f"Set it in the shell: export {name}=…"
        raise ConfigProblem(f"{name} is read before any file in the home is.", kept=UNCHANGED, fix=fix)
    if "\0" in value:
        raise ConfigProblem(f"The value for {name} holds a NUL character.", kept=UNCHANGED, fix="Leave it out.")


def _read_value(key: str, text: str) -> Any:
    row = table.find(key)
    if row is None and not table.is_open(key):
        raise unknown_key(key)
    try:
        return guess(text) if row is None else table.coerce(row, text)
    except ValueError as error:
        raise ConfigProblem(str(error), kept=UNCHANGED) from error


def unknown_key(key: str) -> ConfigProblem:
    inside = table.section_keys(key)
    if inside:
        return ConfigProblem(f"{key} is a section, not a setting.", fix=f"It holds {', '.join(inside)}.")
    return ConfigProblem(f"{key} is not a known setting.", kept=UNCHANGED, fix=table.suggest(key))


def _rewrite(path: Path, change: Callable[[str], str], what: str = "", fix: str = "Make the change by hand.") -> bool:
    """Replace a file by its changed text in one step; False when it stays the same, and is not touched. `what` is said
    of a text that cannot be changed so."""
    real = Path(os.path.realpath(path))  # a link to a file elsewhere stays a link
    try:
        with hold_folder(real.parent):
            before = read_text(real)
            if path == get_config_path():
                parse_sections(path, before)  # a broken file is reported, not written over
            after = change(before)
            if after != before:
                replace_file(real, after)
            return after != before
    except config_edit.CannotEdit as error:
        raise ConfigProblem(what, kept=UNCHANGED, fix=fix) from error
    except OSError as error:
        fix = "Check the folder's permissions and the disk space."
        raise ConfigProblem(f"{real} cannot be written: {error.strerror}.", kept=UNCHANGED, fix=fix) from error


# --- explaining


def explain(key: str) -> Explanation:
    """Value, source and what it shadows, of a setting or a variable; a key that nobody knows is a ConfigProblem."""
    return _explain_env(key) if is_env_name(key) else _explain_config(key)


def get_value(key: str) -> Any:
    """The value in force, masked when it is a secret."""
    if is_env_name(key):
        return mask(env_value(key))
    missing = object()
    value = cfg_get(load_config_readonly(), *key.split("."), default=missing)
    if value is missing:
        raise unknown_key(key)
    return _hide_secrets(key, value)


def mask(value: str) -> str:
    """A secret's last four characters, when it is long enough to give them away."""
    if not value:
        return ""
    return "…" + value[-4:] if len(value) >= 16 else "…"


def _hide_secrets(key: str, value: Any) -> Any:
    """The value, or the section, with what must not be shown masked."""
    if isinstance(value, Mapping):
        return {name: _hide_secrets(f"{key}.{name}", inner) for name, inner in value.items()}
    if isinstance(value, list):
        if key.startswith("mcp_servers.") and key.endswith((".args", ".command")):
            value = hide_arguments([str(word) for word in value])
        return [_hide_secrets(f"{key}[{number}]", inner) for number, inner in enumerate(value)]
    if table.is_secret(key) and value is not None:
        return mask(str(value))
    if key == STORE_ADDRESS and value:
        return describe_store_address(str(value))
    return describe_address(value) if isinstance(value, str) and "://" in value else value


def _explain_env(name: str) -> Explanation:
    value, line = _find_files().env.read_last_good().get(name, ("", 0))
    in_file = f"{get_env_path()}, line {line}" if line else ""
    in_environment = find_exported(name)
    shadows = (f"{mask(value) or 'empty'} from {in_file}",) if in_environment and in_file else ()
    source = "the environment" if in_environment else in_file or "not set"
    doc = "A variable; the environment wins over the file, unless it is empty there."
    return Explanation(name, mask(in_environment or value), source, shadows, doc, NEXT_START)


def _explain_config(key: str) -> Explanation:
    row = table.find(key)
    value = cfg_get(_find_files().config.read().raw, *key.split("."))
    if row is None and value is None and not table.is_open(key):
        raise unknown_key(key)
    if row is None:  # a key of a plugin, a provider or another program
        source = "not set" if value is None else _find_place(key)
        doc = "Not a setting of Hermes itself; kept for whoever owns it."
        return Explanation(key, show(_hide_secrets(key, value)), source, (), doc, table.when_owned(key))
    found = Explanation(key, show(row.default), "default", (), row.doc, row.takes_effect, row.breaks_prefix)
    if value is not None:
        found = replace(
            found,
            shown=show(_hide_secrets(key, value)),
            source=_find_place(key),
            shadows=(f"the default {show(row.default)}",),
            problem=" ".join(map(str, table.check_value(row, value))),
        )
    return found


def _find_place(key: str) -> str:
    path = get_config_path()
    return name_place(path, config_edit.load_round_trip(read_text(path)), key)


def show(value: Any) -> str:
    """A value as one would type it; text that is empty shows its quotes."""
    if isinstance(value, str) and value:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


# --- what plugins call; the names and forms are theirs


DEFAULT_CONFIG: dict[str, Any] = table.defaults()
OPTIONAL_ENV_VARS: dict[str, dict[str, Any]] = {}  # plugins add what they ask for: name -> description, prompt, url, …


def save_env_value(key: str, value: str) -> None:
    """Keep a variable in `.env`, and have it in the environment at once; ValueError for a name that is none."""
    if not is_env_name(key):
        raise ValueError(f"{key!r} is no name of a variable.")
    set_value(key, value)
    lent_env.put(key, value)


def save_env_value_secure(key: str, value: str) -> dict[str, Any]:
    save_env_value(key, value)
    return {"success": True, "stored_as": key, "validated": False}


def get_env_value(key: str) -> str | None:
    """From the environment, else from `.env`, else None."""
    return env_value(key) or None


def remove_env_value(key: str) -> bool:
    """Take a variable out of `.env`; whether it was there."""
    if not is_env_name(key):
        raise ValueError(f"{key!r} is no name of a variable.")
    removed = _rewrite(get_env_path(), lambda before: config_edit.drop_from_env(before, key))
    lend_env()
    return removed


def set_config_value(key: str, value: str, force: bool = False) -> None:
    """Set a setting by its dotted name, or a variable; what nobody knows is kept, with a word."""
    del force
    if is_env_name(key):
        save_env_value(key, value)
        print(f"{key} is kept in {get_env_path()}.")
        return
    known = table.find(key) is not None or table.is_open(key)
    if known:
        set_value(key, value)
    else:
        set_path(key.split("."), guess(value))
    print(f"{key} is set in {get_config_path()}." + ("" if known else " Hermes itself does not know it."))


def read_raw_config() -> dict[str, Any]:
    """What the file says, without the defaults."""
    return {str(name): copy.deepcopy(value) for name, value in _find_files().config.read().raw.items()}


def write_platform_config_field(platform: str, field: str, value: Any, *, raw: bool = False) -> None:
    """Set `platforms.<platform>.<field>`; a text is read as one would type it, unless it is `raw`."""
    set_path(("platforms", platform, field), guess(value) if isinstance(value, str) and not raw else value)
