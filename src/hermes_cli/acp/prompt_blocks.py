"""What an editor sends as a prompt, as a message of Hermes: a text, and files beside it."""

import base64
import binascii
import mimetypes
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acp import schema

from hermes_base.inbound import UPLOADS, FileRef
from hermes_base.text.file_names import make_safe_name
from hermes_cli.acp.tool_shapes import fence

MOST_INLINE = 32 * 1024  # bytes of an attached text that stand in the message itself
MOST_FILES = 20
MOST_FILE_BYTES = 20 * 1024 * 1024

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


class UnfitPrompt(Exception):
    """A prompt that cannot be taken, and in one sentence why."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """Something that came with a prompt and is kept as a file."""

    name: str
    kind: str  # image, audio, file
    data: bytes


@dataclass(frozen=True, slots=True)
class PromptWords:
    text: str
    files: tuple[NewFile, ...] = ()


def read_prompt(blocks: Sequence[Block], folder: str) -> PromptWords:
    """Pure: words and links in their order, then the texts of files in the folder that came along. What is long or no
    text is a file, and so is what is from elsewhere, as a page that the editor fetched: files are foreign text (G9)."""
    said: list[str] = []
    attached: list[str] = []
    files: list[NewFile] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                said.append(block.text)
            case schema.ResourceContentBlock():
                said.append(f"[{block.title or block.name}]({name_place(block.uri)})")
            case schema.ImageContentBlock():
                files.append(_read_media(block.data, block.mime_type, "image", block.uri or ""))
            case schema.AudioContentBlock():
                files.append(_read_media(block.data, block.mime_type, "audio", ""))
            case schema.EmbeddedResourceContentBlock():
                _take_resource(block.resource, folder, attached, files)
    text = "\n\n".join(filter(None, ("".join(said).strip(), *attached)))
    if not text and not files:
        raise UnfitPrompt("The prompt is empty.")
    if len(files) > MOST_FILES:
        raise UnfitPrompt(f"A prompt brings at most {MOST_FILES} files.")
    return PromptWords(text, tuple(files))


def _take_resource(
    resource: schema.TextResourceContents | schema.BlobResourceContents,
    folder: str,
    attached: list[str],
    files: list[NewFile],
) -> None:
    place = name_place(resource.uri)
    if isinstance(resource, schema.BlobResourceContents):
        kind = (resource.mime_type or "").partition("/")[0]
        kind = kind if kind in ("image", "audio") else "file"
        files.append(_read_media(resource.blob, resource.mime_type or "", kind, resource.uri))
    elif is_own(resource.uri, folder) and len(resource.text.encode("utf-8", "replace")) <= MOST_INLINE:
        attached.append(f"{place}:\n{fence(resource.text)}")
    else:
        name = os.path.basename(place) or "attached.txt"
        files.append(NewFile(name, "file", resource.text.encode("utf-8", "replace")))


def _read_media(encoded: str, media_type: str, kind: str, uri: str) -> NewFile:
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise UnfitPrompt(f"The data of an attached {kind} is no base64.") from problem
    if not data or len(data) > MOST_FILE_BYTES:
        raise UnfitPrompt(f"An attached {kind} is empty, or larger than {MOST_FILE_BYTES // 1024**2} MB.")
    ending = mimetypes.guess_extension(media_type.partition(";")[0].strip()) or ""
    name = os.path.basename(urlsplit(uri).path)
    return NewFile(name if os.path.splitext(name)[1] else f"{name or kind}{ending}", kind, data)


def is_own(uri: str, folder: str) -> bool:
    """Whether it is a file of the folder that the person works in."""
    parts = urlsplit(uri)
    path = os.path.normpath(unquote(parts.path))
    return parts.scheme == "file" and parts.netloc in ("", "localhost") and path.startswith(folder.rstrip("/") + "/")


def name_place(uri: str) -> str:
    """A path for a file of this machine, else the address as it is."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return uri
    lines = f"#{parts.fragment}" if parts.fragment else ""
    return f"{unquote(parts.path)}{lines}"


def keep_files(files: Sequence[NewFile], home: Path) -> tuple[FileRef, ...]:
    """Write them where the agent can read them."""
    return tuple(_keep(files, home))


def _keep(files: Sequence[NewFile], home: Path) -> Iterator[FileRef]:
    for file in files:
        folder = home / UPLOADS / secrets.token_hex(16)
        folder.mkdir(parents=True, mode=0o700)
        path = folder / make_safe_name(file.name)
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as opened:
            opened.write(file.data)
        yield FileRef(str(path), path.name, file.kind, len(file.data))
