"""Plugins of a running gateway: what they hear of sessions and approvals, and where their commands are offered."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House
from waiting import wait_until

from gateway.turns import endings
from hermes_cli import plugins
from hermes_lab.server import LabServer

PROBE = """
    import asyncio

    TOLD = []

    def note(hook):
        return lambda **facts: TOLD.append((hook, facts)) and None

    def spoil(event, **_):
        if event.text == "spoil":
            del event.text
        elif event.text == "halve":
            event.text = chr(0xD83D) + " half"

    def leave(text):
        raise {"exit": SystemExit(2), "cancel": asyncio.CancelledError()}[text]

    def register(ctx):
        for hook in ("on_session_start", "on_session_reset", "on_session_finalize", "pre_llm_call",
                     "pre_approval_request", "post_approval_response", "pre_gateway_dispatch"):
            ctx.register_hook(hook, note(hook))
        ctx.register_hook("pre_gateway_dispatch", spoil)
        ctx.register_command("leave", leave)
        ctx.register_command("brew-tea", lambda text: f"tea {text}", "Makes tea.", "[KIND]")
        ctx.register_tool("probe", "probe", {"description": "probe"}, lambda args: "probed")
"""


@pytest.fixture(autouse=True)
def fresh_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plugins, "_plugin_manager", None)
    yield
    plugins.get_plugin_manager().clear()
    for name in [name for name in sys.modules if name.startswith("hermes_plugins")]:
        del sys.modules[name]


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    folder = home / "plugins" / "probe"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: probe\n")
    (folder / "__init__.py").write_text(textwrap.dedent(PROBE))
    with House(home, lab.base_url, pretend={"owner": "olga"}, plugins={"enabled": ["probe"]}) as house:
        yield house


def told(hook: str) -> list[dict[str, Any]]:
    return [facts for name, facts in sys.modules["hermes_plugins.probe"].TOLD if name == hook]


def test_a_new_conversation_is_told_with_the_ids_of_both(house: House) -> None:
    """B10: the new session is named when there is one."""
    olga = house.person("olga")
    olga.ask("hello")
    first = told("on_session_start")[0]["session_id"]
    olga.ask("/new")
    (over,) = told("on_session_finalize")
    assert (over["session_id"], over["reason"], over["old_session_id"]) == (first, "new_session", first)
    olga.ask("hello again")
    (reset,) = told("on_session_reset")
    second = told("on_session_start")[1]["session_id"]
    assert (reset["session_id"], reset["old_session_id"], reset["reason"]) == (second, first, "new_session")
    assert house.gateway.store.session(second) is not None
    assert [facts["platform"] for facts in told("pre_llm_call")] == ["pretend", "pretend"]


def test_they_are_told_exactly_what_is_documented(house: House) -> None:
    olga = house.person("olga")
    olga.ask("hello")
    olga.ask("/new")
    olga.ask("hello again")
    moved = {"session_id", "platform", "reason", "old_session_id", "new_session_id", "telemetry_schema_version"}
    for hook in ("on_session_finalize", "on_session_reset"):
        (facts,) = told(hook)
        assert (set(facts), facts["platform"]) == (moved, "pretend")
    seen = told("pre_gateway_dispatch")
    assert [facts["event"].text for facts in seen] == ["hello", "/new", "hello again"]
    assert {name for facts in seen for name in facts} == {
        *("event", "gateway", "session_store", "telemetry_schema_version")
    }
    endings.tell_shutdown(house.gateway.runner.list_agents())
    assert set(told("on_session_finalize")[1]) == moved - {"old_session_id", "new_session_id"}


def test_the_end_of_the_process_is_told(house: House) -> None:
    house.person("olga").ask("hello")
    endings.tell_shutdown(house.gateway.runner.list_agents())
    (over,) = told("on_session_finalize")
    assert (over["platform"], over["reason"]) == ("gateway", "shutdown")


def test_the_terminal_has_words_of_its_own(house: House) -> None:
    endings.tell_finalized("s1", "cli", endings.NEW)
    endings.tell_finalized("s2", "telegram", endings.EXPIRED)
    assert [facts["reason"] for facts in told("on_session_finalize")] == ["session_boundary", "session_expired"]


def test_commands_are_offered_and_run_with_either_sign(house: House) -> None:
    olga = house.person("olga")
    assert "/brew-tea [KIND] – Makes tea." in "\n".join(olga.ask("/help"))
    assert olga.ask("/brew_tea green") == ["tea green"]


@pytest.mark.parametrize(("way", "word"), [("exit", "SystemExit"), ("cancel", "CancelledError")])
def test_a_command_that_wants_to_end_the_program_ends_itself(house: House, way: str, word: str) -> None:
    """C2: `argparse` in a plugin's command does that at each word that it does not know."""
    olga = house.person("olga")
    (answer,) = olga.ask(f"/leave {way}")
    assert answer.startswith(f"The command /leave of the plugin probe failed ({word}")
    assert olga.ask("/brew_tea green") == ["tea green"]


def test_a_message_that_a_plugin_spoils_is_answered_all_the_same(house: House) -> None:
    """C2"""
    olga = house.person("olga")
    assert olga.ask("spoil")[0].startswith("You said: spoil")
    assert olga.ask("halve")[0].startswith("You said: \ufffd half")


def test_what_a_plugin_registered_is_gone_when_it_is_disabled(house: House) -> None:
    """H6: at once, in a running gateway."""
    olga = house.person("olga")
    assert olga.ask("/brew-tea") == ["tea "]
    house.write_settings(plugins={"enabled": [], "disabled": ["probe"]})
    wait_until(lambda: "brew-tea" not in plugins.get_plugin_commands())
    manager = plugins.get_plugin_manager()
    assert not manager.has_hook("pre_llm_call")
    assert "probe" not in manager._plugin_tool_names
    assert olga.ask("/brew-tea") != ["tea "]
