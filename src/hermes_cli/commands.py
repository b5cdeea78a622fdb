"""Looks up built-in slash commands, so that a plugin cannot take one of their names."""

from hermes_base.command_table import Command, find_command


def resolve_command(name: str) -> Command | None:
    """The built-in command of this name or alias (any case, leading slash allowed), or None."""
    return find_command(name)
