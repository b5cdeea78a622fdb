"""Lets go of what is over (F7): rows of the queues, untouched sessions, copies of files, old crash traces.

What is open is never touched, however old: a message that waits, an answer that was not sent, a question without an
answer, a file that a kept message names. Everything goes in small steps, so that writers get their turn in between.
"""

import asyncio
import logging
import os
import shutil
import stat
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from hermes_base.inbound import OUTBOX, PEOPLE, SHOWN, UPLOADS
from hermes_base.settings import RetentionSettings, Settings
from hermes_state.files.shared_folders import list_traces
from hermes_state.sql.store_sql import Store

log = logging.getLogger(__name__)

DAY = 86_400.0
ROWS_AT_ONCE = 500
SESSIONS_AT_ONCE = 20
STEPS = 400  # of one kind in one sweep; what is left goes with the next one
PAUSE = 0.005  # seconds between two steps
#: Folders of copies below the home and below each person's folder; each entry is a folder or file of its own.
COPIES = (SHOWN, UPLOADS, OUTBOX)
CACHE = "cache"  # folders of what adapters of plugins have received
LOGS, TRACES = "logs", "crash-*.txt"
KINDS = ROWS, SESSIONS, FILES, CRASHES = "rows", "sessions", "files", "traces"

Expire = Callable[[str, float], bool]
Step = tuple[str, int]  # what went, and how much of it


class Retention:
    """`run` does its steps one by one through the caller's threads, `sweep` does them here and now."""

    def __init__(
        self, home: Path, store: Store, settings: Callable[[], Settings], expire: Expire | None = None
    ) -> None:
        """`expire` ends a session that nobody touched since then and deletes it; left out: it is only deleted."""
        self._home = home
        self._store = store
        self._settings = settings
        self._expire = expire or store.delete_stale

    async def run(self, call: Callable[..., Awaitable[Any]], *, of_store: bool = True) -> dict[str, int]:
        """One sweep, each step through `call`, which runs a function on a thread of the store; without `of_store` of
        what lies in the home alone."""
        steps, gone = self._steps(of_store), dict.fromkeys(KINDS, 0)
        while (step := await call(next, steps, None)) is not None:
            gone[step[0]] += step[1]
            await asyncio.sleep(PAUSE)
        return _tell(gone)

    def sweep(self) -> dict[str, int]:
        """How many rows, sessions, files and traces went."""
        gone = dict.fromkeys(KINDS, 0)
        for kind, count in self._steps():
            gone[kind] += count
            time.sleep(PAUSE)
        return _tell(gone)

    def _steps(self, of_store: bool = True) -> Iterator[Step]:
        """The work of one sweep: each step is done when it is asked for."""
        limits, now = self._settings().retention, self._store.turns.now()
        if of_store:
            yield from self._sweep_store(limits, now)
        yield from self._sweep_forgotten()
        if limits.queue_days > 0:
            yield from self._sweep_home(now - limits.queue_days * DAY)

    def _sweep_store(self, limits: RetentionSettings, now: float) -> Iterator[Step]:
        queue_days, session_days = limits.queue_days, limits.session_days
        for _ in range(STEPS if session_days > 0 else 0):
            before, gone = now - session_days * DAY, 0
            for session in self._store.stale_sessions(before, SESSIONS_AT_ONCE):
                # It is looked at again when it is deleted: somebody may have come back to it meanwhile.
                count = int(self._expire(session, before))
                gone += count
                yield SESSIONS, count
            if not gone:
                break
        if queue_days > 0:
            before = now - queue_days * DAY
            for _ in range(STEPS):
                gone = self._store.turns.sweep(before, ROWS_AT_ONCE)
                yield ROWS, gone
                if gone < ROWS_AT_ONCE:
                    break
            yield from self._sweep_files(before)

    def _sweep_forgotten(self) -> Iterator[Step]:
        """Whom another gateway was told to forget has a folder here, too (G12)."""
        here = [path.name for path in _list(self._home / PEOPLE) if _is_folder(path)]
        for person in self._store.people.find_forgotten(here) if here else ():
            places = [self._home / PEOPLE / person, *list_traces(self._home, person)]
            yield FILES, sum(_drop(place) for place in places if place.exists())

    def _sweep_files(self, before: float) -> Iterator[Step]:
        """The same for what the store keeps for all gateways."""
        after = 0
        while old := self._store.files.list_old(before, after, ROWS_AT_ONCE):
            after = old[-1].id
            named = self._store.turns.mentioned({file.path.split("/")[1] for file in old})
            for file in old:
                if file.path.split("/")[1] not in named:
                    yield FILES, int(self._store.files.drop(file.name))

    def _sweep_home(self, before: float) -> Iterator[Step]:
        """A copy goes when it is old and no kept message names the folder that it stands in."""
        old = find_old_copies(self._home, before)
        named = self._store.turns.mentioned({path.name for path in old}) if old else ()
        for path in old:
            if path.name not in named:
                yield FILES, _drop(path)
        traces = sorted((self._home / LOGS).glob(TRACES))
        yield CRASHES, sum(_drop(path) for path in traces if _last_change(path) < before)


# --- what lies in the home


def find_old_copies(home: Path, before: float) -> list[Path]:
    """Copies of files in which nothing was changed since then."""
    people = [place for place in _list(home / PEOPLE) if _is_folder(place)]
    places = [own / name for own in (home, *people) for name in COPIES]
    places += _list(home / CACHE)
    return [path for place in places if _is_folder(place) for path in _list(place) if _last_change(path) < before]


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_folder(path: Path) -> bool:
    """A folder and no link to one: what lies elsewhere is not ours."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _last_change(path: Path) -> float:
    """When something in it was last changed; never, as long as that cannot be told."""
    try:
        changed = path.lstat().st_mtime
        for folder, folders, files in os.walk(path):
            changed = max([changed, *(os.lstat(os.path.join(folder, name)).st_mtime for name in (*folders, *files))])
    except OSError:
        return float("inf")
    return changed


def _drop(path: Path) -> int:
    """Delete a file, a link or a folder with what is in it; 1 if it is gone."""
    try:
        if _is_folder(path):
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s is old and cannot be deleted: %s", path, error.strerror or error)
        return 0
    return 1


# --- saying it


def _tell(gone: dict[str, int]) -> dict[str, int]:
    if any(gone.values()):
        log.info("let go of what is over: %s", ", ".join(f"{count} {kind}" for kind, count in gone.items() if count))
    return gone
