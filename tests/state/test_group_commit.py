"""C2: writes that come at the same time share a commit, and nothing else."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from waiting import wait_until

from hermes_base.errors import StoreFailure
from hermes_state.sql import statements
from hermes_state.sql.engines.engine import GroupCommit, NothingDone, PendingWrite, Sql, Transaction
from hermes_state.sql.engines.sqlite import SqliteEngine

SET, GET = statements.SET_META, statements.GET_META


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def engine(path: Path) -> Iterator[SqliteEngine]:
    with closing(SqliteEngine(path, busy_timeout=5.0)) as opened:
        yield opened


class Crowd:
    """Writers that all come while one is at work."""

    def __init__(self, engine: SqliteEngine, pool: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._pool = pool
        self._go_on, self.at_work = threading.Event(), threading.Event()
        self.first = pool.submit(engine.write, self._hold)
        assert self.at_work.wait(60)

    def _hold(self, db: Transaction) -> str:
        self.at_work.set()
        assert self._go_on.wait(60)
        db.execute(SET, ("first", "written"))
        return "first"

    def add(self, work: Callable[[Transaction], object]) -> "Future[object]":
        known = len(self._engine._writes._waiting)
        added = self._pool.submit(self._engine.write, work)
        wait_until(lambda: len(self._engine._writes._waiting) == known + 1)
        return added

    def go_on(self) -> None:
        self._go_on.set()


@pytest.fixture
def crowd(engine: SqliteEngine) -> Iterator[Crowd]:
    with ThreadPoolExecutor(20) as pool:
        made = Crowd(engine, pool)
        try:
            yield made
        finally:
            made.go_on()


def set_to(key: str, value: str) -> Callable[[Transaction], str]:
    def work(db: Transaction) -> str:
        db.execute(SET, (key, value))
        return key

    return work


def stored(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as other:
        return dict(other.execute("select key, value from meta where value = 'written'"))


def count_commits(path: Path) -> int:
    """The log's frames that end a transaction."""
    log = path.with_name(path.name + "-wal").read_bytes()
    size = int.from_bytes(log[8:12], "big")
    heads = (log[at : at + 24] for at in range(32, len(log), 24 + size))
    return sum(1 for head in heads if int.from_bytes(head[4:8], "big") and head[8:16] == log[16:24])


def test_writes_that_wait_share_a_commit(engine: SqliteEngine, crowd: Crowd, path: Path) -> None:
    before = count_commits(path)
    added = [crowd.add(set_to(f"k{n}", "written")) for n in range(10)]
    crowd.go_on()
    assert [one.result(60) for one in added] == [f"k{n}" for n in range(10)]
    assert crowd.first.result(60) == "first"
    assert stored(path).keys() == {"first", *(f"k{n}" for n in range(10))}
    assert count_commits(path) == before + 2


def test_one_that_fails_leaves_nothing_and_harms_nobody(engine: SqliteEngine, crowd: Crowd, path: Path) -> None:
    def fail(db: Transaction) -> None:
        db.execute(SET, ("half", "written"))
        raise ValueError("no")

    def refuse(db: Transaction) -> None:
        db.run(Sql(SET, ("refused", "written")), Sql("select 1 from node", (), NothingDone))

    def break_a_rule(db: Transaction) -> None:
        db.execute(SET, ("broken", "written"))
        db.execute("insert into meta (key, value) values ('nothing', null)")

    before = crowd.add(set_to("before", "written"))
    failed, refused, broken = crowd.add(fail), crowd.add(refuse), crowd.add(break_a_rule)
    after = crowd.add(set_to("after", "written"))
    crowd.go_on()
    assert (before.result(60), after.result(60)) == ("before", "after")
    for one, kind in ((failed, ValueError), (refused, NothingDone), (broken, StoreFailure)):
        with pytest.raises(kind):
            one.result(60)
    assert stored(path).keys() == {"first", "before", "after"}


def test_a_write_that_is_refused_writes_nothing(engine: SqliteEngine, path: Path) -> None:
    """F7: what is asked for again and again and is there already does not fill the disk."""
    before = count_commits(path)
    for _ in range(3):
        with pytest.raises(NothingDone):
            engine.write(lambda db: db.run(Sql(SET, ("a", "written")), Sql("select 1 from node", (), NothingDone)))
    assert count_commits(path) == before
    assert stored(path) == {}


def test_each_sees_what_the_one_before_it_wrote(engine: SqliteEngine, crowd: Crowd) -> None:
    def count_up(db: Transaction) -> int:
        found = db.execute(GET, ("count",)).first
        number = int(found[0]) + 1 if found else 1
        db.execute(SET, ("count", str(number)))
        return number

    added = [crowd.add(count_up) for _ in range(10)]
    crowd.go_on()
    assert [one.result(60) for one in added] == list(range(1, 11))


def test_a_full_disk_is_told_to_all_and_they_can_go_on(engine: SqliteEngine, crowd: Crowd, path: Path) -> None:
    """F7: nobody is told that something is stored that is not."""
    engine.read(lambda db: db)
    added = [crowd.add(set_to(f"k{n}", "written")) for n in range(3)]
    full = crowd.add(lambda db: db.execute("pragma max_page_count = 1"))
    large = crowd.add(set_to("large", "x" * 10_000_000))
    crowd.go_on()
    full.exception(60)
    with pytest.raises(StoreFailure, match="disk is full"):
        large.result(60)
    told = {f"k{n}" for n, one in enumerate(added) if one.exception(60) is None}
    assert stored(path).keys() == {"first", *told}
    engine.write(lambda db: db.execute("pragma max_page_count = 100000"))
    assert engine.write(set_to("later", "written")) == "later"


def test_a_refusal_does_not_outlive_what_it_was_for(engine: SqliteEngine, crowd: Crowd, path: Path) -> None:
    """C1, C2: the second delivery of a message is not taken for seen before when the first one was not stored."""

    def add_once(db: Transaction) -> None:
        db.run(Sql("insert into meta (key, value) values ('m', 'written') on conflict do nothing", (), NothingDone))

    first, second = crowd.add(add_once), crowd.add(add_once)
    large = crowd.add(lambda db: db.run(Sql("pragma max_page_count = 1"), Sql(SET, ("large", "x" * 10_000_000))))
    crowd.go_on()
    assert isinstance(large.exception(60), StoreFailure)
    ends = [first.exception(60), second.exception(60)]
    assert "m" in stored(path) or all(isinstance(end, StoreFailure) for end in ends)


def test_a_closed_store_is_told_to_all(engine: SqliteEngine, crowd: Crowd) -> None:
    added = [crowd.add(set_to(f"k{n}", "written")) for n in range(3)]
    closing_thread = threading.Thread(target=engine.close)
    closing_thread.start()
    crowd.go_on()
    closing_thread.join(60)
    for one in added:
        error = one.exception(60)
        assert error is None or "is closed" in str(error)
    with pytest.raises(StoreFailure, match="is closed"):
        engine.write(set_to("later", "written"))


class Interrupted(BaseException):
    pass


def test_a_thread_that_is_to_end_while_it_writes_for_others(engine: SqliteEngine, crowd: Crowd, path: Path) -> None:
    """A key pressed while a command writes: its error is its own, and nobody waits for ever."""

    def interrupt(db: Transaction) -> None:
        db.execute(SET, ("half", "written"))
        raise Interrupted

    leads = crowd.add(interrupt)
    other = crowd.add(set_to("other", "written"))
    crowd.go_on()
    assert isinstance(leads.exception(60), Interrupted)
    with pytest.raises(StoreFailure, match="broken off"):
        other.result(60)
    assert stored(path).keys() == {"first"}
    assert engine.write(set_to("later", "written")) == "later"


def test_many_threads_write_and_every_write_is_there(engine: SqliteEngine, path: Path) -> None:
    def write_some(thread: int) -> None:
        for number in range(30):
            key = f"{thread}-{number}"
            if number % 5 == 4:
                with pytest.raises(NothingDone):
                    engine.write(lambda db: db.run(Sql("select 1 from node", (), NothingDone)))
            assert engine.write(set_to(key, "written")) == key
            assert engine.read(lambda db: db.execute(GET, (key,)).rows) == [("written",)]  # noqa: B023

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write_some, range(16)))
    assert len(stored(path)) == 16 * 30


class SlowToLeave:
    """A lock that one thread is slow to leave: in between, others do what they do."""

    def __init__(self, slow: Callable[[], None]) -> None:
        self._lock, self._slow, self.slow_thread = threading.Lock(), slow, 0

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if threading.get_ident() == self.slow_thread:
            self.slow_thread = 0
            self._slow()


def test_who_is_called_before_it_waits_writes_once_and_for_all() -> None:
    """F6: between coming and waiting it may be the one who writes next; nobody waits for ever then."""
    joined, stepped_back = threading.Event(), threading.Event()

    def linger() -> None:
        joined.set()
        assert stepped_back.wait(60)

    def perform(group: list[PendingWrite[object]]) -> None:
        for one in group:
            one.result = one.work()

    lock = SlowToLeave(linger)
    writes = GroupCommit(perform)
    writes._lock = lock  # type: ignore[assignment]

    def come_second() -> object:
        lock.slow_thread = threading.get_ident()
        return writes.write(lambda: "second")

    with ThreadPoolExecutor(3) as pool:
        second: list[Future[object]] = []

        def hold() -> str:
            second.append(pool.submit(come_second))
            assert joined.wait(60)
            return "first"

        first = pool.submit(writes.write, hold)
        assert first.result(60) == "first"
        third = pool.submit(writes.write, lambda: "third")
        wait_until(lambda: len(writes._waiting) == 2)
        stepped_back.set()
        assert [second[0].result(60), third.result(60)] == ["second", "third"]
    assert writes.write(lambda: "fourth") == "fourth"
