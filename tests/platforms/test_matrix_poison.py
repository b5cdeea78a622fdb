"""Matrix against what strangers may write: whatever is in an answer of the homeserver costs that item only."""

import asyncio
import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matrix_peer import MatrixPerson, start_server
from matrix_proxy import ANSWER, MatrixProxy, ProxyFault
from matrix_rig import MatrixRig
from pretending import HeardCore
from test_matrix_encryption import ENCRYPTED, LockedScene
from test_matrix_encryption import play as play_locked
from waiting import until

from gateway.platforms.face import Part
from gateway.platforms.matrix.account_files import ListenedTo
from gateway.platforms.matrix.cautious_client import CautiousClient, RawAnswer, _read_sieved
from gateway.platforms.matrix.link import MatrixLink
from gateway.platforms.matrix.reception import MatrixReception
from gateway.platforms.matrix.rooms import KnownRooms
from gateway.platforms.matrix.soundness import MOST_DEPTH, cut_deep, is_sound, read_json
from gateway.platforms.matrix.wire import MatrixSelf, find_referred
from hermes_base.inbound import Address

PATIENCE = 30.0
ME, ANN = "@hermes:example.org", "@ann:example.org"
DEEP = "a place that is nested deeper than anything reads"


# --- a sync in which anything may stand


def make_event(kind: str, content: dict[str, Any], number: int, **more: Any) -> dict[str, Any]:
    said = {"type": kind, "event_id": f"${number}", "sender": ANN, "origin_server_ts": 1_700_000_000_000 + number}
    return {**said, "content": content, "unsigned": {"age": 5}, **more}


def make_sync(our_key: str = "our key") -> dict[str, Any]:
    """One of each kind, and a message in the midst of them that has to be heard."""
    member = make_event("m.room.member", {"membership": "join", "displayname": "Ann"}, 1, state_key=ANN)
    locked = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA", "device_id": "D", "sender_key": "k"}
    file = {"url": "mxc://a/b", "key": {"k": "k"}, "iv": "i", "hashes": {"sha256": "h"}}
    timeline = [
        make_event("m.room.message", {"msgtype": "m.text", "body": "before", "formatted_body": "<b>"}, 2),
        make_event("m.room.encrypted", {**locked, "session_id": "s"}, 3),
        make_event("m.room.message", {"msgtype": "m.text", "body": "the witness"}, 4),
        make_event("m.room.message", {"msgtype": "m.file", "body": "f", "file": file, "info": {"size": 5}}, 5),
        make_event("m.room.message", {"body": "r", "m.relates_to": {"m.in_reply_to": {"event_id": "$2"}}}, 6),
        make_event("m.room.tombstone", {"replacement_room": "!new:x"}, 7, state_key=""),
        make_event("m.room.redaction", {"redacts": "$2"}, 8, redacts="$2"),
    ]
    encryption = make_event("m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, 9, state_key="")
    olm = {
        "algorithm": "m.olm.v1.curve25519-aes-sha2",
        "sender_key": "k",
        "ciphertext": {our_key: {"type": 0, "body": "x"}},
    }
    to_device = [
        {"type": "m.room.encrypted", "sender": ANN, "content": olm},
        {"type": "m.room.encrypted", "sender": ANN, "content": {**olm, "ciphertext": {our_key: {"type": 1}}}},
        {"type": "m.key.verification.start", "sender": ANN, "content": {"transaction_id": "t", "from_device": "D"}},
        {"type": "m.room_key_request", "sender": ME, "content": {"action": "request", "request_id": "r"}},
    ]
    return {
        "next_batch": "s2",
        "rooms": {
            "join": {
                "!r:x": {
                    "state": {"events": [member, encryption]},
                    "timeline": {"events": timeline, "limited": False},
                    "summary": {"m.joined_member_count": 2, "m.invited_member_count": 0, "m.heroes": [ANN]},
                    "ephemeral": {"events": [{"type": "m.receipt", "content": {}}]},
                },
                "!other:x": {"state": {"events": [member]}, "timeline": {"events": [timeline[0]]}},
            },
            "invite": {"!i:x": {"invite_state": {"events": [{**member, "state_key": ME}]}}},
            "leave": {"!l:x": {"timeline": {"events": []}}},
        },
        "to_device": {"events": to_device},
        "device_lists": {"changed": [ANN], "left": []},
        "device_one_time_keys_count": {"signed_curve25519": 50},
        "presence": {"events": []},
        "account_data": {"events": []},
    }


WITNESS = ("rooms", "join", "!r:x", "timeline", "events", 2)
JUNK: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**400, 1.5, float("inf"), float("nan"), "", "x", "\ud800", "\0", "$" + "a" * 20_000),
    *([], {}, [None], ["x", 5], {"a": None}, {"events": 5}, {"events": [5, None, "x", [], {}]}, {"type": 5}, DEEP),
    *([[[[[]]]]], {"type": "m.room.member", "state_key": "@x:y", "content": {"membership": []}}),
)


def list_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something may be put in the place of what stands there, and the witness is still there."""
    if path and path[: len(WITNESS)] != WITNESS and WITNESS[: len(path)] != path and path != ("next_batch",):
        yield path
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        if path[: len(WITNESS)] != WITNESS:
            yield from list_places(inner, (*path, step))


def put(sync: dict[str, Any], path: tuple[Any, ...], junk: Any) -> None:
    place: Any = sync
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = junk


def write(sync: dict[str, Any]) -> bytes:
    """As a homeserver sends it."""
    return json.dumps(sync).replace(json.dumps(DEEP), "[" * 5_000 + "]" * 5_000).encode()


class PoisonedLink:
    """The line with keys of its own, and no homeserver behind it."""

    def __init__(self, folder: Path, runner: asyncio.Runner | None = None) -> None:
        pytest.importorskip("vodozemac")
        self.runner = runner
        folder.mkdir(exist_ok=True)
        self.link = MatrixLink("http://127.0.0.1:9", ME, folder)
        self.link.use(ME, "DEVICE", "token")
        self.link.open_keys()
        self.client: CautiousClient = self.link._client

    async def hear(self, data: bytes) -> list[str]:
        """What is heard of a sync, and whether all of it is settled."""

        async def answer(*_: Any, **__: Any) -> RawAnswer:
            return RawAnswer(read_json(data))

        async def find_nothing(*_: Any) -> None:
            return None

        self.client.sync = answer  # type: ignore[method-assign]
        self.link._tend_keys = find_nothing  # type: ignore[method-assign]
        self.link.read_event = find_nothing  # type: ignore[method-assign]
        self.link.ask_for_key = find_nothing  # type: ignore[method-assign]
        core, rooms = HeardCore(), KnownRooms()
        reception = MatrixReception(MatrixSelf("bot", ME), self.link, core, rooms, None, None)  # type: ignore[arg-type]
        settled = await reception.settle(await self.link.sync("s1"), ListenedTo(ME, "s1"), {})
        assert settled is not None, "the sync would come again for ever"
        json.dumps([settled.unread, settled.invited])
        for inbound in core.taken:
            json.dumps(inbound.text).encode()
            inbound.text.encode()
            inbound.sender_name.encode()
        return [inbound.text for inbound in core.taken]


PLACES = list(list_places(make_sync()))
POISON = st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(JUNK)), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PoisonedLink]:
    """One for all: what one sync leaves behind must not harm the next."""
    with asyncio.Runner() as runner:

        async def make() -> PoisonedLink:
            return PoisonedLink(tmp_path_factory.mktemp("poison") / "keys", runner)

        made = runner.run(make())
        yield made
        runner.run(made.link.close())


@settings(max_examples=400, deadline=None)
@given(POISON)
def test_whatever_stands_in_a_sync_the_rest_is_heard(
    poisoned: PoisonedLink, poison: list[tuple[tuple[Any, ...], Any]]
) -> None:
    """C1, C2."""
    sync = make_sync(poisoned.client.olm.account.identity_keys["curve25519"])
    for place, junk in poison:
        with contextlib.suppress(KeyError, IndexError, TypeError):  # what it stood in was replaced before
            put(sync, place, copy.deepcopy(junk))
    poisoned.client.rooms.clear()
    assert poisoned.runner is not None
    assert "the witness" in poisoned.runner.run(poisoned.hear(write(sync)))
    assert "!r:x" in poisoned.client.rooms


def test_what_is_nested_without_end_is_taken_out() -> None:
    assert read_json(b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b', "b": "[[{"}')["b"] == "[[{"
    assert json.loads(cut_deep('{"a": {"b": {"c": 1}}, "d": [2], "e": "{{"}', 2)) == {
        "a": {"b": None},
        "d": [2],
        "e": "{{",
    }
    assert read_json(b"<html>") == read_json(b"[1]") == {}
    nested: Any = {}
    for _ in range(MOST_DEPTH):
        nested = {"a": nested}
    assert not is_sound({"type": "x", "content": nested})
    assert is_sound({"type": "x", "content": nested["a"]["a"]})


def test_keys_of_one_cost_no_others(tmp_path: Path) -> None:
    """C2: what a stranger's device says of itself, in the same answer as the device of somebody else."""
    nio = pytest.importorskip("nio")

    async def steps() -> None:
        poisoned, other = PoisonedLink(tmp_path / "keys"), PoisonedLink(tmp_path / "other")
        other_olm = other.client.olm
        other_olm.user_id, other_olm.device_id = ANN, "ANNS"
        told = other_olm.share_keys()["device_keys"]
        for number, junk in enumerate([*JUNK, {**told, "keys": {"ed25519:X": 5}}, {**told, "user_id": 5}]):
            eve, ann = f"@eve{number}:x", f"@ann{number}:x"
            other_olm.user_id = ann
            told = other_olm.share_keys()["device_keys"]
            poisoned.client.olm.users_for_key_query |= {eve, ann}
            raw = {"device_keys": {eve: {"X": junk}, ann: {"ANNS": told}}}
            await poisoned.client.receive_response(_read_sieved(nio.KeysQueryResponse, raw, ()))
            assert "ANNS" in poisoned.client.device_store[ann], junk
            assert not {eve, ann} & poisoned.client.olm.users_for_key_query, "it would be asked for ever"
        for one in (poisoned, other):
            await one.link.close()

    asyncio.run(steps())


def test_ids_that_no_event_has_are_never_asked_for() -> None:
    for bad in ("a", "", "$" + "a" * 255, "$" + "é" * 128, "../.."):
        for related in (
            {"m.in_reply_to": {"event_id": bad}},
            {"rel_type": "m.thread", "event_id": bad},
            {"rel_type": "m.replace", "event_id": bad},
        ):
            assert find_referred(make_event("m.room.message", {"m.relates_to": related}, 1), {}) == set()


# --- a real homeserver


def send_poison(eve: MatrixPerson, bot: str, device: str, number: int) -> None:
    """A to-device message of somebody who shares no room with us; its ciphertext is none."""
    known = eve.call("POST", "/keys/query", {"device_keys": {bot: []}})["device_keys"][bot][device]["keys"]
    ciphertext = {known[f"curve25519:{device}"]: {"type": 0, "body": "x"}}
    content = {"algorithm": "m.olm.v1.curve25519-aes-sha2", "ciphertext": ciphertext, "sender_key": "k"}
    eve.call("PUT", f"/sendToDevice/m.room.encrypted/t{number}", {"messages": {bot: {device: content}}})


def read_device(home: Path) -> str:
    return str(json.loads((home / "platforms" / "matrix-bot" / "session.json").read_text())["device"])


@pytest.mark.peers
def test_a_poisoned_message_to_the_device_while_it_is_off_costs_nothing_else(tmp_path: Path) -> None:
    """C1, C2: keys that come in the same sync are not lost, and neither is what they open."""

    async def steps(scene: LockedScene) -> None:
        eve, device = scene.server.add_person("Eve"), read_device(scene.home)
        await scene.adapter.disconnect()
        send_poison(eve, scene.bot.id, device, 1)
        await scene.ann.say(scene.room, {"msgtype": "m.text", "body": "while you were off"})
        send_poison(eve, scene.bot.id, device, 2)
        scene.adapter = scene.make_adapter()
        await scene.adapter.connect(scene.core)
        await until(lambda: [one.text for one in scene.core.taken] == ["while you were off"], PATIENCE)
        await scene.adapter.send(Part(scene.place, "an answer", key="1:0"))
        await scene.ann.read("an answer")

    play_locked(tmp_path, steps)


@pytest.mark.peers
def test_poison_that_drips_in_keeps_nobody_from_being_heard_and_answered(tmp_path: Path) -> None:
    """C1, C2, C9: in rooms that were joined meanwhile, too."""

    async def steps(scene: LockedScene) -> None:
        eve, device = scene.server.add_person("Eve"), read_device(scene.home)
        over = asyncio.Event()

        async def drip() -> None:
            number = 0
            while not over.is_set():
                await asyncio.to_thread(send_poison, eve, scene.bot.id, device, number)
                number += 1
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        for number, state in enumerate(([], [ENCRYPTED])):
            room = await asyncio.to_thread(scene.ann.person.make_room, scene.bot.id, initial_state=state)
            await until(lambda room=room: scene.adapter._rooms.is_in(room), PATIENCE)  # type: ignore[attr-defined]
            await scene.ann.say(room, {"msgtype": "m.text", "body": f"hello {number}"})
            await until(lambda number=number: len(scene.core.taken) == number + 1, PATIENCE)
            answer = Part(Address("matrix", "bot", room), f"answer {number}", key=f"{number}:0")
            await scene.adapter.send(answer)
            await scene.ann.read(f"answer {number}")
        over.set()
        await dripping
        assert [one.text for one in scene.core.taken] == ["hello 0", "hello 1"]

    play_locked(tmp_path, steps)


@pytest.mark.peers
@pytest.mark.parametrize("broken", [False, True], ids=["an id that is none", "a look-up that fails for ever"])
def test_a_reply_that_cannot_be_looked_up_keeps_no_room_waiting(tmp_path: Path, broken: bool) -> None:
    """C2: one message of a stranger in a shared room."""
    server = start_server()

    async def steps(proxy: MatrixProxy) -> None:
        rig = await asyncio.to_thread(MatrixRig, server, proxy, tmp_path)
        bob = server.add_person("Bob")
        shared = rig.person.make_room(rig.bot.id, bob.id)
        rig.bot.join(shared)
        bob.join(shared)
        named = bob.say(shared, "an old one") if broken else "$" + "a" * 20_000
        await rig.connect()
        error = {"errcode": "M_UNKNOWN", "error": "Internal server error"}
        proxy.plan([ProxyFault(ANSWER, "*/rooms/*/event/*", times=0, status=500, body=error)])
        reply = {"msgtype": "m.text", "body": "a reply", "m.relates_to": {"m.in_reply_to": {"event_id": named}}}
        await asyncio.to_thread(bob.send, shared, reply)
        await rig.say("hello?")
        await until(lambda: {one.text for one in rig.heard()} >= {"a reply", "hello?"}, PATIENCE)
        asked = len(proxy.calls("*/rooms/*/event/*"))
        assert asked == (2 if broken else 0)
        await rig.adapter.disconnect()

    with MatrixProxy(server.address) as proxy:
        asyncio.run(steps(proxy))
