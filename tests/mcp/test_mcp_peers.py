"""Servers of others, as npm brings them (`scripts/setup peers`): everything, filesystem, memory."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_rig import McpHouse, RemoteServer
from web_surfing import list_below

from hermes_base.turn.cancel import CancelToken
from tools.registry import registry

House = Callable[..., McpHouse]
PEERS = Path(__file__).parents[2] / ".peers" / "node" / "node_modules" / "@modelcontextprotocol"
NODE = shutil.which("node") or ""
LONG = {"duration": 600, "steps": 6000}
pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(
        not NODE or not (PEERS / "server-everything").exists(), reason="`scripts/setup peers` brings the servers"
    ),
]


def peer(name: str, *args: str, **fields: Any) -> dict[str, Any]:
    return {"command": NODE, "args": [str(PEERS / f"server-{name}/dist/index.js"), *args], "trust": True, **fields}


def test_everything(house: House) -> None:
    at = house({"e": peer("everything", "stdio", sampling=1000)})
    assert at.missing == {}
    names = registry.names("mcp-e")
    assert "mcp_e_echo" in names
    assert at.call("mcp_e_echo", {"message": "hello"}) == "[MCP server e]\nEcho: hello"
    assert "sum of 2 and 3 is 5" in at.call("mcp_e_get-sum", {"a": 2, "b": 3})
    image = json.loads(at.call("mcp_e_get-tiny-image"))
    assert image["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    long = at.call("mcp_e_trigger-long-running-operation", {"duration": 1, "steps": 4})
    assert "completed" in long
    assert at.moves >= 3
    listed = json.loads(at.call("mcp_resources", {"server": "e"}))
    uri = listed["resources"][0]["uri"]
    assert uri in at.call("mcp_resources", {"server": "e", "uri": uri})
    prompts = [row["name"] for row in json.loads(at.call("mcp_prompts", {"server": "e"}))["prompts"]]
    assert at.call("mcp_prompts", {"server": "e", "name": prompts[0]}).startswith("[MCP server e: prompt")


def test_files_that_the_owner_named_and_no_others(house: House, tmp_path: Path) -> None:
    """G5: behind the walls the program sees the folder among its arguments, and not the one beside it."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("what stands there")
    (tmp_path / "other.txt").write_text("canary")
    at = house({"f": peer("filesystem", str(tmp_path / "docs"))})
    assert at.call("mcp_f_read_text_file", {"path": str(tmp_path / "docs" / "a.txt")}).endswith("what stands there")
    at.call("mcp_f_write_file", {"path": str(tmp_path / "docs" / "b.txt"), "content": "new"})
    assert (tmp_path / "docs" / "b.txt").read_text() == "new"
    assert "canary" not in at.call("mcp_f_read_text_file", {"path": str(tmp_path / "other.txt")})


def test_memory_outlives_its_server(house: House, tmp_path: Path) -> None:
    env = {"MEMORY_FILE_PATH": str(tmp_path / "house/mcp/work/m/memory.json")}
    at = house({"m": peer("memory", env=env)})
    entity = {"name": "Ann", "entityType": "person", "observations": ["likes green"]}
    at.call("mcp_m_create_entities", {"entities": [entity]})
    again = house({"m": peer("memory", env=env, timeout=9)})
    assert "likes green" in again.call("mcp_m_search_nodes", {"query": "Ann"})


@pytest.mark.parametrize(
    ("name", "args", "tool", "answer"),
    [
        ("everything", ("stdio",), "mcp_p_echo", "Echo: again"),
        ("filesystem", ("FOLDER",), "mcp_p_list_allowed_directories", "FOLDER"),
        ("memory", (), "mcp_p_read_graph", "entities"),
    ],
)
def test_a_program_is_killed_and_started_again(
    house: House, tmp_path: Path, name: str, args: tuple[str, ...], tool: str, answer: str
) -> None:
    """Over stdio: SIGKILL, in the middle of a call where the server has one that lasts; the next starts it again."""
    at = house({"p": peer(name, *(word.replace("FOLDER", str(tmp_path)) for word in args))})
    at.call(tool, {"message": "hello"} if name == "everything" else {})
    told: list[str] = []
    calling = threading.Thread(target=lambda: told.append(at.call("mcp_p_trigger-long-running-operation", LONG)))
    pause, before = threading.Event(), at.moves
    if name == "everything":
        calling.start()
        while at.moves < before + 10:  # each step of the server is one
            pause.wait(0.02)
    for pid in list_below(os.getpid()):
        if f"server-{name}/dist" in read_command(pid) and read_command(pid).startswith(NODE):
            os.kill(pid, signal.SIGKILL)
    if name == "everything":
        calling.join()
        assert "The call was cut" in told[0]
        assert "SIGKILL" in told[0]
    again = {"message": "again"} if name == "everything" else {}
    while "error" in (said := at.call(tool, again)):
        assert "is not there" in said
        pause.wait(0.1)
    assert answer.replace("FOLDER", str(tmp_path)) in said


def read_command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@pytest.mark.parametrize("way", ["streamableHttp", "sse"])
def test_everything_at_an_address(house: House, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP, killed in the middle of a call, and used again afterwards."""
    server = RemoteServer("http" if way == "streamableHttp" else "sse", [NODE, *peer("everything", way)["args"]])
    try:
        at = house({"e": {"url": server.url, "transport": server.way, "trust": True}})
        assert at.call("mcp_e_echo", {"message": "hello"}) == "[MCP server e]\nEcho: hello"
        told: list[str] = []
        calling = threading.Thread(
            target=lambda: told.append(at.call("mcp_e_trigger-long-running-operation", LONG, cancel=CancelToken()))
        )
        calling.start()
        pause = threading.Event()
        while not at.moves:
            pause.wait(0.02)
        server.kill()
        calling.join()
        assert "The call was cut" in told[0]
        server.start()
        while "error" in (answer := at.call("mcp_e_echo", {"message": "again"})):
            pause.wait(0.1)
        assert answer.endswith("Echo: again")
    finally:
        server.kill()
