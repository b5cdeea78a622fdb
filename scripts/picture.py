"""Makes docs/chat.svg: a real chat on a real terminal (tmux), with the lab server as the model, drawn as SVG.

Run it with the project's Python after a change of the chat's looks; it needs tmux.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich import terminal_theme
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from hermes_lab.server import LabServer

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "chat.svg"
WIDTH, HEIGHT = 76, 40
SECONDS = 20.0
NOTES = {
    "boat.md": "The boat needs new varnish before May.\n",
    "garden.md": "Plant beans.\n",
    "trips.md": "In June with the boat to the islands.\n",
}
PLAN = [
    {"tool_calls": [{"name": "terminal", "arguments": {"command": "grep -i boat *.md"}}]},
    {
        "text": "Two notes mention the boat:\n\n"
        "- **boat.md**: it needs new varnish before May\n"
        "- **trips.md**: the trip to the islands in June\n\n"
        "So the varnish comes first. `garden.md` says nothing about it."
    },
]
#: What is typed, and what the screen shows when it has been dealt with.
TYPED = (
    ("Which of my notes mention the boat, and is anything urgent?", "approve"),
    ("approve", "says nothing about it"),
)


class Terminal:
    """A tmux server of our own with one window."""

    def __init__(self, folder: Path, command: list[str], variables: dict[str, str]) -> None:
        self._socket = str(folder / "tmux")
        named = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        self._run("-f", "/dev/null", "new-session", "-d", *size, *named, "-c", str(folder / "notes"), *command)

    def type_line(self, text: str) -> None:
        self._run("send-keys", "-l", text)
        time.sleep(0.3)  # keys that come in one burst count as pasted text
        self._run("send-keys", "Enter")

    def read(self, *, colours: bool = False) -> str:
        return self._run("capture-pane", "-p", *(["-e"] if colours else []))

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + SECONDS
        while words not in self.read():
            if time.monotonic() > deadline:
                raise SystemExit(f"The screen never showed {words!r}:\n{self.read()}")
            time.sleep(0.1)

    def close(self) -> None:
        self._run("kill-server")

    def _run(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=True)
        return done.stdout


def capture_chat(folder: Path, model_address: str) -> str:
    """The screen at the end of the chat, with its colours."""
    home, notes = folder / "home", folder / "notes"
    home.mkdir()
    notes.mkdir()
    for name, text in NOTES.items():
        (notes / name).write_text(text)
    (home / "config.yaml").write_text(f"model:\n  base_url: {model_address}\n  default: lab\n")
    command = [str(Path(sys.executable).with_name("hermes"))]
    terminal = Terminal(folder, command, {"HERMES_HOME": str(home), "COLORTERM": "truecolor", "HERMES_PROFILE": ""})
    try:
        terminal.wait_for("›")  # the line to type on
        for text, shown in TYPED:
            terminal.type_line(text)
            terminal.wait_for(shown)
        time.sleep(1.0)  # the last drawing, without the sign that it works
        return terminal.read(colours=True)
    finally:
        terminal.close()


def draw(screen: str) -> str:
    """The screen as SVG; the fonts are the reader's own, so that nothing is fetched."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in screen.rstrip().splitlines():
        console.print(Text.from_ansi(line), soft_wrap=True)
    drawn = console.export_svg(
        title="hermes", theme=terminal_theme.MONOKAI, code_format=_write_format(), unique_id="chat"
    )
    return re.sub(r"[ \t]+\n", "\n", drawn)


def _write_format() -> str:
    """Rich's template without web fonts and its link, with blanks kept as they are also outside of browsers."""
    plain = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    plain = plain.replace("Fira Code, monospace", "DejaVu Sans Mono, Menlo, Consolas, monospace")
    return plain.replace('<g class="{unique_id}-matrix">', '<g class="{unique_id}-matrix" xml:space="preserve">')


def main() -> None:
    os.environ.pop("TMUX", None)
    with tempfile.TemporaryDirectory() as folder, LabServer(plan=PLAN) as lab:
        PICTURE.write_text(draw(capture_chat(Path(folder), lab.base_url)), encoding="utf-8")
    print(f"{PICTURE} is written.")


if __name__ == "__main__":
    main()
