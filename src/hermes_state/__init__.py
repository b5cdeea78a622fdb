"""What survives a restart. Plugins find `SessionDB` and `DEFAULT_DB_PATH` here."""

import importlib
from typing import Any

_OFFERED = {"SessionDB": lambda module: module.SessionDB, "DEFAULT_DB_PATH": lambda module: module.find_default_path()}


def __getattr__(name: str) -> Any:
    """Found when somebody asks: it imports from this package, and most who import from here need neither."""
    offer = _OFFERED.get(name)
    if offer is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return offer(importlib.import_module("hermes_state.session_db"))
