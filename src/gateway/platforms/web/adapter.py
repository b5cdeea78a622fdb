"""The web page's account: pages watch the conversations that they show, and find there what a turn has said so far."""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.face import Begun, Dealt, Heard, LiveEvent
from gateway.platforms.hub import HubAdapter
from gateway.platforms.web import SPEC
from gateway.platforms.web.picture import Picture

MOST_PICTURES = 1_000  # a turn that another process took over never ends here
MOST_SAID = 1_000


class WebAdapter(HubAdapter):
    spec = SPEC

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self._pictures: OrderedDict[str, Picture] = OrderedDict()
        self._said: OrderedDict[tuple[str, int], None] = OrderedDict()

    def picture(self, conversation: str) -> Picture | None:
        """The turn under way, as far as every watcher of this moment has been told."""
        return self._pictures.get(conversation)

    def is_said_here(self, conversation: str, seq: int) -> bool:
        """Whether a page sent this message: then it is the page that goes where its command leads."""
        return (conversation, seq) in self._said

    def show(self, conversation: str, event: LiveEvent) -> None:
        """Keep what a page has to know that comes later, and tell those that are there."""
        picture = self._pictures.get(conversation)
        if isinstance(event, Heard) and event.inbound.address.platform == self.spec.name:
            self._said[conversation, event.seq] = None
            if len(self._said) > MOST_SAID:
                self._said.popitem(last=False)
        elif isinstance(event, Begun):
            self._pictures[conversation] = Picture(event.seqs, event.at)
            self._pictures.move_to_end(conversation)
            if len(self._pictures) > MOST_PICTURES:
                self._pictures.popitem(last=False)
        elif picture is not None and not isinstance(event, Dealt):
            picture.add(event)
        elif picture is not None and isinstance(event, Dealt) and not set(picture.seqs).isdisjoint(event.seqs):
            del self._pictures[conversation]
        super().show(conversation, event)
