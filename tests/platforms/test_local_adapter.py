"""The local socket with real clients on it: nothing lost, nothing doubled, everyone sees the same, in order."""

import asyncio
import gc
import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from local_house import EchoHouse, HouseThread
from raw_client import Answered, Call, GiveAnswer, RawClient, Stop, Stopped, Told
from waiting import wait_until

from gateway.delivery.delivery import LiveEvents
from gateway.http.terminal import listening, local_server
from gateway.platforms import hub
from gateway.platforms.face import Begun, Dealt, Heard, LiveEvent
from hermes_base import local_wire as wire
from hermes_base.chat import Notice, Question, Said, TextDelta, ToolStarted
from hermes_base.errors import ConfigProblem, StoreFailure
from hermes_base.inbound import NOTE, Address, Inbound, Outgoing, write_inbound
from hermes_cli.chat.local_client import connect

KEY = "agent:main:local:dm:talk"


@pytest.fixture
def open_house(home: Path) -> Iterator[Callable[..., HouseThread]]:
    opened: list[HouseThread] = []

    def open_one(**options: Any) -> HouseThread:
        home.mkdir(exist_ok=True)
        house = HouseThread(home, **options)
        house.start()
        opened.append(house)
        return house

    yield open_one
    for one in opened:
        if one._thread.is_alive():
            one.stop()


@pytest.fixture
def house(open_house: Callable[..., HouseThread]) -> HouseThread:
    return open_house()


def talk(home: Path, said: bytes) -> bytes:
    """What is answered to these bytes, until the connection is closed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(20)
        sock.connect(str(wire.socket_path(home)))
        heard = b""
        with suppress(ConnectionError):
            sock.sendall(said)
            while piece := sock.recv(65536):
                heard += piece
    return heard


def post(home: Path, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON of a call."""
    given = {"content-type": "application/json", "connection": "close", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    request = f"POST {path} HTTP/1.1\r\nhost: h\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body
    answer, _, told = talk(home, request).partition(b"\r\n\r\n")
    return int(answer.split()[1]), json.loads(told)


def names(client: RawClient) -> list[str]:
    return [type(line).__name__ for line in client.lines]


# --- who may, and where


def test_the_socket_is_the_owners_alone(house: HouseThread, home: Path) -> None:
    """G1: mode 0600; whoever can open it is the owner of the machine."""
    path = wire.socket_path(home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    client = RawClient(home, "a")
    client.say("hello")
    client.wait(wire.Stored)
    (taken,) = house.house.taken
    assert taken.sender == "owner"
    assert house.house.adapter.spec.trusted


def test_another_user_is_turned_away(house: HouseThread, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: the uid at the other end must be ours."""
    monkeypatch.setattr(listening, "peer_uid", lambda sock: os.getuid() + 1)
    claims = "x-uid: 0\r\nx-forwarded-for: 127.0.0.1\r\nauthorization: Bearer owner\r\n"
    body = b'{"name": "status", "args": {}}'
    head = f"POST /web/operate HTTP/1.1\r\nhost: h\r\n{claims}content-type: application/json\r\n"
    assert talk(home, f"{head}content-length: {len(body)}\r\n\r\n".encode() + body) == b""
    assert house.house.called == []


@pytest.mark.parametrize("steps", range(6))
def test_a_connection_that_comes_while_the_socket_closes_is_not_left_open(home: Path, steps: int) -> None:
    """F6: at each step of its acceptance; one that is left open is told as a warning, which fails the test."""

    async def come_and_close() -> None:
        house = EchoHouse(home)
        await house.start()
        with socket.socket(socket.AF_UNIX) as line:
            line.setblocking(False)
            line.connect(str(wire.socket_path(home)))
            for _ in range(steps):
                await asyncio.sleep(0)
            await house.server.close()
        await house.close()

    home.mkdir()
    asyncio.run(come_and_close())
    gc.collect()


def test_the_uid_of_a_peer_is_the_real_one() -> None:
    """G1"""
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert listening.peer_uid(one) == os.getuid()


def test_a_dead_owners_socket_is_replaced(home: Path, open_house: Callable[..., HouseThread]) -> None:
    home.mkdir()
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(wire.socket_path(home)))
    dead.close()
    house = open_house()
    RawClient(home, "a")
    house.stop()
    assert not wire.socket_path(home).exists()


def test_a_file_in_its_place_is_not_overwritten(home: Path, open_house: Callable[..., HouseThread]) -> None:
    home.mkdir()
    wire.socket_path(home).write_text("precious")
    with pytest.raises(ConfigProblem, match="in the way"):
        open_house()
    assert wire.socket_path(home).read_text() == "precious"


def test_a_long_home_has_a_short_socket(tmp_path: Path) -> None:
    home = tmp_path / ("x" * 120)
    home.mkdir()
    path = wire.socket_path(home)
    assert len(os.fsencode(path)) < 100
    assert path == wire.socket_path(home)
    assert path != wire.socket_path(tmp_path / ("y" * 120))
    house = HouseThread(home)
    house.start()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    client = RawClient(home, "a")
    client.say("hello")
    client.wait(wire.DealtWith)
    house.stop()


# --- messages in


def test_a_message_is_confirmed_after_it_is_stored(house: HouseThread, home: Path) -> None:
    """C1: its durable id is given by the store before the client hears of it."""
    client = RawClient(home, "a", folder="/somewhere")
    client.say("hello")
    stored = client.wait(wire.Stored)
    assert stored == wire.Stored("1", 1)
    (inbound,) = house.house.taken
    assert (inbound.message, inbound.folder, inbound.conversation) == ("a-1", "/somewhere", "")
    assert inbound.key("default") == client.welcome.conversation
    client.wait(wire.DealtWith, lambda line: line.seqs == (1,))
    assert client.answers() == ["echo: hello"]


def test_a_message_that_comes_again_is_recognised(house: HouseThread, home: Path) -> None:
    """C1: processed once, however often the client sends it; and the client learns what became of it."""
    first = RawClient(home, "a", conversation=KEY)
    first.say("hello", "m1")
    first.wait(wire.DealtWith)
    first.close()
    again = RawClient(home, "a", conversation=KEY, after=wire.Cursor(0, 0))
    again.say("hello", "m1")
    stored = again.wait(wire.Stored)
    assert (stored.seq, stored.again, stored.done) == (1, True, True)
    assert stored.outbox == again.welcome.cursor.outbox
    assert house.house.turns_run == ["hello"]


def test_a_refusal_has_its_reason(house: HouseThread, home: Path) -> None:
    house.house.refuse = "The gateway is closing."
    client = RawClient(home, "a")
    client.say("hello")
    assert client.wait(wire.NotStored) == wire.NotStored("1", "The gateway is closing.")


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/web/say", b"nonsense", 400, "not valid JSON"),
        ("/web/say", b"[1]", 400, "a JSON object"),
        ("/web/fly", b"{}", 404, "Not Found"),
        ("/web/say", b'{"conversation":"agent:main:local:dm:x","id":"1","text":7}', 422, "text must be a text"),
        ("/web/say", b'{"conversation":"agent:main:local:dm:x","id":"","text":"x"}', 422, "id must be 1 to 64"),
        (
            "/web/say",
            b'{"conversation":"agent:main:local:dm:x","id":"1","text":"x","files":[{}]}',
            422,
            "files[0].path is missing",
        ),
        ("/web/say", b'{"conversation":"nonsense","id":"1","text":"x"}', 422, "not the key"),
        ("/web/got", b'{"conversation":"agent:main:local:dm:x","rows":["1"]}', 422, "rows[0] must be a whole number"),
        ("/web/open", b'{"resume":7}', 422, "resume must be a text"),
        ("/web/say", b"\xff\xfe", 400, "not UTF-8"),
        ("/web/say", b"[" * 100_000, 400, "must be a JSON object"),
    ],
)
def test_a_malformed_call_gets_a_sentence(
    house: HouseThread, home: Path, path: str, body: bytes, status: int, word: str
) -> None:
    found, told = post(home, path, body)
    assert (found, word in told["error"]["message"]) == (status, True), told
    assert house.house.taken == []


def test_a_message_without_end_closes_the_connection(house: HouseThread, home: Path) -> None:
    """F5: bounded memory."""
    kind = b"content-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    head = b"POST /web/say HTTP/1.1\r\nhost: h\r\n" + kind
    heard = talk(home, head + b"%x\r\n" % 20_000_000 + b"x" * 20_000_000 + b"\r\n0\r\n\r\n")
    assert heard == b"" or b" 413 " in heard
    other = RawClient(home, "b")
    other.say("hello")
    other.wait(wire.Stored)


def test_who_goes_away_after_it_spoke_is_heard_by_the_others(house: HouseThread, home: Path) -> None:
    """C7: the call goes on to its end, so everybody who looks on gets the message before its answer."""
    looks_on = RawClient(home, "b", conversation=KEY)
    for number in range(5):
        body = json.dumps({"conversation": KEY, "id": f"gone-{number}", "text": f"said {number}"}).encode()
        head = b"POST /web/say HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(wire.socket_path(home)))
            client.sendall(head % len(body) + body)
        wait_until(lambda number=number: len(looks_on.answers()) == number + 1)
    heard = [line.event.text for line in looks_on.find(wire.Happened) if isinstance(line.event, Said)]
    assert heard == [f"said {number}" for number in range(5)]


def test_a_message_that_is_too_long_is_refused_and_not_said_again(house: HouseThread, home: Path) -> None:
    """B8, F5: whoever sends it hears why, and says the next one."""
    client = RawClient(home, "a", conversation=KEY)
    client.say("x" * (wire.MOST_BODY + 1_000_000), "1")
    assert "too large" in client.wait(wire.NotStored).reason
    client.say("hello", "2")
    client.wait(wire.Stored, lambda line: line.id.endswith("2"))
    assert [inbound.text for inbound in house.house.taken] == ["hello"]


def test_who_was_too_slow_is_abreast_again(house: HouseThread, home: Path) -> None:
    """C7, F4: events that were given up are read from the store, once, and the next ones come."""
    client = RawClient(home, "a", conversation=KEY)
    adapter = house.house.adapter

    async def show_many() -> None:  # in one step of the loop, so nobody reads meanwhile
        for number in range(hub.MOST_WAITING + 10):
            adapter.show(KEY, ToolStarted(str(number), "tool", ""))

    house.run(show_many())
    house.run(house.house.show(KEY, Notice("later")))
    client.wait(wire.Happened, lambda line: line.event == Notice("later"))
    client.say("hello")
    client.wait(wire.DealtWith)
    assert len(client.find(wire.Welcome)) < 10


#: What terminals said before they spoke HTTP.
OLD_HELLO = (
    b'{"type":"hello","client":"5f2a1b0c9d8e4f7a6b5c4d3e2f1a0b9c","conversation":"","resume":"","continue":false,'
    b'"folder":"/home/ann","model":"","provider":"","after":null,"once":false,"keys":true}\n'
)


def test_a_terminal_of_the_version_before_is_told_to_start_anew(house: HouseThread, home: Path) -> None:
    """H8: in one line of its own protocol, which it shows as an error."""
    (line,) = talk(home, OLD_HELLO).splitlines()
    told = json.loads(line)
    assert told["type"] == "error"
    assert "start hermes anew" in told["text"]
    assert house.house.taken == []


def test_calls_need_no_hello(house: HouseThread, home: Path) -> None:
    client = RawClient(home)
    client.send(Call("1", "good", {"x": [1]}))
    client.send(Call("2", "bad"))
    client.send(Call("3", "worse"))
    wait_until(lambda: len(client.find(Told)) == 3)
    told = {line.id: line for line in client.find(Told)}
    assert told["1"].result == {"name": "good", "args": {"x": [1]}}
    assert told["2"] == Told("2", False, error="That is not done here.")
    assert not told["3"].ok


# --- answers out


def test_events_come_before_the_answer_and_the_end_after_it(house: HouseThread, home: Path) -> None:
    client = RawClient(home, "a")
    client.say("hello")
    client.wait(wire.DealtWith)
    told = [name for name in names(client) if name not in ("Welcome", "Stored")]
    assert (set(told[:-2]), told[-2:]) == ({"Happened"}, ["Deliver", "DealtWith"])
    live = [line.event.text for line in client.find(wire.Happened) if isinstance(line.event, TextDelta)]
    assert "".join(live) == "echo: hello"
    wait_until(lambda: house.house.delivery.counts["sent"] == 1)
    assert client.answers() == ["echo: hello"]  # pushed once, whoever asked for it


def test_an_answer_for_nobody_waits_until_somebody_comes(house: HouseThread, home: Path) -> None:
    """C9: stored, and delivered later, once."""
    first = RawClient(home, "a", conversation=KEY)
    first.say("hold it")
    first.wait(wire.Happened)
    first.close()
    wait_until(lambda: not house.house.adapter.hub.is_watched("talk"))
    house.run(house.house.stop(KEY, "owner"))
    wait_until(lambda: house.house.turns.latest(KEY)[0] > 0)
    late = RawClient(home, "b", conversation=KEY)
    assert late.wait(wire.Deliver).outgoing.interrupted
    wait_until(lambda: house.house.delivery.counts["sent"] == 1)
    other = RawClient(home, "c", conversation=KEY)
    other.say("hello")
    other.wait(wire.DealtWith)
    assert other.answers() == ["echo: hello"]


def test_an_answer_that_nobody_confirms_waits_for_the_next(house: HouseThread, home: Path) -> None:
    """C7, C9: it is the same row for whoever comes, and once somebody has confirmed it nobody gets it any more."""
    silent = RawClient(home, "a", conversation=KEY, confirm=False)
    silent.say("hello")
    first = silent.wait(wire.Deliver)
    silent.close()
    wait_until(lambda: not house.house.adapter.hub.is_watched("talk"))
    back = RawClient(home, "b", conversation=KEY)
    assert back.wait(wire.Deliver) == first
    wait_until(lambda: house.house.delivery.counts["sent"] == 1)
    late = RawClient(home, "c", conversation=KEY)
    late.say("quiet")
    late.wait(wire.DealtWith)
    assert late.answers() == []


def test_who_is_slow_to_be_told_keeps_nobody_else(house: HouseThread, home: Path) -> None:
    """C9, F5: the store holds up one of two who look at a conversation; that one is late, and gets everything."""
    real, held, goes_on = house.house.outbox_since, [], threading.Event()

    async def outbox_since(conversation: str, row: int, limit: int) -> Any:
        if not held:
            held.append(row)
            await asyncio.to_thread(goes_on.wait, 20)
        return await real(conversation, row, limit)

    clients = [RawClient(home, name, conversation=KEY) for name in "ab"]
    house.house.outbox_since = outbox_since  # type: ignore[method-assign]
    clients[0].say("one", "1")
    clients[0].say("two", "2")
    answers = ["echo: one", "echo: two"]
    wait_until(lambda: answers in [client.answers() for client in clients])
    assert [] in [client.answers() for client in clients]
    goes_on.set()
    wait_until(lambda: all(client.answers() == answers for client in clients))


def test_everyone_in_a_conversation_sees_everything_once(house: HouseThread, home: Path) -> None:
    """B6, C7: three clients; one turn at a time; each sees each message of the others and each answer once."""
    clients = [RawClient(home, name, conversation=KEY) for name in "abc"]
    for number in range(5):
        for client in clients:
            client.say(f"{client.welcome.conversation[-4:]} {number} {clients.index(client)}", str(number))
    for client in clients:
        wait_until(lambda client=client: len(client.find(wire.DealtWith)) == 15)
    answers = clients[0].answers()
    assert len(answers) == len(set(answers)) == 15
    for client in clients:
        assert client.answers() == answers
        said = [line.event.text for line in client.find(wire.Happened, lambda line: isinstance(line.event, Said))]
        assert len(said) == len(set(said)) == 10
        assert not any(text.endswith(str(clients.index(client))) for text in said)
        rows = [line.row for line in client.find(wire.Deliver)]
        assert rows == sorted(rows)


def test_who_comes_back_gets_what_it_missed_in_order(house: HouseThread, home: Path) -> None:
    """C9: messages and answers since the cursor, no more and no less."""
    away, here = (RawClient(home, name, conversation=KEY) for name in "ab")
    here.say("one", "1")
    away.wait(wire.DealtWith)
    away.close()
    for number, text in enumerate(["two", "three"], start=2):
        here.say(text, str(number))
        here.wait(wire.DealtWith, lambda line, number=number: line.seqs == (number,))
    back = RawClient(home, "a", conversation=KEY, after=wire.Cursor(away.find(wire.Deliver)[-1].row, 1))
    wait_until(lambda: len(back.find(wire.Deliver)) == 2)
    shown = [
        line.outgoing.text if isinstance(line, wire.Deliver) else line.event.text
        for line in back.find(wire.Deliver | wire.Happened)  # type: ignore[arg-type]
    ]
    assert shown == ["two", "echo: two", "three", "echo: three"]
    back.say("four", "4")
    back.wait(wire.DealtWith)
    assert back.answers() == ["echo: two", "echo: three", "echo: four"]


def test_who_comes_in_the_middle_of_a_text_gets_what_there_is_of_it(house: HouseThread, home: Path) -> None:
    """C7: with where it stands comes the text so far, and the rest follows."""
    here = RawClient(home, "a", conversation=KEY)
    here.say("hold on")
    here.wait(wire.Happened, lambda line: line.event == TextDelta("holding"))
    late = RawClient(home, "b", conversation=KEY)
    assert (late.welcome.open, late.welcome.text) == ((1,), "holding")
    house.run(house.house.show(KEY, TextDelta(" on")))
    house.run(house.house.show(KEY, ToolStarted("1", "tool", "")))
    late.wait(wire.Happened, lambda line: line.event == ToolStarted("1", "tool", ""))
    assert [line.event for line in late.find(wire.Happened)] == [TextDelta(" on"), ToolStarted("1", "tool", "")]


def test_rows_for_other_platforms_are_shown_too(house: HouseThread, home: Path) -> None:
    """B3: a terminal in a conversation of another platform sees what is answered there."""
    key = "agent:main:pretend:group:room"
    client = RawClient(home, "a", conversation=key)
    elsewhere = Outgoing(Address("pretend", "p", "room", "group"), "said elsewhere", NOTE)
    house.house.turns.post(key, "x", elsewhere)
    client.say("hello")
    client.wait(wire.DealtWith)
    assert client.answers() == ["said elsewhere", "echo: hello"]
    (inbound,) = house.house.taken
    assert inbound.conversation == key


def test_an_answer_does_not_overtake_its_own_text(house: HouseThread, home: Path) -> None:
    """C7: the store has two answers before the end of the first turn is told; the second one comes after its text."""
    key, place, turns = "agent:main:pretend:group:room", Address("pretend", "p", "room", "group"), house.house.turns
    client = RawClient(home, "a", conversation=key)
    claim = turns.claim_one(house.house.node, key)
    assert claim is not None
    for seq, text in enumerate(("one", "two"), 1):
        assert turns.accept(key, "pretend:p", f"room/{seq}/", "{}") == seq
        turns.complete(claim, [seq], answers=[Outgoing(place, text)])
    for event in (Dealt((1,)), Begun((2,)), TextDelta("two"), Dealt((2,))):
        house.run(house.house.show(key, event))
    wait_until(lambda: len(client.find(wire.DealtWith)) == 2)
    assert tell_texts(client) == ["one", "live two", "two"]


def tell_texts(client: RawClient) -> list[str]:
    """Answers and live text, in the order in which they came."""
    shown = client.find(wire.Deliver | wire.Happened)  # type: ignore[arg-type]
    return [
        line.outgoing.text if isinstance(line, wire.Deliver) else f"live {line.event.text}"
        for line in shown
        if isinstance(line, wire.Deliver) or isinstance(line.event, TextDelta)
    ]


def store_turn(house: HouseThread, seq: int, text: str, place: Address) -> None:
    """A turn that is over in the store, and of which no event was told yet."""
    turns = house.house.turns
    claim = turns.claim_one(house.house.node, KEY)
    assert claim is not None
    said = write_inbound(Inbound(place, f"x-{seq}", "owner", "hello"))
    assert turns.accept(KEY, place.account_key, f"talk/{seq}/", said) == seq
    turns.complete(claim, [seq], answers=[Outgoing(place, text)])


def test_an_answer_that_delivery_brings_does_not_overtake_its_own_text(house: HouseThread, home: Path) -> None:
    """C7: the row is there while every event of the turn is still on its way."""
    place = Address("local", "local", "talk")
    client = RawClient(home, "a", conversation=KEY)
    store_turn(house, 1, "one", place)
    house.house.delivery.wake(place)
    for event in (Heard(1, Inbound(place, "x-1", "owner", "hello")), Begun((1,)), TextDelta("one"), Dealt((1,))):
        house.run(house.house.show(KEY, event))
    client.wait(wire.DealtWith)
    assert tell_texts(client) == ["live one", "one"]
    wait_until(lambda: house.house.delivery.counts["sent"] == 1)


def test_an_old_answer_does_not_break_into_the_turn_under_way(house: HouseThread, home: Path) -> None:
    """C7, C9: nobody has confirmed it; it is told when the turn is over, however often somebody looks meanwhile."""
    place, watched = Address("local", "local", "talk"), house.house.adapter.hub
    store_turn(house, 1, "the old answer", place)
    heard = Inbound(place, "x-2", "owner", "hello")
    assert house.house.turns.accept(KEY, place.account_key, heard.ext_id, write_inbound(heard)) == 2
    client = RawClient(home, "a", conversation=KEY)
    house.run(house.house.show(KEY, Begun((2,))))
    for event in (hub.Posted(late=True), hub.Posted(late=True), TextDelta("new text")):
        house.loop.call_soon_threadsafe(watched.show, "talk", event)
    wait_until(lambda: "live new text" in tell_texts(client))
    assert client.answers() == []
    house.run(house.house.show(KEY, Dealt((2,))))
    client.wait(wire.DealtWith)
    assert client.answers() == ["the old answer"]


def test_the_events_of_a_turn_that_was_over_before_are_left_out(house: HouseThread, home: Path) -> None:
    """C7: who comes when the store has the answer gets it, and not its text after it."""
    place = Address("local", "local", "talk")
    store_turn(house, 1, "one", place)
    client = RawClient(home, "a", conversation=KEY, after=wire.Cursor(0, 0))
    client.wait(wire.Deliver)
    for event in (Begun((1,)), TextDelta("one"), Dealt((1,))):
        house.run(house.house.show(KEY, event))
    client.wait(wire.DealtWith)
    assert tell_texts(client) == ["one"]


def test_who_comes_between_an_answer_and_its_events_gets_the_answer_alone(house: HouseThread, home: Path) -> None:
    """C7: the turn is over in the store, its events begin while what was missed is read."""
    store_turn(house, 1, "one", Address("local", "local", "talk"))
    real, goes_on = house.house.inbox_since, threading.Event()

    async def inbox_since(conversation: str, seq: int, limit: int) -> Any:
        await asyncio.to_thread(goes_on.wait, 20)
        return await real(conversation, seq, limit)

    house.house.inbox_since = inbox_since  # type: ignore[method-assign]
    client = RawClient(home, "a", conversation=KEY, after=wire.Cursor(0, 0))
    for event in (Begun((1,)), TextDelta("one")):
        house.run(house.house.show(KEY, event))
    goes_on.set()
    client.wait(wire.Deliver)
    wait_until(lambda: len(client.find(wire.Welcome)) == 2)
    for event in (TextDelta(" more"), Dealt((1,))):
        house.run(house.house.show(KEY, event))
    client.wait(wire.DealtWith)
    assert tell_texts(client) == ["one"]
    assert [welcome.text for welcome in client.find(wire.Welcome)] == ["", ""]


def test_an_answer_whose_end_nobody_tells_comes_when_it_is_told_again(house: HouseThread, home: Path) -> None:
    """C9: a lost event delays it."""
    client = RawClient(home, "a", conversation=KEY)
    store_turn(house, 1, "one", Address("local", "local", "talk"))
    house.house.delivery.wake(Address("local", "local", "talk"))
    house.house.delivery.wake(Address("local", "local", "talk"))
    client.wait(wire.Deliver)
    assert client.answers() == ["one"]


# --- stop, questions, moves


def test_stop_reaches_the_turn_or_says_that_it_did_not(house: HouseThread, home: Path) -> None:
    """B8"""
    client, other = (RawClient(home, name, conversation=KEY) for name in "ab")
    client.send(Stop("s1"))
    assert client.wait(Stopped) == Stopped(False, "s1")
    client.say("hold it")
    client.wait(wire.Happened, lambda line: line.event == TextDelta("holding"))
    other.send(Stop("s2"))
    assert other.wait(Stopped).ok
    assert client.wait(wire.Deliver).outgoing.interrupted


def test_a_question_is_answered_once(house: HouseThread, home: Path) -> None:
    """B8: by any client; the second answer is told that it came too late."""
    client = RawClient(home, "a", conversation=KEY)
    client.say("ask really?")
    asked = client.wait(wire.Deliver).outgoing
    assert (asked.text, asked.choices) == ("really?", ("yes", "no"))
    late = RawClient(home, "b", conversation=KEY)
    assert late.welcome.question == Question("approval", "really?", ("yes", "no"), id=asked.question)
    for answering in (late, client):
        answering.send(GiveAnswer(asked.question, "yes", "x"))
        answering.wait(Answered)
    assert (late.find(Answered)[0].ok, client.find(Answered)[0].ok) == (True, False)
    client.wait(wire.Deliver, lambda line: line.outgoing.text == "you said yes")


def test_who_moves_hears_the_farewell_first(house: HouseThread, home: Path) -> None:
    """The answer to `/new` arrives in the old conversation, what is said next goes to the new one."""
    client, other = (RawClient(home, name, conversation=KEY) for name in "ab")
    client.say("/new", "1")
    moved = client.wait(wire.MovedTo)
    told = [name for name in names(client) if name in ("Deliver", "MovedTo", "DealtWith")]
    assert told == ["Deliver", "MovedTo"]
    client.say("hello", "2")
    client.wait(wire.Deliver, lambda line: line.outgoing.text == "echo: hello")
    assert house.house.taken[1].key("default") == moved.conversation != KEY
    assert not other.find(wire.MovedTo)
    wait_until(lambda: other.answers() == ["A new conversation."])
    wait_until(lambda: house.house.delivery.counts["sent"] == 2)


# --- a store that fails once while a client looks on


def fail_once(house: HouseThread, name: str) -> list[str]:
    """The next call of this name fails; the list has it then. Events go to the adapter as in a gateway."""
    live, met, real = LiveEvents([house.house.adapter]), [], getattr(house.house, name)

    async def show(conversation: str, event: LiveEvent) -> None:
        live.show(conversation, event)

    async def fail(*args: Any) -> Any:
        if not met:
            met.append(name)
            raise StoreFailure("The store is locked.")
        return await real(*args)

    house.house.show = show  # type: ignore[method-assign]
    setattr(house.house, name, fail)
    return met


def test_who_cannot_be_told_the_end_comes_back_for_it(house: HouseThread, home: Path) -> None:
    """C2: nobody waits for the end of a turn that was lost on the way."""
    client = RawClient(home, "a", conversation=KEY)
    met = fail_once(house, "outbox_since")
    client.say("quiet")
    assert "locked" in client.wait(wire.Closing).reason
    assert met
    wait_until(lambda: client.closed)
    back = RawClient(home, "a", conversation=KEY, after=wire.Cursor(0, 1))
    assert back.welcome.open == ()
    back.say("hello", "2")
    back.wait(wire.DealtWith)
    assert back.answers() == ["echo: hello"]


def test_who_cannot_be_told_what_it_missed_comes_back_for_it(house: HouseThread, home: Path) -> None:
    """C9: a client that was welcomed and is not there is no client."""
    first = RawClient(home, "a", conversation=KEY)
    first.say("one")
    first.wait(wire.DealtWith)
    first.close()
    fail_once(house, "inbox_since")
    back = RawClient(home, "a", conversation=KEY, after=wire.Cursor(0, 0))
    assert "locked" in back.wait(wire.Closing).reason
    wait_until(lambda: back.closed)
    again = RawClient(home, "a", conversation=KEY, after=wire.Cursor(0, 0))
    again.wait(wire.Deliver)
    assert again.answers() == ["echo: one"]


@pytest.mark.parametrize("call", ["find", "latest"])
def test_who_cannot_be_told_what_became_of_a_message_comes_back_for_it(
    house: HouseThread, home: Path, call: str
) -> None:
    """C1: a message that comes again is confirmed, or the client knows that it was not."""
    client = RawClient(home, "a", conversation=KEY)
    client.say("hello")
    client.wait(wire.DealtWith)
    fail_once(house, call)
    client.say("hello")
    assert "locked" in client.wait(wire.NotStored).reason
    client.say("hello")
    wait_until(lambda: len(client.find(wire.Stored)) == 2)
    assert (client.find(wire.Stored)[1].seq, house.house.turns_run) == (1, ["hello"])


# --- bad clients


def test_a_client_that_does_not_read_costs_little_and_gets_the_rest_later(
    house: HouseThread, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5: bounded memory; the others go on, and what it missed is in the store."""
    monkeypatch.setattr(hub, "MOST_WAITING", 20)
    slow = connect(home)
    assert slow is not None
    slow.follow(KEY, None)
    wait_until(lambda: house.house.adapter.hub.is_watched("talk"))
    (watch,) = house.house.adapter.hub.watches["talk"]
    quick = RawClient(home, "quick", conversation=KEY)
    for _ in range(300):
        house.run(house.house.show(KEY, TextDelta("x" * 10_000)))
    assert len(watch._waiting) <= 22
    for number in range(8):
        quick.say(f"{number} " + "y" * 150_000, str(number))
        wait_until(lambda number=number: len(quick.answers()) > number, 60)  # what comes live may be dropped here, too
    answers: list[str] = []
    while len(answers) < 8:
        if isinstance(told := slow.read(20), wire.Deliver):
            answers.append(told.outgoing.text)
    assert answers == quick.answers()
    slow.close()


def test_the_end_is_told_and_leaves_nothing(house: HouseThread, home: Path) -> None:
    """C13: while it listens it is alive."""
    client = RawClient(home, "a")
    assert house.house.adapter.last_seen > 0
    house.stop()  # fails if a task is left
    wait_until(lambda: client.closed)
    assert client.find(wire.Closing)
    assert not wire.socket_path(home).exists()


def test_a_socket_that_was_swept_away_is_made_anew(
    home: Path, open_house: Callable[..., HouseThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C13: a sign of life means that clients can come; those who are there stay."""
    monkeypatch.setattr(local_server, "_LOOK_SECONDS", 0.02)
    house = open_house()
    here = RawClient(home, "a", conversation=KEY)
    wire.socket_path(home).unlink()
    wait_until(lambda: wire.socket_path(home).exists())
    late = RawClient(home, "b", conversation=KEY)
    late.say("hello")
    for client in (here, late):
        client.wait(wire.DealtWith)
    assert here.answers() == late.answers() == ["echo: hello"]
    seen = house.house.adapter.last_seen
    wait_until(lambda: house.house.adapter.last_seen > seen)
