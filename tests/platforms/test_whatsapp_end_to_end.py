"""WhatsApp from end to end: the gateway is a process, the lab's WhatsApp and its model are on both sides of it."""

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
from whatsapp_rig import VERIFY, make_settings

from gateway.core.text.render import LONG_MARK
from hermes_lab.chats.whatsapp.whatsapp_lab import WhatsAppLab
from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0
DAY = 24 * 3600
APPROVED = '[[tool terminal {"command": "touch made && printf well-%s done"}]]'


class Ann:
    """Somebody who writes to the number."""

    def __init__(self, whatsapp: WhatsAppLab) -> None:
        self.whatsapp = whatsapp
        self.id = whatsapp.add_person("Ann")

    def say(self, text: str) -> str:
        return self.whatsapp.say(self.id, text)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """What stands in the chat of ours."""
        return [one for one in self.whatsapp.messages(self.id) if one["ours"] and not one["failed"]]

    def read(self, message: str) -> dict[str, Any]:
        return next(one for one in self.whatsapp.messages(self.id) if one["id"] == message)

    def find(self, words: str) -> list[dict[str, Any]]:
        return [one for one in self.shown if words in one["text"]]

    def wait(self, words: str) -> dict[str, Any]:
        wait_until(lambda: bool(self.find(words)), PATIENCE)
        return self.find(words)[-1]


@pytest.fixture
def whatsapp() -> Iterator[WhatsAppLab]:
    with WhatsAppLab(hook_pause=0.2) as server:
        yield server


@pytest.fixture
def ann(whatsapp: WhatsAppLab) -> Ann:
    return Ann(whatsapp)


@pytest.fixture
def port() -> int:
    return find_free_port()


@pytest.fixture
def gateway(home: Path, lab: LabServer, whatsapp: WhatsAppLab, port: int) -> Iterator[GatewayProcess]:
    section = {"enabled": True, **make_settings(whatsapp)}
    with GatewayProcess(
        home,
        lab.base_url,
        platforms={"whatsapp": section},
        approvals={"mode": "ask"},
        gateway={"busy": "queue"},
        web={"port": port},
    ) as process:
        process.start()
        open_hook(whatsapp, port)
        yield process


def open_hook(whatsapp: WhatsAppLab, port: int) -> None:
    """As the owner of the app names the address, as soon as it listens."""
    url = f"http://127.0.0.1:{port}/hooks/whatsapp/whatsapp"
    wait_until(lambda: whatsapp.set_hook(url, VERIFY) == 200, PATIENCE)


def let_in(gateway: GatewayProcess, ann: Ann) -> None:
    config = json.loads((gateway.home / "config.yaml").read_text())
    config["platforms"]["whatsapp"]["owner"] = ann.id
    (gateway.home / "config.yaml").write_text(json.dumps(config))


def test_a_set_up_takes_effect_at_once(home: Path, lab: LabServer, whatsapp: WhatsAppLab, ann: Ann, port: int) -> None:
    """H5, G6: the token is tried and kept, the gateway that runs takes it up, and the first message is answered."""
    section = {"base_url": whatsapp.address}
    with GatewayProcess(home, lab.base_url, platforms={"whatsapp": section}, web={"port": port}) as gateway:
        gateway.start()
        answers = [whatsapp.number, whatsapp.token, whatsapp.app_secret, VERIFY, ann.id]
        told = answer_questions(gateway, [HERMES, "setup", "whatsapp"], answers)
        assert "It is +15550783881 (Lab)" in told
        config = (gateway.home / "config.yaml").read_text()
        for secret in (whatsapp.token, whatsapp.app_secret, VERIFY):
            assert secret not in told
            assert secret not in config
        open_hook(whatsapp, port)
        ann.say("[[say Good morning, Ann.]]")
        ann.wait("Good morning, Ann.")
        assert whatsapp.complaints == []


def test_a_stranger_is_paired_by_a_code_and_then_answered(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G1: no model is called before somebody is let in."""
    ann.say("Hello!")
    code = set(re.findall(r"\b[A-Z0-9]{8}\b", ann.wait("code")["text"])).pop()
    assert not lab.requests
    approve = [HERMES, "people", "approve", code, "--role", "owner"]
    done = subprocess.run(approve, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = ann.say("[[stall 1]] [[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")
    assert ann.read(asked)["read"]
    assert ann.whatsapp.typing(ann.id)
    assert lab.requests
    assert ann.whatsapp.complaints == []


def test_a_long_answer_comes_in_parts(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C7: WhatsApp cannot edit, so nothing is shown before it is whole; each word comes once, in order."""
    let_in(gateway, ann)
    words = [f"word{n}" for n in range(1500)]
    lab.set_plan([{"text": " ".join(words), "chunks": 20}])
    ann.say("All of it, please.")
    ann.wait("word1499")
    assert len(ann.shown) > 1
    assert " ".join(one["text"] for one in ann.shown).split() == words
    assert ann.whatsapp.complaints == []


def test_an_answer_from_a_list_approves_a_command(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G4."""
    let_in(gateway, ann)
    ann.say(APPROVED)
    question = ann.wait("touch made")
    assert question["kind"] == "interactive"
    ann.whatsapp.press(ann.id, "Yes, once", question["id"])
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()
    assert ann.whatsapp.complaints == []


def test_a_word_approves_a_command_as_well(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """G4: one that was written after the question had arrived; WhatsApp tells whole seconds."""
    let_in(gateway, ann)
    ann.say(APPROVED)
    ann.wait("touch made")
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    ann.whatsapp.advance(2)
    ann.say("yes")
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert ann.whatsapp.complaints == []


def test_a_file_is_sent_and_one_is_read(gateway: GatewayProcess, ann: Ann, lab: LabServer, tmp_path: Path) -> None:
    let_in(gateway, ann)
    path = tmp_path / "notes.txt"
    path.write_text("the notes")
    ann.say(f'[[tool send_file {{"path": "{path}", "caption": "as asked"}}]]')
    wait_until(lambda: any(one["file"] == "notes.txt" for one in ann.shown), PATIENCE)
    assert ann.find("as asked")
    ann.whatsapp.send(ann.id, "document", b"the plan of Ann", "plan.txt", caption="Look at this.")
    ann.wait("Look at this.")
    (found,) = {*re.findall(r"\S+/uploads/\S+plan\.txt", lab.requests[-1].body.decode())}
    assert Path(found).read_bytes() == b"the plan of Ann"
    assert ann.whatsapp.complaints == []


def test_pictures_that_were_chosen_together_are_one_message(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    let_in(gateway, ann)
    for number, caption in enumerate(("Three of them.", "", "")):
        ann.whatsapp.send(ann.id, "image", b"\xff\xd8\xff" + bytes([number]), caption=caption)
    ann.wait("Three of them.")
    (asked,) = [one.body.decode() for one in lab.requests if "Three of them." in one.body.decode()]
    assert len(set(re.findall(r"/uploads/\S+?\.jpg", asked))) == 3
    assert ann.whatsapp.complaints == []


def test_an_answer_waits_for_whoever_has_not_written_for_a_day(
    gateway: GatewayProcess, ann: Ann, lab: LabServer
) -> None:
    """C9: also over a restart; it is said plainly, and comes once, when they write."""
    let_in(gateway, ann)
    ann.say("[[stall 1]] [[say It was kept.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    ann.whatsapp.advance(DAY + 60)
    wait_until(lambda: "has not written for 24 hours" in gateway.log, PATIENCE)
    gateway.terminate()
    gateway.start()
    wait_until(lambda: gateway.log.count("has not written for 24 hours") > 1, PATIENCE)
    ann.say("[[say And on.]]")
    ann.wait("It was kept.")
    ann.wait("And on.")
    assert len(ann.find("It was kept.")) == 1
    assert ann.whatsapp.complaints == []


def test_an_answer_that_fails_later_is_not_lost(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """C9: it was taken, a status told that the 24 hours are over, and it comes when they write."""
    let_in(gateway, ann)
    ann.whatsapp.fail_late()
    ann.say("[[stall 1]] [[say It was kept.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    ann.whatsapp.advance(DAY + 60)
    wait_until(lambda: "was taken and did not arrive" in gateway.log, PATIENCE)
    wait_until(
        lambda: read_store(gateway.home, "select state from outbox where ended is null") == [("waiting",)], PATIENCE
    )
    assert ann.find("It was kept.") == []
    ann.say("[[say And on.]]")
    ann.wait("It was kept.")
    ann.wait("And on.")
    assert len(ann.find("It was kept.")) == 1
    assert ann.whatsapp.complaints == []


def test_a_stop_is_heard(gateway: GatewayProcess, ann: Ann) -> None:
    let_in(gateway, ann)
    ann.say("[[stall 600]] [[say Too late.]]")
    wait_until(lambda: ann.whatsapp.typing(ann.id) > 0, PATIENCE)
    ann.say("/stop")
    wait_until(lambda: any("stop" in one["text"].lower() for one in ann.shown), PATIENCE)
    ann.say("[[say Next.]]")
    ann.wait("Next.")
    assert ann.find("Too late.") == []
    assert ann.whatsapp.complaints == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(
    gateway: GatewayProcess, ann: Ann, lab: LabServer, whatsapp: WhatsAppLab
) -> None:
    """C1, C7, I3: the gateway is killed while the model answers; what was said then and meanwhile is answered once."""
    let_in(gateway, ann)
    ann.say("[[chunks 8]] [[pause 0.2]] [[say One long answer that takes its time until it is at its end.]]")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    gateway.kill()
    ann.say("[[say Two.]]")
    wait_until(lambda: whatsapp.attempts()[-1]["status"] == 0, PATIENCE)
    whatsapp.redeliver(2)
    gateway.start()
    ann.wait("at its end.")
    ann.wait("Two.")
    wait_until(lambda: whatsapp.pending() == 0, PATIENCE)
    unmarked = [one["text"] for one in ann.shown if LONG_MARK not in one["text"]]
    assert [sum(words in text for text in unmarked) for words in ("at its end.", "Two.")] == [1, 1]
    assert whatsapp.complaints == []


def test_secrets_are_nowhere_in_the_home_but_where_they_were_put(
    gateway: GatewayProcess, ann: Ann, whatsapp: WhatsAppLab
) -> None:
    """G6."""
    let_in(gateway, ann)
    ann.say("[[say Hello.]]")
    ann.wait("Hello.")
    secrets = [secret.encode() for secret in (whatsapp.token, whatsapp.app_secret, VERIFY)]
    whatsapp.stop()
    gateway.terminate()
    whatsapp.start()
    files = [path for path in gateway.home.rglob("*") if path.is_file()]
    found = [path for path in files if any(secret in path.read_bytes() for secret in secrets)]
    assert found == [gateway.home / "config.yaml"]
