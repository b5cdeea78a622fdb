"""Imports the code of one plugin, from its folder or from its entry point, and finds the function that registers it."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import providers
from hermes_base.errors import HermesError
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_records import PluginManifest
from hermes_cli.plugins.plugin_sources import find_entry_point, find_module_code

PACKAGE = "hermes_plugins"
_INIT = "__init__.py"

Register = Callable[[Any], Any]


class PluginLoadError(HermesError):
    """A plugin has not the shape of one."""


def load_plugin(manifest: PluginManifest) -> tuple[ModuleType | None, Register]:
    """A plugin's module and its `register`; raises CodeChanged, PluginLoadError, or whatever its code raises."""
    code = find_code(manifest)
    if code is not None:
        plugin_seals.allow(plugin_seals.check(manifest.id, code))
    providers_before = providers.count_registered()
    if manifest.source == "entrypoint":
        return _load_entry_point(manifest, code)
    if PACKAGE not in sys.modules:  # the empty package that all folder plugins live in
        package = sys.modules[PACKAGE] = ModuleType(PACKAGE, "Plugins that were loaded from folders.")
        package.__path__ = []
    slug = re.sub(r"\W", "_", manifest.id.replace("/", "__"))
    module = import_folder(f"{PACKAGE}.{slug}", Path(manifest.path or ""))
    if providers.registered_since(providers_before) and not callable(getattr(module, "register", None)):
        return module, _register_nothing  # what brings a provider of models may have done all at its import
    return module, _find_register(module)


def settle_code(manifest: PluginManifest) -> None:
    """It has registered: what it wrote beside its code meanwhile is its own."""
    code = find_code(manifest)
    if code is not None:
        plugin_seals.settle(manifest.id, code)


def _register_nothing(context: Any) -> None:
    del context


def find_code(manifest: PluginManifest) -> Path | None:
    """The folder or file whose code needs consent; None: it is a part of this program, or there is nothing to run."""
    if manifest.source == "bundled":
        return None
    if manifest.source == "entrypoint":
        point = find_entry_point(manifest.name)
        return find_module_code(point.module) if point is not None else None
    return Path(manifest.path or "")


def _load_entry_point(manifest: PluginManifest, code: Path | None) -> tuple[ModuleType | None, Register]:
    point = find_entry_point(manifest.name)
    if point is None:
        raise PluginLoadError(f"The entry point {manifest.name} is gone.")
    top = point.module.partition(".")[0]
    if code is not None and top not in sys.modules and code.stem == top:
        _import_file(top, code / _INIT if code.is_dir() else code, code if code.is_dir() else None)
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


def import_folder(name: str, folder: Path) -> ModuleType:
    """Import a folder under this module name, anew each time, so that its relative imports work."""
    init = folder / _INIT
    if not init.is_file():
        raise PluginLoadError(f"{folder} has no {_INIT}")
    return _import_file(name, init, folder)


def _import_file(name: str, file: Path, folder: Path | None) -> ModuleType:
    _forget_module(name)
    importlib.invalidate_caches()
    inner = [str(folder)] if folder is not None else None
    loader = plugin_seals.SealedSource(name, str(file)) if plugin_seals.is_allowed(str(file)) else None
    spec = importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=inner)
    if spec is None or spec.loader is None:
        raise PluginLoadError(f"{file} cannot be imported")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        _forget_module(name)
        raise
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


def _forget_module(name: str) -> None:
    for known in [known for known in sys.modules if known == name or known.startswith(name + ".")]:
        del sys.modules[known]
