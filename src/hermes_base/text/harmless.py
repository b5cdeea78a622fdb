"""Text from elsewhere on its way to a terminal: it says what it says, and steers nothing."""

import re
import unicodedata
from typing import Any, TextIO

#: Control characters would let a model move the cursor or recolour the screen; line ends and tabs are text.
_CONTROL: dict[int, str | None] = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
#: Half a sign of two: no terminal takes it, and no file.
_HALVES: dict[int, str | None] = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_CONTROL |= _HALVES
#: Marks that turn the direction of what stands around them.
_DIRECTION = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
#: Letters and signs that look like nothing at all: blank Braille, Hangul fillers, joiners, selectors of variants.
BLANK_LOOKING = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, *range(0xE0100, 0xE01F0)))
)
_HIDDEN_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_NOT_IN_NAMES: dict[int, str | None] = _HALVES | dict.fromkeys(
    (*range(32), *range(127, 160), 0x2028, 0x2029, *_DIRECTION, *map(ord, BLANK_LOOKING), ord('"'))
)
#: Blanks in a row, and empty lines in a row, that would push what follows them out of sight.
_LONG_BLANKS = re.compile(r"[^\S\n]{40,}")
_LONG_GAP = re.compile(r"\n(?:[^\S\n]*\n){20,}")


def is_hidden(char: str) -> bool:
    """Whether a reader does not see it, or sees it as something else; line ends, tabs and the blank are text."""
    kind = unicodedata.category(char)
    blank = kind == "Zs" and char != " "
    return char not in "\n\t" and (blank or kind in _HIDDEN_KINDS or char in BLANK_LOOKING)


def show_hidden(text: str) -> str:
    """A text of which everything is seen: signs that nobody sees are written out."""
    return "".join(f"\\u{ord(char):04x}" if is_hidden(char) else char for char in text)


def show_blanks(text: str) -> str:
    """A text of which nothing is out of sight because of blanks before it: long runs of them are said in words."""
    gaps = _LONG_GAP.sub(lambda found: f"\n⟨{found[0].count(chr(10)) - 1} empty lines⟩\n", text)
    return _LONG_BLANKS.sub(lambda found: f" ⟨{len(found[0])} blanks⟩ ", gaps)


def clean_name(text: str) -> str:
    """What a stranger calls themselves, on a line with words of ours: it neither ends nor turns nor steers it, nor the
    quotes around it."""
    return text.translate(_NOT_IN_NAMES).strip()


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
