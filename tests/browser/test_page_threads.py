"""The list of conversations in a real browser: search, resume, rename, delete, export, and the keyboard."""

import json

from browsing import Tab, Visitor
from playwright.sync_api import expect
from web_house import WebHouse


def test_search_finds_words_and_marks_them(tab: Tab, house: WebHouse) -> None:
    tab.ask("The heron stands in the reeds", "heron")
    tab.page.get_by_role("link", name="New chat").click()
    tab.ask("Something else", "Something else")
    tab.page.keyboard.press("Control+k")
    search = tab.page.get_by_role("searchbox")
    expect(search).to_be_focused()
    search.fill("heron")
    expect(tab.page.locator(".found mark").first).to_have_text("heron")
    tab.threads.first.click()
    expect(tab.own.locator(".bubble")).to_have_text("The heron stands in the reeds")
    search.fill("her")
    expect(tab.page.locator(".excerpt mark").first).to_have_text("heron")
    search.fill("unheard-of")
    expect(tab.page.get_by_text("Nothing found")).to_be_visible()
    search.fill("")
    expect(tab.threads).to_have_count(2)


def test_search_finds_titles_by_parts_of_their_words_and_marks_them(tab: Tab, house: WebHouse) -> None:
    tab.ask("[[say A grey bird]]", "A grey bird")
    house.wait_quiet()
    house.gateway.titler.rename(tab.session, "Sailboat varnish")
    search = tab.page.get_by_role("searchbox")
    search.fill("boat varn")
    found = tab.page.locator("li.found")
    expect(found).to_have_count(1)
    expect(found.locator("mark")).to_have_text(["Sailboat", "varnish"])
    expect(found.locator(".excerpt")).to_have_count(0)


def test_an_earlier_conversation_is_opened_and_goes_on(tab: Tab) -> None:
    tab.ask("alpha", "You said: alpha")
    first = tab.session
    tab.page.get_by_role("link", name="New chat").click()
    expect(tab.own).to_have_count(0)
    tab.ask("beta", "You said: beta")
    assert tab.session != first
    tab.page.go_back()
    tab.page.locator(f"a.thread-link[href='/c/{first}']").click()
    expect(tab.own.locator(".bubble")).to_have_text("alpha")
    tab.ask("gamma", "You said: gamma")
    expect(tab.own.locator(".bubble")).to_have_text(["alpha", "gamma"])


def test_a_session_that_was_left_is_resumed(tab: Tab) -> None:
    tab.ask("alpha", "You said: alpha")
    first = tab.session
    tab.say("/new")
    expect(tab.own).to_have_count(0)
    tab.ask("beta", "You said: beta")
    tab.page.locator(f"a.thread-link[href='/c/{first}']").click()
    expect(tab.own.locator(".bubble")).to_have_text("alpha")
    expect(tab.field).to_be_hidden()
    tab.press("Go on from here")
    tab.ask("gamma", "You said: gamma")
    expect(tab.own.locator(".bubble")).to_have_text(["alpha", "gamma"])
    assert tab.session == first


def test_a_conversation_is_renamed_in_its_place(tab: Tab) -> None:
    tab.ask("alpha", "You said: alpha")
    choose(tab, "Rename")
    tab.page.get_by_label("Title", exact=True).fill("My birds")
    tab.page.get_by_label("Title", exact=True).press("Enter")
    expect(tab.threads).to_have_text("My birds")
    expect(tab.page.get_by_role("heading", level=1)).to_have_text("My birds")
    tab.page.reload()
    expect(tab.threads).to_have_text("My birds")


def test_a_conversation_is_deleted_only_after_a_yes(visitor: Visitor, tab: Tab) -> None:
    tab.ask("alpha", "You said: alpha")
    choose(tab, "Delete")
    tab.page.keyboard.press("Escape")
    expect(tab.threads).to_have_count(1)
    choose(tab, "Delete")
    tab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(tab.threads).to_have_count(0)
    tab.page.wait_for_url("**/")
    expect(tab.own).to_have_count(0)
    tab.ask("again", "You said: again")


def test_a_conversation_is_exported(tab: Tab) -> None:
    tab.ask("alpha", "You said: alpha")
    for form, words in (("Markdown", "You said: alpha"), ("JSON", '"alpha"')):
        with tab.page.expect_download() as fetched:
            choose(tab, f"Export as {form}", role="link")
        text = fetched.value.path().read_text()
        assert words in text
    assert json.loads(text)


def test_earlier_messages_are_fetched_when_they_are_wanted(tab: Tab, house: WebHouse) -> None:
    """The newest hundred rows come first; the reader stays where they are when earlier ones come."""
    other = house.visit()
    conversation = other.open()
    for number in range(60):
        other.say(conversation, f"[[say answer {number}]]")
        house.wait_quiet()
    session = next(one["session"] for one in other.get("/web/threads")["threads"])
    tab.open(f"{house.url}/c/{session}")
    expect(tab.own).to_have_count(50)
    earlier = tab.page.get_by_role("button", name="Show earlier messages")
    expect(tab.answers.last).to_be_in_viewport()
    earlier.scroll_into_view_if_needed()
    earlier.click()
    expect(tab.own).to_have_count(60)
    expect(tab.answers.filter(has_text="answer 10").first).to_be_in_viewport()
    expect(earlier).to_be_hidden()
    texts = tab.answers.locator(".text").all_inner_texts()
    assert texts == [f"answer {number}" for number in range(60)]


def test_the_list_goes_on_when_it_is_long(tab: Tab, house: WebHouse) -> None:
    other = house.visit()
    for number in range(52):
        other.say(other.open(), f"talk {number}")
    house.wait_quiet()
    tab.page.reload()
    expect(tab.threads).to_have_count(50)
    tab.page.get_by_role("button", name="Show more").click()
    expect(tab.threads).to_have_count(52)
    expect(tab.page.get_by_role("button", name="Show more")).to_be_hidden()


def test_an_unknown_conversation_is_said_to_be_unknown(visitor: Visitor, house: WebHouse) -> None:
    visitor.allow("404")
    tab = visitor.tab()
    tab.page.goto(house.address)
    tab.page.goto(f"{house.url}/c/nothing-here")
    expect(tab.page.get_by_role("alert")).to_contain_text("no such conversation")


def test_the_keyboard_alone_is_enough(tab: Tab) -> None:
    page = tab.page
    tab.ask("alpha", "You said: alpha")
    expect(tab.threads.first).to_have_attribute("href", f"/c/{tab.session}")
    page.keyboard.press("Control+k")
    page.keyboard.press("ArrowDown")
    expect(tab.threads.first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(tab.field).to_be_focused()
    page.keyboard.type("line one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("line two")
    expect(tab.field).to_have_value("line one\nline two")
    page.keyboard.press("Enter")
    tab.wait_answer("line two")


def test_the_menu_of_a_conversation_works_by_keys(tab: Tab) -> None:
    page = tab.page
    tab.ask("alpha", "You said: alpha")
    expect(tab.threads.first).to_have_attribute("href", f"/c/{tab.session}")
    tab.threads.first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Rename")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("By keys")
    page.keyboard.press("Enter")
    expect(tab.threads.first).to_have_text("By keys")
    expect(tab.threads.first).to_be_focused()


def test_a_list_that_changes_keeps_the_focus(tab: Tab) -> None:
    tab.ask("alpha", "You said: alpha")
    expect(tab.threads.first).to_have_attribute("href", f"/c/{tab.session}")
    tab.threads.first.focus()
    tab.page.evaluate(RENAME, [tab.session, "Another title"])
    expect(tab.threads.first).to_have_text("Another title")
    expect(tab.threads.first).to_be_focused()


def test_the_first_stop_of_the_tab_key_skips_the_list(tab: Tab, house: WebHouse) -> None:
    tab.page.goto(f"{house.url}/status")
    expect(tab.page.get_by_role("region", name="Platforms")).to_be_visible()
    tab.page.keyboard.press("Tab")
    expect(tab.page.get_by_role("link", name="Skip to the content")).to_be_focused()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("#main")).to_be_focused()


def test_every_focus_can_be_seen(tab: Tab) -> None:
    """Each stop of the Tab key has an outline or a ring."""
    tab.ask("[[say ```py\nx\n```]]", "x")
    tab.page.locator(".skip").focus()
    for _ in range(40):
        tab.page.keyboard.press("Tab")
        seen = tab.page.evaluate(FOCUS)
        assert seen["shown"], seen
        if seen["end"]:
            break


#: Gives a conversation another title, as another window would.
RENAME = """async ([session, title]) => {
  const body = JSON.stringify({title});
  await fetch(`/web/threads/${session}`, {method: "PATCH", headers: {"Content-Type": "application/json"}, body});
}"""
FOCUS = """() => {
  const now = document.activeElement;
  if (!now || now === document.body) return {shown: true, end: true};
  const style = getComputedStyle(now.id === "say" ? now.closest("form") : now);
  const shown = style.outlineStyle !== "none" || style.boxShadow !== "none";
  return {shown, end: false, what: now.outerHTML.slice(0, 200)};
}"""


def choose(tab: Tab, name: str, role: str = "button") -> None:
    """Take something from the menu of the first conversation."""
    tab.threads.first.hover()
    tab.page.locator("button.options").first.click()
    tab.page.locator(".menu:popover-open").get_by_role(role, name=name).click()  # type: ignore[arg-type]
