"""Where a value of a request stands: JSON pointers (RFC 6901), or headers by their name. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_TOKEN = re.compile(r"(?:[^~]|~[01])*", re.DOTALL)
_INDEX = re.compile(r"0|[1-9][0-9]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class _Missing:
    """Stands for what is not there; null is something."""


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Source:
    written: str  # as in the settings
    tokens: tuple[str, ...] = ()
    header: str = ""  # in small letters; empty: it is a pointer

    def find(self, document: Any, headers: Mapping[str, str]) -> Any:
        """The value, or MISSING."""
        if self.header:
            return headers.get(self.header, MISSING)
        for token in self.tokens:
            document = _step(document, token)
        return document


def read_source(text: str) -> Source:
    """A pointer begins with a slash, or is empty: the whole. Anything else is the name of a header. ValueError with the
    end of a sentence for what is neither."""
    if text and not text.startswith("/"):
        if not _HEADER.fullmatch(text):
            raise ValueError(f"holds '{text}', which is neither a pointer such as /issue/title nor a header's name")
        return Source(text, header=text.lower())
    tokens = text.split("/")[1:]
    if not all(map(_TOKEN.fullmatch, tokens)):
        raise ValueError(f"holds '{text}', in which `~` stands for nothing: write ~0 for it, and ~1 for a slash")
    return Source(text, tuple(token.replace("~1", "/").replace("~0", "~") for token in tokens))


def _step(document: Any, token: str) -> Any:
    if isinstance(document, Mapping):
        return document.get(token, MISSING)
    if isinstance(document, list) and len(token) < 10 and _INDEX.fullmatch(token) and int(token) < len(document):
        return document[int(token)]
    return MISSING
