"""H11: every example does what its page says, as somebody would try it: copied, enabled, run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from hermes_lab.server import LabServer

EXAMPLES = Path(__file__).parents[2] / "examples"
HERMES = str(Path(sys.executable).with_name("hermes"))


@pytest.fixture
def model(home: Path) -> Iterator[LabServer]:
    """A model server, and a home that uses it."""
    with LabServer() as server:
        (home / "config.yaml").write_text(
            f"model:\n  provider: custom\n  base_url: {server.base_url}\n  default: lab\ntitles:\n  enabled: false\n"
        )
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def run(home: Path, *command: str, **more: str) -> str:
    env = {**os.environ, "HERMES_HOME": str(home), **more}
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def call(tool: str, **arguments: object) -> dict[str, object]:
    """The step of a model that calls a tool."""
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


def add_plugin(home: Path, name: str) -> None:
    shutil.copytree(EXAMPLES / "plugins" / name, home / "plugins" / name)
    run(home, HERMES, "plugins", "enable", name)


def test_the_library(home: Path, model: LabServer) -> None:
    model.set_plan([call("read_tide", place="Dover"), {"text": "It is 2.4 m."}, {"text": "Yes."}])
    said = run(
        home, sys.executable, str(EXAMPLES / "library.py"), MODEL_URL=model.base_url, MODEL_KEY="k", MODEL_NAME="m"
    )
    assert said == "How high is the tide at Dover?\n  It is 2.4 m.\nIs that more than two metres?\n  Yes.\n"
    assert "The tide at Dover stands at 2.4 m." in str(model.requests[1])


def test_a_tool_of_a_plugin(home: Path, model: LabServer) -> None:
    add_plugin(home, "dice")
    model.set_plan([call("roll_dice", dice=3, sides=2), {"text": "Rolled."}])
    assert "Rolled." in run(home, HERMES, "-q", "Roll three coins.")
    assert b"roll_dice" in model.requests[0].body
    assert any(f'"{a}, {b}, {c}"' in str(model.requests[1]).replace("'", '"') for a in "12" for b in "12" for c in "12")


def test_a_command_of_a_plugin(home: Path, model: LabServer) -> None:
    add_plugin(home, "shout")
    env = {**os.environ, "HERMES_HOME": str(home)}
    done = subprocess.run(
        [HERMES, "chat"], input="/shout hello\n/quit\n", env=env, cwd=home, capture_output=True, text=True, timeout=60
    )
    assert "HELLO!" in done.stdout + done.stderr
    assert model.requests == ()


def test_a_platform(home: Path, model: LabServer, tmp_path: Path) -> None:
    """Its folder stands among the platforms; a letter that lies there is answered."""
    program = (
        "import sys, gateway.platforms as platforms; from hermes_cli.main import main; "
        f"platforms.__path__.append({str(EXAMPLES / 'platforms')!r}); sys.exit(main())"
    )
    run(home, HERMES, "config", "set", "platforms.letterbox.enabled", "true")
    run(home, HERMES, "config", "set", "web.enabled", "false")
    model.set_plan([{"text": "Dear Ann, yes."}])
    box = home / "letterbox"
    (box / "in").mkdir(parents=True)
    (box / "in" / "ann.txt").write_text("Is there anybody?")
    env = {**os.environ, "HERMES_HOME": str(home)}
    with subprocess.Popen([sys.executable, "-c", program, "gateway", "run"], env=env, cwd=home) as gateway:
        try:
            wait_until(lambda: [path.read_text() for path in (box / "out").glob("*.txt")], 60)
        finally:
            gateway.terminate()
    assert [path.read_text() for path in (box / "out").glob("*.txt")] == ["To: ann\n\nDear Ann, yes.\n"]
    assert list((box / "in").iterdir()) == []
