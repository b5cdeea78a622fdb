"""The command `hermes` as a real process: what it prints, how it ends, and that no failure shows a stack trace."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_process import HERMES
from warm_python import run_text

from hermes_base.errors import HermesError
from hermes_cli import main as entry
from hermes_constants import VERSION

CANARY = "sk-canary-0123456789"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_PROFILE", raising=False)
    return tmp_path


def _run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [HERMES, *args]
    return subprocess.CompletedProcess(command, *run_text(command, {**os.environ, **env}))


STEER = "\x1b]0;title\x07\x1b[2J\x9b31m"


@pytest.mark.parametrize("name", [name for name, entry in entry.COMMANDS.items() if not entry.draws])
def test_no_command_lets_what_it_prints_steer_the_terminal(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """H7: a key, an error of a server or a line of the log says what it says."""

    def show(_args: list[str]) -> int:
        print(f"a{STEER}b\tc")
        print(f"d{STEER}e", file=sys.stderr)
        raise HermesError(f"f{STEER}g")

    load = entry.load
    monkeypatch.setattr(entry, "load", lambda target: show if target == entry.COMMANDS[name].target else load(target))
    assert entry.main([name]) == entry.FAILED
    told = capsys.readouterr()
    assert told.out == "a]0;title[2J31mb\tc\n"
    assert told.err == "d]0;title[2J31me\nhermes: f]0;title[2J31mg\n"


def test_the_log_is_shown_without_what_steers(home: Path) -> None:
    (home / "logs").mkdir()
    (home / "logs" / "gateway.log").write_text(json.dumps({"level": "info", "message": STEER}) + "\n")
    done = _run("logs")
    assert "]0;title" in done.stdout
    assert not {"\x1b", "\x07", "\x9b"} & set(done.stdout + done.stderr)


def test_version(home: Path) -> None:
    done = _run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"hermes {VERSION}\n", "")
    assert list(home.iterdir()) == []


def test_version_loads_next_to_nothing(home: Path) -> None:
    """The parts that cost most must not come back unseen."""
    code = "import sys; from hermes_cli.main import main; main(['--version']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    heavy = {"argparse", "asyncio", "logging", "ruamel.yaml", "sqlite3", "hermes_cli.config"}
    assert not heavy & set(done.stdout.split())


def test_help_lists_every_command(home: Path) -> None:
    done = _run("--help")
    assert done.returncode == 0
    for name, row in entry.COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert row.summary in done.stdout
    assert str(home) in done.stdout


def test_a_command_whose_package_is_missing_is_not_offered_h8(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """H8: and who types it all the same reads what is missing."""
    monkeypatch.setitem(sys.modules, "hermes_lab", None)
    monkeypatch.delitem(sys.modules, "hermes_cli.lab", raising=False)
    assert "  lab " not in entry.write_help()
    assert "hermes lab" not in entry.suggest("labs", [])
    assert entry.main(["lab", "serve"]) == 1
    assert capsys.readouterr().err.startswith("hermes: The Python package 'hermes_lab' is missing. Install it, or run ")


def test_an_unknown_command_names_the_closest(home: Path) -> None:
    """H8."""
    done = _run("sesions", "list")
    assert done.returncode == 2
    assert "`hermes sessions`" in done.stderr
    assert _run("xyzzy").stderr.endswith("`hermes --help` lists the commands.\n")


@pytest.mark.parametrize("line", ["config", "config get", "sessions list --limit none", "doctor x"])
def test_wrong_use_is_explained(home: Path, line: str) -> None:
    done = _run(*line.split())
    assert done.returncode == 2
    assert "usage: hermes" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "target", "rest"),
    [
        ((), "chat", []),
        (("-q", "hi"), "chat", ["-q", "hi"]),
        (("--query=hi",), "chat", ["--query=hi"]),
        (("-q", "--profile"), "chat", ["-q", "--profile"]),
        (("chat", "-q", "x"), "chat", ["-q", "x"]),
        (("config", "get", "x"), "config", ["get", "x"]),
        (("config", "set", "x", "--", "--profile"), "config", ["set", "x", "--", "--profile"]),
    ],
)
def test_arguments_reach_their_command(
    home: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], target: str, rest: list[str]
) -> None:
    seen = []
    real_load = entry.load

    def load(name: str):  # type: ignore[no-untyped-def]
        return (lambda given: seen.append((name, given)) or 7) if name.endswith(":main") else real_load(name)

    monkeypatch.setattr(entry, "load", load)
    assert entry.main(list(args)) == 7
    assert seen == [(entry.COMMANDS[target].target, rest)]


def test_a_config_problem_is_one_paragraph_without_a_trace(home: Path) -> None:
    """H8."""
    (home / "config.yaml").write_text("model: [\n")
    done = _run("config", "get", "model.default")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert str(home / "config.yaml") in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (
            {"HERMES_HOME": "~nobody-of-this-name/h"},
            "HERMES_HOME is ~nobody-of-this-name/h, and there is no such user.",
        ),
        ({"HERMES_HOME": "", "HOME": "~"}, "This user has no folder of its own."),
    ],
)
def test_a_home_that_nobody_can_find_is_said_so(
    names: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """H3: in a sentence, and no folder is made of what was written."""
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert entry.main(["config", "get", "model.default"]) == 1
    assert capsys.readouterr().err == f"hermes: {why} Set HERMES_HOME to a whole path.\n"


def _crash_in_process(home: Path) -> subprocess.CompletedProcess[str]:
    """A command whose code is broken, loaded from a table like any other."""
    (home / "broken_command.py").write_text(f"def main(args):\n    raise RuntimeError('boom {CANARY}')\n")
    code = (
        "import sys; from hermes_cli import main as m; "
        "m.COMMANDS = {'broken': m.CommandEntry('broken_command:main', '')}; sys.exit(m.main(['broken']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(home), "SOME_API_KEY": CANARY}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def test_a_crash_is_one_line_and_its_trace_is_kept_without_secrets(home: Path) -> None:
    """G6, H8."""
    done = _crash_in_process(home)
    assert done.returncode == 70
    assert done.stderr.count("\n") == 1
    (trace,) = (home / "logs").iterdir()
    assert str(trace) in done.stderr
    assert "RuntimeError: boom [redacted SOME_API_KEY]" in trace.read_text()
    assert "broken_command.py" in trace.read_text()
    assert CANARY not in trace.read_text() + done.stderr
    assert trace.stat().st_mode & 0o777 == 0o600


def test_a_crash_whose_trace_cannot_be_kept_shows_it_without_secrets(home: Path) -> None:
    """G6."""
    (home / "logs").write_text("in the way")
    done = _crash_in_process(home)
    assert done.returncode == 70
    assert "could not be written" in done.stderr
    assert "Traceback" in done.stderr
    assert CANARY not in done.stderr


def test_a_reader_that_leaves_is_no_error(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes_cli.main", "config", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == entry.PIPE_CLOSED
    assert errors == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_clear_sentence(home: Path) -> None:
    """H8."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "hermes_cli.main", "config", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "hermes: No space left on device. Check the disk's space and permissions.\n"


def test_ctrl_c_ends_quietly(home: Path) -> None:
    body = "import time\ndef main(args):\n    print('up', flush=True)\n    time.sleep(60)\n"
    (home / "waiting_command.py").write_text(body)
    code = (
        "import sys; from hermes_cli import main as m; "
        "m.COMMANDS = {'wait': m.CommandEntry('waiting_command:main', '')}; sys.exit(m.main(['wait']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(home)},
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == b""


def test_a_missing_package_is_named(home: Path) -> None:
    """H8."""
    with pytest.raises(entry.HermesError, match="no_such_package_here"):
        entry.load("no_such_package_here:main")


def test_logs_of_a_command_hold_no_secret(home: Path) -> None:
    """G6: the warning about an unknown key goes through the log."""
    (home / "config.yaml").write_text(f"{CANARY}: 1\n")
    done = _run("config", "path", SOME_API_KEY=CANARY)
    assert "[redacted SOME_API_KEY]" in done.stderr
    assert CANARY not in done.stderr


# --- profiles


def test_a_profile_is_a_home_of_its_own(home: Path) -> None:
    """G13."""
    wanted = f"{home}/profiles/work/config.yaml\n"
    assert _run("--profile", "work", "config", "path").stdout == wanted
    assert _run("config", "path", "--profile=work").stdout == wanted
    assert _run("config", "path", HERMES_PROFILE="work").stdout == wanted
    assert _run("config", "path").stdout == f"{home}/config.yaml\n"
    _run("--profile", "work", "config", "set", "model.default", "w")
    assert _run("config", "get", "model.default").stdout == "\n"
    assert _run("--profile", "work", "config", "get", "model.default").stdout == "w\n"


@pytest.mark.parametrize("name", ["Wo rk", "../x", "", "main", "a" * 65, "-x"])
def test_a_bad_profile_name_is_refused_in_a_sentence(home: Path, name: str) -> None:
    """H8."""
    done = _run("--profile", name, "config", "path")
    assert done.returncode == 1
    assert done.stderr.startswith("hermes: ")
    assert done.stderr.count("\n") == 1
