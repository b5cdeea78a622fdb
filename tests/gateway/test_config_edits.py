"""H6: settings that are edited while the gateway runs, with a real file and a real gateway."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House
from waiting import wait_until

from gateway.service.chores import WATCH_SECONDS
from gateway.service.settings_watch import Known, find_changes
from hermes_base import setting_table as table
from hermes_base.settings import AT_ONCE, NEXT_MESSAGE, NEXT_START, Settings
from hermes_cli import config as cli_config
from hermes_cli.config.logs import FILE, keep_log, log_path, parse_line
from hermes_lab.server import LabServer

SECRET = "a-very-secret-value-1"


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with keep_log(home), House(home, lab.base_url, pretend={"owner": "olga"}) as made:
        wait_until(lambda: made.gateway.settings_watch.describe()["loaded_at"] > 0)
        yield made


def read_log(home: Path) -> list[dict[str, Any]]:
    return [parse_line(line) for line in log_path(home).read_text().splitlines()]


def told(house: House) -> dict[str, str]:
    """The changes that the status tells, with where they take effect."""
    changes = house.gateway.settings_watch.describe()["changes"]
    return {change["key"]: change["takes_effect"] for change in changes}


def test_edits_are_noticed_within_five_seconds() -> None:
    """H6: one look takes no time worth speaking of."""
    assert 2 * WATCH_SECONDS < 5


def test_a_good_edit_is_applied_and_told(house: House, home: Path) -> None:
    """H6: limits and level at once, the rest with the next message; each with its word."""
    house.write_settings(
        gateway={"agents": 3, "busy": "queue"}, log={"level": "debug"}, plugins={"x": {"token": SECRET}}
    )
    wait_until(lambda: "log.level" in told(house))
    assert told(house)["gateway.agents"] == table.find("gateway.agents").takes_effect  # type: ignore[union-attr]
    assert told(house)["gateway.busy"] == NEXT_MESSAGE
    assert told(house)["log.level"] == AT_ONCE
    wait_until(lambda: house.gateway.runner._get_limits()[0] == 3)
    handler = next(one for one in logging.getLogger().handlers if one.name == FILE)
    wait_until(lambda: handler.level == logging.DEBUG)
    [line] = [line for line in read_log(home) if "settings have changed" in line["message"]]
    assert "gateway.busy (with the next message)" in line["message"]
    assert SECRET not in log_path(home).read_text()
    assert SECRET not in json.dumps(house.wait_for(house.gateway.operations.status({})))


def test_a_broken_edit_is_refused_and_repaired(house: House, home: Path) -> None:
    """H6: the last good settings stay; log and status say what is wrong and where; a repair ends it."""
    good = (home / "config.yaml").read_text()
    (home / "config.yaml").write_text("model:\n  default: [unfinished\n")
    wait_until(lambda: house.gateway.settings_watch.problem != "")
    problem = house.wait_for(house.gateway.operations.status({}))["config"]["problem"]
    assert "config.yaml, line" in problem
    assert "not valid YAML" in problem
    wait_until(lambda: any("not used" in line["message"] and "YAML" in line["message"] for line in read_log(home)))
    assert "You said: Still there?" in house.person("olga").ask("Still there?")[-1]
    assert told(house) == {}
    assert "not used" in house.person("olga").ask("/status")[-1]

    (home / "config.yaml").write_text(good)
    wait_until(lambda: house.gateway.settings_watch.problem == "")
    wait_until(lambda: any("in order again" in line["message"] for line in read_log(home)))
    assert told(house) == {}, "what is as it was has not changed"

    (home / "config.yaml").write_text("model:\n  default: [unfinished\n")
    wait_until(lambda: house.gateway.settings_watch.problem != "")
    # The same mistake is told again.
    wait_until(lambda: sum("not used" in line["message"] for line in read_log(home)) == 2)


def test_a_turn_under_way_is_not_disturbed(house: House, lab: LabServer) -> None:
    """H6: it goes on with the model that it began with; the next one has the new one."""
    olga = house.person("olga")
    olga.say("[[stall 4]] [[say the long one]]")
    wait_until(lambda: bool(lab.requests))
    house.write_settings(model={"base_url": lab.base_url, "default": "another"})
    wait_until(lambda: "model.default" in told(house))
    olga.wait_seen("the long one")
    house.wait_quiet()
    assert [request.json()["model"] for request in lab.requests] == ["lab"]
    olga.ask("[[say the next one]]")
    assert lab.requests[-1].json()["model"] == "another"


def test_a_key_in_the_env_file_is_told_by_its_name(house: House, home: Path) -> None:
    """H6, G6: providers' keys count from the next message, other variables from the next start."""
    (home / ".env").write_text(f"OPENAI_API_KEY={SECRET}\nSOMETHING_ELSE=1\n")
    wait_until(lambda: "SOMETHING_ELSE" in told(house))
    assert told(house) == {"OPENAI_API_KEY": NEXT_MESSAGE, "SOMETHING_ELSE": NEXT_START}
    assert SECRET not in log_path(home).read_text()


def test_every_setting_is_compared() -> None:
    """H6: a change of any row is found, and only that one."""
    base = Settings()
    for row in table.SETTINGS:
        section, name = row.key.split(".")
        value = [{"provider": "x"}] if row.kind == "list[dict]" else "something else"
        after = table.make_settings({section: {name: value}})
        [change] = find_changes(Known(base, {}), Known(after, {}))
        assert (change.key, change.takes_effect) == (row.key, row.takes_effect)
    platforms = table.make_settings({"platforms": {"pretend": {"enabled": True}}})
    [change] = find_changes(Known(base, {}), Known(platforms, {}))
    assert (change.key, change.takes_effect) == ("platforms.pretend.enabled", AT_ONCE)
    assert list(find_changes(Known(base, {}), Known(base, {}))) == []
    assert cli_config.load_last_good().log.level == "warning"
