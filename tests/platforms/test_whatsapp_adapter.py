"""The WhatsApp adapter against a server on loopback that judges what it is told, and calls a real webhook."""

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from platform_suite import delivering
from waiting import until
from whatsapp_rig import VERIFY, WhatsAppRig, open_whatsapp_rig

from gateway.platforms.face import HookRequest, NeverTaken, NotNow, Part, Refused
from gateway.platforms.whatsapp import adapter as whatsapp_adapter
from gateway.platforms.whatsapp import reception, sent_memory
from gateway.platforms.whatsapp.adapter import WhatsAppAdapter
from gateway.platforms.whatsapp.probe import probe
from gateway.platforms.whatsapp.refusals import BAD_TOKEN
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault

DAY = 24 * 3600
PNG = b"\x89PNG\r\n\x1a\n picture"
Steps = Callable[[WhatsAppRig], Awaitable[None]]


def play(home: Path, steps: Steps, *, connected: bool = True, faultless: bool = True) -> None:
    """Run the steps with an adapter at a server of its own, which has nothing to complain about afterwards."""

    async def run() -> None:
        async with open_whatsapp_rig(home) as rig:
            if connected:
                await rig.connect()
            try:
                await steps(rig)
            finally:
                await rig.adapter.disconnect()
            assert not faultless or rig.lab.complaints == []

    asyncio.run(run())


def part(rig: WhatsAppRig, text: str, **more: Any) -> Part:
    return Part(rig.address, text, markup="whatsapp", **more)


async def hear(rig: WhatsAppRig, count: int) -> list[Inbound]:
    await until(lambda: len(rig.heard()) >= count)
    assert len(rig.heard()) == count
    return rig.heard()


# --- the webhook


def test_the_webhook_knows_its_word(tmp_path: Path) -> None:
    """G1: nobody else is told that it is one."""

    async def steps(rig: WhatsAppRig) -> None:
        async with httpx2.AsyncClient() as http:
            asked = {"hub.mode": "subscribe", "hub.verify_token": VERIFY, "hub.challenge": "1158201444"}
            answer = await http.get(rig.url, params=asked)
            assert (answer.status_code, answer.text) == (200, "1158201444")
            assert answer.headers["content-type"].startswith("text/plain")
            for wrong in ({"hub.verify_token": "guessed"}, {"hub.mode": "unsubscribe"}, {"hub.verify_token": ""}):
                answer = await http.get(rig.url, params={**asked, **wrong})
                assert (answer.status_code, answer.text) == (403, "")
            assert (await http.get(f"{rig.url}/more", params=asked)).status_code == 404

    play(tmp_path, steps)


def test_what_is_not_signed_by_the_app_is_nothing(tmp_path: Path) -> None:
    """G1: 401, and no effect."""

    async def steps(rig: WhatsAppRig) -> None:
        forged = rig.lab.service.hooks.write([])
        for signature in ("", "sha256=" + "0" * 64, "sha256=", "sha1=abc", "zzz"):
            assert await asyncio.to_thread(rig.lab.forge, forged.decode(), signature) == 401
        rig.lab.say(rig.person, "signed, with ünï 🙂 and a/slash")
        (inbound,) = await hear(rig, 1)
        assert inbound.text == "signed, with ünï 🙂 and a/slash"

    play(tmp_path, steps)


def test_what_is_no_message_costs_nothing(tmp_path: Path) -> None:
    """What is signed and not for us is taken, so that it does not come again; what is no webhook is refused."""

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.push({"field": "account_update", "value": {"event": "DISABLED_UPDATE"}})
        rig.lab.push({"field": "messages", "value": {"metadata": {"phone_number_id": "7"}, "messages": [{"id": "x"}]}})
        await until(lambda: rig.lab.pending() == 0)
        assert [attempt["status"] for attempt in rig.lab.attempts()] == [200, 200]
        signed = await rig.adapter.receive_hook(HookRequest("POST", "", sign(rig, b"[]"), {}, b"[]"))
        assert signed.status == 400
        assert (await rig.adapter.receive_hook(HookRequest("PUT", "", sign(rig, b"x"), {}, b"x"))).status == 405
        assert rig.heard() == []

    play(tmp_path, steps)


def sign(rig: WhatsAppRig, body: bytes) -> dict[str, str]:
    return {"x-hub-signature-256": f"sha256={hmac.new(rig.lab.app_secret.encode(), body, hashlib.sha256).hexdigest()}"}


def test_a_batch_is_stored_whole_or_comes_again(tmp_path: Path) -> None:
    """C1, C3: several people in one request, in the wrong order; one of them cannot be stored at first."""

    async def steps(rig: WhatsAppRig) -> None:
        bob = rig.lab.add_person("Bob")
        rig.lab.gather()
        for n in range(3):
            rig.lab.say(rig.person, f"ann {n}")
            rig.lab.say(bob, f"bob {n}")
            rig.lab.advance(2)
        rig.core.failures = 1
        assert rig.lab.bring_gathered(backwards=True) == 6
        await until(lambda: rig.lab.pending() == 0)
        assert [attempt["status"] for attempt in rig.lab.attempts()][-2:] == [503, 200]
        first = {inbound.ext_id: inbound for inbound in rig.heard()}
        assert len(first) == 6
        for chat, name in ((rig.person, "ann"), (bob, "bob")):
            said = [inbound.text for inbound in first.values() if inbound.address.chat == chat]
            assert said == [f"{name} {n}" for n in range(3)]

    play(tmp_path, steps)


def test_copies_at_once_have_one_id(tmp_path: Path) -> None:
    """C1."""

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.say(rig.person, "once")
        rig.lab.redeliver()
        await until(lambda: rig.lab.pending() == 0)
        await until(lambda: len(rig.heard()) == 2)
        assert len({inbound.ext_id for inbound in rig.heard()}) == 1

    play(tmp_path, steps)


def test_while_it_is_off_nothing_is_taken(tmp_path: Path) -> None:
    """C1: WhatsApp brings it again."""

    async def steps(rig: WhatsAppRig) -> None:
        assert (await rig.adapter.receive_hook(HookRequest("POST", "", {}, {}, b""))).status == 503
        await rig.connect()
        await rig.disconnect()
        rig.lab.say(rig.person, "meanwhile")
        await until(lambda: len(rig.lab.attempts()) >= 2)
        assert {attempt["status"] for attempt in rig.lab.attempts()} == {503}
        await rig.connect()
        assert [inbound.text for inbound in await hear(rig, 1)] == ["meanwhile"]

    play(tmp_path, steps, connected=False)


def test_a_refused_message_is_told_once_and_settled(tmp_path: Path) -> None:
    """C1: what the gateway does not take is said to whoever wrote; while it closes, WhatsApp keeps it."""

    async def steps(rig: WhatsAppRig) -> None:
        refusal: Refused | None = Refused("The disk is full.")
        take = rig.core.take

        async def refuse(inbound: Inbound) -> Any:
            return refusal or await take(inbound)

        rig.core.take = refuse  # type: ignore[method-assign]
        for _ in range(2):
            rig.lab.say(rig.person, "hello")
        await until(lambda: rig.lab.pending() == 0)
        assert rig.lab.seen(rig.person) == ["The disk is full."]
        refusal = Refused("It ends.", closing=True)
        rig.lab.say(rig.person, "kept")
        await until(lambda: rig.lab.attempts()[-1]["status"] == 503)
        refusal = None
        assert [inbound.text for inbound in await hear(rig, 1)] == ["kept"]

    play(tmp_path, steps)


# --- people


def test_who_shows_no_number_is_answered_by_their_id(tmp_path: Path) -> None:
    """G2."""

    async def steps(rig: WhatsAppRig) -> None:
        cay = rig.lab.add_person("Cay", hidden=True)
        rig.lab.say(cay, "hello")
        (inbound,) = await hear(rig, 1)
        assert inbound.sender == rig.lab.user_id(cay)
        assert cay not in repr(inbound)
        await rig.adapter.send(Part(inbound.address, "hello Cay"))
        assert rig.lab.seen(cay) == ["hello Cay"]

    play(tmp_path, steps)


def test_a_changed_number_lets_nobody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """G2: whoever has another number is somebody else, until they are let in."""

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.say(rig.person, "before")
        await hear(rig, 1)
        rig.lab.change_number(rig.person, "4917099999999")
        await until(lambda: "another number" in caplog.text)
        rig.lab.say("4917099999999", "after")
        before, after = await hear(rig, 2)
        assert before.sender != after.sender
        assert before.key("default") != after.key("default")

    play(tmp_path, steps)


def test_kinds_of_messages_come_as_what_they_are(tmp_path: Path) -> None:
    async def steps(rig: WhatsAppRig) -> None:
        lab, ann = rig.lab, rig.person
        lab.post(ann, "location", {"latitude": 52.5, "longitude": 13.4, "name": "Berlin"})
        lab.post(ann, "contacts", [{"name": {"formatted_name": "Bob"}, "phones": [{"phone": "+49 30 1"}]}])
        lab.post(ann, "unsupported", {"type": "poll"})
        said = lab.say(ann, "words of others", forwarded=True)
        lab.post(ann, "reaction", {"message_id": said, "emoji": "❤"})
        lab.say(ann, "about that", reply_to=said)
        heard = await hear(rig, 6)
        assert [inbound.text for inbound in heard] == [
            "[location Berlin (52.5, 13.4)]",
            "[contact Bob, +49 30 1]",
            "[a message of a kind that WhatsApp does not hand over]",
            "[forwarded]\nwords of others",
            "[reaction ❤]",
            "about that",
        ]
        assert (heard[3].forwarded, heard[4].reply_to, heard[5].reply_to) == (True, said, said)

    play(tmp_path, steps)


# --- messages


def test_a_reply_quotes_and_a_sign_is_about_a_message(tmp_path: Path) -> None:
    async def steps(rig: WhatsAppRig) -> None:
        said = rig.lab.say(rig.person, "hello")
        await hear(rig, 1)
        await rig.adapter.acknowledge(rig.address, said)
        assert rig.lab.messages(rig.person)[-1]["read"]
        assert rig.lab.typing(rig.person) == 0
        for _ in range(3):
            await rig.adapter.typing(rig.address)
        assert rig.lab.typing(rig.person) == 1  # it stays for a while
        await rig.adapter.send(part(rig, "hello Ann", reply_to=said))
        assert rig.lab.messages(rig.person)[-1]["body"]["context"] == {"message_id": said}
        await rig.adapter.acknowledge(rig.address, "no message of WhatsApp")
        rig.lab.read_all(rig.person)
        await until(lambda: rig.lab.pending() == 0)

    play(tmp_path, steps)


@pytest.mark.parametrize(
    ("choices", "label", "form"),
    [
        (("Yes, once", "No"), "No", "button"),
        (("Yes, once", "No", "Yes, in this conversation", "Always"), "Always", "list"),
    ],
)
def test_an_answer_is_chosen(tmp_path: Path, choices: tuple[str, ...], label: str, form: str) -> None:
    """G4."""

    async def steps(rig: WhatsAppRig) -> None:
        sent = await rig.adapter.send(part(rig, "Shall I?", question="q-1", choices=choices))
        assert rig.lab.messages(rig.person)[-1]["body"]["interactive"]["type"] == form
        rig.lab.press(rig.person, label)
        (pressed,) = await hear(rig, 1)
        assert (pressed.text, pressed.question, pressed.choice) == (label, "q-1", str(choices.index(label)))
        assert pressed.reply_to == sent

    play(tmp_path, steps)


def test_a_long_question_goes_ahead_once(tmp_path: Path) -> None:
    """C7: however often its buttons are tried."""

    async def steps(rig: WhatsAppRig) -> None:
        asked = part(rig, "x" * 2000, question="q-1", choices=("Yes", "No"), key="4:0")
        rig.lab.plan([ChatFault(faults.CUT_BEFORE, "send", skip=1)])
        with pytest.raises(DeliveryFailure):
            await rig.adapter.send(asked)
        await rig.adapter.send(asked)
        assert rig.lab.seen(rig.person) == ["x" * 2000, "Your answer?"]

    play(tmp_path, steps)


def test_what_arrived_although_the_call_broke_off_is_not_sent_again(tmp_path: Path) -> None:
    """C7: WhatsApp takes no key, but tells what became of a message with it."""

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.plan([ChatFault(faults.CUT_AFTER, "send")])
        with pytest.raises(DeliveryFailure):
            await rig.adapter.send(part(rig, "hello", key="4:0"))
        await until(lambda: rig.lab.pending() == 0)
        sent = await rig.adapter.send(part(rig, "(again) hello", key="4:0"))
        assert rig.lab.seen(rig.person) == ["hello"]
        assert sent == rig.lab.messages(rig.person)[-1]["id"]
        await rig.adapter.send(part(rig, "hello", key="4:0"))
        assert rig.lab.seen(rig.person) == ["hello", "hello"]  # a key is good for the call that broke off

    play(tmp_path, steps)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("131026", NeverTaken, "not on WhatsApp"),
        ("131030", NotNow, "test number"),
        ("131031", NotNow, "locked"),
        ("130429", NotNow, "fewer messages"),
        ("80007", NotNow, "fewer calls"),
        ("10", NotNow, "permission"),
        ("131000", DeliveryFailure, "trouble of its own"),
        ("131016", DeliveryFailure, "trouble of its own"),
    ],
)
def test_what_whatsapp_says_is_said_plainly(tmp_path: Path, code: str, kind: type, words: str) -> None:
    """C8, C9."""

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.plan([ChatFault(faults.ERROR, "send", text=code)])
        with pytest.raises(DeliveryFailure, match=words) as failure:
            await rig.adapter.send(part(rig, "hello"))
        assert failure.type is kind
        await rig.adapter.send(part(rig, "hello"))
        assert rig.adapter.problem == ""  # what kept it from working is over

    play(tmp_path, steps)


def test_pauses_for_one_person_grow_until_it_goes(tmp_path: Path) -> None:
    """C8."""

    async def steps(rig: WhatsAppRig) -> None:
        seconds = []
        rig.lab.plan([ChatFault(faults.ERROR, "send", text="131056", times=2)])
        for _ in range(2):
            with pytest.raises(NotNow) as failure:
                await rig.adapter.send(part(rig, "hello"))
            seconds.append(failure.value.seconds)
        await rig.adapter.send(part(rig, "hello"))
        rig.lab.plan([ChatFault(faults.ERROR, "send", text="131056")])
        with pytest.raises(NotNow) as failure:
            await rig.adapter.send(part(rig, "hello"))
        assert [*seconds, failure.value.seconds] == [4.0, 16.0, 4.0]

    play(tmp_path, steps)


# --- the 24 hours


def test_after_24_hours_a_message_waits_until_the_person_writes(tmp_path: Path) -> None:
    """C9: by the real delivery. It is said plainly, asked for once, and sent once."""

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.say(rig.person, "hello")
        await hear(rig, 1)
        rig.lab.advance(DAY + 60)
        async with delivering(rig, tmp_path) as post:
            rig.core._delivery = post.delivery
            post.put("It is done.")
            await until(lambda: not rig.adapter.reachable(rig.address))
            post.put("And more.")
            assert post.waits() == 2
            rig.lab.say(rig.person, "what is new?")
            await until(lambda: post.waits() == 0)
            assert rig.adapter.reachable(rig.address)
        assert rig.lab.seen(rig.person) == ["It is done.", "And more."]
        assert len(rig.lab.calls("send", rig.person)) == 3  # one of them was refused

    play(tmp_path, steps)


def test_what_is_taken_and_fails_later_waits_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9: by the real delivery. WhatsApp may take a message and tell by a status that the 24 hours are over."""
    monkeypatch.setattr(reception, "LOOK_SECONDS", 0.05)

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.fail_late()
        rig.lab.advance(DAY + 60)
        async with delivering(rig, tmp_path) as post:
            rig.core._delivery = post.delivery
            post.put("It is done.")
            await until(lambda: len(rig.core.taken_back) > 0)
            await until(lambda: rig.lab.pending() == 0)
            await until(lambda: post.waits() == 1)
            assert rig.lab.seen(rig.person) == []
            rig.lab.say(rig.person, "what is new?")
            await until(lambda: post.waits() == 0)
        assert rig.lab.seen(rig.person) == ["It is done."]

    play(tmp_path, steps)


def test_parts_that_fail_later_come_again_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9, C3: that they failed is told in any order, and while others are still being sent."""
    monkeypatch.setattr(reception, "LOOK_SECONDS", 0.05)

    async def steps(rig: WhatsAppRig) -> None:
        text = " ".join(f"word{n}" for n in range(1400))
        rig.lab.fail_late()
        rig.lab.advance(DAY + 60)
        async with delivering(rig, tmp_path) as post:
            rig.core._delivery = post.delivery
            post.put(text)
            await until(lambda: len(rig.lab.calls("send", rig.person)) == 3)
            await until(lambda: rig.lab.pending() == 0)
            await until(lambda: post.waits() == 1)
            assert len(rig.lab.calls("send", rig.person)) == 3  # nothing goes in circles
            rig.lab.say(rig.person, "what is new?")
            await until(lambda: post.waits() == 0)
        assert " ".join(rig.lab.seen(rig.person)).split() == text.split()

    play(tmp_path, steps)


def test_what_fails_later_for_good_is_kept_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9: nothing is lost silently."""
    monkeypatch.setattr(reception, "LOOK_SECONDS", 0.05)

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.fail_late()
        rig.lab.block(rig.person)
        async with delivering(rig, tmp_path) as post:
            rig.core._delivery = post.delivery
            post.put("It is done.")
            await until(lambda: post.delivery.counts["failed"] == 1)
            rig.lab.block(rig.person, gone=False)
            await until(lambda: post.waits() == 0)

    play(tmp_path, steps)


@pytest.mark.parametrize(("row", "looks"), [(0, 1), (1, reception.LOOKS * sent_memory.MOST_LOOKS)])
def test_a_failure_of_what_nobody_finds_keeps_nobody_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: int, looks: int
) -> None:
    """Statuses come again, and late. A stored message is looked for some time, and not for ever."""
    monkeypatch.setattr(reception, "LOOK_SECONDS", 0.01)

    async def steps(rig: WhatsAppRig) -> None:
        told: list[str] = []

        async def forget(address: Address, message: str, failure: DeliveryFailure) -> bool:
            told.append(message)
            return False

        rig.core.take_back = forget  # type: ignore[method-assign]
        rig.lab.fail_late()
        rig.lab.advance(DAY + 60)
        await rig.adapter.send(part(rig, "hello", row=row))
        await until(lambda: rig.lab.pending() == 0)
        assert len(told) == looks
        assert rig.adapter.reachable(rig.address)

    play(tmp_path, steps)


def fail_elsewhere(rig: WhatsAppRig, count: int, key: str = "") -> None:
    """So many requests, each with a message that failed."""
    for n in range(count):
        status = {"id": f"wamid.other{n}", "status": "failed", "timestamp": "1790000000", "recipient_id": f"49151{n}"}
        status |= {"errors": [{"code": 131026, "title": "Message undeliverable"}], "biz_opaque_callback_data": key}
        value = {"metadata": {"phone_number_id": rig.lab.number}, "statuses": [status]}
        rig.lab.do("push", change={"field": "messages", "value": value}, lane=f"lane{n}")


class SlowStore:
    """Finds no message before it is told to."""

    def __init__(self, rig: WhatsAppRig) -> None:
        self.looked: list[str] = []
        self.finds = False
        rig.core.take_back = self.take_back  # type: ignore[method-assign]

    async def take_back(self, address: Address, message: str, failure: DeliveryFailure) -> bool:
        self.looked.append(message)
        return self.finds


def test_failures_of_other_programs_hold_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: a number may be used by others, too. Their messages are looked for once, and nothing waits."""
    monkeypatch.setattr(reception, "LOOK_SECONDS", 3600.0)

    async def steps(rig: WhatsAppRig) -> None:
        store = SlowStore(rig)
        fail_elsewhere(rig, 40)
        await until(lambda: rig.lab.pending() == 0)
        await rig.say("hello")
        await hear(rig, 1)
        assert sorted(store.looked) == sorted(f"wamid.other{n}" for n in range(40))

    play(tmp_path, steps)


def test_failures_of_our_own_leave_room_for_what_people_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: those whose sending is not noted yet wait a little, a few at a time; the others come again."""
    monkeypatch.setattr(reception, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(reception, "LOOKS", 1_000_000)

    async def steps(rig: WhatsAppRig) -> None:
        store = SlowStore(rig)
        assert isinstance(rig.adapter, WhatsAppAdapter)
        rig.adapter._memory.begin("4:0")
        fail_elsewhere(rig, 40, key="4:0")
        await until(lambda: len(set(store.looked)) == 40)
        await rig.say("hello")
        await hear(rig, 1)
        store.finds = True
        await until(lambda: rig.lab.pending() == 0)

    play(tmp_path, steps)


# --- files


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [("p.png", PNG, "image"), ("v.ogg", b"OggS", "audio"), ("m.mp4", b"mp4", "video"), ("a.md", b"# a", "document")],
)
def test_a_file_goes_as_what_it_is(tmp_path: Path, name: str, data: bytes, kind: str) -> None:
    async def steps(rig: WhatsAppRig) -> None:
        (tmp_path / name).write_bytes(data)
        await rig.adapter.send_file(
            part(rig, "as asked", key="4:0"), FileRef(str(tmp_path / name), name, size=len(data))
        )
        sent = [message for message in rig.lab.messages(rig.person) if message["file"]]
        assert [(message["kind"], message["file"]) for message in sent] == [(kind, name)]
        texts = [message["text"] for message in rig.lab.messages(rig.person)]
        assert "as asked" in texts

    play(tmp_path, steps)


def test_what_is_too_large_or_unknown_is_never_taken(tmp_path: Path) -> None:
    async def steps(rig: WhatsAppRig) -> None:
        for name, data in (("big.png", bytes(5_000_001)), ("a.zip", b"PK\x00\x01")):
            (tmp_path / name).write_bytes(data)
            with pytest.raises(NeverTaken):
                await rig.adapter.send_file(part(rig, "here"), FileRef(str(tmp_path / name), name))
        with pytest.raises(NeverTaken, match="cannot be read"):
            await rig.adapter.send_file(part(rig, "here"), FileRef(str(tmp_path / "gone"), "gone"))
        assert rig.lab.calls("upload") == []

    play(tmp_path, steps)


def test_a_broken_upload_is_no_doubt(tmp_path: Path) -> None:
    """C7: nobody has seen anything of it."""

    async def steps(rig: WhatsAppRig) -> None:
        (tmp_path / "a.txt").write_text("text")
        rig.lab.plan([ChatFault(faults.CUT_AFTER, "upload")])
        with pytest.raises(NotNow) as failure:
            await rig.adapter.send_file(part(rig, "here"), FileRef(str(tmp_path / "a.txt"), "a.txt"))
        assert failure.value.seconds
        assert rig.lab.seen(rig.person) == []

    play(tmp_path, steps)


def test_a_voice_note_is_fetched_and_an_old_address_is_asked_for_anew(tmp_path: Path) -> None:
    async def steps(rig: WhatsAppRig) -> None:
        data = bytes(range(256)) * 5000
        rig.lab.send(rig.person, "audio", data, voice=True)
        (inbound,) = await hear(rig, 1)
        (file,) = inbound.files
        assert (file.kind, file.name.startswith("voice_"), file.name.endswith(".ogg")) == ("audio", True, True)
        await rig.adapter.fetch(file, tmp_path / "first")
        rig.lab.advance(600)
        await rig.adapter.fetch(file, tmp_path / "second")
        assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes() == data
        rig.lab.plan([ChatFault(faults.CUT_AFTER, "download")])
        with pytest.raises(DeliveryFailure):
            await rig.adapter.fetch(file, tmp_path / "third")
        with pytest.raises(NeverTaken, match="does not have the file"):
            await rig.adapter.fetch(FileRef("", "x", remote="4711"), tmp_path / "fourth")

    play(tmp_path, steps)


def test_a_file_elsewhere_is_not_fetched(tmp_path: Path) -> None:
    """G6, G8: the token is shown to nobody else."""

    async def steps(rig: WhatsAppRig) -> None:
        media = rig.lab.service.media
        open_address = media.open_address
        media.open_address = lambda id, root: {**open_address(id, root), "url": "http://127.0.0.1:9/x"}  # type: ignore[method-assign]
        rig.lab.send(rig.person, "document", b"data", "a.bin")
        (inbound,) = await hear(rig, 1)
        with pytest.raises(DeliveryFailure, match="leads elsewhere"):
            await rig.adapter.fetch(inbound.files[0], tmp_path / "file")
        assert rig.lab.calls("download") == []

    play(tmp_path, steps)


# --- being there


def test_the_probe_says_which_number_it_is(tmp_path: Path) -> None:
    async def steps(rig: WhatsAppRig) -> None:
        told = await probe(rig.settings, tmp_path)
        assert told.startswith("It is +15550783881 (Lab)")
        assert "/hooks/whatsapp/whatsapp" in told
        for wrong, words in (
            ({"token": "EAAwrong"}, "does not take the access token"),
            ({"phone_number_id": "7"}, "no number with this phone number ID"),
            ({"base_url": "http://127.0.0.1:9"}, "cannot be asked"),
        ):
            with pytest.raises(ConfigProblem, match=words):
                await probe({**rig.settings, **wrong}, tmp_path)

    play(tmp_path, steps, connected=False)


def test_a_bad_token_and_no_network_are_told_apart(tmp_path: Path) -> None:
    """G6: the owner puts the one right, and the other passes."""

    async def steps(rig: WhatsAppRig) -> None:
        wrong = rig.misconfigured()
        with pytest.raises(ConfigProblem):
            await wrong.connect(rig.core)
        assert wrong.problem.startswith(BAD_TOKEN)
        odd = rig.make_adapter({**rig.settings, "base_url": f"{rig.lab.address}/elsewhere"})
        with pytest.raises(ConfigProblem, match="cannot be asked"):
            await odd.connect(rig.core)
        rig.lab.forgive()
        away = rig.make_adapter({**rig.settings, "base_url": "http://127.0.0.1:9"})
        with pytest.raises(NotNow, match="cannot be reached"):
            await away.connect(rig.core)
        assert away.last_seen == 0.0

    play(tmp_path, steps, connected=False)


def test_a_revoked_token_is_a_sentence_and_tried_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9, C13."""
    monkeypatch.setattr(whatsapp_adapter, "LOOK_SECONDS", 0.05)

    async def steps(rig: WhatsAppRig) -> None:
        seen = rig.adapter.last_seen
        await until(lambda: rig.adapter.last_seen > seen)
        rig.lab.revoke()
        await until(lambda: rig.adapter.problem.startswith(BAD_TOKEN))
        asked = len(rig.lab.calls("number"))
        with pytest.raises(NotNow) as failure:
            await rig.adapter.send(part(rig, "hello"))
        assert (failure.value.seconds, failure.value.whole_account) == (300.0, True)
        assert len(rig.lab.calls("number")) == asked

    play(tmp_path, steps)


def test_a_cut_network_is_noticed_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C13: nobody has to do anything."""
    monkeypatch.setattr(whatsapp_adapter, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(whatsapp_adapter, "FIRST_PAUSE", 0.05)
    caplog.set_level(logging.INFO)

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.plan([ChatFault(faults.CUT_BEFORE, "number", times=2)])
        await until(lambda: "cannot be reached" in rig.adapter.problem)
        await until(lambda: rig.adapter.problem == "")
        assert "WhatsApp is well again." in caplog.text

    play(tmp_path, steps)


def test_whoever_disconnects_ends_a_connecting(tmp_path: Path) -> None:
    """F1."""

    async def steps(rig: WhatsAppRig) -> None:
        rig.lab.plan([ChatFault(faults.SILENT, "number")])
        connecting = asyncio.create_task(rig.adapter.connect(rig.core))
        await until(lambda: rig.lab.under_way == 1)
        await rig.adapter.disconnect()
        with pytest.raises(NotNow):
            await connecting
        await until(lambda: rig.lab.under_way == 0)
        with pytest.raises(NotNow, match="not connected"):
            await rig.adapter.send(part(rig, "hello"))

    play(tmp_path, steps, connected=False)


def test_several_numbers_share_nothing(tmp_path: Path) -> None:
    """I3, G2: what comes for one number is no message of the other."""

    async def steps(rig: WhatsAppRig) -> None:
        assert isinstance(rig.adapter, WhatsAppAdapter)
        body = rig.lab.service.hooks.write(
            [{"field": "messages", "value": {"metadata": {"phone_number_id": "7"}, "messages": [{"id": "wamid.x"}]}}]
        )
        answer = await rig.adapter.receive_hook(HookRequest("POST", "", sign(rig, body), {}, body))
        assert answer.status == 200
        assert rig.heard() == []
        assert json.loads(body)["entry"]

    play(tmp_path, steps)
