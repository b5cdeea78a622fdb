"""One process owns a home, and only as long as it lives."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hermes_base.errors import ConfigProblem, HomeBusy
from hermes_state import home_lock
from hermes_state.home_lock import LOCK_FILE, LOCK_FOLDER, Holder, HomeLock, holder

OWNER = """
import sys
from hermes_state.home_lock import HomeLock

lock = HomeLock(sys.argv[1])
lock.acquire()
print("owner", flush=True)
sys.stdin.readline()
"""

FORKER = """
import os, sys, time
from hermes_state.home_lock import HomeLock

lock = HomeLock(sys.argv[1])
lock.acquire()
ready, tell = os.pipe()
if os.fork() == 0:
    os.write(tell, b"1")
    sys.stdin.readline()
    os._exit(0)
os.read(ready, 1)
print("owner", flush=True)
time.sleep(600)
"""


TENDER = """
import sys
from hermes_state.home_lock import HomeLock, tend

lock = HomeLock(sys.argv[1])
lock.acquire()
print("owner", flush=True)
while sys.stdin.readline():
    tend(sys.argv[1])
    print("tended", flush=True)
"""


def start_owner(home: Path, code: str = OWNER) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", code, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "owner\n"
    return child


def stop(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def test_a_second_process_is_refused_by_name(tmp_path: Path) -> None:
    """The refusal names the owner's pid, since when it runs, and what to do."""
    owner = start_owner(tmp_path)
    try:
        with pytest.raises(HomeBusy) as caught:
            HomeLock(tmp_path).acquire()
        assert caught.value.pid == owner.pid
        assert abs(caught.value.since - time.time()) < 3600
        assert str(owner.pid) in str(caught.value)
        assert "HERMES_HOME" in caught.value.fix
        assert holder(tmp_path) == Holder(owner.pid, caught.value.since)
    finally:
        stop(owner)


@pytest.mark.parametrize("code", [OWNER, FORKER])
def test_a_killed_owner_frees_the_home_at_once(tmp_path: Path, code: str) -> None:
    """A dead owner's note and a child that it forked block nobody."""
    owner = start_owner(tmp_path, code)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert str(owner.pid) in (tmp_path / LOCK_FILE).read_text()
    assert holder(tmp_path) is None
    with HomeLock(tmp_path):
        assert holder(tmp_path) is not None
    stop(owner)


def test_an_owner_that_ends_frees_the_home(tmp_path: Path) -> None:
    owner = start_owner(tmp_path)
    owner.communicate("\n")
    assert owner.returncode == 0
    with HomeLock(tmp_path):
        pass


def test_the_lock_can_be_taken_again_after_release(tmp_path: Path) -> None:
    lock = HomeLock(tmp_path)
    lock.release()
    for _ in range(3):
        lock.acquire()
        lock.acquire()
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == os.getpid()
        with pytest.raises(HomeBusy):
            HomeLock(tmp_path).acquire()
        lock.release()
        assert holder(tmp_path) is None


def test_a_missing_home_is_made_private(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    assert holder(home) is None
    assert not home.exists()
    with HomeLock(home):
        assert home.stat().st_mode & 0o777 == 0o700
        assert (home / LOCK_FILE).stat().st_mode & 0o777 == 0o600


def test_a_home_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for home in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigProblem) as caught:
            HomeLock(home).acquire()
        assert str(home) in str(caught.value)
        assert caught.value.fix


@pytest.mark.parametrize("note", ["", "garbage", "[]", '{"pid": "x", "started": 1}'])
def test_an_unreadable_note_does_no_harm(tmp_path: Path, note: str) -> None:
    with HomeLock(tmp_path):
        (tmp_path / LOCK_FILE).write_text(note)
        assert holder(tmp_path) == Holder(0, 0.0)
        with pytest.raises(HomeBusy, match="another process"):
            HomeLock(tmp_path).acquire()
    with HomeLock(tmp_path):
        pass


@pytest.mark.parametrize("lost", [(LOCK_FILE,), (LOCK_FOLDER,), (LOCK_FILE, LOCK_FOLDER)])
def test_an_owner_whose_lock_was_deleted_stays_the_owner(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """B6: one thing that is deleted lets nobody in; the owner puts back what is gone, and is found by name again."""
    owner = start_owner(tmp_path, TENDER)
    try:
        for name in lost:
            path = tmp_path / name
            path.rmdir() if path.is_dir() else path.unlink()
            if name == lost[0]:
                with pytest.raises(HomeBusy):
                    HomeLock(tmp_path).acquire()
                assert holder(tmp_path) is not None
        assert owner.stdin is not None
        assert owner.stdout is not None
        print(file=owner.stdin, flush=True)
        assert owner.stdout.readline() == "tended\n"
        found = holder(tmp_path)
        assert found is not None
        assert found.pid == owner.pid
        (tmp_path / LOCK_FILE).unlink()
        with pytest.raises(HomeBusy):
            HomeLock(tmp_path).acquire()
    finally:
        stop(owner)
    HomeLock(tmp_path).acquire()


def test_the_settings_can_be_edited_while_the_home_is_owned(tmp_path: Path) -> None:
    """H6: the home folder itself is not locked by its owner."""
    with HomeLock(tmp_path):
        folder = os.open(tmp_path, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)


def write_foreign_note(home: Path) -> Path:
    """What an owner on another machine has left, whose locks are not seen here."""
    with HomeLock(home):
        pass
    note = {"pid": 7, "started": 1.0, "host": "far-away", "machine": "another"}
    (home / LOCK_FILE).write_text(json.dumps(note))
    return home / LOCK_FILE


def test_a_home_that_lives_on_another_machine_is_not_taken(tmp_path: Path) -> None:
    """B6: a shared disk need not tell what another machine has locked; its owner's sign of life does."""
    file, ended = write_foreign_note(tmp_path), threading.Event()

    def live() -> None:
        while not ended.wait(0.05):
            os.utime(file)

    owner = threading.Thread(target=live)
    owner.start()
    try:
        with pytest.raises(HomeBusy, match=r"in use on another machine, far-away\. Stop Hermes there"):
            HomeLock(tmp_path).acquire()
    finally:
        ended.set()
        owner.join()


def test_a_home_whose_machine_has_ended_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F3: at once when its last sign of life is old, else when no other one comes."""
    file = write_foreign_note(tmp_path)
    os.utime(file, (1, 1))
    with HomeLock(tmp_path):
        assert holder(tmp_path) is not None
    write_foreign_note(tmp_path)
    monkeypatch.setattr(home_lock, "SIGN_WATCHED", 0.1)
    with HomeLock(tmp_path) as lock:
        os.utime(file, (1, 1))
        assert lock.tend()
        assert file.stat().st_mtime > 1


# --- the node of the owner before


def test_the_next_owner_knows_the_node_of_a_dead_one(tmp_path: Path) -> None:
    """I2: whoever has the lock knows that the process which left its id there has ended; nobody else does."""
    home, copied = tmp_path / "home", tmp_path / "copied"
    with HomeLock(home):
        home_lock.note_node(home, "7-abc")
        shutil.copytree(home, copied)
        assert home_lock.find_dead_node(home) == "7-abc"
    assert home_lock.find_dead_node(home) == ""
    with HomeLock(copied):  # the one that it was copied from may live
        assert home_lock.find_dead_node(copied) == ""
    with HomeLock(home):
        assert home_lock.find_dead_node(home) == "7-abc"


@pytest.mark.parametrize("left", ["", "{", "[]", '{"node": "7-abc"}', '{"node": "7-abc", "place": "another boot 1 2"}'])
def test_what_another_machine_or_nobody_left_is_no_node(tmp_path: Path, left: str) -> None:
    with HomeLock(tmp_path):
        (tmp_path / LOCK_FOLDER / home_lock.NODE_FILE).write_text(left)
        assert home_lock.find_dead_node(tmp_path) == ""
