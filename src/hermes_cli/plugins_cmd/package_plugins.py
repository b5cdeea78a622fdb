"""Plugins that are installed Python packages: they announce themselves by an entry point, and pip brings them."""

import argparse
import re
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from hermes_base.errors import ConfigProblem, HermesError
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_loading import find_code
from hermes_cli.plugins.plugin_records import PluginManifest
from hermes_cli.plugins.plugin_sources import ENTRY_POINTS_GROUP, find_entry_point, find_manifests
from hermes_cli.plugins_cmd import plugin_choices, plugin_needs, plugin_placing, plugin_telling
from hermes_cli.plugins_cmd.plugin_asking import agree, require
from hermes_cli.plugins_cmd.plugin_looking import PluginLook, look
from hermes_cli.plugins_cmd.plugin_needs import PackagePlan
from hermes_cli.plugins_cmd.source_names import PluginSource


def make_plan(lines: Sequence[str], scratch: Path, free: Sequence[str] = ()) -> PackagePlan | None:
    """What pip would install; source packages only after a question of their own. None: a person said no."""
    try:
        return plugin_needs.plan(lines, scratch, free=free)
    except plugin_needs.PipFailed as problem:
        print(problem)
        print("With ready-made packages alone, and all that is installed as it is, this cannot be done.")
        if not agree("Try it with source packages, which run their own code while they are built?"):
            return None
        return plugin_needs.plan(lines, scratch, sources=True, free=free)


def install_package(source: PluginSource, parsed: argparse.Namespace) -> int:
    name = name_package(source.address)
    if not plugin_needs.is_ours_to_change():
        what = "The environment of Hermes cannot be changed from here."
        raise HermesError(what, kept="Nothing was installed.", fix=plugin_needs.name_command([source.address]))
    with plugin_placing.make_scratch() as scratch:
        found = make_plan([source.address], scratch)
        if found is None:
            return 1
        print(f"To be installed beside what is there: {', '.join(found.packages) or 'nothing'}")
        if parsed.dry_run:
            print("Nothing was changed (--dry-run).")
            return 0
        if found.packages:
            if not agree("Install them?", parsed.dependencies):
                print("Nothing was installed.")
                return 1
            plugin_needs.install(found, scratch)
    plugins = find_plugins(name)
    if not plugins:
        what = f"{name} is installed, but it is no plugin: it has no entry point {ENTRY_POINTS_GROUP}."
        raise ConfigProblem(what, fix=f"To take it away again: pip uninstall {name}")
    code = 0
    for manifest in plugins:
        print(f"{manifest.id} {manifest.version} is installed.")
        plugin_telling.tell_look(look_at(manifest))
        if agree(f"Enable {manifest.id} now?", parsed.enable):
            code = plugin_choices.enable(manifest) or code
        else:
            # That the settings name it is no consent to what came now (G10).
            kept = plugin_choices.read_names("enabled", without={manifest.id})
            plugin_choices.write_names("enabled", kept)
            print(f"It is off. To let it run: hermes plugins enable {manifest.id}")
    return code


def look_at(manifest: PluginManifest) -> PluginLook:
    code = find_code(manifest)
    return look(code) if code is not None else PluginLook()


def update_package(manifest: PluginManifest, yes: bool) -> int:
    name = find_package(manifest)
    before = metadata.version(name)
    was_agreed = plugin_choices.is_enabled(manifest) and _is_as_agreed(manifest)
    registered = look_at(manifest).describe()
    with plugin_placing.make_scratch() as scratch:
        found = make_plan([name], scratch, free=[name])
        if found is None:
            return 1
        if not found.packages:
            print(f"{name} {before} is the newest that fits.")
            return 0
        print(f"Installed: {name} {before}. To be installed: {', '.join(found.packages)}")
        if not require("Updating a plugin", "Update it?", yes):
            print("Nothing was changed.")
            return 1
        plugin_needs.install(found, scratch, free=[name])
    for line in sorted(set(look_at(manifest).describe()) ^ set(registered)):
        print(f"    {'-' if line in registered else '+'} {line}")
    if was_agreed:
        code = find_code(manifest)
        if code is not None:
            plugin_seals.agree(manifest.id, code)
        print(f"{manifest.id} is updated. It takes effect at the next start.")
    else:
        print(f"{manifest.id} is updated. To let it run: hermes plugins enable {manifest.id}")
    return 0


def remove_package(manifest: PluginManifest, yes: bool) -> int:
    name = find_package(manifest)
    if not plugin_needs.is_ours_to_change():
        what = "The environment of Hermes cannot be changed from here."
        raise HermesError(what, kept="Nothing was changed.", fix=f"pip uninstall {name}")
    if not require(f"Removing {name}", f"Uninstall the package {name}?", yes):
        print("Nothing was changed.")
        return 1
    plugin_needs.uninstall(name)
    plugin_choices.forget({manifest.id, manifest.name})
    plugin_seals.forget(manifest.id)
    print(f"{manifest.id} is removed, with its package {name}. What that package needed stays.")
    return 0


def find_plugins(package: str) -> list[PluginManifest]:
    """The plugins that a package announces."""
    return [known for known in find_manifests() if known.source == "entrypoint" and find_package(known) == package]


def find_package(manifest: PluginManifest) -> str:
    point = find_entry_point(manifest.name)
    return _normalize(point.dist.name) if point is not None and point.dist is not None else ""


def name_package(requirement: str) -> str:
    return _normalize(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])


def _is_as_agreed(manifest: PluginManifest) -> bool:
    code = find_code(manifest)
    return code is not None and plugin_seals.find_change(manifest.id, code) is None


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
