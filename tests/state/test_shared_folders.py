"""Memory and skills of two homes on one store: laid out before a turn, kept after it, on each engine."""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_places import SQLITE, new_place, read_rows

from hermes_base.errors import Fenced, StoreFailure
from hermes_state.files.shared_folders import MOST_BYTES, SharedFolders
from hermes_state.sql.engines.engine import Sql
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import check_claim
from hermes_state.turns import Claim, NodeInfo

CHAT = "agent:main:local:dm:1"


class Home:
    """A gateway's home; `turn` is what happens around one of its turns."""

    def __init__(self, folder: Path, store: Store, fence: Sql) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.folder, self.store, self.fence = folder, store, fence
        self.restart()

    def restart(self) -> None:
        self.folders = SharedFolders(self.folder, self.store.files)

    def begin(self, person: str = "") -> list[str]:
        asked = [("memories", person), ("skills", "")]
        revisions = {name: self.store.files.read_folder(owner, name).revision for name, owner in asked}
        return self.folders.lay_out(person, revisions, self.fence)

    def end(self, person: str = "", fence: Sql | None = None) -> list[str]:
        return self.folders.write_back(person, fence or self.fence)

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(".new")
        new.write_text(text)
        new.chmod(mode)
        os.replace(new, file)

    def read(self, path: str) -> str | None:
        file = self.folder / path
        return file.read_text() if file.exists() else None

    def list(self) -> dict[str, str]:
        """What is there of memory and skills, with its text."""
        every = (path for name in ("memories", "skills", "people") for path in (self.folder / name).rglob("*"))
        return {str(path.relative_to(self.folder)): path.read_text() for path in every if path.is_file()}


@pytest.fixture
def homes(where: str, tmp_path: Path) -> Iterator[tuple[Home, Home]]:
    with closing(Store(where)) as store:
        fence = make_fence(store)
        yield Home(tmp_path / "a", store, fence), Home(tmp_path / "b", store, fence)


def make_fence(store: Store) -> Sql:
    """Of a claim that holds."""
    node = store.turns.join(NodeInfo("1"))
    assert store.turns.accept(CHAT, "local:main", "1/1/", "x", node) == 1
    (claim,) = store.turns.ready(node)
    return check_claim(claim)


def test_what_a_turn_wrote_is_there_before_the_next_one(homes: tuple[Home, Home]) -> None:
    a, b = homes
    a.begin()
    a.write("memories/MEMORY.md", "- tea\n")
    a.write("skills/brew/SKILL.md", "# Brew\n")
    a.write("skills/brew/tools/run.sh", "#!/bin/sh\n", 0o700)
    assert a.end() == []
    assert b.begin() == []
    assert b.list() == a.list()
    assert (b.folder / "skills/brew/tools/run.sh").stat().st_mode & 0o777 == 0o700
    b.write("memories/MEMORY.md", "- tea\n- coffee\n")
    (b.folder / "skills/brew/tools/run.sh").unlink()
    b.end()
    a.begin()
    assert a.list() == {"memories/MEMORY.md": "- tea\n- coffee\n", "skills/brew/SKILL.md": "# Brew\n"}
    assert not (a.folder / "skills/brew/tools").exists()


def test_nothing_changed_asks_nothing(homes: tuple[Home, Home], monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of a warm agent: the revisions come with its first row, and no call is made for them."""
    a, _ = homes
    a.write("memories/MEMORY.md", "- tea\n")
    a.begin()
    revisions = {"memories": 1, "skills": 0}
    for call in ("find", "read", "write"):
        monkeypatch.setattr(a.store.engine, call, None)
        monkeypatch.setattr(a.store._db, call, None)
    assert a.folders.lay_out("", revisions, a.fence) == []
    assert a.folders.write_back("", a.fence) == []
    assert not (a.folder / "skills").exists()


@pytest.mark.parametrize("restarts", [False, True])
def test_two_that_change_one_memory_lose_nothing(homes: tuple[Home, Home], restarts: bool) -> None:
    """Notes are put together, whoever is first, and whatever a process remembers."""
    a, b = homes
    a.write("memories/MEMORY.md", "- tea\n- Lima\n")
    a.begin()
    b.begin()
    a.write("memories/MEMORY.md", "- tea\n- Lima\n- from a\n")
    b.write("memories/MEMORY.md", "- Lima\n- from b\n")
    a.end()
    if restarts:
        b.restart()
    assert b.end() == []
    a.begin()
    assert a.read("memories/MEMORY.md") == b.read("memories/MEMORY.md") == "- Lima\n- from a\n- from b\n"


def test_two_that_change_one_skill_keep_both_and_are_told(homes: tuple[Home, Home]) -> None:
    a, b = homes
    a.write("skills/brew/SKILL.md", "# Brew\n")
    a.begin()
    b.begin()
    a.write("skills/brew/SKILL.md", "# Brew, by a\n")
    b.write("skills/brew/SKILL.md", "# Brew, by b\n")
    a.end()
    (word,) = b.end()
    assert "skills/brew/SKILL.md was changed on two machines at the same time" in word
    (double,) = set(b.list()) - {"skills/brew/SKILL.md"}
    assert double in word
    a.begin()
    assert a.list() == b.list() == {"skills/brew/SKILL.md": "# Brew, by a\n", double: "# Brew, by b\n"}
    assert b.end() == []


def test_who_deletes_what_another_changes_does_not_delete_it(homes: tuple[Home, Home]) -> None:
    a, b = homes
    for name in ("brew", "bake"):
        a.write(f"skills/{name}/SKILL.md", f"# {name}\n")
    a.begin()
    b.begin()
    shutil.rmtree(a.folder / "skills/brew")
    a.write("skills/bake/SKILL.md", "# bake, by a\n")
    b.write("skills/brew/SKILL.md", "# brew, by b\n")
    shutil.rmtree(b.folder / "skills/bake")
    a.end()
    b.end()
    a.begin()
    assert (
        a.list()
        == b.list()
        == {
            "skills/brew/SKILL.md": "# brew, by b\n",
            "skills/bake/SKILL.md": "# bake, by a\n",
        }
    )


def test_two_homes_that_had_files_before_are_put_together(homes: tuple[Home, Home]) -> None:
    """A second gateway joins with a memory and skills of its own."""
    a, b = homes
    for home in homes:
        home.write("memories/MEMORY.md", f"- the same\n- of {home.folder.name}\n")
        home.write("skills/same/SKILL.md", "# Same\n")
        home.write(f"skills/{home.folder.name}/SKILL.md", "# Own\n")
    assert a.begin() == b.begin() == []
    a.begin()
    assert a.list() == b.list()
    assert a.read("memories/MEMORY.md") == "- the same\n- of a\n- of b\n"
    assert {path.split("/")[1] for path in a.list() if path.startswith("skills")} == {"same", "a", "b"}


def test_a_change_by_hand_is_kept_with_the_next_turn(homes: tuple[Home, Home]) -> None:
    a, b = homes
    a.begin()
    a.write("memories/USER.md", "- Ann\n")
    a.restart()
    a.begin()
    b.begin()
    assert b.read("memories/USER.md") == "- Ann\n"


def test_another_store_deletes_nothing(homes: tuple[Home, Home], tmp_path: Path) -> None:
    """What was in the store that the home had before says nothing of the one that it has now."""
    a, _ = homes
    a.write("memories/MEMORY.md", "- tea\n")
    a.write("skills/brew/SKILL.md", "# Brew\n")
    a.begin()
    before = a.list()
    with new_place(SQLITE) as place, closing(Store(place)) as other:
        moved = Home(a.folder, other, make_fence(other))
        moved.begin()
        assert moved.list() == before
        assert {file.path for file in other.files.list_below("", "skills")} == {"skills/brew/SKILL.md"}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_store_that_was_put_back_deletes_nothing(homes: tuple[Home, Home], restarts: bool) -> None:
    """Its server's back-up is older than what the home has: that stays, and is kept again."""
    a, b = homes
    a.write("memories/MEMORY.md", "- tea\n")
    a.write("skills/brew/SKILL.md", "# Brew\n")
    a.begin()
    before = a.list()
    a.store.files.clear()
    if restarts:
        a.restart()
    a.begin()
    b.begin()
    assert a.list() == b.list() == before


def test_a_turn_that_asked_before_another_one_here_kept_something_brings_nothing_back(homes: tuple[Home, Home]) -> None:
    """What it was told of the store is older than what is known by then: that is no store that was put back."""
    a, b = homes
    a.write("memories/MEMORY.md", "- one\n- two\n")
    a.end()
    b.begin()
    asked = {"memories": a.store.files.read_folder("", "memories").revision}
    b.write("memories/MEMORY.md", "- two\n")
    b.end()
    b.write("memories/MEMORY.md", "- three\n")
    b.folders.lay_out("", asked, b.fence)
    assert b.read("memories/MEMORY.md") == "- three\n"
    a.begin()
    assert a.read("memories/MEMORY.md") == "- three\n"


def test_a_folder_that_is_gone_deletes_nothing(homes: tuple[Home, Home]) -> None:
    """A disk that was not mounted: what was there is laid out again."""
    a, _ = homes
    for name in ("brew", "bake"):
        a.write(f"skills/{name}/SKILL.md", f"# {name}\n")
    a.begin()
    before = a.list()
    shutil.rmtree(a.folder / "skills")
    a.begin()
    assert a.list() == before


def test_the_last_skill_may_go(homes: tuple[Home, Home]) -> None:
    a, b = homes
    a.write("skills/brew/SKILL.md", "# Brew\n")
    a.begin()
    b.begin()
    shutil.rmtree(a.folder / "skills/brew")
    a.end()
    b.begin()
    assert a.list() == b.list() == {}


def test_a_stale_turn_changes_nothing(homes: tuple[Home, Home]) -> None:
    """I2: its conversation is another gateway's by now. What it wrote is put aside, and no later turn brings it in."""
    a, b = homes
    a.write("memories/MEMORY.md", "- tea\n")
    a.begin()
    b.begin()
    b.write("memories/MEMORY.md", "- tea\n- from b\n")
    b.end()
    a.write("memories/MEMORY.md", "- tea\n- stale\n")
    a.write("skills/stale/SKILL.md", "# Stale\n")
    with pytest.raises(Fenced):
        a.end(fence=check_claim(Claim(CHAT, 99, "nobody")))
    assert a.list() == {"memories/MEMORY.md": "- tea\n- from b\n"}
    a.begin()
    b.begin()
    assert a.list() == b.list() == {"memories/MEMORY.md": "- tea\n- from b\n"}
    put_aside = (a.folder / "laid-out").rglob("*.md")
    assert {path.read_text() for path in put_aside} == {"- tea\n- stale\n", "# Stale\n"}


def test_a_turn_that_was_fenced_at_its_start_puts_nothing_aside(homes: tuple[Home, Home]) -> None:
    a, _ = homes
    a.write("memories/MEMORY.md", "- by hand\n")
    with pytest.raises(Fenced):
        a.folders.lay_out("", {}, check_claim(Claim(CHAT, 99, "nobody")))
    assert a.read("memories/MEMORY.md") == "- by hand\n"


def test_one_persons_memory_is_not_laid_out_for_another(homes: tuple[Home, Home], where: str) -> None:
    """I7, G12: skills are everybody's."""
    a, b = homes
    a.write("people/p-1/memories/MEMORY.md", "- secret\n")
    a.write("skills/brew/SKILL.md", "# Brew\n")
    a.begin("p-1")
    b.begin("p-2")
    b.begin("")
    assert b.list() == {"skills/brew/SKILL.md": "# Brew\n"}
    b.begin("p-1")
    assert b.read("people/p-1/memories/MEMORY.md") == "- secret\n"
    assert read_rows(where, "select person, path from kept_file order by person desc") == [
        ("p-1", "memories/MEMORY.md"),
        ("", "skills/brew/SKILL.md"),
    ]


def test_what_is_of_the_machine_stays_there(homes: tuple[Home, Home], tmp_path: Path) -> None:
    a, b = homes
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "SKILL.md").write_text("# Elsewhere\n")
    for path in ("skills/.usage.json", "skills/brew/.env", "skills/brew/__pycache__/x.pyc", "skills/brew/SKILL.md"):
        a.write(path, "x")
    (a.folder / "skills" / "linked").symlink_to(tmp_path / "elsewhere")
    a.begin()
    b.begin()
    assert b.list() == {"skills/brew/SKILL.md": "x"}


def test_what_is_too_large_stays_and_is_told_once(homes: tuple[Home, Home]) -> None:
    a, b = homes
    a.write("skills/brew/SKILL.md", "# Brew\n")
    a.write("skills/brew/model.bin", "x" * (MOST_BYTES + 1))
    (word,) = a.begin()
    assert word == (
        "skills/brew/model.bin is not shared with other gateways: it is too large. It stays on this machine."
    )
    assert a.begin() == []
    b.begin()
    assert b.list() == {"skills/brew/SKILL.md": "# Brew\n"}
    a.begin()
    assert a.read("skills/brew/model.bin") is not None


def test_a_folder_that_cannot_be_written_is_told(homes: tuple[Home, Home]) -> None:
    a, b = homes
    a.write("skills/brew/SKILL.md", "# Brew\n")
    a.begin()
    (b.folder / "skills").write_text("in the way")
    with pytest.raises(StoreFailure, match="cannot be brought up to date"):
        b.begin()


def test_a_damaged_index_is_made_anew(homes: tuple[Home, Home]) -> None:
    a, b = homes
    a.write("memories/MEMORY.md", "- tea\n")
    a.begin()
    b.begin()
    for path in (a.folder / "laid-out").glob("*.json"):
        path.write_text("{")
    a.restart()
    a.write("memories/MEMORY.md", "- tea\n- coffee\n")
    a.end()
    b.begin()
    assert b.read("memories/MEMORY.md") == "- tea\n- coffee\n"


def test_bytes_that_are_no_text_stay_as_they_are(homes: tuple[Home, Home]) -> None:
    a, b = homes
    (a.folder / "memories").mkdir()
    (a.folder / "memories" / "MEMORY.md").write_bytes(b"- caf\xe9\n")
    a.begin()
    b.begin()
    b.write("memories/USER.md", "- Ann\n")
    with (b.folder / "memories" / "MEMORY.md").open("ab") as file:
        file.write(b"- b\n")
    with (a.folder / "memories" / "MEMORY.md").open("ab") as file:
        file.write(b"- a\n")
    b.end()
    a.end()
    assert (a.folder / "memories" / "MEMORY.md").read_bytes() == b"- caf\xe9\n- b\n- a\n"


NOTES = st.sampled_from(["- one\n", "- two\n", "- three\n", "- four\n"])
STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["begin", "end", "restart"]) | NOTES), max_size=14)


@settings(max_examples=60)
@given(STEPS)
def test_whatever_the_order_no_added_note_is_lost(steps: list[tuple[str, str]]) -> None:
    """Two homes add notes, begin and end turns and are restarted: in the end both have all of them."""
    import tempfile

    with new_place(SQLITE) as place, closing(Store(place)) as store, tempfile.TemporaryDirectory() as folder:
        fence = make_fence(store)
        homes = {name: Home(Path(folder) / name, store, fence) for name in "ab"}
        added = set()
        for name, step in steps:
            home = homes[name]
            if step.startswith("- "):
                text = home.read("memories/MEMORY.md") or ""
                if step not in text:
                    home.write("memories/MEMORY.md", text + step)
                added.add(step)
            else:
                getattr(home, step)()
        for name in "abab":
            homes[name].begin()
        assert homes["a"].list() == homes["b"].list()
        assert set((homes["a"].read("memories/MEMORY.md") or "").splitlines(keepends=True)) == added
