"""Finds the blocks of a markdown text that are best kept whole: code, tables, paragraphs."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.core.text.lengths import SPAN

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<run>`{3,16}|~{3,16})(?P<info>[^\n]*)\n?")
_RULE = re.compile(r"\s*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?\s*+")
_LONGEST_INFO = 24  # of a code block's first line, when it is repeated

CODE, TABLE, PARAGRAPH = "code", "table", "paragraph"


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together, and how they are closed and opened again where they must be cut."""

    kind: str
    lines: tuple[str, ...]  # with their line ends
    reopening: str = ""  # put before the lines of a later message
    closing: str = ""  # put after the lines of an earlier one
    ending: str = ""  # the author never closed it: put after its last line

    @property
    def text(self) -> str:
        return "".join(self.lines)


def find_blocks(text: str) -> Iterator[Block]:
    """The blocks of a text, in order; joined they are the text."""
    lines = _LINES.findall(text)
    place = 0
    while place < len(lines):
        found = _read_code(lines, place) or _read_table(lines, place)
        end = place + len(found.lines) if found else _find_paragraph_end(lines, place)
        yield found or Block(PARAGRAPH, tuple(_join_spans("".join(lines[place:end]))))
        place = end


def _read_code(lines: list[str], place: int) -> Block | None:
    fence = _FENCE.fullmatch(lines[place])
    if fence is None or (fence["run"][0] == "`" and "`" in fence["info"]):
        return None
    run, mark = fence["run"], fence["indent"] + fence["run"]
    reopening = f"{mark}{fence['info'].strip().partition(' ')[0][:_LONGEST_INFO]}\n"
    for end in range(place + 1, len(lines)):
        line = lines[end].strip()
        if len(line) >= len(run) and not line.strip(run[0]):  # it closes the block
            return Block(CODE, tuple(lines[place : end + 1]), reopening, f"\n{mark}")
    return Block(CODE, tuple(lines[place:]), reopening, f"\n{mark}", ending=f"\n{mark}")


def _begins_table(lines: list[str], place: int) -> bool:
    if place + 1 >= len(lines) or "|" not in lines[place]:
        return False
    return "|" in lines[place + 1] and _RULE.fullmatch(lines[place + 1]) is not None


def _read_table(lines: list[str], place: int) -> Block | None:
    if not _begins_table(lines, place):
        return None
    end = place + 2
    while end < len(lines) and "|" in lines[end] and not _FENCE.fullmatch(lines[end]):
        end += 1
    return Block(TABLE, tuple(lines[place:end]), reopening="".join(lines[place : place + 2]))


def _find_paragraph_end(lines: list[str], place: int) -> int:
    """A paragraph has the blank lines after it; a code block or a table ends it too."""
    end = place + 1
    while end < len(lines):
        if lines[end].strip() and not lines[end - 1].strip():
            break
        if _FENCE.fullmatch(lines[end]) or _begins_table(lines, end):
            break
        end += 1
    return end


def _join_spans(text: str) -> Iterator[str]:
    """The lines of a paragraph; one that ends inside of a link or of inline code goes on to the link's end."""
    start = here = 0
    spans = deque(match.span() for match in SPAN.finditer(text))
    while (line_end := text.find("\n", here) + 1) > 0:
        while spans and spans[0][1] < line_end:
            spans.popleft()
        if spans and spans[0][0] < line_end - 1 < spans[0][1] - 1:
            here = spans[0][1]
            continue
        yield text[start:line_end]
        start = here = line_end
    if start < len(text):
        yield text[start:]
