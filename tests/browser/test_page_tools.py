"""What tools did, as people read it on the page: output as text, a patch as a diff, a list as a list, no raw JSON."""

import json

from browsing import Tab
from playwright.sync_api import Locator, expect
from web_house import WebHouse


def run(tab: Tab, name: str, **args: object) -> Locator:
    """The line of a tool that has run, unfolded; as it is after a reload."""
    tab.say(f"[[tool {name} {json.dumps(args)}]]")
    tool = tab.page.locator("details.tool").last
    expect(tab.page.locator("article.answer .under").last).to_be_visible()
    expect(tab.stop).to_be_hidden()
    tab.page.reload()
    tool.locator("summary").click()
    return tool


def test_the_output_of_a_command_is_text_with_its_exit_code(tab: Tab) -> None:
    tool = run(tab, "terminal", command="printf 'one\\n  two\\n'; exit 3")
    expect(tool.locator("summary .tool-preview")).to_have_text("printf 'one\\n  two\\n'; exit 3")
    expect(tool.locator("pre.output")).to_have_text("one\n  two\n", use_inner_text=True)
    expect(tool.locator(".part-label")).to_have_text("exit code 3")
    expect(tool).not_to_contain_text('"exit_code"')


def test_a_patch_is_a_coloured_diff(tab: Tab, house: WebHouse) -> None:
    (house.home / "workspace").mkdir(exist_ok=True)
    (house.home / "workspace" / "a.py").write_text("x = 1\n")
    tool = run(tab, "patch", edits=[{"path": "a.py", "old": "x = 1", "new": "x = 2\ny = 3"}])
    expect(tool.locator("summary .tool-preview")).to_have_text("a.py")
    expect(tool.locator(".diff-line.taken")).to_have_text(["-x = 1\n"], use_inner_text=False)
    expect(tool.locator(".diff-line.added")).to_have_count(2)
    colour = "(line) => getComputedStyle(line).color"
    taken, added = (tool.locator(f".diff-line.{kind}").first.evaluate(colour) for kind in ("taken", "added"))
    assert taken != added
    expect(tool.locator("pre.text")).to_contain_text("changed a.py (+2 -1)")


def test_a_list_is_a_list_and_a_file_is_code(tab: Tab, house: WebHouse) -> None:
    tool = run(tab, "todo", action="add", items=[{"text": "paint", "status": "pending"}, {"text": "sail"}])
    expect(tool.locator(".fold-body.list").last.locator("li")).to_have_text(["☐ paint", "☐ sail"])
    (house.home / "workspace" / "a.py").write_text("if x:\n    y()\n")
    tool = run(tab, "read_file", path="a.py")
    expect(tool.locator("pre.code").last).to_contain_text("2|     y()")


def test_what_no_table_knows_is_pretty_json_and_folded(tab: Tab) -> None:
    tab.say('[[tool terminal {"command": "true", "odd": {"deep": [{"er": 1}]}}]]')
    tool = tab.page.locator("details.tool").last
    expect(tool).to_be_visible()
    assert tool.get_attribute("open") is None
