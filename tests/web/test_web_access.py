"""Tokens, cookies and the turnstile, without a server."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http import access, turnstile
from hermes_base.errors import ConfigProblem
from hermes_cli import config
from hermes_constants import WEB_TOKEN_FILE

TEXTS = st.text(max_size=40)


def test_the_token_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    """G11: other users of the machine cannot read the token."""
    home = tmp_path / "new"
    token = access.read_token(home)
    assert len(token) >= 32
    assert access.read_token(home) == token
    assert (home / WEB_TOKEN_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.iterdir()] == [WEB_TOKEN_FILE]


@pytest.mark.parametrize("damage", [b"\xff\xfe", "日本".encode(), b"\0" * 40, b"a b", b"a\nb", b"\x1b[2J"])
def test_a_damaged_token_is_made_anew(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """H3: and the log says so; whoever was logged in logs in again."""
    (tmp_path / WEB_TOKEN_FILE).write_bytes(damage)
    token = access.read_token(tmp_path)
    assert len(token) > 20
    assert access.read_token(tmp_path) == token
    assert "damaged" in caplog.text


def test_what_is_no_file_in_the_tokens_place_is_told(tmp_path: Path) -> None:
    """H8: one sentence at the start; a server that runs keeps the token that it has."""
    tokens = access.TokenFile(tmp_path)
    token = tokens.read()
    (tmp_path / WEB_TOKEN_FILE).unlink()
    (tmp_path / WEB_TOKEN_FILE).mkdir()
    assert tokens.read() == token
    with pytest.raises(ConfigProblem, match="move it away"):
        access.read_token(tmp_path)
    (tmp_path / WEB_TOKEN_FILE).rmdir()
    os.mkfifo(tmp_path / WEB_TOKEN_FILE)
    with pytest.raises(ConfigProblem, match="not an ordinary file"):
        access.read_token(tmp_path)


def test_a_new_token_is_felt_by_a_server_that_runs(tmp_path: Path) -> None:
    """G11: `hermes web --new-token` writes the file; whoever holds it open reads the new one."""
    seen = access.TokenFile(tmp_path)
    first = seen.read()
    assert seen.read() == first
    second = access.make_token(tmp_path)
    assert second != first
    assert seen.read() == second
    (tmp_path / WEB_TOKEN_FILE).unlink()
    assert seen.read() not in ("", first, second)


@given(TEXTS, TEXTS)
def test_a_cookie_is_bound_to_the_password_of_its_time(password: str, other: str) -> None:
    """G11: a changed password logs everybody out; what is bound tells nothing of the password to who has no cookie."""
    value = access.make_cookie()
    bound = access.bind_cookie(value, password)
    assert access.bind_cookie(value, password) == bound
    assert access.bind_cookie(access.make_cookie(), password) != bound
    if other != password:
        assert access.bind_cookie(value, other) != bound


@given(st.text(max_size=200))
def test_no_other_text_is_a_cookie(value: str) -> None:
    """G11: whatever is sent as a cookie, it is read without an error."""
    assert not access.digest_cookie(value) or len(value) == 43


def test_a_cookie_is_known_by_its_digest() -> None:
    value = access.make_cookie()
    assert access.digest_cookie(value) == access.digest_cookie(value) != access.digest_cookie(access.make_cookie())
    assert access.digest_token("a") != access.digest_token("b")


def test_nothing_equals_an_empty_secret() -> None:
    assert not access.are_equal("", "")
    assert access.are_equal("a", "a")
    assert not access.are_equal("a", "b")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class FakeTime(Clock):
    """Whoever sleeps is the only one who lets the time go by. The store is asked how long other tries take."""

    used_until = 0.0

    async def take(self, seconds: float) -> float:
        before = max(0.0, self.used_until - self.now)
        self.used_until = self.now + before + seconds
        return before

    async def give_back(self, seconds: float) -> None:
        self.used_until -= seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds


def test_all_who_guess_share_one_pace() -> None:
    """G11: a few tries are free; then one a second is looked at, from how many addresses they may come."""
    time = FakeTime()
    stile = turnstile.Turnstile(time.take, time.give_back, time.sleep)

    async def guess() -> list[float]:
        return [time.now for number in range(turnstile.FREE_TRIES + 20) if await stile.wait(f"10.0.0.{number}")]

    looked_at = [at - 1_000.0 for at in asyncio.run(guess())]
    assert looked_at[: turnstile.FREE_TRIES] == [0.0] * turnstile.FREE_TRIES
    assert looked_at[turnstile.FREE_TRIES :] == [pytest.approx(n * turnstile.SECONDS_PER_TRY) for n in range(1, 21)]
    time.now += 3_600
    assert asyncio.run(guess())[turnstile.FREE_TRIES - 1] == time.now - 20 * turnstile.SECONDS_PER_TRY


def test_the_right_password_takes_nothing_from_others() -> None:
    time = FakeTime()
    stile = turnstile.Turnstile(time.take, time.give_back, time.sleep)

    async def log_in_often() -> None:
        for _ in range(100):
            assert await stile.wait("1.2.3.4")
            await stile.note_right()

    asyncio.run(log_in_often())
    assert time.now == 1_000.0


def test_the_line_has_an_end_for_one_address_and_for_all() -> None:
    """G11: who waits costs memory, so only so many do; other addresses find a place, and leaving gives it back."""

    async def crowd() -> None:
        never = asyncio.Event()
        time = FakeTime()
        stile = turnstile.Turnstile(time.take, time.give_back, lambda _: never.wait())
        first = [asyncio.ensure_future(stile.wait("1.2.3.4")) for _ in range(turnstile.MOST_WAITING_PEER)]
        await asyncio.sleep(0)
        assert not await stile.wait("1.2.3.4")
        others = [asyncio.ensure_future(stile.wait(f"10.0.0.{n}")) for n in range(turnstile.MOST_WAITING)]
        await asyncio.sleep(0)
        refused = [task for task in others if task.done()]
        assert len(refused) == turnstile.MOST_WAITING_PEER
        for task in (*first, *others):
            task.cancel()
        await asyncio.gather(*first, *others, return_exceptions=True)
        assert not stile._waiting
        never.set()
        assert await stile.wait("1.2.3.4")

    asyncio.run(crowd())


@pytest.mark.parametrize(("one", "other"), [("2001:db8::1", "2001:db8::ffff:2"), ("::ffff:1.2.3.4", "1.2.3.4")])
def test_a_peer_is_its_network_not_its_address(one: str, other: str) -> None:
    """G11: whoever has one IPv6 address has billions."""
    assert turnstile._name_peer(one) == turnstile._name_peer(other)


def test_many_who_come_first_get_one_token(home: Path) -> None:
    """The command and the server may ask for it in the same instant."""
    with ThreadPoolExecutor(8) as pool:
        found = {future.result() for future in [pool.submit(access.read_token, home) for _ in range(64)]}
    assert len(found) == 1
    assert [path.name for path in home.iterdir()] == [WEB_TOKEN_FILE]
    (home / WEB_TOKEN_FILE).write_text("")
    assert len(access.read_token(home)) > 20


def test_the_token_is_a_secret_like_any_other(home: Path) -> None:
    """G6: whatever reads it, transcripts and logs do not hold it."""
    token = access.read_token(home)
    assert token not in config.redactor()(f"it is {token}, they say")
