"""Keeps the requests that came in, byte for byte and in order, in bounded memory and, if asked, in a file."""

import base64
import json
import os
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_lab.values import LabProblem

MOST_REQUESTS = 10_000
MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Recorded:
    """One request as it came in; header names are in lower case."""

    number: int  # counts from 1 since the server started
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name.lower()), None)

    def json(self) -> Any:
        return json.loads(self.body)

    def describe(self) -> Mapping[str, Any]:
        """The request as a JSON object: `body` is text, or `body_base64` when it is not UTF-8."""
        try:
            body = {"body": self.body.decode("utf-8")}
        except UnicodeDecodeError:
            body = {"body_base64": base64.b64encode(self.body).decode("ascii")}
        return {"number": self.number, "method": self.method, "path": self.path, "headers": self.headers, **body}


class Recorder:
    """The oldest requests are forgotten when count or bytes pass the limit; the file keeps all."""

    def __init__(self, file: str | Path | None = None, most: int = MOST_REQUESTS, most_bytes: int = MOST_BYTES) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Recorded] = deque()
        self._bytes = 0
        self._number = 0
        self._most = most
        self._most_bytes = most_bytes
        self._file = _open_private(file) if file is not None else None

    def note(self, method: str, path: str, headers: tuple[tuple[str, str], ...], body: bytes) -> Recorded:
        with self._lock:
            self._number += 1
            recorded = Recorded(self._number, method, path, headers, body)
            self._keep(recorded)
            if self._file is not None:
                self._file.write(json.dumps(recorded.describe(), ensure_ascii=False).encode() + b"\n")
        return recorded

    def _keep(self, recorded: Recorded) -> None:
        self._kept.append(recorded)
        self._bytes += len(recorded.body)
        while len(self._kept) > self._most or (self._bytes > self._most_bytes and len(self._kept) > 1):
            self._bytes -= len(self._kept.popleft().body)

    def list_requests(self) -> tuple[Recorded, ...]:
        with self._lock:
            return tuple(self._kept)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def _open_private(path: str | Path) -> Any:
    """Append to a file that only its owner can read: it holds the keys of the requests."""
    try:
        return open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600))
    except OSError as error:
        raise LabProblem(f"The record file {path} cannot be written: {error.strerror}.") from error
