"""Watches a mailbox: hands new mails over in the order of their numbers, and notes a number only when its mail is
stored, needs no answer, or is set aside because the server does not hand it out (C1). A line that breaks is made again;
what came meanwhile is there."""

import asyncio
import logging
import math
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Accepted, Core, Part
from gateway.platforms.mail import SPEC
from gateway.platforms.mail.auto_mail import read_bounce
from gateway.platforms.mail.lines.imap_line import MOST_AT_ONCE, MOST_HEAD, ImapLine, open_line
from gateway.platforms.mail.lines.imap_wire import FetchedMail
from gateway.platforms.mail.lines.mail_line import OWNERS, MailTrouble, MailTroubleKind
from gateway.platforms.mail.mail_head import MailHead
from gateway.platforms.mail.mail_servers import MailAccount
from gateway.platforms.mail.sender_proof import ProvenSender
from gateway.platforms.mail.thread_book import OwnIds, ReadPlace, ThreadBook
from gateway.platforms.mail.wire import MOST_MAIL, IgnoredMail, MailReader, judge_head
from gateway.platforms.mail.withheld import MailFate, WithheldMail, WithheldTries, describe_aside, is_too_much
from gateway.platforms.refusal_notes import RefusalNotes
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
_Fetched = TypeVar("_Fetched")
#: A wait is renewed after this time: a server forgets one after 29 minutes, and a dead line is found in time (C13).
IDLE_SECONDS = 60.0
POLL_SECONDS = 30.0  # between two looks where a server cannot tell of new mail
RETRY_SECONDS = 1.0  # after a message that could not be stored
FIRST_PAUSE, LONGEST_PAUSE, OWNER_PAUSE = 1.0, 60.0, 300.0
BOUNCE_BYTES = 200_000
ROOM_SECONDS, NEARLY_FULL = 600.0, 0.98  # how often one looks, and from where on it is told
FULL = "The mailbox is full: people who write get their mail back. Delete some of it, or get more room."
ASIDE_SECONDS = 600.0  # between two tries of mails that were set aside
OVERLAP = timedelta(days=1)  # that is read again where the numbers are others


@dataclass(frozen=True, slots=True)
class MailDesk:
    """What a connected account works with."""

    account: MailAccount
    tls: ssl.SSLContext
    book: ThreadBook
    ids: OwnIds


@dataclass(frozen=True, slots=True)
class WatchReports:
    """Whom a watch tells what."""

    alive: Callable[[], None]  # the server has answered
    troubled: Callable[[str], None]  # what keeps it from working; empty: nothing any more
    send: Callable[[Part], Awaitable[str]]


class MailboxWatch:
    """On the event loop."""

    def __init__(self, name: str, desk: MailDesk, core: Core, reports: WatchReports) -> None:
        self._desk = desk
        self._core = core
        self._reports = reports
        self._reader = MailReader(name, desk.ids, desk.book)
        self._box = f"{desk.account.address} {desk.account.mailbox}"
        self._place: ReadPlace | None = None
        self._notes = RefusalNotes(reports.send)
        self._tries = WithheldTries()
        self._due: list[int] = []  # mails that were set aside, and are tried again now
        self._due_again = -math.inf
        self._fullness, self._measured = 0.0, -math.inf

    async def open(self) -> ImapLine:
        """A line with the mailbox open; from here on it is known how far it was read."""
        line = await open_line(self._desk.account, self._desk.tls)
        try:
            box = await line.open_box(self._desk.account.mailbox)
            place = self._place or await asyncio.to_thread(self._desk.book.read_place)
            if place is None or place.box != self._box:
                _log.info("The mailbox is read for the first time: mail that comes from now on counts.")
                await self._move(ReadPlace(self._box, box.validity, box.next_uid - 1, time.time()))
            elif place.validity != box.validity:
                _log.warning("The mailbox has other numbers now: what came lately is looked at again.")
                lately = await line.find_since((datetime.fromtimestamp(place.at, UTC) - OVERLAP).date())
                uid = min(lately, default=box.next_uid) - 1
                self._tries, self._due = WithheldTries(), []
                await self._move(replace(place, validity=box.validity, uid=uid, aside=()))
            else:
                self._place = place
        except BaseException:
            await line.close()
            raise
        return line

    def close(self) -> None:
        self._notes.close()

    async def run(self, line: ImapLine | None) -> None:
        """For ever; `line`: one that is open already."""
        pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                line = line or await self.open()
                await self._watch(line, pauses)
            except MailTrouble as trouble:
                _log.warning("The mailbox cannot be read: %s", trouble)
                if trouble.kind is not MailTroubleKind.CUT or pauses.failures:
                    self._reports.troubled(trouble.sentence)
                pause = OWNER_PAUSE if trouble.kind in OWNERS else pauses.next()
            finally:
                if line is not None:
                    await line.close()
            line = None
            await asyncio.sleep(pause)

    async def _watch(self, line: ImapLine, pauses: Pauses) -> None:
        while True:
            settled = await self._take_new(line)
            if settled:
                await self._take_aside(line)
            await self._measure(line)
            self._reports.troubled(self._describe_trouble())
            if not settled:
                await asyncio.sleep(RETRY_SECONDS)
            elif line.can_idle:
                await line.wait_for_mail(IDLE_SECONDS)
            else:
                await asyncio.sleep(POLL_SECONDS)
                await line.check()
            pauses.reset()

    async def _measure(self, line: ImapLine) -> None:
        """Not with each line: a server that hangs up when it is asked would be asked for ever."""
        if time.monotonic() - self._measured > ROOM_SECONDS:
            self._measured = time.monotonic()
            self._fullness = await line.measure_fullness(self._desk.account.mailbox)

    def _describe_trouble(self) -> str:
        """What the owner has to see to while the mailbox is read; empty: nothing."""
        full = FULL if self._fullness >= NEARLY_FULL else ""
        return " ".join(filter(None, (full, describe_aside(self._find_place().aside))))

    async def _take_new(self, line: ImapLine) -> bool:
        """Whether all that is there is settled, or set aside. A number that brings nothing is of a mail that is gone by
        now."""
        uids = await line.find_after(self._find_place().uid)
        self._reports.alive()
        for batch in self._tries.group(uids, MOST_AT_ONCE):
            if await self._take_batch(line, batch) is MailFate.WAITS:
                return False
            await self._go_on(batch[-1])
        return True

    async def _take_aside(self, line: ImapLine) -> None:
        """Now and then, and after what is new. Each is off the list before it is tried: one at which the line breaks
        keeps none of the others from being tried."""
        if time.monotonic() - self._due_again > ASIDE_SECONDS:
            self._due_again = time.monotonic()
            self._due = list(self._find_place().aside)
        while self._due:
            uid = self._due.pop(0)
            if await self._take_batch(line, [uid]) is MailFate.SETTLED:
                await self._settle(uid)

    async def _take_batch(self, line: ImapLine, batch: Sequence[int]) -> MailFate:
        """Those that are set aside keep none of the others."""
        fate = MailFate.SETTLED
        try:
            heads = await self._fetch(batch, line.fetch_heads(batch))
        except WithheldMail as withheld:
            return withheld.fate
        for mail in (mail for mail in heads if mail.uid in batch):
            try:
                settled = await self._take(line, mail)
            except WithheldMail as withheld:
                settled, fate = withheld.fate is MailFate.ASIDE, withheld.fate
            if not settled:
                return MailFate.WAITS
            self._reports.alive()
        return fate

    async def _fetch(self, uids: Sequence[int], fetching: Awaitable[_Fetched]) -> _Fetched:
        """What was asked for of these mails. One that came to nothing a few times is set aside, whether the server
        refuses it (then WithheldMail) or the line breaks at it (then MailTrouble, as for a server that refuses all)."""
        try:
            return await fetching
        except MailTrouble as trouble:
            place = self._find_place()
            fate = self._tries.note_failure(uids, place.aside)
            _log.warning("The server does not hand out mail %s: %s", ", ".join(map(str, uids)), trouble)
            if fate is MailFate.ASIDE and uids[0] not in place.aside:
                _log.error("Mail %s is set aside; it stays in the mailbox and is tried again now and then.", uids[0])
                aside = (*place.aside, uids[0])
                await self._move(replace(place, uid=max(place.uid, uids[0]), at=time.time(), aside=aside))
            if trouble.kind is not MailTroubleKind.REFUSED or (fate is MailFate.WAITS and is_too_much(place.aside)):
                raise
            raise WithheldMail(fate) from None

    def _find_place(self) -> ReadPlace:
        assert self._place is not None, "a line is open"
        return self._place

    async def _settle(self, uid: int) -> None:
        """This one is done with, and no longer aside."""
        place = self._find_place()
        self._tries.forget(uid)
        self._place = replace(place, aside=tuple(one for one in place.aside if one != uid))
        await self._go_on(uid)

    async def _go_on(self, uid: int) -> None:
        """All mails up to this one are settled or set aside. One that was aside does not move the place back."""
        place = self._find_place()
        await self._move(replace(place, uid=max(place.uid, uid), at=time.time()))

    async def _move(self, place: ReadPlace) -> None:
        """What was read is noted; a note that is lost brings mails again, which are known by their ids."""
        self._place = place
        try:
            await asyncio.to_thread(self._desk.book.keep_place, place)
        except OSError as problem:
            _log.warning("It cannot be noted how far the mailbox was read: %s", problem)

    async def _take(self, line: ImapLine, mail: FetchedMail) -> bool:
        """Whether the mail is settled."""
        try:
            judged = await asyncio.to_thread(_judge, mail, self._desk.account)
        except Exception as error:  # noqa: BLE001 - the boundary to what others wrote; their words are in no log
            _log.error("Mail %s cannot be read (%s); it is left out.", mail.uid, type(error).__name__)
            return True
        if isinstance(judged, IgnoredMail):
            _log.info("Mail %s is not answered: %s.", mail.uid, judged.reason)
            if judged.may_be_bounce:
                await self._read_bounce(line, mail.uid)
            return True
        whole: FetchedMail | None = mail  # of a stranger's mail nothing but its head is read: they get a code
        if await self._core.knows(SPEC.name, judged.address):
            whole = await self._fetch([mail.uid], line.fetch_whole(mail.uid, MOST_MAIL))
        if whole is None:  # somebody has deleted it meanwhile
            return True
        settled = await self._hand_over(whole, judged)
        if settled:
            await self._settle(mail.uid)
            await self._mark(line, mail.uid)
        return settled

    async def _hand_over(self, mail: FetchedMail, sender: ProvenSender) -> bool:
        try:
            inbound = await asyncio.to_thread(self._reader.read, mail, sender, self._find_place().validity)
        except Exception as error:  # noqa: BLE001 - the same mail would come for ever
            _log.error("Mail %s cannot be read (%s); it is left out.", mail.uid, type(error).__name__)
            return True
        was_kept = await self._keep_thread(inbound)
        try:
            taken = await self._core.take(inbound)
        except Exception:  # noqa: BLE001 - the boundary to the gateway: the mail stays where it is
            _log.exception("A mail could not be handed over; it is read again.")
            return False
        if not await self._notes.settle(inbound, taken, reply_to=inbound.message):
            return False
        if (
            isinstance(taken, Accepted) and taken.seq is None and not was_kept
        ):  # a stranger's: their threads are not ours to keep
            await asyncio.to_thread(self._desk.book.drop, inbound.address.chat, inbound.address.thread)
        return True

    async def _keep_thread(self, inbound: Inbound) -> bool:
        """Before the message is stored, so that its answer has its subject whatever happens. Whether it was there."""
        try:
            return await asyncio.to_thread(self._desk.book.keep, inbound.address.chat, inbound.address.thread)
        except OSError as problem:
            _log.warning("The subject of a thread cannot be kept: %s", problem)
            return False

    async def _mark(self, line: ImapLine, uid: int) -> None:
        """For whoever looks into the mailbox; nothing depends on it."""
        try:
            await line.mark_seen(uid)
        except MailTrouble as trouble:
            if trouble.kind is not MailTroubleKind.REFUSED:
                raise
            _log.info("Mail %s cannot be marked as seen: %s", uid, trouble)

    async def _read_bounce(self, line: ImapLine, uid: int) -> None:
        """A mail of ours that came back is told to the owner; of anybody else's nothing is said."""
        mail = await self._fetch([uid], line.fetch_whole(uid, BOUNCE_BYTES))
        try:
            bounce = await asyncio.to_thread(read_bounce, mail.data) if mail else None
        except Exception as error:  # noqa: BLE001 - the boundary to what others wrote; their words are in no log
            _log.warning("A report on a mail cannot be read (%s); it is left out.", type(error).__name__)
            return
        if bounce is None or self._desk.ids.read(bounce.message) is None:
            return
        if bounce.is_final:
            _log.error("A mail to %s came back and was not read: %s", bounce.recipient, bounce.reason)
        else:
            _log.warning("A mail to %s is late: %s", bounce.recipient, bounce.reason)


def _judge(mail: FetchedMail, account: MailAccount) -> ProvenSender | IgnoredMail:
    if len(mail.data) >= MOST_HEAD:
        return IgnoredMail("its head is too long")
    return judge_head(MailHead(mail.data), account)
