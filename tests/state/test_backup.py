"""Back-ups: taken from a live store, checked to the byte, put back whole or not at all."""

import errno
import gzip
import hashlib
import io
import itertools
import json
import os
import shutil
import signal
import sqlite3
import stat
import sys
import tarfile
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlite_file import migrate_file
from waiting import wait_until

from hermes_base.errors import ConfigProblem, HermesError, HomeBusy
from hermes_base.turn.journal import Row
from hermes_constants import STORE_FILE
from hermes_constants.home_names import is_own, may_be_data
from hermes_state.backup import archive as backup
from hermes_state.backup import restore
from hermes_state.backup.archive import BadBackup, create_backup, hash_file, verify_backup
from hermes_state.backup.restore import OLD, restore_backup
from hermes_state.home_lock import LOCK_FILE, LOCK_FOLDER, HomeLock
from hermes_state.sql import schema
from hermes_state.sql.engines.sqlite import MARK
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

STEPS = ("open", "os.mkdir", "os.link", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.listdir")
Entries = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture
def filled(home: Path) -> Path:
    """A home with something of every kind, and a store with one conversation."""
    texts = {
        "config.yaml": "a: 1\n",
        ".env": "KEY=secret\n",
        "SOUL.md": "soul",
        "memories/MEMORY.md": "note",
        "skills/dig/SKILL.md": "how to dig",
        "skills/dig/run.sh": "#!/bin/sh\n",
        "people/p1/workspace/a b.txt": "file of p1",
        "people/p1/outbox/x/copy": "on its way",
        "workspace/ünïcode.txt": "text",
        "outbox/y": "on its way",
        "logs/crash.txt": "trace",
        "profiles/work/config.yaml": "b: 2\n",
    }
    for name, text in texts.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "skills/dig/run.sh").chmod(0o750)
    (home / "memories").chmod(0o700)
    (home / "config.yaml").chmod(0o600)
    (home / "workspace/empty").mkdir(mode=0o711)
    say(home, "first")
    return home


def say(home: Path, text: str) -> None:
    with closing(Store(home / STORE_FILE)) as store:
        session = store.current("c") or store.open_session(NewSession("c"))
        version = store.load(session.id).version
        store.append(session.id, "w", version, [Row({"role": "user", "content": text})], [])


def read_tree(home: Path) -> dict[str, tuple[int, str]]:
    """Mode and hash of all that counts in a home: what a back-up keeps, the keys and the profiles."""
    tops = (*backup.KEPT, ".env", "profiles")
    paths = [path for top in tops for path in [home / top, *sorted((home / top).rglob("*"))] if path.exists()]
    passing = ("outbox", LOCK_FILE, LOCK_FOLDER)
    return {
        str(path.relative_to(home)): (stat.S_IMODE(path.stat().st_mode), hash_file(path) if path.is_file() else "")
        for path in paths
        if not any(part in passing for part in path.parts)
    }


# --- making and putting back


def test_a_round_trip_keeps_content_and_modes(filled: Path, tmp_path: Path) -> None:
    """What is the person's comes back with the same hashes and modes; keys and passing things are not in it."""
    made = create_backup(filled, tmp_path / "b.tar.gz")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert verify_backup(made.path) == made.manifest
    done = restore_backup(made.path, tmp_path / "other")
    assert done.old is None
    wanted = {name: facts for name, facts in read_tree(filled).items() if not name.startswith((".env", "profiles"))}
    assert STORE_FILE in wanted
    assert "workspace/empty" in wanted
    got = read_tree(tmp_path / "other")
    assert got.pop(STORE_FILE)[0] == wanted.pop(STORE_FILE)[0]  # its hash is that of the copy
    assert got == wanted
    assert {path.name for path in (tmp_path / "other").iterdir()} & {"outbox", "logs", "profiles", ".env"} == set()
    assert not (tmp_path / "other/people/p1/outbox").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_keys_come_along_only_when_asked_for(filled: Path, tmp_path: Path) -> None:
    """G6: keys leave the home only by the owner's word."""
    assert not create_backup(filled, tmp_path / "without.tar.gz").manifest.has_secrets
    assert b"secret" not in gzip.decompress((tmp_path / "without.tar.gz").read_bytes())
    made = create_backup(filled, tmp_path / "with.tar.gz", with_secrets=True)
    assert made.manifest.has_secrets
    restore_backup(made.path, tmp_path / "other")
    assert (tmp_path / "other/.env").read_text() == "KEY=secret\n"


def test_an_empty_home_has_nothing_to_back_up(home: Path) -> None:
    with pytest.raises(ConfigProblem, match="nothing to back up"):
        create_backup(home)
    assert not home.exists()


def test_a_file_that_is_there_is_not_replaced(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ConfigProblem, match="there already"):
        create_backup(filled, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"


def test_links_are_left_out_and_named(filled: Path, tmp_path: Path) -> None:
    """G7: a link does not take files from elsewhere into the back-up."""
    (tmp_path / "private").write_text("private thing")
    (filled / "skills/link").symlink_to(tmp_path / "private")
    os.mkfifo(filled / "workspace/pipe")
    made = create_backup(filled)
    assert made.left_out == ("skills/link", "workspace/pipe")
    assert made.path.parent == filled / "backups"
    assert b"private thing" not in gzip.decompress(made.path.read_bytes())


def test_a_backup_under_load_restores_to_the_same_hashes(home: Path, tmp_path: Path) -> None:
    """F6: copies taken while others write are one state each, writers are not refused, and hashes come back."""
    errors: list[Exception] = []
    stop, versions = threading.Event(), [0, 0, 0]
    store = Store(home / STORE_FILE)
    sessions = [store.open_session(NewSession(f"c{number}")).id for number in range(3)]

    def write(number: int) -> None:
        try:
            while not stop.is_set():
                texts = [f"{versions[number]}.{part} " + "x" * 2000 for part in range(3)]
                rows = [Row({"role": "user", "content": text}) for text in texts]
                versions[number] = store.append(sessions[number], "w", versions[number], rows, [])
        except Exception as error:
            errors.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    try:
        for round in range(3):
            before = [version + 3 for version in versions]
            wait_until(lambda low=before: all(a > b for a, b in zip(versions, low, strict=True)) or bool(errors))
            told = list(versions)
            made = create_backup(home, tmp_path / f"{round}.tar.gz")
            check_copy(made, tmp_path / f"copy{round}", sessions, told)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
        store.close()
    assert errors == []


def check_copy(made: backup.Made, folder: Path, sessions: list[str], told: list[int]) -> None:
    """The restored store has the manifest's hash, is whole, and each session is a prefix with all that was told."""
    assert verify_backup(made.path) == made.manifest
    restore_backup(made.path, folder)
    for member in made.manifest.members:
        assert hash_file(folder / member.name) == member.sha256
    with closing(sqlite3.connect(folder / STORE_FILE)) as db:
        assert db.execute("pragma foreign_key_check").fetchall() == []
    with closing(Store(folder / STORE_FILE)) as copy:
        for session, least in zip(sessions, told, strict=True):
            loaded = copy.load(session)
            assert loaded.version >= least
            said = [str(row.message["content"]).split()[0] for row in loaded.rows]
            assert len(said) % 3 == 0
            assert [text.partition(".")[2] for text in said] == ["0", "1", "2"] * (len(said) // 3)
            assert [int(text.partition(".")[0]) for text in said] == sorted(int(t.partition(".")[0]) for t in said)


# --- damage


def read_entries(path: Path) -> Entries:
    with tarfile.open(path) as archive:
        taken = [(entry, archive.extractfile(entry)) for entry in archive]
        return [(entry, file.read() if file else b"") for entry, file in taken]


def write_entries(path: Path, entries: Entries) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for entry, content in entries:
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def change_manifest(entries: Entries, change: Callable[[dict[str, Any]], None]) -> Entries:
    fields = json.loads(entries[0][1])
    change(fields)
    return [(entries[0][0], json.dumps(fields).encode()), *entries[1:]]


def swap_content(entries: Entries) -> Entries:
    return [(entry, b"a: 2\n" if entry.name == "config.yaml" else content) for entry, content in entries]


def grow_content(entries: Entries) -> Entries:
    return [(entry, content + b"!" if entry.name == "config.yaml" else content) for entry, content in entries]


def add_member(name: str) -> Callable[[Entries], Entries]:
    return lambda entries: [*entries, (tarfile.TarInfo(name), b"evil")]


def name_in_manifest(name: str) -> Callable[[Entries], Entries]:
    member = {"name": name, "kind": "file", "mode": 0o600, "size": 4, "sha256": "0" * 64}
    return lambda entries: change_manifest(add_member(name)(entries), lambda fields: fields["members"].append(member))


def claim(**facts: Any) -> Callable[[Entries], Entries]:
    """Say something else of the first file in the manifest."""

    def change(fields: dict[str, Any]) -> None:
        next(member for member in fields["members"] if member["kind"] == "file").update(facts)

    return lambda entries: change_manifest(entries, change)


def name_member_twice(kind: str) -> Callable[[Entries], Entries]:
    return lambda entries: change_manifest(
        entries, lambda fields: fields["members"].append({**fields["members"][0], "kind": kind})
    )


def add_link(kind: bytes) -> Callable[[Entries], Entries]:
    def change(entries: Entries) -> Entries:
        link = tarfile.TarInfo("config.yaml")
        link.type, link.linkname = kind, "/etc/passwd"
        return [(link, b"") if entry.name == "config.yaml" else (entry, content) for entry, content in entries]

    return change


def name_newer_format(entries: Entries) -> Entries:
    return change_manifest(entries, lambda fields: fields.update(version=99))


def name_foreign_format(entries: Entries) -> Entries:
    return change_manifest(entries, lambda fields: fields.update(format="zip"))


def drop_last(entries: Entries) -> Entries:
    return entries[:-1]


DAMAGE = [
    (swap_content, "'config.yaml' does not have the hash"),
    (grow_content, "'config.yaml' is not what the manifest says"),
    (drop_last, "is missing"),
    (add_member("config.yaml"), "is not what the manifest says"),
    (add_member("memories/new.md"), "is not what the manifest says"),
    (add_member("../evil"), "does not belong into a home"),
    (add_member("/evil"), "does not belong into a home"),
    (add_member("skills/../../evil"), "does not belong into a home"),
    (add_member("hermes.lock"), "does not belong into a home"),
    (name_in_manifest("skills/../../evil"), "does not belong into a home"),
    (name_in_manifest("skills/missing/evil"), "not a back-up of Hermes"),
    (name_in_manifest("skills/" + "x" * 300), "does not belong into a home"),
    (name_in_manifest("skills/" + "x" * 100_000), "does not belong into a home"),
    (name_in_manifest("config.yaml"), "not a back-up of Hermes"),
    (name_member_twice("folder"), "not a back-up of Hermes"),
    (claim(size=10**18), "is not what the manifest says|has room for"),
    (claim(size=-1), "not a back-up of Hermes"),
    (claim(size=1.5), "not a back-up of Hermes"),
    (claim(name=7), "not a back-up of Hermes"),
    (claim(mode=0o7777), "not a back-up of Hermes"),
    (claim(kind="device"), "not a back-up of Hermes"),
    (lambda entries: change_manifest(entries, lambda fields: fields.update(layout=1e400)), "not a back-up of Hermes"),
    (lambda entries: change_manifest(entries, lambda fields: fields.update(members=7)), "not a back-up of Hermes"),
    (lambda entries: [(entries[0][0], b"[" * 200_000), *entries[1:]], "not a back-up of Hermes"),
    (add_link(tarfile.CHRTYPE), "is not what the manifest says"),
    (add_link(tarfile.FIFOTYPE), "is not what the manifest says"),
    (add_link(tarfile.SYMTYPE), "is not what the manifest says"),
    (add_link(tarfile.LNKTYPE), "is not what the manifest says"),
    (name_newer_format, "newer Hermes"),
    (name_foreign_format, "not a back-up of Hermes"),
    (lambda entries: entries[1:], "not a back-up of Hermes"),
    (lambda entries: [], "is cut, damaged or no back-up|not a back-up"),
]


@pytest.mark.parametrize(("damage", "sentence"), DAMAGE)
def test_damage_and_path_tricks_are_named_and_do_nothing(
    damage: Callable[[Entries], Entries], sentence: str, filled: Path, tmp_path: Path
) -> None:
    """G7: a changed archive is refused with a sentence; neither the home nor anything outside is touched."""
    path = create_backup(filled, tmp_path / "b.tar.gz").path
    write_entries(path, damage(read_entries(path)))
    before, around = read_tree(filled), sorted(tmp_path.iterdir())
    with pytest.raises(BadBackup, match=sentence):
        verify_backup(path)
    with pytest.raises(BadBackup, match=sentence):
        restore_backup(path, filled, overwrite=True)
    assert read_tree(filled) == before
    assert sorted(tmp_path.iterdir()) == around


def test_a_member_with_a_long_name_is_a_sentence(filled: Path, tmp_path: Path) -> None:
    """G7, H8: also when the hash is right; before, the name was found out while it was written."""
    path = create_backup(filled, tmp_path / "b.tar.gz").path
    name, content = "workspace/" + "x" * 300, b"x"
    digest = hashlib.sha256(content).hexdigest()
    member = {"name": name, "kind": "file", "mode": 0o600, "size": 1, "sha256": digest}
    folder = {"name": "workspace", "kind": "folder", "mode": 0o700}
    entries = change_manifest(read_entries(path), lambda fields: fields.update(members=[folder, member]))
    place = tarfile.TarInfo("workspace")
    place.type = tarfile.DIRTYPE
    write_entries(path, [entries[0], (place, b""), (tarfile.TarInfo(name), content)])
    before = read_tree(filled)
    with pytest.raises(BadBackup, match="does not belong into a home"):
        restore_backup(path, filled, overwrite=True)
    assert read_tree(filled) == before


def test_bombs_do_not_go_off(filled: Path, tmp_path: Path) -> None:
    """F7: neither a header nor an end of gigabytes is read; the memory that it takes is small."""
    path = create_backup(filled, tmp_path / "b.tar.gz").path
    whole = gzip.decompress(path.read_bytes())
    zeros = gzip.compress(bytes(64 << 20))
    path.write_bytes(gzip.compress(whole) + zeros)
    with pytest.raises(BadBackup, match="goes on after its end"):
        verify_backup(path)
    header = tarfile.TarInfo("./PaxHeaders/x")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    end = whole.rstrip(b"\0")
    kept = end + bytes(-len(end) % 512)
    path.write_bytes(gzip.compress(kept + header.tobuf(tarfile.GNU_FORMAT)) + zeros)
    tracemalloc.start()
    with pytest.raises(BadBackup, match="header is too large"):
        verify_backup(path)
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8), st.lists, max_leaves=4
)
FACTS = ("name", "kind", "mode", "size", "sha256")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_an_archive_holds_it_is_restored_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    """G7, H8: bytes turned, cut or said otherwise give a sentence and an untouched home, or the same home again."""
    home = tmp_path / "home"
    path = tmp_path / "b.tar.gz"
    if not home.exists():
        home.mkdir()
        (home / "config.yaml").write_text("a: 1\n")
        (home / "memories").mkdir()
        (home / "memories" / "m.md").write_text("remember")
        shutil.copy(create_backup(home, path).path, tmp_path / "good")
    before = read_tree(home)
    entries = read_entries(tmp_path / "good")
    if data.draw(st.booleans(), "in the manifest"):
        place, fact = data.draw(st.integers(0, 2)), data.draw(st.sampled_from(FACTS))
        value = data.draw(JSON)
        write_entries(path, change_manifest(entries, lambda fields: fields["members"][place].update({fact: value})))
    else:
        raw = bytearray(gzip.decompress((tmp_path / "good").read_bytes()))
        for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=4), "turned bytes"):
            raw[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(gzip.compress(bytes(raw[: data.draw(st.integers(0, len(raw)), "cut")])))
    with suppress(HermesError):
        restore_backup(path, home, overwrite=True)
        restore_backup(tmp_path / "good", home, overwrite=True)  # it was another good one, with other modes perhaps
    assert read_tree(home) == before
    for old in home.glob(f"{OLD}*"):
        shutil.rmtree(old)


@given(st.lists(st.sampled_from([*backup.KEPT, "..", ".", "", "a", "\0", "\\", "~"]) | st.text(), max_size=5))
def test_a_name_stays_below_the_table_or_is_refused(parts: list[str]) -> None:
    """G7: no spelling of a path leads out of the home."""
    name = "/".join(parts)
    try:
        backup._check_name(Path("b"), name)
    except BadBackup:
        return
    assert os.path.normpath(f"/home/{name}") == f"/home/{name}"
    top = name.partition("/")[0]
    assert top in (*backup.KEPT, *backup.SECRETS) or (may_be_data(top) and not is_own(top))


def test_every_cut_is_found(filled: Path, tmp_path: Path) -> None:
    whole = create_backup(filled, tmp_path / "b.tar.gz").path.read_bytes()
    cut = tmp_path / "cut"
    for length in [0, 1, 10, 100, len(whole) // 2, len(whole) - 9, len(whole) - 8, len(whole) - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(BadBackup):
            verify_backup(cut)
    cut.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    with pytest.raises(BadBackup, match="damaged"):
        verify_backup(cut)
    with pytest.raises(BadBackup, match="There is no file"):
        verify_backup(tmp_path / "nowhere")


def test_a_newer_store_is_refused(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H4: a store that needs a newer program is named as that."""
    with closing(sqlite3.connect(filled / STORE_FILE)) as db:
        db.execute("update meta set value = '99' where key = 'min_reader'")
        db.commit()
    with monkeypatch.context() as newer:
        newer.setattr(schema, "SCHEMA_VERSION", 99)
        path = create_backup(filled, tmp_path / "b.tar.gz").path
    with pytest.raises(HermesError, match="newer version of Hermes"):
        verify_backup(path)


def test_an_older_store_is_backed_up_and_brought_up_to_date_later(home: Path, tmp_path: Path) -> None:
    """H4: a back-up of the version before is good for this one."""
    home.mkdir()
    migrate_file(home / STORE_FILE, schema.MIGRATIONS[:-1])
    made = create_backup(home, tmp_path / "b.tar.gz")
    assert made.manifest.layout == schema.SCHEMA_VERSION - 1
    assert verify_backup(made.path) == made.manifest
    restore_backup(made.path, tmp_path / "other")
    say(tmp_path / "other", "hello")


def test_a_damaged_store_is_found_though_its_hash_is_right(filled: Path, tmp_path: Path) -> None:
    path = create_backup(filled, tmp_path / "b.tar.gz").path
    entries, broken = read_entries(path), b""
    for place, (entry, content) in enumerate(entries):
        if entry.name == STORE_FILE:
            broken = content[:8192] + b"\xff" * 4096 + content[12288:]
            entries[place] = (entry, broken)
    (tmp_path / "broken").write_bytes(broken)
    digest = hash_file(tmp_path / "broken")

    def rename_hash(fields: dict[str, Any]) -> None:
        next(member for member in fields["members"] if member["name"] == STORE_FILE)["sha256"] = digest

    write_entries(path, change_manifest(entries, rename_hash))
    with pytest.raises(BadBackup, match=r"The store in .* is damaged"):
        verify_backup(path)


# --- putting back into a home that is in use


def test_a_home_with_content_is_replaced_only_when_told_and_kept(filled: Path, tmp_path: Path) -> None:
    path = create_backup(filled).path
    wanted = read_tree(filled)
    (filled / "config.yaml").write_text("changed")
    (filled / "prices.json").write_text("{}")
    say(filled, "second")
    changed = read_tree(filled)
    with pytest.raises(ConfigProblem, match="not empty"):
        restore_backup(path, filled)
    assert read_tree(filled) == changed
    done = restore_backup(path, filled, overwrite=True)
    got = read_tree(filled)
    assert got.pop(STORE_FILE)[0] == wanted.pop(STORE_FILE)[0]
    assert got == wanted  # with the keys and the profiles, which the back-up does not hold
    assert (filled / "logs/crash.txt").exists()
    assert path.exists()
    assert done.old is not None
    assert done.old.parent == filled
    assert (done.old / "config.yaml").read_text() == "changed"
    assert {entry.name for entry in done.old.iterdir()} & {".env", "profiles", "logs", "backups", LOCK_FILE} == set()
    with closing(Store(done.old / STORE_FILE)) as store:
        assert len(store.load(store.current("c").id).rows) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("owned", ["", "profiles/work"])
def test_a_home_in_use_is_not_touched(owned: str, filled: Path) -> None:
    """Only the owner of a home changes it; who owns it is told."""
    path = create_backup(filled).path
    before = read_tree(filled)
    with HomeLock(filled / owned), pytest.raises(HomeBusy, match=str(os.getpid())):
        restore_backup(path, filled, overwrite=True)
    assert read_tree(filled) == before


def test_the_lock_holds_over_the_exchange(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that looked before the exchange and one that looks after it meet the same lock."""
    path, seen = create_backup(filled).path, []
    real = restore._exchange

    def exchange(fresh: Path, home: Path) -> None:
        before = (home / LOCK_FILE).stat().st_ino
        real(fresh, home)
        seen.append(((home / LOCK_FILE).stat().st_ino, before))
        with pytest.raises(HomeBusy):
            HomeLock(home).acquire()

    monkeypatch.setattr(restore, "_exchange", exchange)
    restore_backup(path, filled, overwrite=True)
    assert seen[0][0] == seen[0][1]
    with HomeLock(filled):
        pass


def test_a_folder_that_is_no_home_is_refused(filled: Path, tmp_path: Path) -> None:
    path = create_backup(filled).path
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/one").write_text("dear")
    with pytest.raises(ConfigProblem, match="other things than a home"):
        restore_backup(path, tmp_path / "letters", overwrite=True)
    assert [entry.name for entry in (tmp_path / "letters").iterdir()] == ["one"]


def die_at(step: int) -> None:
    """Kill this process at its n-th call that opens, makes, links, renames, lists or deletes."""
    calls = itertools.count()

    def count(event: str, args: tuple[object, ...]) -> None:
        if event in STEPS and next(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def restore_and_die(path: Path, home: Path, step: int) -> bool:
    """Restore in a process that is killed at this step; whether it was finished before."""
    child = os.fork()
    if child == 0:
        die_at(step)
        restore_backup(path, home, overwrite=True)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_restore_that_is_killed_leaves_the_old_home_or_the_new_one(filled: Path, tmp_path: Path) -> None:
    """SIGKILL at every step leaves one whole home, loses nothing of the old one, and the next restore tidies up."""
    path = create_backup(filled, tmp_path / "b.tar.gz").path
    restore_backup(path, filled, overwrite=True)
    new = read_tree(filled)
    seen, ended = [], False
    while not ended:
        (filled / "config.yaml").write_text(f"step {len(seen)}")
        old = read_tree(filled)
        ended = restore_and_die(path, filled, len(seen))
        now = read_tree(filled)
        assert now in (old, new), len(seen)
        if not ended:
            restore_backup(path, filled, overwrite=True)
        assert read_tree(filled) == new
        kept = [(place / "config.yaml").read_text() for place in filled.glob(f"{OLD}*")]
        assert f"step {len(seen)}" in kept
        assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
        for place in filled.glob(f"{OLD}*"):
            shutil.rmtree(place)
        seen.append(now == new)
    assert seen == sorted(seen)  # the old home up to one step, the new one from there on
    assert seen.count(False) > 20
    assert seen.count(True) > 5


def test_an_interrupt_after_the_exchange_loses_nothing(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beside the home then is the old content, not the unfinished copy; the next restore brings it in."""
    path, real = create_backup(filled).path, restore._exchange
    (filled / "config.yaml").write_text("mine")

    def exchange(fresh: Path, home: Path) -> None:
        real(fresh, home)
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(restore, "_exchange", exchange)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(path, filled, overwrite=True)
    assert (filled / "config.yaml").read_text() == "a: 1\n"
    restore_backup(path, filled, overwrite=True)
    assert "mine" in [(place / "config.yaml").read_text() for place in filled.glob(f"{OLD}*")]
    assert not [entry.name for entry in filled.iterdir() if entry.name.startswith("unfinished")]
    assert not [entry.name for entry in filled.parent.iterdir() if entry.name.startswith(".")]


def test_a_full_disk_leaves_the_home_as_it_was(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: a restore that cannot go on takes its copies away again."""
    path, before = create_backup(filled).path, read_tree(filled)

    def fail(fresh: Path, home: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(restore, "_exchange", fail)
    with pytest.raises(OSError, match="No space"):
        restore_backup(path, filled, overwrite=True)
    assert read_tree(filled) == before
    assert not [entry.name for entry in filled.parent.iterdir() if entry.name.startswith(".")]


@pytest.mark.parametrize("left", [(), ("config.yaml",)])
def test_a_home_that_lost_its_store_gets_it_back(filled: Path, tmp_path: Path, left: tuple[str, ...]) -> None:
    """F7: the mark that says there was a store is no content that would be in the way, and the store opens again."""
    create_backup(filled, tmp_path / "b.tar.gz")
    for path in list(filled.iterdir()):
        if path.name not in (*left, STORE_FILE + MARK):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(HermesError, match="there was one before"):
        Store(filled / STORE_FILE)
    restore_backup(tmp_path / "b.tar.gz", filled, overwrite=bool(left))
    with closing(Store(filled / STORE_FILE)) as store:
        assert store.current("c") is not None
