"""A home of its own for each test, real plugin folders in it, and a host that knows nothing from the test before."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_cli import plugins

HOST_VARIABLES = (
    "HERMES_SAFE_MODE",
    "HERMES_PLUGINS_DEBUG",
    "HERMES_ENABLE_PROJECT_PLUGINS",
    "HERMES_BUNDLED_PLUGINS",
    "HERMES_PROFILE",
)
LOADED_PACKAGES = ("hermes_plugins", "plugins.context_engine.")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(folder))
    for variable in HOST_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(plugins, "_plugin_manager", None)
    yield folder
    plugins.get_plugin_manager().clear()
    plugins.clear_thread_tool_whitelist()
    for name in [name for name in sys.modules if name.startswith(LOADED_PACKAGES)]:
        del sys.modules[name]


@pytest.fixture
def write_plugin(home: Path) -> Callable[..., Path]:
    """Write a plugin's folder: `write_plugin("name", "code of __init__.py", manifest={...}, root=..., **files)`."""

    def write(name: str, code: str | None, manifest: Any = None, root: Path | None = None, **files: str) -> Path:
        folder = (root or home / "plugins") / name
        folder.mkdir(parents=True)
        if manifest is not False:
            text = manifest if isinstance(manifest, str) else json.dumps({"name": folder.name, **(manifest or {})})
            (folder / "plugin.yaml").write_text(text)
        if code is not None:
            (folder / "__init__.py").write_text(textwrap.dedent(code))
        for module, text in files.items():
            (folder / f"{module}.py").write_text(textwrap.dedent(text))
        return folder

    return write


@pytest.fixture
def configure(home: Path) -> Callable[..., None]:
    """Write `config.yaml`: `configure(plugins={"enabled": [...]})`."""

    def write(**sections: Any) -> None:
        (home / "config.yaml").write_text(json.dumps(sections))

    return write


@pytest.fixture
def enable(configure: Callable[..., None]) -> Callable[..., plugins.PluginManager]:
    """Enable these plugins, load them, and give back the manager."""

    def load(*names: str, **entries: Any) -> plugins.PluginManager:
        configure(plugins={"enabled": list(names), "entries": entries})
        plugins.discover_plugins(force=True)
        return plugins.get_plugin_manager()

    return load
