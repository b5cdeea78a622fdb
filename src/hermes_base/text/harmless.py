"""Text from elsewhere on its way to a terminal: it says what it says, and steers nothing."""

from typing import Any, TextIO

#: Control characters would let a model move the cursor or recolour the screen; line ends and tabs are text.
_CONTROL = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
#: Marks that turn the direction of what stands around them.
_DIRECTION = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_NOT_IN_NAMES = dict.fromkeys((*range(32), *range(127, 160), 0x2028, 0x2029, *_DIRECTION))


def clean_name(text: str) -> str:
    """What a stranger calls themselves, on a line with words of ours: it neither ends nor turns nor steers it."""
    return text.translate(_NOT_IN_NAMES)


def clean_shown(text: str) -> str:
    """A text that cannot steer the terminal."""
    return text.translate(_CONTROL)


class HarmlessStream:
    """A stream for commands that only print: whatever they print, from wherever it came, is cleaned here."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(clean_shown(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
