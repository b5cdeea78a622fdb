"""`hermes config`: reads, changes and explains the settings."""

import argparse
import getpass
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from agent.choosing import leave_former
from agent.providers.key_names import find_key_names, find_meant
from agent.providers.table import is_ours, provider_or_custom
from gateway.platforms.platform_list import find_misspelt
from gateway.platforms.section_faults import find_odd_settings, read_switch
from hermes_base import setting_table as table
from hermes_base.errors import ConfigProblem
from hermes_base.settings import NEXT_MESSAGE, Settings
from hermes_base.text.addresses import check_address
from hermes_cli import config
from hermes_cli.cmds import memory_cmd, plugin_notes, setting_notes, store_cmd
from hermes_cli.plugins import agree_to_model
from tools.web.search_table import SERVICES

_UNCHANGED = "Nothing was changed."


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes config", description="Read, change and explain the settings.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="get|set|unset|explain|list|path")
    get = actions.add_parser("get", help="print the value of a setting")
    get.add_argument("key", metavar="KEY")
    change = actions.add_parser("set", help="change a setting, or keep a secret such as OPENROUTER_API_KEY")
    change.add_argument("key", metavar="KEY")
    change.add_argument("value", metavar="VALUE", nargs="?", help="left out: asked for, which keeps a secret unseen")
    drop = actions.add_parser("unset", help="take a setting or a secret out of its file, so that the default holds")
    drop.add_argument("key", metavar="KEY")
    explain = actions.add_parser("explain", help="print a setting's value, where it comes from and what it does")
    explain.add_argument("key", metavar="KEY")
    actions.add_parser("list", help="print all settings")
    actions.add_parser("path", help="print where the settings are kept")
    parsed = parser.parse_args(args)
    return _ACTIONS[parsed.action](parsed)


def _get(parsed: argparse.Namespace) -> int:
    value = config.get_value(parsed.key)
    print(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return 0


def _set(parsed: argparse.Namespace) -> int:
    key = parsed.key
    value = _ask_value(key) if parsed.value is None else parsed.value
    if key == "model.provider" and value and not is_ours(value):
        agree_to_model(value)
    gone = leave_former(value) if key == "model.provider" and value else []
    if key == "model.base_url" and value:
        check_address(value, kept=_UNCHANGED)
    if key == memory_cmd.SETTING:
        memory_cmd.refuse_unknown(value)
    value = read_switch(key, value, _UNCHANGED)
    meant = find_meant(key, read_key_names()) if config.is_env_name(key) else ""
    if meant:  # nobody would ever look the name up
        fix = f"Did you mean {meant}? If it is a name of your own, say so first: hermes config set model.key_env {key}"
        raise ConfigProblem(f"No provider's key is called {key}.", kept=_UNCHANGED, fix=fix)
    store_cmd.try_setting(key, value)
    former = store_cmd.find_former(key)
    found = _find(key, config.set_value(key, value))
    kept_in = config.get_env_path() if config.is_env_name(key) else config.get_config_path()
    print(f"{found.key} = {found.shown or '(empty)'}, kept in {kept_in}. It takes effect {found.takes_effect}.")
    if found.source == "the environment":
        print(f"Note: the environment sets {found.key} too, and wins over the file.")
    for name in gone:
        print(f"Note: model.{name} was written for the provider before, and was taken out. Set it anew if it is meant.")
    for note in (*_find_notes(key), *store_cmd.find_notes(former), *setting_notes.find_notes(key)):
        print(f"Note: {note}")
    if found.breaks_prefix:
        print("Note: a conversation under way then sends its whole prompt anew once, at full price.")
    return 0


def _find_notes(key: str) -> Iterator[str]:
    """What has to be known of a setting, now that it is kept."""
    try:
        given = config.load_settings()
    except ConfigProblem:  # of other settings, and told by whoever reads them
        return
    if key.startswith("platforms."):
        yield from find_misspelt(key.split(".")[1:2])
        yield from (str(one) for one in find_odd_settings(given.platforms) if f"{one.key}.".startswith(f"{key}."))
    yield from memory_cmd.find_notes(key)
    yield from plugin_notes.find_notes(key)
    facts = provider_or_custom(given.model.provider or "custom")
    if key == "model.base_url" and given.model.base_url and facts.base_url and facts.key_env:
        yield f"The key of {facts.label} is sent to this address from now on."


def _unset(parsed: argparse.Namespace) -> int:
    former = store_cmd.find_former(parsed.key)
    print(f"{parsed.key} was taken out of {config.unset_value(parsed.key)}.")
    for note in (*store_cmd.find_notes(former), *setting_notes.find_notes(parsed.key)):
        print(f"Note: {note}")
    return 0


def _find(key: str, found: config.Explanation) -> config.Explanation:
    """Keys of providers are looked up for each message, other variables at the start."""
    return replace(found, takes_effect=NEXT_MESSAGE) if key in read_key_names() else found


def read_key_names() -> frozenset[str]:
    """The names that keys of providers and search services have, with those of the settings where these can be read."""
    searching = {row.key_env for row in SERVICES if row.key_env}
    try:
        return find_key_names(config.load_settings()) | searching
    except ConfigProblem:  # told by whoever reads the settings
        return find_key_names(Settings()) | searching


def _ask_value(key: str) -> str:
    """Read the value from a person without showing it, or from a pipe."""
    if sys.stdin.isatty():
        return getpass.getpass(f"{key}: ")
    line = sys.stdin.readline()
    if not line:
        raise ConfigProblem(f"No value for {key}.", fix=f"Write it behind the name: hermes config set {key} VALUE")
    return line.rstrip("\r\n")


def _explain(parsed: argparse.Namespace) -> int:
    found = _find(parsed.key, config.explain(parsed.key))
    facts = {
        "value": found.shown or "(empty)",
        "source": found.source,
        "shadows": "; ".join(found.shadows) or "nothing",
        "meaning": found.doc,
        "takes effect": found.takes_effect,
        "problem": found.problem,
    }
    print(found.key)
    for name, fact in facts.items():
        if fact:
            print(f"  {name + ':':<13} {fact}")
    if found.breaks_prefix:
        print("  A change makes a conversation under way send its whole prompt anew once, at full price.")
    return 0


def _list(parsed: argparse.Namespace) -> int:  # noqa: ARG001 - all actions are called alike
    for row in table.SETTINGS:
        found = config.explain(row.key)
        changed = "" if found.source == "default" else " (set)"
        choices = f" One of {', '.join(choice for choice in row.choices if choice)}." if row.choices else ""
        print(f"{row.key} = {found.shown}{changed}\n    {row.doc}{choices}")
    return 0


def _path(parsed: argparse.Namespace) -> int:  # noqa: ARG001 - all actions are called alike
    print(config.get_config_path())
    return 0


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {"get": _get, "set": _set, "unset": _unset, "explain": _explain, "list": _list, "path": _path}
)
