"""The message path through the local socket: one warm agent, one order, one answer for each message."""

import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from local_gateway import LocalHouse
from raw_client import Call, RawClient, Told
from waiting import wait_until

from gateway.core import bursts
from gateway.core.bursts import Windows
from gateway.core.route import QUEUED
from gateway.turns import lane as lanes
from hermes_base import local_wire as wire
from hermes_base.conversation_key import parse_key
from hermes_base.inbound import ANSWER, NOTE
from hermes_base.store_place import find_place
from hermes_base.turn.journal import Row, text_of
from hermes_cli import config
from hermes_lab.server import LabServer
from hermes_state.sql.engines.engine import Sql
from hermes_state.sql.store_sql import Store


class Person:
    """Somebody at a terminal, who says one thing after the other."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self._said = 0

    @property
    def conversation(self) -> str:
        return str(self.client.welcome.conversation)

    def say(self, text: str) -> None:
        self._said += 1
        self.client.say(text, str(self._said))

    def shown(self, kind: str = ANSWER) -> list[str]:
        """What a person sees: a row that comes again under its key is the same one."""
        rows = {line.row: line.outgoing for line in self.client.find(wire.Deliver) if line.outgoing.kind == kind}
        return [outgoing.text for outgoing in rows.values()]

    def ask(self, text: str, kind: str = ANSWER) -> str:
        """Say it and wait for what is answered."""
        before = len(self.shown(kind))
        self.say(text)
        wait_until(lambda: len(self.shown(kind)) > before)
        return self.shown(kind)[-1]


@pytest.fixture
def person(house: LocalHouse) -> Person:
    return Person(house.client())


def messages(request: Any) -> list[dict[str, Any]]:
    return [message for message in request.json()["messages"] if message["role"] != "system"]


def stored(house: LocalHouse, conversation: str) -> list[str]:
    """The transcript as it stands, without what is told beside a message."""
    store = house.gateway.store
    current = store.current(conversation)
    assert current is not None
    return [text_of(row.message).split("\n\n[")[0] for row in store.load(current.id).rows]


# --- one warm agent


def test_a_conversation_keeps_its_agent(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """B1, B2: own writes never make the own agent the wrong one."""
    for number in range(4):
        assert person.ask(f"[[say {number}]]") == str(number)
    assert (house.counters["build:new"], house.counters["hit"]) == (1, 3)
    assert [len(messages(request)) for request in lab.requests] == [1, 3, 5, 7]


def test_what_another_process_wrote_is_in_the_next_turn(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """B3: a row that somebody else committed makes the warm agent the wrong one; reading does not."""
    person.ask("[[say one]]")
    other = Store(find_place(house.home))
    session = other.current(person.conversation)
    assert session is not None
    other.load(session.id)
    person.ask("[[say two]]")
    assert house.counters["hit"] == 1
    other.append(session.id, "somebody", session.version + 2, [Row({"role": "user", "content": "from elsewhere"})])
    other.close()
    person.ask("[[say three]]")
    assert house.counters["build:transcript"] == 1
    assert "from elsewhere" in [message["content"] for message in messages(lab.requests[-1])]


def test_another_model_builds_another_agent_and_effort_does_not(
    house: LocalHouse, person: Person, lab: LabServer
) -> None:
    """B1, B9: `/model` changes one conversation, `/reasoning` the agent in its place."""
    other = Person(house.client("two"))
    person.ask("[[say one]]")
    person.ask("/reasoning low", NOTE)
    person.ask("[[say two]]")
    assert house.counters["hit"] == 1
    assert lab.requests[-1].json()["reasoning_effort"] == "low"
    person.ask("/model other-model", NOTE)
    person.ask("[[say three]]")
    assert house.counters["build:settings"] == 1
    other.ask("[[say four]]")
    assert [request.json()["model"] for request in lab.requests[-2:]] == ["other-model", "lab-model"]


def test_the_model_for_all_is_the_next_one_of_everybody(house: LocalHouse, person: Person, lab: LabServer) -> None:
    other = Person(house.client("two"))
    assert "every conversation" in person.ask("/model bigger-model --global", NOTE)
    other.ask("hello")
    assert lab.requests[-1].json()["model"] == "bigger-model"


def test_a_choice_ends_with_its_conversation(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """B9: `/new` and going back to another session end what was chosen with `/model`; the words say so."""
    del house
    person.ask("[[say one]]")
    assert "until /new" in person.ask("/model other-model", NOTE)
    person.ask("[[say two]]")
    assert "lab-model answers here" in person.ask("/new", NOTE)
    person.ask("[[say three]]")
    assert [request.json()["model"] for request in lab.requests[-2:]] == ["other-model", "lab-model"]
    assert "answers here" not in person.ask("/new", NOTE)


def test_a_choice_survives_a_restart(house: LocalHouse, person: Person, lab: LabServer) -> None:
    person.ask("/model other-model", NOTE)
    house.stop()
    house.start()
    again = Person(house.client("three", conversation=person.conversation))
    again.ask("[[say hello]]")
    assert lab.requests[-1].json()["model"] == "other-model"


def test_after_a_fallback_the_next_message_starts_on_the_first_choice_with_the_same_agent(
    house: LocalHouse, person: Person, lab: LabServer
) -> None:
    """D3: restoration, not eviction."""
    from agent.providers.health import health

    with LabServer() as second:
        entry = {"provider": "custom", "model": "second", "base_url": second.base_url, "context_length": 100_000}
        (house.home / "config.yaml").write_text(
            f"model: {{base_url: '{lab.base_url}', default: lab-model, fallbacks: [{entry}]}}"
        )
        person.ask("[[say warm]]")
        agent = house.gateway.runner.cached_agent(person.conversation)
        lab.set_plan([{"fault": {"status": 402, "message": "no credit"}}])
        assert person.ask("[[say by the second]]") == "by the second"
        assert [request.json()["model"] for request in second.requests] == ["second"]
        lab.set_plan([])
        health.forget()  # the pause of the first choice is over
        assert person.ask("[[say by the first]]") == "by the first"
        assert lab.requests[-1].json()["model"] == "lab-model"
        assert len(second.requests) == 1
        assert house.gateway.runner.cached_agent(person.conversation) is agent


def test_everyone_who_knows_a_session_learns_the_new_one(house: LocalHouse, person: Person) -> None:
    """B4: agent, journal, engine, cache, conversation and store name the same session after a compaction."""
    config.set_value("compression.protect_last_n", "1")
    config.set_value("compression.in_place", "false")
    for number in range(6):
        person.ask(f"[[say {number}]] " + "words " * 200)
    before = house.gateway.store.current(person.conversation)
    told = person.ask("/compress", NOTE)
    after = house.gateway.store.current(person.conversation)
    assert before is not None
    assert after is not None
    if "nothing to compress" in told:
        pytest.fail(told)
    agent = house.gateway.runner.cached_agent(person.conversation)
    place = house.gateway.runner._held[person.conversation]
    holders = {
        agent.session_id,
        agent.journal.place[0],
        agent.journal.standing()[0],
        agent._load_conversation().session,
        place.session,
        after.id,
    }
    assert holders == {after.id}
    assert after.id != before.id
    assert after.task == before.task
    person.ask("[[say after]]")
    assert house.counters["hit"] >= 6


# --- one order


def test_messages_that_come_together_are_one_turn(
    person: Person, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3: a burst keeps all its items, in order."""
    monkeypatch.setattr(bursts, "find_windows", lambda _item: Windows(burst=3.0))
    for text in ("first", "second", "[[say got both]]"):
        person.say(text)
    wait_until(lambda: person.shown() == ["got both"])
    assert len(lab.requests) == 1
    content = messages(lab.requests[0])[0]["content"]
    assert content.index("first") < content.index("second")


def test_a_new_message_interrupts_and_both_are_answered(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """C6: the interrupted turn says so; the next one sees both messages."""
    person.say("one [[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    person.say("two [[say here]]")
    wait_until(lambda: "here" in person.shown())
    assert person.shown() == ["(Interrupted by your new message.)", "here"]
    said = [message["content"] for message in messages(lab.requests[-1]) if message["role"] == "user"]
    assert [text.split()[0] for text in said] == ["one", "two"]


def test_a_message_can_wait(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """C3: first in, first out; "queued" is said when it is stored."""
    config.set_value("gateway.busy", "queue")
    person.say("[[chunks 3]] [[stall 0.5]]")
    wait_until(lambda: lab.in_flight == 1)
    person.say("[[say second]]")
    wait_until(lambda: any("Queued" in note for note in person.shown(NOTE)))
    time.sleep(0.1)  # a burst would be one turn
    person.say("[[say third]]")
    wait_until(lambda: len(person.shown()) == 3)
    assert person.shown()[1:] == ["second", "third"]


def test_of_six_that_wait_one_is_told_for_all(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """C3: every one is stored and answered; the word that they wait is said once for each turn under way."""
    config.set_value("gateway.busy", "queue")
    person.say("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    for number in range(6):
        person.say(f"number {number}")
    wait_until(lambda: len(house.gateway.turns.open_seqs(person.conversation)) == 7)
    person.say("/stop")
    wait_until(lambda: not house.gateway.turns.open_seqs(person.conversation))
    assert [note for note in person.shown(NOTE) if note.startswith("Queued")] == [QUEUED]
    asked = " ".join(str(message["content"]) for message in messages(lab.requests[-1]) if message["role"] == "user")
    assert all(f"number {number}" in asked for number in range(6))


def test_a_message_can_steer(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """Put into the running turn at its next step; it is answered with it, and once."""
    config.set_value("gateway.busy", "steer")
    config.set_value("approvals.mode", "auto")
    person.say('[[tool terminal {"command": "sleep 1"}]]')
    wait_until(lambda: bool(person.client.find(wire.Happened, lambda line: "ToolStarted" in type(line.event).__name__)))
    person.say("look left")
    wait_until(lambda: len(person.shown()) == 1)
    said = [message["content"] for message in messages(lab.requests[-1]) if message["role"] == "user"]
    assert said[-1] == "look left"
    assert stored(house, person.conversation).count("look left") == 1
    assert not house.gateway.turns.open_seqs(person.conversation)


def test_five_interruptions_then_it_waits(house: LocalHouse, person: Person, lab: LabServer) -> None:
    for number in range(6):
        person.say(f"{number} [[stall 30]]")
        wait_until(lambda number=number: len(lab.requests) == number + 1)
    person.say("[[say last]]")
    wait_until(lambda: any("5 turns in a row" in note for note in person.shown(NOTE)))
    person.say("/stop")
    wait_until(lambda: "last" in person.shown())


def test_commands_take_their_place_in_the_order(house: LocalHouse, person: Person) -> None:
    """B9, B10: `/new` between two messages ends the session that the first was said in."""
    person.ask("[[say one]]")
    first = house.gateway.store.current(person.conversation)
    assert first is not None
    person.say("/new")
    person.say("[[say two]]")
    wait_until(lambda: person.shown() == ["one", "two"])
    ended = house.gateway.store.session(first.id)
    assert ended is not None
    assert ended.end_reason == "new"
    assert stored(house, person.conversation) == ["[[say two]]", "two"]


# --- stopping


WAITS = {
    "model": "[[stall 60]]",
    "command": '[[tool terminal {"command": "sleep 60"}]]',
    "approval": '[[tool terminal {"command": "rm -rf /tmp/nothing-here"}]]',
    "clarification": '[[tool clarify {"question": "which?"}]]',
    "retry": "hello",
    "summary": "/compress",
    "connection": "hello",
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_of_any_kind_ends_with_stop(house: LocalHouse, person: Person, lab: LabServer, wait: str) -> None:
    """C4, C6: within five seconds, and the next message runs on a clean state."""
    with contextlib.ExitStack() as stack:
        prepare(house, person, lab, wait, stack)
        shown = len(person.client.find(wire.Deliver))
        person.say(WAITS[wait])
        wait_until(lambda: _is_waiting(house, person, lab, wait), 30)
        person.say("/stop")
        wait_until(lambda: not house.gateway.lanes.at_work, 40)
        # A question that was asked before may be shown only now.
        wait_until(lambda: any(_tells_stop(line, wait) for line in person.client.find(wire.Deliver)[shown:]))
    config.set_value("model.base_url", lab.base_url)
    lab.set_plan([])
    assert person.ask("[[say clean]]") == "clean"


def _tells_stop(line: wire.Deliver, wait: str) -> bool:
    said = line.outgoing
    return wait == "summary" or (said.interrupted and "stopped by the user" in said.text)


def prepare(house: LocalHouse, person: Person, lab: LabServer, wait: str, stack: contextlib.ExitStack) -> None:
    """Make the world such that what is said next has to wait."""
    if wait == "command":
        config.set_value("approvals.mode", "auto")
    if wait == "retry":
        lab.set_plan([{"fault": {"status": 503, "message": "busy"}, "times": 50}])
    if wait == "summary":
        config.set_value("compression.protect_last_n", "1")
        for number in range(6):
            person.ask(f"[[say {number}]] " + "words " * 200)
        lab.set_plan([{"stall_first": 60}])
    if wait == "connection":  # nobody answers the door, and there is no more room in front of it
        deaf = stack.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(3):
            knocking = stack.enter_context(socket.socket())
            knocking.setblocking(False)
            knocking.connect_ex(deaf.getsockname())
        config.set_value("model.base_url", f"http://127.0.0.1:{deaf.getsockname()[1]}/v1")


def _is_waiting(house: LocalHouse, person: Person, lab: LabServer, wait: str) -> bool:
    if wait in ("model", "summary"):
        return lab.in_flight == 1
    if wait == "retry":
        return len(lab.requests) >= 2
    if wait == "connection":
        return any(lane.slot is not None and lane.slot.live.steerable for lane in house.gateway.lanes.at_work.values())
    if wait == "command":
        return bool(person.client.find(wire.Happened, lambda line: "ToolStarted" in type(line.event).__name__))
    return house.gateway.questions.open(person.conversation) is not None


def test_a_turn_that_does_not_listen_is_left_behind(
    house: LocalHouse, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4: a hook that never returns holds nobody up; the conversation goes on without it."""
    import threading

    from agent.turn.driver import Turn

    stuck, free = threading.Event(), threading.Event()
    take_message = Turn._take_message

    def hang(turn: Turn, step: Any) -> None:
        take_message(turn, step)
        if "hang" in turn._message.text:
            stuck.set()
            free.wait(60)

    monkeypatch.setitem(
        Turn._performers, next(step for step, do in Turn._performers.items() if do is take_message), hang
    )
    monkeypatch.setattr(lanes, "STOP_PATIENCE", 0.5)
    person.say("hang")
    assert stuck.wait(10)
    person.say("/stop")
    wait_until(lambda: bool(person.shown()))
    assert "stopped by the user" in person.shown()[0]
    assert person.ask("[[say goes on]]") == "goes on"
    free.set()
    assert stored(house, person.conversation)[0] == "hang"
    assert stored(house, person.conversation).count("hang") == 1


def test_stop_on_an_idle_conversation_changes_nothing(house: LocalHouse, person: Person) -> None:
    """C5"""
    person.ask("[[say one]]")
    before = stored(house, person.conversation)
    assert person.ask("/stop", NOTE) == "Nothing is running."
    assert stored(house, person.conversation) == before
    assert person.ask("[[say two]]") == "two"


def test_an_operator_stops_a_turn_through_the_store(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """B8: a word for a turn reaches the process that owns it; for an idle one the sender is told."""
    person.say("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    assert house.gateway.turns.send_control(person.conversation, "stop", {"reason": "stopped by the operator"}).live
    wait_until(lambda: bool(person.shown()))
    assert "stopped by the operator" in person.shown()[0]
    assert not house.gateway.turns.send_control("agent:main:local:dm:nobody", "stop", {}).live


# --- clocks


@pytest.mark.parametrize("set_by", [0.0, -3600.0])
def test_silence_is_warned_of_and_then_ended(
    house: LocalHouse, person: Person, lab: LabServer, monkeypatch: pytest.MonkeyPatch, set_by: float
) -> None:
    """C6, C11: one warning, then the end, and each says which clock it was, though the time of day is set back."""
    from gateway.service import chores

    monkeypatch.setattr(chores, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(chores, "read_limits", lambda settings: chores.clocks.TurnTimes(silence=2.0))
    time.sleep(2.1)  # the watch that sleeps now was set before
    person.say("[[stall 60]]")
    wait_until(lambda: any(lane.slot is not None for lane in house.gateway.lanes.at_work.values()))
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + set_by)
    wait_until(lambda: bool(person.shown()), 30)
    assert len([note for note in person.shown(NOTE) if "Nothing has moved" in note]) == 1
    assert "Stopped by the watchdog" in person.shown()[0]


def test_an_open_question_is_no_silence(house: LocalHouse, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """C12"""
    from gateway.service import chores

    monkeypatch.setattr(chores, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(chores, "read_limits", lambda settings: chores.clocks.TurnTimes(silence=1.0))
    time.sleep(2.1)
    person.say('[[tool clarify {"question": "which?"}]]')
    wait_until(lambda: house.gateway.questions.open(person.conversation) is not None)
    time.sleep(2.0)
    assert not person.shown()
    person.say("the left one")
    wait_until(lambda: bool(person.shown()))
    assert not [note for note in person.shown(NOTE) if "Nothing has moved" in note]


# --- several at one conversation


def test_two_terminals_and_a_third_client_see_everything_once(house: LocalHouse, lab: LabServer) -> None:
    """B3, B6, B8: one conversation, serialised; the gateway stops and starts under them, and they go on."""
    config.set_value("gateway.busy", "queue")
    first = Person(house.client("one"))
    others = [Person(house.client(name, conversation=first.conversation)) for name in ("two", "three")]
    everyone = [first, *others]
    for number, person in enumerate(everyone):
        person.say(f"[[say answer {number}]]")
        wait_until(lambda number=number: all(len(each.shown()) == number + 1 for each in everyone))
    for person in everyone:
        assert person.shown() == first.shown()
        heard = [line.event.text for line in person.client.find(wire.Happened) if "Said" in type(line.event).__name__]
        assert len(heard) == 2
    assert max(len(messages(request)) for request in lab.requests) == 5


def test_a_conversation_of_its_own_for_each_start(house: LocalHouse) -> None:
    one, two = Person(house.client("one")), Person(house.client("two"))
    assert one.conversation != two.conversation
    assert parse_key(one.conversation).platform == "local"
    one.ask("[[say hello]]")
    again = Person(house.client("three", continue_last=True))
    assert again.conversation == one.conversation


def test_resume_moves_a_terminal_to_the_other_conversation(house: LocalHouse, lab: LabServer) -> None:
    """B9"""
    one, two = Person(house.client("one")), Person(house.client("two"))
    one.ask("[[say tea]]")
    session = house.gateway.store.current(one.conversation)
    assert session is not None
    two.ask(f"/resume {session.id}", NOTE)
    assert two.client.wait(wire.MovedTo).conversation == one.conversation
    two.ask("and?")
    assert [message["role"] for message in messages(lab.requests[-1])] == ["user", "assistant", "user"]


# --- the end


def test_stopping_leaves_nothing_to_do_and_keeps_what_runs(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """C10, C14, F10: a turn that does not end in time goes on after the next start, from what is stored."""
    from gateway.service import gateway as service

    original = service.GRACE_SECONDS
    service.GRACE_SECONDS = 0.2
    try:
        person.say("go on with me [[stall 5]]")
        wait_until(lambda: lab.in_flight == 1)
        house.stop()
    finally:
        service.GRACE_SECONDS = original
    lab.set_plan([{"text": "finished"}])
    house.start()
    again = Person(house.client("two", conversation=person.conversation, after=wire.Cursor()))
    wait_until(lambda: "finished" in again.shown())
    assert again.shown(NOTE).count("Hermes was restarted; going on with your message.") == 1
    assert [text.split(" [[")[0] for text in stored(house, person.conversation)] == ["go on with me", "finished"]


def test_a_restart_invents_nothing(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """C10: a conversation without an open message starts nothing."""
    person.ask("[[say one]]")
    calls = len(lab.requests)
    house.stop()
    house.start()
    time.sleep(1.5)  # longer than a poll
    assert len(lab.requests) == calls
    assert not house.gateway.lanes.at_work


def test_the_state_of_the_house_is_told(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """B7, C13: who owns what shows in the status, and connected means a sign of life."""
    person.say("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    person.client.send(Call("1", "status", {}))
    told = person.client.wait(Told).result
    (owned,) = [each for each in told["owned"] if each["conversation"] == person.conversation]
    assert (owned["owner"], owned["live"]) == (told["node"], True)
    assert told["leases"] == []  # nobody sends to those who read the store
    assert [turn["conversation"] for turn in told["working"]] == [person.conversation]
    assert told["platforms"][0]["connected"]


def test_an_idle_gateway_does_next_to_nothing(house: LocalHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """F4: a handful of store calls a second, whatever time they take (`make bench` measures the rest)."""
    from gateway.turns.threads import StoreFace

    called: list[str] = []
    call = StoreFace.__call__

    async def count(face: StoreFace, work: Any, *args: Any) -> Any:
        called.append(getattr(work, "__name__", "?"))
        return await call(face, work, *args)

    monkeypatch.setattr(StoreFace, "__call__", count)
    began = time.monotonic()
    time.sleep(3)
    assert 0 < len(called) <= 6 * (time.monotonic() - began + 1), called  # and what belongs to its start


def test_plugins_learn_where_a_turn_was_asked(house: LocalHouse, person: Person) -> None:
    from gateway.session_context import get_session_env
    from tools.registry import registry

    schema = {"description": "where", "parameters": {"type": "object", "properties": {}}}
    registry.register("where", "files", schema, lambda args: get_session_env("HERMES_SESSION_CHAT_ID", "nowhere"))
    try:
        assert parse_key(person.conversation).chat in person.ask("[[tool where {}]]")
    finally:
        registry.deregister("where")
    assert get_session_env("HERMES_SESSION_CHAT_ID", "nowhere") == "nowhere"


def test_what_others_hear_holds_no_secret(house: LocalHouse, person: Person) -> None:
    """G6: another terminal in the conversation sees what is stored."""
    config.set_value("MY_SERVICE_API_KEY", "canary-5d1c77aa")
    other = Person(house.client("two", conversation=person.conversation))
    person.ask("my key is canary-5d1c77aa [[say thanks]]")
    (heard,) = [line.event.text for line in other.client.find(wire.Happened) if "Said" in type(line.event).__name__]
    assert "canary" not in heard
    assert "[redacted MY_SERVICE_API_KEY]" in heard


def test_a_lane_survives_what_nobody_expected(
    house: LocalHouse, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B6, C2: a look that breaks while a turn runs neither loses a message nor starts a second turn."""
    from gateway.turns.sender import Senders

    config.set_value("gateway.busy", "queue")
    look, broken = Senders.look, [ValueError("odd"), ValueError("odder")]

    def break_twice(door: Senders, claim: Any, known: Any, **more: Any) -> Any:
        if broken and known:
            raise broken.pop()
        return look(door, claim, known, **more)

    monkeypatch.setattr(Senders, "look", break_twice)
    person.say("[[stall 3]][[say one]]")
    time.sleep(0.5)
    person.say("[[say two]]")
    wait_until(lambda: person.shown() == ["one", "two"])
    assert not broken
    assert [note.split(":")[0] for note in person.shown(NOTE)] == ["Queued"]


def test_a_file_of_the_agent_is_handed_over(house: LocalHouse, person: Person, tmp_path: Path) -> None:
    """G7: a file in the folder of the chat is sent, a link to a file outside of it is not."""
    here = Person(house.client("here", folder=str(tmp_path)))
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    here.ask('[[tool send_file {"path": "notes.txt", "caption": "as asked"}]]')
    (sent,) = [row.outgoing for row in here.client.find(wire.Deliver) if row.outgoing.kind == "file"]
    assert (sent.file.name, sent.text) == ("notes.txt", "as asked")
    config.set_value("approvals.mode", "deny")
    here.ask('[[tool send_file {"path": "link.txt"}]]')
    assert len([row for row in here.client.find(wire.Deliver) if row.outgoing.kind == "file"]) == 1


def test_deleting_a_session_asks_the_owner(house: LocalHouse, person: Person, home: Path) -> None:
    from hermes_cli.cmds.owner import perform

    person.ask("[[say one]]")
    session = house.gateway.store.current(person.conversation)
    assert session is not None
    assert perform("sessions.delete", {"session": session.id}) == {"deleted": True}
    assert house.gateway.store.session(session.id) is None
    assert person.ask("[[say anew]]") == "anew"


def test_commands_that_come_together_run_one_after_the_other(house: LocalHouse, person: Person) -> None:
    """B9: none of them meets another one at the same agent."""
    for number in range(3):
        person.ask(f"[[say {number}]]")
    for command in ("/undo", "/undo", "/branch", "/undo", "/undo"):
        person.say(command)
    wait_until(lambda: len(person.shown(NOTE)) == 5)
    assert [note.splitlines()[-1].split(":")[0].split(",")[0] for note in person.shown(NOTE)] == [
        "Taken back",
        "Taken back",
        "Going on in a copy",
        "Taken back",
        "There is nothing to take back.",
    ]


def test_a_store_that_fails_in_between_loses_no_message(
    house: LocalHouse, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2, F6: what was decided and could not be stored is decided again."""
    from hermes_base.errors import StoreFailure
    from hermes_state.sql.turns_sql import TurnStore

    complete, failures = TurnStore.complete, [StoreFailure("The store is locked."), StoreFailure("Still locked.")]

    def fail_twice(*args: Any, **more: Any) -> Any:
        if failures:
            raise failures.pop()
        return complete(*args, **more)

    monkeypatch.setattr(TurnStore, "complete", fail_twice)
    assert "no command /nonsense" in person.ask("/nonsense", NOTE)
    assert not failures
    assert person.ask("[[say fine]]") == "fine"
    assert len(person.shown(NOTE)) == 1


def test_a_process_that_was_taken_for_dead_goes_on(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """B6, B7: after a sleep of the machine it is a new node; what ran goes on under its old claim, once, and the next
    message is answered."""
    person.ask("[[say one]]")
    person.say("[[stall 4]][[say two]]")
    wait_until(lambda: lab.in_flight == 1)
    gateway = house.gateway
    before = gateway.lanes.node
    gateway.store._db.run(Sql("update node set expires = 0"))
    wait_until(lambda: gateway.lanes.node != before)
    person.say("/queue [[say three]]")
    wait_until(lambda: person.shown() == ["one", "two", "three"])
    assert person.ask("[[say four]]") == "four"
    assert not [note for note in person.shown(NOTE) if "restarted" in note]
    assert len(lab.requests) == 4
    assert all(holding.owner in ("", None, gateway.lanes.node) for holding in gateway.turns.holdings())


def test_other_threads_walk_through_lanes_that_come_and_go(house: LocalHouse, person: Person, lab: LabServer) -> None:
    """`/status` and the metrics count conversations at work: a walk under way does not break when one ends."""
    person.say("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    walk = iter(house.gateway.lanes.at_work.values())
    person.say("/stop")
    wait_until(lambda: not house.gateway.lanes.at_work)
    assert len(list(walk)) == 1
