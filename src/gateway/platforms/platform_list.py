"""Finds the platforms: every folder beside this file that has a `SPEC`, and what plugins register at run time."""

import difflib
import importlib
import logging
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway import platforms
from gateway.platforms.face import Adapter, PlatformSpec
from hermes_base.errors import ConfigProblem

MakeAdapter = Callable[[str, Mapping[str, Any], Path], Adapter]

_BRIDGE = "plugin_bridge"  # a folder beside the platforms: what runs those of plugins

_log = logging.getLogger(__name__)
_registered: dict[str, tuple[PlatformSpec, MakeAdapter]] = {}
_known: dict[
    str, PlatformSpec
] = {}  # asked for with every message: what is registered, and each folder once it is read


def all_specs() -> list[PlatformSpec]:
    """Every platform there is, by name. A folder that cannot be read is told in the log and left out."""
    found = {spec.name: spec for name in _folder_names() if (spec := _read_folder(name))}
    found.update({name: spec for name, (spec, _) in _registered.items()})
    return [found[name] for name in sorted(found)]


def find_spec(name: str) -> PlatformSpec:
    """The platform of this name; ConfigProblem when there is none."""
    if name in _known:
        return _known[name]
    spec = _read_folder(name) if name in _folder_names() else None
    if spec is None:
        names = ", ".join(spec.name for spec in all_specs())
        raise ConfigProblem(f"There is no platform '{name}'.", fix=f"Those that exist: {names}.")
    return spec


def spec_of(name: str) -> PlatformSpec:
    """The same; one that went away since its message was stored is known by nothing but its name."""
    if name in _known:
        return _known[name]
    try:
        return find_spec(name)
    except ConfigProblem:
        return PlatformSpec(name, name, "")


def find_misspelt(names: Iterable[str]) -> Iterator[str]:
    """A sentence for each of these names that no platform has."""
    known = [spec.name for spec in all_specs()]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f". Did you mean {near[0]}?" if near else ", unless a plugin brings it."
            yield f"There is no platform '{name}'{hint}"


def make_adapter(spec: PlatformSpec, account: str, settings: Mapping[str, Any], home: Path) -> Adapter:
    """The adapter of one account. What it needs is imported only now, so a platform that is off costs nothing."""
    if spec.name in _registered:
        return _registered[spec.name][1](account, settings, home)
    module, _, name = spec.factory.partition(":")
    try:
        make: MakeAdapter | None = vars(importlib.import_module(module)).get(name)
    except ImportError as error:
        raise ConfigProblem(
            f"The platform {spec.label} cannot be loaded: {error}.",
            fix="Install what it needs, or take it out of the settings.",
        ) from error
    if make is None:
        raise ConfigProblem(
            f"The platform {spec.label} cannot be loaded: {module} has no {name!r}.",
            fix="Its SPEC names its adapter: `factory` is MODULE:CLASS.",
        )
    return make(account, settings, home)


def register(spec: PlatformSpec, make: MakeAdapter) -> None:
    """Add a platform that is no folder here (a plugin's); a later one of the same name takes its place."""
    _registered[spec.name] = (spec, make)
    _known[spec.name] = spec


def is_own(name: str) -> bool:
    """Whether it is a folder here, and no plugin's."""
    return name in _folder_names()


def unregister(name: str) -> None:
    """Take back what `register` added."""
    if _registered.pop(name, None) is not None:
        _known.pop(name, None)


def _folder_names() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules(platforms.__path__) if module.ispkg)
    return [name for name in found if name != _BRIDGE]


def _read_folder(name: str) -> PlatformSpec | None:
    full_name = f"{platforms.__name__}.{name}"
    try:
        module = sys.modules.get(full_name) or importlib.import_module(full_name)
    except Exception:  # noqa: BLE001 - somebody else's code: a broken folder must not take the others with it
        _log.exception("The platform in the folder '%s' cannot be read; it is left out.", name)
        return None
    spec = vars(module).get("SPEC")
    if isinstance(spec, PlatformSpec):
        return _known.setdefault(spec.name, spec) if spec.name not in _registered else spec
    _log.warning("The folder '%s' has no SPEC; it is no platform.", name)
    return None
