"""The unit of systemd: what it says, which name it has, and that systemd itself can read it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.service.gateway import CUT_SECONDS, GRACE_SECONDS
from hermes_base.errors import HermesError
from hermes_cli.cmds.gateway.crash_guard import REFUSED
from hermes_cli.cmds.gateway.service_unit import (
    MARK,
    PAUSE_SECONDS,
    STARTS,
    STARTS_SECONDS,
    STOP_SECONDS,
    Unit,
    describe_unit,
    is_in_unit,
    name_unit,
    quote,
    write_unit,
)

USER = {"HOME": "/home/ada"}
HOME = Path("/home/ada/.hermes")
PYTHON = Path("/opt/hermes/bin/python")
#: Words of systemd that would shut the sandbox of the commands out.
HARMFUL = ("NoNewPrivileges=", "RestrictNamespaces=", "PrivateTmp=", "Protect", "SystemCallFilter=", "PrivateUsers=")


def read(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))


def unquote(word: str) -> str:
    """What systemd makes of a quoted word: escapes first, then percent signs."""
    assert word[0] == word[-1] == '"'
    letters = iter(word[1:-1])
    plain = "".join(next(letters) if letter == "\\" else letter for letter in letters)
    assert "%" not in plain.replace("%%", "")
    return plain.replace("%%", "%")


def test_a_users_unit() -> None:
    """F9: it is started again after a pause, and not for ever."""
    unit = describe_unit(HOME, PYTHON, USER)
    assert unit.path == Path("/home/ada/.config/systemd/user/hermes-gateway.service")
    text = write_unit(unit)
    said = read(text)
    assert text.startswith(MARK)
    assert said["ExecStart"] == '":/opt/hermes/bin/python" -P -m hermes_cli.main gateway run'
    assert said["Environment"] == '"HERMES_HOME=/home/ada/.hermes"'
    assert (said["Restart"], said["KillMode"], said["WantedBy"]) == ("on-failure", "mixed", "default.target")
    assert (said["RestartSec"], said["StartLimitBurst"]) == (str(PAUSE_SECONDS), str(STARTS))
    assert said["StartLimitIntervalSec"] == str(STARTS_SECONDS)
    assert said["RestartPreventExitStatus"] == str(REFUSED)
    assert "User" not in said
    assert not [name for name in said if f"{name}=".startswith(HARMFUL)]


def test_the_numbers_fit() -> None:
    """C14, F9: the gateway's grace fits into the time to stop, and a loop of quick crashes reaches the limit."""
    assert STOP_SECONDS > 2 * (GRACE_SECONDS + CUT_SECONDS)
    assert PAUSE_SECONDS * STARTS < STARTS_SECONDS / 2


def test_a_unit_of_the_system() -> None:
    unit = describe_unit(HOME, PYTHON, USER, "ada")
    assert unit.path == Path("/etc/systemd/system/hermes-gateway.service")
    said = read(write_unit(unit))
    assert (said["User"], said["WantedBy"]) == ("ada", "multi-user.target")
    assert unit.enabling[1] == ("systemctl", "enable", "--now", unit.name)
    assert describe_unit(HOME, PYTHON, USER).enabling[0] == ("systemctl", "--user", "daemon-reload")


def test_homes_do_not_share_a_name() -> None:
    own = Path("/home/ada")
    homes = [own / ".hermes", own / ".hermes/profiles/work", own / "other/work", Path("/srv/.hermes"), Path("/")]
    names = [name_unit(home, own) for home in homes]
    assert len(set(names)) == len(homes)
    assert names[1].startswith("hermes-gateway-work-")


@given(st.text())
def test_any_folder_gives_a_name_that_systemd_takes(name: str) -> None:
    letters = set(name_unit(Path("/srv") / name.replace("\0", ""), Path("/home/ada")).removesuffix(".service"))
    assert letters <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")


@given(st.text())
def test_quoting_loses_nothing(word: str) -> None:
    assert unquote(quote(word)) == word


@pytest.mark.parametrize(
    ("home", "python"), [("/a\nExecStart=/bin/sh", "/py"), ("/a", "/b\n/py"), ("/a", '/b"/py'), ("/a", "/b\\/py")]
)
def test_a_path_that_cannot_be_written_is_refused(home: str, python: str) -> None:
    """H8: a line break in a path must not become a line of the unit."""
    with pytest.raises(HermesError, match="systemd cannot use the path"):
        write_unit(describe_unit(Path(home), Path(python), USER))


def test_a_process_of_the_unit_is_known() -> None:
    own, machine = describe_unit(HOME, PYTHON, USER), describe_unit(HOME, PYTHON, USER, "ada")
    of_user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/hermes-gateway.service\n"
    of_machine = "0::/system.slice/hermes-gateway.service\n"
    by_hand = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/terminal.scope\n"
    assert [is_in_unit(text, own) for text in (of_user, of_machine, by_hand)] == [True, False, False]
    assert [is_in_unit(text, machine) for text in (of_user, of_machine, by_hand)] == [False, True, False]


def verify(unit: Unit, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What systemd says about the unit; it looks for a runtime folder even when it only reads."""
    path = folder / unit.name
    path.write_text(write_unit(unit), "utf-8")
    command = ["systemd-analyze", *words, "--man=no", "verify", str(path)]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", ["plain", "with a space", "100%h", "$HOME and ${HOME}", "späße"])
@pytest.mark.parametrize("user", ["", "root"])
def test_systemd_can_read_it(tmp_path: Path, name: str, user: str) -> None:
    """F9: systemd has nothing to say about it, wherever the home and the Python are: the program is looked for."""
    python = tmp_path / name / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    unit = describe_unit(tmp_path / name / "home", python, USER, user)
    done = verify(unit, tmp_path, *([] if user else ["--user"]))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_would_notice(tmp_path: Path) -> None:
    """The check above can fail: a program that is not there is reported."""
    done = verify(describe_unit(HOME, tmp_path / "100%h" / "none", USER, "root"), tmp_path)
    assert done.returncode != 0
    assert str(tmp_path / "100%h" / "none") in done.stderr
