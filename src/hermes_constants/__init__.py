"""Where the home folder is, and the version: the lowest package, imported by plugins and by everyone else."""

import os
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from hermes_constants.ordinary_files import expand_home

VERSION = "1.0.0"
#: In the home: whoever can read it opens the web page and the API of this machine.
WEB_TOKEN_FILE = "web-token"
STORE_FILE = "hermes-store.db"
SIGN_INS_FOLDER = "browser-sign-ins"
_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})

#: A home that holds for the current context only (set by the turn of another profile); None: the environment decides.
home_override: ContextVar[Path | None] = ContextVar("hermes_home_override", default=None)


class NoHome(RuntimeError):
    """Nobody can say where the home folder is; the sentence is for whoever started the program."""


def get_hermes_home() -> Path:
    """The home folder, read anew at each call: the context's override, then `HERMES_HOME`, then `~/.hermes`."""
    override = home_override.get()
    if override is not None:
        return override
    named = os.environ.get("HERMES_HOME", "").strip()
    return _find_home(named, "" if named and named[0] != "~" else os.environ.get("HOME", ""))


@lru_cache(maxsize=32)
def _find_home(named: str, user_home: str) -> Path:
    """Paths are slow to make, and this one is asked for many times in a turn."""
    del user_home  # what `~` stands for; another one is another answer
    home = expand_home(named or "~/.hermes")
    if home[0] == "~":
        why = f"HERMES_HOME is {named}, and there is no such user." if named else "This user has no folder of its own."
        raise NoHome(f"{why} Set HERMES_HOME to a whole path.")
    return Path(home)


def is_set(variable: str) -> bool:
    """Whether a variable of the environment says yes."""
    return os.environ.get(variable, "").strip().lower() in _TRUE_WORDS


def display_hermes_home() -> str:
    """The home as people write it, with `~`."""
    home, own = str(get_hermes_home()), expand_home("~")
    return f"~{home[len(own) :]}" if home == own or home.startswith(own + os.sep) else home


def get_hermes_dir(new_subpath: str, old_name: str) -> Path:
    """A folder of the home; under its old name where it is there, and the new one is not."""
    home = get_hermes_home()
    old, new = home / old_name, home / new_subpath
    return old if old.exists() and not new.exists() else new
