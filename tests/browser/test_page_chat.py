"""The chat page in a real browser: it sends, streams, stops, steers, asks, and is the same after every interruption."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import Tab, Visitor
from playwright.sync_api import expect
from waiting import wait_until
from web_house import WebHouse

from hermes_lab.server import LabServer

ASKING = pytest.mark.parametrize("house", [{"approvals": {"mode": "ask"}}], indirect=True)
SLOW = "[[pause 0.1]][[chunks 24]][[say {}]]"
COUNT = " ".join(str(number) for number in range(1, 41))


def slowly(text: str) -> str:
    return SLOW.format(text)


def test_a_message_is_answered_and_the_address_names_the_conversation(tab: Tab) -> None:
    tab.ask("Good morning", "You said: Good morning")
    assert tab.session
    expect(tab.own).to_have_count(1)
    expect(tab.threads.first).to_have_attribute("aria-current", "page")
    expect(tab.field).to_be_focused()


def test_an_answer_is_shown_while_it_is_written(tab: Tab) -> None:
    tab.say(slowly(f"First paragraph.\n\n**second** {COUNT}"))
    expect(tab.page.locator(".streaming strong")).to_have_text("second")
    tab.wait_answer("39 40")
    expect(tab.page.locator(".streaming")).to_have_count(0)
    expect(tab.answers.locator("p")).to_have_count(2)


def test_finished_blocks_of_a_streamed_answer_are_drawn_once(tab: Tab) -> None:
    """Only the last block is drawn again: the first one comes into the page a few times, the last one at each piece."""
    tab.page.evaluate(COUNT_DRAWINGS)
    tab.ask(slowly(f"Alpha.\n\nBeta {COUNT}"), "39 40")
    drawn = tab.page.evaluate("window.drawn")
    assert 1 <= drawn["Alpha"] <= 4, drawn
    assert drawn["Beta"] > 8, drawn


def test_markdown_is_drawn_with_code_tables_and_lists(tab: Tab) -> None:
    text = "# Head\n\n- one\n- two\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done"
    answer = tab.ask(f"[[say {text}]]", "Head")
    expect(answer.locator("h3")).to_have_text("Head")
    expect(answer.locator("li")).to_have_count(3)
    expect(answer.locator(".code-head span")).to_have_text("python")
    expect(answer.locator("td")).to_have_count(2)
    expect(answer).to_contain_text("☑ done")


def test_code_is_copied(visit: Callable[..., Visitor], house: WebHouse) -> None:
    visitor = visit(permissions=["clipboard-read", "clipboard-write"])
    tab = visitor.tab().open(house.address)
    answer = tab.ask("[[say ```sh\necho hi\n```]]", "echo hi")
    tab.press("Copy the code", answer)
    expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert tab.page.evaluate("navigator.clipboard.readText()").strip() == "echo hi"


def test_stop_ends_a_turn_and_what_was_written_stays(tab: Tab) -> None:
    tab.say("[[pause 0.1]][[chunks 200]]")
    expect(tab.page.locator(".streaming")).to_contain_text("3")
    tab.stop.click()
    expect(tab.stop).to_be_hidden()
    expect(tab.page.locator("#timeline")).to_contain_text(re.compile("stopped|interrupted", re.I))
    tab.ask("Still there?", "You said: Still there?")


def test_a_message_during_a_turn_steers_it(tab: Tab, lab: LabServer) -> None:
    tab.say(slowly(COUNT))
    expect(tab.page.get_by_role("radio", name="Steer")).to_be_checked()
    tab.say("and be brief")
    waiting = tab.own.filter(has_text="and be brief")
    expect(waiting.locator(".mark")).to_have_text("waiting")
    tab.wait_answer("You said: and be brief")
    expect(tab.own).to_have_count(2)
    expect(tab.answers.filter(has_text="39 40")).to_have_count(1)


def wait_for_file(name: str) -> str:
    return f'[[tool terminal {{"command": "until test -e {name}; do sleep 0.05; done"}}]][[then]][[say Done.]]'


def test_a_message_that_the_turn_has_read_waits_no_more(tab: Tab, house: WebHouse) -> None:
    """B8 as the page shows it: what was said into a turn stands above what it caused, also after a reload."""
    tab.say(wait_for_file("first"))
    expect(tab.page.locator("details.tool")).to_have_count(1)
    tab.say(wait_for_file("second"))
    said = tab.own.filter(has_text="second")
    expect(said.locator(".mark")).to_have_text("waiting")
    (house.home / "workspace" / "first").touch()
    expect(tab.page.locator("details.tool")).to_have_count(2)
    expect(said.locator(".mark")).to_have_count(0)
    assert tab.page.locator("#timeline > *").last.evaluate("(last) => last.matches('details.tool')")
    tab.page.reload()
    expect(tab.page.locator("details.tool")).to_have_count(2)
    expect(said.locator(".mark")).to_have_count(0)
    (house.home / "workspace" / "second").touch()
    tab.wait_answer("Done.")
    expect(tab.own).to_have_count(2)


@ASKING
def test_the_answer_to_a_command_during_a_turn_stands_at_the_end(tab: Tab) -> None:
    """H7: who asks for the status while a question is open sees it where they look, below what was there."""
    tab.say('[[tool terminal {"command": "touch made.txt"}]][[then]][[say Made.]]')
    expect(tab.question).to_be_visible()
    tab.say("/status")
    note = tab.page.locator("#timeline > .note")
    expect(note).to_be_in_viewport()
    assert tab.page.locator("#timeline > *").last.evaluate("(last) => last.matches('.note')")
    expect(tab.question).to_be_visible()
    tab.press("Yes, once", tab.question)
    tab.wait_answer("Made.")
    expect(note).to_have_count(1)


def test_a_message_can_wait_for_the_end_of_the_turn(tab: Tab) -> None:
    tab.say(slowly(COUNT))
    expect(tab.stop).to_be_visible()
    tab.page.get_by_role("radio", name="Queue").check()
    tab.say("next question")
    expect(tab.own.filter(has_text="next question").locator(".mark")).to_have_text("waiting")
    tab.wait_answer("You said: next question")
    assert "39 40" in tab.answers.first.inner_text()


@ASKING
def test_an_approval_shows_the_exact_command_and_its_answer_counts(tab: Tab, house: WebHouse) -> None:
    """G4 as the page shows it: the exact command and the folder it starts in, the reason, the choices."""
    tab.say('[[tool terminal {"command": "touch made.txt && echo made"}]]')
    shown = re.compile(r"cd /\S+/home/workspace\s+touch made\.txt && echo made")
    expect(tab.question.get_by_label("Exact command")).to_have_text(shown)
    expect(tab.question).to_contain_text("in the sandbox (level work)")
    expect(tab.question).to_contain_text("It counts as a no in")
    expect(tab.question).to_be_focused()
    tab.press("Yes, once", tab.question)
    tab.wait_answer("terminal returned")
    expect(tab.question).to_have_count(0)
    tool = tab.page.locator("details.tool").first
    expect(tool.locator("summary")).to_contain_text("touch made.txt")
    expect(tool.locator("summary")).to_contain_text("done")
    tool.locator("summary").click()
    expect(tool.get_by_label("Result")).to_contain_text("made")


@ASKING
def test_a_denied_command_does_not_run(tab: Tab) -> None:
    tab.say('[[tool terminal {"command": "touch never.txt"}]]')
    tab.press("No", tab.question)
    tab.wait_answer("terminal returned")
    expect(tab.page.locator("details.tool summary")).to_contain_text("failed")


@ASKING
def test_a_question_does_not_take_the_focus_from_somebody_who_writes(tab: Tab) -> None:
    tab.say('[[stall 0.5]][[tool terminal {"command": "touch a.txt"}]]')
    tab.field.press_sequentially("half a sen")
    expect(tab.question).to_be_visible()
    expect(tab.field).to_be_focused()
    tab.press("No", tab.question)


@ASKING
def test_a_question_that_another_tab_answered_goes_away(visitor: Visitor, tab: Tab) -> None:
    tab.say('[[tool terminal {"command": "touch two.txt"}]]')
    expect(tab.question).to_be_visible()
    assert tab.session
    other = visitor.tab().open(tab.page.url)
    tab.press("No", other.question)
    expect(tab.question).to_have_count(0)


def test_reasoning_is_folded(tab: Tab) -> None:
    tab.ask("[[reason Let me see.]][[say Forty-two.]]", "Forty-two.")
    thoughts = tab.page.locator("details.reasoning")
    expect(thoughts.locator(".fold-body")).to_be_hidden()
    thoughts.locator("summary").click()
    expect(thoughts.locator(".fold-body")).to_have_text("Let me see.")


def test_a_reload_in_mid_answer_goes_on(tab: Tab) -> None:
    tab.say(f"[[pause 0.1]][[chunks 50]][[say {COUNT}]]")
    expect(tab.page.locator(".streaming")).to_contain_text("2 3")
    assert tab.session
    tab.page.reload()
    expect(tab.answers).to_contain_text("2 3")
    expect(tab.stop).to_be_visible()
    tab.wait_answer("39 40")
    expect(tab.answers).to_have_count(1)
    expect(tab.own).to_have_count(1)


def test_two_tabs_show_the_same(visitor: Visitor, tab: Tab) -> None:
    tab.ask("first", "You said: first")
    other = visitor.tab().open(tab.page.url)
    expect(other.answers).to_have_count(1)
    other.say(slowly(COUNT))
    expect(tab.answers.last).to_contain_text("7 8")
    tab.wait_answer("39 40")
    other.wait_answer("39 40")
    assert tab.page.locator("#timeline").inner_text() == other.page.locator("#timeline").inner_text()


def test_a_message_outlives_a_restart_of_the_gateway(visitor: Visitor, tab: Tab, house: WebHouse) -> None:
    """C1, C2: what was not confirmed is kept in the browser and sent again under the same name: stored once."""
    visitor.allow("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET")
    tab.ask("before", "You said: before")
    house.stop()
    expect(tab.page.get_by_text("Not connected, trying again")).to_be_visible()
    tab.say("into the dark")
    expect(tab.own.last.locator(".mark")).to_have_text("sending…")
    assert "into the dark" in tab.page.evaluate("localStorage['hermes.unsent']")
    house.start()
    tab.wait_answer("You said: into the dark")
    expect(tab.own.filter(has_text="into the dark")).to_have_count(1)
    expect(tab.page.get_by_text("Not connected, trying again")).to_be_hidden()
    wait_until(lambda: tab.page.evaluate("localStorage['hermes.unsent']") == "{}")


def test_an_unconfirmed_message_is_sent_after_a_reload(visitor: Visitor, tab: Tab, house: WebHouse) -> None:
    visitor.allow("Failed to load resource", "ERR_FAILED")
    tab.ask("before", "You said: before")
    tab.page.route("**/web/say", lambda route: route.abort())
    tab.say("kept for later")
    expect(tab.own.last.locator(".mark")).to_have_text("sending…")
    tab.page.unroute("**/web/say")
    tab.page.reload()
    tab.wait_answer("You said: kept for later")
    expect(tab.own.filter(has_text="kept for later")).to_have_count(1)


def test_an_answer_that_got_lost_does_not_double_the_message(visitor: Visitor, tab: Tab, lab: LabServer) -> None:
    """The gateway stored it, its answer did not arrive: the repetition has the same id (C1)."""
    visitor.allow("Failed to load resource", "ERR_FAILED")
    tab.ask("before", "You said: before")
    lost = []

    def lose(route: object) -> None:
        lost.append(route.fetch())  # type: ignore[attr-defined]
        route.abort()  # type: ignore[attr-defined]

    tab.page.route("**/web/say", lose, times=1)
    tab.say("only once")
    tab.wait_answer("You said: only once")
    wait_until(lambda: tab.page.evaluate("localStorage['hermes.unsent']") == "{}")
    expect(tab.own.filter(has_text="only once")).to_have_count(1)
    assert lost
    assert sum("only once" in str(request.json()["messages"][-1]) for request in lab.requests) == 1


def test_what_was_not_sent_waits_in_its_conversation(tab: Tab) -> None:
    tab.ask("alpha", "You said: alpha")
    tab.field.fill("not yet")
    tab.page.get_by_role("link", name="New chat").click()
    expect(tab.field).to_have_value("")
    tab.threads.first.click()
    expect(tab.field).to_have_value("not yet")


def test_a_refused_message_says_why_and_can_be_taken_back(visitor: Visitor, tab: Tab) -> None:
    visitor.allow("Failed to load resource")
    body = '{"error": {"message": "The disk is full.", "code": "disk_full"}}'
    tab.page.route("**/web/say", lambda route: route.fulfill(status=507, body=body), times=1)
    tab.say("too much")
    expect(tab.own.locator(".mark")).to_have_text("The disk is full.")
    tab.press("Edit", tab.own)
    expect(tab.field).to_have_value("too much")
    expect(tab.own).to_have_count(0)


def test_retry_asks_again(tab: Tab, lab: LabServer) -> None:
    lab.set_plan([{"text": "First try."}, {"text": "A title"}, {"text": "Second try.", "times": 0}])
    answer = tab.ask("Do it", "First try.")
    tab.press("Try again", answer)
    tab.wait_answer("Second try.")
    expect(tab.own).to_have_count(1)
    expect(tab.answers.filter(has_text="First try.")).to_have_count(0)


def test_an_edited_message_is_asked_in_a_copy(tab: Tab) -> None:
    tab.ask("one", "You said: one")
    tab.ask("two", "You said: two")
    old = tab.session
    tab.own.last.hover()
    tab.press("Edit and ask again", tab.own.last)
    tab.page.get_by_label("Edit your message").fill("three")
    tab.page.get_by_label("Edit your message").press("Enter")
    tab.wait_answer("You said: three")
    expect(tab.own.locator(".bubble")).to_have_text(["one", "three"])
    assert tab.session != old
    tab.page.locator(f"a.thread-link[href='/c/{old}']").click()
    expect(tab.own.locator(".bubble")).to_have_text(["one", "two"])
    expect(tab.page.get_by_text("went on elsewhere")).to_be_visible()


def test_a_branch_goes_on_from_an_earlier_answer(tab: Tab) -> None:
    tab.ask("one", "You said: one")
    tab.ask("two", "You said: two")
    old = tab.session
    tab.press("Branch from here", tab.answers.first)
    expect(tab.own).to_have_count(1)
    tab.ask("other", "You said: other")
    expect(tab.own.locator(".bubble")).to_have_text(["one", "other"])
    assert tab.session != old


def test_only_the_end_of_a_turn_can_be_branched_from(tab: Tab) -> None:
    """A cut between a tool's call and its result would leave a transcript that no provider takes."""
    tab.say('[[say I look.]][[tool terminal {"command": "echo hi"}]][[then]][[say All done.]]')
    tab.wait_answer("All done.")
    expect(tab.answers).to_have_count(2)
    expect(tab.page.get_by_role("button", name="Branch from here")).to_have_count(1)
    tab.press("Branch from here")
    tab.ask("more", "You said: more")


def test_commands_are_offered_and_their_answers_are_notes(tab: Tab) -> None:
    tab.field.press_sequentially("/us")
    offered = tab.page.get_by_role("option")
    expect(offered).to_have_count(1)
    tab.field.press("Tab")
    expect(tab.field).to_have_value("/usage")
    tab.field.press("Enter")
    expect(tab.page.locator(".note")).to_contain_text("Today")


def test_files_are_uploaded_shown_and_can_be_removed(tab: Tab, tmp_path: Path) -> None:
    text, picture = tmp_path / "notes.txt", tmp_path / "dot.png"
    text.write_text("Buy milk.")
    picture.write_bytes(PNG)
    chosen = tab.page.locator("input[type=file]")
    chosen.set_input_files([text, picture])
    expect(tab.page.locator(".attachment")).to_have_count(2)
    expect(tab.page.locator(".attachment progress")).to_have_count(0)
    tab.press("Remove notes.txt")
    expect(tab.page.locator(".attachment")).to_have_count(1)
    chosen.set_input_files([text])
    expect(tab.page.locator(".attachment progress")).to_have_count(0)
    tab.ask("Look", "You said")
    expect(tab.page.locator(".attachment")).to_have_count(0)
    expect(tab.own.locator("a.file")).to_contain_text("notes.txt")
    shown = tab.own.locator("img.picture")
    expect(shown).to_have_attribute("alt", "dot.png")
    assert shown.evaluate("(img) => img.decode().then(() => img.naturalWidth)") == 1


def test_an_edited_message_keeps_its_files(tab: Tab, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("Buy milk.")
    tab.page.locator("input[type=file]").set_input_files([text])
    expect(tab.page.locator(".attachment progress")).to_have_count(0)
    tab.ask("Look", "You said")
    tab.press("Edit and ask again", tab.own)
    tab.page.get_by_label("Edit your message").fill("Look again")
    tab.page.get_by_label("Edit your message").press("Enter")
    tab.wait_answer("Look again")
    expect(tab.own.locator(".bubble")).to_have_text("Look again")
    expect(tab.own.locator("a.file")).to_contain_text("notes.txt")


def test_pictures_can_be_pasted_and_dropped(tab: Tab) -> None:
    give = """([type, target]) => {
      const data = new DataTransfer();
      data.items.add(new File(["hi"], `${type}.txt`, {type: "text/plain"}));
      const init = {bubbles: true, cancelable: true};
      const event = type === "paste" ? new ClipboardEvent(type, {...init, clipboardData: data})
                                     : new DragEvent(type, {...init, dataTransfer: data});
      document.querySelector(target).dispatchEvent(event);
    }"""
    tab.page.evaluate(give, ["paste", "#say"])
    tab.page.evaluate(give, ["drop", ".chat"])
    expect(tab.page.locator(".attachment .file-name")).to_have_text(["paste.txt", "drop.txt"])


@pytest.mark.parametrize("house", [{"web": {"upload_megabytes": 1}}], indirect=True)
def test_a_file_that_is_too_large_is_refused_with_a_sentence(tab: Tab, tmp_path: Path) -> None:
    big = tmp_path / "big.bin"
    big.write_bytes(b"\0" * (1024 * 1024 + 1))
    tab.page.locator("input[type=file]").set_input_files([big])
    expect(tab.page.locator(".attachment .problem")).to_contain_text("at most")


def test_a_file_of_the_agent_is_offered(tab: Tab) -> None:
    write = '[[tool write_file {"path": "list.txt", "content": "milk"}]]'
    tab.ask(f'{write}[[then]][[tool send_file {{"path": "list.txt"}}]][[then]][[say There it is.]]', "There it is.")
    offered = tab.page.locator(".note a.file")
    expect(offered).to_contain_text("list.txt")
    with tab.page.expect_download() as fetched:
        offered.click()
    assert fetched.value.path().read_text() == "milk"


def test_who_reads_further_up_is_not_moved(tab: Tab) -> None:
    lines = "\n\n".join(f"Line {number}" for number in range(60))
    tab.ask(f"[[say {lines}]]", "Line 59")
    tab.page.locator(".scroll").evaluate("(box) => { box.scrollTop = 200; }")
    expect(tab.page.get_by_role("button", name="To the end")).to_be_visible()
    before = tab.page.locator(".scroll").evaluate("(box) => box.scrollTop")
    tab.page.evaluate(SAY_ELSEWHERE, [tab.session, "from elsewhere"])
    more = tab.page.get_by_role("button", name=re.compile(r"\d+ new"))
    expect(more).to_be_visible()
    assert tab.page.locator(".scroll").evaluate("(box) => box.scrollTop") == before
    more.click()
    expect(more).to_be_hidden()
    tab.wait_answer("You said: from elsewhere")


def test_a_formula_loads_the_math_library_and_nothing_else_does(tab: Tab) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.ask("It costs $5 or $6", "It costs $5 or $6")
    assert not [url for url in asked if "katex" in url]
    answer = tab.ask(r"[[say Euler: $e^{i\pi}+1=0$ and \(a^2\)" + "\n\n$$\\int_0^1 x\\,dx$$]]", "Euler")
    expect(answer.locator(".katex")).to_have_count(3)
    expect(answer.locator(".katex-display")).to_have_count(1)
    assert [url for url in asked if url.endswith("katex.min.js")]
    assert not [url for url in asked if url.endswith((".ttf", ".woff"))]


#: Counts how often paragraphs that begin with these words come into an answer that is being written.
COUNT_DRAWINGS = """() => {
  window.drawn = {Alpha: 0, Beta: 0};
  const note = (changes) => {
    for (const {target, addedNodes} of changes) {
      for (const node of target.closest?.(".streaming") ? addedNodes : []) {
        const word = node.textContent.match(/^(Alpha|Beta)/)?.[0];
        if (word) window.drawn[word] += 1;
      }
    }
  };
  new MutationObserver(note).observe(document.body, {childList: true, subtree: true});
}"""
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f0005000"
    "1ff89993d1d0000000049454e44ae426082"
)
#: Says something in the conversation of a session, as another window would.
SAY_ELSEWHERE = """async ([session, text]) => {
  const {thread} = await (await fetch(`/web/threads/${session}`)).json();
  const body = JSON.stringify({conversation: thread.conversation, id: crypto.randomUUID(), text, files: [], mode: ""});
  await fetch("/web/say", {method: "POST", headers: {"Content-Type": "application/json"}, body});
}"""
