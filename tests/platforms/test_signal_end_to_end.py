"""Signal from end to end: the gateway is a process, the lab's daemon and its model are on both sides of it."""

import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from gateway_process import HERMES, GatewayProcess, read_store
from set_up import answer_questions
from signal_rig import make_settings, short_folder
from waiting import wait_until

from gateway.core.drafts import UNFINISHED
from gateway.core.text.render import LONG_MARK
from hermes_lab.chats.faults import SILENT_AFTER, ChatFault
from hermes_lab.chats.signal.signal_lab import SignalLab
from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0
APPROVED = '[[tool terminal {"command": "touch made && printf well-%s done"}]]'


class Ann:
    """Somebody in a direct chat with the account."""

    def __init__(self, signal: SignalLab, path: Path) -> None:
        self.signal, self.path = signal, path
        self.id = signal.add_person("Ann", None)

    def say(self, text: str) -> int:
        return self.signal.say(self.id, text)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """What stands in the chat of ours."""
        return [one for one in self.signal.messages(self.id) if one["ours"]]

    @property
    def finals(self) -> list[str]:
        """The texts that are whole, without repetitions that say so."""
        every = [one["text"] for one in self.shown]
        return [text for text in every if LONG_MARK not in text and not text.endswith(UNFINISHED)]

    def read(self, timestamp: int) -> dict[str, Any]:
        return next(one for one in self.signal.messages(self.id) if one["timestamp"] == timestamp)

    def find(self, words: str) -> list[dict[str, Any]]:
        return [one for one in self.shown if words in one["text"]]

    def wait(self, words: str) -> dict[str, Any]:
        wait_until(lambda: bool(self.find(words)), PATIENCE)
        return self.find(words)[-1]


@pytest.fixture
def ann() -> Iterator[Ann]:
    with short_folder() as folder, SignalLab(folder / "socket") as server:
        yield Ann(server, folder / "socket")


@pytest.fixture
def gateway(home: Path, lab: LabServer, ann: Ann) -> Iterator[GatewayProcess]:
    section = {"enabled": True, **make_settings(ann.signal, ann.path)}
    with GatewayProcess(
        home, lab.base_url, platforms={"signal": section}, approvals={"mode": "ask"}, gateway={"busy": "queue"}
    ) as process:
        process.start()
        yield process


def let_in(gateway: GatewayProcess, ann: Ann) -> None:
    config = json.loads((gateway.home / "config.yaml").read_text())
    config["platforms"]["signal"]["owner"] = ann.id
    (gateway.home / "config.yaml").write_text(json.dumps(config))


def test_a_set_up_takes_effect_at_once(home: Path, lab: LabServer, ann: Ann) -> None:
    """H5: the daemon is asked, the gateway that runs takes the account up, and the first message is answered."""
    with GatewayProcess(home, lab.base_url) as gateway:
        gateway.start()
        answers = [str(ann.path), ann.signal.number, ann.id]
        told = answer_questions(gateway, [HERMES, "setup", "signal"], answers)
        assert f"It is {ann.signal.number} ({ann.signal.own_id}) on signal-cli 0.14.6" in told
        asked = ann.say("[[say Good morning, Ann.]]")
        ann.wait("Good morning, Ann.")
        wait_until(lambda: ann.read(asked)["read"], PATIENCE)
        assert ann.signal.complaints == []


def test_a_stranger_is_paired_by_a_code_and_then_answered(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G1: no model is called before somebody is let in."""
    asked = ann.say("Hello!")
    code = set(re.findall(r"\b[A-Z0-9]{8}\b", ann.wait("code")["text"])).pop()
    assert not lab.requests
    assert not ann.read(asked)["read"]
    approve = [HERMES, "people", "approve", code, "--role", "owner"]
    done = subprocess.run(approve, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ann.wait("You are let in.")
    ann.say("[[say Good **morning**, Ann.]]")
    assert ann.wait("Good morning, Ann.")["styles"] == ["5:7:BOLD"]
    assert ann.signal.complaints == []


def test_an_answer_grows_in_one_message(gateway: GatewayProcess, ann: Ann) -> None:
    """C7: the final text stands there once, in the message that grew, however long it took."""
    let_in(gateway, ann)
    words = " ".join(f"word{n}" for n in range(60))
    ann.say(f"[[chunks 60]] [[pause 0.3]] [[say {words}]]")
    ann.wait("word59")
    wait_until(lambda: not ann.shown[-1]["text"].endswith(UNFINISHED), PATIENCE)
    (shown,) = ann.find("word0 ")
    assert 1 < shown["edits"] <= 10
    assert ann.signal.typing(ann.id)
    assert ann.signal.complaints == []


def test_a_long_answer_comes_in_parts(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C7: each word once, in order."""
    let_in(gateway, ann)
    words = [f"wörd{n}" for n in range(1000)]
    lab.set_plan([{"text": " ".join(words), "chunks": 4}])
    ann.say("All of it, please.")
    wait_until(lambda: bool(ann.shown) and ann.shown[-1]["text"].endswith("wörd999"), PATIENCE)
    assert len(ann.shown) > 1
    assert " ".join(one["text"] for one in ann.shown).split() == words
    assert ann.signal.complaints == []


def test_a_word_approves_a_command(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G4."""
    let_in(gateway, ann)
    ann.say(APPROVED)
    ann.wait("touch made")
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    ann.say("yes")
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()
    assert ann.signal.complaints == []


def test_a_file_is_sent_and_one_is_read(gateway: GatewayProcess, ann: Ann, lab: LabServer, tmp_path: Path) -> None:
    let_in(gateway, ann)
    path = tmp_path / "notes.txt"
    path.write_text("the notes")
    ann.say(f'[[tool send_file {{"path": "{path}", "caption": "as asked"}}]]')
    wait_until(lambda: any(one["file"] == "notes.txt" for one in ann.shown), PATIENCE)
    assert ann.find("as asked")
    ann.signal.send(ann.id, b"the plan of Ann", "plan.txt", caption="Look at this.")
    ann.wait("Look at this.")
    (found,) = {*re.findall(r"\S+/uploads/\S+plan\.txt", lab.requests[-1].body.decode())}
    assert Path(found).read_bytes() == b"the plan of Ann"
    assert ann.signal.complaints == []


def test_in_a_group_known_people_who_name_it_are_answered(gateway: GatewayProcess, ann: Ann) -> None:
    """G1: a stranger gets nothing there, not even a code, whatever their name is."""
    let_in(gateway, ann)
    signal = ann.signal
    eve = signal.add_person("Ann")
    group = signal.add_group("Ops", [ann.id, eve])
    signal.say(eve, "\ufffc [[say To a stranger.]]", chat=group, mentions=["me"])
    signal.say(ann.id, "[[say To nobody.]]", chat=group)
    asked = signal.say(ann.id, "\ufffc [[say To Ann.]]", chat=group, mentions=["me"])
    wait_until(lambda: any("To Ann." in text for text in signal.seen(group)), PATIENCE)
    assert [text for text in signal.seen(group) if "To Ann." not in text] == []
    assert [one["quote"] for one in signal.messages(group) if one["ours"]] in ([asked], [0])
    assert signal.complaints == []


def test_an_answer_waits_for_whoever_left_signal(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C9: also over a restart; it comes once, when they are back."""
    let_in(gateway, ann)
    ann.say("[[stall 2]] [[say It was kept.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    ann.signal.change_person(ann.id, is_gone=True)
    wait_until(lambda: "is not on Signal any more" in gateway.log, PATIENCE)
    gateway.terminate()
    gateway.start()
    wait_until(lambda: gateway.log.count("Nobody can be reached") > 1, PATIENCE)
    ann.signal.change_person(ann.id, is_gone=False)
    ann.say("[[say And on.]]")
    ann.wait("It was kept.")
    ann.wait("And on.")
    assert len(ann.find("It was kept.")) == 1
    assert ann.signal.complaints == []


def test_a_stop_is_heard(gateway: GatewayProcess, ann: Ann) -> None:
    """C4."""
    let_in(gateway, ann)
    ann.say("[[stall 600]] [[say Too late.]]")
    wait_until(lambda: ann.signal.typing(ann.id) > 0, PATIENCE)
    ann.say("/stop")
    wait_until(lambda: any("stop" in one["text"].lower() for one in ann.shown), PATIENCE)
    ann.say("[[say Next.]]")
    ann.wait("Next.")
    assert ann.find("Too late.") == []
    assert ann.signal.complaints == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(gateway: GatewayProcess, ann: Ann) -> None:
    """C1, C7, C10: what was stored before the kill, and what was said meanwhile and waits at Signal, is answered once;
    the word that the turn goes on takes the place of what was shown before."""
    let_in(gateway, ann)
    ann.say("[[chunks 20]] [[pause 0.3]] [[say One long answer that takes its time until it is at its end.]]")
    wait_until(lambda: read_store(gateway.home, "select draft from inbox") not in ([], [("",)]), PATIENCE)
    wait_until(lambda: any(one["edits"] for one in ann.shown), PATIENCE)
    gateway.kill()
    ann.say("[[say Two.]]")
    gateway.start()
    for words in ("at its end.", "Two."):
        wait_until(lambda words=words: any(text.endswith(words) for text in ann.finals), PATIENCE)
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    ends = [[n for n, text in enumerate(ann.finals) if text.endswith(words)] for words in ("at its end.", "Two.")]
    assert [len(found) for found in ends] == [1, 1]
    assert ends[0] < ends[1]
    assert ann.find("going on with your message")
    assert ann.signal.complaints == []


def test_what_is_said_while_it_ends_is_answered_by_the_next_start(
    gateway: GatewayProcess, ann: Ann, lab: LabServer
) -> None:
    """C2, C14: the daemon brings nothing twice, so it is stored or waits at Signal, and nobody has to say it again."""
    let_in(gateway, ann)
    ann.say("[[stall 600]] [[say Too long.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    words = [f"Word {number}." for number in range(12)]
    with ThreadPoolExecutor(1) as pool:
        ending = pool.submit(gateway.terminate)
        for word in words:
            ann.say(f"[[say {word}]]")
        ending.result()
    assert ann.signal.lost == 0
    gateway.start()
    ann.say("/stop")
    for word in words:
        ann.wait(word)
    assert ann.find("not taken") == []
    assert ann.signal.complaints == []


def test_a_kill_in_the_middle_of_an_edit_does_not_cost_the_answer(gateway: GatewayProcess, ann: Ann) -> None:
    """C7: the edit arrived, and nobody knows when it was sent. The next process edits that message no more: an edit
    that names another one would be dropped without a word."""
    let_in(gateway, ann)
    ann.signal.plan([ChatFault(SILENT_AFTER, "send", skip=1)])
    ann.say("[[chunks 20]] [[pause 0.3]] [[say One long answer that takes its time until it is at its end.]]")
    wait_until(lambda: any(one["edits"] for one in ann.shown), PATIENCE)
    gateway.kill()
    gateway.start()
    wait_until(lambda: any(text.endswith("at its end.") for text in ann.finals), PATIENCE)
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    assert len([text for text in ann.finals if text.endswith("at its end.")]) == 1
    assert len(ann.find("going on with your message")) == 1
    assert ann.shown[0]["text"].endswith(UNFINISHED)
    assert ann.signal.complaints == []


def test_a_daemon_that_goes_and_comes_costs_nothing(gateway: GatewayProcess, ann: Ann) -> None:
    """C9, C13."""
    let_in(gateway, ann)
    ann.say("[[say One.]]")
    ann.wait("One.")
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    wait_until(lambda: any(text.endswith("One.") for text in ann.finals), PATIENCE)  # what is cut is another test
    ann.signal.go()
    ann.say("[[say Two.]]")
    wait_until(lambda: "does not answer at" in gateway.log, PATIENCE)
    ann.signal.come()
    ann.wait("Two.")
    assert [len(ann.find(words)) for words in ("One.", "Two.")] == [1, 1]
    assert ann.signal.complaints == []
