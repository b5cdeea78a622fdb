"""What the person is shown of one model call while it comes, and how that is made to agree with the transcript."""

import re

from agent.turn.ports import Ports
from hermes_base.chat import TextEnded
from hermes_base.text.redact import LiveText

_BLANK_LINES = re.compile(r"\A(?:\s*\Z|\s*\n)")


def trim_start(text: str) -> str:
    """Without the blank lines at its start, which some models write before a call; a blank text is none."""
    return _BLANK_LINES.sub("", text)


class ShownText:
    """The text and the thoughts of one model call. In the end each text stands as the transcript has it (`keep`), or is
    taken back (`take_back`); the text that ends a turn is put right (`correct`) and stands with the turn's end."""

    def __init__(self, ports: Ports, *, live: bool = True) -> None:
        """Not `live`: nothing is shown before it is known how it will stand."""
        self._ports = ports
        self._live = live
        self._told: list[str] = []
        self._blank = ""  # white space that came so far; it is shown when a word follows it
        self._thought = False
        self.text = LiveText(ports.redact, self._tell)
        self.reasoning = LiveText(ports.redact, self._tell_reasoning)

    def flush(self) -> None:
        """Nothing more comes."""
        self.text.flush()
        self.reasoning.flush()

    def correct(self, text: str) -> None:
        """Make what is shown this text."""
        text = trim_start(text)
        told = "".join(self._told)
        if not text.startswith(told):
            self.take_back()
            told = ""
        if len(text) > len(told):
            self._told.append(text[len(told) :])
            self._ports.on_text(self._told[-1])

    def keep(self, text: str) -> None:
        """The transcript has this text now."""
        self.correct(text)
        self._end(kept=True)

    def take_back(self) -> None:
        """The transcript has nothing of it."""
        self._end(kept=False)

    def _end(self, *, kept: bool) -> None:
        if self._told or self._thought:
            self._ports.emit(TextEnded(kept))
        self._told, self._blank, self._thought = [], "", False

    def _tell(self, piece: str) -> None:
        if not self._told:
            piece, self._blank = self._blank + piece, ""
            if not piece.strip():
                self._blank = piece
                return
            piece = trim_start(piece)
        if self._live:
            self._told.append(piece)
            self._ports.on_text(piece)

    def _tell_reasoning(self, piece: str) -> None:
        self._thought = True
        self._ports.on_reasoning(piece)
