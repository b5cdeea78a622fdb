"""Text that the person of a turn did not write: from where it came, as long as the model sees it (G9).

The loop and the tools say it, never the model. A message in a transcript carries its marks in fields that are stored
with it and sent to nobody, so they hold after a restart and are gone with the message.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

#: Fields of a message: origins of what came into the transcript with it, and who said it.
FOREIGN, SAID_BY = "foreign", "said_by"
OTHERS = "messages of other people"
UPLOADED = "a file that was sent along"
PROGRAM = "a message of a program"
BACKGROUND = "the output of a background process"
NETWORKED = "the output of a command with network"
EARLIER = "earlier conversations"


class ForeignText:
    """The origins of foreign text in sight of one turn: of what stood there before, and of what it reads itself."""

    def __init__(self, inherited: Iterable[str] = ()) -> None:
        self._inherited = tuple(dict.fromkeys(inherited))
        self.noted: tuple[str, ...] = ()  # what this turn has read itself
        self._lock = threading.Lock()

    def note(self, origin: str) -> None:
        """From now on the turn has read text of this origin. Called by any thread, before the text is handed over."""
        with self._lock:
            if origin not in self.noted:
                self.noted = (*self.noted, origin)

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._inherited, *self.noted)))

    def __bool__(self) -> bool:
        return bool(self._inherited or self.noted)


class Marks:
    """The marks of a transcript's messages, together."""

    def __init__(self) -> None:
        self.origins: dict[str, None] = {}  # in the order in which they came
        self.speakers: dict[str, None] = {}

    def take(self, message: Mapping[str, Any]) -> None:
        if FOREIGN in message:
            self.origins.update(dict.fromkeys(message[FOREIGN]))
        if SAID_BY in message:
            self.speakers.update(dict.fromkeys(message[SAID_BY]))

    def seen_by(self, person: str) -> tuple[str, ...]:
        """Which origins are foreign to this person; their own words are not."""
        return (*self.origins, *((OTHERS,) if self.speakers.keys() - {person} else ()))

    def missing_in(self, messages: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
        """The fields for a message that stands for others: what they carried and these do not."""
        kept = Marks()
        for message in messages:
            kept.take(message)
        lost = {
            FOREIGN: [origin for origin in self.origins if origin not in kept.origins],
            SAID_BY: [person for person in self.speakers if person not in kept.speakers],
        }
        return {name: values for name, values in lost.items() if values}
