"""The e-mail adapter against Dovecot and a real SMTP server: threads, proofs, robots, troubles of both."""

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from loop_watch import watch_loop
from mail_peer import AUTHSERV_ID, ROOM, MailHouse, SmtpFault, list_files, read_text
from mail_rig import MailRig, open_mail_rig, write_mail
from waiting import until

from gateway.platforms.face import Accepted, NeverTaken, NotNow, Part, Refused
from gateway.platforms.mail import mailbox, withheld
from gateway.platforms.mail.adapter import MailAdapter
from gateway.platforms.mail.lines import imap_line, smtp_line
from gateway.platforms.mail.mail_servers import MailServer
from gateway.platforms.mail.probe import probe
from gateway.platforms.mail.thread_book import name_thread
from gateway.platforms.mail.withheld import MailFate, WithheldTries
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound, Outgoing
from hermes_lab.ports import free_ports

pytestmark = pytest.mark.peers
PLAIN = (b" STARTTLS",)  # so that what we say can be read on its way


@pytest.fixture(scope="module")
def house() -> Iterator[MailHouse]:
    with MailHouse() as made:
        yield made


class Desk:
    """A gateway's door that refuses what it is told to."""

    def __init__(self) -> None:
        self.taken: list[Inbound] = []
        self.refusal: Refused | None = None

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        if self.refusal is not None:
            return self.refusal
        self.taken.append(inbound)
        return Accepted("c", len(self.taken))

    def wake_delivery(self, address: Address) -> None: ...

    async def find_last(self, account_key: str) -> dict[Address, str]:
        return {}

    async def knows(self, platform: str, sender: str, name: str = "") -> bool:
        return True


Steps = Callable[[MailRig], Awaitable[None]]


def run(
    house: MailHouse,
    home: Path,
    steps: Steps,
    settings: dict[str, Any] | None = None,
    *,
    hides: tuple[bytes, ...] = (),
    connected: bool = True,
) -> None:
    async def all_steps() -> None:
        async with open_mail_rig(house, home, settings, hides) as rig:
            if connected:
                await rig.connect()
            await steps(rig)
            assert rig.complaints() == []

    asyncio.run(all_steps())


def part_to(rig: MailRig, heard: Inbound, text: str = "answer", key: str = "1:0", **more: Any) -> Part:
    return Part(heard.address, text, key=key, reply_to=heard.message, outgoing=Outgoing(heard.address, text), **more)


def written(rig: MailRig, text: str, **fields: str) -> EmailMessage:
    return write_mail(f"Ann <{rig.person}>", rig.box, text, **fields)


# --- threads


def test_a_thread_is_a_conversation_with_its_subject_also_after_a_restart(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        await rig.post(written(rig, "one", Subject="Pläne", Message_ID="<a1@friends.test>"))
        await rig.post(written(rig, "two", Subject="Pläne", Message_ID="<b1@friends.test>"))
        await until(lambda: len(rig.heard()) == 2)
        one, two = rig.heard()
        assert [one.address.thread, two.address.thread] == [
            name_thread("a1@friends.test"),
            name_thread("b1@friends.test"),
        ]
        ours = await rig.adapter.send(part_to(rig, one))
        (answer,) = house.read_sent(rig.person)
        assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Pläne", "<a1@friends.test>")
        assert answer["Message-ID"] == f"<{ours}>"
        reply = written(
            rig, "and?\n\nOn 16 Nov 2026 Hermes wrote:\n> answer", Subject="AW: Pläne", In_Reply_To=f"<{ours}>"
        )
        await rig.post(reply)
        await until(lambda: len(rig.heard()) == 3)
        assert (rig.heard()[2].address, rig.heard()[2].text) == (one.address, "and?")
        await rig.adapter.disconnect()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await rig.adapter.send(replace(part_to(rig, rig.heard()[2], "later", "2:0"), reply_to=""))
        later = house.read_sent(rig.person)[-1]
        assert later["Subject"] == "AW: Pläne"
        assert str(later["References"]).split() == ["<a1@friends.test>", f"<{ours}>", reply["Message-ID"]]

    run(house, tmp_path, steps)


def test_a_reply_says_which_question_it_saw(house: MailHouse, tmp_path: Path) -> None:
    """G4: the mail that asks says so in its id, and a reply to it names that."""

    async def steps(rig: MailRig) -> None:
        await rig.say("do it")
        await until(lambda: len(rig.heard()) == 1)
        asked = await rig.adapter.send(
            part_to(rig, rig.heard()[0], "Shall I?", question="q-4711", choices=("Yes", "No"))
        )
        await rig.post(written(rig, "1", In_Reply_To=f"<{asked}>"))
        await rig.post(written(rig, "1", References=f"<{rig.root}>"))
        await rig.post(
            written(rig, "1", In_Reply_To=f"<{asked.replace('q-4711', 'q-4712')}>", References=f"<{rig.root}>")
        )
        await until(lambda: len(rig.heard()) == 4)
        assert [one.seen for one in rig.heard()] == ["", "q-4711", "", ""]
        assert rig.heard()[1].address == rig.address

    run(house, tmp_path, steps)


def test_a_repetition_has_the_id_of_the_first(house: MailHouse, tmp_path: Path) -> None:
    """C7: also where its text says that it is one; another message has another."""

    async def steps(rig: MailRig) -> None:
        whole = Outgoing(rig.address, "answer")
        first = await rig.adapter.send(Part(rig.address, "answer", key="1:0", outgoing=whole))
        again = await rig.adapter.send(Part(rig.address, "(sent again)\nanswer", key="1:0", outgoing=whole))
        other = await rig.adapter.send(Part(rig.address, "answer", key="2:0", outgoing=whole))
        assert first == again != other
        assert [read_text(mail) for mail in house.read_sent(rig.person)] == ["answer", "(sent again)\nanswer", "answer"]

    run(house, tmp_path, steps)


# --- who is heard


def test_who_is_not_proven_costs_nothing_and_hears_nothing(house: MailHouse, tmp_path: Path) -> None:
    """G1, G2: no body is read, nothing is handed over, sent or marked; forged results are of no use."""
    forged = f"{AUTHSERV_ID}; dmarc=pass header.from=else.test"

    async def steps(rig: MailRig) -> None:
        for sender in ("boss@else.test", '"ann@friends.test" <boss@else.test>', f"{rig.person}, boss@else.test"):
            mail = write_mail("x@else.test", rig.box, "let me in", Authentication_Results=forged)
            raw = mail.as_bytes().replace(b"From: x@else.test", f"From: {sender}".encode())
            await asyncio.to_thread(house.post, "boss@else.test", rig.box, raw)
        await rig.say("hello")
        await until(lambda: len(rig.heard()) == 1)
        assert [one.text for one in rig.heard()] == ["hello"]
        await until(lambda: len(house.flags(rig.box)) == 4)
        await until(lambda: house.flags(rig.box).count("S") == 1)
        assert rig.proxy.heard.count(b"BODY.PEEK[]") == 1
        assert not {"boss@else.test", "x@else.test"} & house.sent.keys()

    run(house, tmp_path, steps, hides=PLAIN)


def test_robots_are_not_handed_over(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        for field in ("Auto-Submitted: auto-replied", "List-Id: <x.test>", "Precedence: bulk", f"X-Loop: {rig.box}"):
            name, _, value = field.partition(": ")
            await rig.post(written(rig, "I am away", **{name.replace("-", "_"): value}))
        await asyncio.to_thread(house.post, "<>", rig.box, written(rig, "returned").as_bytes())
        await rig.say("hello")
        await until(lambda: len(rig.heard()) == 1)
        assert rig.heard()[0].text == "hello"

    run(house, tmp_path, steps)


def test_two_of_ours_do_not_talk_to_each_other(house: MailHouse, tmp_path: Path) -> None:
    """What we write is never answered by one of us, although its sender is proven."""

    async def steps(rig: MailRig) -> None:
        house.proven.add("home.test")
        await rig.adapter.send(Part(rig.address, "hello", key="1:0"))
        (ours,) = house.read_sent(rig.person)
        await asyncio.to_thread(house.post, rig.box, rig.box, ours.as_bytes())
        other = ours.as_bytes().replace(rig.box.encode(), b"other@home.test")
        await asyncio.to_thread(house.post, "other@home.test", rig.box, other)
        await rig.say("a person")
        await until(lambda: len(rig.heard()) == 1)
        assert rig.heard()[0].text == "a person"

    try:
        run(house, tmp_path, steps)
    finally:
        house.proven.discard("home.test")


def test_a_mail_that_came_back_is_told_in_the_log(
    house: MailHouse, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of our own mails only: anybody can write a bounce."""

    def bounce(message: str) -> bytes:
        report = (
            f"Final-Recipient: rfc822; gone@friends.test\nAction: failed\nDiagnostic-Code: smtp; 550 {message[:2]}\n"
        )
        return (
            "From: MAILER-DAEMON@friends.test\nMIME-Version: 1.0\n"
            'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n'
            f"--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; x\n\n{report}\n"
            f"--b\nContent-Type: text/rfc822-headers\n\nMessage-ID: <{message}>\n--b--\n"
        ).encode()

    async def steps(rig: MailRig) -> None:
        ours = await rig.adapter.send(Part(rig.address, "hello", key="1:0"))
        for message in ("forged@home.test", ours):
            await asyncio.to_thread(house.post, "<>", rig.box, bounce(message))
        await rig.say("hello")
        await until(lambda: len(rig.heard()) == 1)
        told = [record.message for record in caplog.records if "came back" in record.message]
        assert told == ["A mail to gone@friends.test came back and was not read: 550 h."]

    run(house, tmp_path, steps)


def test_mail_from_before_is_not_answered(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        await rig.say("years ago")
        await rig.connect()
        await rig.say("now")
        await until(lambda: len(rig.heard()) == 1)
        assert rig.heard()[0].text == "now"

    run(house, tmp_path, steps, connected=False)


# --- what was read


def test_a_mail_is_marked_only_after_it_was_stored(house: MailHouse, tmp_path: Path) -> None:
    """C1: what the gateway does not take while it ends stays for the next start, and so does what comes after it."""

    async def steps(rig: MailRig) -> None:
        desk = Desk()
        desk.refusal = Refused("Hermes is shutting down.", closing=True)
        await rig.adapter.connect(desk)
        await rig.say("one")
        await rig.say("two")
        seen = rig.adapter.last_seen
        await until(lambda: rig.adapter.last_seen > seen and len(house.flags(rig.box)) == 2)
        assert house.flags(rig.box) == ["", ""]
        await rig.adapter.disconnect()
        await rig.connect()
        await until(lambda: [one.text for one in rig.heard()] == ["one", "two"])
        await until(lambda: house.flags(rig.box) == ["S", "S"])
        assert house.read_sent(rig.person) == []

    run(house, tmp_path, steps, connected=False)


def test_a_refusal_is_told_once(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        desk = Desk()
        desk.refusal = Refused("The disk is nearly full.")
        await rig.adapter.connect(desk)
        for _ in range(3):
            await rig.say("hello")
        await until(lambda: house.flags(rig.box).count("S") == 3)
        assert [read_text(mail) for mail in house.read_sent(rig.person)] == ["The disk is nearly full."]

    run(house, tmp_path, steps, connected=False)


def test_other_numbers_lose_nothing_and_the_ids_stay(house: MailHouse, tmp_path: Path) -> None:
    """C1: UIDVALIDITY changes; what came lately is handed over again under the ids it had."""

    async def steps(rig: MailRig) -> None:
        await rig.say("before")
        await until(lambda: house.flags(rig.box) == ["S"])
        await rig.adapter.disconnect()
        await rig.say("meanwhile")
        house.renumber(rig.box)
        await rig.connect()
        await until(lambda: len(rig.heard()) == 3)
        assert [one.text for one in rig.heard()] == ["before", "before", "meanwhile"]
        assert len({one.ext_id for one in rig.heard()}) == 2
        await rig.say("after")
        await until(lambda: len(rig.heard()) == 4)
        place = json.loads((tmp_path / "mail" / "bot.box" / "place.json").read_text())
        assert place["validity"] == 99

    run(house, tmp_path, steps)


def test_another_mailbox_begins_with_now(house: MailHouse, tmp_path: Path) -> None:
    """The settings name another one: what lies in there is not answered, although its numbers are others."""

    async def steps(rig: MailRig) -> None:
        await rig.adapter.disconnect()
        rig.box = house.make_box(f"other-{rig.box}")
        await rig.say("lies there")
        rig.adapter = rig.make_adapter({**rig.settings, "address": rig.box})
        await rig.connect()
        await rig.say("now")
        await until(lambda: [one.text for one in rig.heard()] == ["now"])

    run(house, tmp_path, steps)


def test_a_reply_to_what_nobody_asked_for_goes_on_there(house: MailHouse, tmp_path: Path) -> None:
    """A notice begins a thread; its conversation is that of the chat beside its threads."""

    async def steps(rig: MailRig) -> None:
        sent = await rig.adapter.send(Part(replace(rig.address, thread=""), "It is done.", key="1:0"))
        (notice,) = house.read_sent(rig.person)
        await rig.post(written(rig, "thanks", Subject=f"Re: {notice['Subject']}", In_Reply_To=f"<{sent}>"))
        await until(lambda: len(rig.heard()) == 1)
        (heard,) = rig.heard()
        assert (heard.address, heard.text) == (replace(rig.address, thread=""), "thanks")
        await rig.adapter.send(part_to(rig, heard, "welcome", "2:0"))
        answer = house.read_sent(rig.person)[-1]
        assert answer["Subject"] == f"Re: {notice['Subject']}"
        assert str(answer["References"]).split() == [f"<{sent}>", f"<{heard.message}>"]

    run(house, tmp_path, steps)


def test_a_server_that_cannot_tell_is_asked(house: MailHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "POLL_SECONDS", 0.05)

    async def steps(rig: MailRig) -> None:
        for n in range(3):
            await rig.say(f"hello {n}")
        await until(lambda: len(rig.heard()) == 3)
        assert b"IDLE" not in rig.proxy.heard
        assert b"NOOP" in rig.proxy.heard

    run(house, tmp_path, steps, hides=(*PLAIN, b" IDLE"))


def test_a_wait_is_renewed_and_a_dead_line_is_found(
    house: MailHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C13: the server that says nothing is not taken for a quiet one."""
    monkeypatch.setattr(mailbox, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(imap_line, "ANSWER_SECONDS", 0.5)

    async def steps(rig: MailRig) -> None:
        await until(lambda: rig.proxy.heard.count(b"IDLE") >= 3)
        seen = rig.adapter.last_seen
        await until(lambda: rig.adapter.last_seen > seen)
        rig.proxy.frozen = True
        await until(lambda: "does not answer" in rig.adapter.problem)
        silent = rig.adapter.last_seen
        await rig.say("hello")
        assert rig.adapter.last_seen == silent
        rig.proxy.frozen = False
        await until(lambda: len(rig.heard()) == 1 and rig.adapter.problem == "")

    run(house, tmp_path, steps, hides=PLAIN)


def test_two_adapters_on_one_mailbox_hand_over_the_same_ids(house: MailHouse, tmp_path: Path) -> None:
    """I3: both see each mail, under one id, so the store takes it once."""

    async def steps(rig: MailRig) -> None:
        second = rig.make_adapter(rig.settings)
        second.home = tmp_path / "other"  # type: ignore[attr-defined]
        await second.connect(rig.core)
        await rig.say("hello")
        await until(lambda: len(rig.heard()) == 2)
        assert sorted(answer.seq or 0 for answer in rig.core.answers if isinstance(answer, Accepted)) == [0, 1]
        await second.disconnect()

    run(house, tmp_path, steps)


# --- lines and passwords


def test_tls_from_the_first_byte(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        await rig.say("hello")
        await until(lambda: len(rig.heard()) == 1)
        await rig.adapter.send(part_to(rig, rig.heard()[0]))
        assert await rig.seen() == ["answer"]

    tls = {"imap": f"imaps://localhost:{house.imaps}", "smtp": f"smtps://localhost:{house.smtps}"}
    run(house, tmp_path, steps, tls)


@pytest.mark.parametrize("name", ["imaps", "imap"])
def test_a_certificate_of_nobody_we_know_is_said(house: MailHouse, tmp_path: Path, name: str) -> None:
    async def steps(rig: MailRig) -> None:
        with pytest.raises(ConfigProblem) as problem:
            await rig.connect()
        assert "certificate of 127.0.0.1 is not trusted" in str(problem.value)
        assert "ca_file" in rig.adapter.problem

    given = {"ca_file": "", "imap": f"{name}://127.0.0.1:{getattr(house, name)}"}
    run(house, tmp_path, steps, given, connected=False)


def test_a_certificate_of_the_sending_server_is_said_too(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        with pytest.raises(NotNow) as failure:
            await rig.adapter.send(Part(rig.address, "hello"))
        assert "certificate of 127.0.0.1 is not trusted" in str(failure.value)
        assert failure.value.whole_account
        assert "certificate" in rig.adapter.problem

    run(house, tmp_path, steps, {"ca_file": "", "smtp": f"smtps://127.0.0.1:{house.smtps}"}, hides=PLAIN)


def test_tls_where_there_is_none_is_said(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        with pytest.raises(ConfigProblem, match="does not speak TLS"):
            await rig.connect()

    run(house, tmp_path, steps, {"imap": f"imaps://127.0.0.1:{house.smtp}"}, connected=False)


def test_no_password_goes_over_a_line_that_others_can_read(
    house: MailHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only this machine may be spoken to without TLS."""
    monkeypatch.setattr(MailServer, "is_this_machine", False)

    async def steps(rig: MailRig) -> None:
        with pytest.raises(ConfigProblem, match="offers no STARTTLS"):
            await rig.connect()
        assert b"AUTHENTICATE" not in rig.proxy.heard

    run(house, tmp_path, steps, hides=PLAIN, connected=False)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"password": "wrong"}, "does not take the name and the password"),
        ({"password": ""}, "has no password"),
        ({"authserv_id": ""}, "whose Authentication-Results to believe"),
        ({"ca_file": "/nowhere"}, "ca_file cannot be read"),
        ({"imap": "imaps://"}, "no address of a server"),
        ({"address": "nobody"}, "no address of its own"),
    ],
)
def test_what_the_owner_can_put_right_is_said(
    house: MailHouse, tmp_path: Path, wrong: dict[str, str], words: str
) -> None:
    async def steps(rig: MailRig) -> None:
        with pytest.raises(ConfigProblem) as problem:
            await rig.connect()
        assert words in str(problem.value)
        assert words in rig.adapter.problem

    run(house, tmp_path, steps, wrong, connected=False)


def test_a_mailbox_that_is_not_there_and_a_server_that_is_not(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        with pytest.raises(NotNow, match="refuses"):
            await rig.connect()
        gone = rig.make_adapter({**rig.settings, "imap": "imap://127.0.0.1:1"})
        with pytest.raises(NotNow, match="cannot be reached on port 1"):
            await gone.connect(rig.core)

    run(house, tmp_path, steps, {"mailbox": "Nowhere"}, connected=False)


def test_a_password_that_is_revoked_is_told_and_nothing_is_lost(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        await rig.say("before")
        await until(lambda: len(rig.heard()) == 1)
        house.revoke(rig.box)
        async with asyncio.timeout(30):
            while "was revoked" not in rig.adapter.problem:
                rig.cut()
                seen = rig.adapter.last_seen
                await until(lambda seen=seen: rig.adapter.last_seen > seen or "revoked" in rig.adapter.problem)
        with pytest.raises(NotNow) as failure:
            await rig.adapter.send(Part(rig.address, "hello"))
        assert failure.value.whole_account
        await rig.say("meanwhile")
        assert len(rig.heard()) == 1

    run(house, tmp_path, steps)


def test_a_mailbox_that_is_full_is_told_until_there_is_room(
    house: MailHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "ROOM_SECONDS", 0.0)
    monkeypatch.setattr(mailbox, "IDLE_SECONDS", 0.1)

    async def steps(rig: MailRig) -> None:
        for n in range(ROOM):
            house.put(rig.box, f"Subject: {n}\r\n\r\nold\r\n".encode())
        await rig.connect()
        await until(lambda: "is full" in rig.adapter.problem)
        await rig.say("still heard")
        await until(lambda: len(rig.heard()) == 1)
        for path in [*(house.folder / "boxes" / rig.box / "cur").iterdir()][:100]:
            path.unlink()
        await until(lambda: rig.adapter.problem == "")

    run(house, tmp_path, steps, connected=False)


def test_a_sending_server_that_is_gone_is_told_until_it_is_back(house: MailHouse, tmp_path: Path) -> None:
    """C9, C8: nothing was sent, and all of the account waits."""

    async def steps(rig: MailRig) -> None:
        assert isinstance(rig.adapter, MailAdapter)
        desk = rig.adapter._desk
        assert desk is not None
        gone = replace(desk, account=replace(desk.account, smtp=MailServer("127.0.0.1", 1, False)))
        rig.adapter._desk = gone
        with pytest.raises(NotNow) as failure:
            await rig.adapter.send(Part(rig.address, "hello"))
        assert (failure.value.whole_account, failure.value.seconds) == (True, smtp_line.UNREACHED_SECONDS)
        assert "cannot be reached" in rig.adapter.problem
        await rig.say("still heard")
        await until(lambda: len(rig.heard()) == 1)
        assert "cannot be reached" in rig.adapter.problem
        rig.adapter._desk = desk
        await rig.adapter.send(Part(rig.address, "hello"))
        assert rig.adapter.problem == ""

    run(house, tmp_path, steps)


@pytest.mark.parametrize(
    ("reply", "at_data", "failure"),
    [
        ("452 4.2.2 The mailbox is full", False, NotNow),
        ("552 5.2.2 The mailbox is full", False, NeverTaken),
        ("550 5.7.1 It looks like spam", True, NeverTaken),
        ("451 4.3.0 Try again later", True, NotNow),
        ("552 5.3.4 Too large", True, NeverTaken),
    ],
)
def test_what_a_server_does_not_take(
    house: MailHouse, tmp_path: Path, reply: str, at_data: bool, failure: type[DeliveryFailure]
) -> None:
    async def steps(rig: MailRig) -> None:
        house.faults.append(SmtpFault(reply, at_data=at_data))
        with pytest.raises(failure) as told:
            await rig.adapter.send(Part(rig.address, "hello"))
        assert reply[:3] in str(told.value)
        assert rig.adapter.problem == ""
        assert await rig.seen() == []

    run(house, tmp_path, steps)


@contextlib.contextmanager
def another_smtp(house: MailHouse, **given: Any) -> Iterator[str]:
    """The address of a server that can do other things."""
    (port,) = free_ports(1)
    server = Controller(house, "127.0.0.1", port, authenticator=house._log_in, auth_require_tls=False, **given)
    server.start()
    try:
        yield f"smtp://127.0.0.1:{port}"
    finally:
        server.stop()


def test_what_is_larger_than_a_server_says_is_not_sent(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        with pytest.raises(NeverTaken, match="larger than the"):
            await rig.adapter.send(Part(rig.address, "x" * 30_000))
        await rig.adapter.send(Part(rig.address, "hello"))
        assert await rig.seen() == ["hello"]

    with another_smtp(house, data_size_limit=20_000) as address:
        run(house, tmp_path, steps, {"smtp": address})


def test_tls_begins_in_the_middle_and_the_other_way_to_log_in(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        await rig.adapter.send(Part(rig.address, ".\n..\n.dots\n."))
        assert await rig.seen() == [".\n..\n.dots\n."]
        assert b"LOGIN" in rig.proxy.heard

    given = {"tls_context": house.tls, "require_starttls": True, "auth_exclude_mechanism": ["PLAIN"]}
    with another_smtp(house, **given) as address:
        run(house, tmp_path, steps, {"smtp": address}, hides=(*PLAIN, b" AUTH=PLAIN"))


def test_words_that_somebody_put_before_tls_are_not_believed(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 hello\r\n")
            await reader.readline()
            writer.write(b"250-hello\r\n250 STARTTLS\r\n")
            await reader.readline()
            writer.write(b"220 go on\r\n250 AUTH PLAIN\r\n")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        assert isinstance(rig.adapter, MailAdapter)
        rig.adapter.settings = {
            **rig.settings,
            "smtp": f"smtp://127.0.0.1:{server.sockets[0].getsockname()[1]}",
        }
        await rig.connect()
        with pytest.raises(NotNow, match="more than it may before TLS"):
            await rig.adapter.send(Part(rig.address, "hello"))
        server.close()
        await server.wait_closed()

    run(house, tmp_path, steps, connected=False)


# --- files


def test_several_files_and_words_in_one_mail(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        mail = written(rig, "two of them", References=f"<{rig.root}>")
        mail.add_attachment(b"\x89PNG", "image", "png", filename="../../über/a.png")
        mail.add_attachment(b"notes", "text", "plain", filename="notes.txt")
        await rig.post(mail)
        await until(lambda: len(rig.heard()) == 1)
        (heard,) = rig.heard()
        assert heard.text == "two of them"
        assert [(file.kind, file.size) for file in heard.files] == [("image", 4), ("file", 5)]
        for file, data in zip(heard.files, (b"\x89PNG", b"notes"), strict=True):
            await rig.adapter.fetch(file, tmp_path / "fetched")
            assert (tmp_path / "fetched").read_bytes() == data

    run(house, tmp_path, steps)


def test_a_file_whose_mail_is_gone_is_never_there(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        await rig.say_file("plan.txt", b"plan")
        await until(lambda: len(rig.heard()) == 1)
        (file,) = rig.heard()[0].files
        validity, uid, _ = file.remote.split(".")
        for remote in (f"{validity}.{int(uid) + 9}.0", f"{int(validity) + 1}.{uid}.0", f"{validity}.{uid}.7", "x"):
            with pytest.raises(NeverTaken):
                await rig.adapter.fetch(replace(file, remote=remote), tmp_path / "nothing")
        rig.cut()

    run(house, tmp_path, steps)


def test_a_file_that_is_too_large_or_gone_is_not_sent(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        path = tmp_path / "large.bin"
        with path.open("wb") as file:
            file.truncate(rig.adapter.spec.max_file_bytes + 1)
        with pytest.raises(NeverTaken, match="larger"):
            await rig.adapter.send_file(Part(rig.address, "x"), FileRef(str(path), "large.bin"))
        with pytest.raises(NeverTaken, match="cannot be read"):
            await rig.adapter.send_file(Part(rig.address, "x"), FileRef(str(tmp_path / "no"), "no"))
        assert await rig.seen() == []

    run(house, tmp_path, steps)


def test_large_files_hold_up_nobody(house: MailHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F5: neither on their way out nor in."""
    culprits = watch_loop(monkeypatch, "MainThread")
    data = os.urandom(1 << 20) * 9

    async def steps(rig: MailRig) -> None:
        path = tmp_path / "large.bin"
        await asyncio.to_thread(path.write_bytes, data)
        await rig.adapter.send_file(Part(rig.address, "here"), FileRef(str(path), "large.bin"))
        (sent,) = house.read_sent(rig.person)
        raw = await asyncio.to_thread(_make_incoming, rig, sent)
        await asyncio.to_thread(house.post, rig.person, rig.box, raw)
        await until(lambda: len(rig.heard()) == 1, 60)
        (file,) = rig.heard()[0].files
        await rig.adapter.fetch(file, path)
        assert file.size == len(data)

    run(house, tmp_path, steps, {"smtp": f"smtps://127.0.0.1:{house.smtps}"})
    assert culprits == []


def _make_incoming(rig: MailRig, sent: EmailMessage) -> bytes:
    mail = written(rig, "the same back")
    ((name, data),) = list_files(sent)
    mail.add_attachment(data, "application", "octet-stream", filename=name)
    return mail.as_bytes()


# --- coming and going


def test_who_disconnects_while_it_connects_ends_that(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        rig.proxy.frozen = True
        connecting = asyncio.create_task(rig.connect())
        await until(lambda: rig.proxy.count == 1)
        await rig.adapter.disconnect()
        with pytest.raises(NotNow):
            await connecting
        rig.proxy.frozen = False
        await until(lambda: rig.proxy.count == 0)
        with pytest.raises(NotNow):
            await rig.adapter.send(Part(rig.address, "hello"))

    run(house, tmp_path, steps, connected=False)


def test_what_cannot_be_read_takes_nothing_with_it(
    house: MailHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mail over which the reader falls is left out, and its words are in no log."""
    caplog.set_level(logging.DEBUG)
    read = mailbox.MailReader.read

    def fall(self: Any, mail: Any, *more: Any) -> Inbound:
        if b"terrible" in mail.data:
            raise ValueError("terrible words")
        return read(self, mail, *more)

    monkeypatch.setattr(mailbox.MailReader, "read", fall)

    async def steps(rig: MailRig) -> None:
        await rig.say("terrible words")
        await rig.say("hello")
        await until(lambda: [one.text for one in rig.heard()] == ["hello"])
        assert "cannot be read (ValueError)" in caplog.text
        assert "terrible" not in caplog.text

    run(house, tmp_path, steps)


# --- mails and answers that a server does not give

REFUSAL, CUT = b"NO [SERVERBUG] Internal error occurred", b""
FIRST_WHOLE, FIRST_HEAD = rb"UID FETCH 1 .*PEEK\[\]", rb"UID FETCH 1[ ,].*PEEK\[HEADER\]"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETRY_SECONDS", "FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(mailbox, name, 0.01)


def texts(rig: MailRig) -> list[str]:
    return [one.text for one in rig.heard()]


def count_logins(rig: MailRig) -> int:
    return bytes(rig.proxy.heard).count(b"AUTHENTICATE PLAIN")


async def say_while_away(rig: MailRig, *words: str) -> None:
    """The mailbox was read once, or what is there would be old mail."""
    await rig.connect()
    await rig.adapter.disconnect()
    for text in words:
        await rig.say(text)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("pattern", [FIRST_WHOLE, FIRST_HEAD])
@pytest.mark.parametrize("answer", [REFUSAL, CUT])
def test_a_mail_that_is_not_handed_out_holds_up_no_other(
    house: MailHouse, tmp_path: Path, pattern: bytes, answer: bytes
) -> None:
    """C1, C2: the others are heard, the owner is told, and the next start finds it."""

    async def steps(rig: MailRig) -> None:
        await say_while_away(rig, "one", "two", "three")
        rig.proxy.answers[pattern] = answer
        await rig.connect()
        await until(lambda: texts(rig) == ["two", "three"])
        await until(lambda: "does not hand out: 1 (UID 1)" in rig.adapter.problem)
        await rig.say("four")
        await until(lambda: texts(rig) == ["two", "three", "four"])
        path = tmp_path / "mail" / "bot.box" / "place.json"
        await until(lambda: json.loads(path.read_text())["uid"] == 4)  # or it is read again, and known by its id
        await rig.adapter.disconnect()
        rig.proxy.answers.clear()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await until(lambda: texts(rig) == ["two", "three", "four", "one"])
        await until(lambda: json.loads(path.read_text())["aside"] == [])
        assert json.loads(path.read_text())["uid"] == 4
        assert rig.adapter.problem == ""

    run(house, tmp_path, steps, hides=PLAIN, connected=False)


@pytest.mark.usefixtures("hurried")
def test_a_bounce_that_is_not_handed_out_holds_up_nobody(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        rig.proxy.answers[FIRST_WHOLE] = REFUSAL
        report = written(rig, "returned", From="mailer-daemon@friends.test")
        report.replace_header("Content-Type", "multipart/report")
        await rig.post(report)
        await rig.say("hello")
        await until(lambda: texts(rig) == ["hello"])

    run(house, tmp_path, steps, hides=PLAIN)


@pytest.mark.usefixtures("hurried")
def test_a_mail_that_is_handed_out_late_keeps_its_place(house: MailHouse, tmp_path: Path) -> None:
    """C3: a refusal that passes changes no order."""

    async def steps(rig: MailRig) -> None:
        await say_while_away(rig, "one", "two", "three")
        rig.proxy.answers[FIRST_WHOLE] = REFUSAL
        asked = rig.proxy.heard
        await rig.connect()
        await until(lambda: b"UID FETCH 1 " in asked)
        rig.proxy.answers.clear()
        await until(lambda: texts(rig) == ["one", "two", "three"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(withheld, "MOST_TRIES", 1_000_000)
        run(house, tmp_path, steps, hides=PLAIN, connected=False)


@pytest.mark.usefixtures("hurried")
def test_a_mail_that_was_set_aside_may_be_deleted(
    house: MailHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "ASIDE_SECONDS", 0.0)
    monkeypatch.setattr(mailbox, "IDLE_SECONDS", 0.05)

    async def steps(rig: MailRig) -> None:
        rig.proxy.answers[FIRST_WHOLE] = REFUSAL
        await rig.say("one")
        await until(lambda: "does not hand out" in rig.adapter.problem)
        for path in (house.folder / "boxes" / rig.box).glob("[cn]*/*.home*"):
            path.unlink()
        await until(lambda: rig.adapter.problem == "")
        assert texts(rig) == []

    run(house, tmp_path, steps, hides=PLAIN)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(("answer", "logins"), [(b"NO [NOPERM] Permission denied", 1), (b"BAD what?", 1), (CUT, 2)])
def test_a_server_that_does_not_tell_of_its_room_is_watched(
    house: MailHouse, tmp_path: Path, answer: bytes, logins: int
) -> None:
    async def steps(rig: MailRig) -> None:
        rig.proxy.answers[b"GETQUOTAROOT"] = answer
        await rig.connect()
        for text in ("one", "two"):
            await until(lambda: bytes(rig.proxy.heard).count(b"IDLE") > len(rig.heard()))
            await rig.say(text)
            await until(lambda text=text: text in texts(rig))
        assert (count_logins(rig), rig.adapter.problem) == (logins, "")

    run(house, tmp_path, steps, hides=PLAIN, connected=False)


@pytest.mark.usefixtures("hurried")
def test_a_server_that_does_not_let_us_wait_is_asked(
    house: MailHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "POLL_SECONDS", 0.05)

    async def steps(rig: MailRig) -> None:
        rig.proxy.answers[b"IDLE"] = b"NO not here"
        await rig.connect()
        for text in ("one", "two"):
            await rig.say(text)
            await until(lambda text=text: text in texts(rig))
        assert (count_logins(rig), rig.adapter.problem) == (1, "")

    run(house, tmp_path, steps, hides=PLAIN, connected=False)


def test_a_server_that_hands_out_nothing_is_waited_for() -> None:
    """A hundred are set aside, then the mailbox waits; those that failed together are asked for one by one."""
    tries = WithheldTries()
    assert list(tries.group([1, 2, 3, 4, 5], 2)) == [[1, 2], [3, 4], [5]]
    assert tries.note_failure([2, 3], ()) is MailFate.WAITS
    assert list(tries.group([1, 2, 3, 4, 5], 2)) == [[1], [2], [3], [4, 5]]
    assert [tries.note_failure([3], ()) for _ in range(3)] == [MailFate.WAITS, MailFate.WAITS, MailFate.ASIDE]
    full = range(100, 100 + withheld.MOST_ASIDE)
    assert tries.note_failure([3], full) is MailFate.WAITS
    assert tries.note_failure([100], full) is MailFate.ASIDE


# --- the probe


def test_the_probe_passes_over_a_mail_that_is_not_handed_out(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        await rig.say("one")
        await rig.say("two")
        rig.proxy.answers[FIRST_HEAD] = REFUSAL
        assert f"It is {rig.box}" in await probe(rig.settings, tmp_path)

    run(house, tmp_path, steps, hides=PLAIN, connected=False)


def test_the_probe_says_what_it_found(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        told = await probe(rig.settings, tmp_path)
        assert f"It is {rig.box}; the server tells of new mail by itself." in told
        with pytest.raises(ConfigProblem, match="No mail in the mailbox has such a field"):
            await probe({**rig.settings, "authserv_id": ""}, tmp_path)
        await rig.say("hello")
        with pytest.raises(ConfigProblem, match=f"name {AUTHSERV_ID} on top"):
            await probe({**rig.settings, "authserv_id": ""}, tmp_path)
        with pytest.raises(ConfigProblem, match=f"newest mails name {AUTHSERV_ID} .* and not mx.else.test"):
            await probe({**rig.settings, "authserv_id": "mx.else.test"}, tmp_path)
        with pytest.raises(ConfigProblem, match="name and the password"):
            await probe({**rig.settings, "password": "wrong"}, tmp_path)
        with pytest.raises(ConfigProblem, match="cannot be reached on port 1"):
            await probe({**rig.settings, "smtp": "smtp://127.0.0.1:1"}, tmp_path)

    run(house, tmp_path, steps, connected=False)


def test_arrival_is_the_servers_time(house: MailHouse, tmp_path: Path) -> None:
    async def steps(rig: MailRig) -> None:
        await rig.post(written(rig, "hello", Date="Mon, 01 Jan 2001 10:00:00 +0000"))
        await until(lambda: len(rig.heard()) == 1)
        assert abs(rig.heard()[0].received - time.time()) < 100

    run(house, tmp_path, steps)
