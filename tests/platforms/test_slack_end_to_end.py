"""Slack from end to end: the gateway is a process, the lab's Slack and its model are on both sides of it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_process import HERMES, GatewayProcess, read_store
from set_up import answer_questions
from waiting import wait_until
from web_house import find_free_port

from hermes_lab.chats.slack.slack_lab import SlackLab
from hermes_lab.chats.slack.slack_world import BOT, BOT_USER
from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0
APPROVED = '[[tool terminal {"command": "touch made && printf well-%s done"}]]'


class Ann:
    """Somebody in a direct chat with the app."""

    def __init__(self, slack: SlackLab) -> None:
        self.slack = slack
        self.id = slack.add_person("Ann")
        self.channel = slack.dm(self.id)

    def say(self, text: str, **where: str) -> str:
        return self.slack.say(self.id, text, **where)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """What the app wrote, as it stands in the chat."""
        return [message for message in self.slack.messages(self.channel) if message.get("bot_id") == BOT]

    def read(self, ts: str) -> dict[str, Any]:
        return next(one for one in self.slack.messages(self.channel) if one["ts"] == ts)

    def find(self, words: str) -> list[dict[str, Any]]:
        return [one for one in self.shown if words in one["text"]]

    def wait(self, words: str) -> dict[str, Any]:
        wait_until(lambda: bool(self.find(words)), PATIENCE)
        return self.find(words)[-1]


@pytest.fixture
def slack() -> Iterator[SlackLab]:
    with SlackLab(pauses=(0.0, 1.0, 5.0)) as server:
        yield server


@pytest.fixture
def ann(slack: SlackLab) -> Ann:
    return Ann(slack)


@pytest.fixture
def section(slack: SlackLab) -> dict[str, Any]:
    return {"enabled": True, "token": slack.token, "app_token": slack.app_token, "base_url": slack.base_url}


@pytest.fixture
def gateway(home: Path, lab: LabServer, section: dict[str, Any]) -> Iterator[GatewayProcess]:
    with GatewayProcess(
        home, lab.base_url, platforms={"slack": section}, approvals={"mode": "ask"}, gateway={"busy": "queue"}
    ) as process:
        process.start()
        yield process


def let_in(gateway: GatewayProcess, ann: Ann) -> None:
    config = json.loads((gateway.home / "config.yaml").read_text())
    config["platforms"]["slack"]["owner"] = ann.id
    (gateway.home / "config.yaml").write_text(json.dumps(config))


def test_a_set_up_takes_effect_at_once(gateway: GatewayProcess, ann: Ann, slack: SlackLab) -> None:
    """H5, G6: the tokens are tried and kept, the gateway that runs takes them up, and the first message is answered."""
    config = json.loads((gateway.home / "config.yaml").read_text())
    config["platforms"]["slack"] = {"base_url": slack.base_url}
    (gateway.home / "config.yaml").write_text(json.dumps(config))
    answers = ["socket", slack.token, slack.app_token, "", ann.id]
    told = answer_questions(gateway, [HERMES, "setup", "slack"], answers)
    assert "It is @lab in Lab" in told
    for secret in (slack.token, slack.app_token):
        assert secret not in told
        assert secret not in (gateway.home / "config.yaml").read_text()
    wait_until(lambda: slack.sockets == 1, PATIENCE)
    ann.say("[[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")
    assert slack.complaints == []


def test_a_stranger_is_paired_by_a_code_and_then_answered(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G1: no model is called before somebody is let in."""
    ann.say("Hello!")
    code = set(re.findall(r"\b[A-Z0-9]{8}\b", ann.wait("code")["text"])).pop()
    assert not lab.requests
    approve = [HERMES, "people", "approve", code, "--role", "owner"]
    done = subprocess.run(approve, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ann.wait("You are let in.")
    ann.say("[[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")
    assert ann.slack.complaints == []


def test_an_answer_grows_in_one_message(gateway: GatewayProcess, ann: Ann) -> None:
    """C7: the final text stands there once, in the message that grew."""
    let_in(gateway, ann)
    words = " ".join(f"word{n}" for n in range(60))
    ann.say(f"[[chunks 12]] [[pause 0.3]] [[say {words}]]")
    ann.wait("word59")
    wait_until(lambda: any(one.get("edits") for one in ann.find("word59")), PATIENCE)
    assert len(ann.find("word0 ")) == 1
    assert ann.slack.complaints == []


def test_a_button_approves_a_command(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G4."""
    let_in(gateway, ann)
    ann.say(APPROVED)
    question = ann.wait("touch made")
    button = question["blocks"][-1]["elements"][0]["text"]["text"]
    ann.slack.press(ann.id, question["ts"], button)
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()
    wait_until(lambda: "blocks" not in ann.read(question["ts"]), PATIENCE)
    assert ann.slack.complaints == []


def test_files_go_both_ways(gateway: GatewayProcess, ann: Ann, lab: LabServer, tmp_path: Path) -> None:
    let_in(gateway, ann)
    ann.slack.send(ann.id, "plan.txt", b"the plan of Ann", text="Look at this.")
    ann.wait("Look at this.")
    (path,) = {*re.findall(r"\S+/uploads/\S+plan\.txt", lab.requests[-1].body.decode())}
    assert Path(path).read_bytes() == b"the plan of Ann"
    notes = tmp_path / "notes.txt"
    notes.write_text("the notes")
    ann.say(f'[[tool send_file {{"path": "{notes}", "caption": "as asked"}}]]')
    wait_until(lambda: "notes.txt" in ann.slack.seen(ann.channel), PATIENCE)
    assert ann.find("as asked")
    assert ann.slack.complaints == []


def test_in_a_channel_known_people_who_name_it_are_answered_in_a_thread(gateway: GatewayProcess, ann: Ann) -> None:
    """G1, G2: a stranger gets nothing there, not even a code; in the thread nobody has to name it again."""
    let_in(gateway, ann)
    slack, bob = ann.slack, ann.slack.add_person("Ann")
    channel, me = slack.add_channel("ops", [ann.id, bob]), f"<@{BOT_USER}>"
    slack.say(bob, f"{me} [[say To a stranger.]]", channel=channel)
    ann.say("[[say To nobody.]]", channel=channel)
    root = ann.say(f"{me} [[say To Ann.]]", channel=channel)
    wait_until(lambda: slack.seen(channel, root) == ["To Ann."], PATIENCE)
    ann.say("[[say And on.]]", channel=channel, thread=root)
    wait_until(lambda: slack.seen(channel, root) == ["To Ann.", "And on."], PATIENCE)
    assert slack.seen(channel) == ["To Ann.", "And on."]
    assert slack.complaints == []


def test_a_stop_is_heard(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C4: `!stop`, since Slack's programs send no text that begins with a stroke."""
    let_in(gateway, ann)
    ann.say("[[stall 600]] [[say Too late.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    ann.say("!stop")
    wait_until(lambda: any("stop" in one["text"].lower() for one in ann.shown), PATIENCE)
    ann.say("[[say Next.]]")
    ann.wait("Next.")
    assert ann.find("Too late.") == []
    assert ann.slack.complaints == []


def test_a_deleted_message_is_not_answered(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C1: it waited, and was taken back; of the one that is being answered nothing is said."""
    let_in(gateway, ann)
    first = ann.say("[[stall 2]] [[say First.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    second = ann.say("[[say Second.]]")
    for ts in (first, second):
        ann.slack.delete(ts, ann.channel)
    ann.say("[[say Third.]]")
    ann.wait("Third.")
    assert [text for text in ann.slack.seen(ann.channel) if "Queued" not in text] == ["First.", "Third."]
    assert ann.slack.complaints == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(gateway: GatewayProcess, ann: Ann) -> None:
    """C1, C7: the gateway is killed while the model answers; what was said then and meanwhile is answered once, and
    the word that the turn goes on takes the place of what was shown before the kill."""
    let_in(gateway, ann)
    ann.say("[[chunks 10]] [[pause 0.4]] [[say One long answer that takes its time until it is at its end.]]")
    wait_until(lambda: len(ann.shown) == 1, PATIENCE)
    (draft,) = ann.shown
    gateway.kill()
    ann.say("[[say Two.]]")
    gateway.start()
    ann.wait("at its end.")
    ann.wait("Two.")
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    assert len(ann.find("at its end.")) == 1
    assert len(ann.find("Two.")) == 1
    assert ann.find("going on with your message")[0]["ts"] == draft["ts"]
    texts = [one["text"] for one in ann.shown]
    assert not [text for text in texts if text.endswith("…")]
    assert texts.index(ann.find("at its end.")[0]["text"]) < texts.index(ann.find("Two.")[0]["text"])
    assert ann.slack.complaints == []


def test_by_requests_nothing_is_lost_over_a_kill_either(home: Path, lab: LabServer, section: dict[str, Any]) -> None:
    """C1: Slack hears 200 from the gateway's own web server when a message is stored."""
    port = find_free_port()
    with SlackLab(pauses=(0.0, 1.0, 5.0)) as slack:
        ann = Ann(slack)
        section |= {"mode": "http", "signing_secret": slack.signing_secret, "owner": ann.id}
        section |= {"base_url": slack.base_url, "app_token": ""}
        slack.set_hook(f"http://127.0.0.1:{port}/hooks/slack/slack")
        with GatewayProcess(home, lab.base_url, platforms={"slack": section}, web={"port": port}) as gateway:
            gateway.start()
            challenge = slack.request(json.dumps({"type": "url_verification", "challenge": "c-1", "token": "x"}))
            assert challenge == {"status": 200, "body": "c-1"}
            assert slack.request("{}", secret="another")["status"] == 401
            ann.say("[[say One.]]")
            ann.wait("One.")
            gateway.kill()
            ann.say("[[say Two.]]")
            wait_until(lambda: slack.attempts()[-1]["status"] == 0, PATIENCE)
            gateway.start()
            ann.wait("Two.")
            wait_until(lambda: slack.pending() == 0, PATIENCE)
            assert [len(ann.find(words)) for words in ("One.", "Two.")] == [1, 1]
            assert slack.calls("apps.connections.open") == []
            assert slack.complaints == []


def test_the_tokens_are_nowhere_in_the_home_but_where_they_were_put(gateway: GatewayProcess, ann: Ann) -> None:
    """G6."""
    let_in(gateway, ann)
    ann.say("[[say Hello.]]")
    ann.wait("Hello.")
    ann.slack.cut()
    ann.slack.stop()
    gateway.terminate()
    ann.slack.start()
    for secret in (ann.slack.token, ann.slack.app_token):
        found = [path for path in gateway.home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert found == [gateway.home / "config.yaml"]
