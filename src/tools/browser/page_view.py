"""A page as text with numbered elements: every frame and open shadow root of it, in the order in which they are seen.

A number stays with its element as long as that is in its document, and is never given to another one: what was shown is
what is clicked, or nothing is.
"""

import asyncio
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from hermes_base.errors import ToolFailure
from tools.browser.driver import DriverError

FRAME_SECONDS = 5.0
INNER_SECONDS = 2.0  # for a frame in a page
MOST_FRAMES = 40
_NEW_STATE = "() => ({ numbers: new WeakMap(), elements: new Map() })"
_FIND = (
    "(state, number) => { const found = state.elements.get(number)?.deref(); return found?.isConnected ? found : null }"
)
_NUMBER = "(state, element) => state.numbers.get(element) ?? 0"
_SILENT = "(this frame does not answer)"


@lru_cache(1)
def _script() -> str:
    return Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


class PageView:
    """What was shown of one tab: the numbers, with the documents that they belong to, and the last text."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.text = ""
        self._numbers = numbers  # of the task: no two tabs give the same one
        self._states: dict[Any, Any] = {}  # a frame: what is kept in its document
        self._owners: dict[int, Any] = {}  # a number: the state that knows it
        self._silent: dict[Any, str] = {}  # a frame that did not answer: what stood in it

    async def look(self, page: Any) -> str:
        """Show the page anew; TimeoutError when its script does not let go."""
        frames = set(page.frames)
        self._states = {frame: state for frame, state in self._states.items() if frame in frames}
        self._silent = {frame: url for frame, url in self._silent.items() if frame in frames}
        left = iter(range(MOST_FRAMES))
        lines, cut = await self._look_at(page.main_frame, left)
        self.text = "\n".join([*lines, *(["[the page is too large: the rest is left out]"] if cut else [])])
        return self.text

    async def find(self, number: object) -> Any:
        """The element with this number."""
        state = self._owners.get(number) if isinstance(number, int) else None
        found = None
        if state is not None:
            try:
                async with asyncio.timeout(FRAME_SECONDS):
                    found = (await state.evaluate_handle(_FIND, number)).as_element()
            except DriverError:  # its document is gone
                found = None
        if found is None:
            raise ToolFailure(
                f"Element {number} is not on the page (any more).", fix="Take a snapshot for the numbers."
            )
        return found

    async def _look_at(self, frame: Any, left: Iterator[int], seconds: float = FRAME_SECONDS) -> tuple[list[str], bool]:
        seen = await self._read(frame, seconds)
        by_number = await self._number_children(frame) if any(isinstance(one, dict) for one in seen["lines"]) else {}
        lines: list[str] = []
        cut = bool(seen["cut"])
        for line in seen["lines"]:
            if isinstance(line, str):
                lines.append(line)
                continue
            child = by_number.get(line["frame"])
            inner, was_cut = await self._look_inside(child, left) if child is not None else ([], False)
            cut = cut or was_cut
            lines += [f"[{line['frame']} frame]", *(f"  {one}" for one in inner)]
        return lines, cut

    async def _look_inside(self, frame: Any, left: Iterator[int]) -> tuple[list[str], bool]:
        """A frame that hangs, or has just gone, takes nothing else with it."""
        if next(left, None) is None:
            return [], True
        if self._silent.get(frame) == frame.url:
            return [_SILENT], False
        try:
            return await self._look_at(frame, left, INNER_SECONDS)
        except (DriverError, TimeoutError):
            self._silent[frame] = frame.url
            return [_SILENT], False

    async def _read(self, frame: Any, seconds: float) -> dict[str, Any]:
        async with asyncio.timeout(seconds):
            try:
                seen = await self._run_script(frame)
            except DriverError:  # another document is there now
                self._states.pop(frame, None)
                seen = await self._run_script(frame)
        return seen

    async def _run_script(self, frame: Any) -> dict[str, Any]:
        state = self._states.get(frame)
        if state is None:
            state = self._states[frame] = await frame.evaluate_handle(_NEW_STATE)
        first = next(self._numbers)
        seen: dict[str, Any] = await state.evaluate(_script(), first)
        for _ in range(first + 1, seen["next"]):
            next(self._numbers)
        self._owners.update(dict.fromkeys(seen["numbers"], state))
        return seen

    async def _number_children(self, frame: Any) -> dict[int, Any]:
        found = {}
        for child in frame.child_frames[:MOST_FRAMES]:
            try:
                async with asyncio.timeout(FRAME_SECONDS):
                    element = await child.frame_element()
                    found[await self._states[frame].evaluate(_NUMBER, element)] = child
            except (DriverError, TimeoutError):  # the frame has just gone
                continue
        return found


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


def make_numbers() -> Iterator[int]:
    return count(1)
