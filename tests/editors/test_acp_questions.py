"""What Hermes asks, in an editor: just the choices that it offers, and nobody has agreed but who chose one (G4)."""

import asyncio
from pathlib import Path

import pytest
from acp import schema
from editor_rig import EditorSide, call, drive, set_up

from hermes_lab.server import LabServer

ASKS = {"mode": "ask"}
pytestmark = pytest.mark.slow  # a process for each


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def touch(name: str) -> str:
    return call("terminal", command=f"touch {name}")


def test_a_command_is_allowed_once_refused_and_kept_for_the_conversation(
    home: Path, lab: LabServer, work: Path
) -> None:
    """G4"""
    set_up(home, lab.base_url, approvals=ASKS)

    async def step(side: EditorSide) -> None:
        editor, session = side.editor, await side.new(work)
        editor.choose = lambda options: "approve"
        await side.ask(session, touch("a"))
        ((shown, options),) = editor.asked
        (begun,) = editor.of(schema.ToolCallStart)
        assert shown.tool_call_id == begun.tool_call_id
        assert "touch a" in shown.content[0].content.text
        assert [(option.option_id, option.kind) for option in options] == [
            ("approve", "allow_once"),
            ("deny", "reject_once"),
            ("conversation", "allow_always"),
            ("always", "allow_always"),
        ]
        assert editor.of(schema.ToolCallProgress)[-1].status == "completed"
        assert (work / "a").exists()

        editor.choose = lambda options: "deny"
        await side.ask(session, touch("b"))
        assert editor.of(schema.ToolCallProgress)[-1].status == "failed"
        editor.choose = lambda options: None  # its window was closed
        await side.ask(session, touch("b"))
        editor.choose = lambda options: "made up"
        await side.ask(session, touch("b"))
        assert not (work / "b").exists()

        editor.choose = lambda options: "conversation"
        await side.ask(session, touch("c"))
        asked = len(editor.asked)
        (work / "c").unlink()
        await side.ask(session, touch("c"))
        assert (work / "c").exists()
        assert len(editor.asked) == asked

        other = await side.new(work)
        editor.choose = lambda options: "deny"
        await side.ask(other, touch("c"))
        assert len(editor.asked) == asked + 1

    drive(home, step)


def test_a_turn_is_cancelled_while_it_asks(home: Path, lab: LabServer, work: Path) -> None:
    """G4, B8: the command does not run, the prompt ends as cancelled, and the next one is answered."""
    set_up(home, lab.base_url, approvals=ASKS)

    async def step(side: EditorSide) -> None:
        editor, session = side.editor, await side.new(work)
        editor.hold = asyncio.Event()
        editor.choose = lambda options: "approve"
        asking = asyncio.ensure_future(side.ask(session, touch("a")))
        await editor.until(lambda: editor.asked)
        await side.agent.cancel(session_id=session)
        assert await asking == "cancelled"
        editor.hold.set()  # too late
        assert await side.ask(session, "[[say Here.]]") == "end_turn"
        assert not (work / "a").exists()
        assert editor.of(schema.ToolCallProgress)[-1].status == "failed"

    drive(home, step)


def test_questions_of_the_model(home: Path, lab: LabServer, work: Path) -> None:
    """One with choices is asked in a window; one without is answered by the next prompt."""
    set_up(home, lab.base_url)

    async def step(side: EditorSide) -> None:
        editor, session = side.editor, await side.new(work)
        editor.choose = lambda options: next(option.option_id for option in options if option.name == "green")
        await side.ask(session, call("clarify", question="Which colour?", choices=["red", "green"]))
        ((shown, options),) = editor.asked
        assert [option.name for option in options] == ["red", "green", "None of these"]
        assert "Which colour?" in shown.content[0].content.text
        assert "green" in editor.said()

        editor.updates.clear()
        assert await side.ask(session, call("clarify", question="What name?")) == "end_turn"
        assert editor.said() == "What name?"
        assert await side.ask(session, "Ada") == "end_turn"
        assert "Ada" in editor.said()
        assert "clarify returned" in editor.said()

        editor.updates.clear()
        assert await side.ask(session, call("clarify", question="What else?")) == "end_turn"
        assert await side.ask(session, "/usage") == "end_turn"  # a command is no answer
        assert "This conversation" in editor.said()
        assert await side.ask(session, "[[say Done.]]") == "end_turn"

    drive(home, step)
    answers = [message for message in lab.requests[-1].json()["messages"] if message["role"] == "tool"]
    assert "/usage" not in answers[-1]["content"]
