"""Dialogs, tabs, waiting and pictures of the tool `browser`, in a real Chromium."""

from web_surfing import Site, SiteHandler, Surfer, wait_for

from hermes_base.image_types import find_image_type


def test_dialogs_are_told_and_answered(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = """<button onclick="alert('hello')">Alert</button><p id=out></p>
    <button onclick="out.textContent = 'sure: ' + confirm('Really?')">Ask</button>
    <button onclick="out.textContent = 'name: ' + prompt('Who?') + ' ' + prompt('And?')">Twice</button>"""
    surfer.open(site.url)
    assert 'Note: The page opened a dialog (alert): "hello". It was accepted.' in surfer.click("Alert")
    told = surfer.click("Ask")
    assert 'The page opened a dialog (confirm): "Really?". Answer it with action dialog' in told
    shown = surfer.do("dialog", accept=True)
    assert "It was accepted." in shown
    assert "sure: true" in shown
    surfer.click("Ask")
    assert "sure: false" in surfer.do("dialog", accept=False)
    surfer.click("Ask")
    other = surfer.do("snapshot")  # whoever does something else has dismissed it
    assert 'Note: The page opened a dialog (confirm): "Really?". It was dismissed.' in other
    assert '"Who?"' in surfer.click("Twice")
    assert '"And?"' in surfer.do("dialog", text="Ann")
    assert "name: Ann Bob" in surfer.do("dialog", text="Bob")
    assert surfer.do("dialog") == "failed: No dialog is open."


def test_a_dialog_that_comes_by_itself_is_told_before_anything_is_done(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = """<button onclick="fetch('/shown').then(() => setTimeout(() => out.append(confirm('Late?'))))">
    Go</button><p id=out></p>"""
    site.pages["/shown"] = "x"
    surfer.open(site.url)
    told = surfer.click("Go")
    told = told if "Late?" in told else surfer.do("wait", text="never to be seen")
    assert '(confirm): "Late?". Answer it' in told
    assert "true" in surfer.do("dialog")


def test_dialogs_without_end_close_their_tab(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = "<button onclick=\"while (true) alert('again')\">Loop</button>"
    site.pages["/other"] = "<p>Fine.</p>"
    surfer.open(site.url)
    told = surfer.click("Loop")
    assert "opened one dialog after the other and was closed" in told + surfer.do("tabs")
    assert "Fine." in surfer.open(site.url + "/other")


def test_popups_are_tabs(site: Site, surfer: Surfer) -> None:
    site.pages = {
        "/": "<title>First</title><button onclick=\"window.open('/two')\">Two</button>",
        "/two": "<title>Second</title><button onclick='window.close()'>Close me</button>",
    }
    surfer.open(site.url)
    shown = surfer.click("Two")
    assert shown.startswith(
        f"[tab 2, 2 open] Second {site.url}/two\nNote: A new tab opened and is in front now: tab 2.\n"
    )
    listed = surfer.do("tabs")
    assert f"tab 1: First {site.url}/\ntab 2: Second {site.url}/two" in listed
    assert surfer.do("tabs", tab=1).startswith("[tab 1, 2 open] First")
    assert surfer.do("tabs", tab=2).startswith("[tab 2, 2 open] Second")
    assert "was closed by its page" in surfer.click("Close me") + surfer.do("tabs")
    assert surfer.do("tabs", tab=7) == "failed: There is no tab 7. Action tabs lists them."
    surfer.do("tabs", tab=1, close=True)
    assert surfer.do("tabs") == "No tab is open."
    assert surfer.do("snapshot").startswith("failed: No page is open.")


def test_no_page_opens_tabs_without_end(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = "<button onclick=\"for (let i = 0; i < 40; i++) window.open('about:blank')\">Many</button>"
    surfer.open(site.url)
    surfer.click("Many")
    assert surfer.do("tabs").count("\ntab ") <= 20


def test_waiting_for_a_text(site: Site, surfer: Surfer) -> None:
    def come(handler: SiteHandler) -> None:
        site.hold.wait(20)
        handler.answer("arrived")

    site.pages["/"] = "<p id=out>…</p><script>fetch('/late').then(r => r.text()).then(t => out.append(t))</script>"
    site.pages["/late"] = come
    surfer.open(site.url)
    surfer.config["browser"] = {"timeout": 1}
    assert '"arrived" did not appear within 1 seconds.' in surfer.do("wait", text="arrived")
    surfer.config["browser"] = {"timeout": 20}
    site.hold.set()
    assert "…arrived" in surfer.do("wait", text="ARRIVED")


def test_a_screenshot_is_an_image(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = "<body style='background: rgb(255, 0, 0)'>"
    surfer.open(site.url)
    data = surfer.picture()
    assert find_image_type(data) == "image/jpeg"
    assert len(data) > 1000


def test_what_covers_an_element_is_told(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = "<button>Under</button><div style='position:fixed;inset:0;background:white'></div>"
    surfer.open(site.url)
    surfer.config["browser"] = {"timeout": 1}
    told = surfer.click("Under")
    assert told.startswith("failed: Something else on the page covers this element.")


def test_a_status_that_is_no_page_is_told(site: Site, surfer: Surfer) -> None:
    shown = surfer.open(site.url + "/nowhere")
    assert "The site answered with status 404." in shown
    assert "There is no such page." in shown


def test_a_site_that_wants_a_name_and_a_password_is_told(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = lambda handler: handler.answer("no", 401, www_authenticate='Basic realm="x"')
    assert "The site asks the browser for a name and a password" in surfer.open(site.url)
    site.pages["/b"] = "<p>fine</p>"
    assert "fine" in surfer.open(site.url + "/b")


def test_tasks_share_nothing(site: Site, surfer: Surfer, tmp_path: object) -> None:
    """A cookie of one task is not sent by another one (G12)."""
    site.pages["/"] = lambda handler: handler.answer("<p>in</p>", set_cookie="who=ann")
    surfer.open(site.url)
    surfer.open(site.url)
    other = Surfer(surfer.folder)
    other.open(site.url)
    other.close()
    assert [one.headers.get("cookie") for one in site.asked if one.path == "/"] == [None, "who=ann", None]


def test_a_tab_behind_opens_none_in_front(site: Site, surfer: Surfer) -> None:
    """What is typed without an element would go there."""
    site.pages["/"] = """<a href='/front' target=_blank>On</a><script>
    setInterval(() => fetch('/now').then((now) => now.ok && window.open('/sly')), 50)</script>"""
    site.pages["/front"] = "<button onclick='open_it()'>Go</button><script>const open_it = () => fetch('/go')</script>"
    site.pages["/sly"] = "<p>sly</p><input aria-label=Sly onkeydown='fetch(`/typed`)' autofocus>"

    def go(handler: SiteHandler) -> None:
        site.pages["/now"] = "yes"
        wait_for(lambda: "/sly" in site.paths())
        del site.pages["/now"]
        handler.answer("done")

    site.pages["/go"] = go
    surfer.open(site.url)
    surfer.click("On")
    wait_for(lambda: f"{site.url}/front" in surfer.do("tabs"))
    surfer.do("tabs", tab=2)
    surfer.click("Go")
    wait_for(lambda: "/sly" in site.paths())
    wait_for(lambda: f"{site.url}/sly" in surfer.do("tabs"))
    assert surfer.do("type", text="my password").startswith("[tab 2, ")
