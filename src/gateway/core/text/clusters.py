"""Finds the borders between what people see as one sign: a letter with its marks, a flag, a family, a keycap. These are
the extended grapheme clusters of UAX #29, as far as the standard library knows the properties they are made of; where
it does not, more is kept together and never less."""

import re
import unicodedata
from collections.abc import Sequence

_CACHED = 20_000  # characters whose class is remembered; a text may hold more, and is read all the same

#: By class: first and last of the characters that have it, whatever their category is.
_RANGES: Sequence[tuple[str, Sequence[tuple[int, int]]]] = (
    ("R", ((0x0D, 0x0D),)),
    ("N", ((0x0A, 0x0A),)),
    ("Z", ((0x200D, 0x200D),)),  # joins what is before and after it
    ("F", ((0x1F1E6, 0x1F1FF),)),  # two of these are a flag
    # Marks by name only: a joiner's opposite, vowels of Thai and Lao, halfwidth voice marks, skin tones, tags.
    (
        "M",
        (
            (0x200C, 0x200C),
            (0x0E33, 0x0E33),
            (0x0EB3, 0x0EB3),
            (0xFF9E, 0xFF9F),
            (0x1F3FB, 0x1F3FF),
            (0xE0020, 0xE007F),
        ),
    ),
    # Signs that stand before what they belong to.
    (
        "P",
        (
            (0x0600, 0x0605),
            (0x06DD, 0x06DD),
            (0x070F, 0x070F),
            (0x0890, 0x0891),
            (0x08E2, 0x08E2),
            (0x0D4E, 0x0D4E),
            (0x110BD, 0x110BD),
            (0x110CD, 0x110CD),
            (0x111C2, 0x111C3),
        ),
    ),
    ("L", ((0x1100, 0x115F), (0xA960, 0xA97C))),  # Hangul: leading consonants, vowels, trailing ones
    ("V", ((0x1160, 0x11A7), (0xD7B0, 0xD7C6))),
    ("T", ((0x11A8, 0x11FF), (0xD7CB, 0xD7FB))),
    ("E", ((0x203C, 0x203C), (0x2049, 0x2049), (0x2139, 0x2139), (0x3030, 0x3030), (0x303D, 0x303D))),
)
_HANGUL_FIRST, _HANGUL_LAST, _HANGUL_ROW = (
    0xAC00,
    0xD7A3,
    28,
)  # each row begins with a syllable that has no third letter
#: Scripts in which a virama ties two consonants together: Devanagari, Bengali, Gujarati, Oriya, Telugu, Malayalam.
_TYING = ((0x0900, 0x09FF), (0x0A80, 0x0B7F), (0x0C00, 0x0C7F), (0x0D00, 0x0D7F))
_VIRAMA = 9  # the combining class of all of them
_BY_CATEGORY = {
    **dict.fromkeys(("Mn", "Me", "Mc"), "M"),
    **dict.fromkeys(("Cc", "Cf", "Cs", "Zl", "Zp"), "C"),
    **dict.fromkeys(("So", "Sm"), "E"),
}
_EMOJI = (0x1F000, 0x1FFFD)  # also those that are not assigned yet

_HANGUL = r"L++(?:V++T*+|YV*+T*+|XT*+)?+|V++T*+|YV*+T*+|XT*+|T++"
_CLUSTER = re.compile(
    r"RN|[RNC]|(?=.)P*+(?:"
    rf"{_HANGUL}|FF?+|E(?:M*+ZE)*+|K(?:[MZ]*+H[MHZ]*+K)*+|[^RNCP]"
    r")?+[MHZ]*+"
)


def find_borders(text: str) -> list[int]:
    """Where the signs of a text end, in order; the last is the end of the text."""
    if text.isascii() and "\r" not in text:
        return list(range(1, len(text) + 1))
    return [match.end() for match in _CLUSTER.finditer(text.translate(_CLASSES))]


def _is_in(code: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _classify(code: int) -> str:
    for name, ranges in _RANGES:
        if _is_in(code, ranges):
            return name
    if _HANGUL_FIRST <= code <= _HANGUL_LAST:
        return "X" if (code - _HANGUL_FIRST) % _HANGUL_ROW else "Y"
    sign = chr(code)
    category = unicodedata.category(sign)
    if _is_in(code, _TYING):
        if unicodedata.combining(sign) == _VIRAMA:
            return "H"
        if category == "Lo":
            return "K"
    return "E" if _is_in(code, (_EMOJI,)) else _BY_CATEGORY.get(category, "O")


class _ClassTable(dict[int, str]):
    """The class of each character, found when it is first met. R and N: the ends of a line. C: controls. M: marks.
    H: a virama. K: a consonant that it ties. E: pictures and symbols. Y, X: Hangul syllables without and with a third
    letter. O: any other. The rest is said above."""

    def __missing__(self, code: int) -> str:
        if len(self) >= _CACHED:
            self.clear()
        self[code] = found = _classify(code)
        return found


_CLASSES = _ClassTable()
