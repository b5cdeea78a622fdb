"""Where web_extract may go: an address is judged where it really leads, when it is connected (G8)."""

import json

import pytest
from loopback_site import ARTICLE, Extract, LoopbackSite, SiteNames, make_context


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "2130706433", "0x7f000001", "017700000001", "0x7f.1", "127.1", "0"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
        *("10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "[fd00::1]", "[fe80::1]", "inner.test"),
    ],
)
def test_private_addresses_are_refused_in_every_dress(
    site: LoopbackSite, names: SiteNames, extract: Extract, host: str
) -> None:
    """G8: at once, and behind a redirect."""
    names.answers |= {"localhost": [["127.0.0.1"]], "inner.test": [["10.1.2.3"]]}
    direct = site.url("/secret", host)
    moved = site.put("/moved", status=302, headers={"location": direct})
    site.put("/secret", "the secret")
    for url in (direct, moved):
        result = extract(url)
        assert "private address" in result["error"]
        assert "network.private" in result["error"]
    assert [one.path for one in site.asked] == ["/moved"]


@pytest.mark.parametrize(
    "host",
    [
        *(
            "169.254.169.254",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
            "2852039166",
            "0xa9fea9fe",
            "0251.0376.43518",
        ),
        *("metadata.google.internal", "metadata", "100.100.100.200", "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]"),
    ],
)
def test_metadata_is_never_reached_whatever_is_allowed(
    site: LoopbackSite, names: SiteNames, extract: Extract, host: str
) -> None:
    """G8"""
    names.answers |= {"metadata.google.internal": [["127.0.0.1"]], "metadata": [["127.0.0.1"]]}
    everything = {"network": {"private": ["0.0.0.0/0", "::/0", "metadata", "metadata.google.internal", "site.test"]}}
    direct = f"http://{host}:{site.port}/latest/meta-data/"
    moved = site.put("/moved", status=307, headers={"location": direct})
    for url in (direct, moved):
        assert "never called" in extract(url, make_context(settings=everything))["error"]
    assert [one.path for one in site.asked] == ["/moved"]


def test_a_name_that_changes_its_answer_gets_nowhere(site: LoopbackSite, names: SiteNames, extract: Extract) -> None:
    """G8: what was judged is what is connected; the next look, for a redirect, is judged again."""
    names.answers["rebinding.test"] = [["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1"]]
    site.put("/a", status=302, headers={"location": site.url("/b", "rebinding.test")})
    site.put("/b", "inner words", "text/plain")
    allowed = make_context(settings={"network": {"private": ["127.0.0.1"]}})
    assert "private address" in extract(site.url("/a", "rebinding.test"), allowed)["error"]
    assert names.asked == ["rebinding.test", "rebinding.test"]
    assert [one.path for one in site.asked] == ["/a"]


def test_redirects_are_followed_to_where_they_may_go(site: LoopbackSite, extract: Extract) -> None:
    site.put("/a", status=301, headers={"location": "/b"})
    site.put("/b", status=308, headers={"location": site.url("/c")})
    site.put("/c", ARTICLE)
    assert extract(site.url("/a"))["url"] == site.url("/c")
    site.put("/round", status=302, headers={"location": "/round"})
    assert "more than 8 times" in extract(site.url("/round"))["error"]


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://site.test/x", "data:text/plain,x", "gopher://site.test"]
)
def test_a_redirect_to_something_else_than_the_web_is_not_followed(
    site: LoopbackSite, extract: Extract, target: str
) -> None:
    result = extract(site.put("/moved", status=302, headers={"location": target}))
    assert "root:" not in json.dumps(result)
    assert "it leads to no address of the web" in result["error"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "Give the address"),
        (None, "Give the address"),
        (7, "Give the address"),
        ("file:///etc/passwd", "no address of a web page"),
        ("file://host/etc/passwd", "file: are not fetched"),
        ("ftp://site.test/x", "ftp: are not fetched"),
        ("view-source:http://site.test/", "no address of a web page"),
        ("javascript:alert(1)", "no address of a web page"),
        ("http://", "no address of a web page"),
        ("http://[::1", "no address of a web page"),
        ("http://site.test:99999/", "no address of a web page"),
        ("http://site.test/a b", "no address of a web page"),
        ("http://site.test/\x00", "no address of a web page"),
        ("http://site.test/" + "x" * 5_000, "no address of a web page"),
        ("http://me:pass@site.test/", "with a login"),
    ],
)
def test_what_is_no_address_of_a_page_is_told(site: LoopbackSite, extract: Extract, url: object, words: str) -> None:
    assert words in extract(url)["error"]
    assert site.asked == []
