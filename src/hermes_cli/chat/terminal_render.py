"""Draws text with `rich` into strings of terminal codes, at the width that the terminal has now."""

import io
import re
from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from hermes_cli.chat.terminal_markdown import make_parser

_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_EMPTY_EDGES = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m)*\n)+|(?:\n(?:\x1b\[[0-9;]*m)*)+\Z")
_MOST_COLOURED = 100_000  # characters; colouring more code than this would take seconds
_NARROWEST = 10
_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "italic bold",
        "markdown.item.bullet": "bold",
        "markdown.item.number": "bold",
        "markdown.link": "underline",
        "markdown.link_url": "blue",
    }
)
_parser = make_parser()


class _LeftHeading(Heading):
    """A heading at the left edge, however large."""

    LEVEL_ALIGN = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _WholeCode(CodeBlock):
    """Code between its fences, on unbroken lines without a margin: it can be copied as it is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Text("```" + ("" if self.lexer_name == "text" else self.lexer_name), style="dim")
        text = Text(code)
        if len(code) <= _MOST_COLOURED:
            text = Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default").highlight(code)
            text.rstrip()
        text.no_wrap, text.overflow = True, "ignore"
        yield text
        yield Text("```", style="dim")


class ChatMarkdown(Markdown):
    """Markdown of the chat's dialect; a line end in the source is one on the screen, as people write in chats."""

    elements = Markdown.elements | {"heading_open": _LeftHeading, "fence": _WholeCode, "code_block": _WholeCode}

    def __init__(self, source: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _parser.parse(source)
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":
                    child.type = "hardbreak"


class Renderer:
    """Turns text into terminal codes; colours as the environment allows (`NO_COLOR`, `TERM`)."""

    def __init__(self, find_width: Callable[[], int]) -> None:
        self._find_width = find_width
        self._console = Console(
            file=io.StringIO(), force_terminal=True, highlight=False, legacy_windows=False, theme=_THEME, width=80
        )

    def draw_markdown(self, source: str) -> str:
        return self._draw(ChatMarkdown(source))

    def draw_lines(self, text: str, style: str = "") -> str:
        """Text as it is, wrapped at words."""
        return self._draw(Text(text, style=style))

    def draw_line(self, text: str, style: str = "") -> str:
        """Text on one line, cut at the edge."""
        return self._draw(Text(text, style=style), one_line=True)

    def _draw(self, what: RenderableType, *, one_line: bool = False) -> str:
        """Whole lines, without the spaces that fill them up."""
        self._console.width = max(self._find_width(), _NARROWEST)
        with self._console.capture() as captured:
            self._console.print(what, crop=False, no_wrap=one_line or None, overflow="ellipsis" if one_line else None)
        drawn = _EMPTY_EDGES.sub("", _PADDING.sub(r"\1", captured.get()))
        return drawn + "\n" if drawn else ""
