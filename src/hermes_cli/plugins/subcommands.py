"""`hermes NAME …` where a plugin brought NAME: its parser is set up by the plugin, and its function is run."""

import argparse
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes_base.errors import STOPS, HermesError
from hermes_cli import config as cli_config
from hermes_cli.plugins import discover_plugins, get_plugin_manager, resolve_plugin_command_result
from hermes_cli.plugins.plugin_context import load_plugin_settings

WRONG_USE, FAILED = 2, 1


#: Keeps a trace, and says where.
KeepTrace = Callable[[str], str]


class PluginCommandFailed(HermesError):
    """A plugin's own command broke off."""


def run(name: str, args: Sequence[str], keep_trace: KeepTrace) -> int | None:
    """The exit code; None when no plugin brought this command. Without an enabled plugin nothing is searched."""
    if not load_plugin_settings().enabled:
        return None
    discover_plugins()
    entry = get_plugin_manager()._cli_commands.get(name)
    if entry is None:
        return None
    return run_entry(entry, args, keep_trace)


def run_entry(entry: Mapping[str, Any], args: Sequence[str], keep_trace: KeepTrace) -> int:
    """Run a plugin's command; the exit code, which a plugin tells by `sys.exit`. What breaks off in it says whose it
    was."""
    try:
        return _parse_and_run(entry, args)
    except (HermesError, BrokenPipeError, *STOPS):
        raise
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            raise
        print(leaving.code, file=sys.stderr)  # Python itself does the same with a text
        return FAILED
    except BaseException as problem:  # the boundary to a plugin
        redact, what = cli_config.redactor(), f"{type(problem).__name__}: {problem}".rstrip(": ")
        told = redact(f"The command {entry['name']} of the plugin {entry['plugin']} failed ({what}).")
        raise PluginCommandFailed(told, fix=keep_trace(redact(traceback.format_exc()))) from problem


def _parse_and_run(entry: Mapping[str, Any], args: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(f"hermes {entry['name']}", description=entry["description"] or entry["help"])
    if entry["handler_fn"] is not None:
        parser.set_defaults(func=entry["handler_fn"])  # first: a command below it has a function of its own
    entry["setup_fn"](parser)
    parsed = parser.parse_args(list(args))
    work = getattr(parsed, "func", None)
    if work is None:
        parser.print_help()
        return WRONG_USE
    resolve_plugin_command_result(work(parsed))  # what comes of it is nobody's: plugins end with `sys.exit` for a code
    return 0
