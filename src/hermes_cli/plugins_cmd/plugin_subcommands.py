"""`hermes NAME …` where a plugin registered NAME: no command of ours is ever asked for here."""

import argparse
import logging

from hermes_base.errors import HermesError
from hermes_cli import plugins as plugin_host
from hermes_cli.plugins.plugin_context import load_plugin_settings

log = logging.getLogger("hermes_cli.plugins")


def run(name: str, args: list[str]) -> int | None:
    """The exit code; None: no plugin has such a command."""
    if not load_plugin_settings().enabled:
        return None
    plugin_host.discover_plugins()
    command = plugin_host.get_plugin_manager()._cli_commands.get(name)
    if command is None:
        return None
    parser = argparse.ArgumentParser(f"hermes {name}", description=command["description"] or command["help"])
    try:
        command["setup_fn"](parser)
        if command["handler_fn"] is not None:
            parser.set_defaults(func=command["handler_fn"])
        parsed = parser.parse_args(args)
        perform = getattr(parsed, "func", None)
        if perform is None:
            parser.print_help()
            return 2
        plugin_host.resolve_plugin_command_result(perform(parsed))
    except Exception as problem:
        log.debug("the command %s of plugin %s failed", name, command["plugin"], exc_info=True)
        what = f"The command {name} of the plugin {command['plugin']} failed: {problem or type(problem).__name__}."
        raise HermesError(what, fix="HERMES_PLUGINS_DEBUG=1 shows where.") from problem
    return 0
