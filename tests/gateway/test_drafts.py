"""Drafts: one message, edited at most so often, never longer than a message, never taken for the answer."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.drafts import (
    KEPT_EDITS,
    UNFINISHED,
    Draft,
    EditDraft,
    SendDraft,
    ShowTyping,
    Wait,
    add_line,
    describe_progress,
    next_step,
    show_draft,
)
from gateway.core.markup.dialects import DIALECTS, WrittenText
from gateway.core.text.lengths import measure
from gateway.platforms.face import PlatformSpec
from hermes_base.chat import ToolEnded, ToolStarted

SPEC = PlatformSpec("x", "X", "x:X", max_length=200, can_edit=True, edit_seconds=1.0)
TYPING = replace(SPEC, can_edit=False, has_typing=True)


@given(st.lists(st.tuples(st.floats(0, 1), st.text(max_size=80)), max_size=30))
def test_a_growing_text_is_one_message_edited_at_most_once_a_second(pieces: list[tuple[float, str]]) -> None:
    """C8: a stream makes one send, and edits no more often than the platform allows."""
    draft, now, changed, sends = Draft(turn="t"), 0.0, [], 0
    for pause, piece in pieces:
        now += pause
        draft = replace(draft, text=draft.text + piece)
        step = next_step(draft, SPEC, now)
        if isinstance(step, SendDraft | EditDraft):
            sends += isinstance(step, SendDraft)
            changed.append(now)
            assert measure(step.written.shown, SPEC.length_unit) <= SPEC.max_length
            assert step.written.text.endswith(UNFINISHED)
            draft = replace(draft, message="m", shown=step.written.text, shown_at=now)
    assert sends <= 1
    assert all(later - earlier >= SPEC.edit_seconds - 1e-6 for earlier, later in itertools.pairwise(changed))


@given(
    st.one_of(st.text(max_size=1000), st.text(st.sampled_from("ab *_`&<>|-\n"), max_size=1000)),
    st.lists(st.text(max_size=100), max_size=9),
    st.sampled_from(["chars", "utf16", "bytes"]),
    st.sampled_from(sorted(DIALECTS)),
)
def test_a_draft_is_never_longer_than_one_message(text: str, lines: list[str], unit: str, markup: str) -> None:
    """It is measured as the app counts it, and so is the plain text that is tried next."""
    spec = replace(SPEC, length_unit=unit, markup=markup)
    draft = Draft(text=text)
    for line in lines:
        draft = add_line(draft, line)
    written = show_draft(draft, spec)
    assert measure(written.shown, unit) <= spec.max_length
    assert measure(written.plain, unit) <= spec.max_length


def test_a_draft_is_shown_in_the_markup_of_its_app() -> None:
    spec = replace(SPEC, markup="telegram_html")
    draft = Draft(text="**so** far: `x < 1", lines=("⚙ terminal: ls *",))
    assert show_draft(draft, spec).text == "<b>so</b> far: `x &lt; 1\n\n⚙ terminal: ls * …"
    assert show_draft(Draft(text="```py\nx"), spec).text == '<pre><code class="language-py">x</code></pre> …'


def test_a_draft_whose_markup_was_refused_is_plain() -> None:
    spec = replace(SPEC, markup="telegram_html")
    assert show_draft(Draft(text="**so** <", plain=True), spec).text == "so < …"


def test_in_a_slow_chat_all_steps_keep_their_distance() -> None:
    """C8: typing and edits together leave most calls to what must arrive."""
    spec = replace(SPEC, has_typing=True)
    draft = Draft(text="hello you", message="m", shown="hello …", shown_at=0.0, typed_at=5.0)
    assert next_step(draft, spec, 10.0, pause=6.0) == Wait(1.0)
    assert isinstance(next_step(draft, spec, 11.0, pause=6.0), EditDraft)


def test_nothing_is_done_while_nothing_changes() -> None:
    draft = Draft(text="hello", message="m", shown=f"hello {UNFINISHED}", shown_at=0.0)
    assert next_step(draft, SPEC, 100.0) == Wait(math.inf)
    assert next_step(Draft(), SPEC, 0.0) == Wait(math.inf)


def test_a_change_waits_for_the_edit_interval() -> None:
    draft = Draft(text="hello you", message="m", shown="hello …", shown_at=10.0)
    assert next_step(draft, SPEC, 10.25) == Wait(0.75)
    assert next_step(draft, SPEC, 11.0) == EditDraft("m", WrittenText(*["hello you …"] * 3))


def test_where_nothing_can_be_edited_only_typing_is_shown() -> None:
    draft = Draft(text="hello")
    assert next_step(draft, TYPING, 0.0) == ShowTyping()
    assert next_step(replace(draft, typed_at=0.0), TYPING, 1.0) == Wait(3.0)
    assert next_step(draft, replace(TYPING, has_typing=False), 0.0) == Wait(math.inf)


def test_a_draft_that_was_given_up_is_left_alone() -> None:
    assert next_step(Draft(text="x", given_up=True), SPEC, 0.0) == Wait(math.inf)


@given(st.lists(st.floats(0, 20), min_size=40, max_size=60))
def test_where_edits_are_few_the_last_ones_are_kept_for_the_answer(pauses: list[float]) -> None:
    """C7: a draft that has used up its edits stands as it is; each edit waits longer than the one before."""
    spec = replace(SPEC, most_edits=10)
    draft, now, edited = Draft(turn="t"), 0.0, [0.0]
    for number, pause in enumerate(pauses):
        now += pause
        draft = replace(draft, text=f"{draft.text} {number}")
        step = next_step(draft, spec, now)
        if isinstance(step, SendDraft):
            draft = replace(draft, message="m", shown=step.written.text, shown_at=now)
            edited[-1] = now
        elif isinstance(step, EditDraft):
            draft = replace(draft, edits=draft.edits + 1, shown=step.written.text, shown_at=now)
            edited.append(now)
    assert draft.edits <= spec.most_edits - KEPT_EDITS
    pauses_made = [later - earlier for earlier, later in itertools.pairwise(edited)]
    assert all(made >= spec.edit_seconds * (number + 1) - 1e-6 for number, made in enumerate(pauses_made))
    spent = replace(draft, edits=spec.most_edits - KEPT_EDITS, message="m")
    assert next_step(spent, spec, now + 1000) == Wait(math.inf)
    assert next_step(spent, replace(spec, has_typing=True), now + 1000) == ShowTyping()


@pytest.mark.parametrize(
    ("event", "mode", "line"),
    [
        (ToolStarted("1", "terminal", "ls -l"), "off", ""),
        (ToolStarted("1", "terminal", "ls -l"), "short", "⚙ terminal"),
        (ToolStarted("1", "terminal", "ls\n -l"), "full", "⚙ terminal: ls -l"),
        (ToolEnded("1", "terminal", True, 1.26, ""), "off", ""),
        (ToolEnded("1", "terminal", True, 1.26, ""), "short", ""),
        (ToolEnded("1", "terminal", True, 1.26, ""), "full", "✓ terminal (1.3 s)"),
        (ToolEnded("1", "terminal", False, 0.5, "no such file"), "full", "✗ terminal (0.5 s): no such file"),
    ],
)
def test_words_of_progress(event: ToolStarted | ToolEnded, mode: str, line: str) -> None:
    assert describe_progress(event, mode) == line
