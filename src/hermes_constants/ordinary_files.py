"""Reads what stands under a path, if it is a file and not too large: the one look at the disk of every layer."""

import errno
import os
import stat
from pathlib import Path


def read_file(path: Path, most: int) -> bytes:
    """The bytes of an ordinary file that has at most so many; whatever else stands there is an OSError. What it is, is
    asked of what was opened: a pipe is not waited for, and a device is not read without end."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # a path with a NUL in it
        raise OSError(errno.EINVAL, "not a path") from error
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file")
        body = file.read(most + 1)
    if len(body) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return body
