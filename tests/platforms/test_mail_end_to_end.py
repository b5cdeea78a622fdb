"""E-mail from end to end: the gateway is a process, real mail servers and the lab's model are on both sides of it."""

import json
import re
import subprocess
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest
from gateway_process import HERMES, GatewayProcess, read_store
from mail_peer import AUTHSERV_ID, PASSWORD, MailHouse, list_files, read_text
from mail_rig import write_mail
from set_up import answer_questions
from test_telegram_end_to_end import APPROVED
from waiting import wait_until

from gateway.core.text.render import LONG_MARK
from hermes_lab.server import LabServer

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]
PATIENCE = 60.0


@pytest.fixture(scope="module")
def house() -> Iterator[MailHouse]:
    with MailHouse() as made:
        yield made


class Ann:
    """Somebody who writes mail, and replies to the newest one that she got."""

    def __init__(self, house: MailHouse, number: int) -> None:
        self.house = house
        self.box = house.make_box(f"hermes{number}@home.test")
        self.address = f"ann{number}@friends.test"

    def write(self, text: str, **fields: str) -> EmailMessage:
        mail = write_mail(f"Ann <{self.address}>", self.box, text, **fields)
        self.house.post(self.address, self.box, mail.as_bytes())
        return mail

    def reply(self, text: str, to: EmailMessage) -> EmailMessage:
        """As mail programs do: in the thread, with what it replies to below."""
        quoted = "\n".join(f"> {line}" for line in read_text(to).split("\n"))
        text = f"{text}\n\nOn Mon, Nov 16, 2026 at 10:00 Hermes <{self.box}> wrote:\n{quoted}\n"
        before = f"{to.get('References', '')} {to['Message-ID']}".strip()
        return self.write(text, Subject=str(to["Subject"]), In_Reply_To=str(to["Message-ID"]), References=before)

    @property
    def got(self) -> list[EmailMessage]:
        return self.house.read_sent(self.address)

    def find(self, words: str) -> list[EmailMessage]:
        return [mail for mail in self.got if words in read_text(mail)]

    def wait(self, words: str) -> EmailMessage:
        wait_until(lambda: bool(self.find(words)), PATIENCE)
        return self.find(words)[-1]


_numbers = iter(range(9000, 9999))


@pytest.fixture
def ann(house: MailHouse) -> Ann:
    house.complaints.clear()
    return Ann(house, next(_numbers))


@pytest.fixture
def gateway(home: Path, lab: LabServer, ann: Ann) -> Iterator[GatewayProcess]:
    section = {
        "enabled": True,
        "address": ann.box,
        "password": PASSWORD,
        "imap": f"imap://127.0.0.1:{ann.house.imap}",
        "smtp": f"smtp://127.0.0.1:{ann.house.smtp}",
        "authserv_id": AUTHSERV_ID,
        "ca_file": ann.house.ca_file,
        "owner": ann.address,
    }
    with GatewayProcess(
        home, lab.base_url, platforms={"mail": section}, approvals={"mode": "ask"}, gateway={"busy": "queue"}
    ) as process:
        process.start()
        yield process


def change(gateway: GatewayProcess, **settings: object) -> None:
    """Other settings for the platform; None takes one out."""
    config = json.loads((gateway.home / "config.yaml").read_text())
    section = {**config["platforms"]["mail"], **settings}
    config["platforms"]["mail"] = {name: value for name, value in section.items() if value is not None}
    (gateway.home / "config.yaml").write_text(json.dumps(config))


def test_a_set_up_takes_effect_at_once(home: Path, lab: LabServer, ann: Ann) -> None:
    """H5, G6: both servers are tried, the password is kept apart, and the first mail is answered in its thread."""
    platforms = {"mail": {"ca_file": ann.house.ca_file}}
    with GatewayProcess(home, lab.base_url, platforms=platforms) as gateway:
        gateway.start()
        servers = [f"imap://127.0.0.1:{ann.house.imap}", f"smtp://127.0.0.1:{ann.house.smtp}"]
        answers = [ann.box, PASSWORD, *servers, AUTHSERV_ID, ann.address]
        told = answer_questions(gateway, [HERMES, "setup", "mail"], answers)
        assert f"It is {ann.box}" in told
        assert PASSWORD not in told
        assert PASSWORD not in (home / "config.yaml").read_text()
        wait_until(lambda: (home / "mail" / "mail.box" / "place.json").exists(), PATIENCE)
        asked = ann.write("[[say Good **morning**, Ann.]]", Subject="Hello")
        answer = ann.wait("Good morning, Ann.")
        assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Hello", asked["Message-ID"])
        page = answer.get_body(("html",))
        assert page is not None
        assert "<strong>morning</strong>" in page.get_content()
        assert ann.house.complaints == []


def test_a_proven_stranger_is_paired_by_a_code_and_nobody_else_hears_anything(
    gateway: GatewayProcess, ann: Ann, lab: LabServer
) -> None:
    """G1: no model is called before somebody is let in; who is not proven gets no reply at all."""
    change(gateway, owner=None)
    forged = write_mail("boss@else.test", ann.box, "Hello!")
    ann.house.post("boss@else.test", ann.box, forged.as_bytes())
    first = ann.write("Hello!", Subject="It is me")
    told = ann.wait("code")
    assert (told["Subject"], told["In-Reply-To"]) == ("Re: It is me", first["Message-ID"])
    code = set(re.findall(r"\b[A-Z0-9]{8}\b", read_text(told))).pop()
    assert not lab.requests
    approve = [HERMES, "people", "approve", code, "--role", "owner"]
    done = subprocess.run(approve, env=gateway.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ann.wait("You are let in.")
    ann.reply("[[say Good morning, Ann.]]", told)
    ann.wait("Good morning, Ann.")
    assert len(ann.got) == 3
    assert "boss@else.test" not in ann.house.sent
    assert ann.house.complaints == []


def test_an_answer_is_one_mail_however_it_was_made(gateway: GatewayProcess, ann: Ann) -> None:
    """C7: nothing of it is sent before it is whole."""
    words = " ".join(f"word{n}" for n in range(60))
    ann.write(f"[[chunks 20]] [[pause 0.05]] [[say {words}]]")
    ann.wait("word59")
    ann.write("[[say The next one.]]")
    ann.wait("The next one.")
    assert len(ann.find("word0 ")) == 1
    assert len(ann.got) == 2
    assert len({str(mail["References"]) for mail in ann.got}) == 2
    assert ann.house.complaints == []


@pytest.mark.parametrize("word", ["1", "yes"])
def test_a_reply_approves_a_command(gateway: GatewayProcess, ann: Ann, lab: LabServer, word: str) -> None:
    """G4: the reply names the mail that it answers; one in the same thread that does not decides nothing."""
    asked = ann.write(APPROVED)
    question = ann.wait("touch made")
    ann.write(word, References=str(asked["Message-ID"]))
    ann.wait("written before the question was shown")
    assert not (gateway.home / "workspace" / "made").exists()
    ann.reply(word, question)
    wait_until(lambda: "well-done" in lab.requests[-1].body.decode(), PATIENCE)
    assert (gateway.home / "workspace" / "made").exists()
    assert ann.house.complaints == []


def test_files_go_both_ways(gateway: GatewayProcess, ann: Ann, lab: LabServer, tmp_path: Path) -> None:
    mail = write_mail(f"Ann <{ann.address}>", ann.box, "Look at this.")
    mail.add_attachment(b"the plan of Ann", "text", "plain", filename="plan.txt")
    ann.house.post(ann.address, ann.box, mail.as_bytes())
    answer = ann.wait("Look at this.")
    (path,) = {*re.findall(r"\S+/uploads/\S+plan\.txt", lab.requests[-1].body.decode())}
    assert Path(path).read_bytes() == b"the plan of Ann"
    notes = tmp_path / "notes.txt"
    notes.write_text("the notes")
    ann.reply(f'[[tool send_file {{"path": "{notes}", "caption": "as asked"}}]]', answer)
    wait_until(lambda: any(list_files(one) == [("notes.txt", b"the notes")] for one in ann.got), PATIENCE)
    assert ann.find("as asked")
    assert ann.house.complaints == []


def test_a_stop_is_heard(gateway: GatewayProcess, ann: Ann, lab: LabServer) -> None:
    """Also in a reply to one's own mail, which is all that there is in the thread by then."""
    asked = ann.write("[[stall 600]] [[say Too late.]]", Subject="Work")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    ann.reply("/stop\n\n-- \nAnn", asked)
    stopped = ann.wait("top")
    assert stopped["Subject"] == "Re: Work"
    ann.reply("[[say Next.]]", stopped)
    ann.wait("Next.")
    assert ann.find("Too late.") == []
    assert ann.house.complaints == []


def test_a_kill_in_mid_turn_loses_nothing_and_doubles_nothing(
    gateway: GatewayProcess, ann: Ann, lab: LabServer
) -> None:
    """C1, C7, C9: what was said then and meanwhile is answered once, each in its thread, with its subject."""
    ann.write("[[chunks 20]] [[pause 0.2]] [[say One long answer that is at its end.]]", Subject="One")
    wait_until(lambda: len(lab.requests) > 0, PATIENCE)
    gateway.kill()
    ann.write("[[say Two.]]", Subject="Two")
    gateway.start()
    one, two = ann.wait("at its end."), ann.wait("Two.")
    assert [one["Subject"], two["Subject"]] == ["Re: One", "Re: Two"]
    wait_until(lambda: not read_store(gateway.home, "select id from outbox where ended is null"), PATIENCE)
    unmarked = [mail for mail in ann.got if LONG_MARK not in read_text(mail)]
    assert [sum(words in read_text(mail) for mail in unmarked) for words in ("at its end.", "Two.")] == [1, 1]
    assert ann.house.complaints == []


def test_the_password_is_nowhere_in_the_home_but_where_it_was_put(gateway: GatewayProcess, ann: Ann) -> None:
    """G6."""
    ann.write("[[say Hello.]]")
    ann.wait("Hello.")
    gateway.terminate()
    found = [path for path in gateway.home.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert found == [gateway.home / "config.yaml"]
