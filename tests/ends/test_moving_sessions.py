"""A conversation is moved to another session in its order, and never under a turn: the store decides."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ends_house import current, ends_house
from fresh_store import fresh_store
from house import House
from queries_house import QueriesHouse
from raw_client import RawClient
from waiting import wait_until

from hermes_base import local_wire as wire
from hermes_base.errors import AtWork
from hermes_base.query_values import Caller, Conflict
from hermes_base.store_place import find_place
from hermes_base.turn.journal import Row
from hermes_cli import config
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with ends_house(home, lab.base_url) as made:
        yield made


def read_texts(house: House, session: str) -> list[str]:
    return [str(row.message.get("content")).split("\n\n[")[0] for row in house.gateway.store.load(session).rows]


def test_a_new_conversation_takes_its_place_in_the_order(house: House, lab: LabServer) -> None:
    """B9, C3: `/new` while a turn runs is done when the turn is over, and what is said next is said there."""
    ann = house.person("ann")
    ann.ask("[[say one]]")
    first = current(ann)
    ann.say("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    ann.say("/new")
    ann.wait_seen("Queued: /new")
    ann.say("[[say two]] in the new one")
    ann.wait_seen("Queued: it comes after the command")
    assert lab.in_flight == 1, "what is meant for the new conversation does not touch the turn of the old one"
    ann.say("/stop")
    house.wait_quiet()
    assert ann.count("A new conversation.") == 1
    assert read_texts(house, first.id)[2] == "[[stall 60]]"
    assert read_texts(house, current(ann).id) == ["[[say two]] in the new one", "two"]
    ended = house.gateway.store.session(first.id)
    assert ended is not None
    assert ended.end_reason == "new"


@pytest.mark.parametrize("command", ["/resume {first}", "/undo", "/branch", "/retry"])
def test_a_command_that_moves_waits_for_the_turn(house: House, lab: LabServer, command: str) -> None:
    """B9, C3: none of them is refused, and none is done under the turn."""
    ann = house.person("ann")
    ann.ask("[[say one]]")
    first = current(ann).id
    ann.ask("/new")
    ann.ask("[[say two]]")
    ann.say("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    ann.say(command.format(first=first))
    ann.wait_seen("Queued: /" + command.split()[0].removeprefix("/"))
    assert current(ann).id != first
    ann.say("/stop")
    wait_until(lambda: ann.count("Interrupted") == 1)
    ann.say("/stop")  # of a question that is asked again
    house.wait_quiet()
    if "resume" in command:
        assert current(ann).id == first


def test_another_terminal_does_not_move_a_conversation_under_its_turn(home: Path, lab: LabServer) -> None:
    """B4, B6: `/resume` there, `--resume`, the page and the store itself refuse."""
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")
    config.set_value("approvals.mode", "auto")
    house = QueriesHouse(home)
    try:
        one, two = house.client("one"), house.client("two")
        key, store = str(one.welcome.conversation), house.gateway.store
        one.say("[[say first]]", "1")
        wait_until(lambda: "first" in one.answers())
        old = store.current(key)
        assert old is not None
        one.say("/new", "2")
        wait_until(lambda: store.current(key) is None)
        one.say("[[stall 60]]", "3")
        wait_until(lambda: lab.in_flight == 1)
        at_work = store.current(key)
        two.say(f"/resume {old.id}", "1")
        wait_until(lambda: any("in the middle of a turn" in text for text in two.answers()))
        refused = RawClient(home)
        refused.send(wire.Hello("three", resume=old.id))
        wait_until(lambda: any("in the middle of a turn" in str(line) for line in refused.lines))
        refused.close()
        with pytest.raises(Conflict):
            house.run(house.queries.threads.resume(Caller(), old.id))
        other = Store(find_place(home))  # as another process would
        with pytest.raises(AtWork):
            other.resume(key, old.id)
        with pytest.raises(AtWork):
            other.branch(old.id)
        assert at_work is not None
        with pytest.raises(AtWork):
            other.delete(at_work.id)
        other.close()
        assert store.current(key) == at_work
        one.say("/stop", "4")
        wait_until(lambda: not house.gateway.lanes.at_work)
        two.say(f"/resume {old.id}", "2")
        wait_until(lambda: any("Going on with" in text for text in two.answers()))
        now = store.current(key)
        assert now is not None
        assert now.id == old.id
    finally:
        house.stop()


def resume_in_place(house: QueriesHouse, one: RawClient, session: str) -> None:
    one.say(f"/resume {session}", "resume")
    one.wait(wire.Deliver, lambda line: "Going on with" in line.outgoing.text)


def resume_from_elsewhere(house: QueriesHouse, one: RawClient, session: str) -> None:
    two = house.client("two")
    two.say(f"/resume {session}", "resume")
    two.wait(wire.MovedTo)


def resume_at_the_start(house: QueriesHouse, one: RawClient, session: str) -> None:
    house.client("three", resume=session)


def resume_on_the_page(house: QueriesHouse, one: RawClient, session: str) -> None:
    house.run(house.queries.threads.resume(Caller(), session))


def copy_on_the_page(house: QueriesHouse, one: RawClient, session: str) -> None:
    house.run(house.queries.threads.fork(Caller(), session))


@pytest.mark.parametrize(
    "resume", [resume_in_place, resume_from_elsewhere, resume_at_the_start, resume_on_the_page, copy_on_the_page]
)
def test_what_belongs_to_a_session_stays_behind_when_another_is_resumed(
    home: Path, lab: LabServer, resume: Callable[[QueriesHouse, RawClient, str], None]
) -> None:
    """B9, A4: every way to go on elsewhere is the same. The note on a changed memory is of the session that is left,
    and so is the model that was chosen for it."""
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")
    config.set_value("approvals.mode", "auto")
    house = QueriesHouse(home)
    try:
        one = house.client("one")
        key = str(one.welcome.conversation)
        house.ask(key, "[[say first]]")
        old = house.gateway.store.current(key)
        assert old is not None
        house.ask(key, "/new")
        house.ask(key, '[[tool memory {"action": "add", "content": "likes tea"}]]')
        house.ask(key, "/model other-model")
        assert house.gateway.runner.notes_of(key)
        wait_until(lambda: not house.gateway.lanes.at_work)
        resume(house, one, old.id)
        wait_until(lambda: not house.gateway.lanes.at_work)
        house.ask(key, "[[say next]]")
        sent = json.loads(lab.requests[-1].body)
        assert sent["model"] == "lab-model"
        assert "first" in json.dumps(sent)
        assert "Memory was changed" not in json.dumps(sent)
    finally:
        house.stop()


@pytest.mark.parametrize("in_place", [True, False])
def test_a_compaction_stays_in_the_session_of_its_turn(lab: LabServer, in_place: bool) -> None:
    """B4: wherever the conversation goes on meanwhile, the turn goes on in its own session, or in a child of it."""
    store = fresh_store()
    journal = StoreJournal(lambda: store, NewSession("c"))
    settings = {"compression": {"in_place": in_place}}
    agent = AIAgent(base_url=lab.base_url, model="lab", journal=journal, skip_context_files=True, settings=settings)
    for number in range(3):
        agent.run_conversation(f"[[say {number}]]")
    own = agent.session_id

    def compress(messages: list[Any], **_: Any) -> list[Any]:
        elsewhere = store.open_session(NewSession("c"))
        store.append(elsewhere.id, "somebody", 0, [Row({"role": "user", "content": "another talk"})])
        return messages[-2:]

    agent.context_compressor.compress = compress
    assert agent.compress_now() == (6, 2)
    moved = store.session(agent.session_id)
    assert moved is not None
    assert own in ((moved.id,) if in_place else (moved.parent,))
    assert [row.message["content"] for row in store.load(moved.id).rows][-1] == "2"


def test_a_branch_is_there_whole_or_not_at_all(house: House, home: Path) -> None:
    """B5: whoever looks meanwhile, in another process too, never finds an empty copy."""
    ann = house.person("ann")
    for number in range(20):
        ann.ask(f"[[say {number}]]")
    size, seen, done = current(ann).version, set(), threading.Event()
    other = Store(find_place(home))

    def look() -> None:
        while not done.is_set():
            found = other.current(ann.conversation)
            seen.add(None if found is None else found.version)

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(10):
        ann.ask("/branch")
    done.set()
    watcher.join()
    other.close()
    assert seen == {size}
