"""What stays on the screen and what still changes on it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_chat_scripted_host import LONG, MARKDOWN

from hermes_base.chat import (
    FileSent,
    Notice,
    Question,
    ReasoningDelta,
    Said,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes_cli.chat.terminal_render import Renderer
from hermes_cli.chat.terminal_view import TerminalView
from hermes_cli.chat.terminal_words import Display

CODES = re.compile(r"\x1b\[[0-9;]*m")


def make_view(width=60, **display):
    return TerminalView(Display(**display), Renderer(lambda: width), clock=lambda: 0.0)


def read(view):
    return CODES.sub("", view.pop_finished())


def stream(view, text, size=5):
    for start in range(0, len(text), size):
        view.show(TextDelta(text[start : start + size]))


@given(st.integers(1, 80), st.sampled_from([MARKDOWN, LONG[:600], "```\nopen fence\n\nwith more"]), st.booleans())
def test_the_same_text_is_drawn_the_same_however_it_arrives(size, text, markdown):
    whole, pieces = make_view(markdown=markdown), make_view(markdown=markdown)
    whole.show(TurnEnded(text, completed=True))
    stream(pieces, text, size)
    pieces.show(TurnEnded(text, completed=True))
    assert pieces.pop_finished() == whole.pop_finished()


def test_finished_blocks_come_out_once_and_the_rest_is_live():
    view = make_view()
    stream(view, "First.\n\nSecond.\n\nThi")
    assert read(view) == "First.\n"
    assert read(view) == ""
    assert CODES.sub("", view.draw_live(rows=9, doing="")).split() == ["Second.", "Thi"]
    view.show(TurnEnded("First.\n\nSecond.\n\nThi", completed=True))
    assert read(view) == "\nSecond.\n\nThi\n"
    assert view.draw_live(rows=9, doing="").strip() == ""


def test_the_live_part_never_has_more_rows_than_it_is_given():
    view = make_view()
    stream(view, "```\n" + "line\n" * 500)
    assert view.draw_live(rows=7, doing="working").count("\n") == 7
    assert view.draw_live(rows=0, doing="working") == ""


def test_code_is_kept_on_unbroken_lines_without_a_margin():
    code = "x = " + " + ".join(["number"] * 30)
    view = make_view(width=30)
    view.show(TurnEnded(f"Look:\n\n```python\n{code}\n```", completed=True))
    assert f"\n{code}\n" in read(view)


def test_no_line_of_text_is_wider_than_a_narrow_terminal():
    view = make_view(width=20)
    view.show(TurnEnded("# A heading\n\n" + "word " * 40 + "\n\n- " + "item " * 20, completed=True))
    assert max(map(len, read(view).splitlines())) <= 20


def test_html_and_link_definitions_stay_visible():
    view = make_view()
    view.show(TurnEnded("A List<T> and <b>tags</b>\n\n[x]: https://example.org", completed=True))
    shown = read(view)
    assert "List<T> and <b>tags</b>" in shown
    assert "[x]: https://example.org" in shown


@pytest.mark.parametrize("variable", ["1", "true"])
def test_no_color_is_respected(monkeypatch, variable):
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = make_view()
    coloured.show(TurnEnded(MARKDOWN, completed=True))
    assert re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7])", coloured.pop_finished())
    monkeypatch.setenv("NO_COLOR", variable)
    plain = make_view()
    plain.show(TurnEnded(MARKDOWN, completed=True))
    assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7])", plain.pop_finished())


def test_a_model_cannot_send_terminal_codes():
    view = make_view(reasoning=True)
    view.show(ReasoningDelta("\x1b]0;title\x07\n"))
    view.show(TextDelta("\x1b[2Jgone\n"))
    view.show(ToolStarted("t", "\x1bname", "\x1b[H"))
    view.show(ToolEnded("t", "\x1bname", False, 0.1, "\x1b[H"))
    view.show(Notice("\x1b[5m", "error"))
    view.ask(Question("approval", "\x1b[8mhidden", ("\x1b[1mok",)))
    view.show(TurnEnded("", completed=True))
    assert "\x1b" not in read(view)


@pytest.mark.parametrize(("progress", "lines"), [("off", 0), ("short", 1), ("full", 4)])
def test_tools_are_shown_as_the_setting_says(progress, lines):
    view = make_view(tool_progress=progress)
    view.show(ToolStarted("t", "terminal", "ls"))
    live = view.draw_live(rows=9, doing="")
    assert ("terminal" in live) is (progress != "off")
    view.show(ToolEnded("t", "terminal", True, 0.1, "one\ntwo"))
    assert len(read(view).splitlines()) == lines


def test_reasoning_is_shown_only_when_asked_for():
    for wanted in (True, False):
        view = make_view(reasoning=wanted)
        view.show(ReasoningDelta("Let me think."))
        view.show(TextDelta("Done."))
        view.show(TurnEnded("Done.", completed=True))
        assert ("think" in read(view)) is wanted


def test_an_error_comes_after_the_text_it_broke_off_and_other_notices_do_not_cut_it():
    view = make_view()
    view.show(TextDelta("Half a sent"))
    view.show(Notice("By the way."))
    view.show(TextDelta("ence."))
    view.show(Notice("It broke.", "error"))
    view.show(TurnEnded("", completed=False))
    assert read(view) == "By the way.\n\nHalf a sentence.\n\n✗ It broke.\n"


def test_text_without_markdown_is_kept_as_it_is():
    view = make_view(markdown=False)
    stream(view, "# not a title\n\n\n*stars*\n")
    view.show(TurnEnded("# not a title\n\n\n*stars*", completed=True))
    assert read(view) == "# not a title\n\n\n*stars*\n"


def test_words_of_others_and_files_are_shown():
    """B3: what somebody else wrote in the same conversation, without control characters."""
    view = make_view()
    view.show(Said("hello\x1b[31m there", "Anna"))
    view.show(Said("me too"))
    view.show(FileSent("/tmp/plan.txt", "plan.txt", "the plan"))
    shown = read(view)
    assert "Anna › hello[31m there" in shown
    assert "another terminal › me too" in shown
    assert "File plan.txt: the plan (/tmp/plan.txt)" in shown


@pytest.mark.parametrize("markdown", [True, False])
def test_what_is_typed_while_a_text_is_written_stands_below_that_text(markdown):
    view = make_view(markdown=markdown)
    stream(view, "Counting one two")
    view.echo("stop that")
    assert "Counting one two" in CODES.sub("", view.draw_live(rows=20, doing="")).split("› stop that")[0]
    stream(view, " three")
    view.show(TurnEnded("Counting one two three", completed=False, interrupted=True, reason="by you"))
    shown = read(view)
    assert shown.index("Counting one two three") < shown.index("› stop that"), shown
    view.echo("next")
    assert "› next" in read(view)
