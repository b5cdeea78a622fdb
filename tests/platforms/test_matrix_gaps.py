"""Rooms whose history cannot be read: the others are heard, and nothing is lost."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pretending import HeardCore
from waiting import until

from gateway.platforms.matrix import reception as reception_module
from gateway.platforms.matrix.account_files import AccountFiles, ListenedTo
from gateway.platforms.matrix.link import RoomNews, SyncNews
from gateway.platforms.matrix.listening import Listener, Progress
from gateway.platforms.matrix.reception import MatrixReception
from gateway.platforms.matrix.refusals import MatrixKind, MatrixTrouble
from gateway.platforms.matrix.room_gaps import RoomPauses
from gateway.platforms.matrix.rooms import KnownRooms
from gateway.platforms.matrix.wire import MatrixSelf

ME, GOOD, BAD = "@hermes:x", "!good:x", "!bad:x"


def said(text: str) -> dict[str, Any]:
    content = {"msgtype": "m.text", "body": text}
    at = int(time.time() * 1000)
    return {"type": "m.room.message", "event_id": f"${text}", "sender": "@ann:x", "origin_server_ts": at} | {
        "content": content
    }


def bring(since: str, **rooms: RoomNews) -> SyncNews:
    return SyncNews(since, {f"!{name}:x": told for name, told in rooms.items()}, {}, (), keys=False)


def tell(*texts: str, before: str = "") -> RoomNews:
    """What a sync says; `before`: it leaves out what was said earlier."""
    return RoomNews([said(text) for text in texts], [], bool(before), before, 2)


class Homeserver:
    """A line to one that has a history of one room, and cannot always read it."""

    encrypts = False

    def __init__(self) -> None:
        self.trouble: MatrixKind | None = MatrixKind.UNSURE
        self.history: list[str] = []
        self.asked: list[tuple[str, str, str]] = []
        self.syncs: list[SyncNews] = []

    async def read_back(self, room: str, before: str, until: str) -> tuple[list[dict[str, Any]], str]:
        self.asked.append((room, before, until))
        if self.trouble is not None:
            raise MatrixTrouble(self.trouble, "no")
        return [said(text) for text in self.history], ""

    async def read_event(self, room: str, event: str) -> None:
        del room, event

    async def sync(self, since: str, *, patience: float) -> SyncNews:
        if self.syncs:
            return self.syncs.pop(0)
        await asyncio.sleep(min(patience, 0.01))
        return bring(since)


class House:
    def __init__(self) -> None:
        self.link, self.core, self.now = Homeserver(), HeardCore(), 1000.0
        self.reception = self.open()

    def open(self) -> MatrixReception:
        link: Any = self.link
        nothing: Any = None
        made = MatrixReception(MatrixSelf("bot", ME), link, self.core, KnownRooms(), nothing, nothing)
        made._pauses = RoomPauses(lambda: self.now)
        return made

    @property
    def texts(self) -> list[str]:
        return [inbound.text for inbound in self.core.taken]


def play(steps: Callable[[House], Awaitable[None]]) -> None:
    async def run() -> None:
        await steps(House())

    asyncio.run(run())


def test_a_room_that_cannot_be_read_holds_up_no_other() -> None:
    """C1: and what was said there is heard once it can be, in order, also after a restart."""

    async def steps(house: House) -> None:
        news = bring("s2", bad=tell("three", before="p1"), good=tell("hello"))
        heard = await house.reception.settle(news, ListenedTo(ME, "s1"), {})
        assert house.texts == ["hello"]
        assert (heard.since, heard.gaps) == ("s2", {BAD: ["s1"]})
        assert 0.0 < house.reception.find_patience(heard, 1e9) < 60.0

        heard = await house.reception.settle(bring("s3", bad=tell("four"), good=tell("again")), heard, {})
        assert house.texts == ["hello", "again"]
        assert heard.gaps == {BAD: ["s1"]}
        assert len(house.link.asked) == 1  # its time has not come

        kept = ListenedTo(**json.loads(json.dumps(asdict(heard))))
        house.reception = house.open()
        house.link.trouble, house.link.history = None, ["one", "two", "three", "four"]
        heard = await house.reception.settle(bring("s4"), kept, {})
        assert house.texts == ["hello", "again", "one", "two", "three", "four"]
        assert house.link.asked[-1] == (BAD, "s4", "s1")
        assert heard.gaps == {}

    play(steps)


@pytest.mark.parametrize("kind", [MatrixKind.FORBIDDEN, MatrixKind.MISSING])
def test_what_can_never_be_read_is_given_up(kind: MatrixKind, caplog: pytest.LogCaptureFixture) -> None:
    """What is at hand is heard; the log says that the rest is left out."""

    async def steps(house: House) -> None:
        house.link.trouble = kind
        heard = await house.reception.settle(bring("s2", bad=tell("late", before="p1")), ListenedTo(ME, "s1"), {})
        assert (house.texts, heard.since, heard.gaps) == (["late"], "s2", {})
        assert f"What was missed in {BAD} cannot be read" in caplog.text

    play(steps)


def test_where_only_messages_say_how_far_was_heard_the_gap_knows_them() -> None:
    async def steps(house: House) -> None:
        news = bring("s2", bad=tell("three", before="p1"))
        heard = await house.reception.settle(news, ListenedTo(ME), {BAD: {"$one"}})
        assert heard.gaps == {BAD: ["", "$one"]}
        house.now += 60.0
        house.link.trouble, house.link.history = None, ["zero", "one", "two", "three"]
        heard = await house.reception.settle(bring("s3"), heard, {})
        assert (house.texts, heard.gaps) == (["two", "three"], {})

    play(steps)


def test_what_could_not_be_stored_is_read_again_and_stays_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """C1."""
    monkeypatch.setattr(reception_module, "STORE_PAUSE", 0.0)

    async def steps(house: House) -> None:
        house.core.failures = 1
        heard = await house.reception.settle(bring("s2", bad=tell("one", "two")), ListenedTo(ME, "s1"), {})
        assert (house.texts, heard.gaps) == ([], {BAD: ["s1"]})
        house.link.trouble, house.link.history = None, ["one", "two", "three"]
        heard = await house.reception.settle(bring("s3", bad=tell("three")), heard, {})
        assert (house.texts, heard.gaps) == (["one", "two", "three"], {})

    play(steps)


def test_a_room_that_we_left_has_no_gap() -> None:
    async def steps(house: House) -> None:
        heard = await house.reception.settle(
            SyncNews("s3", {}, {}, (BAD,), keys=False), ListenedTo(ME, "s2", gaps={BAD: ["s1"]}), {}
        )
        assert (heard.gaps, house.link.asked) == ({}, [])

    play(steps)


def test_the_account_goes_on_listening_past_a_gap(tmp_path: Path) -> None:
    """C13: and the place and the gap are kept together."""

    async def steps(house: House) -> None:
        files, signs = AccountFiles(tmp_path, "bot"), []
        files.make()
        house.link.syncs = [bring(f"s{number}", good=tell(f"good {number}")) for number in range(3, 6)]
        link: Any = house.link
        renew: Any = None
        listener = Listener(link, house.reception, files, lambda: signs.append(1), lambda _: None, renew)
        news = bring("s2", bad=tell("late", before="p1"))
        running = asyncio.create_task(listener.run(Progress(ListenedTo(ME, "s1"), news, {})))
        await until(lambda: files.read_heard(ME).since == "s5")
        assert house.texts == ["good 3", "good 4", "good 5"]
        assert files.read_heard(ME).gaps == {BAD: ["s1"]}
        assert len(signs) >= 3
        house.link.trouble, house.link.history = None, ["early", "late"]
        house.now += 60.0
        await until(lambda: files.read_heard(ME).gaps == {})
        assert house.texts[3:] == ["early", "late"]
        running.cancel()
        await asyncio.wait({running})

    play(steps)
