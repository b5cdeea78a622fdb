"""Undo: what a turn changed in files is shown as a diff and taken back, unless somebody changed it meanwhile."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from tools.builtin import file_tools
from tools.files import file_changes
from tools.files.file_changes import FileChange, describe, undo_last_turn

TASK = "chat/../1"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def context(work: Path, home: Path, turn: str) -> ToolContext:
    return ToolContext(task=TASK, turn=turn, folder=str(work), home=home)


def patch(work: Path, home: Path, turn: str, *edits: dict[str, Any]) -> None:
    file_tools.patch({"edits": list(edits)}, context=context(work, home, turn))


def list_changes(home: Path, task: str) -> list[FileChange]:
    """What can still be taken back, oldest first."""
    return file_changes._merge(file_changes._read_journal(file_changes._task_folder(home, task)))


def contents(work: Path) -> dict[str, bytes]:
    return {str(path.relative_to(work)): path.read_bytes() for path in work.rglob("*") if path.is_file()}


def test_a_turn_is_taken_back_as_a_whole(work: Path, home: Path) -> None:
    """Changed twice, created in new folders, deleted and renamed: all is as it was, the mode too."""
    (work / "a").write_bytes(b"one\r\ntwo\r\n")
    (work / "b").write_bytes(b"\xff\xfeb\0")
    (work / "c").write_bytes(b"c\n")
    (work / "c").chmod(0o640)
    before = contents(work)
    patch(work, home, "t1", {"path": "a", "old": "one", "new": "1"})
    patch(work, home, "t1", {"path": "a", "old": "two", "new": "2"}, {"path": "x/y/z", "old": "", "new": "new"})
    patch(work, home, "t1", {"diff": "diff --git a/b b/b\ndeleted file mode 100644\n"})
    patch(work, home, "t1", {"diff": "diff --git a/c b/d\nrename from c\nrename to d\n"})
    assert sorted(contents(work)) == ["a", "d", "x/y/z"]
    assert {Path(change.path).name for change in list_changes(home, TASK)} == {"a", "b", "c", "d", "z"}
    restored = undo_last_turn(home, TASK)
    assert {Path(path).name for path in restored} == {"a", "b", "c", "d", "z"}
    assert contents(work) == before
    assert stat.S_IMODE((work / "c").stat().st_mode) == 0o640
    assert not (work / "x").exists()
    assert undo_last_turn(home, TASK) == []


def test_turns_are_taken_back_one_by_one(work: Path, home: Path) -> None:
    for turn in ("t1", "t2"):
        args = {"path": "f", "content": turn}
        file_tools.write_file(args, context=context(work, home, turn))
    assert [change.turn for change in list_changes(home, TASK)] == ["t1", "t2"]
    undo_last_turn(home, TASK)
    assert contents(work) == {"f": b"t1"}
    undo_last_turn(home, TASK)
    assert contents(work) == {}


def test_the_diff_shows_what_undoing_would_do(work: Path, home: Path) -> None:
    (work / "a").write_text("one\ntwo\n")
    patch(work, home, "t1", {"path": "a", "old": "two", "new": "2"}, {"path": "n", "old": "", "new": "new"})
    shown = describe(home, TASK)
    assert "-2\n+two\n" in shown
    assert f"--- {work}/n\n+++ /dev/null\n" in shown
    assert "-new\n\\ No newline" in shown
    assert (work / "a").read_text() == "one\n2\n"
    assert describe(home, "another task") == ""


def test_a_file_that_changed_meanwhile_is_named_and_nothing_is_undone(work: Path, home: Path) -> None:
    for name in ("a", "b"):
        (work / name).write_text("old")
    patch(work, home, "t1", *({"path": name, "old": "old", "new": "new"} for name in ("a", "b")))
    (work / "b").write_text("by somebody else")
    assert "changed since" in describe(home, TASK)
    with pytest.raises(ToolFailure, match=f"{work}/b"):
        undo_last_turn(home, TASK)
    assert contents(work) == {"a": b"new", "b": b"by somebody else"}


def test_undo_follows_no_link(work: Path, home: Path) -> None:
    """G7: the file became a link to somewhere else; that place is not written."""
    (work / "a").write_text("old")
    patch(work, home, "t1", {"path": "a", "old": "old", "new": "new"})
    (work.parent / "other").write_text("new")
    (work / "a").unlink()
    (work / "a").symlink_to(work.parent / "other")
    with pytest.raises(ToolFailure, match=f"{work}/a"):
        undo_last_turn(home, TASK)
    assert (work.parent / "other").read_text() == "new"


def test_what_is_kept_is_private_and_bounded(work: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_changes, "KEPT_BYTES", 4000)
    (work / "f").write_text("x" * 900 + "0")
    (work / "large").write_text("y" * 3000)
    for n in range(10):
        patch(work, home, f"t{n}", {"path": "f", "old": f"x{n}", "new": f"x{n + 1}"})
    assert [change.turn for change in list_changes(home, TASK)] == ["t6", "t7", "t8", "t9"]
    (folder,) = (home / "file-changes").iterdir()
    assert len(os.listdir(folder)) == 5
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    patch(work, home, "t11", {"path": "large", "old": "y" * 3000, "new": "z"})
    with pytest.raises(ToolFailure, match="not kept"):
        undo_last_turn(home, TASK)


def test_the_oldest_tasks_make_room(work: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_changes, "KEPT_TASKS", 3)
    for n in range(5):
        here = ToolContext(task=f"task {n}", turn="t", folder=str(work), home=home)
        file_tools.write_file({"path": f"f{n}", "content": "x"}, context=here)
        (folder,) = (home / "file-changes").glob(f"task_{n}-*")
        os.utime(folder, (n, n))
    assert [len(list_changes(home, f"task {n}")) for n in range(5)] == [0, 0, 1, 1, 1]


def test_a_failed_patch_leaves_nothing_to_undo(work: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (work / "a").write_text("old")
    monkeypatch.setattr("tools.files.file_changes.replace_by_staged", fail)
    with pytest.raises(ToolFailure, match="No space"):
        patch(work, home, "t1", {"path": "a", "old": "old", "new": "new"})
    assert list_changes(home, TASK) == []
    assert os.listdir(work) == ["a"]


def test_a_damaged_journal_line_is_passed_over(work: Path, home: Path) -> None:
    patch(work, home, "t1", {"path": "a", "old": "", "new": "new"})
    (journal,) = (home / "file-changes").glob("*/journal.jsonl")
    journal.write_text(journal.read_text() + '{"turn": "t2", "pa')
    assert undo_last_turn(home, TASK) == [f"{work}/a"]
