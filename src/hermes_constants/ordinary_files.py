"""Reads a path as a person wrote it, opens what stands there, if it is a file, and holds folders: the one look at the
disk of every layer."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def expand_home(path: str) -> str:
    """The path with the folder that a `~` at its beginning stands for. Where that is nobody's, as it was written: there
    is no such user, or no user's name can be so."""
    try:
        return os.path.expanduser(path)
    except ValueError:
        return path


def open_file(path: str | Path, *, follow: bool = False, folder: int | None = None) -> BinaryIO:
    """An ordinary file to read. Whatever else stands there is an OSError and leaves nothing open. What it is, is asked
    of what was opened: a pipe is not waited for, and a device is not read without end."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        handle = os.open(path, flags, dir_fd=folder)
    except ValueError as error:  # a path with a NUL in it
        raise OSError(errno.EINVAL, "not a path") from error
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return open(handle, "rb")
    os.close(handle)
    code, kind = (errno.EISDIR, "folder") if stat.S_ISDIR(mode) else (errno.EINVAL, "device, pipe or socket")
    raise OSError(code, f"it is a {kind}, not an ordinary file")


def open_private(path: str, flags: int) -> int:
    """An `opener` for a file that only its owner may read."""
    return os.open(path, flags, 0o600)


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


def read_file(path: Path, most: int) -> bytes:
    """The bytes of an ordinary file that has at most so many; everything else is an OSError."""
    with open_file(path, follow=True) as file:
        body = file.read(most + 1)
    if len(body) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return body
