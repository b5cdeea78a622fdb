"""The header of the page names who answers, and words and deeds of `/model` agree."""

from browsing import Tab, Visitor
from playwright.sync_api import expect
from web_house import WebHouse

from hermes_lab.server import LabServer


def test_the_header_names_the_model_that_answers_and_a_choice_ends_with_new(tab: Tab, lab: LabServer) -> None:
    header = tab.page.locator(".top .model")
    tab.ask("one", "You said: one")
    expect(header).to_have_text("lab")
    tab.say("/model other")
    expect(tab.page.locator(".note").last).to_contain_text("chosen for this conversation, until /new")
    expect(header).to_have_text("other")
    tab.ask("two", "You said: two")
    asked = [request.json()["model"] for request in lab.requests if "two" in request.body.decode()]
    assert asked[0] == "other"
    tab.page.reload()
    expect(header).to_have_text("other")
    tab.page.get_by_role("link", name="New chat").click()
    expect(header).to_have_text("lab")
    tab.threads.first.click()
    expect(header).to_have_text("other")
    tab.say("/new")
    expect(tab.page.locator(".note").last).to_contain_text("lab answers here")
    expect(header).to_have_text("lab")
    tab.ask("three", "You said: three")
    assert lab.requests[-1].json()["model"] == "lab"


def test_the_header_says_who_answered_in_the_place_of_the_chosen_model(
    house: WebHouse, visitor: Visitor, lab: LabServer
) -> None:
    elsewhere = lab.base_url.replace("127.0.0.1", "localhost")  # another address for the same server
    spare = {"provider": "custom", "base_url": elsewhere, "model": "spare"}
    house.write_settings(model={"base_url": lab.base_url, "default": "lab", "fallbacks": [spare]})
    house.stop()
    house.start()
    lab.set_plan([{"model": "lab", "times": 0, "fault": {"status": 401, "message": "no"}}])
    tab = visitor.tab().open(house.address)
    tab.ask("hello", "You said: hello")
    expect(tab.page.locator(".top .model")).to_have_text("lab; the last answer is from spare")
