"""The Matrix adapter with the real SDK, against a real Synapse: each line of its page."""

import asyncio
import copy
import json
import logging
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matrix_peer import PASSWORD, MatrixPerson, MatrixServer, start_server
from matrix_proxy import ANSWER, RECEIPT, SYNC, MatrixProxy, ProxyFault
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.face import Accepted, NeverTaken, NotNow, Part, Refused
from gateway.platforms.matrix import link as matrix_link
from gateway.platforms.matrix import listening, reception, wire_out
from gateway.platforms.matrix.adapter import MatrixAdapter
from gateway.platforms.matrix.probe import probe
from gateway.platforms.matrix.reception import CANNOT_READ
from gateway.platforms.matrix.refusals import LOGGED_OUT
from gateway.platforms.matrix.wire import name_direct
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound

pytestmark = pytest.mark.peers
PATIENCE = 30.0


class Desk:
    """A gateway's door: keeps what it is handed, refuses or holds up what it is told to."""

    def __init__(self) -> None:
        self.taken: list[Inbound] = []
        self.woken: list[Address] = []
        self.refusal: Refused | None = None
        self.refused: list[str] = []
        self.known: set[str] = set()
        self.held: dict[str, asyncio.Event] = {}  # by room: until this is set

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        if inbound.address.chat in self.held:
            await self.held[inbound.address.chat].wait()
        if self.refusal is not None:
            self.refused.append(inbound.text)
            return self.refusal
        known = any(inbound.ext_id == other.ext_id for other in self.taken)
        if not known:
            self.taken.append(inbound)
        return Accepted(inbound.key("default"), None if known else len(self.taken))

    async def find_last(self, account_key: str) -> Mapping[Address, str]:
        return {inbound.address: inbound.message for inbound in self.taken if not inbound.revision}

    async def knows(self, platform: str, sender: str, name: str = "") -> bool:
        return sender in self.known

    def wake_delivery(self, address: Address) -> None:
        self.woken.append(address)

    @property
    def texts(self) -> list[str]:
        return [inbound.text for inbound in self.taken]


class Scene:
    def __init__(self, server: MatrixServer, proxy: MatrixProxy, home: Path, **settings: Any) -> None:
        self.server, self.proxy, self.home = server, proxy, home
        self.bot, self.ann = server.add_person("Hermes"), server.add_person("Ann")
        self.settings = {"homeserver": proxy.address, "user": self.bot.id, "password": PASSWORD, **settings}
        self.desk = Desk()
        self.desk.known = {self.ann.id}
        self.adapter = self.make_adapter()
        self.room = self.ann.make_room(self.bot.id)
        self.dm = Address("matrix", "bot", name_direct(self.room, self.ann.id))

    def make_adapter(self) -> MatrixAdapter:
        made = platform_list.make_adapter(platform_list.find_spec("matrix"), "bot", self.settings, self.home)
        assert isinstance(made, MatrixAdapter)
        return made

    @property
    def files(self) -> Path:
        return self.home / "platforms" / "matrix-bot"

    async def connect(self) -> None:
        """Connected, and in the room."""
        await self.adapter.connect(self.desk)
        await until((self.files / "listened.json").exists, PATIENCE)
        await self.until_in(self.room)

    async def until_in(self, room: str) -> None:
        await until(lambda: self.adapter._rooms.is_in(room), PATIENCE)

    async def restart(self) -> None:
        """Another process in the same home."""
        await self.adapter.disconnect()
        self.adapter = self.make_adapter()
        await self.adapter.connect(self.desk)

    async def hear(self, count: int) -> list[Inbound]:
        await until(lambda: len(self.desk.taken) >= count, PATIENCE)
        return self.desk.taken

    def part(self, text: str, key: str = "1:0", **more: Any) -> Part:
        return replace(Part(self.dm, text, key=key, row=1), **more)

    def shown(self, room: str = "") -> list[dict[str, Any]]:
        return self.ann.messages(room or self.room, self.bot.id)

    def make_group(self, *others: MatrixPerson) -> str:
        room = self.ann.make_room(self.bot.id, *(one.id for one in others), is_direct=False)
        for one in others:
            one.join(room)
        return room


def play(tmp_path: Path, steps: Callable[[Scene], Awaitable[None]], *, connected: bool = True, **settings: Any) -> None:
    async def run() -> None:
        server = start_server()
        with MatrixProxy(server.address) as proxy:
            scene = Scene(server, proxy, tmp_path, **settings)
            try:
                if connected:
                    await scene.connect()
                await steps(scene)
            finally:
                await scene.adapter.disconnect()

    asyncio.run(run())


@pytest.fixture
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The homeserver tells few events at once."""
    short = copy.deepcopy(dict(wire_out.SYNC_FILTER))
    short["room"]["timeline"]["limit"] = 5
    monkeypatch.setattr(matrix_link, "SYNC_FILTER", short)
    monkeypatch.setattr(matrix_link, "TIMELINE_EVENTS", 5)


# --- invitations


def test_only_whom_we_know_may_invite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: a stranger's invitation gets no answer, not even a no; it waits, also over a restart, until they are let
    in."""
    monkeypatch.setattr(reception, "WEIGH_SECONDS", 0.0)

    async def steps(scene: Scene) -> None:
        bob = scene.server.add_person("Ann")  # the same name opens nothing
        room = bob.make_room(scene.bot.id)
        path = scene.files / "listened.json"
        await until(lambda: room in json.loads(path.read_text())["invited"], PATIENCE)
        await scene.restart()
        scene.ann.say(scene.room, "hello")
        await scene.hear(1)
        assert bob.members(room)[scene.bot.id] == "invite"
        scene.desk.known.add(bob.id)
        bob.say(room, "let me in")
        scene.ann.say(scene.room, "he is let in")
        await until(lambda: "let me in" in scene.desk.texts, PATIENCE)
        assert bob.members(room)[scene.bot.id] == "join"
        assert bob.messages(room, scene.bot.id) == []

    play(tmp_path, steps)


@pytest.mark.usefixtures("short_pages")
def test_what_was_said_before_we_joined_is_heard_from_the_invitation_on(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        await scene.adapter.disconnect()
        room = scene.ann.make_room()
        scene.ann.say(room, "before the invitation")
        scene.ann.invite(room, scene.bot.id)
        for n in range(12):  # more than one sync tells
            scene.ann.say(room, f"line {n}")
        await scene.restart()
        await scene.hear(12)
        assert scene.desk.texts == [f"line {n}" for n in range(12)]

    play(tmp_path, steps)


# --- listening


def test_history_from_before_our_time_is_not_answered(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.bot.join(scene.room)
        scene.ann.say(scene.room, "long ago")
        await scene.connect()
        scene.ann.say(scene.room, "now")
        await scene.hear(1)
        assert scene.desk.texts == ["now"]

    play(tmp_path, steps, connected=False)


@pytest.mark.usefixtures("short_pages")
def test_a_long_absence_leaves_no_gap(tmp_path: Path) -> None:
    """C1, C3: also where the homeserver tells only the end of it."""

    async def steps(scene: Scene) -> None:
        scene.ann.say(scene.room, "before")
        await scene.hear(1)
        await scene.adapter.disconnect()
        missed = [f"missed {n}" for n in range(18)]
        for text in missed:
            scene.ann.say(scene.room, text)
        await scene.restart()
        await scene.hear(19)
        assert scene.desk.texts == ["before", *missed]

    play(tmp_path, steps)


@pytest.mark.usefixtures("short_pages")
@pytest.mark.parametrize("kept", ["nothing", "a place that nobody knows"])
def test_without_its_place_the_store_says_how_far_was_listened(tmp_path: Path, kept: str) -> None:
    """C1: the home was put back from a back-up, or the homeserver forgot."""

    async def steps(scene: Scene) -> None:
        scene.ann.say(scene.room, "before")
        await scene.hear(1)
        await scene.adapter.disconnect()
        path = scene.files / "listened.json"
        if kept == "nothing":
            path.unlink()
        else:
            path.write_text(json.dumps({**json.loads(path.read_text()), "since": "nonsense"}))
        for n in range(12):
            scene.ann.say(scene.room, f"missed {n}")
        await scene.restart()
        await scene.hear(13)
        assert scene.desk.texts == ["before", *(f"missed {n}" for n in range(12))]

    play(tmp_path, steps)


def test_its_place_is_kept_when_all_is_stored_and_not_before(tmp_path: Path) -> None:
    """C1: one room that is slow holds up no other, and a death meanwhile loses nothing."""

    async def steps(scene: Scene) -> None:
        other = scene.ann.make_room(scene.bot.id)
        await scene.until_in(other)
        await scene.adapter.disconnect()
        before = (scene.files / "listened.json").read_text()
        scene.desk.held[scene.dm.chat] = asyncio.Event()
        scene.ann.say(scene.room, "slow")
        scene.ann.say(other, "quick")
        await scene.restart()
        await until(lambda: scene.desk.texts == ["quick"], PATIENCE)
        (listening,) = scene.adapter._kept
        listening.cancel()  # it dies
        assert (scene.files / "listened.json").read_text() == before
        scene.desk.held.clear()
        await scene.restart()
        await scene.hear(2)
        assert sorted(scene.desk.texts) == ["quick", "slow"]

    play(tmp_path, steps)


def test_a_refusal_is_told_once(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.desk.refusal = Refused("The disk is full.")
        for n in range(3):
            scene.ann.say(scene.room, f"hello {n}")
        await until(lambda: "hello 2" in scene.desk.refused, PATIENCE)
        scene.desk.refusal = None
        scene.ann.say(scene.room, "again")
        await scene.hear(1)
        assert [one["text"] for one in scene.shown()] == ["The disk is full."]
        assert scene.desk.texts == ["again"]

    play(tmp_path, steps)


def test_what_a_gateway_that_ends_does_not_take_comes_at_the_next_start(tmp_path: Path) -> None:
    """C1."""

    async def steps(scene: Scene) -> None:
        scene.desk.refusal = Refused("It ends.", closing=True)
        scene.ann.say(scene.room, "too late")
        await until(lambda: bool(scene.desk.refused), PATIENCE)
        assert scene.shown() == []
        scene.desk.refusal = None
        await scene.restart()
        await scene.hear(1)
        assert scene.desk.texts == ["too late"]

    play(tmp_path, steps)


# --- messages


def test_in_groups_what_speaks_to_us_is_marked(tmp_path: Path) -> None:
    """G2."""

    async def steps(scene: Scene) -> None:
        bob = scene.server.add_person("Bob")
        room = scene.make_group(bob)
        await scene.until_in(room)
        ours = await scene.adapter.send(scene.part("I am here", address=replace(scene.dm, chat=room, kind="group")))
        scene.ann.say(room, "to nobody")
        scene.ann.say(room, "Hermes: to us", **{"m.mentions": {"user_ids": [scene.bot.id]}})
        pill = f'<a href="https://matrix.to/#/{scene.bot.id}">Hermes</a> as well'
        scene.ann.say(room, "Hermes as well", format="org.matrix.custom.html", formatted_body=pill)
        bob.say(room, "a reply", **{"m.relates_to": {"m.in_reply_to": {"event_id": ours}}})
        bob.say(room, "below it", **{"m.relates_to": {"rel_type": "m.thread", "event_id": ours}})
        heard = await scene.hear(5)
        assert [(one.text, one.mentioned) for one in heard] == [
            ("to nobody", False),
            ("to us", True),
            ("as well", True),
            ("a reply", True),
            ("below it", True),
        ]
        assert {one.address.kind for one in heard} == {"group"}
        assert (heard[3].quote, heard[3].sender, heard[3].sender_name) == ("I am here", bob.id, "Bob")

    play(tmp_path, steps)


def test_a_thread_is_a_place_of_its_own_both_ways(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        root = scene.ann.say(scene.room, "root")
        said = scene.ann.say(scene.room, "below", **{"m.relates_to": {"rel_type": "m.thread", "event_id": root}})
        _, inbound = await scene.hear(2)
        assert inbound.address == replace(scene.dm, thread=root)
        await scene.adapter.send(scene.part("answer", address=inbound.address, reply_to=said))
        (shown,) = scene.shown()
        assert (shown["thread"], shown["text"]) == (root, "answer")
        await scene.adapter.acknowledge(inbound.address, said)
        assert scene.proxy.calls(RECEIPT)[-1].status == 200

    play(tmp_path, steps)


def test_an_edit_of_somebody_else_changes_nothing(tmp_path: Path) -> None:
    """G2: the homeserver takes it, and no client shows it."""

    async def steps(scene: Scene) -> None:
        bob = scene.server.add_person("Ann")
        room = scene.make_group(bob)
        await scene.until_in(room)
        said = scene.ann.say(room, "pay 5")
        bob.edit(room, said, "pay 500")
        scene.ann.edit(room, said, "pay 6")
        await scene.hear(2)
        assert scene.desk.texts == ["pay 5", "pay 6"]

    play(tmp_path, steps)


def test_what_was_taken_back_before_we_read_it_is_not_read(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        await scene.adapter.disconnect()
        scene.ann.redact(scene.room, scene.ann.say(scene.room, "never mind"))
        scene.ann.say(scene.room, "this")
        await scene.restart()
        await scene.hear(1)
        assert scene.desk.texts == ["this"]

    play(tmp_path, steps)


def test_a_draft_that_somebody_took_away_is_edited_by_nobody(tmp_path: Path) -> None:
    """C7: the answer would be seen by nobody, so it is sent anew."""

    async def steps(scene: Scene) -> None:
        sent = await scene.adapter.send(scene.part("draft …"))
        scene.ann.redact(scene.room, sent)
        await until(lambda: scene.adapter._rooms.is_gone(sent), PATIENCE)
        with pytest.raises(NeverTaken):
            await scene.adapter.edit(sent, scene.part("the answer"))

    play(tmp_path, steps)


def test_markup_typing_and_the_sign_of_having_read_are_seen(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        said = scene.ann.say(scene.room, "hello")
        await scene.hear(1)
        since = scene.ann.sync()["next_batch"]
        await scene.adapter.typing(scene.dm)
        await scene.adapter.acknowledge(scene.dm, said)
        seen = scene.ann.sync(since)["rooms"]["join"][scene.room]["ephemeral"]["events"]
        told = {one["type"]: one["content"] for one in seen}
        assert told["m.typing"]["user_ids"] == [scene.bot.id]
        assert scene.bot.id in told["m.receipt"][said]["m.read"]
        since = scene.ann.sync()["next_batch"]
        await scene.adapter.send(
            scene.part("<strong>bold</strong>\nnext", plain="bold\nnext", markup=scene.adapter.spec.markup)
        )
        (shown,) = scene.shown()
        assert shown["content"]["formatted_body"] == "<strong>bold</strong><br>next"
        assert shown["text"] == "bold\nnext"
        seen = scene.ann.sync(since)["rooms"]["join"][scene.room]["ephemeral"]["events"]
        assert [one["content"]["user_ids"] for one in seen if one["type"] == "m.typing"] == [[]]

    play(tmp_path, steps)


def test_a_key_holds_over_a_restart_of_both_sides(tmp_path: Path) -> None:
    """C7: the device and its transactions are kept; an edit to the text of before is another edit."""

    async def steps(scene: Scene) -> None:
        first = await scene.adapter.send(scene.part("once"))
        await scene.restart()
        assert await scene.adapter.send(scene.part("once")) == first
        for text in ("b", "c", "c", "b"):
            await scene.adapter.edit(first, scene.part(text))
        (shown,) = scene.shown()
        assert (shown["text"], shown["edits"]) == ("b", 3)
        assert len(scene.bot.call("GET", "/devices")["devices"]) == 2  # the test's own, and Hermes'
        other = Scene(scene.server, scene.proxy, tmp_path / "another home")
        other.settings = scene.settings
        other.adapter = other.make_adapter()
        await other.adapter.connect(scene.desk)
        assert await other.adapter.send(scene.part("once")) != first
        await other.adapter.disconnect()

    play(tmp_path, steps)


# --- files


def test_files_arrive_as_what_they_are(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        path = tmp_path / "cat.png"
        path.write_bytes(b"a cat")
        await scene.adapter.send_file(scene.part(""), FileRef(str(path), "cat.png", "image", 5))
        (shown,) = scene.shown()
        assert (shown["content"]["msgtype"], shown["file"]) == ("m.image", "cat.png")
        assert scene.ann.download(shown["content"]["url"]) == b"a cat"

    play(tmp_path, steps)


def test_a_file_that_cannot_be_sent_or_had_is_said_in_a_sentence(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        assert scene.adapter.spec.max_file_bytes == 2 * 1024 * 1024  # as the homeserver says
        large = tmp_path / "large.bin"
        large.write_bytes(bytes(2 * 1024 * 1024 + 1))
        with pytest.raises(NeverTaken, match="larger than Matrix takes"):
            await scene.adapter.send_file(scene.part(""), FileRef(str(large), "large.bin"))
        with pytest.raises(NeverTaken, match="cannot be read any more"):
            await scene.adapter.send_file(scene.part(""), FileRef(str(tmp_path / "none"), "none"))
        gone = FileRef("", "x", remote="mxc://hermes.test/nothing")
        with pytest.raises(NeverTaken, match="does not have the file"):
            await scene.adapter.fetch(gone, tmp_path / "x")
        scene.proxy.plan([ProxyFault(ANSWER, "*/download/*", status=502, body="<html>")])
        scene.ann.send_file(scene.room, "a.txt", b"text")
        (inbound,) = await scene.hear(1)
        with pytest.raises(DeliveryFailure) as doubt:
            await scene.adapter.fetch(inbound.files[0], tmp_path / "x")
        assert doubt.type is DeliveryFailure
        await scene.adapter.fetch(inbound.files[0], tmp_path / "x")
        assert (tmp_path / "x").read_bytes() == b"text"

    play(tmp_path, steps)


# --- rooms that change


def test_a_room_that_we_were_put_out_of_is_waited_for(tmp_path: Path) -> None:
    """C9."""

    async def steps(scene: Scene) -> None:
        scene.ann.kick(scene.room, scene.bot.id)
        await until(lambda: not scene.adapter._rooms.is_in(scene.room), PATIENCE)
        with pytest.raises(NotNow, match="not in the room") as wait:
            await scene.adapter.send(scene.part("hello?"))
        assert wait.value.seconds is None
        assert not scene.adapter.reachable(scene.dm)
        scene.ann.invite(scene.room, scene.bot.id)
        await until(lambda: scene.dm in scene.desk.woken, PATIENCE)
        assert scene.adapter.reachable(scene.dm)
        await scene.adapter.send(scene.part("hello!"))
        assert [one["text"] for one in scene.shown()] == ["hello!"]

    play(tmp_path, steps)


def test_a_room_where_we_may_not_write_is_waited_for(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.ann.set_state(scene.room, "m.room.power_levels", {"users": {}, "events_default": 50, "state_default": 50})
        with pytest.raises(NotNow, match="may not write") as wait:
            await scene.adapter.send(scene.part("hello?"))
        assert wait.value.seconds is None
        assert not scene.adapter.reachable(scene.dm)

    play(tmp_path, steps)


def test_a_room_that_ended_is_followed_to_the_one_in_its_place(tmp_path: Path) -> None:
    """As the person asks for who ended it: a stranger leads us nowhere."""

    async def steps(scene: Scene) -> None:
        new = scene.ann.upgrade(scene.room)
        scene.ann.invite(new, scene.bot.id)
        await scene.until_in(new)
        await until(lambda: scene.adapter._rooms.follow(scene.dm).chat == name_direct(new, scene.ann.id), PATIENCE)
        await scene.adapter.send(scene.part("here now"))
        assert [one["text"] for one in scene.shown(new)] == ["here now"]
        with pytest.raises(NeverTaken, match="replaced"):
            await scene.adapter.edit("$old", scene.part("x"))

    play(tmp_path, steps)


def test_nobody_leads_the_direct_chat_of_somebody_else_to_themselves(tmp_path: Path) -> None:
    """G12: a room in the place of another takes over its direct chat only if its person is there, alone with us."""

    async def steps(scene: Scene) -> None:
        mallory = scene.server.add_person("Mallory")
        scene.desk.known.add(mallory.id)
        scene.ann.set_state(scene.room, "m.room.power_levels", {"users": {mallory.id: 100}})
        scene.ann.invite(scene.room, mallory.id)
        mallory.join(scene.room)
        claims = {"predecessor": {"room_id": scene.room, "event_id": "$last"}}
        new = mallory.make_room(scene.bot.id, creation_content=claims)
        await scene.until_in(new)
        mallory.set_state(scene.room, "m.room.tombstone", {"body": "x", "replacement_room": new})
        await until(lambda: scene.room in scene.adapter._rooms._moved, PATIENCE)
        assert scene.adapter._rooms.follow(scene.dm) == scene.dm
        with pytest.raises(NotNow, match="not alone with Hermes"):
            await scene.adapter.send(scene.part("for Ann only"))
        assert not scene.adapter.reachable(scene.dm)
        mallory.leave(scene.room)
        await until(lambda: scene.adapter.reachable(scene.dm), PATIENCE)
        await scene.adapter.send(scene.part("for Ann only"))
        assert [one["text"] for one in scene.shown()] == ["for Ann only"]
        assert mallory.messages(new, scene.bot.id) == []

    play(tmp_path, steps)


def test_a_room_that_does_not_say_what_it_replaces_is_not_followed(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        new = scene.ann.make_room(scene.bot.id)
        await scene.until_in(new)
        scene.ann.set_state(scene.room, "m.room.tombstone", {"body": "x", "replacement_room": new})
        await until(lambda: scene.room in scene.adapter._rooms._moved, PATIENCE)
        assert scene.adapter._rooms.follow(scene.dm) == scene.dm

    play(tmp_path, steps)


def test_a_direct_chat_is_with_a_person_and_not_with_a_room(tmp_path: Path) -> None:
    """G12: whoever is in the room after them speaks in a chat of their own, and reads nothing of theirs, also after a
    restart, when it is not told who is there."""

    async def steps(scene: Scene) -> None:
        mallory = scene.server.add_person("Mallory")
        scene.desk.known.add(mallory.id)
        scene.ann.say(scene.room, "mine")
        await scene.hear(1)
        scene.ann.invite(scene.room, mallory.id)
        mallory.join(scene.room)
        scene.ann.leave(scene.room)
        mallory.say(scene.room, "now mine")
        first, second = await scene.hear(2)
        assert (first.address.kind, second.address.kind) == ("dm", "dm")
        assert first.address == scene.dm
        assert second.address.conversation("main") != first.address.conversation("main")
        for _ in range(2):
            with pytest.raises(NotNow):
                await scene.adapter.send(scene.part("for Ann only"))
            await scene.adapter.send(scene.part("for Mallory", address=second.address))
            await scene.restart()

    play(tmp_path, steps)


# --- troubles


def test_the_homeserver_asks_for_patience_in_seconds(tmp_path: Path) -> None:
    """C8: Synapse's own limit, with its own words."""

    async def steps(scene: Scene) -> None:
        admin = scene.server.add_person(admin=True)
        path = f"/_synapse/admin/v1/users/{scene.bot.id}/override_ratelimit"
        scene.server.call("POST", path, {"messages_per_second": 1, "burst_count": 1}, admin.token)
        waits = []
        for n in range(50):
            try:
                await scene.adapter.send(scene.part(f"{n}", key=f"{n}:0"))
            except NotNow as wait:
                waits.append(wait)
                break
        assert waits
        assert waits[0].whole_account
        assert 0 < (waits[0].seconds or 0) <= 10

    play(tmp_path, steps)


def test_a_session_that_was_ended_is_told_and_the_next_start_logs_in_anew(tmp_path: Path) -> None:
    """C9, G6: what is to be said waits; the homeserver's own words for a revoked token."""

    async def steps(scene: Scene) -> None:
        token = json.loads((scene.files / "session.json").read_text())["token"]
        scene.server.call("POST", "/_matrix/client/v3/logout", {}, token)
        await until(lambda: LOGGED_OUT in scene.adapter.problem, PATIENCE)
        with pytest.raises(NotNow) as wait:
            await scene.adapter.send(scene.part("x"))
        assert (wait.value.seconds or 0) > 60
        assert token not in f"{wait.value}{scene.adapter.problem}"
        await scene.restart()
        scene.ann.say(scene.room, "there again")
        await scene.hear(1)
        assert scene.adapter.problem == ""

    play(tmp_path, steps)


def test_a_token_that_ran_out_is_renewed_on_the_same_device(tmp_path: Path) -> None:
    """A soft logout: the device stays, and with it its transactions."""

    async def steps(scene: Scene) -> None:
        before = json.loads((scene.files / "session.json").read_text())
        first = await scene.adapter.send(scene.part("once"))
        body = {"errcode": "M_UNKNOWN_TOKEN", "error": "Access token has expired", "soft_logout": True}
        scene.proxy.plan([ProxyFault(ANSWER, SYNC, status=401, body=body)])
        scene.ann.say(scene.room, "ends the call under way")
        await until(lambda: json.loads((scene.files / "session.json").read_text()) != before, PATIENCE)
        after = json.loads((scene.files / "session.json").read_text())
        assert after["device"] == before["device"]
        scene.ann.say(scene.room, "still there")
        await scene.hear(2)
        assert await scene.adapter.send(scene.part("once")) == first

    play(tmp_path, steps)


def test_with_a_token_of_its_own_it_goes_on_as_that_device(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        scene.settings = {**scene.settings, "password": "", "token": scene.bot.token}
        scene.adapter = scene.make_adapter()
        await scene.connect()
        assert json.loads((scene.files / "session.json").read_text())["device"] == scene.bot.device
        assert "encrypted rooms" in await probe({**scene.settings, "account": "bot"}, tmp_path)
        assert len(scene.bot.call("GET", "/devices")["devices"]) == 1

    play(tmp_path, steps, connected=False)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"password": "wrong-pass-word"}, "does not know this user with this password"),
        ({"token": "syt_wrong-pass-word"}, "does not know the access token"),
        ({"user": "@nobody:hermes.test", "password": "wrong-pass-word"}, "does not know this user"),
    ],
)
def test_bad_secrets_are_said_plainly_and_never_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, settings: dict[str, str], words: str
) -> None:
    """G6."""

    async def steps(scene: Scene) -> None:
        with pytest.raises(ConfigProblem, match=words) as bad:
            await scene.adapter.connect(scene.desk)
        assert scene.adapter.problem == str(bad.value)
        with pytest.raises(ConfigProblem, match=words):
            await probe(scene.settings, tmp_path)
        assert "wrong-pass-word" not in f"{bad.value}{caplog.text}"

    with caplog.at_level(logging.DEBUG):
        play(tmp_path, steps, connected=False, **settings)


def test_no_network_is_told_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C1, C13: a homeserver that is gone, answers nonsense or is silent."""
    monkeypatch.setattr(listening, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(matrix_link, "POLL_SECONDS", 1.0)
    monkeypatch.setattr(matrix_link, "ANSWER_SECONDS", 0.5)

    async def steps(scene: Scene) -> None:
        scene.proxy.plan([ProxyFault(ANSWER, SYNC, times=0, status=502, body="<html>bad gateway</html>")])
        scene.proxy.cut()
        await until(lambda: "cannot be reached" in scene.adapter.problem, PATIENCE)
        before = scene.adapter.last_seen
        scene.ann.say(scene.room, "meanwhile")
        scene.proxy.plan([ProxyFault("late", SYNC, seconds=3.0)])  # longer than we wait
        await scene.hear(1)
        assert scene.adapter.last_seen > before
        assert scene.adapter.problem == ""

    play(tmp_path, steps)


def test_where_nobody_listens_it_cannot_be_connected_and_says_so(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        with pytest.raises(NotNow, match="cannot be reached"):
            await scene.adapter.connect(scene.desk)
        assert "cannot be reached" in scene.adapter.problem
        with pytest.raises(NotNow, match="not connected"):
            await scene.adapter.send(scene.part("x"))
        with pytest.raises(ConfigProblem, match="cannot be reached"):
            await probe(scene.settings, tmp_path)

    play(tmp_path, steps, connected=False, homeserver="http://127.0.0.1:9")


def test_what_is_switched_off_while_it_connects_hears_nothing(tmp_path: Path) -> None:
    """I3: one that nobody holds any more would listen beside its successor for ever."""

    async def steps(scene: Scene) -> None:
        for pause in (0.001, 0.02, 0.1, 0.3):
            connecting = asyncio.create_task(scene.adapter.connect(scene.desk))
            await asyncio.sleep(pause)
            await scene.adapter.disconnect()
            await asyncio.gather(connecting, return_exceptions=True)
        await until(lambda: scene.proxy.count_under_way() == 0)
        asked = len(scene.proxy.calls(SYNC))
        scene.ann.say(scene.room, "is anybody there?")
        await asyncio.sleep(0.2)
        assert scene.desk.taken == []
        assert len(scene.proxy.calls(SYNC)) == asked

    play(tmp_path, steps, connected=False)


# --- encrypted rooms, without what they need


def test_an_encrypted_room_is_told_once_that_it_is_not_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never an answer in clear into an encrypted room; one sentence says why, also over a restart."""
    monkeypatch.setattr(matrix_link, "ENCRYPTION_ENABLED", False)

    async def steps(scene: Scene) -> None:
        assert "cannot read encrypted rooms" in await probe({**scene.settings, "account": "bot"}, tmp_path)
        scene.ann.set_state(scene.room, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"})
        locked = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA", "device_id": "X", "sender_key": "k"}
        for session in "ab":
            scene.ann.send(scene.room, {**locked, "session_id": session}, "m.room.encrypted")
        await until(lambda: bool(scene.shown()), PATIENCE)
        path = scene.files / "listened.json"
        await until(lambda: json.loads(path.read_text())["told"] == [scene.room], PATIENCE)
        await scene.restart()
        scene.ann.send(scene.room, {**locked, "session_id": "c"}, "m.room.encrypted")
        with pytest.raises(NotNow, match="cannot encrypt") as wait:
            await scene.adapter.send(scene.part("a secret"))
        assert wait.value.seconds is None
        assert not scene.adapter.reachable(scene.dm)
        path_there = tmp_path / "x.txt"
        path_there.write_text("x")
        with pytest.raises(NotNow, match="cannot encrypt"):
            await scene.adapter.send_file(scene.part(""), FileRef(str(path_there), "x.txt"))
        other = scene.ann.make_room(scene.bot.id)
        scene.ann.say(other, "in clear")
        await until(lambda: "in clear" in scene.desk.texts, PATIENCE)
        assert [one["text"] for one in scene.shown()] == [CANNOT_READ]

    play(tmp_path, steps)


def test_the_sdk_is_loaded_when_the_platform_is_on_and_not_before() -> None:
    code = "import sys; from gateway.platforms import platform_list as p; p.all_specs(); print('nio' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_the_limit_of_an_event_is_as_the_homeserver_has_it(tmp_path: Path) -> None:
    async def steps(scene: Scene) -> None:
        words = '"' * scene.adapter.spec.max_length
        sent = await scene.adapter.send(scene.part(words))
        await scene.adapter.edit(sent, scene.part(words[:-1]))
        assert [one["text"] for one in scene.shown()] == [words[:-1]]
        assert wire_out.measure(scene.shown()[0]["content"]) < 65_536

    play(tmp_path, steps)
