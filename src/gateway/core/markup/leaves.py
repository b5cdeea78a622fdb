"""Reads markdown into leaves: stretches of text with their marks, code, tables and rules, each with its place in lists
and quotes. What is no markup stays as it is written: HTML, link definitions, lone signs."""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

STRONG, EMPHASIS, STRIKE, MONO = "strong", "emphasis", "strike", "mono"
TEXT, CODE, GRID, RULE = "text", "code", "grid", "rule"
BULLET = "•"
WIDEST_GRID = 40  # columns that a telephone shows side by side

_MARKS = {"strong": STRONG, "em": EMPHASIS, "s": STRIKE}
_ADDRESS = re.compile(r"(?:https?://|mailto:|tg://)\S", re.IGNORECASE)
_LANGUAGE = re.compile(r"[\w+#.-]{1,24}")
_CELL_END = re.compile(r"(?<!\\)\|")
#: More signs than this in one text are no markup that a person wrote, and looking for pairs would take long.
_MOST_SIGNS = 300


@dataclass(frozen=True, slots=True)
class Link:
    """A mark: the text leads there."""

    url: str
    text: str


Mark = str | Link


@dataclass(frozen=True, slots=True)
class Run:
    """Text with the same marks from its first letter to its last, the outermost first."""

    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    kind: str
    runs: tuple[Run, ...] = ()  # of TEXT
    code: str = ""  # of CODE and GRID: lines that keep their spaces
    language: str = ""
    marker: str = ""  # of the list item that begins here
    depth: int = 0  # lists around it
    quotes: int = 0  # quotes around it
    gap: bool = False  # a blank line stands before it


def read_leaves(text: str) -> list[Leaf]:
    """The leaves of a text, in order; an unfinished text has them, too."""
    source = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    many = max(source.count("["), sum(map(source.count, "*_~")) // 4, source.count("<") // 4) > _MOST_SIGNS
    reader = _LeafReader(source.split("\n"))
    for token in (_literal_parser if many else _parser).parse(source):
        reader.take(token)
    return reader.leaves


def say_link(text: str, url: str) -> str:
    """A link where only text is shown."""
    shown = text.strip()
    bare = url.removeprefix("mailto:")
    return f"{shown} ({bare})" if shown and bare not in ("", shown) else shown or bare


def flatten(runs: Iterable[Run]) -> str:
    """The runs as text without marks."""
    bits = []
    for link, group in itertools.groupby(runs, lambda run: next((m for m in run.marks if isinstance(m, Link)), None)):
        text = "".join(run.text for run in group)
        bits.append(say_link(text, link.url) if link else text)
    return "".join(bits)


class _LeafReader:
    """Takes the tokens of a text one by one, and remembers what is open."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.leaves: list[Leaf] = []
        self._lines = lines
        self._lists = 0
        self._markers: list[str] = []  # of items that have no leaf yet
        self._item = 0  # the line where the last item began
        self._quotes = 0
        self._heading = False
        self._end = 0  # the line after the last leaf
        self._rows: list[list[tuple[Run, ...]]] | None = None  # of the table that is open
        self._place = (0, 0)  # of that table

    def take(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                self._lists += 1
            case "bullet_list_close" | "ordered_list_close":
                self._lists -= 1
            case "list_item_open":
                self._item = _lines_of(token)[0]
                self._markers.append(token.info + token.markup if token.info else BULLET)
            case "list_item_close":
                if self._markers:  # an empty item
                    self._add(Leaf(TEXT), (self._item, self._item + 1))
            case "blockquote_open":
                self._quotes += 1
            case "blockquote_close":
                self._quotes -= 1
            case "heading_open" | "heading_close":
                self._heading = token.nesting > 0
            case "inline":
                self._take_text(token)
            case "fence":
                found = _LANGUAGE.match(token.info.strip())
                code = Leaf(CODE, code=token.content.removesuffix("\n"), language=found[0] if found else "")
                self._add(code, _lines_of(token))
            case "hr":
                self._add(Leaf(RULE), _lines_of(token))
            case _:
                self._take_table(token)

    def _take_text(self, token: Token) -> None:
        runs = _read_runs(token.children or [])
        if self._rows is not None:
            self._rows[-1].append(runs)
            return
        place = _lines_of(token)
        if self._heading:
            runs = _put_around(STRONG, runs)
        elif not (self._lists or self._quotes):
            first = self._lines[place[0]]
            indent = first[: len(first) - len(first.lstrip(" \t"))]
            runs = (Run(indent), *runs) if indent else runs
        self._add(Leaf(TEXT, runs), place)

    def _take_table(self, token: Token) -> None:
        if token.type == "table_open":
            self._rows, self._place = [], _lines_of(token)
        elif token.type == "tr_open" and self._rows is not None:
            self._rows.append([])
        elif token.type == "table_close" and self._rows is not None:
            rows, self._rows = self._rows, None
            first = self._place[0]
            lines = [self._lines[first], *self._lines[first + 2 : self._place[1]]]
            rows = [_add_spare(row, line) for row, line in zip(rows, lines, strict=False)]
            self._add(_lay_out(rows), self._place)

    def _add(self, leaf: Leaf, place: tuple[int, int]) -> None:
        marker, above = " ".join(self._markers), max(0, len(self._markers) - 1)
        self._markers = []
        gap = bool(self.leaves) and place[0] > self._end
        placed = replace(leaf, marker=marker, depth=self._lists - above, quotes=self._quotes, gap=gap)
        self.leaves.append(placed)
        self._end = place[1]


def _lines_of(token: Token) -> tuple[int, int]:
    first, end = token.map or (0, 0)
    return first, end


# --- text


def _read_runs(tokens: Sequence[Token]) -> tuple[Run, ...]:
    runs: list[Run] = []
    marks: list[Mark] = []
    signs = {side for name in _literal_names(tokens) for side in (name - 1, name + 1)}
    for index, token in enumerate(tokens):
        if index in signs:
            runs.append(Run("__", tuple(marks)))
        elif token.type == "link_open":
            marks.append(Link(str(token.attrs["href"]), _text_of(tokens[index + 1 :])))
        elif token.nesting > 0:
            marks.append(_MARKS[token.tag])
        elif token.nesting < 0:
            _leave(marks, runs)
        else:
            runs += _read_one(token, marks)
    return tuple(_merge(runs))


def _read_one(token: Token, marks: Sequence[Mark]) -> list[Run]:
    linked = any(isinstance(mark, Link) for mark in marks)
    if token.type in ("softbreak", "hardbreak"):
        return [Run(" " if linked else "\n", tuple(marks))]
    if token.type == "code_inline":
        return [Run(token.content.replace("\n", " "), (*marks, MONO))]
    if token.type == "image":
        return _read_image(token, marks, linked=linked)
    return [Run(token.content, tuple(marks))]


def _read_image(token: Token, marks: Sequence[Mark], *, linked: bool) -> list[Run]:
    url, text = str(token.attrs.get("src", "")), token.content or "image"
    if linked:
        return [Run(text, tuple(marks))]
    if not _ADDRESS.match(url):
        return [Run(say_link(text, url), tuple(marks))]
    return [Run(text, (*marks, Link(url, text)))]


def _leave(marks: list[Mark], runs: list[Run]) -> None:
    """The innermost mark ends. A link that leads nowhere is text, with its address behind it."""
    mark = marks.pop()
    if not isinstance(mark, Link):
        return
    if not _ADDRESS.match(mark.url):
        first = next((at for at, run in enumerate(runs) if mark in run.marks), len(runs))
        runs[first:] = [replace(run, marks=tuple(m for m in run.marks if m is not mark)) for run in runs[first:]]
        said = say_link(mark.text, mark.url)
        runs.append(Run(said.removeprefix(mark.text.strip()), tuple(marks)))
    elif not mark.text.strip():
        runs.append(Run(mark.url, (*marks, Link(mark.url, mark.url))))


def _text_of(tokens: Sequence[Token]) -> str:
    """The text up to the end of the link that has begun."""
    inner = itertools.takewhile(lambda token: token.type != "link_close", tokens)
    return "".join(" " if token.type.endswith("break") else token.content for token in inner)


def _literal_names(tokens: Sequence[Token]) -> list[int]:
    """Where a single word stands between double underscores, like __init__: a name, and no emphasis."""
    return [
        index
        for index, token in enumerate(tokens)
        if 0 < index < len(tokens) - 1
        and tokens[index - 1].type == "strong_open"
        and tokens[index - 1].markup == "__"
        and tokens[index + 1].type == "strong_close"
        and token.type == "text"
        and token.content.isidentifier()
    ]


def _merge(runs: Iterable[Run]) -> list[Run]:
    """Without empty runs and with neighbours of the same marks as one; a mark is not put into itself."""
    merged: list[Run] = []
    for run in runs:
        marks = tuple(dict.fromkeys(run.marks))
        if merged and merged[-1].marks == marks:
            merged[-1] = Run(merged[-1].text + run.text, marks)
        elif run.text:
            merged.append(Run(run.text, marks))
    return merged


def _put_around(mark: Mark, runs: Iterable[Run]) -> tuple[Run, ...]:
    return tuple(_merge(replace(run, marks=(mark, *run.marks)) for run in runs))


# --- tables


def _add_spare(row: list[tuple[Run, ...]], line: str) -> list[tuple[Run, ...]]:
    """What stands behind the last column of a row has no place in the table; it is kept in its last cell."""
    cells = _CELL_END.split(line.strip().removeprefix("|").removesuffix("|"))
    spare = "|".join(cells[len(row) :]).strip()
    return [*row[:-1], (*row[-1], Run(f" | {spare}"))] if spare and row else row


def _lay_out(rows: Sequence[Sequence[tuple[Run, ...]]]) -> Leaf:
    """A narrow table keeps its columns; of a wide one each cell is a line that begins with its head."""
    cells = [[" ".join(flatten(cell).split()) for cell in row] for row in rows]
    widths = [max(map(_columns, column)) for column in zip(*cells, strict=True)]
    if len(rows) == 1 or sum(widths) + 3 * (len(widths) - 1) <= WIDEST_GRID:
        lines = [" | ".join(map(_pad, row, widths)).rstrip() for row in cells]
        lines.insert(1, "-+-".join("-" * width for width in widths))
        return Leaf(GRID, code="\n".join(lines))
    runs: list[Run] = []
    for row in rows[1:]:
        runs += [Run("\n\n")] if runs else []
        for index, (head, cell) in enumerate(zip(rows[0], row, strict=True)):
            label = [*_put_around(STRONG, head), Run(": ")] if head else []
            runs += [*([Run("\n")] if index else []), *label, *cell]
    return Leaf(TEXT, tuple(_merge(runs)))


def _pad(cell: str, width: int) -> str:
    return cell + " " * (width - _columns(cell))


def _columns(text: str) -> int:
    """How wide a text is where all letters are equally wide; those of the East are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


# --- the parser


def _break_line(state: StateInline, silent: bool) -> bool:
    """A line end is one, and the spaces behind it stay: lines of a chat mean what they look like."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.pending = state.pending.rstrip(" ")
        state.push("softbreak", "br", 0)
    state.pos += 1
    return True


def _make_parser(*, without: Sequence[str] = ()) -> MarkdownIt:
    """Indented lines are no code and a line below a text makes no heading of it: a piece of a long text may begin
    anywhere, and a text that grows must not change its looks."""
    off = ["code", "lheading", "reference", *without]
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable(off)
    parser.inline.ruler.at("newline", _break_line)
    parser.normalizeLink = lambda url: "%20".join(url.split())  # type: ignore[method-assign]
    return parser


_parser = _make_parser()
_literal_parser = _make_parser(without=["link", "image", "emphasis", "strikethrough", "autolink"])
