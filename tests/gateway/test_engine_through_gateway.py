"""A context engine of somebody else, as a gateway treats it: known before it is needed, and told what is true."""

import logging
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House
from waiting import wait_until

from hermes_cli import plugins
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store

ENGINE = """
    from agent.context_engine import ContextEngine

    class Engine(ContextEngine):
        name = "notes"
        bound = []
        limits = []

        def update_from_response(self, usage): pass
        def should_compress(self, prompt_tokens=None): return False
        def compress(self, messages, current_tokens=None): return messages

        def update_model(self, model, context_length, base_url="", api_key="", provider="", api_mode="", max_tokens=0):
            self.limits.append(max_tokens)
            super().update_model(model, context_length)

        def on_session_start(self, session_id, **facts):
            self.bound.append(session_id)

    def register(ctx):
        ctx.register_context_engine(Engine())
        ctx.register_command("notes", lambda text: "so many notes")
"""


@pytest.fixture(autouse=True)
def fresh_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Plugins and engines of this test alone."""
    monkeypatch.setattr(plugins, "_plugin_manager", None)
    yield
    for name in [name for name in sys.modules if name.startswith("plugins.context_engine.")]:
        del sys.modules[name]


@pytest.fixture
def house(home: Path, lab: LabServer) -> House:
    folder = home / "plugins" / "context_engine" / "notes"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(textwrap.dedent(ENGINE))
    model = {"base_url": lab.base_url, "default": "lab", "max_tokens": 777}
    return House(home, lab.base_url, pretend={"owner": "olga"}, model=model, context={"engine": "notes"})


def engine_class() -> Any:
    return sys.modules["plugins.context_engine.notes"].Engine


def test_its_command_is_there_before_the_first_agent_and_goes_with_it(house: House) -> None:
    with house:
        olga = house.person("olga")
        assert olga.ask("/notes") == ["so many notes"]
        house.write_settings(context={"engine": "compressor"})
        wait_until(lambda: "notes" not in plugins.get_plugin_commands())
        assert olga.ask("/notes") != ["so many notes"]


def test_it_is_told_the_output_limit_and_of_sessions_that_there_are(house: House, home: Path) -> None:
    """E11, B10: no id that was made up, from the first message on."""
    with house:
        house.person("olga").ask("hello")
        house.person("olga").ask("hello again")
        store: Store = house.gateway.store
        bound = engine_class().bound
        assert bound
        assert all(store.session(session) is not None for session in bound)
        assert set(engine_class().limits) == {777}


def test_one_that_is_not_there_is_said_at_the_start(
    home: Path, lab: LabServer, caplog: pytest.LogCaptureFixture
) -> None:
    """H8"""
    with caplog.at_level(logging.WARNING), House(home, lab.base_url, context={"engine": "nowhere"}) as house:
        assert "no context engine called 'nowhere'" in house.gateway.settings_watch.engine_problem
    assert "no context engine called 'nowhere'" in caplog.text
