"""Memory providers as folders of the home, and a host that knows nothing from the test before."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_rig import WATCHER

from agent import provider_calls
from hermes_base.turn.hooks import NoHooks
from hermes_cli import plugins
from hermes_lab.server import LabServer
from run_agent import AIAgent, memory_binding

LOADED = ("hermes_plugins", "_hermes_user_memory")


@pytest.fixture(autouse=True)
def _fresh_host(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    home.mkdir(exist_ok=True)
    monkeypatch.setattr(plugins, "_plugin_manager", None)
    monkeypatch.setattr(provider_calls, "_under_way", provider_calls._UnderWay())
    memory_binding._told.clear()
    yield
    for name in [name for name in sys.modules if name.startswith(LOADED)]:
        hanging = getattr(sys.modules[name], "GO", None)
        if hanging is not None:
            hanging.set()
        del sys.modules[name]
    provider_calls.drain_all()
    plugins.get_plugin_manager().clear()


@pytest.fixture
def write_provider(home: Path) -> Callable[..., Path]:
    """`write_provider("name", code, cli="…")`: a provider's folder in the home."""

    def write(name: str = "watcher", code: str = WATCHER, **files: str) -> Path:
        folder = home / "plugins" / name
        folder.mkdir(parents=True)
        for file, text in {"__init__": code, **files}.items():
            (folder / f"{file}.py").write_text(textwrap.dedent(text))
        return folder

    return write


@pytest.fixture
def configure(home: Path) -> Callable[..., None]:
    def write(**sections: Any) -> None:
        (home / "config.yaml").write_text(json.dumps(sections))

    return write


@pytest.fixture
def make_agent(lab: LabServer) -> Iterator[Callable[..., AIAgent]]:
    made: list[AIAgent] = []

    def make(provider: str = "watcher", **options: Any) -> AIAgent:
        options = {
            "base_url": lab.base_url,
            "model": "lab-model",
            "api_key": "lab-key-12345678",
            "skip_context_files": True,
            "hooks": NoHooks(),
            "enabled_toolsets": ["memory"],
            "settings": {"memory": {"provider": provider}},
            **options,
        }
        made.append(AIAgent(**options))
        return made[-1]

    yield make
    for agent in made:
        agent.close()
