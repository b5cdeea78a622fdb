"""Files of people go along with the store: `hermes store move` in both directions, back-ups of a database."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from store_places import new_place, read_rows
from test_store_cmd import Output, run, say

from hermes_base.files.home_files import OwnName
from hermes_base.store_place import find_place
from hermes_constants import STORE_FILE
from hermes_state.files import open_files, open_folders
from hermes_state.sql.store_sql import Store

TOKEN = "0123456789abcdef0123456789abcdef"
FILES = {
    f"uploads/{TOKEN}/notes.txt": "amsel",
    f"people/p-1/shown/{TOKEN}/chart.txt": "biber",
    "people/p-1/memories/MEMORY.md": "- of p-1\n",
    "memories/MEMORY.md": "- tea\n",
    "skills/brew/SKILL.md": "# Brew\n",
}


@pytest.fixture
def database() -> Iterator[str]:
    with new_place("postgres") as address:
        yield address


def write(home: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def read(home: Path) -> dict[str, str]:
    tops = ("uploads", "shown", "memories", "skills", "people")
    found = (path for top in tops for path in (home / top).rglob("*") if path.is_file())
    return {str(path.relative_to(home)): path.read_text() for path in found}


def change_elsewhere(address: str, other: Path) -> None:
    """Another gateway's home: it gets an upload, and its turn changes memory."""
    other.mkdir()
    with closing(Store(address)) as store:
        folders = open_folders(other, store)
        assert folders is not None
        folders.lay_out("", {"memories": 1, "skills": 1})
        write(other, {"memories/MEMORY.md": "- tea\n- elsewhere\n"})
        folders.write_back("", None)
        open_files(other, store).keep_bytes(OwnName("", f"uploads/{TOKEN[::-1]}/new.txt"), b"new")


AFTER = {**FILES, "memories/MEMORY.md": "- tea\n- elsewhere\n", f"uploads/{TOKEN[::-1]}/new.txt": "new"}


def test_files_move_with_the_store_and_come_back(home: Path, database: str, tmp_path: Path, capsys: Output) -> None:
    """H5, I1: what is in the folders is in the database, and what came to another gateway is in the folders again."""
    say(home / STORE_FILE, "apples")
    write(home, FILES)
    assert "Files of people that went along: 5" in run(capsys, "store", "move", database)
    assert {str(path) for (path,) in read_rows(database, "select path from kept_file")} == {
        name.removeprefix("people/p-1/") for name in FILES
    }
    assert "files 5" in run(capsys, "store")
    change_elsewhere(database, tmp_path / "other")
    assert "Files of people that went along: 6" in run(capsys, "store", "move", "file")
    assert read(home) == AFTER
    assert read_rows(home / STORE_FILE, "select count(*) from kept_file") == [(0,)]
    assert read_rows(home / STORE_FILE, "select count(*) from kept_part") == [(0,)]
    assert read_rows(database, "select count(*) from kept_file") == [(6,)]


def test_a_copy_that_nobody_has_used_is_made_anew_with_its_files(home: Path, database: str, capsys: Output) -> None:
    say(home / STORE_FILE, "apples")
    write(home, FILES)
    run(capsys, "store", "move", database)
    run(capsys, "config", "unset", "store.url")
    assert "Files of people that went along: 5" in run(capsys, "store", "move", database)


def test_a_backup_of_a_database_has_the_files_of_all_gateways(
    home: Path, database: str, tmp_path: Path, capsys: Output
) -> None:
    """H5: as the folders of a home, to the byte; restored beside a file, and into an empty database."""
    say(home / STORE_FILE, "apples")
    write(home, FILES)
    run(capsys, "store", "move", database)
    change_elsewhere(database, tmp_path / "other")
    run(capsys, "backup", "create", "-o", str(tmp_path / "archive"))
    assert "is whole" in run(capsys, "backup", "verify", str(tmp_path / "archive"))
    run(capsys, "backup", "restore", str(tmp_path / "archive"), "--yes", "--store", "file")
    assert find_place(home) == home / STORE_FILE
    assert read(home) == AFTER
    assert read_rows(home / STORE_FILE, "select count(*) from kept_file") == [(0,)]
    with new_place("postgres") as empty:
        run(capsys, "backup", "restore", str(tmp_path / "archive"), "--yes", "--store", empty)
        with closing(Store(empty)) as store:
            kept = {file.name: b"".join(store.files.read(file)).decode() for file in store.files.list_all()}
        assert kept[OwnName("", "memories/MEMORY.md")] == "- tea\n- elsewhere\n"
        assert kept[OwnName("p-1", f"shown/{TOKEN}/chart.txt")] == "biber"
        assert len(kept) == len(AFTER)
