"""Long texts become messages within a limit: nothing is lost, and no block, table or link is broken."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.text.clusters import find_borders
from gateway.core.text.lengths import SPAN, cut_hard, cut_words, measure
from gateway.core.text.render import cut_pieces, split_text

UNITS = ["chars", "utf16", "bytes"]
WORDS = st.text(st.sampled_from("abcxyz äß漢🙂👨‍👩‍👧é*_#|`"), min_size=1, max_size=12)
LINES = st.lists(WORDS, max_size=12).map(" ".join)
URLS = st.integers(1, 40).map(lambda n: "https://example.org/" + "p" * n)
LINKS = st.builds(lambda text, url: f"[{text}]({url})", st.sampled_from(["a", "two words", "over\na line"]), URLS)
CODE = st.builds(
    lambda run, info, lines, closed: "\n".join([run + info, *lines, *([run] if closed else [])]),
    st.sampled_from(["```", "~~~~", "  ```"]),
    st.sampled_from(["", "python", "c++ title=x"]),
    st.lists(st.text(st.sampled_from("abc ={}:漢🙂"), max_size=60), max_size=15),
    st.just(True),
)
TABLES = st.lists(st.integers(1, 30), min_size=1, max_size=12).map(
    lambda widths: "\n".join(["| head | two |", "|---|:--:|", *(f"| {'w' * width} | b |" for width in widths)])
)
SAFE_LINES = st.text(st.sampled_from("abc def, 漢🙂é"), max_size=200)
DOCUMENTS = st.lists(st.one_of(SAFE_LINES, LINKS, CODE, TABLES), max_size=8).map("\n\n".join)


def count_in(text: str, unit: str) -> int:
    """Told another way than the code tells it."""
    if unit == "utf16":
        return sum(2 if ord(char) > 0xFFFF else 1 for char in text)
    return len(text) if unit == "chars" else sum(len(char.encode()) for char in text)


def fences_are_balanced(text: str) -> bool:
    open_run = ""
    for line in text.split("\n"):
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark is None:
            continue
        if not open_run:
            open_run = mark[1]
        elif mark[1][0] == open_run[0] and len(mark[1]) >= len(open_run) and line.strip() == mark[1]:
            open_run = ""
    return not open_run


@given(st.one_of(DOCUMENTS, st.text(), st.lists(LINES).map("\n".join)), st.integers(100, 400), st.sampled_from(UNITS))
def test_nothing_is_lost_and_each_part_is_within_the_limit(text: str, limit: int, unit: str) -> None:
    pieces = cut_pieces(text, limit, unit)
    assert "".join(piece.body for piece in pieces) == text
    parts = split_text(text, limit, unit)
    assert all(count_in(part, unit) <= limit for part in parts)
    assert all(part.strip() for part in parts)


@given(DOCUMENTS, st.integers(100, 400), st.sampled_from(UNITS))
def test_code_blocks_are_closed_and_opened_in_each_part(text: str, limit: int, unit: str) -> None:
    assert all(fences_are_balanced(part) for part in split_text(text, limit, unit))


@given(st.lists(st.one_of(SAFE_LINES, LINKS), max_size=10).map(" ".join), st.integers(100, 200))
def test_a_link_that_fits_is_never_cut(text: str, limit: int) -> None:
    links = [span[0] for span in SPAN.finditer(text)]
    parts = split_text(text, limit)
    found = [span[0] for part in parts for span in SPAN.finditer(part)]
    assert found == links


@given(TABLES, st.integers(100, 200))
def test_each_part_of_a_table_has_its_head(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert all(part.startswith("| head | two |\n|---|:--:|") for part in parts)
    rows = [line for part in parts for line in part.split("\n")[2:]]
    assert rows == text.split("\n")[2:]


@given(st.text(st.sampled_from("ab 漢🙂\n")), st.integers(1, 9), st.sampled_from(UNITS))
def test_tiny_limits_lose_nothing(text: str, limit: int, unit: str) -> None:
    assert "".join(piece.body for piece in cut_pieces(text, limit, unit)) == text


@given(st.text())
def test_words_joined_are_the_line(text: str) -> None:
    assert "".join(cut_words(text)) == text


def test_a_code_block_that_fits_in_one_message_is_not_cut() -> None:
    text = "intro " * 10 + "\n\n```py\n" + "x = 1\n" * 10 + "```\n\nend"
    parts = split_text(text, 100)
    assert [part for part in parts if "x = 1" in part] == ["```py\n" + "x = 1\n" * 10 + "```\n\nend"]


def test_a_long_code_block_is_opened_again_with_its_language() -> None:
    text = "```python title=a\n" + "".join(f"line {n}\n" for n in range(40)) + "```"
    parts = split_text(text, 120)
    assert len(parts) > 2
    assert all(part.startswith("```python") and part.endswith("\n```") for part in parts)
    lines = [line for part in parts for line in part.split("\n")[1:-1]]
    assert lines == [f"line {n}" for n in range(40)]


def test_an_open_code_block_is_closed() -> None:
    assert split_text("```py\nx", 100) == ["```py\nx\n```"]


def test_a_long_line_of_code_is_cut_between_words_inside_of_fences() -> None:
    parts = split_text("```sh\n" + "word " * 60 + "\n```", 100)
    assert all(part.startswith("```sh\n") and part.endswith("\n```") for part in parts)
    assert "".join(" ".join(parts).split("word")).count("w") == 0


@pytest.mark.parametrize("unit", UNITS)
def test_a_family_emoji_stays_whole(unit: str) -> None:
    family = "👨‍👩‍👧"
    parts = split_text(family * 40, 100, unit)
    assert all(part.replace(family, "") == "" for part in parts)


#: What people see as one sign each; none of them goes together with what stands beside it.
SIGNS = (
    *("a", " ", "-", "漢", "é", "e\u0301\u0323", "🙂"),
    *("ที่", "กำ", "ลั", "ผู้"),  # Thai
    *("कि", "क्षि", "ज्ञा", "द्यो", "নি", "த்", "கொ"),  # Devanagari, Bengali, Tamil
    *("\u1112\u1161\u11ab", "\u1100\u116e\u11a8", "한", "가"),  # Hangul, in letters and whole
    *("🇩🇪", "🇯🇵", "1\ufe0f\u20e3", "❤\ufe0f", "👍🏽", "👨‍👩‍👧‍👦", "🧑🏿‍🚀", "🏳\ufe0f‍🌈"),
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
)


@given(st.lists(st.sampled_from(SIGNS), max_size=60))
def test_borders_are_between_what_people_see_as_one_sign(signs: list[str]) -> None:
    assert find_borders("".join(signs)) == [len("".join(signs[: at + 1])) for at in range(len(signs))]


@given(st.lists(st.sampled_from(SIGNS), min_size=40, max_size=200), st.integers(60, 120), st.sampled_from(UNITS))
def test_no_sign_is_cut(signs: list[str], limit: int, unit: str) -> None:
    """Thai, Hindi, flags, keycaps, families: whatever fits into a message stays whole."""
    text = "".join(signs)
    borders = {0, *find_borders(text)}
    at = 0
    for piece in cut_pieces(text, limit, unit):
        assert at in borders, f"cut inside of a sign: {text[max(0, at - 4) : at + 4]!a}"
        at += len(piece.body)
    assert at == len(text)


@given(st.text(), st.integers(1, 40), st.sampled_from(UNITS))
def test_whatever_the_text_is_cuts_lose_nothing_and_fit(text: str, room: int, unit: str) -> None:
    bits = cut_hard(text, room, unit) if text else []
    assert "".join(bits) == text
    assert all(measure(bit, unit) <= room or len(bit) == 1 for bit in bits)
    assert find_borders(text)[-1:] == ([len(text)] if text else [])


def test_a_sign_that_is_longer_than_a_message_is_cut_all_the_same() -> None:
    parts = split_text("a" + "\u0301" * 250 + "b", 100)
    assert [len(part) for part in parts] == [100, 100, 52]


def test_a_mark_behind_a_space_or_a_link_stays_there() -> None:
    assert cut_words("one \u0308two three") == ["one \u0308two ", "three"]
    assert cut_hard("https://a.example/\u0301" + "b" * 30, 20, "chars")[0] == "https://a.example/\u0301"


def test_surrogate_pairs_count_twice_in_utf16() -> None:
    assert measure("🙂a", "utf16") == 3
    assert [len(part) for part in split_text("🙂" * 100, 100, "utf16")] == [50, 50]


def test_no_limit_is_one_message() -> None:
    assert split_text("a" * 100_000, 0) == ["a" * 100_000]
    assert split_text(" \n", 0) == []


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 50_000, "[a](" * 12_000, "` a `` b " * 6_000, "# a" + " " * 50_000 + "x", "|-" * 25_000, "**" * 25_000),
        *(
            "a" + "\u0301" * 50_000,
            "क्" * 25_000,
            "👨\u200d" * 25_000,
            "\u0600" * 50_000,
            "🇩" * 50_001,
            "\u1100" * 50_000,
        ),
    ],
)
def test_hostile_texts_take_no_time(text: str) -> None:
    """F5: no pattern goes over a text again and again; one that did would run into the timeout here."""
    assert "".join(piece.body for piece in cut_pieces(text, 4096)) == text
