"""First visit, status and settings in a real browser."""

from collections.abc import Callable
from operator import attrgetter

import pytest
from browsing import Tab, Visitor
from playwright.sync_api import expect
from web_house import WebHouse

from gateway.service.admin import platform_setup
from hermes_cli import config
from hermes_lab.server import LabServer

EMPTY = pytest.mark.parametrize("house", [{"model": {}}], indirect=True)


@EMPTY
def test_the_first_visit_leads_to_a_model_that_works(tab: Tab, lab: LabServer) -> None:
    """H5: "use it" is offered only after a real call went through."""
    card = tab.page.get_by_role("form", name="Welcome to Hermes")
    bar = tab.page.get_by_text("a toy without tools")  # stays until there is something better
    expect(bar).to_be_visible()
    use = card.get_by_role("button", name="Use it")
    expect(use).to_be_disabled()
    expect(card.get_by_label("API key")).to_have_attribute("type", "password")
    fill_in(tab, "http://127.0.0.1:9/v1")
    card.get_by_role("button", name="Try it").click()
    expect(card.locator(".result[data-ok=false]")).not_to_be_empty()
    expect(use).to_be_disabled()
    fill_in(tab, lab.base_url)
    card.get_by_role("button", name="Try it").click()
    expect(card.locator(".result[data-ok=true]")).not_to_be_empty()
    use.click()
    expect(card).to_have_count(0)
    expect(tab.page.locator(".model")).to_have_text("lab")
    expect(bar).to_be_hidden()
    tab.ask("Hello", "You said: Hello")


@EMPTY
def test_a_changed_field_asks_for_a_new_probe(tab: Tab, lab: LabServer) -> None:
    """H5: what was tried is what is used."""
    fill_in(tab, lab.base_url)
    tab.press("Try it")
    use = tab.page.get_by_role("button", name="Use it")
    expect(use).to_be_enabled()
    tab.page.get_by_label("Model (optional)").fill("another")
    expect(use).to_be_disabled()


@EMPTY
def test_later_never_asks_again(tab: Tab, house: WebHouse) -> None:
    tab.press("Later")
    expect(tab.page.get_by_text("What can I do for you?")).to_be_visible()
    tab.page.reload()
    expect(tab.page.get_by_text("What can I do for you?")).to_be_visible()
    expect(tab.page.get_by_text("Welcome to Hermes")).to_have_count(0)
    tab.page.goto(f"{house.url}/setup")
    expect(tab.page.get_by_role("form", name="Set up a model")).to_be_visible()


def test_status_shows_what_runs_and_what_it_cost(tab: Tab) -> None:
    tab.ask("Hello", "You said: Hello")
    tab.page.get_by_role("link", name="Status").click()
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("Status")
    platforms = tab.page.get_by_role("region", name="Platforms")
    expect(platforms).to_contain_text("The web page")
    costs = tab.page.get_by_role("region", name="Tokens and cost")
    expect(costs.locator("figure")).to_have_count(3)
    expect(costs.locator("svg rect.series").first).to_be_visible()
    expect(costs.get_by_role("table", name="Tokens by day")).to_contain_text("from the cache")
    expect(tab.page.get_by_role("region", name="Agents in memory")).to_contain_text("Warm agents: 1.")
    expect(tab.page.get_by_label("Lines of the log")).to_be_visible()


def test_a_turn_is_stopped_from_the_status_page(visitor: Visitor, tab: Tab, house: WebHouse) -> None:
    tab.say("[[pause 0.2]][[chunks 100]]")
    expect(tab.page.locator(".streaming")).to_be_visible()
    status = visitor.tab()
    status.page.goto(f"{house.url}/status")
    turns = status.page.get_by_role("region", name="Turns under way")
    turns.get_by_role("button", name="Stop").click()
    expect(turns).to_contain_text("Nothing runs now")
    expect(tab.stop).to_be_hidden()


def test_people_are_let_in_and_removed(tab: Tab, house: WebHouse) -> None:
    """G1, G3: a request is approved by the owner with a role; removing asks first."""
    house.gateway.people.pair("telegram", "4711", "Ada", "4711")
    tab.page.goto(f"{house.url}/status")
    people = tab.page.get_by_role("region", name="People")
    expect(people).to_contain_text("Ada")
    people.get_by_label("Role of Ada").select_option("admin")
    people.get_by_role("button", name="Let Ada in").click()
    expect(tab.page.locator(".toast")).to_contain_text("Ada is in as admin")
    people.get_by_role("button", name="Remove Ada").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(people.get_by_role("button", name="Remove Ada")).to_have_count(0)
    assert not house.gateway.people.people()


def test_a_setting_is_saved_with_a_word_on_where_it_takes_effect(visitor: Visitor, tab: Tab) -> None:
    """H6: applied or refused, and said where it takes effect."""
    visitor.allow("422")
    tab.page.get_by_role("link", name="Settings").click()
    tab.page.get_by_label("agent.max_iterations", exact=True).fill("12")
    tab.press("Save agent.max_iterations")
    row = tab.page.locator("form.setting", has_text="agent.max_iterations")
    expect(row.locator(".result")).to_contain_text("Saved. It takes effect")
    assert read_setting("agent", "max_iterations") == 12
    tab.page.get_by_label("agent.max_iterations", exact=True).fill("many")
    tab.press("Save agent.max_iterations")
    expect(row.locator(".result[data-ok=false]")).not_to_be_empty()
    assert read_setting("agent", "max_iterations") == 12


def test_the_status_page_rests_while_nobody_looks(visit: Callable[..., Visitor], house: WebHouse) -> None:
    tab = visit().tab()
    tab.page.clock.install()
    tab.page.goto(house.address)
    tab.page.goto(f"{house.url}/status")
    expect(tab.page.get_by_role("region", name="Platforms")).to_contain_text("The web page")
    tab.page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.page.clock.run_for(60_000)
    assert asked == []
    tab.page.evaluate("delete document.hidden")
    with tab.page.expect_request("**/web/status"):
        tab.page.clock.run_for(5_000)


def fill_in(tab: Tab, address: str) -> None:
    choice = tab.page.get_by_label("Who serves the model")
    choice.select_option("custom")
    tab.page.get_by_label("Address of the server").fill(address)
    tab.page.get_by_label("Model (optional)").fill("lab")


def read_setting(*names: str) -> object:
    return attrgetter(".".join(names))(config.load_last_good())


def test_an_unknown_price_is_not_nothing(tab: Tab, house: WebHouse) -> None:
    tab.ask("hello", "You said: hello")
    house.wait_quiet()
    tab.page.get_by_role("link", name="Status").click()
    card = tab.page.get_by_role("region", name="Use by model")
    expect(card).to_contain_text("no price known")
    expect(card).not_to_contain_text("$0")
    expect(tab.page.get_by_text("30 days:")).to_contain_text("no price known")


def test_the_status_page_does_not_scroll_sideways_on_a_phone(visit: Callable[..., Visitor], house: WebHouse) -> None:
    """What only a screen reader reads takes no room: the tables of the plots among it."""
    tab = visit(viewport={"width": 390, "height": 844}).tab().open(house.address)
    tab.ask("Hello", "You said: Hello")
    tab.page.goto(f"{house.url}/status")
    expect(tab.page.get_by_role("table", name="Tokens by day")).to_contain_text("from the cache")
    widths = tab.page.evaluate(
        "[...document.querySelectorAll('*')]"
        ".filter((box) => ['auto', 'scroll'].includes(getComputedStyle(box).overflowX) && box.querySelector('figure'))"
        ".map((box) => box.scrollWidth - box.clientWidth)"
    )
    assert widths, "the status page scrolls in a box of its own"
    assert max(widths) <= 0
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_hook_is_changed_only_where_somebody_changed_it(tab: Tab, house: WebHouse) -> None:
    """G2: the form shows what the named hook has, and sends what was touched."""
    secret = "s" * 40
    first = {"account": "alarm", "secret": secret, "signature": "github", "role": "owner"}
    assert platform_setup.use_answers("webhook", first).ok
    tab.page.goto(f"{house.url}/settings")
    apps = tab.page.get_by_role("region", name="Chat apps")
    apps.get_by_text("Webhook", exact=False).first.click()
    role = apps.get_by_label("As whom it speaks")
    expect(role).to_have_value("member")
    name = apps.get_by_label("A name for the hook")
    name.fill("alarm")
    expect(role).to_have_value("owner")
    apps.get_by_label("The address that answers are sent to").fill("https://example.org/answers")
    apps.locator("details[open]").get_by_role("button", name="Try it and keep it").click()
    expect(apps.locator("details[open] .result")).to_contain_text("It works, and is kept.")
    kept = config.load_settings().platforms["webhook"]["accounts"]["alarm"]
    assert kept == {"signature": "github", "role": "owner", "reply_url": "https://example.org/answers"}
    name.fill("garden")
    expect(role).to_have_value("member")
