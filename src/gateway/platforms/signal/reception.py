"""Hands messages over to the gateway, one after the other. The daemon brings nothing twice: what could not be stored is
kept here and tried again, and whoever wrote it hears when that was in vain."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace

from gateway.platforms.face import Core, Part, Refused
from gateway.platforms.refusal_notes import RefusalNotes
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
RETRY_SECONDS, TRIES = 1.0, 30
NOT_STORED = "That could not be stored, and is lost. Say it again in a while."
BY_ITSELF = (
    "signal-cli's daemon receives by itself: what it is sent while Hermes is off is lost. Start it with "
    "--receive-mode=manual."
)
OTHER_ACCOUNT = "signal-cli's daemon brings messages for {}, and the settings name {}. Correct platforms.signal.number."
UNTRUSTED = "UntrustedIdentityException"

Say = Callable[[Part], Awaitable[str]]
FetchText = Callable[[FileRef], Awaitable[str]]
Wake = Callable[[str], None]
KeepChains = Callable[[], Awaitable[None]]


class SignalReception:
    """`say` sends a word, `fetch` brings the text of an attachment, `wake` is told where somebody is, `keep` writes the
    chains of edits down."""

    def __init__(
        self, core: Core, me: SignalSelf, chains: EditChains, say: Say, fetch: FetchText, wake: Wake, keep: KeepChains
    ) -> None:
        self.me = me
        self.misdirected = ""  # a sentence on messages for another account; empty: there are none
        self._core, self._chains = core, chains
        self._fetch, self._wake, self._keep = fetch, wake, keep
        self._names: OrderedDict[str, str] = OrderedDict()
        self._books = ReadingBooks(self._names, chains.find_first, chains.find_ours)
        self._quotable: OrderedDict[str, str] = OrderedDict()
        self._waiting: asyncio.Queue[EnvelopeNews] = asyncio.Queue()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._fetching = False  # somebody waits here for an answer, which may stand on the line behind much else
        self._notes = RefusalNotes(say)
        self._telling: dict[str, asyncio.Task[bool]] = {}  # by chat
        self._warned = False
        self._working = asyncio.create_task(self._work(), name="signal hands over")

    async def hear(self, method: str, params: JsonObject) -> None:
        """Something that the daemon brings. It waits for a place: then the daemon waits, too."""
        if method != "receive":
            return
        try:
            news = read_news(params)
        except OddEnvelope as odd:
            _log.warning("Something that signal-cli's daemon brought cannot be read (%s); it is left out.", odd)
            return
        if not news.asked_for and not self._warned:
            self._warned = True
            _log.warning(BY_ITSELF)
        await self._has_room.wait()
        self._waiting.put_nowait(news)
        self._note_room()

    def _note_room(self) -> None:
        is_there = self._fetching or self._waiting.qsize() < MOST_WAITING
        (self._has_room.set if is_there else self._has_room.clear)()

    def find_words(self, message: str) -> str:
        """What a message of a person says, if it came lately."""
        return self._quotable.get(message, "")

    async def settle(self, seconds: float) -> None:
        """Time for what was heard to be stored."""
        try:
            async with asyncio.timeout(seconds):
                await self._waiting.join()
                await asyncio.gather(*self._telling.values(), return_exceptions=True)
        except TimeoutError:
            _log.error("%s messages of Signal could not be stored in time.", self._waiting.qsize())

    async def close(self) -> None:
        self._notes.close()
        self._working.cancel()
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
                other = news.account if is_account(news.account) else "another account"
                self.misdirected = OTHER_ACCOUNT.format(other, self.me.number)
            return
        self.misdirected = ""
        if news.problem:
            self._warn_unreadable(news)
            return
        read = await self._read(news.envelope)
        match read:
            case Inbound():
                self._note(read)
                await self._hand_over(read)
                await self._note_edit(read)
            case OwnEnvelope(id):
                if id and not self.me.id:
                    self.me = replace(self.me, id=id)
            case SkippedEnvelope(reason, chat):
                _log.debug("Something of Signal is left out: %s.", reason)
                if chat:
                    self._wake(chat)

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
            return put_long_text(envelope, await self._fetch(long))
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
            _log.warning("A message waits at the daemon. %s", PersonResult(IDENTITY, person).sentence)
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
            await self._keep()

    async def _hand_over(self, inbound: Inbound) -> None:
        self._wake(inbound.address.chat)
        for number in range(TRIES):
            if number:
                await asyncio.sleep(RETRY_SECONDS)
            try:
                taken = await self._core.take(inbound)
            except Exception:  # noqa: BLE001 - the boundary to the gateway: the message is kept, and tried again
                _log.exception("A message could not be handed over; it is tried again.")
                continue
            if isinstance(taken, Refused):
                self._refuse(inbound, taken.reason)
            else:
                self._notes.note_taken(inbound.address.chat_key)
            return
        self._refuse(inbound, NOT_STORED)

    def _refuse(self, inbound: Inbound, reason: str) -> None:
        """Nobody who writes waits for it."""
        chat = inbound.address.chat_key
        if chat in self._telling or len(self._telling) >= MOST_TELLING:
            return
        note = Part(inbound.address, reason, markup="plain")
        task = self._telling[chat] = asyncio.create_task(self._notes.tell(note), name="signal tells")
        task.add_done_callback(lambda _: self._telling.pop(chat, None))
