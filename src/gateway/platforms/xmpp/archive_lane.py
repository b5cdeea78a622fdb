"""One archive and what comes live beside it, as one row of messages: our own account's, or a room's. What was missed is
read before anything new, and the place in the archive moves only when a message is settled: a crash loses none."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from gateway.platforms.xmpp.refusals import XmppKind, XmppTrouble
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.wire import LOCAL_ID, Arrived
from gateway.platforms.xmpp.xmpp_files import XmppKept

_log = logging.getLogger(__name__)
MOST_MISSED = 5_000  # messages of one archive that are read after an absence
MOST_WAITING = 1_000  # that came live and are not settled; the others are read from the archive
MOST_SETTLED = 2_000  # ids that are remembered: what comes live and from the archive is handed over once
RETRY_SECONDS = 1.0
SKEW_SECONDS = 600.0  # clocks may differ by so much

FindLink = Callable[[], Awaitable[XmppLink]]


class ArchiveLane:
    def __init__(
        self,
        archive: str,
        kept: XmppKept,
        find_link: FindLink,
        settle: Callable[[Arrived], Awaitable[bool]],
        note_place: Callable[[], None],
        marks: Mapping[str, str],
    ) -> None:
        """`archive`: whose it is; `settle`: True when nothing is left to do about a message; `marks`: the last stored
        message of each chat, where nothing else says how far was listened."""
        self._archive = archive
        self._is_room = archive != kept.jid
        self._kept = kept
        self._find_link = find_link
        self._settle = settle
        self._note_place = note_place
        self._marks = {chat: message for chat, message in marks.items() if not message.startswith(LOCAL_ID)}
        self._waiting: deque[Arrived | None] = deque()  # None: here the archive is to be read
        self._poked = asyncio.Event()
        self._settled: dict[str, None] = {}
        self._overrun = False
        self.has_archive = False
        self.settling = asyncio.Lock()  # whoever ends it waits for this: what was stored need not come again

    def begin(self, *, has_archive: bool) -> None:
        """A new session has begun: what was missed comes first."""
        self.has_archive = has_archive
        if has_archive:
            self._waiting.append(None)
            self._poked.set()

    def put(self, arrived: Arrived) -> None:
        """Something came live."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(arrived)
        elif not self._overrun:
            what = "read in the archive" if self.has_archive else "lost"
            _log.error("More than %d messages of %s wait: the others are %s.", MOST_WAITING, self._archive, what)
            self._overrun = True
        self._poked.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            while self._waiting:
                first = self._waiting[0]
                if first is None:
                    await self._catch_up()
                elif first.archive not in self._settled or not first.archive:
                    await self._settle_one(first)
                self._waiting.popleft()
            if self._overrun:
                self._overrun = False
                self.begin(has_archive=self.has_archive)
                continue
            self._poked.clear()
            await self._poked.wait()

    async def _settle_one(self, arrived: Arrived) -> None:
        while True:
            async with self.settling:
                if await self._settle(arrived):
                    self._move(arrived)
                    return
            await asyncio.sleep(RETRY_SECONDS)

    def _move(self, arrived: Arrived) -> None:
        if not arrived.archive:
            return
        self._settled[arrived.archive] = None
        while len(self._settled) > MOST_SETTLED:
            del self._settled[next(iter(self._settled))]
        self._keep_place(arrived.archive, arrived.stamp or time.time())

    def _keep_place(self, id_: str, stamp: float) -> None:
        self._kept.places[self._archive] = [id_, stamp]
        self._note_place()

    # --- what was missed

    async def _catch_up(self) -> None:
        while True:
            link = await self._find_link()
            try:
                await self._read_missed(link)
                return
            except XmppTrouble as trouble:
                if trouble.kind is XmppKind.REFUSED and trouble.type != "wait":
                    _log.error("The archive of %s cannot be read: %s", self._archive, trouble)
                    return
                _log.warning("The archive of %s cannot be read now (%s).", self._archive, trouble)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read_missed(self, link: XmppLink) -> None:
        place = self._kept.places.get(self._archive)
        if place is None:
            marks, self._marks = self._marks, {}
            for chat, message in marks.items():
                await self._read_on(link, message, 0.0, "" if self._is_room else chat)
            if self._archive not in self._kept.places:  # what was said before our time is not for us
                last = await link.read_archive(self._archive if self._is_room else "", before="")
                self._keep_place(last.last, last.messages[-1].stamp if last.messages else 0.0)
            return
        await self._read_on(link, str(place[0]), float(place[1]), "")

    async def _read_on(self, link: XmppLink, after: str, stamp: float, with_: str) -> None:
        """All that stands behind this message; where the archive does not know it any more, behind its time."""
        start, read, archive = "", 0, self._archive if self._is_room else ""
        while read < MOST_MISSED:
            try:
                page = await link.read_archive(archive, after=after, start=start, with_=with_)
            except XmppTrouble as trouble:
                if trouble.condition != "item-not-found" or start or not after:
                    raise
                _log.warning("The archive of %s does not know the last message; it is read by time.", self._archive)
                if not stamp:
                    return
                at = datetime.fromtimestamp(max(0.0, stamp - SKEW_SECONDS), UTC)
                after, start = "", at.strftime("%Y-%m-%dT%H:%M:%SZ")
                continue
            for one in page.messages:
                if one.id not in self._settled:
                    await self._settle_one(Arrived(one.stanza, one.id, one.stamp))
            read += len(page.messages)
            if page.complete or not page.messages:
                return
            after = page.last
        _log.error("More than %d messages of %s were missed: the others are left out.", MOST_MISSED, self._archive)
        last = await link.read_archive(archive, before="")
        self._keep_place(last.last, last.messages[-1].stamp if last.messages else 0.0)
