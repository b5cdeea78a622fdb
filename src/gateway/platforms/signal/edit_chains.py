"""Which message an edit is of. Each edit is sent at a time of its own, and the next one has to name the one before it:
a client that is told another one drops the edit without a word. So what was sent, and what may have been, is kept over
restarts."""

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.platforms.face import NeverTaken
from hermes_constants.ordinary_files import open_private

MOST_EDITS = 10
EDIT_SECONDS = 24 * 3600 - 600.0  # clients take none of an older message
MOST_CHAINS = 500
USED_UP = "Signal takes no more edits of this message."
TOO_OLD = "Signal takes no edits of a message that is a day old."
IN_DOUBT = "It is not known whether the last edit of this message arrived, so the next one might be dropped."


@dataclass(slots=True)
class EditChain:
    """A message of ours: when its edits were sent, the newest last."""

    edits: list[int]
    in_doubt: bool = False  # one may have arrived, and nobody knows when it was sent


class EditChains:
    """Both sides' edits. `changed` counts up with what has to be kept."""

    def __init__(self) -> None:
        self._ours: OrderedDict[int, EditChain] = OrderedDict()  # by the time of the message itself
        self._theirs: OrderedDict[tuple[str, int], int] = OrderedDict()  # by author and time of the edit
        self.changed = 0

    # --- ours

    def begin_edit(self, message: int, now: float) -> int:
        """The time that an edit has to name. It is in doubt until `end_edit`. NeverTaken where it would be dropped."""
        chain = self._ours.get(message) or EditChain([])
        if now - message / 1000 > EDIT_SECONDS:
            raise NeverTaken(TOO_OLD)
        if len(chain.edits) >= MOST_EDITS:
            raise NeverTaken(USED_UP)
        if chain.in_doubt:
            raise NeverTaken(IN_DOUBT)
        chain.in_doubt = True
        self._ours[message] = chain
        self._ours.move_to_end(message)
        self._cut(self._ours)
        return chain.edits[-1] if chain.edits else message

    def end_edit(self, message: int, sent: int | None) -> None:
        """It was sent then; None: it was not sent at all."""
        chain = self._ours.get(message)
        if chain is not None:
            chain.in_doubt = False
            chain.edits += [] if sent is None else [sent]
            self.changed += 1

    def find_ours(self, sent: int) -> int:
        """The message of ours that was sent, or edited, then."""
        return next((message for message, chain in self._ours.items() if sent in chain.edits), sent)

    # --- theirs

    def find_first(self, author: str, sent: int) -> int:
        """The message that somebody sent, or edited, then."""
        return self._theirs.get((author, sent), sent)

    def note_theirs(self, author: str, sent: int, first: int) -> None:
        """Somebody edited a message, then."""
        if sent != first and self._theirs.get((author, sent)) != first:
            self._theirs[author, sent] = first
            self._cut(self._theirs)

    def _cut(self, book: OrderedDict[Any, Any]) -> None:
        self.changed += 1
        while len(book) > MOST_CHAINS:
            book.popitem(last=False)

    # --- over restarts

    def describe(self) -> dict[str, Any]:
        return {
            "ours": [[message, chain.edits, chain.in_doubt] for message, chain in self._ours.items()],
            "theirs": [[author, sent, first] for (author, sent), first in self._theirs.items()],
        }

    def recall(self, found: Mapping[str, Any]) -> None:
        """What `describe` said; TypeError or ValueError for anything else."""
        for message, edits, in_doubt in found["ours"]:
            self._ours[int(message)] = EditChain([int(one) for one in edits], bool(in_doubt))
        for author, sent, first in found["theirs"]:
            self._theirs[str(author), int(sent)] = int(first)


def find_file(home: Path, account: str) -> Path:
    return home / "platforms" / f"signal-{account}" / "edits.json"


def read_chains(path: Path) -> EditChains:
    """What is kept; nothing where there is no file, or it is not what we wrote. Reads a file: not on the event loop."""
    chains = EditChains()
    try:
        chains.recall(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return EditChains()
    return chains


def keep_chains(path: Path, described: Mapping[str, Any]) -> None:
    """A whole new file in the place of the old one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "x", encoding="utf-8", opener=open_private) as file:
        json.dump(described, file)
    os.replace(new, path)
