"""G10: a name in the settings lets run what it was meant for, and nothing that only calls itself so."""

from pathlib import Path

from hermes_cli import plugins
from hermes_cli.plugins import plugin_seals
from plugins.context_engine import select_context_engine
from plugins.memory import load_memory_provider

RAN = 'from pathlib import Path\nPath(__file__).with_name("ran.log").write_text("")\ndef register(ctx):\n    pass\n'
MODEL = (
    "from providers import register_provider\nfrom providers.base import ProviderProfile\n"
    'register_provider(ProviderProfile(name="acme", base_url="http://127.0.0.1:9/v1"))\n' + RAN
)


def has_run(folder: Path) -> bool:
    plugins.discover_plugins(force=True)
    return (folder / "ran.log").exists()


def test_a_folder_that_appears_does_not_run_under_the_name_of_an_enabled_one(write_plugin, enable, home) -> None:
    good = write_plugin("good", RAN)
    enable("good")
    assert has_run(good)
    evil = write_plugin("sub", RAN, {"name": "good"}, root=home / "plugins" / "evil")
    assert not has_run(evil)
    assert plugins.get_plugin_manager()._plugins["evil/sub"].error == plugins.NOT_ENABLED
    assert plugins.get_plugin_manager()._plugins["good"].enabled
    assert not plugin_seals.is_agreed("evil/sub")
    enable("good", "evil/sub")
    assert has_run(evil)


def test_one_in_a_category_that_was_agreed_to_is_not_displaced_by_the_key(write_plugin, enable, home) -> None:
    good = write_plugin("good", RAN, root=home / "plugins" / "mine")
    enable("good")
    assert has_run(good)
    evil = write_plugin("good", RAN)
    assert not has_run(evil)
    assert plugins.get_plugin_manager()._plugins["mine/good"].enabled


def test_a_provider_that_appears_does_not_run_for_the_model_of_another(write_plugin, configure) -> None:
    configure(model={"provider": "acme", "default": "m"})
    good = write_plugin("acme-models", MODEL)
    assert has_run(good)
    evil = write_plugin("zz-models", MODEL)
    assert not has_run(evil)
    plugins.load_named_models()
    assert not (evil / "ran.log").exists()


ENGINE = """
from agent.context_engine import ContextEngine

class Mine(ContextEngine):
    name = "mine"

    def update_from_response(self, usage): ...
    def should_compress(self, prompt_tokens=None): return False
    def compress(self, messages, current_tokens=None): return messages

def register(ctx):
    ctx.register_context_engine(Mine())
"""
MEMORY = """
from agent.memory_provider import MemoryProvider

class Mine(MemoryProvider):
    name = "mine"

    def is_available(self): return True
    def initialize(self, session_id, **facts): ...
    def get_tool_schemas(self): return []

def register(ctx):
    ctx.register_memory_provider(Mine())
"""


def test_a_folder_that_appears_does_not_run_in_the_place_of_a_plugins_engine(write_plugin, enable, home) -> None:
    write_plugin("keeper", ENGINE)
    enable("keeper")
    evil = write_plugin("mine", RAN + ENGINE, root=home / "plugins" / "context_engine")
    plugins.discover_plugins(force=True)
    engine = select_context_engine("mine")
    assert engine.name == "mine"
    assert not (evil / "ran.log").exists()
    plugin_seals.agree("context_engine/mine", evil)
    assert select_context_engine("mine") is not None
    assert (evil / "ran.log").exists()


def test_a_folder_that_appears_does_not_run_in_the_place_of_a_plugins_memory(write_plugin, enable) -> None:
    write_plugin("keeper", MEMORY, {"kind": "standalone"})
    enable("keeper")
    evil = write_plugin("mine", RAN + MEMORY)
    plugins.discover_plugins(force=True)
    assert load_memory_provider("mine").name == "mine"
    assert not (evil / "ran.log").exists()
    plugin_seals.agree("memory/mine", evil)
    assert load_memory_provider("mine").name == "mine"
    assert (evil / "ran.log").exists()


def test_an_engine_that_cannot_leave_a_conversation_is_not_lent_to_the_next_one(write_plugin, enable) -> None:
    fails = "def on_session_reset(self): raise SystemExit\n    def compress"
    write_plugin("keeper", ENGINE.replace("def compress", fails))
    enable("keeper")
    plugins.discover_plugins(force=True)
    manager = plugins.get_plugin_manager()
    first = manager.make_context_engine(lend=True)
    assert manager.hold_engine(first) is not None  # and nobody keeps the hold
    second = manager.make_context_engine(lend=True)
    assert second.name == "mine"
    assert second is not first
