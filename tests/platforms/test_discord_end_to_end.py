"""Discord from end to end: the gateway is a process, the lab's Discord and its model are on both sides of it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from discord_rig import IDENTIFY_SECONDS
from gateway_process import HERMES, GatewayProcess
from set_up import answer_questions
from waiting import wait_until

from hermes_lab.chats.discord.discord_lab import DiscordLab
from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0
APPROVED = '[[tool terminal {"command": "touch made && printf well-%s done"}]]'


class Ann:
    """Somebody in a direct chat with the bot."""

    def __init__(self, discord: DiscordLab) -> None:
        self.discord = discord
        self.id = discord.add_person("Ann", "ann")
        self.channel = discord.dm(self.id)

    def say(self, text: str) -> str:
        return self.discord.say(self.id, text)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """What the bot wrote, as it stands in the chat."""
        return [message for message in self.discord.messages(self.channel) if message["author"].get("bot")]

    def read(self, number: str) -> dict[str, Any]:
        return next(one for one in self.discord.messages(self.channel) if one["id"] == number)

    def find(self, words: str) -> list[dict[str, Any]]:
        return [one for one in self.shown if words in one["content"]]

    def wait(self, words: str) -> dict[str, Any]:
        wait_until(lambda: bool(self.find(words)), PATIENCE)
        return self.find(words)[-1]


@pytest.fixture
def discord() -> Iterator[DiscordLab]:
    with DiscordLab() as server:
        yield server


@pytest.fixture
def ann(discord: DiscordLab) -> Ann:
    return Ann(discord)


@pytest.fixture
def gateway(home: Path, lab: LabServer, discord: DiscordLab) -> Iterator[GatewayProcess]:
    section = {"enabled": True, "token": discord.token, "base_url": discord.base_url}
    with GatewayProcess(
        home, lab.base_url, platforms={"discord": section}, approvals={"mode": "ask"}, gateway={"busy": "queue"}
    ) as process:
        process.start()
        yield process


def let_in(gateway: GatewayProcess, ann: Ann) -> None:
    config = json.loads((gateway.home / "config.yaml").read_text())
    config["platforms"]["discord"]["owner"] = ann.id
    ann.discord.advance(IDENTIFY_SECONDS)  # another adapter may take the place of this one
    (gateway.home / "config.yaml").write_text(json.dumps(config))


def test_a_set_up_takes_effect_at_once(gateway: GatewayProcess, ann: Ann, discord: DiscordLab) -> None:
    """H5, G6: the token is tried and kept, the gateway that runs takes it up, and the first message is answered."""
    config = json.loads((gateway.home / "config.yaml").read_text())
    config["platforms"]["discord"] = {"base_url": discord.base_url}
    (gateway.home / "config.yaml").write_text(json.dumps(config))
    wait_until(lambda: discord.lines == 0, PATIENCE)
    discord.advance(IDENTIFY_SECONDS)
    told = answer_questions(gateway, [HERMES, "setup", "discord"], [discord.token, ann.id])
    assert "It is lab_bot (Lab_Bot)" in told
    assert "it may read messages" in told
    assert discord.token not in told
    assert discord.token not in (gateway.home / "config.yaml").read_text()
    wait_until(lambda: discord.lines == 1, PATIENCE)
    ann.say("[[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")
    wait_until(lambda: "stop" in [row["name"] for row in discord.menu], PATIENCE)
    assert discord.complaints == []


def test_a_stranger_is_paired_by_a_code_and_then_answered(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G1: no model is called before somebody is let in."""
    ann.say("Hello!")
    code = set(re.findall(r"\b[A-Z0-9]{8}\b", ann.wait("code")["content"])).pop()
    assert not lab.requests
    approve = [HERMES, "people", "approve", code, "--role", "owner"]
    done = subprocess.run(approve, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = ann.say("[[stall 900]]")  # an answer goes before the sign that it is worked on
    wait_until(lambda: "👀" in ann.read(asked)["reactions"], PATIENCE)
    ann.say("/stop")
    ann.say("[[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")
    assert ann.discord.complaints == []


def test_an_answer_grows_and_a_button_approves(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C7, G4: the final text stands there once, in the message that grew; a press counts, and its buttons go."""
    let_in(gateway, ann)
    words = " ".join(f"word{n}" for n in range(60))
    ann.say(f"[[chunks 12]] [[pause 0.25]] [[say {words}]]")
    ann.wait("word59")
    wait_until(lambda: any(one["edits"] for one in ann.find("word59")), PATIENCE)
    assert len(ann.find("word0 ")) == 1
    assert ann.discord.typing(ann.channel)
    ann.say(APPROVED)
    question = ann.wait("touch made")
    press = ann.discord.press(ann.id, question["id"], question["components"][0]["components"][0]["custom_id"])
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()
    wait_until(lambda: ann.read(question["id"])["components"] == [], PATIENCE)
    wait_until(lambda: bool(ann.discord.answers(press)), PATIENCE)
    assert ann.discord.complaints == []


def test_files_go_both_ways(gateway: GatewayProcess, ann: Ann, lab: LabServer, tmp_path: Path) -> None:
    let_in(gateway, ann)
    path = tmp_path / "notes.txt"
    path.write_text("the notes")
    ann.say(f'[[tool send_file {{"path": "{path}", "caption": "as asked"}}]]')
    wait_until(lambda: any(one["attachments"] for one in ann.shown), PATIENCE)
    (sent,) = [one for one in ann.shown if one["attachments"]]
    assert (sent["attachments"][0]["filename"], sent["content"]) == ("notes.txt", "as asked")
    ann.discord.send(ann.id, {"plan.txt": b"the plan of Ann", "list.txt": b"a list"}, "Look at these.")
    ann.wait("Look at these.")
    asked = "".join(one.body.decode() for one in lab.requests if b"Look at these." in one.body)
    (plan,) = {*re.findall(r"[^\s\"\\]+/uploads/[^\s\"\\]+plan\.txt", asked)}
    assert Path(plan).read_bytes() == b"the plan of Ann"
    assert "list.txt" in asked
    assert ann.discord.complaints == []


def test_on_a_server_known_people_who_name_it_are_answered_in_their_thread(gateway: GatewayProcess, ann: Ann) -> None:
    """G1, G2: a stranger gets nothing there, not even a code; whoever has the same name is a stranger."""
    let_in(gateway, ann)
    discord, bob = ann.discord, ann.discord.add_person("Ann", "not_ann")
    channel = discord.add_channel(discord.add_guild("Ops", [ann.id, bob]), "plans")
    thread = discord.add_thread(channel, "Plans")
    us = f"<@{discord.bot}>"
    discord.say(ann.id, "[[say To nobody.]]", channel)
    discord.say(bob, f"{us} [[say To a stranger.]]", thread)
    discord.say(ann.id, "[[say To nobody.]]", thread)
    discord.say(ann.id, f"{us} [[say To Ann.]]", thread)
    wait_until(lambda: any("To Ann." in text for text in discord.seen(thread)), PATIENCE)
    assert [text for text in discord.seen(thread) if "To Ann." not in text] == []
    assert discord.seen(channel) == []
    wait_until(lambda: bool(discord.menu), PATIENCE)
    strange, known = discord.command(bob, "help", channel=thread), discord.command(ann.id, "help", channel=thread)
    wait_until(lambda: bool(discord.answers(known)), PATIENCE)
    assert discord.answers(strange) == []
    assert discord.complaints == []


def test_a_stop_from_the_menu_is_heard(gateway: GatewayProcess, ann: Ann) -> None:
    let_in(gateway, ann)
    ann.say("[[stall 600]] [[say Too late.]]")
    wait_until(lambda: bool(ann.discord.typing(ann.channel)), PATIENCE)
    wait_until(lambda: "stop" in [row["name"] for row in ann.discord.menu], PATIENCE)
    chosen = ann.discord.command(ann.id, "stop")
    wait_until(lambda: any("stop" in one["content"].lower() for one in ann.shown), PATIENCE)
    wait_until(lambda: bool(ann.discord.answers(chosen)), PATIENCE)
    ann.say("[[say Next.]]")
    ann.wait("Next.")
    assert ann.find("Too late.") == []
    assert ann.discord.complaints == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(
    gateway: GatewayProcess, ann: Ann, discord: DiscordLab
) -> None:
    """C1, C7: the gateway is killed while the model answers; what was said then and meanwhile is answered once, and
    the word that the turn goes on takes the place of what was shown before the kill. G6: the token is where it was put,
    and nowhere else.
    """
    let_in(gateway, ann)
    ann.say("[[chunks 10]] [[pause 0.25]] [[say One long answer that takes its time until it is at its end.]]")
    wait_until(lambda: bool(ann.shown), PATIENCE)
    (draft,) = ann.shown
    gateway.kill()
    ann.say("[[say Two.]]")
    discord.advance(IDENTIFY_SECONDS)
    gateway.start()
    discord.redeliver(2)
    ann.wait("at its end.")
    ann.wait("Two.")
    assert [len(ann.find(words)) for words in ("at its end.", "Two.")] == [1, 1]
    assert ann.find("going on with your message")[0]["id"] == draft["id"]
    texts = [one["content"] for one in ann.shown]
    assert not [text for text in texts if text.endswith("…")]
    assert texts.index(ann.find("at its end.")[0]["content"]) < texts.index("Two.")
    gateway.terminate()
    secret = discord.token.rpartition(".")[2].encode()
    found = [path for path in gateway.home.rglob("*") if path.is_file() and secret in path.read_bytes()]
    assert found == [gateway.home / "config.yaml"]
    assert discord.complaints == []


def test_an_answer_waits_for_whoever_takes_no_messages(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C9: it comes once, when they are back."""
    let_in(gateway, ann)
    ann.say("[[stall 1]] [[say It was kept.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    ann.discord.close_dms(ann.id)
    wait_until(lambda: "takes no direct messages" in gateway.log, PATIENCE)
    ann.discord.close_dms(ann.id, closed=False)
    ann.say("[[say And on.]]")
    ann.wait("And on.")
    assert len(ann.find("It was kept.")) == 1
    assert ann.discord.complaints == []
