"""The other side of the pretend platform: what a server would hold, its rules, and the troubles one can switch on."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

#: Told apart from the product's own way of counting on purpose: this is who judges it.
_COUNTS: Mapping[str, Callable[[str], int]] = {
    "chars": len,
    "utf16": lambda text: sum(2 if ord(char) > 0xFFFF else 1 for char in text),
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
}
KEPT_CALLS = 100_000
#: Troubles that one call can meet.
CLOSED_BEFORE, CLOSED_AFTER, BAD_MARKUP, REFUSED = "closed before", "closed after", "bad markup", "refused"
PATIENCE = "patience"  # this call is asked to wait for an hour; others are let through


class ServiceError(Exception):
    """What the server answers instead of a result."""

    def __init__(self, status: int, text: str, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class PretendRules:
    """What the server takes."""

    max_length: int = 4096
    length_unit: str = "chars"
    can_edit: bool = True
    most_edits: int = 0  # of one message; 0: no limit
    takes_keys: bool = True
    has_buttons: bool = True
    has_typing: bool = True
    has_receipts: bool = False
    markup: str = "markdown"
    takes_files: bool = True
    has_menu: bool = False
    has_history: bool = False  # nobody is told what was said while they were away, but can read it
    split_length: int = 0  # its clients cut a longer text
    calls_per_second: float = 0.0  # for one chat; 0: no limit; more gets a 429
    burst_calls: int = 5
    most_parts: int = 0
    latency: float = 0.0


@dataclass(frozen=True, slots=True)
class PretendMessage:
    id: str
    chat: str
    text: str
    key: str = ""
    reply_to: str = ""
    choices: tuple[str, ...] = ()
    question: str = ""
    file: str = ""
    content: str = ""  # of the file
    edits: int = 0


@dataclass(frozen=True, slots=True)
class PretendFile:
    """What stands beside a message: the server has the file itself under its id."""

    id: str
    name: str
    kind: str = "file"
    size: int = 0


@dataclass(frozen=True, slots=True)
class Update:
    """Something that a person did."""

    id: str
    chat: str
    kind: str
    sender: str
    text: str
    thread: str = ""
    revision: str = ""
    mentioned: bool = False
    question: str = ""
    name: str = ""  # of the sender, as others see it
    reply_to: str = ""
    quote: str = ""
    forwarded: bool = False
    album: str = ""
    files: tuple[PretendFile, ...] = ()
    at: float = field(default_factory=time.time, compare=False)  # when it was done, by the server's clock


@dataclass(slots=True)
class PretendCall:
    """One call that reached the server, whatever it answered."""

    kind: str
    chat: str
    at: float
    status: int = 200


@dataclass(slots=True)
class PretendService:
    """Chats and messages of a service, with its clock. Threads: the event loop's only."""

    rules: PretendRules = field(default_factory=PretendRules)
    clock: Callable[[], float] = time.monotonic
    messages: list[PretendMessage] = field(default_factory=list)
    calls: deque[PretendCall] = field(default_factory=lambda: deque(maxlen=KEPT_CALLS))
    troubles: deque[str] = field(default_factory=deque)  # one for each of the next sends and edits
    always: str = ""  # the trouble of every send and edit
    penalty_until: float = 0.0
    marked: list[str] = field(default_factory=list)  # messages of people that were marked as taken, in order
    updates: deque[Update] = field(default_factory=deque)  # not confirmed yet, in order
    files: dict[str, bytes | None] = field(default_factory=dict)  # by id; None: it is sent without end
    fetched: list[str] = field(default_factory=list)  # the ids that were asked for
    file_troubles: deque[str] = field(default_factory=deque)  # one for each of the next fetches
    menu: tuple[tuple[str, str], ...] = ()  # commands with their words
    menus: int = 0  # so many were sent
    locked_out: str = ""  # why nobody can connect
    history: list[Update] = field(default_factory=list)  # all that was ever said
    listening: bool = False  # somebody is connected
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    # --- what a person does and sees
    def say(self, chat: str, text: str, sender: str = "ann", kind: str = "dm", **more: Any) -> Update:
        """Somebody writes."""
        update = replace(Update(f"u{next(self._ids)}", chat, kind, sender, text), **more)
        self.history.append(update)
        return update if self.rules.has_history and not self.listening else self.repeat(update)

    def read_history(self, chat: str, after: str) -> list[Update]:
        """What was said in a chat after a message, the oldest first."""
        said = [update for update in self.history if update.chat == chat]
        places = [number for number, update in enumerate(said) if update.id == after]
        return said[places[0] + 1 :] if places else []

    def upload(self, name: str, body: bytes | None, kind: str = "file", size: int | None = None) -> PretendFile:
        """Somebody puts a file beside a message; None: it never ends."""
        file = PretendFile(f"f{next(self._ids)}", name, kind, len(body or b"") if size is None else size)
        self.files[file.id] = body
        return file

    def repeat(self, update: Update) -> Update:
        """The same update once more, as servers do when they are in doubt."""
        self.updates.append(update)
        self._arrived.set()
        return update

    def seen(self, chat: str) -> list[str]:
        """The texts that stand in a chat, in order."""
        return [message.text for message in self.messages if message.chat == chat]

    def punish(self, seconds: float) -> None:
        """Answer 429 to everything for so long."""
        self.penalty_until = self.clock() + seconds

    # --- what a client calls
    async def poll(self) -> Update:
        """The first update that was not confirmed; waits for one."""
        while not self.updates:
            self._arrived = asyncio.Event()  # a service may outlive its event loop
            await self._arrived.wait()
        return self.updates[0]

    def confirm(self, update: Update) -> None:
        if self.updates and self.updates[0] == update:
            self.updates.popleft()

    async def send(self, message: PretendMessage) -> str:
        """Post a message; its id. A key that is known gives the id of the first one."""
        trouble = await self._answer("send", message.chat)
        self._check_text(message.text, bool(message.file))
        if message.file and not self.rules.takes_files:
            raise ServiceError(400, "files are not taken")
        known = next((m.id for m in self.messages if message.key and m.key == message.key), None)
        if known is None or not self.rules.takes_keys:
            known = f"m{next(self._ids)}"
            self.messages.append(replace(message, id=known))
        self._cut(trouble)
        return known

    async def edit(self, chat: str, message_id: str, text: str, choices: tuple[str, ...] = ()) -> None:
        trouble = await self._answer("edit", chat)
        if not self.rules.can_edit:
            raise ServiceError(400, "messages cannot be edited")
        self._check_text(text, False)
        place = next((n for n, m in enumerate(self.messages) if m.id == message_id), None)
        if place is None:
            raise ServiceError(400, "there is no such message")
        old = self.messages[place]
        if 0 < self.rules.most_edits <= old.edits:
            raise ServiceError(400, "that was edited too often")
        self.messages[place] = replace(old, text=text, choices=choices, edits=old.edits + 1)
        self._cut(trouble)

    async def fetch(self, file: str, write: Callable[[bytes], object]) -> None:
        """Send a file in pieces."""
        self.fetched.append(file)
        trouble = self.file_troubles.popleft() if self.file_troubles else ""
        if trouble == REFUSED or file not in self.files:
            raise ServiceError(400, "there is no such file")
        body = self.files[file]
        write((body or b"half")[: 1 if trouble == CLOSED_AFTER else None])
        if trouble:
            raise ConnectionResetError(f"{trouble}, in the middle of a file")
        while body is None:
            await asyncio.sleep(0.005)
            write(b"more")

    async def set_menu(self, commands: tuple[tuple[str, str], ...]) -> None:
        await self._answer("menu", "")
        self.menu = commands
        self.menus += 1

    async def type(self, chat: str) -> None:
        await self._answer("typing", chat, troubled=False)

    async def mark(self, chat: str, message_id: str) -> None:
        await self._answer("mark", chat, troubled=False)
        self.marked.append(message_id)

    def delete(self, message_id: str) -> None:
        """A person deletes a message."""
        self.messages = [message for message in self.messages if message.id != message_id]

    async def _answer(self, kind: str, chat: str, troubled: bool = True) -> str:
        """Count the call, and refuse it if it comes too early; the trouble that it meets."""
        call = PretendCall(kind, chat, self.clock())
        self.calls.append(call)
        if self.rules.latency:
            await asyncio.sleep(self.rules.latency)
        wait = max(self.penalty_until - call.at, self._over_rate(chat, call.at))
        if wait > 0:
            call.status = 429
            raise ServiceError(429, "too many requests", wait)
        trouble = (self.troubles.popleft() if self.troubles else self.always) if troubled else ""
        if trouble == CLOSED_BEFORE:
            raise ConnectionResetError("closed before the message was taken")
        if trouble == PATIENCE:
            raise ServiceError(429, trouble, 3600.0)
        if trouble in (BAD_MARKUP, REFUSED):
            raise ServiceError(400, trouble)
        return trouble

    def _over_rate(self, chat: str, now: float) -> float:
        """Seconds too early: in no window more calls than the burst and what the window lets through."""
        rate = self.rules.calls_per_second
        if not rate:
            return 0.0
        times = [call.at for call in self.calls if call.chat == chat and call.status == 200]
        over = (len(times) - n - self.rules.burst_calls - rate * (now - at) for n, at in enumerate(times))
        return max(0.0, max(over) - 0.001) / rate

    def _check_text(self, text: str, may_be_empty: bool) -> None:
        if not text.strip() and not may_be_empty:
            raise ServiceError(400, "the message is empty")
        if self.rules.max_length and _COUNTS[self.rules.length_unit](text) > self.rules.max_length:
            raise ServiceError(400, "the message is too long")

    def _cut(self, trouble: str) -> None:
        if trouble == CLOSED_AFTER:
            raise ConnectionResetError("closed after the message was taken")
