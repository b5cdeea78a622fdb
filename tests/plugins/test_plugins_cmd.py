"""`hermes plugins`: the list says what became of each plugin; enabling edits the settings and keeps their comments."""

import pytest

from hermes_base.errors import ConfigProblem
from hermes_cli import config, plugins_cmd
from hermes_cli.plugins import plugin_seals

GOOD = "def register(ctx): pass"
BROKEN = "raise RuntimeError('no luck')"


def test_list(write_plugin, configure, capsys):
    write_plugin("good", GOOD, {"version": "1.2", "description": "Does good."})
    write_plugin("broken", BROKEN)
    write_plugin("resting", GOOD)
    write_plugin("banned", GOOD)
    write_plugin("recall", "MemoryProvider")
    configure(plugins={"enabled": ["good", "broken", "ghost"], "disabled": ["banned"]})
    assert plugins_cmd.main(["list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "banned: disabled, user",
        "broken: failed, user",
        "    no luck",
        "good: on, user, 1.2",
        "    Does good.",
        "recall: chosen by its own setting, user",
        "resting: off, user",
        "ghost: missing; plugins.enabled names it, but it is not installed",
        "Context engines: compressor",
    ]


def test_an_empty_list_says_what_to_do(capsys):
    assert plugins_cmd.main(["list"]) == 0
    assert "hermes plugins enable NAME" in capsys.readouterr().out


def test_safe_mode_is_mentioned(write_plugin, monkeypatch, capsys):
    monkeypatch.setenv("HERMES_SAFE_MODE", "yes")
    write_plugin("good", GOOD)
    plugins_cmd.main(["list"])
    assert "HERMES_SAFE_MODE" in capsys.readouterr().out
    assert plugins_cmd.main(["enable", "good"]) == 0


def test_enable_and_disable_keep_comments(home, write_plugin, capsys):
    write_plugin("good", GOOD)
    file = home / "config.yaml"
    file.write_text("# mine\nplugins:\n  enabled:\n    - other  # the old one\nmodel:\n  default: x  # cheap\n")
    assert plugins_cmd.main(["enable", "good"]) == 0
    assert "good is enabled (on)" in capsys.readouterr().out
    assert file.read_text() == (
        "# mine\nplugins:\n  enabled:\n    - other  # the old one\n    - good\nmodel:\n  default: x  # cheap\n"
    )
    assert plugins_cmd.main(["disable", "good"]) == 0
    settings = config.load_config()["plugins"]
    assert settings["enabled"] == ["other"]
    assert settings["disabled"] == ["good"]
    assert "# the old one" in file.read_text()
    assert plugins_cmd.main(["enable", "good"]) == 0
    assert config.load_config()["plugins"]["disabled"] == []


def test_enabling_twice_changes_nothing(home, write_plugin):
    write_plugin("good", GOOD)
    plugins_cmd.main(["enable", "good"])
    before = (home / "config.yaml").read_text()
    plugins_cmd.main(["enable", "good"])
    assert (home / "config.yaml").read_text() == before


def test_a_plugin_that_does_not_load_is_reported(write_plugin, capsys):
    write_plugin("broken", BROKEN)
    assert plugins_cmd.main(["enable", "broken"]) == 1
    assert "no luck" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["enable", "disable"])
def test_an_unknown_name_changes_nothing(home, write_plugin, action):
    write_plugin("weather", GOOD)
    with pytest.raises(ConfigProblem, match="Did you mean weather"):
        plugins_cmd.main([action, "wether"])
    assert not (home / "config.yaml").exists()


def test_a_plugin_that_is_gone_can_be_disabled(configure):
    configure(plugins={"enabled": ["ghost"]})
    assert plugins_cmd.main(["disable", "ghost"]) == 0
    assert config.load_config()["plugins"]["enabled"] == []


def test_a_memory_provider_may_be_enabled_and_is_chosen_elsewhere(write_plugin, configure, capsys):
    """G10: its own setting has it run."""
    write_plugin("recall", "raise RuntimeError('it runs')  # MemoryProvider")
    assert plugins_cmd.main(["enable", "recall"]) == 0
    assert "hermes memory setup recall" in capsys.readouterr().out
    assert plugin_seals.is_agreed("memory/recall")
    configure(memory={"provider": "recall"})
    assert plugins_cmd.main(["disable", "recall"]) == 0
    assert "hermes memory off" in capsys.readouterr().out


def test_engines_of_plugins_are_listed(write_plugin, configure):
    write_plugin(
        "hermes-lcm",
        """
        from agent.context_engine import ContextEngine
        class Engine(ContextEngine):
            name = "lcm"
            def update_from_response(self, usage): pass
            def should_compress(self, prompt_tokens=None): return False
            def compress(self, messages, current_tokens=None): return messages
        def register(ctx): ctx.register_context_engine(Engine())
        """,
    )
    configure(plugins={"enabled": ["hermes-lcm"]})
    assert [name for name, _ in plugins_cmd._discover_context_engines()] == ["compressor", "lcm"]
