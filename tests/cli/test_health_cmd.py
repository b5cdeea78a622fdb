"""`hermes health`: an exit code that tells the truth, asked over HTTP or over the socket."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from gateway_process import GatewayProcess
from waiting import wait_until

from hermes_cli import config
from hermes_cli.main import main
from hermes_lab.ports import free_ports
from hermes_lab.server import LabServer

REASON = "The disk is full."


class Unready(BaseHTTPRequestHandler):
    """Lives, and takes no message."""

    def do_GET(self) -> None:
        alive = self.path == "/health"
        self.send_response(200 if alive else 503)
        self.end_headers()
        self.wfile.write(b'{"status": "ok"}' if alive else f'{{"status": "not_ready", "reason": "{REASON}"}}'.encode())

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def unready() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Unready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_alive_is_not_ready(unready: int, capsys: pytest.CaptureFixture[str]) -> None:
    """H10: the reason is told; a page that listens everywhere is asked from inside."""
    config.set_value("web.port", str(unready))
    config.set_value("web.host", "0.0.0.0")
    assert main(["health"]) == 0
    assert main(["health", "--ready"]) == 1
    assert capsys.readouterr().out.splitlines() == ["ok", REASON]


def test_nobody_is_not_well(capsys: pytest.CaptureFixture[str]) -> None:
    config.set_value("web.port", str(free_ports(1)[0]))
    assert main(["health"]) == 1
    assert "No gateway runs" in capsys.readouterr().out


def test_a_gateway_that_chose_its_port_is_found(home: Path, lab: LabServer) -> None:
    """H10: through the socket, which knows the port."""
    with GatewayProcess(home, lab.base_url, web={"port": None}) as gateway:
        gateway.start()
        assert main(["health"]) == 0
        wait_until(lambda: main(["health", "--ready"]) == 0)  # the page opens a moment after the chats
        assert gateway.terminate() == 0
    assert main(["health"]) == 1


def test_a_gateway_without_a_page(home: Path, lab: LabServer, capsys: pytest.CaptureFixture[str]) -> None:
    """H10: switched off it is not missed; wanted and not served, the gateway lives and is not ready."""
    with GatewayProcess(home, lab.base_url, web={"enabled": False}) as gateway:
        gateway.start()
        assert (main(["health"]), main(["health", "--ready"])) == (0, 0)
        config.set_value("web.enabled", "true")
        capsys.readouterr()
        assert (main(["health"]), main(["health", "--ready"])) == (0, 1)
        assert "not served" in capsys.readouterr().out
