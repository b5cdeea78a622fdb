"""`hermes backup` as a person uses it: the real command on a real home."""

from contextlib import closing
from pathlib import Path

import pytest

from hermes_cli import main as entry
from hermes_constants import STORE_FILE
from hermes_state.home_lock import HomeLock
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

Output = pytest.CaptureFixture[str]


@pytest.fixture
def filled(home: Path) -> Path:
    with closing(Store(home / STORE_FILE)) as store:
        store.open_session(NewSession("c"))
    (home / "config.yaml").write_text("{}\n")
    (home / ".env").write_text("OPENAI_API_KEY=abc\n")
    return home


def run(output: Output, *args: str, code: int = 0) -> str:
    assert entry.main(["backup", *args]) == code
    told = output.readouterr()
    return told.err if code else told.out


def test_a_backup_is_made_beside_an_owner_checked_and_put_back(filled: Path, tmp_path: Path, capsys: Output) -> None:
    """H5: success is told after the archive was read back; the answers say what is in it and where the old is."""
    with HomeLock(filled), closing(Store(filled / STORE_FILE)):
        told = run(capsys, "create")
    path = next((filled / "backups").iterdir())
    assert f"Written and checked: {path}" in told
    assert "Keys (.env) are not in it." in told
    assert f"{path} is whole." in run(capsys, "verify", str(path))
    (filled / "config.yaml").write_text("# changed\n")
    told = run(capsys, "restore", str(path), "--yes")
    assert (filled / "config.yaml").read_text() == "{}\n"
    assert (filled / ".env").exists()
    old = next(filled.glob("before-restore-*"))
    assert f"kept in {old}" in told
    assert (old / "config.yaml").read_text() == "# changed\n"


def test_keys_and_another_folder_are_chosen_by_options(filled: Path, tmp_path: Path, capsys: Output) -> None:
    """G6: the answer says when keys are in the file."""
    path, other = tmp_path / "b.tar.gz", tmp_path / "other"
    assert "keep it safe" in run(capsys, "create", "-o", str(path), "--with-secrets")
    assert "before is kept" not in run(capsys, "restore", str(path), "--into", str(other))
    assert (other / ".env").read_text() == "OPENAI_API_KEY=abc\n"


def test_refusals_are_sentences(filled: Path, tmp_path: Path, capsys: Output) -> None:
    """H8: what is wrong, that nothing was changed, and what to do; the exit code is 1."""
    path = tmp_path / "b.tar.gz"
    run(capsys, "create", "-o", str(path))
    assert "is there already" in run(capsys, "create", "-o", str(path), code=1)
    assert "Add --yes" in run(capsys, "restore", str(path), code=1)
    with HomeLock(filled):
        assert "is owned by process" in run(capsys, "restore", str(path), "--yes", code=1)
    path.write_bytes(path.read_bytes()[:-20])
    assert "is cut" in run(capsys, "verify", str(path), code=1)
    assert "is cut" in run(capsys, "restore", str(path), "--yes", code=1)
    assert "There is no file" in run(capsys, "verify", str(tmp_path / "nowhere"), code=1)
