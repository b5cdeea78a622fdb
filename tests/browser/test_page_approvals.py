"""Approvals on the page in a real browser: what is shown, what each answer does, and the list of what was kept (G4)."""

import json
import os
from pathlib import Path

import pytest
from browsing import Tab
from playwright.sync_api import expect
from web_house import WebHouse

ASKING = pytest.mark.parametrize(
    "house", [{"approvals": {"mode": "ask"}, "terminal": {"network": False}}], indirect=True
)
TOUCH = '[[tool terminal {"command": "touch made.txt && echo made"}]]'


def take_picture(tab: Tab, name: str) -> None:
    """For whoever wants to look: HERMES_TEST_PICTURES names a folder."""
    if folder := os.environ.get("HERMES_TEST_PICTURES"):
        tab.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


@ASKING
def test_an_approval_is_kept_listed_and_revoked(tab: Tab, house: WebHouse) -> None:
    """G4: always is asked once; the settings list it, and after it is revoked it is asked again."""
    tab.say(TOUCH)
    labels = ["Yes, once", "No", "Yes, in this conversation", "Always"]
    expect(tab.question.get_by_role("button")).to_have_text(labels)
    expect(tab.question).to_be_focused()
    take_picture(tab, "approval")
    tab.press("Always", tab.question)
    tab.wait_answer("terminal returned")
    tab.say(TOUCH)
    expect(tab.answers.filter(has_text="terminal returned")).to_have_count(2)
    tool = tab.page.locator("details.tool").last
    tool.locator("summary").click()
    expect(tool).to_contain_text("allowed by a rule of")
    take_picture(tab, "allowed")
    tab.page.get_by_role("link", name="Settings").click()
    kept = tab.page.get_by_role("region", name="Kept approvals")
    expect(kept).to_contain_text("touch made.txt && echo made")
    expect(kept).to_contain_text("used once")
    take_picture(tab, "kept")
    kept.get_by_role("button", name="Revoke touch made.txt").click()
    expect(kept).to_contain_text("None.")
    assert house.gateway.store.approvals.rules() == []
    tab.page.go_back()
    tab.say(TOUCH)
    expect(tab.question).to_be_visible()
    tab.press("No", tab.question)


@ASKING
def test_a_no_goes_with_a_word(tab: Tab) -> None:
    """G4: what is written beside No reaches the model."""
    tab.say(TOUCH)
    tab.question.get_by_label("A word to the model").fill("use the test folder")
    tab.press("No", tab.question)
    tab.wait_answer("not approved: use the test folder")
    tab.say(TOUCH)
    field = tab.question.get_by_label("A word to the model")
    field.fill("and now this")
    field.press("Enter")
    tab.wait_answer("not approved: and now this")


@ASKING
def test_a_change_is_shown_as_a_diff(tab: Tab, house: WebHouse) -> None:
    """G4: what comes and what goes look different, and what was shown is written."""
    target = house.home / "workspace" / ".profile"
    target.parent.mkdir(exist_ok=True)
    target.write_text("one\ntwo\nthree\n")
    args = json.dumps({"path": ".profile", "content": "one\n2\nthree\n", "overwrite": True})
    tab.say(f"[[tool write_file {args}]]")
    expect(tab.question.get_by_role("heading")).to_have_text("May I make this change?")
    shown = tab.question.get_by_label("Exact change")
    expect(shown.locator(".taken")).to_have_text("-two\n")
    expect(shown.locator(".added")).to_have_text("+2\n")
    expect(tab.question).to_contain_text("other programs obey it")
    expect(tab.question.get_by_role("button")).to_have_text(["Yes, once", "No"])
    take_picture(tab, "change")
    tab.press("Yes, once", tab.question)
    tab.wait_answer("write_file returned")
    assert target.read_text() == "one\n2\nthree\n"


@ASKING
def test_all_are_revoked_after_a_question(tab: Tab, house: WebHouse) -> None:
    """G4"""
    for name in ("a", "b"):
        tab.say(f'[[tool terminal {{"command": "touch {name}"}}]]')
        tab.press("Always", tab.question)
        expect(tab.question).to_have_count(0)
        tab.wait_answer("terminal returned")
    tab.page.get_by_role("link", name="Settings").click()
    tab.press("Revoke all")
    tab.page.get_by_role("dialog").get_by_role("button", name="Revoke all").click()
    expect(tab.page.get_by_role("region", name="Kept approvals")).to_contain_text("None.")
    assert house.gateway.store.approvals.rules() == []
