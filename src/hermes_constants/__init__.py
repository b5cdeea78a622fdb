"""Where the home folder is, and the version: the lowest room, imported by plugins and by everyone else."""

import os
from contextvars import ContextVar
from pathlib import Path

VERSION = "1.0.0"

#: A home that holds for the current context only (set by the turn of another profile); None: the environment decides.
home_override: ContextVar[Path | None] = ContextVar("hermes_home_override", default=None)


def get_hermes_home() -> Path:
    """The home folder, read anew at each call: the context's override, then `HERMES_HOME`, then `~/.hermes`."""
    override = home_override.get()
    if override is not None:
        return override
    named = os.environ.get("HERMES_HOME", "").strip()
    return Path(named).expanduser() if named else Path.home() / ".hermes"
