"""The built-in tools. A module of this folder registers its tools when it is imported; nothing else names it."""

import importlib
import pkgutil

#: These stand beside the folder, since plugins import them by name.
_BESIDE = ("browser_tool", "memory_tool", "skills_tool", "terminal_tool")


def load_tools() -> None:
    found = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    for name in [*(f"tools.{beside}" for beside in _BESIDE), *found]:
        importlib.import_module(name)
