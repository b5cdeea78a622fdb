"""The SQLite file of the store: one connection that writes, a few that read, and every error as a sentence.

Nothing of the engine leaves here but the connection handed to `Store`. Reading connections are lent for one
call and shared by all threads, so that threads may come and go without leaving descriptors behind. Their number is
bounded, since the engine keeps the descriptors of a closed connection while the process has another one open.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from hermes_base.errors import StoreFailure
from hermes_constants.ordinary_files import open_private
from hermes_state.damage import DamagedRow
from hermes_state.sql import schema

log = logging.getLogger(__name__)

T = TypeVar("T")
Mend = Callable[[sqlite3.Connection, DamagedRow], Callable[[], None]]
READERS = 4
#: Beside the file while there is a store: an empty or missing file next to it is a loss, not a beginning.
MARK = ".made"
_MARK_TEXT = "There is a store beside this file. Delete this file to let Hermes begin with an empty one.\n"
WAL_LIMIT = 64 * 1024 * 1024

# primary result code -> what happened, what was kept, what to do
_SENTENCES = {
    sqlite3.SQLITE_BUSY: (
        "is locked by another process",
        "Nothing of this write was stored.",
        "Try again; if it stays, look for a second Hermes or a tool that has the file open.",
    ),
    sqlite3.SQLITE_FULL: (
        "cannot grow: the disk is full",
        "What was stored before is safe; this write was not stored.",
        "Free some space and try again.",
    ),
    sqlite3.SQLITE_IOERR: (
        "could not be read or written: the disk is full or failing",
        "What was stored before is kept; this write was not stored.",
        "Check free space and the disk, then try again.",
    ),
    sqlite3.SQLITE_READONLY: (
        "may only be read",
        "Nothing was changed.",
        "Give this user the right to write the file and its folder.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged",
        "Nothing was changed.",
        "Stop Hermes, keep a copy of the file, and restore a backup.",
    ),
    sqlite3.SQLITE_NOTADB: (
        "is not a database",
        "Nothing was changed.",
        "Restore a backup (hermes backup restore), or move the file and the .made file beside it away to begin anew.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened",
        "Nothing was changed.",
        "Check that the folder exists and that this user may read and write it.",
    ),
    sqlite3.SQLITE_PERM: ("may not be opened by this user", "Nothing was changed.", "Check the owner of the file."),
}
_SENTENCES[sqlite3.SQLITE_LOCKED] = _SENTENCES[sqlite3.SQLITE_BUSY]
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class BrokenStore(StoreFailure):
    """The file itself is damaged, not a row in it."""


class Database:
    """The open file; usable from any thread until `close`.

    `mend` sets a damaged row aside inside a transaction, and gives back what is to be done once that is committed.
    `clock` is what time it is in the store; statements ask for it as `clock()`, so that it has one.
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout: float,
        readonly: bool = False,
        mend: Mend | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.broken = ""  # what is wrong with the file, once that was seen
        self._path = path
        self._mend = mend
        self._clock = clock
        self._busy_timeout = busy_timeout
        self._readonly = readonly
        self._write_lock = threading.Lock()
        self._pool_lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(READERS)
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._writer = None if readonly else self._open_writer()
        if readonly:
            self._check_copy()
        self._files = _name_files(path)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One writing transaction: committed when the block ends, rolled back when it raises. A damaged row that it
        meets is set aside, so that the next try does not meet it."""
        with self._write_lock, self._say_errors():
            db = self._get_writer()
            try:
                with _change_state(db):
                    yield db
            except DamagedRow as damaged:
                self._set_aside(db, damaged)
                raise

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` reads from one state of the store. A damaged row is set aside, and all is read again; so `work`
        fetches before it decodes, or its open query would hold the old state."""
        met: set[tuple[object, ...]] = set()
        while True:
            try:
                with self._say_errors():
                    if self._readonly:
                        return self._read_alone(work)
                    with self._lend_reader() as db:
                        return _read_state(db, work)
            except DamagedRow as damaged:
                if self._readonly or (damaged.table, *damaged.key) in met:
                    raise
                met.add((damaged.table, *damaged.key))
                with self._write_lock, self._say_errors():
                    self._set_aside(self._get_writer(), damaged)

    def empty_log(self) -> None:
        """Take the write-ahead log into the file and cut it to nothing: it holds what was deleted as it was before."""
        with self._write_lock, self._say_errors():
            busy, *_ = self._get_writer().execute("pragma wal_checkpoint(truncate)").fetchone()
        if busy:
            log.warning("another process reads the store; what was deleted leaves the log %s-wal later", self._path)

    def _set_aside(self, db: sqlite3.Connection, damaged: DamagedRow) -> None:
        """The lock is held."""
        if self._mend is None:
            raise damaged
        with _change_state(db):
            done = self._mend(db, damaged)
        done()

    @contextmanager
    def _say_errors(self) -> Iterator[None]:
        try:
            with say_errors(self._path):
                yield
        except BrokenStore as broken:
            self.broken = str(broken)
            raise

    def find_loss(self) -> str:
        """What became of the files under this process; empty: they are those that it opened."""
        if _name_files(self._path) == self._files:
            return ""
        return f"The files of the store {self._path} were deleted or replaced while Hermes used them."

    def close(self) -> None:
        """Close every connection; one that is lent out is closed when it comes back."""
        with self._write_lock:
            with self._pool_lock:
                self._closed = True
                idle, self._idle = self._idle, []
            for db in idle:
                db.close()
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _get_writer(self) -> sqlite3.Connection:
        if self._readonly:
            raise StoreFailure(f"The store {self._path} was opened for reading only.", kept="Nothing was changed.")
        if self._writer is None:
            raise _closed(self._path)
        return self._writer

    def _open_writer(self) -> sqlite3.Connection:
        with say_errors(self._path):
            check_lost(self._path)
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._path.exists():  # no other user may read it; its side files take over its mode
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            db = self._connect("mode=rw")
            try:
                if schema.check_readable(db) == 0 and was_made(self._path):
                    raise _lost(self._path, "holds nothing")
                _use_log(db, self._busy_timeout)
                db.execute("pragma synchronous = full")
                db.execute("pragma foreign_keys = on")
                db.execute("pragma secure_delete = on").fetchone()  # what is deleted leaves the file, too
                db.execute(f"pragma journal_size_limit = {WAL_LIMIT}").fetchone()
                schema.migrate(db)
                if not was_made(self._path):
                    mark = self._path.with_name(self._path.name + MARK)
                    with open(mark, "w", opener=open_private) as file:
                        file.write(_MARK_TEXT)
            except BaseException:
                db.close()
                raise
            return db

    def _connect(self, options: str) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?{options}",
            uri=True,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        db.text_factory = partial(str, encoding="utf-8", errors="replace")  # what must be whole is read as bytes
        db.create_function("clock", 0, self._clock)
        return db

    @contextmanager
    def _lend_reader(self) -> Iterator[sqlite3.Connection]:
        with self._slots:
            with self._pool_lock:
                if self._closed:
                    raise _closed(self._path)
                db = self._idle.pop() if self._idle else None
            if db is None:
                db = self._connect("mode=rw")
                db.execute("pragma query_only = on")
            try:
                yield db
            finally:
                with self._pool_lock:
                    keep = not self._closed and not db.in_transaction
                    if keep:
                        self._idle.append(db)
                if not keep:
                    db.close()

    # --- reading beside the owner

    def _check_copy(self) -> None:
        check_lost(self._path)
        if not self._path.is_file():
            raise StoreFailure(f"There is no store at {self._path} yet.", fix="Start a conversation first.")
        version = self.read(schema.check_readable)
        if version < schema.SCHEMA_VERSION:
            raise StoreFailure(
                f"The store {self._path} is empty or was last used by an older version.",
                kept="Nothing was changed.",
                fix="Start Hermes once; it brings the store up to date.",
            )

    def _read_alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read without creating the engine's side files, which might then belong to the wrong user.

        They are missing only while nobody has the store open, and then the file may be read as it stands. If an
        owner came meanwhile, what was read may be torn, and is read again with it.
        """
        if self._closed:
            raise _closed(self._path)
        if not self._has_owner():
            try:
                result = self._read_once("mode=ro&immutable=1", work)
            except sqlite3.Error:
                if not self._has_owner():
                    raise
            else:
                if not self._has_owner():
                    return result
        return self._read_once("mode=ro", work)

    def _has_owner(self) -> bool:
        return os.path.exists(f"{self._path}-wal")

    def _read_once(self, options: str, work: Callable[[sqlite3.Connection], T]) -> T:
        db = self._connect(options)
        try:
            return _read_state(db, work)
        finally:
            db.close()


class StorePart:
    """Calls on the file of a store, by the store's clock."""

    def __init__(self, db: Database, clock: Callable[[], float]) -> None:
        self._db = db
        self._clock = clock


@contextmanager
def say_errors(path: Path) -> Iterator[None]:
    """Turn every error of the engine into a StoreFailure that says what happened, what was kept and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    except UnicodeEncodeError as error:
        raise StoreFailure("A name is not valid Unicode.", kept="Nothing was written.") from error
    except OSError as error:
        raise StoreFailure(
            f"The store {path} cannot be opened: {error.strerror or error}.",
            kept="Nothing was changed.",
            fix="Check that the folder exists and that this user may read and write it.",
        ) from error


def _explain(path: Path, error: sqlite3.Error) -> StoreFailure:
    code = getattr(error, "sqlite_errorcode", None)
    known = None if code is None else _SENTENCES.get(code & 0xFF)
    if known is None:
        return StoreFailure(f"The store {path} refused a call: {error}.", kept="Nothing of it was stored.")
    what, kept, fix = known
    kind = BrokenStore if code is not None and code & 0xFF in _BROKEN else StoreFailure
    return kind(f"The store {path} {what}.", kept=kept, fix=fix)


def _closed(path: Path) -> StoreFailure:
    return StoreFailure(f"The store {path} is closed.", kept="Nothing of this call was stored.")


def was_made(path: Path) -> bool:
    """Whether there was a store before."""
    return path.with_name(path.name + MARK).exists()


def check_lost(path: Path) -> None:
    """StoreFailure when there was a store, and its file is gone or empty."""
    if not was_made(path):
        return
    if not path.exists():
        raise _lost(path, "is gone")
    if path.stat().st_size == 0:
        raise _lost(path, "is empty")


def _lost(path: Path, what: str) -> StoreFailure:
    return StoreFailure(
        f"The store {path} {what}, and there was one before.",
        kept="Nothing was changed.",
        fix="`hermes backup restore FILE` puts a back-up in its place. "
        f"To begin with an empty store, delete {path.name}{MARK} beside it.",
    )


def _name_files(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """What the names of the store and of its log stand for now."""
    found: list[tuple[int, int] | None] = []
    for name in (f"{path}", f"{path}-wal"):
        try:
            facts = os.stat(name)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((facts.st_dev, facts.st_ino))
    return tuple(found)


def _use_log(db: sqlite3.Connection, patience: float) -> None:
    """Switch to the write-ahead log; the engine does not wait here by itself when two first starts meet."""
    deadline = time.monotonic() + patience
    while True:
        try:
            db.execute("pragma journal_mode = wal").fetchone()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


@contextmanager
def _change_state(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _read_state(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    db.execute("begin")
    try:
        return work(db)
    finally:
        if db.in_transaction:
            db.execute("rollback")
