"""Keeps a gateway that breaks again and again from being started without end (F9): a pause that grows, then a refusal.

Each start and its end are noted in `run/starts.json` of the home. A start counts as a crash when it failed with an
error, or when it ended without a word before it was ready. Whoever kills a gateway that runs has their reasons: that is
no crash, and the next one starts at once. An orderly end, an edit of the settings and another version begin anew.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hermes_base.errors import HermesError, HomeBusy
from hermes_cli.config import CONFIG_FILE, ENV_FILE, redactor
from hermes_cli.config.own_files import hold_folder, replace_file
from hermes_constants import VERSION
from hermes_state.home_lock import holder

log = logging.getLogger(__name__)

#: So many crashes within so many seconds, and it is not started any more.
MOST_CRASHES, WINDOW_SECONDS = 5, 600.0
LONGEST_PAUSE = 60.0
#: The exit code of a refusal (EX_TEMPFAIL), on which a service manager must not try again.
REFUSED = 75
FOLDER, FILE = "run", "starts.json"
_SILENT = "it ended without a word before it was ready (killed, or out of memory)"


@dataclass(frozen=True, slots=True)
class GatewayStart:
    """One life of the gateway."""

    at: float
    pid: int
    ready: bool = False
    ended: float = 0.0  # 0: it runs, or ended without a word
    error: str = ""

    @property
    def last(self) -> float:
        """When it was last heard of."""
        return self.ended or self.at


@dataclass(frozen=True, slots=True)
class History:
    """The starts since the last orderly end, with what they were started from."""

    version: str = ""
    settings: tuple[Any, ...] = ()  # what changes when a file of settings does
    starts: tuple[GatewayStart, ...] = ()


@dataclass(frozen=True, slots=True)
class StartVerdict:
    """Seconds to wait before this start, or that there is to be none."""

    crashes: int = 0
    pause: float = 0.0
    refused: bool = False
    reason: str = ""
    again_in: float = 0.0  # seconds until a refused one may be tried again
    began: float = 0.0  # the last crash


# --- rules, pure


def judge(history: History, now: float) -> StartVerdict:
    # A crash failed with an error, or ended without a word before it was ready.
    crashed = [start for start in history.starts if start.error or not (start.ready or start.ended)]
    crashes = [start for start in crashed if now - start.last < WINDOW_SECONDS]
    if not crashes:
        return StartVerdict()
    reason, last = crashes[-1].error or _SILENT, crashes[-1].last
    if len(crashes) >= MOST_CRASHES:
        oldest = crashes[-MOST_CRASHES]
        again_in = max(0.0, oldest.last + WINDOW_SECONDS - now)
        return StartVerdict(len(crashes), 0.0, True, reason, again_in, crashes[-1].at)
    wanted = min(LONGEST_PAUSE, 2.0 ** (len(crashes) - 1))
    return StartVerdict(len(crashes), min(wanted, max(0.0, last + wanted - now)), reason=reason)


def begin_anew(history: History, version: str, settings: tuple[Any, ...]) -> History:
    """What was learned of another version, or with other settings, says nothing about this one."""
    same = (history.version, history.settings) == (version, settings)
    return history if same else History(version, settings)


def drop_start(history: History, start: GatewayStart) -> History:
    """Without this start. The process alone does not tell: in a container each life has the same number."""
    others = tuple(other for other in history.starts if (other.at, other.pid) != (start.at, start.pid))
    return replace(history, starts=others)


def write_refusal(verdict: StartVerdict, trace: Path | None) -> str:
    where = f" The trace is in {trace}." if trace else ""
    return (
        f"The gateway crashed {verdict.crashes} times within {WINDOW_SECONDS / 60:.0f} minutes and is not started "
        f"again. The last time: {verdict.reason.rstrip('.')}.{where} What was said is kept. Put it right: an edit of "
        f"the settings or another version lets it start. Or start it as it is: hermes gateway run --anyway (in "
        f"{verdict.again_in / 60:.0f} min it may start by itself)."
    )


# --- performing


class CrashGuard:
    """The guard of one home, around one start."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._home = home
        self._clock = clock
        self._path = home / FOLDER / FILE
        self._stamp: tuple[Any, ...] = ()

    def admit(self, *, anyway: bool = False) -> StartVerdict:
        """What earlier starts say about this one. A home that is owned is left alone: its owner says so. One without a
        name is letting go of it."""
        owner = holder(self._home)
        if owner is not None and owner.pid:
            return StartVerdict()
        stamp = read_stamp(self._home)
        known = self._change(lambda known: History(VERSION, stamp) if anyway else begin_anew(known, VERSION, stamp))
        return judge(known, self._clock())

    @contextmanager
    def watch(self) -> Iterator[Callable[[], None]]:
        """Around the gateway's life; yields what is called when it is ready."""
        start = GatewayStart(self._clock(), os.getpid())
        self._stamp = read_stamp(self._home)  # an edit from now on is one that the next start does not know
        try:
            self._note(start)
            yield lambda: self._note(replace(start, ready=True))
        except (HomeBusy, KeyboardInterrupt, SystemExit):  # somebody wanted it so
            self._change(lambda known: drop_start(known, start))
            raise
        except Exception as error:
            log.info("the gateway breaks off: %s", _write_error(error))
            self._note(replace(start, ended=self._clock(), error=_write_error(error)))
            raise
        else:
            self._change(lambda known: replace(known, starts=()))

    def find_trace(self, since: float) -> Path | None:
        """The newest trace of a crash that was kept since then."""
        kept = [(path.stat().st_mtime, path) for path in (self._home / "logs").glob("crash-*.txt")]
        return max((found for found in kept if found[0] >= since), default=(0.0, None))[1]

    def _note(self, start: GatewayStart) -> None:
        def add(known: History) -> History:
            others = drop_start(begin_anew(known, VERSION, self._stamp), start)
            return replace(others, starts=(*others.starts, start)[-4 * MOST_CRASHES :])

        self._change(add)

    def _change(self, change: Callable[[History], History]) -> History:
        """Read, change, write: one process at a time, and whole or not at all. A home that cannot be written to has no
        guard; whoever starts there is told by the lock."""
        after: History | None = None
        try:
            with hold_folder(self._path.parent):
                before = read_history(self._path)
                after = change(before)
                if after != before:
                    replace_file(self._path, json.dumps(asdict(after)))
        except OSError as problem:  # the guard knows less, and the gateway says itself what is wrong
            log.debug("the starts of this gateway are not kept: %s", problem)
        return after or change(History())


def read_stamp(home: Path) -> tuple[Any, ...]:
    """What changes when a file of settings does."""
    found: list[Any] = []
    for name in (CONFIG_FILE, ENV_FILE):
        try:
            facts = (home / name).stat()
        except OSError:
            found.append(None)
        else:
            found.append((facts.st_mtime_ns, facts.st_size))
    return tuple(found)


def read_history(path: Path) -> History:
    """What was noted; a file that is missing or damaged tells nothing."""
    try:
        told = json.loads(path.read_text("utf-8"))
        stamp = tuple(tuple(one) if isinstance(one, list) else one for one in told["settings"])
        return History(str(told["version"]), stamp, tuple(GatewayStart(**start) for start in told["starts"]))
    except (OSError, ValueError, TypeError, KeyError):
        return History()


def _write_error(error: BaseException) -> str:
    text = str(error) if isinstance(error, HermesError) else f"{type(error).__name__}: {error}"
    return redactor()(text.partition("\n")[0])[:500]
