"""`hermes setup` in a real terminal (a pty), against the lab server."""

import json
import os
import pty
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback_site import LoopbackSite, open_site
from readable import becomes_readable
from warm_python import WarmProcess, run_text

from hermes_cli import config
from hermes_lab.server import LabServer
from tools.web.search_table import SERVICES

HERMES = str(Path(sys.executable).with_name("hermes"))
PATIENCE = 40.0
KEY = "sk-typed-unseen-1234"


class Terminal:
    """A person at `hermes setup`."""

    def __init__(self, *names: str) -> None:
        self.seen = ""
        self._read = 0
        self._fd, screen = pty.openpty()
        command = [HERMES, "setup", *names]
        self._process = WarmProcess(command, stdin=screen, stdout=screen, stderr=screen, env=os.environ)
        os.close(screen)

    def wait_for(self, text: str) -> None:
        """Until this stands behind what was read before."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen[self._read :]:
            assert time.monotonic() < end, f"{text!r} never came:\n{self.seen}"
            self._take(0.2)
        self._read = self.seen.index(text, self._read) + len(text)

    def answer(self, question: str, text: str = "") -> None:
        self.wait_for(question)
        os.write(self._fd, f"{text}\n".encode())

    def interrupt(self, question: str, told: str) -> None:
        """Press Ctrl-C until it is heard: a key that comes in the instant before the read begins waits for another."""
        self.wait_for(question)
        end = time.monotonic() + PATIENCE
        while told not in self.seen:
            assert time.monotonic() < end, f"{told!r} never came:\n{self.seen}"
            os.write(self._fd, b"\x03")
            pause = time.monotonic() + 1.0
            while told not in self.seen and time.monotonic() < pause:
                self._take(0.1)

    def wait(self) -> int:
        """Read to the end; the exit code."""
        while self._take(PATIENCE):
            pass
        return self._process.wait()

    def _take(self, seconds: float) -> bool:
        if not becomes_readable(self._fd, seconds):
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other end has closed
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def close(self) -> None:
        os.close(self._fd)
        with self._process:
            self._process.kill()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def answer_rest(terminal: Terminal) -> None:
    terminal.answer("Password for the web page")
    if Path("/run/systemd/system").is_dir():
        terminal.answer("as a service?")


def read_home(home: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in home.iterdir() if path.is_file()} if home.exists() else {}


def test_a_server_of_ones_own(terminal: Terminal, lab: LabServer, home: Path) -> None:
    """H5: success is said after the call went through; the key was typed unseen."""
    terminal.answer("Number or name", "custom")
    terminal.answer("Address", lab.base_url)
    terminal.answer("Key for your own address", KEY)
    terminal.answer("Model", "lab-model")
    answer_rest(terminal)
    terminal.wait_for("It works: lab-model")
    assert terminal.wait() == 0
    assert KEY not in terminal.seen
    assert [request.header("authorization") for request in lab.requests if request.method == "POST"] == [
        f"Bearer {KEY}"
    ]
    assert config.load_config()["model"]["base_url"] == lab.base_url
    assert f"CUSTOM_API_KEY={KEY}" in read_home(home)[".env"]


def test_a_wrong_key_is_told_and_nothing_is_kept(terminal: Terminal, lab: LabServer, home: Path) -> None:
    """H5: no "it works" without a probe that went through; then it can be tried again."""
    lab.set_plan([{"fault": {"status": 401, "message": f"bad {KEY}"}}])
    terminal.answer("Number or name", "your own address")
    terminal.answer("Address", lab.base_url)
    terminal.answer("Key", KEY)
    terminal.answer("Model", "lab-model")
    answer_rest(terminal)
    terminal.wait_for("did not accept the key")
    assert "It works" not in terminal.seen
    assert read_home(home) == {}
    terminal.answer("Number or name", "nonsense")
    terminal.answer("Number or name", "custom")
    terminal.answer("Address", lab.base_url)
    terminal.answer("Key", "sk-right-this-time")
    terminal.answer("Model", "lab-model")
    terminal.wait_for("It works: lab-model")
    assert terminal.wait() == 0
    assert KEY not in terminal.seen
    assert "sk-right-this-time" in read_home(home)[".env"]


def test_all_can_be_skipped(lab: LabServer, home: Path) -> None:
    """H1, H5: Enter to everything leaves all as it was, and tries what is there. It can be run again and again."""
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")
    before = read_home(home)
    for _ in range(2):
        terminal = Terminal()
        try:
            terminal.answer("Number or name")
            answer_rest(terminal)
            terminal.wait_for("It works: lab-model")
            assert terminal.wait() == 0
            assert read_home(home) == before
        finally:
            terminal.close()


def test_what_does_not_work_is_said(lab: LabServer) -> None:
    """H5: a skipped question is no success."""
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")
    lab.set_plan([{"fault": {"status": 404}}])
    terminal = Terminal()
    try:
        terminal.answer("Number or name")
        answer_rest(terminal)
        terminal.wait_for("It does not work yet.")
        assert terminal.wait() == 1
        assert "It works" not in terminal.seen
    finally:
        terminal.close()


@pytest.mark.parametrize("place", ["Number or name", "Key for", "Model", "Password for the web page"])
def test_leaving_changes_nothing(terminal: Terminal, home: Path, place: str) -> None:
    questions = {"Number or name": "openrouter", "Key for": KEY, "Model": "m", "Password for the web page": ""}
    for question, text in questions.items():
        if question == place:
            break
        terminal.answer(question, text)
    terminal.interrupt(place, "Nothing was changed.")
    assert terminal.wait() == 130
    assert read_home(home) == {}
    assert KEY not in terminal.seen


def test_a_password_is_asked_for_twice(terminal: Terminal, lab: LabServer, home: Path) -> None:
    terminal.answer("Number or name", "custom")
    terminal.answer("Address", lab.base_url)
    terminal.answer("Key")
    terminal.answer("Model", "m")
    terminal.answer("Password for the web page", "short")
    terminal.answer("Password for the web page", "long enough")
    terminal.answer("Once more", "long enoogh")
    terminal.answer("Password for the web page", "long enough")
    terminal.answer("Once more", "long enough")
    if Path("/run/systemd/system").is_dir():
        terminal.answer("as a service?")
    terminal.wait_for("The password is kept")
    assert terminal.wait() == 0
    assert "long enough" not in terminal.seen
    assert config.env_value("HERMES_WEB_PASSWORD") == "long enough"


def test_without_a_terminal_it_asks_nothing(home: Path) -> None:
    code, out, _ = run_text([HERMES, "setup"], os.environ, "1\n")
    assert code == 1
    assert "hermes config set model.provider" in out
    assert read_home(home) == {}


# --- hermes setup web


@pytest.fixture
def searching(home: Path) -> Iterator[LoopbackSite]:
    """A site that stands in for each search service."""
    with open_site() as site:
        for name in ("brave", "tavily"):
            config.set_value(f"web.{name}_url", site.url("", "127.0.0.1"))
        yield site


@pytest.fixture
def web_terminal(searching: LoopbackSite) -> Iterator[Terminal]:
    made = Terminal("web")
    yield made
    made.close()


def test_a_search_service_is_kept_after_a_search_went_through(
    web_terminal: Terminal, searching: LoopbackSite, home: Path
) -> None:
    """H5, G6: a key that is refused is not kept, and none is shown."""
    searching.put("/res/v1/web/search", "{}", "application/json", status=401)
    web_terminal.answer("Number or name", "nothing")
    web_terminal.answer("Number or name", "brave")
    web_terminal.answer("Key for Brave, not shown", KEY)
    web_terminal.wait_for("Brave refuses the key (BRAVE_API_KEY)")
    assert ".env" not in read_home(home)
    hit = {"title": "Hermes", "url": "https://gods.test/hermes", "description": "A messenger"}
    searching.put("/res/v1/web/search", json.dumps({"web": {"results": [hit]}}), "application/json")
    web_terminal.answer("Number or name", "2")
    web_terminal.answer("Key for Brave, not shown", "right-key-0123456789")
    web_terminal.wait_for("It works: the first of 1 hits is https://gods.test/hermes")
    assert web_terminal.wait() == 0
    assert KEY not in web_terminal.seen
    assert "right-key" not in web_terminal.seen
    assert [one.headers["x-subscription-token"] for one in searching.asked] == [KEY, "right-key-0123456789"]
    assert "BRAVE_API_KEY=right-key-0123456789" in read_home(home)[".env"]
    assert config.load_settings().web.search_backend == "brave"


def test_a_searxng_is_kept_by_its_address(web_terminal: Terminal, searching: LoopbackSite, home: Path) -> None:
    """H5"""
    searching.put("/search", '{"results": []}', "application/json")
    address = searching.url("", "127.0.0.1")
    web_terminal.answer("Number or name", "searxng")
    web_terminal.answer("Address of SearXNG", address)
    web_terminal.wait_for("It works: it found nothing, but it answered")
    assert web_terminal.wait() == 0
    kept = config.load_settings().web
    assert (kept.search_backend, kept.searxng_url) == ("searxng", address)


def test_the_search_can_be_skipped(web_terminal: Terminal, searching: LoopbackSite, home: Path) -> None:
    before = read_home(home)
    web_terminal.answer("Number or name")
    web_terminal.wait_for("Nothing was changed.")
    assert web_terminal.wait() == 0
    assert read_home(home) == before
    assert searching.asked == []


def test_without_a_terminal_it_says_what_it_would_set() -> None:
    code, out, _ = run_text([HERMES, "setup", "web"], os.environ)
    assert code == 1
    for row in SERVICES:
        assert f"hermes config set {row.key_env or f'web.{row.name}_url'}" in out
