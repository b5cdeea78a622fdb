"""The text of `config.yaml` as sections, and where in it something stands."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, YAMLError

from hermes_base.errors import ConfigProblem
from hermes_cli.config import config_edit
from hermes_cli.config.own_files import UNCHANGED


def name_place(path: Path, tree: Any, key: str) -> str:
    line = config_edit.find_line(tree, key.partition("[")[0].split("."))
    return f"{path}, line {line}" if line else str(path)


def parse_sections(path: Path, text: str) -> dict[Any, Any]:
    try:
        tree = config_edit.parse_yaml(text)
    except (YAMLError, ValueError) as error:
        fix = "Correct it, or move the file away to start with the defaults."
        raise ConfigProblem(_describe_yaml(path, error), kept=UNCHANGED, fix=fix) from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        fix = "It must hold sections such as `model:`, with settings indented below them."
        raise ConfigProblem(f"{path} holds {type(tree).__name__} instead of sections.", kept=UNCHANGED, fix=fix)
    return tree


def _describe_yaml(path: Path, error: Exception) -> str:
    mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
    place = f"{path}, line {mark.line + 1}" if mark else str(path)
    reason = error.problem if isinstance(error, MarkedYAMLError) else str(error).partition("\n")[0]
    return f"{place}: this is not valid YAML ({reason})."


def merge(base: dict[str, Any], over: Mapping[Any, Any]) -> dict[str, Any]:
    """`base` with the values of `over`; null in the file means the default."""
    for name, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(name), dict):
            merge(base[name], value)
        elif value is not None or name not in base:
            base[name] = value
    return base
