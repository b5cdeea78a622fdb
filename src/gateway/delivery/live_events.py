"""Shows what happens while it happens: live events to platforms that take them, growing drafts to those that edit."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from gateway.core.drafts import describe_progress
from gateway.delivery.delivery import Delivery
from gateway.platforms.face import Adapter, LiveEvent
from hermes_base.chat import ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted, TurnTexts
from hermes_base.inbound import Address

log = logging.getLogger(__name__)

#: Events that wait for one slow platform in one conversation; from here on pieces of text are dropped, since the answer
#: comes whole, and from twice as many on everything is: whoever looks again reads the store.
MOST_WAITING = 5_000
MOST_DRAFT = 20_000  # characters; a draft is one message, and the answer comes whole


class LiveEvents:
    """Events for everyone who looks; on the event loop. A platform gets those of one conversation in order, and nobody
    else waits for it."""

    def __init__(self, adapters: Iterable[Adapter]) -> None:
        self._adapters = [adapter for adapter in adapters if adapter.spec.shows_events]
        self._waiting: dict[tuple[int, str], deque[LiveEvent]] = {}  # by adapter and conversation, while there are some
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """What waits is still shown."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def show(self, conversation: str, event: LiveEvent) -> None:
        most = MOST_WAITING if isinstance(event, TextDelta | ReasoningDelta) else 2 * MOST_WAITING
        for number, adapter in enumerate(self._adapters):
            waiting = self._waiting.get((number, conversation))
            if waiting is None:
                waiting = self._waiting[number, conversation] = deque()
                task = asyncio.get_running_loop().create_task(self._show_waiting(number, adapter, conversation))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            if len(waiting) < most:
                waiting.append(event)

    async def _show_waiting(self, number: int, adapter: Adapter, conversation: str) -> None:
        waiting = self._waiting[number, conversation]
        try:
            while waiting:
                try:
                    await adapter.show(conversation, waiting.popleft())
                except Exception:  # the boundary to a platform
                    log.exception("%s could not show an event", adapter.spec.name)
        finally:
            del self._waiting[number, conversation]


class DraftFeed:
    """The answer of one turn as it grows, for a chat that shows drafts."""

    def __init__(self, delivery: Delivery, address: Address, turn: str, progress: str) -> None:
        self._delivery = delivery
        self._address = address
        self._turn = turn
        self._progress = progress  # off, short, full
        self._texts = TurnTexts()
        self._head = ""  # of the texts

    def begin(self) -> None:
        """The turn is at work; on the event loop."""
        self._delivery.typing(self._address, self._turn)

    def show(self, event: LiveEvent) -> None:
        match event:
            case TextDelta(text) if len(self._head) < MOST_DRAFT:
                self._texts.add(text[:MOST_DRAFT])
                self._head = self._texts.whole
                self._delivery.draft(self._address, self._head, self._turn)
            case TextEnded(kept):
                self._texts.end(kept)
                self._head = self._texts.whole
            case ToolStarted() | ToolEnded():
                line = describe_progress(event, self._progress)
                if line:
                    self._delivery.progress(self._address, line, self._turn)
