"""Those who want something that is no message: to see whether we are there, or to have us in a room. Whoever was let in
gets it; whoever was not gets nothing, not even a no, and is asked about again now and then (G1)."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from gateway.platforms.face import Core
from gateway.platforms.xmpp import SPEC
from gateway.platforms.xmpp.wire import Invited
from gateway.platforms.xmpp.xmpp_files import Invitation, XmppKept

_log = logging.getLogger(__name__)
MOST_WAITING = 100  # who wait to be let in
MOST_OF_ONE = 3  # invitations by one person that wait
LONGEST_NAME = 1_023  # of a room, and of its password
WAIT_SECONDS = 7 * 86400.0  # whose sender was not let in by then is forgotten
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
        if len(invited.room) > LONGEST_NAME or len(invited.password) > LONGEST_NAME:
            _log.info("An invitation by %s is ignored: its words are too long.", invited.person)
            return
        self._kept.invited = add_invitation(self._kept.invited, invited, time.time())
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
        if len(fresh := drop_old(self._kept.invited, time.time())) < len(self._kept.invited):
            self._kept.invited = fresh
            self._note_kept()
        for person in list(self._asking):
            if await self._core.knows(SPEC.name, person):
                self._asking.pop(person, None)
                self._consent(person)
        for room, (person, password, _) in list(self._kept.invited.items()):
            if await self._core.knows(SPEC.name, person) and await self._join(room, password, person):
                self._kept.invited.pop(room, None)
                self._note_kept()


def add_invitation(waiting: Mapping[str, Invitation], invited: Invited, now: float) -> dict[str, Invitation]:
    """What waits then: the last few of each person, and not more than so many of all."""
    others = [(room, one) for room, one in waiting.items() if room != invited.room]
    own = [room for room, one in others if one[0] == invited.person]
    dropped = set(own[: max(0, len(own) - MOST_OF_ONE + 1)])
    every = [(room, one) for room, one in others if room not in dropped]
    every.append((invited.room, (invited.person, invited.password, now)))
    return dict(every[-MOST_WAITING:])


def drop_old(waiting: Mapping[str, Invitation], now: float) -> dict[str, Invitation]:
    """Those that came within the time."""
    return {room: one for room, one in waiting.items() if abs(now - one[2]) < WAIT_SECONDS}
