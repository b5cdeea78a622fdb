"""Shows what happens while it happens: live events to platforms that take them, growing drafts to those that edit."""

import logging
from collections.abc import Sequence

from gateway.core.drafts import describe_progress
from gateway.delivery.delivery import Delivery
from gateway.platforms.face import Adapter, LiveEvent
from hermes_base.chat import TextDelta, TextEnded, ToolEnded, ToolStarted, TurnTexts
from hermes_base.inbound import Address

log = logging.getLogger(__name__)

MOST_DRAFT = 20_000  # characters; a draft is one message, and the answer comes whole


class LiveEvents:
    """Events for everyone who looks; on the event loop. No platform makes another wait: `show` never does."""

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = adapters  # which may change

    def show(self, conversation: str, event: LiveEvent) -> None:
        for adapter in [adapter for adapter in self._adapters if adapter.spec.shows_events]:
            try:
                adapter.show(conversation, event)
            except Exception:  # the boundary to a platform
                log.exception("%s could not show an event", adapter.spec.name)


class DraftFeed:
    """The answer of one turn as it grows, for a chat that shows drafts."""

    def __init__(self, delivery: Delivery, address: Address, turn: str, progress: str, message: str = "") -> None:
        """`message`: the draft that a process before us has sent."""
        self._delivery = delivery
        self._address = address
        self._turn = turn
        self._progress = progress  # off, short, full
        self._message = message
        self._texts = TurnTexts()
        self._head = ""  # of the texts

    def begin(self) -> None:
        """The turn is at work; on the event loop."""
        self._delivery.typing(self._address, self._turn, self._message)

    def show(self, event: LiveEvent) -> None:
        match event:
            case TextDelta(text) if len(self._head) < MOST_DRAFT:
                self._texts.add(text[:MOST_DRAFT])
                self._head = self._texts.kept + self._texts.open
                self._delivery.draft(self._address, self._head, self._turn)
            case TextEnded(kept):
                self._texts.end(kept)
                self._head = self._texts.kept + self._texts.open
            case ToolStarted() | ToolEnded():
                line = describe_progress(event, self._progress)
                if line:
                    self._delivery.progress(self._address, line, self._turn)
