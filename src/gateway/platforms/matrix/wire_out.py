"""What a room is told: a part or a file becomes the content of an event. Pure."""

import hashlib
import json
import mimetypes
import re
from collections.abc import Mapping
from typing import Any

from gateway.platforms.face import Part
from gateway.platforms.matrix.wire import (
    CREATE,
    ENCRYPTED,
    ENCRYPTION,
    MEMBER,
    MESSAGE,
    POLLS,
    REDACTION,
    STICKER,
    TOMBSTONE,
)
from hermes_base.inbound import FileRef
from hermes_base.text.whole_text import clean_text

HTML = "html"  # the dialect of parts that are sent with their markup
MOST_BYTES = 45_000  # of a content: encrypted and wrapped it has to stay below the 65,536 of an event
TIMELINE_EVENTS = 50  # of a room in one answer; what lies before them is asked for
Content = dict[str, Any]

#: What each sync asks for. Members come as they speak; who is there counts, and is told in the summary.
SYNC_FILTER: Mapping[str, Any] = {
    "presence": {"types": []},
    "account_data": {"types": []},
    "room": {
        "account_data": {"types": []},
        "ephemeral": {"types": []},
        "state": {"types": [CREATE, MEMBER, ENCRYPTION, TOMBSTONE], "lazy_load_members": True},
        "timeline": {
            "types": [MESSAGE, STICKER, ENCRYPTED, CREATE, MEMBER, ENCRYPTION, TOMBSTONE, REDACTION, *POLLS],
            "limit": TIMELINE_EVENTS,
            "lazy_load_members": True,
        },
    },
}
#: Nobody is called by what a text says, however it looks; without this servers look for names in it.
_MENTIONS: Content = {"m.mentions": {}}


def make_message(part: Part) -> Content:
    return _fit(
        {"msgtype": "m.text", **_write_text(part), **_relate(part)},
        {"msgtype": "m.text", "body": _read_plain(part), **_relate(part)},
    )


def make_edit(message: str, part: Part) -> Content:
    """The new text, and for clients without edits the same with a star before it."""
    related = {"m.relates_to": {"rel_type": "m.replace", "event_id": message}, **_MENTIONS}
    plain = _read_plain(part)
    new = {"msgtype": "m.text", **_write_text(part), **_MENTIONS}
    bare = {"msgtype": "m.text", "body": plain, **_MENTIONS}
    return _fit(
        {"msgtype": "m.text", "body": f"* {plain}", "m.new_content": new, **related},
        {"msgtype": "m.text", "body": f"* {plain}", "m.new_content": bare, **related},
        {"msgtype": "m.text", "body": "* …", "m.new_content": bare, **related},
    )


def make_file(part: Part, file: FileRef, place: Mapping[str, Any]) -> Content:
    """A file with its caption; `place`: where its bytes are, as `url` or, encrypted, as `file`."""
    caption = _write_text(part) if _read_plain(part).strip() else {"body": file.name}
    mimetype = guess_type(file.name)
    info = {"size": file.size, "mimetype": mimetype}
    kind = {"image": "m.image", "audio": "m.audio"}.get(file.kind, "m.file")
    kind = "m.video" if mimetype.startswith("video/") else kind
    return {"msgtype": kind, **caption, "filename": file.name, "info": info, **place, **_relate(part)}


def guess_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def make_name(salt: str, *parts: str) -> str:
    """The id of a transaction: the same for a repetition, and another one in another home, whose rows have the same
    numbers."""
    return hashlib.sha256("\0".join((salt, *parts)).encode("utf-8", "replace")).hexdigest()[:40]


def is_message_id(platform_id: str) -> bool:
    return platform_id.startswith("$")


def measure_shown(part: Part) -> int:
    """Bytes of what people see of the text."""
    return len(_read_plain(part).encode("utf-8", "surrogatepass"))


def _read_plain(part: Part) -> str:
    return clean_text(part.plain or part.text if part.markup == HTML else part.text)


def _write_text(part: Part) -> Content:
    if part.markup != HTML:
        return {"body": _read_plain(part)}
    html = _break_lines(clean_text(part.text))
    plain = _read_plain(part)
    return {"body": plain, "format": "org.matrix.custom.html", "formatted_body": html}


_PRE = re.compile(r"(<pre>.*?</pre>)", re.DOTALL)


def _break_lines(html: str) -> str:
    """In HTML a new line is a tag, but for code."""
    bits = _PRE.split(html)
    return "".join(bit if index % 2 else bit.replace("\n", "<br>") for index, bit in enumerate(bits))


def _relate(part: Part) -> Content:
    """The thread that it belongs to, and the message that it answers. Nobody is mentioned by an answer."""
    reply = {"m.in_reply_to": {"event_id": part.reply_to}} if is_message_id(part.reply_to) else {}
    thread = part.address.thread
    if thread:
        fallback = reply or {"m.in_reply_to": {"event_id": thread}}
        related = {"rel_type": "m.thread", "event_id": thread, "is_falling_back": not reply, **fallback}
        return {**_MENTIONS, "m.relates_to": related}
    return {**_MENTIONS, **({"m.relates_to": reply} if reply else {})}


def _fit(*forms: Content) -> Content:
    """The first of these that is not too large; the last is what there is."""
    return next((form for form in forms if measure(form) <= MOST_BYTES), forms[-1])


def measure(content: Content) -> int:
    return len(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
