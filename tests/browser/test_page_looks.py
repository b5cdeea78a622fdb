"""How the page looks to somebody who reads it: tables, attachments and edges, measured in the browser."""

import pytest
from browsing import Tab
from playwright.sync_api import Locator, expect

TABLE = (
    "| Language | Year | Created by | Typing | Where it is used most |\n"
    "|:---|---:|:---:|---|---|\n"
    "| Python | 1991 | Guido van Rossum | dynamic, strong | everywhere that people count, teach or automate things |\n"
    "| JavaScript | 1995 | Brendan Eich | dynamic, weak | in every browser and, by now, on many servers as well |\n"
    "| ThisNameIsLongerThanAnyScreenOfAPhoneIsWideAndHasNoPlaceToBreakItIn | 7 | a | b | c |\n"
)
#: Words of a table that stand on more than one line.
BROKEN_WORDS = """() => {
  const broken = [];
  const walk = document.createTreeWalker(document.querySelector("table"), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    for (const { 0: word, index } of walk.currentNode.textContent.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(walk.currentNode, index);
      range.setEnd(walk.currentNode, index + word.length);
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) broken.push(word);
    }
  }
  return broken;
}"""
#: How far the words of a column's cells stand from the left and the right edge of its widest cell.
EDGES = """(column) => {
  const cells = [...document.querySelectorAll(`tr > :nth-child(${column})`)];
  return cells.map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const words = range.getBoundingClientRect();
    const box = cell.getBoundingClientRect();
    const { paddingLeft, paddingRight } = getComputedStyle(cell);
    return [words.left - box.left - parseFloat(paddingLeft), box.right - parseFloat(paddingRight) - words.right];
  });
}"""
SIZES = [(1280, 800), (860, 700), (390, 780)]


def edges(place: Locator) -> tuple[float, float]:
    box = place.bounding_box()
    assert box is not None
    return box["x"], box["x"] + box["width"]


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_no_word_of_a_table_is_broken_and_a_wide_one_scrolls_in_its_own_box(tab: Tab, width: int, height: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": height})
    answer = tab.ask(f"[[say {TABLE}]]", "Guido")
    assert tab.page.evaluate(BROKEN_WORDS) == []
    frame = answer.locator(".table-frame")
    assert frame.evaluate("(box) => box.scrollWidth > box.clientWidth")
    assert edges(frame)[1] <= edges(tab.page.locator("#timeline"))[1] + 0.5
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not tab.page.locator(".scroll").evaluate("(box) => box.scrollWidth > box.clientWidth")


def test_the_columns_of_a_table_are_aligned_as_it_says(tab: Tab) -> None:
    tab.ask(f"[[say {TABLE}]]", "Guido")
    left, right, middle = (tab.page.evaluate(EDGES, column) for column in (1, 2, 3))
    assert all(abs(before) < 1.5 for before, _ in left), left
    assert all(abs(after) < 1.5 for _, after in right), right
    assert all(abs(before - after) < 1.5 for before, after in middle), middle


def test_a_numbered_list_begins_with_its_own_number(tab: Tab) -> None:
    answer = tab.ask("[[say 5. five\n6. six]]", "five")
    assert answer.locator("ol").get_attribute("start") == "5"


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_attachments_stand_on_the_side_of_their_text(tab: Tab, width: int, height: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": height})
    files = [{"name": f"notes-{n}.txt", "mimeType": "text/plain", "buffer": b"x" * 2000} for n in range(3)]
    tab.page.locator("input[type=file]").set_input_files(files)  # type: ignore[arg-type]
    expect(tab.page.locator(".attachment progress")).to_have_count(0)
    tab.ask("Read these, please, all three of them, and tell me what they say about the boat", "You said:")
    own = tab.own.last
    expect(own.locator(".file")).to_have_count(3)
    right = edges(own.locator(".bubble"))[1]
    lines: dict[int, float] = {}
    for file in own.locator(".file").all():
        box = file.bounding_box()
        assert box is not None
        lines[round(box["y"])] = max(lines.get(round(box["y"]), 0.0), box["x"] + box["width"])
    assert all(abs(end - right) < 1 for end in lines.values()), (lines, right)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_messages_and_the_place_to_write_have_the_same_edges(tab: Tab, width: int, height: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": height})
    wanted = edges(tab.page.locator(".composer")) if width > 800 else None
    lines = "\n\n".join(f"Line {number} of a long answer" for number in range(60))
    tab.ask(f"[[say {lines}]]", "Line 59")
    assert tab.page.locator(".scroll").evaluate("(box) => box.scrollHeight > box.clientHeight")
    column, composer = edges(tab.page.locator("#timeline")), edges(tab.page.locator(".composer"))
    assert column == pytest.approx(composer, abs=0.5)
    assert wanted is None or composer == pytest.approx(wanted, abs=0.5), "the place to write moved"
