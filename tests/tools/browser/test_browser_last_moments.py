"""What a page of a site that a person is signed in to sends in its last moment, or has the browser send when it has
gone: it is held like everything else (G4, G9)."""

from pathlib import Path

import pytest
from web_surfing import Site, Surfer, open_site, wait_for

from tools.browser.sign_ins import SignIn, keep_sign_in

HOST = "127.0.0.1"
SLY = "{method: 'POST', body: 'sly', keepalive: true}"
BEACON = "addEventListener('pagehide', () => navigator.sendBeacon('/steal', 'sly'))"
FRAME = "const frame = document.createElement('iframe'); document.body.append(frame);"
WAYS = {
    "a beacon": BEACON,
    "a call that outlives it": f"addEventListener('pagehide', () => fetch('/steal', {SLY}))",
    "a call for later": "fetchLater('/steal', {method: 'POST', body: 'sly'})",
    "a call at once, for later": "fetchLater('/steal', {method: 'POST', body: 'sly', activateAfter: 0})",
    "a tab that closes itself": "open('/closes')",
    "a frame of its own": f"{FRAME} frame.contentWindow.{BEACON}",
    "a frame of another site": f"{FRAME} frame.src = 'ELSEWHERE/frame'",
    "a worker": "new Worker('/worker.js')",
}


@pytest.fixture
def bank(site: Site, home: Path) -> Site:
    cookie = {"name": "who", "value": "ann", "domain": HOST, "path": "/", "expires": -1}
    keep_sign_in(home, "", SignIn(HOST, {"cookies": [cookie], "origins": []}))
    site.pages = {
        "/closes": f"<script>{BEACON}; setTimeout(close, 50)</script>",
        "/worker.js": lambda handler: handler.answer(f"fetch('/steal', {SLY})", kind="text/javascript"),
        "/next": "<p>next</p>",
        "/steal": "",
    }
    return site


def sent(*sites: Site) -> list[tuple[str, str]]:
    return [(one.method, one.path) for site in sites for one in site.asked if one.method != "GET"]


@pytest.mark.parametrize("leaves", ["closed", "gone on", "ended"])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_leaves_with_the_end_of_a_page(bank: Site, surfer: Surfer, way: str, leaves: str) -> None:
    """G4, G9: nobody agrees; the tab is closed, goes on to another page, or its task ends."""
    surfer.config["network"] = {"private": ["127.0.0.0/8"]}
    with open_site("127.0.0.3") as elsewhere:
        elsewhere.pages["/frame"] = f"<p>framed</p><script>{BEACON.replace('/steal', f'{bank.url}/steal')}</script>"
        script = WAYS[way].replace("ELSEWHERE", elsewhere.url)
        bank.pages["/"] = f'<button onclick="{script.replace(chr(34), "&quot;")}">Go</button>'
        surfer.open(bank.url)
        surfer.click("Go")
        if way == "a tab that closes itself":
            wait_for(lambda: "1 open" in surfer.do("tabs") or "tab 2" not in surfer.do("tabs"))
        if leaves == "closed":
            surfer.do("tabs", close=True)
        elif leaves == "ended":
            surfer.close()
        for _ in range(3):  # whoever went before has arrived by then
            assert "next" in surfer.open(bank.url + "/next")
        assert sent(bank, elsewhere) == []


def test_what_was_agreed_to_leaves_and_nothing_in_its_place(bank: Site, surfer: Surfer) -> None:
    """G4: the yes is for these words; a page that sends others at the same time, as it goes, does not have it."""
    other = f"addEventListener('pagehide', () => fetch('/steal', {SLY}))"
    bank.pages["/"] = f"""<form method=post action='/steal'><input name=a value=fine><button>Send</button></form>
    <script>{other}</script>"""
    answers = iter(["approve"])
    surfer.ask = lambda _: next(answers, "deny")
    surfer.open(bank.url)
    surfer.click("Send")
    surfer.do("tabs", close=True)
    surfer.open(bank.url + "/next")
    assert [one.body for one in bank.asked if one.method == "POST"] == [b"a=fine"]
