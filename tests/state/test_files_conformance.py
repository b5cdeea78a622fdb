"""What the interface for files of people promises, by the folder of a home and by a store of either engine (I1, I7)."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from store_places import ENGINES, new_place, read_rows, write_rows

from gateway.service.retention import Retention
from hermes_base.errors import StoreFailure
from hermes_base.files.home_files import HomeFiles, OwnName, find_own_name
from hermes_base.settings import Settings
from hermes_state.files import open_files
from hermes_state.files.folder_files import FolderFiles
from hermes_state.files.stored_files import StoredFiles
from hermes_state.sql.files.files_sql import MOST_BYTES, PART_BYTES
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

FOLDER = "folder"
TOKEN = "0123456789abcdef0123456789abcdef"
NAME = OwnName("", f"uploads/{TOKEN}/notes.txt")
THEIRS = OwnName("p-1", f"uploads/{TOKEN}/notes.txt")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The home of the gateway that has the files first."""
    return make_home(tmp_path / "there")


def make_home(home: Path) -> Path:
    home.mkdir(mode=0o700)
    return home


@pytest.fixture(params=[FOLDER, *ENGINES])
def files(request: pytest.FixtureRequest, there: Path) -> Iterator[HomeFiles]:
    if request.param == FOLDER:
        yield FolderFiles(there)
        return
    with new_place(request.param) as place, closing(Store(place)) as store:
        yield StoredFiles(there, store.files)


@pytest.fixture
def here(files: HomeFiles, there: Path, tmp_path: Path) -> HomeFiles:
    """The same files for whoever needs them: another home on the same store, or the same home."""
    return StoredFiles(make_home(tmp_path / "here"), files._store) if isinstance(files, StoredFiles) else files


def write(home: Path, path: str, data: bytes) -> Path:
    file = home / path
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("data", [b"", b"hello", bytes(range(256)) * 9000], ids=["empty", "small", "three parts"])
def test_what_was_kept_is_found(files: HomeFiles, here: HomeFiles, there: Path, data: bytes) -> None:
    """I1: by the path that stands in a row, whichever home wrote it; to the byte."""
    path = write(there, NAME.path, data)
    files.keep(path)
    files.keep(path)  # once more, as by a message that names an upload
    found = here.find(str(path))
    assert found is not None
    assert found.read_bytes() == data
    assert here.find(str(path)) == found
    assert list(here.find_in("", f"uploads/{TOKEN}")) == [found]
    assert here.name(str(found)) == files.name(str(path)) == NAME
    assert [each.name for each in found.parent.parent.iterdir()] == [TOKEN]


def test_bytes_are_kept_under_a_name(files: HomeFiles, here: HomeFiles) -> None:
    """What an agent sends: whoever has the account finds it, and drops it when it has arrived."""
    path = files.keep_bytes(OwnName("", "outbox/0123456789abcdef/report.txt"), b"figures")
    found = here.find(str(path))
    assert found is not None
    assert found.read_bytes() == b"figures"
    here.drop(str(path))
    assert not found.exists()
    assert here.find(str(path)) is None
    assert files.find(str(path)) is None


def test_two_files_of_one_folder(files: HomeFiles, here: HomeFiles, there: Path) -> None:
    for name in ("b.png", "a.png"):
        (there / "shown" / TOKEN).mkdir(parents=True, exist_ok=True)
        path = there / "shown" / TOKEN / name
        path.write_bytes(name.encode())
        files.keep(path)
    assert [path.read_text() for path in here.find_in("", f"shown/{TOKEN}")] == ["a.png", "b.png"]


def test_what_nobody_kept_is_not_found(files: HomeFiles, there: Path) -> None:
    assert files.find(str(there / NAME.path)) is None
    assert list(files.find_in("", f"uploads/{TOKEN}")) == []
    assert files.find("/nowhere/at/all.txt") is None
    assert files.name("/nowhere/at/all.txt") is None


def test_one_persons_file_is_not_anothers(files: HomeFiles, here: HomeFiles, there: Path) -> None:
    """I7: the same bytes under the same token belong to whoever they were kept for."""
    files.keep(write(there, f"people/p-1/{NAME.path}", b"amsel"))
    for other in ("", "p-2"):
        path = there / (f"people/{other}" if other else "") / NAME.path
        assert here.find(str(path)) is None
        assert list(here.find_in(other, f"uploads/{TOKEN}")) == []
    found = here.find(str(there / "people/p-1" / NAME.path))
    assert found is not None
    assert here.name(str(found)) == THEIRS


@pytest.mark.parametrize(
    "path",
    [
        f"/h/uploads/{TOKEN}/..",
        f"/h/uploads/{TOKEN}/a/b",
        "/h/uploads/short/a",
        f"/h/memories/{TOKEN}/a",
        f"/h/uploads/{TOKEN}/",
        "",
    ],
)
def test_other_paths_are_no_files_of_these(path: str) -> None:
    assert find_own_name(path) is None


def test_the_place_of_the_store_decides(there: Path) -> None:
    """A file of the home keeps folders, a database keeps the files: nobody else asks."""
    for engine, kind in zip(ENGINES, (FolderFiles, StoredFiles), strict=True):
        with new_place(engine) as place, closing(Store(place)) as store:
            assert type(open_files(there, store)) is kind


# --- in a store


@pytest.fixture
def kept(where: str, there: Path) -> Iterator[tuple[Store, StoredFiles]]:
    with closing(Store(where)) as store:
        yield store, StoredFiles(there, store.files)


def count(where: str, table: str) -> int:
    return int(read_rows(where, f"select count(*) from {table}")[0][0])


def test_the_same_bytes_stand_there_once_and_go_with_the_last(
    kept: tuple[Store, StoredFiles], where: str, there: Path
) -> None:
    _, files = kept
    data = bytes(PART_BYTES) + b"end"
    for number in range(3):
        files.keep(write(there, f"uploads/{number}{TOKEN}/a.bin", data))
    assert (count(where, "kept_file"), count(where, "kept_part"), count(where, "blob")) == (3, 6, 2)
    for number in range(3):
        assert count(where, "blob") == 2
        files.drop(str(there / f"uploads/{number}{TOKEN}/a.bin"))
    assert (count(where, "kept_file"), count(where, "kept_part"), count(where, "blob")) == (0, 0, 0)


def test_a_blob_that_a_transcript_has_too_stays(kept: tuple[Store, StoredFiles], where: str, there: Path) -> None:
    """E1: the same bytes may be kept for both."""
    store, files = kept
    session = store.open_session(NewSession("agent:main:local:dm:1")).id
    store.freeze(session, -1, "d", b"the same")
    files.keep(write(there, NAME.path, b"the same"))
    files.drop(str(there / NAME.path))
    assert store.load(session).frozen != {}
    assert count(where, "blob") == 1
    files.keep(write(there, NAME.path, b"the same"))
    assert store.delete(session)
    assert files.find(str(there / NAME.path)) is not None
    assert count(where, "blob") == 1


def test_a_file_takes_the_place_of_another(kept: tuple[Store, StoredFiles], where: str) -> None:
    store, _ = kept
    for data in (b"one" * PART_BYTES, b"two", b"three"):
        store.files.put(NAME, lambda data=data: (data,))  # type: ignore[misc]
    found = store.files.get(NAME)
    assert found is not None
    assert b"".join(store.files.read(found)) == b"three"
    assert (count(where, "kept_file"), count(where, "kept_part"), count(where, "blob")) == (1, 1, 1)


def test_what_is_too_large_is_refused_with_a_sentence(kept: tuple[Store, StoredFiles], where: str) -> None:
    store, _ = kept
    with pytest.raises(StoreFailure, match=r"notes\.txt has more than 100 MB, the most that is kept for all gateways"):
        store.files.put(NAME, lambda: (bytes(PART_BYTES) for _ in range(MOST_BYTES // PART_BYTES + 1)))
    assert (count(where, "kept_file"), count(where, "blob")) == (0, 0)


def test_damaged_bytes_are_told_and_not_laid_out(
    kept: tuple[Store, StoredFiles], where: str, there: Path, tmp_path: Path
) -> None:
    store, files = kept
    files.keep(write(there, NAME.path, b"amsel"))
    assert write_rows(where, "update blob set body = ?", b"biber") == 1
    home = make_home(tmp_path / "other")
    with pytest.raises(StoreFailure, match="is damaged"):
        StoredFiles(home, store.files).find(str(there / NAME.path))
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_a_file_that_cannot_be_laid_out_is_told(kept: tuple[Store, StoredFiles], there: Path, tmp_path: Path) -> None:
    store, files = kept
    files.keep(write(there, NAME.path, b"amsel"))
    home = make_home(tmp_path / "other")
    (home / "uploads").write_text("in the way")
    with pytest.raises(StoreFailure, match=r"notes\.txt cannot be laid out in"):
        StoredFiles(home, store.files).find(str(there / NAME.path))


def test_forgotten_with_their_person(kept: tuple[Store, StoredFiles], where: str, there: Path) -> None:
    """G12: what others have stays, the same bytes too."""
    store, files = kept
    for name in (NAME, THEIRS):
        files.keep_bytes(name, b"the same")
    assert store.people.forget("p-1").kept_files == 1
    assert store.files.get(THEIRS) is None
    assert store.files.get(NAME) is not None
    assert count(where, "blob") == 1


def test_whoever_was_forgotten_on_another_gateway_is_forgotten_here(
    kept: tuple[Store, StoredFiles], there: Path
) -> None:
    """G12: the sweep of each home lets go of their folder, unless the group has come back."""
    store, _ = kept
    for person in ("p-1", "p-2", "chat-3"):
        write(there, f"people/{person}/memories/MEMORY.md", b"x")
        write(there, f"laid-out/{person}-memories.json", b"{}") if person == "p-1" else None
    for person in ("p-1", "chat-3"):
        store.people.forget(person)
    store.people.assign("agent:main:chat:group:3", "chat-3")
    assert Retention(there, store, lambda: Settings()).sweep()["files"] == 2
    assert sorted(path.name for path in (there / "people").iterdir()) == ["chat-3", "p-2"]
    assert list((there / "laid-out").iterdir()) == []


def test_what_no_message_names_goes_with_the_sweep(kept: tuple[Store, StoredFiles], there: Path) -> None:
    """F7: what is old and named nowhere; memory never does."""
    store, files = kept
    named = OwnName("", "uploads/fedcba9876543210/named.txt")
    for name in (NAME, named, THEIRS, OwnName("", "memories/MEMORY.md")):
        files.keep_bytes(name, b"x")
    store.turns.accept("agent:main:local:dm:1", "local:main", "1/1/", f'{{"path": "/h/{named.path}"}}')
    retention = Retention(there, store, lambda: Settings())
    retention.sweep()
    assert store.files.count() == 4
    later = store.turns.now() + 400 * 86_400
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.turns, "now", lambda: later)
        assert retention.sweep()["files"] == 2
    assert {file.path for file in store.files.list_all()} == {named.path, "memories/MEMORY.md"}
