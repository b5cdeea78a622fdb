"""Draws the region around the typed line with `prompt_toolkit`, writes finished text above it, and names the keys."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.filters import Condition, has_focus, is_searching
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, Dimension, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from hermes_base.command_table import COMMANDS
from hermes_cli.chat.terminal_input import TypedLine

if TYPE_CHECKING:
    from hermes_cli.chat.terminal_chat import ScreenChat

_ROWS_BELOW = 4  # kept for the typed line and what stands under it
_MOST_ROWS_TYPED = 10
_STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "hint": "italic ansibrightblack",
        "completion-menu": "bg:default",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "reverse",
        "completion-menu.meta.completion": "bg:default ansibrightblack",
        "completion-menu.meta.completion.current": "reverse",
    }
)


class Screen:
    """The terminal while the chat has it; the chat decides what the screen shows and what the keys do."""

    def __init__(self, line: TypedLine, chat: "ScreenChat") -> None:
        self._line = line
        self._chat = chat
        self._above: AnyFormattedText = ""
        self._rows_above = 0
        self._output = create_output()
        if isinstance(self._output, Vt100_Output):
            # The answer to "where is the cursor" would arrive among the typed keys, and nothing here needs it.
            self._output.enable_cpr = False
        self._search = SearchToolbar()
        line.buffer.on_text_changed += lambda _buffer: chat.note_typing()
        self._app: Application[int] = Application(
            layout=self._lay_out(),
            key_bindings=self._bind_keys(),
            style=_STYLE,
            output=self._output,
            erase_when_done=True,
        )
        self._app.ttimeoutlen = 0.05  # seconds until Escape alone counts; Alt-Enter arrives as both at once

    async def run(self) -> int:
        try:
            return await self._app.run_async()
        except EOFError:  # the terminal is gone
            return 0

    def find_width(self) -> int:
        return self._output.get_size().columns

    def leave(self, code: int) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit(result=code)

    def fail(self, error: BaseException) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit(exception=error)

    def write(self, finished: str) -> None:
        """Write text that stays above the region, and draw the region again below it."""
        if not self._app.is_running or self._app.is_done:
            return
        drawn = self._chat.draw_above(self._output.get_size().rows - _ROWS_BELOW)
        self._above, self._rows_above = ANSI(drawn.removesuffix("\n")), drawn.count("\n")
        if finished:
            self._app.renderer.erase()
            self._output.write_raw(finished)
            self._output.flush()
        self._app.invalidate()

    def write_alone(self, finished: str) -> None:
        """Write while the region is not there: before it is drawn first, or when it is gone."""
        self._output.write_raw(finished)
        self._output.flush()

    # --- layout

    def _lay_out(self) -> Layout:
        control = BufferControl(self._line.buffer, search_buffer_control=self._search.control, preview_search=True)
        typed = Window(
            control,
            height=Dimension(min=1, max=_MOST_ROWS_TYPED),
            dont_extend_height=True,
            wrap_lines=True,
            get_line_prefix=self._name_prefix,
        )
        above = Window(
            FormattedTextControl(lambda: self._above),
            dont_extend_height=True,
            height=lambda: Dimension(min=0, preferred=self._rows_above, max=self._rows_above),
        )
        hint = Window(FormattedTextControl(self._chat.name_hint, style="class:hint"), height=1)
        hint_shown = ConditionalContainer(hint, Condition(lambda: bool(self._chat.name_hint())))
        menu = CompletionsMenu(max_height=len(COMMANDS))
        return Layout(HSplit([above, typed, menu, self._search, hint_shown]), focused_element=typed)

    def _name_prefix(self, line: int, wrapped: int) -> AnyFormattedText:
        prompt = self._chat.name_prompt()
        return [("class:prompt", prompt if line == wrapped == 0 else " " * len(prompt))]

    # --- keys

    def _bind_keys(self) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(self._line.buffer) & ~is_searching

        def bind(*names: str, call: Callable[[], object]) -> None:
            keys.add(*names, filter=typing)(lambda _event: call())

        bind("enter", call=self._chat.accept)
        bind("escape", "enter", call=lambda: self._line.buffer.insert_text("\n"))
        bind("c-d", call=self._delete_or_end)
        bind("c-c", call=self._chat.press)
        bind("<sigint>", call=self._chat.press)
        keys.add("c-z")(lambda event: event.app.suspend_to_background())
        keys.add(Keys.BracketedPaste, filter=typing)(lambda event: self._line.paste(event.data))
        return keys

    def _delete_or_end(self) -> None:
        if self._line.buffer.text:
            self._line.buffer.delete()
        else:
            self._chat.end_input()


@contextmanager
def divert_logs() -> Iterator[None]:
    """Send log lines through the patched stderr, which puts them above the region instead of across it."""
    handlers = [handler for handler in logging.getLogger().handlers if type(handler) is logging.StreamHandler]
    before = [(handler, handler.setStream(sys.stderr)) for handler in handlers if handler.stream is sys.__stderr__]
    try:
        yield
    finally:
        for handler, stream in before:
            if stream is not None:
                handler.setStream(stream)
