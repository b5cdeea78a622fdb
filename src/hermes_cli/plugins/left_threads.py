"""What plugins leave running when a command has done its work: Python would wait for their threads, and the command
would never end."""

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
from types import FrameType

log = logging.getLogger("hermes_cli.plugins")

PATIENCE = 2.0  # for a thread that is about to end
#: What modules of plugins are called.
_PACKAGES = ("hermes_plugins.", "plugins.memory.", "_hermes_user_memory.", "plugins.context_engine.")


def find_left() -> dict[threading.Thread, str]:
    """Threads that would hold up the end of the program and run code of a plugin, each with the module."""
    frames = sys._current_frames()
    waited_for = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    named = {thread: _find_module(frames.get(thread.ident or 0)) for thread in waited_for}
    return {thread: module for thread, module in named.items() if module}


def _find_module(frame: FrameType | None) -> str:
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(_PACKAGES):
            return name
        frame = frame.f_back
    return ""


def end_with(code: int) -> None:
    """Leave the program with this code if a plugin would keep it from that; else nothing happens."""
    end = time.monotonic() + PATIENCE
    while (left := find_left()) and time.monotonic() < end:
        next(iter(left)).join(0.05)
    if not left:
        return
    for thread, module in left.items():
        log.warning("%s left the thread %s running; it ended with the program", module, thread.name)
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
