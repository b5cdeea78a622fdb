"""F5: names every callback that held the gateway's event loop for too long."""

import asyncio
import threading
import time

import pytest

LONGEST = 0.05  # seconds of the loop's own thread


def watch_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What took too long, by name; the gateway's loop runs on a thread of that name."""
    culprits: list[str] = []
    run = asyncio.events.Handle._run

    def watched(handle: asyncio.Handle) -> None:
        named = repr(handle)
        begun = time.thread_time()
        run(handle)
        spent = time.thread_time() - begun
        if spent > LONGEST and threading.current_thread().name == "gateway":
            culprits.append(f"{1000 * spent:.0f} ms: {named}")

    monkeypatch.setattr(asyncio.events.Handle, "_run", watched)
    return culprits
