"""What happens on a connection: who speaks, comes, goes and is called what, which channels we are in."""

import asyncio
import contextlib
import itertools
import logging
import math
import time
from collections.abc import Callable, Mapping

from gateway.platforms.irc.connection.handshake import ACCOUNT_TAG
from gateway.platforms.irc.connection.irc_line import BadLine, IrcLine, clean_words, fold, is_name, write_line
from gateway.platforms.irc.connection.irc_session import IrcSession
from gateway.platforms.irc.irc_books import IrcBooks, NickWatch
from gateway.platforms.irc.missed import MissedLines
from gateway.platforms.irc.reception import IrcReception
from gateway.platforms.irc.refusals import JOIN_REFUSALS
from gateway.platforms.irc.wire import (
    LOCAL_ID,
    ClientQuestion,
    IrcSelf,
    Remembered,
    Unheard,
    Unidentified,
    read_message,
)
from gateway.platforms.irc.wire_out import answer_client
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
TICK_SECONDS = 15.0
SETTLE_SECONDS = 10.0  # for the channels to let us in, before others are told that we are there
REGAIN_SECONDS = 60.0  # between two tries to get the nick back
TOLD_SECONDS, MOST_TOLD = 3600.0, 200  # who is not logged in hears it once in this time
COURTESY_SECONDS = 5.0  # between two answers to people whom nobody knows
MOST_ASKED = 10  # people in one question whether they are there
WHO_MARK = "152"
SERVICES = "NickServ"
NOT_LOGGED_IN = (
    "I know people by their services account, and you are not logged in to one (see NickServ). Log in, and write again."
)
_counter = itertools.count()


class IrcWatch:
    """`take` is given every line that is no answer. `wake` is called with a chat where somebody is again, `waits` tells
    the accounts that something waits for, `invited` is given an account and the channel that it asks us into, `changed`
    is called when something may be other than it was."""

    def __init__(
        self,
        books: IrcBooks,
        reception: IrcReception,
        wake: Callable[[str], None],
        waits: Callable[[], list[str]],
        invited: Callable[[str, str], None],
        changed: Callable[[], None],
    ) -> None:
        self.books = books
        self.settled = asyncio.Event()
        self._reception = reception
        self._wake = wake
        self._waits = waits
        self._invited = invited
        self._changed = changed
        self._last_courtesy = -COURTESY_SECONDS
        self._next_regain = 0.0
        self._asks_services = False
        self.nicks = NickWatch({}, "")
        self._session: IrcSession | None = None
        self._missed = MissedLines(self._hear_missed, reception.put)

    def begin(self, session: IrcSession, last: Mapping[str, str]) -> None:
        """The connection is there; `last`: of each chat the id of the message that was heard last."""
        self._session = session
        mapping = session.found.mapping
        self.books.people.mapping = self.books.channels.mapping = mapping
        self.books.channels.begin()
        self.nicks = NickWatch(session.found.supports, mapping)
        self._missed.begin(session.found, last, session.put_chore)
        self._join_due(session)
        if bot := session.found.supports.get("BOT"):
            session.put_chore(write_line("MODE", session.nick, f"+{bot[:1]}"))
        self._note_settled()
        for chat in last:
            if not chat.startswith(("#", "&")):
                self._missed.ask(chat, self._name(chat))

    async def tick(self) -> None:
        """Now and then: channels that did not let us in, the nick that somebody else had, people who were away."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            session = self._session
            if session is None or not session.is_open:
                continue
            self._join_due(session)
            self._regain(session)
            self._missed.end_late()
            away = [self._name(account) for account in self._waits()]
            asked = " ".join(filter(is_name, away[:MOST_ASKED]))
            if asked:
                session.put_courtesy(write_line("ISON", asked))

    def take(self, line: IrcLine) -> None:
        """One line that is odd takes none of the others with it; what people wrote is in no log."""
        happens = _HAPPENINGS.get(line.command)
        try:
            if self._missed.take(line):
                return
            if happens is not None:
                happens(self, line)
            elif line.command in JOIN_REFUSALS:
                self._take_no_entry(line)
        except BadLine as odd:
            _log.warning("A line of IRC (%s) cannot be answered: %s.", line.command, odd)
        except Exception as error:  # noqa: BLE001 - the top of what comes from outside
            _log.error("A line of IRC (%s) cannot be read (%s).", line.command, type(error).__name__)
        self._changed()

    # --- messages

    def _take_message(self, line: IrcLine) -> None:
        session = self._live()
        read = self._read(session, line)
        match read:
            case Inbound():
                self._note_person(read.sender, line.nick)
                self.books.memory.note(read.message, Remembered(line.nick, read.text))
                if not self._missed.hold(read):
                    self._reception.put(read)
            case Unidentified(source):
                self._ask_to_log_in(session, source)
            case ClientQuestion():
                answer = answer_client(read)
                if answer and self._may_be_kind():
                    session.put_courtesy(write_line("NOTICE", read.nick, answer))
            case Unheard(reason):
                _log.debug("A line of IRC is left out: %s.", reason)

    def _read(self, session: IrcSession, line: IrcLine) -> Inbound | Unidentified | ClientQuestion | Unheard:
        signs = session.found.supports.get("STATUSMSG", "@+")
        types = session.found.supports.get("CHANTYPES", "#&")
        me = IrcSelf(self.books.account, session.nick, session.found.mapping, signs.strip(types))
        local_id = f"{LOCAL_ID}{time.time_ns()}-{next(_counter)}"
        return read_message(line, me, local_id, self.books.memory.find)

    def _hear_missed(self, lines: list[IrcLine]) -> None:
        """What was said while we were away. Who is not logged in there is not told so now."""
        for line in lines:
            read = self._read(self._live(), line) if line.command == "PRIVMSG" else None
            if isinstance(read, Inbound):
                self.books.memory.note(read.message, Remembered(line.nick, read.text))
                self._reception.put(read)

    def _ask_to_log_in(self, session: IrcSession, source: str) -> None:
        """G1: whom we cannot know gets one sentence and no code: the code would be that of a nick, which is anybody's
        tomorrow."""
        now, whom = time.monotonic(), source.partition("!")[2] or source
        told = self.books.told
        if now - told.get(whom, -TOLD_SECONDS) < TOLD_SECONDS or not self._may_be_kind():
            return
        told[whom] = now
        while len(told) > MOST_TOLD:
            del told[next(iter(told))]
        session.put_courtesy(write_line("NOTICE", source.partition("!")[0], NOT_LOGGED_IN))

    def _may_be_kind(self) -> bool:
        """Strangers cannot make us talk without end."""
        now = time.monotonic()
        if now - self._last_courtesy < COURTESY_SECONDS:
            return False
        self._last_courtesy = now
        return True

    # --- people

    def _note_person(self, account: str, nick: str) -> None:
        self.books.people.note(account, nick, time.monotonic())
        self._wake(account)

    @property
    def is_live(self) -> bool:
        return self._session is not None and self._session.is_open

    def follow(self, nick: str) -> None:
        """Be told when somebody leaves this nick, where the server can and nothing else waits. Nobody is followed for
        having written: only whom we know, or answer."""
        session = self._live()
        if not session.is_idle:
            return  # their nick is asked for instead
        for sign, name in self.nicks.add(nick):
            session.put_needed(write_line("MONITOR", sign, name))

    def _take_watched(self, line: IrcLine) -> None:
        """Nicks that are there now."""
        nicks = [mask.partition("!")[0] for mask in line.param(-1).split(",")]
        for nick in nicks:
            self.nicks.note(nick, time.monotonic())
        self._wake_present(nicks)

    def _take_gone(self, line: IrcLine) -> None:
        for nick in line.param(-1).split(","):
            self.nicks.note(nick, math.inf)
            self.books.people.lose(nick)

    def _take_account(self, line: IrcLine) -> None:
        account = line.param(0)
        if account in ("", "*", "0"):
            self.books.people.lose(line.nick)
        else:
            self._note_person(account, line.nick)

    def _take_nick(self, line: IrcLine) -> None:
        session, new = self._live(), line.param(0)
        if session.is_me(line.nick):
            session.nick = new
        else:
            self.books.people.rename(line.nick, new)
            if account := line.tags.get("account", ""):
                self._note_person(account, new)
            if fold(line.nick, session.found.mapping) == fold(self.books.nick, session.found.mapping):
                self._regain(session, at_once=True)

    def _take_quit(self, line: IrcLine) -> None:
        """Also in a netsplit: whoever comes back joins again."""
        self.books.people.lose(line.nick)
        session = self._live()
        if session.fold(line.nick) == session.fold(self.books.nick):
            self._regain(session, at_once=True)

    def _take_listed(self, line: IrcLine) -> None:
        """Somebody of a channel, with their account."""
        _, mark, nick, account = (*line.params, "", "", "", "")[:4]
        if mark == WHO_MARK and account not in ("", "0", "*"):
            self._note_person(account, nick)

    def _take_present(self, line: IrcLine) -> None:
        """Nicks that are there, of those that were asked for."""
        self._wake_present(line.param(-1).split())

    def _wake_present(self, nicks: list[str]) -> None:
        fold_name = self._live().fold
        present = set(map(fold_name, nicks))
        for account in self._waits():
            if fold_name(self._name(account)) in present:
                self._wake(account)

    def _name(self, account: str) -> str:
        """The nick under which somebody may be there; most people have that of their account."""
        return self.books.people.find(account) or account

    # --- channels

    def _join_due(self, session: IrcSession) -> None:
        for name, key in self.books.channels.due(time.monotonic()):
            session.put_chore(write_line("JOIN", *([name, key] if key else [name])))

    def _take_join(self, line: IrcLine) -> None:
        session, channel = self._live(), line.param(0)
        account = line.param(1) if len(line.params) > 2 else line.tags.get("account", "")
        if not session.is_me(line.nick):
            if account not in ("", "*", "0"):
                self._note_person(account, line.nick)
            return
        _log.info("We are in %s on IRC.", channel)
        self.books.channels.note_join(channel)
        if "WHOX" in session.found.supports:
            session.put_chore(write_line("WHO", channel, f"%tna,{WHO_MARK}"))
        else:
            self._end_list(channel)
        self._missed.ask(session.fold(channel), channel)
        self._wake(session.fold(channel))

    def _take_end_of_list(self, line: IrcLine) -> None:
        self._end_list(line.param(1))

    def _end_list(self, channel: str) -> None:
        self.books.channels.note_settled(channel)
        self._note_settled()

    def _take_part(self, line: IrcLine) -> None:
        if self._live().is_me(line.nick):
            self._leave(line.param(0), "we were taken out")

    def _take_kick(self, line: IrcLine) -> None:
        if self._live().is_me(line.param(1)):
            self._leave(line.param(0), f"{line.nick} has put us out ({clean_words(line.param(2))[:80]})")

    def _take_no_entry(self, line: IrcLine) -> None:
        if not self.books.channels.is_in(line.param(1)):
            self._leave(line.param(1), JOIN_REFUSALS[line.command])

    def _leave(self, channel: str, why: str) -> None:
        _log.warning("We are not in %s on IRC: %s.", channel, why)
        self.books.channels.note_out(channel, why, time.monotonic())
        self._note_settled()

    def _note_settled(self) -> None:
        if self.books.channels.is_settled:
            self.settled.set()

    def _take_invite(self, line: IrcLine) -> None:
        """Only people whom we know take us along; where the settings want us, anybody may open the door."""
        channel, account = line.param(1), line.tags.get("account", "")
        if is_name(channel) and self.books.channels.find(channel) is not None:
            self.go_to(channel)
        elif is_name(channel) and account:
            self._invited(account, channel)

    def go_to(self, channel: str) -> None:
        """Somebody who may has asked us in."""
        self.books.channels.invite(channel)
        self._join_due(self._live())

    # --- the nick, and what the server takes back

    def _regain(self, session: IrcSession, *, at_once: bool = False) -> None:
        """Ask for the nick that somebody else had. Where we are logged in, the services are asked first to end an old
        connection of ours; they do it only if the nick belongs to our account."""
        wanted, now = self.books.nick, time.monotonic()
        if session.is_me(wanted) or (now < self._next_regain and not at_once):
            return
        self._next_regain = now + REGAIN_SECONDS
        self._asks_services = bool(session.found.account) and not at_once
        if self._asks_services:
            session.put_chore(write_line("PRIVMSG", SERVICES, f"GHOST {wanted}"))
        else:
            session.put_chore(write_line("NICK", wanted))

    def _take_notice(self, line: IrcLine) -> None:
        """Nobody's notice is answered; that of the services says that they have done what we asked for, or not."""
        if self._asks_services and line.nick.lower() == SERVICES.lower():
            self._regain(self._live(), at_once=True)

    def _take_caps(self, line: IrcLine) -> None:
        gone = line.param(-1).split() if line.param(1).upper() == "DEL" else []
        if ACCOUNT_TAG in gone:
            _log.error("The IRC server does not say any more who speaks; nobody is heard.")
            self._live().cut()

    def _live(self) -> IrcSession:
        assert self._session is not None
        return self._session


_HAPPENINGS: Mapping[str, Callable[[IrcWatch, IrcLine], None]] = {
    "PRIVMSG": IrcWatch._take_message,
    "NOTICE": IrcWatch._take_notice,
    "ACCOUNT": IrcWatch._take_account,
    "NICK": IrcWatch._take_nick,
    "QUIT": IrcWatch._take_quit,
    "JOIN": IrcWatch._take_join,
    "PART": IrcWatch._take_part,
    "KICK": IrcWatch._take_kick,
    "INVITE": IrcWatch._take_invite,
    "CAP": IrcWatch._take_caps,
    "303": IrcWatch._take_present,
    "315": IrcWatch._take_end_of_list,
    "354": IrcWatch._take_listed,
    "730": IrcWatch._take_watched,
    "731": IrcWatch._take_gone,
}


async def settle(watch: IrcWatch) -> None:
    """Wait until every channel has let us in or not, for a while."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            await watch.settled.wait()
