"""Whose word holds when a gateway's file and the store say different things of a setting for all (I4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.shared.setting_merge import SettingMerge, merge_settings

K, OLD, MINE, THEIRS = "k", "old", "mine", "theirs"


def say(value: str | None) -> dict[str, str]:
    return {} if value is None else {K: value}


@pytest.mark.parametrize(
    ("file", "alike", "stored", "wanted"),
    [
        (OLD, OLD, OLD, SettingMerge()),
        (None, None, None, SettingMerge()),
        (MINE, OLD, MINE, SettingMerge()),  # both were told the same
        (MINE, OLD, OLD, SettingMerge(put={K: MINE})),
        (MINE, None, None, SettingMerge(put={K: MINE})),
        (OLD, OLD, THEIRS, SettingMerge(take={K: THEIRS})),
        (None, None, THEIRS, SettingMerge(take={K: THEIRS})),
        (OLD, OLD, None, SettingMerge(leave={K})),
        (MINE, OLD, THEIRS, SettingMerge(take={K: THEIRS}, lost={K})),
        (MINE, OLD, None, SettingMerge(leave={K}, lost={K})),
    ],
)
def test_who_changed_a_value_is_followed(file: str, alike: str, stored: str, wanted: SettingMerge) -> None:
    assert merge_settings({**say(file), "x": "y"}, {**say(alike), "x": "y"}, {**say(stored), "x": "y"}) == wanted


def test_what_was_taken_out_of_a_file_goes_for_all() -> None:
    assert merge_settings({"x": "y"}, {K: OLD, "x": "y"}, {K: OLD, "x": "y"}) == SettingMerge(drop={K})
    assert merge_settings({"x": "y"}, {K: OLD, "x": "y"}, {K: THEIRS, "x": "y"}) == SettingMerge(take={K: THEIRS})


def test_of_two_changes_the_later_one_holds() -> None:
    assert merge_settings(say(MINE), say(OLD), say(THEIRS), {K}) == SettingMerge(put={K: MINE})


def test_a_file_that_is_lost_unsets_nothing_for_anybody() -> None:
    assert merge_settings({}, say(OLD), say(OLD)) == SettingMerge(take=say(OLD))


def test_who_joins_takes_over_what_the_others_have_and_only_the_first_gives() -> None:
    """What its file said otherwise is named, and so is what nobody else says."""
    file = {"a": MINE, "b": MINE, "same": "s"}
    assert merge_settings(file, None, None) == SettingMerge(put=file)
    joined = merge_settings(file, None, {"a": THEIRS, "c": THEIRS, "same": "s"})
    assert joined == SettingMerge(take={"a": THEIRS, "c": THEIRS}, leave={"b"}, lost={"a", "b"})


values = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2", "3"]))


@given(values, st.none() | values, st.none() | values, st.sets(st.sampled_from("abc")))
def test_afterwards_file_and_store_say_the_same(
    file: dict[str, str], alike: dict[str, str] | None, stored: dict[str, str] | None, newer: set[str]
) -> None:
    """Whatever they said before; and then nothing is left to do."""
    merged = merge_settings(file, alike, stored, newer)
    in_file = {key: value for key, value in {**file, **merged.take}.items() if key not in merged.leave}
    in_store = {key: value for key, value in {**(stored or {}), **merged.put}.items() if key not in merged.drop}
    assert in_file == in_store
    assert not (merged.put.keys() | merged.drop) & (merged.take.keys() | merged.leave)
    assert merge_settings(in_file, in_store, in_store) == SettingMerge()
