"""Platforms come, fail, come back and change while the gateway runs; each shows the commands that there are."""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from house import House
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

from gateway.platforms import platform_list
from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Core, NotNow, PlatformSpec, SetupQuestion
from gateway.platforms.pretend import adapter as pretend_adapter
from gateway.platforms.pretend.adapter import PretendAdapter
from gateway.platforms.pretend.service import CLOSED_BEFORE, PATIENCE, REFUSED, PretendRules
from gateway.service import connections
from gateway.service.admin.operations import UNMADE
from gateway.service.connections import find_changed, list_menu
from hermes_base.command_table import COMMANDS
from hermes_base.errors import ConfigProblem
from hermes_cli.cmds.doctor import SETTINGS_CHECKS
from hermes_cli.cmds.gateway.gateway_cmd import write_status
from hermes_cli.config import load_settings
from hermes_cli.plugins import get_plugin_manager
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann"]}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, PretendRules(has_menu=True), pretend=PEOPLE) as made:
        yield made


def find_platform(house: House, name: str = "pretend") -> dict[str, Any]:
    return next((one for one in house.operate("status")["platforms"] if one["name"] == name), {})


# --- what keeps a platform from working


def test_a_platform_that_cannot_connect_says_why_everywhere(home: Path, lab: LabServer) -> None:
    """C13: not connected, with a sentence, in status, doctor and metrics; a token in none of them (G6)."""
    house = House(home, lab.base_url, PretendRules(has_menu=True), pretend=PEOPLE)
    (home / ".env").write_text("PRETEND_TOKEN=sesame-4711-sesame\n")
    house.service.locked_out = "The token sesame-4711-sesame is not known."
    with house:
        told = find_platform(house)
        assert not told["connected"]
        assert told["problem"].startswith("The token ")
        assert "4711" not in str(house.operate("status"))
        lines = [*write_status(house.operate("status")), *house.gateway.operations.describe()]
        assert sum("Give it another token." in line for line in lines) == 2
        found = [finding.what for check in SETTINGS_CHECKS for finding in check(load_settings())]
        assert any("Pretend is not connected: The token " in text for text in found)
        page = house.wait_for(house.gateway.queries.gateway.metrics())
        assert 'hermes_platform_connected{platform="pretend",account="bot"} 0' in page


def test_an_account_with_a_part_that_does_not_work_is_connected(home: Path, lab: LabServer) -> None:
    """C13: a room that is not there is told in status, doctor and metrics, and nowhere as the end of the account."""
    with House(home, lab.base_url, PretendRules(), pretend=PEOPLE) as house:
        adapter = next(one for one in house.gateway.parts.adapters if one.spec.name == "pretend")
        adapter.problem, adapter.hears = "There is no room #plans.", True
        told = find_platform(house)
        assert (told["connected"], told["problem"]) == (True, "There is no room #plans.")
        lines = [*write_status(house.operate("status")), *house.gateway.operations.describe()]
        found = [finding.what for check in SETTINGS_CHECKS for finding in check(load_settings())]
        said = [line for line in (*lines, *found) if "#plans" in line]
        assert len(said) == 3
        assert all("connected" in line and "not connected" not in line for line in said)
        page = house.wait_for(house.gateway.queries.gateway.metrics())
        assert 'hermes_platform_connected{platform="pretend",account="bot"} 1' in page


def test_whom_nothing_is_sent_to_for_a_while_is_told_everywhere(home: Path, lab: LabServer) -> None:
    """C8: a receipt meets the penalty; status, /status and doctor say for which chat, until when, and why."""
    with House(home, lab.base_url, PretendRules(has_receipts=True), pretend=PEOPLE) as house:
        house.call(lambda: house.service.punish(3600))
        house.call(lambda: house.service.say("chat-olga", "hello", "olga"))
        wait_until(lambda: house.operate("status")["waits"])
        lines = [*write_status(house.operate("status")), *house.gateway.operations.describe()]
        found = [finding.what for check in SETTINGS_CHECKS for finding in check(load_settings())]
        said = [line for line in (*lines, *found) if "Nothing is sent by pretend:bot" in line]
        assert len(said) == 3
        assert all("to chat chat-olga until 20" in line and "asks for patience" in line for line in said)


def test_a_platform_that_cannot_be_made_is_told(home: Path, lab: LabServer) -> None:
    def fail(account: str, given: Any, folder: Path) -> Any:
        raise ConfigProblem("It needs a token.")

    with House(home, lab.base_url, platforms={"broken": {"enabled": True}}) as house:
        platform_list.register(PlatformSpec("broken", "Broken", ""), fail)
        try:
            told = find_platform(house, "broken")
            assert (told["connected"], told["problem"]) == (False, UNMADE)
            assert f"Broken: {UNMADE}" in house.gateway.operations.describe()
        finally:
            platform_list.unregister("broken")


def test_an_account_that_is_left_out_is_told(home: Path, lab: LabServer) -> None:
    """H3: of two accounts with one token, status and doctor say which does not run, and why."""
    section = {"enabled": True, "accounts": {"work": {}, "home": {}}}
    house = House(home, lab.base_url, platforms={"telegram": {**section, "base_url": lab.base_url}})
    (home / ".env").write_text("TELEGRAM_BOT_TOKEN=4711:one-token-for-both\n")
    with house:
        told = [one for one in house.operate("status")["platforms"] if one["name"] == "telegram"]
        assert [one["account"] for one in told] == ["work", "home"]
        assert "work and home of Telegram have the same token" in told[1]["problem"]
        found = [finding.what for check in SETTINGS_CHECKS for finding in check(load_settings())]
        assert any(what.startswith("Telegram, account home: The accounts work and home") for what in found)


def test_what_was_put_right_is_connected_without_a_restart(home: Path, lab: LabServer) -> None:
    """Tried again when its settings change: a set-up takes effect at once."""
    house = House(home, lab.base_url, PretendRules(has_menu=True), pretend=PEOPLE)
    house.service.locked_out = "The token is not known."
    with house:
        assert find_platform(house)["problem"]
        house.service.locked_out = ""
        house.write_settings(pretend={**PEOPLE, "token": "another"})
        wait_until(lambda: find_platform(house)["connected"])
        assert not find_platform(house)["problem"]
        assert house.person("ann").ask("[[say hello]]") == ["hello"]


def test_a_platform_that_comes_back_is_connected_by_itself(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "FIRST_PAUSE", 0.02)
    house = House(home, lab.base_url, PretendRules(has_menu=True), pretend=PEOPLE)
    house.service.locked_out = "The service is away."
    with house:
        assert find_platform(house)["problem"]
        house.service.locked_out = ""
        wait_until(lambda: find_platform(house)["connected"])
        assert house.person("ann").ask("[[say hello]]") == ["hello"]


def test_a_platform_that_asks_for_patience_is_not_tried_before(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C8: also at connecting."""
    monkeypatch.setattr(connections, "FIRST_PAUSE", 0.02)
    tried, connect = [], PretendAdapter.connect

    async def connect_later(adapter: PretendAdapter, core: Core) -> None:
        tried.append(time.monotonic())
        if len(tried) < 3:
            raise NotNow("Too many requests.", 1.0)
        await connect(adapter, core)

    monkeypatch.setattr(PretendAdapter, "connect", connect_later)
    with House(home, lab.base_url, PretendRules(has_menu=True), pretend=PEOPLE) as house:
        wait_until(lambda: find_platform(house)["connected"])
    assert [later - before >= 1.0 for before, later in pairwise(tried)] == [True, True]


def test_a_service_that_is_near_is_tried_as_often_as_its_facts_say(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty pauses, each twice as long as the one before, would be some hours."""
    monkeypatch.setattr(connections, "FIRST_PAUSE", 0.01)
    tried, connect = [], PretendAdapter.connect

    async def connect_later(adapter: PretendAdapter, core: Core) -> None:
        tried.append(adapter)
        if len(tried) < 20:
            raise NotNow("Nobody is there.")
        await connect(adapter, core)

    monkeypatch.setattr(PretendAdapter, "connect", connect_later)
    monkeypatch.setattr(pretend_adapter, "SPEC", replace(pretend_adapter.SPEC, longest_pause=0.02))
    with House(home, lab.base_url, PretendRules(has_menu=True), pretend=PEOPLE) as house:
        wait_until(lambda: find_platform(house)["connected"])
    assert platform_list.find_spec("signal").longest_pause == 15.0


# --- settings while it runs


def test_a_platform_is_switched_on_and_off_while_others_work(house: House) -> None:
    """What waits for a platform that went is sent by the next that comes; nothing is sent twice."""
    ann = house.person("ann")
    assert ann.ask("[[say one]]") == ["one"]
    house.write_settings(pretend={**PEOPLE, "enabled": False})
    wait_until(lambda: not find_platform(house))
    ann.say("[[say two]]")
    house.write_settings(pretend=PEOPLE)
    ann.wait_seen("two")
    house.wait_quiet()
    assert ann.seen == ["one", "two"]
    assert find_platform(house)["connected"]


def test_an_answer_that_waits_is_sent_by_the_new_connection(house: House) -> None:
    """C9: once."""
    ann = house.person("ann")
    house.service.always = CLOSED_BEFORE
    ann.say("[[say kept]]")
    wait_until(lambda: house.gateway.turns.depth() == (0, 1))
    house.write_settings(pretend={**PEOPLE, "token": "another"})
    wait_until(lambda: house.gateway.settings_watch.describe()["changes"])
    house.service.always = ""
    ann.wait_seen("kept")
    house.wait_quiet()
    assert ann.seen == ["kept"]


def test_who_may_speak_changes_no_connection(house: House) -> None:
    before = house.gateway.adapters[-1]
    house.write_settings(pretend={"owner": "olga", "allow": ["ann", "ben"]})
    assert house.person("ben").ask("[[say hello]]") == ["hello"]
    wait_until(lambda: house.gateway.settings_watch.describe()["changes"])
    assert house.gateway.adapters[-1] is before


def test_it_is_known_which_platforms_a_change_is_about() -> None:
    one = PlatformSpec("one", "One", "", setup=(SetupQuestion("token", "The token", env="ONE_TOKEN"),))
    own = PlatformSpec("own", "Own", "", always_on=True)
    two = PlatformSpec("two", "Two", "")

    def find(*keys: str) -> set[str]:
        return set(find_changed([one, own, two], keys))

    assert find("platforms.one.mode", "gateway.busy") == {"one"}
    assert find("platforms.one", "platforms.two.enabled", "platforms.own.x") == {"one", "two"}
    assert find("platforms.one.allow[0]", "platforms.two.groups.-100.open", "platforms.onerous.x") == set()
    assert find("ONE_TOKEN") == find("ONE_TOKEN_WORK") == {"one"}
    assert find("ONE_TOKENS") == set()


# --- menus


def test_the_menu_shows_what_there_is(house: House) -> None:
    """The rows of the table that make sense in a chat, and what plugins bring; told again when that changes."""
    service = house.service
    wait_until(lambda: service.menus == 1)
    names = [name for name, _ in service.menu]
    assert {"new", "stop", "help", "status"} <= set(names)
    assert not {"quit", "start"} & set(names)
    commands = get_plugin_manager()._plugin_commands
    commands["weather"] = {"handler": lambda args: "rain", "description": "Tell the weather.", "plugin": "p"}
    try:
        house.wait_for(house.gateway.connections.offer_menus())
        house.wait_for(house.gateway.connections.offer_menus())
        assert service.menu[-1] == ("weather", "Tell the weather.")
        assert service.menus == 2
        assert "/weather – Tell the weather." in house.person("ann").ask("/help")[0]
    finally:
        del commands["weather"]


@pytest.mark.parametrize(("trouble", "again"), [(CLOSED_BEFORE, True), (REFUSED, False), (PATIENCE, False)])
def test_a_menu_that_is_not_taken_keeps_nobody(home: Path, lab: LabServer, trouble: str, again: bool) -> None:
    """C8: one that has to wait comes again at its time, and no chat waits for it."""
    house = House(home, lab.base_url, PretendRules(has_menu=True), pretend=PEOPLE)
    house.service.troubles.append(trouble)
    with house:
        wait_until(lambda: not house.service.troubles)
        assert house.person("ann").ask("[[say hello]]") == ["hello"]
        house.wait_for(house.gateway.connections.offer_menus())
        assert bool(house.service.menu) is again


def test_every_command_of_the_menu_is_short() -> None:
    """Apps take names of 32 signs and a line of words."""
    assert len(list_menu()) <= len(COMMANDS)
    assert all(len(each.name) <= 32 and 3 <= len(each.summary) <= 256 for each in list_menu())


def test_a_chat_is_greeted_without_a_turn(house: House, lab: LabServer) -> None:
    """Apps send `/start` when somebody opens the chat."""
    (told,) = house.person("ann").ask("/start deep-link")
    assert "Hello, Ann." in told
    assert "/help" in told
    assert not lab.requests


def test_help_fits_a_chat_and_a_role(house: House) -> None:
    (ann,), (olga,) = house.person("ann").ask("/help"), house.person("olga").ask("/help")
    assert "/new – Start a new conversation." in ann
    assert "  " not in ann
    assert "/status" not in ann
    assert "/status" in olga


# --- pauses


@given(st.floats(0.01, 10), st.floats(1, 600), st.lists(st.floats(0, 1), min_size=1, max_size=80))
def test_pauses_grow_up_to_a_limit_and_begin_anew(first: float, longest: float, chances: list[float]) -> None:
    pauses = Pauses(first, longest, iter(chances).__next__)
    for number in range(len(chances) - 1):
        whole = min(longest, first * 2.0**number)
        assert whole / 2 <= pauses.next() <= whole
    pauses.reset()
    assert min(first, longest) / 2 <= pauses.next() <= min(first, longest)
