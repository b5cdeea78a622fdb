"""Cutting a growing markdown text into blocks: nothing is lost, moved or cut through, however it arrives."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hermes_cli.chat.terminal_markdown import BlockSplitter, split_blocks

PLAIN = ["", "", "text", "more text  ", "# title", "- item", "  inside", "1. one", "2) two", "    indented", "\tfar in"]
FENCES = ["```", "```py", "~~~", "````", "  ```", "> ```", "- ```"]
OTHERS = ["> quote", "---", "===", "a | b", "--|--", "| 1 | 2 |", "<div>", "[x]: /url", "[x]:", "* * *"]
ODD = ["\u2028odd\u0085ends\x0c", "x\ry"]  # line ends elsewhere, not in markdown
LINES = st.sampled_from([*PLAIN, *FENCES, *OTHERS, *ODD])
TEXTS = st.lists(LINES, max_size=30).map("\n".join) | st.text(max_size=200)


def cut_up(text, cuts):
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(edges)]


def feed_all(pieces):
    splitter = BlockSplitter()
    finished = [block for piece in pieces for block in splitter.feed(piece)]
    return finished + splitter.finish()


@given(TEXTS, st.lists(st.integers(0, 10_000), max_size=30))
def test_joined_blocks_are_the_text_for_any_chunking(text, cuts):
    assert "".join(feed_all(cut_up(text, cuts))) == text


@given(TEXTS, st.lists(st.integers(0, 10_000), max_size=30))
def test_the_blocks_do_not_depend_on_the_chunking(text, cuts):
    assert feed_all(cut_up(text, cuts)) == split_blocks(text)


@given(TEXTS.map(lambda text: text.replace("\r", "")), st.lists(st.integers(0, 10_000), max_size=30))
def test_no_cut_goes_through_a_fence(text, cuts):
    edges, position = set(), 0
    for block in feed_all(cut_up(text, cuts))[:-1]:
        position += block.count("\n")
        edges.add(position)
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("reference")
    for token in parser.parse(text):
        if token.type == "fence":
            assert not edges & set(range(token.map[0] + 1, token.map[1]))


def test_a_block_is_finished_when_the_next_one_begins():
    splitter = BlockSplitter()
    assert splitter.feed("One.\n\nTw") == []
    assert splitter.feed("o.\n") == ["One.\n\n"]
    assert splitter.feed("\n```py\na = 1\n\n\nb = 2\n") == ["Two.\n\n"]
    assert splitter.tail == "```py\na = 1\n\n\nb = 2\n"
    assert splitter.feed("```\nend\n") == ["```py\na = 1\n\n\nb = 2\n```\n"]


@pytest.mark.parametrize("text", ["- a\n\n  more of a\n\n- b\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "> a\n> b\n"])
def test_lists_tables_and_quotes_stay_whole(text):
    assert split_blocks(text) == [text]
