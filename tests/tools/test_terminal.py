"""The terminal tool: asks first, remembers its folder by task, ends with its time, its turn or its task."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Person
from waiting import wait_until

from hermes_base.errors import ToolFailure
from hermes_base.setting_table import make_settings
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.tool_context import ToolContext
from tools.process_registry import process_registry
from tools.terminal_tool import cleanup_vm, run_terminal

TASK = "a-task"


@pytest.fixture(autouse=True)
def end_task() -> Iterator[None]:
    yield
    cleanup_vm(TASK)


def run(command: str, timeout: float = 60, **options: Any) -> dict[str, Any]:
    settings = make_settings({"terminal": {"timeout": timeout, "backend": "local"}})
    options = {"task": TASK, "asker": Person(), "settings": settings, **options}
    return json.loads(run_terminal({"command": command}, context=ToolContext(**options)))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_the_folder_is_kept_from_call_to_call(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert run("pwd", folder=str(tmp_path))["output"] == f"{tmp_path}\n"
    run("cd sub")
    assert run("pwd; exit 3") == {"output": f"{tmp_path}/sub\n", "exit_code": 3, "folder": f"{tmp_path}/sub"}


def test_a_call_that_did_not_move_leaves_the_folder_to_one_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    slow = threading.Thread(target=run, args=("sleep 0.4",), kwargs={"folder": str(tmp_path)})
    slow.start()
    wait_until(lambda: bool(process_registry.running(TASK)))
    run("cd sub")
    slow.join()
    assert run("pwd")["output"] == f"{tmp_path}/sub\n"


def test_without_consent_nothing_runs(tmp_path: Path) -> None:
    for asker in (None, Person("deny"), Person("")):
        with pytest.raises(ToolFailure, match="not run"):
            run(f"touch {tmp_path}/file", asker=asker)
    assert not (tmp_path / "file").exists()


def test_the_person_is_shown_the_exact_command(tmp_path: Path) -> None:
    """G4: with the reason, with the folder it starts in, and with the variables that earlier commands left."""
    (tmp_path / "sub").mkdir()
    person = Person("deny")
    with pytest.raises(ToolFailure):
        run("touch 'a  b' # c", asker=person, folder=str(tmp_path))
    run("cd sub; export A='1 2'", folder=str(tmp_path))
    with pytest.raises(ToolFailure):
        run("touch it", asker=person, folder=str(tmp_path))
    assert [question.text for question in person.asked] == [
        f"cd {tmp_path}\ntouch 'a  b' # c",
        f"cd {tmp_path}/sub\ntouch it\n# with A='1 2'\n# with OLDPWD={tmp_path}",
    ]
    assert all(question.reason for question in person.asked)


def test_keys_of_the_owner_are_not_in_the_environment_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """G6"""
    monkeypatch.setenv("SOME_API_KEY", "canary-12345678")
    assert "canary" not in run("printenv SOME_API_KEY; echo done", asker=Person(), task="another-task")["output"]
    cleanup_vm("another-task")


def test_a_harmless_command_runs_unasked() -> None:
    """G5: where nobody is there to be asked, too."""
    assert run("echo here", asker=None)["output"] == "here\n"


def test_time_is_limited_and_takes_the_whole_group_along(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    result = run(f"sleep 300 & echo $! > {pid_file}; wait", timeout=0.5)
    assert result["timed_out_after"] == 0.5
    wait_until(lambda: not is_alive(int(pid_file.read_text())))


def test_an_interrupt_ends_a_command_that_ignores_sigterm(tmp_path: Path) -> None:
    token = CancelToken()
    box: list[dict[str, Any]] = []
    pid_file = tmp_path / "pid"
    command = f"trap '' TERM; echo $$ > {pid_file}; while :; do sleep 0.1; done"
    thread = threading.Thread(target=lambda: box.append(run(command, cancel=token)))
    thread.start()
    wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()))
    token.cancel()
    thread.join(15)
    assert box[0]["interrupted"]
    assert not is_alive(int(pid_file.read_text()))
    assert process_registry.running(TASK) == []


def test_long_output_is_cut_in_the_middle() -> None:
    output = run("yes | head -c 100000")["output"]
    assert "70000 characters left out" in output


@pytest.mark.parametrize("args", [{}, {"command": " "}, {"command": 3}])
def test_a_missing_command_is_a_sentence(args: dict[str, Any]) -> None:
    with pytest.raises(ToolFailure, match="needs a command"):
        run_terminal(args, context=ToolContext(asker=Person()))
