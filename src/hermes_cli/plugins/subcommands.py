"""`hermes NAME …` where a plugin brought NAME: its parser is set up by the plugin, and its function is run."""

import argparse
from collections.abc import Sequence

from hermes_cli.plugins import discover_plugins, get_plugin_manager
from hermes_cli.plugins.plugin_context import load_plugin_settings


def run(name: str, args: Sequence[str]) -> int | None:
    """The exit code; None when no plugin brought this command. Without an enabled plugin nothing is searched."""
    if not load_plugin_settings().enabled:
        return None
    discover_plugins()
    entry = get_plugin_manager()._cli_commands.get(name)
    if entry is None:
        return None
    parser = argparse.ArgumentParser(f"hermes {name}", description=entry["description"] or entry["help"])
    if entry["handler_fn"] is not None:
        parser.set_defaults(func=entry["handler_fn"])  # first: a command below it has a function of its own
    entry["setup_fn"](parser)
    parsed = parser.parse_args(list(args))
    work = getattr(parsed, "func", None)
    if work is None:
        parser.print_help()
        return 2
    work(parsed)  # what it gives back says nothing; a plugin that has a code to tell ends with it
    return 0
