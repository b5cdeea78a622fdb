"""Which plugins may run, and what they may do: the settings that enabling and disabling edit."""

import argparse
import difflib
import json
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_cli import config
from hermes_cli.plugins import command_book, plugin_seals, set_aside
from hermes_cli.plugins.plugin_loading import find_code
from hermes_cli.plugins.plugin_records import PluginManifest
from hermes_cli.plugins.plugin_sources import find_manifests
from hermes_cli.plugins_cmd import plugin_telling
from hermes_cli.plugins_cmd.plugin_asking import agree, is_person_there
from hermes_cli.plugins_cmd.plugin_looking import PluginLook, look
from hermes_constants import is_set
from plugins import context_engine, memory

SAFE_MODE = "HERMES_SAFE_MODE is set, so no plugin is loaded."
HALF_LOADED = "What it registered before that works, until it is disabled."
OVERRIDE, OWN_ACCESS = "allow_tool_override", "allow_own_access"


# --- enable, disable


def run_enable(parsed: argparse.Namespace) -> int:
    manifest = find_plugin(parsed.name)
    if _agree_to_engine(parsed.name, manifest) or _agree_to_memory(parsed.name, manifest):
        return 0
    if manifest is None:
        raise report_unknown(parsed.name)
    return enable(manifest, parsed.allow_tool_override, parsed.own_access)


def enable(manifest: PluginManifest, allow_override: bool | None = None, own_access: bool | None = None) -> int:
    """Let a plugin run as it is now, and tell what it registered; the exit code."""
    code = find_code(manifest)
    _ask_grants(manifest.id, look(code) if code is not None else PluginLook(), allow_override, own_access)
    own = {manifest.id, manifest.name}
    write_names("disabled", read_names("disabled", without=own))
    if not own & set(read_names("enabled")):
        write_names("enabled", [*read_names("enabled"), manifest.id])
    if code is not None:
        plugin_seals.agree(name_seal(manifest), code)
    set_aside.forget(manifest.id)
    if manifest.kind == "exclusive":
        folder = Path(manifest.path or "").name
        print(f"{manifest.id} may run as it is now. It runs once its own setting names it.")
        print(f"For a memory provider: hermes memory setup {folder}")
        return 0
    if is_set("HERMES_SAFE_MODE"):
        print(f"{manifest.id} is enabled. {SAFE_MODE}")
        return 0
    return tell_enabled(manifest.id)


def tell_enabled(key: str) -> int:
    """Load all plugins anew and say how this one does: that it is enabled says nothing before it was seen to work."""
    records, told = plugin_telling.load(force=True)
    plugin = records._plugins.get(key)
    if plugin is None or plugin.error is not None:
        reason = plugin_telling.find_failure(plugin) if plugin else "it is gone"
        print(f"{key} is enabled, but it could not be loaded: {reason}")
        if plugin and plugin_telling.list_registered(plugin, records):
            print(HALF_LOADED)
        print(f"Where it failed: hermes plugins info {key}. To leave it out: hermes plugins disable {key}")
        return 1
    print(f"{key} is enabled ({plugin_telling.name_state(plugin)}). It takes effect at the next start.")
    plugin_telling.tell_loaded(plugin, records, told)
    return 0


def _ask_grants(key: str, found: PluginLook, allow_override: bool | None, own_access: bool | None) -> None:
    """What a plugin may do beyond the usual is asked for only where its code shows that it wants it."""
    entry = read_entry(key)
    if allow_override is None and found.overrides_tools and entry.get(OVERRIDE) is not True:
        allow_override = agree(f"{key} wants to replace tools that are there. May it?") or None
    if allow_override is not None and allow_override != (entry.get(OVERRIDE) is True):
        config.set_path(["plugins", "entries", key, OVERRIDE], allow_override)
    if own_access is None and found.has_own_access and entry.get(OWN_ACCESS) is not True and is_person_there():
        print(f"Whoever writes to you through {key} gets a code, which you approve or not.")
        own_access = agree("May it let people in by rules of its own instead?")
    if own_access is not None and own_access != entry.get(OWN_ACCESS):
        config.set_path(["plugins", "entries", key, OWN_ACCESS], own_access)


def _agree_to_engine(name: str, manifest: PluginManifest | None) -> bool:
    """Let a context engine of the home run as it is now; False: the name is not one's, or a plugin's."""
    engine = name.removeprefix("context_engine/")
    folder = context_engine.find_own_folder(engine)
    if folder is None or (manifest is not None and manifest.path != str(folder)):
        return False
    plugin_seals.agree(context_engine.name_seal(engine), folder)
    print(f"The context engine {engine} may run as it is now, once context.engine names it.")
    return True


def _agree_to_memory(name: str, manifest: PluginManifest | None) -> bool:
    """The same for a memory provider; one that is a plugin of another kind, too, is enabled as that."""
    provider = name.removeprefix("memory/")
    is_other = manifest is not None and manifest.kind != "exclusive"
    chosen = memory.read_chosen() == provider
    code = None if is_other or (provider == name and not chosen) else memory.find_own_code(provider)
    if code is None:
        return False
    plugin_seals.agree(memory.name_seal(provider), code)
    starts = "It takes effect with the next conversation; where older code of it was loaded, at the next start."
    then = starts if chosen else f"To use it: hermes memory setup {provider}"
    print(f"The memory provider {provider} may run as it is now. {then}")
    return True


def run_disable(parsed: argparse.Namespace) -> int:
    manifest = find_plugin(parsed.name)
    own = {manifest.id, manifest.name} if manifest else {parsed.name}
    if manifest is None and parsed.name not in read_names("enabled"):
        raise report_unknown(parsed.name)
    write_names("enabled", read_names("enabled", without=own))
    key = manifest.id if manifest else parsed.name
    write_names("disabled", [*read_names("disabled", without=own), key])
    command_book.forget(own)
    if manifest is not None and manifest.kind == "exclusive" and memory.read_chosen() == Path(manifest.path or "").name:
        print(f"{key} goes on as the memory: memory.provider names it, and that alone counts.")
        print("To end that: hermes memory off")
        return 0
    print(f"{key} is disabled. A running Hermes drops it within seconds.")
    return 0


# --- names


def find_plugin(name: str) -> PluginManifest | None:
    """By its key, its name, or the last part of its key."""
    manifests = find_manifests()
    by_key = (manifest for manifest in manifests if manifest.id == name)
    by_name = (manifest for manifest in manifests if manifest.name == name)
    by_leaf = (manifest for manifest in manifests if manifest.id.rpartition("/")[2] == name)
    return next(by_key, None) or next(by_name, None) or next(by_leaf, None)


def need_plugin(name: str) -> PluginManifest:
    found = find_plugin(name)
    if found is None:
        raise report_unknown(name)
    return found


def report_unknown(name: str) -> ConfigProblem:
    near = difflib.get_close_matches(name, collect_names(find_manifests()), n=1, cutoff=0.5)
    fix = f"Did you mean {near[0]}?" if near else "`hermes plugins list` shows those that are installed."
    return ConfigProblem(f"There is no plugin called {name!r}.", kept="Nothing was changed.", fix=fix)


def collect_names(manifests: list[PluginManifest]) -> set[str]:
    return {name for manifest in manifests for name in (manifest.id, manifest.name)}


# --- settings


def name_seal(manifest: PluginManifest) -> str:
    """What the record of its code is called: a memory has one of its own."""
    return memory.name_seal(Path(manifest.path or "").name) if manifest.kind == "exclusive" else manifest.id


def may_run(manifest: PluginManifest, folder: Path) -> bool:
    """Whether the owner lets it run as it is now: a plugin by enabling it, a memory by choosing it."""
    chosen = is_enabled(manifest)
    if manifest.kind == "exclusive":
        chosen = memory.read_chosen() == folder.name and plugin_seals.is_agreed(name_seal(manifest))
    return chosen and plugin_seals.find_change(name_seal(manifest), folder) is None


def is_enabled(manifest: PluginManifest) -> bool:
    own = {manifest.id, manifest.name}
    return bool(own & set(read_names("enabled"))) and not own & set(read_names("disabled"))


def read_entry(key: str) -> dict[str, object]:
    """What the settings hold for one plugin."""
    entry = config.load_settings().plugins.entries.get(key)
    return dict(entry) if isinstance(entry, dict) else {}


def read_names(setting: str, without: set[str] | None = None) -> list[str]:
    names: tuple[str, ...] = getattr(config.load_settings().plugins, setting)
    return [name for name in names if name not in (without or ())]


def write_names(setting: str, names: list[str]) -> None:
    if names != read_names(setting):
        config.set_value(f"plugins.{setting}", json.dumps(names, ensure_ascii=False))


def forget(names: set[str]) -> None:
    """The settings name the plugin no more, and neither does the help."""
    command_book.forget(names)
    for setting in ("enabled", "disabled"):
        write_names(setting, read_names(setting, without=names))
