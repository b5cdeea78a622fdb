"""A connection at work: lines go out at a pace that servers allow, and what became of each message is asked."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping

from gateway.platforms.face import NotNow
from gateway.platforms.irc.connection.handshake import ECHO, TAGS, Introduced
from gateway.platforms.irc.connection.irc_line import IrcLine, fold, write_line
from gateway.platforms.irc.connection.irc_outgoing import Allowance, LineQueue, QueuedLine, Sending
from gateway.platforms.irc.connection.irc_stream import IrcStream
from gateway.platforms.irc.refusals import CUT, NAMELESS, NO_ANSWER, NOT_CONNECTED, as_failure, is_about_message
from gateway.platforms.irc.wire import strip_marks
from hermes_base.errors import DeliveryFailure

QUIET_SECONDS = 30.0  # without a line from the server: it is asked whether it is there
ANSWER_SECONDS = 10.0  # for the server to say what became of a line
AGAIN_SECONDS = 1.0  # until a line that broke is asked for again
LINES_AT_ONCE = 20  # that are read without a pause
MOST_COURTESY = 4  # lines that wait; then nothing is said that nobody needs
LINES_A_MESSAGE = 2  # at most: its own, and a question behind it or what else goes between
MOST_REASON = 200  # signs of what a server says
DEAD = "nothing was heard for a minute"


class IrcSession:
    def __init__(
        self, stream: IrcStream, found: Introduced, listen: Callable[[IrcLine], None], line_seconds: float
    ) -> None:
        self.found = found
        self.nick = found.nick
        self.prefix = ""  # nick!user@host, as others see us
        self.is_open = True
        self._stream = stream
        self._listen = listen
        self._line_seconds = line_seconds
        self._queue = LineQueue()
        self._filled = asyncio.Event()
        self._sent: deque[Sending] = deque()  # in the order in which the server answers
        self._asked: dict[str, list[asyncio.Future[str]]] = {}  # by nick: whose account it is
        self._accounts: dict[str, str] = {}
        self._tokens = itertools.count(1)

    def fold(self, name: str) -> str:
        return fold(name, self.found.mapping)

    def is_me(self, nick: str) -> bool:
        return self.fold(nick) == self.fold(self.nick)

    async def run(self, alive: Callable[[], None]) -> str:
        """Until the line is cut; why it was."""
        writing = asyncio.create_task(self._write_on(), name="irc writes")
        try:
            return await self._read_on(alive)
        finally:
            self.is_open = False
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            self._end()

    async def close(self, *, farewell: bool = False) -> None:
        self.is_open = False
        await self._stream.close(farewell)

    def cut(self) -> None:
        """End it at once, as if the line had broken."""
        self._stream.cut()

    # --- lines in

    async def _read_on(self, alive: Callable[[], None]) -> str:
        asked, number = False, 0
        while True:
            number += 1
            if number % LINES_AT_ONCE == 0:
                await asyncio.sleep(0)  # a long list may lie there already, and others have work, too
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    line = await self._stream.read()
            except TimeoutError:
                if asked:
                    return DEAD
                asked = True
                self._stream.write_soon(write_line("PING", f"alive-{next(self._tokens)}"))
                continue
            except DeliveryFailure as cut:
                return str(cut)
            asked = False
            alive()
            if line is None:
                continue
            if line.command == "ERROR":
                return f"the server has ended it: {strip_marks(line.param(-1))[:MOST_REASON]}"
            if line.command == "PING":
                self._stream.write_soon(write_line("PONG", line.param(-1)))
            elif not self._settle(line):
                self._listen(line)

    def _settle(self, line: IrcLine) -> bool:
        """Whether the line is an answer that somebody waits for."""
        command = line.command
        if self.is_me(line.nick):
            self.prefix = line.source
            if command in ("PRIVMSG", "NOTICE"):
                self._answer(self._find_sending(line.param(0), line.param(1)), line)
                return True
        if command == "PONG":
            self._answer(next((one for one in self._sent if one.token == line.param(-1)), None), line)
            return True
        if command == "330":
            self._accounts[self.fold(line.param(1))] = line.param(2)
            return True
        if command == "318":
            self._end_question(self.fold(line.param(1)))
            return True
        if not is_about_message(line):
            return False
        sending = self._find_sending("" if command in NAMELESS else line.param(1))
        if sending is None:
            return False
        self._sent.remove(sending)
        if not sending.done.done():
            sending.done.set_exception(as_failure(line))
        return True

    def _find_sending(self, target: str, text: str = "") -> Sending | None:
        """The oldest message to somebody that the server has not answered, the one with this text before others;
        without a name the oldest of all. Servers answer in order, and some swallow a message without a word."""
        wanted = self.fold(target)
        found = [one for one in self._sent if not wanted or one.target == wanted]
        return next((one for one in found if one.text == text), found[0] if found else None)

    def _answer(self, sending: Sending | None, line: IrcLine) -> None:
        if sending is not None:
            self._sent.remove(sending)
            if not sending.done.done():
                sending.done.set_result(line)

    def _end_question(self, nick: str) -> None:
        account = self._accounts.pop(nick, "")
        for waiting in self._asked.pop(nick, []):
            if not waiting.done():
                waiting.set_result(account)

    # --- lines out

    @property
    def is_idle(self) -> bool:
        """Whether so little waits that something may be done that nobody needs."""
        return len(self._queue) < MOST_COURTESY

    def put_chore(self, data: bytes) -> None:
        """A line of house-keeping: behind messages, and once, however often it is asked for."""
        self._queue.put_chore(data)
        self._filled.set()

    def put_courtesy(self, data: bytes) -> None:
        """A line that may be left out: nobody can make us wait for it."""
        if self.is_idle:
            self.put_chore(data)

    def put_needed(self, data: bytes) -> None:
        """A line that messages wait for, or that spares them others: it goes in their turn."""
        self._put_message(QueuedLine(data))

    def _put_message(self, line: QueuedLine) -> None:
        self._queue.put_message(line)
        self._filled.set()

    async def say(self, target: str, text: str, tags: Mapping[str, str]) -> str:
        """Say something, and wait for the server to have handed it on; its id, or empty where the server gives none."""
        if not self.is_open:
            raise NotNow(NOT_CONNECTED, AGAIN_SECONDS, whole_account=True)
        echoed = ECHO in self.found.caps
        token = "" if echoed else f"said-{next(self._tokens)}"
        sending = Sending(self.fold(target), text, asyncio.get_running_loop().create_future(), token)
        data = write_line("PRIVMSG", target, text, tags=tags if TAGS in self.found.caps else None)
        self._put_message(QueuedLine(data if echoed else data + write_line("PING", token), sending))
        try:
            async with asyncio.timeout(ANSWER_SECONDS + self._line_seconds * LINES_A_MESSAGE * self._queue.messages):
                answer = await sending.done
        except TimeoutError:
            raise DeliveryFailure(NO_ANSWER) from None
        finally:
            sending.given_up = True
        return answer.tags.get("msgid", "")

    async def find_account(self, nick: str) -> str:
        """The account that has this nick now; empty: nobody who is logged in."""
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if not self.is_open:
            raise NotNow(NOT_CONNECTED, AGAIN_SECONDS, whole_account=True)
        self._asked.setdefault(self.fold(nick), []).append(waiting)
        self.put_needed(write_line("WHOIS", nick))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await waiting
        except TimeoutError:
            raise NotNow("The IRC server does not say who is there.", AGAIN_SECONDS) from None

    async def _write_on(self) -> None:
        allowance = Allowance(self._line_seconds, time.monotonic())
        while True:
            line = self._queue.pick()
            if line is None:
                self._filled.clear()
                await self._filled.wait()
                continue
            lines = line.data.count(b"\n")
            if wait := allowance.find_wait(time.monotonic(), lines):
                await asyncio.sleep(wait)
                continue  # what came meanwhile may go first
            allowance.use(lines)
            self._queue.take(line)
            if line.sending is not None:
                self._sent.append(line.sending)
            try:
                await self._stream.write(line.data)
            except DeliveryFailure:
                return  # who reads notices it, too

    def _end(self) -> None:
        """Whoever waits hears what is known: what was not written has not arrived."""
        for sending in self._sent:
            if not sending.done.done() and not sending.given_up:
                sending.done.set_exception(DeliveryFailure(CUT))
        for sending in self._queue.drain():
            sending.done.set_exception(NotNow(NOT_CONNECTED, AGAIN_SECONDS, whole_account=True))
        for waiting in (one for every in self._asked.values() for one in every):
            if not waiting.done():
                waiting.set_exception(NotNow(NOT_CONNECTED, AGAIN_SECONDS, whole_account=True))
        self._sent.clear()
        self._asked.clear()
