"""Patching as pure functions: what is not named does not change, drift is tolerated, doubt is an error."""

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.errors import ToolFailure
from tools.files.diffs import read_diff
from tools.files.patching import apply_hunks, join_lines, replace_text, split_lines

LINES = st.lists(st.text("ab \t{", max_size=4), max_size=12)
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def files(draw: st.DrawFn) -> str:
    """Few letters, so that lines repeat; line ends mixed; the last line with or without one."""
    text = "".join(line + draw(ENDS) for line in draw(LINES))
    return text + draw(st.sampled_from(["", "end"]))


@given(st.text("a\r\n\x0b\x85\u2028"))
def test_lines_joined_are_the_text(text: str) -> None:
    assert join_lines(split_lines(text)) == text


@given(files(), st.text("ab\r\nc", max_size=6), files())
def test_replacing_a_unique_text_changes_nothing_else(before: str, new: str, after: str) -> None:
    """What is not named does not change."""
    if "\r\n" in new:
        new = new.replace("\r\n", "\n")
    changed = replace_text(f"{before}<OLD>{after}", "<OLD>", new.replace("\r", ""))
    assert changed.startswith(before)
    assert changed.endswith(after)
    middle = changed[len(before) : len(changed) - len(after)]
    assert middle.replace("\r\n", "\n") == new.replace("\r", "")


@given(files(), files(), st.integers(0, 3))
def test_replacing_lines_keeps_the_ends_of_all_lines_that_stay(before: str, after: str, blanks: int) -> None:
    """The old text has plain ends and lost its trailing blanks; the file keeps both."""
    head = before if not before or before.endswith("\n") else before + "\r\n"
    block = f"<one>{' ' * blanks}\r\n<two>\n<three>\t\r\n"
    changed = replace_text(head + block + after, "<one>\n<two>\n<three>\n", "<one>\n<new>\n<three>\n")
    assert changed == head + block.replace("<two>", "<new>") + after


@given(LINES, LINES, ENDS, st.booleans())
def test_a_diff_made_by_difflib_gives_the_new_text(old: list[str], new: list[str], end: str, ended: bool) -> None:
    one = "".join(line + "\n" for line in old)
    other = "".join(line + "\n" for line in new) + ("" if ended else "x")
    diff = "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(one.splitlines(True), other.splitlines(True), "a/f", "b/f")
    )
    if not diff:
        return
    (file,) = read_diff(diff)
    result = apply_hunks(one.replace("\n", end), file.hunks)
    assert result.replace("\r\n", "\n") == other
    if end == "\r\n" and one:
        assert "\n" not in result.replace("\r\n", "")


REPLACEMENTS = {
    "in a line": ("a b c\n", "b", "X", "a X c\n"),
    "delete a line": ("a\nb\nc\n", "b\n", "", "a\nc\n"),
    "line ends of the file": ("a\r\nb\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
    "ends in the old text only": ("a\nb\n", "a\r\nb", "a\r\nc", "a\nc\n"),
    "no end at the end": ("a\nb", "b", "c\nd", "a\nc\nd"),
    "trailing blanks": ("def f():  \n    return 1\n", "def f():\n    return 1", "def f():\n    return 2", None),
    "more indentation": (
        "class A:\n    def f():\n        return 1\n",
        "def f():\n    return 1\n",
        "def f():\n    # why\n\n    return 2\n",
        "class A:\n    def f():\n        # why\n\n        return 2\n",
    ),
    "less indentation": ("if a:\n  b()\n", "    if a:\n      b()", "    if a:\n      c()", "if a:\n  c()\n"),
    "delete drifted lines": ("a\nb  \nc", "b\nc\n", "", "a\n"),
}


@pytest.mark.parametrize(("text", "old", "new", "expected"), REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_replacements(text: str, old: str, new: str, expected: str | None) -> None:
    expected = "def f():  \n    return 2\n" if expected is None else expected
    assert replace_text(text, old, new) == expected


def test_all_places_are_replaced_when_asked_for() -> None:
    assert replace_text("a\r\na\nab", "a", "x", every=True) == "x\r\nx\nxb"
    assert replace_text("  a\n  b\n-\n a\n b\n", "\ta\n\tb".replace("\t", "   "), "   c", every=True) == "  c\n-\n c\n"


REFUSED = {
    "several places": ("a\nb\na\n", "a", "x", "fits 2 places .lines 1, 3."),
    "several drifted places": ("a \nb\n-\na \nb\n", "a\nb\n", "x", "fits 2 places .lines 1, 4."),
    "missing": ("one\ntwo\nthree\n", "two\nfour", "x", "nearest place is:\n1| one\n2| two\n3| three"),
    "similar": ("the first line\nother\n", "the furst line", "x", "1| the first line"),
    "empty": ("a", "", "x", "empty"),
    "the same": ("a", "a", "a", "nothing to change"),
    "uneven indentation": ("  a\n b\n", "a\nb\n", "x", "not in the file"),
}


@pytest.mark.parametrize(("text", "old", "new", "message"), REFUSED.values(), ids=REFUSED)
def test_doubt_is_an_error_that_shows_where_to_look(text: str, old: str, new: str, message: str) -> None:
    with pytest.raises(ToolFailure, match=message.replace("|", r"\|")):
        replace_text(text, old, new)


def test_a_hunk_finds_its_place_when_line_numbers_are_off() -> None:
    text = "".join(f"line {n}\n" for n in range(50))
    hunks = read_diff("--- f\n+++ f\n@@ -3,2 +3,2 @@\n line 30\n-line 31\n+new\n@@ -9,1 +9,1 @@\n-line 40\n+newer\n")[
        0
    ].hunks
    assert apply_hunks(text, hunks) == text.replace("line 31\n", "new\n").replace("line 40\n", "newer\n")


def test_a_line_number_decides_between_places_that_fit_and_without_it_they_are_an_error() -> None:
    text = "a\nb\na\nb\n"
    assert apply_hunks(text, read_diff("--- f\n+++ f\n@@ -3 +3 @@\n-a\n+x\n")[0].hunks) == "a\nb\nx\nb\n"
    with pytest.raises(ToolFailure, match="fits 2 places"):
        apply_hunks(text, read_diff("--- f\n+++ f\n@@ @@\n-a\n+x\n")[0].hunks)
    with pytest.raises(ToolFailure, match="does not fit"):
        apply_hunks(text, read_diff("--- f\n+++ f\n@@ -1 +1 @@\n-z\n+x\n")[0].hunks)


def test_the_end_of_the_last_line_follows_the_diff() -> None:
    mark = "\\ No newline at end of file\n"
    cases = [
        ("a\nb", f"-b\n{mark}+c\n", "a\nc\n"),
        ("a\nb\n", f"-b\n+c\n{mark}", "a\nc"),
        ("a\nb", f"-b\n{mark}+c\n{mark}", "a\nc"),
        ("a\nb", "-b\n+c\n", "a\nc"),
        ("a\nb", "-b\n", "a\n"),
    ]
    for text, change, expected in cases:
        assert apply_hunks(text, read_diff(f"--- f\n+++ f\n@@ -2 +2 @@\n{change}")[0].hunks) == expected


def test_git_headers_say_what_is_created_deleted_and_renamed() -> None:
    files = read_diff(
        "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
        "diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hello\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n"
        "--- plain\t2020-01-01\n+++ plain\t2020-01-02\n@@ -1 +1 @@\n--- a\n+++ b\n"
    )
    assert [(file.old, file.new) for file in files] == [("x", "y"), (None, "new"), ("gone", None), ("plain", "plain")]
    assert [step.body for step in files[3].hunks[0].steps] == ["-- a", "++ b"]


def test_names_in_quotes_are_read_byte_by_byte() -> None:
    quoted = '"{}/\\303\\251 \\"x\\".txt"'
    a, b = quoted.format("a"), quoted.format("b")
    (file,) = read_diff(f"diff --git {a} {b}\ndeleted file mode 100644\n--- {a}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")
    assert (file.old, file.new) == ('é "x".txt', None)


@pytest.mark.parametrize("diff", ["", "words", "@@ -1 +1 @@\n-a\n+b\n", "--- a\n+++ b\n@@ -1 +1 @@\n a\n"])
def test_what_is_no_diff_is_said(diff: str) -> None:
    with pytest.raises(ToolFailure):
        read_diff(diff)
