"""Finds and makes memory providers: the one that `memory.provider` names, from a folder, an installed package or a
plugin.

Naming a provider in the settings is the consent to run it; folders that merely exist are listed, not run.
"""

import argparse
import importlib
import inspect
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from agent.memory_provider import MemoryProvider
from agent.provider_calls import ProviderCalls
from hermes_base.errors import STOPS, ConfigProblem, HermesError
from hermes_cli import config as cli_config
from hermes_cli import plugins as plugin_host
from hermes_cli.brought_commands import BroughtCommand
from hermes_cli.config.own_files import hold_folder, replace_file
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_loading import PluginLoadError, import_folder
from hermes_cli.plugins.plugin_sources import find_module_code, list_folders, read_manifest_fields
from hermes_constants import get_hermes_home, is_set
from hermes_constants.home_names import make_data_folder
from hermes_constants.ordinary_files import expand_home

log = logging.getLogger(__name__)

ENTRY_POINTS_GROUP = "hermes_agent.memory_providers"
OFFER = "memory_provider"
#: What the setting may say for none beside the built-in notes.
NONE = frozenset({"", "builtin", "none", "off"})
SETUP = "`hermes memory setup {name}` asks for what it needs; `hermes memory off` goes on without it."
_USER_PACKAGE = "_hermes_user_memory"
_BUNDLED = Path(__file__).resolve().parent
_SCANNED_CHARS = 8192
_SIGNS = ("register_memory_provider", "MemoryProvider")
_LAST_PROBLEM = Path("logs", "memory-provider.json")
_SAME_SECONDS = 60.0  # the same problem is written down once in so long
_importing = threading.RLock()  # the first agents of several conversations may be made at once


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """A new provider for one agent, or why there is none."""

    provider: MemoryProvider | None = None
    problem: str = ""
    fix: str = ""

    @property
    def told(self) -> str:
        """What people read."""
        return f"{self.problem} {self.fix}".strip()


class CannotLoad(PluginLoadError):
    """A provider is there and cannot be used."""


# --- what there is


def list_memory_provider_names() -> list[str]:
    """The names that `memory.provider` may have, of folders and installed packages; nothing is imported."""
    names = dict.fromkeys(folder.name for folder in _list_provider_folders())
    return list(names | dict.fromkeys(point.name for point in metadata.entry_points(group=ENTRY_POINTS_GROUP)))


def list_all_names() -> list[str]:
    """The same with those that enabled plugins offer, which loads these plugins."""
    return list(dict.fromkeys([*list_memory_provider_names(), *_list_offers()]))


def discover_memory_providers() -> list[tuple[str, str, bool]]:
    """Name, description and availability; one that nobody chose is not run, and counts as available."""
    chosen = read_chosen()
    rows = []
    for name in list_memory_provider_names():
        folder = find_provider_dir(name)
        fields = read_manifest_fields(folder) if folder is not None else None
        may_run = name == chosen or (folder is not None and folder.parent == _BUNDLED)
        available = not may_run or select_memory_provider(name).provider is not None
        rows.append((name, str((fields or {}).get("description") or ""), available))
    return rows


def find_provider_dir(name: str) -> Path | None:
    """The folder of a provider: the one that comes along wins over the owner's."""
    is_plain = bool(name) and Path(name).name == name
    return next((root / name for root in _list_roots() if is_plain and _holds_provider(root / name)), None)


def _list_roots() -> tuple[Path, Path]:
    return _BUNDLED, get_hermes_home() / "plugins"


def _list_provider_folders() -> Iterable[Path]:
    return (folder for root in _list_roots() for folder in list_folders(root) if _holds_provider(folder))


def _holds_provider(folder: Path) -> bool:
    """Whether the start of the code says that it is a provider; the text is read, not run."""
    if folder.name[0] in "._":
        return False
    try:
        with (folder / "__init__.py").open(encoding="utf-8", errors="replace") as code:
            start = code.read(_SCANNED_CHARS)
    except OSError:
        return False
    return any(sign in start for sign in _SIGNS)


def _find_entry_point(name: str) -> metadata.EntryPoint | None:
    return next(iter(metadata.entry_points(group=ENTRY_POINTS_GROUP, name=name)), None)


def _list_offers() -> dict[str, Any]:
    """What enabled plugins offer, by the provider's own name and by the plugin's."""
    found: dict[str, Any] = {}
    for owner, offered in plugin_host.find_owned_offers(OFFER):
        for name in (_read_name(offered), owner):
            found.setdefault(name, (owner, offered))
    found.pop("", None)
    return found


def _read_name(provider: Any) -> str:
    try:
        name = provider.name
    except Exception:  # noqa: BLE001 - other people's code; one without a name is found by its plugin's
        return ""
    return name if isinstance(name, str) else ""


# --- choosing


def read_chosen() -> str:
    """The provider that the settings name; empty: none."""
    try:
        name = cli_config.load_settings().memory.provider
    except ConfigProblem as problem:
        log.warning("memory.provider cannot be read: %s", problem)
        return ""
    return "" if name in NONE else name


def load_memory_provider(name: str) -> MemoryProvider | None:
    """A new provider of this name; None when there is none, or (logged) when it fails."""
    try:
        return _make(name)
    except plugin_seals.CodeChanged as problem:
        log.warning("memory provider %s", problem)
    except CannotLoad as problem:
        log.warning("%s", problem)
    return None


def select_memory_provider(name: str) -> MemoryChoice:
    """A new provider that says that it is available; else what is wrong and what to do."""
    if is_set("HERMES_SAFE_MODE"):
        return MemoryChoice(None, "HERMES_SAFE_MODE is set, so no memory provider is loaded.")
    try:
        provider = _make(name)
    except plugin_seals.CodeChanged as problem:
        return MemoryChoice(None, f"The memory provider {problem.what}", problem.fix)
    except CannotLoad as problem:
        return MemoryChoice(None, problem.what, problem.fix)
    if provider is None:
        return MemoryChoice(None, f"There is no memory provider called '{name}'.", describe_others(name))
    heard: list[str] = []
    calls = ProviderCalls(name, heard.append)
    if calls.ask("is_available", lambda: bool(provider.is_available()), None):
        return MemoryChoice(provider)
    if heard:
        return MemoryChoice(None, heard[-1], SETUP.format(name=name))
    missing = list_missing(provider, calls)
    why = f"{', '.join(missing)} is not set" if missing else "something that it needs is missing"
    return MemoryChoice(None, f"The memory provider {name} is not available: {why}.", SETUP.format(name=name))


def describe_others(name: str) -> str:
    """What may have been meant."""
    others = [other for other in list_all_names() if other != name]
    known = f"There is {', '.join(others)}." if others else f"Providers stand in {get_hermes_home() / 'plugins'}."
    return f"{known} `hermes memory off` goes on without one."


def list_missing(provider: MemoryProvider, calls: ProviderCalls | None = None) -> list[str]:
    """The variables that a provider asks for and that are not set."""
    calls = calls or ProviderCalls(_read_name(provider), lambda sentence: None)
    rows: list[Any] = calls.ask("get_config_schema", lambda: list(provider.get_config_schema() or ()), [])
    wanted = (row for row in rows if isinstance(row, Mapping) and row.get("required") and row.get("env_var"))
    return [str(row["env_var"]) for row in wanted if not cli_config.env_value(str(row["env_var"]))]


def find_change() -> plugin_seals.CodeChanged | None:
    """Why the provider that the settings name would not be loaded, if its code has changed."""
    chosen = read_chosen()
    code = find_own_code(chosen)
    return None if code is None else plugin_seals.find_change(name_seal(chosen), code)


def find_own_code(name: str) -> Path | None:
    """The folder or file of a provider that did not come along."""
    folder = find_provider_dir(name)
    if folder is not None:
        return None if folder.parent == _BUNDLED else folder
    point = _find_entry_point(name) if name else None
    return find_module_code(point.module) if point is not None else None


def name_seal(name: str) -> str:
    """What the record of a provider's code is called."""
    return f"memory/{name}"


@dataclass(frozen=True, slots=True)
class BackupPaths:
    """What the provider that the settings name wants in a back-up besides what stands under its name in the home."""

    provider: str = ""
    paths: tuple[Path, ...] = ()
    problem: str = ""


def find_backup_paths() -> BackupPaths:
    """Asks the provider; one that cannot be made, raises or hangs is a problem to tell, and no obstacle."""
    name = read_chosen()
    if not name:
        return BackupPaths()
    try:
        provider = None if is_set("HERMES_SAFE_MODE") else _make(name)
    except HermesError as problem:
        return BackupPaths(name, problem=str(problem))
    if provider is None:
        return BackupPaths(name, problem="it was not loaded.")
    heard: list[str] = []
    nothing: list[Any] = []
    given = ProviderCalls(name, heard.append).ask("backup_paths", lambda: list(provider.backup_paths()), nothing)
    paths = (expand_home(str(path)) for path in given if isinstance(path, str | Path) and str(path))
    return BackupPaths(name, tuple((get_hermes_home() / path).resolve() for path in paths), "".join(heard[-1:]))


# --- what went wrong last


def note_problem(name: str, sentence: str) -> None:
    """Keep the last fault of a provider, for whoever asks later and from elsewhere."""
    path, now = get_hermes_home() / _LAST_PROBLEM, time.time()
    known = read_problem()
    if known.get("problem") == sentence and now - float(known.get("at", 0)) < _SAME_SECONDS:
        return
    told = {"provider": name, "problem": cli_config.redactor()(sentence), "at": now}
    try:
        with hold_folder(path.parent):
            replace_file(path, json.dumps(told, ensure_ascii=False))
    except OSError as problem:
        log.warning("%s cannot be written: %s", path, problem)


def read_problem() -> dict[str, Any]:
    """The last fault: provider, problem, at; empty when there was none."""
    try:
        kept = json.loads((get_hermes_home() / _LAST_PROBLEM).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) and isinstance(kept.get("at"), int | float) else {}


# --- making one


def _make(name: str) -> MemoryProvider | None:
    """From the folder of this name, else from an installed package, else from a plugin; None: nobody has it. CannotLoad
    and CodeChanged say why one that is there is not used."""
    folder = find_provider_dir(name) if name else None
    folder = None if folder is not None and _is_pretending(name, folder) else folder
    cli_config.lend_env()  # its code may look for its key there when it is imported
    try:
        if folder is not None:
            found = _find_provider(_import_provider(name, folder), name)
        elif (point := _find_entry_point(name) if name else None) is not None:
            code = find_own_code(name)
            if code is not None:
                plugin_seals.allow(plugin_seals.check(name_seal(name), code))
            found = _find_provider(point.load(), name)
        else:
            owner, offered = _list_offers().get(name, ("", None))
            found = None if offered is None else _make_again(owner, offered)
            if found is None:
                return None
    except (plugin_seals.CodeChanged, *STOPS):
        raise
    except BaseException as problem:
        log.warning("memory provider %s could not be loaded", name, exc_info=True)
        what = f"{type(problem).__name__}: {problem}".rstrip(": ")
        raise CannotLoad(f"The memory provider {name} could not be loaded ({what}).", fix=_put_right(name)) from problem
    if found is None:
        raise CannotLoad(f"The plugin {name} holds no memory provider.", fix=_put_right(name))
    return found


def _is_pretending(name: str, folder: Path) -> bool:
    """Whether a folder that nobody agreed to has the name of what an enabled plugin offers from elsewhere: the setting
    means that one (G10)."""
    if folder.parent == _BUNDLED or plugin_seals.is_agreed(name_seal(name)):
        return False
    owner, _ = _list_offers().get(name, ("", None))
    return owner != "" and plugin_host.get_plugin_manager()._plugins[owner].manifest.path != str(folder)


def _put_right(name: str) -> str:
    return f"Look at its documentation, and at the log; `hermes memory status` tries {name} again."


def _import_provider(name: str, folder: Path) -> ModuleType:
    """The folder as a module, imported once as long as the name stands for the same folder. Only what it imports by
    itself is imported of the files beside: a checkout holds a `setup.py` that must not be run."""
    package = __name__ if folder.parent == _BUNDLED else _USER_PACKAGE
    module_name = f"{package}.{name.replace('.', '_')}"
    with _importing:
        known = sys.modules.get(module_name)
        if known is not None and known.__file__ == str(folder / "__init__.py"):
            return known
        if package == _USER_PACKAGE:
            if package not in sys.modules:
                parent = sys.modules[package] = ModuleType(package, "Memory providers from folders of the home.")
                parent.__path__ = []
            plugin_seals.allow(plugin_seals.check(name_seal(name), folder))
        module = import_folder(module_name, folder)
        if package == _USER_PACKAGE:
            plugin_seals.settle(name_seal(name), folder)
        return module


def _find_provider(loaded: Any, name: str) -> MemoryProvider | None:
    """From a module with `register` or a class, from such a function, from a class, or the thing itself."""
    register = loaded if inspect.isroutine(loaded) else getattr(loaded, "register", None)
    if isinstance(loaded, MemoryProvider):
        return loaded
    if callable(register) and not inspect.isclass(loaded):
        collector = ProviderCollector(name)
        register(collector)
        if collector.provider is not None:
            return collector.provider
    candidates = (
        [loaded] if inspect.isclass(loaded) else list(vars(loaded).values()) if inspect.ismodule(loaded) else []
    )
    for candidate in candidates:
        if not inspect.isclass(candidate) or not issubclass(candidate, MemoryProvider) or inspect.isabstract(candidate):
            continue
        try:
            return candidate()
        except Exception as problem:  # noqa: BLE001 - a class that wants more is no offer; the next one may be
            log.debug("%s cannot be made without arguments: %s", candidate, problem)
    return None


def _make_again(owner: str, offered: Any) -> MemoryProvider:
    """Another provider like the one that a plugin offers: each agent has its own. One that cannot be made twice is
    shared."""
    manager = plugin_host.get_plugin_manager()
    collector = ProviderCollector(manager._plugins[owner].manifest.name)
    manager.register_again(owner, collector)
    if collector.provider is not None:
        return collector.provider
    log.warning("all agents share the one memory provider of plugin %s", owner)
    provider: MemoryProvider = offered
    return provider


class ProviderCollector:
    """The `ctx` of a provider's `register`: takes the provider, and whatever else is registered is not for this way."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.provider: MemoryProvider | None = None

    @property
    def data_folder(self) -> Path:
        """Where it keeps what it writes, as for any plugin."""
        return make_data_folder(self._name)

    def register_memory_provider(self, provider: Any) -> None:
        if self.provider is None:
            self.provider = provider

    def __getattr__(self, name: str) -> Any:
        """Every other `register_…`: a provider that is a plugin, too, brings its tools and commands that way."""
        if not name.startswith("register_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


# --- commands of the active provider


def describe_cli_command() -> BroughtCommand | None:
    """That the chosen provider has a subcommand, by its files: none of its code runs."""
    name = read_chosen()
    folder = find_provider_dir(name) if name else None
    if folder is None or not (folder / "cli.py").is_file():
        return None
    return BroughtCommand(name, str((read_manifest_fields(folder) or {}).get("description") or ""), name)


def discover_plugin_cli_commands() -> list[dict[str, Any]]:
    """The subcommand of `hermes` that the chosen provider brings in its `cli.py`; at most one."""
    told = describe_cli_command()
    folder = find_provider_dir(told.name) if told is not None else None
    if told is None or folder is None:
        return []
    name = told.name
    try:
        module = _import_provider(name, folder)
        commands = importlib.import_module(f"{module.__name__}.cli")
    except (Exception, SystemExit):
        log.warning("the commands of memory provider %s cannot be loaded", name, exc_info=True)
        return []
    setup: Callable[[argparse.ArgumentParser], Any] | None = getattr(commands, "register_cli", None)
    if not callable(setup):
        return []
    return [
        {
            "name": name,
            "help": told.help or f"Commands of the memory provider {name}.",
            "description": told.help,
            "setup_fn": setup,
            "handler_fn": getattr(commands, f"{name.replace('-', '_')}_command", None),
            "plugin": name,
        }
    ]
