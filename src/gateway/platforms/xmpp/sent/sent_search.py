"""Looks for our own messages in an archive: once for all of its chats, and to its end, whoever asked first. An archive
may take long to answer, and a search for each chat that begins anew with each try would never come to an end."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.platforms.xmpp.sent.sent_book import SentBook
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.wire import read_origin
from gateway.platforms.xmpp.wire_out import is_message_id
from gateway.platforms.xmpp.xmpp_xml import read_bare

MOST_PAGES = 20  # that are read back
FEW_PAGES = 2  # where nothing says how far
SKEW_SECONDS = 600.0  # clocks may differ by so much


@dataclass(frozen=True, slots=True)
class _Look:
    tries: int  # that were made before it began: all of them are looked for
    task: asyncio.Task[None]


@dataclass(frozen=True, slots=True)
class _Reach:
    """How far back something of ours may stand. The archive's clock measures it, whatever ours says: `stamp`, or so
    many seconds before the newest message there. Neither: nobody knows."""

    stamp: float = 0.0
    seconds: float = 0.0

    @property
    def pages(self) -> int:
        return MOST_PAGES if self.stamp or self.seconds else FEW_PAGES

    def find_end(self, newest: float) -> float:
        """What is older was there before."""
        return (newest - self.seconds if self.seconds else self.stamp) - SKEW_SECONDS


class SentSearch:
    def __init__(self, own: str, book: SentBook, heard_until: Mapping[str, float]) -> None:
        """`heard_until`: by archive, when a process before us heard something there last. What it may have sent was
        sent after that, or not long before."""
        self._own = own
        self._book = book
        self._heard_until = heard_until
        self._looks: dict[str, _Look] = {}

    async def settle(self, link: XmppLink, archive: str, doubt: int) -> None:
        """Returns when the archive was looked into after this try; the book knows what stands there. XmppTrouble when
        it cannot be."""
        look = self._looks.get(archive)
        if look is None or look.tries < doubt:
            seconds, stamp = self._book.measure_oldest_doubt(), self._heard_until.get(archive, 0.0)
            reach = _Reach(stamp=stamp) if look is None else _Reach(seconds=seconds)
            task = asyncio.create_task(self._read_back(link, archive, reach), name=f"xmpp looks into {archive}")
            look = self._looks[archive] = _Look(self._book.tries, task)
            task.add_done_callback(lambda done: self._note_end(archive, done))
        await asyncio.shield(look.task)

    def end(self) -> None:
        for look in list(self._looks.values()):
            look.task.cancel()

    def _note_end(self, archive: str, task: asyncio.Task[None]) -> None:
        """A look that came to nothing is none."""
        failed = task.cancelled() or task.exception() is not None
        if failed and self._looks.get(archive) is not None and self._looks[archive].task is task:
            del self._looks[archive]

    async def _read_back(self, link: XmppLink, archive: str, reach: _Reach) -> None:
        before, is_room, end = "", archive != self._own, 0.0
        for number in range(reach.pages):
            page = await link.read_archive(archive if is_room else "", before=before)
            for one in page.messages:
                if is_room or read_bare(one.stanza.get("from")) == self._own:  # nobody else knows an id before it shows
                    chat = archive if is_room else read_bare(one.stanza.get("to"))
                    for id_ in filter(is_message_id, {one.stanza.get("id") or "", read_origin(one.stanza)}):
                        self._book.note_arrived(id_, chat)
            if page.complete or not page.messages:
                return
            if not number:
                end = reach.find_end(page.messages[-1].stamp)
            if 0.0 < page.messages[0].stamp < end:
                return
            before = page.first
