"""Which browser there is, what is missing for one, and how it is started so that nothing goes past the proxy."""

import importlib.util
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hermes_base.settings import BrowserSettings
from hermes_base.text.addresses import is_local
from tools.browser.lending import lent_browsers
from tools.files.programs import find_program

#: Set by our own tests, which may run as root: Chromium then has no walls of its own.
AS_ROOT = "HERMES_TESTS_BROWSER_AS_ROOT"
REASON_CHARS = 200
PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
#: Where `playwright install chromium` puts one.
_INSTALLED = ("ms-playwright/chromium-*/chrome-linux*/chrome",)
#: Names are looked up by the proxy alone; nothing is sent but through it, and nothing on the browser's own account.
_ARGUMENTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--dns-prefetch-disable",
    "--no-pings",
    "--no-first-run",
    "--disable-gpu",
    "--disable-shared-workers",  # they would send what no page is asked about
)
#: All that the helper and the browser get to know of the environment, beside what is made for them.
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", AS_ROOT)


class MissingBrowser(NamedTuple):
    """Why there is no browser, and how to get one."""

    what: str
    fix: str


def find_missing(settings: BrowserSettings) -> MissingBrowser | None:
    """What keeps the browser from being used here; None: nothing."""
    if importlib.util.find_spec("playwright") is None:
        return MissingBrowser("What drives the browser is not installed.", "Install it with: pip install playwright")
    if settings.cloud_provider:
        lacking = lent_browsers.find_missing(settings.cloud_provider)
        fix = "Put it right, or empty browser.cloud_provider: then a browser of this machine is used."
        return MissingBrowser(f"{lacking[:1].upper()}{lacking[1:]}.", fix) if lacking else None
    if settings.cdp_url:
        if _is_here(settings.cdp_url):
            return None
        what = (
            "browser.cdp_url names no browser on this machine, so its pages could not be kept from private addresses."
        )
        return MissingBrowser(what, "Write it like http://127.0.0.1:9222, or leave it empty.")
    if settings.program and not os.access(settings.program, os.X_OK):
        what = f"browser.program is {settings.program}, which cannot be run."
        return MissingBrowser(what, "Correct it, or leave it empty: then the browser that is installed is used.")
    if not find_browser(settings):
        fix = "Install Chromium or Chrome (apt install chromium, or playwright install chromium)."
        return MissingBrowser("No Chromium or Chrome is installed.", fix)
    if os.geteuid() == 0 and AS_ROOT not in os.environ:
        what = "Hermes runs as root, where Chromium has no walls of its own between a page and this machine."
        return MissingBrowser(what, "Run Hermes as an ordinary user.")
    return None


def find_browser(settings: BrowserSettings) -> str:
    """The program to start; empty: none is there."""
    return settings.program or next(filter(None, map(find_program, PROGRAMS)), None) or _find_installed()


@lru_cache(1)
def _find_installed() -> str:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = sorted(str(path) for pattern in _INSTALLED for path in cache.glob(pattern))
    return found[-1] if found else ""


def make_options(program: str, proxy: dict[str, str], *, visible: bool = False) -> dict[str, Any]:
    """How Playwright starts it. DevTools speak over a pipe, which is Playwright's way unless it is told a port."""
    return {
        "executable_path": program,
        "args": list(_ARGUMENTS),
        "headless": not visible,
        "chromium_sandbox": AS_ROOT not in os.environ,
        "proxy": proxy,
        "handle_sigint": False,
        "handle_sigterm": False,
        "handle_sighup": False,
    }


def explain_start(error: Exception) -> str:
    """The reason that the browser did not start, on one line, without the list of its arguments."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if "error" in line.lower() and "<launching>" not in line and "--" not in line]
    words = " ".join((telling or lines or [type(error).__name__])[0].split())
    return words[:REASON_CHARS]


def make_environment(folder: str, path: list[str]) -> dict[str, str]:
    """What the helper's process gets: its own folder for everything that it writes, and our places of modules."""
    known = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    own = {"HOME": folder, "TMPDIR": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder}
    modules = os.pathsep.join(os.path.abspath(entry) for entry in path if entry)
    return {**known, **own, "PYTHONPATH": modules, "PYTHONUTF8": "1", "PLAYWRIGHT_SKIP_BROWSER_GC": "1"}


def _is_here(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https", "ws", "wss") and is_local(url)
