"""`hermes plugins`: installs, updates and removes plugins, says what became of each, and lets them run or not."""

import argparse
from collections.abc import Callable, Mapping
from types import MappingProxyType

from hermes_cli.plugins_cmd import (
    plugin_choices,
    plugin_installing,
    plugin_listing,
    plugin_making,
    plugin_updating,
)
from hermes_cli.plugins_cmd.plugin_listing import discover_context_engines

#: Programs of others ask for it under this name.
_discover_context_engines = discover_context_engines

_ALIASES: Mapping[str, str] = MappingProxyType({"ls": "list", "rm": "remove", "uninstall": "remove"})


def main(args: list[str]) -> int:
    parsed = _make_parser().parse_args(args)
    return _ACTIONS[_ALIASES.get(parsed.action, parsed.action)](parsed)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "hermes plugins", description="Plugins: other people's code, which you may let run."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list", aliases=["ls"], help="print the plugins that are installed, and what became of them"
    )
    listing.add_argument("--enabled", action="store_true", help="only those that may run")
    listing.add_argument("--user", action="store_true", help="only those in the home")
    listing.add_argument("--no-bundled", action="store_true", help="without those that came with Hermes")
    form = listing.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="status, source, version and name, with tabs between them")
    form.add_argument("--json", action="store_true", help="for programs")
    _add_coming(actions)
    for name, summary in (("enable", "let a plugin run"), ("disable", "keep a plugin from running")):
        action = actions.add_parser(name, help=summary)
        action.add_argument("name", metavar="NAME")
        if name == "enable":
            action.add_argument(
                "--allow-tool-override", action=argparse.BooleanOptionalAction, help="whether it may replace tools"
            )
            action.add_argument(
                "--allow-own-access",
                dest="own_access",
                action=argparse.BooleanOptionalAction,
                help="whether its chat platform may let people in by rules of its own",
            )
    remove = actions.add_parser("remove", aliases=["rm", "uninstall"], help="take a plugin away")
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("--yes", "-y", action="store_true", help="do not ask")
    info = actions.add_parser("info", help="all that is known of a plugin, and where it failed")
    info.add_argument("name", metavar="NAME")
    search = actions.add_parser("search", help="find plugins in an index: a folder of plugins, or a list")
    search.add_argument("word", metavar="WORD")
    search.add_argument("--in", dest="folder", metavar="FOLDER", help="the index (default: the setting plugins.index)")
    new = actions.add_parser("new", help="make a plugin of your own to start with")
    new.add_argument("name", metavar="NAME")
    new.add_argument("--kind", choices=sorted(plugin_making.KINDS), default="tool", help="what it adds (default: tool)")
    return parser


def _add_coming(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The actions that bring code."""
    install = actions.add_parser("install", help="install a plugin; it stays off until you say yes")
    where = "owner/repo[/folder], an address, a folder, an archive, or pip:NAME"
    install.add_argument("source", metavar="SOURCE", help=where)
    install.add_argument("--force", "-f", action="store_true", help="replace the one of the same name")
    install.add_argument(
        "--enable", action=argparse.BooleanOptionalAction, help="let it run, or not, without a question"
    )
    install.add_argument("--dry-run", action="store_true", help="show everything and change nothing")
    update = actions.add_parser("update", help="bring a plugin up to date, after a look at what changes")
    update.add_argument("name", metavar="NAME")
    update.add_argument("--yes", "-y", action="store_true", help="do not ask")
    update.add_argument("--diff", action="store_true", help="show all lines that change")
    for action in (install, update):
        action.add_argument(
            "--dependencies",
            action=argparse.BooleanOptionalAction,
            help="install the packages it needs, or not, unasked",
        )


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {
        "list": plugin_listing.run_list,
        "install": plugin_installing.run_install,
        "update": plugin_updating.run_update,
        "remove": plugin_updating.run_remove,
        "enable": plugin_choices.run_enable,
        "disable": plugin_choices.run_disable,
        "info": plugin_listing.run_info,
        "search": plugin_listing.run_search,
        "new": plugin_making.run_new,
    }
)
