"""Which commands of the terminal plugins brought when they were loaded last: a small file, so that the help names them
without running anybody's code. Imports little: the help is quick."""

import importlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_base.errors import HermesError
from hermes_constants import get_hermes_home

FILE = Path("plugin-seals", ".commands.json")
_NAMES_MEMORY = re.compile(r"""^["']?memory["']?\s*:|"memory"\s*:""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BroughtCommand:
    """`hermes NAME` of a plugin."""

    name: str
    help: str
    plugin: str


def find_file() -> Path:
    return get_hermes_home() / FILE


def read() -> list[BroughtCommand]:
    """Those that were there when plugins were loaded last; none where nobody knows."""
    try:
        kept = json.loads(find_file().read_text(encoding="utf-8"))
        return [BroughtCommand(*(str(row[field]) for field in ("name", "help", "plugin"))) for row in kept]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def read_all() -> list[BroughtCommand]:
    """With that of the chosen memory. Only where the settings speak of one is it looked for, which imports more."""
    try:
        settings = (get_hermes_home() / "config.yaml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return read()
    if not _NAMES_MEMORY.search(settings):
        return read()
    memory: Any = importlib.import_module("plugins.memory")
    try:
        found = memory.describe_cli_command()
    except HermesError:  # settings that cannot be read are told elsewhere
        return read()
    return [*read(), *([found] if found is not None else [])]
