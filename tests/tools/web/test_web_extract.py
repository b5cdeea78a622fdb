"""web_extract on a real site: what it reads, what it refuses (G8), how it ends (C4), what it never tells (G6, G9)."""

import gzip
import io
import json
import os
import threading
import time
import zlib
from pathlib import Path

import pytest
from loopback_site import Extract, LoopbackSite, SiteNames, drip, hold, make_context, pour
from pypdf import PdfWriter

from hermes_base.errors import Interrupted
from hermes_base.text.redact import Redactor
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.tool_context import ToolContext
from run_agent import end_task
from tools.builtin.web_extract_tool import PAGE_CHARS, find_end, page_chars
from tools.web import page_child
from tools.web.page_store import KeptPage, PageStore, pages

ARTICLE = """<html><head><title>On frobs</title><style>p {color: red}</style></head><body>
<nav><a href="/">Home</a> <a href="/shop">Shop</a></nav>
<main><h1>On frobs</h1><p>A frob is a <b>thing</b>, see <a href="/more?x=1">more</a>.</p>
<pre><code class="language-sh">frob --init
  go</code></pre>
<table><tr><th>Name</th><th>Price</th></tr><tr><td>frob</td><td>7</td></tr></table></main>
<footer>Imprint</footer><script>steal()</script></body></html>"""


def make_pdf(*texts: str, password: str = "", packed: bytes = b"") -> bytes:
    """A PDF with a page for each text, written by hand: it has one font, and its first page may be a packed one."""
    count = len(texts)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{' '.join(f'{4 + 2 * n} 0 R' for n in range(count))}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(texts):
        content = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode() if text else b""
        page = f"<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R"
        objects.append(f"{page} /MediaBox [0 0 612 792] >>".encode())
        filter, content = (b"/Filter /FlateDecode ", packed) if packed and not number else (b"", content)
        objects.append(b"<< %s/Length %d >>\nstream\n%s\nendstream" % (filter, len(content), content))
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, one in enumerate(objects, start=1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, one))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))
    if not password:
        return out.getvalue()
    locked, written = PdfWriter(clone_from=io.BytesIO(out.getvalue())), io.BytesIO()
    locked.encrypt(password, algorithm="RC4-128")
    locked.write(written)
    return written.getvalue()


# --- what it reads


def test_a_page_comes_as_markdown_with_its_title(site: LoopbackSite, extract: Extract) -> None:
    result = extract(site.put("/frobs", ARTICLE))
    text = result["text"]
    assert (result["title"], result["url"], result["of"]) == ("On frobs", site.url("/frobs"), len(text))
    assert text.split("\n\n") == [
        "# On frobs",
        f"A frob is a **thing**, see [more]({site.url('/more?x=1')}).",
        "```sh\nfrob --init\n  go\n```",
        "| Name | Price |\n|---|---|\n| frob | 7 |",
    ]


def test_an_address_may_be_written_without_its_scheme_and_with_a_place_in_it(
    site: LoopbackSite, extract: Extract
) -> None:
    site.put("/frobs", ARTICLE)
    assert extract(f" {site.url('/frobs')}#part ")["title"] == "On frobs"
    assert site.asked[-1].path == "/frobs"
    for url in ("nowhere.test/x", "nowhere.test/?u=http://site.test"):  # which is called by https
        assert "https://nowhere.test/" in extract(url)["error"]


@pytest.mark.parametrize(
    ("type", "body"),
    [
        ("application/json", '{"a": [1, 2],  "b": "<p>"}'),
        ("text/plain; charset=utf-8", "<p>no page</p>\n  kept as it is"),
        ("application/atom+xml", "<feed><title>news</title></feed>"),
        ("text/markdown", "# Title\n\n* one"),
        (None, "plain words, and nobody says what they are"),
        ("application/octet-stream", "key = value\n"),
    ],
)
def test_text_and_json_come_as_they_are(site: LoopbackSite, extract: Extract, type: str | None, body: str) -> None:
    assert extract(site.put("/file", body, type))["text"] == body


def test_a_pdf_comes_page_by_page(site: LoopbackSite, extract: Extract) -> None:
    for type in ("application/pdf", "application/octet-stream", "text/html"):
        result = extract(site.put("/paper.pdf", make_pdf("Frobs are old", "", "They last"), type))
        assert result["text"] == "## Page 1\n\nFrobs are old\n\n## Page 3\n\nThey last"


@pytest.mark.parametrize(
    ("type", "body", "words"),
    [
        ("text/html; charset=iso-8859-1", "<p>déjà vu – “so”</p>".encode("cp1252"), "déjà vu – “so”"),
        ("text/html; charset=UTF-8", "<meta charset=latin1><p>zażółć".encode(), "zażółć"),
        ("text/html", "<meta charset='shift_jis'><p>日本語の文章".encode("shift_jis"), "日本語の文章"),
        (
            "text/html",
            '<meta http-equiv=Content-Type content="text/html; charset=koi8-r"><p>привет'.encode("koi8-r"),
            "привет",
        ),
        ("text/html; charset=nonsense", "<p>grün".encode(), "grün"),
        ("text/html", "<p>grün".encode("utf-16"), "grün"),
        ("text/html", "\ufeff<p>grün".encode("utf-8"), "grün"),
        ("text/html", ("<p>" + "Это обычный русский текст о погоде. " * 20).encode("cp1251"), "русский текст о погоде"),
        ("text/plain", ("これは普通の日本語の文章です。" * 20).encode("shift_jis"), "普通の日本語"),
        ("text/html", b"<p>caf\xe9 au lait", "caf"),
    ],
)
def test_letters_are_read_by_header_by_the_page_and_by_guessing(
    site: LoopbackSite, extract: Extract, type: str, body: bytes, words: str
) -> None:
    assert words in extract(site.put("/letters", body, type))["text"]


def test_a_packed_page_is_unpacked(site: LoopbackSite, extract: Extract) -> None:
    url = site.put("/packed", gzip.compress(ARTICLE.encode()), headers={"content-encoding": "gzip"})
    assert extract(url)["title"] == "On frobs"
    assert site.asked[-1].headers["accept-encoding"] == "gzip"


def test_a_page_without_a_readable_part_comes_as_its_plain_text(site: LoopbackSite, extract: Extract) -> None:
    deep = "<div>" * 100_000 + "so deep &amp; dark"
    result = extract(site.put("/deep", deep))
    assert result["text"] == "so deep & dark"
    assert "no readable part" in result["note"]


# --- the whole is kept


def test_the_rest_is_read_on_without_fetching_again(site: LoopbackSite, extract: Extract) -> None:
    lines = [f"line {number} of a long text" for number in range(5_000)]
    url = site.put("/long", "\n".join(lines), "text/plain")
    read, offset, rounds = "", 0, 0
    while True:
        page = extract(url, offset=offset)
        assert page["offset"] == len(read) == offset
        read += page["text"]
        rounds += 1
        if "next_offset" not in page:
            break
        assert page["text"].endswith("\n")
        offset = page["next_offset"]
    assert read == "\n".join(lines)
    assert rounds > 4
    assert len(site.asked) == 1


def test_without_an_offset_it_is_fetched_anew(site: LoopbackSite, extract: Extract) -> None:
    extract(site.put("/news", "old", "text/plain"))
    assert extract(site.put("/news", "new", "text/plain"))["text"] == "new"
    assert len(site.asked) == 2


def test_a_small_window_gets_small_pages(site: LoopbackSite, extract: Extract) -> None:
    url = site.put("/long", "x" * 50_000, "text/plain")
    assert len(extract(url, make_context(window_tokens=8_000))["text"]) == 8_000
    assert [page_chars(tokens) for tokens in (0, 100, 8_000, 1_000_000)] == [PAGE_CHARS, 2_000, 8_000, PAGE_CHARS]


def test_a_page_ends_between_lines_if_one_ends_near_its_limit() -> None:
    text = "a" * 90 + "\n" + "b" * 90
    assert [find_end(text, 0, 100), find_end(text, 0, 300), find_end("a" * 200, 0, 100)] == [91, 181, 100]
    assert find_end("\n" + "a" * 200, 0, 100) == 100  # too far from it


def test_pages_are_kept_by_task_and_forgotten_with_it(site: LoopbackSite, extract: Extract) -> None:
    """What belongs to a task ends with the task, and no task sees another's."""
    url = site.put("/page", "word " * 10_000, "text/plain")
    extract(url)
    extract(url, offset=100)
    assert len(site.asked) == 1
    extract(url, make_context(task="other"), offset=100)
    assert len(site.asked) == 2
    end_task("task")
    assert pages.find("task", url) is None
    assert pages.find("other", url) is not None
    extract(url, offset=100)
    assert len(site.asked) == 3
    end_task("other")


def test_kept_pages_are_bounded() -> None:
    """F2: those that were read longest ago give way."""
    store = PageStore(most_bytes=25_000)

    def page(text: str) -> KeptPage:
        return KeptPage("u", "h", "", text)

    for name in "abc":
        store.keep("task", name, page(name * 6_000))
    assert store.find("task", "a") is not None
    store.keep("task", "d", page("d" * 6_000))
    assert [name for name in "abcd" if store.find("task", name)] == ["a", "c", "d"]
    store.keep("task", "e", page("e" * 100_000))
    assert [name for name in "abcde" if store.find("task", name)] == []
    store.keep("task", "f", page("f"))
    assert store.find("task", "f") is not None


# --- where it may not go


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
        while not flag.exists():
            time.sleep(0.01)
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
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the site may still be closing its side
    assert page_child.AT_ONCE._value == 3  # type: ignore[attr-defined]
    ours = [one for one in threading.enumerate() if one.name.startswith("web-")]
    for one in ours:
        one.join(10)
    assert not any(one.is_alive() for one in ours)


# --- whose words they are


def test_what_is_fetched_is_foreign_by_its_host(site: LoopbackSite, extract: Extract, names: SiteNames) -> None:
    """G9: noted before the text is handed over, and again for who reads on in a later turn."""
    names.answers["www.site.test"] = [["127.0.0.1"]]
    both = {"network": {"private": ["site.test", "www.site.test"]}}
    site.put("/a", status=302, headers={"location": site.url("/b", "www.site.test")})
    site.put("/b", "word " * 20_000, "text/plain")
    first, later = make_context(settings=both), make_context(settings=both)
    extract(site.url("/a"), first)
    assert first.foreign.origins == ("a web page of www.site.test",)
    extract(site.url("/a"), later, offset=10)
    assert later.foreign.origins == ("a web page of www.site.test",)
    failing = make_context()
    extract("http://127.0.0.1/", failing)
    assert failing.foreign.origins == ()


def test_secrets_neither_leave_nor_come_in(site: LoopbackSite, extract: Extract) -> None:
    """G6: an address that carries one is not called; a page that holds one is shown without it."""
    redact = Redactor({"KEY": "sk-canary-0123456789"})
    context: ToolContext = make_context(redact=redact)
    for told in ("sk-canary-0123456789", "sk%2Dcanary%2D0123456789"):
        assert "holds a secret" in extract(site.url(f"/?k={told}"), context)["error"]
    assert site.asked == []
    url = site.put("/leak", "<title>sk-canary-0123456789</title><p>it is sk-canary-0123456789</p>")
    assert "canary" not in json.dumps(extract(url, context))
    kept = pages.find("task", url)
    assert kept is not None
    assert "canary" not in kept.text


def test_nothing_of_this_machine_goes_along(site: LoopbackSite, extract: Extract) -> None:
    """No cookie of the last answer, no login, no referrer."""
    site.put("/a", status=302, headers={"location": "/b", "set-cookie": "a=b"})
    site.put("/b", ARTICLE, headers={"set-cookie": "c=d"})
    extract(site.url("/a"))
    extract(site.url("/b"))
    for asked in site.asked:
        assert asked.headers.keys() <= {
            "host",
            "accept",
            "accept-encoding",
            "accept-language",
            "connection",
            "user-agent",
        }
