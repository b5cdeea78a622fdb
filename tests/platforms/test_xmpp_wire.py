"""XMPP's wire on documented stanzas and on odd ones: nothing but one named error, and nobody becomes somebody else."""

import contextlib
import time
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element, fromstring, tostring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.people import listed_role
from gateway.platforms.face import NeverTaken, NotNow, Part
from gateway.platforms.xmpp import wire_out
from gateway.platforms.xmpp.callers import MOST_OF_ONE, MOST_WAITING, WAIT_SECONDS, add_invitation, drop_old
from gateway.platforms.xmpp.refusals import (
    XmppKind,
    XmppTrouble,
    as_failure,
    as_login_problem,
    read_error,
    read_stream_error,
)
from gateway.platforms.xmpp.wire import (
    LOCAL_ID,
    LONGEST_DELAY,
    Arrived,
    Bounced,
    Invited,
    Locked,
    OddStanza,
    Reflected,
    XmppPassed,
    XmppRoomView,
    XmppSaid,
    XmppSelf,
    read_call,
    read_direct,
    read_room,
    unwrap_carbon,
)
from gateway.platforms.xmpp.xmpp_files import Invitation
from gateway.platforms.xmpp.xmpp_rooms import MOST_OCCUPANTS, RoomChange, XmppRooms
from gateway.platforms.xmpp.xmpp_settings import read_settings
from gateway.platforms.xmpp.xmpp_xml import clean_xml, read_bare, read_resource, read_typed
from gateway.service.gateway import as_from_outside
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, Inbound
from hermes_base.settings import Settings

ME = XmppSelf("bot", "hermes@example.org")
ROOM = "coven@chat.example.org"
VIEW = XmppRoomView(ROOM, "hermes")
CONDITION = "xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'"


def stanza(inner: str, **attributes: str) -> Element:
    given_ = {
        "from_": "juliet@example.org/balcony",
        "to": "hermes@example.org",
        "type": "chat",
        "id": "m1",
        **attributes,
    }
    words = " ".join(f"{name.rstrip('_')}='{value}'" for name, value in given_.items() if value)
    return fromstring(f"<message xmlns='jabber:client' {words}>{inner}</message>")


def direct(inner: str, **attributes: str) -> Any:
    return read_direct(Arrived(stanza(inner, **attributes), live=True), ME)


def in_room(inner: str, nick: str = "thirdwitch", person: str = "hag@example.org", view: XmppRoomView = VIEW) -> Any:
    said = stanza(inner, from_=f"{ROOM}/{nick}", type="groupchat")
    return read_room(Arrived(said, live=True, person=person), ME, view)


# --- direct chats


def test_a_message_has_the_id_that_our_own_server_gave_it() -> None:
    """C1: others' ids count for nothing (XEP-0359)."""
    said = direct(
        "<body>Hello</body><stanza-id xmlns='urn:xmpp:sid:0' by='hermes@example.org' id='28482-98726'/>"
        "<stanza-id xmlns='urn:xmpp:sid:0' by='juliet@example.org' id='made-up'/>"
        "<origin-id xmlns='urn:xmpp:sid:0' id='de305d54'/>"
    )
    assert isinstance(said, XmppSaid)
    assert said.inbound.message == "28482-98726"
    assert said.inbound.sender == "juliet@example.org"
    assert said.inbound.address == Address("xmpp", "bot", "juliet@example.org")
    assert said.client == "juliet@example.org/balcony"


@pytest.mark.parametrize(
    "ids",
    [
        "",
        "<stanza-id xmlns='urn:xmpp:sid:0' by='juliet@example.org' id='x'/>",
        "<stanza-id xmlns='urn:xmpp:sid:0' by='hermes@example.org' id='x'/>" * 2,
    ],
)
def test_without_such_an_id_a_message_is_named_by_itself(ids: str) -> None:
    """C1: the same again is the same; another text under the same id is another message."""
    first, again, other = (direct(f"<body>{text}</body>{ids}") for text in ("a", "a", "b"))
    assert first.inbound.message.startswith(LOCAL_ID)
    assert first.inbound.message == again.inbound.message != other.inbound.message
    nameless = {direct("<body>a</body>", id="").inbound.message for _ in range(3)}
    assert len(nameless) == 3


def test_where_the_server_gives_no_ids_none_is_believed() -> None:
    said = stanza("<body>a</body><stanza-id xmlns='urn:xmpp:sid:0' by='hermes@example.org' id='x'/>")
    read = read_direct(Arrived(said), XmppSelf("bot", "hermes@example.org", trusts_ids=False))
    assert isinstance(read, XmppSaid)
    assert read.inbound.message.startswith(LOCAL_ID)


@pytest.mark.parametrize(
    ("inner", "attributes", "form"),
    [
        ("<body>x</body>", {"type": "headline"}, XmppPassed),
        ("<body>x</body>", {"type": "groupchat"}, XmppPassed),
        ("<body>x</body>", {"from_": "hermes@example.org/other"}, XmppPassed),
        ("<body>x</body>", {"from_": "example.org"}, XmppPassed),
        ("<composing xmlns='http://jabber.org/protocol/chatstates'/>", {}, XmppPassed),
        ("<body>  </body>", {}, XmppPassed),
        ("<received xmlns='urn:xmpp:receipts' id='1'/>", {}, XmppPassed),
        ("<body>psst</body><x xmlns='http://jabber.org/protocol/muc#user'/>", {}, XmppPassed),
        ("<body>x</body>", {"type": ""}, XmppSaid),
        ("<encrypted xmlns='eu.siacs.conversations.axolotl'/><body>fallback</body>", {}, Locked),
        ("<encrypted xmlns='urn:xmpp:omemo:2'/>", {}, Locked),
        ("<openpgp xmlns='urn:xmpp:openpgp:0'>x</openpgp>", {}, Locked),
        ("<x xmlns='jabber:x:encrypted'>x</x><body>This message is encrypted</body>", {}, Locked),
        ("<body>aesgcm://upload.example.org/x.jpg#00</body>", {}, Locked),
        (f"<error type='cancel'><gone {CONDITION}/></error>", {"type": "error"}, Bounced),
    ],
)
def test_what_a_stanza_is(inner: str, attributes: dict[str, str], form: type) -> None:
    assert isinstance(direct(inner, **attributes), form)


def test_what_is_locked_says_nothing_of_what_was_written() -> None:
    read = direct("<encrypted xmlns='urn:xmpp:omemo:2'/><body>some secret fallback</body>")
    assert "fallback" not in read.inbound.text


def test_a_carbon_is_our_own_servers_or_none() -> None:
    """XEP-0280: section 11 tells what happens to those who believe others."""
    inner = (
        "<message xmlns='jabber:client' from='romeo@example.org/x' to='hermes@example.org'><body>hi</body></message>"
    )
    copy = f"<received xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'>{inner}</forwarded></received>"
    found = unwrap_carbon(stanza(copy, from_="hermes@example.org"), ME)
    assert found is not None
    assert found.get("from") == "romeo@example.org/x"
    for giver in ("juliet@example.org/balcony", "hermes@example.org/other", "example.org", ""):
        with pytest.raises(OddStanza):
            unwrap_carbon(stanza(copy, from_=giver), ME)
    assert unwrap_carbon(stanza("<body>x</body>"), ME) is None


def test_files_are_addresses_beside_or_instead_of_words() -> None:
    url = "https://upload.example.org/4a771ac1/tr%C3%A8s%20cool.jpg"
    oob = f"<x xmlns='jabber:x:oob'><url>{url}</url></x>"
    alone = direct(f"<body>{url}</body>{oob}").inbound
    assert alone.text == ""
    assert [(file.name, file.kind, file.remote) for file in alone.files] == [("très cool.jpg", "image", url)]
    assert direct(f"<body>look</body>{oob}").inbound.text == "look"
    assert direct(f"<body>{url}</body>").inbound.files == ()
    for bad in ("file:///etc/passwd", "javascript:alert(1)", "https://", "http://[x", ""):
        said = direct(f"<body>x</body><x xmlns='jabber:x:oob'><url>{bad}</url></x>")
        assert said.inbound.files == ()


def test_a_name_of_a_file_leads_nowhere() -> None:
    oob = "<x xmlns='jabber:x:oob'><url>https://h.example/%2e%2e%2f%2e%2e%2fetc%2fpasswd</url></x>"
    (file,) = direct(f"<body>x</body>{oob}").inbound.files
    assert "/" not in file.name


def test_a_reply_without_what_it_repeats() -> None:
    """XEP-0461, with its fallback."""
    said = direct(
        "<body>> Anna wrote:\n> We should bake a cake\nGreat idea!</body>"
        "<reply xmlns='urn:xmpp:reply:0' to='anna@example.com/tablet' id='message-id1'/>"
        "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='38'/></fallback>"
    ).inbound
    assert (said.text, said.reply_to) == ("Great idea!", "message-id1")
    assert said.quote == "Anna wrote:\nWe should bake a cake"


@given(start=st.text(max_size=5), end=st.text(max_size=5), body=st.text(max_size=30))
def test_odd_fallbacks_lose_no_words(start: str, end: str, body: str) -> None:
    said = stanza(
        "<reply xmlns='urn:xmpp:reply:0' id='1'/><body/><fallback xmlns='urn:xmpp:fallback:0'><body/></fallback>"
    )
    said.find("{jabber:client}body").text = f"x{body}"  # type: ignore[union-attr]
    place = said.find("{urn:xmpp:fallback:0}fallback")
    assert place is not None
    place.set("for", "urn:xmpp:reply:0")
    place[0].attrib.update(start=start, end=end)
    read = read_direct(Arrived(said), ME)
    assert isinstance(read, XmppSaid | XmppPassed | Locked)


@pytest.mark.parametrize("start", ["9" * 5_000, "-1", "\u00b2", "1e3", "7"])
def test_a_fallback_that_is_in_no_text_loses_no_words(start: str) -> None:
    reply = "<reply xmlns='urn:xmpp:reply:0' id='1'/>"
    place = f"<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='{start}' end='5'/></fallback>"
    assert direct(f"<body>hello</body>{reply}{place}").inbound.text == "hello"


def test_commands_and_actions() -> None:
    assert direct("<body>!stop</body>").inbound.text == "/stop"
    assert direct("<body>!important</body>").inbound.text == "!important"
    assert direct("<body>/me yawns</body>").inbound.text == "* juliet yawns"


def test_a_correction_names_what_it_corrects() -> None:
    said = direct("<body>But soft</body><replace xmlns='urn:xmpp:message-correct:0' id='bad1'/>")
    assert said.corrects == "bad1"


NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("delays", "when"),
    [
        ([], NOW),
        ([("example.org", "2023-11-14T22:03:20Z")], NOW - 600),
        ([("hermes@example.org", "2023-11-14T22:03:20Z")], NOW - 600),
        ([("juliet@example.org", "2023-11-14T22:03:20Z")], NOW),  # anybody can write that
        ([("", "2023-11-14T22:03:20Z")], NOW),
        ([("example.org", "2023-11-14T22:13:00Z"), ("example.org", "2023-11-14T22:03:20Z")], NOW - 600),
        ([("example.org", "9999-12-31T23:59:59Z")], NOW),
        ([("example.org", "1971-12-31T23:59:59Z")], NOW - LONGEST_DELAY),
        ([("example.org", "soon")], NOW),
    ],
)
def test_the_time_is_when_our_server_got_it(delays: list[tuple[str, str]], when: float) -> None:
    """G4: nobody gives an old word a later time than our server does, nor any a time that is to come."""
    every = "".join(f"<delay xmlns='urn:xmpp:delay' from='{giver}' stamp='{at}'/>" for giver, at in delays)
    arrived = Arrived(stanza(f"<body>x</body>{every}"), live=True, came=NOW)
    read = read_direct(arrived, ME)
    assert isinstance(read, XmppSaid)
    assert read.inbound.received == when
    in_archive = read_direct(replace(arrived, archive="1", stamp=5.0), ME)
    assert isinstance(in_archive, XmppSaid)
    assert in_archive.inbound.received == 5.0


def test_a_message_that_waited_here_came_when_it_came() -> None:
    before = time.time()
    arrived = Arrived(stanza("<body>x</body>"), live=True)
    after = time.time()
    assert before <= read_direct(arrived, ME).inbound.received <= after  # type: ignore[union-attr]
    assert read_direct(arrived, ME).inbound.received == arrived.came  # type: ignore[union-attr]


_NAMES = st.sampled_from(
    ["body", "x", "reply", "replace", "error", "stanza-id", "encrypted", "invite", "delay", "fallback"]
)
_SPACES = st.sampled_from(
    [
        *(
            "jabber:client",
            "urn:xmpp:sid:0",
            "http://jabber.org/protocol/muc#user",
            "jabber:x:conference",
            "jabber:x:oob",
        ),
        *(
            "urn:xmpp:reply:0",
            "urn:xmpp:fallback:0",
            "urn:xmpp:delay",
            "urn:xmpp:message-correct:0",
            "urn:xmpp:carbons:2",
        ),
    ]
)


_VALUES = st.text(max_size=12) | st.sampled_from(
    ["9" * 5_000, "-1", "\u0663", "urn:xmpp:reply:0", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00", "a@b/c"]
)


@st.composite
def odd_elements(draw: Any, depth: int = 2) -> Element:
    made = Element(f"{{{draw(_SPACES)}}}{draw(_NAMES)}")
    for name in draw(
        st.lists(st.sampled_from(["id", "by", "jid", "from", "start", "end", "stamp", "for", "type"]), max_size=3)
    ):
        made.set(name, draw(_VALUES))
    made.text = draw(st.none() | st.text(max_size=20))
    for child in draw(st.lists(odd_elements(depth=depth - 1), max_size=2)) if depth else ():
        made.append(child)
    return made


@given(
    children=st.lists(odd_elements(), max_size=4),
    giver=st.text(max_size=20),
    kind=st.sampled_from(["chat", "error", "groupchat", "normal", "?"]),
)
def test_odd_stanzas_raise_nothing_but_one_error(children: list[Element], giver: str, kind: str) -> None:
    odd = Element("{jabber:client}message", {"from": giver, "type": kind})
    odd.extend(children)
    for read in (
        lambda: read_direct(Arrived(odd), ME),
        lambda: read_room(Arrived(odd, person="x@example.org"), ME, VIEW),
        lambda: unwrap_carbon(odd, ME),
        lambda: read_error(odd),
        lambda: XmppRooms("hermes", {ROOM: ""}).take_presence(odd),
    ):
        with contextlib.suppress(OddStanza):
            read()


# --- rooms


def test_in_a_room_who_speaks_is_who_had_the_nick() -> None:
    """G2, XEP-0045: the address comes from the room's presences, for the moment in which it was said."""
    said = in_room("<body>hermes: Thrice the brinded cat hath mew'd.</body>")
    assert said.inbound.sender == "hag@example.org"
    assert said.inbound.sender_name == "thirdwitch"
    assert said.inbound.mentioned
    assert said.inbound.text == "Thrice the brinded cat hath mew'd."
    assert isinstance(in_room("<body>x</body>", person=""), XmppPassed)
    forged = "<x xmlns='http://jabber.org/protocol/muc#user'><item jid='owner@example.org'/></x><body>x</body>"
    assert in_room(forged).inbound.sender == "hag@example.org"


def archived(inner: str) -> Any:
    said = stanza(f"{inner}<body>x</body>", from_=f"{ROOM}/firstwitch", type="groupchat", id="h1")
    view = replace(VIEW, occupants={"o-witch": "witch1@example.org", "o-us": "hermes@example.org", "o-two": ""})
    return read_room(Arrived(said, "34482-21985", 1.0), ME, view)


def occupant(id_: str) -> str:
    return f"<occupant-id xmlns='urn:xmpp:occupant-id:0' id='{id_}'/>"


def test_in_an_archive_somebody_is_known_by_the_id_that_the_room_gave_them() -> None:
    """XEP-0421."""
    read = archived(occupant("o-witch"))
    assert isinstance(read, XmppSaid)
    assert (read.inbound.sender, read.inbound.message) == ("witch1@example.org", "34482-21985")
    assert archived(occupant("o-us")) == Reflected("h1", "34482-21985")


OWNER = "<x xmlns='http://jabber.org/protocol/muc#user'><item jid='owner@example.org' affiliation='owner'/></x>"


@pytest.mark.parametrize(
    "inner",
    [
        "",
        OWNER,
        OWNER * 2,
        f"{OWNER}{occupant('unheard of')}",
        occupant("o-two"),
        occupant("o-witch") * 2,
        f"{occupant('o-us')}{occupant('o-witch')}",
        f"<x xmlns='urn:else'>{occupant('o-witch')}</x>",
        "<occupant-id xmlns='urn:else' id='o-witch'/>",
    ],
)
def test_in_an_archive_no_other_word_says_who_it_was(inner: str) -> None:
    """G2: whoever writes there can write an address, and rooms leave it in."""
    assert archived(inner) == XmppPassed("the room does not say who it is")


def test_our_own_words_come_back() -> None:
    assert isinstance(in_room("<body>x</body>", nick="hermes", person="hermes@example.org"), Reflected)
    assert isinstance(in_room("<body>x</body>", nick="hermes", person=""), Reflected)


@pytest.mark.parametrize(
    ("text", "left", "named"),
    [
        ("hermes: go on", "go on", True),
        ("Hermes, go on", "go on", True),
        ("@hermes: go on", "go on", True),
        ("what do you think, hermes?", "what do you think, hermes?", True),
        ("ask @hermes about it", "ask @hermes about it", True),
        ("hermeses are birds", "hermeses are birds", False),
        ("see hermes@example.org", "see hermes@example.org", False),
        ("https://example.org/hermes/x", "https://example.org/hermes/x", False),
        ("no-hermes-here", "no-hermes-here", False),
        ("hermes:", "hermes:", True),
    ],
)
def test_a_nick_is_a_word_of_its_own(text: str, left: str, named: bool) -> None:
    assert read_call(text, "hermes") == (left, named)


@given(st.text(min_size=1, max_size=10), st.text(max_size=40))
def test_any_nick_can_be_looked_for(nick: str, text: str) -> None:
    assert text.endswith(read_call(text, nick)[0])


def test_we_are_also_called_what_we_want_to_be_called_while_nobody_is() -> None:
    rooms = XmppRooms("hermes", {ROOM: ""})
    rooms.take_presence(presence("hermes", "<item jid='other@example.org/x'/>"))
    room, _ = rooms.take_presence(presence("hermes_", codes=(110,)))
    assert room is not None
    assert rooms.find_other_name(room) == ""
    gone = rooms.take_presence(presence("hermes", "<item/>", "unavailable"))
    assert gone[1] is RoomChange.NICK_FREE
    view = XmppRoomView(ROOM, room.nick, rooms.find_other_name(room))
    read = in_room("<body>hermes: go on</body>", view=view)
    assert (read.inbound.text, read.inbound.mentioned) == ("go on", True)
    rooms.take_presence(presence("hermes_", "<item nick='hermes'/>", "unavailable", (110, 303)))
    assert room.nick == "hermes"
    assert rooms.find_other_name(room) == ""


def test_invitations() -> None:
    """XEP-0249: from the person; XEP-0045: in somebody's name, which only their server could vouch for."""
    by_person = direct(f"<x xmlns='jabber:x:conference' jid='{ROOM}' password='cauldronburn'/>", type="")
    assert by_person == Invited(ROOM, "juliet@example.org", "cauldronburn")
    invite = "<invite from='crone1@example.org/desktop'/><password>p</password>"
    inner = f"<x xmlns='http://jabber.org/protocol/muc#user'>{invite}</x>"
    assert direct(inner, from_=ROOM, type="") == Invited(ROOM, "crone1@example.org", "p", vouched=False)
    for jid in ("", "chat.example.org", "@@"):
        assert isinstance(direct(f"<x xmlns='jabber:x:conference' jid='{jid}'/>"), XmppPassed)


def test_invitations_wait_for_a_time_and_few_of_one_person() -> None:
    waiting: dict[str, Invitation] = {}
    for number in range(2 * MOST_WAITING):
        for person in ("eve@example.org", f"n{number}@example.org"):
            waiting = add_invitation(waiting, Invited(f"{person[:3]}{number}@r.example.org", person), float(number))
    assert len(waiting) == MOST_WAITING
    assert sum(person == "eve@example.org" for person, _, _ in waiting.values()) == MOST_OF_ONE
    again = add_invitation(waiting, Invited(next(iter(waiting)), "ann@example.org", "new"), 500.0)
    assert len(again) == MOST_WAITING
    assert list(again.values())[-1] == ("ann@example.org", "new", 500.0)
    assert len(drop_old(again, 500.0 + WAIT_SECONDS - 1)) == 1
    assert drop_old(again, 500.0 + WAIT_SECONDS) == {}


def presence(nick: str, inner: str = "", kind: str = "", codes: tuple[int, ...] = ()) -> Element:
    statuses = "".join(f"<status code='{code}'/>" for code in codes)
    type_ = f"type='{kind}'" if kind else ""
    told = f"<x xmlns='http://jabber.org/protocol/muc#user'>{inner}{statuses}</x>"
    return fromstring(f"<presence xmlns='jabber:client' from='{ROOM}/{nick}' {type_}>{told}</presence>")


def test_presences_say_who_is_there() -> None:
    rooms = XmppRooms("hermes", {ROOM: ""})
    assert rooms.take_presence(presence("firstwitch", "<item jid='crone1@example.org/desktop'/>"))[1] is RoomChange.NONE
    room, change = rooms.take_presence(presence("hermes", "<item jid='hermes@example.org/x'/>", codes=(110,)))
    assert change is RoomChange.JOINED
    assert room is not None
    assert room.people["firstwitch"] == "crone1@example.org"
    rooms.take_presence(presence("firstwitch", "<item nick='oldhag'/>", "unavailable", (303,)))
    assert "firstwitch" not in room.people
    rooms.take_presence(presence("firstwitch", "<item/>"))
    assert room.people["firstwitch"] == ""
    assert rooms.take_presence(presence("hermes", "<item/>", "unavailable", (110, 301)))[1] is RoomChange.LEFT
    assert "banned" in rooms.problem
    assert room.people == {}
    assert rooms.take_presence(presence("hermes", codes=(110, 201)))[1] is RoomChange.MADE


def test_an_id_of_an_occupant_is_ones_own() -> None:
    """G2: it is learnt from presences alone, where the room gives such ids, and one that two had is nobody's."""
    rooms = XmppRooms("hermes", {ROOM: ""})
    room = rooms.find(ROOM)
    assert room is not None

    def come(nick: str, jid: str, id_: str) -> None:
        came = presence(nick, f"<item jid='{jid}'/>" if jid else "<item/>")
        came.append(fromstring(occupant(id_)))
        rooms.take_presence(came)

    come("a", "ann@example.org/x", "o-1")
    assert room.occupants is None
    room.occupants = {}
    come("a", "ann@example.org/x", "o-1")
    come("b", "", "o-2")
    come("e", "eve@example.org/x", "o-3")
    come("a2", "ann@example.org/y", "o-1")
    assert room.occupants == {"o-3": "eve@example.org", "o-1": "ann@example.org"}
    come("e", "eve@example.org/x", "o-1")
    come("a", "ann@example.org/x", "o-1")
    assert room.occupants["o-1"] == ""
    for number in range(1_000):
        come("n", f"n{number}@example.org/x", f"n-{number}")
    assert len(room.occupants) == MOST_OCCUPANTS


def shown(giver: str | None, inner: str = "<body>x</body>") -> Element:
    """What a room shows, with a time of this giver; None: without one."""
    given = f" from='{giver}'" if giver else ""
    delay = "" if giver is None else f"<delay xmlns='urn:xmpp:delay'{given} stamp='2026-01-01T00:00:00Z'/>"
    text = f"<message xmlns='jabber:client' from='{ROOM}/witch' type='groupchat'>{inner}{delay}</message>"
    return fromstring(text)


SUBJECT = "<subject>Potions</subject>"


@pytest.mark.parametrize(
    ("stanzas", "new"),
    [
        ([shown(ROOM), shown(ROOM, SUBJECT), shown(None)], [False, False, True]),
        ([shown("crone@example.org/x"), shown(None, SUBJECT), shown("crone@example.org/x")], [False, True, True]),
        ([shown(""), shown(ROOM, SUBJECT), shown("")], [False, False, True]),
        ([shown(ROOM, SUBJECT), shown(ROOM)], [False, False]),  # an older subject among the memories
        ([shown("hermes@example.org"), shown("crone@example.org/x")], [True, True]),  # no subject, sent again
        ([shown("example.org", SUBJECT), shown("hermes@example.org")], [True, True]),
        ([shown(ROOM, SUBJECT + "<body>x</body>"), shown("")], [False, False]),  # a message with a title
    ],
)
def test_what_a_room_remembers_is_not_said_now(stanzas: list[Element], new: list[bool]) -> None:
    """C1: whoever else gives a message a time, it is one that was late on its way."""
    rooms = XmppRooms("hermes", {ROOM: ""})
    room, _ = rooms.take_presence(presence("hermes", codes=(110,)))
    assert room is not None
    assert [rooms.is_new(room, stanza, {"hermes@example.org", "example.org"}) for stanza in stanzas] == new
    rooms.begin_anew()
    rooms.take_presence(presence("hermes", codes=(110,)))
    assert not rooms.is_new(room, shown(""), set())


@pytest.mark.parametrize(
    ("codes", "change", "said"),
    [
        ((307,), RoomChange.LEFT, "put out"),
        ((322,), RoomChange.LEFT, "members only"),
        ((332,), RoomChange.PUT_OFF, "shut down"),
        ((307, 333), RoomChange.PUT_OFF, "lost us"),
        ((), RoomChange.PUT_OFF, "not in it"),
    ],
)
def test_only_who_is_meant_to_be_out_is_out_for_good(codes: tuple[int, ...], change: RoomChange, said: str) -> None:
    rooms = XmppRooms("hermes", {ROOM: ""})
    rooms.take_presence(presence("hermes", codes=(110,)))
    assert rooms.take_presence(presence("hermes", kind="unavailable", codes=(110, *codes)))[1] is change
    assert said in rooms.problem
    assert bool(rooms.list_due(time.monotonic(), 1.0)) is (change is RoomChange.PUT_OFF)


@pytest.mark.parametrize(
    ("type_", "condition", "said", "change"),
    [
        ("auth", "not-authorized", "password", RoomChange.REFUSED),
        ("auth", "forbidden", "banned", RoomChange.REFUSED),
        ("auth", "registration-required", "members only", RoomChange.REFUSED),
        ("cancel", "gone", "closed", RoomChange.REFUSED),
        ("wait", "not-acceptable", "nick", RoomChange.PUT_OFF),
        ("cancel", "service-unavailable", "full", RoomChange.PUT_OFF),
        ("wait", "resource-constraint", "busy", RoomChange.PUT_OFF),
        ("cancel", "remote-server-not-found", "found", RoomChange.PUT_OFF),
        ("cancel", "strange-new-thing", "strange-new-thing", RoomChange.PUT_OFF),
    ],
)
def test_why_a_room_does_not_let_us_in(type_: str, condition: str, said: str, change: RoomChange) -> None:
    """Only what somebody has decided is for good."""
    rooms = XmppRooms("hermes", {ROOM: ""})
    error = f"<error type='{type_}'><{condition} {CONDITION}/></error>"
    refused = fromstring(f"<presence xmlns='jabber:client' from='{ROOM}/hermes' type='error'>{error}</presence>")
    assert rooms.take_presence(refused)[1] is change
    assert said in rooms.problem


# --- what is said


def part(text: str, kind: str = "dm", markup: str = "styling") -> Part:
    return Part(Address("xmpp", "bot", ROOM if kind == "group" else "juliet@example.org", kind), text, markup=markup)


@given(st.text(), st.sampled_from(["dm", "group"]))
def test_any_text_is_well_formed(text: str, kind: str) -> None:
    """Whatever a model writes, the server can read it, and nothing but what XML forbids is lost."""
    made = wire_out.make_message(part(text, kind), "h1")
    again = fromstring(tostring(made, encoding="unicode"))
    assert (again.findtext("{jabber:client}body") or "") == clean_xml(text)
    assert again.get("type") == ("groupchat" if kind == "group" else "chat")


def test_an_edit_names_the_message() -> None:
    made = wire_out.make_edit(part("new"), "h2", "h1")
    replaced = made.find("{urn:xmpp:message-correct:0}replace")
    assert replaced is not None
    assert replaced.get("id") == "h1"
    assert made.get("id") == "h2"


def test_ids_are_the_same_for_a_repetition_and_other_ones_in_another_home() -> None:
    """C7."""
    first = wire_out.make_id("salt", "k1")
    assert first == wire_out.make_id("salt", "k1")
    assert len({first, wire_out.make_id("salt", "k2"), wire_out.make_id("other", "k1")}) == 3
    assert wire_out.is_message_id(first)
    assert wire_out.is_message_id(first + wire_out.CAPTION)
    assert not wire_out.is_message_id("no such message")


def test_a_repetition_in_doubt_is_marked() -> None:
    made = wire_out.make_message(part("hello"), "h1")
    wire_out.mark_again(made)
    assert made.findtext("{jabber:client}body") == "(sent again: the first may have arrived)\nhello"
    file = wire_out.make_file(part(""), "h1", "https://x.example/f")
    wire_out.mark_again(file)
    assert file.findtext("{jabber:client}body") == "https://x.example/f"


def test_what_is_not_markup_says_so() -> None:
    plain = wire_out.make_message(part("2 * 3 * 4", markup="plain"), "h1")
    assert plain.find("{urn:xmpp:styling:0}unstyled") is not None
    assert wire_out.make_message(part("*bold*"), "h1").find("{urn:xmpp:styling:0}unstyled") is None


# --- refusals


def error_of(inner: str) -> XmppTrouble:
    return read_error(stanza(f"<error type='cancel'>{inner}</error>", type="error"))


def test_an_error_says_what_and_why() -> None:
    trouble = error_of(f"<gone {CONDITION}>xmpp:other@example.org</gone><text {CONDITION}>moved\n  away</text>")
    assert (trouble.condition, trouble.type, trouble.text) == ("gone", "cancel", "moved away")
    assert read_error(stanza("", type="error")).condition == "undefined-condition"
    assert error_of("").condition == "undefined-condition"


@given(st.text(max_size=30), st.text(max_size=10), st.text(max_size=30))
def test_every_condition_becomes_a_failure_of_the_face(condition: str, type_: str, text: str) -> None:
    failure = as_failure(XmppTrouble(XmppKind.REFUSED, condition, type_, text), "juliet@example.org")
    assert isinstance(failure, NotNow | NeverTaken)


def test_doubt_is_doubt_and_no_line_is_none() -> None:
    assert type(as_failure(XmppTrouble(XmppKind.UNSURE), "c")) is DeliveryFailure
    unsent = as_failure(XmppTrouble(XmppKind.UNSENT), "c")
    assert isinstance(unsent, NotNow)
    assert unsent.whole_account


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("conflict", "another client"),
        ("system-shutdown", "shut down"),
        ("host-unknown", "does not know"),
        ("policy-violation", "rule"),
        ("never-heard-of", "never-heard-of"),
    ],
)
def test_why_a_server_ends_the_line(condition: str, said: str) -> None:
    space = "xmlns='urn:ietf:params:xml:ns:xmpp-streams'"
    error = fromstring(f"<error xmlns='http://etherx.jabber.org/streams'><{condition} {space}/></error>")
    assert read_stream_error(error)[0] == condition
    assert said in read_stream_error(error)[1]


def test_another_host_is_named() -> None:
    space = "xmlns='urn:ietf:params:xml:ns:xmpp-streams'"
    host = f"<see-other-host {space}>[2001:41D0:1:A49b::1]:9222</see-other-host>"
    error = fromstring(f"<error xmlns='http://etherx.jabber.org/streams'>{host}</error>")
    assert "[2001:41D0:1:A49b::1]:9222" in read_stream_error(error)[1]


def test_logging_in_fails_in_sentences() -> None:
    assert isinstance(as_login_problem("temporary-auth-failure", ""), NotNow)
    assert "password" in str(as_login_problem("not-authorized", ""))
    assert "switched the account off" in str(as_login_problem("account-disabled", "Call us"))
    assert isinstance(as_login_problem("who-knows", ""), ConfigProblem)


# --- settings


def settings(**more: Any) -> dict[str, Any]:
    return {"jid": "hermes@example.org", "password": "x", **more}


def test_settings_are_read() -> None:
    read = read_settings(
        settings(jid="Hermes@Example.ORG", rooms="a@r.example.org, b@r.example.org sesame", server="h:5223")
    )
    assert (read.jid, read.host, read.port, read.tls) == ("hermes@example.org", "h", 5223, True)
    assert read.rooms == {"a@r.example.org": "", "b@r.example.org": "sesame"}
    assert (read.nick, read.resource) == ("hermes", "hermes")
    assert read_settings(settings(server="[::1]:5299")).host == "::1"
    assert read_settings(settings(tls=False)).tls is False
    assert read_settings(settings(tls="false")).tls is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"jid": ""},
        {"password": ""},
        {"jid": "example.org"},
        {"jid": "a@b/c"},
        {"jid": "a b@c"},
        {"server": "x:y"},
        {"server": "x:99999"},
        {"server": "https://x"},
        {"rooms": "not a room"},
        {"rooms": ["rooms.example.org"]},
        {"rooms": ["somebody@example.org"]},
    ],
)
def test_settings_that_will_not_do(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigProblem):
        read_settings(settings(**wrong))


def test_whose_rooms_may_say_who_is_who() -> None:
    """G2."""
    read = read_settings(settings(rooms="named@far.example", room_servers=["friends.example"]))
    assert read.trusts_room("any@rooms.example.org")
    assert read.trusts_room("named@far.example")
    assert read.trusts_room("any@friends.example")
    for room in (
        "any@example.org",
        "other@far.example",
        "any@evilexample.org",
        "any@example.org.evil",
        "any@rooms.friends.example",
    ):
        assert not read.trusts_room(room)


@given(st.text(max_size=30))
def test_an_address_that_a_server_tells_is_taken_as_it_is(text: str) -> None:
    """G2: whatever two servers, or two rooms, tell apart is told apart here, too."""
    assert read_bare(text) in ("", text.partition("/")[0])
    assert read_resource(f"room@example.org/{text}") == text


@pytest.mark.parametrize("alike", ["a\u1d43n", "\uff41an", "a\u00aan", "A\u0041n", "aan\u200b"])
def test_signs_that_look_alike_make_nobody_somebody_else(alike: str) -> None:
    """G2: of accounts and of nicks."""
    assert read_bare(f"{alike}@example.org/x") == f"{alike}@example.org"
    rooms = XmppRooms("hermes", {ROOM: ""})
    rooms.take_presence(presence("aan", "<item jid='owner@example.org/x'/>"))
    room, _ = rooms.take_presence(presence(alike, "<item jid='eve@example.org/x'/>"))
    assert room is not None
    assert room.people == {"aan": "owner@example.org", alike: "eve@example.org"}


@pytest.mark.parametrize("alike", ["a\u1d43n", "\uff41an", "a\u00aan", "aan\u200b", "stra\u00dfe"])
def test_the_gateway_takes_nobody_for_somebody_who_looks_alike(alike: str) -> None:
    """G2: the rule by which people's spelling of an address is read makes one of no two accounts."""
    said = Inbound(Address("xmpp", "bot", f"{alike}@example.org"), "1", f"{alike}@example.org", "hi")
    assert as_from_outside(said).sender == said.sender
    settings = replace(Settings(), platforms={"xmpp": {"owner": "Aan@example.org", "allow": "strasse@example.org"}})
    assert listed_role(settings, "xmpp", said.sender) == ""
    assert listed_role(settings, "xmpp", "aan@example.org") == "owner"


def test_an_address_that_a_person_types_may_have_large_letters() -> None:
    assert read_typed(" Hermes@Example.ORG ") == "hermes@example.org"
    assert read_typed("J\u0075\u0308rgen@example.org") == "j\u00fcrgen@example.org"
    assert read_typed("a\u1d43n@example.org") != read_typed("aan@example.org")
    for none in ("", "a b@example.org", "@example.org", "a@", "a@b@c", "a@b/c"):
        assert read_typed(none) == ""
