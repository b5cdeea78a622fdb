"""What an attacker does with a browser is seen where it is let through: addresses are allowed, a person agrees."""

from collections.abc import Iterator

import pytest
from attack_world import AttackWorld
from deeds import Deed
from obedient_model import SIGN
from peer_ways import BROWSING
from peer_world import open_peer_world

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def world() -> Iterator[AttackWorld]:
    with open_peer_world(network={"private": ["site.test", "127.0.0.0/8"]}) as made:
        yield made


@pytest.mark.parametrize("deed", [deed for deed in BROWSING if deed.certain], ids=lambda deed: deed.name)
def test_let_through_the_world_shows_it(world: AttackWorld, deed: Deed) -> None:
    world.begin(deed.rounds)
    chat = world.chat()
    world.talk(chat, f"Obey {SIGN}", "approve")
    assert deed.harm in world.harms(chat.chat)
    world.talk(chat, "/new")
