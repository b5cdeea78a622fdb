"""`hermes plugins update` and `remove`: a newer version after a look at what changed, and the way out."""

import argparse
import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_base.text.harmless import clean_name, show_blanks, show_hidden
from hermes_cli import config
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.plugin_records import PluginManifest
from hermes_cli.plugins.plugin_sources import read_manifest_fields
from hermes_cli.plugins_cmd import package_plugins, plugin_choices, plugin_installing, plugin_needs, plugin_placing
from hermes_cli.plugins_cmd.plugin_asking import require
from hermes_cli.plugins_cmd.plugin_fetching import fetch, run_git
from hermes_cli.plugins_cmd.plugin_looking import look
from hermes_cli.plugins_cmd.plugin_placing import PluginOrigin
from hermes_cli.plugins_cmd.source_names import GIT, PluginSource
from hermes_constants import get_hermes_home, is_set
from hermes_constants.home_names import belongs_to, find_database
from plugins import context_engine

#: What becomes of a file of the owner's when a new version comes.
CARRIED, ASIDE = "carried over", "set aside"
ASIDE_ENDING = ".before-update"
_MOST_LINES = 300
_MOST_TOLD = 20  # of what goes or stays
_MOST_BYTES = 200_000
_UNCHANGED = "Nothing was changed."


# --- update


def run_update(parsed: argparse.Namespace) -> int:
    manifest = plugin_choices.need_plugin(parsed.name)
    if manifest.source == "entrypoint":
        return package_plugins.update_package(manifest, parsed.yes)
    folder = _find_own_folder(manifest)
    if folder.is_symlink():
        fix = f"After a change: hermes plugins enable {manifest.id}"
        raise ConfigProblem(f"{folder} is a link to {folder.resolve()}, which is yours to change.", fix=fix)
    origin = _find_origin(manifest, folder)
    with plugin_placing.make_scratch() as scratch:
        print(f"Fetching {origin.source} …", flush=True)
        coming = plugin_installing.prepare(fetch(origin.source, scratch), origin.source)
        if coming.name != manifest.name:
            what = f"The new version calls itself {coming.name!r}."
            raise ConfigProblem(what, kept="The old one stays as it is.", fix="Install it under its new name.")
        local = plugin_placing.list_files(folder)
        own = keep_own(origin.files, local, coming.files)
        after = {**coming.files, **{name: local[name] for name, fate in own.items() if fate == CARRIED}}
        if after == local:
            _note_commit(origin, coming)
            return 0
        _tell_changes(folder, coming.folder, local, coming.files, own, all_lines=parsed.diff)
        plugin_installing.tell_needs(coming.needs)
        plugin_installing.tell_left_out(coming)
        was_agreed = plugin_choices.may_run(manifest, folder)
        if not require(
            "Updating a plugin", "Update it, and let the new code run?" if was_agreed else "Update it?", parsed.yes
        ):
            print(_UNCHANGED)
            return 1
        plugin_installing.finish(coming)
        named = {name: name if fate == CARRIED else name + ASIDE_ENDING for name, fate in own.items()}
        plugin_placing.place(coming.folder, folder, scratch, True, named)
        plugin_installing.ask_variables(coming.fields)
        plugin_installing.install_needs(coming.needs, scratch, parsed.dependencies)
    if not was_agreed:
        print(f"{manifest.id} is updated. To let it run: hermes plugins enable {manifest.id}")
        return 0
    plugin_seals.agree(plugin_choices.name_seal(manifest), folder)
    print(f"{manifest.id} is updated.")
    if manifest.kind == "exclusive":
        print("It takes effect at the next start: a running Hermes that has loaded it goes on with the old code.")
        return 0
    return 0 if is_set("HERMES_SAFE_MODE") else plugin_choices.tell_enabled(manifest.id)


def keep_own(came: Mapping[str, str], local: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """What becomes of each file that is not as it came: one that the owner added or changed is never lost. A database
    is data, however it came there: with all that belongs to it, it stays."""
    fates = {}
    for name, digest in local.items():
        if find_database(name):
            fates[name] = CARRIED
            continue
        if new.get(name) == digest or came.get(name) == digest:
            continue  # nobody changed it here
        untouched = new.get(name) == came.get(name)  # by whoever made the new version
        fates[name] = CARRIED if untouched else ASIDE
    return fates


def _find_own_folder(manifest: PluginManifest) -> Path:
    """The folder of a plugin that is ours to change."""
    folder = Path(manifest.path or "")
    if manifest.source != "user":
        where = "It came with Hermes." if manifest.source == "bundled" else f"It stands in {folder}, which is yours."
        raise ConfigProblem(f"{manifest.id} was not installed into the home. {where}", kept=_UNCHANGED)
    return folder


def _find_origin(manifest: PluginManifest, folder: Path) -> PluginOrigin:
    """Where it came from: as was noted, or as a clone by hand knows it."""
    origin = plugin_placing.read_origin(folder)
    if origin is not None:
        return origin
    settings = folder / ".git" / "config"
    if settings.is_file():
        address = run_git(["config", "--file", str(settings), "--get", "remote.origin.url"]).strip()
        return PluginOrigin(PluginSource(GIT, address), "", plugin_placing.list_files(folder))
    fix = f"Install it again from where it is: hermes plugins install SOURCE --force (in {folder})"
    raise ConfigProblem(f"Nothing is known of where {manifest.id} came from.", kept=_UNCHANGED, fix=fix)


def _note_commit(origin: PluginOrigin, coming: plugin_installing.Coming) -> None:
    at = f" (commit {clean_name(coming.commit)})" if coming.commit else ""
    print(f"{coming.name} is as new as its source{at}.")
    if origin.commit != coming.commit:
        print("Its files are the same as before.")


def _tell_changes(
    old: Path,
    new: Path,
    local: Mapping[str, str],
    files: Mapping[str, str],
    own: Mapping[str, str],
    *,
    all_lines: bool,
) -> None:
    changed = [name for name in sorted({*local, *files}) if local.get(name) != files.get(name) and name not in own]
    print("Files that change:" if changed else "No file of the plugin changes.")
    lines: list[str] = []
    for name in changed:
        how = "new" if name not in local else "gone" if name not in files else "changed"
        print(f"    {how}: {clean_name(name)}")
        lines += _compare(old / name, new / name, name)
    for name, fate in sorted(own.items()):
        kept = f" as {name}{ASIDE_ENDING}" if fate == ASIDE else ""
        print(f"    yours, {fate}{kept}: {clean_name(name)}")
        if fate == ASIDE:  # what takes its place is going to run, too
            lines += _compare(old / name, new / name, name)
    shown = lines if all_lines else lines[:_MOST_LINES]
    print("\n".join(shown))
    if len(shown) < len(lines):
        print(f"… and {len(lines) - len(shown)} more lines; --diff shows all.")
    before, after = set(look(old).describe()), set(look(new).describe())
    print("What it registers, as far as its files show: " + ("changes" if before != after else "the same"))
    for line in sorted(before ^ after):
        print(f"    {'-' if line in before else '+'} {clean_name(line)}")


def _compare(old: Path, new: Path, name: str) -> Iterator[str]:
    before, after = _read_lines(old), _read_lines(new)
    if before is None or after is None:
        yield f"{name}: not shown (no text, or too long)"
        return
    for line in difflib.unified_diff(before, after, f"old/{name}", f"new/{name}", n=2):
        yield show_blanks(show_hidden(line.rstrip("\r\n")))  # what is agreed to is what is seen


def _read_lines(path: Path) -> list[str] | None:
    try:
        data = path.read_bytes() if path.is_file() else b""
    except OSError:
        return None
    return (
        None if b"\0" in data or len(data) > _MOST_BYTES else data.decode("utf-8", "replace").splitlines(keepends=True)
    )


# --- remove


def run_remove(parsed: argparse.Namespace) -> int:
    manifest = plugin_choices.need_plugin(parsed.name)
    if manifest.source == "entrypoint":
        return package_plugins.remove_package(manifest, parsed.yes)
    folder = _find_own_folder(manifest)
    if folder.is_symlink():
        print(f"{folder} is a link: it goes, and {folder.resolve()} stays.")
    elif data := plugin_placing.find_own_data(folder):
        print("What it wrote beside its code, or you set up there, goes with it:")
        _tell_some(clean_name(f"{folder / name}") for name in data)
    if stays := list(list_remains(manifest, folder)):
        print("What stays, in case it comes back:")
        _tell_some(stays)
    if not require(f"Removing {manifest.id}", f"Remove {manifest.id} ({folder})?", parsed.yes):
        print(_UNCHANGED)
        return 1
    # The settings first: a plugin that is named and gone is a riddle, one that is there and off is none.
    plugin_choices.forget({manifest.id, manifest.name})
    with plugin_placing.make_scratch() as scratch:
        plugin_placing.take_away(folder, scratch)
    plugin_seals.forget(manifest.id)
    print(f"{manifest.id} is removed. It takes effect at the next start.")
    return 0


def _tell_some(lines: Iterable[str]) -> None:
    told = list(lines)
    for line in told[:_MOST_TOLD]:
        print(f"    {line}")
    if len(told) > _MOST_TOLD:
        print(f"    … and {len(told) - _MOST_TOLD} more")


def list_remains(manifest: PluginManifest, folder: Path) -> Iterator[str]:
    """What a plugin leaves behind: settings, variables, data, packages."""
    entries = config.load_settings().plugins.entries
    for key in dict.fromkeys((manifest.id, manifest.name)):
        if key in entries:
            yield f"settings: plugins.entries.{key} (to drop them: hermes config unset plugins.entries.{key})"
    settings = config.load_settings()
    if manifest.kind == "exclusive" and settings.memory.provider == folder.name:
        yield "settings: memory.provider names it (to go on without: hermes memory off)"
    if "context_engine" in look(folder).registers and context_engine.find_missing():
        engine = settings.context.engine
        yield f"settings: context.engine is {engine} (if that was this one's: hermes config unset context.engine)"
    fields = read_manifest_fields(folder) or {}
    known = config.load_env()
    for name, _ in plugin_installing.read_variables(fields):
        if name in known:
            yield f"in .env: {name} (to drop it: hermes config unset {name})"
    home = get_hermes_home()
    for name in sorted(os.listdir(home)):
        if belongs_to(name, (manifest.name, folder.name)):
            yield f"data: {home / name}"
    for place in (f".{manifest.name}", f"data/{manifest.name}", f"plugin-data/{manifest.name}"):
        if (home / place).is_dir():
            yield f"data: {home / place}"
    packages = [name for line in plugin_needs.list_lines(folder) if (name := _find_installed(line))]
    if packages:
        yield f"packages, which others may need: {', '.join(packages)}"


def _find_installed(line: str) -> str:
    name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
    try:
        return name if name and metadata.version(name) else ""
    except (metadata.PackageNotFoundError, ValueError):
        return ""
