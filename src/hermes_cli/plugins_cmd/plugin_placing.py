"""Puts a plugin's folder into its place in the home, whole or not at all, and knows where each came from.

What is on its way stands in hidden folders beside the plugins, where nothing is ever loaded from. Each is held by the
process that fills it; what a killed one left is cleared away by the next.
"""

import ctypes
import errno
import fcntl
import json
import logging
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hermes_base.errors import ConfigProblem
from hermes_cli.config.own_files import hold_folder
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins_cmd.source_names import PluginSource
from hermes_constants import get_hermes_home
from hermes_constants.home_names import find_database

log = logging.getLogger(__name__)

NOTHING: Mapping[str, str] = MappingProxyType({})
ORIGIN = ".hermes-source.json"  # in the plugin's folder, so that it comes and goes with it
_COMING = ".coming-"
_NAME = re.compile(r"[^\W_][\w .+-]{0,63}")
#: Folders of the home's plugins that are categories.
_TAKEN = frozenset({"context_engine", "memory", "platforms", "model-providers"})
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE, AT_FDCWD
_BUSY_SECONDS = 5.0
_NOT_OFFERED = frozenset({errno.ENOSYS, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class PluginOrigin:
    """Where a plugin was installed from, and its files as they came."""

    source: PluginSource
    commit: str
    files: Mapping[str, str]


def check_name(name: str) -> str:
    """A name that is one folder; ConfigProblem for all others."""
    if not _NAME.fullmatch(name) or name.endswith((" ", ".")) or name.lower() in _TAKEN:
        what = f"The plugin calls itself {name[:80]!r}, which cannot be the name of its folder."
        raise ConfigProblem(what, kept="Nothing was installed.", fix="Its author has to choose another name.")
    return name


def find_root() -> Path:
    return get_hermes_home() / "plugins"


# --- on its way


@contextmanager
def make_scratch() -> Iterator[Path]:
    """An empty folder on the disk of the plugins, which goes when the work is done or its process ends."""
    root = find_root()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_folder(root):  # nobody clears it away before it is held
        _clear_leftovers(root)
        folder = Path(tempfile.mkdtemp(prefix=_COMING, dir=root))
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _clear_leftovers(root: Path) -> None:
    for left in root.glob(f"{_COMING}*"):
        with suppress(OSError):
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(handle)


# --- into place


def place(new: Path, target: Path, scratch: Path, replace: bool, own: Mapping[str, str] = NOTHING) -> None:
    """Put a folder where a plugin is to be; the one that stands there is kept until then, and goes with the scratch.
    Of that one the files of `own` come along, each under the name beside it, and all databases."""
    with hold_folder(find_root()):
        if not replace:
            check_free(target)
        if target.is_dir() and not target.is_symlink():
            with _hold_databases(target):
                _carry(target, new, {**own, **{name: name for name in _list_databases(target)}})
                old = _exchange(new, target, scratch / "old")
            late = (name for name in _list_databases(old) if not os.path.lexists(target / name))
            _carry(old, target, {name: name for name in late})
        elif os.path.lexists(target):
            _exchange(new, target, scratch / "old")
        else:
            os.rename(new, target)


def check_free(target: Path) -> None:
    """ConfigProblem when a plugin stands there."""
    if os.path.lexists(target):
        fix = f"`hermes plugins update {target.name}` brings it up to date; --force replaces it."
        raise ConfigProblem(f"The plugin {target.name} is installed already.", kept="It stays as it is.", fix=fix)


def take_away(folder: Path, scratch: Path) -> None:
    """Take a plugin's folder out of its place at once; a link goes, what it leads to stays."""
    with hold_folder(find_root()):
        if folder.is_symlink():
            folder.unlink()
        else:
            os.rename(folder, scratch / "gone")


def _exchange(new: Path, target: Path, aside: Path) -> Path:
    """Let two folders change places in one step; where the system cannot do that, in two. Where the old one is then."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        rename = None
    if rename is not None and not target.is_symlink():
        if rename(_HERE, os.fsencode(new), _HERE, os.fsencode(target), _EXCHANGE) == 0:
            return new
        number = ctypes.get_errno()
        if number not in _NOT_OFFERED:
            raise OSError(number, os.strerror(number), str(target))
    os.rename(target, aside)
    try:
        os.rename(new, target)
    except OSError:
        os.rename(aside, target)
        raise
    return aside


# --- what a plugin wrote beside its code


def find_own_data(folder: Path) -> list[str]:
    """The data in a plugin's folder that did not come with it, or is not as it came."""
    origin, files = read_origin(folder), list_files(folder)
    came = origin.files if origin is not None else {}
    return [
        name
        for name, digest in files.items()
        if plugin_seals.is_data(name) and (find_database(name) or came.get(name) != digest)
    ]


def _list_databases(folder: Path) -> list[str]:
    return [name for name in plugin_seals.read_code(folder.name, folder).files if find_database(name)]


@contextmanager
def _hold_databases(folder: Path) -> Iterator[None]:
    """Let nobody write in the databases of a folder for a moment. While they are held, their logs are neither made nor
    deleted, so that what is carried over belongs together; one that stays busy is carried as it is."""
    with ExitStack() as held:
        for name in _list_databases(folder):
            if find_database(name) != name or not (folder / name).stat().st_size:
                continue
            try:
                database = sqlite3.connect(folder / name, timeout=_BUSY_SECONDS, isolation_level=None)
                held.callback(database.close)
                database.execute("begin immediate")
            except sqlite3.Error as problem:  # it is none of SQLite's, or somebody writes for long
                log.info("%s is not held while its folder changes: %s", folder / name, problem)
        yield


def _carry(old: Path, new: Path, names: Mapping[str, str]) -> None:
    """Give files of the old folder a place in the new one, too. It is the same file in both: a program that writes in
    it goes on, and nothing that it writes is lost."""
    for name, place in names.items():
        source, target = old / name, new / place
        if not os.path.lexists(source):  # it went this moment: the log of a database that was closed
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError:  # links are not to be had here
            shutil.copy2(source, target, follow_symlinks=False)


# --- where it came from


def list_files(folder: Path) -> dict[str, str]:
    """The files of a plugin with their hashes, without what was noted about it."""
    files = plugin_seals.read_code(folder.name, folder).files
    return {name: digest for name, digest in files.items() if name != ORIGIN}


def write_origin(folder: Path, source: PluginSource, commit: str, files: Mapping[str, str]) -> None:
    text = json.dumps({"source": asdict(source), "commit": commit, "files": dict(files)}, indent=1)
    path = folder / ORIGIN
    path.unlink(missing_ok=True)  # it may have come with the plugin, as a link perhaps
    path.write_text(text, encoding="utf-8")


def read_origin(folder: Path) -> PluginOrigin | None:
    """None: it was not installed by command."""
    try:
        kept: Any = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
        source = PluginSource(**{str(name): str(value) for name, value in kept["source"].items()})
        files = {str(name): str(digest) for name, digest in kept["files"].items()}
        return PluginOrigin(source, str(kept["commit"]), files)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
