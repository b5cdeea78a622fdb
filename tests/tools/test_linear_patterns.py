"""No pattern that somebody else wrote, and no text, makes an expression of ours run without end.

The sizes are such that an engine that tries again and again would need hours where a linear one needs a moment.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.auxiliary_client import extract_content_or_reasoning
from agent.providers.failures import _BY_WORDS
from gateway.core.bursts import _guard_text
from gateway.core.text.blocks import _RULE
from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from tools.builtin.file_tools import search_files
from tools.files import searching
from tools.files.patterns import is_ignored, make_rule

EXPLODES = "(a+)+$"
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=["rg", "walk"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "walk":
        monkeypatch.setattr(searching, "find_program", lambda name: None)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "victim").write_text("a" * 60 + "!\ncafé\naaa\n")
    return tmp_path / "work"


def search(folder: Path, pattern: str, path: str = ".") -> str:
    return search_files({"pattern": pattern, "path": path}, context=ToolContext(folder=str(folder)))


@pytest.mark.parametrize("path", [".", "victim"])
def test_a_pattern_of_the_model_costs_what_the_text_is_long(folder: Path, path: str) -> None:
    """H8: in a folder and in one file, with and without ripgrep."""
    assert search(folder, EXPLODES, path) == "victim:3: aaa"
    assert search(folder, "caf.$", path) == "victim:2: café"


@pytest.mark.parametrize("path", [".", "victim"])
@pytest.mark.parametrize("pattern", ["(?=a)b", "(?!a)b", "(?<=a)b", r"(a)\1", "(?P<x>a)(?P=x)"])
def test_what_cannot_be_linear_is_refused_with_a_sentence(folder: Path, pattern: str, path: str) -> None:
    """H8."""
    with pytest.raises(ToolFailure, match=r"look-around or a back-reference.*Search for the plain part"):
        search(folder, pattern, path)


@pytest.mark.parametrize("pattern", ["(", "[b-a]", "a{5000}", "a" * 3000, "\udc80("])
def test_what_is_no_pattern_is_refused_with_a_sentence(folder: Path, pattern: str) -> None:
    """H8."""
    with pytest.raises(ToolFailure, match="pattern"):
        search(folder, pattern)


def test_a_gitignore_costs_what_the_path_is_long() -> None:
    """H8: a folder may hold anything, its .gitignore too."""
    rule = make_rule("*a" * 40 + "b")
    assert rule is not None
    assert not is_ignored([rule], "a" * 250, folder=False)
    assert make_rule("[" * 1_000_000) is None


def test_a_glob_costs_what_the_path_is_long(folder: Path) -> None:
    """H8."""
    (folder / ("a" * 250)).write_text("hello\n")
    args = {"pattern": "*a" * 40 + "b", "kind": "name"}
    assert search_files(args, context=ToolContext(folder=str(folder))) == "Nothing was found."


def test_expressions_of_ours_read_hostile_text_once() -> None:
    """H8: what people, models and servers send is searched by expressions that do not look at it again and again."""
    blank, thinking = " " * 2_000_000, "<think>" * 500_000
    assert _guard_text("\n" * 2_000_000) == "\n" * 2_000_000
    assert _guard_text("\v[" * 500_000 + "·") == "\v(" * 500_000 + "·"
    assert _RULE.fullmatch(blank) is None
    answer = SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=thinking))])
    assert extract_content_or_reasoning(answer) == ""
    assert not any(expression.search("`" * 1_000_000) for _, expression, _ in _BY_WORDS)
