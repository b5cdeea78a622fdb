"""SQLite as the store's engine: one connection that writes, a few that read, its own words of SQL, and every error as a
sentence.

Reading connections are lent for one call and shared by all threads, so that threads may come and go without leaving
descriptors behind. Their number is bounded, since SQLite keeps the descriptors of a closed connection while the process
has another one open.
"""

import logging
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from hermes_base.errors import StoreFailure
from hermes_constants.ordinary_files import open_private
from hermes_state.sql import schema, statements
from hermes_state.sql.engines.engine import Found, GroupCommit, PendingWrite, Sql, StoreFacts, Transaction, Values
from hermes_state.sql.engines.hints import Heard, HintLine, NoHints
from hermes_state.texts import may_go_on

log = logging.getLogger(__name__)

T = TypeVar("T")
READERS = 4
KEPT_STATEMENTS = 256  # of a connection; there are fewer
#: Beside the file while there is a store: an empty or missing file next to it is a loss, not a beginning.
MARK = ".made"
_MARK_TEXT = "There is a store beside this file. Delete this file to let Hermes begin with an empty one.\n"
WAL_LIMIT = 64 * 1024 * 1024
_ALONE = "mode=ro&immutable=1"  # for a file that nobody writes
_PAGES, _PAUSE = 512, 0.002  # a file is copied in steps, so that its writers get their turn at the disk

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
_ERRORS = (sqlite3.Error, UnicodeEncodeError, OSError)
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class BrokenStore(StoreFailure):
    """The file itself is damaged, not a row in it."""


# --- the words of our SQL, as SQLite says them
_WORDS = (
    (r"^empty (\w+)$", r"delete from \1"),
    (r"\bbytes_of\(([^()]+)\)", r"cast(\1 as blob)"),
    (r"\bgreatest\(", "max("),
    (r"\bleast\(", "min("),
    (r"\blocal_day\(([^()]+)\)", r"date(\1, 'unixepoch', 'localtime')"),
    (r"\bstored_tables\b", "(select name from sqlite_master where type = 'table')"),
    (r"\bstored_columns\(\?\)", "(select name, lower(type) as type, cid as place from pragma_table_info(?))"),
    (r"\bsearch_matches\(\?\)", "search match ?"),
    (r"\bsearch_row\b", "f.rowid"),
    (r" for update( of \w+)?( skip locked)?", ""),  # who writes is alone
)
#: The index keeps no copy of the text, and no lengths, since hits come newest first and not by rank.
_OWN = {
    statements.CREATE_SEARCH: "create virtual table search using fts5 "
    "(text, content = '', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2')",
    statements.DROP_SEARCH: "drop table if exists search",
    statements.ADD_SEARCH: "insert into search (rowid, text) values (?, ?)",
    statements.TAKE_SEARCH: "insert into search (search, rowid, text) values ('delete', ?, ?)",
    # Without it, words that were taken out stay in the index's older parts until it tidies itself up.
    statements.TIDY_SEARCH: "insert into search (search) values ('optimize')",
    statements.LAST_NUMBER: "select coalesce(max(seq), 0) from sqlite_sequence where name = ?",
    statements.GO_ON_AFTER: "insert into sqlite_sequence (name, seq) values (?, ?)",
}


@cache
def phrase(statement: str) -> str:
    """The statement as SQLite is asked it."""
    said = _OWN.get(statement, statement)
    for word, ours in _WORDS:
        said = re.sub(word, ours, said)
    return said


class SqliteTransaction:
    """Implements `Transaction` on a connection."""

    indexes_at_once = False

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self.connection = connection
        self.now = clock

    def execute(self, statement: str, values: Values = ()) -> Found:
        cursor = self.connection.execute(phrase(statement), values)
        return Found(cursor.fetchall(), cursor.rowcount)

    def run(self, *batch: Sql) -> list[Found]:
        done = []
        for one in batch:
            found = self.execute(one.statement, one.values)
            if one.refusal is not None and not found.rows and found.changed < 1:
                raise one.refusal()
            done.append(found)
        return done

    def each(self, statement: str) -> Iterator[tuple[Any, ...]]:
        return self.connection.execute(phrase(statement))

    def take_time(self) -> None:
        """Nobody ends a transaction here."""

    def write_match(self, runs: list[list[str]]) -> str:
        """Each run a phrase, all of them wanted."""
        return " ".join(f'"{" ".join(run)}"{"*" if may_go_on(run) else ""}' for run in runs)


class SqliteEngine:
    """Implements `Engine` on a file; `clock` is what time it is in the store."""

    def __init__(
        self, path: Path, *, busy_timeout: float, readonly: bool = False, clock: Callable[[], float] = time.time
    ) -> None:
        self.broken, self.absent, self.shared = "", "", False
        self.now = clock
        self._path = path
        self._busy_timeout = busy_timeout
        self._readonly = readonly
        self._write_lock = threading.Lock()
        self._writes = GroupCommit(self._write_group)
        self._pool_lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(READERS)
        self._idle: list[SqliteTransaction] = []
        self._closed = False
        self._writer = None if readonly else self._open_writer()
        if readonly:
            self._check_copy()
        self._files = _name_files(path)

    def write(self, work: Callable[[Transaction], T]) -> T:
        try:
            return self._writes.write(work)
        except _ERRORS as error:
            raise self._explain(error) from error

    def _write_group(self, group: list[PendingWrite[Any]]) -> None:
        """One transaction for all of them. When one raises, nothing of it is left, and each has its own."""
        try:
            with self._write_lock:
                db = self._get_writer()
                if len(group) > 1 and _write_together(db, group):
                    return
                for one in group:
                    try:
                        with _change_state(db.connection):
                            one.result = one.work(db)
                    except Exception as error:
                        log.debug("a write raised, which its caller is told", exc_info=True)
                        one.error = error
        except (*_ERRORS, StoreFailure) as error:
            for one in group:
                one.error = error

    def read(self, work: Callable[[Transaction], T]) -> T:
        try:
            if self._readonly:
                return self._read_alone(work)
            with self._lend_reader() as db:
                return _read_state(db, work)
        except _ERRORS as error:
            raise self._explain(error) from error

    def find(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """As `read`; a statement is one state by itself."""
        try:
            if self._readonly:
                return self._read_alone(lambda db: db.execute(statement, values).rows)
            with self._lend_reader() as db:
                return db.execute(statement, values).rows
        except _ERRORS as error:
            raise self._explain(error) from error

    def open_hints(self, heard: Heard) -> HintLine:
        del heard
        return NoHints()

    def may_write(self) -> bool:
        return not self._readonly

    def empty_log(self) -> None:
        """Take the write-ahead log into the file and cut it to nothing: it holds what was deleted as it was before."""
        with self._write_lock, say_errors(self._path):
            busy, *_ = self._get_writer().connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        if busy:
            log.warning("another process reads the store; what was deleted leaves the log %s-wal later", self._path)

    def find_faults(self) -> list[str]:
        found = self.read(lambda db: db.execute("pragma quick_check(3)").rows)
        return [] if found == [("ok",)] else [str(row[0]) for row in found]

    def describe(self) -> StoreFacts:
        size = sum(os.path.getsize(name) for name in (f"{self._path}", f"{self._path}-wal") if os.path.exists(name))
        return StoreFacts(f"SQLite {sqlite3.sqlite_version}", size)

    def _explain(self, error: Exception) -> StoreFailure:
        failure = _explain(self._path, error)
        self.broken = str(failure) if isinstance(failure, BrokenStore) else self.broken
        return failure

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
                db.connection.close()
            if self._writer is not None:
                self._writer.connection.close()
                self._writer = None

    def _get_writer(self) -> SqliteTransaction:
        if self._readonly:
            raise StoreFailure(f"The store {self._path} was opened for reading only.", kept="Nothing was changed.")
        if self._writer is None:
            raise _closed(self._path)
        return self._writer

    def _open_writer(self) -> SqliteTransaction:
        with say_errors(self._path):
            check_lost(self._path)
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._path.exists():  # no other user may read it; its side files take over its mode
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            writer = self._connect("mode=rw")
            db = writer.connection
            try:
                if schema.check_readable(writer) == 0 and was_made(self._path):
                    raise _lost(self._path, "holds nothing")
                _use_log(db, self._busy_timeout)
                db.execute("pragma synchronous = full")
                db.execute("pragma foreign_keys = on")
                db.execute("pragma secure_delete = on").fetchone()  # what is deleted leaves the file, too
                db.execute(f"pragma journal_size_limit = {WAL_LIMIT}").fetchone()
                if schema.check_readable(writer) < schema.SCHEMA_VERSION:
                    with _change_state(db):
                        schema.migrate(writer)
                if not was_made(self._path):
                    mark = self._path.with_name(self._path.name + MARK)
                    with open(mark, "w", opener=open_private) as file:
                        file.write(_MARK_TEXT)
            except BaseException:
                db.close()
                raise
            return writer

    def _connect(self, options: str) -> SqliteTransaction:
        db = _connect(self._path, options, self._busy_timeout)
        db.text_factory = partial(str, encoding="utf-8", errors="replace")  # what must be whole is read as bytes
        db.create_function("clock", 0, self.now, deterministic=True)  # asked once by each statement
        return SqliteTransaction(db, self.now)

    @contextmanager
    def _lend_reader(self) -> Iterator[SqliteTransaction]:
        with self._slots:
            with self._pool_lock:
                if self._closed:
                    raise _closed(self._path)
                db = self._idle.pop() if self._idle else None
            if db is None:
                db = self._connect("mode=rw")
                db.connection.execute("pragma query_only = on")
            try:
                yield db
            finally:
                with self._pool_lock:
                    keep = not self._closed and not db.connection.in_transaction
                    if keep:
                        self._idle.append(db)
                if not keep:
                    db.connection.close()

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

    def _read_alone(self, work: Callable[[Transaction], T]) -> T:
        """Read without creating the side files, which might then belong to the wrong user."""
        if self._closed:
            raise _closed(self._path)
        return _read_beside(self._path, lambda options: self._read_once(options, work))

    def _read_once(self, options: str, work: Callable[[Transaction], T]) -> T:
        db = self._connect(options)
        try:
            return _read_state(db, work)
        finally:
            db.connection.close()


# --- a file, without the store


def copy_file(source: Path, target: Path, patience: float) -> None:
    """Copy one state of a store's file without a write to it."""

    def copy_pages(options: str) -> None:
        target.unlink(missing_ok=True)
        with (
            closing(_connect(source, options, patience)) as db,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            db.execute("begin")
            db.execute("select count(*) from sqlite_schema").fetchone()  # from here on all steps see this one state
            db.backup(copy, pages=_PAGES, sleep=_PAUSE)
            db.execute("rollback")

    with say_errors(source):
        _read_beside(source, copy_pages)


def read_layout(path: Path) -> int:
    """The layout of a file that nobody has open."""
    with say_errors(path), closing(_connect(path, _ALONE, 0)) as db:
        return schema.check_readable(SqliteTransaction(db, time.time))


def check_file(path: Path) -> str:
    """What is wrong with a file that nobody has open; empty: nothing."""
    try:
        with closing(_connect(path, _ALONE, 0)) as db:
            problem = str(db.execute("pragma integrity_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    return "" if problem == "ok" else problem


def _connect(path: Path, options: str, patience: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=KEPT_STATEMENTS,
    )


def _read_beside(path: Path, read: Callable[[str], T]) -> T:
    """What is read with these options of a connection: as the file stands while nobody has it open, and without making
    the side files; if an owner came meanwhile, what was read may be torn, and is read again with it."""
    if not _has_owner(path):
        try:
            result = read(_ALONE)
        except sqlite3.Error:
            if not _has_owner(path):
                raise
        else:
            if not _has_owner(path):
                return result
    return read("mode=ro")


def _has_owner(path: Path) -> bool:
    return os.path.exists(f"{path}-wal")


@contextmanager
def say_errors(path: Path) -> Iterator[None]:
    """Turn every error of the engine into a StoreFailure that says what happened, what was kept and what to do."""
    try:
        yield
    except _ERRORS as error:
        raise _explain(path, error) from error


def _explain(path: Path, error: Exception) -> StoreFailure:
    if isinstance(error, UnicodeEncodeError):
        return StoreFailure("A name is not valid Unicode.", kept="Nothing was written.")
    if isinstance(error, OSError):
        return StoreFailure(
            f"The store {path} cannot be opened: {error.strerror or error}.",
            kept="Nothing was changed.",
            fix="Check that the folder exists and that this user may read and write it.",
        )
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
        if db.in_transaction:
            db.execute("commit")
    except BaseException:
        if db.in_transaction:
            db.execute("rollback")
        raise


def _write_together(db: SqliteTransaction, group: list[PendingWrite[Any]]) -> bool:
    with _change_state(db.connection):
        try:
            for one in group:
                one.result = one.work(db)
        except Exception:  # whose it is shows when each is done alone
            log.debug("one of %d writes that were to share a commit raised", len(group), exc_info=True)
            if db.connection.in_transaction:
                db.connection.execute("rollback")
            return False
    return True


def _read_state(db: SqliteTransaction, work: Callable[[Transaction], T]) -> T:
    db.connection.execute("begin")
    try:
        return work(db)
    finally:
        if db.connection.in_transaction:
            db.connection.execute("rollback")
