"""Tokens, cookies and brakes, without a server."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.web import access
from hermes_cli import config

TEXTS = st.text(max_size=40)


def test_the_token_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    """G11: other users of the machine cannot read the token."""
    home = tmp_path / "new"
    token = access.read_token(home)
    assert len(token) >= 32
    assert access.read_token(home) == token
    assert (home / access.TOKEN_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.iterdir()] == [access.TOKEN_FILE]


def test_a_new_token_is_felt_by_a_server_that_runs(tmp_path: Path) -> None:
    """G11: `hermes web --new-token` writes the file; whoever holds it open reads the new one."""
    seen = access.TokenFile(tmp_path)
    first = seen.read()
    assert seen.read() == first
    second = access.make_token(tmp_path)
    assert second != first
    assert seen.read() == second
    (tmp_path / access.TOKEN_FILE).unlink()
    assert seen.read() not in ("", first, second)


@given(TEXTS, TEXTS, st.integers(1, 10**11))
def test_a_cookie_holds_until_it_expires(token: str, password: str, expires: int) -> None:
    """G11: the cookie carries its end, and nobody can move it."""
    value = access.make_cookie(token, password, expires)
    assert access.read_cookie(value, token, password, expires - 1) == expires
    assert access.read_cookie(value, token, password, expires) == 0
    later = value.replace(str(expires), str(expires + 1), 1)
    assert access.read_cookie(later, token, password, expires - 1) == 0


@given(TEXTS, TEXTS, TEXTS)
def test_another_token_or_password_voids_it(token: str, password: str, other: str) -> None:
    """G11: a changed password or a new token logs everybody out."""
    value = access.make_cookie(token, password, 100)
    if other != token:
        assert access.read_cookie(value, other, password, 1) == 0
    if other != password:
        assert access.read_cookie(value, token, other, 1) == 0


@given(st.text(max_size=200))
def test_no_other_text_is_a_cookie(value: str) -> None:
    """G11: whatever is sent as a cookie, it is read without an error and does not hold."""
    assert access.read_cookie(value, "token", "", 1.0) == 0


def test_nothing_equals_an_empty_secret() -> None:
    assert not access.are_equal("", "")
    assert access.are_equal("a", "a")
    assert not access.are_equal("a", "b")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_peer_that_guesses_waits_longer_and_longer() -> None:
    """G11: a few slips are free, then each wrong password doubles the pause, up to a limit."""
    clock = Clock()
    brakes = access.Brakes(clock)
    waits = []
    for _ in range(access.FREE_TRIES + 12):
        brakes.note_failure("1.2.3.4")
        waits.append(brakes.wait("1.2.3.4"))
        clock.now += waits[-1]
    assert waits[: access.FREE_TRIES - 1] == [0.0] * (access.FREE_TRIES - 1)
    assert waits[access.FREE_TRIES : access.FREE_TRIES + 4] == [2.0, 4.0, 8.0, 16.0]
    assert max(waits) == access.LONGEST_WAIT
    assert brakes.wait("9.9.9.9") == 0.0
    clock.now += access.FORGIVEN_AFTER + 1
    assert brakes.wait("1.2.3.4") == 0.0


def test_many_peers_together_are_slowed_down_but_the_owner_gets_in() -> None:
    """G11: guessing from a thousand addresses does not help, and nobody is locked out for long."""
    clock = Clock()
    brakes = access.Brakes(clock)
    for number in range(5_000):
        brakes.note_failure(f"10.0.{number // 250}.{number % 250}")
    assert 0 < brakes.wait("192.168.1.1") <= access.LONGEST_WAIT_OVERALL
    assert len(brakes._peers) <= access.MOST_PEERS
    clock.now += access.LONGEST_WAIT_OVERALL
    assert brakes.wait("192.168.1.1") == 0.0


@pytest.mark.parametrize(("one", "other"), [("2001:db8::1", "2001:db8::ffff:2"), ("::ffff:1.2.3.4", "1.2.3.4")])
def test_a_peer_is_its_network_not_its_address(one: str, other: str) -> None:
    """G11: whoever has one IPv6 address has billions."""
    brakes = access.Brakes(Clock())
    for _ in range(access.FREE_TRIES + 1):
        brakes.note_failure(one)
    assert brakes.wait(other) > 0 or access._name_peer(one) == "::ffff:102:304"


def test_the_right_password_makes_slips_forgotten() -> None:
    brakes = access.Brakes(Clock())
    for _ in range(access.FREE_TRIES + 1):
        brakes.note_failure("1.2.3.4")
    brakes.note_success("1.2.3.4")
    assert brakes.wait("1.2.3.4") == 0.0


def test_many_who_come_first_get_one_token(home: Path) -> None:
    """The command and the server may ask for it in the same instant."""
    with ThreadPoolExecutor(8) as pool:
        found = {future.result() for future in [pool.submit(access.read_token, home) for _ in range(64)]}
    assert len(found) == 1
    assert [path.name for path in home.iterdir()] == [access.TOKEN_FILE]
    (home / access.TOKEN_FILE).write_text("")
    assert len(access.read_token(home)) > 20


def test_the_token_is_a_secret_like_any_other(home: Path) -> None:
    """G6: whatever reads it, transcripts and logs do not hold it."""
    token = access.read_token(home)
    assert token not in config.redactor()(f"it is {token}, they say")
