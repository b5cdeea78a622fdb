"""Hostile commands are run for real, at every level and in every mode; none gets through (G4, G5, G7, G12).

*Look*: nothing changes, no canary is seen, nothing reaches the network. *Work*: nothing outside changes, what other
programs obey stays as it is, and secrets are not in sight together with the network. Through the gate, with nobody
there to ask: whatever runs keeps to that. Without a sandbox: whatever runs changes nothing and sees no canary.
"""

from collections.abc import Iterator

import pytest
from arena import CANARY, Arena, open_arena
from attacks import NETWORK, READS, STATE, WRITES, list_attacks
from waiting import wait_until

from tools.shell import sandbox
from tools.shell.sandbox import Walls, is_bubblewrap_usable

ATTACKS = list_attacks()
#: What can end otherwise for somebody who works in a folder of the Hermes home, or without the network.
OTHERS = [texts for texts in ATTACKS if "@HERMES@" in texts[0] or texts in STATE or texts[0] in NETWORK]
needs_walls = pytest.mark.skipif(not is_bubblewrap_usable(), reason="bwrap does not run on this machine")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with open_arena(tmp_path_factory.mktemp("arena")) as arena:
        yield arena


@pytest.fixture
def arena(world: Arena, monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.setenv("HOME", str(world.person))
    monkeypatch.setenv("DEPLOY_SECRET", "CANARY-environment")
    world.reset()
    return world


def name(texts: tuple[str, ...]) -> str:
    return texts[0][:60].replace("\n", " ")


attack = pytest.mark.parametrize("texts", ATTACKS, ids=name)
attack_as_others = pytest.mark.parametrize("texts", OTHERS, ids=name)


@pytest.mark.parametrize("text", [*READS, *WRITES[:11], NETWORK[1], NETWORK[3]])
def test_without_walls_the_arena_sees_what_they_do(arena: Arena, text: str) -> None:
    """The suite can fail: the same commands, let through, are noticed."""
    output = arena.run_at(Walls.OUTSIDE, (text,), arena.context(mode="ask", backend="local"))
    if "@PORT@" in text:  # what was sent is read on another thread
        wait_until(lambda: any(CANARY.encode() in data for data in arena.heard))
    with pytest.raises(AssertionError, match=r"changed|read:|sent"):
        arena.check_outside(output)
    arena.mend()


@needs_walls
@attack
def test_look(arena: Arena, texts: tuple[str, ...]) -> None:
    """G5: the folder is read-only; no network, no secrets, no home."""
    context = arena.context(mode="ask", backend="bubblewrap")
    arena.check_outside(arena.run_at(Walls.LOOK, texts, context))
    arena.check_unchanged()
    assert arena.heard == []


@needs_walls
@attack
def test_work(arena: Arena, texts: tuple[str, ...]) -> None:
    """G5, G8: the folder is writable, its secrets are not there; of the network only the proxy is, and that does not
    call this machine."""
    context = arena.context(mode="auto", backend="bubblewrap")
    arena.check_outside(arena.run_at(Walls.WORK, texts, context))
    arena.check_obeyed()
    assert arena.heard == []


@needs_walls
@attack_as_others
@pytest.mark.parametrize("walls", [Walls.LOOK, Walls.WORK])
def test_as_a_member(arena: Arena, texts: tuple[str, ...], walls: Walls) -> None:
    """G5, G12: what belongs to the owner and to other people is not there."""
    context = arena.context(mode="auto", backend="bubblewrap", member=True)
    arena.check_outside(arena.run_at(walls, texts, context))
    arena.check_unchanged()


@needs_walls
@attack_as_others
def test_work_without_network(arena: Arena, texts: tuple[str, ...]) -> None:
    """G5: secrets of the folder may be seen, and go nowhere."""
    context = arena.context(mode="auto", backend="bubblewrap", network=False)
    output = arena.run_at(Walls.WORK, texts, context)
    arena.check_outside(output.replace("CANARY-secret", ""))
    arena.check_obeyed()
    assert arena.heard == []


MODES = ("ask", "deny", "auto")
#: Each attack in one mode, each mode with a third of the attacks; `make soak` tries all attacks in all modes.
SECTION = [(texts, MODES[at % len(MODES)]) for at, texts in enumerate(ATTACKS)]
attack_in_a_mode = pytest.mark.parametrize(("texts", "mode"), SECTION, ids=[f"{name(t)}-{m}" for t, m in SECTION])


def go_through_the_gate(arena: Arena, texts: tuple[str, ...], mode: str) -> None:
    context = arena.context(mode=mode, backend="bubblewrap")
    arena.check_outside(arena.run_gated(texts, context))
    arena.check_obeyed()
    if mode != "auto":
        arena.check_unchanged()
        assert arena.heard == []


def go_through_the_gate_unwalled(arena: Arena, texts: tuple[str, ...], mode: str, member: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "is_bubblewrap_usable", lambda: False)
        context = arena.context(mode=mode, backend="auto", member=member)
        arena.check_outside(arena.run_gated(texts, context))
        arena.check_unchanged()
        assert arena.heard == []


@attack_in_a_mode
@pytest.mark.parametrize("member", [False, True], ids=["owner", "member"])
def test_through_the_gate_without_a_sandbox(arena: Arena, texts: tuple[str, ...], mode: str, member: bool) -> None:
    """G4, G5: what runs unasked cannot be led astray."""
    go_through_the_gate_unwalled(arena, texts, mode, member)


@needs_walls
@attack_in_a_mode
def test_through_the_gate(arena: Arena, texts: tuple[str, ...], mode: str) -> None:
    """G4, G5: as the policy lets it through."""
    go_through_the_gate(arena, texts, mode)


@pytest.mark.soak
@needs_walls
@pytest.mark.parametrize("mode", MODES)
def test_all_through_the_gate(arena: Arena, mode: str) -> None:
    """G4, G5: every attack in every mode, with walls and without."""
    failed = {}
    for texts in ATTACKS:
        for who, go in {
            "walled": lambda texts: go_through_the_gate(arena, texts, mode),
            "owner": lambda texts: go_through_the_gate_unwalled(arena, texts, mode, member=False),
            "member": lambda texts: go_through_the_gate_unwalled(arena, texts, mode, member=True),
        }.items():
            try:
                go(texts)
            except AssertionError as problem:
                failed[who, name(texts)] = str(problem)
                arena.mend()
            arena.reset()
    assert failed == {}
