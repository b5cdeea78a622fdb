"""What `.env` says is in a plugin's environment, and in that of no process that a tool starts (G6)."""

import os

from hermes_base.setting_table import read_settings
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import config
from hermes_cli.config.lent_env import exported_environment
from tools.registry import registry

NOTES_AT_IMPORT = """
    import os
    SEEN = os.environ.get("PROBE_KEY"), os.environ.get("PROBE_URL")
    def register(ctx): pass
"""


def test_a_plugin_reads_its_variables_at_import_and_what_was_exported_wins(home, write_plugin, enable, monkeypatch):
    (home / ".env").write_text("PROBE_KEY=from-the-file\nPROBE_URL=http://file\n")
    monkeypatch.setenv("PROBE_URL", "http://exported")
    write_plugin("probe", NOTES_AT_IMPORT)
    manager = enable("probe")
    assert manager._plugins["probe"].module.SEEN == ("from-the-file", "http://exported")
    assert config.explain("PROBE_KEY").source.startswith(str(home))  # lending moves no value to another home (H2)
    assert config.explain("PROBE_URL").source == "the environment"


def test_without_a_plugin_nothing_is_lent(home, enable):
    (home / ".env").write_text("PROBE_KEY=from-the-file\n")
    enable()
    assert "PROBE_KEY" not in os.environ


def test_what_is_lent_follows_the_file(home, write_plugin, enable):
    (home / ".env").write_text("PROBE_KEY=one\nPROBE_GONE=x\n")
    write_plugin("probe", NOTES_AT_IMPORT)
    enable("probe")
    (home / ".env").write_text("PROBE_KEY=another\n")
    config.lend_env()
    assert os.environ["PROBE_KEY"] == "another"
    assert "PROBE_GONE" not in os.environ
    assert config.env_value("PROBE_KEY") == "another"


def test_g6_no_process_of_a_tool_gets_what_is_lent(home, write_plugin, enable, tmp_path):
    """G6: not even where the settings name the variable, and not for the plain words of a name that is inherited."""
    (home / ".env").write_text("PROBE_KEY=lent-secret-1\nCONDA_PREFIX=lent-prefix-2\n")
    write_plugin("probe", NOTES_AT_IMPORT)
    enable("probe")
    assert os.environ["CONDA_PREFIX"] == "lent-prefix-2"
    assert not {"PROBE_KEY", "CONDA_PREFIX"} & exported_environment().keys()
    settings = read_settings({"terminal": {"env": ["PROBE_KEY"]}, "approvals": {"mode": "auto"}})
    context = ToolContext(task="probe", folder=str(tmp_path), home=home, settings=settings)
    told = registry.dispatch("terminal", {"command": "env"}, context=context)
    assert "PATH=" in told
    assert "lent-" not in told
