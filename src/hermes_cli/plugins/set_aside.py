"""Which plugins a running process calls no more, and why: a small file that other commands read.

An entry holds as long as the process that wrote it lives, or until the plugin is enabled again.
"""

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hermes_cli.config.own_files import hold_folder, replace_file
from hermes_cli.plugins.plugin_seals import FOLDER
from hermes_constants import get_hermes_home

log = logging.getLogger("hermes_cli.plugins")

FILE = ".set-aside.json"


def note(plugin: str, why: str) -> None:
    """This process does not call the plugin any more."""
    _change(lambda kept: {**kept, plugin: {"why": why, "process": os.getpid()}})


def forget(plugin: str) -> None:
    """The owner enabled it again: whoever set it aside calls it again."""
    if plugin in read():
        _change(lambda kept: {name: entry for name, entry in kept.items() if name != plugin})


def read() -> dict[str, str]:
    """The plugins that a living process set aside, each with the reason."""
    return {plugin: str(entry["why"]) for plugin, entry in _read_living().items()}


def _change(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = _find_path()
    try:
        with hold_folder(path.parent):
            replace_file(path, json.dumps(change(_read_living()), ensure_ascii=True, indent=1))
    except OSError as problem:
        log.warning("%s cannot be written: %s", path, problem)


def _read_living() -> dict[str, Any]:
    try:
        kept = json.loads(_find_path().read_text(encoding="utf-8"))
        return {str(name): entry for name, entry in kept.items() if _is_alive(int(entry["process"])) and entry["why"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _is_alive(process: int) -> bool:
    with suppress(ProcessLookupError, OverflowError):
        try:
            os.kill(process, 0)
        except PermissionError:
            return True
        return process > 0
    return False


def _find_path() -> Path:
    return get_hermes_home() / FOLDER / FILE
