"""What typed answers mean, and what is said when a turn ends."""

import pytest

from hermes_base.chat import Question, ToolEnded, TurnEnded
from hermes_cli.chat import terminal_words as words


@pytest.mark.parametrize(
    ("choices", "typed", "meant"),
    [
        (("once", "always", "deny"), "y", "once"),
        (("once", "always", "deny"), "YES", "once"),
        (("once", "always", "deny"), "n", "deny"),
        (("once", "always", "deny"), "2", "always"),
        (("once", "always", "deny"), " al ", "always"),
        (("allow once", "allow always", "no"), "allow", None),  # two choices begin like this
        (("allow once", "allow always", "no"), "y", "allow once"),
        (("Yes", "No"), "yes", "Yes"),
        (("red", "green"), "y", None),
        (("once", "deny"), "4", None),
        (("once", "deny"), "", None),
        (("2", "1"), "1", "1"),  # a name counts before a number
        (("always", "deny"), "y", None),  # a short yes never grants for ever
    ],
)
def test_short_answers_to_an_approval_are_mapped_to_its_choices(choices, typed, meant):
    assert words.read_answer(Question("approval", "?", choices), typed) == meant


def test_a_clarification_takes_any_text_beside_its_choices():
    question = Question("clarification", "Which?", ("red", "green"))
    assert words.read_answer(question, "1") == "red"
    assert words.read_answer(question, "rather blue") == "rather blue"
    assert words.read_answer(Question("clarification", "Which?"), " ") is None


@pytest.mark.parametrize(
    ("streamed", "answer", "missing"),
    [("", "all of it", "all of it"), ("all\n", "all", ""), ("all", "all of it", " of it"), ("x", "y", None)],
)
def test_the_part_of_an_answer_that_was_not_streamed_is_found(streamed, answer, missing):
    assert words.find_missing(streamed, answer) == missing


def test_c6_an_interrupted_turn_says_so_and_that_it_was_the_user():
    interrupted = TurnEnded("", completed=False, interrupted=True)
    assert words.describe_ending(interrupted, stopped_here=True, explained=False) == "Interrupted by you."
    assert "interrupted" in words.describe_ending(interrupted, stopped_here=False, explained=False)


def test_h8_a_turn_that_failed_without_a_word_says_what_was_kept_and_what_to_do():
    told = words.describe_ending(TurnEnded("", completed=False), stopped_here=False, explained=False)
    assert "kept" in told
    assert "/retry" in told
    assert words.describe_ending(TurnEnded("", completed=False), stopped_here=False, explained=True) == ""


def test_control_characters_of_a_model_never_reach_the_terminal():
    assert words.clean_shown("a\x1b[2J\x07b\x9bc\x7f\td\r\n") == "a[2Jbc\td\n"


def test_bytes_that_are_no_utf8_are_replaced():
    assert words.clean_typed(b"caf\xe9 \xff".decode("utf-8", "surrogateescape")) == "caf\ufffd \ufffd"


def test_a_finished_tool_is_one_line():
    ended = ToolEnded("t", "terminal", False, 0.25, "exit code 2\nno such folder")
    assert words.describe_end(ended, "ls\n-l") == "✗ terminal ls -l · 0.2 s · exit code 2 no such folder"
    assert words.describe_seconds(200) == "3 min 20 s"
