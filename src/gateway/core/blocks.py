"""Reads markdown as far as delivery needs it: finds code blocks, tables and paragraphs, and strips the markup."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gateway.core.lengths import SPAN

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<run>`{3,16}|~{3,16})(?P<info>[^\n]*)\n?")
_RULE = re.compile(r"\s*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?\s*+")
_LONGEST_INFO = 24  # of a code block's first line, when it is repeated

_HEADING = re.compile(r"^[ ]{0,3}#{1,6}[ \t]+")
_BULLET = re.compile(r"^(\s*)[*+][ \t]+")
_STRONG = re.compile(r"(?<![\w*])(\*\*|\*)(?=[^\s*])([^*\n]*[^\s*])\1(?![\w*])|~~(?=\S)([^~\n]+)~~")
_LINK = re.compile(r"!?\[(?P<text>.*)\]\((?P<url>\S*)(?:\s+\"[^\"]*\")?\)", re.DOTALL)


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


def find_blocks(text: str, markup: str = "markdown") -> Iterator[Block]:
    """The blocks of a text, in order; joined they are the text. Plain text has paragraphs only."""
    lines = _LINES.findall(text)
    readers = (_read_code, _read_table) if markup == "markdown" else ()
    place = 0
    while place < len(lines):
        found = next((block for read in readers if (block := read(lines, place))), None)
        end = place + len(found.lines) if found else _find_paragraph_end(lines, place, bool(readers))
        yield found or Block(PARAGRAPH, tuple(_join_spans("".join(lines[place:end]))))
        place = end


def strip_markdown(text: str) -> str:
    """The text as somebody would type it who knows no markup; never longer than it was."""
    return "".join(_STRIPPERS[block.kind](block) for block in find_blocks(text)).strip("\n")


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


def _find_paragraph_end(lines: list[str], place: int, markdown: bool) -> int:
    """A paragraph has the blank lines after it; in markdown a code block or a table ends it too."""
    end = place + 1
    while end < len(lines):
        if lines[end].strip() and not lines[end - 1].strip():
            break
        if markdown and (_FENCE.fullmatch(lines[end]) or _begins_table(lines, end)):
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


def _strip_paragraph(block: Block) -> str:
    text = "".join(_BULLET.sub(r"\1- ", _HEADING.sub("", line)) for line in block.lines)
    bits: list[str] = []
    end = 0
    for span in SPAN.finditer(text):
        bits += [_strip_emphasis(text[end : span.start()]), _strip_span(span[0])]
        end = span.end()
    return "".join([*bits, _strip_emphasis(text[end:])])


def _strip_emphasis(text: str) -> str:
    return _STRONG.sub(lambda match: match[2] or match[3], text)


def _strip_span(span: str) -> str:
    if span.startswith("`"):
        bare = span.strip("`")
        return bare.strip() or bare
    link = _LINK.fullmatch(span)
    if link is None:
        return span
    text, url = link["text"].strip(), link["url"]
    return f"{text} ({url})" if text and url and text != url else text or url


_STRIPPERS: Mapping[str, Callable[[Block], str]] = MappingProxyType(
    {
        CODE: lambda block: "".join(block.lines[1:] if block.ending else block.lines[1:-1]),
        TABLE: lambda block: "".join((*block.lines[:1], *block.lines[2:])),
        PARAGRAPH: _strip_paragraph,
    }
)
