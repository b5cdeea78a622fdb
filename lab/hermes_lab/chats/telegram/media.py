"""Methods with files: pictures, documents, sounds, albums, and the way back."""

import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

from hermes_lab.chats.forms import SentFile
from hermes_lab.chats.telegram.api_values import (
    FIELDS,
    LENGTH,
    MOST_DOWNLOAD,
    MOST_PHOTO,
    MOST_UPLOAD,
    ApiError,
    bad,
    need,
    rows_of,
)
from hermes_lab.chats.telegram.calling import Calling, Method, read_place
from hermes_lab.chats.telegram.keyboards import read_keyboard
from hermes_lab.chats.telegram.sending import read_caption
from hermes_lab.chats.telegram.world import StoredFile, World

_IN_ALBUMS = ("photo", "video", "document", "audio")


def send_file(calling: Calling, kind: str) -> Any:
    calling.need("chat_id", kind)
    chat, fields = read_place(calling)
    file = _find_file(calling, kind, calling.parameters.text(kind), calling.parameters.file(kind))
    keyboard = read_keyboard(calling.parameters, calling.complain)
    fields |= {**describe_media(file), **read_caption(calling)}
    if keyboard:
        fields["reply_markup"] = keyboard
    message = calling.world.add_message(chat, calling.bot.describe(), **fields)
    message.file = file.name
    return message.body


def send_album(calling: Calling) -> Any:
    calling.need("chat_id", "media")
    chat, place = read_place(calling)
    pieces = rows_of(calling.parameters.json("media", list, "media") or [], "InputMedia")
    if not 2 <= len(pieces) <= 10:
        raise bad("wrong number of messages to send: an album has 2 to 10", LENGTH)
    kinds = {need(piece, "type", str, "InputMedia") for piece in pieces}
    if not kinds <= set(_IN_ALBUMS) or (len(kinds) > 1 and kinds & {"document", "audio"}):
        raise bad("can't use the media of the specified type in the album", FIELDS)
    ready = [(_find_piece(calling, piece), read_caption(calling, piece)) for piece in pieces]
    album = str(135_000_000 + next(calling.world.numbers))
    bodies = []
    for file, caption in ready:
        fields = {**place, **describe_media(file), **caption, "media_group_id": album}
        message = calling.world.add_message(chat, calling.bot.describe(), **fields)
        message.file = file.name
        bodies.append(message.body)
    return bodies


def _find_piece(calling: Calling, piece: Mapping[str, Any]) -> StoredFile:
    return _find_file(calling, piece["type"], need(piece, "media", str, "InputMedia"), None)


def _find_file(calling: Calling, kind: str, named: str, sent: SentFile | None) -> StoredFile:
    """The file of a call: a part of it, one that is named by `attach://`, or one that is known already."""
    if named.startswith("attach://"):
        sent = calling.parameters.file(named.removeprefix("attach://"))
        if sent is None:
            raise bad(f"wrong file attached: there is no part {named.removeprefix('attach://')}", FIELDS)
    if sent is not None:
        return keep_sent(calling.world, kind, sent)
    if named.startswith(("http://", "https://")):
        raise bad("failed to get HTTP URL content")
    known = calling.world.files.get(named)
    if known is None:
        raise bad("wrong file identifier/HTTP URL specified" if named else f"there is no {kind} in the request", FIELDS)
    return known


def keep_sent(world: World, kind: str, sent: SentFile) -> StoredFile:
    size = len(sent.data)
    if not size:
        raise bad("file must be non-empty", FIELDS)
    if size > MOST_UPLOAD:
        raise ApiError(413, "Request Entity Too Large", LENGTH)
    if kind == "photo":
        if size > MOST_PHOTO:
            raise bad("file is too big", LENGTH)
        measured = measure_image(sent.data)
        if measured is None:
            raise bad("IMAGE_PROCESS_FAILED")
        width, height = measured
        if width + height > 10_000 or max(width, height) > 20 * min(width, height):
            raise bad("PHOTO_INVALID_DIMENSIONS")
    return world.keep_file(kind, sent.name, sent.content_type, sent.data)


def describe_media(file: StoredFile) -> dict[str, Any]:
    """The fields of a message with this file."""
    basic = file.describe()
    names = {"file_name": file.name, "mime_type": file.content_type}
    if file.kind == "photo":
        width, height = measure_image(file.data) or (1280, 960)
        small = {**basic, "file_id": f"{file.file_id}-s", "file_unique_id": f"{file.unique_id}s", "file_size": 1000}
        scale = max(width, height) / 90
        sizes = {"width": max(1, round(width / scale)), "height": max(1, round(height / scale))}
        return {"photo": [{**small, **sizes}, {**basic, "width": width, "height": height}]}
    if file.kind == "voice":
        return {"voice": {**basic, "duration": 3, "mime_type": file.content_type}}
    if file.kind == "audio":
        return {"audio": {**basic, **names, "duration": 3}}
    if file.kind == "sticker":
        shape = {"type": "regular", "width": 512, "height": 512, "is_animated": False, "is_video": False}
        return {"sticker": {**basic, **shape, "emoji": file.name}}
    if file.kind == "video_note":
        return {"video_note": {**basic, "length": 240, "duration": 3}}
    if file.kind in ("video", "animation"):
        moving = {**basic, **names, "width": 640, "height": 480, "duration": 3}
        return {file.kind: moving, **({"document": {**basic, **names}} if file.kind == "animation" else {})}
    return {"document": {**basic, **names}}


def measure_image(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF or JPEG; None: it is no picture."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return width, height
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return 512, 512
    return _measure_jpeg(data) if data.startswith(b"\xff\xd8") else None


def _measure_jpeg(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        kind, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + size
    return None


def get_file(calling: Calling) -> Any:
    calling.need("file_id")
    name = calling.parameters.text("file_id")
    file = calling.world.files.get(name) or calling.world.files.get(name.removesuffix("-s"))
    if file is None:
        raise bad("wrong file_id or the file is temporarily unavailable")
    if file.size > MOST_DOWNLOAD:
        raise bad("file is too big")
    return {**file.describe(), "file_path": file.path}


def find_download(world: World, path: str) -> StoredFile | None:
    return next((file for file in world.files.values() if file.path == path), None)


METHODS: Mapping[str, Method] = {
    "sendPhoto": partial(send_file, kind="photo"),
    "sendDocument": partial(send_file, kind="document"),
    "sendVoice": partial(send_file, kind="voice"),
    "sendAudio": partial(send_file, kind="audio"),
    "sendVideo": partial(send_file, kind="video"),
    "sendAnimation": partial(send_file, kind="animation"),
    "sendMediaGroup": send_album,
    "getFile": get_file,
}
