"""Several accounts of a platform: which there are, and what each is given."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms import platform_list
from gateway.platforms.account_settings import check_unlike, name_accounts, name_variables, read_account
from gateway.platforms.face import BaseAdapter, Core, Part, PlatformSpec, SetupQuestion
from gateway.service.gateway import make_adapters
from hermes_base.errors import ConfigProblem
from hermes_base.inbound import Address
from hermes_base.setting_table import read_settings
from hermes_cli import config
from hermes_lab.server import LabServer
from hermes_state.damage import find_address

SPEC = PlatformSpec(
    "bell",
    "Bell",
    "",
    setup=(SetupQuestion("token", "Token", env="BELL_TOKEN"), SetupQuestion("tone", "Tone", default="a")),
)


def give(section: dict[str, Any], account: str, **env: str) -> dict[str, Any]:
    return read_account(SPEC, section, account, lambda name: env.get(name, ""))


def test_two_accounts_that_are_the_same_over_there() -> None:
    """I3: the one token of all accounts names one bot, which only one of them may be."""
    spec = platform_list.find_spec("telegram")
    with pytest.raises(ConfigProblem, match=r"work and home of Telegram have the same token.*TELEGRAM_BOT_TOKEN_HOME"):
        check_unlike(spec, "home", {"token": "1:a"}, {"work": {"token": "1:a"}})
    check_unlike(spec, "home", {"token": "2:b"}, {"work": {"token": "1:a"}})


def test_without_accounts_there_is_one() -> None:
    assert name_accounts(SPEC, {}) == ["bell"]
    assert name_accounts(SPEC, {"account": "door"}) == ["door"]
    assert give({"tone": "b"}, "bell", BELL_TOKEN="t") == {"tone": "b", "token": "t"}
    assert give({"token": "written"}, "bell") == {"token": "written"}


def test_each_account_has_its_own_and_the_rest_from_the_platform() -> None:
    section = {"tone": "b", "accounts": {"front": {"tone": "c"}, "back": None, "off": {"enabled": False}, 7: {}}}
    assert name_accounts(SPEC, section) == ["front", "back", "7"]
    assert give(section, "front") == {"tone": "c"}
    assert give(section, "back") == {"tone": "b"}


def test_secrets_come_from_the_nearest_place() -> None:
    section = {"token": "written", "accounts": {"front-door": {"token": "own"}, "back": {}}}
    assert name_variables("BELL_TOKEN", SPEC, "front-door") == ("BELL_TOKEN_FRONT_DOOR", "BELL_TOKEN")
    assert give(section, "front-door", BELL_TOKEN_FRONT_DOOR="f", BELL_TOKEN="all")["token"] == "f"
    assert give(section, "front-door", BELL_TOKEN="all")["token"] == "own"
    assert give(section, "back", BELL_TOKEN="all")["token"] == "all"
    assert give(section, "back")["token"] == "written"


@pytest.mark.parametrize("section", [{"accounts": 5}, {"accounts": {}}, {"accounts": ["a"]}])
def test_accounts_that_are_no_section_are_told(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigProblem, match=r"platforms\.bell\.accounts"):
        name_accounts(SPEC, section)


@pytest.mark.parametrize("name", ["a/b", "", "a b", "ä", "x" * 65, "../web"])
def test_a_name_that_cannot_stand_in_an_address_is_told(name: str) -> None:
    with pytest.raises(ConfigProblem, match="cannot be the name"):
        give({"accounts": {name: {}}}, name)


def test_accounts_with_names_share_no_conversation() -> None:
    """Two bots may have a chat of the same id, since it is that of the person."""
    places = [Address("bell", account, "815") for account in ("bell", "front", "back")]
    assert len({place.conversation("default") for place in places}) == 3
    assert places[0].conversation("default") == "agent:main:bell:dm:815"


@given(st.builds(Address, *map(st.sampled_from, (["bell"], ["bell", "front"], ["815", "front", "front/815", "a/b"]))))
def test_where_a_conversation_is_answered_can_be_told_from_its_key(address: Address) -> None:
    assert find_address(address.conversation("default"), address.account_key) == address


class BellAdapter(BaseAdapter):
    spec = SPEC

    async def connect(self, core: Core) -> None:
        del core

    async def disconnect(self) -> None: ...

    async def send(self, part: Part) -> str:
        return part.key


@pytest.fixture
def bell() -> Iterator[None]:
    platform_list.register(SPEC, BellAdapter)
    yield
    platform_list.unregister("bell")


@pytest.mark.usefixtures("bell")
def test_one_that_cannot_be_made_keeps_nobody_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    accounts = {"front": {"tone": "c"}, "back": 5, "a b": {}}
    given = {"platforms": {"bell": {"enabled": True, "accounts": accounts}}, "network": {"private": ["nas.lan"]}}
    made = [one for one in make_adapters(read_settings(given), tmp_path) if one.spec is SPEC]
    assert [one.account for one in made] == ["front"]
    assert isinstance(made[0], BellAdapter)
    assert made[0].settings["tone"] == "c"
    assert list(made[0].settings["network.private"]) == ["nas.lan"]
    assert "Bell, account back, is left out: platforms.bell.accounts.back is no section" in caplog.text
    assert "Bell, account a b, is left out" in caplog.text


@pytest.mark.usefixtures("bell")
def test_a_platform_whose_section_is_none_keeps_nobody_else(tmp_path: Path) -> None:
    make_adapters(read_settings({"platforms": {"bell": 5}}), tmp_path)


def test_no_secret_of_an_account_is_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G6: in the environment, in `.env` and in the settings, alone or in a list."""
    home.mkdir(parents=True)
    lists = {"secret": ["in-a-list-of-two", "second-of-the-two"]}
    accounts = {"front-door": {"token": "in-the-settings-1"}, "back": lists}
    section = {"token": "for-everybody", "accounts": accounts}
    (home / "config.yaml").write_text(json.dumps({"platforms": {"bell": section}}))
    (home / ".env").write_text("BELL_TOKEN_BACK=in-the-dot-env\n")
    monkeypatch.setenv("BELL_TOKEN_FRONT_DOOR", "in-the-environment")
    secrets = ("in-the-settings-1", "in-a-list-of-two", "second-of-the-two", "for-everybody", "in-the-dot-env")
    for secret in (*secrets, "in-the-environment"):
        assert secret not in config.redactor()(f"bot{secret}/getMe")
    assert "in-a-list-of-two" not in str(config.get_value("platforms.bell"))


@pytest.mark.parametrize("place", [".env", "config.yaml", "account"])
def test_a_token_is_in_no_log_and_in_no_transcript(
    tmp_path: Path, lab: LabServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """G6: wherever the token of a platform was put, what people say and what is logged goes on without it."""
    token = "4711:AAtokenOfTheBot"
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    section = {"account": {"accounts": {"front": {"token": token}}}, "config.yaml": {"token": token}, ".env": {}}[place]
    with House(tmp_path, lab.base_url, pretend={"owner": "ann"}, platforms={"bell": section}) as house:
        if place == ".env":
            (tmp_path / ".env").write_text(f"BELL_TOKEN_FRONT={token}\n")
        ann = house.person("ann")
        seen = ann.ask(f"my token is {token}, keep it")
        info = house.gateway.store.current(ann.conversation)
        assert info is not None
        assert seen
        stored = (tmp_path / "hermes-store.db").read_bytes() + (tmp_path / "hermes-store.db-wal").read_bytes()
    assert token not in str(seen)
    assert token.encode() not in stored
    record = logging.LogRecord("x", logging.INFO, "x", 1, "https://api.example/bot%s/getMe", (token,), None)
    config.RedactingFilter(config.redactor).filter(record)
    assert token not in record.getMessage()
    assert token not in caplog.text
