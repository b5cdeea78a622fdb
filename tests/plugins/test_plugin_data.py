"""What plugins write: in a folder of the home or beside their code, it outlives updates, and back-ups hold it (F6)."""

import json
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from processes import list_open
from waiting import wait_until

from hermes_base.errors import HermesError
from hermes_cli import plugins_cmd
from hermes_cli.cmds.backup_cmd import list_plugin_names
from hermes_cli.cmds.backup_cmd import main as backup
from hermes_cli.main import run as run_hermes
from hermes_cli.plugins_cmd.plugin_updating import ASIDE, CARRIED, keep_own
from hermes_constants.home_names import KEPT, belongs_to, find_database, is_own, may_be_data, name_data
from hermes_state.backup.archive import verify_backup
from plugins import context_engine, memory

GOOD = "def register(ctx): pass\n"
#: Writes a row, and says its number once it is there; through one connection, or through one for each row.
WRITER = """
    import sqlite3, sys, time
    path, mode, keeps = sys.argv[1], sys.argv[2], sys.argv[3] == "keeps"
    def connect():
        db = sqlite3.connect(path, timeout=30, isolation_level=None)
        db.execute(f"pragma journal_mode={mode}")
        db.execute("create table if not exists note(n integer)")
        return db
    db = connect()
    for n in range(100_000):
        if not keeps:
            db.close()
            db = connect()
        db.execute("insert into note values (?)", (n,))
        print(n, flush=True)
        time.sleep(0.002)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The folder in which somebody works on a plugin: it has been used there, too."""
    folder = tmp_path / "timebox"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__pycache__" / "x.pyc").write_text("x")
    (folder / "plugin.yaml").write_text("name: timebox\nversion: 1\n")
    (folder / "__init__.py").write_text(GOOD)
    write_rows(folder / "timebox.db", 3)
    (folder / "timebox.db-wal").write_text("a log of the author's")
    return folder


def write_rows(path: Path, rows: int) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table if not exists note(n integer)")
        db.executemany("insert into note values (?)", [(n,) for n in range(rows)])


def read_rows(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        return [n for (n,) in db.execute("select n from note order by n")]


def hermes(*words: str) -> int:
    return plugins_cmd.main(list(words))


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Programs that write into a database until they are told to end."""
    script, running = tmp_path / "writer.py", []
    script.write_text(textwrap.dedent(WRITER))

    def start(path: Path, mode: str, keeps: str) -> subprocess.Popen[str]:
        said = (tmp_path / f"said-{len(running)}").open("w+")
        made = subprocess.Popen([sys.executable, str(script), str(path), mode, keeps], stdout=said, text=True)
        running.append((made, said))
        return made

    def read_said() -> list[list[int]]:
        return [
            [int(line) for line in Path(said.name).read_text().splitlines(keepends=True) if line.endswith("\n")]
            for _, said in running
        ]

    start.read_said = read_said  # type: ignore[attr-defined]
    yield start
    for made, said in running:
        made.kill()
        made.wait()
        said.close()


# --- install


@pytest.mark.parametrize("way", ["folder", "archive"])
def test_install_takes_no_database_along_and_says_so(source, tmp_path, home, way, capsys):
    given = source
    if way == "archive":
        given = tmp_path / "it.tar.gz"
        with tarfile.open(given, "w:gz") as archive:
            archive.add(source, "timebox")
    assert hermes("install", str(given), "--no-enable") == 0
    told = capsys.readouterr().out
    assert "not taken along, since databases are data and no code: timebox.db, timebox.db-wal" in told
    assert {path.name for path in (home / "plugins/timebox").iterdir()} == {
        *("plugin.yaml", "__init__.py", ".hermes-source.json")
    }


def test_a_new_install_over_the_old_keeps_what_was_written(source, home):
    hermes("install", str(source), "--no-enable")
    folder = home / "plugins/timebox"
    write_rows(folder / "timebox.db", 5)
    (folder / "kept.json").write_text("{}")
    assert hermes("install", str(source), "--no-enable", "--force") == 0
    assert read_rows(folder / "timebox.db") == [0, 1, 2, 3, 4]
    assert (folder / "kept.json").read_text() == "{}"


# --- update


@pytest.mark.parametrize("keeps", ["keeps", "opens"])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_an_update_under_a_program_that_writes_loses_no_row(source, home, write, mode, keeps):
    """F6: what was said to be written before, while and after the folder changed is there."""
    hermes("install", str(source), "--enable")
    database = home / "plugins/timebox/timebox.db"
    running = write(database, mode, keeps)
    wait_until(lambda: len(write.read_said()[0]) > 20)
    for version in (2, 3, 4):
        (source / "plugin.yaml").write_text(f"name: timebox\nversion: {version}\n")
        assert hermes("update", "timebox", "--yes") == 0
        before = len(write.read_said()[0])
        wait_until(lambda before=before: len(write.read_said()[0]) > before + 10 or running.poll() is not None)
    assert running.poll() is None
    if keeps == "keeps":  # it goes on in the very file that stands there
        status = database.stat()
        assert (status.st_dev, status.st_ino) in list_open(running.pid)
    running.kill()
    running.wait()
    said = write.read_said()[0]
    assert set(said) <= set(read_rows(database))
    assert not list(database.parent.parent.glob(".coming-*"))


def test_a_database_and_what_belongs_to_it_are_one_thing():
    local = {"x.db": "1", "x.db-wal": "1", "x.db-shm": "1", "notes.txt": "mine", "__init__.py": "old"}
    came = {"x.db": "0", "notes.txt": "its", "__init__.py": "old"}
    fates = keep_own(came, local, {"x.db": "2", "notes.txt": "new", "__init__.py": "new"})
    assert fates == {"x.db": CARRIED, "x.db-wal": CARRIED, "x.db-shm": CARRIED, "notes.txt": ASIDE}


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("a/x.db", "a/x.db"),
        ("x.db-wal", "x.db"),
        ("x.sqlite3-journal", "x.sqlite3"),
        ("x.sqlite-shm", "x.sqlite"),
        ("x.db.lock", "x.db"),
        ("x.db.example", ""),
        ("x.dbm", ""),
        (".db", ""),
    ],
)
def test_what_belongs_to_a_database(name, base):
    assert find_database(name) == base


def test_a_database_larger_than_any_code_keeps_no_plugin_from_running(write_plugin, enable):
    folder = write_plugin("big", "def register(ctx): ctx.register_command('big', lambda text: 'x')")
    with (folder / "big.db").open("wb") as file:
        file.truncate(300 << 20)
    assert enable("big")._plugins["big"].error is None


# --- remove


def test_remove_says_before_it_asks_what_goes_and_what_stays(source, home, capsys):
    hermes("install", str(source), "--no-enable")
    write_rows(home / "plugins/timebox/timebox.db", 1)
    write_rows(home / "timebox.db", 1)
    (home / "timebox").mkdir()
    capsys.readouterr()
    with pytest.raises(HermesError, match="nobody can be asked"):
        hermes("remove", "timebox")  # nobody is there who could be asked
    told = capsys.readouterr().out
    assert f"goes with it:\n    {home}/plugins/timebox/timebox.db\n" in told
    assert f"What stays, in case it comes back:\n    data: {home}/timebox\n    data: {home}/timebox.db\n" in told
    assert hermes("remove", "timebox", "--yes") == 0
    assert not (home / "plugins/timebox").exists()
    assert read_rows(home / "timebox.db") == [0]


# --- the folder of the home


KEEPS = """
    from agent.memory_provider import MemoryProvider
    class Keeps(MemoryProvider):
        name = "{name}"
        def __init__(self, folder): self.folder = folder
        def is_available(self): return True
        def initialize(self, session_id, **kwargs): pass
        def get_tool_schemas(self): return []
    def register(ctx):
        ctx.register_memory_provider(Keeps(ctx.data_folder))
"""
ENGINE = """
    from agent.context_compressor import ContextCompressor
    class Engine(ContextCompressor):
        name = "shelf"
    def register(ctx):
        engine = Engine("lab")
        engine.folder = ctx.data_folder
        ctx.register_context_engine(engine)
"""


def test_each_kind_of_plugin_has_a_folder_for_its_data(write_plugin, enable, configure, home):
    write_plugin("notes", "def register(ctx): (ctx.data_folder / 'x.txt').write_text('x')")
    write_plugin("logs", "def register(ctx): (ctx.data_folder / 'x.txt').write_text('x')")
    write_plugin("keeps", KEEPS.format(name="keeps"))
    write_plugin("shelf", ENGINE, root=home / "plugins" / "context_engine")
    enable("notes", "logs")
    assert (home / "notes/x.txt").read_text() == "x"
    assert (home / "data-of-logs/x.txt").read_text() == "x"
    assert (home / "notes").stat().st_mode & 0o777 == 0o700
    configure(memory={"provider": "keeps"}, context={"engine": "shelf"})
    assert memory.load_memory_provider("keeps").folder == home / "keeps"
    assert context_engine.load_context_engine("shelf").folder == home / "shelf"
    assert list_plugin_names() >= {"notes", "logs", "keeps", "shelf"}


def test_no_plugin_is_given_a_place_of_ours():
    for name in (*KEPT, ".env", "web-token", "logs", "hermes-store.db-wal", "hermes.sock", "before-restore-1", "../x"):
        assert not may_be_data(name)
        assert not belongs_to(name, [name])
        assert may_be_data(name_data(name))
    assert belongs_to("lcm.db-wal", ["hermes-lcm"])
    assert belongs_to("word_count.json", ["word-count"])
    assert belongs_to(name_data("logs"), ["logs"])
    assert not belongs_to("lcm2", ["lcm"])
    assert not is_own("hermes-notes")


# --- back-up


def test_a_backup_holds_what_plugins_wrote_as_one_state_and_brings_it_back(
    write_plugin, configure, home, tmp_path, write, capsys
):
    """F6: while it is written to."""
    write_plugin("notes", GOOD)
    write_plugin("beside", GOOD)
    configure()
    (home / "notes").mkdir()
    (home / "notes.json").write_text("{}")
    (home / "strange").mkdir()
    (home / "gateway.out").write_text("x")
    databases = [home / "notes/notes.db", home / "plugins/beside/own.sqlite"]
    for path, mode in zip(databases, ("wal", "delete"), strict=True):
        write(path, mode, "keeps")
    wait_until(lambda: all(len(said) > 20 for said in write.read_said()))
    before = write.read_said()
    assert backup(["create", "-o", str(tmp_path / "b.tar.gz")]) == 0
    told = capsys.readouterr().out
    assert "Not in it, since no plugin here is called so: 'strange'. What you need of it, copy yourself." in told
    assert "notes.json" in told
    names = {member.name for member in verify_backup(tmp_path / "b.tar.gz").members}
    assert "notes/notes.db" in names
    assert "notes/notes.db-wal" not in names
    assert backup(["restore", str(tmp_path / "b.tar.gz"), "--into", str(tmp_path / "other")]) == 0
    for path, said in zip(databases, before, strict=True):
        rows = read_rows(tmp_path / "other" / path.relative_to(home))
        assert set(said) <= set(rows)
        assert rows == list(range(len(rows)))


def test_a_restore_replaces_the_data_of_plugins_and_keeps_the_old(write_plugin, configure, home, tmp_path, capsys):
    write_plugin("notes", GOOD)
    configure()
    for name in ("notes", "others"):
        (home / name).mkdir()
        (home / name / "kept.txt").write_text("then")
    assert backup(["create", "-o", str(tmp_path / "b.tar.gz")]) == 0
    for name in ("notes", "others"):
        (home / name / "kept.txt").write_text("now")
    (home / "notes" / "new.txt").write_text("now")
    assert backup(["restore", str(tmp_path / "b.tar.gz"), "--yes"]) == 0
    assert {path.name: path.read_text() for path in (home / "notes").iterdir()} == {"kept.txt": "then"}
    assert (home / "others/kept.txt").read_text() == "now"  # of what the back-up does not hold, nothing changes
    (old,) = home.glob("before-restore-*")
    assert {path.name: path.read_text() for path in (old / "notes").iterdir()} == {"kept.txt": "now", "new.txt": "now"}


def test_a_locked_or_broken_database_is_copied_as_it_lies_there(write_plugin, configure, home, tmp_path):
    folder = write_plugin("notes", GOOD)
    configure()
    (folder / "no.db").write_text("no database")
    (folder / "no.db-wal").write_text("no log")
    shutil.copy(folder / "no.db", folder / "half.db")
    (folder / "half.db").write_bytes(b"SQLite format 3\0 and then nothing that it could be")
    (folder / "half.db-journal").write_text("x")
    assert backup(["create", "-o", str(tmp_path / "b.tar.gz")]) == 0
    names = {member.name for member in verify_backup(tmp_path / "b.tar.gz").members}
    assert names >= {f"plugins/notes/{name}" for name in ("no.db", "no.db-wal", "half.db", "half.db-journal")}


def test_two_conversations_of_the_example_write_into_one_file(home):
    """Each conversation has a provider of its own; none loses what another one wrote."""
    folder = Path(__file__).parents[2] / "examples/plugins/notebook"
    shutil.copytree(folder, home / "plugins/notebook", ignore=shutil.ignore_patterns("__pycache__"))
    made = [memory.load_memory_provider("notebook") for _ in range(4)]
    assert len(set(map(id, made))) == 4
    for place, one in enumerate(made):
        one.initialize(f"s{place}", hermes_home=str(home))
    text = "words " * 4_000  # more than one write of the system
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: [one.sync_turn(f"{n}", text, session_id=one._session) for n in range(20)], made))
    lines = (home / "notebook/all.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["session"] for line in lines) == sorted(["s0", "s1", "s2", "s3"] * 20)


KEEPER = """
from agent.memory_provider import MemoryProvider

class Keeper(MemoryProvider):
    name = "keeper"

    def is_available(self): return True
    def initialize(self, session_id, **facts): ...
    def get_tool_schemas(self): return []
    def backup_paths(self): {body}

def register(ctx):
    ctx.register_memory_provider(Keeper())
"""


def test_a_backup_holds_what_the_memory_names_and_says_what_it_cannot_hold(
    write_plugin, configure, home, tmp_path, capsys
):
    """H8: what stands in the home under a name of its own comes along; what stands elsewhere is told."""
    outside = tmp_path / "far" / "facts.db"
    body = f"return ['shelf/facts.db', {str(outside)!r}, 'absent', '', 7]"
    write_plugin("keeper", KEEPER.format(body=body))
    configure(memory={"provider": "keeper"})
    (home / "shelf").mkdir()
    (home / "shelf" / "facts.db").write_text("kept")
    saved, other = tmp_path / "saved.tar.gz", tmp_path / "other"
    assert run_hermes(["backup", "create", "-o", str(saved)]) == 0
    told = capsys.readouterr().out
    assert f"Not in it, and the memory keeper needs it: '{outside}'. Copy that yourself." in told
    assert run_hermes(["backup", "restore", str(saved), "--into", str(other)]) == 0
    assert (other / "shelf" / "facts.db").read_text() == "kept"


@pytest.mark.parametrize("body", ["raise RuntimeError('no')", "return 7", "raise SystemExit"])
def test_a_memory_that_cannot_say_what_it_keeps_is_no_obstacle(body, write_plugin, configure, tmp_path, capsys):
    write_plugin("keeper", KEEPER.format(body=body))
    configure(memory={"provider": "keeper"})
    assert run_hermes(["backup", "create", "-o", str(tmp_path / "saved.tar.gz")]) == 0
    assert "The memory keeper did not say what else it keeps" in capsys.readouterr().out
