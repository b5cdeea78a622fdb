"""Keeps which commands of the terminal the loaded plugins brought, for `hermes --help`."""

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from hermes_cli import brought_commands
from hermes_cli.brought_commands import BroughtCommand
from hermes_cli.config.own_files import hold_folder, replace_file

log = logging.getLogger("hermes_cli.plugins")


def keep(commands: Mapping[str, Mapping[str, Any]]) -> None:
    """The plugins are loaded, and these are all that they brought."""
    facts = (each for each in commands.values() if isinstance(each["name"], str))
    _write(BroughtCommand(each["name"], str(each["help"] or each["description"]), each["plugin"]) for each in facts)


def forget(plugins: Collection[str]) -> None:
    """These plugins do not run any more."""
    _write(command for command in brought_commands.read() if command.plugin not in plugins)


def _write(commands: Iterable[BroughtCommand]) -> None:
    now, path = list(commands), brought_commands.find_file()
    if now == brought_commands.read():
        return
    try:
        with hold_folder(path.parent):
            replace_file(path, json.dumps([asdict(command) for command in now], ensure_ascii=True, indent=1))
    except OSError as problem:
        log.warning("%s cannot be written: %s", path, problem)
