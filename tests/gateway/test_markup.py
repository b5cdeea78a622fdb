"""Markdown in the markup of each app: only what the app knows, properly nested, and every word of the text."""

import html
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.markup.dialects import DIALECTS, WrittenText, find_dialect, translate, write_literally
from hermes_base.errors import ConfigProblem

SIGNS = st.text(st.sampled_from("ab c*_~`[](){}<>&|#-+.!\\\n 1:/\"'=\t>ä🙂"), max_size=120)
WORDS = st.sampled_from(["one", "two three", "*", "**bold**", "_soft_", "~~gone~~", "`code`", "[a](https://a.org)"])
LINES = st.lists(WORDS, max_size=6).map(" ".join)
PREFIXES = st.sampled_from(
    ["", "- ", "  - ", "1. ", "> ", "> > ", "# ", "| a | b |\n|---|---|\n| ", "```py\n", "---\n"]
)
DOCUMENTS = st.lists(st.builds(str.__add__, PREFIXES, LINES), max_size=8).map("\n".join)
#: Control characters are shown by nobody; IRC takes them for its own.
ANY = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200)
TEXTS = st.one_of(ANY, SIGNS, DOCUMENTS)

KNOWN = {"b", "i", "s", "a", "code", "pre", "blockquote"}
_TOKENS = re.compile(r"<(?P<end>/?)(?P<name>[a-z]+)(?P<attributes>[^<>]*)>|(?P<text>[^<>]+)|(?P<bad>.)", re.DOTALL)
_ENTITIES = re.compile(r"&(?!(?:lt|gt|amp|quot|#\d+|#x[0-9a-f]+);)")


def parse_strictly(text: str) -> str:
    """The visible text of Telegram's HTML; anything that its server would refuse fails."""
    open_tags: list[str] = []
    shown = []
    for token in _TOKENS.finditer(text):
        assert not token["bad"], f"a lone {token['bad']!r}"
        if token["text"]:
            assert not _ENTITIES.search(token["text"])
            shown.append(html.unescape(token["text"]))
        elif token["end"]:
            assert open_tags.pop() == token["name"], "closed in another order"
        else:
            name, attributes = token["name"], token["attributes"]
            assert name in KNOWN
            assert name not in open_tags, "a mark inside of itself"
            inside_of_code = "code" in open_tags or ("pre" in open_tags and name != "code")
            assert not inside_of_code, "code holds no other marks"
            if name in ("code", "pre"):
                assert not {"b", "i", "s", "a"} & set(open_tags), "code is part of no other mark"
            if name == "a":
                assert re.fullmatch(r' href="[^"<>\s]+"', attributes)
            elif attributes:
                assert name == "code"
                assert re.fullmatch(r' class="language-[^"<>\s]+"', attributes)
            open_tags.append(name)
    assert not open_tags, "never closed"
    return "".join(shown)


def words_of(text: str) -> list[str]:
    """Words, without addresses, which some apps show and some hide behind their text."""
    return re.findall(r"\w+", re.sub(r" \((?:https?|mailto|tg):[^\s()]*\)", "", text))


@given(TEXTS)
def test_telegram_takes_whatever_comes_out(text: str) -> None:
    written = translate(text, "telegram_html")
    assert parse_strictly(written.text) == written.shown
    assert words_of(written.shown) == words_of(written.plain)


@given(TEXTS, st.sampled_from(sorted(DIALECTS)))
def test_no_text_is_refused_and_none_comes_to_nothing(text: str, name: str) -> None:
    written = translate(text, name)
    assert bool(written.text.strip()) == bool(text.strip())
    assert bool(written.plain.strip()) == bool(text.strip())


@given(st.text(st.sampled_from("ab1 *_~`#|-\n>+.é"), max_size=200), st.sampled_from(sorted(DIALECTS)))
def test_every_letter_is_shown(text: str, name: str) -> None:
    """Whatever is taken for markup, no letter that somebody wrote goes missing, and they stay in their order."""
    if "```" in text or "~~~" in text:  # the language of a code block is not shown
        return
    letters = [char for char in text if char.isalpha()]
    written = translate(text, name)
    if "|" not in text:  # the heads of a wide table are said again with each row
        assert [char for char in written.plain if char.isalpha()] == letters
        assert [char for char in html.unescape(written.shown) if char.isalpha()] == letters


@given(TEXTS, st.integers(0, 200))
def test_a_text_that_still_grows_is_converted_at_any_place(text: str, end: int) -> None:
    parse_strictly(translate(text[:end], "telegram_html").text)


@given(st.text(max_size=200), st.sampled_from(sorted(DIALECTS)))
def test_a_literal_text_stays_as_it_is(text: str, name: str) -> None:
    written = write_literally(text, name)
    assert written.plain == text
    if name == "telegram_html":
        assert parse_strictly(written.text) == text


@pytest.mark.parametrize(
    ("markdown", "telegram"),
    [
        ("# Title\n\nsome **bold** and *soft* text", "<b>Title</b>\n\nsome <b>bold</b> and <i>soft</i> text"),
        ("**a *b* c** ~~d~~", "<b>a <i>b</i> c</b> <s>d</s>"),
        ("**x `y` z**", "<b>x </b><code>y</code><b> z</b>"),
        ("2 * 3 < 4 & 5 ** 6", "2 * 3 &lt; 4 &amp; 5 ** 6"),
        ("<b>raw</b> <script>", "&lt;b&gt;raw&lt;/b&gt; &lt;script&gt;"),
        ("\\*as it is\\*", "*as it is*"),
        ("call __init__ and snake_case_name", "call __init__ and snake_case_name"),
        ("* one\n* two\n  1. three\n     four\n", "• one\n• two\n  1. three\n     four"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("- \n- x", "• \n• x"),
        ("> said\n> > before\n\nme", "<blockquote>said\nbefore</blockquote>\n\nme"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("```py\nif a < b:\n    c\n```", '<pre><code class="language-py">if a &lt; b:\n    c</code></pre>'),
        ("```\nx", "<pre>x</pre>"),
        ("[the *page*](https://a.org/?a=1&b=2)", '<a href="https://a.org/?a=1&amp;b=2">the <i>page</i></a>'),
        ("![chart](https://a.org/c.png)", '<a href="https://a.org/c.png">chart</a>'),
        ("[write](mailto:a@b.org) [open](tg://user?id=1)", None),
        ("[notes](docs/notes.md) [x](ftp://a.org)", "notes (docs/notes.md) x (ftp://a.org)"),
        ("[run](javascript:alert(1))", "[run](javascript:alert(1))"),
        ("| a | b |\n|---|---|\n| 1 | 22 |", "<pre>a | b\n--+---\n1 | 22</pre>"),
        ("head\n    indented\n\n    more", "head\n    indented\n\n    more"),
        ("line\nnext  \nlast", "line\nnext\nlast"),
    ],
)
def test_telegram(markdown: str, telegram: str | None) -> None:
    written = translate(markdown, "telegram_html")
    parse_strictly(written.text)
    if telegram is not None:
        assert written.text == telegram
    else:
        assert written.text.count("<a href=") == 2


def test_a_wide_table_is_told_row_by_row() -> None:
    table = "| city | what to see |\n|---|---|\n| Rome | the *old* town and its many fountains |\n| Bath | baths |"
    assert translate(table, "telegram_html").text == (
        "<b>city</b>: Rome\n<b>what to see</b>: the <i>old</i> town and its many fountains\n\n"
        "<b>city</b>: Bath\n<b>what to see</b>: baths"
    )


def test_a_row_with_more_cells_than_columns_loses_none() -> None:
    assert "a || b" not in translate("| x |\n|---|\n| 1 | 2 | 3 |", "plain").plain
    assert words_of(translate("| x |\n|---|\n| 1 | 2 | 3 |", "plain").plain) == ["x", "1", "2", "3"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("slack", "*T* _i_ ~s~ `c` <https://a.org|p> 1 &lt; 2 ab\n• x\n> q\n```\nk\n```"),
        ("discord", "**T** *i* ~~s~~ `c` [p](https://a.org) 1 < 2 ab\n- x\n> q\n```sh\nk\n```"),
        ("whatsapp", "*T* _i_ ~s~ `c` p (https://a.org) 1 < 2 ab\n• x\n> q\n```\nk\n```"),
        ("irc", "\x02T\x02 \x1di\x1d \x1es\x1e c p (https://a.org) 1 < 2 a\x02b\x02\n- x\n> q\nk"),
        (
            "html",
            '<strong>T</strong> <em>i</em> <del>s</del> <code>c</code> <a href="https://a.org">p</a> 1 &lt; 2 '
            'a<strong>b</strong>\n• x\n\n<blockquote>q</blockquote>\n<pre><code class="language-sh">k</code></pre>',
        ),
        (
            "styles",
            "\x0eT\x0f \x10i\x11 \x12s\x13 \x14c\x15 p (https://a.org) 1 < 2 a\x0eb\x0f\n• x\n> q\n\x14k\x15",
        ),
        ("plain", "T i s c p (https://a.org) 1 < 2 ab\n- x\n> q\nk"),
    ],
)
def test_other_apps(name: str, shown: str) -> None:
    markdown = "**T** *i* ~~s~~ `c` [p](https://a.org) 1 < 2 a**b**\n- x\n\n> q\n```sh\nk\n```"
    assert translate(markdown, name).text == shown.replace("- x\n>", "- x\n\n>").replace("• x\n>", "• x\n\n>")


def test_signs_that_were_typed_are_no_markup_elsewhere() -> None:
    assert translate(r"\*stars\*", "slack").text.replace("\u200b", "") == "*stars*"
    assert translate(r"\*stars\*", "slack").text != "*stars*"
    assert translate("a \x02b", "irc").text == "a b"
    assert translate("a \x0eb\x0f", "styles").text == "a b"
    assert translate("a || b || c", "discord").text.replace("\u200b", "") == "a || b || c"
    assert "||" not in translate("a || b || c", "discord").text


def test_discord_shows_tables_as_code_and_addresses_as_they_are() -> None:
    written = translate("| a | b |\n|---|---|\n| 1 | 2 |\n\n<https://a.org/x_y_z>", "discord").text
    assert written.startswith("```\n")
    assert written.endswith("```\n\nhttps://a.org/x_y_z")


def test_what_reads_markdown_gets_it_unchanged() -> None:
    text = "# a\n\n* b **c**"
    assert translate(text, "markdown") == WrittenText(text, "a\n\n- b c", text)


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("see [the page](https://a.org/x_(y))", "see the page (https://a.org/x_(y))"),
        ("[https://a.org](https://a.org) <https://b.org>", "https://a.org https://b.org"),
        ("use `x ** y` and 2 ** 3 ** 4", "use x ** y and 2 ** 3 ** 4"),
        ("```py\nx = '**'\n```\nend", "x = '**'\nend"),
        ("[over\na line](https://a.org)", "over a line (https://a.org)"),
    ],
)
def test_plain(markdown: str, plain: str) -> None:
    assert translate(markdown, "plain").text == translate(markdown, "telegram_html").plain == plain


def test_a_name_that_nobody_knows_is_said() -> None:
    with pytest.raises(ConfigProblem, match="'roff'"):
        find_dialect("roff")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 4000,
        "[a](" * 1000,
        "*a" * 1000 + "b*" * 1000,
        "_a" * 2000,
        "<a" * 2000,
        "![[" * 1300,
        "> " * 2000,
        "|-" * 2000,
    ],
)
def test_hostile_texts_take_no_time(text: str) -> None:
    """F5: no text of one message keeps the event loop for long."""
    began = time.thread_time()
    parse_strictly(translate(text, "telegram_html").text)
    assert time.thread_time() - began < 1.0
