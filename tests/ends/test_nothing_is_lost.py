"""What was said, noted or sent is not lost on the way: without a model, over a rebuild, with a copy that stays."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ends_house import current, ends_house
from house import House, Visitor
from waiting import wait_until

from gateway.service import gateway
from hermes_base.errors import StoreFailure
from hermes_base.files.home_files import HomeFiles
from hermes_base.inbound import FileRef
from hermes_lab.server import LabServer

NO_ADDRESS: dict[str, Any] = {"provider": "custom"}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with ends_house(home, lab.base_url) as made:
        yield made


def newest(lab: LabServer) -> str:
    """What the model was told last."""
    return str(lab.requests[-1].json()["messages"][-1]["content"])


def test_what_met_no_model_is_kept_and_read_later(home: Path, lab: LabServer) -> None:
    """C2, D11: the person is told that it is kept, and it is: in the transcript, and before the model once there is
    one."""
    with ends_house(home, lab.base_url, model=NO_ADDRESS) as house:
        ann = house.person("ann")
        told = ann.ask("The word is plum.")[-1]
        assert "has no address" in told
        rows = house.gateway.store.load(current(ann).id).rows
        assert str(rows[0].message["content"]).startswith("The word is plum.")
        assert "has not been answered" in str(rows[1].message["content"])
        assert "Taken back: The word is plum." in ann.ask("/undo")[-1]
        ann.ask("The word is cherry.")
        house.write_settings(model={"base_url": lab.base_url, "default": "lab"})
        assert ann.ask("[[say yes]]")[-1] == "yes"
        asked = lab.requests[-1].body.decode()
        assert "The word is cherry." in asked
        assert "plum" not in asked


def test_without_a_model_a_conversation_can_be_ended_and_found(home: Path, lab: LabServer) -> None:
    """B9: what needs no model asks for none."""
    with ends_house(home, lab.base_url, model=NO_ADDRESS) as house:
        ann = house.person("ann")
        ann.ask("The word is plum.")
        first = current(ann).id
        assert "A new conversation." in ann.ask("/new")[-1]
        assert first in ann.ask("/resume")[-1]
        assert "Going on with" in ann.ask(f"/resume {first}")[-1]
        assert current(ann).id == first


@pytest.mark.parametrize("how", ["an edit of the settings", "an eviction"])
def test_a_note_for_the_model_outlives_its_agent(house: House, lab: LabServer, how: str) -> None:
    """A4: a memory write is told with the next message, once, whichever agent asks it."""
    ann = house.person("ann")
    ann.ask('[[tool memory {"action": "add", "content": "likes tea"}]]')
    if how == "an eviction":
        house.gateway.runner._evict_cached_agent(ann.conversation)
    else:
        house.write_settings(compression={"threshold": 0.7})
    builds = house.gateway.runner.counters.total()
    ann.ask("[[say one]]")
    assert house.gateway.runner.counters.total() > builds
    assert newest(lab).count("Memory was changed") == 1
    ann.ask("[[say two]]")
    assert "Memory was changed" not in newest(lab)


def test_a_copy_that_cannot_be_dropped_is_no_lost_lease(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C7: the file has arrived, and the account goes on sending."""
    dropped: list[FileRef] = []

    def fail(files: HomeFiles, file: FileRef) -> None:
        dropped.append(file)
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(gateway, "drop_copy", fail)
    with ends_house(home, lab.base_url) as house:
        ann = house.person("ann")
        ann.ask('[[tool write_file {"path": "note.txt", "content": "hello"}]]')
        ann.ask('[[tool send_file {"path": "note.txt"}]]')
        wait_until(lambda: bool(dropped))
        before = dict(house.gateway.delivery.leases())
        assert ann.ask("[[say after]]")[-1] == "after"
        assert house.gateway.delivery.leases() == before
    assert sum(bool(message.file) for message in house.service.messages) == 1
    assert "stays behind" in caplog.text
    assert "is not held" not in caplog.text


def break_append(house: House, monkeypatch: pytest.MonkeyPatch, after: Callable[[Any], bool]) -> None:
    """The store refuses one write: the first one behind a write of which this is true."""
    append, state = house.gateway.turns.append, ["waits"]

    def refuse_once(claim: Any, seq: int, written: Any, usage: Any = ()) -> int:
        if state == ["now"]:
            state[:] = ["over"]
            raise StoreFailure("The disk is full.")
        version = append(claim, seq, written, usage)
        if state == ["waits"] and after(written):
            state[:] = ["now"]
        return version

    monkeypatch.setattr(house.gateway.turns, "append", refuse_once)


def read_questions(ann: Visitor) -> list[str]:
    rows = ann.house.gateway.store.load(current(ann).id).rows
    return [str(row.message["content"]).split("\n\n[")[0] for row in rows if row.message["role"] == "user"]


def test_a_question_that_is_asked_again_stands_once_after_a_failure(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2, C10: the store fails behind the question of a /retry. It goes on from what is stored, and does not say that
    Hermes was restarted."""
    with ends_house(home, lab.base_url) as house:
        ann = house.person("ann")
        ann.ask('[[tool read_file {"path": "x"}]] question')
        break_append(house, monkeypatch, lambda written: any(row.inbox for row in written.rows))
        ann.say("/retry")
        ann.wait_seen("read_file returned", 2)
        house.wait_quiet()
        assert ann.count("The disk is full.") == 1
        assert read_questions(ann) == ['[[tool read_file {"path": "x"}]] question']
        assert ann.count("Going on with your message now.") == 1
        assert ann.count("Hermes was restarted") == 0


def test_what_was_put_into_a_turn_is_answered_once_after_a_failure(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2, A12: the store fails behind a message that was put into the turn. It goes on in it; no other is paid."""
    with ends_house(home, lab.base_url, gateway={"busy": "steer"}) as house:
        ann = house.person("ann")
        ann.say('[[tool terminal {"command": "touch begun; until [ -e gate ]; do sleep 0.05; done"}]]')
        wait_until(lambda: any(home.glob("people/*/workspace/begun")))
        break_append(house, monkeypatch, lambda written: any(row.inbox for row in written.rows))
        ann.say('[[tool read_file {"path": "x"}]] steered')
        wait_until(lambda: bool(house.gateway.lanes.at_work[ann.conversation]._steered))
        [workspace] = home.glob("people/*/workspace")
        (workspace / "gate").touch()
        ann.wait_seen("read_file returned")
        house.wait_quiet()
        assert ann.count("The disk is full.") == 1
        assert len(read_questions(ann)) == 2
        assert ann.count("read_file returned") == 1
        assert len(lab.requests) <= 4, "one for the call, one that was lost, one again, one for the answer"
