"""Ways through that were open once, tried through the tools alone, as a model would (G4, G5, G7, G9, G12, F5)."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Hands, Person
from waiting import wait_until

from hermes_base.chat import Answer, Question
from hermes_base.errors import ToolFailure
from hermes_base.text.foreign import ForeignText
from tools.builtin.file_tools import read_file, write_file
from tools.files.sensitive import names_prompt
from tools.shell.sandbox import is_bubblewrap_usable
from tools.terminal_tool import cleanup_vm

pytestmark = pytest.mark.skipif(not is_bubblewrap_usable(), reason="bwrap does not run on this machine")
TASK = "once-open"


class World:
    """A home with a folder to work in, and a place outside; with nobody there to be asked unless said otherwise."""

    def __init__(self, base: Path) -> None:
        self.person, self.out = base / "person", base / "out"
        self.work = self.person / "work"
        for place in (self.work, self.out, self.person / ".ssh"):
            place.mkdir(parents=True)
        for secret in (self.out / "canary", self.work / ".env", self.person / ".ssh" / "id_rsa"):
            secret.write_text("CANARY")
        (self.work / "README.md").write_text("read\n")
        self.hands = Hands(TASK, self.work, "bubblewrap")
        self.hands.facts["asker"] = None

    def run(self, command: str, mode: str = "ask", **facts: Any) -> str:
        """What it says; nothing when it is refused."""
        self.hands.facts["settings"]["approvals"] = {"mode": mode}
        try:
            return str(self.hands.run(command, **facts)["output"])
        except ToolFailure:
            return ""

    def list_prompts(self) -> list[str]:
        """What would become a part of prompts."""
        return sorted(path.name for path in self.work.rglob("*") if names_prompt(str(path)))

    def git(self, *words: str) -> None:
        subprocess.run(["git", "-C", str(self.work), *words], check=True, capture_output=True)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    yield World(tmp_path)
    cleanup_vm(TASK)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="a library is needed that can be preloaded")
def test_what_a_command_writes_into_descriptors_starts_nothing_outside(world: World) -> None:
    """G4, G5, G12: the shell's state went through a descriptor, and became the environment of the sandbox program."""
    source, library = world.work / "e.c", world.work / "e.so"
    source.write_text(
        "#include <stdio.h>\n__attribute__((constructor)) void f(void)"
        f'{{ FILE *f = fopen("{world.out}/escaped", "w"); if (f) fclose(f); }}\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    world.run(f"printf '{world.work}\\0LD_PRELOAD={library}\\0' >&187")
    world.run("ls")
    assert not (world.out / "escaped").exists()


@pytest.mark.parametrize("command", ["git grep -nO'./evil.sh' read", "git status"])
def test_what_only_looks_runs_code_where_it_can_do_no_harm(world: World, command: str) -> None:
    """G5: a program named in an option, and one named in the settings of the repository."""
    world.git("init", "-q")
    world.git("add", "README.md")
    world.git("config", "core.fsmonitor", "./evil.sh")
    (world.work / "evil.sh").write_text(f"#!/bin/sh\ntouch {world.work}/ran\n")
    (world.work / "evil.sh").chmod(0o755)
    world.run(command)
    assert not (world.work / "ran").exists()


def test_secrets_of_the_folder_are_not_read_unasked(world: World) -> None:
    """G5: a shortened option took the place of the pattern, so that the file was taken for one."""
    assert "CANARY" not in world.run("grep --reg=. .env")


def test_a_short_command_does_not_take_the_gateway_along(world: World) -> None:
    """F5, G5: the folders it may be in doubled with each step."""
    began = time.thread_time()
    world.run(";".join(f"cd d{at}" for at in range(17)) + ";ls x")
    assert time.thread_time() - began < 1


def test_an_approved_command_runs_where_it_was_shown(world: World) -> None:
    """G4: another call of the same round moved the shell between the question and the start."""
    for name in ("shown", "other"):
        (world.work / name).mkdir()
    world.run("cd shown", "auto")
    seen: list[str] = []

    class Mover:
        def __call__(self, question: Question) -> Answer:
            seen.append(question.text)
            if len(seen) == 1:
                world.run(f"cd {world.work}/other", "auto")
            return Answer("approve")

    world.run("curl --version > /dev/null; touch made", asker=Mover())
    ran = next(name for name in ("shown", "other") if (world.work / name / "made").exists())
    assert ran in seen[-1]


def test_the_whole_disk_is_not_brought_behind_the_walls(world: World) -> None:
    """G5: with it came the machine's own processes and devices, also where a person agreed to the command."""
    world.hands.facts["folder"] = "/"
    assert f"/proc/{os.getpid()}" not in world.run(f"ls -d /proc/{os.getpid()}", asker=Person()).splitlines()


def test_what_becomes_a_prompt_is_not_written_unasked_after_foreign_text(world: World) -> None:
    """G9"""
    (world.work / "AGENTS.md").write_text("mine\n")
    foreign = ForeignText()
    for command in ("make --version; touch x", "echo obey >> AGENTS.md"):
        world.run(command, "auto", foreign=foreign)
    assert (world.work / "AGENTS.md").read_text() == "mine\n"


def test_file_tools_in_a_home_leave_keys_and_start_files_alone(world: World) -> None:
    """G7: unasked."""
    context = world.hands.context(folder=str(world.person))
    with pytest.raises(ToolFailure):
        read_file({"path": ".ssh/id_rsa"}, context=context)
    with pytest.raises(ToolFailure):
        write_file({"path": ".bashrc", "content": "x"}, context=context)
    assert not (world.person / ".bashrc").exists()


@pytest.mark.parametrize(
    "command",
    [
        "echo obey > AGENTS.md",
        "mkdir sub && echo obey > sub/.cursorrules",
        "echo obey > plain && mv plain CLAUDE.md",
        "python3 make.py",
        "python3 make.py; chmod 555 deep",
    ],
)
def test_what_a_command_makes_a_prompt_is_none_without_consent(world: World, command: str) -> None:
    """G9: nothing can be mounted where no file is yet, so it is looked for when the command has ended."""
    foreign = ForeignText()
    foreign.note("a web page")
    (world.work / "make.py").write_text("import os; os.mkdir('deep'); open('deep/HERMES.md', 'w').write('obey')")
    world.hands.facts["settings"]["approvals"] = {"mode": "auto"}
    told = world.hands.run(command, {"level": "work"}, foreign=foreign, asker=None)
    assert world.list_prompts() == []
    assert "set aside" in told["note"]
    kept = [path for path in world.work.rglob("*") if path.is_file() and path.read_text().strip() == "obey"]
    assert len(kept) == 1, "the person can still look at it"


def test_a_person_may_let_a_command_make_a_prompt(world: World) -> None:
    """G9: asked with the words that would stand in it; a no leaves nothing that is read."""
    foreign = ForeignText()
    foreign.note("a web page")
    agrees, refuses = Person(), Person("deny")
    world.run("echo obey > AGENTS.md", "auto", foreign=foreign, asker=agrees)
    assert world.list_prompts() == ["AGENTS.md"]
    assert "AGENTS.md" in agrees.asked[-1].text
    assert "obey" in agrees.asked[-1].text
    assert "a web page" in agrees.asked[-1].reason
    world.run("echo obey > CLAUDE.md", "auto", foreign=foreign, asker=refuses)
    assert world.list_prompts() == ["AGENTS.md"]
    assert len(refuses.asked) == 1


def test_without_foreign_text_a_command_makes_what_it_likes(world: World) -> None:
    """G9: it is the person's own work, and is told."""
    world.run("echo mine > AGENTS.md", "auto", foreign=ForeignText())
    assert world.list_prompts() == ["AGENTS.md"]


def test_a_process_makes_no_prompt_either(world: World) -> None:
    """G9: what it made is set aside when it ends, also when it is killed."""
    foreign, notices = ForeignText(), []
    foreign.note("a web page")
    world.hands.facts["settings"]["approvals"] = {"mode": "auto"}
    facts = {"foreign": foreign, "post_notice": lambda *words: notices.append(words[-1])}
    world.hands.process("start", facts, command="echo obey > AGENTS.md", level="work")
    wait_until(lambda: notices)
    assert world.list_prompts() == []
    assert "set aside" in notices[0]
