"""Puts what `.env` says into the environment of this process, where plugins look for it. A variable that was exported
wins over the file; what was put there follows the file."""

import os
from collections.abc import Mapping

_exported: dict[str, str] = {}  # by name: the value that stands in the environment because of us


def read_environment(name: str) -> str:
    """The value that somebody exported; empty: nobody did, or it is only there because of the file."""
    value = os.environ.get(name, "")
    return "" if value == _exported.get(name) else value


def export(variables: Mapping[str, str]) -> None:
    """From now on the environment has these, and no more those of before that are gone."""
    for name in [name for name in _exported if name not in variables]:
        _take_back(name)
    for name, value in variables.items():
        if value and not read_environment(name) and "\0" not in value:
            os.environ[name] = _exported[name] = value


def take_all_back() -> None:
    """The environment is what it was."""
    for name in list(_exported):
        _take_back(name)


def _take_back(name: str) -> None:
    if os.environ.get(name) == _exported.pop(name):
        del os.environ[name]
