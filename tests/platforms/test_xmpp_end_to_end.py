"""XMPP from end to end: the gateway is a process, a real Prosody and the lab's model are on both sides of it."""

import json
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_process import HERMES, GatewayProcess, read_store
from set_up import answer_questions
from waiting import wait_until
from xmpp_peer import PASSWORD, XmppPerson, XmppServer, start_server

from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0
APPROVED = '[[tool terminal {"command": "touch made && printf well-%s done"}]]'


class Chat:
    """Somebody in a chat with Hermes: direct, or in a room."""

    def __init__(self, person: XmppPerson, bot: str, room: str = "") -> None:
        self.person, self.bot, self.room = person, bot, room
        self.sender = f"{room}/{bot.partition('@')[0]}" if room else bot

    def say(self, text: str) -> str:
        return self.person.say(self.room or self.bot, text, kind="groupchat" if self.room else "chat")

    @property
    def shown(self) -> list[dict[str, Any]]:
        """What Hermes wrote, as it stands there."""
        return self.person.messages(self.sender)

    def find(self, words: str) -> list[dict[str, Any]]:
        return [one for one in self.shown if words in one["text"]]

    def wait(self, words: str) -> dict[str, Any]:
        wait_until(lambda: bool(self.find(words)), PATIENCE)
        return self.find(words)[-1]


@pytest.fixture(scope="module")
def server() -> XmppServer:
    return start_server()


@pytest.fixture
def bot(server: XmppServer) -> str:
    return server.add_account("hermes")


@pytest.fixture
def ann(server: XmppServer) -> XmppPerson:
    return server.add_person("ann")


def make_section(server: XmppServer, bot: str, **more: Any) -> dict[str, Any]:
    section = {"enabled": True, "jid": bot, "password": PASSWORD, "server": f"127.0.0.1:{server.port}", "tls": False}
    return {**section, **more}


@pytest.fixture
def gateway(home: Path, lab: LabServer, server: XmppServer, bot: str, ann: XmppPerson) -> Iterator[GatewayProcess]:
    with GatewayProcess(
        home,
        lab.base_url,
        platforms={"xmpp": make_section(server, bot, owner=ann.jid)},
        approvals={"mode": "ask"},
        gateway={"busy": "queue"},
    ) as process:
        process.start()
        yield process


@pytest.fixture
def chat(gateway: GatewayProcess, ann: XmppPerson, bot: str) -> Chat:
    return Chat(ann, bot)


def test_a_set_up_takes_effect_at_once(
    home: Path, lab: LabServer, server: XmppServer, bot: str, ann: XmppPerson
) -> None:
    """H5, G6: the password is tried and kept, the gateway that runs takes it up, and the first message is answered. The
    line is encrypted, by a certificate of the owner's own authority."""
    section = {"ca_file": str(server.folder / "ca.pem")}
    with GatewayProcess(home, lab.base_url, platforms={"xmpp": section}) as gateway:
        gateway.start()
        answers = [bot, PASSWORD, f"127.0.0.1:{server.port}", "", ann.jid]
        told = answer_questions(gateway, [HERMES, "setup", "xmpp"], answers)
        assert f"It is {bot} at 127.0.0.1:{server.port}; the line is encrypted, the server keeps an archive" in told
        assert PASSWORD not in told
        assert PASSWORD not in (home / "config.yaml").read_text()
        chat = Chat(ann, bot)
        chat.say("[[say Good morning, Ann.]]")
        chat.wait("Good morning, Ann.")
        secret = [path for path in home.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
        assert secret == [home / ".env"]
        assert (home / "platforms" / "xmpp-xmpp" / "listened.json").stat().st_mode & 0o777 == 0o600


def test_a_stranger_is_paired_by_a_code(gateway: GatewayProcess, server: XmppServer, bot: str, lab: LabServer) -> None:
    """G1: a code and nothing else, and no model is called."""
    bob = server.add_person("bob")
    room = bob.make_room(nick="Bob")
    bob.invite(room, bot)
    chat = Chat(bob, bot)
    bob.say(bot, "Hello!", "<request xmlns='urn:xmpp:receipts'/>")
    code = set(re.findall(r"\b[A-Z0-9]{8}\b", chat.wait("code")["text"])).pop()
    chat.say("Hello?")
    assert not lab.requests
    assert len(chat.shown) == 1
    assert bob.count(bot, "urn:xmpp:receipts", "received") == 0
    assert bot.partition("@")[0] not in bob.occupants(room)
    approve = [HERMES, "people", "approve", code]
    done = subprocess.run(approve, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    chat.say("[[say Good morning, Bob.]]")
    chat.wait("Good morning, Bob.")
    wait_until(lambda: bot.partition("@")[0] in bob.occupants(room), PATIENCE)  # who was let in may invite


def test_an_answer_grows_in_one_message(chat: Chat) -> None:
    """C7: the final text stands there once, in the message that grew."""
    words = " ".join(f"word{n}" for n in range(60))
    chat.say(f"[[chunks 40]] [[pause 0.3]] [[say {words}]]")
    wait_until(lambda: bool(chat.find("word0 ")) and not chat.find("word59"), PATIENCE)
    final = chat.wait("word59")
    wait_until(lambda: chat.find("word59")[0]["edits"] > 0, PATIENCE)
    assert [one["id"] for one in chat.find("word0 ")] == [final["id"]]


def test_a_word_approves_a_command(gateway: GatewayProcess, chat: Chat, lab: LabServer) -> None:
    """G4: there are no buttons; the choices are words."""
    chat.say(APPROVED)
    question = chat.wait("touch made")
    assert "Answer with one of: yes" in question["text"]
    # A word counts as an answer once the question is known to have arrived, a moment after it is seen.
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    chat.say("yes")
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()


def test_files_go_both_ways(chat: Chat, lab: LabServer, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("the notes")
    chat.say(f'[[tool send_file {{"path": "{path}", "caption": "as asked"}}]]')
    wait_until(lambda: any(one["url"].endswith("/notes.txt") for one in chat.shown), PATIENCE)
    (sent,) = [one for one in chat.shown if one["url"].endswith("/notes.txt")]
    assert sent["text"] == sent["url"]
    assert chat.find("as asked")
    with urllib.request.urlopen(sent["url"], timeout=30) as answer:
        assert answer.read() == b"the notes"
    asked = len(lab.requests)
    chat.person.send_file(chat.bot, "plan.txt", b"the plan of Ann")
    wait_until(lambda: len(lab.requests) > asked and b"plan.txt" in lab.requests[-1].body, PATIENCE)
    (path_there,) = {*re.findall(r"\S+/uploads/\S+plan\.txt", lab.requests[-1].body.decode())}
    assert Path(path_there).read_bytes() == b"the plan of Ann"


def test_in_a_room_known_people_who_name_it_are_answered(chat: Chat, server: XmppServer) -> None:
    """G1, G2: a stranger gets nothing there, not even a code, whatever their nick."""
    ann, bob = chat.person, server.add_person("bob")
    room = ann.make_room(nick="Ann")
    ann.invite(room, chat.bot)
    nick = chat.bot.partition("@")[0]
    wait_until(lambda: nick in ann.occupants(room), PATIENCE)
    bob.join(room, "Ann-too")
    group = Chat(ann, chat.bot, room)
    Chat(bob, chat.bot, room).say(f"{nick}: [[say To a stranger.]]")
    group.say("[[say To nobody.]]")
    group.say(f"{nick}: [[say To Ann.]]")
    group.wait("To Ann.")
    group.say(f"{nick}: [[say Once more.]]")
    group.wait("Once more.")
    assert [one["text"] for one in group.shown] == ["To Ann.", "Once more."]


def test_a_stop_is_heard(chat: Chat, lab: LabServer) -> None:
    """C4."""
    chat.say("[[stall 600]] [[say Too late.]]")
    wait_until(lambda: bool(lab.requests), PATIENCE)
    chat.say("!stop")
    wait_until(lambda: any("stop" in one["text"].lower() for one in chat.shown), PATIENCE)
    chat.say("[[say Next.]]")
    chat.wait("Next.")
    assert chat.find("Too late.") == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(gateway: GatewayProcess, chat: Chat) -> None:
    """C1, C7: the gateway is killed while the model answers; what was said then and meanwhile is answered once, and
    the word that the turn goes on takes the place of what was shown before the kill."""
    chat.say("[[chunks 20]] [[pause 0.4]] [[say One long answer that takes its time until it is at its end.]]")
    wait_until(lambda: bool(chat.shown), PATIENCE)
    (draft,) = chat.shown
    gateway.kill()
    chat.say("[[say Two.]]")
    gateway.start()
    chat.wait("at its end.")
    wait_until(lambda: "Two." in [one["text"] for one in chat.shown], PATIENCE)
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    assert [one["id"] for one in chat.find("going on with your message")] == [draft["id"]]
    assert len(chat.find("at its end.")) == 1
    texts = [one["text"] for one in chat.shown]
    assert not [text for text in texts if text.endswith("…")]
    assert [text for text in texts if "Two." in text] == ["Two."]
    assert texts.index(chat.find("at its end.")[0]["text"]) < texts.index("Two.")


def test_a_server_that_is_started_again_is_found_again(home: Path, lab: LabServer) -> None:
    """C1, C9, C13: shut down while somebody is answered; what was stored there and here comes together later."""
    folder = Path(tempfile.mkdtemp(prefix="prosody-"))  # its own user has to get there
    folder.chmod(0o755)
    server = XmppServer(folder)
    server.start()
    try:
        bot, ann = server.add_account("hermes"), server.add_person("ann")
        with GatewayProcess(
            home, lab.base_url, platforms={"xmpp": make_section(server, bot, owner=ann.jid)}
        ) as gateway:
            gateway.start()
            Chat(ann, bot).say("[[stall 3]] [[say It was kept.]]")
            wait_until(lambda: bool(lab.requests), PATIENCE)
            server.stop()
            wait_until(lambda: "broke off" in gateway.log, PATIENCE)
            server.start()
            chat = Chat(XmppPerson(server, ann.jid, "again"), bot)
            chat.wait("It was kept.")
            chat.say("[[say And on.]]")
            chat.wait("And on.")
            assert len(chat.find("It was kept.")) == 1
    finally:
        server.stop(kill=True)
        shutil.rmtree(folder, ignore_errors=True)


def test_secrets_are_nowhere_but_where_they_were_put(gateway: GatewayProcess, chat: Chat) -> None:
    """G6."""
    chat.say("[[say Hello.]]")
    chat.wait("Hello.")
    gateway.terminate()
    found = [path for path in gateway.home.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert found == [gateway.home / "config.yaml"]
    assert json.loads((gateway.home / "platforms" / "xmpp-xmpp" / "listened.json").read_text())["jid"] == chat.bot
