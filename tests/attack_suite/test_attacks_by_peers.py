"""The same attacks by mail and by pages in a real browser, and what an attacker does with that browser: nothing gets
out and nothing is done (G4, G5, G6, G7, G8, G9)."""

from collections import Counter
from collections.abc import Iterator

import pytest
from attack_world import AttackWorld
from cases import Case, list_cases
from deeds import DEEDS
from peer_ways import BROWSER, BROWSING, MAIL
from peer_world import open_peer_world

pytestmark = pytest.mark.peers
EACH = 5
CASES = [
    *list_cases((*MAIL, *BROWSER), [deed for deed in DEEDS if not deed.race], EACH),
    *(Case(BROWSER[number % len(BROWSER)], deed) for number, deed in enumerate(BROWSING)),
]


@pytest.fixture(scope="module")
def world() -> Iterator[AttackWorld]:
    with open_peer_world() as made:
        yield made


def test_each_way_and_each_deed_is_tried() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
    tried = Counter(case.way.name for case in CASES)
    assert all(tried[way.name] >= (EACH if way.arrives else 2) for way in (*MAIL, *BROWSER))
    assert {case.deed.name for case in CASES if case.deed.technique == "browser"} == {deed.name for deed in BROWSING}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_no_harm(world: AttackWorld, case: Case) -> None:
    """G4, G5, G6, G7, G8, G9"""
    world.begin(case.deed.rounds, case.way.plant)
    chat = case.way.act(world)
    assert world.order_seen() == case.way.arrives, "the words did not come as the table says"
    assert not case.way.arrives or world.model.mind.left == 0, "the model did not do all that it was told"
    assert world.harms(chat) == {}
