"""F7: a gateway that runs lets go of what is over, and keeps what was said."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from queries_house import QueriesHouse
from waiting import wait_until

from gateway.service import chores
from hermes_cli import config


@pytest.fixture
def house(settings: None, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[QueriesHouse]:
    monkeypatch.setattr(chores, "FIRST_RETENTION_SECONDS", 0.05)
    monkeypatch.setattr(chores, "RETENTION_SECONDS", 0.05)
    made = QueriesHouse(home)
    yield made
    made.stop()


def test_rows_of_the_queues_go_and_conversations_stay(house: QueriesHouse) -> None:
    """F7: the edit of the setting is felt by the next sweep."""
    talk = house.open()
    house.ask(talk, "[[say One.]] Remember me.")
    turns = house.gateway.turns
    assert len(turns.inbox_since(talk, 0)) == 1
    config.set_value("retention.queue_days", "0.000001")  # a tenth of a second
    wait_until(lambda: not turns.inbox_since(talk, 0) and not turns.outbox_since(talk, 0))
    assert [entry.text for entry in house.look(talk).entries] == ["[[say One.]] Remember me.", "One."]
    assert house.ask(talk, "[[say Two.]]").entries[-1].text == "Two."
