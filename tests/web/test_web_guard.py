"""Which hosts and origins are let in: the pure decisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http import guard
from gateway.http.guard import Request

NAMES = frozenset({"hermes.example.org"})


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8642",
        "localhost:8642",
        "LOCALHOST",
        "localhost.",
        "[::1]:8642",
        "192.168.1.5",
        "[fe80::1]:80",
        "hermes.example.org",
        "Hermes.Example.ORG:443",
        "hermes.example.org.",
    ],
)
def test_hosts_that_are_ours(host: str) -> None:
    """G11: addresses, the machine's own names and the configured ones; a port does not matter."""
    assert guard.is_known_host(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example.org",
        "hermes.example.org.evil.net",
        "localhost.evil.net",
        "127.0.0.1.nip.io",
        "127.0.0.1@evil",
        "evil.net/127.0.0.1",
        "evil.net#localhost",
        "localhost:port",
        "[::1",
        "localhost evil",
        "a" * 300,
        "[evil]",
    ],
)
def test_hosts_that_are_not(host: str) -> None:
    """G11: a name that somebody else made point here (DNS rebinding) opens nothing."""
    assert not guard.is_known_host(host, NAMES)


@given(st.text(max_size=60))
def test_no_host_breaks_the_check(host: str) -> None:
    guard.is_known_host(host, NAMES)
    guard.is_own_origin(host, "localhost")


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://127.0.0.1:8642", "127.0.0.1:8642", True),
        ("https://hermes.example.org", "hermes.example.org", True),
        ("https://hermes.example.org:443", "hermes.example.org", True),
        ("http://localhost", "localhost:80", True),
        ("http://[::1]:8642", "[::1]:8642", True),
        ("http://127.0.0.1:3000", "127.0.0.1:8642", False),
        ("http://localhost:8642", "127.0.0.1:8642", False),
        ("https://evil.net", "127.0.0.1:8642", False),
        ("null", "127.0.0.1:8642", False),
        ("file://", "127.0.0.1:8642", False),
        ("", "127.0.0.1:8642", False),
    ],
)
def test_an_origin_is_the_host_that_was_asked(origin: str, host: str, own: bool) -> None:
    """G11: another port of the same machine is another site."""
    assert guard.is_own_origin(origin, host) is own


def test_a_link_to_a_page_may_be_followed_but_nothing_else() -> None:
    """G11: a navigation shows our page in its own window; a foreign fetch, form, image or script gets nothing."""
    host = "127.0.0.1:8642"
    link = Request("GET", "/", host, "", "cross-site", "navigate")
    assert not guard.is_foreign(link, is_page=True)
    assert guard.is_foreign(link, is_page=False)
    assert guard.is_foreign(Request("GET", "/", host, "", "cross-site", "no-cors"), is_page=True)
    assert guard.is_foreign(Request("POST", "/", host, "http://evil.net", "cross-site", "navigate"), is_page=True)
    assert guard.is_foreign(Request("POST", "/web/say", host, "http://evil.net"), is_page=False)
    assert guard.is_foreign(Request("POST", "/web/say", host, "null"), is_page=False)
    assert guard.is_foreign(Request("GET", "/web/me", host, "", "same-site", "cors"), is_page=False)
    assert not guard.is_foreign(Request("GET", "/web/me", host, "", "same-origin", "cors"), is_page=False)
    assert not guard.is_foreign(Request("POST", "/web/say", host, f"http://{host}"), is_page=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"])
def test_loopback(host: str) -> None:
    assert guard.is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.168.0.1", "example.org", "::ffff:10.0.0.1"])
def test_not_loopback(host: str) -> None:
    """G11: the wildcard is no loopback, nor is a name that merely sounds so."""
    assert not guard.is_loopback(host)
