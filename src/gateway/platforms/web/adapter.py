"""The web page's account: pages watch the conversations that they show, and go where their commands lead."""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.face import Heard, LiveEvent
from gateway.platforms.pictured import PicturedAdapter
from gateway.platforms.web import SPEC

MOST_SAID = 1_000


class WebAdapter(PicturedAdapter):
    spec = SPEC

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self._said: OrderedDict[tuple[str, int], None] = OrderedDict()

    def is_said_here(self, conversation: str, seq: int) -> bool:
        """Whether a page sent this message: then it is the page that goes where its command leads."""
        return (conversation, seq) in self._said

    def show(self, conversation: str, event: LiveEvent) -> None:
        if isinstance(event, Heard) and event.inbound.address.platform == self.spec.name:
            self._said[conversation, event.seq] = None
            if len(self._said) > MOST_SAID:
                self._said.popitem(last=False)
        super().show(conversation, event)
