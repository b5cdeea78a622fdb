"""The lines that wait to go out. Messages go before house-keeping, so nothing that happens on a network makes an answer
wait: of what we do for ourselves each line waits once, and it gets a small share while messages keep coming. Pure; time
is given."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.platforms.irc.connection.irc_line import IrcLine

BURST_LINES = 5  # that may go at once; then one in `line_seconds`
FIRST_LINES = 2  # at the beginning: a handshake has lines, too
MESSAGES_IN_A_ROW = 4  # then one line of house-keeping goes, if any waits


@dataclass(eq=False, slots=True)
class Sending:
    """A message whose fate the server will tell."""

    target: str
    text: str
    done: "asyncio.Future[IrcLine]"
    token: str = ""  # of the question behind it, where messages are not echoed
    given_up: bool = False


@dataclass(eq=False, slots=True)
class QueuedLine:
    data: bytes
    sending: Sending | None = None


class LineQueue:
    """What waits, in two lanes."""

    def __init__(self) -> None:
        self._messages: deque[QueuedLine] = deque()
        self._chores: dict[bytes, QueuedLine] = {}  # by what they say: nothing is to be done twice
        self._in_a_row = 0

    def __len__(self) -> int:
        return len(self._messages) + len(self._chores)

    @property
    def messages(self) -> int:
        return len(self._messages)

    def put_message(self, line: QueuedLine) -> None:
        """What somebody waits for."""
        self._messages.append(line)

    def put_chore(self, data: bytes) -> None:
        self._chores.setdefault(data, QueuedLine(data))

    def pick(self) -> QueuedLine | None:
        """The line whose turn it is; it stays until it is taken. What was given up is left out."""
        while self._messages and (sending := self._messages[0].sending) is not None and sending.given_up:
            self._messages.popleft()
        if self._chores and (not self._messages or self._in_a_row >= MESSAGES_IN_A_ROW):
            return next(iter(self._chores.values()))
        return self._messages[0] if self._messages else None

    def take(self, line: QueuedLine) -> None:
        """It goes now."""
        if self._chores.get(line.data) is line:
            del self._chores[line.data]
            self._in_a_row = 0
        else:
            self._messages.remove(line)
            self._in_a_row += 1

    def drain(self) -> Iterator[Sending]:
        """Nothing goes any more: the messages that wait and are not given up."""
        waiting = [line.sending for line in self._messages]
        self._messages.clear()
        self._chores.clear()
        return (sending for sending in waiting if sending is not None and not sending.given_up)


class Allowance:
    """How many lines may go at once."""

    def __init__(self, line_seconds: float, now: float) -> None:
        self._line_seconds = line_seconds
        self._left = float(FIRST_LINES)
        self._at = now

    def find_wait(self, now: float, lines: int) -> float:
        """The seconds until so many may go."""
        self._left = min(float(BURST_LINES), self._left + (now - self._at) / self._line_seconds)
        self._at = now
        return max(0.0, (lines - self._left) * self._line_seconds)

    def use(self, lines: int) -> None:
        self._left -= lines
