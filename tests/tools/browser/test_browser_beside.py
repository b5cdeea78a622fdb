"""A browser that somebody else started (`browser.cdp_url`), or that a plugin lends (`browser.cloud_provider`): on this
machine its pages go through the proxy all the same (G8)."""

import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from web_surfing import CHROMIUM, Site, Surfer, need_browser, open_site, wait_for

from agent.browser_provider import BrowserProvider
from hermes_cli.plugins import plugin_backends
from tools.browser.client import browser_client
from tools.browser.lending import lent_browsers


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of the DevTools of a browser of its own."""
    need_browser()
    profile = tmp_path / "profile"
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    with subprocess.Popen([CHROMIUM, *words, "about:blank"], stderr=subprocess.DEVNULL) as process:
        told = profile / "DevToolsActivePort"
        try:
            wait_for(lambda: told.exists() and told.read_text().count("\n") >= 1)
            yield f"http://127.0.0.1:{told.read_text().splitlines()[0]}"
        finally:
            process.terminate()


def test_pages_go_through_the_proxy(site: Site, surfer: Surfer, address: str) -> None:
    site.pages = {"/": "<button onclick=\"this.after('pressed')\">Press</button>"}
    surfer.config["browser"] = {"timeout": 20, "cdp_url": address}
    surfer.open(site.url)
    assert "pressed" in surfer.click("Press")
    with open_site("127.0.0.2") as forbidden:
        site.pages["/frame"] = f'<iframe src="{forbidden.url}"></iframe><img src="{forbidden.url}/x.png">'
        assert "it leads to a private address" in surfer.open(site.url + "/frame")
        assert "it leads to a private address" in surfer.open(forbidden.url)
        assert "which is never called" in surfer.open("http://169.254.169.254/")
        assert forbidden.asked == []


# --- browsers that a plugin lends (`browser.cloud_provider`)


class Lender(BrowserProvider):
    name = "lender"

    def __init__(self, address: str) -> None:
        self.address, self.told = address, list[str]()

    def is_available(self) -> bool:
        return bool(self.address)

    def create_session(self, task_id: str) -> dict[str, Any]:
        self.told.append(f"out {task_id}")
        return {"session_name": task_id, "bb_session_id": f"b-{task_id}", "cdp_url": self.address, "features": {}}

    def close_session(self, session_id: str) -> bool:
        self.told.append(f"back {session_id}")
        return True

    def emergency_cleanup(self, session_id: str) -> None:
        self.told.append(f"end {session_id}")


@pytest.fixture
def lender(address: str, surfer: Surfer) -> Iterator[Lender]:
    browser_client.close()
    made = Lender(address)
    plugin_backends.serve("browser_provider", made)
    surfer.config["browser"] = {"timeout": 20, "cloud_provider": "lender"}
    yield made
    plugin_backends.forget([("browser_provider", made)])
    browser_client.close()


def test_a_task_borrows_a_browser_and_gives_it_back(site: Site, surfer: Surfer, lender: Lender) -> None:
    """G8: on this machine its pages go through the proxy, too."""
    site.pages = {"/": "<button onclick=\"this.after('pressed')\">Press</button>"}
    surfer.open(site.url)
    assert "pressed" in surfer.click("Press")
    with open_site("127.0.0.2") as forbidden:
        assert "it leads to a private address" in surfer.open(forbidden.url)
        assert forbidden.asked == []
    assert lender.told == [f"out {surfer.task}"]
    surfer.close()
    wait_for(lambda: lender.told[1:] == [f"back b-{surfer.task}"])


def test_one_that_breaks_down_goes_back_and_another_one_is_lent(site: Site, surfer: Surfer, lender: Lender) -> None:
    site.pages = {"/": "hello"}
    with relay("127.0.0.1", lender.address) as line:
        lender.address = line.address
        assert "hello" in surfer.open(site.url)
        line.cut()
        wait_for(lambda: len(lender.told) == 2)
        assert lender.told[1] == f"back b-{surfer.task}"
        assert "the tabs that were open are gone" in surfer.open(site.url)
        assert lender.told[2] == f"out {surfer.task}"


def test_the_end_of_the_process_is_told(site: Site, surfer: Surfer, lender: Lender) -> None:
    site.pages = {"/": "hello"}
    surfer.open(site.url)
    lent_browsers.give_back_all()
    assert lender.told[1:] == [f"end b-{surfer.task}"]


def test_without_one_the_model_reads_why(surfer: Surfer, lender: Lender) -> None:
    lender.address = "ftp://here"
    assert "did not say where its browser is" in surfer.open("http://127.0.0.1:1/")
    lender.address = ""
    assert "lender says that it is not available" in surfer.open("http://127.0.0.1:1/")
    surfer.config["browser"] = {"cloud_provider": "nobody"}
    assert "no plugin lends such browsers" in surfer.open("http://127.0.0.1:1/")


def test_one_elsewhere_has_to_stand_outside_and_asks_for_nothing_inside(
    site: Site, surfer: Surfer, lender: Lender
) -> None:
    """G8: one in the owner's network would reach what the proxy keeps from pages."""
    host = find_own_address()
    with relay(host, lender.address) as line:
        lender.address = line.address
        assert "it leads to a private address" in surfer.open(site.url)
        wait_for(lambda: f"back b-{surfer.task}" in lender.told)
        surfer.config["network"] = {"private": ["127.0.0.1", host]}
        browser_client.close()
        site.pages = {"/": "hello"}
        assert "hello" in surfer.open(site.url)
        with open_site("127.0.0.2") as forbidden:
            site.pages["/frame"] = f'<iframe src="{forbidden.url}"></iframe><img src="{forbidden.url}/x.png">'
            surfer.open(site.url + "/frame")
            surfer.open(forbidden.url)
            surfer.open("http://169.254.169.254/")
            assert forbidden.asked == []


def find_own_address() -> str:
    """An address of this machine that others reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but its own loopback")
        return str(asking.getsockname()[0])


class Relay(socketserver.ThreadingTCPServer):
    """Hands on what comes, until it is cut."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, target: str) -> None:
        super().__init__((host, 0), _Hand)
        self.target = urlsplit(target)
        self.lines: list[socket.socket] = []

    @property
    def address(self) -> str:
        return f"http://{self.server_address[0]}:{self.server_address[1]}"

    def cut(self) -> None:
        for line in self.lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


class _Hand(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        there = socket.create_connection((str(self.server.target.hostname), self.server.target.port or 80))
        self.server.lines += [self.request, there]
        back = threading.Thread(target=_hand_on, args=(there, self.request), daemon=True)
        back.start()
        _hand_on(self.request, there)
        back.join()
        there.close()


def _hand_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def relay(host: str, target: str) -> Iterator[Relay]:
    with Relay(host, target) as line:
        serving = threading.Thread(target=line.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield line
        finally:
            line.cut()
            line.shutdown()
            serving.join()
