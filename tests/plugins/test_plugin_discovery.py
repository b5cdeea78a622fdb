"""Which plugins are found and which of them may run: G10, nothing runs because a file appeared."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_cli import plugins
from hermes_cli.plugins import PluginGate, PluginManifest, decide_gate
from hermes_cli.plugins.plugin_sources import find_manifests

MARK = """
    import builtins
    builtins.plugin_ran = True
    def register(ctx):
        pass
"""


@pytest.fixture(autouse=True)
def _no_mark(monkeypatch):
    import builtins

    monkeypatch.setattr(builtins, "plugin_ran", False, raising=False)


def _ran() -> bool:
    import builtins

    return builtins.plugin_ran


@pytest.mark.parametrize(
    ("kind", "source", "enabled", "disabled", "gate"),
    [
        ("standalone", "user", [], [], PluginGate.NOT_ENABLED),
        ("standalone", "user", ["p"], [], PluginGate.LOAD),
        ("standalone", "user", ["cat/p"], [], PluginGate.LOAD),
        ("standalone", "user", ["p"], ["p"], PluginGate.DISABLED),
        ("standalone", "user", ["p"], ["cat/p"], PluginGate.DISABLED),
        ("standalone", "bundled", [], [], PluginGate.NOT_ENABLED),
        ("standalone", "entrypoint", [], [], PluginGate.NOT_ENABLED),
        ("backend", "bundled", [], [], PluginGate.LOAD),
        ("backend", "bundled", [], ["p"], PluginGate.DISABLED),
        ("backend", "user", [], [], PluginGate.NOT_ENABLED),
        ("backend", "user", ["p"], [], PluginGate.LOAD),
        ("platform", "bundled", [], [], PluginGate.DEFERRED),
        ("platform", "project", [], [], PluginGate.NOT_ENABLED),
        ("exclusive", "user", ["p"], [], PluginGate.ELSEWHERE),
        ("exclusive", "bundled", [], [], PluginGate.ELSEWHERE),
        ("model-provider", "user", [], [], PluginGate.KNOWN),
        ("model-provider", "user", [], ["p"], PluginGate.DISABLED),
    ],
)
def test_gates(kind, source, enabled, disabled, gate):
    manifest = PluginManifest("p", kind=kind, source=source, key="cat/p")
    assert decide_gate(manifest, enabled, disabled) is gate


def test_g10_a_folder_that_appeared_does_not_run(write_plugin):
    write_plugin("fresh", MARK)
    plugins.discover_plugins()
    plugin = plugins.get_plugin_manager()._plugins["fresh"]
    assert (plugin.enabled, plugin.error, plugin.module) == (False, plugins.NOT_ENABLED, None)
    assert not _ran()


def test_an_enabled_plugin_runs(write_plugin, enable):
    write_plugin("fresh", MARK)
    manager = enable("fresh")
    assert _ran()
    assert manager._plugins["fresh"].enabled
    assert manager._plugins["fresh"].module.__name__ == "hermes_plugins.fresh"


@pytest.mark.parametrize("setting", ["enabled: fresh", "enabled: {fresh: true}", "enabled:"])
def test_a_setting_that_is_no_list_enables_nothing(home, write_plugin, setting):
    write_plugin("fresh", MARK)
    (home / "config.yaml").write_text(f"plugins:\n  {setting}\n")
    plugins.discover_plugins()
    assert not _ran()


def test_disabled_wins(write_plugin, configure):
    write_plugin("fresh", MARK)
    configure(plugins={"enabled": ["fresh"], "disabled": ["fresh"]})
    plugins.discover_plugins()
    assert plugins.get_plugin_manager()._plugins["fresh"].error == "disabled via config"
    assert not _ran()


def test_safe_mode_finds_nothing(write_plugin, enable, monkeypatch):
    monkeypatch.setenv("HERMES_SAFE_MODE", "1")
    write_plugin("fresh", MARK)
    assert enable("fresh")._plugins == {}
    assert not _ran()


def test_categories_are_searched_one_level_deep(write_plugin, home):
    write_plugin("flat", MARK, {"name": "named"})
    write_plugin("inner", MARK, root=home / "plugins" / "tools")
    write_plugin("deep", MARK, root=home / "plugins" / "tools" / "more")
    assert [manifest.key for manifest in find_manifests()] == ["named", "tools/inner"]


def test_a_plugin_in_a_category_answers_to_key_and_name(write_plugin, home, enable):
    write_plugin("inner", MARK, {"name": "Inner One"}, root=home / "plugins" / "my-tools")
    assert enable("Inner One")._plugins["my-tools/inner"].module.__name__ == "hermes_plugins.my_tools__inner"


def test_a_link_to_a_folder_is_a_plugin(write_plugin, home, tmp_path, enable):
    folder = write_plugin("linked", MARK, root=tmp_path / "elsewhere")
    (home / "plugins").mkdir()
    os.symlink(folder, home / "plugins" / "linked")
    assert enable("linked")._plugins["linked"].enabled


def test_manifest_fields(write_plugin):
    folder = write_plugin(
        "rich",
        MARK,
        """
        version: 1.5
        description: Does things
        author: Ann
        requires_env: [A_KEY, {name: B_KEY}]
        provides_tools: [one]
        hooks: [post_llm_call]
        config_schema: {a: 1}
        """,
    )
    (manifest,) = find_manifests()
    assert manifest == PluginManifest(
        "rich",
        version="1.5",
        description="Does things",
        author="Ann",
        requires_env=["A_KEY", {"name": "B_KEY"}],
        provides_tools=["one"],
        source="user",
        path=str(folder),
        key="rich",
    )


def test_yml_is_read_too(write_plugin):
    folder = write_plugin("short", MARK)
    (folder / "plugin.yaml").rename(folder / "plugin.yml")
    assert [manifest.key for manifest in find_manifests()] == ["short"]


@pytest.mark.parametrize("manifest", ["name: [", "- a list", "\x00", "name: " + "[" * 3_000, "a: &a [*a]"])
def test_an_unreadable_manifest_is_skipped(write_plugin, manifest, caplog):
    write_plugin("broken", MARK, manifest)
    write_plugin("whole", MARK)
    assert [found.key for found in find_manifests()] == ["whole"]
    assert "left out" in caplog.text


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        (None, "def register(ctx): ctx.register_memory_provider(1)", "exclusive"),
        (None, "from agent.memory_provider import MemoryProvider", "exclusive"),
        (None, "register_provider(ProviderProfile())", "model-provider"),
        (None, "register_provider(x)", "standalone"),
        (None, "#" * 8192 + "MemoryProvider", "standalone"),
        ("standalone", "MemoryProvider", "standalone"),
        ("Backend", "", "backend"),
        ("strange", "MemoryProvider", "standalone"),
    ],
)
def test_kinds(write_plugin, kind, code, expected):
    write_plugin("some", code, {"kind": kind} if kind else None)
    assert [manifest.kind for manifest in find_manifests()] == [expected]


def test_project_plugins_need_the_variable(write_plugin, tmp_path, monkeypatch):
    write_plugin("local", MARK, root=tmp_path / ".hermes" / "plugins")
    monkeypatch.chdir(tmp_path)
    assert find_manifests() == []
    monkeypatch.setenv("HERMES_ENABLE_PROJECT_PLUGINS", "true")
    assert [(manifest.key, manifest.source) for manifest in find_manifests()] == [("local", "project")]


def test_bundled_folders_with_their_own_loader_are_skipped(write_plugin, tmp_path, monkeypatch):
    root = tmp_path / "bundled"
    monkeypatch.setenv("HERMES_BUNDLED_PLUGINS", str(root))
    for name in ("memory/a", "context_engine/b", "model-providers/c", "platforms/chat", "image/gen"):
        write_plugin(name, MARK, root=root)
    assert [manifest.key for manifest in find_manifests()] == ["image/gen", "chat"]


def test_a_later_source_replaces_an_earlier_one(write_plugin, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_BUNDLED_PLUGINS", str(tmp_path / "bundled"))
    write_plugin("same", MARK, {"kind": "backend"}, root=tmp_path / "bundled")
    write_plugin("same", MARK)
    assert [manifest.source for manifest in find_manifests()] == ["user"]


def test_a_bundled_backend_needs_no_consent(write_plugin, tmp_path, monkeypatch):
    monkeypatch.setenv("HERMES_BUNDLED_PLUGINS", str(tmp_path / "bundled"))
    write_plugin("engine", MARK, {"kind": "backend"}, root=tmp_path / "bundled")
    plugins.discover_plugins()
    assert _ran()


def test_nothing_bundled_runs_by_default():
    assert find_manifests() == []


def test_a_name_that_is_not_installed_is_mentioned(enable, caplog):
    enable("ghost")
    assert "ghost" in caplog.text


def test_debug_logs_each_decision(write_plugin, monkeypatch, caplog):
    monkeypatch.setenv("HERMES_PLUGINS_DEBUG", "1")
    write_plugin("quiet", MARK)
    plugins.discover_plugins()
    logging.getLogger("hermes_cli.plugins").setLevel(logging.NOTSET)
    assert "quiet (user, standalone): not enabled in config" in caplog.text


def test_import_scans_nothing(tmp_path):
    """The modules are imported with a home that must not be touched."""
    code = (
        "import sys; sys.addaudithook(lambda name, args: print(args[0]) if name in ('open', 'os.listdir', 'os.scandir')"
        " and str(args[0]).startswith(sys.argv[1]) else None)\n"
        "import hermes_cli.plugins, hermes_cli.plugins_cmd, plugins.context_engine, hermes_cli.middleware"
    )
    (tmp_path / "plugins").mkdir()
    (tmp_path / "config.yaml").write_text("")
    environment = {**os.environ, "HERMES_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == ""
    assert sorted(path.name for path in Path(tmp_path).iterdir() if path.name != "home") == ["config.yaml", "plugins"]
