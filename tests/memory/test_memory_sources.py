"""Where providers come from, what lets them run, and what people are told of one that cannot be used."""

import sys
import textwrap
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from memory_rig import WATCHER, list_calls, loaded

from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.setting_table import read_settings
from hermes_cli import plugins as plugin_host
from hermes_cli import plugins_cmd
from hermes_cli.cmds import config_cmd, doctor, memory_cmd
from plugins import memory

LACKING = """
    import os, pathlib
    from agent.memory_provider import MemoryProvider

    class Lacking(MemoryProvider):
        name = "lacking"
        def is_available(self): return bool(os.environ.get("LACKING_API_KEY"))
        def initialize(self, session_id, **facts): pass
        def get_tool_schemas(self): return []
        def get_config_schema(self):
            return [
                {"key": "key", "description": "Key", "secret": True, "required": True, "env_var": "LACKING_API_KEY"},
                {"key": "mode", "description": "Mode", "default": "fast", "choices": ["fast", "slow"]},
            ]
        def save_config(self, values, hermes_home):
            pathlib.Path(hermes_home, "lacking.txt").write_text(values["mode"])
"""


def test_a_checkout_with_a_setup_script_is_loaded_and_the_script_is_not_run(write_provider: Any) -> None:
    code = "from .inner import Inner\ndef register(ctx):\n    ctx.register_memory_provider(Inner())\n"
    inner = WATCHER.replace("class Watcher", "class Inner")
    write_provider("checkout", code, inner=inner, setup="raise SystemExit('usage: setup.py')", conftest="raise OSError")
    assert memory.find_provider_dir("checkout") is not None
    provider = memory.load_memory_provider("checkout")
    assert provider is not None
    assert type(provider).__name__ == "Inner"
    assert memory.load_memory_provider("checkout") is not provider  # one for each agent, from one module
    assert "_hermes_user_memory.checkout.setup" not in sys.modules


def test_folders_that_nobody_chose_are_listed_and_not_run(write_provider: Any) -> None:
    """G10"""
    write_provider("loud", "raise RuntimeError  # a MemoryProvider")
    write_provider("other", "print('no provider')")
    write_provider("_hidden", WATCHER)
    assert memory.list_memory_provider_names() == ["loud"]
    assert memory.discover_memory_providers() == [("loud", "", True)]
    assert not any(name.startswith("_hermes_user_memory") for name in sys.modules)


def test_changed_code_is_not_loaded_until_it_is_enabled_again(
    make_agent: Any, write_provider: Any, configure: Any, capsys: Any
) -> None:
    """G10"""
    folder = write_provider()
    configure(memory={"provider": "watcher"})
    assert memory.load_memory_provider("watcher") is not None
    del sys.modules["_hermes_user_memory.watcher"]
    (folder / "__init__.py").write_text(textwrap.dedent(WATCHER) + "\nNEW = True\n")
    told: list[Any] = []
    assert make_agent(status_callback=told.append).run_conversation("hello")["completed"]
    assert "its code is not what was enabled" in told[-1].text
    assert "hermes plugins enable memory/watcher" in told[-1].text
    assert "_hermes_user_memory.watcher" not in sys.modules
    assert plugins_cmd.main(["enable", "memory/watcher"]) == 0
    assert make_agent().run_conversation("hello")["completed"]
    assert "sync_turn" in list_calls()
    assert loaded().NEW


def test_a_plugin_may_offer_one_and_each_agent_has_its_own(make_agent: Any, home: Path, configure: Any) -> None:
    folder = home / "plugins" / "bringer"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: bringer\nkind: standalone\n")
    code = "from .inner import Watcher\ndef register(ctx):\n    ctx.register_memory_provider(Watcher())\n"
    (folder / "__init__.py").write_text(code)
    (folder / "inner.py").write_text(textwrap.dedent(WATCHER))
    configure(plugins={"enabled": ["bringer"]}, memory={"provider": "watcher"})
    plugin_host.discover_plugins()
    assert memory.read_chosen() == "watcher"
    first, second = memory.load_memory_provider("watcher"), memory.load_memory_provider("watcher")
    assert first is not None
    assert first is not second
    make_agent().run_conversation("hello")
    calls = [what for what, _, _ in sys.modules["hermes_plugins.bringer.inner"].CALLS]
    assert "prefetch" in calls


def test_an_installed_package_may_bring_one(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "packaged_memory.py").write_text(textwrap.dedent(WATCHER))
    monkeypatch.syspath_prepend(tmp_path)
    group = memory.ENTRY_POINTS_GROUP
    point = metadata.EntryPoint("packaged", "packaged_memory:register", group)
    real = metadata.entry_points

    def find(**wanted: Any) -> Any:
        if wanted.get("group") != group:
            return real(**wanted)
        return metadata.EntryPoints([point] if wanted.get("name", "packaged") == "packaged" else [])

    monkeypatch.setattr(memory.metadata, "entry_points", find)
    assert memory.list_memory_provider_names() == ["packaged"]
    assert memory.load_memory_provider("packaged") is not None
    monkeypatch.delitem(sys.modules, "packaged_memory")
    (tmp_path / "packaged_memory.py").write_text("raise RuntimeError")
    assert memory.load_memory_provider("packaged") is None  # G10: it was changed


# --- one that cannot be used


def examine(name: str) -> list[tuple[str, str, str]]:
    settings = read_settings({"memory": {"provider": name}})
    return [(found.level, found.what, found.fix) for found in doctor.check_memory(settings)]


def test_an_unknown_one_is_refused_and_told(write_provider: Any, make_agent: Any, home: Path) -> None:
    write_provider()
    with pytest.raises(ConfigProblem) as refused:
        config_cmd.main(["set", "memory.provider", "wathcer"])
    assert "There is no memory provider called 'wathcer'" in str(refused.value)
    assert "There is watcher" in str(refused.value)
    assert not (home / "config.yaml").exists()
    [(level, what, fix)] = examine("wathcer")
    assert (level, what) == (doctor.FAIL, "There is no memory provider called 'wathcer'.")
    assert "hermes memory off" in fix
    told: list[Any] = []
    for _ in range(2):  # also of another agent of the conversation
        agent = make_agent("wathcer", status_callback=told.append, gateway_session_key="agent:main:local:dm:1")
        assert agent.run_conversation("hello")["completed"]
        assert agent.run_conversation("again")["completed"]
    assert len(told) == 1
    assert "There is no memory provider called 'wathcer'" in told[0].text


def test_one_that_lacks_its_key_says_what_to_do_until_it_is_set_up(
    write_provider: Any, configure: Any, home: Path, monkeypatch: Any, capsys: Any
) -> None:
    write_provider("lacking", LACKING)
    monkeypatch.setenv("LACKING_API_KEY", "")
    lacks = "The memory provider lacking is not available: LACKING_API_KEY is not set."
    assert config_cmd.main(["set", "memory.provider", "lacking"]) == 0
    assert lacks in capsys.readouterr().out
    [(level, what, fix)] = examine("lacking")
    assert (level, what) == (doctor.FAIL, lacks)
    assert "hermes memory setup lacking" in fix
    assert memory_cmd.main(["status"]) == 1
    assert "Chosen: lacking (not available)." in capsys.readouterr().out
    assert memory_cmd.main(["off"]) == 0
    assert memory.read_chosen() == ""

    assert memory_cmd.main(["setup", "lacking"]) == 1  # without a terminal nobody is asked
    assert "not chosen yet" in capsys.readouterr().out
    monkeypatch.setattr(memory_cmd.sys, "stdin", Terminal())
    monkeypatch.setattr(memory_cmd.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(memory_cmd.getpass, "getpass", lambda question: "secret-key-123456")
    answers = iter(["quick", "slow"])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    assert memory_cmd.main(["setup", "lacking"]) == 0
    assert "LACKING_API_KEY=secret-key-123456" in (home / ".env").read_text().replace('"', "").replace("'", "")
    assert (home / "lacking.txt").read_text() == "slow"
    assert memory.read_chosen() == "lacking"
    assert memory_cmd.main(["status"]) == 0
    assert examine("lacking")[0][0] == doctor.OK


class Terminal:
    def isatty(self) -> bool:
        return True


def test_status_tells_the_last_error(write_provider: Any, configure: Any, capsys: Any) -> None:
    write_provider()
    configure(memory={"provider": "watcher"})
    memory.note_problem("watcher", "The memory provider watcher failed in prefetch (OSError: gone).")
    assert memory_cmd.main(["status"]) == 0
    shown = capsys.readouterr().out
    assert "Chosen: watcher (available)." in shown
    assert "failed in prefetch (OSError: gone)" in shown


def test_its_own_command_is_there_while_it_is_chosen(write_provider: Any, configure: Any, capsys: Any) -> None:
    code = """
        def register_cli(parser):
            parser.add_argument("words", nargs="*")
        async def watcher_command(args):
            print("watched", args.words[0], *args.words[1:])
            return 3
    """
    write_provider(cli=code)
    assert memory_cmd.run_provider_command("watcher", ["a"], str) is None
    configure(memory={"provider": "watcher"})
    assert memory_cmd.run_provider_command("watcher", ["a", "b"], str) == 0
    assert capsys.readouterr().out == "watched a b\n"
    with pytest.raises(HermesError, match=r"The command watcher of the plugin watcher failed \(IndexError"):
        memory_cmd.run_provider_command("watcher", [], str)
