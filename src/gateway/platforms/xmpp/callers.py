"""Those who want something that is no message: to see whether we are there, or to have us in a room. Whoever was let in
gets it; whoever was not gets nothing, not even a no, and is asked about again now and then (G1)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.platforms.face import Core
from gateway.platforms.xmpp import SPEC
from gateway.platforms.xmpp.wire import Invited
from gateway.platforms.xmpp.xmpp_files import XmppKept

_log = logging.getLogger(__name__)
MOST_WAITING = 100  # who wait to be let in
WEIGH_SECONDS = 20.0  # between two looks whether somebody was let in


class XmppCallers:
    def __init__(
        self,
        core: Core,
        kept: XmppKept,
        consent: Callable[[str], None],
        join: Callable[[str, str, str], Awaitable[bool]],
        trusts: Callable[[str], bool],
        note_kept: Callable[[], None],
    ) -> None:
        """`consent`: this person may see our presence; `join`: go to a room, with its password, and who invites,
        or decline; False: nobody can say now which; `trusts`: whether the server of a room may say who somebody is."""
        self._core = core
        self._kept = kept
        self._consent = consent
        self._join = join
        self._trusts = trusts
        self._note_kept = note_kept
        self._asking: dict[str, None] = {}
        self._poked = asyncio.Event()

    def note_request(self, person: str) -> None:
        """Somebody asks to see our presence."""
        self._asking[person] = None
        while len(self._asking) > MOST_WAITING:
            del self._asking[next(iter(self._asking))]
        self._poked.set()

    def note_invitation(self, invited: Invited) -> None:
        """Any room's server could say that the owner invites us."""
        if not invited.person or not (invited.vouched or self._trusts(invited.room)):
            _log.info("An invitation by the room %s is ignored: its server is none of ours.", invited.room)
            return
        waiting = self._kept.invited
        waiting.pop(invited.room, None)
        waiting[invited.room] = [invited.person, invited.password]
        while len(waiting) > MOST_WAITING:
            del waiting[next(iter(waiting))]
        self._note_kept()
        self._poked.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            self._poked.clear()
            await self._weigh()
            try:
                async with asyncio.timeout(WEIGH_SECONDS):
                    await self._poked.wait()
            except TimeoutError:
                pass

    async def _weigh(self) -> None:
        for person in list(self._asking):
            if await self._core.knows(SPEC.name, person):
                self._asking.pop(person, None)
                self._consent(person)
        for room, (person, password) in list(self._kept.invited.items()):
            if await self._core.knows(SPEC.name, person) and await self._join(room, password, person):
                self._kept.invited.pop(room, None)
                self._note_kept()
