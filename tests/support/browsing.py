"""A real browser on the page: Chromium without a window, a fresh profile for each visitor, and a watch on whatever the
page does wrong: errors of its script, errors on its console, breaches of its content policy."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
ARGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000  # a busy machine takes its time, and nothing else waits for it
DESKTOP = {"width": 1280, "height": 800}
#: Notes each breach of the content policy and each dialog that a text managed to open.
WATCH = """
window.breaches = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.breaches.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
});
for (const name of ["alert", "confirm", "prompt"]) {
  window[name] = (text) => window.breaches.push(`${name}: ${text}`);
}
"""


@contextmanager
def open_browser() -> Iterator[Browser]:
    """One Chromium; skips the test where there is none."""
    if not CHROMIUM.exists():
        assert "HERMES_TESTS_NEED_BROWSER" not in os.environ, f"there has to be a Chromium at {CHROMIUM}"
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as driver:
        # With bars, as people see it: they take room away from what they scroll.
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=list(ARGS), ignore_default_args=["--hide-scrollbars"]
        )
        yield browser
        browser.close()


class Tab:
    """One tab of a visitor, with the words of somebody who uses the page."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.add_init_script(WATCH)
        self.problems: list[str] = []
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text} {message.location.get('url', '')}")

    def check(self, *allowed: str) -> None:
        """Nothing went wrong but what this test is about."""
        breaches = self.page.evaluate("window.breaches") if not self.page.is_closed() else []
        left = [problem for problem in self.problems if not any(word in problem for word in allowed)]
        assert not left, left
        assert not breaches, breaches

    # --- doing

    def open(self, address: str) -> "Tab":
        self.page.goto(address)
        expect(self.field).to_be_visible()
        return self

    def say(self, text: str) -> None:
        self.field.fill(text)
        self.field.press("Enter")

    def ask(self, text: str, answer: str) -> Locator:
        """Say something and wait for its finished answer."""
        self.say(text)
        return self.wait_answer(answer)

    def wait_answer(self, text: str) -> Locator:
        """The finished answer with this text; buttons stand only under a finished one."""
        found = self.answers.filter(has_text=text).filter(has=self.page.locator(".under")).last
        expect(found).to_be_visible()
        expect(self.stop).to_be_hidden()
        return found

    def press(self, name: str, within: Locator | None = None) -> None:
        """Press the button of this name."""
        (within or self.page.locator("body")).get_by_role("button", name=name).first.click()

    # --- seeing

    @property
    def field(self) -> Locator:
        return self.page.get_by_label("Your message")

    @property
    def stop(self) -> Locator:
        return self.page.get_by_role("button", name="Stop", exact=True)

    @property
    def answers(self) -> Locator:
        return self.page.locator("article.answer")

    @property
    def own(self) -> Locator:
        return self.page.locator("article.own")

    @property
    def question(self) -> Locator:
        return self.page.locator("section.question")

    @property
    def threads(self) -> Locator:
        return self.page.locator("a.thread-link")

    @property
    def session(self) -> str:
        """The session that the address names."""
        self.page.wait_for_url("**/c/*")
        return self.page.url.rsplit("/", 1)[1]


class Visitor:
    """A browser profile: its tabs share cookies and storage."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": DESKTOP, **options})
        self.tabs: list[Tab] = []
        self.allowed: list[str] = []

    def tab(self) -> Tab:
        self.tabs.append(tab := Tab(self.context))
        return tab

    def allow(self, *words: str) -> None:
        """Messages of the console that belong to what the test does."""
        self.allowed.extend(words)

    def close(self) -> None:
        for tab in self.tabs:
            tab.check(*self.allowed)
        self.context.close()
