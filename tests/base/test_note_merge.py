"""Two change a file of notes at the same time: nobody's note is lost."""

from hypothesis import given
from hypothesis import strategies as st

from hermes_base.files.note_merge import ENTRY_DELIMITER, merge_notes, split_notes

NOTES = st.lists(st.sampled_from(["- tea", "- coffee", "- a cat\n  black", "- Lima", "- two  words"]), unique=True)


def write(notes: list[str]) -> str:
    return "\n".join(notes) + "\n" if notes else ""


def test_both_additions_stay() -> None:
    assert merge_notes("- tea\n", "- tea\n- mine\n", "- tea\n- theirs\n") == "- tea\n- theirs\n- mine\n"


def test_what_was_removed_goes_and_what_was_replaced_stays_in_both_forms() -> None:
    assert merge_notes("- a\n- b\n", "- b\n", "- a\n- b\n- c\n") == "- b\n- c\n"
    assert merge_notes("- a\n", "- a one\n", "- a two\n") == "- a two\n- a one\n"
    assert merge_notes("- a\n", "", "- a\n") == ""


def test_notes_of_plugins_keep_what_stands_between_them() -> None:
    base = ENTRY_DELIMITER.join(["likes tea"])
    mine, theirs = (ENTRY_DELIMITER.join(["likes tea", new]) for new in ("has a cat\nblack", "lives in Lima"))
    assert (
        merge_notes(base, mine, theirs)
        == ENTRY_DELIMITER.join(["likes tea", "lives in Lima", "has a cat\nblack"]) + "\n"
    )


@given(NOTES, NOTES, NOTES)
def test_no_note_of_either_is_lost(base: list[str], mine: list[str], theirs: list[str]) -> None:
    """All that anybody has added is there, once; what nobody has added or kept is not; done twice it is the same."""
    merged = split_notes(merge_notes(write(base), write(mine), write(theirs)))
    assert len(merged) == len(set(merged))
    added = {note for note in [*mine, *theirs] if note not in base}
    assert added <= set(merged) <= {*mine, *theirs}
    assert {note for note in base if note in mine and note in theirs} <= set(merged)
    assert not {note for note in base if note not in mine or note not in theirs} & set(merged)
    again = merge_notes(write(base), write(mine), write(merged))
    assert split_notes(again) == merged


@given(NOTES, NOTES)
def test_who_changed_alone_is_taken(base: list[str], changed: list[str]) -> None:
    assert split_notes(merge_notes(write(base), write(base), write(changed))) == changed
    assert set(split_notes(merge_notes(write(base), write(changed), write(base)))) == set(changed)
