"""Loading: folders as packages, entry points of both forms, and failures that stay with their plugin."""

import sys
import threading

import pytest

import model_tools
from hermes_cli import plugins
from hermes_cli.plugins import plugin_seals

GOOD = """
    def register(ctx):
        ctx.register_hook("post_llm_call", lambda **facts: "good")
"""


def test_relative_imports_work(write_plugin, enable):
    write_plugin(
        "two-parts",
        """
        from .part import answer
        from . import other
        def register(ctx):
            ctx.register_hook("post_llm_call", lambda **facts: (answer(), other.NAME, __name__, __package__))
        """,
        part="from .other import NAME\ndef answer(): return NAME + '!'",
        other="NAME = __name__",
    )
    enable("two-parts")
    name = "hermes_plugins.two_parts"
    assert plugins.invoke_hook("post_llm_call") == [(f"{name}.other!", f"{name}.other", name, name)]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise RuntimeError('no luck')", "no luck"),
        ("import not_installed_anywhere", "No module named 'not_installed_anywhere'"),
        ("import sys; sys.exit(3)", "3"),
        ("def broken(:", "invalid syntax"),
        ("raise ValueError", "ValueError"),
        ("def register(ctx): raise KeyError('inside')", "inside"),
        ("x = 1", "no register() function"),
        (None, "has no __init__.py"),
    ],
)
def test_a_broken_plugin_stays_alone(write_plugin, enable, code, error, caplog):
    write_plugin("a-broken", code)
    write_plugin("b-good", GOOD)
    manager = enable("a-broken", "b-good")
    broken = manager._plugins["a-broken"]
    assert not broken.enabled
    assert error in broken.error
    assert "a-broken" in caplog.text
    assert plugins.invoke_hook("post_llm_call") == ["good"]
    assert [row["error"] is None for row in manager.list_plugins()] == [False, True]


def test_what_was_registered_before_the_failure_stays(write_plugin, enable):
    write_plugin("half", GOOD + "        raise RuntimeError('later')\n")
    manager = enable("half")
    assert manager._plugins["half"].hooks_registered == ["post_llm_call"]
    assert plugins.invoke_hook("post_llm_call") == ["good"]


def test_one_that_failed_is_dropped_when_it_is_disabled(write_plugin, enable, configure):
    write_plugin("half", GOOD + "        raise RuntimeError('later')\n")
    manager = enable("half")
    manager.follow_settings()
    assert plugins.invoke_hook("post_llm_call") == ["good"]
    configure(plugins={"enabled": [], "disabled": ["half"]})
    manager.follow_settings()
    assert plugins.invoke_hook("post_llm_call") == []
    assert manager._plugins["half"].error == plugins.DISABLED


def test_a_failed_import_leaves_no_module_behind(write_plugin, enable):
    write_plugin("broken", "from . import part\nraise RuntimeError", part="")
    enable("broken")
    assert not [name for name in sys.modules if name.startswith("hermes_plugins.broken")]


def test_discovery_happens_once_unless_forced(write_plugin, enable):
    write_plugin("counted", GOOD)
    manager = enable("counted")
    plugins.discover_plugins()
    plugins.discover_plugins()
    assert len(manager._hooks["post_llm_call"]) == 1
    plugins.discover_plugins(force=True)
    assert len(manager._hooks["post_llm_call"]) == 1


def test_force_loads_changed_code_once_it_is_enabled_again(write_plugin, enable):
    """G10"""
    folder = write_plugin("changing", GOOD, part="")
    enable("changing")
    (folder / "__init__.py").write_text(
        "def register(ctx):\n  ctx.register_hook('pre_verify', lambda **f: 'changed')\n"
    )
    plugins.discover_plugins(force=True)
    assert plugins.invoke_hook("pre_verify") == []
    plugin_seals.agree("changing", folder)
    plugins.discover_plugins(force=True)
    assert plugins.invoke_hook("pre_verify") == ["changed"]
    assert not plugins.has_hook("post_llm_call")


def test_force_without_consent_takes_everything_back(write_plugin, enable):
    write_plugin("gone", GOOD)
    enable("gone")
    manager = enable()
    assert not manager.has_hook("post_llm_call")
    assert manager._plugins["gone"].error == plugins.NOT_ENABLED


def test_a_plugin_may_ask_for_discovery_while_it_registers(write_plugin, enable):
    write_plugin(
        "curious",
        """
        from hermes_cli.plugins import discover_plugins, get_plugin_commands
        def register(ctx):
            discover_plugins()
            ctx.register_hook("post_llm_call", lambda **facts: list(get_plugin_commands()))
        """,
    )
    enable("curious")
    assert plugins.invoke_hook("post_llm_call") == [[]]


def test_a_failed_sweep_may_be_tried_again(monkeypatch):
    def fail():
        raise OSError("disk")

    monkeypatch.setattr(plugins, "find_manifests", fail)
    with pytest.raises(OSError, match="disk"):
        plugins.discover_plugins()
    assert plugins.get_plugin_manager()._discovered is False


def test_a_second_thread_waits_for_the_first(write_plugin, configure):
    write_plugin("slow", "import time\ntime.sleep(0.3)\n" + "def register(ctx): ctx.register_hook('pre_verify', print)")
    configure(plugins={"enabled": ["slow"]})
    seen = []

    def work():
        plugins.discover_plugins()
        seen.append(plugins.has_hook("pre_verify"))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True, True, True]


# --- entry points


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a tiny distribution on the path: a module and its entry points."""

    def write(module: str, code: str, **points: str) -> None:
        site = tmp_path / "site"
        info = site / f"{module}-2.1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 2.1\n")
        lines = [f"{name} = {value}" for name, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{plugins.ENTRY_POINTS_GROUP}]", *lines]))
        (site / f"{module}.py").write_text(code)
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, module, raising=False)

    return write


CODE = "def register(ctx): ctx.register_hook('post_llm_call', lambda **facts: ctx.manifest.name)\nVALUE = 3\n"


@pytest.mark.parametrize("value", ["tiny_plugin_dist", "tiny_plugin_dist:register"])
def test_entry_points_name_a_module_or_the_function(install, enable, value):
    install("tiny_plugin_dist", CODE, tiny=value)
    manager = enable("tiny")
    manifest = manager._plugins["tiny"].manifest
    assert (manifest.source, manifest.path, manifest.version) == ("entrypoint", value, "2.1")
    assert manager._plugins["tiny"].module.__name__ == "tiny_plugin_dist"
    assert plugins.invoke_hook("post_llm_call") == ["tiny"]


def test_an_entry_point_without_register_is_an_error(install, enable):
    install("tiny_plugin_dist", CODE, tiny="tiny_plugin_dist:VALUE")
    assert enable("tiny")._plugins["tiny"].error == "no register() function"


def test_g10_an_installed_package_is_not_imported_without_consent(install):
    install("tiny_plugin_dist", CODE, tiny="tiny_plugin_dist")
    plugins.discover_plugins()
    assert plugins.get_plugin_manager()._plugins["tiny"].error == plugins.NOT_ENABLED
    assert "tiny_plugin_dist" not in sys.modules


def test_the_trace_of_an_async_tool_is_its_own():
    """What a coroutine raises does not come with a fault of ours in front."""

    async def fail():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as raised:
        model_tools._run_async(fail())
    assert raised.value.__context__ is None
