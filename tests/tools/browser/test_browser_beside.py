"""A browser that somebody else started (`browser.cdp_url`): its pages go through the proxy all the same (G8)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from web_surfing import CHROMIUM, Site, Surfer, need_browser, open_site, wait_for


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of the DevTools of a browser of its own."""
    need_browser()
    profile = tmp_path / "profile"
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    with subprocess.Popen([CHROMIUM, *words, "about:blank"], stderr=subprocess.DEVNULL) as process:
        told = profile / "DevToolsActivePort"
        try:
            wait_for(lambda: told.exists() and told.read_text().count("\n") >= 1)
            yield f"http://127.0.0.1:{told.read_text().splitlines()[0]}"
        finally:
            process.terminate()


def test_pages_go_through_the_proxy(site: Site, surfer: Surfer, address: str) -> None:
    site.pages = {"/": "<button onclick=\"this.after('pressed')\">Press</button>"}
    surfer.config["browser"] = {"timeout": 20, "cdp_url": address}
    surfer.open(site.url)
    assert "pressed" in surfer.click("Press")
    with open_site("127.0.0.2") as forbidden:
        site.pages["/frame"] = f'<iframe src="{forbidden.url}"></iframe><img src="{forbidden.url}/x.png">'
        assert "it leads to a private address" in surfer.open(site.url + "/frame")
        assert "it leads to a private address" in surfer.open(forbidden.url)
        assert "which is never called" in surfer.open("http://169.254.169.254/")
        assert forbidden.asked == []
