"""Start and end of the server, its plan file, its record file, and the command in the foreground."""

import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

import hermes_lab
from hermes_lab.plan import Fault, Step, load_plan, parse_plan
from hermes_lab.recorder import Recorder
from hermes_lab.server import LabServer, serve
from hermes_lab.values import LabProblem

BODY = {"model": "lab", "messages": [{"role": "user", "content": "hi"}]}
README = Path(hermes_lab.__file__).parents[1] / "README.md"


def list_sockets() -> set[str]:
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return {os.readlink(link) for link in links if link.is_symlink() and "socket" in os.readlink(link)}


def test_leaving_ends_thread_and_sockets_f1() -> None:
    """F1: also while a client is in the middle of a stalled answer."""
    before_threads, before_sockets = set(threading.enumerate()), list_sockets()
    with LabServer([{"stall_first": 60}]) as lab, httpx2.Client() as client:
        errors: list[Exception] = []

        def ask() -> None:
            try:
                client.post(f"{lab.base_url}/chat/completions", json=BODY, timeout=60)
            except httpx2.TransportError as error:
                errors.append(error)

        waiting = threading.Thread(target=ask)
        waiting.start()
        while not lab.requests:
            waiting.join(0.001)
        lab.stop()
        waiting.join()
        assert len(errors) == 1
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{lab.address}/health")
    assert set(threading.enumerate()) == before_threads
    assert list_sockets() <= before_sockets


def test_a_server_can_come_back_on_its_port() -> None:
    with LabServer() as first:
        port = first.port
        httpx2.get(f"{first.address}/health")
    with LabServer(port=port) as second:
        assert second.port == port
        assert httpx2.get(f"{second.address}/health").status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_loopback_addresses_are_served(host: str) -> None:
    if host == "::1" and not _has_ipv6():
        pytest.skip("no IPv6 loopback on this machine")
    with LabServer(host=host) as lab:
        assert httpx2.get(f"{lab.address}/health").json() == {"status": "ok"}


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "example.org", ""])
def test_other_addresses_are_refused(host: str) -> None:
    with pytest.raises(LabProblem, match=r"not a loopback address.*Use 127\.0\.0\.1"):
        LabServer(host=host).start()


def test_a_port_in_use_is_said_clearly() -> None:
    with LabServer() as lab, pytest.raises(LabProblem, match=rf"port {lab.port}.*Choose another port"):
        serve(port=lab.port)


BAD_PLANS: dict[str, tuple[str, str]] = {
    "no json": ('[\n {"text": "a"},\n {"text": }\n]', "line 3, column 11"),
    "no array": ('{"text": "a"}', "array of steps"),
    "no object": ('["a"]', "step 1: expected an object"),
    "unknown field": ('[{}, {"txt": "a"}]', "step 2: 'txt' is not known here. Known are: text, reasoning"),
    "text": ('[{"text": 1}]', "step 1, text: must be a text, not 1"),
    "half a character": ('[{"text": "\\ud800"}]', "step 1, text: character 0"),
    "chunks": ('[{"chunks": 0}]', "step 1, chunks: must be a whole number of at least 1, not 0"),
    "times": ('[{"times": true}]', "step 1, times"),
    "seconds": ('[{"stall_first": -1}]', "step 1, stall_first: must be a number of seconds"),
    "finish": ('[{"finish_reason": "bored"}]', "step 1, finish_reason: must be one of stop, tool_calls"),
    "calls": ('[{"tool_calls": {}}]', "step 1, tool_calls: must be an array"),
    "call name": ('[{"tool_calls": [{"name": "a"}, {}]}]', "step 1, tool_calls 2: a tool call needs a name"),
    "arguments": ('[{"tool_calls": [{"name": "a", "arguments": 1}]}]', "tool_calls 1, arguments: must be a text"),
    "usage": ('[{"usage": {"tokens": 1}}]', "step 1, usage: 'tokens' is not known"),
    "status": ('[{"fault": {"status": 200}}]', "step 1, fault, status: must be a whole number from 400 to 599"),
    "headers": ('[{"fault": {"headers": {"a": "b\\nc"}}}]', "step 1, fault, headers, a: must be a printable"),
    "hang_up": ('[{"fault": {"hang_up": 1}}]', "step 1, fault, hang_up: must be true or false"),
}


@pytest.mark.parametrize("case", BAD_PLANS)
def test_a_bad_plan_file_names_the_place(tmp_path: Path, case: str) -> None:
    text, named = BAD_PLANS[case]
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(LabProblem) as raised:
        load_plan(file)
    assert str(file) in str(raised.value)
    assert named in str(raised.value)


def test_an_unreadable_plan_file_is_said_clearly(tmp_path: Path) -> None:
    with pytest.raises(LabProblem, match=r"nowhere\.json cannot be read"):
        load_plan(tmp_path / "nowhere.json")
    (tmp_path / "latin.json").write_bytes(b'["\xff"]')
    with pytest.raises(LabProblem, match="not UTF-8"):
        load_plan(tmp_path / "latin.json")
    with pytest.raises(LabProblem, match="cannot be written"):
        LabServer(record_file=tmp_path / "nowhere" / "r.jsonl")


def test_the_recorder_forgets_the_oldest() -> None:
    recorder = Recorder(most=3, most_bytes=10)
    for size in (1, 1, 1, 1):
        recorder.note("POST", "/", (), b"x" * size)
    assert [item.number for item in recorder.list_requests()] == [2, 3, 4]
    recorder.note("POST", "/", (), b"x" * 10)
    assert [item.number for item in recorder.list_requests()] == [5]
    recorder.note("POST", "/", (), b"x" * 99)
    assert [item.number for item in recorder.list_requests()] == [6]


def test_a_record_file_holds_each_request_and_is_private(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    for _ in range(2):
        with LabServer(record_file=file) as lab:
            httpx2.post(f"{lab.base_url}/chat/completions", content=json.dumps(BODY), headers={"Authorization": "k"})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["body"] for line in lines] == [json.dumps(BODY)] * 2
    assert ["authorization", "k"] in lines[0]["headers"]
    assert file.stat().st_mode & 0o077 == 0


def test_the_command_serves_in_the_foreground(tmp_path: Path) -> None:
    plan, record = tmp_path / "plan.json", tmp_path / "record.jsonl"
    plan.write_text('[{"text": "from the file"}]')
    code = f"from hermes_lab.server import serve; serve('127.0.0.1', 0, {str(plan)!r}, {str(record)!r})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/v1", process.stdout.readline())
        assert found is not None
        answer = httpx2.post(f"{found.group()}/chat/completions", json=BODY).json()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    assert answer["choices"][0]["message"]["content"] == "from the file"
    assert len(record.read_text().splitlines()) == 1


def read_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_plan_in_the_readme_is_valid_h11() -> None:
    """H11: and each field of a step and of a fault is explained."""
    (plan,) = read_blocks("json")
    assert len(parse_plan(plan)) >= 4
    names = [known.name for value in (Step, Fault) for known in dataclasses.fields(value)]
    assert [name for name in names if f"`{name}`" not in README.read_text()] == []


def test_the_code_in_the_readme_runs_h11() -> None:
    """H11."""
    (code,) = read_blocks("python")
    names: dict[str, Any] = {}
    exec(compile(code, str(README), "exec"), names)
    assert names["lab"].steps_left == 0
