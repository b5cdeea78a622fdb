"""Background processes: they answer, they are bounded, they tell when they end, and they belong to their task."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Hands, Person
from waiting import wait_until

from hermes_base.errors import ToolFailure
from hermes_base.turn.cancel import CancelToken
from tools.builtin import process_tool
from tools.process_registry import KEPT_ENDED, process_registry
from tools.terminal_tool import cleanup_vm

TASK = "processes"


class Notices:
    def __init__(self) -> None:
        self.posted: list[tuple[str, str, str]] = []

    def __call__(self, task: str, id: str, text: str) -> None:
        self.posted.append((task, id, text))


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    hands = Hands(TASK, tmp_path, "local")
    hands.facts["post_notice"] = Notices()
    yield hands
    process_registry.kill_all(task_id=TASK)
    cleanup_vm(TASK)


def test_new_output_is_shown_once_and_can_be_read_again(hands: Hands) -> None:
    id = hands.process("start", command="echo one; read x; echo two; read x")["id"]
    wait_until(lambda: hands.process("list")["processes"][0]["output_bytes"] == 4)
    assert hands.process("poll", id=id) == {
        "id": id,
        "state": "running",
        "offset": 0,
        "output": "one\n",
        "next_offset": 4,
    }
    hands.process("write", id=id, input="\n")
    wait_until(lambda: hands.process("list")["processes"][0]["output_bytes"] == 8)
    assert hands.process("poll", id=id)["output"] == "two\n"
    assert hands.process("poll", id=id)["output"] == ""
    assert hands.process("read", id=id, offset=1)["output"] == "ne\ntwo\n"
    hands.process("write", id=id, eof=True)
    assert hands.process("wait", id=id, timeout=20)["exit_code"] == 1


def test_an_interactive_program_gets_a_terminal(hands: Hands) -> None:
    id = hands.process("start", command="python3 -i -q", pty=True)["id"]
    hands.process("write", id=id, input="import sys; print('tty', sys.stdin.isatty())\n")
    wait_until(lambda: "tty True" in hands.process("read", id=id)["output"])
    hands.process("write", id=id, eof=True)
    assert hands.process("wait", id=id, timeout=20)["exit_code"] == 0


def test_the_end_is_told_once(hands: Hands) -> None:
    notices = hands.facts["post_notice"]
    id = hands.process("start", command="echo all good; exit 3")["id"]
    hands.process("wait", id=id, timeout=20)
    wait_until(lambda: bool(notices.posted))
    hands.process("poll", id=id)
    process_registry.kill_all(task_id=TASK)
    [(task, name, text)] = notices.posted
    assert (task, name) == (TASK, f"proc:{id}:exit")
    assert "exit code 3" in text
    assert "all good" in text


def test_secrets_are_kept_out_of_the_notice(hands: Hands) -> None:
    """G6"""
    hands.process("start", {"redact": lambda text: text.replace("s3cret", "***")}, command="echo s3cret")
    wait_until(lambda: bool(hands.facts["post_notice"].posted))
    assert "s3cret" not in hands.facts["post_notice"].posted[0][2]


def test_killing_on_purpose_is_not_news(hands: Hands) -> None:
    id = hands.process("start", command="echo up; sleep 300")["id"]
    wait_until(lambda: "up" in hands.process("read", id=id)["output"])
    assert hands.process("kill", id=id)["state"] == "ended"
    assert hands.process("read", id=id)["output"].startswith("up\n")
    wait_until(lambda: not any(thread.name == f"process-{id}" for thread in threading.enumerate()))
    assert hands.facts["post_notice"].posted == []


def test_a_process_belongs_to_its_task_and_outlives_its_shell(hands: Hands, tmp_path: Path) -> None:
    """C12: it is activity of its task."""
    id = hands.process("start", command="sleep 300")["id"]
    cleanup_vm(TASK)
    assert [entry.id for entry in process_registry.running(TASK)] == [id]
    assert process_registry.running("another") == []
    with pytest.raises(ToolFailure, match="no process"):
        Hands("another", tmp_path, "local").process("poll", id=id)
    assert process_registry.kill_all(task_id="another") == 0
    assert process_registry.kill_all(task_id=TASK) == 1
    assert hands.process("list") == {"processes": []}


def test_output_is_bounded_and_its_offsets_stay_true(hands: Hands) -> None:
    id = hands.process("start", command="seq 1 400000")["id"]
    done = hands.process("wait", id=id, timeout=30)
    assert done["output"].endswith("\n400000\n")
    total = done["next_offset"]
    assert total == len("".join(f"{number}\n" for number in range(1, 400_001)))
    assert hands.process("read", id=id)["output"].startswith("1\n2\n3\n")
    late = hands.process("read", id=id, offset=500_000)
    assert late["offset"] > 500_000
    assert hands.process("read", id=id, offset=total - 7)["output"] == "400000\n"


def test_a_character_is_not_cut_in_two(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tool, "SHOWN_BYTES", 4)
    id = hands.process("start", command="printf 'aéé€é'")["id"]
    hands.process("wait", id=id, timeout=20)
    text, offset = "", 0
    while (part := hands.process("read", id=id, offset=offset))["output"]:
        text, offset = text + part["output"], part["next_offset"]
    assert text == "aéé€é"


def test_an_interrupt_ends_the_waiting_but_not_the_process(hands: Hands) -> None:
    id = hands.process("start", command="sleep 300")["id"]
    token = CancelToken()
    threading.Timer(0.2, token.cancel).start()
    started = time.monotonic()
    assert hands.process("wait", {"cancel": token}, id=id, timeout=60)["state"] == "running"
    assert time.monotonic() - started < 50  # of the 60 it would wait


def test_their_number_is_bounded(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tool, "MAX_RUNNING", 1)
    for _ in range(KEPT_ENDED + 4):
        hands.process("wait", id=hands.process("start", command="true")["id"], timeout=20)
    assert len(hands.process("list")["processes"]) <= KEPT_ENDED + 1
    hands.process("start", command="sleep 300")
    with pytest.raises(ToolFailure, match="run already"):
        hands.process("start", command="sleep 300")


def test_a_program_that_does_not_read_does_not_hold_the_writer(hands: Hands) -> None:
    id = hands.process("start", command="sleep 300")["id"]
    entry = process_registry.background(TASK)[0]
    assert entry.id == id
    assert 0 < entry.running.write(b"x" * 300_000, seconds=0.2) < 300_000


def test_without_consent_nothing_starts(hands: Hands, tmp_path: Path) -> None:
    """G4"""
    for asker in (None, Person("deny")):
        with pytest.raises(ToolFailure):
            hands.process("start", {"asker": asker}, command=f"chmod 700 {tmp_path}; rm -rf / # {tmp_path}")
    assert hands.process("list") == {"processes": []}


@pytest.mark.parametrize(
    "args", [{"action": "dance"}, {"action": "start"}, {"action": "poll", "id": "nobody"}, {"action": "write"}]
)
def test_a_wrong_call_is_a_sentence(hands: Hands, args: dict[str, Any]) -> None:
    with pytest.raises(ToolFailure):
        hands.process(**args)


def test_writing_to_what_has_ended_is_a_sentence(hands: Hands) -> None:
    id = hands.process("start", command="true")["id"]
    hands.process("wait", id=id, timeout=20)
    with pytest.raises(ToolFailure, match="no input any more"):
        hands.process("write", id=id, input="x")


def test_c7_a_character_that_is_printed_in_halves_is_shown_whole(hands: Hands) -> None:
    """C7: what a running process has printed ends within a character; the rest of it comes with the next look."""
    id = hands.process("start", command=r"printf 'a\360\237'; read x; printf '\230\200b'; read x")["id"]
    wait_until(lambda: hands.process("list")["processes"][0]["output_bytes"] == 3)
    assert hands.process("poll", id=id)["output"] == "a"
    hands.process("write", id=id, input="\n")
    wait_until(lambda: hands.process("list")["processes"][0]["output_bytes"] == 6)
    assert hands.process("poll", id=id)["output"] == "😀b"
