"""The table of slash commands, and the names of profiles."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.turns.commands.slash_commands import HANDLERS
from hermes_base import command_table
from hermes_base.errors import ConfigProblem
from hermes_base.inbound import WAYS
from hermes_cli import profiles
from hermes_cli.commands import resolve_command


def test_the_table_holds_every_command_once() -> None:
    names = [name for command in command_table.COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))
    assert {command.when_busy for command in command_table.COMMANDS} <= {command_table.NOW, command_table.AFTER}


def test_every_command_is_performed_or_decided_before_it_is() -> None:
    """H8: nothing that help offers fails for want of somebody who does it."""
    assert {command.name for command in command_table.COMMANDS} == {*HANDLERS, "stop", *WAYS}


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("/help", "help", ""),
        ("  /NEW  ", "new", ""),
        ("/clear", "new", ""),
        ("/q", "quit", ""),
        ("/model  gpt 4 ", "model", "gpt 4"),
        ("/model a\nb", "model", "a\nb"),
        ("/nonsense x", None, "x"),
    ],
)
def test_a_command_is_parsed(text: str, name: str | None, args: str) -> None:
    parsed = command_table.parse(text)
    assert parsed is not None
    assert (parsed[0].name if parsed[0] else None, parsed[1]) == (name, args)


@pytest.mark.parametrize("text", ["", "hello", "/", "//", "/usr/bin/env fails", "a /help", "/ help", "/12"])
def test_a_message_is_not_taken_for_a_command(text: str) -> None:
    assert command_table.parse(text) is None


@given(st.text())
def test_parsing_takes_any_text(text: str) -> None:
    parsed = command_table.parse(text)
    assert parsed is None or text.strip().startswith("/")
    command_table.close_matches(text)


def test_misspelt_commands_find_their_neighbours() -> None:
    """H8."""
    assert command_table.close_matches("/hlep me")[0] == "/help"
    assert command_table.close_matches("/exti")[0] == "/quit"
    assert command_table.close_matches("/") == []
    assert command_table.close_matches("/wether Rome", {"weather"})[0] == "/weather"  # a plugin's


def test_help_shows_every_command_in_columns() -> None:
    lines = command_table.help_lines()
    assert len(lines) == len(command_table.COMMANDS)
    for line, command in zip(lines, command_table.COMMANDS, strict=True):
        assert line.startswith(f"/{command.name}")
        assert command.summary in line


def test_plugins_ask_for_built_in_names() -> None:
    assert resolve_command("/Reset") is command_table.find_command("new")
    assert resolve_command("lcm") is None


# --- profiles


def test_the_active_profile_follows_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G13."""
    monkeypatch.setenv("HERMES_PROFILE", "")
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert profiles.get_active_profile_name() == "default"
    assert profiles.profile_home("default") == tmp_path
    profiles.select_profile("work")
    assert profiles.get_active_profile_name() == "work"
    assert profiles.profile_home("work") == tmp_path / "profiles" / "work"
    assert profiles.profile_home("other") == tmp_path / "profiles" / "other"
    profiles.select_profile("default")
    assert profiles.get_active_profile_name() == "default"
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=70))
def test_a_profile_name_is_a_plain_folder_name_or_refused(name: str) -> None:
    try:
        profiles.check_name(name)
    except ConfigProblem:
        return
    assert Path(name).name == name
    assert ":" not in name
    assert not name.startswith((".", "-"))
