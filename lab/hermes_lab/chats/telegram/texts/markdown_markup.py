"""Telegram's MarkdownV2 and its older Markdown: the text and the entities of it, or the error that Telegram tells."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_lab.chats.telegram.api_values import MARKUP, ApiError, bad
from hermes_lab.chats.telegram.texts.entities import Entity, units

_RESERVED = "_*[]()~`>#+-=|{}.!\\"
#: Longer marks stand first.
_MARKS: tuple[tuple[str, str], ...] = (
    ("```", "pre"),
    ("__", "underline"),
    ("||", "spoiler"),
    ("`", "code"),
    ("_", "italic"),
    ("*", "bold"),
    ("~", "strikethrough"),
)
_NAMES: Mapping[str, str] = {
    "bold": "Bold",
    "italic": "Italic",
    "underline": "Underline",
    "strikethrough": "Strikethrough",
    "spoiler": "Spoiler",
    "code": "Code",
    "pre": "Pre",
    "text_link": "TextUrl",
    "custom_emoji": "CustomEmoji",
}
_ENDS: Mapping[str, str] = {kind: mark for mark, kind in _MARKS} | {"text_link": "]", "custom_emoji": "]"}


@dataclass(slots=True)
class _Begun:
    kind: str
    offset: int  # in UTF-16 units of what is left
    start: int  # number of pieces before it
    place: int  # in the source
    language: str = ""


class MarkdownReader:
    """MarkdownV2."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._text: list[str] = []
        self._units = 0
        self._open: list[_Begun] = []
        self._found: list[Entity] = []
        self._quote: tuple[int, bool] | None = None  # where a quotation began, and whether it can be folded

    def read(self) -> tuple[str, list[Entity]]:
        while self._at < len(self._source):
            self._step()
        if self._open:
            begun = self._open[-1]
            place = len(self._source[: begun.place].encode())
            raise _problem(f"Can't find end of {_NAMES[begun.kind]} entity at byte offset {place}")
        self._end_quote()
        return "".join(self._text), self._found

    def _step(self) -> None:
        inside = self._open[-1].kind if self._open else ""
        char = self._source[self._at]
        if char == "\\" and "\0" < self._source[self._at + 1 : self._at + 2] < "\x7f":
            self._add(self._source[self._at + 1])
            self._at += 2
        elif inside in ("code", "pre"):
            if self._source.startswith(_ENDS[inside], self._at):
                self._close()
            else:
                self._add_next()
        elif self._starts_line() and self._begin_quote():
            return
        elif char == "\n":
            self._add_next()
            if self._quote is not None and not self._source.startswith(">", self._at):
                self._end_quote()
        elif char not in _RESERVED:
            self._add_next()
        else:
            self._read_mark(inside)

    def _starts_line(self) -> bool:
        return not self._open and (self._at == 0 or self._source[self._at - 1] == "\n")

    def _begin_quote(self) -> bool:
        folded = self._source.startswith("**>", self._at)
        if not folded and self._source[self._at] != ">":
            return False
        self._at += 3 if folded else 1
        if self._quote is None or folded:
            self._end_quote()
            self._quote = (self._units, folded)
        return True

    def _end_quote(self) -> None:
        if self._quote is None:
            return
        offset, folded = self._quote
        self._quote = None
        length = self._units - offset
        if self._text and self._text[-1] == "\n":
            length -= 1
        if length > 0:
            self._found.append(Entity("expandable_blockquote" if folded else "blockquote", offset, length))

    def _read_mark(self, inside: str) -> None:
        if inside and self._source.startswith(_ENDS[inside], self._at) and not self._is_longer(inside):
            self._close()
            return
        if self._ends_folded_quote():
            self._at += 2
            return
        for mark, kind in _MARKS:
            if self._source.startswith(mark, self._at):
                self._begin(kind, mark)
                return
        if self._source.startswith("![", self._at):
            self._begin("custom_emoji", "![")
        elif self._source[self._at] == "[":
            self._begin("text_link", "[")
        else:
            char = self._source[self._at]
            raise _problem(f"Character '{char}' is reserved and must be escaped with the preceding '\\'")

    def _is_longer(self, inside: str) -> bool:
        """`__` inside of italic is the mark of underline."""
        is_open = any(begun.kind == "underline" for begun in self._open)
        return inside == "italic" and self._source.startswith("__", self._at) and not is_open

    def _ends_folded_quote(self) -> bool:
        if self._quote is None or not self._quote[1] or not self._source.startswith("||", self._at):
            return False
        return self._source[self._at + 2 : self._at + 3] in ("", "\n")

    def _begin(self, kind: str, mark: str) -> None:
        begun = _Begun(kind, self._units, len(self._text), self._at)
        self._at += len(mark)
        if kind == "pre":
            end = self._at
            while end < len(self._source) and not self._source[end].isspace() and self._source[end] != "`":
                end += 1
            if end > self._at and self._source[end : end + 1] in (" ", "\n"):
                begun.language = self._source[self._at : end]
                self._at = end
            if self._source[self._at : self._at + 1] == "\n":
                self._at += 1
        self._open.append(begun)

    def _close(self) -> None:
        begun = self._open.pop()
        self._at += len(_ENDS[begun.kind])
        more: dict[str, str] = {"language": begun.language} if begun.language else {}
        if begun.kind in ("text_link", "custom_emoji"):
            address = self._read_address("".join(self._text[begun.start :]))
            if begun.kind == "custom_emoji":
                more["custom_emoji_id"] = address.rpartition("id=")[2]
            else:
                more["url"] = address
        if self._units > begun.offset:
            self._found.append(Entity(begun.kind, begun.offset, self._units - begun.offset, more))

    def _read_address(self, text: str) -> str:
        if self._source[self._at : self._at + 1] != "(":
            return text
        begin, self._at = self._at, self._at + 1
        found: list[str] = []
        while self._source[self._at : self._at + 1] not in ("", ")"):
            self._at += self._source[self._at] == "\\" and self._at + 1 < len(self._source)
            found.append(self._source[self._at])
            self._at += 1
        if self._at >= len(self._source):
            raise _problem(f"Can't find end of a URL at byte offset {len(self._source[:begin].encode())}")
        self._at += 1
        return "".join(found)

    def _add_next(self) -> None:
        self._add(self._source[self._at])
        self._at += 1

    def _add(self, text: str) -> None:
        self._text.append(text)
        self._units += units(text)


def read_old_markdown(source: str) -> tuple[str, list[Entity]]:
    """The Markdown of old: nothing stands inside of anything else."""
    text, found, at = "", list[Entity](), 0
    kinds = {"_": "italic", "*": "bold", "`": "code", "[": "text_link"}
    while at < len(source):
        char = source[at]
        if char == "\\" and source[at + 1 : at + 2] in (*kinds, "["):
            text, at = text + source[at + 1], at + 2
        elif char not in kinds:
            text, at = text + char, at + 1
        else:
            mark = "```" if source.startswith("```", at) else "]" if char == "[" else char
            end = source.find(mark, at + len("[" if char == "[" else mark))
            if end < 0:
                place = len(source[:at].encode())
                raise _problem(f"Can't find end of the entity starting at byte offset {place}")
            body = source[at + len("[" if char == "[" else mark) : end]
            kind, more, at = ("pre" if mark == "```" else kinds[char]), dict[str, str](), end + len(mark)
            if kind == "text_link" and source[at : at + 1] == "(":
                close = source.find(")", at)
                close = len(source) if close < 0 else close
                more, at = {"url": source[at + 1 : close]}, close + 1
            if body and (kind != "text_link" or more):
                found.append(Entity(kind, units(text), units(body), more))
            text += body
    return text, found


def _problem(what: str) -> ApiError:
    return bad(f"can't parse entities: {what}", MARKUP)
