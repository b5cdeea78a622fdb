"""What an editor does wrong, and what befalls it or the gateway: clear errors, nothing hangs, nothing is lost."""

import asyncio
import json
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema
from editor_rig import PATIENCE, EditorSide, call, drive, open_editor, set_up
from gateway_process import HERMES, GatewayProcess
from waiting import wait_until
from warm_python import WarmProcess, run_warm

from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.home_lock import holder
from hermes_state.sql.store_sql import Store

#: An answer that takes its time: nobody waits for its end.
SLOWLY = f"[[chunks 600]] [[pause 0.1]] [[say {'and so on ' * 600}]]"
pytestmark = pytest.mark.slow  # a process for each


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def speak(home: Path, *lines: str | bytes) -> tuple[list[dict[str, Any]], bytes]:
    """What `hermes acp` answers to these lines, until it ends because there are no more; and what it wrote beside."""
    given = b"".join(line.encode() + b"\n" if isinstance(line, str) else line for line in lines)
    ran = run_warm([HERMES, "acp"], str(home), given)
    assert ran.returncode == 0, ran.stderr.decode()
    return [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr


def ask(id: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def test_nonsense_on_stdin_is_answered_and_the_rest_is_heard(home: Path, lab: LabServer) -> None:
    """stdout carries nothing but the protocol, whatever comes in."""
    set_up(home, lab.base_url)
    said, _ = speak(
        home,
        "this is no JSON",
        b"\xff\xfe\x00\n",
        "[1, 2]",
        '"text"',
        "{}",
        "",
        '{"jsonrpc": "2.0", "id": {"a": 1}, "method": "initialize"}',
        '{"jsonrpc": "2.0", "id": 99, "error": "odd"}',
        '{"jsonrpc": "2.0", "id": 98, "result": null}',
        ask(1, "no/such/method"),
        ask(2, "initialize"),
        ask(3, "session/new", cwd="relative", mcpServers=[]),
        ask(4, "session/new", cwd="/no/such/folder", mcpServers=[]),
        ask(5, "session/prompt", sessionId="agent:main:local:dm:nobody", prompt=[{"type": "text", "text": "hi"}]),
        ask(6, "session/load", sessionId="agent:main:local:dm:nobody", cwd="/", mcpServers=[]),
        ask(7, "session/load", sessionId="no-such", cwd="/", mcpServers=[]),
        ask(8, "session/list", cursor="x"),
        ask(9, "authenticate", methodId="x"),
        '{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "nobody"}}',
        ask(10, "initialize", protocolVersion=7),
        "the last line has no end"[:0],
    )
    codes = {each["id"]: each["error"]["code"] for each in said if "error" in each and each["id"] is not None}
    assert codes == {1: -32601, 2: -32602, 3: -32602, 4: -32602, 5: -32002, 6: -32002, 7: -32002, 8: -32602, 9: -32602}
    unnamed = [each["error"]["code"] for each in said if each["id"] is None]
    assert unnamed == [-32700, -32700, -32600, -32600, -32600, -32600, -32600]
    (answered,) = [each["result"] for each in said if each["id"] == 10]
    assert answered["protocolVersion"] == 1
    assert not (home / STORE_FILE).exists()  # nobody spoke: no gateway was begun


def test_prompts_that_cannot_be_taken(home: Path, lab: LabServer, work: Path) -> None:
    """Two at once, an empty one, broken data: refused with a sentence, and the turn under way goes on."""
    set_up(home, lab.base_url)

    async def step(side: EditorSide) -> None:
        session = await side.new(work)
        first = asyncio.ensure_future(side.ask(session, SLOWLY))
        await side.editor.until(lambda: side.editor.said())
        for blocks, words in ((("again",), "being answered"), (("  ",), "empty"), ((_broken(),), "base64")):
            with pytest.raises(acp.RequestError, match=words):
                await side.ask(session, *blocks)
        with pytest.raises(acp.RequestError, match="not loaded now"):
            await side.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
        assert not first.done()
        await side.agent.cancel(session_id=session)
        assert await first == "cancelled"
        await side.agent.cancel(session_id=session)  # there is nothing to stop
        assert await side.ask(session, "[[say Next.]]") == "end_turn"
        assert "again" not in lab.requests[-1].body.decode()

    drive(home, step)


def _broken() -> schema.ImageContentBlock:
    return acp.image_block("?", "image/png")


def test_a_turn_is_cancelled_while_its_text_comes(home: Path, lab: LabServer, work: Path) -> None:
    """B8: what was streamed before stays, the turn is over at once, and the transcript says so."""
    set_up(home, lab.base_url)

    async def step(side: EditorSide) -> str:
        session = await side.new(work)
        turn = asyncio.ensure_future(side.ask(session, SLOWLY))
        await side.editor.until(lambda: side.editor.said())
        await side.agent.cancel(session_id=session)
        assert await turn == "cancelled"
        early = asyncio.ensure_future(side.ask(session, "[[stall 60]] [[say Never.]]"))
        await asyncio.sleep(0)
        await side.agent.cancel(session_id=session)  # before its turn has begun
        assert await early == "cancelled"
        return session

    (session,) = drive(home, step)
    with closing(Store.open_readonly(home / STORE_FILE)) as store:
        info = store.current(session)
        assert info is not None
        assert "interrupted" in str([paged.row.message for paged in store.page(info.id)])


def test_the_gateway_is_killed_in_mid_turn(home: Path, lab: LabServer, work: Path) -> None:
    """C1, C2, C7: the editor's prompt is answered by whoever has the home then, once."""
    with GatewayProcess(home, lab.base_url) as gateway:
        gateway.start()

        async def step(side: EditorSide) -> None:
            editor, session = side.editor, await side.new(work)
            turn = asyncio.ensure_future(side.ask(session, call("terminal", command="sleep 1; echo slept")))
            await editor.until(lambda: editor.of(schema.ToolCallStart))
            gateway.kill()
            assert await turn == "end_turn"
            owner = holder(home)
            assert owner is not None
            assert owner.pid == side.process.pid  # it took the home
            assert "returned" in editor.said()
            assert all(update.status != "in_progress" for update in _last_states(editor.of(schema.ToolCallProgress)))
            assert await side.ask(session, "[[say On.]]") == "end_turn"

        drive(home, step)
    with closing(Store.open_readonly(home / STORE_FILE)) as store:
        (info,) = store.sessions()
        said = [paged.row.message for paged in store.page(info.id)]
        assert [message["role"] for message in said] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


def _last_states(updates: list[Any]) -> list[Any]:
    return list({update.tool_call_id: update for update in updates}.values())


def test_the_editor_dies_in_mid_turn(home: Path, lab: LabServer, work: Path) -> None:
    """C1, C7: the turn goes on in its gateway, and its answer is there when the session is loaded."""
    with GatewayProcess(home, lab.base_url) as gateway:
        gateway.start()

        async def begin() -> str:
            async with open_editor(home) as side:
                session = await side.new(work)
                turn = asyncio.ensure_future(side.ask(session, call("terminal", command="sleep 0.5; touch done")))
                await side.editor.until(lambda: side.editor.of(schema.ToolCallStart))
                os.kill(side.process.pid, signal.SIGKILL)
                assert await asyncio.to_thread(side.process.wait) == -signal.SIGKILL
                with pytest.raises(ConnectionError):
                    await turn
                return session

        session = asyncio.run(begin())
        wait_until(lambda: (work / "done").exists(), PATIENCE)

        def is_answered() -> bool:
            with closing(Store.open_readonly(home / STORE_FILE)) as store:
                info = store.current(session)
                return info is not None and store.page(info.id)[-1].row.message["role"] == "assistant"

        wait_until(is_answered, PATIENCE)

        async def load(side: EditorSide) -> str:
            await side.agent.load_session(cwd=str(work), session_id=session, mcp_servers=[])
            assert await side.ask(session, "[[say Next.]]") == "end_turn"
            return side.editor.said()

        (said,) = drive(home, load)
        assert said.count("terminal returned") == 1
        assert said.endswith("Next.")


def test_an_editor_that_ends_it_with_a_signal_or_leaves(home: Path, lab: LabServer, work: Path) -> None:
    """The home is free again, and what was said is kept."""
    set_up(home, lab.base_url)

    async def step(side: EditorSide) -> None:
        session = await side.new(work)
        await side.ask(session, "[[say one]]")
        side.process.terminate()
        assert await asyncio.to_thread(side.process.wait) == 128 + signal.SIGTERM

    drive(home, step)
    assert holder(home) is None


NOISY = """
import os

print("a plugin prints")
os.write(1, b"and writes to the descriptor\\n")
os.system("echo and so does what it starts")


def register(ctx):
    print(input.__name__)
"""


def test_nothing_but_the_protocol_is_on_stdout(home: Path, lab: LabServer, work: Path) -> None:
    """What other code in the process prints goes to stderr, and what it reads is empty."""
    set_up(home, lab.base_url, plugins={"enabled": ["noisy"]})
    folder = home / "plugins" / "noisy"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text('{"name": "noisy"}')
    (folder / "__init__.py").write_text(NOISY)

    async def step(side: EditorSide) -> None:
        session = await side.new(work)
        assert await side.ask(session, "[[say one]]") == "end_turn"
        assert side.editor.said() == "one"

    drive(home, step)
    beside = (home / "editor-stderr.log").read_text()
    for words in ("a plugin prints", "and writes to the descriptor", "and so does what it starts"):
        assert words in beside
    assert "parsing JSON" not in beside


def test_an_editor_that_does_not_read_holds_nothing_up(home: Path, lab: LabServer, work: Path) -> None:
    """Its pipe is full: when it closes stdin the process still ends, and the answer is kept."""
    set_up(home, lab.base_url)
    given, gives = os.pipe()
    with (home / "stderr.log").open("ab") as errors:
        env = {**os.environ, "HERMES_HOME": str(home)}
        process = WarmProcess([HERMES, "acp"], stderr=errors.fileno(), env=env, stdin=given)
    os.close(given)
    with process:
        text = ask(2, "session/new", cwd=str(work), mcpServers=[])
        os.write(gives, f"{ask(1, 'initialize', protocolVersion=1)}\n{text}\n".encode())
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        session = answers[1]["result"]["sessionId"]
        long = f"[[say {'many words ' * 40_000}]]"
        blocks = [{"type": "text", "text": long}]
        with open(gives, "wb") as pipe:
            pipe.write(f"{ask(3, 'session/prompt', sessionId=session, prompt=blocks)}\n".encode())
            pipe.flush()

            def is_answered() -> bool:
                with closing(Store.open_readonly(home / STORE_FILE)) as store:
                    info = store.current(session)
                    rows = store.page(info.id) if info is not None else []
                    return bool(rows) and rows[-1].row.message["role"] == "assistant"

            wait_until(is_answered, PATIENCE)
        assert process.wait() == 0
