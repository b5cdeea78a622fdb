"""Hands live events to whoever watches a conversation, for platforms whose clients read everything else from the store.

Such a platform has nothing to deliver: what is in the outbox is where its clients look. A watcher that is too slow is
not waited for: its events are given up, and it is told to look at the store again.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gateway.platforms.face import (
    Accepted,
    BaseAdapter,
    Begun,
    Core,
    Dealt,
    LiveEvent,
    Moved,
    NeverTaken,
    Part,
    Refused,
    Taken,
    TakenOver,
)
from hermes_base.chat import ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted, TurnTexts
from hermes_base.inbound import Inbound, Outgoing

MOST_WAITING = 2_000  # events for one watcher
MOST_WAITING_CHARS = 4_000_000  # of their text
#: Of what a turn under way has shown.
MOST_TEXT = 1_000_000
MOST_REASONING = 200_000
MOST_TOOLS = 300
MOST_PICTURES = 1_000  # a turn that another process took over never ends here


@dataclass(frozen=True, slots=True)
class Sent:
    """A row of the outbox stands where its clients look."""

    row: int
    outgoing: Outgoing


@dataclass(frozen=True, slots=True)
class Posted:
    """There is something new in the outbox; `late`: it is there for some time, and nobody has confirmed it."""

    late: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """What the watcher knows may not be the whole truth any more. `shown`: events were given up, so something that was
    shown may be missing; if not, only the store has more."""

    shown: bool = True


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """The gateway closes."""


@dataclass(frozen=True, slots=True)
class ToolShown:
    id: str
    name: str
    preview: str
    ok: bool | None = None  # None: it works
    seconds: float | None = None
    result: str = ""


@dataclass(eq=False)
class Picture:
    """What a turn under way has shown so far, for whoever comes in the middle of it; bounded, whatever it says."""

    seqs: tuple[int, ...]
    begun: float
    rows: int = 0  # of the turn, from earlier attempts: what the transcript got after them is part of this picture
    taken: frozenset[int] = frozenset()  # messages that the turn has read
    text: TurnTexts = field(default_factory=lambda: TurnTexts(MOST_TEXT))
    reasoning: TurnTexts = field(default_factory=lambda: TurnTexts(MOST_REASONING))
    _tools: dict[str, ToolShown] = field(default_factory=dict)

    def holds(self, turn: int, place: int) -> bool:
        """Whether a row of the transcript, the n-th of this turn, is part of it."""
        return turn == min(self.seqs, default=0) > 0 and place > self.rows

    @property
    def tools(self) -> tuple[ToolShown, ...]:
        return tuple(self._tools.values())

    @tools.setter
    def tools(self, tools: tuple[ToolShown, ...]) -> None:
        self._tools = {tool.id: tool for tool in tools}

    def add(self, event: "Watched") -> None:
        match event:
            case Taken(seqs):
                self.taken |= set(seqs)
            case TextDelta(text):
                self.text.add(text)
            case ReasoningDelta(text):
                self.reasoning.add(text)
            case TextEnded(kept):
                self.text.end(kept)
                self.reasoning.end(kept)
            case ToolStarted(id, name, preview):
                self._tools[id] = ToolShown(id, name, preview)
                if len(self._tools) > MOST_TOOLS:
                    del self._tools[next(iter(self._tools))]
            case ToolEnded(id, name, ok, seconds, preview):
                started = self._tools.get(id)
                if started is not None:
                    self._tools[id] = replace(started, ok=ok, seconds=seconds, result=preview)


@dataclass(frozen=True, slots=True)
class Pictured:
    """What a turn has shown that another process runs, in the place of all that was shown of it here."""

    picture: Picture


Watched = LiveEvent | Sent | Posted | Lost | Pictured | StreamEnded


class Watch:
    """What one watcher has not read yet."""

    def __init__(self) -> None:
        self._waiting: deque[Watched] = deque()
        self._chars = 0
        self._woken: asyncio.Future[None] | None = None

    def put(self, event: Watched) -> None:
        if len(self._waiting) >= MOST_WAITING or self._chars > MOST_WAITING_CHARS:
            kept = [one for one in self.take_all() if isinstance(one, Moved)]  # no store has it
            self._waiting += [Lost(), *kept]
        self._waiting.append(event)
        self._chars += len(event.text) if isinstance(event, TextDelta | ReasoningDelta) else 0
        self._wake()

    async def wait(self, seconds: float) -> list[Watched]:
        """Everything that waits, as soon as there is something; empty: nothing came in this time."""
        if not self._waiting:
            loop = asyncio.get_running_loop()
            self._woken = loop.create_future()
            timer = loop.call_later(seconds, self._wake)
            try:
                await self._woken
            finally:
                timer.cancel()
                self._woken = None
        return self.take_all()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def take_all(self) -> list[Watched]:
        """What waits now, without waiting for more."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._chars = 0
        return taken


class Hub:
    """Who watches which conversation; on the event loop."""

    def __init__(self) -> None:
        self.watches: dict[str, set[Watch]] = {}

    @contextlib.contextmanager
    def watch(self, conversation: str) -> Iterator[Watch]:
        watch = Watch()
        self.watches.setdefault(conversation, set()).add(watch)
        try:
            yield watch
        finally:
            others = self.watches[conversation]
            others.discard(watch)
            if not others:
                del self.watches[conversation]

    def show(self, conversation: str, event: Watched) -> None:
        for watch in self.watches.get(conversation, ()):
            watch.put(event)

    def is_watched(self, conversation: str) -> bool:
        return conversation in self.watches

    def show_all(self, event: Watched) -> None:
        for conversation in self.watches:
            self.show(conversation, event)

    def count(self) -> int:
        return sum(map(len, self.watches.values()))


class HubAdapter(BaseAdapter):
    """An account whose clients come over HTTP. They are known before they speak, and speak through `core`."""

    core: Core
    has_own_socket = False  # its clients come another way than those of the page and the API
    #: Where several processes share the store: watches, and has them tell what happens there.
    watch_everywhere: "Callable[[HubAdapter, str], contextlib.AbstractContextManager[Watch]] | None" = None

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.hub = Hub()

    async def connect(self, core: Core) -> None:
        self.core = core
        self.last_seen = time.time()

    async def disconnect(self) -> None:
        self.hub.show_all(StreamEnded())

    def watch(self, conversation: str) -> contextlib.AbstractContextManager[Watch]:
        """Be told what happens there, until the end of the block."""
        if self.watch_everywhere is not None:
            return self.watch_everywhere(self, conversation)
        return self.hub.watch(self.place(conversation))

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        """A client, which is there just now, says something."""
        self._last_seen, self._heard = time.time(), time.monotonic()
        return await self.core.take(inbound)

    def place(self, conversation: str) -> str:
        """Under which name a conversation is watched: the chat of its address, which is its key."""
        return conversation

    async def send(self, part: Part) -> str:
        raise NeverTaken(f"{self.spec.label} reads its messages in the store.")

    def show(self, conversation: str, event: LiveEvent) -> None:
        if self.hub.watches:
            self.hub.show(self.place(conversation), event)

    def show_picture(self, conversation: str, picture: Picture) -> None:
        """Of a turn that runs elsewhere."""
        self.hub.show(self.place(conversation), Pictured(picture))

    def have_reread(self, conversation: str) -> None:
        """Whoever looks at it has to look at the store: something was changed that is no event."""
        self.hub.show(self.place(conversation), Lost(shown=False))


class PicturedAdapter(HubAdapter):
    """One whose clients find, whenever they come, what a turn under way has said so far."""

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self._pictures: OrderedDict[str, Picture] = OrderedDict()

    def picture(self, conversation: str) -> Picture | None:
        """The turn under way, as far as every watcher of this moment has been told."""
        return self._pictures.get(conversation)

    def show(self, conversation: str, event: LiveEvent) -> None:
        """Keep what a client has to know that comes later, and tell those that are there."""
        picture = self._pictures.get(conversation)
        if isinstance(event, Begun):
            self._pictures[conversation] = Picture(event.seqs, event.at, event.rows)
            self._pictures.move_to_end(conversation)
            if len(self._pictures) > MOST_PICTURES:
                self._pictures.popitem(last=False)
        elif picture is not None and isinstance(event, Dealt):
            if not set(picture.seqs).isdisjoint(event.seqs):
                del self._pictures[conversation]
        elif picture is not None and isinstance(event, TakenOver):
            del self._pictures[conversation]
        elif picture is not None:
            picture.add(event)
        if self.hub.watches:
            self.hub.show(self.place(conversation), event)

    def show_picture(self, conversation: str, picture: Picture) -> None:
        self._pictures[conversation] = picture
        self.have_reread(conversation)
