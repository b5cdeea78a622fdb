"""Who hears of the end of a background process: the session that started it, its person, or nobody."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ends_house import current, end_process, ends_house, find_person, start_process
from house import ACCOUNT, House
from waiting import wait_until

from gateway.service import announcer
from hermes_base.errors import StoreFailure
from hermes_base.inbound import NOTICE, Address, Inbound, write_inbound
from hermes_base.store_place import find_place
from hermes_cli.cmds import owner
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with ends_house(home, lab.base_url, compression={"in_place": False}) as made:
        yield made


def count_prompts(lab: LabServer) -> int:
    return sum("ended with exit code" in request.body.decode() for request in lab.requests)


@pytest.mark.parametrize("warm", [True, False])
def test_the_session_that_started_it_hears_of_its_end(house: House, lab: LabServer, warm: bool) -> None:
    """B10: also after a compaction, whose child is another session of the same task; also when the first one is
    deleted meanwhile."""
    ann = house.person("ann")
    process = start_process(ann)
    first = current(ann).id
    ann.ask("[[say more]]")
    ann.ask("/compress")
    assert current(ann).id != first
    house.operate("sessions.delete", session=first)
    assert process.runs, "the chain goes on, and so does its task"
    if not warm:
        house.gateway.runner._evict_cached_agent(ann.conversation)
    end_process(process)
    wait_until(lambda: count_prompts(lab) == 1)
    house.wait_quiet()
    asked = [str(row.message.get("content")) for row in house.gateway.store.load(current(ann).id).rows]
    assert any("ended with exit code" in text for text in asked)


def test_after_resuming_another_session_its_person_hears_of_it(house: House, lab: LabServer) -> None:
    """B10: the model of another session is not asked about a process that it knows nothing of."""
    ann = house.person("ann")
    ann.ask("[[say other]]")
    other = current(ann)
    ann.ask("/new")
    process = start_process(ann)
    started_in = current(ann).id
    ann.ask(f"/resume {other.id}")
    end_process(process)
    told = ann.wait_seen("Background process")
    assert f"/resume {started_in}" in told.text
    house.wait_quiet()
    assert count_prompts(lab) == 0
    assert current(ann).version == house.gateway.store.load(other.id).version == other.version


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_end_of_a_process_is_told_when_the_store_takes_it_again(
    house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """B10, F6: the store is held by another process just when a background process ends. It is told all the same, once,
    to the model or to the person."""
    monkeypatch.setattr(announcer, "STORE_PAUSE", 0.01)
    ann, failed = house.person("ann"), []
    ann.ask("[[say other]]")
    other = current(ann)
    if elsewhere:
        ann.ask("/new")
    process = start_process(ann)
    if elsewhere:
        ann.ask(f"/resume {other.id}")
    name = "post" if elsewhere else "accept"
    store = getattr(house.gateway.turns, name)

    def fail_first(*args: Any, **more: Any) -> Any:
        if len(failed) < 3:
            failed.append(args)
            raise StoreFailure("The store is locked by another process.")
        return store(*args, **more)

    monkeypatch.setattr(house.gateway.turns, name, fail_first)
    end_process(process)
    if elsewhere:
        ann.wait_seen("Background process")
    else:
        wait_until(lambda: count_prompts(lab) == 1)
    house.wait_quiet()
    assert len(failed) == 3
    assert (ann.count("Background process"), count_prompts(lab)) == (1, 0 if elsewhere else 1)  # the model repeats it


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("warm", [True, False])
def test_a_removed_person_has_nothing_going_and_hears_nothing(
    home: Path, lab: LabServer, warm: bool, shared: bool
) -> None:
    """G3: their process ends at once, and a notice for them is not taken, agent warm or not."""
    with ends_house(home, lab.base_url, people={"shared": shared}) as house:
        ann, ben = house.person("ann"), house.person("ben")
        process, of_ben = start_process(ann), start_process(ben)
        task = current(ann).task
        if not warm:
            house.gateway.runner._evict_cached_agent(ann.conversation)
        seen, calls = len(ann.seen), len(lab.requests)
        house.operate("people.remove", id=find_person(house, "ann"))
        assert not process.runs
        assert of_ben.runs
        house.gateway.builder._post_notice(task, "late", "Background process late ended.")
        house.wait_quiet()
        assert (len(ann.seen), len(lab.requests)) == (seen, calls)


def test_a_notice_that_waits_when_its_person_is_removed_is_not_answered(house: House, lab: LabServer) -> None:
    """G3: it was stored while the person was known, and meets the door when they are not."""
    ann = house.person("ann")
    ann.ask("[[say hello]]")
    key, person = ann.conversation, find_person(house, "ann")
    house.stop()
    notice = Inbound(Address("pretend", ACCOUNT, ann.chat), "1", "hermes", "It ended.", origin=NOTICE)
    with closing(Store(find_place(house.home))) as store:
        assert store.turns.accept(key, "house", "proc:1", write_inbound(notice)) is not None
    assert owner.perform("people.remove", {"id": person})["removed"] == person
    calls = len(lab.requests)
    house.start()
    house.wait_quiet()
    assert len(lab.requests) == calls
