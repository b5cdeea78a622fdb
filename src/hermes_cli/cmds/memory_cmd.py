"""`hermes memory`: which provider keeps what Hermes remembers; chooses one, shows how it is, or goes on without."""

import argparse
import getpass
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from agent.memory_provider import MemoryProvider
from agent.provider_calls import ProviderCalls
from hermes_base.errors import ConfigProblem
from hermes_cli import config
from hermes_cli.plugins import plugin_seals
from hermes_cli.plugins.subcommands import KeepTrace, run_entry
from hermes_constants import get_hermes_home
from plugins import memory

OK, FAILED, INTERRUPTED = 0, 1, 130
SETTING = "memory.provider"
_BUILT_IN = "No provider is chosen: what is remembered stands in the notes of the home (memories/)."
_KEPT = "Nothing was changed."


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes memory", description="Choose what keeps the memory beside the notes.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="setup|status|off")
    setup = actions.add_parser("setup", help="choose a provider and answer what it asks for")
    setup.add_argument("name", metavar="NAME", nargs="?", help="left out: asked for")
    actions.add_parser("status", help="print which provider is chosen, whether it works, and what went wrong last")
    actions.add_parser("off", help="go on without a provider; what it keeps stays with it")
    parsed = parser.parse_args(args)
    return _ACTIONS[parsed.action](parsed)


# --- status, off


def _show_status(parsed: argparse.Namespace) -> int:  # noqa: ARG001 - all actions are called alike
    chosen = memory.read_chosen()
    code = OK
    if not chosen:
        print(_BUILT_IN)
    else:
        choice = memory.select_memory_provider(chosen)
        state = "available" if choice.provider is not None else "not available"
        print(f"Chosen: {chosen} ({state}).")
        if choice.provider is None:
            print(choice.told)
            code = FAILED
        if not config.load_settings().memory.memory_enabled:
            print("It is not used: memory.memory_enabled is false.")
    last = memory.read_problem()
    if last and (not chosen or last.get("provider") == chosen):
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(last["at"]))
        print(f"Last error ({at}): {last.get('problem')}")
    others = [name for name in memory.list_all_names() if name != chosen]
    if others:
        print(f"There is also: {', '.join(others)}. `hermes memory setup NAME` chooses one.")
    return code


def _turn_off(parsed: argparse.Namespace) -> int:  # noqa: ARG001
    before = memory.read_chosen()
    if not before:
        print(_BUILT_IN)
        return OK
    config.set_value(SETTING, "")
    print(f"{before} is not used any more, from the next conversation on (/new). What it keeps stays with it.")
    return OK


# --- setup


def _set_up(parsed: argparse.Namespace) -> int:
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    names = memory.list_all_names()
    try:
        name = parsed.name or (_ask_name(names) if has_terminal else "")
        if not name:
            print(f"Which one? `hermes memory setup NAME`; there is {', '.join(names) or 'none'}. {_KEPT}")
            return FAILED
        refuse_unknown(name)
        agree(name)
        provider = memory.load_memory_provider(name)
        if provider is None:
            raise ConfigProblem(memory.select_memory_provider(name).told, kept=_KEPT)
        keep_answers(provider, ask_fields(provider, has_terminal))
    except (KeyboardInterrupt, EOFError):
        print(f"\n{_KEPT}")
        return INTERRUPTED
    choice = memory.select_memory_provider(name)  # anew: that it is set up says nothing before it was seen to work
    if choice.provider is None:
        print(f"{name} is not chosen yet: {choice.problem} Your answers are kept; run this again when it is there.")
        return FAILED
    config.set_value(SETTING, name)
    print(f"{name} is available and chosen. It takes effect with the next new conversation (/new).")
    return OK


def refuse_unknown(name: str) -> None:
    """A name that nobody has is no choice."""
    if name not in memory.NONE and name not in memory.list_all_names():
        what = f"There is no memory provider called '{name}'."
        raise ConfigProblem(what, kept=_KEPT, fix=memory.describe_others(name))


def agree(name: str) -> bool:
    """The owner lets a provider run as it is now (G10); False: its code is no folder or package of the owner's."""
    code = memory.find_own_code(name)
    if code is not None:
        plugin_seals.agree(memory.name_seal(name), code)
    return code is not None


def _ask_name(names: list[str]) -> str:
    for number, name in enumerate(names, start=1):
        print(f"  {number}  {name}")
    text = input("Number or name: ").strip() if names else ""
    return names[int(text) - 1] if text.isdecimal() and 1 <= int(text) <= len(names) else text


def ask_fields(provider: MemoryProvider, has_terminal: bool) -> list[tuple[Mapping[str, Any], str]]:
    """What the provider wants to know, each with the answer; without a terminal, what stands there already or is its
    default."""
    calls = ProviderCalls(provider.name, print)
    rows: list[Any] = calls.ask("get_config_schema", lambda: list(provider.get_config_schema() or ()), [])
    fields = [row for row in rows if isinstance(row, Mapping) and row.get("key")]
    return [(row, _ask_field(row) if has_terminal else _find_usual(row)) for row in fields]


def _find_usual(row: Mapping[str, Any]) -> str:
    """What an empty answer means: nothing new for a variable that is set, else the default."""
    if row.get("env_var") and config.env_value(str(row["env_var"])):
        return ""
    default = row.get("default")
    return "" if default is None else str(default)


def _ask_field(row: Mapping[str, Any]) -> str:
    usual, is_set = _find_usual(row), bool(row.get("env_var") and config.env_value(str(row["env_var"])))
    choices = [str(choice) for choice in row.get("choices") or ()]
    hints = (f"one of {', '.join(choices)}" if choices else "", str(row.get("url") or ""))
    about = f"{row.get('description') or row['key']}" + "".join(f" ({hint})" for hint in hints if hint)
    shown = "the one that is there" if is_set else usual or ("needed" if row.get("required") else "none")
    while True:
        question = f"{about} [{shown}]: "
        text = (getpass.getpass(question) if row.get("secret") else input(question)).strip() or usual
        if not text or not choices or text in choices:
            return text
        print(f"It is one of {', '.join(choices)}.")


def keep_answers(provider: MemoryProvider, answers: list[tuple[Mapping[str, Any], str]]) -> None:
    """Secrets and what has a variable go to `.env`; the provider keeps the rest."""
    values: dict[str, Any] = {}
    for row, text in answers:
        variable = str(row.get("env_var") or "")
        if variable and text and (row.get("secret") or config.is_env_name(variable)):
            config.set_value(variable, text)
            os.environ[variable] = text
        if not (row.get("secret") and variable) and text:
            values[str(row["key"])] = text
    heard: list[str] = []
    if values:
        calls = ProviderCalls(provider.name, heard.append)
        calls.ask("save_config", lambda: provider.save_config(values, str(get_hermes_home())), None)
    if heard:
        raise ConfigProblem(heard[-1], kept="Secrets are kept in .env; the rest is not.")


# --- for `hermes config set` and the doctor


def find_notes(key: str) -> Iterator[str]:
    """What has to be known after the setting was written."""
    chosen = memory.read_chosen() if key == SETTING else ""
    told = memory.select_memory_provider(chosen).told if chosen else ""
    if told:
        yield told


def run_provider_command(name: str, args: list[str], keep_trace: KeepTrace) -> int | None:
    """The command that the chosen provider brings, if it has this name; None: there is none."""
    found = [command for command in memory.discover_plugin_cli_commands() if command["name"] == name]
    if not found:
        return None
    return run_entry(found[0], args, keep_trace)


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {"setup": _set_up, "status": _show_status, "off": _turn_off}
)
