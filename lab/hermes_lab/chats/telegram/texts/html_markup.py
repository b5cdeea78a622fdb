"""Telegram's HTML: the text and the entities of it, or the error that Telegram tells."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes_lab.chats.telegram.api_values import MARKUP, ApiError, bad
from hermes_lab.chats.telegram.texts.entities import Entity, units

_KINDS: Mapping[str, str] = {
    "a": "text_link",
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "u": "underline",
    "ins": "underline",
    "tg-spoiler": "spoiler",
    "tg-emoji": "custom_emoji",
    "tg-time": "date_time",
    "span": "spoiler",
    "pre": "pre",
    "code": "code",
    "blockquote": "blockquote",
}
_ESCAPES: Mapping[str, str] = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_ESCAPE = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,4}));?")
_NAME = re.compile(r"[^\s>]*")
_ATTRIBUTE = re.compile(r"\s*([^\s=>\"']+)\s*(?:=\s*(\"[^\"]*\"|'[^']*'|[^\s>\"']+))?")
_LINK = re.compile(r"(?:https?|tg|ton|mailto|tel)://?\S+|mailto:\S+|tel:\S+|[\w-]+(?:\.[\w-]+)+(?:[/:?#]\S*)?", re.I)


@dataclass(slots=True)
class _Tag:
    name: str
    offset: int  # in the text that is left, in UTF-16 units
    start: int  # in characters
    attributes: Mapping[str, str] = field(default_factory=dict)


class HtmlReader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._text: list[str] = []
        self._units = 0
        self._open: list[_Tag] = []
        self._found: list[Entity] = []

    def read(self) -> tuple[str, list[Entity]]:
        while self._at < len(self._source):
            char = self._source[self._at]
            if char == "<":
                self._read_tag()
            elif char == "&":
                self._add(self._read_escape())
            else:
                self._add(char)
                self._at += 1
        if self._open:
            raise _problem(f'Can\'t find end tag corresponding to start tag "{self._open[-1].name}"')
        return "".join(self._text), self._found

    def _add(self, text: str) -> None:
        self._text.append(text)
        self._units += units(text)

    def _read_escape(self) -> str:
        match = _ESCAPE.match(self._source, self._at)
        if match is None:
            self._at += 1
            return "&"
        decimal, hexadecimal, name = match.groups()
        char = _ESCAPES.get(name) if name else _character(int(decimal) if decimal else int(hexadecimal, 16))
        if char is None:
            self._at += 1
            return "&"
        self._at = match.end()
        return char

    def _read_tag(self) -> None:
        begin = self._at
        self._at += 1
        if self._source.startswith("/", self._at):
            self._at += 1
            self._close(begin)
            return
        name = self._take(_NAME).lower()
        if name not in _KINDS:
            raise _problem(f'Unsupported start tag "{name}" at byte offset {self._bytes(begin)}')
        attributes = self._read_attributes(begin)
        if name == "span" and attributes.get("class") != "tg-spoiler":
            raise _problem(f'Tag "span" must have class "tg-spoiler" at byte offset {self._bytes(begin)}')
        if name == "tg-emoji" and "emoji-id" not in attributes:
            raise _problem(f"Custom emoji identifier is not specified at byte offset {self._bytes(begin)}")
        self._open.append(_Tag(name, self._units, len(self._text), attributes))

    def _read_attributes(self, begin: int) -> Mapping[str, str]:
        found: dict[str, str] = {}
        while True:
            while self._source[self._at : self._at + 1].isspace():
                self._at += 1
            if self._at >= len(self._source):
                raise _problem(f"Unclosed start tag at byte offset {self._bytes(begin)}")
            if self._source[self._at] == ">":
                self._at += 1
                return found
            match = _ATTRIBUTE.match(self._source, self._at)
            if match is None:
                raise _problem(f"Unclosed start tag at byte offset {self._bytes(begin)}")
            self._at = match.end()
            found[match.group(1).lower()] = _unescape((match.group(2) or "").strip("\"'"))

    def _close(self, begin: int) -> None:
        if not self._open:
            raise _problem(f"Unexpected end tag at byte offset {self._bytes(begin)}")
        name = self._take(_NAME).lower()
        while self._source[self._at : self._at + 1].isspace():
            self._at += 1
        if self._source[self._at : self._at + 1] != ">":
            raise _problem(f"Unclosed end tag at byte offset {self._bytes(begin)}")
        self._at += 1
        tag = self._open.pop()
        if name not in ("", tag.name):
            where = self._bytes(begin)
            raise _problem(f'Unmatched end tag at byte offset {where}, expected "</{tag.name}>", found "</{name}>"')
        self._keep(tag)

    def _keep(self, tag: _Tag) -> None:
        length = self._units - tag.offset
        if length == 0:
            return
        kind, more = _KINDS[tag.name], {}
        if tag.name == "a":
            more["url"] = tag.attributes.get("href") or "".join(self._text[tag.start :])
            if not _LINK.fullmatch(more["url"]):
                return
        if tag.name == "blockquote" and "expandable" in tag.attributes:
            kind = "expandable_blockquote"
        if tag.name == "tg-emoji":
            more["custom_emoji_id"] = tag.attributes["emoji-id"]
        if tag.name == "code":
            language = tag.attributes.get("class", "")
            if self._open and self._open[-1].name == "pre" and language.startswith("language-"):
                more["language"] = language.removeprefix("language-")
        self._found.append(Entity(kind, tag.offset, length, more))
        if tag.name == "pre":
            self._join_code(tag.offset, length)

    def _join_code(self, offset: int, length: int) -> None:
        """`<pre><code class="language-x">` is one block with a language."""
        inner = next((e for e in self._found if (e.kind, e.offset, e.length) == ("code", offset, length)), None)
        if inner is not None:
            self._found.remove(inner)
            self._found[-1] = Entity("pre", offset, length, inner.more)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._source, self._at)
        taken = match.group() if match else ""
        self._at += len(taken)
        return taken

    def _bytes(self, place: int) -> int:
        return len(self._source[:place].encode())


def _character(code: int) -> str | None:
    return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else None


def _unescape(value: str) -> str:
    def replace(match: re.Match[str]) -> str:
        decimal, hexadecimal, name = match.groups()
        found = _ESCAPES.get(name) if name else _character(int(decimal) if decimal else int(hexadecimal, 16))
        return match.group() if found is None else found

    return _ESCAPE.sub(replace, value)


def _problem(what: str) -> ApiError:
    return bad(f"can't parse entities: {what}", MARKUP)
