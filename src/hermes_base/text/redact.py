"""Takes the values of configured secrets out of text and log records before anyone can read them."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from urllib.parse import quote, quote_plus

from hermes_base.text.whole_text import PieceCleaner

#: Shorter values are too common as plain words to be searched for.
SHORTEST_SECRET = 8
_BARE_MARK = "***"
#: So many letters of a secret are looked for in a piece of text before the whole of it is.
_HEAD = 4

_format_trace = logging.Formatter().formatException


class Redactor:
    """Replaces each secret by `[redacted NAME]`, also where it was escaped for JSON or for an address."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._marks: dict[str, str] = {}
        for name, value in secrets.items():
            if len(value) >= SHORTEST_SECRET:
                self._marks.update(dict.fromkeys(_spellings(value), f"[redacted {name}]"))
        self._longest_first = sorted(self._marks, key=len, reverse=True)
        self._longest = len(self._longest_first[0]) if self._marks else 0

    def __call__(self, text: str) -> str:
        """The text without secrets; the same object when it held none."""
        marks = self._marks
        # A plain search for each is far cheaper than one pattern of all when nothing is there, which is the rule.
        while found := [spelling for spelling in self._longest_first if spelling in text]:
            text = _alternatives(found).sub(partial(_write_mark, marks), text)
            # A mark can hold or complete a secret (a name that is one). The bare mark is shorter than any: this ends.
            marks = {}
        return text

    @cached_property
    def may_begin(self) -> Callable[[str, int], re.Match[str] | None]:
        """Looks for a place at which a secret may begin: its first letters, or as many as there are at the end."""
        heads = {spelling[:_HEAD] for spelling in self._marks}
        ends = {head[:size] for head in heads for size in range(1, _HEAD)}
        alternatives = [*map(re.escape, sorted(heads)), *(rf"{re.escape(end)}\Z" for end in sorted(ends))]
        return re.compile("|".join(alternatives) if self._marks else r"(?!)").search

    def count_sure(self, text: str) -> int:
        """How much of a text can be shown although more may come: its end may be the beginning of a secret."""
        place = max(0, len(text) - self._longest + 1)
        while (match := self.may_begin(text, place)) is not None:
            start = match.start()
            tail = text[start:]
            if any(len(spelling) > len(tail) and spelling.startswith(tail) for spelling in self._longest_first):
                return self._end_before(text, start)
            place = start + 1
        return len(text)

    def _end_before(self, text: str, start: int) -> int:
        """A whole secret that reaches over the place is one, whatever begins inside of it."""
        found = [spelling for spelling in self._longest_first if spelling in text]
        for match in _alternatives(found).finditer(text) if found else ():
            if match.start() < start < match.end():
                return match.end() + self.count_sure(text[match.end() :])
        return start


def _write_mark(marks: Mapping[str, str], match: re.Match[str]) -> str:
    return marks.get(match[0], _BARE_MARK)


class LiveText:
    """A text that is shown while it comes, in pieces: what may be the beginning of a secret, or half a character, waits
    for what follows.

    At most the length of the longest secret is held back. A piece in which none can begin costs one search.
    """

    def __init__(self, redact: Redactor, tell: Callable[[str], None]) -> None:
        self._redact = redact
        self._tell = tell
        self._may_begin = redact.may_begin
        self._held = ""
        self._cleaner: PieceCleaner | None = None  # from the first piece on that is not ASCII

    def feed(self, piece: str) -> None:
        if self._cleaner is not None or not piece.isascii():
            self._cleaner = self._cleaner or PieceCleaner()
            piece = self._cleaner.feed(piece)
        text = self._held + piece if self._held else piece
        if self._may_begin(text, 0) is None:
            self._held = ""
            if text:
                self._tell(text)
            return
        sure = self._redact.count_sure(text)
        self._held = text[sure:]
        if sure:
            self._tell(self._redact(text[:sure]))

    def flush(self) -> None:
        """Nothing more comes."""
        held, self._held = self._held + (self._cleaner.finish() if self._cleaner else ""), ""
        if held:
            self._tell(self._redact(held))


def _spellings(value: str) -> set[str]:
    """The ways one value can stand in a text; escapes only ever make it longer."""
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe="", errors="replace"),
        quote(value, errors="replace"),
        quote_plus(value, errors="replace"),
    }


def _alternatives(spellings: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, spellings)))


#: What a record says of the place in our code where it was made: nothing of a person's is there.
_PLACES = frozenset({"name", "levelname", "pathname", "filename", "module", "funcName", "processName", "threadName"})


class RedactingFilter(logging.Filter):
    """Cleans each record before a handler formats it: message, arguments, trace and extra fields."""

    def __init__(self, find_redact: Callable[[], Callable[[str], str]]) -> None:
        super().__init__()
        self._find_redact = find_redact  # asked once for each record: secrets change while a process runs

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):  # arguments that do not fit would be printed as they are
            message = f"{record.msg} {record.args}"
        record.msg, record.args = message, None
        if record.exc_info and not record.exc_text:
            record.exc_text = _format_trace(record.exc_info)
        record.exc_info = None  # the trace's text stands for it: another formatter would print it uncleaned
        redact = self._find_redact()
        for field, value in vars(record).items():
            if isinstance(value, str) and field not in _PLACES:
                setattr(record, field, redact(value))
        return True
