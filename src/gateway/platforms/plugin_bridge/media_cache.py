"""Keeps what adapters of plugins received as files below the home, where the house fetches it from."""

import importlib
import mimetypes
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hermes_base.image_types import find_image_type
from hermes_base.text.file_names import make_safe_name
from hermes_constants import get_hermes_home
from hermes_net.address_rules import AddressRules
from hermes_net.call_values import AddressRefused, AnsweredCall, CallFailed, HttpCall

FOLDER = "cache"
MOST_BYTES = 128 * 1024 * 1024
_FETCH_SECONDS = 60.0
#: What stands before the name that a document came with.
CACHED_NAME = re.compile(r"\Adoc_[0-9a-f]{12}_")
#: How pictures begin that no model sees and no page shows, and that people send all the same: BMP, TIFF, HEIC, AVIF.
_OTHER_PICTURE = re.compile(rb"BM|II\*\0|MM\0\*|....ftyp(?:hei[cfx]|mif1|avif)", re.DOTALL)
IMAGE, AUDIO, VIDEO, DOCUMENT = "image", "audio", "video", "document"
_PLACES = {
    IMAGE: ("images", "img"),
    AUDIO: ("audio", "audio"),
    VIDEO: ("videos", "video"),
    DOCUMENT: ("documents", "doc"),
}


@dataclass(frozen=True, slots=True)
class CachedMedia:
    path: str
    media_type: str
    kind: str  # image, video, audio, document
    display_name: str

    def context_note(self) -> str:
        """A line on it for whoever reads the message."""
        return f"[{self.kind} {self.display_name}: {self.path}]"


def cache_image_from_bytes(data: bytes, ext: str = ".jpg") -> str:
    """ValueError when the bytes are no picture."""
    if not find_image_type(data) and not _OTHER_PICTURE.match(data):
        raise ValueError("These bytes are no picture.")
    return _write(IMAGE, data, _clean_suffix(ext, ".jpg"))


def cache_audio_from_bytes(data: bytes, ext: str = ".ogg") -> str:
    return _write(AUDIO, data, _clean_suffix(ext, ".ogg"))


def cache_video_from_bytes(data: bytes, ext: str = ".mp4") -> str:
    return _write(VIDEO, data, _clean_suffix(ext, ".mp4"))


def cache_document_from_bytes(data: bytes, filename: str) -> str:
    base = PurePosixPath(str(filename or "").replace("\0", "").replace("\\", "/")).name
    return _write(DOCUMENT, data, f"_{make_safe_name(base) if base.strip(' .') else 'document'}")


def cache_media_bytes(
    data: bytes, *, filename: str = "", mime_type: str = "", default_kind: str | None = None
) -> CachedMedia | None:
    """Keep it as what its name, its media type or `default_kind` say that it is; None: a picture that is none."""
    guessed = mimetypes.guess_type(filename)[0] or ""
    media_type = guessed or mime_type.partition(";")[0].strip().lower()
    top = media_type.partition("/")[0]
    kind = top if top in (IMAGE, AUDIO, VIDEO) else default_kind or DOCUMENT if not media_type else DOCUMENT
    suffix = PurePosixPath(filename).suffix or mimetypes.guess_extension(media_type) or ""
    name = filename or f"{kind}{suffix}"
    try:
        if kind == IMAGE:
            path = cache_image_from_bytes(data, suffix or ".jpg")
        elif kind == AUDIO:
            path = cache_audio_from_bytes(data, suffix or ".ogg")
        elif kind == VIDEO:
            path = cache_video_from_bytes(data, suffix or ".mp4")
        else:
            path = cache_document_from_bytes(data, name)
    except ValueError:
        return None
    return CachedMedia(path, media_type or "application/octet-stream", kind, make_safe_name(name))


async def cache_image_from_url(url: str, ext: str = ".jpg", retries: int = 2) -> str:
    """ValueError for an address that may not be called, and for what is no picture."""
    return cache_image_from_bytes(await _fetch(url, retries), ext)


async def cache_audio_from_url(url: str, ext: str = ".ogg", retries: int = 2) -> str:
    return cache_audio_from_bytes(await _fetch(url, retries), ext)


def _load_client() -> Any:
    """Late: it brings the HTTP client, which takes a while to load, and few adapters fetch anything."""
    return importlib.import_module("hermes_net.checked_http")


async def _fetch(url: str, retries: int) -> bytes:
    """What a public address answers (G8)."""
    call = HttpCall(url, redirects=5, seconds=_FETCH_SECONDS, most_bytes=MOST_BYTES)
    for left in range(retries, -1, -1):
        try:
            answered: AnsweredCall = await _load_client().call_checked(call, AddressRules())
        except AddressRefused as problem:
            raise ValueError(str(problem)) from problem
        except CallFailed:
            if not left:
                raise
            continue
        if answered.cut:
            raise ValueError("It is larger than is taken.")
        if answered.status < 400:
            return answered.body
        if answered.status < 500 or not left:
            raise ValueError(f"It was answered with status {answered.status}.")
    raise AssertionError("the last try returns")


def _clean_suffix(ext: str, usual: str) -> str:
    name = ext if ext.startswith(".") else f".{ext}"
    return name if name[1:].isalnum() and len(name) <= 12 else usual


def _write(kind: str, data: bytes, ending: str) -> str:
    if len(data) > MOST_BYTES:
        raise ValueError("It is larger than is taken.")
    folder, prefix = _PLACES[kind]
    place = get_hermes_home() / FOLDER / folder
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = Path(place, f"{prefix}_{uuid.uuid4().hex[:12]}{ending}").absolute()
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
    return str(path)
