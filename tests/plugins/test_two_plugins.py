"""H8: what two plugins bring under one name is told of both, with whose is used; what one brought goes with it."""

import json

import pytest

from gateway.platform_registry import platform_registry
from gateway.platforms import platform_list
from hermes_cli import plugins, plugins_cmd
from hermes_cli.brought_commands import find_file
from hermes_cli.main import run as run_hermes
from hermes_cli.main import write_help
from hermes_cli.plugins.plugin_clashes import list_clashes
from tools.browser.lending import lent_browsers
from tools.registry import registry

BRINGS = """
def setup(parser):
    parser.set_defaults(func=lambda args: print({name!r}))

def register(ctx):
    ctx.register_command("note", lambda text: {name!r})
    ctx.register_cli_command("jot", "Jot it down.", setup)
    ctx.register_tool("jot", "jotting", {{"description": {name!r}}}, lambda args, **_: {name!r})
"""


@pytest.fixture
def both(write_plugin, enable):
    for name in ("alpha", "beta"):
        write_plugin(name, BRINGS.format(name=name))
    return enable("alpha", "beta")


def test_both_are_told_and_the_later_one_is_used(both, capsys):
    told = {name: list_clashes(both._plugins[name], both) for name in ("alpha", "beta")}
    for what in ("command: /note", "cli command: jot", "tool: jot"):
        assert f"{what}: the plugin beta has one, too; that one is used, since it is loaded later" in told["alpha"]
        assert f"{what}: the plugin alpha has one, too; this one is used, since it is loaded later" in told["beta"]
    assert plugins.get_plugin_command_handler("note")("") == "beta"
    assert registry.dispatch("jot", {}) == "beta"
    for name, other in (("alpha", "beta"), ("beta", "alpha")):
        plugins_cmd.main(["info", name])
        assert f"command: /note: the plugin {other} has one, too" in capsys.readouterr().out
    assert plugins_cmd.main(["enable", "alpha"]) == 0
    assert "cli command: jot: the plugin beta has one, too; that one is used" in capsys.readouterr().out
    plugins_cmd.main(["list", "--enabled", "--json"])
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["alpha"]["clashes"] == told["alpha"]


def test_what_was_covered_returns_when_the_other_one_goes(both, configure):
    configure(plugins={"enabled": ["alpha"]})
    both.follow_settings()
    assert list_clashes(both._plugins["alpha"], both) == []
    assert plugins.get_plugin_command_handler("note")("") == "alpha"
    assert registry.dispatch("jot", {}) == "alpha"


def test_what_lay_below_may_go_first(both, configure):
    configure(plugins={"enabled": ["beta"]})
    both.follow_settings()
    assert registry.dispatch("jot", {}) == "beta"
    configure(plugins={"enabled": []})
    both.follow_settings()
    assert registry.get_entry("jot") is None


def test_a_tool_of_another_plugins_toolset_is_refused_with_its_name(write_plugin, enable, capsys):
    write_plugin("alpha", BRINGS.format(name="alpha"))
    write_plugin("beta", BRINGS.format(name="beta").replace("jotting", "other"))
    host = enable("alpha", "beta")
    assert host._plugins["beta"].refused == {
        "tool: jot": "the plugin alpha has a tool of this name, of the toolset jotting"
    }
    assert registry.dispatch("jot", {}) == "alpha"


OFFERS = """
from agent.browser_provider import BrowserProvider
from agent.web_search_provider import WebSearchProvider

class Search(WebSearchProvider):
    name = "finder"
    def is_available(self): return True
    def search(self, query, limit=5):
        return {{"success": True, "data": {{"web": [{{"title": {name!r}, "url": "https://found.example/"}}]}}}}

class Browser(BrowserProvider):
    name, display_name = "lender", {name!r}
    def is_available(self): return True
    def create_session(self, task_id): return {{}}
    def close_session(self, session_id): return True
    def emergency_cleanup(self, session_id): pass

def register(ctx):
    ctx.register_web_search_provider(Search())
    ctx.register_browser_provider(Browser())
    ctx.register_platform("room", {name!r}, lambda config: None, lambda: True)
"""


@pytest.mark.parametrize("stays", ["alpha", "beta"])
def test_two_offers_of_one_name(stays, write_plugin, enable, configure):
    """Whichever goes, the other one's is used: of a search, a browser and a platform."""
    for name in ("alpha", "beta"):
        write_plugin(name, OFFERS.format(name=name))
    host = enable("alpha", "beta")
    told = [*list_clashes(host._plugins["alpha"], host)]
    assert len(told) == 3
    why = "the plugin beta has one, too; that one is used, since it is loaded later"
    assert f"web search provider: finder: {why}" in told
    found = {"web": {"backend": "finder"}, "network": {"private": ["127.0.0.1"]}}

    def used():
        searched = registry.dispatch("web_search", {"query": "q"})
        owner = next(name for name in ("alpha", "beta") if name in searched)
        return {owner, lent_browsers._lenders["lender"].label, platform_registry.get("room").label}

    configure(plugins={"enabled": ["alpha", "beta"]}, **found)
    assert used() == {"beta"}
    configure(plugins={"enabled": [stays]}, **found)
    host.follow_settings()
    assert used() == {stays}
    assert platform_list.find_spec("room").label == stays
    configure(plugins={"enabled": []}, **found)
    host.follow_settings()
    assert platform_registry.get("room") is None
    assert "lender" not in lent_browsers._lenders


def test_a_command_of_hermes_itself_runs_and_that_is_told(write_plugin, enable):
    write_plugin("alpha", BRINGS.format(name="alpha").replace('"jot", "Jot', '"status", "Jot'))
    host = enable("alpha")
    assert list_clashes(host._plugins["alpha"], host) == ["cli command: status: Hermes has one, and that one runs"]
    assert "Jot it down" not in write_help()


# --- tools that a plugin puts into the registry by itself


DIRECT = """
import threading
from tools.registry import registry

def old(args, **_):
    return "the plugin's"

registry.register("at_import", "own", {"description": "d"}, old)

def register(ctx):
    registry.register("in_register", "own", {"description": "d"}, old)
    registry.register("todo", "own", {"description": "d"}, old, override=True)
    thread = threading.Thread(target=lambda: registry.register("late", "own", {"description": "d"}, old))
    thread.start()
    thread.join()
"""


def test_tools_that_a_plugin_registers_by_itself_go_with_it(write_plugin, enable, configure):
    """And a tool of Hermes that one of them covered is back."""
    ours = registry.get_entry("todo")
    assert ours is not None
    write_plugin("direct", DIRECT)
    host = enable("direct")
    assert {"at_import", "in_register", "todo"} <= set(host._plugins["direct"].tools_registered)
    assert registry.dispatch("late", {}) == registry.dispatch("todo", {}) == "the plugin's"
    configure(plugins={"enabled": []})
    host.follow_settings()
    assert not {"at_import", "in_register", "late"} & set(registry.names())
    assert registry.get_entry("todo") == ours


def test_they_go_when_plugins_are_loaded_anew(write_plugin, enable):
    ours = registry.get_entry("todo")
    write_plugin("direct", DIRECT)
    enable("direct")
    host = enable("direct")
    assert registry.dispatch("todo", {}) == "the plugin's"
    host.clear()
    assert registry.get_entry("todo") == ours


# --- the help


def test_the_help_names_the_commands_of_plugins_without_running_them(
    write_plugin, enable, configure, monkeypatch, capsys
):
    write_plugin("alpha", BRINGS.format(name="alpha"))
    assert "jot" not in write_help()
    enable("alpha")
    shown = [line for line in write_help().splitlines() if "jot" in line.split()]
    assert [" ".join(line.split()) for line in shown] == ["jot Jot it down. (alpha)"]
    monkeypatch.setattr(plugins, "_plugin_manager", None)
    assert "Jot it down." in write_help()
    assert plugins._plugin_manager is None  # nobody loaded a plugin for it
    assert run_hermes(["jott"]) == 2
    assert "Did you mean `hermes jot`?" in capsys.readouterr().err
    monkeypatch.setenv("HERMES_SAFE_MODE", "1")
    assert "Jot it down." not in write_help()
    monkeypatch.delenv("HERMES_SAFE_MODE")
    assert plugins_cmd.main(["disable", "alpha"]) == 0
    assert "Jot it down." not in write_help()


def test_a_running_hermes_takes_a_disabled_plugins_commands_out_of_the_help(write_plugin, enable, configure):
    write_plugin("alpha", BRINGS.format(name="alpha"))
    write_plugin("gamma", BRINGS.format(name="gamma").replace('"jot", "Jot', '"hum", "Hum'))
    host = enable("alpha", "gamma")
    configure(plugins={"enabled": ["gamma"]})
    host.follow_settings()
    assert "Jot it down." not in write_help()
    assert "Hum it down." in write_help()


def test_a_record_that_cannot_be_read_costs_the_help_nothing(home):
    find_file().parent.mkdir()
    for text in ("", "{", "[1]", '[{"name": "x"}]', "{}"):
        find_file().write_text(text)
        assert "Commands of plugins" not in write_help()


def test_the_help_names_the_command_of_the_chosen_memory_and_runs_none_of_it(write_plugin, configure):
    manifest = {"name": "diary", "description": "Keeps a diary."}
    write_plugin("diary", "from agent.memory_provider import MemoryProvider\n1 / 0\n", manifest, cli="1 / 0\n")
    configure(memory={"provider": "diary"})
    assert "Keeps a diary. (diary)" in write_help()
    configure(memory={"provider": ""})
    assert "diary" not in write_help()
