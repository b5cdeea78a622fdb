"""Somebody stands still: a reader, a platform, a hook, an engine, a tool, a model. Everybody else is served."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from gateway_process import Person
from local_gateway import LocalHouse
from queries_house import OWNER, QueriesHouse
from raw_client import Call, RawClient, Stop, Told
from stalling import SERVED_SECONDS, THAW_SECONDS, StallingGateway
from waiting import wait_until

from gateway.platforms.web.adapter import WebAdapter
from gateway.run import GatewayRunner
from gateway.turns import agent_builder
from gateway.turns.threads import STORE_THREADS
from hermes_base import local_wire as wire
from hermes_base.chat import TextDelta
from hermes_cli.chat.local_client import LocalConnection, connect
from hermes_lab.server import LabServer
from hermes_state.sql.turns_sql import TurnStore

AddTool = Callable[[str, Callable[..., str]], None]


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Whoever waits for it stands still until the test is over."""
    over = threading.Event()
    yield over
    over.set()


def is_served(client: RawClient, id: str = "served") -> bool:
    """Whether a message is answered now, and its text seen live."""
    client.say(f"[[say live text for {id}]]", id)
    wait_until(lambda: any(f"live text for {id}" in text for text in client.answers()), SERVED_SECONDS)
    seen = "".join(line.event.text for line in client.find(wire.Happened) if isinstance(line.event, TextDelta))
    return f"live text for {id}" in seen


def test_a_reader_that_stands_still_keeps_nobody_waiting(house: LocalHouse) -> None:
    """F5, C7: a terminal comes back to a long conversation and reads nothing. Neither another one in the same
    conversation nor one elsewhere notices; when it reads at last, it gets everything it missed, in order."""
    here, elsewhere = house.client("here"), house.client("elsewhere")
    for number in range(8):
        here.say(f"{number} " + "x" * 300_000, str(number))
        here.wait(wire.Stored, lambda line, number=number: line.id == str(number))
    wait_until(lambda: len(here.find(wire.DealtWith)) >= 1 and not house.gateway.lanes.at_work, 60)
    slow = connect(house.home)
    assert slow is not None
    with closing(slow):
        slow.follow(here.welcome.conversation, wire.Cursor())
        wait_until(lambda: count_watchers(house) == 3)
        assert is_served(elsewhere)
        assert is_served(here)
        said = [told for told in read_told(slow, "live text for served") if isinstance(told, wire.Happened)]
    assert [line.event.text[:2] for line in said if line.seq][:8] == [f"{number} " for number in range(8)]


def test_everybody_of_a_conversation_is_in_one_room(
    house: LocalHouse, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: while a terminal catches up, the last other one leaves and a new one comes. Both hear what is said then."""
    first = house.client("first")
    assert is_served(first)
    conversation, reading, find_latest = first.welcome.conversation, threading.Event(), TurnStore.latest

    def hold_the_first(turns: TurnStore, asked: str) -> tuple[int, int]:
        if not reading.is_set():
            reading.set()
            held.wait(SERVED_SECONDS)
        return find_latest(turns, asked)

    monkeypatch.setattr(TurnStore, "latest", hold_the_first)
    back = RawClient(house.home)
    back.send(wire.Hello("back", conversation, after=first.welcome.cursor))
    assert reading.wait(SERVED_SECONDS)
    first.close()
    wait_until(lambda: count_watchers(house) == 1)
    new = house.client("new", conversation=conversation)
    held.set()
    back.wait(wire.Welcome)
    assert is_served(new, "everybody")
    wait_until(lambda: any("live text for everybody" in text for text in back.answers()), SERVED_SECONDS)
    back.close()


def test_a_platform_that_cannot_show_keeps_nobody_from_it(house: LocalHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """F5: the page breaks in the events of one conversation; other pages and the terminals go on."""
    broken, other = house.client("broken"), house.client("other")
    shown, show = [], WebAdapter.show

    def break_for_one(adapter: WebAdapter, conversation: str, event: Any) -> None:
        shown.append(conversation)
        if conversation == broken.welcome.conversation:
            raise ZeroDivisionError
        show(adapter, conversation, event)

    monkeypatch.setattr(WebAdapter, "show", break_for_one)
    assert is_served(broken)
    assert is_served(other)
    assert shown.count(other.welcome.conversation) > 1


def test_a_hook_that_stands_still_holds_no_thread_of_the_store(home: Path, lab: LabServer) -> None:
    """F5: a plugin looks at messages of many chats and does not come back; another chat is served meanwhile."""
    with StallingGateway(home, lab.base_url) as gateway:
        gateway.start()
        slow = [Person(home, f"slow{number}") for number in range(STORE_THREADS + 2)]
        other = Person(home, "other")
        with gateway.held_for(slow, "hook", "[[say slow]]") as said:
            other.ask("[[say quick]]", SERVED_SECONDS)
        for person, message in zip(slow, said, strict=True):
            person.wait_dealt(message, seconds=THAW_SECONDS)
        for person in (*slow, other):
            person.close()


def test_an_engine_that_does_not_let_go_holds_no_thread_of_the_store(
    house: LocalHouse, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5: sessions are deleted while the end of each of their agents stands still; another chat is served."""
    clients = [house.client(f"c{number}") for number in range(STORE_THREADS + 1)]
    for client in clients:
        client.say("[[say hello]]")
    wait_until(lambda: all(client.answers() for client in clients), SERVED_SECONDS)
    ending = []
    monkeypatch.setattr(GatewayRunner, "_cleanup_agent_resources", lambda *_: (ending.append(1), held.wait(60)))
    *leaving, other = clients
    for client in leaving:
        session = house.gateway.store.current(client.welcome.conversation)
        assert session is not None
        client.send(Call("delete", "sessions.delete", {"session": session.id}))
    wait_until(lambda: len(ending) == len(leaving), SERVED_SECONDS)
    assert is_served(other)
    held.set()
    wait_until(lambda: all(client.find(Told) for client in leaving), SERVED_SECONDS)


@pytest.mark.parametrize("what", ["[[stall 300]]", "[[tool hang {}]]"], ids=["model", "tool"])
def test_models_and_tools_that_stand_still_keep_nobody_waiting(
    house: LocalHouse, held: threading.Event, add_tool: AddTool, what: str
) -> None:
    """F5, C4: more of them than the store has threads; and each of them can be stopped."""
    hanging = []
    add_tool("hang", lambda args: str((hanging.append(1), held.wait(60))))
    stuck = [house.client(f"s{number}") for number in range(STORE_THREADS + 2)]
    for client in stuck:
        client.say(what)
    wait_until(lambda: sum(lane.slot is not None for lane in list(house.gateway.lanes.at_work.values())) == len(stuck))
    assert is_served(house.client("other"))
    for client in stuck:
        client.send(Stop("stop"))
    wait_until(lambda: all(client.find(wire.DealtWith) for client in stuck), SERVED_SECONDS)


def open_page(house: QueriesHouse) -> None:
    house.start_call(house.queries.threads.timeline(OWNER, "agent:main:web:dm:x"))


def open_with_model(house: QueriesHouse) -> None:
    house.start_call(house.queries.threads.open(OWNER, "api", model="another"))


def open_terminal(house: QueriesHouse) -> None:
    RawClient(house.home).send(wire.Hello("terminal", model="another"))


@pytest.mark.parametrize("come", [open_page, open_with_model, open_terminal])
def test_looking_for_a_model_holds_no_thread_of_the_store(
    settings: None,
    home: Path,
    held: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    come: Callable[[QueriesHouse], None],
) -> None:
    """F5: which model answers is asked of a server that stands still; the store serves everybody else meanwhile."""
    looking, find = [], agent_builder.find_runtime
    monkeypatch.setattr(agent_builder, "FOUND_SECONDS", -1.0)
    house = QueriesHouse(home)
    monkeypatch.setattr(
        agent_builder, "find_runtime", lambda *a, **k: (looking.append(1), held.wait(SERVED_SECONDS), find(*a, **k))[2]
    )
    try:
        for _ in range(STORE_THREADS):
            come(house)
        wait_until(lambda: len(looking) >= STORE_THREADS)  # the gateway itself may look, too
        gateway = house.gateway
        assert house.run(asyncio.wait_for(gateway.call(gateway.turns.depth), 10)) == (0, 0)
    finally:
        held.set()
        house.stop()


def count_watchers(house: LocalHouse) -> int:
    """Terminals that look on, in any conversation."""
    adapter: Any = next(each for each in house.gateway.adapters if each.spec.name == "local")
    return int(adapter.hub.count())


def read_told(stream: LocalConnection, until: str) -> Iterator[Any]:
    while True:
        told = stream.read(SERVED_SECONDS)
        yield told
        if isinstance(told, wire.Deliver) and until in told.outgoing.text:
            return
