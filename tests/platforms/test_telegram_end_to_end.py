"""Telegram from end to end: the gateway is a process, the lab's Telegram and its model are on both sides of it."""

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

from gateway.core.text.render import LONG_MARK
from hermes_lab.chats.faults import LATE, TOO_MANY, ChatFault
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000"
    "000049454e44ae426082"
)
APPROVED = '[[tool terminal {"command": "touch made && printf well-%s done"}]]'


class Ann:
    """Somebody in a private chat with the bot."""

    def __init__(self, telegram: TelegramLab) -> None:
        self.telegram = telegram
        self.id = telegram.add_person("Ann", "ann")

    def say(self, text: str) -> int:
        return self.telegram.say(self.id, text)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """What the bot wrote, as it stands in the chat."""
        return [message for message in self.telegram.messages(self.id) if message["from"]["is_bot"]]

    def read(self, number: int) -> dict[str, Any]:
        return next(one for one in self.telegram.messages(self.id) if one["message_id"] == number)

    def find(self, words: str) -> list[dict[str, Any]]:
        return [one for one in self.shown if words in one.get("text", one.get("caption", ""))]

    def wait(self, words: str) -> dict[str, Any]:
        wait_until(lambda: bool(self.find(words)), PATIENCE)
        return self.find(words)[-1]


@pytest.fixture
def telegram() -> Iterator[TelegramLab]:
    with TelegramLab() as server:
        yield server


@pytest.fixture
def ann(telegram: TelegramLab) -> Ann:
    return Ann(telegram)


@pytest.fixture
def gateway(home: Path, lab: LabServer, telegram: TelegramLab) -> Iterator[GatewayProcess]:
    section = {"enabled": True, "token": telegram.token, "base_url": telegram.address}
    with GatewayProcess(
        home, lab.base_url, platforms={"telegram": section}, approvals={"mode": "ask"}, gateway={"busy": "queue"}
    ) as process:
        process.start()
        yield process


def let_in(gateway: GatewayProcess, ann: Ann) -> None:
    config = json.loads((gateway.home / "config.yaml").read_text())
    config["platforms"]["telegram"]["owner"] = str(ann.id)
    (gateway.home / "config.yaml").write_text(json.dumps(config))


def test_a_set_up_takes_effect_at_once(gateway: GatewayProcess, ann: Ann, telegram: TelegramLab) -> None:
    """H5, G6: the token is tried and kept, the gateway that runs takes it up, and the first message is answered."""
    config = json.loads((gateway.home / "config.yaml").read_text())
    config["platforms"]["telegram"] = {"base_url": telegram.address}
    (gateway.home / "config.yaml").write_text(json.dumps(config))
    told = answer_questions(gateway, [HERMES, "setup", "telegram"], [telegram.token, str(ann.id)])
    assert "It is @lab_bot (Lab)" in told
    assert telegram.token not in told
    assert telegram.token not in (gateway.home / "config.yaml").read_text()
    asked = ann.say("[[stall 900]]")  # an answer goes before the sign that it is worked on
    wait_until(lambda: "👀" in str(ann.read(asked)["reactions"]), PATIENCE)
    ann.say("/stop")
    ann.say("[[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")
    wait_until(lambda: "stop" in [row["command"] for row in telegram.menu(ann.id)], PATIENCE)
    assert telegram.complaints == []


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
    assert lab.requests
    assert ann.telegram.complaints == []


def test_a_menu_that_has_to_wait_keeps_no_chat_waiting(gateway: GatewayProcess, ann: Ann) -> None:
    """C8: what Telegram asks of a call that is about no chat holds for that call."""
    let_in(gateway, ann)
    gateway.kill()
    ann.telegram.plan([ChatFault(TOO_MANY, "setMyCommands", seconds=600)])
    gateway.start()
    wait_until(lambda: any(call["fault"] == TOO_MANY for call in ann.telegram.calls("setMyCommands")), PATIENCE)
    ann.say("[[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")
    assert ann.telegram.complaints == []


def test_an_answer_grows_in_one_message(gateway: GatewayProcess, ann: Ann) -> None:
    """C7: the final text stands there once, in the message that grew."""
    let_in(gateway, ann)
    words = " ".join(f"word{n}" for n in range(60))
    ann.say(f"[[chunks 30]] [[pause 0.2]] [[say {words}]]")
    ann.wait("word59")
    wait_until(lambda: any(one["edits"] for one in ann.find("word59")), PATIENCE)
    assert len(ann.find("word0 ")) == 1
    assert ann.telegram.actions(ann.id)
    assert ann.telegram.complaints == []


def test_a_draft_that_is_late_leaves_nothing_behind(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C7: the first draft is on its way when its turn ends and the next one begins; each answer stands there once."""
    let_in(gateway, ann)
    ann.telegram.plan([ChatFault(LATE, "sendMessage", times=0, seconds=1.0)])
    for number in range(2):
        asked = len(lab.requests)
        ann.say(f"[[stall 2]] [[say first{number}.]]")
        wait_until(lambda asked=asked: len(lab.requests) > asked, PATIENCE)
        ann.say(f"[[say second{number}.]]")
        ann.wait(f"second{number}.")
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    said = [one["text"] for one in ann.shown if "Queued" not in one["text"]]
    assert said == ["first0.", "second0.", "first1.", "second1."]
    assert ann.telegram.complaints == []


def test_a_button_approves_a_command(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G4."""
    let_in(gateway, ann)
    ann.say(APPROVED)
    question = ann.wait("touch made")
    button = question["reply_markup"]["inline_keyboard"][0][0]
    press = ann.telegram.press(ann.id, question["message_id"], button["callback_data"])
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()
    wait_until(lambda: "reply_markup" not in ann.read(question["message_id"]), PATIENCE)
    wait_until(lambda: ann.telegram.press_state(press)["answered"], PATIENCE)
    assert ann.telegram.complaints == []


def test_a_file_is_sent(gateway: GatewayProcess, ann: Ann, tmp_path: Path) -> None:
    let_in(gateway, ann)
    path = tmp_path / "notes.txt"
    path.write_text("the notes")
    ann.say(f'[[tool send_file {{"path": "{path}", "caption": "as asked"}}]]')
    wait_until(lambda: any(one["file"] == "notes.txt" for one in ann.shown), PATIENCE)
    assert ann.find("as asked")
    assert ann.telegram.complaints == []


def test_a_very_long_answer_is_a_message_and_a_file(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    let_in(gateway, ann)
    lab.set_plan([{"text": " ".join(f"word{n}" for n in range(8000)), "chunks": 4}])
    ann.say("All of it, please.")
    wait_until(lambda: any(one["file"] == "answer.md" for one in ann.shown), PATIENCE)
    assert len(ann.find("word0 ")) == 1
    assert len(ann.shown) <= 2
    assert ann.telegram.complaints == []


def test_a_file_is_read(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    let_in(gateway, ann)
    ann.telegram.send(ann.id, "document", b"the plan of Ann", name="plan.txt", caption="Look at this.")
    ann.wait("Look at this.")
    (path,) = {*re.findall(r"\S+/uploads/\S+plan\.txt", lab.requests[-1].body.decode())}
    assert Path(path).read_bytes() == b"the plan of Ann"
    assert ann.telegram.complaints == []


def test_an_album_is_one_message(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    let_in(gateway, ann)
    photos = [{"kind": "photo", "data": PNG + bytes([n])} for n in range(3)]
    photos[0]["caption"] = "Three of them."
    ann.telegram.send_album(ann.id, photos)
    ann.wait("Three of them.")
    (asked,) = [one.body.decode() for one in lab.requests if "Three of them." in one.body.decode()]
    assert len(set(re.findall(r"/uploads/\S+?\.jpg", asked))) == 3
    assert ann.telegram.complaints == []


def test_in_a_group_known_people_who_name_it_are_answered_in_their_topic(gateway: GatewayProcess, ann: Ann) -> None:
    """G1: a stranger gets nothing there, not even a code."""
    let_in(gateway, ann)
    telegram, bob = ann.telegram, ann.telegram.add_person("Ann", "not_ann")
    group = telegram.add_group("Ops", [ann.id, bob], forum=True, admin=True)
    telegram.say(ann.id, "to nobody", chat=group)
    topic = telegram.add_topic(group, "Plans")
    telegram.say(bob, "@lab_bot [[say To a stranger.]]", chat=group, thread=topic)
    telegram.say(ann.id, "[[say To nobody.]]", chat=group, thread=topic)
    telegram.say(ann.id, "@lab_bot [[say To Ann.]]", chat=group, thread=topic)
    wait_until(lambda: any("To Ann." in text for text in telegram.seen(group, topic)), PATIENCE)
    assert [text for text in telegram.seen(group) if "To Ann." not in text] == []
    assert telegram.complaints == []


def test_an_answer_waits_for_whoever_blocked_the_bot(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C9: also over a restart; it comes once, when they are back."""
    let_in(gateway, ann)
    ann.say("[[stall 2]] [[say It was kept.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    ann.telegram.block(ann.id)
    wait_until(lambda: "blocked the bot" in gateway.log, PATIENCE)
    gateway.terminate()
    gateway.start()
    wait_until(lambda: gateway.log.count("Nobody can be reached") > 1, PATIENCE)
    ann.telegram.unblock(ann.id)
    ann.wait("It was kept.")
    ann.say("[[say And on.]]")
    ann.wait("And on.")
    assert len(ann.find("It was kept.")) == 1
    assert ann.telegram.complaints == []


def test_a_stop_is_heard(gateway: GatewayProcess, ann: Ann) -> None:
    let_in(gateway, ann)
    ann.say("[[stall 600]] [[say Too late.]]")
    wait_until(lambda: bool(ann.telegram.actions(ann.id)), PATIENCE)
    ann.say("/stop")
    wait_until(lambda: any("stop" in one.get("text", "").lower() for one in ann.shown), PATIENCE)
    ann.say("[[say Next.]]")
    ann.wait("Next.")
    assert ann.find("Too late.") == []
    assert ann.telegram.complaints == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(gateway: GatewayProcess, ann: Ann) -> None:
    """C1, C7: the gateway is killed while the model answers; what was said then and meanwhile is answered once, and
    the word that the turn goes on takes the place of what was shown before the kill, so that the answer is news."""
    let_in(gateway, ann)
    ann.say("[[chunks 20]] [[pause 0.3]] [[say One long answer that takes its time until it is at its end.]]")
    wait_until(lambda: read_store(gateway.home, "select draft from inbox") not in ([], [("",)]), PATIENCE)
    (draft,) = ann.shown
    gateway.kill()
    ann.say("[[say Two.]]")
    ann.telegram.redeliver(2)
    gateway.start()
    ann.wait("at its end.")
    ann.wait("Two.")
    wait_until(lambda: ann.telegram.pending() == [], PATIENCE)
    assert len(ann.find("at its end.")) == 1
    assert len(ann.find("Two.")) == 1
    texts = [one["text"] for one in ann.shown]
    assert ann.find("going on with your message")[0]["message_id"] == draft["message_id"]
    assert ann.find("at its end.")[0]["message_id"] > draft["message_id"]
    assert not [text for text in texts if text.endswith("…")]
    assert texts.index(ann.find("at its end.")[0]["text"]) < texts.index(ann.find("Two.")[0]["text"])


def test_by_webhook_nothing_is_lost_over_a_kill_either(home: Path, lab: LabServer) -> None:
    """C1: Telegram hears 200 from the gateway's own web server when a message is stored, and else brings it again."""
    port = find_free_port()
    with TelegramLab(hook_pause=0.2) as telegram:
        ann = Ann(telegram)
        section = {"enabled": True, "token": telegram.token, "base_url": telegram.address, "owner": str(ann.id)}
        section |= {"mode": "webhook", "public_url": f"http://127.0.0.1:{port}"}
        with GatewayProcess(home, lab.base_url, platforms={"telegram": section}, web={"port": port}) as gateway:
            gateway.start()
            ann.say("[[say One.]]")
            ann.wait("One.")
            gateway.kill()
            ann.say("[[say Two.]]")
            wait_until(lambda: telegram.attempts()[-1]["status"] == 0, PATIENCE)
            gateway.start()
            ann.wait("Two.")
            wait_until(lambda: telegram.pending() == [], PATIENCE)
            unmarked = [one for one in ann.shown if LONG_MARK not in one["text"]]
            assert [sum(words in one["text"] for one in unmarked) for words in ("One.", "Two.")] == [1, 1]
            assert telegram.calls("getUpdates") == []
            assert telegram.complaints == []


def test_the_token_is_nowhere_in_the_home_but_where_it_was_put(gateway: GatewayProcess, ann: Ann) -> None:
    """G6."""
    let_in(gateway, ann)
    ann.say("[[say Hello.]]")
    ann.wait("Hello.")
    ann.telegram.stop()
    gateway.terminate()
    ann.telegram.start()
    secret = ann.telegram.token.partition(":")[2].encode()
    found = [path for path in gateway.home.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert found == [gateway.home / "config.yaml"]
