"""H11: what the documents show is run, what they link to exists, and their tables are those of the code."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from gateway_process import HERMES
from postgres_server import get_server
from script_loading import load_script
from warm_python import run_warm

from agent.providers import embedded
from agent.providers.table import PROVIDERS
from hermes_base.command_table import COMMANDS
from hermes_base.setting_table import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLE_DATABASE = "postgresql://hermes@db.example.org/hermes"  # in documents; a test has a server of its own
LAB_PAGE = ROOT / "lab" / "README.md"
SECONDS = 600  # the built-in model on a busy machine
#: Lines of a shell that only prepare: nothing of ours is run by them.
PREPARING = ("export ", "git clone ", "cd ", ". .venv/bin/activate")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ANY_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_PYTHON_PATH = re.compile(r"`((?:[\w.-]+/)+\w+\.py)`")
_KEY_ENDINGS = ("_API_KEY", "_TOKEN")
pytestmark = pytest.mark.timeout(SECONDS + 60)


class Block(NamedTuple):
    page: Path
    number: int  # counted from 1 within its page
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}-{self.number}"


def find_blocks(language: str, *, pages: list[Path]) -> list[Block]:
    return [
        Block(page, number, found[1], found[2])
        for page in pages
        for number, found in enumerate(_BLOCK.finditer(page.read_text("utf-8")), start=1)
        if found[1] == language
    ]


PYTHON = find_blocks("python", pages=[*DOCUMENTS, LAB_PAGE])
SHELL = find_blocks("sh", pages=DOCUMENTS)


@pytest.fixture
def clean(tmp_path: Path) -> dict[str, str]:
    """An environment with an empty home, this Python's commands, and no key of the machine's owner."""
    keys = {name for provider in PROVIDERS.values() for name in provider.key_env}
    kept = {name: value for name, value in os.environ.items() if name not in keys and not name.endswith(_KEY_ENDINGS)}
    kept = {name: value for name, value in kept.items() if not name.startswith("HERMES_")}
    commands = Path(sys.executable).parent
    return {**kept, "HERMES_HOME": str(tmp_path / "empty"), "PATH": f"{commands}{os.pathsep}{kept.get('PATH', '')}"}


def run(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """Run a command of a document; it must end well."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"


def run_hermes(words: list[str], folder: Path, env: dict[str, str], typed: str) -> None:
    """The same with `hermes`, forked with its modules imported."""
    done = run_warm([HERMES, *words], str(folder), typed.encode(), env)
    assert done.returncode == 0, f"hermes {shlex.join(words)}\n{done.stdout.decode()}\n{done.stderr.decode()}"


def start_and_stop(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """Run a server of a document until it has told its address; Ctrl-C must end it well."""
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = server.stdout.readline()
        server.send_signal(signal.SIGINT)
        server.wait(SECONDS)
    assert "http://127.0.0.1:" in told
    assert server.returncode == 0


@contextlib.contextmanager
def keep_running(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[None]:
    """Run a program of a document beside the commands that follow, which must end it, and well."""
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        try:
            assert any("Hermes runs" in line for line in program.stdout)
            yield
            assert program.wait(SECONDS) == 0
        finally:
            program.kill()


# --- code


@pytest.mark.slow
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_examples_run(block: Block, tmp_path: Path, clean: dict[str, str]) -> None:
    """H11: each Python example runs as it stands, in an empty home."""
    assert embedded.is_installed(), "the examples need the built-in model, which every target of the Makefile installs"
    run([sys.executable, "-c", block.text], tmp_path, clean)


@pytest.mark.slow
@pytest.mark.parametrize("block", SHELL, ids=str)
def test_shell_examples_run(block: Block, tmp_path: Path, clean: dict[str, str]) -> None:
    """H11: each command of an example runs in the order of the page, beginning with an empty home."""
    text = block.text
    if EXAMPLE_DATABASE in text:
        text = text.replace(EXAMPLE_DATABASE, get_server().make_database())
    with contextlib.ExitStack() as running:
        for words in find_commands(text):
            if words[:2] == ["hermes", "lab"]:
                start_and_stop(words, tmp_path, clean)
            elif words[:3] == ["hermes", "gateway", "run"]:
                running.enter_context(keep_running(words, tmp_path, clean))
            else:
                run_hermes(words[1:], tmp_path, clean, "/quit\n")


def find_commands(text: str) -> Iterator[list[str]]:
    """The calls of `hermes` in a shell example; any other line is a target of the Makefile or only prepares."""
    for line in filter(None, map(str.strip, text.splitlines())):
        words = shlex.split(line, comments=True)
        if words[:1] == ["hermes"]:
            yield words
        elif words[:1] == ["make"]:
            assert set(words[1:]) <= find_targets(), f"the Makefile has no such target: {line}"
        else:
            assert not words or line.startswith(PREPARING), f"not known to be harmless: {line}"


def find_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def test_there_are_examples() -> None:
    """H11 would hold for empty documents too."""
    pages = {block.page.name for block in [*PYTHON, *SHELL]}
    assert pages >= {"README.md", "CONTRIBUTING.md", "lab.md"}


@pytest.mark.parametrize("line", ["rm -rf build", "make nonsense", "curl example.org"])
def test_unknown_shell_lines_are_refused(line: str) -> None:
    with pytest.raises(AssertionError):
        list(find_commands(line))


# --- links and names


def find_links(page: Path) -> Iterator[str]:
    text = _ANY_BLOCK.sub("", page.read_text("utf-8"))
    for target in _LINK.findall(text):
        if not target.startswith(("http://", "https://", "mailto:")):
            yield target


def find_anchors(page: Path) -> set[str]:
    """The headings as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", _ANY_BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    for target in find_links(page):
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.is_relative_to(ROOT), f"{page.name} links to a place outside of the project: {target}"
        assert linked.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in find_anchors(linked), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_named_modules_exist(page: Path) -> None:
    for name in _PYTHON_PATH.findall(page.read_text("utf-8")):
        assert (ROOT / name).exists() or (ROOT / "src" / name).exists(), f"{page.name} names {name}"


def test_the_tour_names_every_folder() -> None:
    """Those of the gateway one by one; what is one floor as a whole is named as a whole."""
    plan = (ROOT / "docs" / "tour.md").read_text("utf-8").split("## The plan", 1)[1].split("\n## ", 1)[0]
    folders = {place.name for place in (ROOT / "src").iterdir() if (place / "__init__.py").exists()} - {"gateway"}
    folders |= {f"gateway/{place.parent.name}" for place in (ROOT / "src" / "gateway").glob("*/__init__.py")}
    assert not {folder for folder in folders if f"{folder}/" not in plan}


# --- tables


@pytest.mark.parametrize("page", ["settings.md", "providers.md"])
def test_tables_are_current(page: str) -> None:
    """H2, H11: the reference pages are what the code says; `python scripts/tables.py` writes them anew."""
    assert (ROOT / "docs" / page).read_text("utf-8") == load_script("tables").PAGES[page]()


def test_tables_hold_every_row() -> None:
    settings, providers = ((ROOT / "docs" / name).read_text("utf-8") for name in ("settings.md", "providers.md"))
    assert all(f"`{row.key}`" in settings for row in SETTINGS)
    assert all(f"`{name}`" in providers for name in PROVIDERS)


def test_the_readme_names_every_slash_command_and_key() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = [f"`/{command.name}" for command in COMMANDS]
    keys = [f"`{row.key_env[0]}`" for row in PROVIDERS.values() if row.base_url and row.key_env]
    missing = [name for name in [*commands, *keys] if name not in readme]
    assert not missing, f"README.md has a table of these, and a row is missing: {', '.join(missing)}"


def test_every_promise_has_a_test() -> None:
    """H11: a promise is listed only while a test names its id."""
    tests = "\n".join(
        path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__).resolve()
    )
    listed = re.findall(r"^\| ([A-I]\d+) \|", (ROOT / "docs" / "promises.md").read_text("utf-8"), re.MULTILINE)
    held = set(re.findall(r"\b[A-I]\d+\b", tests)) | {"H11"}
    assert listed
    assert [promise for promise in listed if promise not in held] == []
