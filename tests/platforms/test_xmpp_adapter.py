"""One XMPP account against a real Prosody: rooms, identity, archives, cuts, certificates, and what strangers try."""

import asyncio
import json
import random
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pretending import QUICK, call_off_loop
from waiting import until
from xmpp_peer import (
    CUT_AFTER,
    CUT_BEFORE,
    DOMAIN,
    FORGETTING,
    HIDING,
    NAMELESS,
    PASSWORD,
    ROOMS,
    XmppPerson,
    XmppProxy,
    start_server,
)
from xmpp_rig import XmppRig

from gateway.delivery.delivery import Delivery
from gateway.platforms.face import Accepted, NeverTaken, NotNow, Part, Refused
from gateway.platforms.xmpp import wire
from gateway.platforms.xmpp.adapter import XmppAdapter
from gateway.platforms.xmpp.probe import probe
from gateway.platforms.xmpp.reception import MOST_LOOKS
from gateway.platforms.xmpp.server.link import MOST_UNCOUNTED
from gateway.platforms.xmpp.wire import Arrived
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import FILE, Address, FileRef, Inbound, Outgoing
from hermes_state.sql.store_sql import Store
from hermes_state.turns import NodeInfo

pytestmark = pytest.mark.peers
Steps = Callable[[XmppRig], Awaitable[None]]


@asynccontextmanager
async def open_rig(folder: Path, *, connect: bool = True, **settings: Any) -> AsyncIterator[XmppRig]:
    server = start_server()
    with XmppProxy(server.port) as proxy:
        rig = XmppRig(server, proxy, folder, settings)
        try:
            if connect:
                await rig.connect()
            yield rig
        finally:
            await rig.disconnect()


def run(folder: Path, steps: Steps, **settings: Any) -> None:
    async def all_steps() -> None:
        async with open_rig(folder, **settings) as rig:
            await steps(rig)

    asyncio.run(all_steps())


def part(address: Address, text: str, key: str = "k") -> Part:
    return Part(address, text, key=key, row=1, markup="plain")


def group(room: str) -> Address:
    return Address("xmpp", "bot", room, "group")


def nick_of(rig: XmppRig) -> str:
    return rig.bot.partition("@")[0]


async def enter(rig: XmppRig, person: XmppPerson, room: str) -> None:
    await until(lambda: nick_of(rig) in person.occupants(room))
    desk = adapter_of(rig)._desk
    assert desk is not None
    await until(lambda: desk.rooms.is_in(room))


def adapter_of(rig: XmppRig) -> XmppAdapter:
    assert isinstance(rig.adapter, XmppAdapter)
    return rig.adapter


async def settle(rig: XmppRig) -> None:
    """Everything that was said before has been read: a word behind it is heard."""
    word = f"behind {len(rig.core.taken)}"
    await asyncio.to_thread(rig.person.say, rig.bot, word)
    await until(lambda: any(one.text == word for one in rig.core.taken))


def words(rig: XmppRig) -> list[str]:
    return [one.text for one in rig.core.taken if not one.text.startswith("behind ")]


def put_off(rig: XmppRig, giver: str, times: int) -> list[bytes]:
    """So many questions to somebody what he offers are answered with a plea for patience; what was asked."""
    refused: list[bytes] = []
    error = b"<error type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"

    def edit(stanza: bytes) -> bytes:
        head = stanza[: stanza.index(b">") + 1].replace(b'"', b"'")
        if len(refused) == times or b"disco#info" not in stanza or f"from='{giver}'".encode() not in head:
            return stanza
        refused.append(stanza)
        return head.replace(b"type='result'", b"type='error'").replace(b"/>", b">") + error + b"</iq>"

    rig.proxy.edit = edit
    return refused


@pytest.fixture
def nothing_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server forgets each session whose line broke."""
    monkeypatch.setattr("gateway.platforms.xmpp.server.link.XmppLink.keep", lambda _: None)


async def begin_anew(rig: XmppRig) -> None:
    """The line is cut, and another one is there."""
    first = adapter_of(rig)._link
    rig.proxy.cut()
    await until(lambda: adapter_of(rig)._link not in (None, first))


# --- rooms


def test_in_a_room_people_are_known_by_their_address(tmp_path: Path) -> None:
    """G2: a nick that changes hands takes nobody's place."""
    ann, bob = start_server().add_person("ann"), start_server().add_person("bob")
    room = ann.make_room(nick="Ann")
    bob.join(room, "Bob")

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        ann.say(room, "to nobody", kind="groupchat")
        ann.say(room, f"{nick_of(rig)}: to you", kind="groupchat")
        ann.write(f"<presence to='{room}/Else'/>")
        await until(lambda: "Else" in bob.occupants(room))
        bob.write(f"<presence to='{room}/Ann'/>")
        await until(lambda: "Ann" in ann.occupants(room) and "Bob" not in ann.occupants(room))
        bob.say(room, f"I am Ann, {nick_of(rig)}!", kind="groupchat")
        await until(lambda: len(rig.core.taken) == 3)
        first, second, third = rig.core.taken
        assert [(one.text, one.mentioned) for one in (first, second)] == [("to nobody", False), ("to you", True)]
        assert (first.sender, second.sender, third.sender) == (ann.jid, ann.jid, bob.jid)
        assert second.sender_name == third.sender_name == "Ann"
        assert third.mentioned
        assert first.address == group(room)

    run(tmp_path, steps, rooms=room)


def test_a_room_that_hides_its_people_is_not_heard(tmp_path: Path) -> None:
    """G2: no address, no rights."""
    ann = start_server().add_person("ann")
    room = ann.make_room(HIDING)

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        ann.say(room, f"{nick_of(rig)}: who am I?", kind="groupchat")
        ann.say(f"{room}/{nick_of(rig)}", "a whisper")
        await until(lambda: ann.count(room, "jabber:client", "body") >= 1)
        await settle(rig)
        assert words(rig) == []

    run(tmp_path, steps, rooms=room)


def test_a_whisper_in_a_room_is_nobodys_message(tmp_path: Path) -> None:
    """G1: a code that a room's address was given would be everybody's there."""
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        ann.say(f"{room}/{nick_of(rig)}", "psst")
        await settle(rig)
        assert words(rig) == []

    run(tmp_path, steps, rooms=room)


def test_what_a_room_said_during_an_absence_is_read_later(tmp_path: Path) -> None:
    """C1: from the room's own archive, with the addresses of those who spoke."""
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        ann.say(room, "before", kind="groupchat")
        await until(lambda: words(rig) == ["before"])
        await rig.disconnect()
        for text in ("missed 1", "missed 2"):
            ann.say(room, text, kind="groupchat")
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await enter(rig, ann, room)
        ann.say(room, "after", kind="groupchat")
        await until(lambda: len(words(rig)) >= 4)
        assert words(rig) == ["before", "missed 1", "missed 2", "after"]
        assert {one.sender for one in rig.core.taken} == {ann.jid}

    run(tmp_path, steps, rooms=room)


async def return_to(rig: XmppRig, person: XmppPerson, room: str) -> None:
    """Another process comes to a room."""
    rig.adapter = rig.make_adapter(rig.settings)
    await rig.connect()
    await enter(rig, person, room)


@pytest.mark.parametrize("service", [ROOMS, HIDING])
def test_nobody_speaks_for_somebody_else_through_an_archive(tmp_path: Path, service: str) -> None:
    """G2: an address that its writer put into a message stays there in the archive. In a room that hid its people when
    it was said, and shows them when it is read, nothing stands beside it."""
    ann, eve = start_server().add_person("ann"), start_server().add_person("eve")
    room = eve.make_room(service, nick="Eve")
    ann.join(room, "Ann")
    item = f"<item affiliation='owner' role='moderator' jid='{ann.jid}'/>"
    forged = f"<x xmlns='http://jabber.org/protocol/muc#user'>{item}</x>"

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        await rig.disconnect()
        for more in (forged, forged * 2, f"{forged}<occupant-id xmlns='urn:xmpp:occupant-id:0' id='x'/>"):
            eve.say(room, f"{nick_of(rig)}: I am ann", more, kind="groupchat")
        eve.configure(room, muc__roomconfig_whois="anyone")
        await return_to(rig, ann, room)
        eve.say(room, "I am eve", forged, kind="groupchat")
        await until(lambda: "I am eve" in words(rig))
        assert {one.sender for one in rig.core.taken} == {eve.jid}
        assert len(rig.core.taken) == 4

    run(tmp_path, steps, rooms=room)


def test_an_archive_whose_room_gives_no_ids_knows_nobody(tmp_path: Path) -> None:
    """G2: an id that a writer made up stays there, as an address does; what comes live is heard."""
    ann, eve = start_server().add_person("ann"), start_server().add_person("eve")
    room = ann.make_room(NAMELESS, nick="Ann")
    eve.join(room, "Eve")
    made_up = "<occupant-id xmlns='urn:xmpp:occupant-id:0' id='ann'/>"

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        ann.write(f"<presence to='{room}/Ann'>{made_up}</presence>")
        ann.say(room, "live", made_up, kind="groupchat")
        await until(lambda: words(rig) == ["live"])
        await rig.disconnect()
        item = f"<x xmlns='http://jabber.org/protocol/muc#user'><item jid='{ann.jid}'/></x>"
        eve.say(room, f"{nick_of(rig)}: I am ann", item + made_up, kind="groupchat")
        await return_to(rig, ann, room)
        ann.say(room, "live again", kind="groupchat")
        await until(lambda: "live again" in words(rig))
        assert words(rig) == ["live", "live again"]

    run(tmp_path, steps, rooms=room)


def test_whoever_was_seen_in_a_room_is_known_when_they_have_left(tmp_path: Path) -> None:
    """C1, G2: over a restart, too. Whoever came and left in the meantime is nobody."""
    ann, eve, host = (start_server().add_person(name) for name in ("ann", "eve", "host"))
    room = host.make_room(nick="Host")
    ann.join(room, "Ann")

    async def steps(rig: XmppRig) -> None:
        await enter(rig, host, room)
        await rig.disconnect()
        eve.join(room, "Eve")
        for person, nick in ((ann, "Ann"), (eve, "Eve")):
            person.say(room, f"of {nick}", kind="groupchat")
            person.write(f"<presence to='{room}/{nick}' type='unavailable'/>")
        await until(lambda: not {"Ann", "Eve"} & host.occupants(room))
        await return_to(rig, host, room)
        host.say(room, "of Host", kind="groupchat")
        await until(lambda: "of Host" in words(rig))
        assert [(one.text, one.sender) for one in rig.core.taken] == [("of Ann", ann.jid), ("of Host", host.jid)]

    run(tmp_path, steps, rooms=room)


@pytest.mark.parametrize("service", [ROOMS, FORGETTING])
def test_what_a_room_said_while_the_line_was_cut_is_heard(tmp_path: Path, service: str) -> None:
    """C1, C2: the server sends it again, with the time when it first came. What a client sends late is heard as well,
    and what the room remembers is not."""
    ann = start_server().add_person("ann")
    room = ann.make_room(service)
    late = "<delay xmlns='urn:xmpp:delay' stamp='2020-01-01T00:00:00Z'/>"
    ann.say(room, "long before", kind="groupchat")
    ann.say(room, "long before, and late", late, kind="groupchat")

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        ann.say(room, "before", kind="groupchat")
        await until(lambda: words(rig) == ["before"])
        first = await adapter_of(rig).wait_link()
        rig.proxy.cut()
        for text in ("meanwhile 1", "meanwhile 2"):
            ann.say(room, text, kind="groupchat")
        await until(lambda: adapter_of(rig)._link not in (None, first))
        assert (await adapter_of(rig).wait_link()).resumed
        ann.say(room, "written in a tunnel", late, kind="groupchat")
        ann.say(room, "after", kind="groupchat")
        await until(lambda: "after" in words(rig))
        assert words(rig) == ["before", "meanwhile 1", "meanwhile 2", "written in a tunnel", "after"]
        assert {one.sender for one in rig.core.taken} == {ann.jid}
        assert min(one.received for one in rig.core.taken) > time.time() - 3600

    run(tmp_path, steps, rooms=room)


@pytest.mark.parametrize("service", [ROOMS, FORGETTING])
def test_in_a_room_a_message_stands_once(tmp_path: Path, service: str) -> None:
    """C7: after cuts before and behind it, and for a process that has just begun; also where a room has no archive, and
    only shows the last messages to whoever comes, however late that is seen."""
    ann = start_server().add_person("ann")
    room = ann.make_room(service)

    def lag(stanza: bytes) -> bytes:
        if b"text " in stanza:
            time.sleep(0.4)  # what is behind it waits, too: a stream keeps its order
        return stanza

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        rig.proxy.edit = lag

        async def send_until_sent(key: str) -> str:
            while True:
                try:
                    return await rig.adapter.send(part(group(room), f"text {key}", key))
                except DeliveryFailure:
                    await asyncio.sleep(0.1)

        for key, fault in (("a", CUT_AFTER), ("b", CUT_BEFORE), ("c", CUT_AFTER)):
            rig.proxy.plan = [fault]
            await send_until_sent(key)
        await rig.disconnect()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await enter(rig, ann, room)
        for key in "abcd":
            await send_until_sent(key)
        await until(lambda: "text d" in ann.texts(f"{room}/{nick_of(rig)}"))
        assert ann.texts(f"{room}/{nick_of(rig)}") == [f"text {key}" for key in "abcd"]

    run(tmp_path, steps, rooms=room)


def test_in_a_room_without_a_memory_a_repetition_is_marked(tmp_path: Path) -> None:
    """C7: killed in mid-send, and nobody can say whether it arrived."""
    ann = start_server().add_person("ann")
    room = ann.make_room(FORGETTING)
    ann.configure(room, muc__roomconfig_historylength="0", muc__maxhistoryfetch="0")

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        rig.proxy.plan = [CUT_AFTER]
        with pytest.raises(DeliveryFailure):
            await rig.adapter.send(part(group(room), "first"))
        await rig.disconnect()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await enter(rig, ann, room)
        await rig.adapter.send(part(group(room), "first"))
        await rig.adapter.send(part(group(room), "second", "k2"))
        own = f"{room}/{nick_of(rig)}"
        await until(lambda: "second" in ann.texts(own))
        assert ann.texts(own) == ["first", "(sent again: the first may have arrived)\nfirst", "second"]

    run(tmp_path, steps, rooms=room)


def test_a_room_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    room = f"misspelt@{ROOMS}"

    async def steps(rig: XmppRig) -> None:
        await until(lambda: room in rig.adapter.problem)
        assert "there is no such room" in rig.adapter.problem
        assert rig.adapter.hears  # C13: the rest of the account is connected
        with pytest.raises(NotNow):
            await rig.adapter.send(part(group(room), "hello"))
        assert not rig.adapter.reachable(group(room))
        await settle(rig)

    run(tmp_path, steps, rooms=room)


def test_a_room_with_a_password(tmp_path: Path) -> None:
    ann = start_server().add_person("ann")
    rooms = [ann.make_room(), ann.make_room()]
    for room in rooms:
        fields = {"muc__roomconfig_passwordprotectedroom": "1", "muc__roomconfig_roomsecret": "sesame"}
        ann.configure(room, **fields)

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, rooms[0])
        await until(lambda: "its password is another one" in rig.adapter.problem)

    run(tmp_path, steps, rooms=[f"{rooms[0]} sesame", f"{rooms[1]} wrong"])


@pytest.mark.usefixtures("nothing_is_resumed")
def test_who_takes_the_nick_first_has_it_while_they_are_there(tmp_path: Path) -> None:
    """And not a moment longer: it is asked for when it is free, and by each new session."""
    ann, bob = start_server().add_person("ann"), start_server().add_person("bob")
    room = ann.make_room(nick="helper")
    bob.join(room, "Bob")

    async def steps(rig: XmppRig) -> None:
        await until(lambda: "helper_" in bob.occupants(room))
        bob.say(room, "helper_: hello", kind="groupchat")
        bob.say(room, "helper: a word to Ann", kind="groupchat")
        await until(lambda: len(rig.core.taken) == 2)
        assert [(one.text, one.mentioned) for one in rig.core.taken] == [
            ("hello", True),
            ("helper: a word to Ann", False),
        ]
        ann.write(f"<presence to='{room}/Ann'/>")
        await until(lambda: bob.occupants(room) == {"Ann", "Bob", "helper"})
        bob.say(room, "helper: hello again", kind="groupchat")
        await until(lambda: len(rig.core.taken) == 3)
        assert rig.core.taken[2].mentioned
        rig.proxy.holds = True
        ann.set_role(room, "helper", "none")
        bob.write(f"<presence to='{room}/helper'/>")
        await until(lambda: bob.occupants(room) == {"Ann", "helper"})
        rig.proxy.holds = False
        await begin_anew(rig)
        await until(lambda: bob.occupants(room) == {"Ann", "helper", "helper_"})
        rig.proxy.edit = lambda stanza: None if b"unavailable" in stanza else stanza  # it does not see that Bob leaves
        bob.write(f"<presence to='{room}/Bob'/>")
        await until(lambda: "helper" not in ann.occupants(room))
        await begin_anew(rig)
        await until(lambda: ann.occupants(room) == {"Ann", "Bob", "helper"})

    run(tmp_path, steps, rooms=room, nick="helper")


def test_a_kick_makes_messages_wait_and_an_invitation_brings_them(tmp_path: Path) -> None:
    """C9, G1."""
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def steps(rig: XmppRig) -> None:
        ann.invite(room, rig.bot)
        await enter(rig, ann, room)
        ann.set_role(room, nick_of(rig), "none")
        desk = adapter_of(rig)._desk
        assert desk is not None
        await until(lambda: not desk.rooms.is_in(room))
        with pytest.raises(NotNow) as wait:
            await rig.adapter.send(part(group(room), "hello"))
        assert wait.value.seconds is None
        ann.invite_by_room(room, rig.bot)
        await until(lambda: group(room) in rig.core.woken)
        assert await rig.adapter.send(part(group(room), "hello"))
        await until(lambda: ann.texts(f"{room}/{nick_of(rig)}") == ["hello"])

    run(tmp_path, steps)


def test_a_room_by_invitation_is_kept_over_a_restart(tmp_path: Path) -> None:
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def steps(rig: XmppRig) -> None:
        ann.invite(room, rig.bot)
        await enter(rig, ann, room)
        await rig.disconnect()
        await until(lambda: nick_of(rig) not in ann.occupants(room))
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await enter(rig, ann, room)

    run(tmp_path, steps)


def answer_joins(rig: XmppRig, room: str, error: str, times: int) -> list[bytes]:
    """So many times the room answers with this error to whoever wants in; what it would have said."""
    answered: list[bytes] = []

    def edit(stanza: bytes) -> bytes:
        if not stanza.startswith(b"<presence") or room.encode() not in stanza or len(answered) == times:
            return stanza
        answered.append(stanza)
        own = f"from='{room}/{nick_of(rig)}' to='{rig.bot}/hermes'"
        return f"<presence type='error' {own}><error {error}/></error></presence>".encode()

    rig.proxy.edit = edit
    return answered


@pytest.mark.usefixtures("nothing_is_resumed")
@pytest.mark.parametrize(
    "error",
    [
        "type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'",
        "type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'",
    ],
)
def test_a_room_that_is_busy_for_a_moment_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    """C9: nobody has put us out. Also where it is busy when we first come, and Hermes is started again meanwhile."""
    monkeypatch.setattr("gateway.platforms.xmpp.xmpp_rooms.SOON_SECONDS", 0.1)
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def steps(rig: XmppRig) -> None:
        answer_joins(rig, room, error, 1000)
        ann.invite(room, rig.bot)
        await until(lambda: room in rig.adapter.problem)
        await rig.disconnect()
        rig.proxy.edit = lambda stanza: stanza
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await enter(rig, ann, room)
        answered = answer_joins(rig, room, error, 1)
        await begin_anew(rig)
        await until(lambda: len(answered) == 1)
        await enter(rig, ann, room)
        await until(lambda: rig.adapter.problem == "")

    run(tmp_path, steps)


def test_a_room_that_is_too_busy_to_say_what_it_keeps_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1: a message has the name that the room's archive gives it, or it would have another one later."""
    monkeypatch.setattr("gateway.platforms.xmpp.xmpp_rooms.SOON_SECONDS", 0.1)
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, rooms=room) as rig:
            refused = put_off(rig, room, 2)
            await rig.connect()
            await enter(rig, ann, room)
            assert len(refused) == 2
            ann.say(room, "hello", kind="groupchat")
            await until(lambda: words(rig) == ["hello"])
            assert not rig.core.taken[0].message.startswith("local-")

    asyncio.run(all_steps())


@pytest.mark.parametrize("silent", ["iq", "presence"])
def test_a_room_whose_server_is_silent_keeps_us_out_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """C2: and the status names it, whichever of our questions it does not answer."""
    monkeypatch.setattr("gateway.platforms.xmpp.server.link.ASK_SECONDS", 1e6)
    monkeypatch.setattr("gateway.platforms.xmpp.server.room_visits.JOIN_SECONDS", 0.5)
    monkeypatch.setattr("gateway.platforms.xmpp.server.room_visits.TEND_SECONDS", 0.1)
    ann = start_server().add_person("ann")
    far, near = ann.make_room(), ann.make_room()

    def is_silent(stanza: bytes) -> bool:
        return stanza.startswith(f"<{silent}".encode()) and far.encode() in stanza.partition(b">")[0]

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, rooms=f"{far}, {near}") as rig:
            rig.proxy.edit = lambda stanza: None if is_silent(stanza) else stanza
            await rig.connect()
            await enter(rig, ann, near)
            monkeypatch.setattr("gateway.platforms.xmpp.server.link.ASK_SECONDS", 0.5)
            await begin_anew(rig)
            await until(lambda: f"{far}: its server does not answer" in rig.adapter.problem)
            assert near not in rig.adapter.problem

    asyncio.run(all_steps())


def test_a_room_that_has_forgotten_us_is_entered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: also beside one that does not answer."""
    monkeypatch.setattr("gateway.platforms.xmpp.server.link.ASK_SECONDS", 1e6)
    monkeypatch.setattr("gateway.platforms.xmpp.server.room_visits.SELF_PING_SECONDS", 0.1)
    monkeypatch.setattr("gateway.platforms.xmpp.server.room_visits.TEND_SECONDS", 0.1)
    ann = start_server().add_person("ann")
    far, near = ann.make_room(), ann.make_room()

    def is_lost(stanza: bytes) -> bool:
        """The far room answers no question, and of the near one nobody says that we are out."""
        head = stanza.partition(b">")[0]
        return (head.startswith(b"<iq") and far.encode() in head) or (near.encode() in head and b"unavailable" in head)

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, far)
        await enter(rig, ann, near)
        rig.proxy.edit = lambda stanza: None if is_lost(stanza) else stanza
        seen = len(ann.heard)
        ann.set_role(near, nick_of(rig), "none")
        await until(lambda: ann.came(near, nick_of(rig), seen))

    run(tmp_path, steps, rooms=f"{far}, {near}")


def test_a_strangers_invitation_waits_until_they_are_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: they get nothing, not even a no."""
    monkeypatch.setattr("gateway.platforms.xmpp.callers.WEIGH_SECONDS", 0.05)
    bob = start_server().add_person("bob")
    room = bob.make_room(nick="Bob")

    async def steps(rig: XmppRig) -> None:
        rig.core.strangers.add(bob.jid)
        heard = len(bob.heard)
        bob.invite(room, rig.bot)
        bob.write(f"<presence to='{rig.bot}' type='subscribe'/>")
        kept = tmp_path / "platforms" / "xmpp-bot" / "listened.json"
        await until(lambda: room in json.loads(kept.read_text())["invited"])
        await settle(rig)
        assert nick_of(rig) not in bob.occupants(room)
        told = [one for one in bob.heard[heard:] if (one.get("from") or "").startswith(rig.bot)]
        assert not [one for one in told if one.get("type") != "unavailable"]  # that is the server's word
        rig.core.strangers.clear()
        await enter(rig, bob, room)
        here = f"{rig.bot}/hermes"  # they see that it is there
        await until(lambda: any(one.get("from") == here and not one.get("type") for one in bob.heard))

    run(tmp_path, steps)


def test_invitations_of_strangers_take_little_room(tmp_path: Path) -> None:
    """G1, and nothing of them grows: neither long words nor many of them are kept."""
    eve = start_server().add_person("eve")

    async def steps(rig: XmppRig) -> None:
        rig.core.strangers.add(eve.jid)
        for number in range(20):
            long = f"jid='long{number}@{ROOMS}' password='{'p' * 50_000}'"
            eve.write(f"<message to='{rig.bot}'><x xmlns='jabber:x:conference' {long}/></message>")
            eve.invite(f"room-{number}@{ROOMS}", rig.bot)
        eve.say(rig.bot, "done")
        await until(lambda: "done" in words(rig))
        await rig.disconnect()
        kept = (tmp_path / "platforms" / "xmpp-bot" / "listened.json").read_text()
        assert list(json.loads(kept)["invited"]) == [f"room-{number}@{ROOMS}" for number in (17, 18, 19)]
        assert len(kept) < 5_000

    run(tmp_path, steps)


def test_a_room_of_another_server_is_no_witness(tmp_path: Path) -> None:
    """G2: its server could say of anybody that they are the owner. Whoever invites hears why nobody comes."""

    async def steps(rig: XmppRig) -> None:
        room = "trap@rooms.elsewhere.test"
        rig.person.invite(room, rig.bot)
        await until(lambda: any("rooms.elsewhere.test" in text for text in rig.person.texts(rig.bot)))
        assert "room_servers" in rig.person.texts(rig.bot)[-1]
        desk = adapter_of(rig)._desk
        assert desk is not None
        assert desk.rooms.find(room) is None

    run(tmp_path, steps)


@pytest.mark.parametrize("domain", [DOMAIN, "bare.test"])
def test_nobody_plays_a_room(tmp_path: Path, domain: str) -> None:
    """G2: an account could say of anybody that they are there. It is asked whether it is a room, also where its server
    is trusted, and its person is heard as before."""
    server = start_server()
    bob_jid = server.add_account("bob", domain)

    async def steps(rig: XmppRig) -> None:
        bob, as_ann = XmppPerson(server, bob_jid, nick_of(rig)), XmppPerson(server, bob_jid, "Ann")
        bob.invite(bob_jid, rig.bot)
        await until(lambda: any("does not say that it is a room" in text for text in bob.texts(rig.bot)))
        here, told = f"{rig.bot}/hermes", "<x xmlns='http://jabber.org/protocol/muc#user'>{}</x>"
        item = told.format(f"<item affiliation='owner' role='moderator' jid='{rig.person.jid}/x'/>")
        as_ann.write(f"<presence to='{here}'>{item}</presence>")
        ours = told.format(f"<item affiliation='none' role='participant' jid='{here}'/><status code='110'/>")
        bob.write(f"<presence to='{here}'>{ours}</presence>")
        as_ann.write(f"<message to='{here}' type='groupchat' id='m1'><body>{nick_of(rig)}: as ann</body></message>")
        bob.say(rig.bot, "as bob")
        await until(lambda: "as bob" in words(rig))
        await settle(rig)
        assert [(one.text, one.sender) for one in rig.core.taken if one.sender != rig.person.jid] == [
            ("as bob", bob_jid)
        ]
        asked = [one for one in bob.heard if one.tag.endswith("}presence") and (one.get("from") or "").startswith(here)]
        assert not [one for one in asked if one.find("{http://jabber.org/protocol/muc}x") is not None]

    run(tmp_path, steps, room_servers=domain)


def test_nobody_is_made_a_room_by_an_invitation(tmp_path: Path) -> None:
    """G2, C1: whoever is named there is heard as before, also where an older Hermes has kept the name as a room."""
    eve = start_server().add_person("eve")

    async def steps(rig: XmppRig) -> None:
        eve.invite(rig.person.jid, rig.bot)
        await until(lambda: any(rig.person.jid in text for text in eve.texts(rig.bot)))
        await settle(rig)
        await rig.disconnect()
        file = tmp_path / "platforms" / "xmpp-bot" / "listened.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "rooms": {rig.person.jid: ""}}))
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await settle(rig)

    run(tmp_path, steps)


def test_a_room_of_the_settings_that_is_none_is_not_entered(tmp_path: Path) -> None:
    bob = start_server().add_person("bob", "bare.test")

    async def steps(rig: XmppRig) -> None:
        await until(lambda: f"{bob.jid}: it is no room" in rig.adapter.problem)
        assert not [one for one in bob.heard if (one.get("from") or "").startswith(rig.bot)]

    run(tmp_path, steps, rooms=bob.jid)


# --- what others make up


def test_forged_copies_results_ids_and_bounces_change_nothing(tmp_path: Path) -> None:
    """G2, C1: only our own server makes copies, archives and ids; only whoever was written to bounces."""
    eve = start_server().add_person("eve")

    async def steps(rig: XmppRig) -> None:
        names = f"xmlns='jabber:client' from='{rig.person.jid}/x' to='{rig.bot}' type='chat'"
        message = f"<message {names}><body>forged</body></message>"
        forwarded = f"<forwarded xmlns='urn:xmpp:forward:0'>{message}</forwarded>"
        sent = await rig.adapter.send(part(rig.address, "kept"))
        full = f"{rig.bot}/hermes"
        for inner in (
            f"<received xmlns='urn:xmpp:carbons:2'>{forwarded}</received>",
            f"<sent xmlns='urn:xmpp:carbons:2'>{forwarded}</sent>",
            f"<result xmlns='urn:xmpp:mam:2' queryid='x' id='1'>{forwarded}</result>",
        ):
            eve.write(f"<message to='{full}' type='chat'>{inner}</message>")
        error = "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
        eve.write(f"<message to='{full}' type='error' id='{sent}'>{error}</message>")
        forged = f"<stanza-id xmlns='urn:xmpp:sid:0' by='{rig.bot}' id='made-up'/>"
        eve.say(rig.bot, "one", forged)
        eve.say(rig.bot, "two", forged)
        await until(lambda: len(rig.core.taken) == 2)
        await settle(rig)
        assert words(rig) == ["one", "two"]
        assert len({one.message for one in rig.core.taken}) == len(rig.core.taken)
        assert "made-up" not in {one.message for one in rig.core.taken}
        assert rig.core.taken_back == []
        assert rig.core.taken[0].sender == eve.jid

    run(tmp_path, steps)


def test_a_stranger_cannot_ask_the_client_anything(tmp_path: Path) -> None:
    """G1: they hear the same as if nobody were there."""
    eve = start_server().add_person("eve")

    async def steps(rig: XmppRig) -> None:
        for payload in (
            "<query xmlns='http://jabber.org/protocol/disco#info'/>",
            "<ping xmlns='urn:xmpp:ping'/>",
            "<query xmlns='jabber:iq:version'/>",
        ):
            answers = [
                await asyncio.to_thread(eve.ask, payload, f"{rig.bot}/{resource}") for resource in ("hermes", "nobody")
            ]
            assert [one.get("type") for one in answers] == ["error", "error"]
            told = [[child.tag for child in one.iter() if "stanzas" in child.tag] for one in answers]
            assert told[0] == told[1]

    run(tmp_path, steps)


def test_odd_stanzas_end_nothing(tmp_path: Path) -> None:
    """Whatever somebody sends, the line stays, and the next message is heard."""
    eve = start_server().add_person("eve")
    die = random.Random(7)
    spaces = ["jabber:client", "urn:xmpp:carbons:2", "urn:xmpp:mam:2", "http://jabber.org/protocol/muc#user"]
    spaces += ["jabber:x:conference", "urn:xmpp:forward:0", "urn:xmpp:sid:0", "urn:xmpp:delay", "urn:xmpp:sm:3"]
    names = ["body", "received", "sent", "result", "forwarded", "message", "x", "invite", "error", "delay", "replace"]

    def grow(depth: int) -> str:
        name, text = die.choice(names), die.choice(["", "x", "9" * 400, "@/@", "<![CDATA[]]>", "&#x202e;"])
        inner = "".join(grow(depth - 1) for _ in range(die.randrange(3))) if depth else ""
        marks = "".join(
            f" {one}='{die.choice(['', 'a@b', 'x', '-1', '@'])}'" for one in die.sample(["id", "jid", "by", "stamp"], 2)
        )
        return f"<{name} xmlns='{die.choice(spaces)}'{marks}>{text}{inner}</{name}>"

    async def steps(rig: XmppRig) -> None:
        opened = rig.proxy.opened
        for _ in range(400):
            kind = die.choice(["message", "presence"])
            type_ = die.choice(
                ["chat", "error", "normal", "headline", "groupchat"] if kind == "message" else ["error", "subscribe"]
            )
            eve.write(
                f"<{kind} to='{rig.bot}/hermes' type='{type_}' id='{die.choice('ab')}'>{grow(3)}{grow(2)}</{kind}>"
            )
        eve.write(f"<message to='{rig.bot}' type='chat'>{'<a>' * 900}{'</a>' * 900}<body>deep</body></message>")
        await settle(rig)
        assert rig.proxy.opened == opened
        assert rig.adapter.problem == ""
        assert {one.sender for one in rig.core.taken} <= {eve.jid, rig.person.jid}

    run(tmp_path, steps)


@pytest.mark.parametrize("error", [ValueError, RecursionError, KeyError, OverflowError])
def test_what_cannot_be_read_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """C1, C2: whatever a reader stumbles over costs that message, also when the archive brings it again."""

    def stumble(read: Callable[..., Any]) -> Callable[..., Any]:
        def reads(arrived: Arrived, *more: Any) -> Any:
            if arrived.stanza.findtext("{jabber:client}body") == "poison":
                raise error("what somebody wrote")
            return read(arrived, *more)

        return reads

    for name, read in (("read_direct", wire.read_direct), ("read_room", wire.read_room)):
        monkeypatch.setattr(f"gateway.platforms.xmpp.reception.{name}", stumble(read))
    eve = start_server().add_person("eve")
    room = eve.make_room(nick="Eve")

    async def steps(rig: XmppRig) -> None:
        await enter(rig, eve, room)
        eve.say(rig.bot, "poison")
        eve.say(room, "poison", kind="groupchat")
        eve.say(room, "live", kind="groupchat")
        await settle(rig)
        await until(lambda: words(rig) == ["live"])
        await rig.disconnect()
        eve.say(rig.bot, "poison")
        eve.say(room, "poison", kind="groupchat")
        eve.say(room, "missed", kind="groupchat")
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await settle(rig)
        await until(lambda: words(rig) == ["live", "missed"])

    run(tmp_path, steps, rooms=room)


def test_errors_are_never_answered(tmp_path: Path) -> None:
    async def steps(rig: XmppRig) -> None:
        error = "<body>x</body><error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
        heard = len(rig.person.heard)
        rig.person.write(f"<message to='{rig.bot}/hermes' type='error' id='e1'>{error}</message>")
        await settle(rig)
        assert words(rig) == []
        from_bot = [one for one in rig.person.heard[heard:] if (one.get("from") or "").startswith(rig.bot)]
        assert from_bot == []

    run(tmp_path, steps)


def test_what_is_encrypted_is_told_once_and_strangers_get_what_they_always_get(tmp_path: Path) -> None:
    """G1."""
    eve = start_server().add_person("eve")
    locked = "<encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='1'/></encrypted>"

    async def steps(rig: XmppRig) -> None:
        rig.core.strangers.add(eve.jid)
        for _ in range(2):
            rig.person.say(rig.bot, "I sent you an OMEMO encrypted message", locked)
        await until(lambda: len(rig.person.texts(rig.bot)) == 1)
        assert "Switch the encryption off" in rig.person.texts(rig.bot)[0]
        eve.say(rig.bot, "I sent you an OMEMO encrypted message", locked)
        await until(lambda: len(rig.core.taken) == 1)
        assert rig.core.taken[0].sender == eve.jid
        await settle(rig)
        assert eve.texts(rig.bot) == []
        assert len(rig.person.texts(rig.bot)) == 1

    run(tmp_path, steps)


@pytest.mark.parametrize("refused", [False, True])
def test_a_word_that_one_person_does_not_take_holds_up_nobody(tmp_path: Path, refused: bool) -> None:
    """C2, C8: all direct chats are one row of messages. The word to one of its people is refused for two minutes: it is
    sent once meanwhile, and everybody is heard."""
    server = start_server()
    bob = server.add_person("bob")
    locked = "" if refused else "<encrypted xmlns='eu.siacs.conversations.axolotl'><header sid='1'/></encrypted>"

    async def steps(rig: XmppRig) -> None:
        take, send, sent = rig.core.take, rig.adapter.send, []

        async def take_others(inbound: Inbound) -> Accepted | Refused:
            return Refused("Too much waits.") if refused and inbound.text == "hello" else await take(inbound)

        async def count(part: Part) -> str:
            sent.append(part.text)
            return await send(part)

        await rig.disconnect()
        rig.core.take = take_others  # type: ignore[method-assign]
        rig.adapter.send = count  # type: ignore[method-assign]
        await rig.connect()
        for _ in range(20):
            rig.person.refuse_next(rig.bot, "cancel", "remote-server-not-found")
        rig.person.say(rig.bot, "hello", locked)
        await until(lambda: len(sent) == 1)
        for number in range(3):
            bob.say(rig.bot, f"hello {number} from Bob")
            await until(lambda number=number: f"hello {number} from Bob" in words(rig))
            await settle(rig)
        assert len(sent) == 1

    run(tmp_path, steps)


# --- receipts, markers, typing


def test_a_receipt_follows_the_store(tmp_path: Path) -> None:
    """C1: it says that the message is stored; whoever was not let in gets none."""
    eve = start_server().add_person("eve")
    wish = "<request xmlns='urn:xmpp:receipts'/><markable xmlns='urn:xmpp:chat-markers:0'/>"

    async def steps(rig: XmppRig) -> None:
        before = rig.person.count(rig.bot, "urn:xmpp:receipts", "received")
        rig.core.strangers.add(eve.jid)
        rig.core.failures = 1
        id_ = rig.person.say(rig.bot, "hello", wish)
        eve.say(rig.bot, "hello", wish)
        await until(lambda: rig.person.count(rig.bot, "urn:xmpp:receipts", "received") == before + 1)
        assert rig.core.failures == 0
        await rig.adapter.acknowledge(rig.address, rig.core.taken[0].message)
        await until(lambda: rig.person.count(rig.bot, "urn:xmpp:chat-markers:0", "displayed") == 1)
        marker = [one for one in rig.person.heard if one.find("{urn:xmpp:chat-markers:0}displayed") is not None][-1]
        named = marker.find("{urn:xmpp:chat-markers:0}displayed")
        assert named is not None
        assert named.get("id") == id_
        await settle(rig)
        assert eve.count(rig.bot, "urn:xmpp:receipts", "received") == 0

    run(tmp_path, steps)


def test_typing_is_seen(tmp_path: Path) -> None:
    async def steps(rig: XmppRig) -> None:
        await rig.adapter.typing(rig.address)
        space = "http://jabber.org/protocol/chatstates"
        await until(lambda: rig.person.count(rig.bot, space, "composing") == 1)
        await rig.adapter.send(part(rig.address, "done"))
        await until(lambda: rig.person.count(rig.bot, space, "active") == 1)

    run(tmp_path, steps)


# --- the line


def test_a_cut_line_goes_on_where_it_was(tmp_path: Path) -> None:
    """C1, C7: the server counts, so nothing is looked up and nothing comes twice."""

    async def steps(rig: XmppRig) -> None:
        first = adapter_of(rig)._link
        await settle(rig)
        rig.proxy.cut()
        rig.person.say(rig.bot, "meanwhile")
        await until(lambda: words(rig) == ["meanwhile"])
        link = adapter_of(rig)._link
        assert link is not None
        assert link is not first
        assert link.resumed
        await rig.adapter.send(part(rig.address, "hello"))
        await until(lambda: rig.person.texts(rig.bot) == ["hello"])

    run(tmp_path, steps)


@pytest.mark.parametrize("set_by", [0.0, -3600.0])
def test_a_dead_line_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_by: float) -> None:
    """C13: nothing goes through and nobody says so, and the clock is set back meanwhile."""
    clock = time.time
    monkeypatch.setattr("gateway.platforms.xmpp.adapter.QUIET_SECONDS", 0.3)
    monkeypatch.setattr("gateway.platforms.xmpp.adapter.TICK_SECONDS", 0.1)
    monkeypatch.setattr("gateway.platforms.xmpp.server.link.ASK_SECONDS", 0.5)

    async def steps(rig: XmppRig) -> None:
        opened = rig.proxy.opened
        rig.proxy.holds = True
        monkeypatch.setattr(time, "time", lambda: clock() + set_by)
        await until(lambda: "nothing was heard" in rig.adapter.problem)
        assert not rig.adapter.hears
        rig.proxy.holds = False
        rig.person.say(rig.bot, "are you there?")
        await until(lambda: words(rig) == ["are you there?"])
        assert rig.proxy.opened > opened

    run(tmp_path, steps)


def test_a_line_on_which_nobody_gets_a_message_does_not_grow(tmp_path: Path) -> None:
    """F1: what is sent is kept until the server has counted it, so it is asked to count, whatever was sent."""

    async def steps(rig: XmppRig) -> None:
        link = await adapter_of(rig).wait_link()
        for _ in range(5 * MOST_UNCOUNTED):
            await link.ping()
        kept = link.keep()
        assert kept is not None
        assert len(kept.waiting) <= MOST_UNCOUNTED

    run(tmp_path, steps)


def test_another_client_of_the_same_name_is_a_sentence(tmp_path: Path) -> None:
    """I3."""

    async def steps(rig: XmppRig) -> None:
        other = XmppPerson(rig.server, rig.bot, "hermes")
        await until(lambda: "has the name `hermes`" in rig.adapter.problem)
        assert adapter_of(rig)._resumption is None
        other.close()

    run(tmp_path, steps)


def test_a_wrong_password_is_tried_once(tmp_path: Path) -> None:
    async def steps(rig: XmppRig) -> None:
        with pytest.raises(ConfigProblem, match="does not know this address with this password"):
            await rig.connect()
        assert rig.proxy.opened == 1

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, password="wrong-one") as rig:
            await steps(rig)

    asyncio.run(all_steps())


def test_nobody_at_the_address_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, server=f"127.0.0.1:{port}") as rig:
            with pytest.raises(NotNow, match="cannot be reached: nobody takes the connection"):
                await rig.adapter.connect(rig.core)

    asyncio.run(all_steps())


@pytest.mark.parametrize("direct", [False, True])
def test_the_line_is_encrypted_and_the_certificate_checked(
    tmp_path: Path, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G6: a certificate that nobody vouches for is a problem of the settings, and gets no password."""
    server = start_server()
    port = server.direct_port if direct else server.port
    monkeypatch.setattr("gateway.platforms.xmpp.server.link.DIRECT_TLS_PORT", server.direct_port)
    given = {"server": f"127.0.0.1:{port}", "tls": True}

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, **given) as rig:
            with pytest.raises(ConfigProblem, match=r"certificate of .* is not trusted"):
                await rig.adapter.connect(rig.core)
        async with open_rig(tmp_path, **given, ca_file=str(server.folder / "ca.pem")) as rig:
            rig.person.say(rig.bot, "hello")
            await until(lambda: words(rig) == ["hello"])

    asyncio.run(all_steps())


def test_a_name_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    """I3: some servers do not put the other client out."""

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False) as rig:
            conflict = "<conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"

            def refuse(stanza: bytes) -> bytes:
                if b"urn:ietf:params:xml:ns:xmpp-bind" not in stanza or b"<jid>" not in stanza:
                    return stanza
                id_ = re.search(rb"id=['\"]([^'\"]+)", stanza)
                assert id_ is not None
                return f"<iq type='error' id='{id_[1].decode()}'><error type='cancel'>{conflict}</error></iq>".encode()

            rig.proxy.edit = refuse
            with pytest.raises(ConfigProblem, match="has the name `hermes`"):
                await rig.adapter.connect(rig.core)

    asyncio.run(all_steps())


def test_a_port_that_speaks_something_else_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_server()
    monkeypatch.setattr("gateway.platforms.xmpp.server.link.DIRECT_TLS_PORT", server.port)

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, tls=True, server=f"127.0.0.1:{server.port}") as rig:
            with pytest.raises(NotNow, match="it does not speak TLS as we do"):
                await rig.adapter.connect(rig.core)

    asyncio.run(all_steps())


def test_a_server_that_does_not_encrypt_gets_no_password(tmp_path: Path) -> None:
    """G6: also where somebody on the way takes the offer out."""

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, tls=True) as rig:
            starttls = b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
            rig.proxy.edit = lambda stanza: stanza.replace(starttls, b"")
            told: list[bytes] = []
            say = rig.proxy._say
            rig.proxy._say = lambda stanza: (told.append(stanza), say(stanza))[1]  # type: ignore[method-assign]
            with pytest.raises((ConfigProblem, NotNow)) as problem:
                await rig.adapter.connect(rig.core)
            assert "offers no encryption" in str(problem.value)
            assert not [stanza for stanza in told if b"<auth" in stanza]

    asyncio.run(all_steps())


def test_without_encryption_only_ones_own_network_is_called(tmp_path: Path) -> None:
    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, server="192.0.32.7:5222") as rig:
            with pytest.raises(ConfigProblem, match="tls is false"):
                await rig.adapter.connect(rig.core)

    asyncio.run(all_steps())


def test_without_encryption_a_name_that_nobody_knows_now_is_a_passing_trouble(tmp_path: Path) -> None:
    """Without a network no name is known; it is tried again as any lost line is, and no setting is blamed."""

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False, server="nowhere.invalid:5222") as rig:
            with pytest.raises(NotNow, match="cannot be reached: the name of the server is not known"):
                await rig.adapter.connect(rig.core)

    asyncio.run(all_steps())


def hang_a_service(rig: XmppRig, name: bytes = b"gateway.hermes.test") -> None:
    """The server lists one more service, before all others, which answers nothing."""

    def edit(stanza: bytes) -> bytes | None:
        if stanza.startswith(b"<iq") and b"from='" + name + b"'" in stanza.replace(b'"', b"'"):
            return None
        return stanza.replace(b"<item ", b"<item jid='" + name + b"'/><item ", 1)

    rig.proxy.edit = edit


def test_a_service_that_hangs_keeps_nobody_from_logging_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H5: nor from the set-up. Whoever else takes files is found beside it."""
    monkeypatch.setattr("gateway.platforms.xmpp.server.xmpp_offers.SERVICE_SECONDS", 1e6)

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False) as rig:
            hang_a_service(rig)
            assert "takes files up to 2,000,000 bytes" in await probe(rig.settings, tmp_path)
            await rig.connect()
            assert rig.adapter.spec.takes_files
            await settle(rig)

    asyncio.run(all_steps())


def test_a_service_that_takes_files_is_found_when_it_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its silence at the login is no answer, and lasts no longer than it does."""
    monkeypatch.setattr("gateway.platforms.xmpp.server.xmpp_offers.SERVICE_SECONDS", 0.3)
    monkeypatch.setattr("gateway.platforms.xmpp.adapter.SEEK_SECONDS", 0.1)

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False) as rig:
            hang_a_service(rig, b"upload.hermes.test")
            assert "not every service of it said in time" in await probe(rig.settings, tmp_path)
            await rig.connect()
            assert not rig.adapter.spec.takes_files
            await settle(rig)
            rig.proxy.edit = lambda stanza: stanza
            await until(lambda: rig.adapter.spec.takes_files)
            assert rig.adapter.spec.max_file_bytes == 2_000_000

    asyncio.run(all_steps())


@pytest.mark.usefixtures("nothing_is_resumed")
@pytest.mark.parametrize("times", [1, 5])
def test_a_server_that_is_busy_at_the_login_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """C1: a plea for patience does not say that there is no archive, or a message would have another name when the
    archive is read later."""
    monkeypatch.setattr("gateway.platforms.xmpp.server.xmpp_offers.WAITS", (0.01, 0.01))
    monkeypatch.setattr("gateway.platforms.xmpp.adapter.FIRST_PAUSE", 0.01)

    async def steps(rig: XmppRig) -> None:
        await settle(rig)
        refused = put_off(rig, rig.bot, times)
        await begin_anew(rig)
        assert len(refused) == times
        rig.person.say(rig.bot, "delete the file")
        await until(lambda: words(rig) == ["delete the file"])
        await begin_anew(rig)
        await settle(rig)
        assert len({one.message for one in rig.core.taken if one.text == "delete the file"}) == 1
        assert rig.adapter.spec.has_history

    run(tmp_path, steps)


def test_a_server_that_stays_busy_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.platforms.xmpp.server.xmpp_offers.WAITS", (0.01,))

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False) as rig:
            put_off(rig, rig.bot, 1000)
            with pytest.raises(NotNow, match="does not say now what it offers: resource-constraint"):
                await rig.adapter.connect(rig.core)

    asyncio.run(all_steps())


# --- archives


def test_an_archive_that_has_forgotten_the_place_is_read_by_time(tmp_path: Path) -> None:
    async def steps(rig: XmppRig) -> None:
        rig.person.say(rig.bot, "before")
        await until(lambda: words(rig) == ["before"])
        await rig.disconnect()
        rig.person.say(rig.bot, "missed")
        path = tmp_path / "platforms" / "xmpp-bot" / "listened.json"
        kept = json.loads(path.read_text())
        kept["places"][rig.bot][0] = "forgotten"
        path.write_text(json.dumps(kept))
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await until(lambda: "missed" in words(rig))
        assert list(dict.fromkeys(words(rig))) == ["before", "missed"]

    run(tmp_path, steps)


def test_without_its_own_notes_the_store_says_how_far_was_listened(tmp_path: Path) -> None:
    async def steps(rig: XmppRig) -> None:
        rig.person.say(rig.bot, "before")
        await until(lambda: words(rig) == ["before"])
        await rig.disconnect()
        rig.person.say(rig.bot, "missed")
        (tmp_path / "platforms" / "xmpp-bot" / "listened.json").unlink()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await until(lambda: "missed" in words(rig))
        assert words(rig)[:2] == ["before", "missed"]

    run(tmp_path, steps)


def test_a_long_absence_is_read_page_by_page(tmp_path: Path) -> None:
    """C1, C3."""

    async def steps(rig: XmppRig) -> None:
        rig.person.say(rig.bot, "before")
        await until(lambda: words(rig) == ["before"])
        await rig.disconnect()
        said = [f"missed {n}" for n in range(120)]
        for text in said[:-1]:
            rig.person.write(f"<message to='{rig.bot}' type='chat'><body>{text}</body></message>")
        rig.person.say(rig.bot, said[-1])
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await until(lambda: len(words(rig)) >= 121)
        assert words(rig) == ["before", *said]

    run(tmp_path, steps)


def test_a_key_is_looked_up_by_the_next_process(tmp_path: Path) -> None:
    """C7: killed between sending and noting it; the archive tells."""

    async def steps(rig: XmppRig) -> None:
        sent = await rig.adapter.send(part(rig.address, "once", "k1"))
        await rig.disconnect()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        assert await rig.adapter.send(part(rig.address, "once", "k1")) == sent
        await rig.adapter.send(part(rig.address, "two", "k2"))
        await until(lambda: rig.person.texts(rig.bot)[-1] == "two")
        assert rig.person.texts(rig.bot) == ["once", "two"]

    run(tmp_path, steps)


def test_an_archive_that_is_busy_is_no_reason_to_say_it_again(tmp_path: Path) -> None:
    """C7: the next process waits until it can be looked up."""
    error = "<error type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"

    async def steps(rig: XmppRig) -> None:
        sent = await rig.adapter.send(part(rig.address, "once", "k1"))
        await rig.disconnect()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await settle(rig)

        def refuse(stanza: bytes) -> bytes:
            id_ = re.search(rb"id=['\"]([^'\"]+)", stanza)
            if b"<fin" not in stanza or id_ is None:
                return stanza
            return f"<iq type='error' from='{rig.bot}' id='{id_[1].decode()}'>{error}</iq>".encode()

        rig.proxy.edit = refuse
        with pytest.raises(NotNow) as wait:
            await rig.adapter.send(part(rig.address, "once", "k1"))
        assert wait.value.seconds == 30.0
        rig.proxy.edit = lambda stanza: stanza
        assert await rig.adapter.send(part(rig.address, "once", "k1")) == sent
        assert rig.person.texts(rig.bot) == ["once"]

    run(tmp_path, steps)


def test_a_slow_archive_is_searched_once_for_all_chats(tmp_path: Path) -> None:
    """C9: whoever gives up waiting does not begin the search anew, or it would never come to its end."""
    people = [start_server().add_person("slow") for _ in range(6)]

    async def steps(rig: XmppRig) -> None:
        await settle(rig)
        chats = [Address("xmpp", "bot", person.jid) for person in people]
        await rig.adapter.send(part(chats[0], "before", "k-1"))
        await rig.disconnect()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        await settle(rig)
        held = threading.Event()
        rig.proxy.edit = lambda stanza: (held.wait(60), stanza)[1] if b"<fin" in stanza else stanza
        before = rig.proxy.searches

        async def send(number: int, seconds: float) -> None:
            async with asyncio.timeout(seconds):
                await rig.adapter.send(part(chats[number], "hello", f"k{number}"))

        for _ in range(3):
            tried = await asyncio.gather(*(send(number, 0.1) for number in range(6)), return_exceptions=True)
            assert {type(one) for one in tried} == {TimeoutError}
        held.set()
        await asyncio.gather(*(send(number, 60.0) for number in range(6)))
        assert await rig.adapter.send(part(chats[0], "before", "k-1"))
        for number, person in enumerate(people):
            await until(lambda person=person: person.texts(rig.bot)[-1:] == ["hello"])
            assert person.texts(rig.bot) == ["before", "hello"][number > 0 :]
        assert rig.proxy.searches - before == 1

    run(tmp_path, steps)


def test_a_server_without_archive_and_counting(tmp_path: Path) -> None:
    """C1, C7: messages are told apart by themselves, a question behind each is the proof, and no key is promised."""
    server = start_server()
    ann = server.add_person("ann", "bare.test")

    async def all_steps() -> None:
        async with open_rig(tmp_path, connect=False) as rig:
            bot = server.add_account("hermes", "bare.test")
            rig.bot, rig.settings["jid"] = bot, bot
            rig.adapter = rig.make_adapter(rig.settings)
            await rig.adapter.connect(rig.core)
            spec = rig.adapter.spec
            assert (spec.takes_keys, spec.has_history) == (False, False)
            ann.say(bot, "hello")
            ann.say(bot, "hello")
            await until(lambda: len(rig.core.taken) == 2)
            assert len({one.ext_id for one in rig.core.taken}) == 2
            here = Address("xmpp", "bot", ann.jid)
            await rig.adapter.send(part(here, "good day"))
            await until(lambda: ann.texts(bot) == ["good day"])
            with pytest.raises(NotNow):
                await rig.adapter.send(part(Address("xmpp", "bot", "nobody@bare.test"), "hello?", "k2"))

    asyncio.run(all_steps())


def test_a_correction_of_an_old_message_is_found_in_the_archive(tmp_path: Path) -> None:
    """C1: also by a process that has never heard the message; somebody else's words cannot be corrected."""
    eve = start_server().add_person("eve")

    async def steps(rig: XmppRig) -> None:
        id_ = rig.person.say(rig.bot, "frist")
        await until(lambda: words(rig) == ["frist"])
        await rig.disconnect()
        rig.adapter = rig.make_adapter(rig.settings)
        await rig.connect()
        rig.person.correct(rig.bot, id_, "first")
        eve.correct(rig.bot, id_, "evil")
        await until(lambda: len(rig.core.taken) == 3)
        original, corrected, evil = rig.core.taken
        assert corrected.stem == original.stem
        assert corrected.revision
        assert evil.revision == ""
        assert evil.sender == eve.jid

    run(tmp_path, steps)


def test_corrections_of_nothing_make_nobody_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: for a stranger no archive is searched, and for others a few times a minute, and not for long. What is not
    found is a message of its own."""
    eve, bob = start_server().add_person("eve"), start_server().add_person("bob")
    monkeypatch.setattr("gateway.platforms.xmpp.xmpp_desk.LOOK_UP_SECONDS", 0.3)
    monkeypatch.setattr("gateway.platforms.xmpp.reception.LOOK_SECONDS", 1e6)

    def forget_searches(stanza: bytes) -> bytes | None:
        return None if slow and b"<fin " in stanza else stanza

    slow: list[bool] = []

    async def steps(rig: XmppRig) -> None:
        rig.core.strangers.add(eve.jid)
        await settle(rig)
        searches = rig.proxy.searches
        for number in range(20):
            eve.correct(rig.bot, f"none-{number}", f"stranger {number}")
        await settle(rig)
        assert rig.proxy.searches == searches
        rig.proxy.edit = forget_searches
        slow.append(True)
        for number in range(20):
            bob.correct(rig.bot, f"none-{number}", f"known {number}")
        await settle(rig)
        assert rig.proxy.searches == searches + MOST_LOOKS
        assert len(words(rig)) == 40
        assert not any(one.revision for one in rig.core.taken)

    run(tmp_path, steps)


# --- refusals


@pytest.mark.parametrize(
    ("type_", "condition", "form", "waits"),
    [
        ("cancel", "service-unavailable", NotNow, None),
        ("cancel", "item-not-found", NotNow, None),
        ("auth", "forbidden", NotNow, None),
        ("cancel", "not-allowed", NotNow, None),
        ("wait", "resource-constraint", NotNow, 30.0),
        ("cancel", "remote-server-not-found", NotNow, 120.0),
        ("wait", "policy-violation", NotNow, 30.0),
        ("modify", "policy-violation", NeverTaken, None),
        ("modify", "bad-request", NeverTaken, None),
    ],
)
def test_each_refusal_has_its_word(tmp_path: Path, type_: str, condition: str, form: type, waits: float | None) -> None:
    async def steps(rig: XmppRig) -> None:
        rig.person.refuse_next(rig.bot, type_, condition)
        with pytest.raises(form) as failure:
            await rig.adapter.send(part(rig.address, "hello"))
        if isinstance(failure.value, NotNow):
            assert failure.value.seconds == waits
            assert rig.adapter.reachable(rig.address) is (waits is not None)
            rig.person.say(rig.bot, "I am here")
            await until(lambda: rig.adapter.reachable(rig.address))
        assert await rig.adapter.send(part(rig.address, "hello"))
        await until(lambda: rig.person.texts(rig.bot) == ["hello"])

    run(tmp_path, steps)


def test_a_message_that_comes_back_late_is_taken_back(tmp_path: Path) -> None:
    """C9: a server far away may take minutes to say so."""

    async def steps(rig: XmppRig) -> None:
        sent = await rig.adapter.send(part(rig.address, "hello"))
        error = "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
        rig.person.write(f"<message to='{rig.bot}/hermes' type='error' id='{sent}'>{error}</message>")
        await until(lambda: len(rig.core.taken_back) == 1)
        address, id_, failure = rig.core.taken_back[0]
        assert (address, id_) == (rig.address, sent)
        assert isinstance(failure, NotNow)
        assert not rig.adapter.reachable(rig.address)

    run(tmp_path, steps)


def test_in_a_room_nobody_but_the_room_bounces(tmp_path: Path) -> None:
    """C7: everybody there sees the ids of our messages; a forged error must not make us say it again."""
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        sent = await rig.adapter.send(part(group(room), "once"))
        error = "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
        for to in (f"{room}/{nick_of(rig)}", f"{rig.bot}/hermes", room):
            ann.write(f"<message to='{to}' type='error' id='{sent}'>{error}</message>")
        await settle(rig)
        assert rig.core.taken_back == []
        desk = adapter_of(rig)._desk
        assert desk is not None
        assert await desk.find_sent(await adapter_of(rig).wait_link(), group(room), sent)

    run(tmp_path, steps, rooms=room)


def test_a_muted_account_waits_for_its_voice(tmp_path: Path) -> None:
    """C9."""
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        ann.set_role(room, nick_of(rig), "visitor")
        with pytest.raises(NotNow) as wait:
            await rig.adapter.send(part(group(room), "hello"))
        assert wait.value.seconds is None
        ann.set_role(room, nick_of(rig), "participant")
        await until(lambda: group(room) in rig.core.woken)
        await rig.adapter.send(part(group(room), "hello"))
        await until(lambda: ann.texts(f"{room}/{nick_of(rig)}") == ["hello"])

    run(tmp_path, steps, rooms=room)


def test_what_is_refused_by_the_gateway_is_told_once(tmp_path: Path) -> None:
    async def steps(rig: XmppRig) -> None:
        async def refuse(inbound: Inbound) -> Accepted | Refused:
            return Refused("The disk is full.")

        rig.core.take = refuse  # type: ignore[method-assign]
        for _ in range(3):
            rig.person.say(rig.bot, "hello")
        await until(lambda: rig.person.texts(rig.bot) == ["The disk is full."])

    run(tmp_path, steps)


# --- files


def test_files_are_fetched_only_from_where_they_may_be(tmp_path: Path) -> None:
    """G8: an open door on this machine that is not the upload service of our server is not called."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.setblocking(False)

        async def steps(rig: XmppRig) -> None:
            url = await asyncio.to_thread(rig.person.upload, "a b.txt", b"the text")
            await rig.adapter.fetch(FileRef("", "a.txt", remote=url), tmp_path / "got")
            assert (tmp_path / "got").read_bytes() == b"the text"
            port = door.getsockname()[1]
            for bad in (
                f"http://127.0.0.1:{port}/file",
                f"https://127.0.0.1:{port}/file",
                "https://169.254.169.254/latest/meta-data",
                "http://example.org/file",
                "ftp://127.0.0.1/file",
                "file:///etc/passwd",
                "http://[broken/",
            ):
                with pytest.raises(NeverTaken):
                    await rig.adapter.fetch(FileRef("", "x", remote=bad), tmp_path / "never")
            with pytest.raises(BlockingIOError):
                door.accept()

        run(tmp_path, steps)


def test_a_file_that_is_too_large_is_a_sentence(tmp_path: Path) -> None:
    async def steps(rig: XmppRig) -> None:
        assert rig.adapter.spec.max_file_bytes == 2_000_000
        path = tmp_path / "large.bin"
        path.write_bytes(bytes(2_000_001))
        with pytest.raises(NeverTaken, match="larger"):
            await rig.adapter.send_file(part(rig.address, ""), FileRef(str(path), "large.bin", size=2_000_001))

    run(tmp_path, steps)


def test_an_upload_address_that_nobody_answers_mutes_no_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9: the server names a place for the file, and nobody is there. The person hears so, and what comes after."""
    monkeypatch.setattr("gateway.platforms.xmpp.server.xmpp_uploads.PAUSE_SECONDS", 0.1)
    (tmp_path / "plan.txt").write_text("the plan")
    file = FileRef(str(tmp_path / "plan.txt"), "plan.txt", size=8)

    def lead_astray(stanza: bytes) -> bytes:
        named = b"urn:xmpp:http:upload:0" in stanza and b"<slot" in stanza
        return re.sub(rb"http://127\.0\.0\.1:\d+/", b"http://127.0.0.1:1/", stanza) if named else stanza

    async def steps(rig: XmppRig) -> None:
        rig.proxy.edit = lead_astray
        with closing(Store(tmp_path / "state.db")) as store:
            turns, conversation = store.turns, rig.address.conversation("default")
            turns.post(conversation, "file", Outgoing(rig.address, "", FILE, file=file))
            turns.post(conversation, "next", Outgoing(rig.address, "the next answer"))
            node = turns.join(NodeInfo("1", alone=True))
            pace = replace(QUICK, file_patience=0.3)
            delivery = Delivery(turns, [rig.adapter], node, call_off_loop, pace)
            await delivery.start()
            await until(lambda: "the next answer" in rig.person.texts(rig.bot))
            await until(lambda: turns.depth()[1] == 0)
            await delivery.stop()
            (refused,) = turns.list_refused(0.0)
        said = "The file plan.txt could not be sent: The file could not be handed over: no connection to 127.0.0.1: "
        assert rig.person.texts(rig.bot)[0].startswith(said)
        assert refused.reason.startswith(said)
        assert refused.reason.endswith(f"It is kept: {file.path}")
        assert "file_share" not in refused.reason  # whoever has the address may put something there

    run(tmp_path, steps)


def test_a_file_with_words_is_two_messages_that_stand_once(tmp_path: Path) -> None:
    """C7: clients show a file as one only if nothing stands beside its address."""

    async def steps(rig: XmppRig) -> None:
        path = tmp_path / "plan.txt"
        path.write_text("the plan")
        file = FileRef(str(path), "plan.txt", size=8)
        rig.proxy.plan = ["", CUT_AFTER]
        given = part(rig.address, "here it is")
        with pytest.raises(DeliveryFailure):
            await rig.adapter.send_file(given, file)
        while True:
            try:
                await rig.adapter.send_file(given, file)
                break
            except DeliveryFailure:
                await asyncio.sleep(0.1)
        await settle(rig)
        shown = rig.person.messages(rig.bot)
        assert shown[0]["text"] == "here it is"
        assert [one["text"] for one in shown][1:] == [shown[1]["url"]]

    run(tmp_path, steps)


def test_only_the_last_message_of_ours_grows(tmp_path: Path) -> None:
    """C7: some clients show a correction of an older one as a new message: the final text may stand there so, once, but
    no piece of it."""

    async def steps(rig: XmppRig) -> None:
        def draft(text: str) -> Part:
            return replace(part(rig.address, text, key="a"), row=0)

        first = await rig.adapter.send(draft("draft"))
        await rig.adapter.edit(first, draft("draft and more"))
        await rig.say("a word of Ann's between them")
        await rig.adapter.edit(first, draft("draft and much more"))
        second = await rig.adapter.send(part(rig.address, "a question", key="b"))
        with pytest.raises(NeverTaken, match="last message"):
            await rig.adapter.edit(first, draft("the ans …"))
        await rig.adapter.edit(second, part(rig.address, "a better question", key="b"))
        await rig.adapter.edit(first, part(rig.address, "the answer", key="a"))
        await until(lambda: rig.person.texts(rig.bot) == ["the answer", "a better question"])

    run(tmp_path, steps)


# --- settings


def test_edits_can_be_switched_off(tmp_path: Path) -> None:
    async def steps(rig: XmppRig) -> None:
        assert rig.adapter.spec.can_edit is False

    run(tmp_path, steps, edits=False)


def test_the_probe_says_who_it_is_and_what_the_server_offers(tmp_path: Path) -> None:
    """H5, G6: beside a Hermes that runs."""

    async def steps(rig: XmppRig) -> None:
        told = await probe(rig.settings, tmp_path)
        assert f"It is {rig.bot} at 127.0.0.1:" in told
        assert "keeps an archive" in told
        assert "takes files up to 2,000,000 bytes" in told
        assert PASSWORD not in told
        await settle(rig)
        with pytest.raises(ConfigProblem, match="password"):
            await probe({**rig.settings, "password": "wrong-one"}, tmp_path)

    run(tmp_path, steps)


def test_odd_characters_end_no_line(tmp_path: Path) -> None:
    """A server ends the line of whoever sends what XML forbids."""

    async def steps(rig: XmppRig) -> None:
        opened = rig.proxy.opened
        text = "a\x00b\x0bc\ud800d\ufffee <b>&amp;]]></b> 🙂\r\nz"
        await rig.adapter.send(part(rig.address, text))
        await until(lambda: bool(rig.person.texts(rig.bot)))
        assert rig.person.texts(rig.bot) == ["abc\ufffdde <b>&amp;]]></b> 🙂\nz"]
        assert rig.proxy.opened == opened

    run(tmp_path, steps)


def test_a_reply_brings_what_it_replies_to(tmp_path: Path) -> None:
    ann = start_server().add_person("ann")
    room = ann.make_room()

    async def steps(rig: XmppRig) -> None:
        await enter(rig, ann, room)
        await rig.adapter.send(part(group(room), "shall I?"))
        own = f"{room}/{nick_of(rig)}"
        await until(lambda: ann.texts(own) == ["shall I?"])
        stanza = ann.messages(own)[0]["stanza"]
        archived = stanza.find("{urn:xmpp:sid:0}stanza-id").get("id")
        fallback = "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='11'/></fallback>"
        ann.say(
            room,
            "> shall I?\nyes",
            f"<reply xmlns='urn:xmpp:reply:0' to='{own}' id='{archived}'/>{fallback}",
            "groupchat",
        )
        await until(lambda: len(rig.core.taken) == 1)
        (said,) = rig.core.taken
        assert (said.text, said.quote, said.mentioned) == ("yes", "shall I?", True)
        await rig.adapter.send(replace(part(group(room), "done", "k2"), reply_to=said.message))
        await until(lambda: len(ann.texts(own)) == 2)
        reply = ann.messages(own)[1]["stanza"].find("{urn:xmpp:reply:0}reply")
        assert reply.get("id") == said.message

    run(tmp_path, steps, rooms=room)
