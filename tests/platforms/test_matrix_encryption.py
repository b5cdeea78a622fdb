"""Encrypted rooms of Matrix: the adapter and another client with keys of its own, with a real Synapse between them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from matrix_peer import PASSWORD, MatrixPerson, MatrixServer, start_server
from pretending import HeardCore
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter, Part
from gateway.platforms.matrix import reception as reception_module
from gateway.platforms.matrix.account_files import ListenedTo
from gateway.platforms.matrix.adapter import MatrixAdapter
from gateway.platforms.matrix.link import RoomNews, SyncNews
from gateway.platforms.matrix.reception import LATE_KEY_SECONDS, NO_KEY, MatrixReception
from gateway.platforms.matrix.rooms import KnownRooms
from gateway.platforms.matrix.wire import MatrixSelf, name_direct
from hermes_base.inbound import Address, FileRef

PATIENCE = 30.0
ENCRYPTED = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}


class Keyholder:
    """Somebody whose client encrypts: the SDK's, with a store of its own."""

    def __init__(self, person: MatrixPerson, folder: Path) -> None:
        nio = pytest.importorskip("nio")
        pytest.importorskip("vodozemac")
        folder.mkdir()
        self.person = person
        config = nio.AsyncClientConfig(max_timeouts=0, max_limit_exceeded=0)
        self.client = nio.AsyncClient(person.server.address, person.id, store_path=str(folder), config=config)
        self._nio = nio
        self._since = ""

    async def log_in(self) -> None:
        await self.client.login(PASSWORD)
        await self.look()

    async def look(self) -> list[Any]:
        """What is new, in clear; keys are exchanged as they are needed."""
        news = await self.client.sync(0, since=self._since or None, full_state=not self._since)
        self._since = news.next_batch
        if self.client.should_upload_keys:
            await self.client.keys_upload()
        if self.client.should_query_keys:
            await self.client.keys_query()
        await self.client.send_to_device_messages()
        return [event for room in news.rooms.join.values() for event in room.timeline.events]

    async def say(self, room: str, content: dict[str, Any]) -> str:
        await self.look()
        sent = await self.client.room_send(room, "m.room.message", content, ignore_unverified_devices=True)
        assert isinstance(sent, self._nio.RoomSendResponse), sent
        return str(sent.event_id)

    async def read(self, text: str) -> Any:
        """Wait for this text."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for event in await self.look():
                    if text in getattr(event, "body", "") or text in str(event.source.get("content")):
                        return event
                await asyncio.sleep(0.1)


class LockedScene:
    def __init__(self, server: MatrixServer, ann: Keyholder, bot: MatrixPerson, home: Path) -> None:
        self.server, self.ann, self.bot, self.home = server, ann, bot, home
        self.settings = {"homeserver": server.address, "user": bot.id, "password": PASSWORD}
        self.core = HeardCore()
        self.adapter = self.make_adapter()
        state = [ENCRYPTED]
        self.room = ann.person.make_room(bot.id, initial_state=state)
        self.place = Address("matrix", "bot", name_direct(self.room, self.ann.person.id))

    def make_adapter(self) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("matrix"), "bot", self.settings, self.home)

    async def until_in(self) -> None:
        assert isinstance(self.adapter, MatrixAdapter)
        rooms = self.adapter._rooms
        await until(lambda: rooms.is_in(self.room), PATIENCE)


@asynccontextmanager
async def locked_scene(tmp_path: Path) -> AsyncIterator[LockedScene]:
    server = start_server()
    ann = Keyholder(server.add_person("Ann"), tmp_path / "ann")
    scene = LockedScene(server, ann, server.add_person("Hermes"), tmp_path)
    try:
        await ann.log_in()
        await scene.adapter.connect(scene.core)
        await scene.until_in()
        yield scene
    finally:
        await scene.adapter.disconnect()
        await ann.client.close()
        ann.client.store.database.close()


def play(tmp_path: Path, steps: Callable[[LockedScene], Awaitable[None]]) -> None:
    async def run() -> None:
        async with locked_scene(tmp_path) as scene:
            await steps(scene)

    asyncio.run(run())


@pytest.mark.peers
def test_what_is_said_in_an_encrypted_room_is_read_and_answered_encrypted(tmp_path: Path) -> None:
    async def steps(scene: LockedScene) -> None:
        said = await scene.ann.say(scene.room, {"msgtype": "m.text", "body": "a secret question"})
        await until(lambda: len(scene.core.taken) == 1, PATIENCE)
        (inbound,) = scene.core.taken
        assert (inbound.text, inbound.message, inbound.address) == ("a secret question", said, scene.place)
        sent = await scene.adapter.send(Part(scene.place, "a secret answer", key="1:0", reply_to=said))
        assert await scene.adapter.send(Part(scene.place, "a secret answer", key="1:0", reply_to=said)) == sent
        assert (await scene.ann.read("a secret answer")).event_id == sent
        await scene.adapter.edit(sent, Part(scene.place, "a better answer", key="1:0"))
        await scene.ann.read("a better answer")
        in_clear = [event for event in scene.ann.person.events(scene.room) if event["type"] == "m.room.message"]
        assert in_clear == []
        # Another process in the same home has the keys, too.
        await scene.adapter.disconnect()
        await scene.ann.say(scene.room, {"msgtype": "m.text", "body": "while you were away"})
        scene.adapter = scene.make_adapter()
        await scene.adapter.connect(scene.core)
        await until(lambda: "while you were away" in [one.text for one in scene.core.taken], PATIENCE)

    play(tmp_path, steps)


@pytest.mark.peers
def test_files_in_an_encrypted_room_are_encrypted_both_ways(tmp_path: Path) -> None:
    async def steps(scene: LockedScene) -> None:
        from nio.crypto.attachments import decrypt_attachment, encrypt_attachment

        path = tmp_path / "plan.txt"
        path.write_bytes(b"the plan of Hermes")
        await scene.adapter.send_file(Part(scene.place, "", key="1:0"), FileRef(str(path), "plan.txt"))
        file = (await scene.ann.read("plan.txt")).source["content"]["file"]
        locked = scene.ann.person.download(file["url"])
        assert locked != b"the plan of Hermes"
        clear = decrypt_attachment(locked, file["key"]["k"], file["hashes"]["sha256"], file["iv"])
        assert clear == b"the plan of Hermes"
        locked, keys = encrypt_attachment(b"the plan of Ann")
        put = scene.server.call(
            "POST",
            "/_matrix/media/v3/upload",
            token=scene.ann.person.token,
            data=locked,
            kind="application/octet-stream",
        )
        content = {"msgtype": "m.file", "body": "ann.txt", "file": {**keys, "url": put["content_uri"]}}
        await scene.ann.say(scene.room, content)
        await until(lambda: len(scene.core.taken) == 1, PATIENCE)
        await scene.adapter.fetch(scene.core.taken[0].files[0], tmp_path / "fetched")
        assert (tmp_path / "fetched").read_bytes() == b"the plan of Ann"

    play(tmp_path, steps)


class LateKeys:
    """A line whose keys come later than what they open."""

    encrypts = True

    def __init__(self) -> None:
        self.has_keys = False
        self.asked: list[str] = []

    def unlock(self, room: str, event: Any) -> Any:
        clear = {"type": "m.room.message", "content": {"msgtype": "m.text", "body": f"{event['event_id']} in {room}"}}
        return {**event, **clear} if self.has_keys else None

    async def ask_for_key(self, room: str, event: Any) -> None:
        self.asked.append(event["event_id"])


def test_what_cannot_be_read_yet_is_kept_until_its_key_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """C1: also over a restart."""
    monkeypatch.setattr(reception_module, "STORE_PAUSE", 0.0)

    async def steps() -> None:
        link, core, rooms = LateKeys(), HeardCore(), KnownRooms()
        reception = MatrixReception(MatrixSelf("bot", "@me:x"), link, core, rooms, None, None)  # type: ignore[arg-type]
        locked = {"type": "m.room.encrypted", "sender": "@ann:x", "content": {"ciphertext": "x"}}
        events = [{**locked, "event_id": f"${n}", "origin_server_ts": int(time.time() * 1000)} for n in range(2)]
        news = SyncNews("s2", {"!r": RoomNews(events, [], False, "", 2)}, {}, (), False)
        heard = await reception.settle(news, ListenedTo("@me:x", "s1"), {})
        assert link.asked == ["$0", "$1"]
        assert core.taken == []
        kept = ListenedTo(**json.loads(json.dumps({name: getattr(heard, name) for name in heard.__slots__})))
        link.has_keys, core.failures = True, 1
        later = SyncNews("s3", {}, {}, (), True)
        failed = await reception.settle(later, kept, {})
        assert [one["event_id"] for one in failed.unread] == ["$0", "$1"]  # it could not be stored
        assert reception.find_patience(failed, 30.0) == 0.0
        settled = await reception.settle(SyncNews("s4", {}, {}, (), False), failed, {})
        assert settled.unread == []
        assert [one.text for one in core.taken] == ["$0 in !r", "$1 in !r"]

    asyncio.run(steps())


def test_a_key_that_never_comes_is_told_once(tmp_path: Path) -> None:
    told: list[str] = []

    async def send(part: Part) -> str:
        told.append(part.text)
        return "$sent"

    async def steps() -> None:
        link, core, rooms = LateKeys(), HeardCore(), KnownRooms()
        reception = MatrixReception(MatrixSelf("bot", "@me:x"), link, core, rooms, send, None)  # type: ignore[arg-type]
        locked = {"type": "m.room.encrypted", "sender": "@ann:x", "event_id": "$0", "content": {"ciphertext": "x"}}
        old = {**locked, "origin_server_ts": int((time.time() - LATE_KEY_SECONDS - 1) * 1000)}
        news = SyncNews("s2", {"!r": RoomNews([old], [], False, "", 2)}, {}, (), False)
        heard = await reception.settle(news, ListenedTo("@me:x", "s1"), {})
        for number in range(3):
            assert [one["event_id"] for one in heard.unread] == ["$0"]
            heard = await reception.settle(SyncNews(f"t{number}", {}, {}, (), False), heard, {})
        assert told == [NO_KEY]

    asyncio.run(steps())
