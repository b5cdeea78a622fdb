"""`hermes mcp serve` as other programs use it: the official client, a real gateway, the lab's model."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateway_process import HERMES, GatewayProcess
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from warm_python import WarmProcess, run_warm

from gateway.http.access import read_token
from gateway.service.admin import key_admin
from hermes_base.store_place import find_place
from hermes_lab.server import LabServer
from hermes_state.people_store import MEMBER
from hermes_state.sql.store_sql import Store
from mcp import ClientSession, StdioServerParameters

PATIENCE = 60.0
INSPECTOR = Path(__file__).parents[2] / ".peers" / "node" / "node_modules" / ".bin" / "mcp-inspector"
LOOKING = ["list_conversations", "read_messages", "send_message", "get_answer", "stop_message", "list_waiting"]
pytestmark = pytest.mark.slow  # a process for each


@pytest.fixture
def gateway(home: Path, lab: LabServer) -> Iterator[GatewayProcess]:
    with GatewayProcess(home, lab.base_url, approvals={"mode": "ask"}, web={"port": 0}) as running:
        running.start()
        yield running


@asynccontextmanager
async def on_stdio(home: Path, **env: str) -> AsyncIterator[ClientSession]:
    started = StdioServerParameters(
        command=HERMES, args=["mcp", "serve"], env={**os.environ, "HERMES_HOME": str(home), **env}
    )
    with (home / "mcp-stderr.log").open("a") as errors:
        async with stdio_client(started, errlog=errors) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            yield session


async def call(client: ClientSession, name: str, **args: Any) -> dict[str, Any]:
    """What came of it; a refusal under `refused`."""
    came = await client.call_tool(name, args)
    text = "".join(part.text for part in came.content)
    return {"refused": text} if came.isError else json.loads(text)


async def until(look: Callable[[], Awaitable[Any]], is_so: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(PATIENCE):
        while not is_so(found := await look()):  # noqa: ASYNC110 - another process is asked
            await asyncio.sleep(0.05)
    return found


def hermes(home: Path, *args: str) -> dict[str, Any]:
    ran = run_warm([HERMES, *args], str(home))
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout) if b"{" in ran.stdout[:2] else {}


def make_key(home: Path) -> tuple[str, str]:
    made = hermes(home, "api-keys", "create", "--json")
    return made["id"], made["key"]


def test_a_program_talks_over_stdio(gateway: GatewayProcess, home: Path, lab: LabServer) -> None:
    """H7: conversations are listed and read, a message is answered, waited for or asked after."""

    async def talk() -> None:
        async with on_stdio(home) as session:
            assert [tool.name for tool in (await session.list_tools()).tools] == LOOKING
            sent = await call(session, "send_message", text="[[say Good morning.]]", conversation="notes")
            assert (sent["status"], sent["answer"]) == ("completed", "Good morning.")
            later = await call(session, "send_message", text="[[stall 1]] [[say Later.]]", wait_seconds=0)
            assert later["status"] != "completed"
            came = await call(session, "get_answer", run=later["run"], wait_seconds=PATIENCE)
            assert came["answer"] == "Later."

            (found,) = (await call(session, "list_conversations", words="morning", limit=1))["conversations"]
            assert found["session"] == sent["session"]
            assert len((await call(session, "list_conversations"))["conversations"]) == 2
            read = (await call(session, "read_messages", session=sent["session"]))["messages"]
            assert [(each["by"], each["text"]) for each in read] == [
                ("user", "[[say Good morning.]]"),
                ("assistant", "Good morning."),
            ]
            slow = await call(session, "send_message", text="[[stall 60]]", conversation="slow", wait_seconds=0)
            look = lambda: call(session, "get_answer", run=slow["run"])  # noqa: E731
            await until(look, lambda told: told["status"] == "in_progress")
            await call(session, "stop_message", run=slow["run"])
            assert (await until(look, lambda told: told["status"] != "in_progress"))["status"] == "stopped"
            for name, args in (
                ("read_messages", {"session": "no-such"}),
                ("get_answer", {"run": "no-such"}),
                ("send_message", {}),
                ("send_message", {"text": "x", "wait_seconds": -1}),
                ("answer_waiting", {"id": "x", "choice": "approve"}),
                ("no_such_tool", {}),
            ):
                assert "refused" in await call(session, name, **args), name

    asyncio.run(talk())


def test_questions_are_seen_and_answered_only_with_a_key_that_may(
    gateway: GatewayProcess, home: Path, tmp_path: Path
) -> None:
    """G4: off by default; a key that the settings name may, once, and makes no rule; anybody sees what waits."""
    id, key = make_key(home)
    asks = '[[tool terminal {"command": "touch made"}]]'

    async def talk() -> None:
        async with on_stdio(home) as owner, on_stdio(home, HERMES_API_KEY=key) as keyed:
            for session in (owner, keyed):
                assert [tool.name for tool in (await session.list_tools()).tools] == LOOKING
            sent = await call(keyed, "send_message", text=asks, conversation="work", wait_seconds=PATIENCE)
            assert sent["question"]["kind"] == "approval"
            (waits,) = (await call(owner, "list_waiting"))["waiting"]
            assert (waits["id"], waits["session"]) == (sent["question"]["id"], sent["session"])
            assert "touch made" in waits["text"]
            answer = {"id": waits["id"], "choice": "approve"}
            for session in (owner, keyed):
                assert "no tool" in (await call(session, "answer_waiting", **answer))["refused"]

            hermes(home, "config", "set", "approvals.keys", json.dumps([id]))
            offered = [tool.name for tool in (await keyed.list_tools()).tools]
            assert offered == [*LOOKING, "answer_waiting"]
            assert [tool.name for tool in (await owner.list_tools()).tools] == LOOKING
            for choice in ("always", "conversation", "perhaps", ""):
                refused = await call(keyed, "answer_waiting", id=waits["id"], choice=choice)
                assert "refused" in refused, choice
            assert await call(keyed, "answer_waiting", **answer) == {"answered": waits["id"], "choice": "approve"}
            ended = await call(keyed, "get_answer", run=sent["run"], wait_seconds=PATIENCE)
            assert ended["status"] == "completed"
            assert "refused" in await call(keyed, "answer_waiting", **answer)
            assert (home / "workspace" / "made").exists()
            hermes(home, "api-keys", "revoke", id)
            assert "does not hold" in (await call(keyed, "list_conversations"))["refused"]

    asyncio.run(talk())


@contextmanager
def on_http(home: Path) -> Iterator[str]:
    """The address of a server of its own."""
    env = {**os.environ, "HERMES_HOME": str(home)}
    with WarmProcess([HERMES, "mcp", "serve", "--http", "0"], stderr=2, env=env) as server:
        try:
            yield re.search(r"http://127\.0\.0\.1:\d+/mcp", server.stdout.readline())[0]  # type: ignore[index]
        finally:
            server.terminate()


@asynccontextmanager
async def come_in(address: str, key: str) -> AsyncIterator[ClientSession]:
    async with (
        httpx.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE) as client,
        streamable_http_client(address, http_client=client) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield session


def test_a_persons_key_sees_what_is_theirs(home: Path, lab: LabServer) -> None:
    """G12: neither the owner's conversations nor their questions, and it never answers one."""
    with GatewayProcess(home, lab.base_url, web={"port": 0}, approvals={"mode": "ask"}) as gateway:
        with closing(Store(find_place(home))) as store:
            ann = store.people.add("Ann", MEMBER, "chat", "ann").id
            made = key_admin.create(store, home, {"person": ann})
        gateway.start()
        hermes(home, "config", "set", "approvals.keys", json.dumps([made["id"]]))

        async def talk(address: str) -> None:
            async with on_stdio(home) as owner, come_in(address, made["key"]) as session:
                asks = '[[tool terminal {"command": "touch made"}]]'
                theirs = await call(owner, "send_message", text=asks, wait_seconds=PATIENCE)
                assert (await call(owner, "list_waiting"))["waiting"]
                assert [tool.name for tool in (await session.list_tools()).tools] == LOOKING
                assert (await call(session, "list_conversations"))["conversations"] == []
                assert (await call(session, "list_waiting"))["waiting"] == []
                assert "refused" in await call(session, "read_messages", session=theirs["session"])
                assert "refused" in await call(session, "get_answer", run=theirs["run"])
                own = await call(session, "send_message", text="[[say Hello Ann.]]")
                assert own["answer"] == "Hello Ann."
                (listed,) = (await call(session, "list_conversations"))["conversations"]
                assert listed["session"] == own["session"]
                await call(owner, "stop_message", run=theirs["run"])

        with on_http(home) as address:
            asyncio.run(talk(address))


def test_a_program_talks_over_http_with_a_key(gateway: GatewayProcess, home: Path, lab: LabServer) -> None:
    """G2: on this machine alone, and nobody comes in without a key that holds, or under a foreign name."""
    id, key = make_key(home)

    async def talk(address: str) -> None:
        async with come_in(address, key) as session:
            assert [tool.name for tool in (await session.list_tools()).tools] == LOOKING
            sent = await call(session, "send_message", text="[[say Over HTTP.]]")
            assert sent["answer"] == "Over HTTP."
            hermes(home, "config", "set", "approvals.keys", json.dumps([id]))
            assert "answer_waiting" in [tool.name for tool in (await session.list_tools()).tools]
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        usual = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(timeout=PATIENCE) as client:

            async def knock(**headers: str) -> int:
                return (await client.post(address, json=asked, headers={**usual, **headers})).status_code

            assert await knock() == 200
            for given in ("Bearer hk_wrong", "", "Basic x", f"Bearer {read_token(home)}"):
                assert await knock(authorization=given) == 401, given
            assert await knock(host="evil.example") == 421
            assert await knock(origin="http://evil.example") == 403
            hermes(home, "api-keys", "revoke", id)
            assert await knock() == 401

    with on_http(home) as address:
        asyncio.run(talk(address))


def test_without_a_gateway_it_says_so_and_waits(home: Path, lab: LabServer) -> None:
    """H8: a call is refused with the sentence; as soon as a gateway runs, the same server answers."""
    with GatewayProcess(home, lab.base_url, web={"port": 0}) as gateway:

        async def talk() -> None:
            async with on_stdio(home) as session:
                refused = await call(session, "list_conversations")
                assert "hermes gateway start" in refused["refused"]
                await asyncio.to_thread(gateway.start)
                assert await call(session, "list_conversations") == {"conversations": [], "more": False}

        asyncio.run(talk())


def test_ctrl_c_ends_it(home: Path) -> None:
    """Whatever waits for the next line on stdin."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    with subprocess.Popen(
        [HERMES, "mcp", "serve"],
        env={**os.environ, "HERMES_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as serving:
        assert serving.stdin is not None
        assert serving.stdout is not None
        serving.stdin.write(json.dumps(first).encode() + b"\n")
        serving.stdin.flush()
        assert b"hermes" in serving.stdout.readline()
        serving.send_signal(signal.SIGINT)
        assert serving.wait(PATIENCE) == -signal.SIGINT


@pytest.mark.peers
@pytest.mark.skipif(not INSPECTOR.exists(), reason="scripts/setup peers brings the inspector")
def test_the_inspector_lists_and_calls_tools(gateway: GatewayProcess, home: Path) -> None:
    """The protocol's own inspector, by its command line."""
    inspect = [str(INSPECTOR), "--cli", HERMES, "mcp", "serve", "--method"]
    said = ["--tool-name", "send_message", "--tool-arg", "text=[[say Hello inspector.]]"]
    ran = [
        subprocess.run([*inspect, *args], env=gateway.environment, capture_output=True, timeout=PATIENCE, check=True)
        for args in (["tools/list"], ["tools/call", *said])
    ]
    listed, called = (json.loads(each.stdout) for each in ran)
    assert [tool["name"] for tool in listed["tools"]] == LOOKING
    assert json.loads(called["content"][0]["text"])["answer"] == "Hello inspector."
