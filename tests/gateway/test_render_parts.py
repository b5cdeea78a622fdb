"""What is sent for one stored message: parts with stable keys, plain text, questions, files, marked repetitions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.blocks import strip_markdown
from gateway.core.lengths import measure
from gateway.core.render import LONG_MARK, SHORT_MARK, carries_file, make_plain, mark_repeated, render_parts
from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import FILE, QUESTION, Address, FileRef, Outgoing

SPEC = PlatformSpec("x", "X", "x:X", max_length=200)
PLACE = Address("x", "a", "c")


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


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("# Title\n\nsome **bold** and *soft* text", "Title\n\nsome bold and soft text"),
        ("see [the page](https://a.org/x_(y))", "see the page (https://a.org/x_(y))"),
        ("![chart](https://a.org/c.png)", "chart (https://a.org/c.png)"),
        ("[https://a.org](https://a.org)", "https://a.org"),
        ("use `x ** y` and 2 ** 3 ** 4", "use x ** y and 2 ** 3 ** 4"),
        ("call __init__ and snake_case_name", "call __init__ and snake_case_name"),
        ("```py\nx = '**'\n```\nend", "x = '**'\nend"),
        ("* one\n* two", "- one\n- two"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n| 1 | 2 |"),
        ("~~gone~~", "gone"),
    ],
)
def test_markdown_as_plain_text(markdown: str, plain: str) -> None:
    assert strip_markdown(markdown) == plain
    part = render_parts(Outgoing(PLACE, markdown), replace(SPEC, markup="plain"), 1)[0]
    assert part.text == plain
    assert make_plain(replace(part, text=markdown)).text == plain


@given(st.text(st.sampled_from("ab*`[]()#|-_~\n ")))
def test_plain_text_is_never_longer_and_keeps_every_letter(text: str) -> None:
    plain = strip_markdown(text)
    assert len(plain) <= len(text)
    fence = text.count("```") + text.count("~~~")
    if not fence:
        assert [char for char in plain if char.isalpha()] == [char for char in text if char.isalpha()]
