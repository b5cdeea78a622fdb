"""A connection at work: lines go out at a pace that servers allow, and what became of each message is asked."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.platforms.face import NotNow
from gateway.platforms.irc.handshake import ECHO, TAGS, Introduced
from gateway.platforms.irc.irc_line import IrcLine, fold, write_line
from gateway.platforms.irc.irc_stream import IrcStream
from gateway.platforms.irc.refusals import CUT, NAMELESS, NO_ANSWER, NOT_CONNECTED, as_failure, is_about_message
from gateway.platforms.irc.wire import strip_marks
from hermes_base.errors import DeliveryFailure

QUIET_SECONDS = 30.0  # without a line from the server: it is asked whether it is there
ANSWER_SECONDS = 10.0  # for the server to say what became of a line
BURST_LINES = 5  # that may go at once; then one in `line_seconds`
AGAIN_SECONDS = 1.0  # until a line that broke is asked for again
FIRST_LINES = 2  # at the beginning: a handshake has lines, too
LINES_AT_ONCE = 20  # that are read without a pause
MOST_COURTESY = 4  # lines that wait; then nothing is said that nobody needs
MOST_REASON = 200  # signs of what a server says
DEAD = "nothing was heard for a minute"


@dataclass(eq=False, slots=True)
class Sending:
    """A message whose fate the server will tell."""

    target: str
    text: str
    done: "asyncio.Future[IrcLine]"
    token: str = ""  # of the question behind it, where messages are not echoed
    given_up: bool = False


@dataclass(slots=True)
class _Queued:
    data: bytes
    sending: Sending | None = None


@dataclass(slots=True)
class _Allowance:
    """How many lines may go at once."""

    line_seconds: float
    left: float = FIRST_LINES
    at: float = field(default_factory=time.monotonic)

    def take(self, now: float, lines: int) -> float:
        """Use so many; the seconds until they may go."""
        self.left = min(float(BURST_LINES), self.left + (now - self.at) / self.line_seconds) - lines
        self.at = now
        return max(0.0, -self.left * self.line_seconds)


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
        self._queue: deque[_Queued] = deque()
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

    def put(self, data: bytes) -> None:
        """A line in its turn."""
        self._queue.append(_Queued(data))
        self._filled.set()

    def put_courtesy(self, data: bytes) -> None:
        """A line that may be left out: nobody can make us wait for it."""
        if len(self._queue) < MOST_COURTESY:
            self.put(data)

    async def say(self, target: str, text: str, tags: Mapping[str, str]) -> str:
        """Say something, and wait for the server to have handed it on; its id, or empty where the server gives none."""
        if not self.is_open:
            raise NotNow(NOT_CONNECTED, AGAIN_SECONDS, whole_account=True)
        echoed = ECHO in self.found.caps
        token = "" if echoed else f"said-{next(self._tokens)}"
        sending = Sending(self.fold(target), text, asyncio.get_running_loop().create_future(), token)
        data = write_line("PRIVMSG", target, text, tags=tags if TAGS in self.found.caps else None)
        self._queue.append(_Queued(data if echoed else data + write_line("PING", token), sending))
        self._filled.set()
        try:
            async with asyncio.timeout(ANSWER_SECONDS + self._line_seconds * len(self._queue)):
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
        self.put(write_line("WHOIS", nick))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await waiting
        except TimeoutError:
            raise NotNow("The IRC server does not say who is there.", AGAIN_SECONDS) from None

    async def _write_on(self) -> None:
        allowance = _Allowance(self._line_seconds)
        while True:
            while not self._queue:
                self._filled.clear()
                await self._filled.wait()
            queued = self._queue[0]  # it stands there until it is written: nobody shall wait for what never went
            if queued.sending is None or not queued.sending.given_up:
                await asyncio.sleep(allowance.take(time.monotonic(), queued.data.count(b"\n")))
            self._queue.popleft()
            if queued.sending is not None and queued.sending.given_up:
                continue
            if queued.sending is not None:
                self._sent.append(queued.sending)
            try:
                await self._stream.write(queued.data)
            except DeliveryFailure:
                return  # who reads notices it, too

    def _end(self) -> None:
        """Whoever waits hears what is known: what was not written has not arrived."""
        for sending in self._sent:
            if not sending.done.done() and not sending.given_up:
                sending.done.set_exception(DeliveryFailure(CUT))
        for queued in self._queue:
            if queued.sending is not None and not queued.sending.given_up:
                queued.sending.done.set_exception(NotNow(NOT_CONNECTED, AGAIN_SECONDS, whole_account=True))
        for waiting in (one for every in self._asked.values() for one in every):
            if not waiting.done():
                waiting.set_exception(NotNow(NOT_CONNECTED, AGAIN_SECONDS, whole_account=True))
        self._sent.clear()
        self._queue.clear()
        self._asked.clear()
