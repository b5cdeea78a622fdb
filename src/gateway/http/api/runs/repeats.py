"""Knows a request again that a client sends once more, because it says so with a key of its own, or because it heard no
answer: OpenAI's clients repeat themselves, and tell it in a header. The repetition gets the answer of the run that is
there; nothing is paid twice. Where the first went (a conversation, a run) is kept in a file, for after a restart."""

import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gateway.http.api.formats.asking import Ask
from gateway.http.api.runs.run_record import Record
from hermes_base.errors import StoreFailure
from hermes_base.query_values import Caller
from hermes_constants.ordinary_files import open_private

FILE_NAME = "api-repeats.jsonl"
KEPT_SECONDS = 3 * 24 * 3600.0
MOST_KEPT = 20_000
HEADER = "x-stainless-retry-count"
#: A client that heard nothing comes again within a minute; whoever asks the same later wants another answer.
HEARD_SECONDS = 120.0
GOING_SECONDS = 900.0  # so long a run that goes on is found again


class Repeats:
    """Called on threads: it reads and writes a file."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE_NAME
        self._lock = threading.Lock()
        self._places: dict[str, tuple[str, float]] | None = None

    def find(self, name: str, seconds: float = KEPT_SECONDS) -> str:
        """Where this request went in the last so many seconds; empty: it is the first."""
        with self._lock, self._say_errors():
            place, at = self._load().get(name, ("", 0.0))
            return place if time.time() - at <= seconds else ""

    def keep(self, name: str, place: str) -> None:
        """Durable when this returns, so that a run is never begun whose place is not known."""
        with self._lock, self._say_errors():
            places = self._load()
            now = time.time()
            if len(places) >= MOST_KEPT:
                kept = dict(list(places.items())[-MOST_KEPT // 2 :])
                self._places = self._write_anew({**kept, name: (place, now)})
                return
            _write(self._path, "a", json.dumps([name, place, now]) + "\n")
            places[name] = (place, now)

    @contextlib.contextmanager
    def _say_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = f"The file {self._path.name} in the home cannot be read or written: {error.strerror}."
            fix = "Check the disk and what stands there, then ask again."
            raise StoreFailure(what, kept="Nothing of this request was stored.", fix=fix) from error

    def _load(self) -> dict[str, tuple[str, float]]:
        if self._places is None:
            text = self._path.read_bytes().decode("utf-8", "replace") if self._path.exists() else ""
            lines = text.splitlines()
            self._places = self._write_anew(_read(lines, time.time() - KEPT_SECONDS)) if lines else {}
        return self._places

    def _write_anew(self, places: dict[str, tuple[str, float]]) -> dict[str, tuple[str, float]]:
        fresh = self._path.with_suffix(".new")
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        lines = (json.dumps([name, *place]) + "\n" for name, place in places.items())
        _write(fresh, "x", "".join(lines))
        fresh.replace(self._path)
        return places


def _write(path: Path, mode: str, text: str) -> None:
    """To the disk; only this user can read it."""
    with open(path, mode, encoding="utf-8", opener=open_private) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read(lines: Iterable[str], since: float) -> dict[str, tuple[str, float]]:
    """What the lines say; one that was cut by a crash says nothing."""
    places: dict[str, tuple[str, float]] = {}
    for line in lines:
        with contextlib.suppress(ValueError, TypeError, OverflowError, RecursionError):
            name, place, at = json.loads(line)
            if at >= since:
                places[str(name)] = (str(place), float(at))
    return places


def count_repetitions(headers: Mapping[str, str]) -> int | None:
    """How often the client says that it has sent this before; None: it would not say."""
    count = headers.get(HEADER, "")
    return int(count[:4]) if count.isascii() and count.isdigit() else None


def mark_request(caller: Caller, ask: Ask, place: str) -> str:
    """The same for a request and its repetition, whoever else asks the same."""
    said = repr((caller.person, caller.key, place, ask))
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()


def may_be_unheard(record: Record) -> bool:
    """Whether the answer of the run that a request began may not have been heard. One that this process does not live
    to see is asked for anew."""
    if not record.is_over:
        return True
    return record.outcome is not None and time.monotonic() - record.ended <= HEARD_SECONDS
