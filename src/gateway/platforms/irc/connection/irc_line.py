"""One line of IRC: read from bytes, written to bytes, and how names are compared. Pure.

No text can become a second line: whatever would end one is refused here, at the only place that writes them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

MOST_BYTES = 512  # of a line with its end, as servers hand it on: with the prefix that they put before it
MOST_TAG_BYTES = 4094  # that a client may send before it
_ENDS = re.compile(r"[\r\n\0]")
_TAG_SIGNS = {";": r"\:", " ": r"\s", "\\": "\\\\", "\r": r"\r", "\n": r"\n"}
_TAG_READ = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_ASCII = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
#: Which letters are the same in names, by the server's CASEMAPPING.
_FOLDS: Mapping[str, Mapping[int, int]] = {
    "ascii": _ASCII,
    "rfc1459": {**_ASCII, ord("["): ord("{"), ord("]"): ord("}"), ord("\\"): ord("|"), ord("~"): ord("^")},
    "rfc1459-strict": {**_ASCII, ord("["): ord("{"), ord("]"): ord("}"), ord("\\"): ord("|")},
}


class BadLine(ValueError):
    """What cannot be a line: it would be two, or its words would run together."""


@dataclass(frozen=True, slots=True)
class IrcLine:
    command: str
    params: tuple[str, ...] = ()
    source: str = ""  # nick!user@host, or a server
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    def param(self, index: int) -> str:
        """A parameter; empty where there is none."""
        return self.params[index] if -len(self.params) <= index < len(self.params) else ""


def read_line(data: bytes) -> IrcLine | None:
    """A line without its end; None: there is nothing in it."""
    text, tags, source = _decode(data), {}, ""
    if text.startswith("@"):
        head, _, text = text[1:].partition(" ")
        tags = dict(map(_read_tag, filter(None, head.split(";"))))
    text = text.lstrip(" ")
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    middle, has_last, last = text.lstrip(" ").partition(" :")
    words = middle.split()
    if not words:
        return None
    return IrcLine(words[0].upper(), (*words[1:], *([last] if has_last else [])), source, tags)


def _decode(data: bytes) -> str:
    """Most people write UTF-8; what is none is read as the old clients write."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.start >= len(data) - 3:  # a server has cut a long line within its last letter
            return data.decode("utf-8", "ignore")
        return data.decode("cp1252", "replace")


def _read_tag(tag: str) -> tuple[str, str]:
    name, _, value = tag.partition("=")
    return name, re.sub(r"\\(.?)", lambda sign: _TAG_READ.get(sign[1], sign[1]), value)


def write_line(command: str, *params: str, tags: Mapping[str, str] | None = None) -> bytes:
    """A line with its end. The last parameter may hold spaces, the others may not. BadLine for what cannot be one."""
    if not re.fullmatch(r"[A-Za-z0-9]+", command) or any(map(_ENDS.search, params)):
        raise BadLine("a line within a line")
    if any(not word or " " in word or word.startswith(":") for word in params[:-1]):
        raise BadLine("a word that is none")
    head = ";".join(f"{name}={_write_tag(value)}" for name, value in (tags or {}).items())
    last = f" :{params[-1]}" if params else ""
    text = f"{f'@{head} ' if head else ''}{' '.join([command, *params[:-1]])}{last}\r\n"
    return text.encode("utf-8", "replace")


def _write_tag(value: str) -> str:
    if "\0" in value:
        raise BadLine("a tag that is none")
    return "".join(_TAG_SIGNS.get(sign, sign) for sign in value)


def clean_words(text: str) -> str:
    """A text on one line."""
    return _ENDS.sub(" ", text)


def is_name(text: str) -> bool:
    """Whether it can be the name of somebody or of a channel: one word that ends nothing and begins nothing."""
    return bool(text) and not re.search(r"[\s,\0:*?!@]", text)


def fold(name: str, mapping: str = "rfc1459") -> str:
    """A name as the server compares it. An unknown mapping is taken for the strictest."""
    return name.translate(_FOLDS.get(mapping, _FOLDS["ascii"]))


@lru_cache(maxsize=64)
def find_name(nick: str, mapping: str) -> re.Pattern[str]:
    """A pattern for a nick as a word of its own, in a folded text."""
    letters = r"[\w\[\]\\`^{|}-]"
    return re.compile(rf"(?<!{letters}){re.escape(fold(nick, mapping))}(?!{letters})")
