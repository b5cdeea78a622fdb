"""Who gets in, through a real server on loopback (G11)."""

import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from waiting import wait_until
from web_house import WebHouse, find_free_port

from gateway.http import access, server, turnstile
from gateway.http.server import ServerSettings
from gateway.platforms.api.adapter import ApiAdapter
from gateway.platforms.web.adapter import WebAdapter
from hermes_base.errors import ConfigProblem
from hermes_lab.server import LabServer

PASSWORD = "correct horse battery"


def login(http: httpx2.Client, password: str) -> httpx2.Response:
    return http.post("/web/login", json={"password": password})


@pytest.fixture
def guarded(home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """A house that listens on every address, with a password."""
    monkeypatch.setenv("HERMES_WEB_PASSWORD", PASSWORD)
    with WebHouse(home, lab.base_url, web={"host": "0.0.0.0", "names": ["hermes.example.org"]}) as house:
        yield house


# --- token and cookie


def test_the_printed_address_opens_the_page(web: WebHouse) -> None:
    """G11: the token sets a cookie that scripts cannot read and other sites cannot use, and leaves the address."""
    http = web.stranger()
    answer = http.get(web.address.replace("/?", "/c/abc?x=1&"))
    assert answer.status_code == 303
    assert answer.headers["location"] == "/c/abc?x=1"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "secure" not in cookie
    page = http.get(answer.headers["location"])
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert http.get("/web/me").status_code == 200


def test_without_the_token_there_is_nothing_to_see(web: WebHouse) -> None:
    """G11: pages answer with the login, calls with an error, and a wrong token does not help."""
    http = web.stranger()
    for path in ("/", "/c/x", "/status", "/settings", "/setup"):
        page = http.get(path)
        assert page.status_code == 401
        assert "hermes web" in page.text
        assert "<form" not in page.text
    for path in ("/web/me", "/web/threads", "/web/live?conversation=x", "/web/log", "/web/files/u.0123456789abcdef"):
        answer = http.get(path)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "not_logged_in"
        assert answer.headers["cache-control"] == "no-store"
    assert http.post("/web/say", json={}).status_code == 401
    wrong = http.get("/?token=wrong")
    assert wrong.status_code == 403
    assert "set-cookie" not in wrong.headers
    for value in ("99999999999.abc", access.make_cookie()):
        assert http.get("/", headers={"Cookie": f"{access.name_cookie(web.home)}={value}"}).status_code == 401


def test_nobody_becomes_the_terminal_of_the_machine_over_tcp(web: WebHouse) -> None:
    """G1, G11: what terminals may do is served at the socket alone, whatever a request says of itself."""
    claims = {"X-Forwarded-For": "127.0.0.1", "X-Real-Uid": "0", "Forwarded": "for=unix:", "Origin": web.url}
    visitor = web.visit()
    for path in ("/web/open", "/web/got"):
        assert web.stranger().post(path, json={}, headers=claims).status_code == 401
        assert visitor.http.post(path, json={}, headers=claims).status_code == 404
    asked = {"name": "shutdown", "args": {}}
    assert web.stranger().post("/web/operate", json=asked, headers=claims).status_code == 401
    assert visitor.http.post("/web/operate", json=asked, headers=claims).status_code >= 400
    assert not web.gateway.host.closing


def test_a_redirect_never_leaves_the_page(web: WebHouse) -> None:
    """G11: a path that looks like another host is a path."""
    token = web.address.partition("?")[2]
    for path in ("//evil.net/x", "/%5Cevil.net", "/\\evil.net", "//evil.net"):
        with socket.create_connection(("127.0.0.1", web.port)) as sock:
            sock.sendall(f"GET {path}?{token} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            answer = sock.makefile("rb").read().decode()
        location = next(line for line in answer.splitlines() if line.lower().startswith("location:"))
        target = location.partition(":")[2].strip()
        assert target.startswith("/")
        assert target[1:2] not in ("/", "\\")


def test_a_cookie_survives_a_restart(web: WebHouse) -> None:
    """G11: whoever was logged in stays so."""
    visitor = web.visit()
    cookies = dict(visitor.http.cookies)
    web.stop()
    web.start()
    again = web.stranger()
    again.cookies.update(cookies)
    assert again.get("/web/me").status_code == 200


def test_a_new_token_logs_everybody_out(web: WebHouse) -> None:
    """G11: `hermes web --new-token` voids cookies and old addresses, while the server runs."""
    visitor = web.visit()
    old = web.address
    token = access.make_token(web.home)
    assert visitor.http.get("/web/me").status_code == 401
    assert web.stranger().get(old).status_code == 403
    assert web.stranger().get(f"/?token={token}").status_code == 303


def test_logout_takes_the_cookie(web: WebHouse) -> None:
    """G11: it opens nothing any more, whoever has kept it."""
    visitor = web.visit()
    cookies = dict(visitor.http.cookies)
    answer = visitor.http.post("/web/logout")
    assert answer.status_code == 204
    assert not dict(visitor.http.cookies)
    assert visitor.http.get("/web/me").status_code == 401
    again = web.stranger()
    again.cookies.update(cookies)
    assert again.get("/web/me").status_code == 401


def test_behind_tls_the_cookie_is_secure(web: WebHouse) -> None:
    """G11: what the proxy says of the way decides this flag and nothing else."""
    answer = web.stranger().get(web.address, headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "8.8.8.8"})
    assert "secure" in answer.headers["set-cookie"].lower()


# --- other sites


def test_another_name_for_this_machine_opens_nothing(web: WebHouse) -> None:
    """G11: DNS rebinding: the browser says the foreign name, with or without our cookie."""
    visitor = web.visit()
    for path in ("/", "/web/me", "/health", "/v1/models", "/static/index.html"):
        answer = visitor.http.get(path, headers={"Host": f"evil.net:{web.port}"})
        assert answer.status_code == 421, path
    own = {"Host": f"localhost:{web.port}", "Origin": f"http://localhost:{web.port}"}
    assert visitor.http.get("/web/me", headers=own).status_code == 200


def test_other_sites_can_neither_read_nor_write(web: WebHouse) -> None:
    """G11: a foreign page has the browser send our cookie; nothing happens."""
    visitor = web.visit()
    conversation = visitor.open()
    said = {"conversation": conversation, "id": "evil", "text": "delete everything"}
    foreign = [
        {"Origin": "https://evil.net"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{web.port + 1}"},
        {"Origin": "https://evil.net", "Sec-Fetch-Site": "cross-site"},
        {"Origin": web.url, "Sec-Fetch-Site": "same-site"},
        {"Origin": ""},
    ]
    for headers in foreign:
        answer = visitor.http.post("/web/say", json=said, headers=headers)
        assert answer.status_code == 403, headers
        assert answer.json()["error"]["code"] == "foreign"
    for headers in foreign[3:5]:
        for path in ("/web/me", "/web/live?conversation=x", "/v1/models", "/static/icon.svg"):
            assert visitor.http.get(path, headers=headers).status_code == 403, path
    page = visitor.http.get("/", headers={"Origin": "", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert page.status_code == 200
    form = visitor.http.post("/web/say", content="x=1", headers={"Content-Type": "text/plain"})
    assert form.status_code == 415
    assert visitor.get("/web/threads")["threads"] == []


def test_every_answer_keeps_others_out(web: WebHouse) -> None:
    """G11: the same headers on pages, calls, files, errors and the API."""
    visitor = web.visit()
    for path in ("/", "/web/me", "/nothing", "/static/nothing", "/health", "/v1/nothing", "/static/icon.svg"):
        answer = visitor.http.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert "access-control-allow-origin" not in answer.headers


def test_cookies_mean_nothing_to_the_api(web: WebHouse) -> None:
    """G11: a browser that is logged in has no key."""
    visitor = web.visit()
    assert visitor.http.get("/v1/models").status_code == 401
    token = web.address.partition("token=")[2]
    assert visitor.http.get("/v1/models", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert web.stranger().get("/health").status_code == 200


def test_secrets_are_not_logged(web: WebHouse, caplog: pytest.LogCaptureFixture) -> None:
    """G11: neither the token of an address nor a password reaches a log."""
    caplog.set_level(logging.DEBUG)
    visitor = web.visit()
    login(visitor.http, "a secret guess")
    visitor.http.get("/web/me?token=secret-token")
    token = web.address.partition("token=")[2]
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    for secret in (token, "a secret guess", "secret-token"):
        assert secret not in logged  # the client of the test logs on its own account


# --- other addresses


def test_another_address_needs_a_password(home: Path, lab: LabServer) -> None:
    """G11: without one the page is not served at all, whatever the settings say; the gateway runs."""
    for host in ("0.0.0.0", "::", ""):
        with WebHouse(home, lab.base_url, web={"host": host}) as house:
            assert house.server is None
            assert house.gateway.parts.started
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", house.port), timeout=2).close()


def test_elsewhere_the_token_opens_nothing(guarded: WebHouse) -> None:
    """G11: where others can reach the page, an address that leaks must not be enough; the password is asked for."""
    token = access.read_token(guarded.home)
    assert "token" not in guarded.address
    http = guarded.stranger()
    assert http.get(f"/?token={token}").status_code == 403
    assert http.get("/v1/models", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    page = http.get("/")
    assert page.status_code == 401
    assert 'type="password"' in page.text
    assert login(http, PASSWORD).status_code == 204
    assert http.get("/web/me").status_code == 200
    named = http.get("/web/me", headers={"Host": "hermes.example.org", "Origin": "https://hermes.example.org"})
    assert named.status_code == 200


def test_the_guesses_of_a_stranger_lock_nobody_out(guarded: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """G11: behind a proxy all come from one address. However many wrong passwords came from there, and while more of
    them wait, a cookie holds and the right password is let in."""
    monkeypatch.setattr(turnstile, "SECONDS_PER_TRY", 0.2)
    known = guarded.stranger()
    assert login(known, PASSWORD).status_code == 204
    guesser = guarded.stranger()
    for number in range(turnstile.FREE_TRIES):
        assert login(guesser, f"guess {number}").status_code == 403
    with ThreadPoolExecutor(12) as pool:
        waiting = [pool.submit(login, guarded.stranger(), "guess") for _ in range(12)]
        assert known.get("/web/me").status_code == 200
        assert login(guarded.stranger(), PASSWORD).status_code == 204
        assert {future.result().status_code for future in waiting} == {403}


def test_who_waits_in_vain_is_told(guarded: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """G11, H8: when the line is full, a try is not looked at, and a place that was left is free again."""
    monkeypatch.setattr(turnstile, "SECONDS_PER_TRY", 3_600.0)
    monkeypatch.setattr(turnstile, "MOST_WAITING_PEER", 1)
    http = guarded.stranger()
    for number in range(turnstile.FREE_TRIES):
        assert login(http, f"guess {number}").status_code == 403
    line = guarded.server._server.config.app._turnstile._waiting  # type: ignore[union-attr]
    for _ in range(2):
        wait_until(lambda: not line.total())
        with socket.create_connection(("127.0.0.1", guarded.port), timeout=20) as waiting:
            body = b'{"password": "guess"}'
            head = f"POST /web/login HTTP/1.1\r\nHost: 127.0.0.1:{guarded.port}\r\nOrigin: {guarded.url}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            waiting.sendall(head.encode() + body)
            wait_until(lambda: line.total() == 1)
            full = login(http, PASSWORD)
            assert full.status_code == 429
            assert full.headers["retry-after"] == "10"
            assert "not looked at" in full.json()["error"]["message"]


def test_a_changed_password_logs_out(guarded: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """G11: cookies of the old password are void."""
    http = guarded.stranger()
    assert login(http, PASSWORD).status_code == 204
    cookies = dict(http.cookies)
    guarded.stop()
    monkeypatch.setenv("HERMES_WEB_PASSWORD", "another one")
    guarded.start()
    again = guarded.stranger()
    again.cookies.update(cookies)
    assert again.get("/web/me").status_code == 401
    assert login(again, "another one").status_code == 204


def test_passwords_that_are_no_passwords(guarded: WebHouse) -> None:
    http = guarded.stranger()
    for body in ({}, {"password": None}, {"password": 7}, {"password": ["x"]}):
        assert http.post("/web/login", json=body).status_code == 422
    assert http.post("/web/login", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    assert login(http, "").status_code == 403
    half = http.post("/web/login", content=b'{"password": "\\ud800"}', headers={"Content-Type": "application/json"})
    assert half.status_code == 403


# --- the port


def place(home: Path, **fields: object) -> ServerSettings:
    given = {"host": "127.0.0.1", "port": None, "names": (), "password": "", "upload_bytes": lambda: 1_000, **fields}
    return ServerSettings(home=home, **given)  # type: ignore[arg-type]


def test_a_port_that_is_taken_is_a_sentence(home: Path, lab: LabServer) -> None:
    """The gateway goes on without a page and says why."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with WebHouse(home, lab.base_url, web={"port": port}) as house:
            assert house.server is None
            web, api = WebAdapter("web", {}, home), ApiAdapter("api", {}, home)
            with pytest.raises(ConfigProblem, match=f"port {port}: another program"):
                house.run(server.open_server(None, web, api, place(home, port=port)))  # type: ignore[arg-type]


def test_without_a_port_the_next_free_one_is_taken(home: Path, lab: LabServer) -> None:
    with WebHouse(home, lab.base_url) as house:
        first = house.run(server.bind("127.0.0.1", None))
        second = house.run(server.bind("127.0.0.1", None))
        ports = [sock.getsockname()[1] for sock in (first, second)]
        first.close()
        second.close()
    assert ports[0] != ports[1]
    assert find_free_port() not in ports


def test_an_address_that_is_none_is_a_sentence(web: WebHouse) -> None:
    for host in ("no.such.host.invalid", "203.0.113.7"):
        with pytest.raises(ConfigProblem, match="cannot listen on"):
            web.run(server.bind(host, 0))


@pytest.mark.parametrize(
    ("wanted", "bound", "named"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1", "localhost"),
        ("0.0.0.0", "0.0.0.0", "127.0.0.1"),
        ("::", "::", "[::1]"),
        ("::1", "::1", "[::1]"),
        ("10.0.0.2", "10.0.0.2", "10.0.0.2"),
    ],
)
def test_the_address_as_a_browser_writes_it(wanted: str, bound: str, named: str) -> None:
    assert server.name_host(wanted, bound) == named
