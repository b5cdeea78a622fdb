"""Counts text in a platform's unit and finds the places where a line may be cut: between words, never in a link."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType

from gateway.core.text.clusters import find_borders

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
        if not _carries_mark(line, match.end()):
            words.append(line[start : match.end()])
            start = match.end()
    return [*words, line[start:]] if start < len(line) else words


def _carries_mark(line: str, end: int) -> bool:
    """Whether the space that ends here has a mark on it, as a letter may have."""
    return end < len(line) and find_borders(line[end - 1 : end + 1])[0] == 2


def cut_hard(word: str, room: int, unit: str) -> list[str]:
    """A word that is longer than `room`: cut beside the links in it where they fit, else between signs. A sign that is
    longer than `room` is cut between characters."""
    borders = [0, *find_borders(word)]
    bits: list[str] = []
    start = 0
    for match in SPAN.finditer(word):
        begin = borders[bisect_right(borders, match.start()) - 1]
        end = borders[bisect_left(borders, match.end())]  # a mark behind a link belongs to it
        if begin >= start and measure(word[begin:end], unit) <= room:
            bits += [*_cut_signs(word, borders, start, begin, room, unit), word[begin:end]]
            start = end
    return bits + _cut_signs(word, borders, start, len(word), room, unit)


def _cut_signs(word: str, borders: list[int], start: int, end: int, room: int, unit: str) -> list[str]:
    """The part of a word from `start` to `end` in bits that fit, each as long as can be."""
    inner = borders[bisect_left(borders, start + 1) : bisect_left(borders, end)]
    bits: list[str] = []
    size = 0  # of the bit from `start` on
    for before, after in pairwise((start, *inner, end)):
        more = measure(word[before:after], unit)
        if size + more > room and before > start:
            bits.append(word[start:before])
            start, size = before, 0
        size += more
        if size > room:  # this one sign
            bits += _cut_characters(word[start:after], room, unit)
            start, size = after, 0
    return [*bits, word[start:end]] if start < end else bits


def _cut_characters(sign: str, room: int, unit: str) -> list[str]:
    bits: list[str] = []
    start = size = 0
    for at, character in enumerate(sign):
        more = measure(character, unit)
        if size + more > room and at > start:
            bits.append(sign[start:at])
            start, size = at, 0
        size += more
    return [*bits, sign[start:]]
