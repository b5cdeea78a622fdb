"""Adapters whose clients find, whenever they come, what a turn under way has said so far."""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.face import Begun, Dealt, LiveEvent
from gateway.platforms.hub import HubAdapter
from gateway.platforms.picture import Picture

MOST_PICTURES = 1_000  # a turn that another process took over never ends here


class PicturedAdapter(HubAdapter):
    """Keeps a picture of each turn under way."""

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
            self._pictures[conversation] = Picture(event.seqs, event.at)
            self._pictures.move_to_end(conversation)
            if len(self._pictures) > MOST_PICTURES:
                self._pictures.popitem(last=False)
        elif picture is not None and not isinstance(event, Dealt):
            picture.add(event)
        elif picture is not None and isinstance(event, Dealt) and not set(picture.seqs).isdisjoint(event.seqs):
            del self._pictures[conversation]
        super().show(conversation, event)
