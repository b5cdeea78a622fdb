"""One nick on an IRC network. What is said to it and by it is decided in the `wire` modules; here a connection is kept,
and what becomes of a message is told in the words of the face."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Core, NeverTaken, NotNow, Part
from gateway.platforms.irc import SPEC
from gateway.platforms.irc.connection.irc_line import BadLine, clean_words, is_name, write_line
from gateway.platforms.irc.connection.irc_session import IrcSession
from gateway.platforms.irc.connection.irc_stream import introduce
from gateway.platforms.irc.invited_channels import InvitedChannels
from gateway.platforms.irc.irc_books import IrcBooks
from gateway.platforms.irc.irc_settings import IrcSettings, find_pace, read_settings
from gateway.platforms.irc.irc_watch import IrcWatch, settle
from gateway.platforms.irc.reception import IrcReception
from gateway.platforms.irc.refusals import AWAY, CUT, NOT_CONNECTED, NOT_IN
from gateway.platforms.irc.wire import LOCAL_ID, Remembered
from gateway.platforms.irc.wire_out import make_tags, make_texts
from gateway.platforms.line_adapter import LineAdapter
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, Inbound

_log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 120.0  # between two tries to connect
STEADY_SECONDS = 60.0  # a line that held so long was no failure
CONFIG_SECONDS = 300.0  # what only the owner can put right is tried again so seldom
NOT_CONNECTED_SECONDS = 2.0
MOST_INVITATIONS = 20  # that wait to be weighed
BROKEN = "The line to {} broke off: {}. It is made again; what is said there meanwhile does not reach us."


class IrcAdapter(LineAdapter):
    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = replace(SPEC, has_history=False, account_calls_per_second=find_pace(settings))
        self._books = IrcBooks(account, "", {})
        self._session: IrcSession | None = None
        self._watch: IrcWatch | None = None
        self._reception: IrcReception | None = None
        self._away: dict[str, set[Address]] = {}  # by chat: what waits there
        self._line_problem = ""
        self._core: Core | None = None
        self._invitations: asyncio.Queue[tuple[str, str]] = asyncio.Queue(MOST_INVITATIONS)  # account and channel
        self._invited = InvitedChannels(home, account)

    # --- being there

    async def _begin(self, core: Core) -> None:
        settings = read_settings(self.settings)
        self._core = core
        self._books = IrcBooks(self.account, settings.nick, settings.channels)
        for channel in await asyncio.to_thread(self._invited.read):
            self._books.channels.invite(channel)
        self._reception = IrcReception(core, self._tell, self._follow)
        sessions = [await self._open(settings)]
        self._keep(lambda: self._live_on(settings, sessions.pop() if sessions else None))
        self._keep(self._weigh_invitations, "weighs invitations")
        self._keep(self._invited.keep_on, "keeps its channels")
        assert self._watch is not None
        await settle(self._watch)
        self._note_change()

    async def _part(self) -> None:
        if self._session is not None:
            await self._session.close(farewell=True)
        await self._invited.keep_now()

    async def _close(self) -> None:
        session, self._session = self._session, None
        reception, self._reception = self._reception, None
        if session is not None:
            await session.close()
        if reception is not None:
            await reception.close()

    async def _open(self, settings: IrcSettings) -> IrcSession:
        """A connection that has begun; the books are told."""
        assert self._core is not None
        assert self._reception is not None
        last = await self._core.find_last(f"{SPEC.name}:{self.account}")
        stream, found = await introduce(settings)
        watch = IrcWatch(
            self._books, self._reception, self._wake, self._list_waiting, self._note_invitation, self._note_change
        )
        session = IrcSession(stream, found, watch.take, settings.line_seconds)
        self.spec = replace(self.spec, has_history=found.history)
        self._session, self._watch = session, watch
        watch.begin(session, {address.chat: message for address, message in last.items()})
        self._note_life()
        return session

    async def _live_on(self, settings: IrcSettings, session: IrcSession | None) -> None:
        """One connection after the other, for ever."""
        pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                if session is not None:
                    began = time.monotonic()
                    why = await self._live(session)
                    if time.monotonic() - began > STEADY_SECONDS:
                        pauses.reset()
                    self._note_line(BROKEN.format(settings.host, why))
                await asyncio.sleep(pauses.next())
                session = None
                session = await self._open(settings)
            except ConfigProblem as problem:
                self._note_line(str(problem))
                await asyncio.sleep(CONFIG_SECONDS)
            except DeliveryFailure as problem:
                self._note_line(f"{problem} It is tried again; what is said meanwhile does not reach us.")
                await asyncio.sleep((problem.seconds or 0.0) if isinstance(problem, NotNow) else 0.0)

    async def _live(self, session: IrcSession) -> str:
        """Run a connection to its end; why it ended."""
        assert self._watch is not None
        ticking = asyncio.create_task(self._watch.tick(), name=f"irc {self.account} ticks")
        try:
            return await session.run(self._note_life)
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
            await session.close()

    def _note_life(self, problem: str = "", *, hears: bool = False) -> None:
        """C13: a line came from the server."""
        del hears  # the channels say so
        self.last_seen = time.time()
        self._note_line(problem)

    def _note_line(self, problem: str) -> None:
        if problem != self._line_problem:
            self._line_problem = problem
            self._note_change()

    def _note_change(self) -> None:
        self._note_problem(self._line_problem or self._books.channels.problem, hears=not self._line_problem)
        self._invited.note(self._books.channels.invited)

    # --- messages

    async def send(self, part: Part) -> str:
        if len(part.text.encode("utf-8", "replace")) > self.spec.max_length:
            raise NeverTaken(f"The text is longer than the {self.spec.max_length} bytes of a message on IRC.")
        session, address = self._session, part.address
        if session is None or not session.is_open:
            raise NotNow(NOT_CONNECTED, NOT_CONNECTED_SECONDS, whole_account=True)
        try:
            return await self._say(session, part)
        except BadLine:
            raise NeverTaken("There is something in it that cannot be said on IRC.") from None
        except NotNow as wait:
            if wait.seconds is None:
                self._away.setdefault(address.chat, set()).add(address)
                _log.warning("Nobody can be reached in %s: %s", address.chat_key, wait)
            raise

    async def _say(self, session: IrcSession, part: Part) -> str:
        target = await self._find_target(session, part.address)
        texts = make_texts(part.text, target, session.prefix, part.markup)
        if not texts:
            raise NeverTaken("There is nothing in it that IRC could show.")
        tags, message = make_tags(part.reply_to), ""
        for number, text in enumerate(texts):
            try:
                message = await session.say(target, text, tags)
            except (NotNow, NeverTaken):
                if number:  # the lines before it stand there
                    raise DeliveryFailure(CUT) from None
                raise
        message = message or f"{LOCAL_ID}{time.time_ns()}"
        self._books.memory.note(message, Remembered(session.nick, part.plain or part.text, own=True))
        return message

    async def _find_target(self, session: IrcSession, address: Address) -> str:
        """Where a message goes: the channel, or the nick that the account has at this moment (G2)."""
        chat, people = address.chat, self._books.people
        if not is_name(chat):
            raise NeverTaken("That is no name on IRC.")
        if address.kind != "dm":
            if not self._books.channels.is_in(chat):
                raise NotNow(NOT_IN.format(chat))
            return chat
        assert self._watch is not None
        if people.is_proven(chat, time.monotonic(), self._watch.nicks.find(people.find(chat))):
            return people.find(chat)
        for nick in dict.fromkeys(filter(is_name, (people.find(chat), chat))):
            asked = time.monotonic()
            if await session.find_account(nick) == chat:
                people.note(chat, nick, asked)
                self._watch.follow(nick)
                return nick
        people.lose(people.find(chat))
        raise NotNow(AWAY.format(chat))

    def reachable(self, address: Address) -> bool:
        return address not in self._away.get(address.chat, ())

    # --- what the watch asks

    def _wake(self, chat: str) -> None:
        assert self._core is not None
        for address in self._away.pop(chat, set()):
            self._core.wake_delivery(address)

    def _list_waiting(self) -> list[str]:
        """The accounts that something waits for."""
        return [chat for chat, every in self._away.items() if any(address.kind == "dm" for address in every)]

    def _note_invitation(self, account: str, channel: str) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # nobody needs so many
            self._invitations.put_nowait((account, channel))

    async def _weigh_invitations(self) -> None:
        """Go along with whoever was let in, however they were (G1)."""
        while True:
            account, channel = await self._invitations.get()
            if self._core is None or not await self._core.knows(SPEC.name, account):
                _log.info("An invitation to a channel was left alone: nobody whom we know has sent it.")
            elif self._watch is not None and self._watch.is_live:
                self._watch.go_to(channel)

    def _follow(self, inbound: Inbound) -> None:
        """Whoever writes to us alone is told to the server, so that an answer need not ask who has their nick."""
        nick = self._books.people.find(inbound.sender)
        if nick and inbound.address.kind == "dm" and self._watch is not None and self._watch.is_live:
            self._watch.follow(nick)

    def _tell(self, inbound: Inbound, reason: str) -> None:
        """A word to whoever wrote a message: a notice, which no program answers."""
        session = self._session
        target = inbound.sender_name if inbound.address.kind == "dm" else inbound.address.chat
        if session is not None and session.is_open:
            session.put_courtesy(write_line("NOTICE", target, clean_words(reason)[: self.spec.max_length // 2]))
