"""A page as markdown, on values: what is kept, what is left out, and pages that were written to do harm."""

import json
import resource
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.errors import ToolFailure
from hermes_base.turn.cancel import CancelToken
from tools.web import page_reading
from tools.web.page_child import read_apart
from tools.web.page_markdown import read_html, strip_markup
from tools.web.page_reading import MOST_CHARS, PageFacts, find_kind, read_page

URL = "https://site.test/docs/page"


def md(body: str) -> str:
    return read_html(f"<html><body>{body}</body></html>", URL)[1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<h2>A <em>title</em></h2>", "## A *title*"),
        ("<p>one<br>two</p><p>three</p>", "one\ntwo\n\nthree"),
        ("loose <b>text</b> <i>here</i><div>block</div>tail", "loose **text** *here*\n\nblock\n\ntail"),
        ("<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>", "- a\n- b\n  - c"),
        ("<ul><li>a</li><ul><li>b</li></ul><li>c</li></ul>", "- a\n  - b\n- c"),
        ("<ol start=3><li>a</li><li><p>b</p><p>c</p></li></ol>", "3. a\n4. b\n\n   c"),
        ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
        ("<dl><dt>word</dt><dd>meaning</dd></dl>", "**word**\n\n: meaning"),
        ("<p>run <code>a `b`</code> or <kbd>c</kbd></p>", "run `` a `b` `` or `c`"),
        ("<pre>a\n  b\n\nc\n</pre>", "```\na\n  b\n\nc\n```"),
        ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
        ("<pre class='brush: js'>let a;<br>let b;</pre>", "```js\nlet a;\nlet b;\n```"),
        ("<div class=highlight-source-py><pre>x</pre></div>", "```\nx\n```"),
        ("<p><img alt='A cat' src=x.png><img src=y.png>", "[image: A cat]"),
        ("<p><math alttext='x^2'><mi>x</mi></math>", "$x^2$"),
        ("<a href='/card'><h3>Card</h3><p>words</p></a>", "### [Card](https://site.test/card)\n\nwords"),
        ("<a href='/card'><pre>a\nb</pre><p>words</p></a>", "```\na\nb\n```\n\n[words](https://site.test/card)"),
        ("<a href='#part'><h3>Card</h3></a>", "### Card"),
        ("<table><tr><td>only</td></tr><tr><td>layout</td></tr></table>", "only\n\nlayout"),
        ("<table><tr><th>a|b<th>c<tr><td>1<br>2<td>3</table>", "| a\\|b | c |\n|---|---|\n| 1 2 | 3 |"),
        ("<table><tr><td>a<td>b<tr><td>c</table>", "| a | b |\n|---|---|\n| c |  |"),
        ("<table><tr><td><pre>x</pre><td>y</table>", "```\nx\n```\n\ny"),
        ("<p>a</p><hr><p>b</p>", "a\n\n---\n\nb"),
    ],
)
def test_what_a_page_says_keeps_its_form(body: str, said: str) -> None:
    assert md(body) == said


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("<a href='other'>x</a>", "[x](https://site.test/docs/other)"),
        ("<a href='//b.test/y z'>x</a>", "[x](https://b.test/y%20z)"),
        ("<a href='/a_(b)'>x</a>", "[x](https://site.test/a_(b%29)"),
        ("<a href='mailto:a@b.test'>x</a>", "[x](mailto:a@b.test)"),
        ("<a href='#part'>see below</a>", "see below"),
        ("<h2>Title<a href='#title'>¶</a></h2>", "## Title"),
        ("<a href='javascript:alert(1)'>x</a>", "x"),
        ("<a href='/x'></a>word", "word"),
        ("<a>x</a>", "x"),
    ],
)
def test_links_lead_where_they_lead(link: str, said: str) -> None:
    assert md(link) == said


def test_links_count_from_the_base_that_a_page_names() -> None:
    text = "<html><head><base href='https://b.test/x/'></head><body><a href=y>z</a></body></html>"
    assert read_html(text, URL)[1] == "[z](https://b.test/x/y)"


@pytest.mark.parametrize(
    "around",
    [
        "<script>bad()</script>",
        "<style>bad</style>",
        "<noscript>bad</noscript>",
        "<nav>bad</nav>",
        "<div role=navigation>bad</div>",
        "<div hidden>bad</div>",
        "<div style='color:red; DISPLAY : none'>bad</div>",
        "<span aria-hidden=true>bad</span>",
        "<button>bad</button>",
        "<header><a href=/>bad</a></header>",
        "<footer>bad</footer>",
        "<aside>bad</aside>",
        "<div class='site sidebar'><a href=/a>bad</a> <a href=/b>bad</a></div>",
        "<!-- bad -->",
        "<template><p>bad</p></template>",
    ],
)
def test_what_stands_around_a_page_is_left_out(around: str) -> None:
    words = "<p>What the page says, in a sentence that is long enough to be one.</p>"
    assert "bad" not in md(f"{around}{words}")
    assert "bad" not in md(f"{words}{around}")


def test_the_main_part_is_taken_if_it_holds_most_of_the_page() -> None:
    most = "<p>" + "What it says. " * 20 + "</p>"
    assert md(f"<div>around</div><main>{most}</main>") == ("What it says. " * 20).strip()
    assert "around" in md(f"<div>{'around ' * 100}</div><main><p>little</p></main>")


def test_a_list_of_links_is_a_page_too() -> None:
    """An index says nothing but links: they stay unless their block is named for what stands around."""
    links = "".join(f"<li><a href=/{number}>story {number}</a></li>" for number in range(10))
    assert md(f"<ul>{links}</ul>").count("](https://site.test/") == 10
    assert md(f"<div class=menu><p>A long text that only stands in a block with that name.</p></div>{links}") != ""


def test_everything_rather_than_nothing() -> None:
    assert md("<footer><p>All of it stands in the footer, for whatever reason.</p></footer>").startswith("All of it")


@pytest.mark.parametrize(
    "begin", ["<main>", "<article>", "<header><h1>T</h1></header><section>", "<p>", "words ", "<x-app>"]
)
def test_a_page_need_not_name_its_body(begin: str) -> None:
    text = f"<!doctype html><title>A</title><meta charset=utf-8>{begin}What it says in a sentence."
    title, said = read_html(text, URL)
    assert title == "A"
    assert said.endswith("What it says in a sentence.")
    assert "A\n" not in said


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("<title> A\n b </title>", "A b"),
        ("<meta property='og:title' content='C'><p>x", "C"),
        ("<h1>D</h1>", "D"),
        ("<p>x", ""),
    ],
)
def test_a_page_has_a_title(text: str, title: str) -> None:
    assert read_html(text, URL)[0] == title


@pytest.mark.parametrize("piece", ["<span>", "<div>", "<font>", "<blockquote>", "<ul><li>"])
def test_marks_that_are_never_closed_lose_nothing(piece: str) -> None:
    """Old pages nest deeper than parsers like."""
    assert md("<p>first</p>" + f"{piece}a" * 500 + " words").endswith("a words")


def test_plain_text_is_what_is_left_without_marks() -> None:
    assert strip_markup("<script>a</script><p>b &lt; c<!-- d --><style>e") == "b < c"


@given(st.text(alphabet="<>/ab=\"'&;#!- \n\u00e9\0", max_size=300))
def test_no_page_is_too_broken_to_be_read(text: str) -> None:
    page = read_page(PageFacts(URL, "text/html", "utf-8"), text.encode())
    assert page.text or page.problem


# --- in the process that reads


def read(body: bytes, type: str = "text/html", **more: float) -> page_reading.PageText:
    return read_apart(PageFacts(URL, type, "utf-8"), body, CancelToken(), **more)


@pytest.mark.parametrize(
    "piece", [b"<div>", b"<b>", b"<table><tr><td>", b"<ul><li>", b"<a href=x>", b"<blockquote>", b"&lt;", b"<![CDATA["]
)
def test_deep_and_broken_pages_come_to_an_end(piece: bytes) -> None:
    page = read(piece * 50_000 + b"words")
    assert page.text or page.problem


def test_a_page_that_eats_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is that of the process: this one is not touched."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from tools.web import page_reading as r;"
        "r._READERS = {**r._READERS, 'text': lambda f, b: bytearray(4 << 30)}; r.main()"
    )
    monkeypatch.setattr("tools.web.page_child._PROGRAM", program)
    assert "more memory" in read(b"x", "text/plain").problem
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_the_process_sets_its_limits_and_knows_nothing_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """G6: neither the environment nor the folder of who starts it; and it can write no file."""
    monkeypatch.setenv("CANARY_API_KEY", "sk-canary-0123456789")
    program = (
        "import os, resource, json, sys; sys.path.insert(0, sys.argv[1]); from tools.web import page_reading as r;"
        "look = lambda f, b: r.PageText('text', text=json.dumps([dict(os.environ), os.getcwd(),"
        "[resource.getrlimit(x)[0] for x in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)]]));"
        "r._READERS = {**r._READERS, 'text': look}; r.main()"
    )
    monkeypatch.setattr("tools.web.page_child._PROGRAM", program)
    environment, folder, limits = json.loads(read(b"x", "text/plain").text)
    assert "canary" not in json.dumps(environment)
    assert folder == "/"
    assert limits == [page_reading.CPU_SECONDS, page_reading.MEMORY_BYTES, 0]


def test_a_page_that_computes_for_ever_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the limit of the processor, before the clock."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from tools.web import page_reading as r; import itertools;"
        "r.CPU_SECONDS = 1; r._READERS = {**r._READERS, 'text': lambda f, b: sum(itertools.repeat(1))}; r.main()"
    )
    monkeypatch.setattr("tools.web.page_child._PROGRAM", program)
    began = time.monotonic()
    with pytest.raises(ToolFailure, match="more time or memory"):
        read(b"x", "text/plain", seconds=100.0)
    assert time.monotonic() - began < 90


def test_a_very_long_text_is_cut_and_says_so() -> None:
    page = read(b"x" * (MOST_CHARS + 10), "text/plain")
    assert len(page.text) == MOST_CHARS
    assert "the rest was left out" in page.note


@pytest.mark.parametrize(
    ("type", "body", "kind"),
    [
        ("text/html", b"<p>", "html"),
        ("application/xhtml+xml", b"<p/>", "html"),
        ("", b"  <!DOCTYPE html><p>", "html"),
        ("", b"<!-- hi --><html>", "html"),
        ("application/octet-stream", b"<html>", "html"),
        ("text/plain", b"<html>", "text"),
        ("application/vnd.api+json", b"{}", "text"),
        ("application/pdf", b"x", "pdf"),
        ("", b"%PDF-1.4", "pdf"),
        ("", b"\0\1", "binary"),
        ("", "x".encode("utf-16"), "text"),
        ("image/jpeg", b"x", "binary"),
        ("image/svg+xml", b"<svg/>", "text"),
    ],
)
def test_what_bytes_are_is_found_by_type_and_beginning(type: str, body: bytes, kind: str) -> None:
    assert find_kind(PageFacts(URL, type), body) == kind
