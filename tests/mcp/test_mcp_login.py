"""Signing in at a server: OAuth with PKCE and state, tokens of the owner alone, addresses that are judged (G6, G8)."""

import asyncio
import json
import os
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from mcp_rig import McpHouse, RemoteServer

from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.setting_table import read_settings
from hermes_lab.ports import free_ports
from tools.mcp import mcp_tools
from tools.mcp.live.keeper_stdio import ServerPlace
from tools.mcp.live.oauth_tokens import sign_in
from tools.mcp.mcp_specs import read_server

House = Callable[..., McpHouse]
LOGIN_SERVER = Path(__file__).parents[1] / "support" / "mcp_login_server.py"


@pytest.fixture(scope="module")
def locked() -> Iterator[RemoteServer]:
    server = RemoteServer("http", [sys.executable, str(LOGIN_SERVER)])
    yield server
    server.kill()


def enter(home: Path, url: str, browse: Callable[[str], None], paste: Any = None, **fields: Any) -> None:
    spec = read_server("locked", {"url": url, "connect_timeout": 10, **fields})
    place = ServerPlace(home, read_settings({}), lambda name: os.environ.get(name, ""))
    asyncio.run(sign_in(spec, place, browse, paste))


def browse(url: str) -> None:
    """What a browser does with the address: it follows it to where it leads back."""

    def visit() -> None:
        with urllib.request.urlopen(url) as page:
            assert b"signed in" in page.read()

    threading.Thread(target=visit).start()


def tokens_of(home: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((home / "mcp" / "tokens" / "locked.json").read_text())
    return kept


def test_a_server_that_wants_a_login_is_used_after_it(house: House, locked: RemoteServer, tmp_path: Path) -> None:
    before = house({"locked": {"url": locked.url, "trust": True}})
    assert "`hermes mcp login locked` signs in" in before.missing["locked"]
    shown: list[str] = []
    enter(before.home, locked.url, lambda url: (shown.append(url), browse(url))[1])
    asked = parse_qs(urlsplit(shown[0]).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["state"][0]) >= 32
    assert asked["redirect_uri"][0].startswith("http://127.0.0.1:")
    file = before.home / "mcp" / "tokens" / "locked.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert mcp_tools.reload_tools(before.settings, before.home) == {"locked": "1 tools"}
    assert before.call("mcp_locked_open_door") == "[MCP server locked]\nit is open"


def test_a_token_that_has_ended_is_renewed(house: House, locked: RemoteServer, tmp_path: Path) -> None:
    home = tmp_path / "house"
    enter(home, locked.url, browse)
    first = tokens_of(home)
    (home / "mcp" / "tokens" / "locked.json").write_text(json.dumps({**first, "ends": 1.0}))
    at = house({"locked": {"url": locked.url, "trust": True}})
    assert at.call("mcp_locked_open_door").endswith("it is open")
    second = tokens_of(home)
    assert second["tokens"]["access_token"] != first["tokens"]["access_token"]
    assert second["ends"] > 1.0
    assert second["client"] == first["client"]


def test_a_login_that_is_over_says_how_to_sign_in(house: House, tmp_path: Path) -> None:
    """The server forgot its tokens, in mid-session and before a start: no word about the protocol."""
    server = RemoteServer("http", [sys.executable, str(LOGIN_SERVER)])
    try:
        enter(tmp_path / "house", server.url, browse)
        at = house({"locked": {"url": server.url, "trust": True}})
        assert at.call("mcp_locked_open_door").endswith("it is open")
        server.kill()
        server.start()
        for _ in range(2):
            assert "its login is over; `hermes mcp login locked` signs in anew" in at.fails("mcp_locked_open_door")
    finally:
        server.kill()


def test_a_program_that_was_registered_by_hand(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    """A server that registers nobody by itself says what to do; with the name from there it lets us in (G6)."""
    monkeypatch.setenv("OWN_PORT", str(unused_port))
    monkeypatch.setenv("APP_SECRET", "canary-of-the-app")
    server = RemoteServer("http", [sys.executable, str(LOGIN_SERVER)])
    try:
        with pytest.raises(ConfigProblem, match="Register Hermes there"):
            enter(tmp_path / "house", server.url, browse)
        app = {"client_id": "hermes-at-home", "client_secret": "${APP_SECRET}", "port": unused_port}
        shown: list[str] = []
        enter(tmp_path / "house", server.url, lambda url: (shown.append(url), browse(url))[1], oauth=app)
        assert parse_qs(urlsplit(shown[0]).query)["client_id"] == ["hermes-at-home"]
        first = tokens_of(tmp_path / "house")
        assert "canary-of-the-app" not in json.dumps(first)
        (tmp_path / "house" / "mcp" / "tokens" / "locked.json").write_text(json.dumps({**first, "ends": 1.0}))
        at = house({"locked": {"url": server.url, "trust": True, "oauth": app}})
        assert at.call("mcp_locked_open_door").endswith("it is open")
        assert tokens_of(tmp_path / "house")["tokens"] != first["tokens"]
        with closing(socket.create_server(("127.0.0.1", unused_port))), pytest.raises(ConfigProblem, match="is taken"):
            enter(tmp_path / "house", server.url, browse, oauth=app)
    finally:
        server.kill()


@pytest.fixture
def unused_port() -> int:
    return free_ports(1)[0]


@pytest.mark.parametrize("given", ["me", {"client": "me"}, {"client_secret": "x"}, {"port": "80"}, {"port": 70_000}])
def test_what_is_no_registration_is_told(given: Any) -> None:
    with pytest.raises(ConfigProblem, match=r"mcp_servers\.locked\.oauth"):
        read_server("locked", {"url": "https://mcp.example", "oauth": given})


def test_tokens_are_for_one_address_alone(house: House, locked: RemoteServer, tmp_path: Path) -> None:
    """G6: another address under the same name gets none of them."""
    home = tmp_path / "house"
    enter(home, locked.url, browse)
    with listening(lambda path: (401, {})) as other:
        house({"locked": {"url": f"http://127.0.0.1:{other.server_address[1]}/mcp"}})
        assert other.heard  # type: ignore[attr-defined]
        assert not any("authorization" in headers for _, headers in other.heard)  # type: ignore[attr-defined]


def test_an_answer_with_another_state_is_refused(locked: RemoteServer, tmp_path: Path) -> None:
    """Somebody else's code is not taken."""

    async def paste() -> str:
        return "http://127.0.0.1/callback?code=stolen&state=wrong"

    with pytest.raises(ConfigProblem, match="State parameter mismatch"):
        enter(tmp_path, locked.url, lambda url: None, paste)
    assert not (tmp_path / "mcp" / "tokens" / "locked.json").exists() or "tokens" not in tokens_of(tmp_path)


def test_a_refusal_of_the_person_is_told(locked: RemoteServer, tmp_path: Path) -> None:
    async def paste() -> str:
        return "http://127.0.0.1/callback?error=access_denied"

    with pytest.raises(ConfigProblem, match="access_denied"):
        enter(tmp_path, locked.url, lambda url: None, paste)


def test_a_server_without_login_says_so(tmp_path: Path) -> None:
    with listening(lambda path: (200, {})) as free, pytest.raises(ConfigProblem, match="asks for no login"):
        enter(tmp_path, f"http://127.0.0.1:{free.server_address[1]}/mcp", lambda url: None)


def test_addresses_that_a_server_names_are_judged(tmp_path: Path) -> None:
    """G8: neither another service of this machine nor metadata is called because a server says so."""
    with listening(lambda path: (200, {})) as inner:
        for target in (f"http://127.0.0.1:{inner.server_address[1]}", "http://169.254.169.254"):
            header = {"WWW-Authenticate": f'Bearer resource_metadata="{target}/meta"'}
            with listening(lambda path, header=header: (401, header)) as evil, pytest.raises(HermesError) as refused:
                enter(tmp_path, f"http://127.0.0.1:{evil.server_address[1]}/mcp", lambda url: None)
            assert "is not called" in str(refused.value)
        assert inner.heard == []  # type: ignore[attr-defined]


class listening:
    """A small HTTP server that answers as it is told, and notes what it heard."""

    def __init__(self, answer: Callable[[str], tuple[int, dict[str, str]]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                heard.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                status, headers = answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_DELETE = do_POST

            def log_message(self, *words: object) -> None:
                return

        heard: list[tuple[str, dict[str, str]]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.heard = heard  # type: ignore[attr-defined]

    def __enter__(self) -> ThreadingHTTPServer:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self.server

    def __exit__(self, *ends: object) -> None:
        self.server.shutdown()
        self.server.server_close()
