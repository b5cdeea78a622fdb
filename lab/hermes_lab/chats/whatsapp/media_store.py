"""Files that were brought up or sent by people: types, sizes, and addresses that hold for a few minutes."""

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.chats.forms import Form
from hermes_lab.chats.record import ChatClock
from hermes_lab.chats.whatsapp.graph_values import (
    BAD_PARAMETER,
    FIELDS,
    MEDIA,
    MEDIA_REFUSED,
    MISSING_PARAMETER,
    GraphError,
)

ADDRESS_SECONDS = 300.0
_MEGABYTE = 1024 * 1024
_OFFICE = "application/vnd.openxmlformats-officedocument."
#: What may go up, and as what it may be sent.
_TYPES: Mapping[str, tuple[str, ...]] = {
    "audio/aac": ("audio",),
    "audio/mp4": ("audio",),
    "audio/mpeg": ("audio",),
    "audio/amr": ("audio",),
    "audio/ogg": ("audio",),
    "image/jpeg": ("image", "document"),
    "image/png": ("image", "document"),
    "image/webp": ("sticker",),
    "video/mp4": ("video", "document"),
    "video/3gpp": ("video", "document"),
    "text/plain": ("document",),
    "application/pdf": ("document",),
    "application/msword": ("document",),
    "application/vnd.ms-excel": ("document",),
    "application/vnd.ms-powerpoint": ("document",),
    f"{_OFFICE}wordprocessingml.document": ("document",),
    f"{_OFFICE}spreadsheetml.sheet": ("document",),
    f"{_OFFICE}presentationml.presentation": ("document",),
}
_MOST: Mapping[str, int] = {"audio": 16, "video": 16, "image": 5, "text": 100, "application": 100}


@dataclass(slots=True)
class StoredMedia:
    id: str
    name: str
    mime: str
    data: bytes
    addresses: dict[str, float] = field(default_factory=dict)  # by mark: until when

    def describe(self) -> dict[str, Any]:
        digest = hashlib.sha256(self.data).hexdigest()
        return {"messaging_product": "whatsapp", "id": self.id, "mime_type": self.mime, "sha256": digest}


class MediaStore:
    def __init__(self, clock: ChatClock) -> None:
        self._clock = clock
        self._numbers = itertools.count(1_700_000_000_001)
        self._marks = itertools.count(1)
        self._files: dict[str, StoredMedia] = {}

    def add(self, name: str, mime: str, data: bytes) -> StoredMedia:
        media = StoredMedia(str(next(self._numbers)), name, mime, data)
        self._files[media.id] = media
        return media

    def upload(self, form: Form) -> StoredMedia:
        if form.values.get("messaging_product") != "whatsapp":
            raise GraphError(BAD_PARAMETER, "Param messaging_product must be whatsapp", FIELDS)
        file = form.files.get("file")
        if file is None:
            raise GraphError(MISSING_PARAMETER, "Param file is needed", FIELDS)
        mime = file.content_type.partition(";")[0].strip().lower()
        if form.values.get("type") != mime:
            raise GraphError(BAD_PARAMETER, "Param type is not that of the file", FIELDS)
        if mime not in _TYPES:
            told = f"Param file must be a file with one of the following types: {', '.join(_TYPES)}."
            raise GraphError(BAD_PARAMETER, f"{told} Received file of type '{mime}'.", MEDIA)
        if not 0 < len(file.data) <= _MOST[mime.partition("/")[0]] * _MEGABYTE:
            raise GraphError(BAD_PARAMETER, f"The file has {len(file.data)} bytes.", MEDIA)
        return self.add(file.name, mime, file.data)

    def find_for(self, kind: str, id: str) -> StoredMedia:
        """A file that is to be sent as this kind."""
        media = self._files.get(id)
        if media is None:
            raise GraphError(BAD_PARAMETER, f"{kind}.id is not known", MEDIA)
        if kind not in _TYPES.get(media.mime, ()):
            raise GraphError(MEDIA_REFUSED, f"A file of type {media.mime} is no {kind}", MEDIA)
        return media

    def open_address(self, id: str, root: str) -> dict[str, Any]:
        media = self._files.get(id)
        if media is None:
            raise GraphError(BAD_PARAMETER, "Unsupported get request. Object does not exist", subcode=33)
        mark = f"m{next(self._marks)}"
        media.addresses[mark] = self._clock.now() + ADDRESS_SECONDS
        return {**media.describe(), "url": f"{root}/attachments/{id}?ext={mark}", "file_size": len(media.data)}

    def download(self, id: str, mark: str) -> bytes | None:
        """The bytes; None when the address holds no more."""
        media = self._files.get(id)
        if media is None or media.addresses.get(mark, 0.0) < self._clock.now():
            return None
        return media.data
