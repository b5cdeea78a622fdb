"""Signal's adapter, on each thing that can happen: the other side is the lab's daemon."""

import asyncio
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from platform_suite import delivering
from pretending import QUICK, HeardCore
from signal_rig import SignalRig, open_signal_rig, short_folder
from waiting import until

from gateway.core.drafts import UNFINISHED
from gateway.core.text.render import LONG_MARK
from gateway.platforms import chat_lanes
from gateway.platforms.account_settings import CONNECTED
from gateway.platforms.face import Accepted, NeverTaken, NotNow, Part, Refused
from gateway.platforms.signal import adapter as adapter_module
from gateway.platforms.signal import link as link_module
from gateway.platforms.signal import probe as probe_module
from gateway.platforms.signal import reception as reception_module
from gateway.platforms.signal.edit_chains import IN_DOUBT
from gateway.platforms.signal.probe import probe
from hermes_base.errors import ConfigProblem, DeliveryFailure, StoreFailure
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_cli.cmds import doctor
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault

TURN = "agent:main:signal:dm:c1#1"
Steps = Callable[[SignalRig], Awaitable[None]]


def play(
    tmp_path: Path, steps: Steps, *, connected: bool = True, forgiven: tuple[str, ...] = (), **changes: Any
) -> None:
    """`changes`: how the daemon is; `forgiven`: what it may complain about."""

    async def all_steps() -> None:
        with open_signal_rig(tmp_path, **changes) as rig:
            try:
                if connected:
                    await rig.connect()
                await steps(rig)
            finally:
                await rig.disconnect()
            assert [kind for kind in rig.complaints() if kind not in forgiven] == []

    asyncio.run(all_steps())


def say(rig: SignalRig, text: str, **more: Any) -> Part:
    return Part(rig.address, text, markup="plain", **more)


def find_texts(rig: SignalRig) -> list[str]:
    return [inbound.text for inbound in rig.heard()]


async def heard(rig: SignalRig, *texts: str) -> None:
    await until(lambda: find_texts(rig) == list(texts))


# --- what people say


def test_a_group_is_spoken_to_by_mention_and_by_quote(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        ben = rig.lab.add_person("Ben", None)
        group = rig.lab.add_group("Ops", [rig.person, ben])
        place = Address("signal", "bot", group, "group")
        rig.lab.say(ben, "between us", chat=group)
        rig.lab.say(rig.person, "\ufffc 🙂 /stop", chat=group, mentions=["me"])
        ours = await rig.adapter.send(Part(place, "said", markup="plain"))
        rig.lab.say(ben, "why?", chat=group, quote=int(ours))
        await heard(rig, "between us", "🙂 /stop", "why?")
        first, second, third = rig.heard()
        assert {one.address for one in rig.heard()} == {place}
        assert [one.mentioned for one in rig.heard()] == [False, True, True]
        assert (first.sender, second.sender) == (ben, rig.person)
        assert (third.reply_to, third.quote) == (ours, "said")

    play(tmp_path, steps)


def test_a_reply_quotes_the_words(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        asked = rig.lab.say(rig.person, "What is it?")
        await heard(rig, "What is it?")
        await rig.adapter.send(say(rig, "This.", reply_to=rig.heard()[0].message))
        assert rig.lab.messages(rig.person)[-1]["quote"] == asked
        (call,) = rig.lab.calls("send")
        assert call["parameters"]["quoteMessage"] == "What is it?"
        await rig.adapter.send(say(rig, "That.", reply_to=f"5:{rig.person}"))  # of which nothing is known any more

    play(tmp_path, steps)


def test_a_message_that_was_taken_is_marked_as_read(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        assert rig.adapter.spec.has_receipts
        rig.lab.say(rig.person, "hello")
        await heard(rig, "hello")
        await rig.adapter.acknowledge(rig.address, rig.heard()[0].message)
        await rig.adapter.acknowledge(rig.address, "no message")
        assert rig.lab.messages(rig.person)[0]["read"]
        assert len(rig.lab.calls("sendReceipt")) == 1
        quiet = rig.make_adapter({**rig.settings, "receipts": False})
        assert not quiet.spec.has_receipts

    play(tmp_path, steps)


def test_our_own_devices_are_never_answered(tmp_path: Path) -> None:
    """G2: what is typed on the owner's telephone, in the name of the account, is no command."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.say_elsewhere("/stop", rig.person)
        rig.lab.say(rig.person, "after")
        await heard(rig, "after")

    play(tmp_path, steps)


def test_a_number_that_changes_hands_is_somebody_else(tmp_path: Path) -> None:
    """G2."""

    async def steps(rig: SignalRig) -> None:
        number = "+4915119999999"
        rig.lab.change_person(rig.person, number=number)
        rig.lab.say(rig.person, "one")
        rig.lab.change_person(rig.person, number=None)
        other = rig.lab.add_person("Ann", number)
        rig.lab.say(other, "two")
        rig.lab.say(rig.person, "three")
        await until(lambda: len(rig.heard()) == 3)
        assert sorted(find_texts(rig)) == ["one", "three", "two"]
        senders = {one.text: one.sender for one in rig.heard()}
        assert senders == {"one": rig.person, "two": other, "three": rig.person}

    play(tmp_path, steps)


def test_edits_of_edits_are_of_one_message_also_after_a_restart(tmp_path: Path) -> None:
    """C1: clients name the edit before."""

    async def steps(rig: SignalRig) -> None:
        said = rig.lab.say(rig.person, "frist")
        rig.lab.edit(rig.person, said, "first")
        await heard(rig, "frist", "first")
        await rig.restart()
        rig.lab.edit(rig.person, said, "First.")
        await until(lambda: "First." in find_texts(rig))
        assert len({one.stem for one in rig.heard()}) == 1

    play(tmp_path, steps)


def test_a_long_text_comes_whole(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        whole = "".join(f"wörd{n} " for n in range(900)).strip()
        rig.lab.send(rig.person, whole.encode(), mime="text/x-signal-plain", caption=whole[:1900], id="long1")
        rig.lab.send(rig.person, b"x", mime="text/x-signal-plain", caption="cut", id="long2")
        await until(lambda: len(rig.heard()) == 2)
        assert rig.heard()[0].text == whole
        assert rig.heard()[0].files == ()
        assert (rig.heard()[1].text, len(rig.heard()[1].files)) == ("cut", 1)

    play(tmp_path, steps)


def test_long_texts_come_whole_however_many_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C1: the rest of a text stands on the line behind messages for which there is no room yet."""
    monkeypatch.setattr(reception_module, "MOST_WAITING", 3)

    async def steps(rig: SignalRig) -> None:
        for number in range(40):
            whole = f"{number} " + "word " * 600
            rig.lab.send(rig.person, whole.encode(), mime="text/x-signal-plain", caption=whole[:1900], id=f"l{number}")
        await rig.connect()
        await until(lambda: len(rig.heard()) == 40)
        assert [(one.text.split()[0], len(one.text.split()), one.files) for one in rig.heard()] == [
            (f"{number}", 601, ()) for number in range(40)
        ]

    play(tmp_path, steps, connected=False)


def test_a_message_that_cannot_be_decrypted_is_told_without_its_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def steps(rig: SignalRig) -> None:
        rig.lab.fail_decryption(rig.person, "UntrustedIdentityException")
        rig.lab.fail_decryption(rig.person, "InvalidMessageException")
        rig.lab.say(rig.person, "after")
        await heard(rig, "after")
        assert f"trust -v SAFETY-NUMBER {rig.person}" in caplog.text
        assert f"A message of {rig.person} could not be decrypted (InvalidMessageException)" in caplog.text
        assert "secret words" not in caplog.text

    play(tmp_path, steps)


def test_odd_envelopes_take_no_others_with_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(rig: SignalRig) -> None:
        caplog.set_level(logging.DEBUG)
        odd: list[dict[str, Any]] = [
            {},
            {"envelope": 7},
            {"envelope": {}},
            {"envelope": {"sourceUuid": rig.person, "dataMessage": {"message": "hidden words"}}},
            {"envelope": {"sourceUuid": rig.person, "dataMessage": {"timestamp": True, "message": "hidden words"}}},
            {"envelope": {"sourceUuid": rig.person, "dataMessage": {"timestamp": 1, "groupInfo": {"groupId": "../"}}}},
        ]
        for body in odd:
            rig.lab.bring(body)
        rig.lab.say(rig.person, "after")
        await heard(rig, "after")
        assert "hidden words" not in caplog.text

    play(tmp_path, steps)


# --- how the daemon receives


def test_a_daemon_that_receives_by_itself_is_heard_once_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C1: it brings each message twice, in two forms."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.say(rig.person, "hello")
        await until(lambda: len(rig.heard()) == 2)
        assert len({one.ext_id for one in rig.heard()}) == 1
        assert "--receive-mode=manual" in caplog.text
        assert "while Hermes is off is lost" in rig.adapter.problem
        rig.lab.say(rig.person, "again")
        await until(lambda: len(rig.heard()) == 4)
        assert "while Hermes is off is lost" in rig.adapter.problem
        rig.lab.set_up(mode="manual")
        rig.lab.cut()
        await until(lambda: rig.adapter.problem == "" and len(rig.lab.calls("subscribeReceive")) == 2)

    play(tmp_path, steps, mode="on-start")


def test_messages_of_other_accounts_are_not_ours(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        envelope = {"sourceUuid": rig.person, "dataMessage": {"timestamp": 5, "message": "to somebody else"}}
        rig.lab.bring({"account": "+4915199999999", "envelope": envelope})
        rig.lab.say(rig.person, "to us")
        await heard(rig, "to us", "to us")  # in both forms

    play(tmp_path, steps, mode="on-connection")


def test_a_daemon_for_another_number_is_told_of_and_no_more_is_fetched(tmp_path: Path) -> None:
    """C2, H8: with one account the daemon does not look at the number that it is told. The first message shows it, at
    once, and the others wait at Signal until the settings are right."""

    async def steps(rig: SignalRig) -> None:
        wrong = rig.adapter = rig.make_adapter({**rig.settings, "number": "+4915500000000"})
        await rig.connect()
        assert wrong.problem == ""
        rig.lab.say(rig.person, "the first")
        await until(lambda: "the settings name +4915500000000" in wrong.problem)
        await until(lambda: len(rig.lab.calls("unsubscribeReceive")) == 1)
        rig.lab.say(rig.person, "the second")
        with pytest.raises(NotNow, match="the settings name"):  # it would be in the other's name
            await wrong.send(say(rig, "hello"))
        assert rig.lab.waiting == 1
        assert rig.heard() == []
        assert "the settings name" in wrong.problem
        await rig.disconnect()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await heard(rig, "the second")
        assert rig.adapter.problem == ""

    play(tmp_path, steps, connected=False, several=False)


def test_we_go_by_the_number_until_our_id_is_told(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        group = rig.lab.add_group("Ops", [rig.person])
        rig.lab.say(rig.person, "\ufffc one", chat=group, mentions=["me"])
        await heard(rig, "one")
        rig.lab.say_elsewhere("x", rig.person)
        rig.lab.say(rig.person, "\ufffc two", chat=group, mentions=["me"])
        await heard(rig, "one", "two")
        assert all(one.mentioned for one in rig.heard())

    play(tmp_path, steps, tells_id=False)


def test_who_parts_has_stored_what_came(tmp_path: Path) -> None:
    """C1: the daemon brings nothing twice; what comes after the farewell waits at Signal."""

    class SlowCore(HeardCore):
        async def take(self, inbound: Inbound) -> Accepted | Refused:
            await asyncio.sleep(0.01)
            return await super().take(inbound)

    async def steps(rig: SignalRig) -> None:
        rig.core = SlowCore()
        await rig.connect()
        for number in range(40):
            rig.lab.say(rig.person, f"{number}")
        await until(lambda: len(rig.heard()) > 0)
        await rig.disconnect()
        stored = len(rig.heard())
        assert rig.lab.waiting + stored == 40
        await rig.connect()
        await heard(rig, *map(str, range(40)))
        assert rig.lab.lost == 0

    play(tmp_path, steps, connected=False)


def test_who_stops_to_hear_goes_on_to_speak(tmp_path: Path) -> None:
    """C2, C14: what is said while the gateway ends waits at Signal, also when the line is made anew meanwhile."""

    async def steps(rig: SignalRig) -> None:
        await rig.adapter.stop_hearing()
        rig.lab.say(rig.person, "for the next start")
        await rig.adapter.send(say(rig, "the last answer"))
        rig.lab.cut()
        await until(lambda: len(rig.lab.calls("version")) == 2 and rig.adapter._link is not None)  # type: ignore[attr-defined]
        await rig.adapter.send(say(rig, "and one more"))
        assert rig.lab.waiting > 0
        assert rig.heard() == []
        await rig.connect()
        await heard(rig, "for the next start")

    play(tmp_path, steps)


def test_much_that_waited_is_stored_however_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C1, C13: what lies on the line would be lost with it, so it is not cut because an answer behind it is late."""
    monkeypatch.setattr(adapter_module, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(reception_module, "MOST_WAITING", 5)
    gate = asyncio.Event()

    class StalledCore(HeardCore):
        async def take(self, inbound: Inbound) -> Accepted | Refused:
            await gate.wait()
            return await super().take(inbound)

    async def steps(rig: SignalRig) -> None:
        rig.core = StalledCore()
        await rig.connect()
        for number in range(200):
            rig.lab.say(rig.person, f"{number}")
        link = rig.adapter._link  # type: ignore[attr-defined]
        await until(lambda: link.is_held_up)
        monkeypatch.setattr(adapter_module, "ANSWER_SECONDS", 0.05)
        asked = len(rig.lab.calls("version"))
        await until(lambda: len(rig.lab.calls("version")) > asked + 2)  # none of which was answered in time
        gate.set()
        await heard(rig, *map(str, range(200)))
        assert len(rig.lab.calls("subscribeReceive")) == 1

    play(tmp_path, steps, connected=False)


def test_typing_is_shown_again_after_a_message(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        for _ in range(3):
            await rig.adapter.typing(rig.address)
        assert rig.lab.typing(rig.person) == 1
        await rig.adapter.send(say(rig, "hello"))
        await rig.adapter.typing(rig.address)
        assert rig.lab.typing(rig.person) == 2

    play(tmp_path, steps)


def test_what_can_never_be_stored_is_told_to_its_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2."""
    monkeypatch.setattr(chat_lanes, "RETRY_SECONDS", 0.01)

    async def steps(rig: SignalRig) -> None:
        rig.core.failures = chat_lanes.TRIES
        rig.lab.say(rig.person, "hello")
        rig.lab.say(rig.person, "after")
        await heard(rig, "after")
        await until(lambda: rig.lab.seen(rig.person) == [reception_module.NOT_STORED])

    play(tmp_path, steps)


def test_while_the_store_fails_no_group_hears_of_it_and_nobody_else_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2, G1: what was said in a group is kept until it can be stored, in its order, however long that takes."""
    monkeypatch.setattr(chat_lanes, "RETRY_SECONDS", 0.001)

    class FailingCore(HeardCore):
        is_down, tries = True, 0

        async def take(self, inbound: Inbound) -> Accepted | Refused:
            self.tries += 1
            if self.is_down and inbound.address.kind == "group":
                raise StoreFailure("The store does not answer.")
            return await super().take(inbound)

    async def steps(rig: SignalRig) -> None:
        core = rig.core = FailingCore()
        await rig.connect()
        ben = rig.lab.add_person("Ben")
        group = rig.lab.add_group("Family", [rig.person, ben])
        rig.lab.say(ben, "between us", chat=group)
        rig.lab.say(ben, "\ufffc to you", chat=group, mentions=["me"])
        rig.lab.say(rig.person, "alone")
        await heard(rig, "alone")
        await until(lambda: core.tries > 2 * chat_lanes.TRIES)
        core.is_down = False
        await heard(rig, "alone", "between us", "to you")
        assert rig.lab.seen(group) == []

    play(tmp_path, steps, connected=False)


def test_a_refusal_is_told_once(tmp_path: Path) -> None:
    class FullCore(HeardCore):
        async def take(self, inbound: Inbound) -> Accepted | Refused:
            await super().take(inbound)
            return Refused("The disk is full.")

    async def steps(rig: SignalRig) -> None:
        rig.core = FullCore()
        await rig.connect()
        for number in range(5):
            rig.lab.say(rig.person, f"{number}")
        await until(lambda: len(rig.heard()) == 5)
        await until(lambda: rig.lab.seen(rig.person) == ["The disk is full."])

    play(tmp_path, steps, connected=False)


# --- the line


def test_a_daemon_that_goes_and_comes(tmp_path: Path) -> None:
    """C13: it is told what is wrong; what people write meanwhile waits at Signal, and nothing is sent to nowhere."""

    async def steps(rig: SignalRig) -> None:
        await asyncio.to_thread(rig.lab.go)
        await until(lambda: "broke off" in rig.adapter.problem or "does not answer" in rig.adapter.problem)
        with pytest.raises(NotNow) as wait:
            await rig.adapter.send(say(rig, "hello"))
        assert wait.value.whole_account
        rig.lab.say(rig.person, "meanwhile")
        await until(lambda: "does not answer at" in rig.adapter.problem)
        await asyncio.to_thread(rig.lab.come)
        await heard(rig, "meanwhile")
        await until(lambda: rig.adapter.problem == "")

    play(tmp_path, steps)


def test_a_daemon_that_says_nothing_any_more_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13."""
    monkeypatch.setattr(adapter_module, "BEAT_SECONDS", 0.05)

    async def steps(rig: SignalRig) -> None:
        rig.lab.set_up(is_mute=True)
        with monkeypatch.context() as impatience:
            impatience.setattr(adapter_module, "ANSWER_SECONDS", 0.1)
            await until(lambda: bool(rig.adapter.problem))
        rig.lab.set_up(is_mute=False)
        rig.lab.say(rig.person, "hello")
        await until(lambda: "hello" in find_texts(rig))

    play(tmp_path, steps)


def test_nobody_there_is_no_failure_of_the_settings(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        await asyncio.to_thread(rig.lab.go)
        with pytest.raises(NotNow, match="Start it"):
            await rig.connect()
        assert "does not answer" in rig.adapter.problem

    play(tmp_path, steps, connected=False)


@pytest.mark.parametrize("several", [True, False])
def test_an_account_that_the_daemon_does_not_have(tmp_path: Path, several: bool) -> None:
    """H8. A daemon with one account takes any number for its own."""

    async def steps(rig: SignalRig) -> None:
        wrong = rig.misconfigured()
        if several:
            with pytest.raises(ConfigProblem, match=r"has no account \+4915500000000"):
                await wrong.connect(HeardCore())
            assert "signal-cli link" in wrong.problem
            rig.lab.set_up(is_linked=False)
            with pytest.raises(ConfigProblem):
                await rig.connect()
        else:
            await wrong.connect(HeardCore())
        await wrong.disconnect()
        await until(lambda: rig.lab.under_way == 0)

    play(tmp_path, steps, connected=False, several=several)


@pytest.mark.parametrize(
    "said",
    [
        b"220 mail.example.org ESMTP\r\n\xff\xfe\n\n{}\n",
        b"HTTP/1.1 400 Bad Request\r\nServer: x\r\nContent-Length: 2\r\n\r\n{}",
        b"",
        None,
    ],
)
def test_something_else_listens_there(
    tmp_path: Path, said: bytes | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """H8: whoever sets it up reads one sentence, and no line of the other's; None: it says nothing at all."""
    monkeypatch.setattr(probe_module, "HELLO_SECONDS", 0.3)
    left = asyncio.Event()

    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        if said is None:
            await left.wait()
        writer.write(said or b"")
        writer.close()

    async def steps(rig: SignalRig) -> None:
        server = await asyncio.start_server(chatter, "127.0.0.1", 0)
        place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        foreign = f"What answers at {place} does not speak as signal-cli's daemon does"
        with pytest.raises(ConfigProblem, match=foreign):
            await probe({**rig.settings, "daemon": place}, tmp_path)
        if said is not None:
            other = rig.make_adapter({**rig.settings, "daemon": place})
            with pytest.raises(NotNow, match=foreign):
                await other.connect(HeardCore())
            await other.disconnect()
        left.set()
        server.close()
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []

    play(tmp_path, steps, connected=False)


def test_a_socket_that_is_not_ours_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(asyncio, "open_unix_connection", refuse)

    async def steps(rig: SignalRig) -> None:
        with pytest.raises(ConfigProblem, match="as the same user"):
            await rig.connect()

    play(tmp_path, steps, connected=False)


def test_a_line_without_end_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked for it hears so, and the line goes on."""
    monkeypatch.setattr(link_module, "MOST_LINE_BYTES", 200_000)

    async def steps(rig: SignalRig) -> None:
        rig.lab.send(rig.person, bytes(300_000), "large.bin")
        rig.lab.say(rig.person, "x" * 250_000)
        rig.lab.say(rig.person, "after")
        await until(lambda: "after" in find_texts(rig))
        (file,) = rig.heard()[0].files
        with pytest.raises(NeverTaken):
            await rig.adapter.fetch(file, tmp_path / "large.bin")
        await rig.adapter.send(say(rig, "still here"))

    play(tmp_path, steps)


# --- what is sent


def test_styles_are_told_beside_the_text(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        async with delivering(rig, tmp_path) as post:
            post.put("🙂 **bold** and `code`\n\n```py\nx = 1\n```")
            await until(lambda: post.waits() == 0)
        (shown,) = [one for one in rig.lab.messages(rig.person) if one["ours"]]
        assert shown["text"] == "🙂 bold and code\n\nx = 1"
        assert shown["styles"] == ["3:4:BOLD", "12:4:MONOSPACE", "18:5:MONOSPACE"]

    play(tmp_path, steps)


def test_each_edit_names_the_one_before_also_after_a_restart(tmp_path: Path) -> None:
    """C7: a client drops an edit that names another one."""

    async def steps(rig: SignalRig) -> None:
        message = await rig.adapter.send(say(rig, "one"))
        for text in ("two", "three"):
            await rig.adapter.edit(message, say(rig, text))
        await rig.restart()
        await rig.adapter.edit(message, say(rig, "four"))
        assert rig.lab.seen(rig.person) == ["four"]
        for number in range(7):
            await rig.adapter.edit(message, say(rig, f"edit {number}"))
        with pytest.raises(NeverTaken, match="no more edits"):
            await rig.adapter.edit(message, say(rig, "too often"))
        assert rig.lab.messages(rig.person)[0]["edits"] == 10

    play(tmp_path, steps)


@pytest.mark.parametrize("cut", [faults.CUT_BEFORE, faults.CUT_AFTER])
def test_after_an_edit_that_was_cut_off_the_answer_is_sent(tmp_path: Path, cut: str) -> None:
    """C7: nobody knows what the next edit would have to name. The draft stays, and is never taken for the answer."""

    async def steps(rig: SignalRig) -> None:
        async with delivering(rig, tmp_path) as post:
            post.delivery.draft(rig.address, "word", TURN)
            await until(lambda: len(rig.lab.seen(rig.person)) == 1)
            rig.lab.plan([ChatFault(cut, "send")])
            post.delivery.draft(rig.address, "word word", TURN)
            await until(lambda: rig.lab.faults_left == 0)
            post.put("The whole answer.", draft=post.delivery.find_draft(rig.address, TURN), turn=TURN)
            await until(lambda: post.waits() == 0)
        draft, answer = rig.lab.seen(rig.person)
        assert draft.endswith(UNFINISHED)
        assert answer == "The whole answer."

    play(tmp_path, steps)


def test_an_edit_in_doubt_is_so_for_the_next_process(tmp_path: Path) -> None:
    """C7."""

    async def steps(rig: SignalRig) -> None:
        message = await rig.adapter.send(say(rig, "one"))
        rig.lab.plan([ChatFault(faults.CUT_AFTER, "send")])
        with pytest.raises(DeliveryFailure):
            await rig.adapter.edit(message, say(rig, "two"))
        await rig.restart()
        with pytest.raises(NeverTaken, match=IN_DOUBT[:20]):
            await rig.adapter.edit(message, say(rig, "three"))

    play(tmp_path, steps)


def test_a_question_says_how_it_ended(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        message = await rig.adapter.send(say(rig, "Shall I?"))
        rig.lab.punish(1.0, rig.person)
        with pytest.raises(NotNow):
            await rig.adapter.edit(message, say(rig, "Shall I? Yes."))
        rig.lab.advance(2)
        await rig.adapter.edit(message, say(rig, "Shall I? Yes."))  # what was refused is in no doubt
        assert rig.lab.seen(rig.person) == ["Shall I? Yes."]

    play(tmp_path, steps)


def test_an_answer_that_comes_late_is_not_sent_again(tmp_path: Path) -> None:
    """C7: whoever gave up waiting and asks again gets the id of the first."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.plan([ChatFault(faults.LATE, "send", seconds=1.0)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await rig.adapter.send(say(rig, "hello", key="7:0"))
        again = await rig.adapter.send(say(rig, f"{LONG_MARK}\nhello", key="7:0"))
        assert rig.lab.seen(rig.person) == ["hello"]
        assert again == str(rig.lab.messages(rig.person)[0]["timestamp"])

    play(tmp_path, steps)


def test_a_late_answer_that_came_while_nobody_waited_counts_as_well(tmp_path: Path) -> None:
    """C7."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.plan([ChatFault(faults.LATE, "send", seconds=0.5)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await rig.adapter.send(say(rig, "hello", key="7:0"))
        await until(lambda: rig.lab.seen(rig.person) == ["hello"])
        sending = rig.adapter._sending["7:0"]  # type: ignore[attr-defined]
        await until(sending.done)
        await rig.adapter.send(say(rig, "hello", key="7:0"))
        assert rig.lab.seen(rig.person) == ["hello"]

    play(tmp_path, steps)


IMPATIENT = replace(QUICK, draft_call=0.1, call=20.0)


def is_left_alone(post: Any, rig: SignalRig) -> bool:
    """Whether the draft is still on its way, and nobody waits for it any more."""
    chat = post.delivery._senders[rig.address.account_key].chats[rig.address.chat_key]
    return TURN in chat.late._left


@pytest.mark.parametrize("is_known", [True, False])
def test_a_draft_that_arrives_late_becomes_its_answer(tmp_path: Path, is_known: bool) -> None:
    """C7: however slow the daemon is, the answer stands there once and claims to be no repetition. `is_known`: the
    draft has arrived when the answer comes; else it is under way."""

    async def steps(rig: SignalRig) -> None:
        async with delivering(rig, tmp_path, IMPATIENT) as post:
            rig.lab.plan([ChatFault(faults.LATE, "send", seconds=1.0)])
            post.delivery.draft(rig.address, "word", TURN)
            await until(lambda: rig.lab.faults_left == 0)
            await until(lambda: is_left_alone(post, rig))
            if is_known:
                await until(lambda: len(rig.lab.seen(rig.person)) == 1)
                post.delivery.draft(rig.address, "word by word", TURN)
                await until(lambda: rig.lab.seen(rig.person)[0].startswith("word by word"))
            post.put("The whole answer.", draft=post.delivery.find_draft(rig.address, TURN), turn=TURN)
            await until(lambda: post.waits() == 0)
        assert rig.lab.seen(rig.person) == ["The whole answer."]

    play(tmp_path, steps)


def test_a_late_draft_that_broke_off_stands_and_the_answer_says_so(tmp_path: Path) -> None:
    """C7: nobody knows whether it arrived."""

    async def steps(rig: SignalRig) -> None:
        async with delivering(rig, tmp_path, IMPATIENT) as post:
            rig.lab.plan([ChatFault(faults.SILENT_AFTER, "send")])
            post.delivery.draft(rig.address, "word", TURN)
            await until(lambda: len(rig.lab.seen(rig.person)) == 1)
            await until(lambda: is_left_alone(post, rig))
            rig.lab.cut()
            post.put("The whole answer.", turn=TURN)
            await until(lambda: post.waits() == 0)
        draft, answer = rig.lab.seen(rig.person)
        assert draft.endswith(UNFINISHED)
        assert answer.endswith("The whole answer.")
        assert LONG_MARK in answer

    play(tmp_path, steps)


def test_who_waits_while_the_account_is_switched_off_hears_it(tmp_path: Path) -> None:
    """C7: it may have arrived."""

    async def steps(rig: SignalRig) -> None:
        message = await rig.adapter.send(say(rig, "one"))
        rig.lab.plan([ChatFault(faults.SILENT_AFTER, "send", times=2)])
        sending = asyncio.create_task(rig.adapter.send(say(rig, "two", key="8:0")))
        editing = asyncio.create_task(rig.adapter.edit(message, say(rig, "three")))
        await until(lambda: len(rig.lab.calls("send")) == 3)
        await rig.disconnect()
        told = await asyncio.gather(sending, editing, return_exceptions=True)
        assert [type(one) for one in told] == [DeliveryFailure, DeliveryFailure]

    play(tmp_path, steps)


def test_an_edit_waits_for_a_late_one(tmp_path: Path) -> None:
    """C7: it has to name it."""

    async def steps(rig: SignalRig) -> None:
        message = await rig.adapter.send(say(rig, "one"))
        rig.lab.plan([ChatFault(faults.LATE, "send", seconds=1.0)])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await rig.adapter.edit(message, say(rig, "two"))
        await rig.adapter.edit(message, say(rig, "three"))
        assert rig.lab.seen(rig.person) == ["three"]
        assert rig.lab.messages(rig.person)[0]["edits"] == 2

    play(tmp_path, steps)


def test_who_did_not_get_it_in_a_group_is_told_one_by_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(rig: SignalRig) -> None:
        ben, eve, joe = (rig.lab.add_person(name) for name in ("Ben", "Eve", "Joe"))
        group = rig.lab.add_group("Ops", [rig.person, ben, eve, joe])
        rig.lab.change_person(ben, is_distrusted=True)
        rig.lab.change_person(eve, is_gone=True)
        rig.lab.change_person(joe, is_cut_off=True)
        assert await rig.adapter.send(Part(Address("signal", "bot", group, "group"), "hello", markup="plain"))
        (shown,) = rig.lab.messages(group)
        assert shown["missed"] == [ben, eve, joe]
        for words in (f"safety number of {ben}", f"{eve} is not on Signal", f"not be reached for {joe}"):
            assert words in caplog.text
        assert rig.lab.calls("trust") == []

    play(tmp_path, steps)


def test_a_changed_key_is_never_trusted_by_us(tmp_path: Path) -> None:
    """G2: the message waits until a person has compared the safety number."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.change_person(rig.person, is_distrusted=True)
        with pytest.raises(NotNow, match="trust -v SAFETY-NUMBER") as wait:
            await rig.adapter.send(say(rig, "hello"))
        assert wait.value.seconds == 300.0
        assert not wait.value.whole_account
        assert rig.lab.calls("trust") == []
        assert f"trust -v SAFETY-NUMBER {rig.person}" in rig.adapter.problem
        rig.lab.change_person(rig.person, is_distrusted=False)
        await rig.adapter.send(say(rig, "hello"))
        assert rig.adapter.problem == ""

    play(tmp_path, steps)


def test_a_changed_key_of_somebody_who_writes_is_told_of_until_they_are_heard(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        rig.lab.fail_decryption(rig.person, "UntrustedIdentityException")
        await until(lambda: f"trust -v SAFETY-NUMBER {rig.person}" in rig.adapter.problem)
        rig.lab.say(rig.person, "it is me")
        await heard(rig, "it is me")
        assert rig.adapter.problem == ""

    play(tmp_path, steps)


@pytest.mark.parametrize("sign", ["sendReceipt", "sendTyping"])
@pytest.mark.parametrize(
    ("code", "text"), [(-4, "untrusted identity"), (-1, "The user is not registered."), (-1, "Group not found")]
)
def test_a_sign_that_is_not_taken_keeps_no_message(tmp_path: Path, sign: str, code: int, text: str) -> None:
    """C8: what one person does not take says nothing about the others in the chat."""

    async def steps(rig: SignalRig) -> None:
        ben = rig.lab.add_person("Ben")
        place = Address("signal", "bot", rig.lab.add_group("Ops", [rig.person, ben]), "group")
        rig.lab.say(ben, "hello", chat=place.chat)
        await heard(rig, "hello")
        async with delivering(rig, tmp_path) as post:
            rig.lab.plan([ChatFault(faults.ERROR, sign, status=code, text=text)])
            if sign == "sendReceipt":
                post.delivery.acknowledge(place, rig.heard()[0].message)
            else:
                post.delivery.typing(place, TURN)
            await until(lambda: rig.lab.faults_left == 0)
            rig.address = place
            post.put("the answer")
            await until(lambda: post.waits() == 0)
        assert rig.lab.seen(place.chat) == ["the answer"]
        assert rig.adapter.reachable(place)
        assert rig.adapter.problem == ""

    play(tmp_path, steps)


def test_a_sign_that_meets_a_limit_of_the_account_is_heeded(tmp_path: Path) -> None:
    """C8."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.plan([ChatFault(faults.ERROR, "sendTyping", status=-5, text="Retry after 90 seconds")])
        with pytest.raises(NotNow) as wait:
            await rig.adapter.typing(rig.address)
        assert wait.value.whole_account
        assert "90 s of patience" in rig.adapter.problem

    play(tmp_path, steps)


def test_a_rate_limit_is_kept_and_its_captcha_told(tmp_path: Path) -> None:
    """C8: the line that has to be run stands in the status until something was sent again."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.punish(40.0)
        with pytest.raises(NotNow, match="submitRateLimitChallenge --challenge tok-7") as wait:
            await rig.adapter.send(say(rig, "hello"))
        assert wait.value.whole_account
        assert wait.value.seconds is not None
        assert 30 < wait.value.seconds <= 40
        assert "submitRateLimitChallenge --challenge tok-7" in rig.adapter.problem
        rig.lab.advance(60.0)
        await rig.adapter.send(say(rig, "hello"))
        assert rig.adapter.problem == ""

    play(tmp_path, steps, token="tok-7")


def test_an_answer_waits_for_whoever_left_signal(tmp_path: Path) -> None:
    """C9."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.change_person(rig.person, is_gone=True)
        with pytest.raises(NotNow) as wait:
            await rig.adapter.send(say(rig, "hello"))
        assert wait.value.seconds is None
        assert not rig.adapter.reachable(rig.address)
        rig.lab.change_person(rig.person, is_gone=False)
        rig.lab.say(rig.person, "I am back")
        await until(lambda: rig.core.woken == [rig.address])
        assert rig.adapter.reachable(rig.address)

    play(tmp_path, steps)


@pytest.mark.parametrize("why", ["is_left", "is_for_admins"])
def test_an_answer_waits_for_a_group_that_does_not_take_it(tmp_path: Path, why: str) -> None:
    """C9: also what is no message, as an update of the group, shows that we are in it."""

    async def steps(rig: SignalRig) -> None:
        group = rig.lab.add_group("Ops", [rig.person])
        place = Address("signal", "bot", group, "group")
        rig.lab.change_group(group, **{why: True})
        with pytest.raises(NotNow):
            await rig.adapter.send(Part(place, "hello", markup="plain"))
        assert not rig.adapter.reachable(place)
        rig.lab.change_group(group, **{why: False})
        rig.lab.post(rig.person, {}, group)
        await until(lambda: rig.core.woken == [place])

    play(tmp_path, steps)


def test_an_account_that_was_unlinked_is_told_of_until_it_sends_again(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        rig.lab.plan([ChatFault(faults.ERROR, "send", status=-32603, text="[403] (AuthorizationFailedException)")])
        with pytest.raises(NotNow, match="unlinked"):
            await rig.adapter.send(say(rig, "hello"))
        assert "unlinked" in rig.adapter.problem
        await rig.adapter.typing(rig.address)
        assert "unlinked" in rig.adapter.problem
        await rig.adapter.send(say(rig, "hello"))
        await rig.adapter.typing(rig.address)
        assert rig.adapter.problem == ""

    play(tmp_path, steps)


def test_a_send_that_was_cut_is_marked_when_it_comes_again(tmp_path: Path) -> None:
    """C7."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.plan([ChatFault(faults.CUT_AFTER, "send")])
        async with delivering(rig, tmp_path) as post:
            post.put("hello")
            await until(lambda: post.waits() == 0)
        assert rig.lab.seen(rig.person) == ["hello", f"{LONG_MARK}\nhello"]

    play(tmp_path, steps)


# --- files


def test_a_file_as_large_as_the_daemon_takes(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        path = tmp_path / "large.bin"
        path.write_bytes(bytes(rig.adapter.spec.max_file_bytes))
        file = FileRef(str(path), "large.bin", size=path.stat().st_size)
        await rig.adapter.send_file(say(rig, "here"), file)
        assert rig.lab.seen(rig.person) == ["large.bin"]
        path.write_bytes(bytes(rig.adapter.spec.max_file_bytes + 1))
        with pytest.raises(NeverTaken, match="larger than"):
            await rig.adapter.send_file(say(rig, "here"), file)
        with pytest.raises(NeverTaken, match="cannot be read"):
            await rig.adapter.send_file(say(rig, "here"), replace(file, path=str(tmp_path / "gone")))

    play(tmp_path, steps)


def test_a_path_in_place_of_a_file_is_never_asked_for(tmp_path: Path) -> None:
    """G7."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.send(rig.person, b"secret", "a.txt", id="../../../etc/passwd")
        await heard(rig, "[a file that cannot be fetched]")
        assert rig.heard()[0].files == ()
        file = FileRef("", "a", remote=f"../x dm {rig.person}")
        with pytest.raises(NeverTaken):
            await rig.adapter.fetch(file, tmp_path / "a")
        assert rig.lab.calls("getAttachment") == []

    play(tmp_path, steps)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        with pytest.raises(NeverTaken, match="does not have the file"):
            await rig.adapter.fetch(FileRef("", "a.txt", remote=f"gone dm {rig.person}"), tmp_path / "a")
        assert not (tmp_path / "a").exists()

    play(tmp_path, steps)


# --- the probe


def test_the_probe_says_who_it_is_and_takes_no_message(tmp_path: Path) -> None:
    """H5: it does not listen, so what waits at Signal stays there."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.say(rig.person, "before")
        found = await probe(rig.settings, tmp_path)
        assert found.told.startswith(f"It is {rig.lab.number} ({rig.lab.own_id}) on signal-cli 0.14.6; ")
        assert "--receive-mode=manual" in found.told
        assert found.worry == ""
        assert rig.lab.waiting == 1
        await rig.connect()
        await heard(rig, "before")

    play(tmp_path, steps, connected=False)


def test_the_probe_tells_of_a_daemon_that_receives_by_itself(tmp_path: Path) -> None:
    async def steps(rig: SignalRig) -> None:
        rig.lab.say(rig.person, "before")
        found = await probe(rig.settings, tmp_path)
        assert "LOST" in found.worry
        assert "1 in number" in found.worry
        assert "has one account and does not say which" in found.told

    play(tmp_path, steps, connected=False, mode="on-connection", several=False, late=0.05)


def test_where_a_gateway_is_connected_a_probe_costs_no_message(tmp_path: Path) -> None:
    """C2: the daemon brings it to everybody who is connected, and the sentence does not say that it is lost."""

    async def steps(rig: SignalRig) -> None:
        rig.lab.plan([ChatFault(faults.LATE, "version", seconds=1.0)])
        asking = asyncio.create_task(probe({**rig.settings, CONNECTED: True}, tmp_path))
        await until(lambda: rig.lab.faults_left == 0)
        rig.lab.say(rig.person, "meanwhile")
        await until(lambda: "meanwhile" in find_texts(rig))
        found = await asking
        assert "while Hermes is off is LOST. Start it" in found.worry

    play(tmp_path, steps, mode="on-connection")


def test_the_doctor_warns_of_a_daemon_that_receives_by_itself(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_signal_rig(home, mode="on-connection", late=0.05) as rig:
        home.mkdir(exist_ok=True)
        section = {"signal": {"enabled": True, **rig.settings}}
        (home / "config.yaml").write_text(json.dumps({"platforms": section}))
        rig.lab.say(rig.person, "before")
        doctor.main([])
        lines = capsys.readouterr().out.splitlines()
        assert [line[:4] for line in lines if "is LOST" in line] == ["warn"]
        assert [line[:4] for line in lines if f"It is {rig.lab.number}" in line] == ["ok  "]


def test_the_probe_says_what_is_wrong(tmp_path: Path) -> None:
    """H8."""

    async def steps(rig: SignalRig) -> None:
        with pytest.raises(ConfigProblem, match="has no account"):
            await probe({**rig.settings, "number": "+4915500000000"}, tmp_path)
        with pytest.raises(ConfigProblem, match="does not answer at /nowhere/socket: No such file"):
            await probe({**rig.settings, "daemon": "/nowhere/socket"}, tmp_path)
        with pytest.raises(ConfigProblem, match="nobody can listen"):
            await probe({**rig.settings, "daemon": "a..b:80"}, tmp_path)
        with pytest.raises(ConfigProblem, match="has no number"):
            await probe({}, tmp_path)
        with short_folder() as folder:
            dead = folder / "dead"
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(dead))
            with pytest.raises(ConfigProblem, match="refused"):
                await probe({**rig.settings, "daemon": str(dead)}, tmp_path)

    play(tmp_path, steps, connected=False)
