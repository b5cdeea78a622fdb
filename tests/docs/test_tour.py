"""H11: the tour leads along the code: what it names is there, and one message really goes that way."""

import ast
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from house import House

from gateway.turns import threads
from hermes_lab.server import LabServer

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "tour.md").read_text("utf-8")
SPINE = TEXT.split("## The spine\n", 1)[1].split("\n## ", 1)[0]
#: A row: the file, the functions that every message passes, and those that some pass.
_ROW = re.compile(r"^\| `([\w/]+\.py)` \|([^|]*)\|([^|]*)\|$", re.MULTILINE)
_NAME = re.compile(r"`(\w+)`")
MOST_FUNCTIONS, MOST_FILES = 100, 28


def read_spine() -> list[tuple[str, list[str], list[str]]]:
    return [(file, _NAME.findall(always), _NAME.findall(some)) for file, always, some in _ROW.findall(SPINE)]


def test_the_spine_is_short() -> None:
    spine = read_spine()
    assert len(spine) == SPINE.count(".py`")
    assert sum(len(always) + len(some) for _, always, some in spine) <= MOST_FUNCTIONS
    assert len(spine) <= MOST_FILES


def test_everything_on_the_spine_is_in_its_file() -> None:
    for file, always, some in read_spine():
        tree = ast.parse((ROOT / "src" / file).read_text("utf-8"))
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert {*always, *some} <= there, (file, {*always, *some} - there)


def test_a_message_goes_that_way(tmp_path: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One message with a tool call, through a whole gateway: it enters every function that the tour says it does."""
    monkeypatch.setattr(threads, "_threads", threads.KeptThreads())  # one that is kept from before is not watched
    lab.set_plan([{"tool_calls": [{"name": "todo", "arguments": {}}]}, {"text": "Nothing is to be done."}])
    passed: set[tuple[str, str]] = set()
    with watch_calls(passed), House(tmp_path / "home", lab.base_url, pretend={"owner": "ann"}) as house:
        house.person("ann").say("What is to be done?")
        house.wait_quiet()
    told = {(file, name) for file, always, _ in read_spine() for name in always}
    assert told <= passed, sorted(told - passed)


@contextmanager
def watch_calls(passed: set[tuple[str, str]]) -> Iterator[None]:
    """Note every function of ours that is entered, on every thread that begins meanwhile."""
    source = f"{ROOT / 'src'}/"

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(source):
            passed.add((frame.f_code.co_filename.removeprefix(source), frame.f_code.co_name))

    threading.setprofile(note)
    try:
        yield
    finally:
        threading.setprofile(None)
