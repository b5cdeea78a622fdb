"""Imports the code of one plugin, from its folder or from its entry point, and finds the function that registers it."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hermes_base.errors import HermesError
from hermes_cli.plugin_records import PluginManifest
from hermes_cli.plugin_sources import find_entry_point

PACKAGE = "hermes_plugins"
_INIT = "__init__.py"

Register = Callable[[Any], Any]


class PluginLoadError(HermesError):
    """A plugin has not the shape of one."""


def load_plugin(manifest: PluginManifest) -> tuple[ModuleType | None, Register]:
    """A plugin's module and its `register`; raises PluginLoadError, or whatever its code raises."""
    if manifest.source == "entrypoint":
        return _load_entry_point(manifest)
    module = import_folder(f"{_ensure_package().__name__}.{_make_slug(manifest.id)}", Path(manifest.path or ""))
    return module, _find_register(module)


def _load_entry_point(manifest: PluginManifest) -> tuple[ModuleType | None, Register]:
    point = find_entry_point(manifest.name)
    if point is None:
        raise PluginLoadError(f"The entry point {manifest.name} is gone.")
    loaded = point.load()
    return sys.modules.get(point.module), _find_register(loaded)


def _find_register(loaded: Any) -> Register:
    """`register` of a module; an entry point may also name the function itself."""
    register: Any = getattr(loaded, "register", None)
    if not callable(register):
        register = loaded
    if not callable(register):
        raise PluginLoadError("no register() function")
    return register  # type: ignore[no-any-return]


def _make_slug(key: str) -> str:
    return re.sub(r"\W", "_", key.replace("/", "__"))


def _ensure_package() -> ModuleType:
    """The empty package that all folder plugins live in."""
    package = sys.modules.get(PACKAGE)
    if package is None:
        package = sys.modules[PACKAGE] = ModuleType(PACKAGE, "Plugins that were loaded from folders.")
        package.__path__ = []
    return package


def import_folder(name: str, folder: Path) -> ModuleType:
    """Import a folder under this module name, anew each time, so that its relative imports work."""
    init = folder / _INIT
    if not init.is_file():
        raise PluginLoadError(f"{folder} has no {_INIT}")
    _forget_module(name)
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise PluginLoadError(f"{init} cannot be imported")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        _forget_module(name)
        raise
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)
    return module


def _forget_module(name: str) -> None:
    for known in [known for known in sys.modules if known == name or known.startswith(name + ".")]:
        del sys.modules[known]
