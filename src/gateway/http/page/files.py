"""Files of the page: what is uploaded is stored below the home under an unguessable id, and every file that a
conversation shows is found again by such an id, never by a path."""

import asyncio
import contextlib
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

from gateway.http.calls import Refusal, too_large
from hermes_base.files.home_files import HomeFiles, find_below, find_own_name
from hermes_base.inbound import SHOWN, UPLOADS, FileRef
from hermes_base.text.file_names import find_kind, make_safe_name
from hermes_constants.ordinary_files import open_private

LEAST_FREE_BYTES = 64 * 1024 * 1024  # what is under way must still find room
WRITTEN_AT_ONCE = 256 * 1024
HEAD_BYTES = 16

_MARKS = {UPLOADS: "u", SHOWN: "s"}
_FOLDERS = {mark: folder for folder, mark in _MARKS.items()}
_ID = re.compile(r"(?:p\.(?P<person>[\w-]{1,64})\.)?(?P<mark>[us])\.(?P<name>[\w-]{8,64})", re.ASCII)


class FileShelf:
    """The files of one home, and of all homes where they travel."""

    def __init__(self, home: Path, most_bytes: Callable[[], int], files: HomeFiles | None = None) -> None:
        """Without `files` it only names those of the home."""
        self._home = home.resolve()
        self._names = (self._home, home.absolute())  # the same place, as paths in the store may have it
        self._most_bytes = most_bytes
        self._files = files

    def most_bytes(self) -> int:
        return min(self._most_bytes(), self._files.most_bytes) if self._files is not None else self._most_bytes()

    # --- taking

    async def store(self, name: str, pieces: AsyncIterator[bytes], length: int) -> tuple[str, FileRef]:
        """Write an upload piece by piece; when it is too large or breaks off, nothing of it stays."""
        most = self.most_bytes()
        self._check_room(length)
        folder = self._home / UPLOADS / secrets.token_hex(16)
        path = folder / make_safe_name(name)
        try:
            size, head = await self._write(path, pieces, most)
            if self._files is not None and self._files.travels:
                await asyncio.to_thread(self._files.keep, path)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        file = FileRef(str(path), path.name, find_kind(path.name, head), size)
        return self.name_file(file), file

    async def _write(self, path: Path, pieces: AsyncIterator[bytes], most: int) -> tuple[int, bytes]:
        size, head, waiting = 0, b"", bytearray()
        file = await asyncio.to_thread(_create, path)
        with contextlib.closing(file):
            async for piece in pieces:
                size += len(piece)
                if size > most:
                    raise too_large(most)
                if len(head) < HEAD_BYTES:
                    head += piece[:HEAD_BYTES]
                waiting += piece
                if len(waiting) >= WRITTEN_AT_ONCE:
                    self._check_room(len(waiting))
                    await asyncio.to_thread(file.write, bytes(waiting))
                    waiting.clear()
            await asyncio.to_thread(_finish, file, bytes(waiting))
        return size, head

    def has_room(self, length: int = 0) -> bool:
        disk = os.statvfs(self._home)
        return disk.f_bavail * disk.f_frsize >= length + LEAST_FREE_BYTES

    def _check_room(self, length: int) -> None:
        if not self.has_room(length):
            raise Refusal(507, "disk_full", "The disk is nearly full, so this file was not taken. Free some space.")

    # --- finding

    def name_file(self, file: FileRef) -> str:
        """The id under which the page may fetch a file; empty: it stands where the page does not look."""
        if self._files is not None:
            name = self._files.name(file.path)
        else:
            below = find_below(self._names, file.path)
            name = find_own_name(below) if below else None
        folder, token, _ = name.path.split("/") if name is not None else ("", "", "")
        if name is None or folder not in _MARKS:
            return ""
        return f"p.{name.person}.{_MARKS[folder]}.{token}" if name.person else f"{_MARKS[folder]}.{token}"

    def find_path(self, id: str) -> Path | None:
        """Where the file of an id is: a plain file, alone in its folder, that no link leads out of there."""
        parsed = _ID.fullmatch(id)
        if parsed is None or self._files is None:
            return None
        found = self._files.find_in(parsed["person"] or "", f"{_FOLDERS[parsed['mark']]}/{parsed['name']}")
        return found[0] if len(found) == 1 else None

    def find_upload(self, id: str) -> FileRef | None:
        """An upload that a message may take along."""
        path = self.find_path(id) if id.startswith("u.") else None
        if path is None:
            return None
        return FileRef(str(path), path.name, find_kind(path.name, read_head(path)), path.stat().st_size)


def read_head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _create(path: Path) -> BinaryIO:
    path.parent.parent.mkdir(mode=0o700, exist_ok=True)
    path.parent.mkdir(mode=0o700)
    return open(path, "xb", opener=open_private)


def _finish(file: BinaryIO, rest: bytes) -> None:
    """A message that is stored must not speak of a file that a power cut took away."""
    file.write(rest)
    file.flush()
    os.fsync(file.fileno())
