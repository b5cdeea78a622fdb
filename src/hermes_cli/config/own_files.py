"""Small files of Hermes itself: one writer at a time, of any thread or process, and each written whole or not at all.
OSError when the disk refuses."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hermes_constants.ordinary_files import open_private


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Let one writer at a time change files here, so that two edits at once are both kept."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace_file(path: Path, text: str) -> None:
    """Put a whole new file in the old one's place, readable for its owner alone; to be called while its folder is held.

    One holder at a time means one name is enough for the new file: what a killed writer left is written over.
    """
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "x", encoding="utf-8", errors="surrogateescape", newline="", opener=open_private) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # without this a power cut could bring the old name back
    finally:
        os.close(folder)
