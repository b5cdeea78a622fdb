"""The answers to an approval: how they are said, offered and read (G4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.turn import consent
from hermes_base.turn.consent import (
    ALWAYS,
    APPROVE,
    CONVERSATION,
    DENY,
    KEPT,
    ONCE,
    describe_ways,
    find_language,
    is_consent,
    is_kept,
    label_choices,
    read_consent,
    split_answer,
)

ALL = (*ONCE, *KEPT)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("yes", APPROVE),
        ("OK.", APPROVE),
        ("Yes, once", APPROVE),
        ("1", APPROVE),
        ("approve", APPROVE),
        ("no", DENY),
        ("Deny!", DENY),
        ("2", DENY),
        ("3", CONVERSATION),
        ("yes, for this conversation", CONVERSATION),
        ("Yes, in this conversation", CONVERSATION),
        ("always", ALWAYS),
        ("Yes, always.", ALWAYS),
        ("4", ALWAYS),
        ("no: use the test database", "deny: use the test database"),
        ("No, use\nthe other", "deny: use\nthe other"),
        ("deny - not here", "deny: not here"),
        ("yes, but only the first", ""),  # a yes is a yes to exactly what was asked
        ("always, and the other one too", ""),
        ("alway", ""),
        ("no-one knows", ""),
        ("no idea", ""),
        ("5", ""),
        ("", ""),
    ],
)
def test_what_people_say_is_read(typed: str, answer: str) -> None:
    """G4: yes, always and no in words, numbers and labels; whatever else is no yes."""
    assert read_consent(ALL, typed) == answer


@pytest.mark.parametrize("typed", ["always", "3", "4", "yes, in this conversation", "conversation"])
def test_what_was_not_offered_is_no_answer(typed: str) -> None:
    """G4: a rule is made only where it was offered."""
    assert read_consent(ONCE, typed) == ""


def test_a_number_means_the_same_whether_rules_are_offered_or_not() -> None:
    """G4: who is used to a 2 for no must not allow something for ever."""
    assert [read_consent(ONCE, number) for number in "12"] == [read_consent(ALL, number) for number in "12"]


@given(st.text(max_size=60), st.sampled_from([ONCE, ALL]))
def test_an_answer_is_read_as_itself(typed: str, choices: tuple[str, ...]) -> None:
    """G4: it is read where it comes in and again where it is taken; both understand the same."""
    answer = read_consent(choices, typed)
    assert answer == "" or read_consent(choices, answer) == answer
    assert split_answer(answer)[0] in (*choices, "")


@given(st.text(max_size=60))
def test_only_known_words_agree(typed: str) -> None:
    """G4: no text but those of the table is a yes."""
    if split_answer(read_consent(ALL, typed))[0] not in ("", DENY):
        said = consent._normalise(typed)
        known = {
            word for choice in consent.TABLE.values() for word in (*choice.words, consent._normalise(choice.label))
        }
        assert said in known or said in ("1", "3", "4")


def test_a_label_is_short_and_read_back() -> None:
    """G4: what stands on a button is its answer; with the question's id in front it fits a button's 64 bytes."""
    labels = label_choices("approval", ALL)
    assert [read_consent(ALL, label) for label in labels] == list(ALL)
    assert all(len(label.encode()) <= 30 for label in labels)


def test_what_a_model_asks_is_not_an_approval() -> None:
    """G4: a clarification with the same choices keeps its own words."""
    assert not is_consent("clarification", ONCE)
    assert label_choices("clarification", ONCE) == ONCE
    assert label_choices("approval", ("run it", "leave it")) == ("run it", "leave it")
    assert describe_ways("confirmation", ("a", "b")) == "Answer with one of: a, b"
    assert "no: WORDS" in describe_ways("approval", ONCE)


def test_which_answers_are_kept() -> None:
    """G4"""
    assert [is_kept("approval", ALL, answer) for answer in ALL] == [False, False, True, True]
    assert not is_kept("approval", ALL, "deny: always")
    assert not is_kept("clarification", ALL, ALWAYS)
    assert split_answer("deny: a: b") == (DENY, "a: b")


def test_a_diff_is_told_from_a_command() -> None:
    assert find_language("change /x\n@@ -1 +1 @@\n-a\n+b") == "diff"
    assert find_language("cd /x\nmail a@@b") == "sh"
