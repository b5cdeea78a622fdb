"""The local socket with real clients on it: nothing lost, nothing doubled, everyone sees the same, in order."""

import asyncio
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store
from local_house import HouseThread
from raw_client import RawClient
from waiting import wait_until

from gateway.delivery.live_events import LiveEvents
from gateway.platforms.face import Begun, Dealt, LiveEvent
from gateway.platforms.local import adapter, attached, listening
from hermes_base import local_wire as wire
from hermes_base.chat import Asked, Said, TextDelta, ToolStarted
from hermes_base.errors import ConfigProblem, StoreFailure
from hermes_base.inbound import NOTE, Address, Outgoing

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
    stranger = RawClient(home)
    with suppress(OSError):
        stranger.send(wire.Call("1", "status"))
    wait_until(lambda: stranger.closed)
    assert stranger.lines == []
    assert house.house.called == []


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
    ("line", "word"),
    [
        (b"nonsense\n", "not JSON"),
        (b"[1]\n", "one JSON object"),
        (b'{"type":"fly"}\n', "no message of type 'fly'"),
        (b'{"type":"say","id":"1","text":7}\n', "say.text is not a text"),
        (b'{"type":"say","id":"","text":"x"}\n', "say.id"),
        (b'{"type":"hello","client":"a-b"}\n', "hello.client"),
        (b'{"type":"hello","client":"b","conversation":"nonsense"}\n', "not the key"),
        (b"\xff\xfe\n", "not JSON"),
        (b"[" * 100_000 + b"\n", "not JSON"),
    ],
)
def test_a_malformed_line_gets_a_sentence_and_the_connection_goes_on(
    house: HouseThread, home: Path, line: bytes, word: str
) -> None:
    client = RawClient(home, "a")
    client.send(line)
    assert word in client.wait(wire.Trouble).text
    client.say("still here")
    client.wait(wire.Stored)


def test_a_line_without_end_closes_the_connection(house: HouseThread, home: Path) -> None:
    """F5: bounded memory."""
    client = RawClient(home, "a")
    with suppress(OSError):
        client.send(b"x" * 20_000_000)
    wait_until(lambda: client.closed)
    other = RawClient(home, "b")
    other.say("hello")
    other.wait(wire.Stored)


def test_nothing_is_said_before_hello(house: HouseThread, home: Path) -> None:
    client = RawClient(home)
    client.say("hello")
    assert "hello first" in client.wait(wire.Trouble).text
    assert house.house.taken == []


def test_calls_need_no_hello(house: HouseThread, home: Path) -> None:
    client = RawClient(home)
    client.send(wire.Call("1", "good", {"x": [1]}))
    client.send(wire.Call("2", "bad"))
    client.send(wire.Call("3", "worse"))
    wait_until(lambda: len(client.find(wire.Told)) == 3)
    told = {line.id: line for line in client.find(wire.Told)}
    assert told["1"].result == {"name": "good", "args": {"x": [1]}}
    assert told["2"] == wire.Told("2", False, error="That is not done here.")
    assert not told["3"].ok


# --- answers out


def test_events_come_before_the_answer_and_the_end_after_it(house: HouseThread, home: Path) -> None:
    client = RawClient(home, "a")
    client.say("hello")
    client.wait(wire.DealtWith)
    told = [name for name in names(client) if name not in ("Welcome", "Stored")]
    assert told == ["Happened"] * 4 + ["Deliver", "DealtWith"]
    deliver, dealt = client.find(wire.Deliver)[0], client.find(wire.DealtWith)[0]
    assert dealt.outbox == deliver.row
    assert deliver.key
    wait_until(lambda: house.house.delivery.counts["sent"] == 1)
    assert client.answers() == ["echo: hello"]  # pushed once, whoever asked for it


def test_an_answer_for_nobody_waits_until_somebody_comes(house: HouseThread, home: Path) -> None:
    """C9: stored, and delivered later, once."""
    first = RawClient(home, "a", conversation=KEY)
    first.say("hold it")
    first.wait(wire.Happened)
    first.close()
    wait_until(lambda: not house.house.adapter.reachable(Address("local", "local", "talk")))
    house.run(house.house.stop(KEY, "owner"))
    wait_until(lambda: house.house.turns.latest(KEY)[0] > 0)
    late = RawClient(home, "b", conversation=KEY)
    assert late.wait(wire.Deliver).outgoing.interrupted
    wait_until(lambda: house.house.delivery.counts["sent"] == 1)
    other = RawClient(home, "c", conversation=KEY)
    other.say("hello")
    other.wait(wire.DealtWith)
    assert other.answers() == ["echo: hello"]


def test_an_answer_that_nobody_confirms_comes_again_marked(open_house: Callable[..., HouseThread], home: Path) -> None:
    """C7: with keys a repetition has the same key; without them it carries a visible mark."""
    for keyed in (True, False):
        house = open_house(store=fresh_store(), idempotent=keyed)
        silent = RawClient(home, "a", conversation=KEY, confirm=False)
        silent.say("hello")
        first = silent.wait(wire.Deliver)
        silent.close()
        wait_until(lambda house=house: not house.house.adapter.reachable(Address("local", "local", "talk")))
        back = RawClient(home, "b", conversation=KEY)
        again = back.wait(wire.Deliver)
        assert (again.row, bool(again.key)) == (first.row, keyed)
        assert ("again" in again.outgoing.text) is not keyed
        house.stop()


def fail_sends(house: HouseThread, failure: Callable[[], Awaitable[None]], times: int = 1) -> list[int]:
    """What the store does when a delivery reads it, so many times; the list grows with each."""
    met: list[int] = []
    real = house.house.outbox_since

    async def outbox_since(conversation: str, row: int) -> Any:
        task = asyncio.current_task()
        if len(met) < times and task is not None and task.get_name().startswith("delivery"):
            met.append(row)
            await failure()
        return await real(conversation, row)

    house.house.outbox_since = outbox_since  # type: ignore[method-assign]
    return met


def test_a_store_that_fails_once_while_a_client_is_sent_to_delays_the_answer(house: HouseThread, home: Path) -> None:
    """C9: the answer comes, and those after it."""

    async def fail() -> None:
        raise StoreFailure("The store is locked.")

    client = RawClient(home, "a", conversation=KEY)
    met = fail_sends(house, fail)
    client.say("one", "1")
    client.say("two", "2")
    wait_until(lambda: client.answers() == ["echo: one", "echo: two"])
    assert met


def test_a_store_that_is_slow_once_while_a_client_is_sent_to_delays_the_answer(house: HouseThread, home: Path) -> None:
    """C9: the call was cut before the answer was pushed, so the next one pushes it."""
    for account in house.house.delivery._accounts.values():
        account.pace = replace(account.pace, call=1.0)
    client = RawClient(home, "a", conversation=KEY)
    met = fail_sends(house, asyncio.Event().wait)  # type: ignore[arg-type]
    client.say("one", "1")
    client.say("two", "2")
    wait_until(lambda: client.answers() == ["echo: one", "echo: two"])
    assert met


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
    dealt = away.wait(wire.DealtWith)
    away.close()
    for number, text in enumerate(["two", "three"], start=2):
        here.say(text, str(number))
        here.wait(wire.DealtWith, lambda line, number=number: line.seqs == (number,))
    back = RawClient(home, "a", conversation=KEY, after=wire.Cursor(dealt.outbox, 1))
    wait_until(lambda: len(back.find(wire.Deliver)) == 2)
    shown = [
        line.outgoing.text if isinstance(line, wire.Deliver) else line.event.text
        for line in back.find(wire.Deliver | wire.Happened)  # type: ignore[arg-type]
    ]
    assert shown == ["two", "echo: two", "three", "echo: three"]
    back.say("four", "4")
    back.wait(wire.DealtWith)
    assert back.answers() == ["echo: two", "echo: three", "echo: four"]


def test_who_comes_in_the_middle_of_a_text_gets_the_whole_at_the_end(house: HouseThread, home: Path) -> None:
    """C7: a text whose beginning was missed is not streamed; after the next tool it is."""
    here = RawClient(home, "a", conversation=KEY)
    here.say("hold on")
    here.wait(wire.Happened)
    late = RawClient(home, "b", conversation=KEY)
    assert late.welcome.open == (1,)
    house.run(house.house.show(KEY, TextDelta("tail")))
    house.run(house.house.show(KEY, ToolStarted("1", "tool", "")))
    house.run(house.house.show(KEY, TextDelta("whole")))
    late.wait(wire.Happened, lambda line: line.event == TextDelta("whole"))
    here.wait(wire.Happened, lambda line: line.event == TextDelta("tail"))
    assert not late.find(wire.Happened, lambda line: line.event == TextDelta("tail"))


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
    told = [
        line.outgoing.text if isinstance(line, wire.Deliver) else line.event
        for line in client.lines[1:]
        if isinstance(line, wire.Deliver | wire.Happened)
    ]
    assert told == ["one", TextDelta("two"), "two"]


# --- stop, questions, moves


def test_stop_reaches_the_turn_or_says_that_it_did_not(house: HouseThread, home: Path) -> None:
    """B8"""
    client, other = (RawClient(home, name, conversation=KEY) for name in "ab")
    client.send(wire.Stop("s1"))
    assert client.wait(wire.Stopped) == wire.Stopped(False, "", "s1")
    client.say("hold it")
    client.wait(wire.Happened)
    other.send(wire.Stop("s2"))
    assert other.wait(wire.Stopped).ok
    assert client.wait(wire.Deliver).outgoing.interrupted


def test_a_question_is_answered_once(house: HouseThread, home: Path) -> None:
    """B8: by any client; the second answer is told that it came too late."""
    client = RawClient(home, "a", conversation=KEY)
    client.say("ask really?")
    asked = client.wait(wire.Deliver).outgoing
    assert (asked.text, asked.choices) == ("really?", ("yes", "no"))
    late = RawClient(home, "b", conversation=KEY)
    assert isinstance(late.wait(wire.Happened).event, Asked)
    for answering in (late, client):
        answering.send(wire.GiveAnswer(asked.question, "yes", "x"))
        answering.wait(wire.Answered)
    assert (late.find(wire.Answered)[0].ok, client.find(wire.Answered)[0].ok) == (True, False)
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
    assert other.answers() == ["A new conversation."]
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
    assert "locked" in client.wait(wire.Closing).reason
    back = RawClient(home, "a", conversation=KEY, after=wire.Cursor(0, 1))
    back.say("hello")
    assert (back.wait(wire.Stored).seq, house.house.turns_run) == (1, ["hello"])


def test_who_moves_arrives_also_when_the_store_fails_once(house: HouseThread, home: Path) -> None:
    """C9: between two conversations nobody is lost, and what is said next is answered there."""
    client = RawClient(home, "a", conversation=KEY)
    met = fail_once(house, "latest")
    client.say("/new", "1")
    moved = client.wait(wire.MovedTo)
    assert met
    client.say("hello", "2")
    client.wait(wire.Deliver, lambda line: line.outgoing.text == "echo: hello")
    assert house.house.taken[1].key("default") == moved.conversation != KEY


# --- bad clients


def test_a_client_that_does_not_read_loses_streamed_text_first_then_its_place(
    house: HouseThread, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5: bounded memory; the others go on."""
    monkeypatch.setattr(attached, "SLOW_BYTES", 10_000)
    monkeypatch.setattr(attached, "CUT_BYTES", 1_000_000)
    slow = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    slow.connect(str(wire.socket_path(home)))
    slow.sendall(wire.encode(wire.Hello("slow", conversation=KEY)))
    wait_until(lambda: house.house.adapter.reachable(Address("local", "local", "talk")))
    quick = RawClient(home, "quick", conversation=KEY)
    for _ in range(300):
        house.run(house.house.show(KEY, TextDelta("x" * 10_000)))
    client = next(one for one in house.house.adapter._clients if one.hello.client == "slow")
    assert client._waiting_bytes <= 30_000
    for number in range(8):
        quick.say(f"{number} " + "y" * 150_000, str(number))
        quick.wait(wire.DealtWith, lambda line, number=number: line.seqs == (number + 1,))
    wait_until(lambda: client.ended)
    assert len(quick.answers()) == 8
    slow.close()


def test_a_second_connection_of_a_client_takes_the_place_of_the_first(house: HouseThread, home: Path) -> None:
    first = RawClient(home, "a", conversation=KEY)
    second = RawClient(home, "a", conversation=KEY)
    wait_until(lambda: first.closed)
    assert first.find(wire.Closing)
    second.say("hello")
    second.wait(wire.DealtWith)


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
    monkeypatch.setattr(adapter, "_LOOK_SECONDS", 0.02)
    house = open_house()
    here = RawClient(home, "a", conversation=KEY)
    wire.socket_path(home).unlink()
    wait_until(lambda: wire.socket_path(home).exists())
    late = RawClient(home, "b", conversation=KEY)
    late.say("hello")
    here.wait(wire.DealtWith)
    assert here.answers() == late.answers() == ["echo: hello"]
    seen = house.house.adapter.last_seen
    wait_until(lambda: house.house.adapter.last_seen > seen)
