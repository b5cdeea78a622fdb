"""Sites that a person is signed in to: kept for that person, used for that site alone, and nothing is sent there behind
the person's back once the turn has read foreign text (G9)."""

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web_surfing import CONFIG, Site, SiteHandler, Surfer, open_site, wait_for

from hermes_base.errors import ConfigProblem
from hermes_base.setting_table import read_settings
from hermes_base.text.foreign import ForeignText
from tools.browser.sign_ins import SignIn, keep_sign_in
from tools.browser.signing_in import sign_in

HOST = "127.0.0.1"


def who(handler: SiteHandler) -> str:
    cookies = dict(part.partition("=")[::2] for part in handler.headers.get("cookie", "").split("; "))
    return cookies.get("who", "nobody")


@pytest.fixture
def bank(site: Site) -> Site:
    """Knows people by a cookie, which it changes with every page."""
    count = iter(range(1, 1000))

    def front(handler: SiteHandler) -> None:
        form = "<form method=post action='/pay'><label>Amount <input name=amount></label><button>Pay</button></form>"
        more = {"set_cookie": f"turn={next(count)}; Path=/"} if who(handler) != "nobody" else {}
        handler.answer(f"<title>Bank</title><p>Hello {who(handler)}</p>{form}", **more)

    def enter(handler: SiteHandler) -> None:
        handler.answer("<title>In</title>", set_cookie="who=ann; Path=/; HttpOnly")

    site.pages = {
        "/": front,
        "/enter": "<form method=post action='/entered'><button>Sign in</button></form>",
        "/entered": enter,
        "/pay": lambda handler: handler.answer(f"<p>Paid by {who(handler)}</p>"),
    }
    return site


@pytest.fixture
def kept(home: Path) -> Path:
    cookie = {"name": "who", "value": "ann", "domain": HOST, "path": "/", "expires": -1}
    keep_sign_in(home, "", SignIn(HOST, {"cookies": [cookie], "origins": []}))
    return home


@pytest.fixture
def elsewhere() -> Iterator[Site]:
    with open_site("127.0.0.3") as opened:
        opened.pages["/"] = "<p>elsewhere</p>"
        yield opened


def posts(site: Site) -> list[bytes]:
    return [one.body for one in site.asked if one.method == "POST" and one.path == "/pay"]


def test_a_person_signs_in_by_hand_and_it_is_kept(bank: Site, surfer: Surfer, home: Path) -> None:
    """A sign-in kept: the window of the person, then the model's browser, then a browser that starts anew."""

    async def press(page: Any) -> None:
        await page.click("button")
        await page.wait_for_function("document.title === 'In'")

    state = asyncio.run(sign_in(f"{bank.url}/enter", read_settings(CONFIG), press, visible=False))
    keep_sign_in(home, "", SignIn(HOST, state))
    path = home / "browser-sign-ins" / "owner" / f"{HOST}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(path.parents[1].stat().st_mode) == 0o700
    assert "Hello ann" in surfer.open(bank.url)
    surfer.close()
    again = Surfer(surfer.folder)
    assert "Hello ann" in again.open(bank.url)
    again.close()
    cookies = {one["name"]: one["value"] for one in json.loads(path.read_text())["state"]["cookies"]}
    assert cookies == {"who": "ann", "turn": "2"}, "what the site changed is kept"


def test_an_address_where_nobody_is_leaves_the_window_open(bank: Site) -> None:
    """A slip in the address: the window shows that, and the right one is typed there."""

    async def type_another(page: Any) -> None:
        await page.wait_for_url("chrome-error://**")
        await page.goto(f"{bank.url}/enter")
        await page.click("button")
        await page.wait_for_function("document.title === 'In'")

    state = asyncio.run(sign_in("http://127.0.0.1:1/", read_settings(CONFIG), type_another, visible=False))
    assert [one["value"] for one in state["cookies"]] == ["ann"]


def test_a_browser_that_does_not_start_is_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    settings = read_settings({**CONFIG, "browser": {"program": str(broken)}})

    async def never(page: Any) -> None:
        raise AssertionError

    with pytest.raises(ConfigProblem, match="The window could not be opened"):
        asyncio.run(sign_in("https://example.org", settings, never, visible=False))


def test_a_window_that_is_closed_is_enough(bank: Site) -> None:
    """What was seen before that counts."""

    async def close(page: Any) -> None:
        seen, look = asyncio.Event(), page.context.storage_state

        async def look_and_tell() -> dict[str, Any]:
            state: dict[str, Any] = await look()
            if state["cookies"]:
                seen.set()
            return state

        page.context.storage_state = look_and_tell
        await page.click("button")
        await seen.wait()
        await page.close()
        await asyncio.Event().wait()

    state = asyncio.run(sign_in(f"{bank.url}/enter", read_settings(CONFIG), close, visible=False))
    assert [one["value"] for one in state["cookies"]] == ["ann"]


def test_it_belongs_to_one_person(bank: Site, surfer: Surfer, kept: Path) -> None:
    """G12: and to nobody who works for somebody else."""
    other = Surfer(surfer.folder, person="p-bob")
    assert "Hello nobody" in other.open(bank.url)
    other.close()
    assert "Hello ann" in surfer.open(bank.url)


def test_other_sites_are_clean_and_so_is_what_they_call(
    bank: Site, elsewhere: Site, surfer: Surfer, kept: Path
) -> None:
    """A page elsewhere that calls the site does so as nobody; a page of the site cannot take its tab elsewhere."""
    surfer.config["network"] = {"private": ["127.0.0.0/8"]}  # what is private is told to the browser when it starts
    form = f'<form method=post action="{bank.url}/pay"><input name=amount value=9><button>Win</button></form>'
    elsewhere.pages["/attack"] = f'{form}<iframe src="{bank.url}/"></iframe>'
    bank.pages["/links"] = f'<a href="{elsewhere.url}/">Away</a>'
    bank.pages["/jump"] = lambda handler: handler.answer("", 302, location=elsewhere.url)
    assert "Hello ann" in surfer.open(bank.url)
    shown = surfer.open(elsewhere.url + "/attack")
    assert shown.startswith("[tab 2, 2 open]")
    assert "Hello nobody" in shown
    assert "Paid by nobody" in surfer.click("Win")
    surfer.open(bank.url + "/links")
    told = surfer.click("Away")
    assert "outside of 127.0.0.1. Action open opens it, without being signed in." in told
    assert f"{bank.url}/links" in told
    told = surfer.open(bank.url + "/jump") + surfer.do("tabs")
    assert "outside of 127.0.0.1; the tab was closed" in told


def test_a_post_asks_once_the_turn_has_read_foreign_text(bank: Site, surfer: Surfer, kept: Path) -> None:
    """G9: what is shown is what is sent; a no sends nothing, and neither does the page afterwards."""
    surfer.open(bank.url)
    surfer.do("type", element=surfer.find("Amount"), text="100")
    told = surfer.click("Pay")
    (question,) = surfer.asked
    assert question.kind == "confirmation"
    assert question.text == f"POST {bank.url}/pay\namount=100"
    assert "you are signed in there" in question.reason
    assert "kept from sending something to 127.0.0.1" in told
    assert posts(bank) == []
    surfer.answer = "approve"
    surfer.open(bank.url)
    surfer.do("type", element=surfer.find("Amount"), text="5")
    assert "Paid by ann" in surfer.click("Pay")
    assert posts(bank) == [b"amount=5"]
    assert len(surfer.asked) == 2


def test_what_a_page_sends_between_actions_is_held_back(bank: Site, surfer: Surfer, kept: Path) -> None:
    """Nobody is asked then, since nobody has asked for anything; the next action tells it."""
    bank.pages["/late"] = """<button onclick="fetch('/later').then(() => fetch('/pay', {method: 'POST', body: 'sly'}))
    .catch(() => fetch('/told'))">Later</button>"""

    def later(handler: SiteHandler) -> None:
        bank.hold.wait(20)
        handler.answer("now")

    bank.pages["/later"] = later
    surfer.answer = "approve"
    surfer.open(bank.url + "/late")
    surfer.click("Later")
    bank.hold.set()
    wait_for(lambda: "/told" in bank.paths())
    assert posts(bank) == []
    assert surfer.asked == []
    assert "kept from sending something to 127.0.0.1" in surfer.do("tabs")


def test_an_upload_asks_too(bank: Site, surfer: Surfer, kept: Path) -> None:
    bank.pages["/form"] = "<input type=file aria-label=File>"
    (surfer.folder / "letter.txt").write_text("dear all")
    surfer.open(bank.url + "/form")
    number = surfer.find("File")
    told = surfer.do("upload", element=number, path="letter.txt")
    assert told == "failed: Nothing was uploaded: the person did not agree to it."
    assert surfer.asked[0].text == f"upload {surfer.folder / 'letter.txt'} to 127.0.0.1"
    assert "you are signed in there" in surfer.asked[0].reason
    surfer.answer = "approve"
    assert "letter.txt is in the field." in surfer.do("upload", element=number, path="letter.txt")


def test_also_the_first_page_of_a_conversation_asks(bank: Site, surfer: Surfer, kept: Path) -> None:
    """G9: in a turn that has read nothing else, the page itself is foreign text."""
    surfer.open(bank.url)
    surfer.foreign = ForeignText()
    assert "kept from sending something" in surfer.click("Pay")
    assert len(surfer.asked) == 1
    assert posts(bank) == []


@pytest.mark.parametrize("status", [307, 308])
def test_a_post_that_is_sent_on_is_asked_for_again(
    bank: Site, elsewhere: Site, surfer: Surfer, kept: Path, status: int
) -> None:
    """G4, G9: the yes was for one address; the body goes to no other without another one."""
    surfer.config["network"] = {"private": ["127.0.0.0/8"]}
    answers = iter(["approve", "deny"])
    surfer.ask = lambda _: next(answers)
    bank.pages["/pay"] = lambda handler: handler.answer("", status, location=f"{elsewhere.url}/take")
    surfer.open(bank.url)
    surfer.do("type", element=surfer.find("Amount"), text="7")
    told = surfer.click("Pay")
    first, second = surfer.asked
    assert first.text == f"POST {bank.url}/pay\namount=7"
    assert second.text == f"POST {elsewhere.url}/take\namount=7"
    assert "sends what you agreed to on" in second.reason
    assert "wanted to have it sent on to 127.0.0.3: nobody agreed to it" in told
    assert elsewhere.asked == []


def test_a_post_is_followed_where_a_person_agrees(bank: Site, surfer: Surfer, kept: Path) -> None:
    """Also by script, and twice in a row; a redirect that sends nothing on is no question."""
    surfer.answer = "approve"
    bank.pages["/pay"] = lambda handler: handler.answer("", 307, location="/pay/")
    bank.pages["/pay/"] = lambda handler: handler.answer("", 308, location="/paid")
    bank.pages["/paid"] = lambda handler: handler.answer("", 303, location="/thanks")
    bank.pages["/thanks"] = "<p>thank you</p>"
    bank.pages["/script"] = """<button onclick="fetch('/pay', {method: 'POST', body: 'sly'})
    .then((answer) => answer.text()).then((text) => out.append(text))">Go</button><p id=out></p>"""
    surfer.open(bank.url)
    surfer.do("type", element=surfer.find("Amount"), text="7")
    assert "thank you" in surfer.click("Pay")
    surfer.open(bank.url + "/script")
    surfer.click("Go")
    assert "thank you" in surfer.do("wait", text="thank you")
    paths = [one.text.partition("\n")[0] for one in surfer.asked]
    assert paths == [f"POST {bank.url}{path}" for path in ("/pay", "/pay/", "/paid")] * 2
    assert [one.body for one in bank.asked if one.path == "/paid"] == [b"amount=7", b"sly"]


@pytest.mark.parametrize("form", ["//{}", "///{}", "/\\{}", "http:///{}", "http:\\\\{}"])
def test_a_question_names_the_host_that_a_post_is_sent_on_to(
    bank: Site, elsewhere: Site, surfer: Surfer, kept: Path, form: str
) -> None:
    """G4: a browser finds a host in addresses in which others read a path of the same site."""
    surfer.config["network"] = {"private": ["127.0.0.0/8"]}
    surfer.answer = "approve"
    location = form.format(elsewhere.url.removeprefix("http://") + "/take")
    bank.pages["/pay"] = lambda handler: handler.answer("", 307, location=location)
    surfer.open(bank.url)
    surfer.click("Pay")
    shown = [one.text.partition("\n")[0] for one in surfer.asked]
    assert not elsewhere.asked or f"POST {elsewhere.url}/take" in shown, shown


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("status", [301, 302])
def test_all_but_a_plain_post_is_sent_on_by_every_redirect(
    bank: Site, surfer: Surfer, kept: Path, method: str, status: int
) -> None:
    """G4, G9: of a post these statuses make a reading request, and of nothing else."""
    answers = iter(["approve", "deny"])
    surfer.ask = lambda _: next(answers)
    bank.pages["/draft"] = lambda handler: handler.answer("", status, location="/pay")
    bank.pages["/script"] = f"""<button onclick="fetch('/draft', {{method: '{method}', body: 'sly'}})
    .then(() => out.append('done'), () => out.append('failed'))">Go</button><p id=out></p>"""
    surfer.open(bank.url + "/script")
    surfer.click("Go")
    surfer.do("wait", text="failed")
    assert [one.text.partition("\n")[0] for one in surfer.asked] == [
        f"{method} {bank.url}{path}" for path in ("/draft", "/pay")
    ]
    assert [one.method for one in bank.asked if one.path == "/pay"] == []


def test_a_yes_is_for_one_post(bank: Site, surfer: Surfer, kept: Path) -> None:
    """G4: it is valid once; a page that sends the same again has it asked for again."""
    answers = iter(["approve", "deny", "deny"])
    surfer.ask = lambda _: next(answers)
    bank.pages["/script"] = """<button onclick="for (let i = 0; i < 3; i++) fetch('/pay', {method: 'POST', body: '9'})">
    Go</button>"""
    surfer.open(bank.url + "/script")
    surfer.click("Go")
    assert posts(bank) == [b"9"]
    assert len(surfer.asked) == 2


@pytest.mark.parametrize("answer", ["approve", "deny"])
@pytest.mark.parametrize("where", ["a new tab", "a frame of another site"])
def test_the_first_post_of_a_tab_or_frame_is_asked_for(
    bank: Site, elsewhere: Site, surfer: Surfer, kept: Path, where: str, answer: str
) -> None:
    """G4, G9: where its answer would lead cannot be seen yet; it is held by the browser, if it leads anywhere."""
    surfer.config["network"] = {"private": ["127.0.0.0/8"]}
    surfer.answer = answer
    form = f"<form method=post action='{bank.url}/pay' TARGET><input name=amount value=7><button>Pay</button></form>"
    bank.pages["/tab"] = form.replace("TARGET", "target=_blank")
    bank.pages["/frame"] = f"<iframe src='{elsewhere.url}/form'></iframe>"
    elsewhere.pages["/form"] = form.replace("TARGET", "")
    surfer.open(bank.url + ("/tab" if where == "a new tab" else "/frame"))
    surfer.do("wait", text="Pay")
    surfer.click("Pay")
    assert [one.text for one in surfer.asked] == [f"POST {bank.url}/pay\namount=7"]
    if answer == "approve":
        wait_for(lambda: posts(bank))
    assert posts(bank) == ([b"amount=7"] if answer == "approve" else [])
