"""Keeps a gateway that breaks again and again from being started without end (F9): a pause that grows, then a refusal.

Each start is noted in `run/starts.json` of the home, and taken out again once it is ready; one that fails with an error
is noted anew. So what stands there has crashed, or ended without a word before it was ready. Whoever kills a gateway
that runs has their reasons: that is no crash, and the next one starts at once. An orderly end, an edit of the settings
and another version begin anew.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

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
    """A start that failed, or is not ready yet."""

    at: float
    pid: int  # alone it does not tell one from another: in a container each life has the same number
    last: float  # when it was last heard of
    error: str = _SILENT


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


def judge(starts: Sequence[GatewayStart], now: float) -> StartVerdict:
    crashes = [start for start in starts if now - start.last < WINDOW_SECONDS]
    if not crashes:
        return StartVerdict()
    newest = crashes[-1]
    if len(crashes) >= MOST_CRASHES:
        again_in = max(0.0, crashes[-MOST_CRASHES].last + WINDOW_SECONDS - now)
        return StartVerdict(len(crashes), 0.0, True, newest.error, again_in, newest.at)
    wanted = min(LONGEST_PAUSE, 2.0 ** (len(crashes) - 1))
    return StartVerdict(len(crashes), min(wanted, max(0.0, newest.last + wanted - now)), reason=newest.error)


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

    def admit(self, *, anyway: bool = False) -> StartVerdict:
        """What earlier starts say about this one. A home that is owned is left alone: its owner says so. One without a
        name is letting go of it."""
        owner = holder(self._home)
        if owner is not None and owner.pid:
            return StartVerdict()
        known = self._change(name_ground(self._home), lambda starts: [] if anyway else starts)
        return judge(known, self._clock())

    @contextmanager
    def watch(self) -> Iterator[Callable[[], None]]:
        """Around the gateway's life; yields what is called when it is ready."""
        now = self._clock()
        start = GatewayStart(now, os.getpid(), now)
        ground = name_ground(self._home)  # an edit from now on is one that the next start does not know

        def note(*more: GatewayStart) -> None:
            """This start, as it is now, or nothing."""

            def change(starts: list[GatewayStart]) -> list[GatewayStart]:
                others = [other for other in starts if (other.at, other.pid) != (start.at, start.pid)]
                return [*others, *more][-4 * MOST_CRASHES :]

            self._change(ground, change)

        try:
            note(start)
            yield note
        except (HomeBusy, KeyboardInterrupt, SystemExit):  # somebody wanted it so
            note()
            raise
        except Exception as error:
            text = str(error) if isinstance(error, HermesError) else f"{type(error).__name__}: {error}"
            text = redactor()(text.partition("\n")[0])[:500]
            log.info("the gateway breaks off: %s", text)
            note(replace(start, last=self._clock(), error=text))
            raise
        else:
            self._change(ground, lambda starts: [])

    def find_trace(self, since: float) -> Path | None:
        """The newest trace of a crash that was kept since then."""
        kept = [(path.stat().st_mtime, path) for path in (self._home / "logs").glob("crash-*.txt")]
        return max((found for found in kept if found[0] >= since), default=(0.0, None))[1]

    def _change(self, ground: str, change: Callable[[list[GatewayStart]], list[GatewayStart]]) -> list[GatewayStart]:
        """Read, change, write: one process at a time, and whole or not at all. A home that cannot be written to has no
        guard; whoever starts there is told by the lock."""
        after: list[GatewayStart] | None = None
        try:
            with hold_folder(self._path.parent):
                before = read_starts(self._path, ground)
                after = change(before)
                if after != before:
                    text = json.dumps({"ground": ground, "starts": [asdict(start) for start in after]})
                    replace_file(self._path, text)
        except OSError as problem:  # the guard knows less, and the gateway says itself what is wrong
            log.debug("the starts of this gateway are not kept: %s", problem)
        return change([]) if after is None else after


def name_ground(home: Path) -> str:
    """What changes with the version and when a file of settings does: what was learned on another says nothing."""
    found = [VERSION]
    for name in (CONFIG_FILE, ENV_FILE):
        try:
            facts = (home / name).stat()
            found.append(f"{facts.st_mtime_ns}:{facts.st_size}")
        except OSError:
            found.append("none")
    return " ".join(found)


def read_starts(path: Path, ground: str) -> list[GatewayStart]:
    """What was noted on this ground; a file that is missing or damaged tells nothing."""
    try:
        told = json.loads(path.read_text("utf-8"))
        return [GatewayStart(**start) for start in told["starts"]] if told["ground"] == ground else []
    except (OSError, ValueError, TypeError, KeyError):
        return []
