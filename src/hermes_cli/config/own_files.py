"""Small files of Hermes itself: one writer at a time, of any thread or process, and each written whole or not at all
(OSError when the disk refuses); read again only when they have changed."""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from hermes_base.errors import ConfigProblem
from hermes_constants.ordinary_files import hold_folder as hold_folder
from hermes_constants.ordinary_files import open_private, read_file

log = logging.getLogger(__name__)

T = TypeVar("T")
UNCHANGED = "Nothing was changed."
#: File systems tell times in steps: two edits within one step can leave the same stamp.
_CLOCK_STEP = 50_000_000  # nanoseconds
_MOST_BYTES = 4_000_000
_WRITING = 1_000_000_000  # nanoseconds that a file may be empty because it is being written


def replace_file(path: Path, text: str) -> None:
    """Put a whole new file in the old one's place, readable for its owner alone; to be called while its folder is held.

    One holder at a time means one name is enough for the new file: what a killed writer left is written over.
    """
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    try:
        with open(new, "x", encoding="utf-8", errors="surrogateescape", newline="", opener=open_private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # without this a power cut could bring the old name back
    finally:
        os.close(folder)


def read_text(path: Path) -> str:
    """The text of a file, empty when there is none."""
    try:
        body = read_file(path, _MOST_BYTES)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        fix = "Save the file as UTF-8 (the editor's setting is often called encoding)."
        raise ConfigProblem(f"{path}, line {line}: this is not valid UTF-8.", kept=UNCHANGED, fix=fix) from error


def _unreadable(path: Path, error: Exception) -> ConfigProblem:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    fix = "Make it a file that you may read, or move it away to start with the defaults."
    return ConfigProblem(f"{path} cannot be read: {reason}.", kept=UNCHANGED, fix=fix)


class WatchedFile(Generic[T]):
    """A file that people edit, and what was made of its text: looked at when it is asked for, read when its stamp has
    changed, made anew when its text has. While it is broken, what was good last can stay in force."""

    def __init__(self, path: Path, holds: str, make: Callable[[Path, str], T]) -> None:
        """`make` raises ConfigProblem for a text that it cannot use."""
        self.path, self._holds, self._make = path, holds, make
        self.made: T | None = None  # of the last text that could be used
        self._guard = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._settled = False  # the stamp was old enough when it was taken to tell of any later edit
        self._text: str | None = None
        self._refusal: ConfigProblem | None = None  # of this text
        self._good: T | None = None
        self._told = ""

    def read(self) -> T:
        """What the file holds now; ConfigProblem when it cannot be used."""
        with self._guard:
            try:
                facts = self.path.stat()
                stamp = facts.st_mtime_ns, facts.st_size, facts.st_ino
            except FileNotFoundError:
                stamp = None
            except (OSError, ValueError) as error:
                raise _unreadable(self.path, error) from error
            if stamp != self._stamp or not self._settled:
                settled = stamp is None or abs(time.time_ns() - stamp[0]) > _CLOCK_STEP
                text = read_text(self.path)
                if text != self._text:
                    try:
                        self.made, self._refusal = self._make(self.path, text), None
                    except ConfigProblem as problem:
                        self._refusal = problem
                self._text, self._stamp, self._settled = text, stamp, settled
            if self._refusal is not None:
                raise ConfigProblem(self._refusal.what, kept=UNCHANGED, fix=self._refusal.fix)
            assert self.made is not None
            return self.made

    def read_last_good(self, check: Callable[[T], object] = bool) -> T:
        """The same; while the file cannot be used, what was good last, and the log says so once for each problem."""
        good, problem = self._good, ""
        try:
            found = self.read()
            if found is not good:
                check(found)
                # Who writes a file in place empties it first: an empty one counts when it has been so for a moment.
                emptied = self._stamp[0] if self._stamp and not self._text else 0
                if good is None or abs(time.time_ns() - emptied) >= _WRITING:
                    good = self._good = found
        except ConfigProblem as error:
            if good is None:
                raise
            problem = str(error)
        told, self._told = self._told, problem
        if problem and problem != told:
            log.warning("The changed %s are not used: %s", self._holds, problem)
        return good
