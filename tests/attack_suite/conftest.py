"""One gateway, with all that stands around it, for all attacks of a module."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attack_world import AttackWorld, open_attack_world

from tools.shell.sandbox import is_bubblewrap_usable


@pytest.fixture(scope="module")
def world() -> Iterator[AttackWorld]:
    if not is_bubblewrap_usable():
        pytest.skip("bwrap does not run on this machine")
    # Not below /tmp, which is open to the file tools: what is outside has to be outside for every tool.
    folder = tempfile.TemporaryDirectory(prefix="hermes-attacks-", dir="/var/tmp")
    with folder as base, open_attack_world(Path(base)) as made:
        yield made


@pytest.fixture(autouse=True)
def home(world: AttackWorld) -> Path:
    """The home of that gateway, in the place of one for each test."""
    return world.home
