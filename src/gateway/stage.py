"""Shows what happens while it happens: live events to platforms that take them, growing drafts to those that edit."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable

from gateway.delivery import Delivery
from gateway.drafts import word_progress
from gateway.platforms.base import Adapter, LiveEvent
from hermes_base.chat import ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted, TurnTexts
from hermes_base.inbound import Address

log = logging.getLogger(__name__)

#: Events that wait for a slow platform; beyond that, pieces of text are dropped, since the answer comes whole.
MOST_WAITING = 5_000


class Stage:
    """Events in order, for everyone who looks; on the event loop."""

    def __init__(self) -> None:
        self._adapters: list[Adapter] = []
        self._waiting: deque[tuple[str, LiveEvent]] = deque()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, adapters: Iterable[Adapter]) -> None:
        self._adapters = [adapter for adapter in adapters if adapter.spec.shows_events]
        self._task = asyncio.get_running_loop().create_task(self._show_on())

    async def stop(self) -> None:
        """What waits is still shown."""
        while self._waiting:
            await asyncio.sleep(0)
        if self._task is not None:
            self._task.cancel()

    def show(self, conversation: str, event: LiveEvent) -> None:
        if len(self._waiting) >= MOST_WAITING and isinstance(event, TextDelta | ReasoningDelta):
            return
        self._waiting.append((conversation, event))
        self._woken.set()

    async def _show_on(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._waiting:
                conversation, event = self._waiting.popleft()
                for adapter in self._adapters:
                    await self._show_one(adapter, conversation, event)

    async def _show_one(self, adapter: Adapter, conversation: str, event: LiveEvent) -> None:
        try:
            await adapter.show(conversation, event)
        except Exception:  # the boundary to a platform
            log.exception("%s could not show an event", adapter.spec.name)


class Draft:
    """The answer of one turn as it grows, for a chat that shows drafts."""

    def __init__(self, delivery: Delivery, address: Address, turn: str, progress: str) -> None:
        self._delivery = delivery
        self._address = address
        self._turn = turn
        self._progress = progress  # off, short, full
        self._texts = TurnTexts()

    def begin(self) -> None:
        """The turn is at work; on the event loop."""
        self._delivery.typing(self._address, self._turn)

    def show(self, event: LiveEvent) -> None:
        match event:
            case TextDelta(text):
                self._texts.add(text)
                self._delivery.draft(self._address, self._texts.whole, self._turn)
            case TextEnded(kept):
                self._texts.end(kept)
            case ToolStarted() | ToolEnded():
                line = word_progress(event, self._progress)
                if line:
                    self._delivery.progress(self._address, line, self._turn)
