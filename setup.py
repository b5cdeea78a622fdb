"""The extras of the package: those of pyproject.toml, and one for each platform whose folder lists what it needs.

`hermes-agent[telegram]` installs what `src/gateway/platforms/telegram/requirements.txt` names; what a platform can do
without, but is better with, stands in `requirements-NAME.txt` there and is `hermes-agent[PLATFORM-NAME]`.
`hermes-agent[platforms]` installs all of it. A folder of tools or of commands with such a list is an extra of its name,
too (`hermes-agent[acp]`, `[mcp]`). Everything else about the package stands in pyproject.toml.
"""

import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
ALL_PLATFORMS = "platforms"


def read_platforms() -> dict[str, list[str]]:
    """What each platform needs beside the core, and, under a name with a hyphen, what more it can use."""
    lists = sorted((ROOT / "src/gateway/platforms").glob("*/requirements*.txt"))
    return {path.parent.name + path.stem.removeprefix("requirements"): _read_lines(path) for path in lists}


def read_folders() -> dict[str, list[str]]:
    """What folders of tools and of commands need beside the core."""
    lists = (path for place in ("tools", "hermes_cli") for path in (ROOT / "src" / place).glob("*/requirements.txt"))
    return {path.parent.name: _read_lines(path) for path in sorted(lists)}


def read_extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    platforms = read_platforms()
    every = sorted({line for lines in platforms.values() for line in lines})
    return {**project["tool"]["hermes"]["extras"], **platforms, **read_folders(), ALL_PLATFORMS: every}


def _read_lines(path: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


if __name__ == "__main__":
    setup(extras_require=read_extras())
