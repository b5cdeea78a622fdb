"""IRC from end to end: the gateway is a process, a real network and the lab's model are on both sides of it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_process import HERMES, GatewayProcess, read_store
from irc_peer import BOT, PASSWORD, IrcPeer, IrcPerson, IrcProxy, shared_peer
from set_up import answer_questions
from waiting import wait_until

from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0
CHANNEL = "#plans"
APPROVED = '[[tool terminal {"command": "touch made && printf well-%s done"}]]'


class Ann:
    """Somebody with a client, in a direct chat with the bot."""

    def __init__(self, person: IrcPerson) -> None:
        self.person = person

    def say(self, text: str, to: str = BOT) -> None:
        self.person.send(f"PRIVMSG {to} :{text}")

    def find(self, words: str, to: str = "") -> list[str]:
        return [text for text in self.person.said(to=to) if words in text]

    def wait(self, words: str, to: str = "") -> str:
        wait_until(lambda: bool(self.find(words, to)), PATIENCE)
        return self.find(words, to)[-1]


@pytest.fixture
def peer() -> Iterator[IrcPeer]:
    peer = shared_peer()
    yield peer
    peer.everybody_leaves()


@pytest.fixture
def ann(peer: IrcPeer) -> Ann:
    return Ann(peer.person("ann", "ann"))


@pytest.fixture
def gateway(home: Path, lab: LabServer, peer: IrcPeer) -> Iterator[GatewayProcess]:
    """A process that has IRC on, with the pace that servers allow."""
    section = {"enabled": True, "server": f"127.0.0.1:{peer.port}", "tls": False, "password": PASSWORD}
    section |= {"owner": "ann", "channels": CHANNEL}
    with GatewayProcess(
        home, lab.base_url, platforms={"irc": section}, approvals={"mode": "ask"}, gateway={"busy": "queue"}
    ) as process:
        yield process


def set_section(gateway: GatewayProcess, **changes: str | None) -> None:
    config = json.loads((gateway.home / "config.yaml").read_text())
    section = config["platforms"]["irc"] | changes
    config["platforms"]["irc"] = {name: value for name, value in section.items() if value is not None}
    (gateway.home / "config.yaml").write_text(json.dumps(config))


def test_a_set_up_takes_effect_at_once(gateway: GatewayProcess, ann: Ann, peer: IrcPeer) -> None:
    """H5, G6: the account is tried and kept, the gateway that runs takes it up, and the first message is answered."""
    set_section(gateway, enabled=None, server=None, password=None, owner=None, channels=None)
    gateway.start()
    answers = [f"127.0.0.1:{peer.port}", BOT, PASSWORD, CHANNEL, "ann"]
    told = answer_questions(gateway, [HERMES, "setup", "irc"], answers)
    assert f"It is {BOT} on TestNet, logged in as {BOT}; the line is not encrypted" in told
    assert PASSWORD not in told
    assert PASSWORD not in (gateway.home / "config.yaml").read_text()
    ann.person.join(CHANNEL)
    ann.person.wait(f"JOIN :{CHANNEL}", 2)
    ann.say("[[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")
    secret = [path for path in gateway.home.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert secret == [gateway.home / ".env"]


def test_a_day_on_irc(gateway: GatewayProcess, ann: Ann, peer: IrcPeer, lab: LabServer, tmp_path: Path) -> None:
    """G1, G4, C4: a stranger with an account gets a code, one without gets none; then pairing, a channel, an approval
    by word, a file that cannot be sent, and a stop."""
    set_section(gateway, owner=None)
    gateway.start()
    guest = peer.person("guest")
    guest.send(f"PRIVMSG {BOT} :Hello!")
    guest.wait("NOTICE guest")
    assert "code" not in "".join(guest.said(command="NOTICE"))
    ann.say("Hello!")
    code = re.findall(r"\b[A-Z0-9]{8}\b", ann.wait("code"))[0]
    assert not lab.requests
    approve = [HERMES, "people", "approve", code, "--role", "owner"]
    done = subprocess.run(approve, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    ann.say("[[say Good morning, Ann.]]")
    ann.wait("Good morning, Ann.")

    ann.person.join(CHANNEL)
    ann.say("[[say To nobody.]]", to=CHANNEL)
    ann.say(f"{BOT}: [[say To Ann.]]", to=CHANNEL)
    ann.wait("To Ann.", to=CHANNEL)
    assert ann.find("To nobody.", to=CHANNEL) == []

    ann.say(APPROVED)
    ann.wait("touch made")
    ann.wait("Answer with one of: yes, no")
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    ann.say("yes")
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()

    path = tmp_path / "notes.txt"
    path.write_text("the notes")
    ann.say(f'[[tool send_file {{"path": "{path}", "caption": "as asked"}}]]')
    ann.wait("The file notes.txt stays where it is: no files can be sent on IRC.")

    asked = len(lab.requests)
    ann.say("[[stall 600]] [[say Too late.]]")
    wait_until(lambda: len(lab.requests) > asked, PATIENCE)
    ann.say("/stop")
    wait_until(lambda: any("stop" in text.lower() for text in ann.person.said()), PATIENCE)
    ann.say("[[say Next.]]")
    ann.wait("Next.")
    assert ann.find("Too late.") == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(
    gateway: GatewayProcess, ann: Ann, lab: LabServer
) -> None:
    """C1, C7, C10: what was stored before the kill is answered once, by the next process, to the same person."""
    gateway.start()
    ann.say("[[chunks 10]] [[pause 0.2]] [[say One long answer that takes its time until it is at its end.]]")
    wait_until(lambda: bool(lab.requests), PATIENCE)
    gateway.kill()
    gateway.start()
    ann.wait("at its end.")
    ann.say("[[say Two.]]")
    ann.wait("Two.")
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    assert len(ann.find("at its end.")) == len(ann.find("Two.")) == 1


def test_a_kill_while_an_answer_is_sent_goes_on_with_the_next_line(
    gateway: GatewayProcess, ann: Ann, peer: IrcPeer, lab: LabServer
) -> None:
    """C7, C9: each line is noted as it arrives, so the next process sends the others; at most one has the mark."""
    with IrcProxy(peer.port) as proxy:
        set_section(gateway, server=f"127.0.0.1:{proxy.port}")
        gateway.start()
        lab.set_plan([{"text": "\n\n".join(f"line {n} of it" for n in range(9))}])
        ann.say("All of it.")
        ann.wait("line 4 of it")
        gateway.kill()
        gateway.start()
        ann.wait("line 8 of it")
        said = [text for text in ann.person.said() if " of it" in text]
    plain = [text for text in said if "sent again" not in text]
    marked = [text for text in said if "sent again" in text]
    assert len(marked) <= 1
    assert [*dict.fromkeys(re.findall(r"line \d of it", " ".join(said)))] == [f"line {n} of it" for n in range(9)]
    assert len(plain) == len(set(plain))
