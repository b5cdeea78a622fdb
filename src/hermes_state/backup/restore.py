"""Puts a back-up in the place of a home: everything is prepared beside it, and one exchange of names makes it the home.

A process that dies in the middle leaves the old home or the new one, never a mixture. The old content is kept. Where
the store is to be a database, its rows are there before the exchange: until then nobody looks at them.
"""

import ctypes
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_base.store_place import StorePlace, find_place, is_address
from hermes_constants import STORE_FILE
from hermes_constants.home_names import KEPT
from hermes_state.backup.archive import (
    DIRECTORY,
    FOLDER,
    SECRETS,
    BadBackup,
    Manifest,
    check_store,
    read_archive,
    sync_folder,
)
from hermes_state.files.carrying import carry_files
from hermes_state.home_lock import LOCK_FILE, LOCK_FOLDER, HomeLock
from hermes_state.sql.engines.sqlite import MARK
from hermes_state.transfer.moving import move_out

_MARK = "unfinished-"
OLD = "before-restore-"  # in the home, with the time
PROFILES = "profiles"  # homes of their own, which a back-up of this one leaves alone
#: Names that belong to the old content and go with it.
_PASSING = frozenset(
    {
        f"{STORE_FILE}-wal",
        f"{STORE_FILE}-shm",
        f"{STORE_FILE}{MARK}",
        "hermes.sock",
        "outbox",
        "file-changes",
        "laid-out",
    }
)
#: A home with nothing else in it counts as empty.
_NO_CONTENT = frozenset({LOCK_FILE, LOCK_FOLDER, f"{STORE_FILE}{MARK}", "logs", FOLDER})
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE and AT_FDCWD of Linux


@dataclass(frozen=True, slots=True)
class Restored:
    """A home that was put back; `old` is where its former content is, None: there was none."""

    home: Path
    manifest: Manifest
    old: Path | None
    store: StorePlace


def restore_backup(
    path: Path, home: Path, *, overwrite: bool = False, choose: Callable[[Path], StorePlace] = find_place
) -> Restored:
    """Make the home what the back-up holds; HomeBusy while a Hermes runs in it or in one of its profiles. `choose` says
    of the home that is being prepared where its store is to be; a database has to be empty."""
    home = Path(os.path.realpath(home))
    _refuse_content(home, overwrite)
    with ExitStack() as locks:
        locks.enter_context(HomeLock(home))
        for profile in sorted((home / PROFILES).glob("*/")):  # homes of their own, which move with this one
            locks.enter_context(HomeLock(profile))
        _tidy(home)
        _refuse_content(home, overwrite)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        with _prepare(home, stamp) as fresh:
            manifest = _unpack(path, fresh)
            _carry_over(home, fresh, manifest)
            store = choose(fresh)
            if is_address(store) and manifest.layout:
                move_out(fresh / STORE_FILE, store)
                carry_files(fresh, fresh / STORE_FILE, store)
            sync_folder(fresh)
            _exchange(fresh, home)
        sync_folder(home.parent)
        os.unlink(home / _mark(fresh))
        old = _put_aside(fresh, home, stamp)
    return Restored(home, manifest, old, store if is_address(store) else home / STORE_FILE)


def _refuse_content(home: Path, overwrite: bool) -> None:
    """ConfigProblem when something would be replaced that is no home, or that is not to be replaced."""
    present = set(os.listdir(home)) - _NO_CONTENT if home.is_dir() else set()
    if not present:
        return
    if not present & {*KEPT, *SECRETS} and not any(name.startswith(OLD) for name in present):
        raise ConfigProblem(f"{home} holds other things than a home.", kept="Nothing was changed.", fix="Name another.")
    if not overwrite:
        raise ConfigProblem(
            f"{home} is not empty.",
            kept="Nothing was changed.",
            fix="Add --yes to replace it (its content is kept in it), or --into FOLDER for another place.",
        )


# --- preparing the new home beside the old one


@contextmanager
def _prepare(home: Path, stamp: str) -> Iterator[Path]:
    """An empty folder beside the home, gone again if what is done with it fails."""
    fresh = home.parent / f"{_prefix(home)}{stamp}-{os.getpid()}"
    try:
        fresh.mkdir(mode=0o700)
    except OSError as error:
        raise _say_no_room(home, error) from error
    try:
        os.close(os.open(fresh / _mark(fresh), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        yield fresh
    except BaseException:
        if (fresh / _mark(fresh)).exists():  # after the exchange this is the old home
            shutil.rmtree(fresh, ignore_errors=True)
        raise


def _prefix(home: Path) -> str:
    return f".{home.name}-{OLD}"


def _mark(fresh: Path) -> str:
    """A file in a folder that is being prepared: only with its own mark inside may it be deleted."""
    return f"{_MARK}{fresh.name}"


def _unpack(path: Path, fresh: Path) -> Manifest:
    manifest = read_archive(path, lambda member: fresh / member.name, lambda manifest: _check_room(manifest, fresh))
    check_store(path, fresh / STORE_FILE, manifest)
    for member in reversed(manifest.members):  # what is in a folder before the folder, which may forbid writing
        if member.kind == DIRECTORY:
            sync_folder(fresh / member.name)
            os.chmod(fresh / member.name, member.mode)
    return manifest


def _check_room(manifest: Manifest, fresh: Path) -> None:
    """What says itself that it does not fit is not even begun."""
    free = shutil.disk_usage(fresh).free
    if manifest.size > free:
        raise BadBackup(
            f"The back-up holds {manifest.size:,} bytes, and the disk has room for {free:,}.",
            fix="Free some space, or restore with --into FOLDER on another disk.",
        )


def _carry_over(home: Path, fresh: Path, manifest: Manifest) -> None:
    """What the back-up does not speak of stays: keys that it left out, logs, profiles, back-ups. The new home gets the
    same files by a second name; the lock is among them, so it holds for both."""
    held = {member.name.partition("/")[0] for member in manifest.members}
    replaced = {*KEPT, *_PASSING, *held, *(SECRETS if manifest.has_secrets else ())}
    for name in sorted(set(os.listdir(home)) - replaced):
        if name.startswith(_MARK):
            continue
        try:
            _link(home / name, fresh / name)
        except OSError as error:  # another disk, a file of somebody else
            raise _say_no_room(home, error) from error
    os.chmod(fresh, stat.S_IMODE(home.stat().st_mode))


def _link(source: Path, target: Path) -> None:
    if source.is_symlink() or not source.is_dir():
        os.link(source, target, follow_symlinks=False)
        return
    target.mkdir(mode=0o700)
    for name in os.listdir(source):
        _link(source / name, target / name)
    os.chmod(target, stat.S_IMODE(source.stat().st_mode))


# --- the one step, and what comes after it


def _exchange(fresh: Path, home: Path) -> None:
    """Swap the two names at once: there is no moment without a home."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError as error:
        raise _say_no_room(home, OSError(0, "this system cannot exchange two names")) from error
    if rename(_HERE, os.fsencode(fresh), _HERE, os.fsencode(home), _EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise _say_no_room(home, OSError(code, os.strerror(code)))


def _put_aside(fresh: Path, home: Path, stamp: str) -> Path | None:
    """Keep the old content, which now has the other name, in the home, without the files that both have."""
    _drop_shared(fresh, home)
    if not os.listdir(fresh):
        fresh.rmdir()
        return None
    old = home / f"{OLD}{stamp}"
    while old.exists():
        old = old.with_name(f"{old.name}-again")
    os.rename(fresh, old)
    sync_folder(home)
    return old


def _drop_shared(old: Path, new: Path) -> None:
    """Remove what is the same file in both; a folder that is empty then goes, too."""
    for name in os.listdir(old):
        mine, other = old / name, new / name
        if mine.is_dir() and not mine.is_symlink():
            if name not in KEPT and other.is_dir():
                _drop_shared(mine, other)
                with suppress(OSError):
                    mine.rmdir()
        elif os.path.lexists(other) and os.path.samestat(mine.lstat(), other.lstat()):
            mine.unlink()


def _tidy(home: Path) -> None:
    """What a restore that was killed has left: unfinished copies go, old content comes into the home."""
    for name in sorted(os.listdir(home.parent)):
        place = home.parent / name
        if name.startswith(_prefix(home)) and (place / _mark(place)).exists():
            shutil.rmtree(place)
        elif name.startswith(_prefix(home)):
            _put_aside(place, home, name.removeprefix(_prefix(home)))


def _say_no_room(home: Path, error: OSError) -> ConfigProblem:
    return ConfigProblem(
        f"The folder {home} cannot be exchanged for another one: {error.strerror}.",
        kept="Nothing was changed.",
        fix="Restore with --into FOLDER, a new folder whose parent you may write, and set HERMES_HOME to it.",
    )
