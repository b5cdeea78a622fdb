"""Hands messages over to the gateway, those of a chat one after the other. The daemon brings nothing twice: what could
not be stored is kept and tried again, and whoever wrote it to us hears when that was in vain."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from gateway.platforms.chat_lanes import ChatLanes, is_to_us
from gateway.platforms.face import Accepted, Core, Part, Refused
from gateway.platforms.refusal_notes import RefusalNotes
from gateway.platforms.signal.account_worries import MODE, NUMBER
from gateway.platforms.signal.edit_chains import EditChains
from gateway.platforms.signal.refusals import IDENTITY, PersonResult
from gateway.platforms.signal.rpc_line import JsonObject
from gateway.platforms.signal.signal_settings import is_account, is_account_id
from gateway.platforms.signal.wire import (
    EnvelopeNews,
    EnvelopeRead,
    OddEnvelope,
    OwnEnvelope,
    ReadingBooks,
    SignalSelf,
    SkippedEnvelope,
    find_long_text,
    put_long_text,
    read_envelope,
    read_name,
    read_news,
)
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import FileRef, Inbound

_log = logging.getLogger(__name__)
MOST_WAITING = 1_000  # envelopes; then the line is not read any more, and the daemon waits
MOST_NAMES = 1_000
MOST_QUOTABLE = 300  # messages whose words are known, for replies
MOST_TELLING = 20
NOT_STORED = "That could not be stored, and is lost. Say it again in a while."
BY_ITSELF = (
    "signal-cli's daemon receives by itself: what it is sent while Hermes is off is lost. Start it with "
    "--receive-mode=manual."
)
OTHER_ACCOUNT = "signal-cli's daemon brings messages for {}, and the settings name {}. Correct platforms.signal.number."
UNTRUSTED = "UntrustedIdentityException"


@dataclass(frozen=True, slots=True)
class ReceptionCalls:
    """What the reception asks of its account."""

    say: Callable[[Part], Awaitable[str]]
    fetch: Callable[[FileRef], Awaitable[str]]  # the text of an attachment
    wake: Callable[[str], None]  # somebody is in this chat
    keep: Callable[[], Awaitable[None]]  # write the chains of edits down
    worry: Callable[[str, str], None]  # what it is about, and a sentence for the owner
    stop: Callable[[], Awaitable[None]]  # bring no more messages


class SignalReception:
    def __init__(self, core: Core, me: SignalSelf, chains: EditChains, calls: ReceptionCalls) -> None:
        self.me = me
        self._core, self._chains, self._calls = core, chains, calls
        self._names: OrderedDict[str, str] = OrderedDict()
        self._books = ReadingBooks(self._names, chains.find_first, chains.find_ours)
        self._quotable: OrderedDict[str, str] = OrderedDict()
        self._waiting: asyncio.Queue[EnvelopeNews] = asyncio.Queue()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._fetching = False  # somebody waits here for an answer, which may stand on the line behind much else
        self._lanes = ChatLanes(core, self._settle)
        self._notes = RefusalNotes(calls.say)
        self._telling: dict[str, asyncio.Task[bool]] = {}  # by chat
        self._working = asyncio.create_task(self._work(), name="signal reads envelopes")

    async def hear(self, method: str, params: JsonObject) -> None:
        """Something that the daemon brings. It waits for a place: then the daemon waits, too."""
        if method != "receive":
            return
        try:
            news = read_news(params)
        except OddEnvelope as odd:
            _log.warning("Something that signal-cli's daemon brought cannot be read (%s); it is left out.", odd)
            return
        if not news.asked_for:
            self._calls.worry(MODE, BY_ITSELF)
        await self._has_room.wait()
        self._waiting.put_nowait(news)
        self._note_room()

    def _note_room(self) -> None:
        is_there = self._fetching or self._waiting.qsize() + self._lanes.count < MOST_WAITING
        (self._has_room.set if is_there else self._has_room.clear)()

    def find_words(self, message: str) -> str:
        """What a message of a person says, if it came lately."""
        return self._quotable.get(message, "")

    async def settle(self, seconds: float) -> None:
        """Time for what was heard to be stored."""
        try:
            async with asyncio.timeout(seconds):
                await self._waiting.join()
                await self._lanes.join()
                await asyncio.gather(*self._telling.values(), return_exceptions=True)
        except TimeoutError:
            left = self._waiting.qsize() + self._lanes.count
            _log.error("%s messages of Signal could not be stored in time.", left)

    async def close(self) -> None:
        self._notes.close()
        self._working.cancel()
        await self._lanes.close()
        telling = list(self._telling.values())
        for task in telling:
            task.cancel()
        await asyncio.gather(self._working, *telling, return_exceptions=True)

    # --- one after the other

    async def _work(self) -> None:
        while True:
            news = await self._waiting.get()
            self._note_room()
            try:
                await self._take(news)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next one is heard; its text is in no log
                _log.error("Something of Signal cannot be read (%s); it is left out.", type(error).__name__)
            finally:
                self._waiting.task_done()

    async def _take(self, news: EnvelopeNews) -> None:
        if news.account and news.account not in (self.me.number, self.me.id):
            # A daemon with several accounts that receives by itself brings those of all; one that was asked, ours.
            if news.asked_for:
                await self._stop_for_other(news.account)
            return
        if news.problem:
            self._warn_unreadable(news)
            return
        read = await self._read(news.envelope)
        match read:
            case Inbound():
                self._note(read)
                await self._note_edit(read)
                self._calls.wake(read.address.chat)
                self._lanes.put(read)
            case OwnEnvelope(id):
                if id and not self.me.id:
                    self.me = replace(self.me, id=id)
            case SkippedEnvelope(reason, chat):
                _log.debug("Something of Signal is left out: %s.", reason)
                if chat:
                    self._calls.wake(chat)

    async def _stop_for_other(self, account: str) -> None:
        """What is brought for somebody else's account is not ours to store, so no more of it may be fetched."""
        other = account if is_account(account) else "another account"
        self._calls.worry(NUMBER, OTHER_ACCOUNT.format(other, self.me.number))
        await self._calls.stop()

    async def _read(self, envelope: JsonObject) -> EnvelopeRead:
        """One that is not as documented takes none of the others with it; its text is in no log."""
        long = find_long_text(envelope)
        if long is not None:
            envelope = await self._complete(envelope, long)
        try:
            return read_envelope(envelope, self.me, self._books)
        except OddEnvelope as odd:
            _log.warning("An envelope of Signal cannot be read (%s); it is left out.", odd)
            return SkippedEnvelope("not as documented")

    async def _complete(self, envelope: JsonObject, long: FileRef) -> JsonObject:
        """The envelope with the whole of its text, if that can be had."""
        self._fetching = True
        self._note_room()
        try:
            return put_long_text(envelope, await self._calls.fetch(long))
        except DeliveryFailure as problem:
            _log.warning("The rest of a long text could not be fetched: %s", problem)
            return envelope
        finally:
            self._fetching = False
            self._note_room()

    def _warn_unreadable(self, news: EnvelopeNews) -> None:
        sender = news.envelope.get("sourceUuid")
        person = str(sender) if is_account_id(sender) else "somebody"
        if news.problem == UNTRUSTED:
            self._calls.worry(person, f"A message waits at the daemon. {PersonResult(IDENTITY, person).sentence}")
        else:
            kind = news.problem if news.problem.isidentifier() else "unknown"
            _log.warning("A message of %s could not be decrypted (%s), and is lost.", person, kind)

    def _note(self, inbound: Inbound) -> None:
        if inbound.sender_name:
            self._names[inbound.sender] = inbound.sender_name
            self._names.move_to_end(inbound.sender)
        self._quotable[inbound.message] = inbound.text
        for book, most in ((self._names, MOST_NAMES), (self._quotable, MOST_QUOTABLE)):
            while len(book) > most:
                book.popitem(last=False)

    async def _note_edit(self, inbound: Inbound) -> None:
        """The next edit of the same message names this one."""
        named = read_name(inbound.message)
        if inbound.revision and named is not None:
            self._chains.note_theirs(inbound.sender, int(inbound.revision), named[0])
            await self._calls.keep()

    def _settle(self, inbound: Inbound, taken: Accepted | Refused | None) -> None:
        self._note_room()
        if isinstance(taken, Refused):
            self._refuse(inbound, taken.reason)
        elif taken is not None:
            self._notes.note_taken(inbound.address.chat_key)
        elif is_to_us(inbound):
            self._refuse(inbound, NOT_STORED)

    def _refuse(self, inbound: Inbound, reason: str) -> None:
        """Nobody who writes waits for it."""
        chat = inbound.address.chat_key
        if chat in self._telling or len(self._telling) >= MOST_TELLING:
            return
        note = Part(inbound.address, reason, markup="plain")
        task = self._telling[chat] = asyncio.create_task(self._notes.tell(note), name="signal tells")
        task.add_done_callback(lambda _: self._telling.pop(chat, None))
