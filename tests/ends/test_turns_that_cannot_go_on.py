"""Turns that wait for a place, cannot begin or cannot end: a stop is heard, nobody is kept waiting, nothing is lost."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ends_house import current, ends_house, find_person
from gateway_process import read_store
from house import House, Visitor
from waiting import wait_until

from gateway.service import gateway
from gateway.turns import lane
from hermes_base.errors import StoreFailure
from hermes_lab.server import LabServer

FAR = 600.0


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with ends_house(home, lab.base_url) as made:
        yield made


def count_attempts(home: Path, key: str) -> int:
    return int(read_store(home, "select max(attempts) from inbox where conversation = ?", key)[0][0])


def test_a_turn_that_waits_for_its_place_can_be_stopped_and_loses_no_try(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C4, C10, C15, G3: after a restart more turns wait than go on at a time. Each of them hears a stop, by its person
    or the operator; a person is removed; another restart costs who waits none of their tries."""
    monkeypatch.setattr(gateway, "GRACE_SECONDS", 0.3)
    names = [f"p{number}" for number in range(gateway.RECOVERIES + 4)]
    with ends_house(home, lab.base_url, pretend={"owner": "olga", "allow": names}) as house:
        everybody = [house.person(name) for name in names]
        for person in everybody:
            person.say(f"[[stall 300]][[say done {person.sender}.]]")
        wait_until(lambda: len(lab.requests) == len(names))
        house.stop()
        house.start()
        goes_on = len(names) + gateway.RECOVERIES
        wait_until(lambda: len(lab.requests) == goes_on)
        asked = " ".join(request.body.decode() for request in lab.requests[len(names) :])
        stopped, ended, removed, kept = (person for person in everybody if f"done {person.sender}." not in asked)
        caplog.clear()
        stopped.say("/stop")
        stopped.wait_seen("Interrupted: stopped by")
        assert house.operate("turns.stop", conversation=ended.conversation) == {"stopped": True}
        ended.wait_seen("Interrupted: stopped by the operator")
        house.operate("people.remove", id=find_person(house, removed.sender))
        wait_until(lambda: removed.conversation not in house.gateway.lanes.at_work)
        stopped.say("[[say hello]]")
        stopped.wait_seen("hello")
        assert "does not stop" not in caplog.text
        key = kept.conversation
        house.stop()
        assert count_attempts(home, key) == 1
        assert kept.count("going on") == 0
        assert len(lab.requests) == goes_on + 1


def test_a_stop_whose_end_cannot_be_stored_at_once_is_not_forgotten(
    house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4, C6: the end is written a little later; the turn is not paid for again."""
    ann, turns, failed = house.person("ann"), house.gateway.turns, []
    complete = turns.complete

    def fail_once(claim: Any, seqs: Any, written: Any = None, *more: Any, **named: Any) -> Any:
        if written is not None and not failed:
            failed.append(seqs)
            raise StoreFailure("The store is locked by another process.")
        return complete(claim, seqs, written, *more, **named)

    ann.say("[[stall 8]][[say the answer that nobody wants any more]]")
    wait_until(lambda: len(lab.requests) == 1)
    monkeypatch.setattr(turns, "complete", fail_once)
    ann.say("/stop")
    ann.wait_seen("Interrupted: stopped by Ann.")
    house.wait_quiet()
    assert failed
    assert len(lab.requests) == 1
    assert "[interrupted:" in str(house.gateway.store.load(current(ann).id).rows[-1].message["content"])
    assert ann.ask("[[say next]]")[-1] == "next"


def test_who_has_no_folder_to_work_in_is_told_so(house: House, home: Path) -> None:
    """C2, H8: something else stands where the folder should be. The message is refused with the reason, once."""
    (home / "workspace").write_text("somebody made a file of this name")
    [told] = house.person("olga").ask("[[say hello]]")
    assert "workspace cannot be made" in told


def test_a_turn_that_cannot_begin_is_given_up(house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2, C10: it is tried a few times, whatever is in the way, and then refused with the reason."""
    monkeypatch.setattr(lane, "LONGEST_BACK_OFF", 0.01)
    ann = house.person("ann")
    with monkeypatch.context() as broken:
        broken.setattr(house.gateway.builder, "plan", fail_always)
        ann.say("[[say hello]]")
        told = ann.wait_seen("is not tried again")
        house.wait_quiet()
    assert "a screw is loose" in told.text
    assert ann.count("could not be answered") == lane.MAX_ATTEMPTS
    assert ann.ask("[[say next]]")[-1] == "next"
    assert len(lab.requests) == 1


def test_a_stop_is_heard_while_a_failed_turn_waits(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C4: the pause before the next try is over then, and what still cannot begin ends all the same."""
    ann = house.person("ann")
    monkeypatch.setattr(house.gateway.builder, "plan", fail_always)
    ann.say("[[say hello]]")
    ann.wait_seen("could not be answered")
    make_wait(house, ann)
    ann.say("/stop")
    ann.wait_seen("Interrupted: stopped by Ann.")
    house.wait_quiet()


def make_wait(house: House, person: Visitor) -> None:
    """The next try of the person's turn is far away."""
    wait_until(lambda: house.gateway.lanes.at_work[person.conversation].coming != "")
    house.call(lambda: setattr(house.gateway.lanes.at_work[person.conversation], "_not_before", time.monotonic() + FAR))


def fail_always(*_: Any, **__: Any) -> Any:
    raise ValueError("a screw is loose")
