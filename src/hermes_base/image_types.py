"""What kind of picture some bytes are: a name or a label may lie, and a provider refuses a picture whose label does."""

import re

#: How pictures begin that models can see and a browser may show in our origin. A drawing that can hold a script is
#: none of them.
_STARTS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)


def find_image_type(data: bytes) -> str:
    """The media type of a picture by its first bytes; empty: it is none of those."""
    return next((kind for start, kind in _STARTS if start.match(data)), "")
