"""A person behind a load balancer, which sends each request to another gateway: who is signed in on one is signed in on
all, and who has signed out is out on all."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from gateway_nodes import Node, Nodes
from postgres_server import get_server
from waiting import wait_until

from gateway.http.access import make_token
from gateway.http.turnstile import FREE_TRIES
from hermes_lab.server import LabServer

PASSWORD = "correct horse battery"


@pytest.fixture
def two(tmp_path: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setenv("HERMES_WEB_PASSWORD", PASSWORD)
    with Nodes(tmp_path, lab, get_server().make_database()) as nodes:
        nodes.serve_pages("a", "b")
        yield nodes


class Balanced:
    """A browser that reaches another gateway with each request."""

    def __init__(self, *nodes: Node) -> None:
        self._addresses = itertools.cycle([f"http://127.0.0.1:{node.port}" for node in nodes])
        self.http = httpx2.Client(timeout=60)

    def close(self) -> None:
        self.http.close()

    def ask(self, method: str, path: str, **more: object) -> httpx2.Response:
        address = next(self._addresses)
        headers = {"Origin": address, **dict(more.pop("headers", {}))}  # type: ignore[call-overload]
        return self.http.request(method, address + path, headers=headers, **more)  # type: ignore[arg-type]

    def log_in(self, password: str = PASSWORD) -> int:
        return self.ask("POST", "/web/login", json={"password": password}).status_code

    def look(self, count: int = 4) -> list[int]:
        return [self.ask("GET", "/web/me").status_code for _ in range(count)]


@pytest.fixture
def browser(two: Nodes) -> Iterator[Balanced]:
    with closing(Balanced(*two.nodes.values())) as made:
        yield made


def test_who_is_signed_in_on_one_gateway_is_on_all(two: Nodes, browser: Balanced) -> None:
    """G11, I4: also when that one is gone, and after a restart; the store has no cookie that opens anything."""
    assert browser.look() == [401] * 4
    assert browser.log_in() == 204
    assert browser.look() == [200] * 4
    (cookie,) = browser.http.cookies.values()
    kept = str(two.read("select * from sign_in"))
    assert cookie not in kept
    assert PASSWORD not in kept
    two.nodes["a"].kill()
    with closing(Balanced(two.nodes["b"])) as stayed:
        stayed.http.cookies.update(browser.http.cookies)
        assert stayed.look() == [200] * 4
    two.start("a")
    assert browser.look() == [200] * 4


def test_who_signs_out_is_out_on_all(two: Nodes, browser: Balanced) -> None:
    """G11, I4: the cookie opens nothing any more, also for who has kept it; others stay."""
    assert browser.log_in() == 204
    with closing(Balanced(*two.nodes.values())) as other, closing(Balanced(*two.nodes.values())) as thief:
        assert other.log_in() == 204
        thief.http.cookies.update(browser.http.cookies)
        assert thief.look() == [200] * 4
        assert browser.ask("POST", "/web/logout").status_code == 204
        assert browser.look() == [401] * 4
        wait_until(lambda: thief.look() == [401] * 4)
        assert other.look() == [200] * 4


def test_a_new_token_logs_out_on_all_who_came_in_there(two: Nodes, browser: Balanced) -> None:
    """G11: `hermes web --new-token` on one machine; who signed in on the other one stays."""
    a, b = two.nodes.values()
    with closing(Balanced(a)) as there, closing(Balanced(b)) as elsewhere:
        assert (there.log_in(), elsewhere.log_in()) == (204, 204)
        browser.http.cookies.update(there.http.cookies)
        assert browser.look() == [200] * 4
        make_token(a.home)
        assert there.look() == [401] * 4
        wait_until(lambda: browser.look() == [401] * 4)
        assert elsewhere.look() == [200] * 4
        browser.http.cookies.clear()
        browser.http.cookies.update(elsewhere.http.cookies)
        assert browser.look() == [200] * 4


def test_a_gateway_with_another_password_knows_nobody_of_the_others(
    two: Nodes, browser: Balanced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G11: each machine has its own keys; where the password is another one, one signs in with that."""
    assert browser.log_in() == 204
    two.nodes["b"].terminate()
    monkeypatch.setenv("HERMES_WEB_PASSWORD", "another one")
    two.start("b")
    with closing(Balanced(two.nodes["b"])) as there:
        there.http.cookies.update(browser.http.cookies)
        assert there.look() == [401] * 4
        assert there.log_in() == 403
        assert there.log_in("another one") == 204
        assert there.look() == [200] * 4


def test_guesses_share_one_pace_over_all_gateways(two: Nodes, browser: Balanced) -> None:
    """G11: whoever guesses at several gateways is not let try more often; nobody is locked out."""
    for _ in range(FREE_TRIES):
        assert browser.log_in("guess") == 403
    ((ahead,),) = two.read("select until - extract(epoch from clock_timestamp()) from pace where name = 'sign-in'")
    assert ahead > 1.0
    with ThreadPoolExecutor(4) as pool:
        guesses = [pool.submit(browser.log_in, "guess") for _ in range(4)]
        with closing(Balanced(*two.nodes.values())) as right:
            assert right.log_in() == 204
        assert {guess.result() for guess in guesses} == {403}


def test_what_was_uploaded_on_one_gateway_is_said_and_fetched_on_the_others(two: Nodes, browser: Balanced) -> None:
    """I4: page, upload, message and file each come to another gateway."""
    assert browser.log_in() == 204
    key = browser.ask("POST", "/web/threads", json={}).json()["conversation"]
    sent = browser.ask("POST", "/web/upload?name=note.txt", content=b"hello", headers={"Content-Type": "text/plain"})
    assert sent.status_code == 200, sent.text
    file = sent.json()["id"]
    for number in range(2):
        said = {"conversation": key, "id": f"m{number}", "text": "[[say seen]]", "files": [file]}
        assert browser.ask("POST", "/web/say", json=said).status_code == 200
        assert browser.ask("POST", "/web/say", json=said).json()["again"]  # to the other one
    for _ in range(2):
        assert browser.ask("GET", f"/web/files/{file}").content == b"hello"
    wait_until(lambda: two.read("select count(*) from inbox where done_epoch is null") == [(0,)])
    assert two.read("select count(*) from inbox") == [(2,)]


def test_a_code_that_one_gateway_told_is_taken_by_the_others(two: Nodes, browser: Balanced) -> None:
    """G1, I4: a stranger hears it from whoever has the bot; it is approved on another gateway, and holds at once."""
    assert browser.log_in() == 204
    holder = two.wait_holder()
    stranger = two.telegram.add_person("Eve")
    two.telegram.say(stranger, "hello")
    wait_until(lambda: bool(two.seen(stranger)))
    ((code,),) = two.read("select code from pairing")
    assert any(str(code) in text for text in two.seen(stranger))
    with closing(Balanced(*(node for node in two.nodes.values() if node is not holder))) as there:
        there.http.cookies.update(browser.http.cookies)
        asked = {"name": "people.approve", "args": {"code": code, "role": "member", "name": "Eve"}}
        assert there.ask("POST", "/web/operate", json=asked).status_code == 200
        assert there.ask("POST", "/web/operate", json=asked).status_code >= 400  # it holds once
    two.ask(stranger, "m1.1 [[say welcome]]", "welcome")
