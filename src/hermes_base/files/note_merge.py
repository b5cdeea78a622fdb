"""Files of notes as notes: what two have changed at the same time becomes one file, and nobody's note is lost. Pure."""

import re
from collections.abc import Sequence

#: Plugins put it between the notes that they write; it is no note itself.
ENTRY_DELIMITER = "\n§\n"
_LINES = "\n"


def split_notes(text: str) -> list[str]:
    """The notes as they stand in a file; indented and empty lines belong to the one before."""
    blocks = re.split(r"\n(?=\S)", text.strip("\n"))
    return [block for block in blocks if block.strip() not in ("", ENTRY_DELIMITER.strip())]


def merge_notes(base: str, mine: str, theirs: str) -> str:
    """Theirs with what was changed between `base` and `mine`: notes that are new there come at the end, notes that went
    go. One that both have replaced stands there in both forms."""
    between = ENTRY_DELIMITER if any(ENTRY_DELIMITER in text for text in (base, mine, theirs)) else _LINES
    before, changed, merged = (_split(text, between) for text in (base, mine, theirs))
    gone = {note for note in before if note not in changed}
    kept = [note for note in merged if note not in gone]
    kept += [note for note in changed if note not in before and note not in kept]
    return between.join(kept) + "\n" if kept else ""


def _split(text: str, between: str) -> Sequence[str]:
    if between == _LINES:
        return split_notes(text)
    return [note for part in text.split(between) if (note := part.strip("\n"))]
