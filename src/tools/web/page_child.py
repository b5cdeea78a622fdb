"""Starts the reading process for one page, and ends it: when it is done, when its time is over, when the turn stops."""

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from hermes_base.errors import ToolFailure
from hermes_base.turn.cancel import CancelToken
from tools.files.programs import CLEAN_ENVIRONMENT
from tools.web.page_reading import PageFacts, PageText

READ_SECONDS = 30.0
#: As many read at once in this process; further ones wait.
AT_ONCE = threading.BoundedSemaphore(3)
_WAIT_STEP = 0.1
_ROOT = str(Path(__file__).resolve().parents[2])
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from tools.web.page_reading import main; main()"


def read_apart(facts: PageFacts, body: bytes, cancel: CancelToken, seconds: float = READ_SECONDS) -> PageText:
    """The text of a page, read in a process that holds nothing else; ToolFailure when it comes to no end."""
    deadline = time.monotonic() + seconds
    while not AT_ONCE.acquire(timeout=_WAIT_STEP):
        cancel.check()
        if time.monotonic() > deadline:
            raise ToolFailure("Too many pages are being read at this moment.", fix="Try it again.")
    try:
        return _read(facts, body, cancel, seconds)
    finally:
        AT_ONCE.release()


def _start() -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", _PROGRAM, _ROOT],
            cwd="/",
            env=dict(CLEAN_ENVIRONMENT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # its words would be the page's
        )
    except OSError as problem:
        raise ToolFailure(f"No process to read the page in can be started: {problem.strerror}.") from problem


def _read(facts: PageFacts, body: bytes, cancel: CancelToken, seconds: float) -> PageText:
    cancel.check()
    with _start() as process:
        forget = cancel.on_cancel(process.kill)
        try:
            said, _ = process.communicate(json.dumps(asdict(facts)).encode() + b"\n" + body, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ToolFailure("The page could not be read in time: it is too large, or made to be slow.") from None
        finally:
            forget()
            process.kill()
    cancel.check()
    with suppress(ValueError, TypeError):
        return PageText(**json.loads(said))
    raise ToolFailure("The page could not be read: it needs more time or memory than it gets, or it is damaged.")
