"""The Telegram adapter with the real SDK, against a server on loopback that judges what it is told."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.face import (
    Accepted,
    HookRequest,
    MenuCommand,
    NeverTaken,
    NotNow,
    Part,
    Refused,
)
from gateway.platforms.telegram import poll_rules, watching
from gateway.platforms.telegram.adapter import TelegramAdapter
from gateway.platforms.telegram.link import open_link
from gateway.platforms.telegram.poll_rules import HOOK_TAKEN, TWO_POLLERS
from gateway.platforms.telegram.probe import describe_bot, probe
from gateway.platforms.telegram.refusals import BotTrouble, TroubleKind
from gateway.platforms.telegram.watching import SECRET_HEADER
from gateway.platforms.telegram.wire_out import BotCall, derive_secret
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.telegram.telegram_lab import TelegramLab

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000"
    "000049454e44ae426082"
)


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

    def wake_delivery(self, address: Address) -> None:
        self.woken.append(address)

    @property
    def texts(self) -> list[str]:
        return [inbound.text for inbound in self.taken]


class Scene:
    def __init__(self, lab: TelegramLab, home: Path, **settings: Any) -> None:
        self.lab = lab
        self.desk = Desk()
        self.settings = {"token": lab.token, "base_url": lab.address, **settings}
        made = platform_list.make_adapter(platform_list.find_spec("telegram"), "bot", self.settings, home)
        assert isinstance(made, TelegramAdapter)
        self.adapter = made
        self.ann = lab.add_person("Ann", "ann")
        self.home = home

    @property
    def dm(self) -> Address:
        return Address("telegram", "bot", str(self.ann))

    def part(self, text: str, at: Address | None = None, **more: Any) -> Part:
        return Part(at or self.dm, text, markup="telegram_html", **more)

    async def connect(self) -> None:
        await self.adapter.connect(self.desk)

    async def hear(self, count: int) -> list[Inbound]:
        await until(lambda: len(self.desk.taken) >= count)
        assert len(self.desk.taken) == count
        return self.desk.taken


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
        with TelegramLab() as lab:
            lab.set_rates(chat=None, group=None, account=None)
            scene = Scene(lab, home, **settings)
            if connected:
                await scene.connect()
            try:
                await steps(scene)
            finally:
                await scene.adapter.disconnect()
            assert not faultless or lab.complaints == []

    asyncio.run(run())


# --- what comes in


def test_a_message_is_confirmed_when_it_is_stored_and_not_before(tmp_path: Path) -> None:
    """C1: what the gateway has not stored stays with Telegram."""

    async def steps(scene: Scene) -> None:
        gate = scene.desk.held[str(scene.ann)] = asyncio.Event()
        scene.lab.say(scene.ann, "hello")
        await until(lambda: any(call["status"] == 200 for call in scene.lab.calls("getUpdates")))
        assert len(scene.lab.pending()) == 1
        gate.set()
        await until(lambda: scene.lab.pending() == [])
        assert [inbound.text for inbound in await scene.hear(1)] == ["hello"]

    play(tmp_path, steps)


def test_a_slow_chat_keeps_its_order_and_holds_up_no_other(tmp_path: Path) -> None:
    """C3."""

    async def steps(scene: Scene) -> None:
        bob = scene.lab.add_person("Bob")
        for n in range(3):
            scene.lab.say(scene.ann, f"ann {n}")
            scene.lab.say(bob, f"bob {n}")
        gate = scene.desk.held[str(scene.ann)] = asyncio.Event()
        await scene.connect()
        await until(lambda: scene.desk.texts == ["bob 0", "bob 1", "bob 2"])
        assert len(scene.lab.pending()) == 6
        gate.set()
        await until(lambda: scene.desk.texts[3:] == ["ann 0", "ann 1", "ann 2"])
        await until(lambda: scene.lab.pending() == [])

    play(tmp_path, steps, connected=False)


def test_one_odd_update_takes_no_other_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(scene: Scene) -> None:
        await until(lambda: len(scene.lab.calls("getUpdates")) == 1)  # it has said what it wants by now
        scene.lab.push("message", {"message_id": 1, "text": "private words"})
        scene.lab.say(scene.ann, "hello")
        await scene.hear(1)
        await until(lambda: scene.lab.pending() == [])

    play(tmp_path, steps)
    assert "cannot be read" in caplog.text
    assert "private words" not in caplog.text


def test_what_a_gateway_that_ends_does_not_take_comes_at_the_next_start(tmp_path: Path) -> None:
    """C1, C14."""

    async def steps(scene: Scene) -> None:
        scene.desk.refusal = Refused("Hermes ends.", closing=True)
        scene.lab.say(scene.ann, "hello")
        await until(lambda: any(call["status"] == 200 for call in scene.lab.calls("getUpdates")))
        await scene.adapter.disconnect()
        assert (len(scene.lab.pending()), scene.desk.taken, scene.lab.seen(scene.ann)) == (1, [], [])
        scene.desk.refusal = None
        await scene.connect()
        await scene.hear(1)

    play(tmp_path, steps)


def test_a_refusal_is_told_once_and_confirmed(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.desk.refusal = Refused("The disk is full.")
        for n in range(3):
            scene.lab.say(scene.ann, f"hello {n}")
        await until(lambda: scene.lab.pending() == [])
        assert scene.lab.seen(scene.ann) == ["The disk is full."]
        scene.desk.refusal = None
        scene.lab.say(scene.ann, "now?")
        await scene.hear(1)

    play(tmp_path, steps)


def test_who_cannot_be_told_of_a_refusal_holds_up_nobody(tmp_path: Path) -> None:
    """C1: what was told to be refused does not come again because somebody else cannot be told."""

    async def steps(scene: Scene) -> None:
        eve = scene.lab.add_person("Eve")
        scene.lab.say(eve, "first")
        await scene.hear(1)
        scene.desk.refusal = Refused("The disk is full.")
        scene.lab.say(eve, "second")
        scene.lab.plan([{"kind": "error", "method": "sendMessage", "chat": str(eve), "status": 403, "times": 0}])
        scene.lab.say(scene.ann, "hello")
        await until(lambda: scene.lab.pending() == [])
        assert scene.lab.seen(scene.ann) == ["The disk is full."]

    play(tmp_path, steps)


def test_edits_are_revisions_of_one_message(tmp_path: Path) -> None:
    """C1."""

    async def steps(scene: Scene) -> None:
        message = scene.lab.say(scene.ann, "hello wrold")
        scene.lab.edit(scene.ann, message, "hello world")
        first, second = await scene.hear(2)
        assert first.stem == second.stem
        assert (first.revision, second.text) == ("", "hello world")
        assert second.revision

    play(tmp_path, steps)


def test_in_groups_what_speaks_to_us_is_marked(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        group = scene.lab.add_group("Ops", [scene.ann], admin=True)
        place = Address("telegram", "bot", str(group), "group")
        ours = await scene.adapter.send(scene.part("I am here", place))
        for text in ("to nobody", "hey @lab_bot!", "/stop@lab_bot", "/stop@other_bot", "/stop"):
            scene.lab.say(scene.ann, text, chat=group)
        scene.lab.say(scene.ann, "to you", chat=group, reply_to=int(ours))
        heard = await scene.hear(5)
        assert [(inbound.text, inbound.mentioned) for inbound in heard] == [
            ("to nobody", False),
            ("hey @lab_bot!", True),
            ("/stop", True),
            ("/stop", False),
            ("to you", True),
        ]
        assert {inbound.address for inbound in heard} == {place}
        assert (heard[-1].reply_to, heard[-1].quote) == (ours, "I am here")

    play(tmp_path, steps)


def test_a_topic_is_a_place_of_its_own_both_ways(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        group = scene.lab.add_group("Ops", [scene.ann], forum=True, admin=True)
        scene.lab.say(scene.ann, "in general", chat=group)
        topic = scene.lab.add_topic(group, "Plans")
        scene.lab.say(scene.ann, "in the topic", chat=group, thread=topic)
        in_general, in_topic = await scene.hear(2)
        assert (in_topic.address.thread, in_general.address.thread) == (str(topic), "")
        assert in_topic.address.chat_key != in_general.address.chat_key
        await scene.adapter.typing(in_topic.address)
        await scene.adapter.typing(in_general.address)
        await scene.adapter.send(scene.part("there", in_topic.address, reply_to=in_topic.message))
        await scene.adapter.send(scene.part("here", in_general.address))
        assert scene.lab.seen(group, topic) == ["there"]
        assert scene.lab.seen(group) == ["there", "here"]

    play(tmp_path, steps)


def test_a_question_has_buttons_and_a_press_is_its_answer(tmp_path: Path) -> None:
    """G4: the press names the question; Telegram gets its sign when it is stored."""

    async def steps(scene: Scene) -> None:
        sent = await scene.adapter.send(scene.part("Sure?", question="q1", choices=("yes", "no", "always")))
        gate = scene.desk.held[str(scene.ann)] = asyncio.Event()
        press = scene.lab.press(scene.ann, int(sent), "no")
        await until(lambda: any(call["status"] == 200 for call in scene.lab.calls("getUpdates")))
        assert not scene.lab.press_state(press)["answered"]
        gate.set()
        (inbound,) = await scene.hear(1)
        assert (inbound.question, inbound.text, inbound.sender) == ("q1", "no", str(scene.ann))
        await until(lambda: scene.lab.press_state(press)["answered"])
        await scene.adapter.edit(sent, scene.part("Sure? No."))
        assert "reply_markup" not in scene.lab.messages(scene.ann)[-1]

    play(tmp_path, steps)


def test_files_of_people_are_fetched_and_an_album_is_named(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.lab.send(scene.ann, "document", b"the plan", name="plan.txt", caption="see")
        scene.lab.send_album(
            scene.ann, [{"kind": "photo", "data": PNG, "caption": "two"}, {"kind": "photo", "data": PNG + b"x"}]
        )
        document, *album = await scene.hear(3)
        (file,) = document.files
        assert (file.name, file.size, file.path, document.text) == ("plan.txt", 8, "", "see")
        await scene.adapter.fetch(file, scene.home / "got")
        assert (scene.home / "got").read_bytes() == b"the plan"
        assert album[0].album == album[1].album != ""
        assert [inbound.files[0].kind for inbound in album] == ["image", "image"]
        assert [inbound.text for inbound in album] == ["two", ""]

    play(tmp_path, steps)


def test_a_file_that_cannot_be_had_is_said_in_a_sentence(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.lab.send(scene.ann, "document", name="film.mkv", size=30 * 1024 * 1024)
        (inbound,) = await scene.hear(1)
        with pytest.raises(NeverTaken, match="20 MB"):
            await scene.adapter.fetch(inbound.files[0], scene.home / "got")
        with pytest.raises(NeverTaken, match="does not have the file"):
            await scene.adapter.fetch(FileRef("", "x", remote="nothing"), scene.home / "got")
        assert not (scene.home / "got").exists()

    play(tmp_path, steps, faultless=False)


# --- what goes out


def test_markup_is_shown_and_refused_markup_may_go_plain(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        await scene.adapter.send(scene.part("a <b>bold</b> word"))
        shown = scene.lab.messages(scene.ann)[-1]
        assert shown["text"] == "a bold word"
        assert shown["entities"] == [{"type": "bold", "offset": 2, "length": 4}]
        assert scene.lab.complaints == []
        with pytest.raises(NeverTaken) as refused:
            await scene.adapter.send(scene.part("a <p>bad</p> word"))
        assert refused.value.markup
        with pytest.raises(NeverTaken) as long:
            await scene.adapter.send(scene.part("a" * 4097))
        assert not long.value.markup

    play(tmp_path, steps, faultless=False)


def test_an_edit_to_the_same_is_done_and_one_of_nothing_is_refused(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        sent = await scene.adapter.send(scene.part("before"))
        for _ in range(2):
            await scene.adapter.edit(sent, scene.part("after"))
        assert scene.lab.seen(scene.ann) == ["after"]
        for missing in ("999", "no number"):
            with pytest.raises(NeverTaken):
                await scene.adapter.edit(missing, scene.part("x"))

    play(tmp_path, steps, faultless=False)


def test_patience_is_asked_for_in_every_call(tmp_path: Path) -> None:
    """C8: also of edits, typing and signs."""

    async def steps(scene: Scene) -> None:
        sent = await scene.adapter.send(scene.part("before"))
        theirs = scene.lab.say(scene.ann, "hello")
        scene.lab.punish(30, scene.ann)
        for call in (
            scene.adapter.send(scene.part("x")),
            scene.adapter.edit(sent, scene.part("after")),
            scene.adapter.typing(scene.dm),
            scene.adapter.acknowledge(scene.dm, str(theirs)),
        ):
            with pytest.raises(NotNow) as wait:
                await call
            assert wait.value.seconds is not None
            assert 0 < wait.value.seconds <= 30
        assert scene.lab.seen(scene.ann) == ["before"]

    play(tmp_path, steps, faultless=False)


def test_who_blocked_the_bot_is_waited_for_until_they_are_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C9: the message waits; a word from them, or the end of the block, wakes what waits."""

    async def steps(scene: Scene) -> None:
        for come_back in (lambda: scene.lab.unblock(scene.ann), lambda: scene.lab.say(scene.ann, "hello")):
            scene.lab.block(scene.ann)
            with pytest.raises(NotNow, match="blocked the bot") as blocked:
                await scene.adapter.send(scene.part("x"))
            assert blocked.value.seconds is None
            assert not scene.adapter.reachable(scene.dm)
            scene.desk.woken.clear()
            scene.lab.unblock(scene.ann)
            come_back()
            await until(lambda: scene.desk.woken == [scene.dm])
            assert scene.adapter.reachable(scene.dm)
            await scene.adapter.send(scene.part("x"))

    play(tmp_path, steps)
    assert "has blocked the bot" in caplog.text


def test_a_bot_that_was_removed_waits_until_it_is_added_again(tmp_path: Path) -> None:
    """C9."""

    async def steps(scene: Scene) -> None:
        group = scene.lab.add_group("Ops", [scene.ann])
        place = Address("telegram", "bot", str(group), "group")
        scene.lab.remove_bot(group)
        with pytest.raises(NotNow, match="removed from the chat") as removed:
            await scene.adapter.send(scene.part("x", place))
        assert removed.value.seconds is None
        scene.lab.admit_bot(group)
        await until(lambda: scene.desk.woken == [place])
        await scene.adapter.send(scene.part("x", place))

    play(tmp_path, steps)


def test_a_group_that_got_another_id_is_followed(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        group = scene.lab.add_group("Ops", [scene.ann], kind="group")
        place = Address("telegram", "bot", str(group), "group")
        await scene.adapter.disconnect()  # nobody hears of the change
        new = scene.lab.migrate(group)
        await scene.connect()
        await scene.adapter.send(scene.part("one", place))
        await scene.adapter.send(scene.part("two", place))
        assert scene.lab.seen(new) == ["one", "two"]
        assert len(scene.lab.calls("sendMessage", group)) <= 1

    play(tmp_path, steps)


def test_no_message_of_a_group_that_moved_is_edited(tmp_path: Path) -> None:
    """C7: there the number belongs to another message."""

    async def steps(scene: Scene) -> None:
        group = scene.lab.add_group("Ops", [scene.ann], kind="group")
        place = Address("telegram", "bot", str(group), "group")
        old = await scene.adapter.send(scene.part("a question", place))
        await scene.adapter.disconnect()
        new = scene.lab.migrate(group)
        await scene.connect()
        while (await scene.adapter.send(scene.part("something else", Address("telegram", "bot", str(new))))) < old:
            pass
        before = scene.lab.seen(new)
        for _ in range(2):
            with pytest.raises(NeverTaken):
                await scene.adapter.edit(old, scene.part("another text", place))
        assert scene.lab.seen(new) == before

    play(tmp_path, steps)


def test_a_group_that_tells_of_its_new_id_is_written_to_there(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        group = scene.lab.add_group("Ops", [scene.ann], kind="group")
        new = scene.lab.migrate(group)
        await until(lambda: scene.lab.pending() == [])
        await scene.adapter.send(scene.part("one", Address("telegram", "bot", str(group), "group")))
        assert scene.lab.seen(new) == ["one"]
        assert scene.lab.calls("sendMessage", group) == []

    play(tmp_path, steps)


@pytest.mark.parametrize(
    ("name", "kind", "method"),
    [
        ("cat.png", "image", "sendPhoto"),
        ("note.ogg", "audio", "sendVoice"),
        ("song.mp3", "audio", "sendAudio"),
        ("plan.txt", "file", "sendDocument"),
    ],
)
def test_files_arrive_as_what_they_are(tmp_path: Path, name: str, kind: str, method: str) -> None:
    async def steps(scene: Scene) -> None:
        path = tmp_path / name
        path.write_bytes(PNG)
        sent = await scene.adapter.send_file(scene.part("<b>see</b>"), FileRef(str(path), name, kind))
        assert scene.lab.seen(scene.ann) == [name]
        shown = scene.lab.messages(scene.ann)[-1]
        assert (str(shown["message_id"]), shown["caption"]) == (sent, "see")
        assert len(scene.lab.calls(method)) == 1

    play(tmp_path, steps)


def test_a_long_caption_goes_ahead_of_its_file_once(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        path = tmp_path / "plan.txt"
        path.write_bytes(b"x")
        caption, file = "word " * 400, FileRef(str(path), "plan.txt")
        scene.lab.plan([ChatFault(faults.TOO_MANY, "sendDocument", seconds=0.1)])
        with pytest.raises(NotNow):
            await scene.adapter.send_file(scene.part(caption, key="7:0"), file)
        await asyncio.sleep(0.2)
        await scene.adapter.send_file(scene.part(caption, key="7:0"), file)
        assert scene.lab.seen(scene.ann) == [caption.strip(), "plan.txt"]

    play(tmp_path, steps, faultless=False)


def test_a_file_that_cannot_be_sent_is_said_in_a_sentence(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        with pytest.raises(NeverTaken, match="cannot be read any more"):
            await scene.adapter.send_file(scene.part("x"), FileRef(str(tmp_path / "gone"), "gone.txt"))
        large = tmp_path / "large"
        with large.open("wb") as file:
            file.truncate(50_000_001)
        with pytest.raises(NeverTaken, match="larger than Telegram takes"):
            await scene.adapter.send_file(scene.part("x"), FileRef(str(large), "large.bin"))

    play(tmp_path, steps)


def test_a_message_that_was_taken_gets_its_sign(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        message = scene.lab.say(scene.ann, "hello")
        await scene.adapter.acknowledge(scene.dm, str(message))
        assert "👀" in str(scene.lab.messages(scene.ann)[-1]["reactions"])
        await scene.adapter.acknowledge(scene.dm, "press-17")

    play(tmp_path, steps)


def test_a_chat_without_reactions_is_asked_once(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        group = scene.lab.add_group("Ops", [scene.ann], admin=True)
        scene.lab.change_chat(group, reactions=False)
        place = Address("telegram", "bot", str(group), "group")
        for n in range(3):
            message = scene.lab.say(scene.ann, f"hello {n}", chat=group)
            await scene.adapter.acknowledge(place, str(message))
        assert len(scene.lab.calls("setMessageReaction")) == 1

    play(tmp_path, steps, faultless=False)


def test_a_message_that_was_deleted_takes_no_sign_and_others_still_do(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        first = scene.lab.say(scene.ann, "one")
        scene.lab.delete(scene.ann, first)
        await scene.adapter.acknowledge(scene.dm, str(first))
        second = scene.lab.say(scene.ann, "two")
        await scene.adapter.acknowledge(scene.dm, str(second))
        assert len(scene.lab.calls("setMessageReaction")) == 2

    play(tmp_path, steps)


def test_what_is_switched_off_while_it_connects_hears_nothing(tmp_path: Path) -> None:
    """I3: one that nobody holds any more would poll beside its successor for ever."""

    async def steps(scene: Scene) -> None:
        for pause in (0.001, 0.005, 0.02, 0.1):
            connecting = asyncio.create_task(scene.connect())
            await asyncio.sleep(pause)
            await scene.adapter.disconnect()
            await asyncio.gather(connecting, return_exceptions=True)
        polls = len(scene.lab.calls("getUpdates"))
        scene.lab.say(scene.ann, "is anybody there?")
        await asyncio.sleep(0.2)
        assert scene.desk.taken == []
        assert len(scene.lab.calls("getUpdates")) == polls

    play(tmp_path, steps, connected=False, faultless=False)


def test_signs_can_be_switched_off(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        assert not scene.adapter.spec.has_receipts

    play(tmp_path, steps, connected=False, reactions=False)


def test_the_menu_is_offered_and_its_names_are_turned_back(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        await scene.adapter.offer_commands([MenuCommand("help", "Show the commands."), MenuCommand("do-it", "Do it.")])
        assert [row["command"] for row in scene.lab.menu(scene.ann)] == ["help", "do_it"]
        scene.lab.say(scene.ann, "/do_it now")
        (inbound,) = await scene.hear(1)
        assert inbound.text == "/do-it now"

    play(tmp_path, steps)


# --- troubles of the line


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408])
def test_what_somebody_between_says_is_not_telegrams_word(tmp_path: Path, status: int) -> None:
    """C7: a proxy's page ends no answer, parks none, and says nothing on the token."""

    async def steps(scene: Scene) -> None:
        scene.lab.plan([ChatFault(faults.PAGE, "sendMessage", status=status)])
        with pytest.raises(DeliveryFailure) as doubt:
            await scene.adapter.send(scene.part("hello"))
        assert doubt.type is DeliveryFailure
        assert scene.adapter.problem == ""
        assert await scene.adapter.send(scene.part("hello"))

    play(tmp_path, steps)


def test_a_call_without_an_answer_may_have_arrived(tmp_path: Path) -> None:
    """C7: only a connection that was never made says for sure that nothing was sent."""

    async def steps(scene: Scene) -> None:
        for kind in (faults.CUT_BEFORE, faults.CUT_AFTER, faults.ERROR, faults.PAGE):
            scene.lab.plan([ChatFault(kind, "sendMessage")])
            with pytest.raises(DeliveryFailure) as doubt:
                await scene.adapter.send(scene.part(kind))
            assert doubt.type is DeliveryFailure
        link = await open_link(scene.lab.token, scene.lab.address)
        scene.lab.plan([ChatFault(faults.SILENT, "sendMessage")])
        with pytest.raises(BotTrouble) as silent:
            await link.call(BotCall("sendMessage", {"chat_id": scene.ann, "text": "x"}), seconds=0.2)
        assert silent.value.kind is TroubleKind.UNSURE
        await link.close()
        scene.lab.stop()
        with pytest.raises(NotNow, match="cannot be reached") as unsent:
            await scene.adapter.send(scene.part("x"))
        assert unsent.value.seconds is not None
        assert unsent.value.whole_account
        scene.lab.start()

    play(tmp_path, steps, faultless=False)


def test_polling_outlives_whatever_the_line_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C1, C13."""
    monkeypatch.setattr(watching, "FIRST_PAUSE", 0.01)

    async def steps(scene: Scene) -> None:
        kinds = (faults.CUT_BEFORE, faults.CUT_AFTER, faults.ERROR, faults.PAGE)
        scene.lab.plan(
            [ChatFault(kind, "getUpdates") for kind in kinds] + [ChatFault(faults.LATE, "getUpdates", seconds=0.1)]
        )
        await scene.connect()
        scene.lab.say(scene.ann, "hello")
        await until(lambda: "hello" in scene.desk.texts)
        before = scene.adapter.last_seen
        scene.lab.cut()
        scene.lab.say(scene.ann, "again")
        await until(lambda: "again" in scene.desk.texts)
        assert scene.adapter.last_seen > before
        assert scene.adapter.problem == ""

    play(tmp_path, steps, connected=False)


def test_a_bad_token_is_said_plainly_and_never_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """G6."""
    token = "12345:AAsecretTOKENhalf"

    async def steps(scene: Scene) -> None:
        with pytest.raises(ConfigProblem, match="does not know the bot's token") as bad:
            await scene.connect()
        assert "BotFather" in scene.adapter.problem
        assert "AAsecret" not in f"{bad.value}{scene.adapter.problem}"
        with pytest.raises(ConfigProblem, match="does not know"):
            await probe(scene.settings, tmp_path)

    with caplog.at_level(logging.DEBUG):
        play(tmp_path, steps, connected=False, faultless=False, token=token)
    assert "AAsecret" not in caplog.text


@pytest.mark.parametrize("settings", [{"token": ""}, {"token": "no token"}, {"mode": "pigeon"}, {"mode": "webhook"}])
def test_settings_that_do_not_do_are_said_plainly(tmp_path: Path, settings: dict[str, str]) -> None:
    async def steps(scene: Scene) -> None:
        with pytest.raises(ConfigProblem) as bad:
            await scene.connect()
        assert bad.value.fix
        assert scene.adapter.problem

    play(tmp_path, steps, connected=False, **settings)


def test_a_token_that_is_revoked_is_told_and_tried_seldom(tmp_path: Path) -> None:
    """C9: what is to be said waits."""

    async def steps(scene: Scene) -> None:
        await until(lambda: len(scene.lab.calls("getUpdates")) == 1)
        scene.lab.revoke()
        await until(lambda: "revoked" in scene.adapter.problem)
        with pytest.raises(NotNow) as wait:
            await scene.adapter.send(scene.part("x"))
        assert wait.value.whole_account
        assert wait.value.seconds is not None
        assert wait.value.seconds > 60
        assert len(scene.lab.calls("getUpdates")) == 1

    play(tmp_path, steps, faultless=False)


def test_two_pollers_are_said_plainly_until_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3 in one process: the second one does not end the first, and both say what is."""
    monkeypatch.setattr(poll_rules, "NORMAL_CONFLICTS", 0)
    monkeypatch.setattr(poll_rules, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(watching, "FIRST_PAUSE", 0.01)

    async def steps(scene: Scene) -> None:
        await until(lambda: len(scene.lab.calls("getUpdates")) == 1)
        other = Scene(scene.lab, tmp_path)
        await other.connect()
        await until(lambda: TWO_POLLERS in (scene.adapter.problem, other.adapter.problem))
        await other.adapter.disconnect()
        await asyncio.sleep(0.3)
        for n in range(2):
            scene.lab.say(scene.ann, f"hello {n}")
            await until(lambda n=n: f"hello {n}" in scene.desk.texts + other.desk.texts)
        await until(lambda: scene.adapter.problem == "")

    play(tmp_path, steps, faultless=False)


def test_the_token_is_in_no_log_whatever_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """G6: the SDK and its HTTP client write addresses, and those hold the token."""
    token = ""

    async def steps(scene: Scene) -> None:
        nonlocal token
        token = scene.lab.token
        for kind in (faults.CUT_BEFORE, faults.PAGE, faults.ERROR, faults.TOO_MANY):
            scene.lab.plan([ChatFault(kind, "send*", seconds=0.01)])
            with pytest.raises(DeliveryFailure) as failure:
                await scene.adapter.send(scene.part("x"))
            assert token.partition(":")[2] not in str(failure.value)
            logging.getLogger("test").error("failed", exc_info=failure.value)
        scene.lab.stop()
        for call in (scene.adapter.send(scene.part("x")), scene.adapter.fetch(FileRef("", "x", remote="f"), tmp_path)):
            with pytest.raises(DeliveryFailure) as failure:
                await call
            logging.getLogger("test").error("failed", exc_info=failure.value)
        scene.lab.start()

    with caplog.at_level(logging.DEBUG):
        play(tmp_path, steps, faultless=False)
    assert token
    assert token.partition(":")[2] not in caplog.text


def test_before_it_is_connected_everything_waits(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        for call in (
            scene.adapter.send(scene.part("x")),
            scene.adapter.typing(scene.dm),
            scene.adapter.offer_commands([]),
            scene.adapter.fetch(FileRef("", "x", remote="f"), tmp_path / "x"),
        ):
            with pytest.raises(NotNow):
                await call
        assert (await scene.adapter.receive_hook(hook(b"{}", "x"))).status == 404

    play(tmp_path, steps, connected=False)


# --- the webhook


def hook(body: bytes, secret: str, method: str = "POST", path: str = "") -> HookRequest:
    return HookRequest(method, path, {SECRET_HEADER: secret, "content-type": "application/json"}, {}, body)


@asynccontextmanager
async def serving(scenes: list[Scene]) -> AsyncIterator[str]:
    """An HTTP server that hands requests to the adapter of the scene, as the gateway's does; its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        assert path == "/hooks/telegram/bot"
        given = await scenes[0].adapter.receive_hook(HookRequest(method, "", headers, {}, body))
        writer.write(f"HTTP/1.1 {given.status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def play_hook(home: Path, steps: Callable[[Scene], Awaitable[None]], **lab_settings: Any) -> None:
    async def run() -> None:
        scenes: list[Scene] = []
        async with serving(scenes) as address:
            with TelegramLab(hook_pause=0.05) as lab:
                scenes.append(Scene(lab, home, mode="webhook", public_url=address + "/"))
                await scenes[0].connect()
                try:
                    await steps(scenes[0])
                finally:
                    await scenes[0].adapter.disconnect()

    asyncio.run(run())


def test_a_webhook_brings_messages_and_hears_yes_when_they_are_stored(tmp_path: Path) -> None:
    """C1: what was not stored is brought again."""

    async def steps(scene: Scene) -> None:
        scene.desk.refusal = Refused("Hermes ends.", closing=True)
        scene.lab.say(scene.ann, "hello")
        scene.lab.say(scene.ann, "there")
        await until(lambda: any(attempt["status"] == 503 for attempt in scene.lab.attempts()))
        scene.desk.refusal = None
        await until(lambda: scene.desk.texts == ["hello", "there"])
        await until(lambda: scene.lab.pending() == [])
        assert scene.lab.calls("getUpdates") == []
        assert await scene.adapter.send(scene.part("answer"))

    play_hook(tmp_path, steps)


def test_a_request_without_the_secret_is_turned_away(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        secret = derive_secret(scene.lab.token, "bot")
        message = b'{"update_id": 1, "message": {"message_id": 1, "date": 1, "text": "hi", '
        message += b'"from": {"id": 5}, "chat": {"id": 5, "type": "private"}}}'
        for wrong in ("", "x", secret + "x", secret.upper(), "ä"):
            assert (await scene.adapter.receive_hook(hook(message, wrong))).status == 401
        assert (await scene.adapter.receive_hook(hook(message, secret, path="more"))).status == 404
        assert (await scene.adapter.receive_hook(hook(message, secret, method="GET"))).status == 405
        assert (await scene.adapter.receive_hook(hook(b"{", secret))).status == 400
        assert (await scene.adapter.receive_hook(hook(b'{"update_id": 2, "message": 3}', secret))).status == 200
        assert scene.desk.taken == []
        assert (await scene.adapter.receive_hook(hook(message, secret))).status == 200
        assert scene.desk.texts == ["hi"]

    play_hook(tmp_path, steps)


def test_a_webhook_that_another_program_took_is_set_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: it is looked at again and again, also when nobody writes."""
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.05)

    async def steps(scene: Scene) -> None:
        link = await open_link(scene.lab.token, scene.lab.address)
        await link.call(BotCall("deleteWebhook", {}))
        before = scene.adapter.last_seen
        await until(lambda: scene.adapter.problem == HOOK_TAKEN)
        await until(lambda: scene.adapter.problem == "")
        assert scene.adapter.last_seen > before
        found = await link.call(BotCall("getWebhookInfo", {}))
        assert found["url"].endswith("/hooks/telegram/bot")
        await link.close()
        scene.lab.say(scene.ann, "hello")
        await until(lambda: scene.desk.texts == ["hello"])

    play_hook(tmp_path, steps)


def test_a_webhook_that_telegram_does_not_take_is_said_plainly(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        with pytest.raises(ConfigProblem, match="https url must be provided"):
            await scene.connect()

    play(tmp_path, steps, connected=False, faultless=False, mode="webhook", public_url="http://x.example")


def test_polling_takes_the_webhook_of_before_away(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        link = await open_link(scene.lab.token, scene.lab.address)
        await link.call(BotCall("setWebhook", {"url": "https://x.example/hook"}))
        await link.close()
        await scene.connect()
        assert not scene.adapter.expects_hooks
        scene.lab.say(scene.ann, "hello")
        await scene.hear(1)

    play(tmp_path, steps, connected=False)


# --- set-up and cost


def test_the_probe_says_which_bot_it_is(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        told = await probe(scene.settings, tmp_path)
        assert told.startswith("It is @lab_bot (Lab); ")
        scene.lab.stop()
        with pytest.raises(ConfigProblem, match="cannot be asked"):
            await probe(scene.settings, tmp_path)
        scene.lab.start()

    play(tmp_path, steps, connected=False)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"can_read_all_group_messages": True}, "every message"),
        ({"can_read_all_group_messages": False}, "privacy mode is on"),
        ({"can_join_groups": False}, "cannot be added to groups"),
    ],
)
def test_whoever_sets_it_up_hears_what_it_reads_in_groups(more: dict[str, Any], said: str) -> None:
    told = describe_bot({"username": "Hermes_bot", "first_name": "Hermes", **more})
    assert told.startswith("It is @Hermes_bot (Hermes); ")
    assert said in told


def test_the_sdk_is_loaded_when_the_platform_is_on_and_not_before() -> None:
    code = (
        "import sys; from gateway.platforms import platform_list; platform_list.all_specs(); "
        "print('telegram' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
