"""Images that came with a message, as a model is shown them."""

import base64
import logging
import mimetypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hermes_base.inbound import FileRef
from hermes_constants.ordinary_files import read_file

log = logging.getLogger(__name__)

#: Images up to this size are shown to the model; larger files are only named.
IMAGE_BYTES = 5_000_000


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
