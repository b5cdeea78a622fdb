"""What a model, a title, a file or a tool writes cannot run, load or break out of the page; and the page is for
everybody: small screens, dark rooms, screen readers, slow lines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browsing import Tab, Visitor
from playwright.sync_api import Page, expect
from web_house import WebHouse

from hermes_lab.server import LabServer

AXE = Path(__file__).with_name("axe.min.js").read_text()
ASKING = pytest.mark.parametrize("house", [{"approvals": {"mode": "ask"}}], indirect=True)
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}

ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "[click](javascript:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "![picture](https://evil.example/track.png)",
    '![x](x"onerror="alert(1))',
    "<a href='javascript:alert(1)' onclick='alert(1)'>x</a>",
    "<style>body{display:none}</style>",
    "<form action='https://evil.example'><button>x</button></form>",
    "<b onmouseover=alert(1)>x</b>",
    "```<img src=x onerror=alert(1)>\ncode\n```",
    r"$\href{javascript:alert(1)}{x}$ $\includegraphics{https://evil.example/x.png}$ $\htmlData{x=y}{z}$",
    "<https://evil.example/auto>",
    "[ref]: javascript:alert(1)\n\n[ref]",
)
#: What may not stand in the page, whatever was written.
HARM = """() => {
  const root = document.getElementById("timeline");
  const found = [...root.querySelectorAll("script, iframe, style, form:not(.row), object, embed, link, base, img")];
  for (const element of root.querySelectorAll("*")) {
    for (const {name, value} of element.attributes) {
      if (name.startsWith("on") || /^\\s*(javascript|data|vbscript):/i.test(value)) found.push(element);
    }
  }
  return found.map((element) => element.outerHTML.slice(0, 200));
}"""


@pytest.mark.parametrize("streamed", [True, False])
def test_what_a_model_writes_cannot_run(tab: Tab, lab: LabServer, streamed: bool) -> None:
    """G6, G11: no script, no remote load, no navigation by itself; links open apart and tell nothing."""
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    step: dict[str, Any] = {"text": "\n\n".join((*ATTACKS, "the end")), "times": 0}
    lab.set_plan([step | {"chunks": 60, "stall_between": 0.01} if streamed else step])
    answer = tab.ask("go", "the end")
    assert tab.page.evaluate(HARM) == []
    expect(answer).to_contain_text("<script>alert(1)</script>")
    for link in answer.get_by_role("link").all():
        assert "noopener" in (link.get_attribute("rel") or "")
        assert link.get_attribute("target") == "_blank"
    assert not [url for url in asked if "evil.example" in url]
    expect(answer.get_by_role("link", name="Picture: picture")).to_be_visible()


def test_titles_and_messages_are_text(tab: Tab) -> None:
    attack = "<img src=x onerror=alert(1)>"
    tab.ask(f"{attack} hello", "hello")
    tab.page.evaluate(RENAME, [tab.session, attack])
    tab.page.reload()
    expect(tab.threads.first).to_have_text(attack)
    expect(tab.page.get_by_role("heading", level=1)).to_have_text(attack)
    expect(tab.own.locator(".bubble")).to_have_text(f"{attack} hello")
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("onerror")
    expect(tab.page.locator(".found").first).to_contain_text("onerror")
    assert tab.page.evaluate("document.querySelectorAll('#side img, #main img').length") == 0


def test_file_names_and_tool_output_are_text(tab: Tab, tmp_path: Path) -> None:
    attack = "<img src=x onerror=alert(1)>"
    named = tmp_path / f"{attack}.txt"
    named.write_text(attack)
    tab.page.locator("input[type=file]").set_input_files([named])
    expect(tab.page.locator(".attachment .file-name")).to_contain_text("onerror")
    tab.ask(f'[[tool terminal {{"command": "echo \'{attack}\'"}}]]', "terminal returned")
    tool = tab.page.locator("details.tool").first
    tool.locator("summary").click()
    expect(tool.get_by_label("Result")).to_contain_text(attack)
    assert tab.page.evaluate(HARM) == []


def test_an_uploaded_page_does_not_run_here(tab: Tab, tmp_path: Path) -> None:
    """G11: what was uploaded comes back as a download, or without any right to run."""
    for name in ("evil.html", "evil.svg"):
        file = tmp_path / name
        file.write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(document.cookie)</script></svg>")
        tab.page.locator("input[type=file]").set_input_files([file])
        expect(tab.page.locator(".attachment progress")).to_have_count(0)
    tab.ask("look", "You said")
    hrefs = tab.page.evaluate("[...document.querySelectorAll('.own a')].map((link) => link.href)")
    assert len(hrefs) == 2
    for href in hrefs:
        answer = tab.page.request.get(href)
        policy = answer.headers.get("content-security-policy", "")
        assert "attachment" in answer.headers.get("content-disposition", "") or "sandbox" in policy


# --- sizes


def test_the_page_is_small(visitor: Visitor, house: WebHouse) -> None:
    """Under 150 KB over the wire without a formula."""
    tab = visitor.tab()
    session = tab.page.context.new_cdp_session(tab.page)
    session.send("Network.enable")
    sizes: list[float] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    tab.open(house.address)
    expect(tab.page.locator(".threads")).to_contain_text("No conversations")
    tab.ask("hello **you**", "hello")
    assert 20_000 < sum(sizes) < 150_000, sum(sizes)


@ASKING
def test_a_phone_shows_everything_without_scrolling_sideways(visit: Callable[..., Visitor], house: WebHouse) -> None:
    tab = visit(**PHONE).tab().open(house.address)
    wide = "| " + " | ".join("column" for _ in range(14)) + " |"
    text = f"{wide}\n{wide.replace('column', '---')}\n{wide}\n\n```\n{'long ' * 60}\n```\n\n{'x' * 200}"
    tab.ask(f"[[say {text}]]", "column")
    check_phone(tab.page)
    tab.say('[[tool terminal {"command": "touch a-very-long-file-name-that-goes-on-and-on-for-ever.txt"}]]')
    expect(tab.question).to_be_visible()
    check_phone(tab.page)
    box = tab.question.get_by_role("button", name="No").bounding_box()
    assert box
    assert box["height"] >= 44
    tab.press("No", tab.question)
    side = tab.page.get_by_role("navigation")
    expect(side).to_be_hidden()
    tab.press("Open the list")
    expect(side).to_be_visible()
    tab.page.keyboard.press("Escape")
    expect(side).to_be_hidden()
    for path in ("/status", "/settings", "/setup"):
        tab.page.goto(f"{house.url}{path}")
        expect(tab.page.locator(".card").first).to_be_visible()
        check_phone(tab.page)


def check_phone(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = page.evaluate(
        "[...document.querySelectorAll('input, textarea, select')].filter((field) => field.checkVisibility())"
        ".filter((field) => field.type !== 'radio' && field.type !== 'checkbox')"
        ".filter((field) => parseFloat(getComputedStyle(field).fontSize) < 16).map((field) => field.outerHTML)"
    )
    assert small == []  # a phone zooms in on smaller ones


def test_dark_rooms_get_a_dark_page_and_the_switch_holds(visit: Callable[..., Visitor], house: WebHouse) -> None:
    tab = visit(color_scheme="dark").tab().open(house.address)
    assert brightness(tab.page) < 60
    tab.press("Change the colours")
    assert brightness(tab.page) > 200
    tab.page.reload()
    expect(tab.field).to_be_visible()
    assert brightness(tab.page) > 200


def brightness(page: Page) -> float:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")[:3]) / 3


# --- screen readers


@pytest.mark.parametrize("scheme", ["light", "dark"])
@ASKING
def test_axe_finds_nothing_serious(visit: Callable[..., Visitor], house: WebHouse, scheme: str) -> None:
    tab = visit(color_scheme=scheme).tab().open(house.address)
    expect(tab.page.get_by_text("What can I do for you?")).to_be_visible()
    check_axe(tab.page, "empty")
    tab.ask(f"[[reason hm]][[say {FULL}]]", "Head")
    tab.say('[[tool terminal {"command": "touch x.txt"}]]')
    expect(tab.question).to_be_visible()
    check_axe(tab.page, "with a question")
    tab.press("No", tab.question)
    tab.wait_answer("terminal returned")
    tab.page.locator("details.tool summary").click()
    check_axe(tab.page, "full")
    for path in ("/status", "/settings", "/setup"):
        tab.page.goto(f"{house.url}{path}")
        expect(tab.page.locator(".card").first).to_be_visible()
        check_axe(tab.page, path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_is_for_everybody(
    home: Path, lab: LabServer, browser: Any, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """G11: with a password set, a page without a cookie is a login; axe finds nothing serious there."""
    monkeypatch.setenv("HERMES_WEB_PASSWORD", "open sesame")
    with WebHouse(home, lab.base_url) as house:
        visitor = Visitor(browser, color_scheme=scheme)
        visitor.allow("401", "403")
        tab = visitor.tab()
        tab.page.goto(house.url)
        check_axe(tab.page, "login")
        tab.page.get_by_label("Password").fill("wrong")
        tab.page.keyboard.press("Enter")
        expect(tab.page.get_by_role("alert")).to_contain_text("not the password")
        tab.page.get_by_label("Password").fill("open sesame")
        tab.page.keyboard.press("Enter")
        expect(tab.field).to_be_visible()
        tab.ask("hello", "You said: hello")
        visitor.close()


FULL = "# Head\n\ntext `code` [link](https://example.org)\n\n```py\nx = 1\n```\n\n|a|\n|-|\n|1|"


def check_axe(page: Page, where: str) -> None:
    """No finding that axe calls serious or critical."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations)")
    bad = [
        (rule["id"], [node["html"][:160] + " | " + node["failureSummary"][:300] for node in rule["nodes"][:3]])
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]
    assert not bad, (where, bad)


def test_finished_answers_are_announced_and_pieces_are_not(tab: Tab) -> None:
    """Screen readers hear the answer once, when it is there."""
    tab.page.evaluate(
        """() => {
          window.heard = [];
          const place = document.getElementById("announcer");
          const note = () => place.textContent && window.heard.push(place.textContent);
          new MutationObserver(note).observe(place, {childList: true});
        }"""
    )
    tab.ask("[[pause 0.05]][[chunks 12]][[say one two three four five six]]", "five six")
    expect(tab.page.locator("#announcer")).to_have_text("Hermes: one two three four five six")
    assert tab.page.evaluate("heard") == ["Hermes: one two three four five six"]
    assert tab.page.evaluate("document.querySelectorAll('#timeline [aria-live]').length") == 0


RENAME = """async ([session, title]) => {
  const body = JSON.stringify({title});
  await fetch(`/web/threads/${session}`, {method: "PATCH", headers: {"Content-Type": "application/json"}, body});
}"""
