"""Serves the built-in model: run by `agent.providers.embedded` as a child, tells its address and key in one line, and
ends when its standard input does."""

import importlib
import json
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Any

from agent.providers.embedded import ENGINE_PACKAGE, WINDOW, find_weights

MODEL = "SmolLM2-135M-Instruct"


def main() -> None:
    weights = find_weights()
    if weights is None:
        sys.exit("There are no weights.")
    told = keep_output()
    engine: Any = importlib.import_module(ENGINE_PACKAGE)
    key = secrets.token_urlsafe(24)  # other users of the machine get nothing from the port
    server = engine.Server(make_parameters(engine, weights, key))
    os.write(told, json.dumps({"base_url": f"{server.listening_address}/v1", "api_key": key}).encode() + b"\n")
    os.close(told)
    sys.stdin.buffer.read()
    os._exit(0)  # the engine's threads are in native code; nothing of theirs has to be saved


def keep_output() -> int:
    """Our own way out. The engine writes its log to standard output as well, which goes nowhere from now on."""
    told = os.dup(1)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)
    return told


def make_parameters(engine: Any, weights: Path, key: str) -> Any:
    parameters = engine.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {MODEL}
    parameters.n_ctx = WINDOW
    parameters.n_parallel = 1
    parameters.port = find_free_port()
    parameters.api_keys = [key]
    parameters.cpuparams.n_threads = min(4, os.cpu_count() or 1)
    parameters.sampling.temp, parameters.sampling.top_p = 0.2, 0.9  # a model of this size wanders off at more
    # Left alone, it says a sentence or counts without end: what was said before becomes less likely, the longer it is.
    parameters.sampling.penalty_last_n, parameters.sampling.penalty_repeat = 256, 1.08
    parameters.sampling.dry_multiplier, parameters.sampling.dry_allowed_length = 0.8, 4
    parameters.sampling.dry_penalty_last_n = WINDOW
    parameters.verbosity = -1
    return parameters


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
