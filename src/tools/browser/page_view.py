"""A page as text with numbered elements: every frame and open shadow root of it, in the order in which they are seen.

A number stays with its element as long as that is in its document, and is never given to another one: what was shown is
what is clicked, or nothing is.

The script that looks runs in a world of its own, which no script of a page reaches. What it says is checked all the
same: a frame has the numbers that the helper gave to it, and no others.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hermes_base.errors import ToolFailure
from tools.browser.driver import DriverError

FRAME_SECONDS = 5.0
INNER_SECONDS = 2.0  # for a frame in a page
MOST_FRAMES = 40
MOST_NEW = 10_001  # numbers that one look at a frame may give; the script stops before
ENGINE = "hermes"  # the name of our script among the engines for selectors
_SILENT = "(this frame does not answer)"


class BadSight(Exception):
    """A frame said something that our script does not say."""


@dataclass(frozen=True, slots=True)
class FrameSight:
    """What was seen of one frame: lines, with a number in the place of each frame inside; and the numbers in use."""

    lines: tuple[str | int, ...]
    numbers: frozenset[int]
    next: int
    cut: bool


class ElementNumbers:
    """Of one task: no two elements of it get the same one."""

    def __init__(self) -> None:
        self.next = 1

    def take(self) -> int:
        self.next += 1
        return self.next - 1

    def skip_to(self, number: int) -> None:
        self.next = max(self.next, number)


@lru_cache(1)
def read_engine() -> str:
    """The script, as the driver takes it."""
    return Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def read_sight(text: str, first: int, known: frozenset[int]) -> FrameSight:
    """What the script says; BadSight unless all is of the right kind, and every number is new or of this frame."""
    try:
        told = json.loads(text)
        lines = tuple(line["frame"] if isinstance(line, dict) else line for line in told["lines"])
        numbers, following, cut = told["numbers"], told["next"], told["cut"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadSight from error
    if type(following) is not int or not first <= following <= first + MOST_NEW or not isinstance(numbers, list):
        raise BadSight
    allowed = known | frozenset(range(first, following))
    named = [*numbers, *(line for line in lines if not isinstance(line, str))]
    if any(type(number) is not int or number not in allowed for number in named):
        raise BadSight
    return FrameSight(lines, frozenset(numbers), following, bool(cut))


class PageView:
    """What was shown of one tab: the numbers, with the frames that they belong to, and the last text."""

    def __init__(self, numbers: ElementNumbers) -> None:
        self.text = ""
        self._numbers = numbers
        self._owners: dict[int, Any] = {}  # a number: the frame that it was given to
        self._silent: dict[Any, str] = {}  # a frame that did not answer: what stood in it

    async def look(self, page: Any) -> str:
        """Show the page anew; TimeoutError when its script does not let go."""
        frames = set(page.frames)
        self._owners = {number: frame for number, frame in self._owners.items() if frame in frames}
        self._silent = {frame: url for frame, url in self._silent.items() if frame in frames}
        left = iter(range(MOST_FRAMES))
        lines, cut = await self._look_at(page.main_frame, left)
        self.text = "\n".join([*lines, *(["[the page is too large: the rest is left out]"] if cut else [])])
        return self.text

    async def find(self, number: object) -> Any:
        """The element with this number."""
        frame = self._owners.get(number) if type(number) is int else None
        found = None
        if frame is not None:
            try:
                async with asyncio.timeout(FRAME_SECONDS):
                    found = await frame.query_selector(f"{ENGINE}=find:{number}")
            except DriverError:  # its document is gone
                found = None
        if found is None:
            raise ToolFailure(
                f"Element {number} is not on the page (any more).", fix="Take a snapshot for the numbers."
            )
        return found

    async def _look_at(self, frame: Any, left: Iterator[int], seconds: float = FRAME_SECONDS) -> tuple[list[str], bool]:
        seen = await self._read(frame, seconds)
        lines: list[str] = []
        cut = seen.cut
        for line in seen.lines:
            if isinstance(line, str):
                lines.append(line)
                continue
            child = await self._find_child(line)
            inner, was_cut = await self._look_inside(child, left) if child is not None else ([], False)
            cut = cut or was_cut
            lines += [f"[{line} frame]", *(f"  {one}" for one in inner)]
        return lines, cut

    async def _look_inside(self, frame: Any, left: Iterator[int]) -> tuple[list[str], bool]:
        """A frame that hangs, or has just gone, takes nothing else with it."""
        if next(left, None) is None:
            return [], True
        if self._silent.get(frame) == frame.url:
            return [_SILENT], False
        try:
            return await self._look_at(frame, left, INNER_SECONDS)
        except (DriverError, TimeoutError, BadSight):
            self._silent[frame] = frame.url
            return [_SILENT], False

    async def _read(self, frame: Any, seconds: float) -> FrameSight:
        first = self._numbers.take()
        async with asyncio.timeout(seconds):
            told = await frame.text_content(f"{ENGINE}=look:{first}", timeout=0)
        known = frozenset(number for number, owner in self._owners.items() if owner is frame)
        seen = read_sight(told or "", first, known)
        self._numbers.skip_to(seen.next)
        self._owners.update(dict.fromkeys(seen.numbers, frame))
        return seen

    async def _find_child(self, number: int) -> Any:
        """The frame inside the element with this number; None: it has just gone."""
        try:
            element = await self.find(number)
            async with asyncio.timeout(FRAME_SECONDS):
                return await element.content_frame()
        except (ToolFailure, DriverError, TimeoutError):
            return None


async def find_host(frame: Any) -> str:
    """The host that a frame belongs to. One without an address of its own belongs to whoever made what is in it, which
    the page around it need not be; empty: that is nobody who can be named."""
    parts = urlsplit(frame.url)
    if parts.scheme not in ("http", "https"):
        async with asyncio.timeout(FRAME_SECONDS):
            parts = urlsplit(json.loads(await frame.text_content(f"{ENGINE}=origin", timeout=0) or '""'))
    return parts.hostname or ""


def cut_page(text: str, offset: int, most: int) -> str:
    """A part of a long text that ends with a line, and how to go on."""
    if offset and offset >= len(text):
        raise ToolFailure(f"The page has {len(text)} characters; offset {offset} is past its end.")
    end = offset + most
    if end >= len(text):
        return text[offset:]
    line_end = text.rfind("\n", offset + 1, end)
    end = line_end + 1 if line_end > 0 else end
    return f"{text[offset:end].rstrip()}\n[characters {offset}-{end} of {len(text)}; go on with snapshot, offset {end}]"
