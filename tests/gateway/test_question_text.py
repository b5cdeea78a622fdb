"""A question as a chat reads it: to the letter, within what a message takes, with its buttons at the end (G4)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.text.question_text import compose_question, fence
from gateway.core.text.render import render_parts
from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import QUESTION, Address, Outgoing

SPEC = PlatformSpec("x", "X", "x:X", has_buttons=True)
COMMAND = "cd /work\nrm *_old_* `cat list` && echo '**done**' " + "x" * 200
ASKED = Outgoing(
    Address("x", "a", "c"),
    COMMAND,
    kind=QUESTION,
    level="approval",
    question="q",
    choices=("approve", "deny", "always"),
    reason="it deletes files",
)


def test_an_approval_is_shown_to_the_letter() -> None:
    """G4: no markup touches a command."""
    (part,) = render_parts(ASKED, SPEC, 1)
    assert f"```sh\n{COMMAND}\n```" in part.text
    assert "Why: it deletes files" in part.text
    assert part.choices == ("Yes, once", "No", "Always")
    (plain,) = render_parts(ASKED, replace(SPEC, has_buttons=False, markup="plain"), 1)
    assert COMMAND in plain.text
    assert "yes, no, always" in plain.text


def test_a_long_approval_is_split_with_its_buttons_below_its_end() -> None:
    """G4: what does not fit one message is shown in several."""
    parts = render_parts(ASKED, replace(SPEC, max_length=120), 1)
    assert len(parts) > 1
    assert all(len(part.text) <= 120 for part in parts)
    assert [bool(part.choices) for part in parts] == [False] * (len(parts) - 1) + [True]


def test_a_change_is_shown_as_a_diff() -> None:
    """G4"""
    changed = "change /etc/x\n@@ -1 +1 @@\n-a\n+b"
    assert f"```diff\n{changed}\n```" in compose_question(replace(ASKED, text=changed), has_buttons=True)


def test_a_confirmation_is_shown_to_the_letter() -> None:
    """G4: a link that says one thing and leads elsewhere is seen as it is written."""
    said = "Change memory: added to MEMORY.md: pay at [the bank](https://evil.example) ||now||"
    for choices in (("approve", "deny"), ("undo", "keep")):
        (part,) = render_parts(replace(ASKED, level="confirmation", text=said, choices=choices), SPEC, 1)
        assert f"```\n{said}\n```" in part.text


def test_what_a_model_wants_to_know_is_text() -> None:
    asked = replace(ASKED, level="clarification", text="Which *one*?", choices=("a", "b"), reason="")
    assert compose_question(asked, has_buttons=True) == "Which *one*?"
    assert compose_question(asked, has_buttons=False) == "Which *one*?\n\nAnswer with one of: a, b"


@given(st.text(alphabet="`~ab\n", max_size=40))
def test_nothing_in_the_code_ends_its_block(code: str) -> None:
    """G4"""
    opening, *_, closing = fence(code, "sh").split("\n")
    assert closing == opening.removesuffix("sh")
    assert closing not in code
