"""Failures on the page: they look like failures, name what to do with the names that things really have, and can be
tried again."""

import pytest
from browsing import Tab
from playwright.sync_api import expect
from web_house import WebHouse

from hermes_lab.server import LabServer

REFUSED = {"fault": {"status": 401, "message": "Incorrect API key provided."}}


def test_a_failed_turn_looks_like_a_failure_and_is_tried_again(tab: Tab, lab: LabServer) -> None:
    """H8"""
    tab.ask("hello", "You said: hello")
    lab.set_plan([REFUSED])
    tab.say("and now?")
    failure = tab.page.locator("article.failure")
    expect(failure).to_contain_text("did not accept the key")
    expect(failure).to_contain_text("hermes config set CUSTOM_API_KEY")
    expect(failure.locator(".failure-box .icon")).to_be_visible()
    expect(failure).not_to_contain_text("NAME_API_KEY")
    expect(tab.answers.filter(has_not=tab.page.locator(".failure-box"))).to_have_count(1)
    tab.page.reload()
    expect(failure).to_contain_text("did not accept the key")
    tab.press("Try again", failure)
    tab.wait_answer("You said: and now?")
    expect(failure).to_have_count(0)


@pytest.mark.parametrize("house", [{"model": {"provider": "openrouter"}}], indirect=True)
def test_a_missing_key_is_told_with_the_name_of_its_variable(tab: Tab, house: WebHouse) -> None:
    del house
    tab.say("hello")
    failure = tab.page.locator("article.failure, .note[data-level=error]")
    expect(failure).to_contain_text("hermes config set OPENROUTER_API_KEY")
    expect(failure.locator(".icon").first).to_be_visible()


def test_malformed_json_is_told_in_words_not_as_bytes(tab: Tab, house: WebHouse, lab: LabServer) -> None:
    """H8: of a request, and of a model server's answer."""
    answer = house.visit().http.post(
        "/web/threads", content=b"{not \xff json", headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "The body is not UTF-8.")
    lab.set_plan([{"fault": {"status": 400, "body": '{"error": not json'}}])
    tab.say("hello")
    failure = tab.page.locator("article.failure")
    expect(failure).to_contain_text('refused the request (HTTP 400: {"error": not json)')
    assert "b'" not in failure.inner_text()


def test_an_answer_that_was_cut_says_so_for_good(tab: Tab) -> None:
    """C7: an answer that stopped before its end does not look whole, neither when it has settled nor after a reload."""
    why = "The answer was cut at the model's output limit."
    answer = tab.ask("[[say Half an]][[length]]", "Half an")
    expect(answer.locator(".stopped")).to_have_text(why)
    tab.page.reload()
    expect(tab.wait_answer("Half an").locator(".stopped")).to_have_text(why)
