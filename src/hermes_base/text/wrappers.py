"""What the house writes around the words of a person before the model reads them, and the words without it."""

import re

#: Around the instructions of a program that uses the API.
HEAD_BEGINS, HEAD_ENDS = "[Instructions of the program that asks]", "[End of the instructions]"
_HEAD = re.compile(rf"{re.escape(HEAD_BEGINS)}.*?{re.escape(HEAD_ENDS)}\s*", re.DOTALL)
#: Who speaks in a group, and a file that came along (`gateway.core.bursts`).
_SPEAKER = re.compile(r"^\[[^\[\]\n]*·[^\[\]\n]*·[^\[\]\n]*\] ", re.MULTILINE)
_FILE = re.compile(r"^\[(?:image|audio|file) ([^\n]*): /[^\n]*\]$", re.MULTILINE)


def bare_words(text: str) -> str:
    """What a person said; where they only sent files, the names of these."""
    said = _SPEAKER.sub("", _HEAD.sub("", text))
    return _FILE.sub("", said).strip() or _FILE.sub(r"\1", said).strip()
