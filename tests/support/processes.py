"""What the kernel tells of a process that goes on meanwhile: files are closed and others opened while one looks."""

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

_numbers = count(1)


def sleep_for_a_day() -> str:
    """A command that is found by its words, and given by nobody else: other workers, and whoever else runs the tests on
    this machine, look for their own."""
    return f"sleep {90_000 + next(_numbers)}.{os.getpid():07}"


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


def find_processes(words: str) -> dict[int, str]:
    """Other processes of this machine with these words in their command line."""
    lines = {
        pid: read_command(pid).replace(b"\0", b" ").decode(errors="replace")
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit())
        if pid != os.getpid()
    }
    return {pid: line for pid, line in lines.items() if words in line}
