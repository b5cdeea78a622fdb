"""The gate in front of the shell: it asks for the exact command where it starts, once, and no answer means no (G4)."""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from commands import Person

from hermes_base.chat import Answer, Question
from hermes_base.errors import ToolFailure
from hermes_base.setting_table import make_settings
from hermes_base.turn.tool_context import ToolContext
from tools.policy.command_gate import approve_input, clear_command
from tools.shell import sandbox
from tools.shell.sandbox import Walls
from tools.shell.shell_state import ShellState
from tools.shell.shells import ShellStart, forget_shell, shell_of

TASK = "gate"


@pytest.fixture(autouse=True)
def end_task() -> Iterator[None]:
    yield
    forget_shell(TASK)


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[..., ToolContext]:
    def make(person: Person | None, mode: str = "ask", backend: str = "auto", **facts: object) -> ToolContext:
        settings = make_settings({"approvals": {"mode": mode}, "terminal": {"backend": backend}})
        return ToolContext(task=TASK, folder=str(tmp_path), asker=person, settings=settings, **facts)

    return make


class Mover(Person):
    """While the first questions are open, something changes; then nothing more."""

    def __init__(self, times: int, change: Callable[[], None]) -> None:
        super().__init__()
        self.times, self.change = times, change

    def __call__(self, question: Question) -> Answer:
        if self.times:
            self.times -= 1
            self.change()
        return super().__call__(question)


def refusal(context: ToolContext, command: str, wanted: Walls | None = None) -> str:
    with pytest.raises(ToolFailure) as failure:
        clear_command(context, command, wanted)
    return str(failure.value)


def test_looking_runs_without_a_question(make_context: Callable[..., ToolContext]) -> None:
    person = Person("deny")
    start = clear_command(make_context(person), "ls -la")
    assert (start.walls, start.unasked, person.asked) == (Walls.LOOK, True, [])


def test_the_exact_command_is_asked_for_once_with_its_folder(
    make_context: Callable[..., ToolContext], tmp_path: Path
) -> None:
    person = Person()
    command = "curl  'https://example.org/x' > x.txt"
    start = clear_command(make_context(person), command)
    assert (start.command, start.state.folder, start.unasked) == (command, str(tmp_path), False)
    assert [question.text for question in person.asked] == [f"cd {tmp_path}\n{command}"]
    assert person.asked[0].reason


@pytest.mark.parametrize("person", [None, Person("deny"), Person(""), Person("yes")])
def test_anything_but_an_approval_is_a_no(make_context: Callable[..., ToolContext], person: Person | None) -> None:
    assert "nobody approved" in refusal(make_context(person), "curl example.org")


def test_ruin_is_not_even_asked_for(make_context: Callable[..., ToolContext], tmp_path: Path) -> None:
    """G4, G5: at no level."""
    person = Person()
    for command in ("rm -rf /", f"echo x > {tmp_path}/home/config.yaml", "cd / && rm -rf *"):
        for wanted in (None, Walls.WORK, Walls.OUTSIDE):
            assert "not run" in refusal(make_context(person, "auto", home=tmp_path / "home"), command, wanted)
    assert person.asked == []


def test_mode_deny_asks_nothing(make_context: Callable[..., ToolContext]) -> None:
    person = Person()
    context = make_context(person, "deny")
    assert "only commands that look" in refusal(context, "touch x")
    assert "only commands that look" in refusal(context, "ls", Walls.OUTSIDE)
    assert clear_command(context, "ls").walls is Walls.LOOK
    assert person.asked == []


def test_mode_auto_lets_ordinary_work_through_and_nothing_more(make_context: Callable[..., ToolContext]) -> None:
    person = Person("deny")
    context = make_context(person, "auto")
    assert clear_command(context, "make test").walls is Walls.WORK
    assert clear_command(context, "ls", Walls.WORK).walls is Walls.WORK
    assert person.asked == []
    for command, wanted in (("ls", Walls.SETUP), ("ls", Walls.OUTSIDE), ("pip install x", None)):
        assert "nobody approved" in refusal(context, command, wanted)
    assert "what later commands obey" in person.asked[0].reason
    assert "OUTSIDE" in person.asked[1].reason
    assert "what later commands obey" in person.asked[2].reason


@pytest.mark.parametrize("unasked", [True, False])
def test_what_is_typed_into_a_program_is_asked_for_like_the_program(
    make_context: Callable[..., ToolContext], tmp_path: Path, unasked: bool
) -> None:
    """G4, G5: a shell that was agreed to is no way around the policy."""
    start = ShellStart("bash", ShellState(str(tmp_path)), Walls.WORK, unasked=unasked)
    person = Person()
    approve_input(make_context(person), start, "rm -rf x")
    assert [question.text for question in person.asked] == [f"cd {tmp_path}\nbash\n<<< rm -rf x"] * (not unasked)
    with nullcontext() if unasked else pytest.raises(ToolFailure, match="nobody approved"):
        approve_input(make_context(Person("")), start, "rm -rf x")


def test_an_approval_is_bound_to_conversation_turn_and_command_and_holds_once(
    make_context: Callable[..., ToolContext], tmp_path: Path
) -> None:
    """G4: the next call is asked for again."""
    person = Person()
    context = replace(make_context(person), conversation="agent:main:local:dm:1", turn="turn-7")
    for _ in range(2):
        clear_command(context, "rm notes.txt")
    assert [(q.conversation, q.turn, q.text) for q in person.asked] == [
        ("agent:main:local:dm:1", "turn-7", f"cd {tmp_path}\nrm notes.txt")
    ] * 2
    assert all(question.expires_in > 0 for question in person.asked)


@pytest.mark.parametrize("backend", ["auto", "local"])
def test_a_shell_that_moves_while_it_is_asked_for_is_asked_again(
    make_context: Callable[..., ToolContext], tmp_path: Path, backend: str
) -> None:
    """G4: what was shown is what starts."""
    (tmp_path / "other").mkdir()
    person = Mover(1, lambda: _set_state(context, ShellState(f"{tmp_path}/other", {"PATH": "/evil"})))
    context = make_context(person, backend=backend)
    start = clear_command(context, "rm notes.txt")
    assert [question.text for question in person.asked] == [
        f"cd {tmp_path}\nrm notes.txt",
        f"cd {tmp_path}/other\nrm notes.txt\n# with PATH=/evil",
    ]
    assert start.state == ShellState(f"{tmp_path}/other", {"PATH": "/evil"})


def test_another_folder_under_the_same_name_is_another_folder(
    make_context: Callable[..., ToolContext], tmp_path: Path
) -> None:
    """G4"""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def swap() -> None:
        os.rename(tmp_path / "a", tmp_path / "c")
        os.rename(tmp_path / "b", tmp_path / "a")

    person = Mover(1, swap)
    context = make_context(person)
    _set_state(context, ShellState(f"{tmp_path}/a"))
    clear_command(context, "rm notes.txt")
    assert len(person.asked) == 2


def test_one_that_never_stands_still_is_not_run(make_context: Callable[..., ToolContext], tmp_path: Path) -> None:
    """G4"""
    names = iter(range(99))
    person = Mover(99, lambda: _set_state(context, ShellState(str(tmp_path), {"N": str(next(names))})))
    context = make_context(person)
    assert "changed each time" in refusal(context, "rm notes.txt")


def test_a_variable_too_long_to_be_shown_is_not_given_to_what_runs_outside(
    make_context: Callable[..., ToolContext], tmp_path: Path
) -> None:
    """G4, G5"""
    context = make_context(Person())
    _set_state(context, ShellState(str(tmp_path), {"SHORT": "1", "LONG": "x" * 5000}))
    assert clear_command(context, "ls", Walls.OUTSIDE).state.changes == {"SHORT": "1"}


@pytest.mark.parametrize(("backend", "asked"), [("auto", 1), ("local", 0)])
def test_without_a_sandbox_ordinary_work_runs_unasked_only_by_the_owners_own_word(
    make_context: Callable[..., ToolContext], monkeypatch: pytest.MonkeyPatch, backend: str, asked: int
) -> None:
    """G5: auto with a sandbox that is missing asks; auto with `terminal.backend: local` is what the owner chose."""
    monkeypatch.setattr(sandbox, "is_bubblewrap_usable", lambda: False)
    person = Person()
    clear_command(make_context(person, "auto", backend), "make test")
    assert len(person.asked) == asked
    assert all("no sandbox" in question.reason for question in person.asked)


def test_the_owners_word_is_not_for_others(make_context: Callable[..., ToolContext], tmp_path: Path) -> None:
    """G5, G12: without walls a member's ordinary work would run with the owner's rights."""
    person = Person()
    clear_command(make_context(person, "auto", "local", own=tmp_path), "make test")
    assert len(person.asked) == 1


def _set_state(context: ToolContext, state: ShellState) -> None:
    shell_of(context).state = state
