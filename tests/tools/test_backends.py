"""One conformance suite for the places where commands run, and what the walls of bubblewrap hold back (C12, G5)."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from commands import Hands, daemon, find_marked, new_mark
from waiting import wait_until

from hermes_base.errors import ToolFailure
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.tool_context import ToolContext
from tools.process_registry import process_registry
from tools.shell import sandbox
from tools.shell.sandbox import (
    BACKENDS,
    CommandNetwork,
    CommandView,
    active_backend,
    choose_backend,
    is_bubblewrap_usable,
    order_inside,
)
from tools.terminal_tool import cleanup_vm

TASK = "backends"


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name == "bubblewrap" and not is_bubblewrap_usable():
        pytest.skip("bwrap does not run on this machine")
    return name


@pytest.fixture
def hands(backend: str, tmp_path: Path) -> Iterator[Hands]:
    work = tmp_path / "work"
    work.mkdir()
    yield Hands(TASK, work, backend)
    process_registry.kill_all(task_id=TASK)
    cleanup_vm(TASK)


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[Hands]:
    if not is_bubblewrap_usable():
        pytest.skip("bwrap does not run on this machine")
    work = tmp_path / "work"
    work.mkdir()
    yield Hands(TASK, work, "bubblewrap")
    cleanup_vm(TASK)


def test_folder_and_variables_are_kept(hands: Hands, tmp_path: Path) -> None:
    hands.run("mkdir sub; cd sub; export COLOUR='deep\nblue' GONE=1; local_only=2")
    result = hands.run('pwd; echo "$COLOUR"; echo [$local_only]; unset GONE; exit 3')
    assert result == {
        "output": f"{tmp_path}/work/sub\ndeep\nblue\n[]\n",
        "exit_code": 3,
        "folder": f"{tmp_path}/work/sub",
    }
    assert hands.run("echo [$GONE]; cd ..; cd - >/dev/null; pwd")["output"] == f"[]\n{tmp_path}/work/sub\n"
    assert hands.run("echo $OLDPWD")["output"] == f"{tmp_path}/work\n"


def test_a_folder_that_is_gone_gives_way_to_the_first(hands: Hands, tmp_path: Path) -> None:
    hands.run("mkdir sub; cd sub; rmdir ../sub")
    assert hands.run("pwd")["output"] == f"{tmp_path}/work\n"


def test_what_is_left_in_tmp_is_found_again(hands: Hands) -> None:
    name = new_mark()
    hands.run(f"mkdir /tmp/{name}; cd /tmp/{name}; echo here > file")
    assert hands.run(f"cat file; rm -r /tmp/{name}")["output"] == "here\n"


def test_calls_side_by_side_keep_what_each_changed(hands: Hands, tmp_path: Path) -> None:
    hands.run("mkdir sub; export OLD=1")
    slow = threading.Thread(target=hands.run, args=("sleep 0.5; export SLOW=1",))
    slow.start()
    wait_until(lambda: bool(process_registry.running(TASK)))
    hands.run("cd sub; export FAST=1; unset OLD")
    slow.join()
    assert hands.run("pwd; echo $SLOW $FAST [$OLD]")["output"] == f"{tmp_path}/work/sub\n1 1 []\n"


def test_calls_side_by_side_do_not_wait_for_each_other(hands: Hands) -> None:
    """Each ends when all have begun."""
    hands.run("mkdir met")
    meet = "until [ $(ls met | wc -l) = 8 ]; do sleep 0.05; done; echo met"
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(hands.run, [f"touch met/{number}; {meet}" for number in range(8)]))
    assert [result["output"] for result in results] == ["met\n"] * 8


@pytest.mark.parametrize("pty", [True, False])
def test_a_terminal_is_there_when_asked_for(hands: Hands, pty: bool) -> None:
    command = "python3 -c 'import sys; print(sys.stdin.isatty(), sys.stdout.isatty())'"
    assert hands.run(command, {"pty": pty})["output"] == f"{pty} {pty}\n"


def test_output_keeps_its_beginning_and_its_end(hands: Hands) -> None:
    output = hands.run("echo first; yes | head -c 5000000; echo last >&2")["output"]
    assert output.startswith("first\n")
    assert output.endswith("last\n")
    assert "bytes left out" in output
    assert len(output) < 31_000


def test_time_is_limited(hands: Hands) -> None:
    mark = new_mark()
    result = hands.run(f"echo begun; bash -c 'sleep 300; true' {mark}", {"timeout": 0.5})
    assert result["timed_out_after"] == 0.5
    assert result["output"].startswith("begun\n")
    assert find_marked(mark) == []


def test_an_interrupt_ends_the_whole_tree(hands: Hands) -> None:
    """C12: children and daemons that ignore SIGTERM included."""
    mark, token = new_mark(), CancelToken()
    box: list[dict[str, Any]] = []
    command = f"trap '' TERM; {daemon(mark)}; bash -c 'sleep 300; true' {mark} & sleep 300; sleep 300"
    thread = threading.Thread(target=lambda: box.append(hands.run(command, cancel=token)))
    thread.start()
    wait_until(lambda: len(find_marked(mark)) >= 2)
    token.cancel()
    thread.join(60)
    assert box[0]["interrupted"]
    assert find_marked(mark) == []


def test_what_a_command_leaves_behind_ends_with_it(hands: Hands) -> None:
    """F1: nothing runs that nobody knows of."""
    mark = new_mark()
    assert hands.run(f"{daemon(mark)}; bash -c 'sleep 300; true' {mark} & echo done")["output"] == "done\n"
    assert find_marked(mark) == []


def test_forgetting_the_task_ends_its_commands_and_its_state(hands: Hands, tmp_path: Path) -> None:
    hands.run("mkdir sub; cd sub; export A=1")
    thread = threading.Thread(target=hands.run, args=("sleep 300",))
    thread.start()
    wait_until(lambda: bool(process_registry.running(TASK)))
    cleanup_vm(TASK)
    thread.join(10)
    assert not thread.is_alive()
    assert hands.run("pwd; echo [$A]")["output"] == f"{tmp_path}/work\n[]\n"


def test_a_process_in_the_background_answers(hands: Hands) -> None:
    hands.run("export WORD=hello")
    id = hands.process("start", command='read name; echo "$WORD $name"; exit 7')["id"]
    hands.process("write", id=id, input="you\n")
    done = hands.process("wait", id=id, timeout=20)
    assert (done["state"], done["exit_code"], done["output"]) == ("ended", 7, "hello you\n")


def test_kill_all_reaches_grandchildren_that_ignore_sigterm(hands: Hands) -> None:
    """C12"""
    mark = new_mark()
    hands.process("start", command=f"trap '' TERM; {daemon(mark)}; while :; do sleep 0.1; done")
    wait_until(lambda: len(find_marked(mark)) >= 1)
    assert process_registry.kill_all(task_id=TASK) == 1
    assert find_marked(mark) == []
    assert process_registry.running(TASK) == []


def test_only_the_working_folder_can_be_changed(walled: Hands, tmp_path: Path) -> None:
    """G5: the boundary is the sandbox."""
    (tmp_path / "beside").write_text("not for you")
    result = walled.run(f"echo mine > file; touch /etc/hermes-was-here; cat {tmp_path}/beside; cat file")
    assert "Read-only file system" in result["output"]
    assert "not for you" not in result["output"]
    assert (tmp_path / "work" / "file").read_text() == "mine\n"
    assert not Path("/etc/hermes-was-here").exists()


def test_homes_are_hidden_but_not_the_working_folder(
    walled: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5: also Hermes's own home inside the working folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / "work" / "hermes"
    for place in (tmp_path, own):
        place.mkdir(exist_ok=True)
        (place / "key").write_text("secret")
    result = walled.run(f"ls -A {tmp_path}; ls -A {own}; cat {tmp_path}/key {own}/key; ls -A /root /home", home=own)
    assert "secret" not in result["output"]
    assert result["output"].splitlines()[0].endswith("Permission denied")


def test_keys_stay_hidden_when_the_home_is_the_working_folder(
    walled: Hands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5"""
    monkeypatch.setenv("HOME", str(tmp_path / "work"))
    (tmp_path / "work" / ".ssh").mkdir()
    (tmp_path / "work" / ".ssh" / "id").write_text("secret")
    assert walled.run("ls -A .ssh; cat .ssh/id; echo seen")["output"].count("Permission denied") == 2


def test_there_are_no_privileges_and_no_other_processes(walled: Hands) -> None:
    """G5"""
    lines = walled.run("grep CapEff /proc/self/status; ls /proc | grep -c '^[0-9]'")["output"].splitlines()
    assert int(lines[0].split()[1], 16) == 0
    assert int(lines[1]) < 10


@pytest.mark.parametrize("network", [True, False])
def test_the_network_is_as_set(walled: Hands, network: bool) -> None:
    walled.facts["settings"]["terminal"]["network"] = network
    seen = walled.run("readlink /proc/self/ns/net; exec 9<>/dev/tcp/127.0.0.1/3128 && echo the proxy")["output"]
    assert os.readlink("/proc/self/ns/net") not in seen
    assert ("the proxy" in seen) is network


def test_auto_takes_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """G5: which one is active can be told."""
    for works, name in ((True, "bubblewrap"), (False, "local")):
        monkeypatch.setattr(sandbox, "is_bubblewrap_usable", lambda works=works: works)
        assert active_backend("auto") == choose_backend(ToolContext()) == name
    with pytest.raises(ToolFailure, match="nothing was run"):
        active_backend("bubblewrap")
    with pytest.raises(ToolFailure, match="no terminal backend"):
        active_backend("elsewhere")


def test_a_bwrap_that_cannot_work_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """G5"""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho no user namespaces >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sandbox, "find_bubblewrap", lambda: str(fake))
    is_bubblewrap_usable.cache_clear()
    try:
        assert active_backend("auto") == "local"
    finally:
        is_bubblewrap_usable.cache_clear()


def test_a_pty_keeps_its_session_behind_the_walls() -> None:
    view = CommandView((), "/srv", {}, CommandNetwork.NONE)
    assert "--new-session" in order_inside("true", view, pty=False).arguments
    assert "--new-session" not in order_inside("true", view, pty=True).arguments


def test_uploads_can_be_read_and_nothing_else_of_the_home(walled: Hands, home: Path) -> None:
    """G5: what the person sent along is there for commands, and cannot be changed by them."""
    (home / "uploads" / "0a").mkdir(parents=True)
    (home / "uploads" / "0a" / "list.csv").write_text("three,lines")
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").write_text("private")
    path = home / "uploads" / "0a" / "list.csv"
    assert "three,lines" in walled.run(f"cat {path}", home=home)["output"]
    assert walled.run(f"echo more >> {path}", home=home)["exit_code"] != 0
    assert path.read_text() == "three,lines"
    assert "private" not in walled.run(f"cat {home}/memories/MEMORY.md", home=home)["output"]
