"""Asks the homeserver for news, one call after the other. How far it has listened is kept after what came was settled,
with the gaps of rooms where it was not: a crash loses nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from gateway.platforms.backoff import Pauses
from gateway.platforms.matrix.account_files import AccountFiles, ListenedTo
from gateway.platforms.matrix.link import POLL_SECONDS, MatrixLink, SyncNews
from gateway.platforms.matrix.reception import MatrixReception
from gateway.platforms.matrix.refusals import MatrixKind, MatrixTrouble, describe_outage, find_pause

_log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # between two tries to ask


@dataclass(slots=True)
class Progress:
    """How far was listened, and what came since that is not settled."""

    heard: ListenedTo
    news: SyncNews
    marks: Mapping[str, set[str]]  # messages that are known of each room, where nothing else says how far


NoteLife = Callable[[], None]
NoteProblem = Callable[[str], None]


class Listener:
    def __init__(
        self,
        link: MatrixLink,
        reception: MatrixReception,
        files: AccountFiles,
        alive: NoteLife,
        troubled: NoteProblem,
        renew: Callable[[], Awaitable[bool]],
    ) -> None:
        """`renew`: gets the session another token, if it can."""
        self._link = link
        self._reception = reception
        self._files = files
        self._alive = alive
        self._troubled = troubled
        self._renew = renew
        self.settling = asyncio.Lock()  # whoever ends it waits for this: what was stored need not come again
        self._pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)

    async def run(self, at: Progress) -> None:
        """From what the first sync brought, for ever."""
        while True:
            await self._settle(at)
            await self._reception.answer_invitations(at.heard)
            at.news = await self._ask(at.heard)

    def close(self) -> None:
        self._reception.close()

    async def _settle(self, at: Progress) -> None:
        async with self.settling:
            settled = await self._reception.settle(at.news, at.heard, at.marks)
            if settled != at.heard:
                await asyncio.to_thread(self._files.keep_heard, settled)
            at.heard, at.marks = settled, {}

    async def _ask(self, heard: ListenedTo) -> SyncNews:
        while True:
            patience = self._reception.find_patience(heard, POLL_SECONDS)
            try:
                news = await self._link.sync(heard.since, patience=patience)
            except MatrixTrouble as trouble:
                _log.warning("The homeserver could not be asked for messages: %s", trouble)
                await self._heed(trouble)
                continue
            self._pauses.reset()
            self._alive()
            return news

    async def _heed(self, trouble: MatrixTrouble) -> None:
        """Wait as a trouble asks for. A token that has run out is replaced at once, where there is a password."""
        if trouble.kind is MatrixKind.TOKEN and trouble.soft and await self._renew():
            return
        pause = find_pause(trouble)
        grown = self._pauses.next()
        problem = describe_outage(trouble, self._pauses.failures)
        if problem is not None:
            self._troubled(problem)
        await asyncio.sleep(grown if pause is None else pause)
