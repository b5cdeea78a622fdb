"""What somebody who approves is shown: nothing hides in it, and nothing pushes it out of sight (G4)."""

import pytest

from hermes_base.text.harmless import clean_name, is_hidden, show_blanks
from tools.policy.lexer import check_characters
from tools.policy.words import Unparsable


@pytest.mark.parametrize("sign", ["\u202e", "\u2800", "\u3164", "\u115f", "\uffa0", "\u00a0", "\u200b", "\U000e0101"])
def test_signs_that_look_like_nothing_are_named(sign: str) -> None:
    """G4"""
    with pytest.raises(Unparsable, match=f"hidden character U\\+{ord(sign):04X}"):
        check_characters(f"touch a{sign}")


def test_what_people_see_is_not_hidden() -> None:
    assert not any(map(is_hidden, "touch a\tb\nc é 漢 한 😀 ⠁"))


def test_long_runs_of_blanks_are_said_in_words() -> None:
    """G4: the end of a command stands where it is seen."""
    assert show_blanks("touch a" + " " * 3000 + "; touch b") == "touch a ⟨3000 blanks⟩ ; touch b"
    assert show_blanks("touch a" + "\n \t" * 200 + "\ntouch b") == "touch a\n⟨200 empty lines⟩\ntouch b"
    ordinary = "for x in a b; do\n        echo $x\n\n\ndone"
    assert show_blanks(ordinary) == ordinary


def test_a_name_stays_in_its_quotes_and_is_none_if_nobody_sees_it() -> None:
    assert clean_name('Ann" (owner)\u202e') == "Ann (owner)"
    assert clean_name(" \u2800\u3164 ") == ""
