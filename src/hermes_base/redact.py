"""Takes the values of configured secrets out of text and log records before anyone can read them."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from urllib.parse import quote, quote_plus

#: Shorter values are too common as plain words to be searched for.
SHORTEST_SECRET = 8
_BARE_MARK = "***"

_format_trace = logging.Formatter().formatException


class Redactor:
    """Replaces each secret by `[redacted NAME]`, also where it was escaped for JSON or for an address."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._marks: dict[str, str] = {}
        for name, value in secrets.items():
            if len(value) >= SHORTEST_SECRET:
                self._marks.update(dict.fromkeys(_spellings(value), f"[redacted {name}]"))
        self._longest_first = sorted(self._marks, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without secrets; the same object when it held none."""
        found = self._find(text)
        if found:
            text = _alternatives(found).sub(lambda match: self._marks[match[0]], text)
        # A mark can hold or complete a secret (a name that is one). The bare mark is shorter than any: this ends.
        while found := self._find(text):
            text = _alternatives(found).sub(_BARE_MARK, text)
        return text

    def _find(self, text: str) -> list[str]:
        # A plain search for each is far cheaper than one pattern of all when nothing is there, which is the rule.
        return [spelling for spelling in self._longest_first if spelling in text]


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
        record.msg, record.args = _join_message(record), None
        if record.exc_info and not record.exc_text:
            record.exc_text = _format_trace(record.exc_info)
        record.exc_info = None  # the trace's text stands for it: another formatter would print it uncleaned
        redact = self._find_redact()
        for field, value in vars(record).items():
            if isinstance(value, str) and field not in _PLACES:
                setattr(record, field, redact(value))
        return True


def _join_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):  # arguments that do not fit would make logging print them as they are
        return f"{record.msg} {record.args}"
