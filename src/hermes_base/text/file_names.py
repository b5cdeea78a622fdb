"""Names of files that somebody else has chosen: what they may be here, and what they say of the file."""

import re
from pathlib import PurePosixPath

from hermes_base.image_types import find_image_type

MOST_NAME = 120

_AUDIO = frozenset({".mp3", ".wav", ".ogg", ".oga", ".m4a", ".flac", ".opus", ".aac", ".weba"})
_IMAGE = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def find_kind(name: str, head: bytes) -> str:
    """image, audio or file: a picture has to be named and made like one."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _IMAGE and find_image_type(head):
        return "image"
    return "audio" if suffix in _AUDIO else "file"


def make_safe_name(name: str) -> str:
    """The name as a file of this machine may have it: one part, no tricks, not too long."""
    plain = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(" .")
    stem, dot, suffix = plain.rpartition(".")
    if dot and stem and len(suffix) <= 12:
        return f"{_shorten(stem, MOST_NAME - len(suffix) - 1)}.{suffix}"
    return _shorten(plain, MOST_NAME).rstrip(" .") or "file"


def _shorten(text: str, most: int) -> str:
    """File systems count bytes."""
    return text.encode()[:most].decode(errors="ignore")
