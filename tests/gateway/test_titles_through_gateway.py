"""New conversations get a title beside their turns: once, paid for, and never in the way of a person's own."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gateway_process import read_store
from house import House, Visitor
from waiting import wait_until

from gateway.platforms.face import Titled
from gateway.platforms.pretend.adapter import describe
from gateway.service import gateway
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["olga"]}
MARK = "Answer:\n"  # stands in the call for a title and in nothing that a person says here


@pytest.fixture(autouse=True)
def _shows_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("house.describe", lambda rules: replace(describe(rules), shows_titles=True))
    monkeypatch.setattr(gateway, "GRACE_SECONDS", 0.2)


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend=PEOPLE) as made:
        yield made


@pytest.fixture
def olga(house: House) -> Visitor:
    return house.person("olga")


def title_of(person: Visitor) -> str:
    current = person.house.gateway.store.current(person.conversation)
    assert current is not None
    return current.title


def name_all(house: House) -> None:
    """Until every title that was asked for is there."""
    assert house.gateway.titler.wait(20)


def count_title_calls(lab: LabServer) -> int:
    return sum(MARK in request.body.decode().replace("\\n", "\n") for request in lab.requests)


def plan_title(lab: LabServer, text: str = "Bread at home", **more: Any) -> None:
    lab.set_plan([{"contains": MARK, "text": text, "times": 0, **more}])


def test_the_first_answer_brings_a_title(house: House, olga: Visitor, lab: LabServer) -> None:
    """A13: one call on the first exchange; later turns make none, and their prefix holds."""
    shown: list[Any] = []
    house.gateway.live_events.show = lambda conversation, event: shown.append((conversation, event))  # type: ignore[method-assign]
    plan_title(lab)
    olga.ask("How do I bake bread?")
    name_all(house)
    assert title_of(olga) == "Bread at home"
    for _ in range(2):
        olga.ask("And then?")
    name_all(house)
    assert count_title_calls(lab) == 1
    counted = house.gateway.meters.calls.read()
    assert sum(count for (*_, kind), count in counted.items() if kind == "title") == 1  # H9
    titled = [(conversation, event.title) for conversation, event in shown if isinstance(event, Titled)]
    assert titled == [(olga.conversation, "How do I bake bread?"), (olga.conversation, "Bread at home")]
    bodies = [
        json.loads(request.body) for request in lab.requests if MARK not in request.json()["messages"][-1]["content"]
    ]
    assert bodies[2]["messages"][: len(bodies[1]["messages"])] == bodies[1]["messages"]


def test_the_ledger_is_the_bill(home: Path, lab: LabServer) -> None:
    """A8: turns, the title and a summary, to the token."""
    with House(home, lab.base_url, pretend=PEOPLE, compression={"protect_last_n": 1, "protect_first_n": 1}) as house:
        olga = house.person("olga")
        for number in range(8):
            olga.ask(f"Question {number}: " + "many words " * 200)
        name_all(house)
        olga.ask("/compress")
        olga.ask("One more.")
        name_all(house)
        spent = house.gateway.store.usage()
    kinds = {kind for (kind,) in read_store(home, "select distinct kind from usage")}
    assert kinds == {"turn", "title", "compression"}
    (bill,) = lab.bill.values()
    assert (spent.calls, spent.prompt_tokens, spent.output_tokens) == (
        bill.calls,
        bill.prompt_tokens,
        bill.output_tokens,
    )
    assert spent.cache_read_tokens == bill.cache_read_tokens


def test_a_slow_title_delays_nobody(house: House, olga: Visitor, lab: LabServer) -> None:
    """The next answer comes while the title is still being made."""
    plan_title(lab, stall_first=60)
    olga.ask("How do I bake bread?")
    wait_until(lambda: count_title_calls(lab) == 1)
    assert any("You said: And then?" in text for text in olga.ask("And then?"))
    assert title_of(olga) == "How do I bake bread?"


@pytest.mark.parametrize("own", ["Mine", "How do I bake bread?"])
def test_a_person_s_own_title_stays(house: House, olga: Visitor, lab: LabServer, own: str) -> None:
    """Given while the call is under way, even if it is just what stood there; a later session is named as ever."""
    plan_title(lab, stall_first=0.5)
    olga.ask("How do I bake bread?")
    wait_until(lambda: count_title_calls(lab) == 1)
    current = house.gateway.store.current(olga.conversation)
    assert current is not None
    house.gateway.titler.rename(current.id, own)
    name_all(house)
    assert title_of(olga) == own
    olga.ask("/new")
    olga.ask("Another one")
    name_all(house)
    assert title_of(olga) == "Bread at home"


def test_a_title_that_was_given_elsewhere_stays(house: House, olga: Visitor, lab: LabServer) -> None:
    plan_title(lab, stall_first=0.5)
    olga.ask("How do I bake bread?")
    wait_until(lambda: count_title_calls(lab) == 1)
    current = house.gateway.store.current(olga.conversation)
    assert current is not None
    house.gateway.store.set_title(current.id, "Mine")
    name_all(house)
    assert title_of(olga) == "Mine"


@pytest.mark.parametrize("in_place", [True, False])
def test_a_compaction_in_between_keeps_the_title(home: Path, lab: LabServer, in_place: bool) -> None:
    """The session that goes on is named, too."""
    shorter = {"protect_last_n": 1, "protect_first_n": 1, "in_place": in_place}
    with House(home, lab.base_url, pretend=PEOPLE, compression=shorter) as house:
        olga = house.person("olga")
        plan_title(lab, stall_first=2.5)
        for number in range(8):
            olga.ask(f"Question {number}: " + "many words " * 200)
        first = house.gateway.store.current(olga.conversation)
        olga.ask("/compress")
        child = house.gateway.store.current(olga.conversation)
        assert first is not None
        assert child is not None
        assert first.id in ((child.id,) if in_place else (child.parent,))
        name_all(house)
        assert title_of(olga) == "Bread at home"


def test_a_title_is_asked_for_once_over_restarts(home: Path, lab: LabServer) -> None:
    """The gateway is stopped while the call is under way: what it may have cost is in the ledger (A8), and the next
    life asks no more."""
    plan_title(lab, stall_first=60)
    with House(home, lab.base_url, pretend=PEOPLE) as house:
        olga = house.person("olga")
        olga.ask("How do I bake bread?")
        wait_until(lambda: count_title_calls(lab) == 1)
        house.stop()
        assert read_store(home, "select settled from usage where kind = 'title'") == [(0,)]
        house.start()
        olga.ask("And then?")
        name_all(house)
        assert (title_of(olga), count_title_calls(lab)) == ("How do I bake bread?", 1)


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 401}, {"hang_up": True}])
def test_a_title_that_fails_leaves_the_first_words(
    house: House, olga: Visitor, lab: LabServer, fault: dict[str, Any]
) -> None:
    """It fails no turn, tells nobody, and is not tried again."""
    plan_title(lab, fault=fault)
    (answer,) = olga.ask("How do I bake bread?")
    assert answer.startswith("You said: How do I bake bread?")
    name_all(house)
    olga.ask("And then?")
    name_all(house)
    assert (title_of(olga), count_title_calls(lab)) == ("How do I bake bread?", 1)


def test_switched_off_the_first_words_are_the_title(home: Path, lab: LabServer) -> None:
    with House(home, lab.base_url, pretend=PEOPLE, titles={"enabled": False}) as house:
        olga = house.person("olga")
        olga.ask("How do I bake bread?")
        name_all(house)
        assert (title_of(olga), len(lab.requests)) == ("How do I bake bread?", 1)


def test_a_cheaper_model_is_asked_where_one_is_named(home: Path, lab: LabServer) -> None:
    with House(home, lab.base_url, pretend=PEOPLE, auxiliary={"title": {"model": "lab-small"}}) as house:
        olga = house.person("olga")
        olga.ask("How do I bake bread?")
        name_all(house)
    assert [request.json()["model"] for request in lab.requests] == ["lab", "lab-small"]


def test_an_answer_that_failed_brings_no_title(house: House, olga: Visitor, lab: LabServer) -> None:
    """The first exchange that was answered counts."""
    lab.set_plan(
        [{"contains": "broken", "fault": {"status": 400, "message": "no"}}, {"contains": MARK, "text": "Bread"}]
    )
    olga.ask("broken question")
    name_all(house)
    assert (title_of(olga), count_title_calls(lab)) == ("", 0)
    olga.ask("How do I bake bread?")
    name_all(house)
    assert title_of(olga) == "Bread"


def test_platforms_without_a_list_pay_nothing(home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("house.describe", describe)
    with House(home, lab.base_url, pretend=PEOPLE) as house:
        olga = house.person("olga")
        olga.ask("How do I bake bread?")
        name_all(house)
        assert (title_of(olga), len(lab.requests)) == ("", 1)
