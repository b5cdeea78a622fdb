"""One process owns a home: locks that end with their owner, however it dies, and a note that names it.

Two things in the home are locked, so that no deleted file lets a second owner in: a file, which holds the note, moves
with the content when a back-up is restored, and is all that an older program looks at; and a hidden folder. (The home
folder itself is locked by who edits the settings.) Where folders cannot be locked (some network disks) the file alone
counts. An owner that finds one of the two gone puts it back (`tend`).

A disk that several machines share may not tell one of them what another has locked. So the owner also gives a sign of
life, the time of the file, and whoever finds a note of another machine looks whether it goes on.
"""

import contextlib
import fcntl
import json
import logging
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from hermes_base.errors import ConfigProblem, HomeBusy

log = logging.getLogger(__name__)

LOCK_FILE = "hermes.lock"
LOCK_FOLDER = ".owner"
NODE_FILE = "node"  # in that folder
_TRIES = 6
_PAUSE = 0.02  # seconds between tries: `holder` and the owner's first note take less
SIGN_SECONDS = 10.0  # an owner of another machine without a sign of life for so long has ended
SIGN_WATCHED = 5.0  # seconds for which a younger sign is watched; `tend` gives one every two


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that owns a home; pid 0: it left no readable note."""

    pid: int
    since: float  # when the process started, seconds since the epoch


class HomeLock:
    """The ownership of one home folder, from `acquire` to `release` or the end of the process."""

    def __init__(self, home: Path | str) -> None:
        self._home = Path(home)
        self._descriptor: int | None = None  # of the file
        self._folder: int | None = None  # of the hidden folder

    def acquire(self) -> None:
        """Become the owner; HomeBusy when another process is, ConfigProblem when the folder cannot be used."""
        if self._descriptor is not None:
            return
        folder = _open_folder(self._home)
        descriptor: int | None = None
        try:
            descriptor = _open_file(self._home)
            if not _lock_if_possible(folder) or not _try_lock(descriptor):
                raise _say_busy(self._home, _read_note(descriptor))
            _refuse_elsewhere(self._home, descriptor, folder)
            _write_note(descriptor)
        except BaseException as error:
            _close(descriptor, folder)
            if isinstance(error, OSError):
                raise _say_unusable(self._home, error) from error
            raise
        self._descriptor, self._folder = descriptor, folder
        _held.add(self)

    def release(self) -> None:
        """Give the home free; without effect when this lock does not hold it."""
        if self._descriptor is None:
            return
        descriptor, folder = self._descriptor, self._folder
        self._descriptor = self._folder = None
        _held.discard(self)
        os.ftruncate(descriptor, 0)
        _close(descriptor, folder)

    def tend(self) -> bool:
        """Put back what was deleted or replaced, so that everybody finds this owner again; False: all of it was gone,
        and another process has taken the home."""
        if self._descriptor is None or self._folder is None or not self._home.is_dir():
            return True
        os.utime(self._descriptor)
        if not _is_at(self._home / LOCK_FILE, self._descriptor):
            self._descriptor, there = self._put_back(LOCK_FILE, _open_file(self._home), self._descriptor)
            if not there:
                return False
            _write_note(self._descriptor)
        if not _is_at(self._home / LOCK_FOLDER, self._folder):
            self._folder, there = self._put_back(LOCK_FOLDER, _open_folder(self._home), self._folder)
            return there
        return True

    def _put_back(self, name: str, fresh: int, former: int) -> tuple[int, bool]:
        """The lock that holds from now on, and whether it is the new one: another process may have that."""
        if not _lock_if_possible(fresh):
            os.close(fresh)
            return former, False
        log.warning("%s in %s was deleted or replaced; it is put back", name, self._home)
        os.close(former)
        return fresh, True

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def _forget(self) -> None:
        """In a forked child: it must not keep its dead parent's lock alive."""
        _close(self._descriptor, self._folder)
        self._descriptor = self._folder = None


_held: set[HomeLock] = set()


def _forget_all() -> None:
    for lock in _held:
        lock._forget()
    _held.clear()


os.register_at_fork(after_in_child=_forget_all)


def tend(home: Path | str) -> bool:
    """`HomeLock.tend` for the lock of this process on the home, if it has one."""
    return all(lock.tend() for lock in list(_held) if lock._home == Path(home))


def note_node(home: Path | str, node: str) -> None:
    """Under which id the process that owns the home works on a store: whoever owns the home next knows that this one
    has ended."""
    place = _find_own_folder(home)
    if place:
        with contextlib.suppress(OSError):  # the next one waits for the lease, as others do
            (Path(home) / LOCK_FOLDER / NODE_FILE).write_text(json.dumps({"node": node, "place": place}))


def find_dead_node(home: Path | str) -> str:
    """The id that the last owner of the home has left there; it lives no more, since this process has its lock. Empty:
    it left none, or nothing is certain. What came with a copied home, or from another machine, is not its own."""
    place = _find_own_folder(home)
    try:
        told = json.loads((Path(home) / LOCK_FOLDER / NODE_FILE).read_text())
        return str(told["node"]) if place and told["place"] == place else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _find_own_folder(home: Path | str) -> str:
    """What names the locked folder of this home on this machine as long as that runs; empty: this process has no lock
    on it, or none that others would see."""
    machine = _read_machine()
    for lock in _held:
        if lock._home == Path(home) and lock._folder is not None and machine:
            found = os.fstat(lock._folder)
            with contextlib.suppress(OSError):  # this disk cannot lock folders
                fcntl.flock(lock._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return f"{machine} {found.st_dev} {found.st_ino}"
    return ""


def holder(home: Path | str) -> Holder | None:
    """Who owns the home; None: nobody. The name of an owner whose file is gone is not known until it is put back."""
    for name in (LOCK_FILE, LOCK_FOLDER):
        try:
            descriptor = os.open(Path(home) / name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_note(descriptor) if name == LOCK_FILE else Holder(0, 0.0)
        except OSError:
            if name == LOCK_FILE:  # some disks cannot lock folders
                raise
        finally:
            os.close(descriptor)
    return None


def _open_folder(home: Path) -> int:
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        (home / LOCK_FOLDER).mkdir(exist_ok=True, mode=0o700)
        return os.open(home / LOCK_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _say_unusable(home, error) from error


def _open_file(home: Path) -> int:
    return os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _close(*descriptors: int | None) -> None:
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one that has this name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lock_if_possible(descriptor: int) -> bool:
    """False: another process has it. A disk that cannot lock folders leaves it to the file."""
    try:
        return _try_lock(descriptor)
    except OSError as error:
        log.debug("a folder cannot be locked here: %s", error)
        return True


def _try_lock(descriptor: int) -> bool:
    for attempt in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_PAUSE if attempt < _TRIES - 1 else 0)
    return False


def _write_note(descriptor: int) -> None:
    about = {"host": socket.gethostname(), "machine": _read_machine()}
    note = json.dumps({"pid": os.getpid(), "started": _read_start(), **about})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, note.encode(), 0)


def _read_note(descriptor: int) -> Holder:
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(int(note["pid"]), float(note["started"]))
    except (ValueError, KeyError, TypeError):
        return Holder(0, 0.0)


def _refuse_elsewhere(home: Path, descriptor: int, folder: int) -> None:
    """HomeBusy when a process of another machine lives in this home."""
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        host, machine = str(note["host"]), str(note["machine"])
    except (ValueError, KeyError, TypeError):  # nobody's: who ends in order leaves none
        return
    os.utime(folder)  # what time it is on that disk
    seen = os.fstat(descriptor).st_mtime
    if machine == _read_machine() or os.fstat(folder).st_mtime - seen > SIGN_SECONDS:
        return
    end = time.monotonic() + SIGN_WATCHED
    while time.monotonic() < end:
        if os.stat(home / LOCK_FILE).st_mtime != seen:
            raise HomeBusy(
                f"The home folder {home} is in use on another machine, {host}.",
                pid=0,
                since=0.0,
                fix="Stop Hermes there. Each machine needs a home of its own; a database (store.url) can be shared.",
            )
        time.sleep(_PAUSE)


def _read_machine() -> str:
    """What names this machine as long as it runs, also in its containers; empty where the system does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _read_start() -> float:
    """When this process started; the present time where the system does not tell."""
    try:
        fields = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return float(boot.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, StopIteration, ValueError, IndexError):
        return time.time()


def _say_busy(home: Path, owner: Holder) -> HomeBusy:
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(owner.since))
    who = f"process {owner.pid}, which has been running since {since}" if owner.pid else "another process"
    return HomeBusy(
        f"The home folder {home} is owned by {who}.",
        pid=owner.pid,
        since=owner.since,
        fix="Use that Hermes, stop it first, or set HERMES_HOME to another folder.",
    )


def _say_unusable(home: Path, error: OSError) -> ConfigProblem:
    return ConfigProblem(
        f"The home folder {home} cannot be used: {error.strerror or error}.",
        fix="Give this user the right to write it, or set HERMES_HOME to another folder.",
    )
