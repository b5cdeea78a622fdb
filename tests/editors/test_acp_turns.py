"""`hermes acp` as an editor uses it: sessions, what is streamed, tools and what they change, loading, listing."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema
from editor_rig import EditorSide, call, drive, set_up

from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
pytestmark = pytest.mark.slow  # a process for each


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_a_session_streams_thoughts_text_tools_diffs_and_the_plan(home: Path, lab: LabServer, work: Path) -> None:
    """H7: what a terminal shows, in the words of the protocol."""
    set_up(home, lab.base_url)
    (work / "old.txt").write_text("one\ntwo\n")

    async def step(side: EditorSide) -> None:
        editor, session = side.editor, await side.new(work)
        await editor.until(lambda: editor.of(schema.AvailableCommandsUpdate, session))
        (offered,) = editor.of(schema.AvailableCommandsUpdate)
        assert {"usage", "model", "compress"} <= {command.name for command in offered.available_commands}
        assert "quit" not in {command.name for command in offered.available_commands}

        assert await side.ask(session, "[[reason Let me see.]] [[say Good morning to you.]]") == "end_turn"
        assert editor.said() == "Good morning to you."
        assert "".join(chunk.content.text for chunk in editor.of(schema.AgentThoughtChunk)) == "Let me see."

        editor.updates.clear()
        assert await side.ask(session, call("write_file", path="new.txt", content="a\nb\n")) == "end_turn"
        (begun,) = editor.of(schema.ToolCallStart)
        assert (begun.kind, begun.status, begun.title) == ("edit", "in_progress", "write_file new.txt")
        assert [place.path for place in begun.locations] == [str(work / "new.txt")]
        (ended,) = editor.of(schema.ToolCallProgress)
        assert (ended.tool_call_id, ended.status) == (begun.tool_call_id, "completed")
        (diff,) = ended.content
        assert (diff.type, diff.path, diff.old_text, diff.new_text) == ("diff", str(work / "new.txt"), None, "a\nb\n")

        editor.updates.clear()
        edits = [{"path": "old.txt", "old": "two", "new": "three"}]
        await side.ask(session, call("read_file", path="old.txt") + "[[then]]" + call("patch", edits=edits))
        diff = editor.of(schema.ToolCallProgress)[-1].content[0]
        assert (diff.old_text, diff.new_text) == ("one\ntwo\n", "one\nthree\n")
        assert editor.of(schema.ToolCallStart)[0].kind == "read"

        editor.updates.clear()
        items = [{"text": "look", "status": "done"}, {"text": "do", "status": "in_progress"}, {"text": "rest"}]
        await side.ask(session, call("todo", items=items))
        (plan,) = editor.of(schema.AgentPlanUpdate)
        assert [(entry.content, entry.status) for entry in plan.entries] == [
            ("look", "completed"),
            ("do", "in_progress"),
            ("rest", "pending"),
        ]
        await side.ask(session, call("todo", items=[{"id": "3", "status": "done"}], merge=True))
        assert [entry.status for entry in editor.of(schema.AgentPlanUpdate)[-1].entries][-1] == "completed"

        editor.updates.clear()
        await side.ask(session, call("terminal", command="echo out; exit 3"))
        ended = editor.of(schema.ToolCallProgress)[-1]
        assert "out" in ended.content[0].content.text

        editor.updates.clear()
        await side.ask(session, call("terminal", command="seq 2000"))
        cut, whole = (update.content[0].content.text for update in editor.of(schema.ToolCallProgress))
        assert "\n2000" not in cut
        assert whole.splitlines()[:3] == ["```", "1", "2"]
        assert "\n1999\n2000\n" in whole
        assert await side.leave() == 0

    drive(home, step)
    assert (work / "new.txt").read_text() == "a\nb\n"


def test_what_a_prompt_may_hold(home: Path, lab: LabServer, work: Path) -> None:
    """Links are named, texts stand in the message, long ones and pictures are files that the agent can read."""
    set_up(home, lab.base_url)

    async def step(side: EditorSide) -> None:
        session = await side.new(work)
        await side.ask(
            session,
            "Look at ",
            acp.resource_link_block("a b.py", f"file://{work}/a%20b.py"),
            " please.",
            acp.resource_block(acp.embedded_text_resource(f"file://{work}/c.py", "x = '```'\n")),
            acp.image_block(base64.b64encode(PIXEL).decode(), "image/png"),
            acp.resource_block(acp.embedded_text_resource(f"file://{work}/long.txt", "long line\n" * 5000)),
        )

    drive(home, step)
    (sent,) = [request.json()["messages"][-1]["content"] for request in lab.requests]
    text = sent if isinstance(sent, str) else next(part["text"] for part in sent if part["type"] == "text")
    assert text.startswith(f"Look at [a b.py]({work}/a b.py) please.\n\n{work}/c.py:\n```\nx = '```'\n```")
    assert any(part["type"] == "image_url" for part in sent)
    kept = sorted((home / "uploads").rglob("*.*"))
    assert sorted(path.suffix for path in kept) == [".png", ".txt"]
    assert next(path for path in kept if path.suffix == ".png").read_bytes() == PIXEL
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


def test_a_session_is_listed_and_loaded_after_a_restart(home: Path, lab: LabServer, work: Path) -> None:
    """C7, A6: the transcript comes as updates, and the model is sent what it was sent before, byte for byte."""
    set_up(home, lab.base_url)

    async def begin(side: EditorSide) -> str:
        session = await side.new(work)
        await side.ask(session, call("write_file", path="kept.txt", content="x\n"))
        await side.ask(session, "[[reason Hm.]] [[say Kept.]]")
        return session

    async def go_on(side: EditorSide) -> list[Any]:
        (listed,) = (await side.agent.list_sessions()).sessions
        assert listed.cwd == str(work)
        assert not (await side.agent.list_sessions(cwd="/nowhere")).sessions
        await side.agent.load_session(cwd=str(work), session_id=listed.session_id, mcp_servers=[])
        told = [update for _, update in side.editor.updates]
        assert await side.ask(listed.session_id, "[[say And on.]]") == "end_turn"
        assert side.editor.said().endswith("And on.")
        return [listed.session_id, *told]

    begun, (id, *told) = drive(home, begin, go_on)
    assert id == begun
    assert [update.session_update for update in told if update.session_update != "available_commands_update"] == [
        "user_message_chunk",
        "tool_call",
        "agent_message_chunk",
        "user_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
    ]
    tool = next(update for update in told if isinstance(update, schema.ToolCallStart))
    assert (tool.kind, tool.status, tool.locations[0].path) == ("edit", "completed", str(work / "kept.txt"))
    before, after = (request.body for request in lab.requests[-2:])
    assert after.startswith(before[: before.rindex(b'],"stream"')])


def test_two_sessions_side_by_side_share_one_gateway(home: Path, lab: LabServer, work: Path) -> None:
    """Each has its own folder, and nothing of one is told to the other."""
    set_up(home, lab.base_url)
    other = work.parent / "other"
    other.mkdir()

    async def step(side: EditorSide) -> None:
        one, two = await side.new(work), await side.new(other)
        slow = call("terminal", command="pwd; sleep 0.3")
        assert await asyncio.gather(side.ask(one, slow), side.ask(two, "[[say quick]]"), return_exceptions=True) == [
            "end_turn",
            "end_turn",
        ]
        assert side.editor.said(two) == "quick"
        assert str(work) in side.editor.said(one)
        await side.ask(two, call("terminal", command="pwd"))
        assert str(other) in side.editor.said(two)

    drive(home, step)
    store = Store.open_readonly(home / STORE_FILE)
    try:
        assert len({info.conversation for info in store.sessions()}) == 2
    finally:
        store.close()


def test_why_a_turn_stopped(home: Path, lab: LabServer, work: Path) -> None:
    """An answer that was cut or refused says so; one that never came is an error with its sentence."""
    set_up(home, lab.base_url)

    async def step(side: EditorSide) -> None:
        session = await side.new(work)
        assert await side.ask(session, "[[say Half of]] [[length]]") == "max_tokens"
        assert await side.ask(session, "[[say No.]] [[refuse]]") == "refusal"
        with pytest.raises(acp.RequestError, match="lab") as failed:
            await side.ask(session, "[[fail 400 broken]]")
        assert failed.value.code == -32603
        assert await side.ask(session, "[[say Still here.]]") == "end_turn"
        assert await side.ask(session, "/tools") == "end_turn"
        assert "write_file" in side.editor.said(session)
        assert await side.ask(session, "/quit") == "end_turn"
        assert await side.ask(session, "[[say Not left.]]") == "end_turn"

    drive(home, step)
