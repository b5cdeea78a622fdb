"""The line that is typed on: its history in the home, the completion of slash commands, and long pastes."""

import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory

from hermes_base.command_table import COMMANDS, Command
from hermes_cli.chat.terminal_words import clean_typed
from hermes_constants.ordinary_files import open_private

log = logging.getLogger(__name__)

HISTORY_FILE = "chat_history"
_LONGEST_REMEMBERED = 20_000  # characters; more than that is a document, not a line to recall
_LONGEST_PASTE_SHOWN = 2_000
_MOST_LINES_SHOWN = 20


class ChatHistory(FileHistory):
    """Lines typed before, in a file that only the owner can read; a file that fails costs the history, not the chat."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except OSError as error:
            log.warning("Earlier lines cannot be recalled: %s", error)
            return []

    def append_string(self, string: str) -> None:
        if string.strip() and len(string) <= _LONGEST_REMEMBERED and string != next(iter(self.get_strings()[-1:]), ""):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        entry = f"\n# {time.strftime('%Y-%m-%d %H:%M:%S')}\n" + "".join(f"+{line}\n" for line in string.split("\n"))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(self._path, "ab", opener=open_private) as file:
                file.write(entry.encode("utf-8", "replace"))
        except OSError as error:
            log.warning("This line will not be recalled in a later chat: %s", error)


class CommandCompleter(Completer):
    """Completes a slash command while its name is typed; `added` are those of plugins: name, arguments, summary."""

    def __init__(self, added: Sequence[tuple[str, str, str]] = ()) -> None:
        self._added = added

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        typed = document.text_before_cursor
        if not typed.startswith("/") or document.text_after_cursor.strip():
            return
        added = (Command(name, (), summary, args) for name, args, summary in self._added)
        for command in (*COMMANDS, *added):
            names = (command.name, *command.aliases)
            name = next((name for name in names if name.startswith(typed[1:].lower())), "")
            if name:
                shown = f"/{name} {command.args}".rstrip()
                yield Completion(f"/{name}", start_position=-len(typed), display=shown, display_meta=command.summary)


class TypedLine:
    """The text being typed. A long paste stands in it as a short mark, so that editing stays quick."""

    def __init__(self, history_path: Path, commands: Sequence[tuple[str, str, str]] = ()) -> None:
        self.history = ChatHistory(history_path)
        self.buffer = Buffer(
            completer=CommandCompleter(commands), complete_while_typing=True, history=self.history, multiline=True
        )
        self._pastes: dict[str, str] = {}

    @property
    def text(self) -> str:
        """What is typed, with the pastes in their places."""
        text = clean_typed(self.buffer.text)
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        return text

    def take(self) -> str:
        """Take the text off the line and remember it."""
        text = self.text
        self.history.append_string(text)
        self.clear()
        return text

    def clear(self) -> None:
        self.buffer.reset()
        self._pastes.clear()

    def put(self, text: str) -> None:
        """Put a text on the line, to go on with."""
        self.clear()
        self.paste(text)

    def paste(self, text: str) -> None:
        """Insert a text with its line ends; a long one as a mark."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if len(text) > _LONGEST_PASTE_SHOWN or text.count("\n") >= _MOST_LINES_SHOWN:
            mark = f"[pasted text {len(self._pastes) + 1}: {text.count(chr(10)) + 1} lines, {len(text)} characters]"
            self._pastes[mark] = clean_typed(text)
            text = mark
        self.buffer.insert_text(text)

    def continue_line(self) -> bool:
        """Turn a backslash at the end into a new line; False when there is none."""
        document = self.buffer.document
        if not document.is_cursor_at_the_end or not document.text.endswith("\\"):
            return False
        self.buffer.delete_before_cursor()
        self.buffer.insert_text("\n")
        return True
