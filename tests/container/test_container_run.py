"""H10: the gateway as it runs in a container, in bubblewrap: a user id without a name, a read-only root, one volume,
and nobody above it (it is process 1)."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gateway_process import Person
from waiting import wait_until

from hermes_constants import STORE_FILE
from hermes_lab.ports import free_ports
from hermes_lab.server import LabServer

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
UID = 12345
MADE_ANEW = frozenset({"proc", "dev", "tmp", "sys", "run", "data"})
PATIENCE = 60.0


def wrap(volume: Path, *command: str) -> list[str]:
    """The command in a container: everything of this machine read-only, nothing writable but /data and /tmp."""
    places: list[str] = []
    for entry in Path("/").iterdir():
        if entry.name in MADE_ANEW:
            continue
        if entry.is_symlink():
            places += ["--symlink", os.readlink(entry), str(entry)]
        elif entry.is_dir():
            places += ["--ro-bind", str(entry), str(entry)]
    apart = ["--unshare-user", "--unshare-pid", "--as-pid-1", "--die-with-parent"]
    who = ["--uid", str(UID), "--gid", str(UID)]
    # The program itself may stand where the container has a folder of its own.
    program = [word for place in (ROOT, Path(sys.prefix)) for word in ("--ro-bind", str(place), str(place))]
    own = [
        "--tmpfs",
        "/tmp",
        *program,
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--bind",
        str(volume),
        "/data",
        "--remount-ro",
        "/",
    ]
    return ["bwrap", *apart, *who, *places, *own, "--chdir", "/data", *command]


def environment() -> dict[str, str]:
    return {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "HERMES_HOME": "/data",
        "HOME": "/data",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """As an engine makes it: anybody may begin a home there, and it belongs to somebody else."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    folder = tmp_path / "v"
    folder.mkdir()
    tried = subprocess.run(wrap(folder, "true"), capture_output=True, text=True, timeout=30, check=False)
    if tried.returncode:
        pytest.skip(f"bubblewrap cannot make user namespaces here: {tried.stderr.strip()}")
    folder.chmod(0o1777)
    if os.geteuid() == 0:
        os.chown(folder, 4242, 4242)
    return folder


@pytest.fixture
def port(volume: Path, lab: LabServer) -> int:
    (found,) = free_ports(1)
    settings = {
        "model": {"base_url": lab.base_url, "default": "lab"},
        "web": {"host": "0.0.0.0", "port": found},
    }
    path = volume / "config.yaml"
    path.write_text(json.dumps(settings))
    return found


class Container:
    def __init__(self, volume: Path, log: Path) -> None:
        self.volume = volume
        self.log = log
        with log.open("w") as file:
            self._outer = subprocess.Popen(
                wrap(volume, str(ROOT / "scripts" / "container-start"), "gateway", "run"),
                env={**environment(), "HERMES_WEB_PASSWORD": "only for this test"},
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Another command in a container on the same volume, as a health check is run."""
        return subprocess.run(
            wrap(self.volume, "hermes", *words),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def tell(self, number: signal.Signals) -> int:
        """Send a signal to the first process of the container; its exit code."""
        inner = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()
        os.kill(int(inner[0]), number)
        return self._outer.wait(PATIENCE)

    def close(self) -> None:
        self._outer.kill()
        self._outer.wait(PATIENCE)


@pytest.fixture
def container(volume: Path, port: int, tmp_path: Path) -> Iterator[Container]:
    made = Container(volume, tmp_path / "container.log")
    wait_until(lambda: "The page: " in made.said or made._outer.poll() is not None, PATIENCE)
    assert made._outer.poll() is None, made.said
    yield made
    made.close()


def get(port: int, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def test_any_user_on_a_read_only_root(container: Container, volume: Path, port: int) -> None:
    """H10, C14: it starts, tells the truth about itself, answers, and ends in order; all it wrote is in the volume."""
    assert (get(port, "/health"), get(port, "/ready")) == (200, 200)
    for words in (["health"], ["health", "--ready"]):
        done = container.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    person = Person(volume, "one")
    try:
        person.ask("hello there")
        assert "You said: hello there" in person.shown[0].outgoing.text
    finally:
        person.close()
    assert container.tell(signal.SIGTERM) == 0, container.said
    assert "Traceback" not in container.said
    assert "Read-only" not in container.said
    assert (volume / STORE_FILE).exists()
    down = container.run("health")
    assert down.returncode == 1, "nobody is there any more"


def test_what_it_writes_is_for_its_user_alone(container: Container, volume: Path) -> None:
    """G6: the volume's root is open to everybody; nothing in it is."""
    wait_until((volume / STORE_FILE).exists)
    open_to_others = [
        path.name for path in volume.iterdir() if path.lstat().st_mode & 0o077 and path.name != "config.yaml"
    ]
    assert open_to_others == []


def test_a_ready_probe_says_why_not(volume: Path) -> None:
    """H10: an honest no, with a reason."""
    done = subprocess.run(
        wrap(volume, "hermes", "health", "--ready"),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert "No gateway runs in /data" in done.stdout
