"""Context engines: from a folder, from a plugin, and a new one for each agent."""

import pytest

from agent.context_engine import ContextEngine
from hermes_cli import plugins
from hermes_cli.plugins import plugin_seals
from plugins import context_engine
from plugins.context_engine import discover_context_engines, load_context_engine, select_context_engine

ENGINE = """
    from agent.context_engine import ContextEngine

    class Engine(ContextEngine):
        name = "{name}"
        def __init__(self, held=None):
            self.held = held
            self.seen = []
        def update_from_response(self, usage): pass
        def should_compress(self, prompt_tokens=None): return False
        def compress(self, messages, current_tokens=None): return messages
"""
REGISTER = """
    def register(ctx):
        ctx.register_context_engine(Engine())
"""
DUCK = """
    class Duck:
        name = "duck"
        def is_available(self): return {available}

    def register(ctx):
        ctx.register_context_engine(Duck())
        ctx.register_command("quack", lambda text: text)
        ctx.register_tool("t", "s", {{}}, print)
        ctx.register_hook("post_llm_call", print)
        ctx.register_cli_command("c", "h", print)
        ctx.register_memory_provider(None)
"""


@pytest.fixture
def engine_root(home):
    return home / "plugins" / "context_engine"


def _engine(name="lcm"):
    return ENGINE.format(name=name)


# --- route 1: a folder


def test_register_is_asked_first_and_any_object_will_do(write_plugin, engine_root):
    write_plugin("duck", DUCK.format(available=True), root=engine_root)
    engine = load_context_engine("duck")
    assert type(engine).__name__ == "Duck"
    assert type(engine).__module__ == "plugins.context_engine.duck"
    manager = plugins.get_plugin_manager()
    assert manager._plugin_commands["quack"]["plugin"] == "context-engine:duck"
    assert manager._hooks == {}


def test_each_agent_gets_its_own(write_plugin, engine_root, caplog):
    write_plugin("duck", DUCK.format(available=True), root=engine_root)
    first, second = select_context_engine("duck"), select_context_engine("duck")
    assert first is not second
    assert type(first) is type(second)
    assert caplog.text == ""


def test_else_the_first_class_that_needs_no_arguments(write_plugin, engine_root):
    code = """
    from agent.context_compressor import ContextCompressor
    from . import engine

    class Picky(engine.Engine):
        def __init__(self, model): pass

    class Easy(engine.Engine):
        pass
    """
    write_plugin("plain", code, root=engine_root, engine=_engine("plain"))
    engine = load_context_engine("plain")
    assert type(engine).__name__ == "Easy"
    assert isinstance(engine, ContextEngine)


@pytest.mark.parametrize(
    "code", ["raise RuntimeError('x')", "import sys; sys.exit()", "x = 1", "def register(ctx): raise KeyError"]
)
def test_a_broken_folder_gives_none_and_a_warning(write_plugin, engine_root, code, caplog):
    write_plugin("broken", code, root=engine_root)
    assert select_context_engine("broken") is None
    assert "broken" in caplog.text


@pytest.mark.parametrize("name", ["../duck", "/etc", "..", ".", "", "_private", "nowhere", "a/b"])
def test_names_that_are_no_folder(name, write_plugin, engine_root):
    write_plugin("duck", DUCK.format(available=True), root=engine_root.parent)
    assert load_context_engine(name) is None


def test_another_home_has_another_engine(write_plugin, engine_root, tmp_path, monkeypatch):
    write_plugin("same", _engine("first"), root=engine_root)
    write_plugin("same", _engine("second"), root=tmp_path / "two" / "plugins" / "context_engine")
    assert load_context_engine("same").name == "first"
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "two"))
    assert load_context_engine("same").name == "second"


def test_a_bundled_folder_wins(write_plugin, engine_root, tmp_path, monkeypatch):
    monkeypatch.setattr(context_engine, "_BUNDLED", tmp_path / "bundled")
    write_plugin("same", _engine("bundled"), root=tmp_path / "bundled")
    write_plugin("same", _engine("own"), root=engine_root)
    assert load_context_engine("same").name == "bundled"


def test_commands_of_plugins_are_not_taken_over(caplog):
    manager = plugins.get_plugin_manager()
    manager.add_command("mine", print, "a-plugin")
    context_engine._EngineCollector("duck").register_command("mine", repr)
    assert manager._plugin_commands["mine"]["handler"] is print
    assert "a-plugin" in caplog.text


# --- listing


def test_the_built_in_engine_is_listed_first():
    (row,) = discover_context_engines()
    assert row[0] == "compressor"
    assert row[2] is True


def test_g10_listing_runs_no_folder_that_is_not_chosen(write_plugin, engine_root, configure):
    write_plugin("duck", "raise SystemExit(3)", {"description": "Quacks."}, root=engine_root)
    assert discover_context_engines()[1:] == [("duck", "Quacks.", True)]
    configure(context={"engine": "duck"})
    assert discover_context_engines()[1:] == [("duck", "Quacks.", False)]


@pytest.mark.parametrize(("says", "available"), [("True", True), ("0", False), ("1 / 0", False)])
def test_the_chosen_engine_says_whether_it_is_available(write_plugin, engine_root, configure, says, available):
    write_plugin("duck", DUCK.format(available=says), root=engine_root, manifest=False)
    configure(context={"engine": "duck"})
    assert discover_context_engines()[1:] == [("duck", "", available)]


# --- route 2: a plugin


def test_a_plugins_engine_is_copied_for_each_agent(write_plugin, enable):
    write_plugin("hermes-lcm", _engine() + REGISTER)
    prototype = enable("hermes-lcm")._context_engine
    first, second = select_context_engine("lcm"), select_context_engine("lcm")
    assert len({id(prototype), id(first), id(second)}) == 3
    assert first.seen is not second.seen


def test_an_engine_that_cannot_be_copied_is_registered_again(write_plugin, enable):
    register = """
    import sqlite3

    def register(ctx):
        ctx.register_context_engine(Engine(sqlite3.connect(":memory:", check_same_thread=False)))
        ctx.register_hook("post_llm_call", print)
        ctx.register_tool("lcm_tool", "lcm", {"parameters": {}}, print)
        ctx.register_command("lcm", print)
    """
    write_plugin("hermes-lcm", _engine() + register)
    manager = enable("hermes-lcm")
    engine = select_context_engine("lcm")
    assert engine is not manager._context_engine
    assert engine.held is not manager._context_engine.held
    assert len(manager._hooks["post_llm_call"]) == 1
    assert manager._plugins["hermes-lcm"].tools_registered == ["lcm_tool"]
    for made in (engine, manager._context_engine):
        made.held.close()


@pytest.mark.parametrize("second", ["raise RuntimeError('only once')", "return"])
def test_failing_that_it_is_shared(write_plugin, enable, second, caplog):
    register = f"""
    import threading
    ONE = []

    def register(ctx):
        if ONE:
            {second}
        ONE.append(1)
        ctx.register_context_engine(Engine(threading.Lock()))
    """
    write_plugin("hermes-lcm", _engine() + register)
    manager = enable("hermes-lcm")
    assert select_context_engine("lcm") is manager._context_engine
    assert "share" in caplog.text


def test_registering_does_not_activate(write_plugin, enable, caplog):
    write_plugin("hermes-lcm", _engine() + REGISTER)
    enable("hermes-lcm")
    assert select_context_engine("compressor") is None
    assert select_context_engine("") is None
    assert caplog.text == ""
    assert select_context_engine("other") is None
    assert "other" in caplog.text


def test_one_engine_only_and_only_a_real_one(write_plugin, enable, caplog):
    write_plugin("a-duck", "def register(ctx): ctx.register_context_engine(object())")
    write_plugin("b-first", _engine("first") + REGISTER)
    write_plugin("c-second", _engine("second") + REGISTER)
    enable("a-duck", "b-first", "c-second")
    assert plugins.get_plugin_context_engine().name == "first"
    assert "a-duck" in caplog.text
    assert "c-second" in caplog.text


def test_a_folder_that_was_agreed_to_wins_over_a_plugin(write_plugin, enable, engine_root):
    write_plugin("hermes-lcm", _engine() + REGISTER)
    folder = write_plugin("lcm", DUCK.format(available=True), root=engine_root)
    enable("hermes-lcm")
    assert type(select_context_engine("lcm")).__name__ == "Engine"  # G10: the name means the one that was there
    plugin_seals.agree("context_engine/lcm", folder)
    assert type(select_context_engine("lcm")).__name__ == "Duck"
