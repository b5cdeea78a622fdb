"""One process owns a home: a file lock that ends with its owner, however it dies, and a note inside that names it."""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from hermes_base.errors import ConfigProblem, HomeBusy

LOCK_FILE = "hermes.lock"
_TRIES = 6
_PAUSE = 0.02  # seconds between tries: `holder` and the owner's first note take less


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that owns a home; pid 0: it left no readable note."""

    pid: int
    since: float  # when the process started, seconds since the epoch


class HomeLock:
    """The ownership of one home folder, from `acquire` to `release` or the end of the process."""

    def __init__(self, home: Path | str) -> None:
        self._home = Path(home)
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Become the owner; HomeBusy when another process is, ConfigProblem when the folder cannot be used."""
        if self._descriptor is not None:
            return
        descriptor = _open_file(self._home)
        try:
            if not _try_lock(descriptor):
                raise _say_busy(self._home, _read_note(descriptor))
            _write_note(descriptor)
        except OSError as error:
            os.close(descriptor)
            raise _say_unusable(self._home, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Give the home free; without effect when this lock does not hold it."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        _held.discard(self)
        os.ftruncate(descriptor, 0)
        os.close(descriptor)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def _forget(self) -> None:
        """In a forked child: it must not keep its dead parent's lock alive."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


_held: set[HomeLock] = set()


def _forget_all() -> None:
    for lock in _held:
        lock._forget()
    _held.clear()


os.register_at_fork(after_in_child=_forget_all)


def holder(home: Path | str) -> Holder | None:
    """Who owns the home; None: nobody."""
    try:
        descriptor = os.open(Path(home) / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read_note(descriptor)
    finally:
        os.close(descriptor)


def _open_file(home: Path) -> int:
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(home / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _say_unusable(home, error) from error


def _try_lock(descriptor: int) -> bool:
    for attempt in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(_PAUSE if attempt < _TRIES - 1 else 0)
    return False


def _write_note(descriptor: int) -> None:
    note = json.dumps({"pid": os.getpid(), "started": _read_start(os.getpid())})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, note.encode(), 0)


def _read_note(descriptor: int) -> Holder:
    try:
        note = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(int(note["pid"]), float(note["started"]))
    except (ValueError, KeyError, TypeError):
        return Holder(0, 0.0)


def _read_start(pid: int) -> float:
    """When the process started; the present time where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
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
