"""What a model can take in of a file: pictures as parts of a message, and what somebody said aloud as text, which
nobody does unless a plugin offers to."""

import base64
import logging
import mimetypes
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hermes_base.inbound import FileRef
from hermes_cli.plugins import find_offers
from hermes_constants.ordinary_files import read_file

log = logging.getLogger(__name__)

Transcribe = Callable[[Path], str]
OFFER = "transcription_provider"
#: Images up to this size are shown to the model; larger files are only named.
IMAGE_BYTES = 5_000_000


def find_transcriber() -> Transcribe | None:
    """What the last plugin offered with `ctx.register_transcription_provider`: a function that takes a path and gives
    back text, or something with such a `transcribe`, which may also answer as a `TranscriptionProvider` does."""
    for offer in reversed(find_offers(OFFER)):
        found = getattr(offer, "transcribe", offer)
        if callable(found):
            return lambda path, transcribe=found: read_transcript(transcribe(path))  # type: ignore[misc]
        log.warning("a plugin offers a transcription that cannot be called: %r", offer)
    return None


def read_transcript(answer: Any) -> str:
    """The text of an answer: the answer itself, or its `transcript`; a failure raises what it says."""
    if isinstance(answer, Mapping):
        if answer.get("success") is False:
            raise ValueError(str(answer.get("error") or "the provider wrote nothing down"))
        answer = answer.get("transcript")
    return str(answer or "").strip()


def read_images(files: Iterable[FileRef]) -> list[dict[str, Any]]:
    """Images that came along, as parts that a model can see."""
    images = []
    for file in files:
        kind = mimetypes.guess_type(file.name)[0] or "image/png"
        try:
            body = read_file(Path(file.path), IMAGE_BYTES)
        except OSError as error:
            log.warning("an image that came with a message cannot be read: %s", error)
            continue
        if body:
            address = f"data:{kind};base64,{base64.b64encode(body).decode()}"
            images.append({"type": "image_url", "image_url": {"url": address}})
    return images
