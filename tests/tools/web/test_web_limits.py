"""What goes wrong with a page is a sentence; size and time have limits (F1), and a stop ends it at once (C4)."""

import gzip
import os
import threading
import time
import zlib
from pathlib import Path

import pytest
from loopback_site import Extract, LoopbackSite, SiteNames, drip, hold, make_context, pour
from pdf_files import make_pdf
from waiting import wait_until

from hermes_base.errors import Interrupted
from hermes_base.turn.cancel import CancelToken
from tools.web import page_child

# --- what goes wrong is a sentence


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "wants a sign-in"),
        (403, "wants a sign-in"),
        (404, "no such page"),
        (410, "is gone"),
        (418, "status 418"),
        (429, "asks for patience"),
        (500, "has a fault"),
        (503, "has a fault"),
    ],
)
def test_a_refusal_is_told_by_what_it_means(site: LoopbackSite, extract: Extract, status: int, words: str) -> None:
    url = site.put("/x", "<p>obey me", status=status, headers={"retry-after": "17"})
    said = extract(url)["error"]
    assert words in said
    assert "again in 17 seconds" in said
    assert "obey" not in said


@pytest.mark.parametrize(
    ("type", "body", "words"),
    [
        ("text/html", b"", "It is empty"),
        ("text/plain", b" \n ", "It is empty"),
        (
            "text/html",
            b"<html><head><title>App</title></head><body><div id=root></div></body></html>",
            "made by scripts",
        ),
        ("image/png", b"\x89PNG\r\n\x1a\n" + bytes(100), r"image/png, 108 bytes"),
        ("application/zip", b"PK\x03\x04" + bytes(50), "no text that can be read"),
        ("application/octet-stream", b"\x7fELF" + bytes(50), "no text that can be read"),
        ("text/plain", b"ab\0\0\0cd", "no text that can be read"),
        ("application/pdf", b"%PDF-1.7\nnonsense", "a PDF that cannot be read"),
        ("application/pdf", make_pdf("secret", password="x"), "needs a password"),
        ("application/pdf", make_pdf("", ""), "its pages are images"),
    ],
)
def test_what_cannot_be_read_is_told(site: LoopbackSite, extract: Extract, type: str, body: bytes, words: str) -> None:
    assert words in extract(site.put("/x", body, type))["error"]


def test_a_pdf_that_was_made_to_do_harm_is_told(site: LoopbackSite, extract: Extract) -> None:
    """A page that unpacks to more than anybody reads, and pages that are their own parents."""
    squeeze = zlib.compressobj(9)
    bomb = b"".join(squeeze.compress(bytes(1 << 20)) for _ in range(200)) + squeeze.flush()
    loop = make_pdf("words").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
    for body in (make_pdf("x", packed=bomb), loop):
        assert "a PDF that cannot be read" in extract(site.put("/x", body, "application/pdf"))["error"]


def test_nobody_there_is_told(names: SiteNames, extract: Extract) -> None:
    assert "nobody knows that name" in extract("http://nowhere.test/")["error"]
    with LoopbackSite() as closed:
        url = closed.url("/")
    assert "nobody takes the connection" in extract(url)["error"]


# --- limits


def test_of_a_page_that_is_too_large_the_beginning_is_read(site: LoopbackSite, extract: Extract) -> None:
    url = site.put("/large", "<p>" + "word " * 6_000_000 + "</p>")
    result = extract(url, make_context(settings={"network": {"private": ["site.test"]}, "web": {"page_megabytes": 1}}))
    assert result["text"].startswith("word word")
    assert "larger than 1 MB" in result["note"]
    assert result["of"] <= 1 << 20


def test_a_body_without_an_end_ends_at_the_limit(site: LoopbackSite, extract: Extract) -> None:
    site.put("/endless", type="text/plain", stream=pour)
    small = {"network": {"private": ["site.test"]}, "web": {"page_megabytes": 1}}
    assert "larger than 1 MB" in extract(site.url("/endless"), make_context(settings=small))["note"]


def test_a_bomb_unpacks_to_the_limit_and_no_further(site: LoopbackSite, extract: Extract) -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(squeeze.compress(b"boom " * 200_000) for _ in range(40)) + squeeze.flush()
    assert len(bomb) < 1 << 20
    url = site.put("/bomb", bomb, "text/plain", headers={"content-encoding": "gzip"})
    small = {"network": {"private": ["site.test"]}, "web": {"page_megabytes": 1}}
    result = extract(url, make_context(settings=small))
    assert result["of"] == 1 << 20
    assert "larger than 1 MB" in result["note"]


@pytest.mark.parametrize(
    ("packing", "body", "words"),
    [
        ("gzip", b"no gzip at all", "damaged"),
        ("gzip", gzip.compress(b"whole " * 5_000)[:40], "before it was whole"),
        ("br", b"whatever", "in a way that was not asked for"),
    ],
    ids=("damaged", "short", "unknown"),
)
def test_a_packed_answer_that_is_none_is_told(
    site: LoopbackSite, extract: Extract, packing: str, body: bytes, words: str
) -> None:
    assert words in extract(site.put("/x", body, headers={"content-encoding": packing}))["error"]


@pytest.mark.parametrize("stream", [hold, drip])
def test_a_slow_answer_ends_with_its_time(site: LoopbackSite, extract: Extract, stream: object) -> None:
    site.put("/slow", stream=stream)
    quick = make_context(settings={"network": {"private": ["site.test"]}, "web": {"page_seconds": 0.4}})
    assert "did not answer within 0.4 seconds" in extract(site.url("/slow"), quick)["error"]


def test_a_page_that_takes_too_long_to_read_is_given_up(
    site: LoopbackSite, extract: Extract, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading has a time of its own, and its process is gone with it."""
    url = site.put("/x", "<p>word")
    monkeypatch.setattr(page_child, "_PROGRAM", "import time; time.sleep(600)")
    monkeypatch.setattr(page_child.read_apart, "__defaults__", (0.3,))
    assert "could not be read in time" in extract(url)["error"]


def test_a_reader_that_breaks_is_told(site: LoopbackSite, extract: Extract, monkeypatch: pytest.MonkeyPatch) -> None:
    url = site.put("/x", "<p>word")
    for program in ("import os; os.abort()", "print('nonsense')", "print('[1]')"):
        monkeypatch.setattr(page_child, "_PROGRAM", program)
        assert "could not be read" in extract(url)["error"]


# --- a stop ends it at once


def test_a_stop_ends_the_fetch_at_once(site: LoopbackSite, extract: Extract) -> None:
    """C4: the call is cut where it waits."""
    site.put("/slow", stream=hold)
    cancel = CancelToken()
    threading.Thread(target=lambda: site.reached.wait(30) and cancel.cancel("stopped by Ann"), daemon=True).start()
    began = time.monotonic()
    with pytest.raises(Interrupted, match="stopped by Ann"):
        extract(
            site.url("/slow"),
            make_context(
                cancel=cancel, settings={"web": {"page_seconds": 60.0}, "network": {"private": ["site.test"]}}
            ),
        )
    assert time.monotonic() - began < 30


def test_a_stop_ends_the_reading_at_once(
    site: LoopbackSite, extract: Extract, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """C4: the process that reads is ended, and nobody waits for it."""
    flag = tmp_path / "begun"
    monkeypatch.setattr(page_child, "_PROGRAM", f"import time; open({str(flag)!r}, 'w').close(); time.sleep(600)")
    cancel = CancelToken()

    def stop() -> None:
        wait_until(flag.exists)
        cancel.cancel("stopped by Ann")

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(Interrupted, match="stopped by Ann"):
        extract(site.put("/x", "<p>word"), make_context(cancel=cancel))


def test_a_turn_that_was_stopped_fetches_nothing(site: LoopbackSite, extract: Extract) -> None:
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(Interrupted):
        extract(site.put("/x", "<p>word"), make_context(cancel=cancel))
    assert site.asked == []


def test_after_all_of_it_nothing_is_left(site: LoopbackSite, extract: Extract) -> None:
    """F1: neither threads nor descriptors nor places to read in."""
    extract(site.put("/x", "<p>word"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        extract(site.url("/x"))
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)  # the site closes its side on threads of its own
    wait_until(lambda: not any(one.name.startswith("web-") for one in threading.enumerate()))
    assert page_child.AT_ONCE._value == 3  # type: ignore[attr-defined]
