"""What processes tell each other in passing, on the event loop: who listens to a topic is called with its texts.

Hints come through the store's line (`hermes_state.sql.engines.hints`), which loses some and doubles others. A store
that one process has for itself has none.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from hermes_state.sql.turns_sql import TurnStore

log = logging.getLogger(__name__)

ALL_NODES = "nodes"  # the topic of hints for whoever has room
Listener = Callable[[str], None]


class Hints:
    """On the event loop, but for `tell`, which any thread may call."""

    def __init__(self, turns: TurnStore) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners: dict[str, list[Listener]] = defaultdict(list)
        self._line = turns.open_hints(self._pass_on)
        self.tell = self._line.tell

    @property
    def problem(self) -> str:
        """Why nothing is heard from others; empty: nothing keeps it from that."""
        return self._line.problem

    def listen(self, topic: str, listener: Listener) -> None:
        """Call this one, too, with each text of the topic."""
        self._listeners[topic].append(listener)
        self._line.listen(tuple(self._listeners))

    def end(self, topic: str, listener: Listener) -> None:
        """Call it no more."""
        self._listeners[topic].remove(listener)
        if not self._listeners[topic]:
            del self._listeners[topic]
            self._line.listen(tuple(self._listeners))

    def close(self) -> None:
        self._line.close()

    def _pass_on(self, topic: str, text: str) -> None:
        """On the line's thread."""
        try:
            self._loop.call_soon_threadsafe(self._call, topic, text)
        except RuntimeError:
            log.debug("a hint came after the event loop had ended")

    def _call(self, topic: str, text: str) -> None:
        for listener in list(self._listeners.get(topic, ())):
            try:
                listener(text)
            except Exception:  # the boundary between parts: one that fails keeps no other from hearing
                log.exception("a hint to %s could not be followed", topic)
