"""What the kernel tells of a process that goes on meanwhile: files are closed and others opened while one looks."""

from contextlib import suppress
from pathlib import Path


def list_open(pid: int) -> set[tuple[int, int]]:
    """The files that a process has open, each by its device and number."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            status = link.stat()
            found.add((status.st_dev, status.st_ino))
    return found


def list_links(pid: int) -> set[str]:
    """What its open files are called: `socket:[17]` for what has no path. What has ended has none."""
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found.add(str(link.readlink()))
    return found


def read_command(pid: int) -> bytes:
    """The words that it was started with, each with a NUL; empty when it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # often asked of every process that there is
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""
