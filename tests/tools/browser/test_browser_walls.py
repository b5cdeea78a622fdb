"""G8: whatever a page tries, nothing reaches what may not be called: it goes through the proxy or nowhere."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import list_links, read_command
from web_surfing import Site, SiteHandler, Surfer, list_below, open_site

from tools.browser.client import browser_client
from tools.shell.spawning import keeper

METADATA = "http://169.254.169.254/latest/meta-data/"


@pytest.fixture
def forbidden() -> Iterator[Site]:
    """A service of this machine that no setting allows."""
    with open_site("127.0.0.2") as opened:
        opened.pages["/"] = lambda handler: handler.answer(
            "<p>secret of the house</p>", access_control_allow_origin="*"
        )
        yield opened


def run_script(site: Site, surfer: Surfer, script: str) -> str:
    """What a script of the page comes to: it ends by calling `tell`."""
    site.pages["/"] = f"""<p id=out></p><script>const tell = (text) => {{ out.textContent = "told: " + text }};
    (async () => {{ {script} }})().catch((error) => tell("error " + error))</script>"""
    surfer.open(site.url)
    return surfer.do("wait", text="told: ")


def test_addresses_are_judged_when_they_are_opened(surfer: Surfer, forbidden: Site) -> None:
    assert "which is never called" in surfer.open(METADATA)
    assert "which is never called" in surfer.open(METADATA.replace("http:", "https:"))
    assert "which is never called" in surfer.open("http://2852039166/")
    for url in (
        forbidden.url,
        forbidden.url.replace("127.0.0.2", "2130706434"),
        forbidden.url.replace("http:", "https:"),
    ):
        told = surfer.open(url)
        assert told.startswith("failed: ")
        assert "it leads to a private address" in told
    assert forbidden.asked == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_leads_nowhere_else(site: Site, surfer: Surfer, forbidden: Site, status: int) -> None:
    site.pages["/private"] = lambda handler: handler.answer("", status, location=forbidden.url)
    site.pages["/cloud"] = lambda handler: handler.answer("", status, location=METADATA)
    assert "it leads to a private address" in surfer.open(site.url + "/private")
    assert "which is never called" in surfer.open(site.url + "/cloud")
    assert forbidden.asked == []


SCRIPTS = {
    "fetch": "tell((await fetch('URL')).status)",
    "fetch by redirect": "tell((await fetch('/away')).status)",
    "fetch with a body": "tell((await fetch('URL', {method: 'POST', body: 'x'.repeat(100000)})).status)",
    "image": "const i = new Image(); i.onload = () => tell('image'); i.onerror = () => tell('none'); i.src = 'URL'",
    "script": """const s = document.createElement('script'); s.onerror = () => tell('none'); s.src = 'URL';
        document.body.append(s)""",
    "worker": """const w = new Worker(URL.createObjectURL(new Blob(["fetch('URL').then((r) => postMessage(r.status), "
        + "() => postMessage('none'))"]))); w.onmessage = (m) => tell(m.data)""".replace("'URL'", "'ADDRESS'"),
    "beacon": "navigator.sendBeacon('URL', 'x'); await fetch('/after'); tell('sent')",
    "websocket": """const w = new WebSocket('URL'.replace('http', 'ws')); w.onopen = () => tell('open');
        w.onerror = () => tell('none')""",
    "event source": "const e = new EventSource('URL'); e.onerror = () => tell('none'); e.onopen = () => tell('came')",
    "service worker": """await navigator.serviceWorker.register('/worker.js'); await navigator.serviceWorker.ready;
        const c = new MessageChannel(); c.port1.onmessage = (m) => tell(m.data);
        (await navigator.serviceWorker.ready).active.postMessage('go', [c.port2])""",
}


@pytest.mark.parametrize("way", SCRIPTS)
def test_no_script_gets_there(site: Site, surfer: Surfer, forbidden: Site, way: str) -> None:
    site.pages["/away"] = lambda handler: handler.answer("", 302, location=forbidden.url)
    site.pages["/after"] = "x"
    asks = f"""self.onmessage = (m) => fetch("{forbidden.url}/").then((r) => m.ports[0].postMessage(r.status),
    () => m.ports[0].postMessage("none"))"""
    site.pages["/worker.js"] = lambda handler: handler.answer(asks, kind="text/javascript")
    script = SCRIPTS[way].replace("ADDRESS", forbidden.url).replace("'URL'", f"'{forbidden.url}'")
    shown = run_script(site, surfer, script)
    assert any(end in shown for end in ("told: none", "told: 403", "told: error", "told: sent"))
    assert forbidden.asked == []


def test_no_frame_gets_there(site: Site, surfer: Surfer, forbidden: Site) -> None:
    """It shows the proxy's word in its place."""
    site.pages["/"] = f'<iframe src="{forbidden.url}"></iframe><iframe src="{METADATA}"></iframe><p>below</p>'
    shown = surfer.open(site.url)
    assert "it leads to a private address" in shown
    assert "which is never called" in shown
    assert "secret of the house" not in shown
    assert forbidden.asked == []


def test_the_same_ways_work_where_they_are_allowed(site: Site, surfer: Surfer) -> None:
    """The tests above could not fail if nothing worked at all."""
    for way in ("fetch", "image", "service worker"):
        site.pages["/ok"] = lambda handler: handler.answer("fine", kind="image/svg+xml")
        asks = f"""self.onmessage = (m) => fetch("{site.url}/ok").then((r) => m.ports[0].postMessage(r.status))"""
        site.pages["/worker.js"] = lambda handler, asks=asks: handler.answer(asks, kind="text/javascript")
        shown = run_script(site, surfer, SCRIPTS[way].replace("'URL'", f"'{site.url}/ok'"))
        assert "told: 200" in shown or "told: none" in shown
        assert site.paths()[-1] == "/ok"
        site.asked.clear()


def test_a_websocket_goes_through_the_proxy(site: Site, surfer: Surfer) -> None:
    def shake_hands(handler: SiteHandler) -> None:
        import base64
        import hashlib

        key = handler.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        handler.send_response(101)
        handler.send_header("upgrade", "websocket")
        handler.send_header("connection", "Upgrade")
        handler.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        handler.end_headers()
        handler.close_connection = True

    site.pages["/socket"] = shake_hands
    script = f"const w = new WebSocket('{site.url.replace('http', 'ws')}/socket'); w.onopen = () => tell('open')"
    assert "told: open" in run_script(site, surfer, script)


def test_no_datagram_leaves_the_browser(site: Site, surfer: Surfer) -> None:
    """Neither WebRTC nor WebTransport nor QUIC, to an address that the settings allow."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(0.2)
        over = threading.Event()

        def listen() -> None:
            while not over.is_set():
                try:
                    heard.append(listener.recv(2000))
                except TimeoutError:
                    continue

        thread = threading.Thread(target=listen)
        thread.start()
        port = listener.getsockname()[1]
        shown = run_script(
            site,
            surfer,
            f"""const pc = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{port}'}}]}}); const found = [];
            pc.onicecandidate = (e) => e.candidate && found.push(e.candidate.candidate); pc.createDataChannel('x');
            await pc.setLocalDescription(await pc.createOffer());
            await new Promise((done) => {{ setTimeout(done, 3000);
            pc.onicegatheringstatechange = () => pc.iceGatheringState === 'complete' && done(); }});
            try {{ await new WebTransport('https://127.0.0.1:{port}/').ready }}
            catch (error) {{ found.push('no transport') }}
            tell(found.join(' '))""",
        )
        over.set()
        thread.join()
    assert "told: no transport" in shown
    assert heard == []


def test_devtools_speak_over_a_pipe(site: Site, surfer: Surfer) -> None:
    """No process of the browser listens, but the proxy on loopback."""
    site.pages["/"] = "<p>x</p>"
    surfer.open(site.url)
    assert browser_client.pid is not None
    pids = list_below(browser_client.pid)
    words = [read_command(pid) for pid in pids]
    assert any(b"--remote-debugging-pipe" in line for line in words)
    assert not any(b"--remote-debugging-port" in line for line in words)
    inodes = {link[8:-1] for pid in pids for link in list_links(pid) if link.startswith("socket:[")}
    listening = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:] if row.split()[3] == "0A"]
    ours = [row[1] for row in listening if row[9] in inodes]
    assert len(ours) == 1
    assert ours[0].startswith("0100007F:")
    assert keeper.pid is not None


def test_files_of_the_machine_are_out_of_reach(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = """<a href="file:///etc/passwd">File</a><iframe src="file:///etc/passwd"></iframe>
    <button onclick="location = 'file:///etc/passwd'">Go</button><button onclick="window.open('chrome://version')">Chrome</button>"""
    surfer.open(site.url)
    for label in ("File", "Go", "Chrome"):
        shown = surfer.click(label)
        assert shown.startswith(f"[tab 1, 1 open]  {site.url}/\n")
        assert "root:" not in shown
    site.pages["/away"] = lambda handler: handler.answer("", 302, location="file:///etc/passwd")
    assert "an address that is not of the web" in surfer.open(site.url + "/away")
