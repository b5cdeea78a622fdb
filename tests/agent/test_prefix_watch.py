"""The running hash over what is sent: it says a break exactly when bytes moved, with its cause and its place."""

from hypothesis import given
from hypothesis import strategies as st

from agent.turn.conversation import STORE_CHANGED, PrefixBreak, PrefixWatch

FRAGMENTS = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=6)


@given(st.lists(FRAGMENTS, min_size=1, max_size=6))
def test_a_break_is_told_exactly_when_the_last_request_is_no_prefix(requests: list[list[bytes]]) -> None:
    """A1, A2: whatever the sequence of conversations, and whoever says where it moved."""
    watch = PrefixWatch()
    before: list[bytes] = []
    for fragments in requests:
        same = next((n for n, (old, new) in enumerate(zip(before, fragments, strict=False)) if old != new), None)
        place = min(len(before), len(fragments)) if same is None else same
        if place < len(before):
            watch.move("because", place)
        broken = watch.check(b"tools", b"system", fragments)
        expected = PrefixBreak("because", place) if before and fragments[: len(before)] != before else None
        assert broken == expected
        before = list(fragments)


def test_what_was_moved_and_put_back_is_no_break() -> None:
    watch = PrefixWatch()
    watch.check(b"", b"s", [b"a", b"b"])
    watch.move("plugin_edit", 0)
    assert watch.check(b"", b"s", [b"a", b"b", b"c"]) is None


def test_the_cause_that_reaches_furthest_back_is_told() -> None:
    watch = PrefixWatch()
    watch.check(b"", b"s", [b"a", b"b", b"c"])
    watch.move("undo", 2)
    watch.move("plugin_edit", 1)
    assert watch.check(b"", b"s", [b"a", b"x"]) == PrefixBreak("plugin_edit", 1)


def test_changed_tools_or_system_are_a_break_before_the_first_message() -> None:
    """A7"""
    watch = PrefixWatch()
    watch.check(b"t", b"s", [b"a"])
    assert watch.check(b"t", b"other", [b"a", b"b"]) == PrefixBreak("prompt_repaired", -1)
    assert watch.check(b"t", b"other", [b"a", b"b"]) is None


def test_the_reason_is_never_unknown() -> None:
    """A2"""
    watch = PrefixWatch()
    watch.check(b"", b"s", [b"a", b"b"])
    assert watch.check(b"", b"s", [b"a"]) == PrefixBreak(STORE_CHANGED, 0)
