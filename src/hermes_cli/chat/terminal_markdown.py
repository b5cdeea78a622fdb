"""Cuts a growing markdown text into its top-level blocks, so that each is drawn once and only the last one changes."""

import itertools
import re

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

#: Between the signs that models write around formulas; a price like $5 is none.
_FORMULA = re.compile(r"\\\(.+?\\\)|\\\[.+?\\\]|\$\$.+?\$\$|\$(?=[^\s\d$])[^$\n]*?[^\s$\\]\$(?!\d)", re.DOTALL)


def make_parser() -> MarkdownIt:
    """The dialect of the chat: tables and strike-through; HTML and link definitions stay visible as text.

    Definitions reach across blocks, which are drawn one by one; HTML has no meaning in a terminal.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
    parser.inline.ruler.before("escape", "formula", _keep_formula)
    return parser


def _keep_formula(state: StateInline, silent: bool) -> bool:
    """A formula stays as it is written: its backslashes, stars and underscores mean nothing to markdown."""
    found = _FORMULA.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("text", "", 0).content = found[0]
    state.pos = found.end()
    return True


_parser = make_parser()
_parser.core.ruler.enableOnly(["normalize", "block"])  # where blocks begin; their inside does not matter here


def split_blocks(text: str) -> list[str]:
    """The top-level blocks of a text of whole lines, each with the blank lines after it; joined they are the text.

    All but the last stay as they are whatever follows.
    """
    # A lone carriage return counts as a line end there and not here.
    tokens = _parser.parse(text.replace("\r", " "))
    starts = [token.map[0] for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
    lines = _split_lines(text)
    edges = [0, *starts[1:], len(lines)]
    return ["".join(lines[start:end]) for start, end in itertools.pairwise(edges) if start < end]


def _split_lines(text: str) -> list[str]:
    """Lines with their ends, where only a newline ends a line."""
    *lines, last = text.split("\n")
    return [*(line + "\n" for line in lines), *([last] if last else [])]


class BlockSplitter:
    """Takes a text in pieces and gives its blocks back as soon as they are finished."""

    def __init__(self) -> None:
        self.tail = ""  # what may still change

    def feed(self, piece: str) -> list[str]:
        """The blocks that this piece finished."""
        self.tail += piece
        if "\n" not in piece:
            return []  # a line may mean anything until it is whole
        whole, end, begun = self.tail.rpartition("\n")
        *finished, last = split_blocks(whole + end)
        self.tail = last + begun
        return finished

    def finish(self) -> list[str]:
        """The rest, when nothing follows."""
        rest, self.tail = self.tail, ""
        return split_blocks(rest)
