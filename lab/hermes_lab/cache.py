"""The prefix cache of each account: what of a prompt is read from it, what is written to it, what could be read.

Automatic style: a prompt is read as far as it equals an earlier one, from a minimum on and in steps. Marked style: a
prefix is stored where the client set a mark, and read when a mark stands on it or at most 19 blocks after it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from hermes_lab.prompt import LONG_LIFE, Prompt, Trail, lay_trail

DOCUMENTED_MINIMUM = 1024
_STEP = 128
_LOOK_BACK = 20  # blocks that a mark looks at, its own included
_MOST_KEYS = 400_000  # in one table; the older half goes first

Owner = tuple[str, str, str]  # account, format, model


class LabClock:
    """Seconds that pass only when told to: nothing expires by chance."""

    def __init__(self) -> None:
        self.now = 0.0

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Found(NamedTuple):
    """Tokens of one prompt, as its account's cache sees them."""

    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    readable: int = 0  # equal to the beginning of an earlier prompt, however it was marked and however long ago
    previous: int = 0  # could be read if the conversation's last prompt had only been added to


@dataclass(slots=True)
class _Entry:
    life: float
    until: float


@dataclass(slots=True)
class _Shelf:
    """What one owner sent before."""

    seen: dict[bytes, float] = field(default_factory=dict)  # prefix -> the time until which it lives
    marked: dict[bytes, _Entry] = field(default_factory=dict)
    talks: dict[bytes, int] = field(default_factory=dict)  # beginning of a conversation -> size of its last prompt


class PrefixCache:
    """Longest known prefixes by hash; the work grows with the number of blocks and with nothing else."""

    def __init__(self, clock: LabClock, minimum: int | None = DOCUMENTED_MINIMUM) -> None:
        self._clock = clock
        self._minimum = minimum
        self._step = min(_STEP, minimum or _STEP)
        self._shelves: dict[Owner, _Shelf] = {}

    def visit(self, owner: Owner, prompt: Prompt) -> Found:
        """Look a prompt up and keep it for the next one."""
        if self._minimum is None:
            return Found()
        shelf = self._shelves.setdefault(owner, _Shelf())
        trail = lay_trail(prompt)
        seen = _find_last(trail.keys, shelf.seen)
        talked = _find_last(trail.body_keys, shelf.talks)
        previous = shelf.talks[trail.body_keys[talked]] if talked >= 0 else 0
        read, short, long = self._use_marks(shelf, prompt, trail) if prompt.marked else self._use_seen(shelf, trail)
        self._keep(shelf, prompt, trail)
        readable = self._round(trail.totals[seen] if seen >= 0 else 0, prompt)
        return Found(read, short, long, readable, self._round(min(previous, prompt.tokens), prompt))

    def _round(self, tokens: int, prompt: Prompt) -> int:
        if tokens < (self._minimum or 0):
            return 0
        return tokens if prompt.marked else tokens // self._step * self._step

    def _keep(self, shelf: _Shelf, prompt: Prompt, trail: Trail) -> None:
        until = self._clock.now + prompt.life
        shelf.seen.update(dict.fromkeys(trail.keys, until))
        shelf.talks.update(dict.fromkeys(trail.body_keys, prompt.tokens))
        for table in (shelf.seen, shelf.talks, shelf.marked):
            _trim(table)

    def _use_seen(self, shelf: _Shelf, trail: Trail) -> tuple[int, int, int]:
        now = self._clock.now
        for place in range(len(trail.keys) - 1, -1, -1):
            if shelf.seen.get(trail.keys[place], -1.0) >= now:
                total = trail.totals[place]
                return (total // self._step * self._step if total >= (self._minimum or 0) else 0), 0, 0
        return 0, 0, 0

    def _use_marks(self, shelf: _Shelf, prompt: Prompt, trail: Trail) -> tuple[int, int, int]:
        """Read at the longest stored prefix, write from there to the last mark."""
        marks = [mark for mark in _find_marks(prompt) if trail.totals[mark[0]] >= (self._minimum or 0)]
        if not marks:
            return 0, 0, 0
        best = self._find_stored(shelf, marks, trail.keys)
        read = trail.totals[best] if best >= 0 else 0
        for place, life in marks:
            self._store(shelf, trail.keys[place], life)
        if best >= 0:
            self._store(shelf, trail.keys[best], 0.0)
        hour_end = max((trail.totals[place] for place, life in marks if life == LONG_LIFE), default=0)
        long = max(hour_end - read, 0)
        return read, max(trail.totals[marks[-1][0]] - read - long, 0), long

    def _find_stored(self, shelf: _Shelf, marks: list[tuple[int, float]], keys: list[bytes]) -> int:
        for mark, _ in reversed(marks):
            for place in range(mark, max(mark - _LOOK_BACK, -1), -1):
                entry = shelf.marked.get(keys[place])
                if entry is not None and entry.until >= self._clock.now:
                    # What an earlier mark could find beyond this place was looked at already.
                    return place
        return -1

    def _store(self, shelf: _Shelf, key: bytes, life: float) -> None:
        """Store a prefix, or let a living one live on for as long as it was stored for."""
        entry = shelf.marked.get(key)
        if entry is None or entry.until < self._clock.now:
            entry = shelf.marked[key] = _Entry(life, 0.0)
        entry.until = self._clock.now + entry.life


def _find_marks(prompt: Prompt) -> Iterator[tuple[int, float]]:
    for place, block in enumerate((*prompt.head, *prompt.body)):
        if block.life:
            yield place, block.life


def _find_last(keys: list[bytes], known: dict[bytes, Any]) -> int:
    return next((place for place in range(len(keys) - 1, -1, -1) if keys[place] in known), -1)


def _trim(table: dict[bytes, Any]) -> None:
    if len(table) > _MOST_KEYS:
        for key in list(islice(table, len(table) // 2)):
            del table[key]
