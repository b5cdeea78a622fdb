"""Searching files: ripgrep and the walk pass the same tests; results are bounded, links are not followed."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_base.errors import ToolFailure
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.tool_context import ToolContext
from tools.builtin.file_tools import search_files
from tools.files import roots, searching
from tools.files.patterns import is_ignored, make_rule

Search = Callable[..., str]


@pytest.fixture(params=["rg", "walk"])
def search(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    if request.param == "rg" and shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    if request.param == "walk":
        monkeypatch.setattr(searching, "find_program", lambda name: None)

    def run(pattern: str, options: Any = None, **args: Any) -> str:
        context = ToolContext(folder=str(tmp_path / "work"), **(options or {}))
        return search_files({"pattern": pattern, **args}, context=context)

    return run


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A small project with things to find and things to leave out."""
    files = {
        "src/one.py": b"import os\nprint('hello')\n",
        "src/two.txt": b"hello\r\nhello there\r\n",
        ".hidden": b"hello\n",
        "latin": b"caf\xe9 hello\n",
        "wide": "\ufeffhello wide\n".encode("utf-16-le"),
        "binary": b"\0hello\n",
        ".gitignore": b"*.log\nbuild/\n/top\n!keep.log\n",
        "a.log": b"hello\n",
        "keep.log": b"hello\n",
        "build/x": b"hello\n",
        "top": b"hello\n",
        "src/top": b"hello\n",
        "src/.gitignore": b"inner*\n",
        "src/inner.py": b"hello\n",
        ".git/config": b"hello\n",
    }
    for name, data in files.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("hello\n")
    (tmp_path / "outside" / "other").write_text("hello\n")
    (tmp_path / "work" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "work" / "linked-file").symlink_to(tmp_path / "outside" / "secret")
    os.mkfifo(tmp_path / "work" / "pipe")
    return tmp_path / "work"


def test_content_is_found_by_expression(work: Path, search: Search) -> None:
    """G7: links lead nowhere; ignored and binary files are left out."""
    assert search("hel+o").splitlines() == [
        ".hidden:1: hello",
        "keep.log:1: hello",
        "latin:1: café hello",
        "src/one.py:2: print('hello')",
        "src/top:1: hello",
        "src/two.txt:1: hello",
        "src/two.txt:2: hello there",
        "wide:1: hello wide",
    ]
    assert search("there$") == "src/two.txt:2: hello there"
    assert search("hello", glob="*.py") == "src/one.py:2: print('hello')"
    assert search("hello", glob="src/*.txt", limit=1).startswith("src/two.txt:1: hello\n[1 left out")
    assert search("^hello$", path="src").splitlines() == ["top:1: hello", "two.txt:1: hello"]
    assert search("there", path="src/two.txt") == "two.txt:2: hello there"
    assert search("nothing like it") == "Nothing was found."
    assert search("hello", glob="*.log") == "keep.log:1: hello"


def test_names_are_found_by_glob_or_part(work: Path, search: Search) -> None:
    assert search("*.py", kind="name") == "src/one.py"
    assert search("TWO", kind="name") == "src/two.txt"
    assert search("src/t*", kind="name").splitlines() == ["src/top", "src/two.txt"]
    assert search("secret", kind="name") == "Nothing was found."
    assert search("e", kind="name", glob="*.log") == "keep.log"


def test_results_are_bounded_and_what_is_left_out_is_counted(
    work: Path, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E9."""
    (work / "many").write_text("needle\n" * 500 + "needle" + "x" * 5000 + "\n")
    assert search("needle", limit=10).splitlines()[-1].startswith("[491 left out")
    assert len(search("needlex", limit=10)) < 400
    (work / "long").write_text(("needle" + "y" * 5000 + "\n") * 900)
    assert len(search("needley", limit=1000)) < 31_000
    monkeypatch.setattr(searching, "COUNTED", 50)
    assert "[more than 40 left out" in search("needle", limit=10)


def test_bad_questions_are_said(work: Path, search: Search) -> None:
    for args in ({"pattern": "("}, {"pattern": ""}, {"pattern": "a", "kind": "x"}, {"pattern": "a", "path": "none"}):
        with pytest.raises(ToolFailure):
            search(**args)


def test_a_search_ends_with_its_turn(work: Path, search: Search) -> None:
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(ToolFailure, match="interrupted"):
        search("hello", {"cancel": cancel})


def test_outside_of_the_roots_nothing_is_searched(work: Path, search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """G7."""
    monkeypatch.setattr(roots, "list_roots", lambda context: (os.path.realpath(context.folder),))
    for path in ("..", "link", "linked-file"):
        with pytest.raises(ToolFailure, match="outside of the allowed folders"):
            search("hello", path=path)


def test_a_folder_that_becomes_a_link_meanwhile_is_not_searched(
    work: Path, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G7: a thread swaps a folder for a link to the outside while it is searched."""
    (work / "sub").mkdir()
    (work.parent / "outside" / "secret").write_text("canary\n")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(work / "sub", work / "aside")
            (work / "sub").symlink_to(work.parent / "outside")
            (work / "sub").unlink()
            os.rename(work / "aside", work / "sub")

    monkeypatch.setattr(roots, "list_roots", lambda context: (os.path.realpath(context.folder),))
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(30):
            for path in ("sub", "."):
                try:
                    assert "canary" not in search("canary", path=path)
                except ToolFailure:
                    pass
    finally:
        stop.set()
        swapper.join()


def test_what_ripgrep_says_is_read_again_without_following_links(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G7: a ripgrep that a swapped link led outside shows nothing of it."""
    led_astray = [
        searching.FileHit("link/other", 1, "hello"),
        searching.FileHit("src/top", 1),
        searching.FileHit("gone", 1),
    ]
    monkeypatch.setattr(searching, "find_program", lambda name: "/usr/bin/rg")
    monkeypatch.setattr(searching, "_run_rg", lambda query, rg, folder: iter(led_astray))
    assert search_files({"pattern": "hello"}, context=ToolContext(folder=str(work))) == "src/top:1: hello"


def test_hard_links_to_private_files_are_left_out(work: Path, search: Search, home: Path) -> None:
    """G6, G7."""
    home.mkdir()
    (home / ".env").write_text("KEY=canary\n")
    os.link(home / ".env", work / "innocent")
    assert search("canary") == "Nothing was found."


@pytest.mark.parametrize(
    ("line", "path", "folder", "ignored"),
    [
        ("*.o", "a/b.o", False, True),
        ("/a", "a", False, True),
        ("/a", "b/a", False, False),
        ("a/", "x/a", True, True),
        ("a/", "x/a", False, False),
        ("a/**/b", "a/x/y/b", False, True),
        ("**/b", "a/b", False, True),
        ("a/**", "a/x/y", False, True),
        ("[!a]b", "cb", False, True),
        ("[!a]b", "ab", False, False),
        (r"\#x", "#x", False, True),
        ("a?c", "a/c", False, False),
    ],
)
def test_gitignore_rules(line: str, path: str, folder: bool, ignored: bool) -> None:
    rule = make_rule(line)
    assert rule is not None
    assert is_ignored([rule], path, folder=folder) is ignored


def test_lines_that_are_no_rule() -> None:
    assert [make_rule(line) for line in ("", "# words", "/", "[b-a]")] == [None] * 4
