"""What we write around the words of a person before the model reads them or in their place, and the words
without it."""

import re

from hermes_base.text.between import drop_between

#: Said to the model in the place of a person.
OUT_OF_STEPS = (
    "You have used all steps of this turn. Do not call tools. Answer now with what you have: what is done, what is "
    "not, and what should come next."
)
ASK_AGAIN = "Your last answer was empty. Answer the request, or call a tool."
#: Around the instructions of a program that uses the API.
HEAD_BEGINS, HEAD_ENDS = "[Instructions of the program that asks]", "[End of the instructions]"
#: Who speaks in a group, and a file that came along (`gateway.core.bursts`). Each sign is looked at a few times only,
#: whatever stands there.
_SPEAKER = re.compile(r"^\[[^\[\]\n·]*+·[^\[\]\n·]*+·[^\[\]\n]*+\] ", re.MULTILINE)
_FILE = re.compile(r"^\[(?:image|audio|file) (?=[^\n]*+(?<=\])$)([^\n]*): /[^\n]*\]$", re.MULTILINE)


def bare_words(text: str) -> str:
    """What a person said; where they only sent files, the names of these."""
    said = _SPEAKER.sub("", drop_between(text, HEAD_BEGINS, HEAD_ENDS, blanks=True))
    return _FILE.sub("", said).strip() or _FILE.sub(r"\1", said).strip()
