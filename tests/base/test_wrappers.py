"""Titles and previews hold the words of a person, and nothing of what the house writes around them."""

import pytest

from hermes_base.text.wrappers import HEAD_BEGINS, HEAD_ENDS, bare_words
from hermes_base.turn.journal import Row
from hermes_state.records import summarize


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        (f"{HEAD_BEGINS}\nBe short.\n{HEAD_ENDS}\n\nName a colour", "Name a colour"),
        ("[Anna · member · telegram:42] Name a colour", "Name a colour"),
        ("Look at this\n[image cat.png: /home/x/cat.png]", "Look at this"),
        ("[file plan.txt: /home/x/plan.txt]", "plan.txt"),
        ("[x] is done [y]", "[x] is done [y]"),
    ],
)
def test_the_words_without_their_wrapping(text: str, bare: str) -> None:
    assert bare_words(text) == bare
    assert summarize([Row({"role": "user", "content": text})]).preview == bare
