"""Conversations are left to the nodes that serve them best (I4)."""

from collections.abc import Iterator

import pytest
from turn_bench import CHAT, OTHER, Bench, make_bench

from hermes_state.turns import LEASE_SECONDS, Claim, NodeAbout, NodeInfo


@pytest.fixture
def bench(where: str) -> Iterator[Bench]:
    made = make_bench(where)
    yield made
    made.store.close()


def join(bench: Bench, serves: int = 2, *providers: str) -> str:
    return bench.turns.join(NodeInfo("1", about=NodeAbout(serves, f" {' '.join(providers)} ", f"f{serves}")))


def test_who_lacks_a_key_claims_nothing_as_long_as_another_lives_that_has_it(bench: Bench) -> None:
    """I4, I2: neither what waits nor what comes in; when that one is dead or drains, it does."""
    able, lacking = join(bench, 2), join(bench, 0)
    bench.accept()
    assert bench.turns.claim(lacking, 10) == []
    assert bench.turns.claim(lacking, 10, late=True) == []
    assert bench.turns.claim_one(lacking, OTHER) is None
    assert bench.turns.accept(OTHER, "telegram:bot", "m/1/", "hello", lacking) == 1
    assert bench.turns.owner(OTHER) == ""
    assert {claim.conversation for claim in bench.turns.claim(able, 10)} == {CHAT, OTHER}
    bench.turns.drain(able)
    assert bench.turns.claim_one(lacking, "c") is not None
    third = join(bench, 1)
    assert bench.turns.claim_one(lacking, "d") is None
    bench.clock.move(LEASE_SECONDS)
    assert bench.turns.claim_one(third, "d") is None
    alone = join(bench, 0)
    assert bench.turns.claim_one(alone, "d") is not None


def test_only_those_that_serve_best_share_what_is_new(bench: Bench) -> None:
    able, lacking = join(bench, 2), join(bench, 1)
    bench.own(able)
    assert bench.turns.fair(able) == (1, 1, 1, True)
    assert bench.turns.fair(lacking) == (1, 1, 0, False)
    bench.turns.describe_node(lacking, NodeAbout(2, " openrouter ", "new"))
    assert bench.turns.fair(able) == (2, 1, 1, True)
    assert bench.turns.fair(lacking) == (2, 1, 0, True)
    assert [(node.serves, node.facts) for node in bench.turns.nodes() if node.id == lacking] == [(2, "new")]


def test_a_conversation_is_passed_on_to_who_serves_it_better_and_to_nobody_else(bench: Bench) -> None:
    """I4: for a provider that was chosen for it that provider's key counts, whoever serves the usual model."""
    able, other = join(bench, 2), join(bench, 0, "openrouter", "openai")
    claim = bench.own(able)
    assert not bench.turns.pass_on(claim, "")
    assert not bench.turns.pass_on(claim, "open")
    assert bench.turns.pass_on(claim, "openrouter")
    assert not bench.turns.pass_on(claim, "openrouter")  # it is not its owner any more
    assert bench.turns.claim_one(able, CHAT) is None
    taken = bench.turns.claim_one(other, CHAT)
    assert taken == Claim(CHAT, claim.epoch + 1, other)
    assert bench.turns.pass_on(taken, "")
    assert bench.turns.claim_one(able, CHAT) is not None


def test_what_is_not_served_anywhere_is_anybodys(bench: Bench) -> None:
    """I4: somebody has to tell its person."""
    one, other = join(bench, 0), join(bench, 0)
    claim = bench.own(one)
    assert not bench.turns.pass_on(claim, "")
    assert not bench.turns.pass_on(claim, "openrouter")
    bench.turns.give_up(claim)
    assert bench.turns.claim_one(other, CHAT) is not None


def test_a_node_that_says_nothing_of_itself_can_do_everything(bench: Bench) -> None:
    """I5: so does one of an earlier version."""
    silent, able = bench.join(), join(bench, 2)
    assert bench.turns.claim_one(silent, CHAT) is not None
    assert bench.turns.claim_one(able, OTHER) is not None
