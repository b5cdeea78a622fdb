"""The port to a database engine: what the store asks of one, whichever it is: `sqlite.py`, `postgres.py`.

Statements are written once, in the SQL that engines share. What they say differently is a word of ours in it, which the
engine turns into its own (`bytes_of` and the like are not nested):

- `?` and `:name`: a value, in order or by name; a statement keeps to one of the two.
- `clock()`: what time it is in the store, in seconds; it stands still within a statement.
- `bytes_of(column)`: a text as bytes, whatever the disk has made of it.
- `greatest(a, b)` and `least(a, b)`: of two values. `local_day(column)`: the day of a time, YYYY-MM-DD.
- `for update`, `for update skip locked`: nobody else writes what is read here before the transaction ends.
- `empty TABLE`: no row is left in it, nor in those that refer to it.
- `stored_tables`: the names of the tables that there are.
- `stored_columns(?)`: the `name`, `type` and `place` of each column of a table.
- Columns and casts are of type `text`, `integer` and `real` (64 bits each) or `blob`; `integer primary key` is numbered
  by the engine, with `autoincrement` never twice; `without rowid` says that a table is kept by its key.
- `search_row` and `search_matches(?)`: whose text an entry `f` of the table `search` is, and whether it is one that was
  asked for. Other statements on the search index are names (in `statements`); what they do is the engine's alone.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from hermes_base.errors import StoreFailure
from hermes_state.damage import DamagedRow
from hermes_state.sql.engines.hints import Heard, HintLine

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]


class Sql(NamedTuple):
    """A statement with its values. With `refusal`, it has to find or change something: else this is raised, and nothing
    of its transaction is written."""

    statement: str
    values: Values = ()
    refusal: Callable[[], Exception] | None = None


class Found(NamedTuple):
    """What a statement found, all of it, or gave back; and how many rows it changed."""

    rows: list[tuple[Any, ...]]
    changed: int

    @property
    def first(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None


class StoreFacts(NamedTuple):
    """What an engine is, how much it holds, and what works but not as well as it could, with what to do."""

    engine: str
    size: int  # bytes
    worries: tuple[tuple[str, str], ...] = ()


class NothingDone(Exception):
    """The refusal of a statement whose caller knows what that means."""


class Transaction(Protocol):
    #: A row's text goes into the search index with the row: numbers are not given in the order of commits here, so
    #: nobody can tell what is behind, and a batch of entries costs what each of them does.
    indexes_at_once: bool

    def execute(self, statement: str, values: Values = ()) -> Found:
        """One statement, and what came of it."""

    def run(self, *batch: Sql) -> list[Found]:
        """Several, in one call, so that an engine behind a network is asked once."""

    def each(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """What a statement finds, row by row, for what is too much at once."""

    def now(self) -> float:
        """What `clock()` says."""

    def take_time(self) -> None:
        """This transaction may take as long as it does, and stand still meanwhile."""

    def write_match(self, runs: list[list[str]]) -> str:
        """What is looked for, runs of words, in the language of the search index."""


class Engine(Protocol):
    """An open database; usable from any thread until `close`. Its errors are StoreFailures."""

    broken: str  # what is wrong with the database as a whole, once that was seen
    absent: str  # why it cannot be asked now, as long as that is so; it may come back by itself
    shared: bool  # several processes may write to it at a time, each as a node of its own

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What `work` gives back, once what it wrote is committed; nothing is written when it raises. It may be done on
        another thread, together with others' writes, and twice if one of those raises."""

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What `work` reads from one state of the database."""

    def find(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """What one statement finds."""

    def may_write(self) -> bool: ...

    def open_hints(self, heard: Heard) -> HintLine:
        """A line to the other processes; `heard` is called with topic and text, on a thread that must not wait."""

    def now(self) -> float: ...

    def empty_log(self) -> None:
        """See to it that what was deleted is in no log any more."""

    def find_loss(self) -> str:
        """What became of the database under this process; empty: nothing."""

    def find_faults(self) -> list[str]:
        """What is wrong with the database as a whole, looked for now."""

    def describe(self) -> StoreFacts: ...

    def close(self) -> None: ...


Mend = Callable[[Transaction, DamagedRow], Callable[[], None]]


class Database:
    """A store's engine, with a way to go on when a row is damaged: `mend` sets it aside inside a transaction, and gives
    back what is to be done once that is committed."""

    def __init__(self, engine: Engine, mend: Mend | None = None) -> None:
        self.engine = engine
        self.find = engine.find
        self._mend = mend

    def write(self, work: Callable[[Transaction], T]) -> T:
        """One writing transaction. A damaged row that it meets is set aside, so that the next try does not meet it."""
        try:
            return self.engine.write(work)
        except DamagedRow as damaged:
            self._set_aside(damaged)
            raise

    def run(self, *batch: Sql) -> list[Found]:
        """One writing transaction of these statements."""
        return self.engine.write(lambda db: db.run(*batch))

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What `work` reads from one state of the store."""
        return self._read_whole(lambda: self.engine.read(work))

    def find_as(self, make: Callable[[tuple[Any, ...]], T], statement: str, values: Values = ()) -> list[T]:
        """What one statement finds, with something made of each row."""
        return self._read_whole(lambda: [make(row) for row in self.engine.find(statement, values)])

    def _read_whole(self, read: Callable[[], T]) -> T:
        """A damaged row is set aside, and all is read again."""
        met: set[tuple[object, ...]] = set()
        while True:
            try:
                return read()
            except DamagedRow as damaged:
                if not self.engine.may_write() or (damaged.table, *damaged.key) in met:
                    raise
                met.add((damaged.table, *damaged.key))
                self._set_aside(damaged)

    def _set_aside(self, damaged: DamagedRow) -> None:
        if self._mend is None:
            raise damaged
        mend = self._mend
        self.engine.write(lambda db: mend(db, damaged))()


class StorePart:
    """Calls on a store's database."""

    def __init__(self, db: Database) -> None:
        self._db = db


# --- many small writes and one commit


class PendingWrite(Generic[T]):
    """One writer's work, and what came of it; the work is done on any thread, and may be done again."""

    def __init__(self, work: Callable[..., T]) -> None:
        self.work = work
        self.result: T
        self.error: Exception | None = None
        self.leads = False  # its writer writes the next group
        self.called = threading.Lock()  # held until there is something to do for its writer
        self.called.acquire()


class GroupCommit:
    """Who comes while others write waits, and then one of those who wait writes for all: a commit costs far more than
    the statements in it, and so does handing a connection from thread to thread.

    `perform` writes a group: when it returns, each of its writes is committed or has an error."""

    def __init__(self, perform: Callable[[list[PendingWrite[Any]]], None]) -> None:
        self._perform = perform
        self._lock = threading.Lock()
        self._waiting: list[PendingWrite[Any]] = []
        self._has_leader = False

    def write(self, work: Callable[..., T]) -> T:
        """What `work` gives back, once that is committed."""
        mine = PendingWrite(work)
        try:
            with self._lock:
                self._waiting.append(mine)
                waits, self._has_leader = self._has_leader, True
                mine.leads = not waits
            if waits:  # not `leads`: that may have come meanwhile, and with it the call that is waited for here
                mine.called.acquire()
            if mine.leads:
                self._write_group()
        finally:
            self._step_back(mine)
        if mine.error is not None:
            raise mine.error
        return mine.result

    def _write_group(self) -> None:
        with self._lock:
            group, self._waiting = self._waiting, []
        try:
            self._perform(group)
        except BaseException:  # this thread is to end; the others learn that nothing was written
            for one in group:
                one.error = StoreFailure("A write was broken off.", kept="Nothing of it was stored.")
            raise
        finally:
            for one in group:
                one.called.release()

    def _step_back(self, mine: PendingWrite[Any]) -> None:
        """Whatever ends a wait: its write is not left behind, and the next group has somebody who writes it."""
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
            if not mine.leads:
                return
            self._has_leader = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].called.release()
