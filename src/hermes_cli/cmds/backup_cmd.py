"""`hermes backup`: makes a back-up of the home, checks one, or puts one back."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from hermes_base.store_place import describe_place, find_place
from hermes_cli.cmds import store_cmd
from hermes_cli.plugins.plugin_sources import find_manifests, list_folders
from hermes_constants import get_hermes_home
from hermes_state.backup.archive import FILE, SECRETS, Manifest, create_backup, verify_backup
from hermes_state.backup.restore import restore_backup
from plugins import memory

_SHOWN = 5  # names of what was left out


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes backup", description="Back up the home, check a back-up, or put it back.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="create|verify|restore")
    create = actions.add_parser("create", help="write a back-up; Hermes may run meanwhile")
    create.add_argument("-o", "--output", metavar="FILE", type=Path, help="a new file (one in backups/ of the home)")
    create.add_argument("--with-secrets", action="store_true", help=f"also {', '.join(SECRETS)}: the keys")
    verify = actions.add_parser("verify", help="compare every hash and open the store in it")
    restore = actions.add_parser("restore", help="make the home what the back-up holds; Hermes must not run")
    for action in (verify, restore):
        action.add_argument("file", metavar="FILE", type=Path)
    restore.add_argument("--into", metavar="FOLDER", type=Path, help="another folder than the home")
    restore.add_argument(
        "--store", metavar="PLACE", help="keep the store there: postgresql://USER@HOST/NAME, or `file` (as it was)"
    )
    restore.add_argument("--yes", action="store_true", help="replace a home that is not empty; its content is kept")
    parsed = parser.parse_args(args)
    for line in _ACTIONS[parsed.action](parsed):
        print(line)
    return 0


def _create(parsed: argparse.Namespace) -> Iterator[str]:
    home, plugins = get_hermes_home(), list_plugin_names()
    kept, root = memory.find_backup_paths(), home.resolve()
    inside = [path.relative_to(root) for path in kept.paths if path.is_relative_to(root)]
    tops = {path.parts[0] for path in inside if path.parts}
    made = create_backup(home, parsed.output, with_secrets=parsed.with_secrets, plugins=plugins, named=tops)
    verify_backup(made.path)
    yield f"Written and checked: {made.path}"
    yield from _describe(made.manifest)
    if made.left_out:
        more = ", …" if len(made.left_out) > _SHOWN else ""
        names = ", ".join(map(ascii, made.left_out[:_SHOWN]))
        yield f"Left out, since they are links or no files: {names}{more}"
    yield from _tell_memory(kept, made.manifest, root)
    if made.unknown:
        more = ", …" if len(made.unknown) > _SHOWN else ""
        names = ", ".join(map(ascii, made.unknown[:_SHOWN]))
        yield f"Not in it, since no plugin here is called so: {names}{more}. What you need of it, copy yourself."


def _tell_memory(kept: memory.BackupPaths, manifest: Manifest, root: Path) -> Iterator[str]:
    """What the memory keeps in places that no back-up of the home reaches."""
    members = {member.name for member in manifest.members}
    outside = [path for path in kept.paths if not path.is_relative_to(root)]
    inside = [path for path in kept.paths if path not in outside and path.exists()]
    missing = [*outside, *(path for path in inside if path.relative_to(root).as_posix() not in members)]
    if missing:
        names = ", ".join(ascii(str(path)) for path in missing)
        yield f"Not in it, and the memory {kept.provider} needs it: {names}. Copy that yourself."
    if kept.problem:
        yield f"The memory {kept.provider} did not say what else it keeps: {kept.problem}"


def list_plugin_names() -> set[str]:
    """What plugins, memories and engines of this home are called, by their manifests and their folders."""
    found = find_manifests()
    names = {manifest.name for manifest in found} | {Path(one.path).name for one in found if one.path}
    engines = {folder.name for folder in list_folders(get_hermes_home() / "plugins" / "context_engine")}
    return names | engines | set(memory.list_memory_provider_names())


def _verify(parsed: argparse.Namespace) -> Iterator[str]:
    manifest = verify_backup(parsed.file)
    yield f"{parsed.file} is whole."
    yield from _describe(manifest)


def _restore(parsed: argparse.Namespace) -> Iterator[str]:
    home = parsed.into or get_hermes_home()
    choose = find_place if parsed.store is None else partial(store_cmd.settle, parsed.store)
    done = restore_backup(parsed.file, home, overwrite=parsed.yes, choose=choose)
    yield f"{done.home} is now as it was at {done.manifest.created}."
    yield f"Its store is {describe_place(done.store)}"
    if done.old:
        yield f"What was there before is kept in {done.old}"
    if not done.manifest.has_secrets:
        yield f"The back-up holds no keys: those in {done.home / SECRETS[0]} stay as they are, if there are any."


def _describe(manifest: Manifest) -> Iterator[str]:
    files = [member for member in manifest.members if member.kind == FILE]
    yield f"Made by Hermes {manifest.program} at {manifest.created}: {manifest.size:,} bytes, files: {len(files)}."
    tops = dict.fromkeys(member.name.partition("/")[0] for member in manifest.members)
    yield f"It holds {', '.join(tops)}."
    if manifest.layout:
        yield f"The layout of the store is {manifest.layout}."
    keys = ", ".join(SECRETS)
    yield f"Keys ({keys}) are in it: keep it safe." if manifest.has_secrets else f"Keys ({keys}) are not in it."


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], Iterator[str]]] = MappingProxyType(
    {"create": _create, "verify": _verify, "restore": _restore}
)
