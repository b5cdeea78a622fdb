"""What Signal is told: a part, a file or a sign becomes the parameters of a call. Pure."""

import base64
import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.platforms.face import Part
from gateway.platforms.signal.wire import read_name
from hermes_base.inbound import Address, FileRef
from hermes_base.text.whole_text import clean_text

MARKED = "styles"  # the dialect of parts that are sent with their markup
MOST_TEXT = 2000  # bytes
MOST_QUOTED = 200  # signs of what is replied to
#: What begins and ends a style, in the signs of the dialect.
_BEGINS: Mapping[str, str] = {"\x0e": "BOLD", "\x10": "ITALIC", "\x12": "STRIKETHROUGH", "\x14": "MONOSPACE"}
_ENDS: Mapping[str, str] = {"\x0f": "BOLD", "\x11": "ITALIC", "\x13": "STRIKETHROUGH", "\x15": "MONOSPACE"}
_SIGNS = re.compile("([\x0e-\x15])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NOT_IN_NAMES = re.compile(r"[;,=%+&\"'\\/\x00-\x1f\x7f]")

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StyledText:
    """A text, and its styles as the daemon takes them: `start:length:STYLE`, counted in UTF-16 units."""

    text: str
    styles: tuple[str, ...] = ()


def read_styles(part: Part) -> StyledText:
    """What people see of a part."""
    if part.markup != MARKED:
        return StyledText(_CONTROL.sub("", clean_text(part.text)))
    bits: list[str] = []
    styles: list[tuple[int, int, str]] = []
    opened: dict[str, int] = {}
    at = 0
    for bit in _SIGNS.split(clean_text(part.text)):
        if bit in _BEGINS:
            opened.setdefault(_BEGINS[bit], at)
        elif bit in _ENDS:
            start = opened.pop(_ENDS[bit], at)
            styles += [(start, at - start, _ENDS[bit])] if at > start else []
        else:
            bits.append(_CONTROL.sub("", bit))
            at += len(bits[-1].encode("utf-16-le")) // 2
    styles += [(start, at - start, style) for style, start in opened.items() if at > start]
    return StyledText("".join(bits), tuple(f"{start}:{length}:{style}" for start, length, style in sorted(styles)))


def measure_shown(part: Part) -> int:
    """Bytes of what people see of the text."""
    return len(read_styles(part).text.encode())


# --- messages


def place(address: Address) -> dict[str, Any]:
    """To whom."""
    return {"groupId": address.chat} if address.kind == "group" else {"recipient": [address.chat]}


def make_message(part: Part, quoted: str = "") -> Params:
    """`quoted`: the text of the message that it replies to, if it is known."""
    return {**place(part.address), **_text(part), **_reply(part, quoted)}


def make_edit(latest: int, part: Part, quoted: str = "") -> Params:
    """`latest`: when the message, or its last edit, was sent. Clients look for that one, and for no other."""
    return {**make_message(part, quoted), "editTimestamp": latest}


def _text(part: Part) -> dict[str, Any]:
    shown = read_styles(part)
    return {"message": shown.text, **({"textStyle": list(shown.styles)} if shown.styles else {})}


def _reply(part: Part, quoted: str) -> dict[str, Any]:
    named = read_name(part.reply_to)
    if named is None:
        return {}
    sent, author = named
    return {"quoteTimestamp": sent, "quoteAuthor": author, "quoteMessage": clean_text(quoted)[:MOST_QUOTED]}


# --- signs


def make_typing(address: Address) -> Params:
    return place(address)


def make_receipt(message: str) -> Params | None:
    """That a message was read; None: that is no message of a person."""
    named = read_name(message)
    if named is None:
        return None
    sent, author = named
    return {"recipient": author, "targetTimestamp": sent, "type": "read"}


# --- files


def make_file(part: Part, file: FileRef, data: bytes) -> Params:
    """A file with its caption. Its bytes go along: the daemon may be on another machine, or another user."""
    caption = _text(part) if read_styles(part).text.strip() else {}
    return {**place(part.address), **caption, **_reply(part, ""), "attachments": [_write_data(file, data)]}


def _write_data(file: FileRef, data: bytes) -> str:
    kind = mimetypes.guess_type(file.name, strict=False)[0] or "application/octet-stream"
    name = _NOT_IN_NAMES.sub("_", clean_text(file.name)) or "file"
    return f"data:{kind};filename={name};base64,{base64.b64encode(data).decode('ascii')}"


def make_fetch(id: str, chat: Address) -> Params:
    to = {"groupId": chat.chat} if chat.kind == "group" else {"recipient": chat.chat}
    return {"id": id, **to}
