"""Which profile is active, and where a profile's home is: `$HERMES_HOME/profiles/<name>`, or the home itself."""

import os
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_constants import get_hermes_home

DEFAULT_PROFILE = "default"
_FOLDER = "profiles"
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_LONGEST = 64
#: In conversation keys the default profile is written so.
_TAKEN = frozenset({"main"})


def get_active_profile_name() -> str:
    """The name of the profile whose home is in use; never raises."""
    home = get_hermes_home()
    return home.name if _is_profile_home(home) else DEFAULT_PROFILE


def profile_home(name: str) -> Path:
    """The home folder of a profile; a name that cannot be one is a ConfigProblem."""
    home = get_hermes_home()
    root = home.parent.parent if _is_profile_home(home) else home
    return root if check_name(name) == DEFAULT_PROFILE else root / _FOLDER / name


def check_name(name: str) -> str:
    """The name itself, or a ConfigProblem that says what a name looks like."""
    if name in _TAKEN:
        raise ConfigProblem(f'A profile cannot be called "{name}".', fix="Choose another name.")
    if not _is_name(name):
        raise ConfigProblem(
            f"{name!r} is not a profile name.",
            fix=f"Use 1 to {_LONGEST} lower-case letters, digits, - and _, starting with a letter or digit.",
        )
    return name


def select_profile(name: str) -> None:
    """Make a profile's home the home of this process and its children."""
    home = profile_home(name)
    os.environ["HERMES_HOME"] = str(home)
    os.environ["HERMES_PROFILE"] = name


def _is_profile_home(home: Path) -> bool:
    return home.parent.name == _FOLDER and _is_name(home.name) and home.name not in _TAKEN


def _is_name(name: str) -> bool:
    return 0 < len(name) <= _LONGEST and name[0] in _LETTERS and set(name) <= _LETTERS | {"-", "_"}
