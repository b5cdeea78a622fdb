"""`hermes logs`: prints the last lines of the gateway's log for people, and those that come while it looks."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hermes_base.settings import LOG_LEVELS
from hermes_cli.config.logs import is_wanted, log_path, numbered, read_tail, write_line
from hermes_constants import get_hermes_home

LINES = 50
_LOOK_SECONDS = 0.25


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes logs", description="Show the log of the gateway.")
    parser.add_argument("-n", dest="lines", type=_read_count, default=LINES, metavar="N", help=f"lines ({LINES})")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes, until Ctrl-C")
    parser.add_argument(
        "--conversation", default="", metavar="KEY", help="only of this conversation (a part is enough)"
    )
    parser.add_argument("--level", default="", choices=LOG_LEVELS, help="only from this level on")
    parser.add_argument("--json", action="store_true", help="the lines as they are in the file")
    parsed = parser.parse_args(args)
    path = log_path(get_hermes_home())
    if not path.exists() and not parsed.follow:
        print(f"There is no log yet: {path} is written while a gateway runs.", file=sys.stderr)
        return 1
    write = str if parsed.json else write_line
    # Where following begins is looked up first: what is written meanwhile may come twice, and is not missed.
    following = follow(path) if parsed.follow else iter(())
    next(following, None)
    for line in read_tail(path, parsed.lines, parsed.level, parsed.conversation):
        print(write(line), flush=True)
    for line in following:
        if line and is_wanted(line, parsed.level, parsed.conversation):
            print(write(line), flush=True)
    return 0


def _read_count(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of lines")


def follow(path: Path) -> Iterator[str]:
    """Lines that are written from now on, through the change to new files; the first one says only that it looks."""
    file = _try_open(path)
    if file is not None:
        os.lseek(file, 0, os.SEEK_END)
    yield ""
    while True:
        newer = _open_newer(path, file)  # looked up before reading: what has a newer one is complete
        files = newer if file is None else [file, *newer]
        for each in files:
            yield from _read_new(each)
        for done in files[:-1]:
            os.close(done)
        file = files[-1] if files else None
        time.sleep(_LOOK_SECONDS)


def _try_open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None


def _open_newer(path: Path, file: int | None) -> list[int]:
    """The files that were begun after this one, the oldest first; without one, the newest alone."""
    found: list[int] = []
    while (older := _try_open(numbered(path, len(found)))) is not None:
        if file is not None and os.path.samestat(os.fstat(older), os.fstat(file)):
            os.close(older)
            break
        found.append(older)
        if file is None:
            break
    return found[::-1]


def _read_new(file: int) -> Iterator[str]:
    """Whole lines that were not read yet; a piece of one is left for the next look."""
    body = b"".join(iter(lambda: os.read(file, 65536), b""))
    *whole, rest = body.split(b"\n")
    os.lseek(file, -len(rest), os.SEEK_CUR)
    yield from (line.decode("utf-8", "replace") for line in whole if line)
