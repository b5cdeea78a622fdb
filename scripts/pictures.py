"""Makes docs/pictures/chat.png and status.png: the real page in Chromium, with the lab server as the model.

Run it with the project's Python after a change of the page's looks; it needs Debian's chromium. What the status page
shows of the days before is made up, since a fresh home has none.
"""

import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from hermes_constants import WEB_TOKEN_FILE
from hermes_lab.server import LabServer

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
CHROMIUM = "/usr/bin/chromium"
SIZE = {"width": 1280, "height": 800}
SECONDS = 20.0
DAYS = 14
NOTES = {
    "boat.md": "The boat needs new varnish before May.\n",
    "garden.md": "Plant beans.\n",
    "trips.md": "In June with the boat to the islands.\n",
}
SHORT_TALKS = (
    ("Draft a packing list for two days of rain", "Boots, a good coat, dry socks, a book."),
    ("Why does the build take nine minutes?", "Six of them are one test. Shall I show it?"),
    ("Translate the letter from the landlord", "Here it is, in plain English."),
)
QUESTION = "Which notes mention the boat, and how much varnish do I need for 9 m²?"
ANSWER = r"""Two notes mention it:

| note | what it says |
| --- | --- |
| `boat.md` | new varnish **before May** |
| `trips.md` | in June to the islands |

One litre covers about 12 m², so two coats need

$$V = \frac{2 \cdot 9\ \mathrm{m}^2}{12\ \mathrm{m}^2/\mathrm{l}} = 1.5\ \mathrm{l}$$

I would buy two tins of one litre. To have it on your list:

```sh
echo "varnish, 2 x 1 l" >> shopping.md
```
"""
PLAN = [
    *({"text": answer, "contains": asked} for asked, answer in SHORT_TALKS),
    {
        "reasoning": "The notes are in this folder.",
        "tool_calls": [{"name": "terminal", "arguments": {"command": "grep -i boat *.md"}}],
        "contains": "varnish do I need",
    },
    {"text": ANSWER, "contains": "varnish do I need"},
]


@contextmanager
def run_gateway(home: Path, model_address: str) -> Iterator[str]:
    """A gateway of its own; the address of its page."""
    notes = home / "workspace"
    notes.mkdir(parents=True)
    for name, text in NOTES.items():
        (notes / name).write_text(text)
    model = f"model:\n  base_url: {model_address}\n  default: lab\n"
    (home / "config.yaml").write_text(f"{model}approvals:\n  mode: auto\ntitles:\n  enabled: false\nweb:\n  port: 0\n")
    variables = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_TOKEN"))}
    command = [str(Path(sys.executable).with_name("hermes")), "gateway", "run"]
    process = subprocess.Popen(
        command, env={**variables, "HERMES_HOME": str(home), "HERMES_PROFILE": ""}, stdout=subprocess.PIPE, text=True
    )
    try:
        yield read_address(process, home)
    finally:
        process.terminate()
        process.wait(SECONDS)


def read_address(process: "subprocess.Popen[str]", home: Path) -> str:
    """The page's address with the token, which a pipe is not told."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"The page: (http://[^/]+)/", line):
            return f"{found[1]}/?token={(home / WEB_TOKEN_FILE).read_text('ascii').strip()}"
    raise SystemExit("The gateway ended before it had a page.")


def invent_days(home: Path) -> None:
    """Calls of the days before, so that the plots have something to show."""
    chance = random.Random(7)
    with sqlite3.connect(home / "hermes-store.db") as store:
        for day in range(1, DAYS):
            calls = chance.randint(20, 90)
            read, new = calls * chance.randint(9_000, 14_000), calls * chance.randint(700, 2_000)
            written, output = calls * chance.randint(300, 900), calls * chance.randint(250, 600)
            cost = (read * 0.3 + new * 3 + written * 3.75 + output * 15) / 1e6
            values = ("", "", "", "openrouter", "claude-sonnet", "turn", new, read, written, output, output // 4)
            store.execute(
                "insert into usage (conversation, session, task, provider, model, kind, input_tokens,"
                " cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost,"
                " settled, created, saved)"
                " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
                (*values, cost, time.time() - day * 86_400, read * 2.7 / 1e6),
            )


def talk(page: Page, asked: str, answer: str) -> None:
    page.get_by_label("Your message").fill(asked)
    page.get_by_label("Your message").press("Enter")
    expect(page.locator("article.answer", has_text=answer).locator(".under")).to_be_visible()


def take_pictures(page: Page, address: str, home: Path) -> None:
    page.goto(address)
    for asked, answer in SHORT_TALKS:
        talk(page, asked, answer)
        page.get_by_role("link", name="New chat").click()
        expect(page.locator("article.answer")).to_have_count(0)
    talk(page, QUESTION, "shopping.md")
    expect(page.locator(".katex-display")).to_be_visible()
    page.evaluate("document.fonts.ready")
    expect(page.locator("a.thread-link")).to_have_count(len(SHORT_TALKS) + 1)
    page.screenshot(path=PICTURES / "chat.png")
    invent_days(home)
    page.get_by_role("link", name="Status").click()
    expect(page.locator("figure")).to_have_count(3)
    page.screenshot(path=PICTURES / "status.png")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, LabServer(plan=PLAN) as lab, sync_playwright() as driver:
        home = Path(folder) / "home"
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        with run_gateway(home, lab.base_url) as address:
            take_pictures(page, address, home)
        browser.close()
    print(f"The pictures in {PICTURES} are made.")


if __name__ == "__main__":
    main()
