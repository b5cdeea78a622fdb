"""The chat's end of the local socket, against a real house: events in order, once, over any number of connections."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fresh_store import fresh_store
from hypothesis import given
from hypothesis import strategies as st
from local_house import EchoHouse, HouseThread
from raw_client import RawClient
from waiting import wait_until

from hermes_base import local_wire as wire
from hermes_base.chat import Asked, Closed, Event, FileSent, Idle, Notice, Question, Said, TextDelta, TurnEnded
from hermes_base.errors import HermesError
from hermes_base.inbound import ANSWER, NOTE, QUESTION, Address, Outgoing
from hermes_cli.chat.local_client import Gone, LocalClient, LocalConnection, call_owner, connect
from hermes_cli.chat.local_follow import Follower
from hermes_state.sql.store_sql import Store

KEY = "agent:main:local:dm:talk"
HERE = Address("local", "local", "talk")


class Person:
    """Reads what a client shows."""

    def __init__(self, home: Path, name: str = "a", **hello: object) -> None:
        def reach(tell: Callable[[Event], None], given_up: Callable[[], bool]) -> LocalConnection:
            while not given_up():
                if connection := connect(home):
                    return connection
            raise Gone("given up")

        self.client = LocalClient(wire.Hello(name, **hello), reach)  # type: ignore[arg-type]
        self.client.open()
        self.events: list[Event] = []
        threading.Thread(
            target=lambda: [self.events.append(event) for event in self.client.events()], daemon=True
        ).start()

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    def type(self, text: str) -> list[Event]:
        before, idle = len(self.events), self.count(Idle)
        self.client.submit(text)
        wait_until(lambda: self.count(Idle) > idle)
        return self.events[before:]

    def answers(self) -> list[str]:
        return [event.answer for event in self.events if isinstance(event, TurnEnded)]


@pytest.fixture
def store() -> Store:
    return fresh_store()


@pytest.fixture
def open_house(home: Path, store: Store) -> Iterator[Callable[[], HouseThread]]:
    opened: list[HouseThread] = []

    def open_one() -> HouseThread:
        home.mkdir(exist_ok=True)
        house = HouseThread(home, store=store)
        house.start()
        opened.append(house)
        return house

    yield open_one
    for one in opened:
        if one._thread.is_alive():
            one.stop()


@pytest.fixture
def house(open_house: Callable[[], HouseThread]) -> HouseThread:
    return open_house()


@pytest.fixture
def meet(home: Path) -> Iterator[Callable[..., Person]]:
    met: list[Person] = []

    def meet_one(name: str = "a", **hello: object) -> Person:
        met.append(Person(home, name, **hello))
        return met[-1]

    yield meet_one
    for one in met:
        one.client.close()


def test_a_turn_is_streamed_and_ends(house: HouseThread, meet: Callable[..., Person]) -> None:
    """C7: the answer once, then Idle."""
    person = meet(folder="/here")
    assert person.client.banner == ("Hermes test", "folder /here")
    events = person.type("hello")
    assert events[-2:] == [TurnEnded("echo: hello", True), Idle()]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "echo: hello"
    assert person.type("quiet") == [Idle()]


def test_files_questions_and_words_of_others(house: HouseThread, meet: Callable[..., Person], home: Path) -> None:
    person, other = meet("a", conversation=KEY), meet("b", conversation=KEY)
    events = person.type("file some text")
    assert events == [FileSent(str(home / "given.txt"), "given.txt", "here"), TurnEnded("done", True), Idle()]
    person.client.submit("ask really?")
    wait_until(lambda: person.count(Asked) == 1 and other.count(Asked) == 1)
    asked = next(event.question for event in person.events if isinstance(event, Asked))
    assert (asked.kind, asked.choices) == ("approval", ("yes", "no"))
    assert other.client.answer(asked.id, "yes")
    assert not person.client.answer(asked.id, "no")
    wait_until(lambda: "you said yes" in person.answers())
    wait_until(lambda: other.answers() == ["done", "you said yes"])
    assert [event.text for event in other.events if isinstance(event, Said)] == ["file some text", "ask really?"]
    assert not person.count(Said)
    assert not other.count(Idle)


def test_stop_says_whether_it_reached_a_turn(house: HouseThread, meet: Callable[..., Person]) -> None:
    """B8"""
    person = meet()
    assert not person.client.stop()
    assert not person.count(Notice)
    person.client.submit("hold it")
    wait_until(lambda: person.count(TextDelta) == 1)
    assert person.client.stop()
    wait_until(lambda: person.count(Idle) == 1)
    assert person.events[-2] == TurnEnded("", False, True)


def test_idle_comes_when_nothing_is_under_way(house: HouseThread, meet: Callable[..., Person]) -> None:
    """A message that came meanwhile belongs to the same work."""
    person = meet()
    person.client.submit("hold it")
    person.client.submit("and this")
    wait_until(lambda: person.count(TextDelta) == 1)
    person.client.stop()
    wait_until(lambda: person.count(Idle) == 1)
    assert person.answers() == ["", "echo: and this"]


def test_new_moves_the_chat(house: HouseThread, meet: Callable[..., Person]) -> None:
    person = meet(conversation=KEY)
    assert person.type("/new") == [Notice("A new conversation."), Idle()]
    assert person.client.conversation != KEY
    assert person.type("hello")[-2:] == [TurnEnded("echo: hello", True), Idle()]


def test_quit_is_the_clients_own(house: HouseThread, meet: Callable[..., Person]) -> None:
    person = meet()
    person.client.submit("/quit")
    wait_until(lambda: person.events == [Closed()])
    assert house.house.taken == []


def test_a_refusal_is_told(house: HouseThread, meet: Callable[..., Person]) -> None:
    """C2: refused with a visible reason."""
    house.house.refuse = "Too much."
    assert meet().type("hello") == [Notice("Too much.", "error"), Idle()]


def test_a_message_that_is_too_long_is_told(house: HouseThread, meet: Callable[..., Person]) -> None:
    events = meet().type("x" * wire.MOST_BODY)
    assert isinstance(events[0], Notice)
    assert "too large" in events[0].text
    assert events[1:] == [Idle()]


def test_a_conversation_that_is_not_there_is_one_sentence(house: HouseThread, meet: Callable[..., Person]) -> None:
    """H8"""
    with pytest.raises(HermesError, match="no session 'unknown'"):
        meet(resume="unknown")


def test_the_gateway_is_restarted_under_two_clients(
    open_house: Callable[[], HouseThread], meet: Callable[..., Person]
) -> None:
    """B3, C1, C7, C9: they go on; nothing is lost, nothing shown twice."""
    house = open_house()
    one, two = meet("a", conversation=KEY), meet("b", conversation=KEY)
    expected = []
    for number in range(4):
        one.type(f"from one {number}")
        house.stop()
        one.client.submit(f"while away {number}")
        two.client.submit(f"also away {number}")
        house = open_house()
        wait_until(lambda number=number: f"echo: while away {number}" in two.answers())
        wait_until(lambda number=number: f"echo: also away {number}" in one.answers())
        expected += [f"echo: {text} {number}" for text in ("from one", "while away", "also away")]
    wait_until(lambda: len(one.answers()) == len(two.answers()) == len(expected))
    assert one.answers() == two.answers()
    assert sorted(one.answers()) == sorted(expected)
    assert sorted(event.text for event in one.events if isinstance(event, Said)) == [f"also away {n}" for n in range(4)]


def test_connections_that_break_at_any_line_lose_and_double_nothing(
    house: HouseThread, meet: Callable[..., Person], home: Path
) -> None:
    """C1, C7: the connection is cut over and over while messages go through it."""
    person = meet("a", conversation=KEY)
    for number in range(30):
        person.client.submit(f"message {number}")
        connection = person.client._connection
        if connection is not None:
            with contextlib.suppress(OSError):  # it is closed already
                connection._sock.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: len(person.answers()) >= 30)
    wait_until(lambda: isinstance(person.events[-1], Idle))
    assert person.answers() == [f"echo: message {number}" for number in range(30)]
    assert house.house.turns_run == [f"message {number}" for number in range(30)]


def test_who_leaves_with_the_answer_leaves_none_for_the_next(house: HouseThread, meet: Callable[..., Person]) -> None:
    """C7: what one client has confirmed is delivered, however quickly it goes."""
    for number in range(20):
        person = meet(f"a{number}", conversation=KEY)
        person.type("hello")
        person.client.close()
        assert meet(f"b{number}", conversation=KEY).type("quiet") == [Idle()]


def test_an_answer_that_nobody_confirmed_is_shown_to_the_next(
    house: HouseThread, meet: Callable[..., Person], home: Path
) -> None:
    """C9: a terminal was killed with the answer on its way; whoever opens the conversation next sees it, once."""
    killed = RawClient(home, "a", conversation=KEY, confirm=False)
    killed.say("hello")
    killed.wait(wire.Deliver)
    killed.close()
    wait_until(lambda: not house.house.adapter.hub.is_watched(HERE.chat))
    person = meet("b", conversation=KEY)
    wait_until(lambda: person.answers() == ["echo: hello"])
    assert person.type("quiet") == [Idle()]
    assert meet("c", conversation=KEY).type("quiet") == [Idle()]


def test_a_stop_without_gateway_says_so(open_house: Callable[[], HouseThread], meet: Callable[..., Person]) -> None:
    """B8: the sender is told that it did not reach anybody."""
    house = open_house()
    person = meet()
    house.stop()
    wait_until(lambda: person.client._connection is None)
    assert not person.client.stop()
    wait_until(lambda: person.count(Notice) == 1)
    assert "did not reach" in next(event.text for event in person.events if isinstance(event, Notice))


def test_calls(house: HouseThread, home: Path) -> None:
    assert call_owner(home, "good", {"x": 1}, 20) == {"name": "good", "args": {"x": 1}}
    with pytest.raises(HermesError, match="not done here"):
        call_owner(home, "bad", {}, 20)


def test_nobody_listens_without_a_gateway(home: Path) -> None:
    assert connect(home) is None


# --- the follower alone


def row(number: int, kind: str = ANSWER) -> wire.Deliver:
    return wire.Deliver(number, Outgoing(HERE, f"row {number}", kind, question="q"), waits=True)


def welcomed(outbox: int = 0) -> Follower:
    follower = Follower(wire.Hello("a", conversation=KEY))
    follower.take(wire.Welcome(KEY, wire.Cursor(outbox, 0)))
    return follower


def say(follower: Follower, text: str) -> wire.Say:
    said = follower.say(text)
    follower._pending[said.id].said_in = follower.conversation
    return said


def test_dealt_may_come_before_stored() -> None:
    follower = welcomed()
    said = say(follower, "x")
    assert follower.take(row(4)).events == (TurnEnded("row 4", True),)
    assert follower.take(wire.DealtWith((7,))).events == ()
    assert follower.take(wire.Stored(said.id, 7)).events == (Idle(),)


def test_idle_waits_for_the_rows_of_a_message_that_was_done_before() -> None:
    follower = welcomed()
    assert follower.take(wire.Stored(say(follower, "x").id, 7, again=True, done=True, outbox=4)).events == ()
    assert follower.take(row(4)).events == (TurnEnded("row 4", True), Idle())


def test_old_questions_are_not_asked_again() -> None:
    follower = welcomed(5)
    assert follower.take(row(4, QUESTION)).events == ()
    assert isinstance(follower.take(row(6, QUESTION)).events[0], Asked)


def test_an_open_question_is_told_once_for_each_connection() -> None:
    follower = welcomed()
    asked = Question("approval", "row 6", ("yes",), id="q")
    assert isinstance(follower.take(row(6, QUESTION)).events[0], Asked)
    assert Asked(asked) not in follower.take(wire.Welcome(KEY, wire.Cursor(6, 0), question=asked)).events
    follower.enter(KEY)
    assert Asked(asked) in follower.take(wire.Welcome(KEY, wire.Cursor(6, 0), question=asked)).events


def test_what_was_dealt_with_while_away_is_done() -> None:
    follower = welcomed()
    follower.take(wire.Stored(say(follower, "x").id, 1))
    follower.take(wire.Stored(say(follower, "y").id, 2))
    unsent = say(follower, "z")
    assert follower.cursor == wire.Cursor(0, 2)
    follower.take(wire.Welcome(KEY, wire.Cursor(3, 2), open=(2,)))
    assert follower.say_next() == unsent
    assert follower.take(row(3)).events == (TurnEnded("row 3", True),)
    follower.take(wire.Stored(unsent.id, 3))
    assert follower.take(wire.DealtWith((2, 3))).events == (Idle(),)


def test_a_snapshot_from_before_a_message_says_nothing_of_it() -> None:
    """C2: it was read before the message was stored, and comes after the word that it is."""
    follower = welcomed()
    follower.take(wire.Stored(say(follower, "x").id, 1))
    assert Idle() not in follower.take(wire.Welcome(KEY, wire.Cursor(0, 0))).events
    assert follower.take(wire.DealtWith((1,))).events == (Idle(),)


def test_a_message_that_was_on_its_way_when_the_chat_moved_is_not_waited_for() -> None:
    follower = welcomed()
    moving, late = say(follower, "/new"), say(follower, "x")
    follower.take(wire.Happened(Said("/new"), 1, moving.id))
    follower.take(wire.Stored(moving.id, 1))
    follower.take(wire.MovedTo(1, "agent:main:local:dm:new"))
    assert follower.take(wire.DealtWith((1,))).events == ()
    assert (follower.conversation, follower.cursor) == ("agent:main:local:dm:new", None)
    assert follower.take(wire.Stored(late.id, 2)).events == (Idle(),)


def test_where_messages_of_others_lead_is_their_business() -> None:
    follower = welcomed()
    follower.take(wire.Happened(Said("/new"), 1, "b-1"))
    follower.take(wire.MovedTo(1, "agent:main:local:dm:new"))
    follower.take(wire.DealtWith((1,)))
    assert follower.conversation == KEY


@given(st.lists(st.integers(1, 8), max_size=40))
def test_a_row_is_shown_once_and_always_confirmed(numbers: list[int]) -> None:
    """C7"""
    follower = welcomed()
    taken = [follower.take(row(number, NOTE)) for number in numbers]
    shown = [event.text for one in taken for event in one.events if isinstance(event, Notice)]
    assert sorted(shown) == sorted({f"row {number}" for number in numbers})
    assert [number for one in taken for number in one.shown] == numbers
    assert (follower.cursor or wire.Cursor()).outbox == max(numbers, default=0)


@given(st.permutations(range(1, 9)), st.lists(st.integers(1, 8), max_size=8))
def test_words_are_shown_once_and_the_cursor_leaves_no_gap(order: list[int], again: list[int]) -> None:
    """C7: whatever is not known yet is still asked for."""
    follower = welcomed()
    shown: list[str] = []
    for seq in [*order, *again]:
        known = set(shown)
        taken = follower.take(wire.Happened(Said(str(seq)), seq))
        shown += [event.text for event in taken.events if isinstance(event, Said)]
        cursor = (follower.cursor or wire.Cursor()).seq
        assert all(str(one) in known | {str(seq)} for one in range(1, cursor + 1))
    assert shown == [str(seq) for seq in order]


def test_the_house_of_these_tests_is_whole() -> None:
    """What terminals ask of a gateway is what these tests answer."""
    from gateway.service.local_door import LocalDoor

    wanted = {name for name in vars(LocalDoor) if not name.startswith("_")}
    wanted |= {"take", "wake_delivery", "version", "question", "perform"}
    assert [name for name in wanted if not hasattr(EchoHouse, name)] == []
