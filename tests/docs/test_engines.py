"""H11, I1: the table of promises on both engines names tests that are there, name the promise, and run on both."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from store_places import ENGINES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text("utf-8").partition("## On both engines")[2]
ROWS = re.findall(r"^\| ([A-I]\d+) \| `([^`]+)` \|(?: `([^`]+)`)? *\|$", PAGE, re.MULTILINE)
IDS = [f"{group}{number}" for group, most in (("B", 10), ("C", 16), ("I", 7)) for number in range(1, most + 1)]
#: What keeps a test from the usual run or from the one with the other engine.
ELSEWHERE = ("file_store", "soak", "peers")


def find_test(name: str) -> tuple[Path, ast.FunctionDef]:
    path, _, function = name.partition("::")
    file = ROOT / "tests" / path
    (found,) = (
        node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef) and node.name == function
    )
    return file, found


def names(test: ast.FunctionDef, promise: str) -> bool:
    said = f"{ast.get_docstring(test) or ''} {test.name.upper().replace('_', ' ')}"
    return re.search(rf"\b{promise}\b", said) is not None


@cache
def list_twice() -> tuple[Path, ...]:
    """What `make postgres` runs once more."""
    given = (ROOT / "Makefile").read_text().partition("STORED :=")[2].partition("\n\n")[0]
    return tuple(
        ROOT / f"{prefix}{name}"
        for prefix, several in re.findall(r"\$\(addprefix ([^,]+),([^)]+)\)", given)
        for name in several.split()
    )


@cache
def list_cases() -> str:
    """Every test of the store by its name, with the values that it is run with."""
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "tests/state"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_table_has_every_promise_of_conversations_messages_and_stores() -> None:
    assert [promise for promise, *_ in ROWS] == IDS


@pytest.mark.parametrize(("promise", "test", "beside"), ROWS)
def test_a_promise_has_a_test_on_both_engines(promise: str, test: str, beside: str) -> None:
    file, found = find_test(test)
    assert names(found, promise), f"{test} does not name {promise}"
    assert not any(word in ast.unparse(mark) for mark in found.decorator_list for word in ELSEWHERE)
    if not any(file.is_relative_to(place) for place in list_twice()):
        for engine in ENGINES:
            assert re.search(rf"{re.escape(test)}\[(\S+-)?{engine}(-\S+)?\]", list_cases()), f"{test} and {engine}"
    if beside:
        assert names(find_test(beside)[1], promise), f"{beside} does not name {promise}"


def test_every_place_of_the_second_run_is_there() -> None:
    assert list_twice()
    assert [place for place in list_twice() if not place.exists()] == []
