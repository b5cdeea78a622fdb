"""The rules of .gitignore files, as far as searching needs them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from hermes_base.errors import ToolFailure
from hermes_constants.ordinary_files import open_file
from tools.files.patterns import LinearPattern

_RULE_BYTES = 100_000
_LINE_CHARS = 4_096  # no path is longer
_PARTS = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?[^\]/]+\]|\\.|.", re.DOTALL)
_WILD = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a .gitignore, as an expression over the path below the searched folder."""

    expression: LinearPattern
    ignores: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Rules from the outermost folder inwards: the last that fits decides."""

    rules: tuple[Rule, ...] = ()

    def extended(self, more: Iterable[Rule]) -> "IgnoreRules":
        return IgnoreRules((*self.rules, *more))

    def ignores(self, path: str, *, folder: bool) -> bool:
        for rule in reversed(self.rules):
            if (folder or not rule.folders_only) and rule.expression.fits(path):
                return rule.ignores
        return False


def read_rules(base: str, descriptor: int) -> list[Rule]:
    """The rules of the .gitignore in an open folder; `base` is its path with a slash, empty for the first one."""
    try:
        with open_file(".gitignore", folder=descriptor) as file:
            text = file.read(_RULE_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [rule for line in text.splitlines() if (rule := make_rule(line, base)) is not None]


def make_rule(line: str, base: str = "") -> Rule | None:
    """The rule of one line; None for comments, empty lines and what cannot be read."""
    line = line.rstrip()
    if not line or line.startswith("#") or len(line) > _LINE_CHARS:
        return None
    ignores = not line.startswith("!")
    line = line.removeprefix("!")
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    anywhere = "" if "/" in line else "(?:.*/)?"
    body = ""
    for part in _PARTS.findall(line.lstrip("/")):
        if part in _WILD:
            body += _WILD[part]
        elif part.startswith("[") and len(part) > 2:
            body += "[^" + part[2:] if part[1] == "!" else part
        else:
            body += re.escape(part[1:] if part.startswith("\\") and len(part) == 2 else part)
    try:
        return Rule(LinearPattern(re.escape(base) + anywhere + body), ignores, folders_only) if body else None
    except ToolFailure:
        return None
