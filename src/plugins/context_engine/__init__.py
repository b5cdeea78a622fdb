"""Finds and makes context engines: the one that `context.engine` names, from a folder of its own or from a plugin.

Naming an engine in the settings is the consent to run it; folders that merely exist are listed, not run.
"""

import inspect
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from agent.context_engine import ContextEngine
from hermes_base.errors import STOPS, ConfigProblem
from hermes_cli import config as cli_config
from hermes_cli import plugins as plugin_host
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_loading import import_folder
from hermes_cli.plugins.plugin_sources import list_folders, read_manifest_fields
from hermes_constants import get_hermes_home
from hermes_constants.home_names import make_data_folder

log = logging.getLogger(__name__)

BUILT_IN = "compressor"
MISSING = "There is no context engine called '{name}'; the built-in one is used."
MISSING_FIX = "Set context.engine to a name that `hermes plugins list` shows, or to compressor."
_OWNERS = "context-engine:"
_BUILT_IN_ROW = (BUILT_IN, "Built in: puts a summary in place of the middle of a long conversation.", True)
_BUNDLED = Path(__file__).resolve().parent
#: Our own engines need arguments; a module that merely imports one does not offer it.
_OWN_PACKAGE = "agent."


def discover_context_engines() -> list[tuple[str, str, bool]]:
    """Name, description and availability of the built-in engine and of all that have a folder with code in it; the
    bundled ones come first and win."""
    rows = {BUILT_IN: _BUILT_IN_ROW}
    chosen = _read_chosen()
    for folder in (folder for root in _list_roots() for folder in list_folders(root)):
        name = folder.name
        if name not in rows and _is_plain_name(name) and (folder / "__init__.py").is_file():
            description = str((read_manifest_fields(folder) or {}).get("description") or "")
            may_run = folder.parent == _BUNDLED or name == chosen
            rows[name] = (name, description, _is_available(name, may_run))
    return list(rows.values())


def load_context_engine(name: str) -> Any:
    """A new engine from the folder of this name; None when there is no such folder, another one is meant by the name,
    or (logged) it fails."""
    folder = _find_folder(name)
    if folder is None or _is_pretending(name, folder):
        return None
    try:
        module = _import_engine(name, folder)
        engine = _ask_register(name, module)
        engine = _build_from_class(module) if engine is None else engine
    except plugin_seals.CodeChanged as problem:
        log.warning("context engine %s", problem)
        return None
    except STOPS:
        raise
    except BaseException:
        log.warning("context engine %s could not be loaded from %s", name, folder, exc_info=True)
        return None
    if engine is None:
        log.warning("%s holds no context engine", folder)
    return engine


def select_context_engine(name: str, *, lend: bool = False) -> Any:
    """An engine for one agent, with `lend` the one that its plugin registered if nobody has it. None for the built-in
    one, which is also (logged) what an unknown name gets."""
    if not name or name == BUILT_IN:
        return None
    engine = load_context_engine(name)
    if engine is not None:
        return engine
    if _is_registered(name):
        return plugin_host.get_plugin_manager().make_context_engine(lend=lend)
    log.warning("there is no context engine called %s; the built-in one is used", name)
    return None


def prepare(name: str) -> str:
    """Make ready what the settings name, before the first agent: its slash commands are known, and those of an engine
    that is not named any more are gone. A sentence when there is no such engine."""
    plugin_host.get_plugin_manager().drop_commands(_OWNERS, keep=_OWNERS + name)
    if not name or name == BUILT_IN or load_context_engine(name) is not None or _is_registered(name):
        return ""
    sentence = MISSING.format(name=name)
    log.warning("%s %s", sentence, MISSING_FIX)
    return f"{sentence} {MISSING_FIX}"


def _is_registered(name: str) -> bool:
    return getattr(plugin_host.get_plugin_context_engine(), "name", None) == name


def _is_pretending(name: str, folder: Path) -> bool:
    """Whether a folder that nobody agreed to has the name of the engine of an enabled plugin that stands elsewhere: the
    setting means that one (G10)."""
    if folder.parent == _BUNDLED or plugin_seals.is_agreed(name_seal(name)) or not _is_registered(name):
        return False
    manager = plugin_host.get_plugin_manager()
    return manager._plugins[manager._engine_owner].manifest.path != str(folder)


def find_missing() -> str:
    """The engine that the settings name and that no folder holds; empty: there is one, or a plugin may bring it.
    Nothing of it is run."""
    chosen = _read_chosen()
    return "" if not chosen or chosen == BUILT_IN or _find_folder(chosen) is not None else chosen


# --- folders


def _list_roots() -> tuple[Path, Path]:
    return _BUNDLED, get_hermes_home() / "plugins" / "context_engine"


def _find_folder(name: str) -> Path | None:
    if not _is_plain_name(name):
        return None
    return next((root / name for root in _list_roots() if (root / name / "__init__.py").is_file()), None)


def _is_plain_name(name: str) -> bool:
    """Whether a name is one folder's, and no way to somewhere else."""
    return bool(name) and name[0] not in "._" and Path(name).name == name


def _read_chosen() -> str:
    try:
        return cli_config.load_settings().context.engine
    except ConfigProblem as problem:
        log.warning("context.engine cannot be read: %s", problem)
        return ""


def _is_available(name: str, may_run: bool) -> bool:
    """What the engine says of itself; one that may not run counts as available, since nobody can ask it."""
    if not may_run:
        return True
    engine = load_context_engine(name)
    ask = getattr(engine, "is_available", None)
    try:
        return engine is not None and (ask is None or bool(ask()))
    except Exception:
        log.warning("context engine %s cannot say whether it is available", name, exc_info=True)
        return False


# --- making an engine from a module


def _import_engine(name: str, folder: Path) -> ModuleType:
    """The folder as a module, imported once as long as the name stands for the same folder."""
    module_name = f"{__name__}.{name}"
    known = sys.modules.get(module_name)
    if known is not None and known.__file__ == str(folder / "__init__.py"):
        return known
    cli_config.lend_env()
    if folder.parent != _BUNDLED:
        plugin_seals.allow(plugin_seals.check(name_seal(name), folder))
    return import_folder(module_name, folder)


def name_seal(name: str) -> str:
    """What the record of an engine's code is called."""
    return f"context_engine/{name}"


def find_change() -> plugin_seals.CodeChanged | None:
    """Why the engine that the settings name would not be loaded, if its code has changed."""
    chosen = _read_chosen()
    folder = find_own_folder(chosen)
    return None if folder is None else plugin_seals.find_change(name_seal(chosen), folder)


def find_own_folder(name: str) -> Path | None:
    """The folder of an engine that the owner added."""
    folder = _find_folder(name)
    return None if folder is None or folder.parent == _BUNDLED else folder


def _ask_register(name: str, module: ModuleType) -> Any:
    register = getattr(module, "register", None)
    if not callable(register):
        return None
    collector = _EngineCollector(engine_name=name)
    try:
        register(collector)
    except Exception:
        log.warning("context engine %s failed to register", name, exc_info=True)
    return collector.engine


def _build_from_class(module: ModuleType) -> Any:
    """An object of the first engine class in the module that needs no arguments."""
    for candidate in vars(module).values():
        is_engine = inspect.isclass(candidate) and issubclass(candidate, ContextEngine)
        if not is_engine or inspect.isabstract(candidate) or candidate.__module__.startswith(_OWN_PACKAGE):
            continue
        try:
            return candidate()
        except Exception as problem:  # noqa: BLE001 - a class that wants more is no offer; the next one may be
            log.debug("%s cannot be made without arguments: %s", candidate, problem)
    return None


class _EngineCollector:
    """The `ctx` of an engine's folder: takes the engine (of any class) and slash commands, and ignores the rest."""

    def __init__(self, engine_name: str = "") -> None:
        self.engine: Any = None
        self._owner, self._name = _OWNERS + engine_name, engine_name

    @property
    def data_folder(self) -> Path:
        """Where it keeps what it writes, as for any plugin."""
        return make_data_folder(self._name)

    def register_context_engine(self, engine: Any) -> None:
        self.engine = engine

    def register_command(
        self, name: str, handler: Callable[[str], Any], description: str = "", args_hint: str = ""
    ) -> None:
        """Add a slash command for all; names that are built in or belong to a plugin are refused."""
        manager = plugin_host.get_plugin_manager()
        manager.add_command(name, handler, self._owner, description, args_hint, may_replace=False)

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        """Engines that are plugins too register more; on this way only the engine counts."""

    register_tool = register_hook = register_middleware = _ignore
    register_cli_command = register_skill = register_auxiliary_task = register_memory_provider = _ignore
