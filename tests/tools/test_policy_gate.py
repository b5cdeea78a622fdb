"""The gate in front of the shell: it asks for the exact command, once, and no answer means no (G4)."""

from dataclasses import replace
from pathlib import Path

import pytest

from hermes_base.chat import Answer, Question
from hermes_base.tool_context import ToolContext
from tools.command_gate import approve_command, approve_input


class Person:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.answer


def make_context(person: Person | None, mode: str = "ask", home: Path | None = None) -> ToolContext:
    return ToolContext(folder="/home/ann/project", asker=person, settings={"approvals": {"mode": mode}}, home=home)


def test_reading_runs_without_a_question() -> None:
    """G4."""
    person = Person(Answer("deny"))
    assert approve_command(make_context(person), "ls -la") is None
    assert person.questions == []


def test_the_exact_command_is_asked_for_once() -> None:
    """G4."""
    person = Person(Answer("approve"))
    command = "curl  'https://example.org/x' > x.txt"
    assert approve_command(make_context(person), command) is None
    assert len(person.questions) == 1
    assert person.questions[0].text == command
    assert person.questions[0].reason


def test_an_approval_holds_for_one_time_only() -> None:
    """G4."""
    person = Person(Answer("approve"))
    context = make_context(person)
    approve_command(context, "curl example.org")
    approve_command(context, "curl example.org")
    assert len(person.questions) == 2


@pytest.mark.parametrize("answer", [Answer("deny"), Answer("", given=False), Answer("yes")])
def test_anything_but_an_approval_is_a_no(answer: Answer) -> None:
    """G4."""
    refusal = approve_command(make_context(Person(answer)), "curl example.org")
    assert refusal
    assert "nobody approved" in refusal


def test_nobody_there_is_a_no() -> None:
    """G4."""
    assert approve_command(make_context(None), "curl example.org")


def test_ruin_is_not_even_asked_for(tmp_path: Path) -> None:
    """G4, G5."""
    person = Person(Answer("approve"))
    for command in ("rm -rf /", f"echo x > {tmp_path}/config.yaml"):
        assert approve_command(make_context(person, "auto", tmp_path), command)
    assert person.questions == []


def test_mode_deny_asks_nothing() -> None:
    """G4."""
    person = Person(Answer("approve"))
    context = make_context(person, "deny")
    assert approve_command(context, "touch x")
    assert approve_command(context, "ls") is None
    assert person.questions == []


def test_mode_auto_lets_ordinary_work_through() -> None:
    """G4."""
    person = Person(Answer("deny"))
    assert approve_command(make_context(person, "auto"), "make test") is None
    assert person.questions == []


@pytest.mark.parametrize(("command", "asked"), [("cat", 0), ("bash", 1), ("python3 -i", 1)])
def test_what_is_typed_into_a_program_is_asked_for_like_the_program(command: str, asked: int) -> None:
    """G4, G5: a shell that was agreed to is no way around the policy."""
    person = Person(Answer("approve"))
    assert approve_input(make_context(person), command, "rm -rf x") is None
    assert [question.text for question in person.questions] == [f"{command}\n<<< rm -rf x"] * asked
    nobody = Person(Answer("", given=False))
    assert (approve_input(make_context(nobody), command, "rm -rf x") is None) == (not asked)


def test_an_approval_is_bound_to_conversation_turn_and_command_and_holds_once(caplog: pytest.LogCaptureFixture) -> None:
    """G4: the next call is asked for again; who agreed is in the log."""
    person = Person(Answer("approve", by="ada"))
    context = replace(make_context(person), conversation="agent:main:local:dm:1", turn="turn-7")
    with caplog.at_level("INFO"):
        assert approve_command(context, "rm notes.txt") is None
        assert approve_command(context, "rm notes.txt") is None
    assert [(q.conversation, q.turn, q.text) for q in person.questions] == [
        ("agent:main:local:dm:1", "turn-7", "rm notes.txt")
    ] * 2
    assert all(question.expires_in > 0 for question in person.questions)
    assert "approved by ada: rm notes.txt" in caplog.text
