"""C7: the page's own rules in a real browser: a text that does not count goes from the screen, and the rest stays."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Visitor, open_browser
from playwright.sync_api import Browser, expect
from web_house import WebHouse

from hermes_lab.server import LabServer

WHOLE = "The quick brown fox jumps over the lazy dog"
OTHER = "A slow green turtle crawls under the eager cat"
TOOL = {"name": "todo", "arguments": {"action": "list"}}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.mark.peers
def test_c7_the_page_takes_a_text_back(browser: Browser, home: Path, lab: LabServer) -> None:
    """C7: while the second try comes, what the first one showed is gone and what stood before it is not; a page that is
    opened in the middle shows the same."""
    cut = {"text": WHOLE, "chunks": 9, "stall_between": 0.05, "fault": {"cut_after_chunks": 6}}
    slow = {"text": OTHER, "chunks": 40, "stall_between": 0.1}
    lab.set_plan([{"text": "I look first.", "tool_calls": [TOOL]}, cut, slow])
    with WebHouse(home, lab.base_url) as house:
        visitor = Visitor(browser)
        tab = visitor.tab().open(house.address)
        tab.say("Well?")
        expect(tab.answers.filter(has_text="A slow")).to_have_count(1)
        late = visitor.tab().open(tab.page.url)
        for page in (tab, late):
            expect(page.answers.filter(has_text="A slow")).to_have_count(1)
            expect(page.answers.filter(has_text="The quick")).to_have_count(0)
            expect(page.answers.filter(has_text="I look first.")).to_have_count(1)
        for page in (tab, late):
            page.wait_answer(OTHER)
            expect(page.answers.filter(has_text="The quick")).to_have_count(0)
            expect(page.answers.filter(has_text="I look first.")).to_have_count(1)
        visitor.close()


REDUCE = """async (events) => {
  const { applyEvent, makeState } = await import("/static/conversation.js");
  const state = makeState("c");
  for (const event of events) applyEvent(state, event);
  return state.live.segments.filter(({ kind }) => kind === "text").map(({ text }) => text.trim());
}"""


@pytest.mark.peers
def test_c7_the_page_and_the_protocol_have_one_rule(browser: Browser, home: Path, lab: LabServer) -> None:
    """C7: the events of the protocol, through the page's own code."""
    nothing = {"text": "", "reasoning": ""}
    live = {"seqs": [1], "text": "kept", "reasoning": "", "tools": [], "open": {"text": "\n\nopen", "reasoning": "hm"}}
    base = {"thread": None, "entries": [], "more": False, "waiting": [], "question": None}
    begun = {"type": "begun", "seqs": [1]}

    def text(piece: str) -> dict[str, str]:
        return {"type": "text", "text": piece}

    def ended(kept: bool) -> dict[str, object]:
        return {"type": "text_ended", "kept": kept}

    cases = [
        ([begun, text("a"), text("b"), ended(False), text("c")], ["c"]),
        ([begun, text("a"), ended(True), text("b"), ended(False), text("c"), text("d")], ["a", "cd"]),
        ([begun, {"type": "reasoning", "text": "x"}, text("a"), ended(True), text("b")], ["a", "b"]),
        ([{"type": "snapshot", **base, "live": live}, text("ed")], ["kept", "opened"]),
        ([{"type": "snapshot", **base, "live": live}, ended(False), text("new")], ["kept", "new"]),
        ([{"type": "snapshot", **base, "live": {**live, "open": nothing}}, text("new")], ["kept", "new"]),
    ]
    with WebHouse(home, lab.base_url) as house:
        visitor = Visitor(browser)
        tab = visitor.tab().open(house.address)
        for events, shown in cases:
            assert tab.page.evaluate(REDUCE, events) == shown
        visitor.close()
