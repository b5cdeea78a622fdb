"""Moves a store: all of it is copied and compared before anything names the new place, and the old one stays as it is.

Whoever calls holds the home, so that no gateway of it works on the store meanwhile.
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hermes_base.errors import StoreFailure
from hermes_base.store_place import StorePlace, describe_place, is_address
from hermes_state.sql.engines.engine import Engine
from hermes_state.sql.engines.opening import open_engine
from hermes_state.sql.engines.sqlite import MARK, SqliteEngine
from hermes_state.sql.store_sql import Store
from hermes_state.transfer.copying import TableSums, check_free, copy_store, find_living
from hermes_state.turns import LEASE_SECONDS

PATIENCE = 10.0
ARRIVING = ".arriving"  # behind the name of a file that is being written
ASIDE = ".before-move-"  # behind the name of a file that was there before, with the time
_SIDES = ("", "-wal", "-shm")
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class StoreMove:
    """What was copied; `aside` is where a file that had the name before is now."""

    tallies: TableSums
    damaged: int
    aside: Path | None


def move_store(source: StorePlace, target: StorePlace) -> StoreMove:
    """StoreFailure when the target holds something, when another gateway uses the source, or when what arrived differs:
    then nothing was changed but, perhaps, a copy that nobody uses."""
    with closing(Store(source, busy_timeout=PATIENCE)) as old:
        if is_address(source):
            _wait_until_alone(source, old.engine)
        damaged = old.set_damage_aside()
        if is_address(target):
            with closing(open_engine(target, PATIENCE, readonly=False)) as new:
                tallies, aside = copy_store(old.engine, new), None
        else:
            with _write_beside(Path(target)) as new:
                tallies = copy_store(old.engine, new)
            aside = _put_in_place(Path(target))
        if is_address(source) and (living := find_living(old.engine)):
            raise _say_shared(source, living)
    return StoreMove(tallies, damaged, aside)


def try_target(target: StorePlace) -> None:
    """That a store could be moved there, before anybody is kept waiting. A file that is there is put aside."""
    if is_address(target):
        with closing(open_engine(target, PATIENCE, readonly=False)) as engine:
            check_free(engine)


def save_as_file(source: StorePlace, target: Path) -> None:
    """A database as a new file of one state of it, though others write."""
    with closing(open_engine(source, PATIENCE, readonly=True)) as old, _open_new_file(target) as new:
        copy_store(old, new)


def move_out(file: Path, target: StorePlace) -> None:
    """The store of a file that nobody else has, into an empty database; the file goes."""
    with (
        closing(SqliteEngine(file, busy_timeout=PATIENCE)) as old,  # which brings an older one up to date
        closing(open_engine(target, PATIENCE, readonly=False)) as new,
    ):
        copy_store(old, new)
    for side in (*_SIDES, MARK):
        file.with_name(file.name + side).unlink(missing_ok=True)


def _wait_until_alone(place: StorePlace, engine: Engine) -> None:
    """A gateway that was killed counts as living until its lease is over."""
    end = time.monotonic() + LEASE_SECONDS + 1
    while living := find_living(engine):
        if time.monotonic() > end:
            raise _say_shared(place, living)
        time.sleep(_LOOK_SECONDS)


def _say_shared(place: StorePlace, living: list[str]) -> StoreFailure:
    return StoreFailure(
        f"Another gateway works on the store {describe_place(place)}: {', '.join(living)}.",
        kept="The store is where it was.",
        fix="Stop all gateways but this one (`hermes gateway stop` there), then move it.",
    )


# --- files


@contextmanager
def _open_new_file(path: Path) -> Iterator[Engine]:
    """A new store in a file, without a mark beside it; what a killed one left of that name goes."""
    for side in (*_SIDES, MARK):
        path.with_name(path.name + side).unlink(missing_ok=True)
    try:
        with closing(SqliteEngine(path, busy_timeout=PATIENCE)) as engine:
            yield engine
    finally:
        path.with_name(path.name + MARK).unlink(missing_ok=True)


@contextmanager
def _write_beside(path: Path) -> Iterator[Engine]:
    with _open_new_file(path.with_name(path.name + ARRIVING)) as engine:
        yield engine


def _put_in_place(path: Path) -> Path | None:
    """Give the new file the name; one that has it gets another. Nothing looks at either while settings name a
    database."""
    aside = None
    if path.exists():
        aside = path.with_name(f"{path.name}{ASIDE}{time.strftime('%Y%m%d-%H%M%S')}")
        for side in reversed(_SIDES):
            if os.path.exists(f"{path}{side}"):
                os.rename(f"{path}{side}", f"{aside}{side}")
    os.rename(path.with_name(path.name + ARRIVING), path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return aside
