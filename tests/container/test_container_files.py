"""H10: what the container's files promise. No engine builds them here, so they are read."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hermes_cli.config import config_edit

ROOT = Path(__file__).resolve().parents[2]
START = ROOT / "scripts" / "container-start"


def read_stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage of the Dockerfile, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = [line for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip()]
    stages: list[list[tuple[str, str]]] = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        stages[-1].append((word, " ".join(rest.split())))
    return stages


@pytest.fixture
def image() -> dict[str, list[str]]:
    """The instructions of the last stage, by their word."""
    found: dict[str, list[str]] = {}
    for word, rest in read_stages()[-1]:
        found.setdefault(word, []).append(rest)
    return found


@pytest.fixture
def service() -> Any:
    return config_edit.parse_yaml((ROOT / "compose.yaml").read_text())["services"]["hermes"]


def test_the_image_runs_as_nobody_in_particular(image: dict[str, list[str]]) -> None:
    """H10: a number and not root, so that any other number does as well."""
    (user,) = image["USER"]
    uid, gid = user.split(":")
    assert int(uid) > 0
    assert int(gid) > 0
    assert any("chmod 1777 /data" in command for command in image["RUN"])


def test_the_image_keeps_all_in_one_volume(image: dict[str, list[str]]) -> None:
    assert image["VOLUME"] == ["/data"]
    environment = dict(part.split("=", 1) for line in image["ENV"] for part in line.split())
    assert (environment["HERMES_HOME"], environment["HOME"]) == ("/data", "/data")
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_the_image_runs_the_gateway_and_asks_it(image: dict[str, list[str]]) -> None:
    """H10: readiness is asked of the gateway itself, and signals reach it: no shell stands between."""
    assert json.loads(image["ENTRYPOINT"][0]) == ["container-start"]
    assert json.loads(image["CMD"][0]) == ["gateway", "run"]
    assert json.loads(image["HEALTHCHECK"][0].partition("CMD ")[2]) == ["hermes", "health", "--ready"]
    assert START.read_text().rstrip().endswith('exec hermes "$@"')


def test_the_image_has_what_was_tested_and_no_tools_to_build() -> None:
    build, last = read_stages()
    assert any(word == "RUN" and "-c constraints.txt" in rest for word, rest in build)
    assert not any("pip install" in rest for _, rest in last)
    assert {rest.split(" AS ")[0] for word, rest in (*build, *last) if word == "FROM"} == {"python:3.11-slim"}
    setup = (ROOT / "scripts" / "setup").read_text()
    (weights,) = re.findall(r'weights="(.+)"', setup)
    assert any(weights in rest for _, rest in build)


def test_what_the_image_is_made_of_reaches_the_builder() -> None:
    """Everything that is copied is let in, and a home or a key that lies beside it is not."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    copied = [
        name.rstrip("/")
        for stage in read_stages()
        for word, rest in stage
        if word == "COPY" and "--from" not in rest
        for name in rest.split()[:-1]
        if not name.startswith("--")
    ]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name.removeprefix('./')}" in ignored, name


def test_the_service_is_closed_up(service: Any) -> None:
    """H10, G11: read-only root, one volume, this machine alone, and a password that cannot be left out."""
    assert service["read_only"] is True
    assert [volume.partition(":")[2] for volume in service["volumes"]] == ["/data"]
    assert service["tmpfs"] == ["/tmp"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["environment"]["HERMES_WEB_PASSWORD"].startswith("${HERMES_WEB_PASSWORD:?")
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert re.fullmatch(r"\$\{HERMES_UID:-[1-9]\d*\}:\$\{HERMES_GID:-[1-9]\d*\}", service["user"])


def test_the_service_is_watched_and_may_end_in_peace(service: Any) -> None:
    """H10, C14: longer than a gateway takes to end."""
    assert service["healthcheck"]["test"] == ["CMD", "hermes", "health", "--ready"]
    assert int(service["stop_grace_period"].rstrip("s")) > 10
    assert service["init"] is True


# --- what starts it


def start(tmp_path: Path, *words: str) -> tuple[str, Path]:
    """Run the start script with something that only says what it was called with."""
    home, tools = tmp_path / "volume", tmp_path / "bin"
    home.mkdir(exist_ok=True)
    tools.mkdir(exist_ok=True)
    (tools / "hermes").write_text('#!/bin/sh\necho "hermes $*"\n')
    (tools / "hermes").chmod(0o755)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "HERMES_HOME": str(home)}
    done = subprocess.run([START, *words], env=environment, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip(), home / "config.yaml"


def test_a_fresh_volume_is_made_ready_to_be_reached(tmp_path: Path) -> None:
    said, settings = start(tmp_path, "gateway", "run")
    assert said == "hermes gateway run"
    assert config_edit.parse_yaml(settings.read_text()) == {"web": {"host": "0.0.0.0", "port": 8642}}
    assert settings.stat().st_mode & 0o077 == 0


def test_the_owner_s_settings_stay(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "config.yaml").write_text("# mine\n")
    _, settings = start(tmp_path, "gateway", "run")
    assert settings.read_text() == "# mine\n"


def test_other_commands_are_passed_on(tmp_path: Path) -> None:
    said, settings = start(tmp_path, "sessions", "list", "a b")
    assert said == "hermes sessions list a b"
    assert not settings.exists()
