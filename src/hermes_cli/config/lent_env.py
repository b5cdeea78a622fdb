"""What of `.env` stands in the environment of this process: plugins read their variables there, and nobody else does.

A variable that was exported wins over one that is only lent. What is lent follows the file, counts as the file's own
word for everybody who asks where a value is from, and goes to no process that is started here (G6).
"""

import os
import threading
from collections.abc import Mapping

_lent: dict[str, str] = {}
_lock = threading.Lock()


def lend(values: Mapping[str, str]) -> None:
    """Put these into the environment where nobody exported another value; what was lent before and is not among them
    goes."""
    with _lock:
        for name in [name for name in _lent if name not in values]:
            if os.environ.get(name) == _lent.pop(name):
                del os.environ[name]
        for name, value in values.items():
            if value and not find_exported(name):
                os.environ[name] = _lent[name] = value


def put(name: str, value: str) -> None:
    """Have a value that was just kept in `.env` here at once, also in place of one that was exported."""
    with _lock:
        os.environ[name] = _lent[name] = value


def find_exported(name: str) -> str:
    """The value that the process was started with, or was given by somebody since; empty: none."""
    value = os.environ.get(name, "")
    return "" if value and _lent.get(name) == value else value


def exported_environment() -> dict[str, str]:
    """The environment for processes that are started here: without what is lent."""
    return {name: value for name, value in os.environ.items() if _lent.get(name) != value}
