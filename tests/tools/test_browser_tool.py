"""What of the browser needs none: what is missing for one, which addresses are opened, and what is kept of sign-ins."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from hermes_base.errors import ConfigProblem, HermesError, ToolFailure
from hermes_base.setting_table import read_settings
from hermes_base.text.redact import Redactor
from hermes_base.turn.tool_context import ToolContext
from hermes_cli.cmds import browser_cmd
from hermes_constants import STORE_FILE
from hermes_state.sql.store_sql import Store
from tools.browser import launching
from tools.browser.acting import ACTIONS, read_url
from tools.browser.launching import AS_ROOT, find_missing
from tools.browser.sign_ins import SignIn, covers, find_sign_in, keep_sign_in, list_sign_ins, read_cookies, read_site
from tools.browser_tool import ACTIONS as OFFERED
from tools.browser_tool import SCHEMA, cleanup_browser, is_offered, keep_browser
from tools.builtin.file_tools import read_file
from tools.registry import registry


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The tool is not offered then, and a call says how to get it."""
    settings = read_settings({})
    monkeypatch.setenv(AS_ROOT, "1")
    monkeypatch.setattr(launching, "find_program", lambda name: f"/usr/bin/{name}")
    assert is_offered(settings)
    assert not is_offered(read_settings({"browser": {"enabled": False}}))
    for config, words in (
        ({"program": str(tmp_path / "none")}, "which cannot be run"),
        ({"cdp_url": "http://192.168.1.5:9222"}, "names no browser on this machine"),
    ):
        missing = find_missing(read_settings({"browser": config}).browser)
        assert missing is not None
        assert words in missing.what
    monkeypatch.delenv(AS_ROOT, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "runs as root" in str(find_missing(settings.browser))
    monkeypatch.setattr(launching, "find_program", lambda name: None)
    monkeypatch.setattr(launching, "_find_installed", lambda: "")
    assert "No Chromium or Chrome is installed." in str(find_missing(settings.browser))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install playwright" in str(find_missing(settings.browser))


NETSCAPE = """# Netscape HTTP Cookie File
.example.org\tTRUE\t/\tTRUE\t2000000000\tsession\tabc
#HttpOnly_mail.example.org\tFALSE\t/\tTRUE\t0\tid\tdef
other.test\tFALSE\t/\tFALSE\t0\tx\ty
"""


def test_cookies_are_imported_listed_and_forgotten(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cookies.txt"
    file.write_text(NETSCAPE)
    assert browser_cmd.main(["list"]) == 0
    assert "signed in nowhere" in capsys.readouterr().out
    assert browser_cmd.main(["cookies", "import", str(file), "mail.example.org"]) == 0
    assert "Kept for the owner: mail.example.org (2 cookies)." in capsys.readouterr().out
    (kept,) = list_sign_ins(home, "")
    assert [(one["name"], one["httpOnly"]) for one in kept.state["cookies"]] == [("session", False), ("id", True)]
    assert browser_cmd.main(["list"]) == 0
    assert "mail.example.org  (since " in capsys.readouterr().out
    assert browser_cmd.main(["forget", "https://mail.example.org/x"]) == 0
    assert list_sign_ins(home, "") == []
    with pytest.raises(ConfigProblem, match="Nothing is kept of"):
        browser_cmd.main(["forget", "mail.example.org"])
    file.write_text('{"no": "cookies"}')
    with pytest.raises(ConfigProblem, match="no cookies that can be read"):
        browser_cmd.main(["cookies", "import", str(file), "mail.example.org"])
    exported = [
        {"name": "a", "value": "b", "domain": ".example.org", "expirationDate": 2e9, "sameSite": "no_restriction"}
    ]
    (row,) = read_cookies(json.dumps(exported), "example.org")
    assert (row["sameSite"], row["secure"], row["expires"]) == ("None", True, 2e9)


def test_a_sign_in_is_kept_for_somebody_who_is_there(home: Path, tmp_path: Path) -> None:
    """A slip in the id is a sentence, and nothing is kept."""
    file = tmp_path / "cookies.txt"
    file.write_text(NETSCAPE)
    with closing(Store(home / STORE_FILE)) as store:
        ann = store.people.add("Ann", "member", "pretend", "ann").id
    words = ["cookies", "import", str(file), "example.org", "--person"]
    for line in ([*words, f"{ann}x"], ["list", "--person", "ann"], ["forget", "example.org", "--person", "ann"]):
        with pytest.raises(ConfigProblem, match="There is nobody with the id"):
            browser_cmd.main(line)
    assert not (home / "browser-sign-ins").exists()
    assert browser_cmd.main([*words, ann]) == 0
    assert [one.site for one in list_sign_ins(home, ann)] == ["example.org"]


@pytest.mark.parametrize(
    ("url", "words"),
    [("https://example.org", "There is no screen here"), ("ftp://x.example", "Only addresses with http")],
)
def test_a_login_without_a_window_is_a_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str, words: str
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(browser_cmd, "find_missing", lambda settings: None)
    with pytest.raises(HermesError, match=words):
        browser_cmd.main(["login", url])
    assert capsys.readouterr().out == "", "nobody is told to sign in in a window that is not there"
    assert not (home / "browser-sign-ins").exists()


def test_which_hosts_a_site_covers(home: Path) -> None:
    assert covers("example.org", "mail.example.org")
    assert not covers("example.org", "badexample.org")
    assert not covers("mail.example.org", "example.org")
    assert read_site("https://www.Example.org/path") == "example.org"
    for wrong in ("", "../x", "a/b", "https://"):
        with pytest.raises(ConfigProblem):
            read_site(wrong)
    for site in ("example.org", "mail.example.org"):
        keep_sign_in(home, "p/../1", SignIn(site, {"cookies": [], "origins": []}))
    found = find_sign_in(home, "p/../1", "a.mail.example.org")
    assert found is not None
    assert found.site == "mail.example.org"
    assert find_sign_in(home, "", "mail.example.org") is None
    assert [path.name for path in (home / "browser-sign-ins").iterdir()] == ["p____1"]


def test_tools_never_read_what_is_kept(home: Path) -> None:
    """G6, G7"""
    keep_sign_in(home, "", SignIn("example.org", {"cookies": [], "origins": []}))
    path = home / "browser-sign-ins" / "owner" / "example.org.json"
    assert path.exists()
    with pytest.raises(Exception, match="Hermes"):
        read_file({"path": str(path)}, context=ToolContext(home=home, task="t"))


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "chrome://version", "javascript:1", "data:text/html,x", "view-source:http://a", "x y"],
)
def test_only_the_web_is_opened(url: str) -> None:
    with pytest.raises(ToolFailure, match="Only addresses with http"):
        read_url(url)


@pytest.mark.parametrize("url", ["http://h:99999/", "http://h:0/", f"http://{'a' * 254}/"])
def test_a_host_and_a_port_are_ones_that_there_can_be(url: str) -> None:
    with pytest.raises(ToolFailure):
        read_url(url)


def test_no_secret_stands_in_an_address_that_is_opened() -> None:
    """G6: as it is, or as an address writes it."""
    context = ToolContext(task="t", redact=Redactor({"KEY": "sk-canary/0123456789"}))
    for url in ("https://x.test/?k=sk-canary/0123456789", "https://x.test/?k=sk-canary%2F0123456789"):
        for action in ("open", "download"):
            told = json.loads(registry.dispatch("browser", {"action": action, "url": url}, context=context))
            assert "holds a secret of the configuration" in told["error"]


def test_an_address_may_come_without_its_scheme() -> None:
    assert read_url(" example.org/x ") == "https://example.org/x"
    assert read_url("localhost:8000") == "https://localhost:8000"
    assert read_url("http://[::1]:80/") == "http://[::1]:80/"


def test_the_schema_names_what_there_is() -> None:
    """Short, since it is sent with every request."""
    assert tuple(ACTIONS) == OFFERED == tuple(SCHEMA["parameters"]["properties"]["action"]["enum"])
    assert len(json.dumps(SCHEMA)) < 1100
    told = json.loads(registry.dispatch("browser", {"action": "fly"}, context=ToolContext(task="t")))
    assert told["error"].startswith("There is no action 'fly'. There are open, snapshot,")


def test_a_task_ends_its_browser_once() -> None:
    closed: list[str] = []
    keep_browser("a-task", lambda: closed.append("a-task"))
    cleanup_browser("another")
    cleanup_browser("a-task")
    cleanup_browser("a-task")
    assert closed == ["a-task"]
