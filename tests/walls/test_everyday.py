"""The list of everyday commands is true: who is asked is judged as it says, and what runs unasked works (G5)."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Hands

from tools.policy import Terms, judge
from tools.shell.sandbox import is_bubblewrap_usable
from tools.terminal_tool import cleanup_vm

DOCUMENT = Path(__file__).parents[2] / "docs" / "commands.md"


def read_rows(text: str) -> list[list[str]]:
    """The cells of the table's rows, the command without its marks first."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [[command.strip("`"), *cells] for command, *cells in rows]


ROWS = read_rows(DOCUMENT.read_text())
WORD = {"allow": "", "ask": "asks", "deny": "no"}
TASK = "everyday"


def test_the_list_is_long_enough() -> None:
    assert len(ROWS) >= 120


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_who_is_asked(row: list[str], tmp_path: Path) -> None:
    command, level, *asked = row
    folder = os.path.realpath(tmp_path)
    terms = [
        Terms(folder=folder, mode="ask"),
        Terms(folder=folder, mode="auto"),
        Terms(folder=folder, mode="ask", walled=False),
        Terms(folder=folder, mode="auto", walled=False, own_word=True),
    ]
    verdicts = [judge(command, each) for each in terms]
    assert [WORD[verdict.decision] for verdict in verdicts] == asked
    assert verdicts[1].walls == level
    strict = judge(command, Terms(folder=folder, mode="deny"))
    assert strict.decision == ("allow" if asked[0] == "" else "deny")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("everyday")
    (folder / "src").mkdir()
    (folder / "tests").mkdir()
    (folder / "src" / "app.py").write_text("def hello():\n    return 'hello'\n\n\nprint(hello())\n")
    (folder / "README.md").write_text("hello\nsecond line\nthird line\n")
    (folder / "data.csv").write_text("a,1\nb,2\na,3\n")
    (folder / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"test": "true", "build": "true"}}'
    )
    (folder / "Makefile").write_text("all:\n\t@echo all\nversion:\n\t@echo 1\ntest:\n\t@echo tested\n")
    (folder / "script.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "script.sh").chmod(0o755)
    subprocess.run(["zip", "-q", "a.zip", "README.md"], cwd=folder, check=False) if shutil.which("zip") else None
    for step in (
        ["init", "-q"],
        ["config", "user.name", "x"],
        ["config", "user.email", "x@example.org"],
        ["add", "-A"],
    ):
        subprocess.run(["git", *step], cwd=folder, check=True)
    subprocess.run(["git", "commit", "-qm", "first"], cwd=folder, check=True)
    return folder


@pytest.fixture
def hands(project: Path) -> Iterator[Hands]:
    yield Hands(TASK, project, "bubblewrap")
    cleanup_vm(TASK)


def is_runnable(command: str) -> bool:
    """The programs are there, and what they are given, too."""
    names = re.findall(r"(?:^|\| |&& |do |; |xargs )([a-z][\w-]*)", command)
    shell_words = {"cd", "echo", "test", "if", "for", "done", "then", "fi", "pwd", "do"}
    needs_file = "a.zip" in command and not shutil.which("zip")
    return not needs_file and all(name in shell_words or shutil.which(name) for name in names)


LOOKS = [row[0] for row in ROWS if row[1] == "look"]


@pytest.mark.skipif(not is_bubblewrap_usable(), reason="bwrap does not run on this machine")
@pytest.mark.parametrize("command", LOOKS)
def test_what_looks_works_in_the_sandbox_unasked(hands: Hands, command: str) -> None:
    """G5: with nobody there to ask; what it says is about the project."""
    if not is_runnable(command):
        pytest.skip("a program of it is not installed here")
    result = hands.run(command, asker=None)
    assert result["exit_code"] == 0 or command in MAY_FAIL, result


#: Fails behind the walls, and why; the result says so each time.
MAY_FAIL = {
    "docker ps": "the daemon's socket is not in sight",
    "lsof -i :8000": "nobody listens there",
    "git config --get user.name": "",
    "ps aux | grep python": "no Python runs in the sandbox",
}
WORKS = [
    "mkdir -p build",
    "touch new.txt",
    "echo hello > out.txt",
    "cp README.md copy.md",
    "rm -f out.txt",
    "sed -i 's/hello/bye/' src/app.py",
    "python3 src/app.py",
    "make test",
    "git add -A",
    "git commit -m 'a change'",
    "git checkout -b topic",
    "git switch -c other",
    "git stash",
    "chmod +x src/app.py",
    "ln -s README.md link.md",
    "bash script.sh",
    "./script.sh",
    "npm test",
]


@pytest.mark.skipif(not is_bubblewrap_usable(), reason="bwrap does not run on this machine")
def test_ordinary_work_works_in_the_sandbox_unasked(hands: Hands) -> None:
    """G5: in `auto`, one after the other."""
    hands.facts["settings"]["approvals"] = {"mode": "auto"}
    for command in WORKS:
        if is_runnable(command):
            result = hands.run(command, asker=None)
            assert result["exit_code"] == 0, (command, result)
