"""What is known over several connections: who has which nick, which channels we are in, what was said lately. Pure;
time is given."""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.platforms.irc.connection.irc_line import fold
from gateway.platforms.irc.wire import Remembered

PROOF_SECONDS = 5.0  # a nick can be somebody else's a moment later: what was proven is believed so long
WATCHED_SECONDS = 120.0  # and so long where the server tells when a nick goes
MOST_WATCHED = 50
MOST_PEOPLE = 5_000
RETRY_SECONDS = 300.0  # after a kick or a refusal: who comes back at once is not liked
MOST_REMEMBERED = 500


class NickBook:
    """Accounts are people; nicks are where a line has to go."""

    def __init__(self) -> None:
        self.mapping = "rfc1459"
        self._nicks: dict[str, tuple[str, float]] = {}  # by account: its nick, and when that was proven
        self._accounts: dict[str, str] = {}  # by nick, as the server compares it

    def note(self, account: str, nick: str, now: float) -> None:
        """The server says that this account has this nick. Who is there twice is spoken to where they spoke last."""
        self.lose(nick)
        self._forget(account)
        self._nicks[account] = (nick, now)
        self._accounts[fold(nick, self.mapping)] = account
        if len(self._nicks) > MOST_PEOPLE:
            self._forget(next(iter(self._nicks)))

    def rename(self, nick: str, new: str) -> None:
        """Somebody whom we see has another nick; what was proven before goes on to hold."""
        account = self._accounts.get(fold(nick, self.mapping))
        if account is not None:
            self.note(account, new, self._nicks[account][1])

    def lose(self, nick: str) -> None:
        """Nobody we know has this nick any more."""
        self._forget(self._accounts.get(fold(nick, self.mapping), ""))

    def find(self, account: str) -> str:
        """The last nick of an account; empty: none is known."""
        return self._nicks.get(account, ("", 0.0))[0]

    def is_proven(self, account: str, now: float, watched: float = math.inf) -> bool:
        """Whether the nick is still theirs, as far as one can know; since `watched` the server would have told."""
        proven = self._nicks[account][1] if account in self._nicks else -math.inf
        return now - proven < (WATCHED_SECONDS if watched <= proven else PROOF_SECONDS)

    def _forget(self, account: str) -> None:
        nick, _ = self._nicks.pop(account, ("", 0.0))
        self._accounts.pop(fold(nick, self.mapping), None)


class NickWatch:
    """Nicks that the server watches for us (MONITOR): it tells when one goes."""

    def __init__(self, supports: Mapping[str, str], mapping: str) -> None:
        limit = supports.get("MONITOR", "0") or str(MOST_WATCHED)
        self._most = min(int(limit), MOST_WATCHED) if limit.isdecimal() else 0
        self._mapping = mapping
        self._since: dict[str, float] = {}  # by nick; infinity: not confirmed

    def add(self, nick: str) -> list[tuple[str, str]]:
        """What the server has to be told to watch this one: a sign and a nick each."""
        name = fold(nick, self._mapping)
        if name in self._since or not self._most:
            return []
        dropped = [next(iter(self._since))] if len(self._since) >= self._most else []
        for old in dropped:
            del self._since[old]
        self._since[name] = math.inf
        return [*(("-", old) for old in dropped), ("+", nick)]

    def note(self, nick: str, since: float) -> None:
        """It is there since then, or gone (infinity)."""
        name = fold(nick, self._mapping)
        if name in self._since:
            self._since[name] = since

    def find(self, nick: str) -> float:
        return self._since.get(fold(nick, self._mapping), math.inf)


@dataclass(slots=True)
class ChannelState:
    name: str
    key: str = ""
    invited: bool = False  # somebody asked us in; the settings do not name it
    joined: bool = False
    settled: bool = False  # the server has said yes or no since we connected
    problem: str = ""
    retry_at: float = 0.0


class JoinedChannels:
    """The channels that we are to be in, and why we are not in some."""

    def __init__(self, channels: Mapping[str, str]) -> None:
        self.mapping = "rfc1459"
        self._states = [ChannelState(name, key) for name, key in channels.items()]

    def find(self, name: str) -> ChannelState | None:
        wanted = fold(name, self.mapping)
        return next((state for state in self._states if fold(state.name, self.mapping) == wanted), None)

    def begin(self) -> None:
        """Another connection: we are in none of them."""
        for state in self._states:
            state.joined = state.settled = False
            state.retry_at = 0.0

    def invite(self, name: str) -> None:
        """Somebody who may asks us in."""
        state = self.find(name)
        if state is None:
            state = ChannelState(name, invited=True)
            self._states.append(state)
        state.retry_at = 0.0

    @property
    def invited(self) -> tuple[str, ...]:
        """Those that somebody has asked us into, and nobody has put us out of."""
        return tuple(state.name for state in self._states if state.invited)

    def note_join(self, name: str) -> None:
        state = self.find(name)
        if state is None:  # the server, or its services, have put us there
            state = ChannelState(name, invited=True)
            self._states.append(state)
        state.joined, state.problem = True, ""

    def note_settled(self, name: str) -> None:
        state = self.find(name)
        if state is not None:
            state.settled = True

    def note_out(self, name: str, why: str, now: float) -> None:
        """We are put out, or not let in. Where we were only invited we do not insist."""
        state = self.find(name)
        if state is None:
            return
        if state.invited:
            self._states.remove(state)
            return
        state.joined, state.settled = False, True
        state.problem = f"{state.name}: {why}"
        state.retry_at = now + RETRY_SECONDS

    def due(self, now: float) -> list[tuple[str, str]]:
        """Name and key of those to be joined now; they are not due again before their time."""
        found = [state for state in self._states if not state.joined and state.retry_at <= now]
        for state in found:
            state.retry_at = now + RETRY_SECONDS
        return [(state.name, state.key) for state in found]

    def is_in(self, name: str) -> bool:
        state = self.find(name)
        return state is not None and state.joined

    @property
    def is_settled(self) -> bool:
        return all(state.settled for state in self._states)

    @property
    def problem(self) -> str:
        told = [state.problem for state in self._states if state.problem and not state.joined]
        return f"Not in every channel: {'; '.join(told)}. It is tried again." if told else ""


class Memory:
    """The newest messages by their ids, for whoever replies to one."""

    def __init__(self) -> None:
        self._said: OrderedDict[str, Remembered] = OrderedDict()

    def note(self, message: str, said: Remembered) -> None:
        self._said[message] = said
        if len(self._said) > MOST_REMEMBERED:
            self._said.popitem(last=False)

    def find(self, message: str) -> Remembered | None:
        return self._said.get(message)


class IrcBooks:
    """What is known over several connections."""

    def __init__(self, account: str, nick: str, channels: Mapping[str, str]) -> None:
        self.account = account
        self.nick = nick  # that we want
        self.people = NickBook()
        self.channels = JoinedChannels(channels)
        self.memory = Memory()
        self.told: dict[str, float] = {}  # who was told to log in, and when
