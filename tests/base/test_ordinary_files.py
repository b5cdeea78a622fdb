"""What stands in a file's place and is none is refused by whoever reads it, and leaves nothing open."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from hermes_constants.ordinary_files import expand_home, read_file
from tools.builtin.file_tools import search_files
from tools.files import searching
from tools.files.patterns import read_rules
from tools.files.roots import FilePlace, read_bytes
from tools.shell.folder_scan import find_shared_git, is_committed
from tools.shell.shell_state import take_state


def read_with_rules(path: Path) -> object:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        return read_rules("", folder)
    finally:
        os.close(folder)


READERS: dict[str, Callable[[Path], object]] = {
    "settings": lambda path: read_file(path, 100),
    "a file for a tool": lambda path: read_bytes(FilePlace(str(path), ()), 100),
    "rules": read_with_rules,
    "a search": lambda path: search_files({"pattern": "x"}, context=ToolContext(folder=str(path.parent))),
    "the git folder of a worktree": lambda path: find_shared_git(str(path.parent)),
    "an object of git": lambda path: is_committed(str(path), str(path)),
    "the state of a shell": lambda path: take_state(str(path.parent), path.name),
}


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
@pytest.mark.parametrize("name", [".gitignore", ".git"])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, name: str, make: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(searching, "find_program", lambda name: None)
    path = tmp_path / "work" / name
    path.parent.mkdir()
    make(path)
    before = os.listdir("/proc/self/fd")
    with suppress(OSError, ToolFailure):
        READERS[reader](path)
    assert os.listdir("/proc/self/fd") == before


def test_a_folder_is_named_as_one_to_whoever_reads_it(tmp_path: Path) -> None:
    with pytest.raises(ToolFailure, match="it is a folder, not an ordinary file"):
        read_bytes(FilePlace(str(tmp_path), ()), 100)


def test_a_folder_in_the_place_of_the_rules_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "find_program", lambda name: None)
    (tmp_path / ".gitignore").mkdir()
    (tmp_path / "page").write_text("needle\n")
    assert "needle" in search_files({"pattern": "needle"}, context=ToolContext(folder=str(tmp_path)))


@given(st.text(st.characters(), max_size=20).map(lambda text: f"~{text}"))
@example("~nobody-of-this-name/notes")
@example("~\0/notes")
@example("~\ud800/notes")
def test_a_path_of_nobody_stays_as_it_was_written(path: str) -> None:
    assert expand_home(path) in (path, os.path.expanduser("~") + path[1:]) or path[1:2].isalnum()


def test_a_path_of_ones_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert [*map(expand_home, ("~", "~/notes", "notes/~", "/~"))] == ["/somewhere", "/somewhere/notes", "notes/~", "/~"]
