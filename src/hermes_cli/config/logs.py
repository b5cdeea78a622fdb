"""The log of the gateway: JSON lines in a file of the home, which begins anew when it is large, read back from its end.

The terminal shows what `log.level` says. The file holds `info` and above of our own packages and warnings of anybody
else, whatever that setting is, and everything once it is `debug`.
"""

import errno
import json
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hermes_base.errors import ConfigProblem
from hermes_base.settings import LogSettings
from hermes_base.text.redact import RedactingFilter
from hermes_base.turn.turn_context import current_turn
from hermes_cli import config

log = logging.getLogger(__name__)

FOLDER, FILE = "logs", "gateway.log"
#: What a line may say beside its words, when it is known; given as `extra=` or taken from the turn.
FIELDS = ("conversation", "turn", "provider", "model", "reason", "seconds", "tokens")
#: Loggers whose `info` belongs into the file; other libraries tell more than anybody reads.
PACKAGES = (
    *("gateway", "run_agent", "agent", "tools", "plugins", "model_tools"),
    *("hermes_cli", "hermes_state", "hermes_base"),
    *("hermes_plugins", "_hermes_user_memory"),  # below them stands each plugin and each memory with its own
)
_BLOCK = 64 * 1024
#: Of lines alike, so many are written in so many seconds; the rest is counted.
ALIKE_SECONDS = 60.0
MOST_WARNINGS, MOST_INFOS = 20, 1_000
MOST_KINDS = 2_000
_KIND_CHARS = 80
_TELLS_FLOOD = "tells_flood"
_LEFT_OUT = "{count} more lines like this were left out: {words}"
_LOST = "{count} lines of the log were lost: {reason}."


def log_path(home: Path) -> Path:
    return home / FOLDER / FILE


# --- writing


def name_turn(record: logging.LogRecord) -> bool:
    """A filter: names the turn that a line belongs to, where its thread works for one."""
    turn = current_turn.get()
    if turn is not None and "conversation" not in vars(record):
        record.conversation, record.turn = turn.conversation, turn.turn
    return True


class FloodFilter(logging.Filter):
    """Keeps a flood of like lines out of a handler, so that none fills the disk: of lines that one place in the code
    writes with the same words, a few a minute pass; the others are counted, and the number is told."""

    def __init__(self, handler: logging.Handler, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._handler, self._clock, self._since = handler, clock, clock()
        self._seen: Counter[tuple[str, int, str, int]] = Counter()  # place, words, how many of them may pass
        self._guard = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if vars(record).get(_TELLS_FLOOD):
            return True
        if self._clock() - self._since >= ALIKE_SECONDS or len(self._seen) >= MOST_KINDS:
            self.tell_rest()
        most = MOST_WARNINGS if record.levelno >= logging.WARNING else MOST_INFOS
        kind = (record.pathname, record.lineno, str(record.msg)[:_KIND_CHARS], most)
        with self._guard:
            self._seen[kind] += 1
            return self._seen[kind] <= most

    def tell_rest(self) -> None:
        """The period is over, or the log ends: what was left out is told."""
        with self._guard:
            seen, self._seen, self._since = self._seen, Counter(), self._clock()
        for (_, _, words, most), count in seen.items():
            if count > most:
                text = _LEFT_OUT.format(count=count - most, words=words.partition("\n")[0])
                note = logging.LogRecord(__name__, logging.WARNING, "", 0, text, None, None)
                vars(note)[_TELLS_FLOOD] = True
                self._handler.handle(note)


class JsonLines(logging.Formatter):
    """One record, one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        known = vars(record)
        line |= {name: known[name] for name in FIELDS if known.get(name)}
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        if trace:
            line["trace"] = trace
        return json.dumps(line, ensure_ascii=False, default=str)


class BriefLines(logging.Formatter):
    """A record without its trace, of which only the last line, the reason, stands behind the words."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        line, trace = self.formatMessage(record), (record.exc_text or "").rstrip()
        return f"{line} ({trace.rpartition(chr(10))[2]}; the trace: hermes logs)" if trace else line


class LogFile(logging.Handler):
    """Appends whole lines to a file of mode 0600. A line is in one file or the next, never in none; what a full disk
    does not take is counted, and told when it takes lines again."""

    def __init__(self, path: Path, limit: int, files: int) -> None:
        """`limit`: bytes at which a new file begins; `files`: how many old ones are kept."""
        super().__init__()
        self._path = path
        self._limit = limit
        self._files = files
        self._lost = 0
        self._why = ""
        self._torn = False  # the last line is not whole
        self._file = -1
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._open()

    def emit(self, record: logging.LogRecord) -> None:
        if self._file < 0:
            return  # a thread that outlived the gateway
        try:
            text = self.format(record)
            if self._lost:
                lost = _LOST.format(count=self._lost, reason=self._why)
                told = logging.LogRecord(__name__, logging.WARNING, "", 0, lost, None, None)
                text = f"{self.format(told)}\n{text}"
            line = ("\n" * self._torn + text + "\n").encode("utf-8", "backslashreplace")
            if self._size and self._size + len(line) > self._limit:
                self._begin_anew()
            written = os.write(self._file, line)  # one call: lines of two processes do not mix
            self._size += written
            self._torn = written < len(line)
            if self._torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._lost = 0
        except OSError as error:
            self._lost, self._why = self._lost + 1, error.strerror or str(error)
        except (TypeError, ValueError):  # a record that cannot be written must not end what wrote it
            self.handleError(record)

    def close(self) -> None:
        self.acquire()
        try:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
        finally:
            self.release()
        super().close()

    def _begin_anew(self) -> None:
        """Rename and open: the old file keeps every line, and nobody waits for more than a few names to change."""
        try:
            is_ours = os.path.samestat(os.fstat(self._file), self._path.stat())
        except FileNotFoundError:
            is_ours = False
        if is_ours:  # and no other process has begun a new file meanwhile
            for number in range(self._files, 0, -1):
                older = numbered(self._path, number - 1)
                if older.exists():
                    older.replace(numbered(self._path, number))
        os.close(self._file)
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._file).st_size


def numbered(path: Path, number: int) -> Path:
    """The file that is so many files old; 0: the one that is written to."""
    return path.with_name(f"{path.name}.{number}") if number else path


@contextmanager
def keep_log(home: Path, brief: bool = False) -> Iterator[None]:
    """Write the log of the gateway while it runs here; one that cannot be written is told, and does not stop it. With
    `brief` the terminal, where somebody chats, gets no traces: they stand in the file."""
    try:
        section = config.load_settings().log
    except ConfigProblem:  # the gateway itself will report it
        section = LogSettings()
    try:
        handler = LogFile(log_path(home), section.megabytes * 1_000_000, section.files)
    except OSError as error:
        log.warning("There is no log: %s cannot be written (%s).", log_path(home), error.strerror)
        yield
        return
    handler.setFormatter(JsonLines())
    handler.addFilter(name_turn)
    handler.addFilter(RedactingFilter(config.redactor))
    handler.set_name(FILE)
    # What is shown in a terminal is a file, too, where a service runs the gateway.
    terminals = [each for each in logging.getLogger().handlers if each.name == config.TERMINAL]
    floods = [(each, FloodFilter(each)) for each in (handler, *terminals)]
    for each, flood in floods:
        each.addFilter(flood)
    formatters = [(each, each.formatter) for each in terminals if brief and section.level != "debug"]
    for each, _ in formatters:
        each.setFormatter(BriefLines(config.TERMINAL_LINE))
    loggers = [logging.getLogger(), *map(logging.getLogger, PACKAGES)]
    before = [(logger, logger.level) for logger in loggers]
    logging.getLogger().addHandler(handler)
    set_level(section.level)
    try:
        yield
    finally:
        for each, formatter in formatters:
            each.setFormatter(formatter)
        for each, flood in floods:
            flood.tell_rest()
            each.removeFilter(flood)
        logging.getLogger().removeHandler(handler)
        handler.close()
        for logger, level in before:
            logger.setLevel(level)


def set_level(name: str) -> None:
    """`log.level` rules the terminal; the file has at least `info`."""
    level = logging.getLevelNamesMapping()[name.upper()]
    root = logging.getLogger()
    root.setLevel(min(level, logging.WARNING))
    for package in PACKAGES:
        logging.getLogger(package).setLevel(min(level, logging.INFO))
    for handler in root.handlers:
        if handler.name == FILE:
            handler.setLevel(min(level, logging.INFO))
        elif handler.name == config.TERMINAL:
            handler.setLevel(level)


# --- reading


def read_backwards(path: Path) -> Iterator[str]:
    """The lines of the log, the newest first, through the older files; a block at a time."""
    number = 0
    while True:
        try:
            file = os.open(numbered(path, number), os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            yield from _read_file_backwards(file)
        finally:
            os.close(file)
        number += 1


def _read_file_backwards(file: int) -> Iterator[str]:
    at = os.fstat(file).st_size
    rest = b""  # the beginning of a line whose start is further up
    while at > 0:
        size = min(_BLOCK, at)
        at -= size
        first, *whole = (os.pread(file, size, at) + rest).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in reversed(whole) if line)
        rest = first
    if rest:
        yield rest.decode("utf-8", "replace")


def read_tail(path: Path, count: int, level: str = "", conversation: str = "") -> list[str]:
    """The last lines, in order; with a level or a conversation, those from that level on and of that conversation."""
    found: list[str] = []
    for line in read_backwards(path):
        if len(found) >= count:
            break
        if is_wanted(line, level, conversation):
            found.append(line)
    return found[::-1]


def is_wanted(line: str, level: str, conversation: str) -> bool:
    if not level and not conversation:
        return True
    entry = parse_line(line)
    numbers = logging.getLevelNamesMapping()
    high = numbers.get(str(entry.get("level", "")).upper(), logging.CRITICAL)
    return (not level or high >= numbers[level.upper()]) and conversation in str(entry.get("conversation", ""))


def parse_line(line: str) -> dict[str, Any]:
    """What a line says; one that is no JSON is its own message."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    return entry if isinstance(entry, dict) else {"message": line}


def write_line(line: str) -> str:
    """A line for people: local time, level, who says it, what, and what it is about; its trace below."""
    entry = parse_line(line)
    about = "  ".join(f"{name}={entry[name]}" for name in FIELDS if entry.get(name))
    told = {name: str(entry.get(name) or "") for name in ("time", "level", "logger", "message")}
    who = told["logger"] and f"{told['logger']}:"
    parts = (_write_time(told["time"]), told["level"].upper(), who, told["message"], about and f"[{about}]")
    head = " ".join(filter(None, parts))
    trace = str(entry.get("trace", ""))
    return "\n".join([head, *(f"    {row}" for row in trace.splitlines())])


def _write_time(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return text
