"""The list of conversations: one's own, named by their words, and what waits for an answer says so."""

import json
import os
import subprocess
import sys

import pytest
from browsing import Tab
from playwright.sync_api import expect
from web_house import WebHouse


def test_single_questions_do_not_flood_the_list_and_can_be_seen(tab: Tab, house: WebHouse) -> None:
    tab.ask("Good morning", "You said: Good morning")
    command = [sys.executable, "-m", "hermes_cli.main", "-q", "What is a heron?"]
    done = subprocess.run(
        command, env={**os.environ, "HERMES_HOME": str(house.home)}, capture_output=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    house.wait_quiet()
    tab.page.reload()
    expect(tab.threads).to_have_count(1)
    tab.press("Show single questions and the API")
    expect(tab.threads).to_have_count(1)
    expect(tab.threads).to_contain_text("local")
    tab.press("Show my conversations")
    expect(tab.threads.locator(".badge")).to_have_count(0)


@pytest.mark.parametrize("house", [{"approvals": {"mode": "ask"}, "titles": {"enabled": False}}], indirect=True)
def test_an_open_question_elsewhere_waits_for_the_person(tab: Tab, house: WebHouse) -> None:
    """G4"""
    tab.say(f"[[tool terminal {json.dumps({'command': 'rm -r nothing'})}]]")
    expect(tab.question).to_be_visible()
    tab.page.get_by_role("link", name="New chat").click()
    tab.page.reload()
    waiting = tab.threads.filter(has_text="waits for you")
    expect(waiting).to_be_visible()
    expect(waiting.get_by_role("img", name="at work")).to_have_count(0)
    waiting.click()
    tab.press("No", tab.question)
    expect(tab.page.get_by_text("waits for you")).to_have_count(0)
