"""H10, I2: what the files for several gateways promise. No engine runs the containers here: the files are read, and the
load balancer's is run by the program that it is for, in front of two gateways on one PostgreSQL."""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from gateway_nodes import Nodes, run_hermes
from postgres_server import get_server
from waiting import wait_until
from web_house import find_free_port

from hermes_cli.config import config_edit
from hermes_lab.server import LabServer

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PATIENCE = 60.0
CLOSED = ("user", "init", "read_only", "tmpfs", "cap_drop", "security_opt", "stop_grace_period", "healthcheck")


# --- the files


@pytest.fixture
def services() -> Any:
    return config_edit.parse_yaml((DEPLOY / "compose.yaml").read_text())["services"]


@pytest.fixture
def alone() -> Any:
    """The service of one gateway."""
    return config_edit.parse_yaml((ROOT / "compose.yaml").read_text())["services"]["hermes"]


def test_each_gateway_is_closed_up_as_a_single_one_is(services: Any, alone: Any) -> None:
    """H10, G11: and reached through the door alone."""
    for name in ("a", "b"):
        gateway = services[name]
        for key in (
            "user",
            "init",
            "read_only",
            "tmpfs",
            "cap_drop",
            "security_opt",
            "stop_grace_period",
            "healthcheck",
        ):
            assert gateway[key] == alone[key], key
        assert "ports" not in gateway
        assert gateway["hostname"] == name
        assert list(gateway["volumes"]) == [f"{name}:/data"]
        assert {**alone["environment"]}.items() <= {**gateway["environment"]}.items()
    assert all(port.startswith("127.0.0.1:") for port in services["door"]["ports"])
    assert "ports" not in services["db"]


def test_gateways_and_database_have_one_password(services: Any) -> None:
    """I6: no default that everybody knows, and none in the address."""
    asked = services["db"]["environment"]["POSTGRES_PASSWORD"]
    assert asked.startswith("${HERMES_STORE_PASSWORD:?")
    for name in ("a", "b"):
        given = services[name]["environment"]
        assert given["HERMES_STORE_PASSWORD"] == asked
        assert given["HERMES_STORE_URL"] == "postgresql://hermes@db/hermes"
        assert dict(services[name]["depends_on"]) == {"db": {"condition": "service_healthy"}}
    assert services["db"]["environment"]["POSTGRES_DB"] == "hermes"


def test_the_door_knows_every_gateway(services: Any) -> None:
    told = re.findall(r"^    server (\S+) (\S+):8642$", (DEPLOY / "haproxy.cfg").read_text(), re.MULTILINE)
    assert told == [(name, name) for name in services if name not in ("door", "db")]
    assert services["door"]["volumes"] == ["./haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro"]


@pytest.mark.parametrize("command", [("gateway", "run"), ("gateway", "status")])
def test_a_fresh_volume_gets_the_address_of_the_database(tmp_path: Path, command: tuple[str, ...]) -> None:
    """I6: from the first start on, so that no file is begun; what stands there already stays."""
    home, tools = tmp_path / "volume", tmp_path / "bin"
    for folder in (home, tools):
        folder.mkdir()
    (tools / "hermes").symlink_to("/bin/true")
    address = "postgresql://hermes@db/hermes"
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HERMES_HOME": str(home), "HERMES_STORE_URL": address}
    subprocess.run([ROOT / "scripts" / "container-start", *command], env=environment, timeout=30, check=True)
    settings = home / "config.yaml"
    assert settings.exists() == (command[-1] == "run")
    if settings.exists():
        assert config_edit.parse_yaml(settings.read_text())["store"] == {"url": address}
        assert settings.stat().st_mode & 0o077 == 0
        settings.write_text("# mine\n")
        subprocess.run([ROOT / "scripts" / "container-start", *command], env=environment, timeout=30, check=True)
        assert settings.read_text() == "# mine\n"


def test_the_image_can_speak_to_a_database() -> None:
    assert re.search(r"'\.\[[^]]*\bpostgres\b[^]]*\]'", (ROOT / "Dockerfile").read_text())


# --- the load balancer, at work


@contextmanager
def running_door(folder: Path, nodes: Nodes) -> Iterator[str]:
    """Its file with the places of these gateways; the address at which it listens."""
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        if os.environ.get("HERMES_TESTS_NEED_PEERS"):
            pytest.fail("HAProxy is not installed; scripts/setup peers installs it")
        pytest.skip("HAProxy is not installed")
    port, text = find_free_port(), (DEPLOY / "haproxy.cfg").read_text()
    for old, new in [("bind :8642", f"bind 127.0.0.1:{port}")] + [
        (f" {name}:8642", f" 127.0.0.1:{node.port}") for name, node in nodes.nodes.items()
    ]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "haproxy.cfg").write_text(text)
    with open(folder / "door.log", "w") as log:
        process = subprocess.Popen([program, "-db", "-f", folder / "haproxy.cfg"], stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_open(address))
        yield address
    finally:
        process.terminate()
        process.wait(PATIENCE)


def is_open(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/ready").status_code == 200
    except httpx2.TransportError:
        return False


class Program:
    """A client that asks one thing after the other, and asks again what got no answer."""

    def __init__(self, address: str, key: str, number: int) -> None:
        self.answers: list[str] = []
        self.problem: BaseException | None = None
        self._address, self._key, self._number = address, key, number
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def _go_on(self) -> None:
        try:
            while not self._enough.is_set():
                token = f"p{self._number}.{len(self.answers)}"
                wait_until(lambda: self._ask(token), PATIENCE)  # noqa: B023
        except BaseException as problem:
            self.problem = problem

    def _ask(self, token: str) -> bool:
        headers = {"Authorization": f"Bearer {self._key}", "Idempotency-Key": token}
        asked = {"model": "hermes", "messages": [{"role": "user", "content": f"[[say {token}]]"}]}
        try:
            told = httpx2.post(f"{self._address}/v1/chat/completions", headers=headers, json=asked, timeout=PATIENCE)
        except httpx2.TransportError:
            return False
        if told.status_code != 200:
            assert told.status_code in (409, 502, 503), told.text
            return False
        self.answers.append(told.json()["choices"][0]["message"]["content"])
        return True

    def end(self) -> None:
        self._enough.set()
        self._thread.join(2 * PATIENCE)
        if self.problem is not None:
            raise self.problem
        assert self.answers == [f"p{self._number}.{count}" for count in range(len(self.answers))]


def test_who_comes_through_the_door_is_answered_while_gateways_come_and_go(tmp_path: Path, lab: LabServer) -> None:
    """I2, I5, H10, C1: one gateway is emptied, ended and begun again, the other killed: whoever asks again with the
    same key gets one answer to each question, in order; what is not ready gets nothing new."""
    with Nodes(tmp_path, lab, get_server().make_database()) as nodes:
        a, b = nodes.serve_pages("a", "b")
        key = str(a.operate("keys.create", name="program")["key"])
        with running_door(tmp_path, nodes) as door:
            programs = [Program(door, key, number) for number in range(3)]
            wait_answers(programs, 3)
            assert "takes nothing new any more" in run_hermes(a, "gateway", "drain")
            assert httpx2.get(f"http://127.0.0.1:{a.port}/ready").status_code == 503
            assert "is being emptied" in httpx2.get(f"http://127.0.0.1:{a.port}/ready").text
            assert "is empty and has ended" in run_hermes(a, "gateway", "drain", "--wait")
            wait_answers(programs, 3)
            a.terminate()
            a.start()
            wait_until(lambda: is_open(f"http://127.0.0.1:{a.port}"))
            b.kill()
            wait_answers(programs, 3)
            b.start()
            wait_answers(programs, 3)
            for program in programs:
                program.end()
            count = sum(len(program.answers) for program in programs)
        assert nodes.read("select count(*), count(distinct ext_id) from inbox where account = 'api:api'") == [
            (count, count)
        ]


def wait_answers(programs: list[Program], more: int) -> None:
    """Until each has so many more."""
    before = [len(program.answers) for program in programs]
    wait_until(
        lambda: all(
            program.problem or len(program.answers) >= had + more for program, had in zip(programs, before, strict=True)
        ),
        2 * PATIENCE,
    )
