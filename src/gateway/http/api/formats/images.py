"""Images that come inside of a request: read from their data addresses, and kept as files of the home."""

import base64
import binascii
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.http.api.problems import wrong
from hermes_base.files.home_files import HomeFiles
from hermes_base.inbound import PEOPLE, UPLOADS, FileRef
from hermes_base.query_values import Caller

IMAGE_BYTES = 5_000_000  # a model is shown no larger ones
MOST_IMAGES = 20
_DATA = re.compile(r"data:(image/[a-z+.-]+);base64,", re.IGNORECASE)
_ENDINGS: Mapping[str, str] = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
NOT_FETCHED = (
    "Images are not fetched from the network. Send the image itself, as a data: address, or name the address in your "
    "text, where the agent's own tools can look at it."
)


@dataclass(frozen=True, slots=True)
class Image:
    ending: str
    data: bytes = field(repr=False)


def read_image(address: str, param: str) -> Image:
    """The image of a `data:` address; a sentence for anything else."""
    found = _DATA.match(address)
    if found is None:
        raise wrong(param, NOT_FETCHED, "unsupported")
    ending = _ENDINGS.get(found[1].lower())
    if ending is None:
        raise wrong(param, "An image must be PNG, JPEG, GIF or WebP.", "unsupported")
    if len(address) - found.end() > IMAGE_BYTES * 4 // 3 + 4:
        raise wrong(param, f"An image must not be larger than {IMAGE_BYTES // 1_000_000} MB.", "too_large")
    try:
        data = base64.b64decode(address[found.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise wrong(param, "The image is not valid base64.") from error
    if not data:
        raise wrong(param, "The image is empty.")
    return Image(ending, data)


def keep_images(files: HomeFiles, home: Path, caller: Caller, images: Sequence[Image]) -> tuple[FileRef, ...]:
    """Files that only this user can read, in a folder of their own whose name nobody can guess. It stands where the
    caller's files are kept: what belongs to a person goes when they are forgotten."""
    own = home if caller.is_owner else home / PEOPLE / caller.person
    folder = own / UPLOADS / secrets.token_hex(16)
    folder.mkdir(mode=0o700, parents=True)
    kept = tuple(_keep(folder / f"image-{number}.{image.ending}", image) for number, image in enumerate(images, 1))
    for file in kept:
        files.keep(Path(file.path))
    return kept


def _keep(path: Path, image: Image) -> FileRef:
    path.touch(mode=0o600)
    path.write_bytes(image.data)
    return FileRef(str(path), path.name, "image", len(image.data))
