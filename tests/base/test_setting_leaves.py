"""Which settings are said for all gateways, value by value (I4)."""

import pytest

from hermes_base.setting_leaves import list_for_all, read_names, write_names, write_value
from hermes_base.setting_owners import OF_MACHINE, OF_PLACE, is_for_all, is_of_place
from hermes_base.setting_table import SETTINGS

OWN = (
    "store.url",
    "web.port",
    "web.host",
    "log.level",
    "terminal.backend",
    "files.roots",
    "plugins.enabled",
    "browser.program",
    "mcp_servers.x.command",
)
FOR_ALL = (
    "model.default",
    "model.fallbacks",
    "approvals.mode",
    "people.members_approve",
    "agent.toolsets",
    "retention.session_days",
)


def test_what_is_for_all_and_what_is_a_machines_own() -> None:
    assert [key for key in OWN if is_for_all(key, known=True)] == []
    assert [key for key in FOR_ALL if not is_for_all(key, known=True)] == []
    assert is_for_all("platforms.telegram.allow", known=False)
    assert not is_for_all("somebody.elses", known=False)


@pytest.mark.parametrize("begin", [*OF_PLACE, *OF_MACHINE])
def test_each_line_of_the_tables_is_about_a_setting(begin: str) -> None:
    assert begin == "mcp_servers." or any(row.key.startswith(begin) for row in SETTINGS)
    assert is_of_place(begin) == (begin in OF_PLACE)


def test_values_are_told_with_the_names_on_the_way() -> None:
    """Names with dots and numbers, too; a list is one value; secrets and a machine's own are left out."""
    config = {
        "model": {"default": "m", "fallbacks": [{"provider": "x", "model": "y"}], "base_url": None},
        "agent": None,
        "store": {"url": "postgresql://h/n"},
        "log": {"level": "debug"},
        "platforms": {
            "matrix": {"enabled": True, "rooms": {"!a:b.c": {"model": "n"}}, "groups": {}, "proxy": None},
            "telegram": {"token": "secret", "bots": [{"api_key": "secret"}], "chats": {-100: {"open": True}}},
        },
        "mcp_servers": {"s": {"command": "run"}},
        "unknown": {"x": 1},
    }
    assert dict(list_for_all(config)) == {
        ("model", "default"): "m",
        ("model", "fallbacks"): [{"provider": "x", "model": "y"}],
        ("platforms", "matrix", "enabled"): True,
        ("platforms", "matrix", "rooms", "!a:b.c", "model"): "n",
        ("platforms", "matrix", "groups"): {},
        ("platforms", "matrix", "proxy"): None,
        ("platforms", "telegram", "chats", "-100", "open"): True,
    }


def test_values_and_names_are_kept_as_text() -> None:
    names = ("platforms", "matrix", "!ä:b.c")
    assert read_names(write_names(names)) == names
    assert write_value({"b": 1, "a": [None, "ä"]}) == '{"a": [null, "ä"], "b": 1}'
    assert write_value({1, 2}) is None
