"""Finds plugins and reads their manifests, in folders and among installed packages; runs no code of theirs."""

import importlib.util
import logging
import os
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from ruamel.yaml.error import YAMLError

from hermes_cli.config.config_edit import parse_yaml
from hermes_cli.config.folder import find_folder
from hermes_cli.plugins.manifest_fields import read_fields
from hermes_cli.plugins.plugin_records import KINDS, MODEL_PROVIDER, PluginManifest
from hermes_constants import get_hermes_home, is_set
from hermes_constants.ordinary_files import expand_home

log = logging.getLogger("hermes_cli.plugins")

ENTRY_POINTS_GROUP = "hermes_agent.plugins"
MANIFESTS = ("plugin.yaml", "plugin.yml")
_PLATFORMS = "platforms"
_MODEL_PROVIDERS = "model-providers"
#: Bundled folders with a loader of their own.
_OTHER_LOADERS = frozenset({"memory", "context_engine", _MODEL_PROVIDERS, _PLATFORMS})
_SCANNED_CHARS = 8192


def find_manifests() -> list[PluginManifest]:
    """All plugins there are, enabled or not; of two with one key the later source counts."""
    found: dict[str, PluginManifest] = {}
    for manifest in _search():
        if found.pop(manifest.key, None) is not None:
            log.debug("plugin %s: the one from %s counts", manifest.key, manifest.source)
        found[manifest.key] = manifest
    return list(found.values())


def _search() -> Iterator[PluginManifest]:
    """Bundled plugins, those of the home and of the project, and installed packages, in this order."""
    named = os.environ.get("HERMES_BUNDLED_PLUGINS", "").strip()
    root = Path(expand_home(named)) if named else Path(__file__).resolve().parents[2] / "plugins"
    yield from _scan(root, "bundled", skipped=_OTHER_LOADERS)
    yield from _scan(root / _PLATFORMS, "bundled")
    yield from _scan(get_hermes_home() / "plugins", "user")
    if is_set("HERMES_ENABLE_PROJECT_PLUGINS"):
        yield from _scan(find_folder() / ".hermes" / "plugins", "project")
    for point in metadata.entry_points(group=ENTRY_POINTS_GROUP):
        version = point.dist.version if point.dist is not None else ""
        yield PluginManifest(point.name, version=version, source="entrypoint", path=point.value, key=point.name)


def find_entry_point(name: str) -> metadata.EntryPoint | None:
    """The entry point that `find_manifests` listed under this name."""
    return next(iter(reversed(tuple(metadata.entry_points(group=ENTRY_POINTS_GROUP, name=name)))), None)


def find_module_code(module: str) -> Path | None:
    """The folder or file that an installed module's code stands in, as its outermost package; imports nothing."""
    top, _, rest = module.partition(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.origin and Path(spec.origin).is_file():
        return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
    inner = rest.partition(".")[0]  # of a namespace, which belongs to several
    places = [Path(place, inner) for place in spec.submodule_search_locations or () if inner]
    found = (each for place in places for each in (place, place.with_suffix(".py")) if each.exists())
    return next(found, None)


# --- folders


def _scan(root: Path, source: str, skipped: frozenset[str] = frozenset()) -> Iterator[PluginManifest]:
    """The plugins in a folder; a child without a manifest is a category, searched one level deeper."""
    for child in list_folders(root):
        if child.name in skipped or child.name.startswith("."):  # what is hidden is no plugin (yet)
            continue
        if find_manifest_file(child) is not None:
            yield from _read_manifest(child, source)
            continue
        for grandchild in list_folders(child):
            yield from _read_manifest(grandchild, source, category=child.name)
            if child.name == _MODEL_PROVIDERS:
                yield from _find_bare_provider(grandchild, source)


def _find_bare_provider(folder: Path, source: str) -> Iterator[PluginManifest]:
    """A folder among the model providers is one without a manifest, too."""
    is_bare = find_manifest_file(folder) is None and not folder.name.startswith(("_", "."))
    if is_bare and (folder / "__init__.py").is_file():
        key = f"{_MODEL_PROVIDERS}/{folder.name}"
        yield PluginManifest(folder.name, source=source, path=str(folder), kind=MODEL_PROVIDER, key=key)


def list_folders(root: Path) -> list[Path]:
    """The folders in a folder (links to folders too), sorted; none when it cannot be read."""
    try:
        return sorted(child for child in root.iterdir() if child.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        log.warning("%s cannot be searched for plugins: %s", root, problem)
        return []


def find_manifest_file(folder: Path) -> Path | None:
    return next((folder / name for name in MANIFESTS if (folder / name).is_file()), None)


def read_manifest_fields(folder: Path) -> Mapping[str, Any] | None:
    """What a folder's manifest says; None when it has none, or (logged) when it cannot be read."""
    file = find_manifest_file(folder)
    if file is None:
        return None
    try:
        fields = parse_yaml(file.read_text(encoding="utf-8-sig"))
    except (OSError, YAMLError, ValueError) as problem:
        log.warning("%s cannot be read, so the plugin is left out: %s", file, problem)
        return None
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        log.warning("%s holds no fields, so the plugin is left out", file)
        return None
    return fields


def _read_manifest(folder: Path, source: str, category: str = "") -> Iterator[PluginManifest]:
    fields = read_manifest_fields(folder)
    if fields is None:
        return
    read = read_fields(fields)
    name = read.texts["name"] or folder.name
    yield PluginManifest(
        name,
        version=read.texts["version"],
        description=read.texts["description"],
        author=read.texts["author"],
        requires_env=read.lists["requires_env"],
        provides_tools=read.lists["provides_tools"],
        provides_hooks=read.lists["provides_hooks"],
        source=source,
        path=str(folder),
        kind=_read_kind(read.texts["kind"], folder),
        key=f"{category}/{folder.name}" if category else name,
        faults=tuple(read.faults),
    )


def _read_kind(named: str, folder: Path) -> str:
    """What the manifest says, else what the start of the code speaks of; the text is read, not run."""
    kind = named.lower()
    if kind in KINDS:
        return kind
    if kind:
        log.warning("plugin %s is of the unknown kind '%s'; it counts as standalone", folder.name, kind)
        return "standalone"
    try:
        with (folder / "__init__.py").open(encoding="utf-8", errors="replace") as file:
            code = file.read(_SCANNED_CHARS)
    except OSError:
        code = ""
    if "register_memory_provider" in code or "MemoryProvider" in code:
        return "exclusive"
    if "register_provider" in code and "ProviderProfile" in code:
        return MODEL_PROVIDER
    return "standalone"
