"""Keeps the line to Discord's gateway: opens it, listens, and takes it up again wherever it was cut."""

import asyncio
import logging
from collections.abc import Callable

from gateway.platforms.backoff import Pauses
from gateway.platforms.discord.line_rules import LineCut, LineEnd, doubts_session, find_fault, judge_cut, keeps_session
from gateway.platforms.discord.link import DiscordLink, SessionMark
from gateway.platforms.discord.refusals import UNREACHED_SECONDS
from gateway.platforms.face import NotNow
from hermes_base.errors import ConfigProblem

_log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # between two tries to connect
_TRIES = 3  # who presents themselves twice in five seconds is refused once
_BEGUN = ("READY", "RESUMED")


class SessionLine:
    def __init__(self, link: DiscordLink, alive: Callable[[], None], troubled: Callable[[str], None]) -> None:
        self._link = link
        self._alive = alive
        self._troubled = troubled
        self._pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        self._has_begun = False

    def note(self, kind: str) -> None:
        """An event came; some say that a session has begun, or goes on."""
        if kind in _BEGUN:
            self._has_begun = True
            self._pauses.reset()
            self._troubled("")

    async def open(self) -> None:
        """Open the line for the first time. ConfigProblem for what the owner can put right, NotNow for all else."""
        said = ""
        for _ in range(_TRIES):
            try:
                await self._link.open_socket(None)
                while not self._has_begun:
                    await self._link.listen()
                self._alive()
                return
            except LineCut as cut:
                await self._link.close_socket()
                fault, said = find_fault(cut), cut.text
                if fault is not None:
                    raise ConfigProblem(fault.sentence, fix=fault.fix) from None
                if cut.end is not LineEnd.INVALID:
                    break
        raise NotNow(f"Discord cannot be reached: {said}.", UNREACHED_SECONDS)

    async def run(self) -> None:
        """Listen for ever."""
        while True:
            try:
                await self._link.listen()
                self._alive()
            except LineCut as cut:
                await self._open_again(cut)

    async def _open_again(self, cut: LineCut) -> None:
        mark = self._link.mark()
        while True:
            mark = await self._choose_mark(cut, mark)
            await self._link.close_socket()
            problem, seconds = judge_cut(cut, self._pauses.failures)
            _log.info("The line to Discord has ended: %s.", cut)
            if problem:
                self._troubled(problem)
            await asyncio.sleep(self._pauses.next() if seconds is None else seconds)
            if seconds == 0.0:
                self._pauses.failures += 1  # one that is cut again at once waits
            try:
                await self._link.open_socket(mark)
                return
            except LineCut as again:
                cut = again

    async def _choose_mark(self, cut: LineCut, mark: SessionMark | None) -> SessionMark | None:
        """What happened while there was no network is told in the session only, as presses of buttons are: it is given
        up when Discord can be reached and the session cannot."""
        mark = (self._link.mark() or mark) if keeps_session(cut) else None
        if mark is not None and doubts_session(self._pauses.failures) and await self._link.is_reached():
            _log.warning("The session with Discord cannot be taken up again; another one begins.")
            return None
        return mark
