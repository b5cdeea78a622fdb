"""What is sent for one stored message: parts with stable keys, plain text, questions, files, marked repetitions."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.markup.dialects import DIALECTS, find_dialect
from gateway.core.text.lengths import measure
from gateway.core.text.render import LONG_MARK, SHORT_MARK, carries_file, make_plain, mark_repeated, render_parts
from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import FILE, QUESTION, Address, FileRef, Outgoing

SPEC = PlatformSpec("x", "X", "x:X", max_length=200)
PLACE = Address("x", "a", "c")

_words = st.integers(0, 999).map(lambda n: f"w{n}")
_inline = st.one_of(
    _words,
    st.builds("{0}{1}{0}".format, st.sampled_from(["**", "*", "~~", "`", "***"]), _words),
    st.builds("[{}](https://a.org/{})".format, _words, st.text("p", max_size=80)),
    st.sampled_from(["&", "<", "*", "_", "`", "[", "漢🙂", "a & b", "\\*"]),
)
_lines = st.lists(_inline, max_size=12).map(" ".join)
_blocks = st.one_of(
    _lines,
    st.builds(str.__add__, st.sampled_from(["- ", "  - ", "1. ", "> ", "# "]), _lines),
    st.builds("```py\n{}\n```".format, _lines.map(lambda line: line.replace("`", ""))),
    st.lists(st.tuples(_words, _words), min_size=1, max_size=9).map(
        lambda rows: "\n".join(["| a | b |", "|---|---|", *(f"| {x} | {y} |" for x, y in rows)])
    ),
)
DOCUMENTS = st.lists(_blocks, max_size=8).map("\n\n".join)


@given(st.text(max_size=2000), st.sampled_from(["chars", "utf16", "bytes"]), st.sampled_from([60, 200]))
def test_parts_with_their_mark_are_within_the_limit(text: str, unit: str, limit: int) -> None:
    """C7: a marked repetition still fits, and every attempt makes the same parts."""
    spec = replace(SPEC, max_length=limit, length_unit=unit)
    parts = render_parts(Outgoing(PLACE, text), spec, 7)
    assert parts == render_parts(Outgoing(PLACE, text), spec, 7)
    assert [part.key for part in parts] == [f"7:{index}" for index in range(len(parts))]
    assert all(measure(mark_repeated(part, spec).text, unit) <= limit for part in parts)


def test_the_mark_is_visible() -> None:
    (part,) = render_parts(Outgoing(PLACE, "hello"), SPEC, 1)
    assert mark_repeated(part, SPEC).text == f"{LONG_MARK}\nhello"
    assert mark_repeated(part, replace(SPEC, max_length=50)).text == f"{SHORT_MARK}\nhello"


def test_where_a_message_is_one_line_each_line_is_a_message() -> None:
    """What an app cannot show in one message is counted, sent and noted as several."""
    spec = replace(SPEC, one_line=True, markup="irc", length_unit="bytes")
    parts = render_parts(Outgoing(PLACE, "**one**\ntwo\n\n```\nthree\n\n  four\n```\n- five"), spec, 1)
    assert [part.text for part in parts] == ["\x02one\x02", "two", "three", "  four", "- five"]
    assert [part.plain for part in parts] == ["one", "two", "three", "  four", "- five"]
    assert mark_repeated(parts[1], spec).text == f"{LONG_MARK} two"


@given(DOCUMENTS)
def test_no_line_is_longer_than_a_message_of_one_line(text: str) -> None:
    spec = replace(SPEC, one_line=True, markup="irc", length_unit="bytes")
    for part in render_parts(Outgoing(PLACE, text), spec, 1):
        assert "\n" not in part.text + part.plain
        assert measure(mark_repeated(part, spec).text, "bytes") <= spec.max_length


def test_the_first_part_replies_and_the_last_one_asks() -> None:
    asked = Outgoing(
        PLACE, "why " * 100, kind=QUESTION, question="q", choices=("yes", "no"), reply_to="m", reason="it writes"
    )
    parts = render_parts(asked, SPEC, 1)
    assert [part.reply_to for part in parts] == ["m"] + [""] * (len(parts) - 1)
    assert [part.question for part in parts] == [""] * (len(parts) - 1) + ["q"]
    assert parts[-1].text.endswith("Why: it writes\n\nAnswer with one of: yes, no")
    assert parts[-1].choices == ("yes", "no")


def test_buttons_need_no_words() -> None:
    asked = Outgoing(PLACE, "Run it?", kind=QUESTION, question="q", choices=("yes", "no"))
    assert render_parts(asked, replace(SPEC, has_buttons=True), 1)[0].text == "Run it?"


def test_an_empty_answer_is_no_message() -> None:
    assert render_parts(Outgoing(PLACE, " \n"), SPEC, 1) == []


FILE_OUT = Outgoing(PLACE, "here", kind=FILE, file=FileRef("/x/plan.pdf", "plan.pdf", size=100))


def test_a_file_goes_with_its_caption_or_after_it() -> None:
    spec = replace(SPEC, takes_files=True)
    assert [part.text for part in render_parts(FILE_OUT, spec, 1)] == ["here"]
    long = render_parts(replace(FILE_OUT, text="word " * 60), spec, 1)
    assert [part.text == "" for part in long] == [False, False, True]
    assert [part.text for part in render_parts(replace(FILE_OUT, text=""), spec, 1)] == [""]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (SPEC, "no files can be sent on X"),
        (replace(SPEC, takes_files=True, max_file_bytes=99), "it is too large for X"),
    ],
)
def test_a_file_that_cannot_be_sent_is_told(spec: PlatformSpec, why: str) -> None:
    assert not carries_file(FILE_OUT, spec)
    assert render_parts(FILE_OUT, spec, 1)[0].text == f"here\n\nThe file plan.pdf stays where it is: {why}."


def test_a_part_has_the_markup_of_its_app_and_plain_text_beside_it() -> None:
    (part,) = render_parts(Outgoing(PLACE, "# T\n**b** < [p](https://a.org)"), replace(SPEC, markup="telegram_html"), 1)
    assert (part.text, part.markup) == ('<b>T</b>\n<b>b</b> &lt; <a href="https://a.org">p</a>', "telegram_html")
    second = make_plain(part)
    assert (second.text, second.markup) == ("T\nb < p (https://a.org)", "plain")
    marked = make_plain(mark_repeated(part, SPEC))
    assert marked.text == f"{LONG_MARK}\n{second.text}"


def test_a_message_that_shows_nothing_is_shown_as_it_is_written() -> None:
    (part,) = render_parts(Outgoing(PLACE, "> "), replace(SPEC, markup="telegram_html"), 1)
    assert part.text.strip() == "&gt;"


@given(
    DOCUMENTS,
    st.sampled_from(["chars", "utf16", "bytes"]),
    st.sampled_from([60, 200, 1000]),
    st.sampled_from(sorted(DIALECTS)),
)
def test_whatever_the_markup_adds_each_part_is_within_the_limit(text: str, unit: str, limit: int, markup: str) -> None:
    """C7: in the app's markup, as plain text, and with the mark of a repetition; and no word of the text is lost."""
    spec = replace(SPEC, max_length=limit, length_unit=unit, markup=markup)
    parts = render_parts(Outgoing(PLACE, text), spec, 1)
    shown = find_dialect(markup).shown
    for part in (*parts, *(mark_repeated(part, spec) for part in parts)):
        assert measure(shown(part.text), unit) <= limit
        assert measure(part.plain, unit) <= limit
    said, place = "".join(part.plain for part in parts), 0
    for word in re.findall("w[0-9]+", text):  # one that was cut is whole again here
        place = said.index(word, place) + len(word)


def test_no_part_has_more_marks_than_its_app_takes() -> None:
    """Telegram drops all beyond a hundred in silence."""
    spec = replace(SPEC, max_length=4096, markup="telegram_html")
    text = "\n".join(f"- **name {n}** is `code {n}`" for n in range(120))
    parts = render_parts(Outgoing(PLACE, text), spec, 1)
    assert len(parts) > 2
    assert all(part.text.count("</") <= 100 for part in parts)
    assert "\n".join(part.plain for part in parts).split("\n") == [f"- name {n} is code {n}" for n in range(120)]


def test_an_answer_of_too_many_messages_is_one_and_a_file() -> None:
    spec = replace(SPEC, most_parts=2, takes_files=True)
    long = Outgoing(PLACE, "word " * 200)
    first, whole = render_parts(long, spec, 1)
    assert first.text.startswith("word word")
    assert (first.document, whole.document) == ("", long.text)
    assert len(render_parts(long, replace(spec, takes_files=False), 1)) > 2
    assert len(render_parts(long, replace(spec, max_file_bytes=9), 1)) > 2
    assert len(render_parts(Outgoing(PLACE, "word " * 60), spec, 1)) == 2
