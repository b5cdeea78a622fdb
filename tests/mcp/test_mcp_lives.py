"""A server that is a program: it lives behind walls with what it is given, ends with Hermes, and comes back when it has
ended (A5, C4, C12, G6)."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp_rig import SERVER, McpHouse, script, stdio

from hermes_base.errors import Interrupted, ToolFailure
from hermes_base.setting_table import read_settings
from hermes_base.turn.cancel import CancelToken
from tools.builtin.file_tools import read_file
from tools.mcp import mcp_host
from tools.registry import registry

House = Callable[..., McpHouse]


def seen(house: McpHouse, server: str = "t") -> list[str]:
    path = house.home / "mcp" / "work" / server / "seen"
    return path.read_text().splitlines() if path.exists() else []


def with_notes(tmp_path: Path, **fields: object) -> dict[str, object]:
    return stdio(env={"SEEN": str(tmp_path / "house" / "mcp" / "work" / "t" / "seen")}, **fields)


def wait_for(house: McpHouse, line: str) -> None:
    done = threading.Event()
    while line not in seen(house):
        done.wait(0.02)


# --- where it runs


def test_a_server_has_only_the_environment_that_it_is_given(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """G6: no key of Hermes reaches it; `${VAR}` is what `.env` or the environment says."""
    monkeypatch.setenv("CANARY_API_KEY", "sk-canary-0123456789")
    monkeypatch.setenv("GIVEN_TOKEN", "given-0123456789")
    at = house({"t": stdio(env={"TOKEN": "x-${GIVEN_TOKEN}", "MORE": "${NOT_SET:-else}"})})
    names = at.call("mcp_t_environment").split()
    assert "CANARY_API_KEY" not in names
    assert "GIVEN_TOKEN" not in names
    assert at.call("mcp_t_variable", {"name": "TOKEN"}).endswith("x-given-0123456789")
    assert at.call("mcp_t_variable", {"name": "MORE"}).endswith("else")


LOOKS = """
import os, sys
sys.path.insert(0, os.path.dirname({server!r}))
sys.argv = ["server", "stdio"]
from mcp_server import server
@server.tool()
def look(path: str) -> str:
    return open(path).read()
@server.tool()
def put(path: str) -> str:
    return str(open(path, "w").write("x"))
server.run("stdio")
"""


def test_a_server_sees_neither_the_home_nor_the_folders_of_others(house: House, tmp_path: Path) -> None:
    """G5: at the level work, behind the walls; outside of them only if the owner says so."""
    secret = tmp_path / "house" / "config.yaml"
    secret.parent.mkdir()
    secret.write_text("canary: 1")
    folder = tmp_path / "opened"
    folder.mkdir()
    program = folder / "server.py"
    program.write_text(LOOKS.format(server=str(SERVER)))
    entry = {"command": sys.executable, "args": [str(program), str(SERVER)], "trust": True}
    at = house({"t": entry})
    assert at.missing == {}
    assert "No such file" in at.fails("mcp_t_look", {"path": str(secret)})
    assert "Read-only" in at.fails("mcp_t_put", {"path": str(program)})
    free = McpHouse(at.home, {"t": {**entry, "level": "outside"}})
    assert free.call("mcp_t_look", {"path": str(secret)}).endswith("canary: 1")


def test_tokens_and_lists_are_closed_to_the_file_tools(house: House) -> None:
    """G6."""
    at = house({"t": stdio()})
    with pytest.raises(ToolFailure, match="Hermes itself"):
        read_file({"path": str(at.home / "mcp" / "lists" / "t.json")}, context=at.context())


def test_a_variable_that_is_not_set_is_named(house: House) -> None:
    at = house({"t": stdio(env={"TOKEN": "${NOT_SET}"})})
    assert "needs NOT_SET, which is not set" in at.missing["t"]
    assert "mcp_t_add" not in registry.names()


def test_a_program_that_there_is_not_says_so(house: House) -> None:
    at = house({"t": {"command": "no-such-program-anywhere"}})
    assert "MCP server t is not there" in at.missing["t"]
    assert "no-such-program-anywhere" in at.missing["t"]


# --- lives


def test_a_call_that_is_cut_by_the_servers_end_says_so_and_the_next_one_starts_it_again(
    house: House, tmp_path: Path
) -> None:
    at = house({"t": with_notes(tmp_path)})
    assert "The call was cut" in at.fails("mcp_t_die")
    assert at.call("mcp_t_add", {"a": 1, "b": 1}).endswith("2")
    assert [line.split()[0] for line in seen(at)] == ["start", "die", "start", "add"]


def test_one_that_ends_again_and_again_is_started_with_growing_pauses(house: House, tmp_path: Path) -> None:
    at = house({"t": with_notes(tmp_path)})
    at.fails("mcp_t_die")
    at.fails("mcp_t_die")
    assert "started again in" in at.fails("mcp_t_add", {"a": 1, "b": 1})
    assert [line.split()[0] for line in seen(at)].count("start") == 2
    assert "mcp_t_add" in registry.names("mcp-t"), "A5: its tools stay"


def test_a_stop_ends_the_call_and_is_told_to_the_server(house: House, tmp_path: Path) -> None:
    """C4: at once, and the server goes on for others."""
    at = house({"t": with_notes(tmp_path)})
    cancel = CancelToken()
    stopped: list[BaseException] = []

    def hang() -> None:
        try:
            at.call("mcp_t_hang", cancel=cancel)
        except Interrupted as stop:
            stopped.append(stop)

    thread = threading.Thread(target=hang)
    thread.start()
    wait_for(at, "hang")
    cancel.cancel("stopped by the user")
    thread.join()
    assert [str(stop.what) for stop in stopped] == ["stopped by the user"]  # type: ignore[attr-defined]
    wait_for(at, "cancelled")
    assert at.call("mcp_t_add", {"a": 1, "b": 1}).endswith("2")
    assert [line.split()[0] for line in seen(at)].count("start") == 1


def test_progress_is_activity_and_lengthens_the_time_of_a_call(house: House) -> None:
    """C12: a call that tells of its steps is not silent, and may take longer than one that says nothing."""
    at = house({"t": stdio(timeout=1.0)})
    assert at.call("mcp_t_work", {"steps": 6, "seconds": 0.3}).endswith("done")
    assert at.moves >= 6
    assert "did not answer within 1 seconds" in at.fails("mcp_t_hang")
    assert at.call("mcp_t_add", {"a": 1, "b": 1}).endswith("2")


def test_a_server_is_started_once_for_all_who_call_it(house: House, tmp_path: Path) -> None:
    at = house({"t": with_notes(tmp_path)})
    threads = [threading.Thread(target=at.call, args=("mcp_t_add", {"a": n, "b": 0})) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [line.split()[0] for line in seen(at)]
    assert lines.count("start") == 1
    assert lines.count("add") == 8


def test_what_is_known_of_a_server_needs_no_server(house: House, tmp_path: Path) -> None:
    """A5: after a restart its tools are there before it runs; another program under its name has others."""
    at = house({"t": with_notes(tmp_path)})
    names = registry.names("mcp-t")
    mcp_host.close_all()
    again = McpHouse(at.home, {"t": with_notes(tmp_path)})
    assert registry.names("mcp-t") == names
    assert [line.split()[0] for line in seen(again)] == ["start"]
    mode = (at.home / "mcp" / "lists" / "t.json").stat().st_mode & 0o777
    assert mode == 0o600
    other = McpHouse(at.home, {"t": {"command": "no-such-program-anywhere"}})
    assert "t" in other.missing
    assert registry.names("mcp-t") == []


def test_a_changed_list_is_there_for_the_next_conversation(house: House) -> None:
    at = house({"t": stdio()})
    assert "mcp_t_grown" not in registry.names("mcp-t")
    at.call("mcp_t_grow")
    kept = at.home / "mcp" / "lists" / "t.json"
    done = threading.Event()
    while "grown" not in kept.read_text():
        done.wait(0.02)
    assert "mcp_t_grown" not in registry.names("mcp-t"), "not before somebody begins a conversation"
    again = McpHouse(at.home, {"t": stdio()})
    assert again.call("mcp_t_grown", {"text": "hi"}).endswith("hi")


def test_the_owner_chooses_which_tools_there_are(house: House) -> None:
    at = house({"t": stdio(tools={"include": ["a*", "say"], "exclude": ["ask"]})})
    assert registry.names("mcp-t") == ["mcp_t_add", "mcp_t_say"]
    later = McpHouse(at.home, {"t": stdio(tools=["say"])})
    assert registry.names("mcp-t") == ["mcp_t_say"]
    assert "no tool called" in json.loads(later.call("mcp_t_add"))["error"]


def test_a_server_ends_with_hermes_also_by_sigkill(tmp_path: Path) -> None:
    notes = tmp_path / "house" / "mcp" / "work" / "t" / "seen"
    program = f"""
        import os, sys
        from pathlib import Path
        from hermes_base.setting_table import read_settings
        from tools.mcp import mcp_tools
        from tools.shell.spawning import keeper
        args, env = [{str(SERVER)!r}, "stdio"], {{"SEEN": {str(notes)!r}}}
        entry = {{"command": sys.executable, "args": args, "env": env, "connect_timeout": 100}}
        home = Path({str(tmp_path / "house")!r})
        missing = mcp_tools.offer_tools(read_settings({{"mcp_servers": {{"t": entry}}}}), home)
        print(missing or keeper.pid, flush=True)
        sys.stdin.read()
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hermes:
        assert hermes.stdout is not None
        keeper = int(hermes.stdout.readline())
        assert notes.read_text().startswith("start")
        assert _list_below(keeper)
        hermes.kill()
    done = threading.Event()
    while os.path.exists(f"/proc/{keeper}"):
        done.wait(0.02)
    left = subprocess.run(["pgrep", "-f", str(notes)], capture_output=True, check=False)
    assert left.stdout == b""


def _list_below(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_nobody_waits_twice_for_a_server_that_does_not_answer(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the next conversation nor the one after a minute."""
    monkeypatch.setattr(mcp_host, "LOOK_AGAIN_SECONDS", 0.0)
    entry = script("import sys; sys.stdin.read()", connect_timeout=600)
    waiting = mcp_host.McpHost(house({}).home)
    waiting.take_settings(read_settings({"mcp_servers": {"x": entry}}))
    assert waiting.find_unknown(0.2) == {"x": "The MCP server x has not answered yet."}
    assert waiting.find_unknown(600) == {"x": "The MCP server x has not answered yet."}
    waiting.close()


def test_who_comes_while_a_server_is_first_asked_has_its_tools_too(house: House, tmp_path: Path) -> None:
    """A5: else a conversation that begins a second later had none of them for good."""
    go = tmp_path / "go"
    host = mcp_host.McpHost(house({}).home)
    waits = f"import os, sys, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    starts = f"os.execv(sys.executable, [sys.executable, {str(SERVER)!r}, 'stdio'])"
    entry = script(waits + starts, level="outside", connect_timeout=60)
    host.take_settings(read_settings({"mcp_servers": {"x": entry}}))
    found: list[dict[str, str]] = []
    people = [threading.Thread(target=lambda: found.append(host.find_unknown(60))) for _ in range(3)]
    for person in people:
        person.start()
    go.touch()
    for person in people:
        person.join()
    host.close()
    assert found == [{}, {}, {}]


def test_walls_that_are_set_anew_stand_around_a_server_that_runs(house: House) -> None:
    """G5: the network is off for its next call, too."""
    at = house({"t": stdio()})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        dial = {"port": listening.getsockname()[1]}
        assert at.call("mcp_t_dial", dial).endswith("reached")
        host = mcp_host.host_of(at.home)
        host.take_settings(replace(at.settings, terminal=replace(at.settings.terminal, network=False)))
        assert at.call("mcp_t_dial", dial).endswith("not reached")


def test_a_question_is_nobodys_while_several_people_wait(house: House, tmp_path: Path) -> None:
    """G12: what a server asks during the call of one person is not shown to another."""
    at = house({"t": with_notes(tmp_path)})
    cancel = CancelToken()
    context = {"person": "ann", "conversation": "c1", "cancel": cancel}
    hanging = threading.Thread(target=lambda: _until_stopped(at, context))
    hanging.start()
    wait_for(at, "hang")
    assert at.call("mcp_t_ask", person="bob", conversation="c2") == "[MCP server t]\ncancel:"
    assert at.questions == []
    cancel.cancel()
    hanging.join()


def _until_stopped(at: McpHouse, context: dict[str, Any]) -> None:
    with contextlib.suppress(Interrupted):
        at.call("mcp_t_hang", **context)
