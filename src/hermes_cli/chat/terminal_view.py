"""Turns the events of a chat into what stays on the screen and what still changes on it; writes nothing itself."""

import time
from collections.abc import Callable
from enum import Enum, auto

from hermes_base.chat import (
    Event,
    FileSent,
    Notice,
    Question,
    ReasoningDelta,
    Said,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes_cli.chat import terminal_words as words
from hermes_cli.chat.terminal_markdown import BlockSplitter
from hermes_cli.chat.terminal_render import Renderer

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_LONGEST_DRAWN = 2_000  # characters of an unfinished block that are drawn again and again; more would not fit anyway
_LONGEST_ECHO = 12  # lines of a message that are shown again
_LONGEST_ECHO_LINE = 500  # characters
_LEVELS = {"info": ("", ""), "warning": ("! ", "yellow"), "error": ("✗ ", "red")}


class _Kind(Enum):
    """What a piece of output is; a blank line stands between pieces of different kinds."""

    TYPED = auto()
    BLOCK = auto()  # of markdown; each stands alone
    LINE = auto()
    REASONING = auto()
    TOOL = auto()
    NOTICE = auto()


class LineSplitter:
    """The twin of `BlockSplitter` for text that is shown as it is: a line is finished when it ends."""

    def __init__(self) -> None:
        self.tail = ""

    def feed(self, piece: str) -> list[str]:
        *finished, self.tail = (self.tail + piece).split("\n")
        return finished

    def finish(self) -> list[str]:
        rest, self.tail = self.tail, ""
        return [rest] if rest else []


class TerminalView:
    """The screen as text: `pop_finished` gives what stays, once; `draw_live` what is under way, as often as asked."""

    def __init__(self, display: words.Display, renderer: Renderer, clock: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._renderer = renderer
        self._clock = clock
        self._text: BlockSplitter | LineSplitter = BlockSplitter() if display.markdown else LineSplitter()
        self._reasoning = LineSplitter()
        self._tools: dict[str, ToolStarted] = {}
        self._finished: list[str] = []
        self._last_kind: _Kind | None = None
        self._open: list[str] = []  # the text under way
        self._stays = False  # some of it, or of the thoughts before it, cannot be taken off the screen any more
        self._begun = clock()
        self._explained = False
        self._said: list[str] = []  # typed while a text is written: stands below it

    def pop_finished(self) -> str:
        finished, self._finished = "".join(self._finished), []
        return finished

    def begin(self) -> None:
        """Start the clock of what was submitted."""
        self._begun = self._clock()

    def show(self, event: Event, *, stopped_here: bool = False) -> None:
        match event:
            case TextDelta(text):
                self._take_text(text)
            case ReasoningDelta(text) if self._display.reasoning:
                self._keep_reasoning(self._reasoning.feed(words.clean_shown(text)))
            case TextEnded(kept):
                self._end_text(kept)
            case ToolStarted():
                self.flush()
                self._tools[event.id] = event
                if self._display.tool_progress == "full":
                    self._keep(_Kind.TOOL, self._renderer.draw_lines(words.describe_start(event), "dim"))
            case ToolEnded():
                self._end_tool(event)
            case Notice(text, level):
                self.notice(text, level)
            case Said():  # it comes before the text under way, which stays in one piece
                self._keep(_Kind.TYPED, self._renderer.draw_lines(words.describe_said(event), "bold"))
            case FileSent():
                self.notice(words.describe_file(event))
            case TurnEnded():
                self._end_turn(event, stopped_here)

    def echo(self, typed: str) -> None:
        """Repeat what was typed, since the line it was typed on is gone; below the text that is being written."""
        lines = words.clean_shown(typed).rstrip().split("\n")
        shown = lines[:_LONGEST_ECHO]
        if len(lines) > len(shown):
            shown.append(f"… and {len(lines) - len(shown)} lines more")
        self._said.append(self._renderer.draw_lines("› " + "\n  ".join(map(_cut, shown)), "bold"))
        if not (self._text.tail.strip() or self._reasoning.tail):
            self._keep_said()

    def ask(self, question: Question) -> None:
        self.flush()
        first, *rest = words.describe_question(question) or [""]
        drawn = self._renderer.draw_lines(f"? {first}", "bold yellow") + "".join(
            self._renderer.draw_lines(line, words.colour_question(question, line)) for line in rest
        )
        self._keep(_Kind.NOTICE, drawn)

    def notice(self, text: str, level: str = "info") -> None:
        """Say something that is not the model's; an error comes after the text that it broke off."""
        if level == "error":
            self._explained = True
            self.flush()
        sign, style = _LEVELS.get(level, _LEVELS["info"])
        self._keep(_Kind.NOTICE, self._renderer.draw_lines(sign + words.clean_shown(text), style))

    def flush(self) -> None:
        """Keep what is unfinished: nothing will be added to it."""
        self._keep_reasoning(self._reasoning.finish())
        self._keep_text(self._text.finish())
        self._keep_said()

    def _keep_said(self) -> None:
        said, self._said = self._said, []
        for drawn in said:
            self._keep(_Kind.TYPED, drawn)

    def draw_live(self, *, rows: int, doing: str) -> str:
        """What is under way, on at most so many rows: `doing` in a few words."""
        shows_tools = self._display.tool_progress != "off"
        notes = [words.describe_start(tool) for tool in self._tools.values() if shows_tools]
        if doing:
            spent = self._clock() - self._begun
            notes.append(f"{_SPINNER[int(spent * 8) % len(_SPINNER)]} {doing} · {spent:.0f} s")
        lines = [
            *self._draw_tail().splitlines(),
            *(line for drawn in self._said for line in drawn.splitlines()),
            *([""] if self._last_kind is not None else []),  # between what was said and what is typed
            *(self._renderer.draw_line(note, "dim").rstrip("\n") for note in notes),
        ]
        return "".join(line + "\n" for line in lines[-rows:]) if rows > 0 else ""

    # --- what stays

    def _keep(self, kind: _Kind, drawn: str) -> None:
        if not drawn:
            return
        apart = kind is not self._last_kind or kind is _Kind.BLOCK
        self._finished.append("\n" + drawn if apart and self._last_kind is not None else drawn)
        self._last_kind = kind

    def _take_text(self, text: str) -> None:
        self._keep_reasoning(self._reasoning.finish())
        self._open.append(text)
        self._keep_text(self._text.feed(words.clean_shown(text)))

    def _end_text(self, kept: bool) -> None:
        """What is kept stays. Of the rest, what is still drawn anew each time goes; what does not go is said to be
        void."""
        if kept:
            self.flush()
        else:
            self._text.finish()
            self._reasoning.finish()
        stays, self._open, self._stays = self._stays, [], False
        if stays and not kept:
            self.notice(words.BEGINS_ANEW, "warning")

    def _keep_text(self, pieces: list[str]) -> None:
        self._stays |= bool(pieces)
        for piece in pieces:
            if self._display.markdown:
                self._keep(_Kind.BLOCK, self._renderer.draw_markdown(piece))
            elif piece or self._last_kind is _Kind.LINE:
                self._keep(_Kind.LINE, self._renderer.draw_lines(piece) or "\n")

    def _keep_reasoning(self, lines: list[str]) -> None:
        self._stays |= bool(lines)
        for line in lines:
            self._keep(_Kind.REASONING, self._renderer.draw_lines(line, "dim italic"))

    def _end_tool(self, event: ToolEnded) -> None:
        started = self._tools.pop(event.id, None)
        style = "dim" if event.ok else "red"
        if self._display.tool_progress == "short":
            line = words.describe_end(event, started.preview if started is not None else "")
            self._keep(_Kind.TOOL, self._renderer.draw_line(line, style))
        elif self._display.tool_progress == "full":
            for line in words.describe_outcome(event):
                self._keep(_Kind.TOOL, self._renderer.draw_lines(line, words.find_colour(event, line)))

    def _end_turn(self, event: TurnEnded, stopped_here: bool) -> None:
        missing = words.find_missing("".join(self._open), event.answer) if event.answer else ""
        if missing is None:
            self._end_text(kept=False)
            missing = event.answer
        if missing:
            self._take_text(missing)
        self._end_text(kept=True)
        ending = words.describe_ending(event, stopped_here=stopped_here, explained=self._explained)
        if ending:
            self.notice(ending, "warning")
        self._tools.clear()
        self._explained = False

    # --- what still changes

    def _draw_tail(self) -> str:
        if self._reasoning.tail:
            return self._renderer.draw_lines(self._reasoning.tail, "dim italic")
        tail = self._text.tail
        if not tail.strip():
            return ""
        if len(tail) > _LONGEST_DRAWN:  # its end is drawn, still as code when it is code
            first, end = tail.partition("\n")[0], tail[-_LONGEST_DRAWN:]
            tail = f"{first}\n{end.partition(chr(10))[2]}" if first.startswith(("```", "~~~")) else end
        draw = self._renderer.draw_markdown if self._display.markdown else self._renderer.draw_lines
        drawn = draw(tail)
        apart = self._last_kind is not (_Kind.BLOCK if self._display.markdown else _Kind.LINE) or self._display.markdown
        return "\n" + drawn if apart and self._last_kind is not None else drawn


def _cut(line: str) -> str:
    more = len(line) - _LONGEST_ECHO_LINE
    return line if more <= 0 else f"{line[:_LONGEST_ECHO_LINE]} … and {more} characters more"
