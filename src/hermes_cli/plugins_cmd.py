"""`hermes plugins`: lists plugins with their state, and enables or disables one in the settings."""

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from hermes_base.errors import ConfigProblem
from hermes_cli import config
from hermes_cli import plugins as plugin_host
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_loading import find_code
from hermes_cli.plugins.plugin_platforms import OWN_ACCESS, has_own_access
from hermes_cli.plugins.plugin_records import LoadedPlugin, PluginManifest
from hermes_cli.plugins.plugin_sources import find_manifests, is_set
from plugins import context_engine

_YES = frozenset({"y", "yes"})
_SAFE_MODE = "HERMES_SAFE_MODE is set, so no plugin is loaded."
#: What the list says of plugins that were not loaded, by the error they carry.
_STATES: Mapping[str | None, str] = MappingProxyType({plugin_host.DISABLED: "disabled", plugin_host.NOT_ENABLED: "off"})


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes plugins", description="List, enable and disable plugins.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|enable|disable")
    actions.add_parser("list", help="print the plugins that are installed, and what became of them")
    enable = actions.add_parser("enable", help="let a plugin run")
    enable.add_argument("name", metavar="NAME")
    enable.add_argument(
        "--allow-own-access",
        dest="own_access",
        action=argparse.BooleanOptionalAction,
        help="whether its chat platform may let people in by rules of its own",
    )
    disable = actions.add_parser("disable", help="keep a plugin from running")
    disable.add_argument("name", metavar="NAME")
    parsed = parser.parse_args(args)
    return _ACTIONS[parsed.action](parsed)


# --- list


def _list(parsed: argparse.Namespace) -> int:  # noqa: ARG001 - all actions are called alike
    if is_set("HERMES_SAFE_MODE"):
        print(_SAFE_MODE)
        return 0
    plugin_host.discover_plugins()
    known = plugin_host.get_plugin_manager()._plugins
    for key in sorted(known):
        print(_describe(known[key]))
    if not known:
        print(f"No plugins. Put one into {config.get_hermes_home() / 'plugins'}, then: hermes plugins enable NAME")
    missing = _list_enabled() - _collect_names([plugin.manifest for plugin in known.values()])
    for name in sorted(missing):
        print(f"{name}: missing; plugins.enabled names it, but it is not installed")
    change = context_engine.find_change()
    if change is not None:
        print(change)
    print("Context engines: " + ", ".join(name for name, _ in _discover_context_engines()))
    return 0


def _describe(plugin: LoadedPlugin) -> str:
    manifest = plugin.manifest
    facts = ", ".join(fact for fact in (_name_state(plugin), manifest.source, manifest.version) if fact)
    lines = [f"{manifest.id}: {facts}"]
    if manifest.description:
        lines.append(f"    {manifest.description}")
    if plugin.error not in _STATES and plugin.error is not None:
        lines.append(f"    {plugin.error}")
    return "\n".join(lines)


def _name_state(plugin: LoadedPlugin) -> str:
    if plugin.deferred:
        return "when needed"
    if plugin.enabled:
        return "on"
    if plugin.changed:
        return "changed"
    if plugin.error is None:
        return "chosen by its own setting"
    return _STATES.get(plugin.error, "failed")


def _discover_context_engines() -> list[tuple[str, str]]:
    """Name and description of every engine that `context.engine` may name; one with a folder wins over a plugin's."""
    engines = {name: description for name, description, _ in context_engine.discover_context_engines()}
    plugin_host.discover_plugins()
    registered = plugin_host.get_plugin_context_engine()
    name = getattr(registered, "name", None)
    if isinstance(name, str) and name:
        engines.setdefault(name, "from a plugin")
    return list(engines.items())


# --- enable, disable


def _enable(parsed: argparse.Namespace) -> int:
    manifest = _find_plugin(parsed.name)
    if _agree_to_engine(parsed.name, manifest):
        return 0
    if manifest is None:
        raise _report_unknown(parsed.name)
    if manifest.kind == "exclusive":
        fix = f"For a memory provider: hermes config set memory.provider {Path(manifest.path or '').name}"
        raise ConfigProblem(f"{manifest.id} is chosen by its own setting, not by its name here.", fix=fix)
    own = {manifest.id, manifest.name}
    _write_names("disabled", _read_names("disabled", without=own))
    if not own & _list_enabled():
        _write_names("enabled", [*_read_names("enabled"), manifest.id])
    code = find_code(manifest)
    if code is not None:
        plugin_seals.agree(manifest.id, code)
    if is_set("HERMES_SAFE_MODE"):
        print(f"{manifest.id} is enabled. {_SAFE_MODE}")
        return 0
    plugin_host.discover_plugins(force=True)  # that it is enabled says nothing before it was seen to work
    plugin = plugin_host.get_plugin_manager()._plugins.get(manifest.id)
    if plugin is None or plugin.error is not None:
        reason = plugin.error if plugin else "it is gone"
        print(f"{manifest.id} is enabled, but it could not be loaded: {reason}")
        return 1
    print(f"{manifest.id} is enabled ({_name_state(plugin)}). It takes effect at the next start.")
    _ask_own_access(manifest, parsed.own_access)
    return 0


def _ask_own_access(manifest: PluginManifest, given: bool | None) -> None:
    """Whether a plugin with a chat platform may decide who may write there: the owner's word, and no if there is
    none (G1)."""
    offers = plugin_host.find_offers("platform")
    labels = [entry.label for entry in offers if entry.plugin_name == manifest.name]
    if not labels or (given is None and has_own_access(manifest.id)):
        return
    if given is None and sys.stdin.isatty() and sys.stdout.isatty():
        print(f"Whoever writes to {' and '.join(labels)} gets a code, which you approve or not.")
        given = input("May the plugin let people in by rules of its own instead? [no]: ").strip().lower() in _YES
    if given is not None:
        config.set_path(("plugins", "entries", manifest.id, OWN_ACCESS), given)
        how = "lets people in by rules of its own" if given else "lets nobody in by itself"
        print(f"{manifest.id} {how} (plugins.entries.{manifest.id}.{OWN_ACCESS}).")


def _agree_to_engine(name: str, manifest: PluginManifest | None) -> bool:
    """Let a context engine of the home run as it is now; False: the name is not one's, or a plugin's."""
    engine = name.removeprefix("context_engine/")
    folder = context_engine.find_own_folder(engine)
    if folder is None or (manifest is not None and manifest.path != str(folder)):
        return False
    plugin_seals.agree(context_engine.name_seal(engine), folder)
    print(f"The context engine {engine} may run as it is now, once context.engine names it.")
    return True


def _disable(parsed: argparse.Namespace) -> int:
    manifest = _find_plugin(parsed.name)
    own = {manifest.id, manifest.name} if manifest else {parsed.name}
    if manifest is None and parsed.name not in _list_enabled():
        raise _report_unknown(parsed.name)
    _write_names("enabled", _read_names("enabled", without=own))
    key = manifest.id if manifest else parsed.name
    _write_names("disabled", [*_read_names("disabled", without=own), key])
    print(f"{key} is disabled. It takes effect at the next start.")
    return 0


def _find_plugin(name: str) -> PluginManifest | None:
    manifests = find_manifests()
    by_key = (manifest for manifest in manifests if manifest.id == name)
    by_name = (manifest for manifest in manifests if manifest.name == name)
    return next(by_key, None) or next(by_name, None)


def _report_unknown(name: str) -> ConfigProblem:
    near = difflib.get_close_matches(name, _collect_names(find_manifests()), n=1, cutoff=0.5)
    fix = f"Did you mean {near[0]}?" if near else "`hermes plugins list` shows those that are installed."
    return ConfigProblem(f"There is no plugin called {name!r}.", kept="Nothing was changed.", fix=fix)


def _collect_names(manifests: list[PluginManifest]) -> set[str]:
    return {name for manifest in manifests for name in (manifest.id, manifest.name)}


def _list_enabled() -> set[str]:
    return set(_read_names("enabled"))


def _read_names(setting: str, without: set[str] | None = None) -> list[str]:
    names: tuple[str, ...] = getattr(config.load_settings().plugins, setting)
    return [name for name in names if name not in (without or ())]


def _write_names(setting: str, names: list[str]) -> None:
    if names != _read_names(setting):
        config.set_value(f"plugins.{setting}", json.dumps(names, ensure_ascii=False))


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {"list": _list, "enable": _enable, "disable": _disable}
)
