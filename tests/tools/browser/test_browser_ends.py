"""Pages that hang, tabs and browsers that crash, stops, the end of Hermes: nothing waits for ever, nothing is left."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import read_command
from web_surfing import CONFIG, Site, SiteHandler, Surfer, list_below, need_browser, wait_for

from hermes_base.errors import Interrupted
from tools.browser import client
from tools.browser.client import browser_client
from tools.browser.sign_ins import SignIn, keep_sign_in

#: A Hermes of its own with a page open.
CHILD = """
import sys, time
from pathlib import Path
from web_surfing import Surfer
from tools.browser.client import browser_client
from tools.shell.spawning import keeper
surfer = Surfer(Path(sys.argv[1]))
print(surfer.open(sys.argv[2]).splitlines()[0], browser_client.pid, keeper.pid, keeper.scratch(), flush=True)
if "Go" in surfer.shown:
    surfer.click("Go")
elif "Get" in surfer.shown:
    surfer.do("download", element=surfer.find("Get"))
time.sleep(300)
"""


def hold(handler: SiteHandler) -> None:
    handler.server.hold.wait(60)
    handler.close_connection = True


def test_a_page_that_never_answers_is_given_up(site: Site, surfer: Surfer) -> None:
    site.pages = {"/": "<p>fine</p>", "/hangs": hold}
    surfer.config["browser"] = {"timeout": 1}
    assert surfer.open(site.url + "/hangs") == "failed: The site did not answer within 1 seconds."
    surfer.config["browser"] = CONFIG["browser"]
    assert "fine" in surfer.open(site.url)


def test_a_page_that_never_ends_is_shown_as_far_as_it_came(site: Site, surfer: Surfer) -> None:
    def begin(handler: SiteHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/html")
        handler.end_headers()
        handler.wfile.write(b"<title>Half</title><p>the first half</p>" + b" " * 2000)
        handler.wfile.flush()
        hold(handler)

    site.pages["/"] = begin
    shown = surfer.open(site.url)
    assert "the first half" in shown


def test_a_script_that_does_not_let_go_takes_one_tab(site: Site, surfer: Surfer) -> None:
    site.pages = {"/": "<button onclick='while (true);'>Spin</button>", "/other": "<p>fine</p>"}
    surfer.config["browser"] = {"timeout": 1}
    surfer.open(site.url)
    told = surfer.click("Spin")
    assert "does not let go" in told or "was not done within" in told or "could not be used in time" in told
    surfer.config["browser"] = CONFIG["browser"]
    assert "fine" in surfer.open(site.url + "/other")


def find_renderers() -> list[int]:
    assert browser_client.pid is not None
    words = {pid: read_command(pid) for pid in list_below(browser_client.pid)}
    return [pid for pid, line in words.items() if b"--type=renderer" in line and b"--extension-process" not in line]


def test_a_tab_that_crashes_is_told_and_opened_again(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = "<p>fine</p>"
    surfer.open(site.url)
    for pid in find_renderers():
        os.kill(pid, signal.SIGKILL)
    told = surfer.do("snapshot")
    told += surfer.open(site.url)
    assert "crashed" in told
    assert "fine" in told


def test_a_browser_that_crashes_is_started_again_and_the_tasks_are_told(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = "<p>fine</p>"
    other = Surfer(surfer.folder)
    surfer.open(site.url)
    other.open(site.url)
    assert browser_client.pid is not None
    before = list_below(browser_client.pid)
    (main,) = [p for p in before if b"remote-debugging-pipe" in read_command(p) and _is_main(p)]
    os.kill(main, signal.SIGKILL)
    wait_for(lambda: browser_client.pid is None)
    shown = surfer.open(site.url)
    assert shown.startswith("Note: the browser had ended and was started again; the tabs that were open are gone.\n")
    assert "fine" in shown
    assert other.do("tabs").startswith("Note: the browser had ended")
    assert not other.do("tabs").startswith("Note")
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in before))
    other.close()


def _is_main(pid: int) -> bool:
    return b"--type=" not in read_command(pid) and b"python" not in read_command(pid).split(b"\0")[0]


def test_a_helper_that_is_killed_in_mid_call_is_told(site: Site, surfer: Surfer) -> None:
    site.pages = {"/": "<p>fine</p>", "/hangs": hold}
    surfer.open(site.url)
    assert browser_client.pid is not None
    helper = browser_client.pid
    told: list[str] = []
    calling = threading.Thread(target=lambda: told.append(surfer.open(site.url + "/hangs")))
    calling.start()
    wait_for(lambda: "/hangs" in site.paths())
    os.kill(helper, signal.SIGKILL)
    calling.join(30)
    assert told == [
        "failed: The browser ended unexpectedly, and its tabs with it. Open the page again; the browser starts anew."
    ]
    assert "fine" in surfer.open(site.url)


def test_a_stop_ends_an_action_at_once(site: Site, surfer: Surfer) -> None:
    """C4: and the task goes on with its tabs."""
    site.pages = {"/": "<p>fine</p>", "/hangs": hold}
    surfer.open(site.url)
    stopped: list[float] = []

    def call() -> None:
        with pytest.raises(Interrupted):
            surfer.open(site.url + "/hangs")
        stopped.append(time.monotonic())

    calling = threading.Thread(target=call)
    calling.start()
    wait_for(lambda: "/hangs" in site.paths())
    begun = time.monotonic()
    surfer.cancel.cancel()
    calling.join(10)
    assert stopped[0] - begun < 5
    surfer.cancel = type(surfer.cancel)()
    assert "fine" in surfer.open(site.url)


def test_tabs_end_with_their_task(site: Site, surfer: Surfer) -> None:
    site.pages["/"] = "<p>fine</p>"
    surfer.open(site.url)
    surfer.close()
    assert surfer.do("tabs") == "No tab is open."


def trickle(handler: SiteHandler) -> None:
    """A file of which more and more comes."""
    handler.send_response(200)
    handler.send_header("content-disposition", "attachment; filename=long.bin")
    handler.end_headers()
    while not handler.server.hold.wait(0.05):
        handler.wfile.write(bytes(1 << 12))


DOING = {
    "a page": ("<title>Open</title>", "/"),
    "a page that hangs": (
        "<title>Open</title><button onclick=\"fetch('/begun').then(() => { while (1); })\">Go</button>",
        "/begun",
    ),
    "a question of a page": (
        "<title>Open</title><button onclick=\"fetch('/begun'); confirm('?')\">Go</button>",
        "/begun",
    ),
    "a file that comes": ("<title>Open</title><a href='/file'>Get</a>", "/file"),
    "a page that loads": ("<title>Open</title><button onclick=\"location='/hold'\">Go</button>", "/hold"),
}


@pytest.mark.parametrize(
    ("number", "doing"),
    [*((signal.SIGKILL, doing) for doing in DOING), (signal.SIGTERM, "a page"), (signal.SIGKILL, "a signed-in page")],
)
def test_no_browser_outlives_hermes(site: Site, tmp_path: Path, home: Path, number: signal.Signals, doing: str) -> None:
    """C12: whatever it was doing."""
    need_browser()
    if doing == "a signed-in page":
        keep_sign_in(home, "", SignIn("127.0.0.1", {"cookies": [], "origins": []}))
    page, path = DOING.get(doing, DOING["a page"])
    site.pages = {"/": page, "/begun": "", "/file": trickle, "/hold": hold}
    support = Path(__file__).parents[2] / "support"
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(support), *filter(None, sys.path)]),
        "HERMES_HOME": str(home),
    }
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), site.url], env=env, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline().decode()
        *_, guard, keeper, scratch = line.split()
        assert line.startswith("[tab 1, 1 open] Open ")
        wait_for(lambda: path in site.paths())
        pids = [int(guard), int(keeper), *list_below(int(guard))]
        assert len(pids) > 5
        os.killpg(child.pid, number)
        child.wait(20)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
    assert not Path(scratch).exists()


def test_tabs_that_nobody_uses_are_closed_and_the_browser_leaves(
    site: Site, surfer: Surfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser_client.close()
    monkeypatch.setattr(client, "HELPER", "web_surfing_helper")
    site.pages["/"] = "<p>fine</p>"
    surfer.config["browser"] = {"timeout": 20, "idle_minutes": 0.01}
    surfer.open(site.url)
    wait_for(lambda: browser_client.pid is None)
    surfer.config["browser"] = CONFIG["browser"]
    monkeypatch.undo()
    assert "fine" in surfer.open(site.url)


def test_a_program_that_is_no_browser_is_told(surfer: Surfer, tmp_path: Path) -> None:
    browser_client.close()
    program = tmp_path / "chrome"
    program.write_text("#!/bin/sh\necho 'error: no display' >&2; exit 3\n")
    program.chmod(0o755)
    surfer.config["browser"] = {"program": str(program), "timeout": 20}
    told = surfer.open("http://127.0.0.1:1/")
    assert told.startswith("failed: The browser could not be started: ")
    assert json.dumps(told).count("\\n") == 0


SPINS = "const tell = new XMLHttpRequest(); tell.open('GET', '/spins', false); tell.send(); while (true);"


@pytest.mark.parametrize(
    "page",
    [
        f"<p>calm</p><script>fetch('/go').then(() => {{ {SPINS} }})</script>",  # when nobody looks
        f"<p>calm</p><script>addEventListener('load', () => {{ {SPINS} }})</script>",
        f"<p>calm</p><script>addEventListener('beforeunload', () => {{ {SPINS} }})</script>",
    ],
)
def test_the_page_after_one_that_hangs_opens(site: Site, surfer: Surfer, page: str) -> None:
    def go(handler: SiteHandler) -> None:
        site.hold.wait(60)
        handler.answer("now")

    site.pages = {"/": page, "/go": go, "/other": "<p>fine</p>", "/spins": ""}
    surfer.config["browser"] = {"timeout": 5}
    surfer.open(site.url)
    if "/go" in page:
        site.hold.set()
    if "beforeunload" not in page:
        wait_for(lambda: "/spins" in site.paths())
    assert "fine" in surfer.open(site.url + "/other")


def test_a_stop_does_not_wait_until_the_browser_of_another_task_has_started(surfer: Surfer, tmp_path: Path) -> None:
    """C4: here it never has."""
    browser_client.close()
    begun = tmp_path / "begun"
    slow = tmp_path / "slow-browser"
    slow.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 600\n")
    slow.chmod(0o755)
    other = Surfer(surfer.folder)
    both = (surfer, other)
    ended: list[Surfer] = []

    def call(one: Surfer) -> None:
        one.config["browser"] = {"program": str(slow)}
        with pytest.raises(Interrupted):
            one.open("http://127.0.0.1:1/")
        ended.append(one)

    calls = [threading.Thread(target=call, args=(one,)) for one in both]
    calls[0].start()
    wait_for(begun.exists)
    calls[1].start()
    other.cancel.cancel()
    calls[1].join(20)
    assert ended == [other]
    surfer.cancel.cancel()
    calls[0].join(20)
    assert ended == [other, surfer]
