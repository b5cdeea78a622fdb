"""Who is signed in on the page, and the pace of passwords, as the store keeps them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from turn_bench import Bench, make_bench

from hermes_state.key_store import SignInRow
from hermes_state.sql.shared.news_sql import SIGN_INS

ROW = SignInRow("bound", "home", "token", 100.0)


@pytest.fixture
def bench(where: str) -> Iterator[Bench]:
    made = make_bench(where)
    yield made
    made.store.close()


def test_a_sign_in_holds_until_it_expires(bench: Bench) -> None:
    """G11"""
    sign_ins = bench.store.sign_ins
    sign_ins.add("digest", ROW)
    bench.clock.move(40.0)
    assert sign_ins.find("digest") == replace(ROW, left=60.0)
    assert sign_ins.find("other") is None
    bench.clock.move(60.0)
    assert sign_ins.find("digest") is None
    assert bench.turns.sweep(0.0, 10) == 1


def test_signing_out_is_news_for_all(bench: Bench) -> None:
    """G11, I4"""
    sign_ins = bench.store.sign_ins
    for digest in ("one", "two"):
        sign_ins.add(digest, ROW)
    before = bench.store.news.numbers().get(SIGN_INS, 0)
    sign_ins.end("one")
    assert bench.store.news.numbers()[SIGN_INS] == before + 1
    assert sign_ins.find("one") is None
    assert sign_ins.find("two") is not None


def test_another_token_voids_what_was_made_in_its_home(bench: Bench) -> None:
    """G11: and nothing that was made elsewhere; without any it is no news."""
    sign_ins = bench.store.sign_ins
    sign_ins.add("old", ROW)
    sign_ins.add("new", replace(ROW, token="newer"))
    sign_ins.add("elsewhere", replace(ROW, home="other"))
    assert sign_ins.void("home", "newer")
    assert [digest for digest in ("old", "new", "elsewhere") if sign_ins.find(digest)] == ["new", "elsewhere"]
    before = bench.store.news.numbers()
    assert not sign_ins.void("home", "newer")
    assert bench.store.news.numbers() == before


def test_all_who_try_share_one_pace(bench: Bench) -> None:
    """G11: each is told how long those before it take; what is given back is there for the next one."""
    sign_ins = bench.store.sign_ins
    assert [sign_ins.take_turn("sign-in", 1.0) for _ in range(3)] == [0.0, 1.0, 2.0]
    assert sign_ins.take_turn("other", 1.0) == 0.0
    bench.clock.move(2.5)
    assert sign_ins.take_turn("sign-in", 1.0) == 0.5
    sign_ins.give_turn_back("sign-in", 1.0)
    assert sign_ins.take_turn("sign-in", 1.0) == 0.5
    bench.clock.move(1000.0)
    assert sign_ins.take_turn("sign-in", 1.0) == 0.0


def test_a_store_keeps_its_name(bench: Bench) -> None:
    sign_ins = bench.store.sign_ins
    assert sign_ins.name_store("first") == "first"
    assert sign_ins.name_store("second") == "first"
