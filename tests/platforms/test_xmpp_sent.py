"""C7: what XMPP knows of its own messages, and how an archive is searched for them, whatever the clock says."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import cast
from xml.etree.ElementTree import Element

import pytest

from gateway.platforms.xmpp.sent.sent_book import SentBook
from gateway.platforms.xmpp.sent.sent_search import SentSearch
from gateway.platforms.xmpp.server.link import PAGE, Archived, ArchivePage, XmppLink
from gateway.platforms.xmpp.wire_out import make_id

ME, ANN = "hermes@example.org", "ann@example.org"
HOUR = 3600.0


@dataclass
class Archive:
    """A server's archive with a clock of its own; it answers as a link does."""

    kept: list[Archived] = field(default_factory=list)
    read: int = 0

    def add(self, id_: str, stamp: float, giver: str = ME, to: str = ANN) -> None:
        stanza = Element("{jabber:client}message", {"from": giver, "to": to, "id": id_})
        self.kept.append(Archived(str(len(self.kept)), stanza, stamp))

    async def read_archive(self, archive: str = "", *, before: str | None = None) -> ArchivePage:
        self.read += 1
        end = int(before) if before else len(self.kept)
        page = self.kept[max(0, end - PAGE) : end]
        return ArchivePage(page, end <= PAGE, page[0].id if page else "", page[-1].id if page else "")


def settle(search: SentSearch, archive: Archive, book: SentBook, id_: str) -> bool:
    asyncio.run(search.settle(cast(XmppLink, archive), ME, book.find_doubt(id_)))
    return book.has_arrived(id_)


@pytest.mark.parametrize("shift", [-HOUR, 0.0, HOUR])
def test_what_is_in_doubt_is_looked_for_though_the_clock_was_set(monkeypatch: pytest.MonkeyPatch, shift: float) -> None:
    """C7: an archive was searched, then the clock is set, then a message falls into doubt: it is searched again."""
    book, archive, now = SentBook(), Archive(), time.time()
    search = SentSearch(ME, book, {})
    assert not settle(search, archive, book, make_id("s", "1"))
    monkeypatch.setattr(time, "time", lambda: now + shift)
    doubted = make_id("s", "2")
    book.note_try(doubted, ANN)
    archive.add(doubted, now)
    assert settle(search, archive, book, doubted)
    assert archive.read == 2


@pytest.mark.parametrize("wrong", [-24 * HOUR, 24 * HOUR])
def test_a_clock_that_goes_wrong_by_a_day_finds_what_stands_deep_in_the_archive(
    monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    """C7: how far back is read goes by the archive's own times."""
    book, archive, now = SentBook(), Archive(), 1_800_000_000.0
    monkeypatch.setattr(time, "time", lambda: now + wrong)
    search = SentSearch(ME, book, {})
    settle(search, archive, book, make_id("s", "1"))
    doubted = make_id("s", "2")
    book.note_try(doubted, ANN)
    archive.add(doubted, now)
    for number in range(3 * PAGE):
        archive.add(f"theirs {number}", now + 1.0 + number, ANN, ME)
    assert settle(search, archive, book, doubted)


def test_no_more_is_read_than_may_hold_it() -> None:
    """What stood there long before the try is not read, however much it is."""
    book, archive, now = SentBook(), Archive(), 1_800_000_000.0
    search = SentSearch(ME, book, {})
    settle(search, archive, book, make_id("s", "1"))
    for number in range(10 * PAGE):
        archive.add(f"theirs {number}", now - HOUR * (10 * PAGE - number), ANN, ME)
    book.note_try(make_id("s", "2"), ANN)
    before = archive.read
    assert not settle(search, archive, book, make_id("s", "2"))
    assert archive.read - before == 1


def test_the_book_of_what_was_sent() -> None:
    book = SentBook()
    book.note_try("a", "c")
    assert book.find_doubt("a") > 0
    assert not book.has_arrived("a")
    book.note_arrived("a", "c")
    assert book.has_arrived("a")
    assert book.find_doubt("a") == 0
    book.note_unsent("a")
    assert book.find_chat("a") == ""
    assert book.measure_oldest_doubt() == 0.0
    book.note_try("b", "c")
    book.note_try("d", "c")
    assert book.find_doubt("b") < book.find_doubt("d")
    assert book.measure_oldest_doubt() > 0.0
