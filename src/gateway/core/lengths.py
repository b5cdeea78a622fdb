"""Counts text in a platform's unit and finds the places where a line may be cut: between words, never in a link."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType

#: How a platform counts: characters, UTF-16 code units, UTF-8 bytes. Each counts a sum as the sum of its terms.
_UNITS: Mapping[str, Callable[[str], int]] = MappingProxyType(
    {
        "chars": len,
        "utf16": lambda text: len(text.encode("utf-16-le", "surrogatepass")) // 2,
        "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
    }
)

_LINK_TEXT = r"!?\[(?:[^\[\]]|\[[^\[\]]*+\])*+\]"
_LINK_TARGET = r"\([^()\s]*+(?:\([^()\s]*+\)[^()\s]*+)*+(?:\s++\"[^\"\n]*+\")?\)"
_CODE = r"(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"
#: What is never cut if it fits into a message: links, inline code, addresses.
SPAN = re.compile(rf"{_LINK_TEXT}(?:{_LINK_TARGET}|\[[^\[\]]*+\])|{_CODE}|https?://[!-~]+", re.DOTALL)
_SPACES = re.compile(r"\s+")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")
_LONGEST_CLUSTER = 16


def measure(text: str, unit: str) -> int:
    """How long the platform finds the text."""
    return _UNITS[unit](text)


def cut_words(line: str) -> list[str]:
    """The line in pieces, each a word with the space after it; a link with spaces in it is one word."""
    words: list[str] = []
    spaces: list[re.Match[str]] = []  # those that are not inside of a span
    start = end = 0
    for span in SPAN.finditer(line):
        spaces += _SPACES.finditer(line, end, span.start())
        end = span.end()
    for match in (*spaces, *_SPACES.finditer(line, end)):
        words.append(line[start : match.end()])
        start = match.end()
    return [*words, line[start:]] if start < len(line) else words


def cut_hard(word: str, room: int, unit: str) -> list[str]:
    """A word that is longer than `room`: cut beside the links in it where they fit, else between characters."""
    bits: list[str] = []
    start = 0
    for match in SPAN.finditer(word):
        if measure(match[0], unit) <= room:
            bits += [*_cut_letters(word[start : match.start()], room, unit), match[0]]
            start = match.end()
    return bits + _cut_letters(word[start:], room, unit)


def _cut_letters(text: str, room: int, unit: str) -> list[str]:
    bits: list[str] = []
    while text:
        end = _fitting(text, room, unit)
        bits.append(text[:end])
        text = text[end:]
    return bits


def _fitting(text: str, room: int, unit: str) -> int:
    """How many characters fit; at least one, and no letter is parted from its accents if that can be had."""
    end = min(len(text), room)
    while end > 1 and measure(text[:end], unit) > room:
        over = measure(text[:end], unit) - room
        end -= max(1, over // 4)
    if end == len(text):
        return end
    for at in range(end, end - min(_LONGEST_CLUSTER, end - 1), -1):
        here = text[at]
        is_mark = here in _JOINERS or unicodedata.combining(here) or "\U0001f3fb" <= here <= "\U0001f3ff"
        if not (is_mark or text[at - 1] == "\u200d"):  # it does not belong to the one before it
            return at
    return end
