"""Several settings changed in `config.yaml` at once: all of them or none, so that nobody reads half of a change, such
as a provider with the address of another one."""

from collections.abc import Collection, Mapping
from typing import Any

from hermes_cli import config
from hermes_cli.config import config_edit

Names = tuple[str, ...]


def change_settings(put: Mapping[Names, Any], drop: Collection[Names]) -> None:
    """By the names on the way to each; comments and everything else stay."""

    def change(text: str) -> str:
        for names in drop:
            text = config_edit.drop_by_names(text, names)
        for names, value in put.items():
            text = config_edit.set_by_names(text, names, value)
        return text

    path = config.get_config_path()
    config._rewrite(path, change, f"The changed settings cannot be written into {path}.")


def with_changes(tree: dict[str, Any], put: Mapping[Names, Any], drop: Collection[Names]) -> dict[str, Any]:
    """The same in a copy of what a file holds, which is changed."""
    for names in drop:
        inner: Any = tree
        for name in names[:-1]:
            inner = inner.get(name) if isinstance(inner, dict) else None
        if isinstance(inner, dict):
            inner.pop(names[-1], None)
    for names, value in put.items():
        section = tree
        for name in names[:-1]:
            below = section.get(name)
            section[name] = below if isinstance(below, dict) else {}
            section = section[name]
        section[names[-1]] = value
    return tree
