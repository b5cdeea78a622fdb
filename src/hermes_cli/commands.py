"""The built-in slash commands as plugins look at them: so that none takes a name of theirs, and to list them."""

from dataclasses import dataclass

from hermes_base.command_table import COMMANDS, NOT_HELD_UP, Command, find_command


@dataclass(frozen=True)
class CommandDef:
    name: str
    description: str
    category: str = "Session"
    aliases: tuple[str, ...] = ()
    args_hint: str = ""
    subcommands: tuple[str, ...] = ()
    cli_only: bool = False
    gateway_only: bool = False
    gateway_config_gate: str | None = None


COMMAND_REGISTRY = [
    CommandDef(
        command.name,
        command.summary,
        aliases=command.aliases,
        args_hint=command.args,
        cli_only=not command.in_menu and command.name != "start",
    )
    for command in COMMANDS
]
ACTIVE_SESSION_BYPASS_COMMANDS = NOT_HELD_UP


def resolve_command(name: str) -> Command | None:
    """The built-in command of this name or alias (any case, leading slash allowed), or None."""
    return find_command(name)


def is_gateway_known_command(name: str | None) -> bool:
    """Whether it is one that makes sense in a chat."""
    found = find_command(name) if name else None
    return found is not None and (found.in_menu or found.name == "start")
