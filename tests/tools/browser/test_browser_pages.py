"""The tool `browser` on pages of every kind, in a real Chromium: what it shows, and what its actions do."""

from web_surfing import Site, Surfer

FORM = """<!doctype html><title>Order</title><h1>Order</h1>
<form action="/done" method="post">
<label>Name <input name="name"></label> <label>Note <textarea name="note"></textarea></label>
<label><input type="checkbox" name="gift"> As a gift</label>
<label>Colour <select name="colour"><option value="r">Red</option><option value="b">Blue</option></select></label>
<input type="password" name="secret" value="hush" aria-label="Secret"><button>Send</button></form>
<script>document.querySelector("[name=name]").addEventListener("input", (e) => document.title = e.target.value)</script>
"""


def test_a_form_is_filled_in_and_sent(site: Site, surfer: Surfer) -> None:
    """What is shown is noted as foreign, with its host (G9)."""
    site.pages = {"/": FORM, "/done": "<title>Done</title><p>Thank you.</p>"}
    shown = surfer.open(site.url)
    assert shown.startswith(f"[tab 1, 1 open] Order {site.url}/\n# Order\n")
    assert surfer.foreign.origins == ("the web page 127.0.0.1",)
    assert "[5 textbox: Secret (filled in)]" in shown
    assert "hush" not in shown
    assert (
        surfer.do("type", element=surfer.find("Name", shown), text="Ann") == f"[tab 1, 1 open] Ann {site.url}/\nTyped."
    )
    surfer.do("type", element=surfer.find("Note", shown), text="two\nlines")
    surfer.do("click", element=surfer.find("As a gift", shown))
    shown = surfer.do("select", element=surfer.find("Colour", shown), text="Blue")
    assert '[1 textbox: Name = "Ann"]' in shown
    assert "checkbox: As a gift (on)]" in shown
    assert 'select: Colour = "Blue" of Red, Blue]' in shown
    assert "Thank you." in surfer.do("click", element=surfer.find("Send", shown))
    (sent,) = [one for one in site.asked if one.method == "POST"]
    assert sent.body == b"name=Ann&note=two%0D%0Alines&gift=on&colour=b&secret=hush"


def test_enter_sends_and_back_goes_back(site: Site, surfer: Surfer) -> None:
    site.pages = {"/": "<title>Find</title><form action='/hits'><input name=q></form>", "/hits": "<p>Three hits</p>"}
    shown = surfer.open(site.url)
    assert "Three hits" in surfer.do("type", element=surfer.find("textbox", shown), text="boats\n")
    assert site.paths()[-1] == "/hits?q=boats"
    assert surfer.do("back").startswith("[tab 1, 1 open] Find ")
    surfer.do("type", element=surfer.find("textbox"), text="ships")
    assert "Three hits" in surfer.do("press", text="Enter")
    assert site.paths()[-1] == "/hits?q=ships"
    assert surfer.do("press", text="Nokey").startswith("failed: There is no such key.")


def test_frames_and_shadow_roots_are_shown_and_used(site: Site, surfer: Surfer) -> None:
    """Also a frame of another site, which Chromium keeps in a process of its own."""
    other = site.url.replace("127.0.0.1", "localhost")
    site.pages = {
        "/": """<h1>Outer</h1><iframe src="/inner"></iframe><p>between</p><my-box><b slot="s">slotted</b></my-box>
        <script>customElements.define("my-box", class extends HTMLElement { constructor() { super();
        const root = this.attachShadow({mode: "open"});
        root.innerHTML = `<p>in the shadow <slot name="s"></slot></p><button>Deep</button>`;
        root.querySelector("button").onclick = () => root.querySelector("p").append(" pressed"); }
        })</script>""",
        "/inner": f'<p>first</p><iframe src="{other}/innermost"></iframe>',
        "/innermost": "<button onclick=\"this.after('clicked inside')\">Inside</button>",
    }
    shown = surfer.open(site.url)
    assert shown.index("# Outer") < shown.index("  first") < shown.index("button: Inside") < shown.index("between")
    assert "in the shadow slotted" in shown
    assert "clicked inside" in surfer.do("click", element=surfer.find("Inside", shown))
    assert "pressed" in surfer.do("click", element=surfer.find("Deep", shown))


def test_hidden_things_are_not_shown_and_clickable_ones_are(site: Site, surfer: Surfer) -> None:
    site.pages[
        "/"
    ] = """<p style="display:none">never</p><p style="visibility:hidden">unseen</p><script>var x = "code"</script>
    <div style="display:contents"><p>contents</p></div><div role="button" aria-label="Like" aria-pressed="true"></div>
    <div style="cursor:pointer">Card</div><img alt="a boat"><table><tr><td>one</td><td>two</td></tr></table>
    <button disabled>Off</button><a>anchor</a><a href="/x"><img alt="Home"></a>"""
    shown = surfer.open(site.url)
    for text in (
        "contents",
        "button: Like (on)]",
        "item: Card]",
        "(image: a boat)",
        "one | two |",
        "button: Off (disabled)]",
    ):
        assert text in shown
    assert "link: Home]" in shown
    for text in ("never", "unseen", "code", "link: anchor"):
        assert text not in shown


def test_a_number_is_of_one_element_for_good(site: Site, surfer: Surfer) -> None:
    """What was shown is clicked, or nothing is."""
    site.pages[
        "/"
    ] = """<button id=a onclick="this.remove(); out.prepend(make())">First</button><div id=out></div><script>
    const make = () => { const b = document.createElement("button"); b.textContent = "Second";
    b.onclick = () => out.append("wrong"); return b }</script>"""
    shown = surfer.open(site.url)
    first = surfer.find("First", shown)
    after = surfer.do("click", element=first)
    assert surfer.find("Second", after) != first
    gone = surfer.do("click", element=first)
    assert gone.startswith(f"failed: Element {first} is not on the page")
    assert "wrong" not in surfer.do("snapshot")
    surfer.open(site.url)
    assert surfer.do("click", element=surfer.find("Second", after)).startswith("failed: Element")
    assert surfer.do("click").startswith("failed: Element None")


def test_a_long_page_is_read_on_by_an_offset(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = "".join(f"<p>line {number} of the long page</p>" for number in range(3000))
    shown = surfer.open(site.url)
    assert 9_000 < len(shown) < 11_000
    text, page = shown.partition("\n")[2], shown
    while "go on with snapshot, offset" in page:
        offset = int(page.rpartition("offset ")[2].rstrip("]\n"))
        page = surfer.do("snapshot", offset=offset).partition("\n")[2]
        text = text.rpartition("\n[characters")[0] + "\n" + page
    assert [line for line in text.split("\n") if line] == [f"line {number} of the long page" for number in range(3000)]
    assert "past its end" in surfer.do("snapshot", offset=10_000_000)


def test_an_endless_page_grows_as_it_is_scrolled(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = """<div id=all></div><script>let n = 0; const more = () => { for (let i = 0; i < 20; i++) {
    const p = document.createElement("p"); p.style.height = "50px"; p.textContent = "item " + ++n; all.append(p) } };
    more(); addEventListener("scroll", () => {
    if (scrollY + innerHeight > document.body.scrollHeight - 100) more() })</script>"""
    shown = surfer.open(site.url)
    assert "item 20" in shown
    assert "item 21" not in shown
    shown = surfer.do("scroll")
    assert "item 40" in shown
    assert "item 60" not in shown
    assert "item 60" in surfer.do("scroll") + surfer.do("scroll")
    before, after = (int(surfer.do("scroll", text=way).split("Scrolled to ")[1].split()[0]) for way in ("down", "up"))
    assert after == before - 640


def test_half_a_sign_does_no_harm(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = r"<p id=out></p><script>out.textContent = 'a\ud800b'; document.title = '\udfff'</script>"
    assert "b" in surfer.open(site.url).encode().decode()


def test_a_date_is_typed_as_browsers_take_it(site: Site, surfer: Surfer) -> None:
    """H8: one in another form would empty the field without a word."""
    kinds = {"date": "2026-11-20", "time": "14:30", "datetime-local": "2026-11-20T14:30", "month": "2026-11"}
    site.pages["/"] = "".join(f"<input type={kind} aria-label={kind}>" for kind in (*kinds, "week"))
    surfer.open(site.url)
    for kind, value in kinds.items():
        number = surfer.find(f": {kind}")
        assert f"takes a {kind} like {value}" in surfer.do("type", element=number, text="20.11.2026 2 pm")
        assert "Typed." in surfer.do("type", element=number, text=value)
        assert f'{kind} = "{value}"' in surfer.do("snapshot")
    assert "like 2026-W47" in surfer.do("type", element=surfer.find("week"), text="next week")
