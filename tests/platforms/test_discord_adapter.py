"""The Discord adapter with the real SDK, against a server on loopback that judges what it is told."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from discord_rig import IDENTIFY_SECONDS
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.discord import link as link_module
from gateway.platforms.discord import session_line
from gateway.platforms.discord.adapter import DiscordAdapter
from gateway.platforms.discord.line_rules import LineCut, LineEnd
from gateway.platforms.discord.probe import probe
from gateway.platforms.discord.refusals import DiscordTrouble, Trouble
from gateway.platforms.discord.wire import NO_TEXT
from gateway.platforms.face import Accepted, MenuCommand, NeverTaken, NotNow, Part, Refused
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_lab.chats import faults
from hermes_lab.chats.discord.discord_lab import DiscordLab
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.rates import Rate


class Desk:
    """A gateway's door: keeps what it is handed, refuses or holds up what it is told to."""

    def __init__(self) -> None:
        self.taken: list[Inbound] = []
        self.woken: list[Address] = []
        self.refusal: Refused | None = None
        self.held: dict[str, asyncio.Event] = {}  # by chat: until this is set

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        if inbound.address.chat in self.held:
            await self.held[inbound.address.chat].wait()
        if self.refusal is not None:
            return self.refusal
        known = any(inbound.ext_id == other.ext_id for other in self.taken)
        self.taken.append(inbound)
        return Accepted(inbound.key("default"), None if known else len(self.taken))

    async def find_last(self, account_key: str) -> dict[Address, str]:
        assert account_key == "discord:bot"
        marks = [inbound for inbound in self.taken if not inbound.revision and not inbound.question]
        return {inbound.address: inbound.message for inbound in marks}

    def wake_delivery(self, address: Address) -> None:
        self.woken.append(address)

    @property
    def texts(self) -> list[str]:
        return [inbound.text for inbound in self.taken]


class Scene:
    def __init__(self, lab: DiscordLab, home: Path, **settings: Any) -> None:
        self.lab = lab
        self.desk = Desk()
        self.settings = {"token": lab.token, "base_url": lab.base_url, **settings}
        self.home = home
        self.adapter = self.make_adapter()
        self.ann = lab.add_person("Ann", "ann")
        self.channel = lab.dm(self.ann)
        self.us = f"<@{lab.bot}>"

    def make_adapter(self, **more: Any) -> DiscordAdapter:
        spec = platform_list.find_spec("discord")
        made = platform_list.make_adapter(spec, "bot", {**self.settings, **more}, self.home)
        assert isinstance(made, DiscordAdapter)
        return made

    @property
    def dm(self) -> Address:
        return Address("discord", "bot", self.channel)

    def part(self, text: str, at: Address | None = None, **more: Any) -> Part:
        return Part(at or self.dm, text, **more)

    async def connect(self) -> None:
        self.lab.advance(IDENTIFY_SECONDS)
        await self.adapter.connect(self.desk)

    async def hear(self, count: int) -> list[Inbound]:
        await until(lambda: len(self.desk.taken) >= count)
        assert len(self.desk.taken) == count
        return self.desk.taken

    def add_server(self) -> tuple[str, Address]:
        """A server with a channel; both."""
        guild = self.lab.add_guild("Ops", [self.ann])
        return guild, Address("discord", "bot", self.lab.add_channel(guild, "plans"), "group")


def play(
    home: Path,
    steps: Callable[[Scene], Awaitable[None]],
    *,
    connected: bool = True,
    faultless: bool = True,
    **settings: Any,
) -> None:
    """Run the steps with an adapter at a server of its own, which has nothing to complain about afterwards."""

    async def run() -> None:
        with DiscordLab() as lab:
            lab.set_rates(channel=None, account=None)
            scene = Scene(lab, home, **settings)
            if connected:
                await scene.connect()
            try:
                await steps(scene)
            finally:
                await scene.adapter.disconnect()
            assert not faultless or lab.complaints == []

    asyncio.run(run())


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's clock is put forward instead."""
    monkeypatch.setattr(link_module, "IDENTIFY_SECONDS", 0.0)


# --- what comes in


def test_a_slow_chat_keeps_its_order_and_holds_up_no_other(tmp_path: Path) -> None:
    """C3."""

    async def steps(scene: Scene) -> None:
        bob = scene.lab.add_person("Bob")
        gate = scene.desk.held[scene.channel] = asyncio.Event()
        for n in range(3):
            scene.lab.say(scene.ann, f"ann {n}")
            scene.lab.say(bob, f"bob {n}")
        await until(lambda: scene.desk.texts == ["bob 0", "bob 1", "bob 2"])
        gate.set()
        await until(lambda: scene.desk.texts[3:] == ["ann 0", "ann 1", "ann 2"])

    play(tmp_path, steps)


def test_one_odd_event_takes_no_other_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(scene: Scene) -> None:
        for kind in ("MESSAGE_CREATE", "INTERACTION_CREATE", "GUILD_CREATE", "THREAD_UPDATE"):
            scene.lab.push(kind, {"content": "private words"})
            scene.lab.push(kind, {"channel_id": scene.channel, "content": "private words", "author": 5})
        scene.lab.say(scene.ann, "hello")
        await scene.hear(1)

    play(tmp_path, steps)
    assert "cannot be read" in caplog.text
    assert "private words" not in caplog.text


def test_what_a_gateway_that_ends_does_not_take_comes_at_the_next_start(tmp_path: Path) -> None:
    """C1, C14: from the history, behind the last message that was stored."""

    async def steps(scene: Scene) -> None:
        scene.lab.say(scene.ann, "before")
        await scene.hear(1)
        scene.desk.refusal = Refused("Hermes ends.", closing=True)
        scene.lab.say(scene.ann, "hello")
        await scene.adapter.disconnect()
        assert scene.lab.seen(scene.channel) == []
        scene.desk.refusal = None
        await scene.connect()
        assert [inbound.text for inbound in await scene.hear(2)] == ["before", "hello"]

    play(tmp_path, steps)


def test_a_refusal_is_told_once(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.desk.refusal = Refused("The disk is full.")
        for n in range(3):
            scene.lab.say(scene.ann, f"hello {n}")
        await until(lambda: scene.lab.seen(scene.channel) == ["The disk is full."])
        scene.lab.say(scene.ann, "again")
        scene.desk.refusal = None
        scene.lab.say(scene.ann, "now?")
        await until(lambda: "now?" in scene.desk.texts)
        assert scene.lab.seen(scene.channel) == ["The disk is full."]

    play(tmp_path, steps)


def test_on_servers_what_speaks_to_us_is_marked(tmp_path: Path) -> None:
    """G2."""

    async def steps(scene: Scene) -> None:
        guild, place = scene.add_server()
        ours = await scene.adapter.send(scene.part("I am here", place))
        role = f"<@&{scene.lab.name_role(guild)}>"
        for text in ("to nobody", f"hey {scene.us}!", f"{scene.us} /stop", f"{role} hello", "@everyone"):
            scene.lab.say(scene.ann, text, place.chat)
        scene.lab.say(scene.ann, "to you", place.chat, reply_to=ours)
        heard = await scene.hear(6)
        assert [(inbound.text, inbound.mentioned) for inbound in heard] == [
            ("to nobody", False),
            ("hey @Lab_Bot!", True),
            ("/stop", True),
            ("hello", True),
            ("@everyone", False),
            ("to you", True),
        ]
        assert {inbound.address for inbound in heard} == {place}
        assert (heard[-1].reply_to, heard[-1].quote) == (ours, "I am here")

    play(tmp_path, steps)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_thread_is_a_place_of_its_own_both_ways(tmp_path: Path, quiet: bool) -> None:
    """Also one of which nobody told us: Discord is asked where it belongs."""

    async def steps(scene: Scene) -> None:
        _, place = scene.add_server()
        thread = scene.lab.add_thread(place.chat, "Plans", quiet=quiet)
        scene.lab.say(scene.ann, "in the thread", thread)
        (inbound,) = await scene.hear(1)
        assert inbound.address == replace(place, thread=thread)
        await scene.adapter.typing(inbound.address)
        await scene.adapter.send(scene.part("there", inbound.address, reply_to=inbound.message))
        assert (scene.lab.seen(thread), scene.lab.seen(place.chat), scene.lab.typing(thread)) == (["there"], [], 1)
        assert len(scene.lab.calls("getChannel")) == int(quiet)

    play(tmp_path, steps)


def test_a_press_gets_its_sign_when_it_is_stored(tmp_path: Path) -> None:
    """G4: the press names the question. C1: its person is told no sooner."""

    async def steps(scene: Scene) -> None:
        sent = await scene.adapter.send(scene.part("Sure?", question="q1", choices=("yes", "no", "always")))
        gate = scene.desk.held[scene.channel] = asyncio.Event()
        press = scene.lab.press(scene.ann, sent, "no")
        assert scene.lab.answers(press) == []
        gate.set()
        (inbound,) = await scene.hear(1)
        assert (inbound.question, inbound.text, inbound.sender) == ("q1", "no", scene.ann)
        await until(lambda: scene.lab.answers(press) == [{"type": 6, "data": {}}])
        await scene.adapter.edit(sent, scene.part("Sure? No."))
        assert scene.lab.messages(scene.channel)[-1]["components"] == []

    play(tmp_path, steps)


def test_a_press_that_waits_for_the_store_does_not_fail_before_its_persons_eyes(tmp_path: Path) -> None:
    """Discord waits three seconds, and a store may take longer."""

    async def steps(scene: Scene) -> None:
        sent = await scene.adapter.send(scene.part("Sure?", question="q1", choices=("yes", "no")))
        gate = scene.desk.held[scene.channel] = asyncio.Event()
        press = scene.lab.press(scene.ann, sent, "no")
        await until(lambda: bool(scene.lab.answers(press)))
        assert scene.desk.taken == []
        gate.set()
        await scene.hear(1)

    play(tmp_path, steps)


def test_the_menu_is_offered_and_a_choice_is_a_command(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        await scene.adapter.offer_commands([MenuCommand("stop", "Stops"), MenuCommand("Model", "Chooses a model")])
        assert [row["name"] for row in scene.lab.menu] == ["stop", "model"]
        _, place = scene.add_server()
        chosen = scene.lab.command(scene.ann, "model", "large one", place.chat)
        (inbound,) = await scene.hear(1)
        assert (inbound.text, inbound.address, inbound.mentioned) == ("/Model large one", place, True)
        await until(lambda: bool(scene.lab.answers(chosen)))
        (answer,) = scene.lab.answers(chosen)
        assert (answer["type"], answer["data"]["flags"]) == (4, 64)  # only its person sees it
        await scene.adapter.acknowledge(place, inbound.message)  # there is no message to put a sign on

    play(tmp_path, steps)


def test_files_are_fetched_also_when_their_address_has_expired(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        sent = scene.lab.send(scene.ann, {"plan.txt": b"the plan", "b.txt": b"b"}, "see")
        (inbound,) = await scene.hear(1)
        assert [file.name for file in inbound.files] == ["plan.txt", "b.txt"]
        scene.lab.expire_files()
        await scene.adapter.fetch(inbound.files[0], scene.home / "got")
        assert (scene.home / "got").read_bytes() == b"the plan"
        scene.lab.delete(sent, scene.channel)
        with pytest.raises(NeverTaken, match="does not have the file"):
            await scene.adapter.fetch(inbound.files[1], scene.home / "nothing")
        assert not (scene.home / "nothing").exists()

    play(tmp_path, steps)


# --- what was missed


def test_a_long_absence_is_read_in_order(tmp_path: Path) -> None:
    """C1, C3: over several pages, before anything new."""

    async def steps(scene: Scene) -> None:
        scene.lab.say(scene.ann, "before")
        await scene.hear(1)
        await scene.adapter.disconnect()
        said = [f"missed {n}" for n in range(230)]
        for text in said:
            scene.lab.say(scene.ann, text)
        scene.lab.plan([ChatFault(faults.CUT_BEFORE, "getMessages", skip=1)])
        await scene.connect()
        scene.lab.say(scene.ann, "after")
        await until(lambda: len(scene.desk.taken) >= 232)
        assert scene.desk.texts == ["before", *said, "after"]
        assert len(scene.lab.calls("getMessages")) == 4

    play(tmp_path, steps)


def test_what_is_older_than_a_day_is_not_answered_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(scene: Scene) -> None:
        scene.lab.say(scene.ann, "before")
        await scene.hear(1)
        await scene.adapter.disconnect()
        scene.lab.say(scene.ann, "long ago")
        monkeypatch.setattr("gateway.platforms.discord.reception.ABSENCE_SECONDS", -3600.0)
        await scene.connect()
        await until(lambda: bool(scene.lab.calls("getMessages")))
        scene.lab.say(scene.ann, "now")
        assert [inbound.text for inbound in await scene.hear(2)] == ["before", "now"]

    play(tmp_path, steps)


def test_threads_and_channels_are_read_and_one_that_is_closed_to_us_holds_up_nothing(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        _, place = scene.add_server()
        thread = scene.lab.add_thread(place.chat, "Plans")
        for channel in (place.chat, thread, scene.channel):
            scene.lab.say(scene.ann, "before", channel)
        await scene.hear(3)
        await scene.adapter.disconnect()
        for channel in (place.chat, thread, scene.channel):
            scene.lab.say(scene.ann, f"{scene.us} missed", channel)
        scene.lab.change_channel(place.chat, deleted=True)
        scene.adapter = scene.make_adapter()
        await scene.connect()
        missed = [(inbound.address, inbound.mentioned) for inbound in (await scene.hear(5))[3:]]
        assert set(missed) == {(replace(place, thread=thread), True), (scene.dm, True)}

    play(tmp_path, steps)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_history_that_somebody_in_between_refuses_is_read_all_the_same(tmp_path: Path, status: int) -> None:
    """C1, C3."""

    async def steps(scene: Scene) -> None:
        scene.lab.say(scene.ann, "before")
        await scene.hear(1)
        await scene.adapter.disconnect()
        scene.lab.say(scene.ann, "missed")
        scene.lab.plan([ChatFault(faults.ERROR, "getMessages", status=status, text="error code: 1015")])
        scene.adapter = scene.make_adapter()
        await scene.connect()
        scene.lab.say(scene.ann, "after")
        await until(lambda: len(scene.desk.taken) >= 3)
        assert scene.desk.texts == ["before", "missed", "after"]

    play(tmp_path, steps)


@pytest.mark.parametrize("sign", ["a message", "an update", "a role", "a session"])
def test_a_channel_that_was_closed_to_us_is_read_when_it_is_open(tmp_path: Path, sign: str, no_pause: None) -> None:
    """C1, C3: what was said there meanwhile comes before what is new, whatever shows that we are let in again."""
    del no_pause

    async def steps(scene: Scene) -> None:
        guild, place = scene.add_server()
        scene.lab.say(scene.ann, "before", place.chat)
        await scene.hear(1)
        await scene.adapter.disconnect()
        scene.lab.say(scene.ann, "missed", place.chat)
        scene.lab.change_channel(place.chat, hidden=True)
        scene.adapter = scene.make_adapter()
        await scene.connect()
        reception = scene.adapter._reception
        assert reception is not None
        await until(lambda: any(lane.unread for lane in reception._lanes.lanes.values()))
        scene.lab.service.world.channels[place.chat].hidden = False  # nobody is told
        scene.lab.advance(IDENTIFY_SECONDS)
        if sign == "an update":
            scene.lab.push("CHANNEL_UPDATE", {"id": place.chat, "guild_id": guild, "type": 0})
        elif sign == "a role":
            scene.lab.push("GUILD_ROLE_UPDATE", {"guild_id": guild, "role": {"id": "1"}})
        elif sign == "a session":
            scene.lab.invalidate()
        if sign != "a message":
            await scene.hear(2)
        scene.lab.say(scene.ann, "after", place.chat)
        await until(lambda: len(scene.desk.taken) >= 3)
        assert scene.desk.texts == ["before", "missed", "after"]

    play(tmp_path, steps)


@pytest.mark.parametrize("end", ["cut", "reconnect", "closed", "timeout", "resumable", "invalid"])
def test_no_end_of_the_line_loses_anything(tmp_path: Path, end: str, no_pause: None) -> None:
    """C1, C13: a session is taken up again; where it cannot be, the history tells what was missed."""
    del no_pause

    async def steps(scene: Scene) -> None:
        scene.lab.say(scene.ann, "before")
        await scene.hear(1)
        scene.lab.advance(IDENTIFY_SECONDS)
        ends: dict[str, Callable[[], Any]] = {
            "cut": scene.lab.cut,
            "reconnect": scene.lab.reconnect,
            "closed": lambda: scene.lab.close_lines(4000),
            "timeout": lambda: scene.lab.close_lines(4009),
            "resumable": lambda: scene.lab.invalidate(resumable=True),
            "invalid": lambda: scene.lab.invalidate(),
        }
        ends[end]()
        scene.lab.say(scene.ann, "during")
        await until(lambda: scene.lab.lines == 1)
        scene.lab.say(scene.ann, "after")
        await until(lambda: len(scene.desk.taken) >= 3)
        assert scene.desk.texts == ["before", "during", "after"]
        assert scene.adapter.problem == ""
        assert len(scene.lab.calls("getGateway")) == (2 if end == "invalid" else 1)

    play(tmp_path, steps)


def test_a_session_that_is_too_old_is_replaced(tmp_path: Path, no_pause: None) -> None:
    """C1."""
    del no_pause

    async def steps(scene: Scene) -> None:
        scene.lab.say(scene.ann, "before")
        await scene.hear(1)
        scene.lab.freeze()
        scene.lab.advance(600)
        scene.lab.say(scene.ann, "during")
        scene.lab.cut()
        assert [inbound.text for inbound in await scene.hear(2)] == ["before", "during"]

    play(tmp_path, steps)


@pytest.fixture
def brief_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_line, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(session_line, "LONGEST_PAUSE", 0.1)


def test_a_session_whose_host_is_gone_is_replaced(tmp_path: Path, no_pause: None, brief_pauses: None) -> None:
    """C1, C13: nobody refuses it there, so it would be asked for for ever; the history tells what was missed."""
    del no_pause, brief_pauses

    async def steps(scene: Scene) -> None:
        scene.lab.set_resume("ws://127.0.0.1:9/gateway")
        await scene.connect()
        scene.lab.say(scene.ann, "before")
        await scene.hear(1)
        scene.lab.set_resume("")
        scene.lab.advance(IDENTIFY_SECONDS)
        scene.lab.cut()
        scene.lab.say(scene.ann, "during")
        await until(lambda: scene.desk.texts == ["before", "during"])
        await until(lambda: scene.adapter.problem == "")
        scene.lab.say(scene.ann, "after")
        await until(lambda: scene.desk.texts == ["before", "during", "after"])

    play(tmp_path, steps, connected=False)


def test_a_session_outlives_an_outage(tmp_path: Path, no_pause: None, brief_pauses: None) -> None:
    """C1: while Discord cannot be reached at all, it is no fault of the session: what only a session tells, as a press,
    is told when it is taken up again."""
    del no_pause, brief_pauses

    async def steps(scene: Scene) -> None:
        sent = await scene.adapter.send(scene.part("Sure?", question="q1", choices=("yes", "no")))
        link = scene.adapter._link
        assert link is not None
        tries: list[object] = []
        open_socket, find_gateway = link.open_socket, link._find_gateway

        async def fail(mark: object = None) -> Any:
            tries.append(mark)
            raise LineCut(LineEnd.LOST, "no network")

        async def find_nothing() -> Any:
            raise DiscordTrouble(Trouble.UNSENT, "no network")

        link.open_socket, link._find_gateway = fail, find_nothing  # type: ignore[method-assign]
        scene.lab.cut()
        await until(lambda: len(tries) > 6)
        scene.lab.press(scene.ann, sent, "no")
        link.open_socket, link._find_gateway = open_socket, find_gateway  # type: ignore[method-assign]
        (inbound,) = await scene.hear(1)
        assert (inbound.question, inbound.text) == ("q1", "no")
        assert all(mark is not None for mark in tries)

    play(tmp_path, steps)


def test_a_line_that_went_silent_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: nothing is heard, not even a heartbeat's answer; the line is opened anew."""
    monkeypatch.setattr(link_module, "SILENT_SECONDS", 0.6)
    monkeypatch.setattr(link_module, "CLOSE_SECONDS", 0.1)

    async def steps(scene: Scene) -> None:
        scene.lab.set_heartbeat(0.2)
        await scene.connect()
        began = scene.adapter.last_seen
        await until(lambda: scene.adapter.last_seen > began)  # heartbeats are signs of life
        scene.lab.freeze()
        scene.lab.say(scene.ann, "during")
        await scene.hear(1)
        assert scene.lab.lines == 1

    # A heartbeat every 0.2 s may be late on a slow machine, of which the server complains.
    play(tmp_path, steps, connected=False, faultless=False)


# --- what goes out


def test_patience_is_asked_for_in_every_call(tmp_path: Path) -> None:
    """C8: of one channel, or of the whole account."""

    async def steps(scene: Scene) -> None:
        sent = await scene.adapter.send(scene.part("hello"))
        scene.lab.punish(7.5, scene.channel)
        for call in (
            lambda: scene.adapter.send(scene.part("hello")),
            lambda: scene.adapter.edit(sent, scene.part("hello")),
            lambda: scene.adapter.typing(scene.dm),
            lambda: scene.adapter.acknowledge(scene.dm, sent),
        ):
            with pytest.raises(NotNow) as wait:
                await call()
            assert wait.value.seconds is not None
            assert 5.0 < wait.value.seconds <= 7.5
            assert not wait.value.whole_account
        scene.lab.advance(8)
        scene.lab.plan([ChatFault(faults.ERROR, "createMessage", status=429, text="2.5")])
        with pytest.raises(NotNow) as wait:
            await scene.adapter.send(scene.part("hello"))
        assert (wait.value.seconds, wait.value.whole_account) == (2.5, True)

    play(tmp_path, steps)


def test_a_limit_that_is_used_up_costs_no_refused_call(tmp_path: Path) -> None:
    """C8: Discord tells what is left; each channel and each kind of call has its own."""

    async def steps(scene: Scene) -> None:
        scene.lab.set_rates(channel=Rate(3, 30.0, slack=0))
        bob = Address("discord", "bot", scene.lab.dm(scene.lab.add_person("Bob")))
        sent = [await scene.adapter.send(scene.part(f"text {n}")) for n in range(3)]
        with pytest.raises(NotNow) as wait:
            await scene.adapter.send(scene.part("one too many"))
        assert wait.value.seconds is not None
        assert 20 < wait.value.seconds <= 30
        assert len(scene.lab.calls("createMessage")) == 3
        await scene.adapter.edit(sent[0], scene.part("changed"))
        await scene.adapter.send(scene.part("to Bob", bob))

    play(tmp_path, steps)


def test_a_server_that_fails_is_not_asked_again_by_itself(tmp_path: Path) -> None:
    """The SDK would try five times; here whoever sends decides, and the key keeps it single (C7)."""

    async def steps(scene: Scene) -> None:
        part = scene.part("hello", key="k")
        for fault in (ChatFault(faults.ERROR, "createMessage"), ChatFault(faults.CUT_AFTER, "createMessage")):
            scene.lab.plan([fault])
            with pytest.raises(DeliveryFailure) as failure:
                await scene.adapter.send(part)
            assert type(failure.value) is DeliveryFailure
        await scene.adapter.send(part)
        assert scene.lab.seen(scene.channel) == ["hello"]
        assert len(scene.lab.calls("createMessage")) == 3

    play(tmp_path, steps)


@pytest.mark.parametrize("status", [401, 403, 404, 405, 408])
def test_what_somebody_in_between_says_ends_nothing(tmp_path: Path, status: int) -> None:
    """C7, C9: without a code of Discord's nobody knows whether it arrived: it is sent again, and is there once."""

    async def steps(scene: Scene) -> None:
        part = scene.part("hello", key="k")
        scene.lab.plan([ChatFault(faults.ERROR, "createMessage", status=status, text="<html>error code: 1015</html>")])
        with pytest.raises(DeliveryFailure) as failure:
            await scene.adapter.send(part)
        assert type(failure.value) is DeliveryFailure
        assert scene.adapter.reachable(scene.dm)
        assert scene.adapter.problem == ""
        await scene.adapter.send(part)
        assert scene.lab.seen(scene.channel) == ["hello"]

    play(tmp_path, steps)


def test_no_answer_in_time_may_have_arrived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C7."""
    monkeypatch.setattr(link_module, "CALL_SECONDS", 0.3)

    async def steps(scene: Scene) -> None:
        scene.lab.plan([ChatFault(faults.SILENT_AFTER, "createMessage")])
        with pytest.raises(DeliveryFailure, match="no answer in time"):
            await scene.adapter.send(scene.part("hello"))
        assert scene.lab.seen(scene.channel) == ["hello"]

    play(tmp_path, steps)


def test_who_takes_no_messages_is_waited_for_until_they_are_back(tmp_path: Path) -> None:
    """C9."""

    async def steps(scene: Scene) -> None:
        scene.lab.close_dms(scene.ann)
        with pytest.raises(NotNow, match="takes no direct messages") as wait:
            await scene.adapter.send(scene.part("hello"))
        assert wait.value.seconds is None
        assert not scene.adapter.reachable(scene.dm)
        scene.lab.close_dms(scene.ann, closed=False)
        scene.lab.say(scene.ann, "I am back")
        await until(lambda: scene.desk.woken == [scene.dm])
        assert scene.adapter.reachable(scene.dm)

    play(tmp_path, steps)


def test_a_bot_that_was_removed_waits_until_it_is_added_again(tmp_path: Path) -> None:
    """C9."""

    async def steps(scene: Scene) -> None:
        guild, place = scene.add_server()
        scene.lab.remove_bot(guild)
        with pytest.raises(NotNow, match="removed from the server"):
            await scene.adapter.send(scene.part("hello", place))
        scene.lab.admit_bot(guild)
        await until(lambda: scene.desk.woken == [place])
        await scene.adapter.send(scene.part("hello", place))

    play(tmp_path, steps)


def test_a_channel_or_thread_that_is_closed_is_waited_for_and_a_thread_that_is_gone_is_not(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        _, place = scene.add_server()
        inside = replace(place, thread=scene.lab.add_thread(place.chat, "Plans"))
        closed = ((place.chat, "muted", place), (inside.thread, "locked", inside))
        for number, (channel, switch, at) in enumerate(closed, 1):
            scene.lab.change_channel(channel, **{switch: True})
            scene.lab.say(scene.ann, "by now it was told")
            await scene.hear(number)
            with pytest.raises(NotNow):
                await scene.adapter.send(scene.part("hello", at))
            scene.lab.change_channel(channel, **{switch: False})
            await until(lambda at=at: scene.adapter.reachable(at))
        assert scene.desk.woken == [place, inside]
        scene.lab.change_channel(inside.thread, deleted=True)
        with pytest.raises(NeverTaken, match="thread is not there"):
            await scene.adapter.send(scene.part("hello", inside))

    play(tmp_path, steps)


def test_files_are_sent_with_their_text_and_what_cannot_be_is_said(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        path = scene.home / "x"
        path.write_bytes(b"data")
        for key in ("k1", "k1"):
            await scene.adapter.send_file(scene.part("here", key=key), FileRef(str(path), 'a "b".txt', size=4))
        (shown,) = scene.lab.messages(scene.channel)  # C7: a repetition shows once
        assert (shown["content"], shown["attachments"][0]["size"]) == ("here", 4)
        path.write_bytes(bytes(scene.adapter.spec.max_file_bytes + 1))
        with pytest.raises(NeverTaken, match="larger"):
            await scene.adapter.send_file(scene.part("here"), FileRef(str(path), "x"))
        with pytest.raises(NeverTaken, match="cannot be read"):
            await scene.adapter.send_file(scene.part("here"), FileRef(str(scene.home / "no"), "x"))

    play(tmp_path, steps)


def test_a_message_that_was_taken_gets_its_sign_and_a_channel_without_is_asked_once(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        said = scene.lab.say(scene.ann, "hello")
        await scene.adapter.acknowledge(scene.dm, said)
        assert scene.lab.reactions(said, scene.channel) == ["👀"]
        _, place = scene.add_server()
        said = scene.lab.say(scene.ann, "hello", place.chat)
        await scene.adapter.acknowledge(place, "15")  # one that was deleted says nothing on others
        scene.lab.change_channel(place.chat, muted=True)
        for _ in range(2):
            await scene.adapter.acknowledge(place, said)
        assert len(scene.lab.calls("react", place.chat)) == 2
        assert not scene.make_adapter(reactions=False).spec.has_receipts

    play(tmp_path, steps)


# --- being there


def test_a_bad_token_is_said_plainly_and_never_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """G6."""

    async def steps(scene: Scene) -> None:
        for token, words in (("", "no bot token"), ("nonsense", "three parts"), ("aa.bb.secretpart", "does not know")):
            adapter = scene.make_adapter(token=token)
            with pytest.raises(ConfigProblem, match=words):
                await adapter.connect(scene.desk)
            assert words in adapter.problem
            assert "secretpart" not in adapter.problem + caplog.text
            with pytest.raises(NotNow):
                await adapter.send(scene.part("hello"))

    play(tmp_path, steps, connected=False)


def test_a_token_that_is_reset_is_told_and_tried_seldom(tmp_path: Path) -> None:
    """C13, G6."""

    async def steps(scene: Scene) -> None:
        scene.lab.revoke()
        await until(lambda: "token" in scene.adapter.problem)
        with pytest.raises(NotNow) as wait:
            await scene.adapter.send(scene.part("hello"))
        assert wait.value.whole_account
        assert scene.lab.token not in scene.adapter.problem
        assert len(scene.lab.calls("getGateway")) == 1

    play(tmp_path, steps)


@pytest.mark.parametrize("sign", ["a call", "an event"])
def test_a_token_that_is_known_again_is_said_at_once(tmp_path: Path, sign: str) -> None:
    """C13: a 401 counts when Discord does not say who we are, either; whatever works next shows that it is over."""

    async def steps(scene: Scene) -> None:
        scene.lab.plan([ChatFault(faults.ERROR, method, status=401) for method in ("createMessage", "getMe")])
        with pytest.raises(NotNow) as wait:
            await scene.adapter.send(scene.part("hello"))
        assert wait.value.whole_account
        assert "token" in scene.adapter.problem
        if sign == "a call":
            await scene.adapter.typing(scene.dm)
        else:
            scene.lab.say(scene.ann, "hello")
            await scene.hear(1)
        assert scene.adapter.problem == ""

    play(tmp_path, steps)


def test_a_single_401_keeps_nobody_from_connecting(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.lab.plan([ChatFault(faults.ERROR, "getMe", status=401)])
        await scene.connect()
        scene.lab.say(scene.ann, "hello")
        await scene.hear(1)

    play(tmp_path, steps, connected=False)


def test_a_missing_intent_is_said_plainly(tmp_path: Path) -> None:
    """Discord closes the line with 4014; without the intent the bot reads direct messages and what names it."""

    async def steps(scene: Scene) -> None:
        scene.lab.allow_content(False)
        with pytest.raises(ConfigProblem, match="message content intent"):
            await scene.connect()
        assert "message content intent" in scene.adapter.problem
        scene.adapter = scene.make_adapter(message_content=False)
        await scene.connect()
        _, place = scene.add_server()
        ours = await scene.adapter.send(scene.part("I am here", place))
        scene.lab.say(scene.ann, "in private")
        for text in ("unread", f"{scene.us} read"):
            scene.lab.say(scene.ann, text, place.chat)
        scene.lab.say(scene.ann, "a reply", place.chat, reply_to=ours)
        heard = await scene.hear(3)
        assert sorted(inbound.text for inbound in heard) == sorted(["in private", "read", NO_TEXT])

    play(tmp_path, steps, connected=False)


def test_without_a_network_it_waits_and_says_so(tmp_path: Path, no_pause: None) -> None:
    """C13: nothing is lost, and nobody has to do anything."""
    del no_pause

    async def steps(scene: Scene) -> None:
        scene.lab.say(scene.ann, "before")
        await scene.hear(1)
        port = int(scene.lab.address.rpartition(":")[2])
        await asyncio.to_thread(scene.lab.stop)
        await until(lambda: "cannot be reached" in scene.adapter.problem, 60)
        with pytest.raises(NotNow, match="cannot be reached") as wait:
            await scene.adapter.send(scene.part("hello"))
        assert wait.value.whole_account
        scene.lab._port = port
        scene.lab.start()
        scene.lab.say(scene.ann, "after")
        await until(lambda: scene.desk.texts == ["before", "after"], 60)
        await until(lambda: scene.adapter.problem == "")

    play(tmp_path, steps)


def test_before_it_is_connected_everything_waits(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        for call in (scene.adapter.send(scene.part("x")), scene.adapter.typing(scene.dm)):
            with pytest.raises(NotNow) as wait:
                await call
            assert wait.value.seconds

    play(tmp_path, steps, connected=False)


def test_what_is_switched_off_while_it_connects_hears_nothing(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.lab.plan([ChatFault(faults.SILENT, "getGateway")])
        connecting = asyncio.create_task(scene.connect())
        await until(lambda: bool(scene.lab.calls("getGateway")))
        await scene.adapter.disconnect()
        with pytest.raises(NotNow):
            await connecting
        await until(lambda: scene.lab.under_way == 0)
        scene.lab.say(scene.ann, "hello")
        assert scene.desk.taken == []

    play(tmp_path, steps, connected=False)


def test_two_accounts_share_neither_address_nor_token(tmp_path: Path) -> None:
    """The SDK keeps its address for all of a process; here each account has its own."""

    async def run() -> None:
        with DiscordLab() as one, DiscordLab() as two:
            scenes = [Scene(lab, tmp_path) for lab in (one, two)]
            for scene in scenes:
                await scene.connect()
            for number, scene in enumerate(scenes):
                scene.lab.say(scene.ann, f"to {number}")
                await scene.adapter.send(scene.part(f"from {number}"))
            for number, scene in enumerate(scenes):
                assert [inbound.text for inbound in await scene.hear(1)] == [f"to {number}"]
                assert scene.lab.seen(scene.channel) == [f"from {number}"]
                await scene.adapter.disconnect()
                assert scene.lab.complaints == []

    asyncio.run(run())


def test_a_proxy_of_the_environment_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert link_module.find_proxy("https://discord.com/api/v10") is None
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert link_module.find_proxy("https://discord.com/api/v10") == "http://proxy.example:3128"
    monkeypatch.setenv("no_proxy", "discord.com")
    assert link_module.find_proxy("https://discord.com/api/v10") is None


def test_the_probe_says_which_bot_it_is(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        assert "It is lab_bot (Lab_Bot); it may read messages." in await probe(scene.settings, tmp_path)
        scene.lab.allow_content(False)
        assert "may NOT read" in await probe(scene.settings, tmp_path)
        with pytest.raises(ConfigProblem, match="does not know"):
            await probe({**scene.settings, "token": "a.b.c"}, tmp_path)
        with pytest.raises(ConfigProblem, match="cannot be asked"):
            await probe({**scene.settings, "base_url": "http://127.0.0.1:1"}, tmp_path)

    play(tmp_path, steps, connected=False)


def test_the_sdk_is_loaded_when_the_platform_is_on_and_not_before() -> None:
    script = (
        "import sys; from gateway.platforms import platform_list; platform_list.all_specs(); "
        "assert 'gateway.platforms.discord' in sys.modules; assert 'discord' not in sys.modules; "
        "assert 'aiohttp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
