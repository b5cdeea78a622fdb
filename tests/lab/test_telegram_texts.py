"""Telegram's markup as the lab reads it: texts, entities in UTF-16 units, and the errors that Telegram tells."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.chats.telegram.api_values import ApiError
from hermes_lab.chats.telegram.texts.entities import Entity, cut_units, find_entities, settle, units
from hermes_lab.chats.telegram.texts.formatting import format_text

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
Found = list[tuple[str, int, int]]


def read(mode: str, text: str, given: object = None) -> tuple[str, Found]:
    complaints: list[str] = []
    kept, entities = format_text(text, mode, given, lambda kind, said: complaints.append(said))
    assert not complaints
    return kept, [(entity.kind, entity.offset, entity.length) for entity in entities]


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("😀 <b>bold</b>", "😀 bold", [("bold", 3, 4)]),
        ("<b>a <i>b</i></b>", "a b", [("bold", 0, 3), ("italic", 2, 1)]),
        ("<STRONG>x</STRONG>", "x", [("bold", 0, 1)]),
        ("a &lt; b &amp;&amp; c &gt; &quot;d&quot; &#128512; &#x41; &copy;", 'a < b && c > "d" 😀 A &copy;', []),
        ('<pre><code class="language-py">x = 1</code></pre>', "x = 1", [("pre", 0, 5)]),
        ('<code class="x">y</code>', "y", [("code", 0, 1)]),
        ('<a href="https://a.b/?x=1&amp;y=2">l</a>', "l", [("text_link", 0, 1)]),
        ('<a href="nothing">l</a>', "l", []),
        ('<span class="tg-spoiler">s</span><tg-spoiler>t</tg-spoiler>', "st", [("spoiler", 0, 1), ("spoiler", 1, 1)]),
        ("<blockquote expandable>q</blockquote>", "q", [("expandable_blockquote", 0, 1)]),
        ("<b></b>x", "x", []),
        ("<pre>/cmd @name https://a.b</pre>", "/cmd @name https://a.b", [("pre", 0, 22)]),
        ("  <u>x</u>  ", "x", [("underline", 0, 1)]),
    ],
)
def test_html(source: str, text: str, entities: Found) -> None:
    assert read("HTML", source) == (text, entities)


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("😀 *bold*", "😀 bold", [("bold", 3, 4)]),
        ("_i __u___", "i u", [("italic", 0, 3), ("underline", 2, 1)]),
        ("||s|| ~t~", "s t", [("spoiler", 0, 1), ("strikethrough", 2, 1)]),
        ("`a*b.c`", "a*b.c", [("code", 0, 5)]),
        ("```py\nx = 1\n```", "x = 1", [("pre", 0, 5)]),
        ("```\nx `` y\\`\n```", "x `` y`", [("pre", 0, 7)]),
        ("[a\\.b](https://x.y/\\)z)", "a.b", [("text_link", 0, 3)]),
        (">one\n>two\nthree", "one\ntwo\nthree", [("blockquote", 0, 7)]),
        ("**>one\n>two||\nthree", "one\ntwo\nthree", [("expandable_blockquote", 0, 7)]),
        ("1\\. done\\!", "1. done!", []),
    ],
)
def test_markdown_v2(source: str, text: str, entities: Found) -> None:
    assert read("markdownv2", source) == (text, entities)


@pytest.mark.parametrize(
    ("mode", "source", "problem"),
    [
        ("HTML", "<p>x</p>", 'Unsupported start tag "p" at byte offset 0'),
        ("HTML", "é a < b", 'Unsupported start tag "" at byte offset 5'),
        ("HTML", "x <b", "Unclosed start tag at byte offset 2"),
        ("HTML", "ü</b>", "Unexpected end tag at byte offset 2"),
        ("HTML", "<b>x</i>", 'Unmatched end tag at byte offset 4, expected "</b>", found "</i>"'),
        ("HTML", "<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("MarkdownV2", "1. x", "Character '.' is reserved and must be escaped with the preceding '\\'"),
        ("MarkdownV2", "ab *x", "Can't find end of Bold entity at byte offset 3"),
        ("MarkdownV2", "`x", "Can't find end of Code entity at byte offset 0"),
        ("MarkdownV2", "x > y", "Character '>' is reserved and must be escaped with the preceding '\\'"),
        ("Markdown", "a *x", "Can't find end of the entity starting at byte offset 2"),
    ],
)
def test_markup_that_does_not_parse(mode: str, source: str, problem: str) -> None:
    with pytest.raises(ApiError) as error:
        read(mode, source)
    assert error.value.text == f"Bad Request: can't parse entities: {problem}"
    assert error.value.kind == "markup"


def test_the_old_markdown() -> None:
    text, entities = read("Markdown", "*b* _i_ `c` [l](https://x.y) \\_")
    assert text == "b i c l _"
    assert [kind for kind, _, _ in entities] == ["bold", "italic", "code", "text_link"]


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("/start hi", [("bot_command", 0, 6)]),
        ("😀 /a@lab_bot @ann", [("bot_command", 3, 10), ("mention", 14, 4)]),
        ("see https://a.b/c and a@b.org", [("url", 4, 13), ("email", 22, 7)]),
        ("a/b and/or 1@2", []),
    ],
)
def test_what_is_found_in_plain_text(text: str, entities: Found) -> None:
    assert [(entity.kind, entity.offset, entity.length) for entity in find_entities(text)] == entities


@given(TEXTS)
def test_escaped_html_is_the_text(text: str) -> None:
    assert read("HTML", html.escape(text))[0] == text.strip()


@given(TEXTS)
def test_escaped_markdown_is_the_text(text: str) -> None:
    escaped = "".join(f"\\{char}" if char in "_*[]()~`>#+-=|{}.!\\" else char for char in text)
    assert read("MarkdownV2", escaped)[0] == text.strip()


@given(TEXTS, TEXTS)
def test_entities_cover_what_was_marked(before: str, marked: str) -> None:
    """Offsets count UTF-16 units, whatever stands before."""
    source = f"x{html.escape(before)}<b>{html.escape(marked)}</b>y"
    text, entities = read("HTML", source)
    (bold,) = (entity for entity in entities if entity[0] == "bold")
    assert cut_units(text, bold[1], bold[1] + bold[2]) == marked
    assert units(text) == units(f"x{before}{marked}y")


@given(TEXTS, st.integers(0, 30), st.integers(0, 30))
def test_what_is_kept_fits(text: str, offset: int, length: int) -> None:
    kept, entities = settle(text, [Entity("bold", offset, length)] if offset + length <= units(text) else [])
    assert all(0 <= entity.offset < entity.end <= units(kept) for entity in entities)


def test_given_entities_that_do_not_fit_are_a_complaint() -> None:
    complaints: list[tuple[str, str]] = []
    rows = [
        {"type": "bold", "offset": 0, "length": 9},
        {"type": "bold", "offset": 1, "length": 1},
        {"type": "italic", "offset": 0, "length": 2},
    ]
    _, entities = format_text("😀x", "", rows, lambda kind, said: complaints.append((kind, said)))
    assert [entity.kind for entity in entities] == ["italic"]
    assert [kind for kind, _ in complaints] == ["entities", "entities"]
