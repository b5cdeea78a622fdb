"""`hermes plugins list`, `info` and `search`."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from ruamel.yaml.error import YAMLError

from hermes_base.errors import ConfigProblem
from hermes_base.text.harmless import clean_name
from hermes_cli import config
from hermes_cli import plugins as plugin_host
from hermes_cli.config.config_edit import parse_yaml
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_loading import find_code
from hermes_cli.plugins.plugin_records import LoadedPlugin, PluginManifest
from hermes_cli.plugins.plugin_sources import (
    find_manifest_file,
    find_manifests,
    list_folders,
    read_manifest_fields,
)
from hermes_cli.plugins_cmd import plugin_choices, plugin_placing, plugin_telling
from hermes_cli.plugins_cmd.plugin_looking import describe_kind, look
from hermes_constants import is_set
from hermes_constants.ordinary_files import expand_home
from plugins import context_engine, memory

_DEPTH = 3  # of folders in an index


# --- list


def run_list(parsed: argparse.Namespace) -> int:
    records = _load(sys.stderr if parsed.json or parsed.plain else sys.stdout)
    shown = [plugin for _, plugin in sorted(records._plugins.items()) if _is_wanted(plugin, parsed)]
    if parsed.json:
        print(json.dumps([plugin_telling.view(plugin, records) for plugin in shown], ensure_ascii=False, indent=2))
        return 0
    if parsed.plain:
        for plugin in shown:
            facts = plugin_telling.view(plugin, records)
            print("\t".join(clean_name(facts[name]) or "-" for name in ("status", "source", "version", "key")))
        return 0
    for plugin in shown:
        print(_describe(plugin))
    _tell_rest(records, shown, filtered=parsed.enabled or parsed.user or parsed.no_bundled)
    return 0


def _load(stream: TextIO) -> plugin_host.PluginManager:
    """The plugins of this home; in safe mode only what is there, and none of it is run."""
    if not is_set("HERMES_SAFE_MODE"):
        return plugin_telling.load()[0]
    print(plugin_choices.SAFE_MODE, file=stream)
    records = plugin_host.PluginManager()
    settings = config.load_settings().plugins
    for manifest in find_manifests():
        gate = plugin_host.decide_gate(manifest, settings.enabled, settings.disabled)
        off = gate in (plugin_host.PluginGate.DISABLED, plugin_host.PluginGate.NOT_ENABLED)
        records._plugins[manifest.id] = LoadedPlugin(manifest, enabled=not off, error=gate.value if off else None)
    return records


def _is_wanted(plugin: LoadedPlugin, parsed: argparse.Namespace) -> bool:
    if parsed.enabled and not (plugin.enabled or plugin_telling.find_failure(plugin)):
        return False
    source = plugin.manifest.source
    return not (parsed.user and source != "user") and not (parsed.no_bundled and source == "bundled")


def _describe(plugin: LoadedPlugin) -> str:
    manifest = plugin.manifest
    state = plugin_telling.name_state(plugin)
    facts = ", ".join(clean_name(fact) for fact in (state, manifest.source, manifest.version) if fact)
    lines = [f"{manifest.id}: {facts}"]
    if manifest.description:
        lines.append(f"    {clean_name(manifest.description)}")
    if reason := plugin_telling.find_failure(plugin) or plugin.set_aside:
        lines.append(f"    {reason.partition(chr(10))[0]}")
    return "\n".join(lines)


def _tell_rest(records: plugin_host.PluginManager, shown: list[LoadedPlugin], *, filtered: bool) -> None:
    if filtered:
        return
    if not shown:
        print(
            "No plugins. To get one: hermes plugins install owner/repo (or a folder), then: hermes plugins enable NAME"
        )
        print("To write one: hermes plugins new NAME")
    known = plugin_choices.collect_names([plugin.manifest for plugin in records._plugins.values()])
    for name in sorted(set(plugin_choices.read_names("enabled")) - known):
        print(f"{name}: missing; plugins.enabled names it, but it is not installed")
    for change in filter(None, (context_engine.find_change(), memory.find_change())):
        print(change)
    print("Context engines: " + ", ".join(name for name, _ in discover_context_engines()))


def discover_context_engines() -> list[tuple[str, str]]:
    """Name and description of every engine that `context.engine` may name; one with a folder wins over a plugin's."""
    engines = {name: description for name, description, _ in context_engine.discover_context_engines()}
    plugin_host.discover_plugins()
    registered = plugin_host.get_plugin_context_engine()
    name = getattr(registered, "name", None)
    if isinstance(name, str) and name:
        engines.setdefault(name, "from a plugin")
    return list(engines.items())


# --- info


def run_info(parsed: argparse.Namespace) -> int:
    manifest = plugin_choices.need_plugin(parsed.name)
    records, told = (_load(sys.stdout), []) if is_set("HERMES_SAFE_MODE") else plugin_telling.load()
    plugin = records._plugins[manifest.id]
    for line in _list_facts(plugin):
        print(line)
    if plugin.module is None and not plugin_telling.find_failure(plugin):
        code = find_code(manifest)
        if code is not None:
            plugin_telling.tell_look(look(code))
    registered = plugin_telling.list_registered(plugin, records)
    if registered:
        print("Registered:")
        for kind, names in registered.items():
            print(f"    {describe_kind(kind, names)}")
    notes = [*plugin_telling.list_to_know(plugin, records), *plugin_telling.list_notes(plugin, told)]
    if notes:
        print("To know:")
        for line in notes:
            print(f"    {line}")
    if reason := plugin.set_aside:
        print(f"Its hooks are set aside: {reason}. To have them called again: hermes plugins enable {manifest.id}")
    if reason := plugin_telling.find_failure(plugin):
        print(f"Last error: {reason}")
        if registered:
            print(plugin_choices.HALF_LOADED)
        print(config.redactor()(plugin.trace).rstrip())
    return 0


def _list_facts(plugin: LoadedPlugin) -> Iterator[str]:
    manifest = plugin.manifest
    yield f"{manifest.id}: {plugin_telling.name_state(plugin)}"
    facts = {"version": manifest.version, "description": manifest.description, "author": manifest.author}
    facts |= {"kind": manifest.kind, "source": manifest.source, "path": manifest.path or ""}
    origin = plugin_placing.read_origin(Path(manifest.path or "")) if manifest.source == "user" else None
    if origin is not None:
        facts |= {"installed from": str(origin.source), "commit": origin.commit}
    facts["code"] = _describe_seal(manifest)
    facts["variables"] = ", ".join(_list_variables(manifest))
    for name, value in facts.items():
        if value:
            yield f"    {name}: {clean_name(str(value))}"
    entry = config.load_settings().plugins.entries.get(manifest.id)
    if entry:
        shown = config.get_value("plugins.entries").get(manifest.id)  # what is secret in it is masked
        yield f"    settings (plugins.entries.{manifest.id}): {json.dumps(shown, ensure_ascii=False, default=str)}"


def _describe_seal(manifest: PluginManifest) -> str:
    code = find_code(manifest)
    if code is None:
        return "a part of Hermes"
    seal = plugin_choices.name_seal(manifest)
    change = plugin_seals.find_change(seal, code)
    if change is not None:
        return f"not what was enabled. {change}"
    return "as it was enabled" if plugin_seals.is_agreed(seal) else "never enabled"


def _list_variables(manifest: PluginManifest) -> Iterator[str]:
    for entry in manifest.requires_env:
        name = str(entry.get("name") if isinstance(entry, Mapping) else entry)
        if config.is_env_name(name):
            yield f"{name} ({'set' if config.env_value(name) else 'not set'})"


# --- search


def run_search(parsed: argparse.Namespace) -> int:
    named = str(parsed.folder or config.load_settings().plugins.index)
    if not named:
        fix = "Name a folder with plugins: --in FOLDER, or hermes config set plugins.index FOLDER"
        raise ConfigProblem("There is no index of plugins to search.", fix=fix)
    index = Path(expand_home(named))
    word = parsed.word.casefold()
    found = [entry for entry in _read_index(index) if word in f"{entry['name']} {entry['description']}".casefold()]
    for entry in sorted(found, key=lambda entry: entry["name"]):
        print(clean_name(f"{entry['name']} {entry['version']}".strip()))
        if entry["description"]:
            print(f"    {clean_name(entry['description'])}")
        print(f"    hermes plugins install {clean_name(entry['source'])}")
    if not found:
        print(f"No plugin in {index} speaks of {parsed.word!r}.")
    return 0 if found else 1


def _read_index(index: Path) -> list[dict[str, str]]:
    if index.is_dir():
        return list(_walk_index(index, _DEPTH))
    try:
        listed = parse_yaml(index.read_text(encoding="utf-8-sig"))
    except (OSError, YAMLError, ValueError) as problem:
        raise ConfigProblem(f"The index {index} cannot be read: {problem}") from problem
    rows = listed.get("plugins") if isinstance(listed, Mapping) else listed
    if not isinstance(rows, list):
        raise ConfigProblem(f"The index {index} holds no list of plugins.")
    return [_make_entry(row, str(row.get("source") or row.get("name"))) for row in rows if isinstance(row, Mapping)]


def _walk_index(folder: Path, depth: int) -> Iterator[dict[str, str]]:
    if find_manifest_file(folder) is not None:
        fields = read_manifest_fields(folder)
        if fields is not None:
            yield _make_entry({"name": folder.name, **fields}, str(fields.get("source") or folder))
        return
    for child in list_folders(folder) if depth else ():
        yield from _walk_index(child, depth - 1)


def _make_entry(row: Mapping[str, Any], source: str) -> dict[str, str]:
    return {**{name: str(row.get(name) or "") for name in ("name", "version", "description")}, "source": source}
