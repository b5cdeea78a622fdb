"""Matrix from end to end: the gateway is a process, a real Synapse and the lab's model are on both sides of it."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_process import HERMES, GatewayProcess, read_store
from matrix_peer import PASSWORD, MatrixPerson, MatrixServer, start_server
from set_up import answer_questions
from waiting import wait_until

from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0
APPROVED = '[[tool terminal {"command": "touch made && printf well-%s done"}]]'


class Chat:
    """Somebody in a room with Hermes."""

    def __init__(self, person: MatrixPerson, bot: str, room: str = "") -> None:
        self.person = person
        self.bot = bot
        self.room = room or person.make_room(bot)

    def say(self, text: str, **more: Any) -> str:
        return self.person.say(self.room, text, **more)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """What Hermes wrote, as it stands in the room."""
        return self.person.messages(self.room, self.bot)

    def find(self, words: str) -> list[dict[str, Any]]:
        return [one for one in self.shown if words in one["text"]]

    def wait(self, words: str) -> dict[str, Any]:
        wait_slowly(lambda: bool(self.find(words)))
        return self.find(words)[-1]


def wait_slowly(is_true: Any) -> None:
    """As `wait_until`; a homeserver that is asked a hundred times a second has no time for anybody else."""

    def look() -> bool:
        time.sleep(0.1)
        return bool(is_true())

    wait_until(look, PATIENCE)


@pytest.fixture(scope="module")
def server() -> MatrixServer:
    return start_server()


@pytest.fixture
def bot(server: MatrixServer) -> MatrixPerson:
    return server.add_person("Hermes")


@pytest.fixture
def ann(server: MatrixServer) -> MatrixPerson:
    return server.add_person("Ann")


@pytest.fixture
def gateway(
    home: Path, lab: LabServer, server: MatrixServer, bot: MatrixPerson, ann: MatrixPerson
) -> Iterator[GatewayProcess]:
    section = {"enabled": True, "homeserver": server.address, "user": bot.id, "password": PASSWORD, "owner": ann.id}
    with GatewayProcess(
        home, lab.base_url, platforms={"matrix": section}, approvals={"mode": "ask"}, gateway={"busy": "queue"}
    ) as process:
        process.start()
        yield process


@pytest.fixture
def chat(gateway: GatewayProcess, ann: MatrixPerson, bot: MatrixPerson) -> Chat:
    return Chat(ann, bot.id)


def test_a_set_up_takes_effect_at_once(
    home: Path, lab: LabServer, server: MatrixServer, bot: MatrixPerson, ann: MatrixPerson
) -> None:
    """H5, G6: the password is tried and kept, the gateway that runs takes it up, and an invitation by the owner is
    accepted and answered."""
    with GatewayProcess(home, lab.base_url) as gateway:
        gateway.start()
        answers = [server.address, bot.id, PASSWORD, "", ann.id]
        told = answer_questions(gateway, [HERMES, "setup", "matrix"], answers)
        assert f"It is {bot.id} at {server.address}" in told
        assert PASSWORD not in told
        assert PASSWORD not in (home / "config.yaml").read_text()
        chat = Chat(ann, bot.id)
        chat.say("[[say Good morning, Ann.]]")
        chat.wait("Good morning, Ann.")
        session = home / "platforms" / "matrix-matrix" / "session.json"
        assert session.stat().st_mode & 0o777 == 0o600
        # The session of the set-up is the one that is used: there is one device beside the test's own.
        assert len(bot.call("GET", "/devices")["devices"]) == 2


def test_a_stranger_in_a_direct_chat_is_paired_by_a_code(
    gateway: GatewayProcess, server: MatrixServer, bot: MatrixPerson, lab: LabServer
) -> None:
    """G1: a stranger's invitation gets nothing; in a room that Hermes is in, a code, and no model is called."""
    bob = server.add_person("Bob")
    chat = Chat(bob, bot.id)
    bot.join(chat.room)
    chat.say("Hello!")
    code = set(re.findall(r"\b[A-Z0-9]{8}\b", chat.wait("code")["text"])).pop()
    assert not lab.requests
    approve = [HERMES, "people", "approve", code]
    done = subprocess.run(approve, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    chat.say("[[say Good morning, Bob.]]")
    chat.wait("Good morning, Bob.")
    other = Chat(bob, bot.id)  # whoever was let in may invite
    other.say("[[say Here as well.]]")
    other.wait("Here as well.")


def test_an_answer_grows_in_one_message(chat: Chat) -> None:
    """C7: the final text stands there once, in the message that grew."""
    words = " ".join(f"word{n}" for n in range(60))
    chat.say(f"[[chunks 40]] [[pause 0.2]] [[say {words}]]")
    wait_slowly(lambda: bool(chat.find("word0 ")) and not chat.find("word59"))
    final = chat.wait("word59")
    wait_slowly(lambda: chat.find("word59")[0]["edits"] > 0)
    assert [one["id"] for one in chat.find("word0 ")] == [final["id"]]


def test_a_word_approves_a_command(gateway: GatewayProcess, chat: Chat, lab: LabServer) -> None:
    """G4: there are no buttons; the choices are words."""
    chat.say(APPROVED)
    question = chat.wait("touch made")
    assert "Answer with one of: yes" in question["text"]
    chat.say("yes")
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()


def test_files_go_both_ways(chat: Chat, lab: LabServer, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("the notes")
    chat.say(f'[[tool send_file {{"path": "{path}", "caption": "as asked"}}]]')
    wait_slowly(lambda: any(one["file"] == "notes.txt" for one in chat.shown))
    (sent,) = [one for one in chat.shown if one["file"] == "notes.txt"]
    assert sent["text"] == "as asked"
    assert chat.person.download(sent["content"]["url"]) == b"the notes"
    chat.person.send_file(chat.room, "plan.txt", b"the plan of Ann", filename="plan.txt", body="Look at this.")
    chat.wait("Look at this.")
    (path_there,) = {*re.findall(r"\S+/uploads/\S+plan\.txt", lab.requests[-1].body.decode())}
    assert Path(path_there).read_bytes() == b"the plan of Ann"


def test_in_a_group_known_people_who_name_it_are_answered_in_their_thread(
    chat: Chat, server: MatrixServer, bot: MatrixPerson
) -> None:
    """G1, G2: a stranger gets nothing there, not even a code; a thread is a conversation of its own."""
    ann, bob = chat.person, server.add_person("Ann")
    room = ann.make_room(bot.id, bob.id, is_direct=False)
    bob.join(room)
    wait_slowly(lambda: ann.members(room)[bot.id] == "join")
    group = Chat(ann, bot.id, room)
    root = group.say("Plans?")
    thread = {"m.relates_to": {"rel_type": "m.thread", "event_id": root}}
    mention = {"m.mentions": {"user_ids": [bot.id]}}
    bob.say(room, "Hermes [[say To a stranger.]]", **mention)
    group.say("[[say To nobody.]]")
    group.say("Hermes: [[say To Ann.]]", **thread, **mention)
    group.wait("To Ann.")
    assert [(one["text"], one["thread"]) for one in group.shown] == [("To Ann.", root)]


def test_a_stop_is_heard(chat: Chat, lab: LabServer) -> None:
    chat.say("[[stall 600]] [[say Too late.]]")
    wait_until(lambda: bool(lab.requests), PATIENCE)
    chat.say("!stop")
    wait_slowly(lambda: any("stop" in one["text"].lower() for one in chat.shown))
    chat.say("[[say Next.]]")
    chat.wait("Next.")
    assert chat.find("Too late.") == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(gateway: GatewayProcess, chat: Chat) -> None:
    """C1, C7: the gateway is killed while the model answers; what was said then and meanwhile is answered once, and
    the word that the turn goes on takes the place of what was shown before the kill."""
    chat.say("[[chunks 20]] [[pause 0.3]] [[say One long answer that takes its time until it is at its end.]]")
    wait_slowly(lambda: bool(chat.shown))
    (draft,) = chat.shown
    gateway.kill()
    chat.say("[[say Two.]]")
    gateway.start()
    chat.wait("at its end.")
    chat.wait("Two.")
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    assert [one["id"] for one in chat.find("going on with your message")] == [draft["id"]]
    assert len(chat.find("at its end.")) == 1
    texts = [one["text"] for one in chat.shown]
    assert not [text for text in texts if text.endswith("…")]
    assert [text for text in texts if "Two." in text] == ["Two."]
    assert texts.index(chat.find("at its end.")[0]["text"]) < texts.index("Two.")


def test_an_answer_waits_for_a_room_that_hermes_was_put_out_of(
    gateway: GatewayProcess, chat: Chat, bot: MatrixPerson, lab: LabServer
) -> None:
    """C9: also over a restart; it comes once, when Hermes is invited again."""
    chat.say("[[stall 2]] [[say It was kept.]]")
    wait_until(lambda: bool(lab.requests), PATIENCE)
    chat.person.kick(chat.room, bot.id)
    wait_until(lambda: "Nobody can be reached" in gateway.log, PATIENCE)
    gateway.terminate()
    gateway.start()
    chat.person.invite(chat.room, bot.id)
    chat.wait("It was kept.")
    chat.say("[[say And on.]]")
    chat.wait("And on.")
    assert len(chat.find("It was kept.")) == 1


def test_secrets_are_nowhere_but_where_they_were_put(gateway: GatewayProcess, chat: Chat) -> None:
    """G6."""
    chat.say("[[say Hello.]]")
    chat.wait("Hello.")
    gateway.terminate()
    session = gateway.home / "platforms" / "matrix-matrix" / "session.json"
    token = json.loads(session.read_text())["token"].encode()
    for secret, place in ((PASSWORD.encode(), gateway.home / "config.yaml"), (token, session)):
        found = [path for path in gateway.home.rglob("*") if path.is_file() and secret in path.read_bytes()]
        assert found == [place]
