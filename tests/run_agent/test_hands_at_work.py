"""The hands on a real machine: tasks outlive agents and end with their session; a small job from start to end."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store
from waiting import wait_until

from agent.turn import parallel
from hermes_base.chat import Answer, Question, ToolEnded
from hermes_lab.server import LabServer
from hermes_state.memory_journal import MemoryJournal
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent
from tools.process_registry import process_registry

TOOLSETS = ["hermes-cli"]


class Agreeing:
    """Agrees to everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer("approve")


def call(name: str, **args: Any) -> str:
    return f"[[tool {name} {json.dumps(args)}]]"


def result_of(turn: dict[str, Any], place: int = -1) -> dict[str, Any]:
    results = [message["content"] for message in turn["messages"] if message["role"] == "tool"]
    return json.loads(results[place])


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def local(make_agent: Any, tmp_path: Path) -> Any:
    """Agents of one conversation that work in one folder, on the machine itself."""
    store = fresh_store()
    made = Agreeing()

    def build(**options: Any) -> AIAgent:
        return make_agent(
            enabled_toolsets=TOOLSETS,
            asker=made,
            folder=str(tmp_path),
            settings={"terminal": {"backend": "local"}},
            journal=StoreJournal(lambda: store, NewSession("c")),
            **options,
        )

    build.person = made  # type: ignore[attr-defined]
    return build


def test_a_task_outlives_the_eviction_of_its_agent_and_ends_with_close(local: Any, tmp_path: Path) -> None:
    """Same folder, same environment, same background process; grandchildren that ignore SIGTERM end with the task."""
    (tmp_path / "sub").mkdir()
    stubborn = "trap '' TERM; (trap '' TERM; echo $BASHPID > kid; while :; do sleep 0.2; done) & wait"
    agent = local()
    agent.run_conversation(call("terminal", command="cd sub && export COLOUR=green"))
    started = result_of(agent.run_conversation(call("process", action="start", command=stubborn)))
    kid = tmp_path / "sub" / "kid"
    wait_until(lambda: kid.exists() and bool(kid.read_text().strip()))
    pid = int(kid.read_text())
    agent.release_clients()

    rebuilt = local()
    seen = result_of(rebuilt.run_conversation(call("terminal", command='pwd; echo "$COLOUR"')))
    assert seen["output"].split() == [str(tmp_path / "sub"), "green"]
    listed = result_of(rebuilt.run_conversation(call("process", action="poll", id=started["id"])))
    assert listed["state"] == "running"
    assert is_alive(pid)
    rebuilt.close()
    wait_until(lambda: not is_alive(pid))
    assert process_registry.running(rebuilt.task_id) == []


CHILD = """
import json, sys
from hermes_base.chat import Answer
from hermes_base.turn.hooks import NoHooks
from run_agent import AIAgent
address, folder, backend = sys.argv[1:]
class Agreeing:
    def __call__(self, question): return Answer("approve")
call = lambda name, **args: "[[tool %s %s]]" % (name, json.dumps(args))
agent = AIAgent(base_url=address, model="m", api_key="k", hooks=NoHooks(), enabled_toolsets=["hermes-cli"],
                asker=Agreeing(), folder=folder, settings={"terminal": {"backend": backend}})
inner = 'trap "" TERM HUP; touch daemon-up; while :; do sleep 0.3; done'
daemon = f"setsid bash -c '{inner}' >/dev/null 2>&1 & sleep 600"
agent.run_conversation(call("process", action="start", command=daemon))
agent.run_conversation(call("terminal", command="touch front-up; sleep 600"))
"""


def find_by_folder(folder: Path) -> list[int]:
    """Processes that work in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and Path(os.readlink(entry / "cwd")) == folder and is_alive(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["local", "auto"])
def test_nothing_outlives_the_product(lab: LabServer, tmp_path: Path, backend: str) -> None:
    """F1: SIGKILL while a command, a background process and its daemon run: none survives, in either backend."""
    work = tmp_path / "work"
    work.mkdir()
    child = subprocess.Popen([sys.executable, "-c", CHILD, lab.base_url, str(work), backend], cwd=tmp_path)
    wait_until(lambda: (work / "daemon-up").exists() and (work / "front-up").exists(), 60)
    assert find_by_folder(work)
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_until(lambda: not find_by_folder(work))


def test_a_small_job_from_start_to_end(local: Any, lab: LabServer, tmp_path: Path) -> None:
    """Creates a project, runs its tests in the background, reads the failure, patches the file, runs them again."""
    agent = local()
    code = "def double(number):\n    return number + number + 1\n"
    test = "from calc import double\nassert double(2) == 4, double(2)\nprint('all good')\n"
    agent.run_conversation(
        call("write_file", path="calc.py", content=code) + call("write_file", path="check.py", content=test)
    )
    started = result_of(agent.run_conversation(call("process", action="start", command="python3 check.py")))
    failed = result_of(agent.run_conversation(call("process", action="wait", id=started["id"], timeout=30)))
    assert "AssertionError: 5" in json.dumps(failed)
    edit = [{"path": "calc.py", "old": "number + number + 1", "new": "2 * number"}]
    agent.run_conversation(call("patch", edits=edit))
    passed = result_of(agent.run_conversation(call("terminal", command="python3 check.py")))
    assert (passed["exit_code"], passed["output"].strip()) == (0, "all good")
    report = agent.run_conversation("[[say The doubling is right now.]]")
    assert report["final_response"] == "The doubling is right now."
    assert (tmp_path / "calc.py").read_text() == "def double(number):\n    return 2 * number\n"


def test_a_memory_that_changes_is_told_and_the_prompt_stays(local: Any, lab: LabServer, home: Path) -> None:
    """A4"""
    agent = local()
    agent.run_conversation(call("memory", action="add", target="memory", content="tea is green"))
    result = agent.run_conversation("and now?")
    assert result["prefix_breaks"] == []
    first, last = (request.json()["messages"] for request in (lab.requests[0], lab.requests[-1]))
    assert first[0] == last[0]
    assert "tea is green" in (home / "memories" / "MEMORY.md").read_text()
    assert "tea is green" in last[-1]["content"]
    again = agent.run_conversation("and again?")
    assert again["messages"][-2]["content"] == "and again?"


def test_an_ended_process_is_told_to_the_conversation(make_agent: Any, tmp_path: Path) -> None:
    posted: list[tuple[str, str, str]] = []

    def post(task: str, id: str, text: str) -> None:
        posted.append((task, id, text))

    agent = make_agent(
        enabled_toolsets=TOOLSETS,
        asker=Agreeing(),
        folder=str(tmp_path),
        post_notice=post,
        settings={"terminal": {"backend": "local"}},
    )
    started = result_of(agent.run_conversation(call("process", action="start", command="echo finished; exit 3")))
    wait_until(lambda: bool(posted))
    assert posted[0][:2] == (agent.task_id, f"proc:{started['id']}:exit")
    assert "3" in posted[0][2]


def test_a_running_process_is_a_sign_of_life_and_a_tool_that_hangs_is_not(
    local: Any, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C12"""
    monkeypatch.setattr(parallel, "LOOK_SECONDS", 0.05)
    signs: list[str] = []
    tool("hang", lambda args: str(threading.Event().wait(0.5)))
    agent = local()
    monkeypatch.setattr(agent, "_touch", lambda what: signs.append(what))
    agent.run_conversation(call("terminal", command="sleep 0.5"))
    assert signs.count("running tools") > 3
    idle = local(disabled_toolsets=[])
    idle.tools = [*idle.tools, {"type": "function", "function": {"name": "hang", "parameters": {"type": "object"}}}]
    signs.clear()
    monkeypatch.setattr(idle, "_touch", lambda what: signs.append(what))
    idle.journal = MemoryJournal("another")
    idle.run_conversation(call("hang"))
    assert signs.count("running tools") == 1


def test_the_default_set_is_small(make_agent: Any, lab: LabServer) -> None:
    """The first request of the default set stays under 12 KB with the system prompt."""
    make_agent(enabled_toolsets=TOOLSETS).run_conversation("hi")
    request = lab.requests[0].json()
    assert {"terminal", "process", "read_file", "patch", "memory"} <= {t["function"]["name"] for t in request["tools"]}
    assert len(json.dumps([request["tools"], request["messages"][0]])) < 12_000


def test_the_seconds_of_a_tool_do_not_hold_the_time_in_which_a_person_thought(
    make_agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clock:
        now = 0.0

        @classmethod
        def monotonic(cls) -> float:
            return cls.now

    class Thinking(Agreeing):
        def __call__(self, question: Question) -> Answer:
            Clock.now += 1_000.0
            return super().__call__(question)

    monkeypatch.setattr("run_agent.hands.time", Clock)
    ended: list[ToolEnded] = []
    settings = {"terminal": {"backend": "local"}}
    agent = make_agent(enabled_toolsets=TOOLSETS, asker=Thinking(), folder=str(tmp_path), settings=settings)
    agent.tool_progress_callback = lambda event: ended.append(event) if isinstance(event, ToolEnded) else None
    agent.run_conversation(call("terminal", command="touch made"))
    assert (tmp_path / "made").exists()
    assert [event.seconds for event in ended] == [0.0]
