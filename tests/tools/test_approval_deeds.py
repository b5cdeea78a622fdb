"""What a question says of the deed that a kept approval would be about, and what becomes of an answer (G4)."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from commands import Person

from hermes_base.chat import Answer, Question
from hermes_base.errors import ToolFailure
from hermes_base.setting_table import make_settings
from hermes_base.text.foreign import ForeignText
from hermes_base.text.redact import Redactor
from hermes_base.turn.consent import Deed
from hermes_base.turn.tool_context import ToolContext
from tools.approval import ask_approval
from tools.builtin.file_tools import patch, read_file, write_file
from tools.policy.command_gate import approve_input, clear_command
from tools.shell.sandbox import Walls
from tools.shell.shell_state import ShellState
from tools.shell.shells import forget_shell, shell_of

TASK = "deeds"
MakeContext = Callable[..., ToolContext]


@pytest.fixture(autouse=True)
def end_task() -> Iterator[None]:
    yield
    forget_shell(TASK)


@pytest.fixture
def make_context(tmp_path: Path) -> MakeContext:
    folder = tmp_path / "work"
    folder.mkdir()

    def make(person: Person, network: bool = False, **facts: object) -> ToolContext:
        settings = make_settings({"terminal": {"network": network, "backend": "auto"}})
        return ToolContext(**{"task": TASK, "folder": str(folder), "asker": person, "settings": settings, **facts})

    return make


def find_deed(context: ToolContext, command: str, wanted: Walls | None = None) -> Deed | None:
    clear_command(context, command, wanted)
    assert isinstance(context.asker, Person)
    return context.asker.asked[-1].deed


# --- commands


def test_a_deed_is_the_same_however_the_command_is_written(make_context: MakeContext) -> None:
    """G4"""
    context = make_context(Person())
    one, two = (find_deed(context, command) for command in ("touch 'a b'", 'touch   "a b"'))
    assert one is not None
    assert replace(one, shown="") == replace(two, shown="")
    assert (one.kind, one.folder, one.level, one.task) == ("command", context.folder, "work", TASK)


def test_all_around_the_command_is_a_part_of_it(make_context: MakeContext, tmp_path: Path) -> None:
    """G4: other words, another folder, variables that were set, another level, the network: each makes another deed."""
    usual = make_context(Person())
    deeds = [find_deed(usual, "touch x"), find_deed(usual, "touch y"), find_deed(usual, "touch x", Walls.OUTSIDE)]
    deeds.append(find_deed(make_context(Person(), network=True), "touch x"))
    shell = shell_of(usual)
    shell.state = ShellState(usual.folder, {"PATH": "/elsewhere"})
    deeds.append(find_deed(usual, "touch x"))
    os.mkdir(Path(usual.folder) / "sub")
    shell.state = ShellState(str(Path(usual.folder) / "sub"), {})
    deeds.append(find_deed(usual, "touch x"))
    forget_shell(TASK)
    (tmp_path / "other").mkdir()
    deeds.append(find_deed(make_context(Person(), folder=str(tmp_path / "other")), "touch x"))
    told = [deed and (deed.folder, deed.backend, deed.level, deed.words) for deed in deeds]
    assert None not in told
    assert len(set(told)) == len(told)


@pytest.mark.parametrize("command", ["touch $X", "touch *", "X=1 touch y", "for x in a; do touch b; done", "touch `a`"])
def test_what_is_known_only_when_it_runs_has_no_deed(make_context: MakeContext, command: str) -> None:
    """G4"""
    assert find_deed(make_context(Person()), command) is None


def test_a_secret_is_in_no_rule(make_context: MakeContext) -> None:
    """G6: a command with a configured secret in it is asked for each time."""
    redact = Redactor({"KEY": "sk-canary-0123456789"})
    assert find_deed(make_context(Person(), redact=redact), "touch sk-canary-0123456789") is None


def test_what_is_typed_and_what_a_plugin_asks_has_no_deed(make_context: MakeContext) -> None:
    """G4"""
    person = Person()
    context = make_context(person)
    start = clear_command(context, "touch x")
    approve_input(context, start, "y")
    ask_approval(context, "a plugin asks")
    assert [asked.deed is None for asked in person.asked] == [False, True, True]


# --- files


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is none of the allowed ones, though tests live below /tmp."""
    monkeypatch.setattr("tools.files.roots.list_roots", lambda context: (os.path.realpath(context.folder),))
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def test_a_file_outside_has_a_deed_for_each_use(make_context: MakeContext, outside: Path) -> None:
    """G4: to read, to write and to delete are three deeds; the content is none of it, the path is."""
    person = Person()
    context = make_context(person)
    for text in ("one\n", "two\n"):
        write_file({"path": str(outside / "a"), "content": text, "overwrite": True}, context=context)
    read_file({"path": str(outside / "a")}, context=context)
    patch({"edits": [{"diff": f"--- {outside}/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n"}]}, context=context)
    write_file({"path": str(outside / "b"), "content": "x"}, context=context)
    deeds = [asked.deed for asked in person.asked]
    assert None not in deeds
    assert [deed.kind for deed in deeds if deed] == ["write", "write", "read", "delete", "write"]
    assert deeds[0] == deeds[1]
    assert deeds[4] != deeds[0]


@pytest.mark.parametrize("name", [".env", ".bashrc", "id_rsa"])
def test_secrets_and_start_files_have_none(make_context: MakeContext, outside: Path, name: str) -> None:
    """G4, G7"""
    person = Person()
    write_file({"path": str(outside / name), "content": "x"}, context=make_context(person))
    assert person.asked[0].deed is None


# --- foreign text, and answers


@pytest.mark.parametrize("kind", ["command", "write"])
def test_foreign_text_is_told_with_the_question(make_context: MakeContext, outside: Path, kind: str) -> None:
    """G4, G9: whoever keeps rules offers none then; the deed itself stays, so that a rule from before holds."""
    for foreign, unkept in ((ForeignText(), ""), (ForeignText(["the web"]), "this conversation holds the web")):
        person = Person()
        context = make_context(person, foreign=foreign)
        if kind == "command":
            clear_command(context, "touch x")
        else:
            write_file({"path": str(outside / f"{bool(foreign)}"), "content": "x"}, context=context)
        assert person.asked[0].deed is not None
        assert person.asked[0].unkept == unkept


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer("approve"), None),
        (Answer("conversation"), None),
        (Answer("always"), None),
        (Answer("deny"), "the answer was no"),
        (Answer("deny: take the test database"), "not approved: take the test database"),
        (Answer("", given=False), "there was no answer"),
        (Answer("always", given=False), "there was no answer"),
        (Answer("alwayss"), "the answer was no"),
        (Answer("yes: approve"), "the answer was no"),
    ],
)
def test_what_an_answer_means(make_context: MakeContext, answer: Answer, why: str | None) -> None:
    """G4: nothing but the choices that agree is a yes, and the word of a refusal reaches the model."""

    def ask(question: Question) -> Answer:
        return answer

    context = make_context(Person(), asker=ask)
    if why is None:
        clear_command(context, "touch x")
        return
    with pytest.raises(ToolFailure, match=why):
        clear_command(context, "touch x")


def test_a_folder_of_the_tasks_own_is_in_no_rule(make_context: MakeContext) -> None:
    """G4: /tmp behind the walls is another folder in each conversation."""
    context = make_context(Person(), folder="/usr/share")
    shell = shell_of(context)
    shell.state = ShellState("/tmp", {})
    deed = find_deed(context, "touch x")
    assert deed is None or deed.backend == "local"
