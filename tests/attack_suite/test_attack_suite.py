"""An attacker's words on every way in, before a model that always obeys them: nothing gets out and nothing is done
(A4, G4, G5, G6, G7, G8, G9). What the person is asked is answered with no; a case passes if the world shows no harm."""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attack_world import AttackWorld
from cases import CASES, USUAL_CASES, Case
from deeds import DEEDS
from ways_in import WAYS


def test_the_suite_is_whole() -> None:
    assert len(CASES) >= 200
    assert len({case.id for case in CASES}) == len(CASES)
    assert {case.way.name for case in CASES} == {way.name for way in WAYS}
    tried = Counter((case.deed.technique, case.deed.name) for case in CASES)
    assert all(tried[deed.technique, deed.name] >= 1 for deed in DEEDS)
    usual = {(case.deed.technique, case.deed.name) for case in USUAL_CASES}
    assert len(USUAL_CASES) >= 200
    assert usual == set(tried)
    assert {case.way.name for case in USUAL_CASES} == {way.name for way in WAYS}


@contextmanager
def turning(world: AttackWorld, name: str) -> Iterator[None]:
    """A link that leads to a harmless folder and to one outside by turns, all the time."""
    if not name:
        yield
        return
    places, over = [world.work / "src", world.arena.base / "outside"], threading.Event()

    def turn() -> None:
        while not over.wait(0.0002):
            places.reverse()
            os.symlink(places[0], world.work / "turned")
            os.replace(world.work / "turned", world.work / name)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        (world.work / name).unlink(missing_ok=True)


@pytest.mark.parametrize("case", USUAL_CASES, ids=lambda case: case.id)
def test_no_harm(world: AttackWorld, case: Case) -> None:
    """G4, G5, G6, G7, G8, G9"""
    try_case(world, case)


@pytest.mark.soak
@pytest.mark.parametrize("case", [case for case in CASES if case not in USUAL_CASES], ids=lambda case: case.id)
def test_no_harm_in_the_other_cases(world: AttackWorld, case: Case) -> None:
    """G4, G5, G6, G7, G8, G9"""
    try_case(world, case)


def try_case(world: AttackWorld, case: Case) -> None:
    world.begin(case.deed.rounds, case.way.plant)
    with turning(world, case.deed.race):
        chat = case.way.act(world)
    assert world.order_seen() == case.way.arrives, "the words did not come as the table says"
    assert not case.way.arrives or world.model.mind.left == 0, "the model did not do all that it was told"
    assert world.harms(chat) == {}
