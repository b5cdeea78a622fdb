"""When a timed job is due: reads what people write (`30m`, `every 1h`, `0 9 * * *`, a moment), finds the next time.

Pure. Times are aware; one without a zone is this machine's.
"""

import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

ONCE, INTERVAL, CRON = "once", "interval", "cron"
_DURATION = re.compile(r"(\d+)\s*(m|min|mins|minutes?|h|hrs?|hours?|d|days?)", re.IGNORECASE)
_MINUTES = {"m": 1, "h": 60, "d": 24 * 60}
_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: Least and most of each field, and the names of its values from the least on.
_FIELDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 7, _DAYS))
_FURTHEST = 8 * 366 + 1  # days: the 29th of February can be eight years away
_LONGEST = 10 * 366 * 24 * 60  # minutes
_HELP = "Write it like '30m', 'every 2h', '0 9 * * *' or '2030-01-31T09:00'."


def read_schedule(text: str, now: datetime) -> dict[str, Any]:
    """`kind` with `run_at`, `minutes` or `expr`, and `display`; ValueError, with what can be written, for others."""
    text = text.strip()
    repeated = re.fullmatch(r"every\s+(.+)", text, re.IGNORECASE)
    if repeated:
        minutes = _read_duration(repeated[1])
        return {"kind": INTERVAL, "minutes": minutes, "display": f"every {minutes}m"}
    if _DURATION.fullmatch(text):
        run_at = now + timedelta(minutes=_read_duration(text))
        return {"kind": ONCE, "run_at": run_at.isoformat(), "display": f"once in {text}"}
    if len(text.split()) == len(_FIELDS):
        _read_fields(text)
        return {"kind": CRON, "expr": text, "display": text}
    try:
        moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} says no time. {_HELP}") from None
    return {"kind": ONCE, "run_at": moment.isoformat(), "display": f"once at {moment:%Y-%m-%d %H:%M}"}


def find_next(schedule: Mapping[str, Any], now: datetime, last: datetime | None = None) -> datetime | None:
    """When it is due after now; None: never again. An interval counts from the last run, if there was one."""
    if schedule["kind"] == ONCE:
        return None if last else datetime.fromisoformat(schedule["run_at"])
    if schedule["kind"] == INTERVAL:
        step = timedelta(minutes=schedule["minutes"])
        return max((last or now) + step, now)
    return _find_next_of_cron(schedule["expr"], now)


def _read_duration(text: str) -> int:
    found = _DURATION.fullmatch(text.strip())
    minutes = int(found[1]) * _MINUTES[found[2][0].lower()] if found else 0
    if not 0 < minutes <= _LONGEST:
        raise ValueError(f"{text!r} is no length of time. {_HELP}")
    return minutes


def _read_fields(expression: str) -> list[set[int]]:
    """The values that each field of a cron expression allows; Sunday is 0."""
    found = [_read_field(text, *limits) for text, limits in zip(expression.split(), _FIELDS, strict=True)]
    found[4] = {day % 7 for day in found[4]}
    return found


def _read_field(text: str, least: int, most: int, names: tuple[str, ...]) -> set[int]:
    allowed: set[int] = set()
    for part in text.lower().split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is no field of a cron expression. {_HELP}")
        first = _read_value(match[1], least, names) if match[1] else least
        # A start alone is one value, and with a step all that follow.
        last = _read_value(match[2], least, names) if match[2] else first if match[1] and not match[3] else most
        step = int(match[3] or 1)
        if not least <= first <= last <= most or not step:
            raise ValueError(f"{text!r} is not between {least} and {most}. {_HELP}")
        allowed.update(range(first, last + 1, step))
    return allowed


def _read_value(word: str, least: int, names: tuple[str, ...]) -> int:
    if word in names:
        return names.index(word) + least
    if not word.isdecimal():
        raise ValueError(f"{word!r} is no value of a cron expression. {_HELP}")
    return int(word)


def _find_next_of_cron(expression: str, now: datetime) -> datetime | None:
    minutes, hours, days, months, weekdays = _read_fields(expression)
    _, _, day_text, _, weekday_text = expression.split()
    # As cron has it: a day of the month and a day of the week, both given, are two ways to be meant.
    both = not day_text.startswith("*") and not weekday_text.startswith("*")

    def is_meant(day: date) -> bool:
        hits = day.day in days, (day.weekday() + 1) % 7 in weekdays
        return day.month in months and (any(hits) if both else all(hits))

    own = now.astimezone()
    for ahead in range(_FURTHEST):
        day = own.date() + timedelta(days=ahead)
        if is_meant(day):
            times = (time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes))
            moments = (datetime.combine(day, each).astimezone() for each in times)
            if (found := next((moment for moment in moments if moment > own), None)) is not None:
                return found
    return None
