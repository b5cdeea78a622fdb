"""Which commands of the terminal plugins brought when they were loaded last: a small file, so that the help names them
without running anybody's code. Imports little: the help is quick."""

import json
from dataclasses import dataclass
from pathlib import Path

from hermes_constants import get_hermes_home

FILE = Path("plugin-seals", ".commands.json")


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
