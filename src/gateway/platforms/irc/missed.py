"""What was said during an absence, where the server keeps it (chathistory): read before anything new of that chat."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.platforms.irc.connection.handshake import Introduced
from gateway.platforms.irc.connection.irc_line import IrcLine, fold, is_name, write_line
from gateway.platforms.irc.wire import LOCAL_ID, pick_missed
from hermes_base.inbound import Inbound

HISTORY_TYPES = ("chathistory", "draft/chathistory")
MOST_LINES = 100
LATE_SECONDS = 20.0  # a history that does not come holds nobody up for longer


@dataclass(slots=True)
class _Asked:
    chat: str
    target: str
    since: float = field(default_factory=time.monotonic)
    held: list[Inbound] = field(default_factory=list)


@dataclass(slots=True)
class _Batch:
    target: str
    lines: list[IrcLine] = field(default_factory=list)


class MissedLines:
    """`hear` is given lines of a history, `put` messages that waited for them. If the line is cut meanwhile, the next
    connection finds those in the history, too."""

    def __init__(self, hear: Callable[[list[IrcLine]], None], put: Callable[[Inbound], None]) -> None:
        self._hear = hear
        self._put = put
        self._write: Callable[[bytes], None] = lambda _: None
        self._found = Introduced()
        self._last: dict[str, str] = {}
        self._asked: dict[str, _Asked] = {}  # by target, folded
        self._batches: dict[str, _Batch] = {}

    def begin(self, found: Introduced, last: Mapping[str, str], write: Callable[[bytes], None]) -> None:
        self._found = found
        self._write = write
        self._last = {chat: message for chat, message in last.items() if not message.startswith(LOCAL_ID)}
        self._batches.clear()

    def ask(self, chat: str, target: str) -> None:
        """Ask for what was said in a chat since we heard it last."""
        last = self._last.get(chat)
        if last and self._found.history and is_name(target):
            self._asked.setdefault(self._fold(target), _Asked(chat, target)).since = time.monotonic()
            limit = self._found.supports.get("CHATHISTORY", "")
            most = min(int(limit) or MOST_LINES, MOST_LINES) if limit.isdecimal() else MOST_LINES
            self._write(write_line("CHATHISTORY", "AFTER", target, f"msgid={last}", str(most)))

    def hold(self, inbound: Inbound) -> bool:
        """Whether a new message waits for the history of its chat."""
        asked = next((one for one in self._asked.values() if one.chat == inbound.address.chat), None)
        if asked is not None:
            asked.held.append(inbound)
        return asked is not None

    def take(self, line: IrcLine) -> bool:
        """Whether a line belongs to a history."""
        if line.command == "BATCH":
            return self._take_batch(line)
        batch = self._batches.get(line.tags.get("batch", ""))
        if batch is not None:
            batch.lines.append(line)
            return True
        if line.command == "FAIL" and line.param(0) == "CHATHISTORY":
            for target in list(self._asked):
                self._release(target)
            return True
        return False

    def end_late(self) -> None:
        """Let go what waited too long."""
        for target, asked in list(self._asked.items()):
            if time.monotonic() - asked.since > LATE_SECONDS:
                self._release(target)

    def _take_batch(self, line: IrcLine) -> bool:
        sign, name = line.param(0)[:1], line.param(0)[1:]
        if sign == "+" and line.param(1) in HISTORY_TYPES:
            self._batches[name] = _Batch(self._fold(line.param(2)))
            return True
        batch = self._batches.pop(name, None) if sign == "-" else None
        if batch is None:
            return False
        asked = self._asked.get(batch.target)
        chat = asked.chat if asked else batch.target
        missed = pick_missed(batch.lines, self._last.get(chat, ""), asked=asked is not None)
        self._hear(missed)
        if asked is None:
            return True
        ids = [one.tags["msgid"] for one in missed if one.tags.get("msgid")]
        if ids and ids[-1] != self._last.get(chat):  # there may be more of it
            self._last[chat] = ids[-1]
            self.ask(chat, asked.target)
        else:
            self._release(batch.target)
        return True

    def _release(self, target: str) -> None:
        for inbound in self._asked.pop(target).held:
            self._put(inbound)

    def _fold(self, name: str) -> str:
        return fold(name, self._found.mapping)
