"""`hermes mcp`: the servers whose tools the model has: lists, adds, removes, tries them, and signs in at one."""

import argparse
import asyncio
import importlib
import json
import re
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.secret_files import hide_arguments
from hermes_base.text.addresses import describe_address
from hermes_cli import config
from hermes_cli.cmds.pasted_servers import read_pasted, take_over
from hermes_cli.mcp_server import serve_cmd
from hermes_constants import get_hermes_home
from tools.mcp import mcp_host
from tools.mcp.mcp_memory import FOLDER, TOKENS, file_name, forget, recall
from tools.mcp.mcp_results import clean_line
from tools.mcp.mcp_specs import LEVELS, SECTION, STDIO, ServerSpec, find_variables, read_server, read_servers

SHOWN_CHARS = 90
_ARGUMENTS_WORD = "`hermes mcp add` does not know {odd}."
_PROGRAM_FIX = "A program stands behind two dashes: hermes mcp add NAME -- COMMAND ARGUMENTS"
AFTERWARDS = "New conversations have its tools; /reload-mcp brings them into a running one."


def main(args: list[str]) -> int:
    # What stands behind `--` is the program of a server, with its own options.
    head, program = (args[: args.index("--")], args[args.index("--") + 1 :]) if "--" in args else (args, [])
    parser = argparse.ArgumentParser(
        "hermes mcp", description="Servers (Model Context Protocol) whose tools the model has."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|add|remove|test|login|serve")
    listing = actions.add_parser("list", help="the servers of the settings, and what is known of them")
    usage = "hermes mcp add [OPTIONS] NAME -- COMMAND [ARGUMENTS]\n       hermes mcp add [OPTIONS] NAME URL"
    usage += "\n       hermes mcp add JSON   (as other programs write servers down)"
    about = "add a program (NAME -- COMMAND ARGUMENTS) or an address (NAME URL)"
    add = actions.add_parser("add", help=about, usage=usage)
    add.add_argument("name", metavar="NAME")
    add.add_argument("url", metavar="URL", nargs="?", default="")
    add.add_argument("--transport", choices=("http", "sse"), help="how to speak to the address (http)")
    add.add_argument("-e", "--env", metavar="NAME=VALUE", action="append", default=[], help="a variable of the program")
    add.add_argument("-H", "--header", metavar="NAME=VALUE", action="append", default=[], help="is sent to the address")
    add.add_argument("--level", choices=LEVELS, help="how far the program may reach (work)")
    add.add_argument("--cwd", metavar="FOLDER", help="where the program runs")
    add.add_argument("--trust", action="store_true", help="call its tools without asking")
    remove = actions.add_parser("remove", help="take a server out of the settings, with its tokens")
    test = actions.add_parser("test", help="start a server and list its tools, or say what is wrong")
    login = actions.add_parser("login", help="sign in at the address of a server (OAuth)")
    login.add_argument("--paste", action="store_true", help="no browser comes back here: paste where it was led to")
    serve_cmd.add_options(actions.add_parser("serve", help="let other programs speak with Hermes"))
    for action in (remove, test, login):
        action.add_argument("name", metavar="NAME")
    for action in (listing, test):
        action.add_argument("--json", action="store_true", help="for programs")
    parsed, odd = parser.parse_known_args(head)
    if odd and parsed.action == "add":
        raise ConfigProblem(_ARGUMENTS_WORD.format(odd=" ".join(odd)[:SHOWN_CHARS]), fix=_PROGRAM_FIX)
    if odd:
        parser.error(f"unrecognized arguments: {' '.join(odd)}")
    if program and parsed.action != "add":
        parser.error("a program is given to `add` only")
    parsed.program = program
    return _ACTIONS[parsed.action](parsed)


# --- list


def _list(parsed: argparse.Namespace) -> int:
    specs, faults = read_servers(config.load_settings().mcp_servers)
    rows = [describe_server(spec) for spec in specs]
    if parsed.json:
        told = [{"server": fault.server, "what": fault.what} for fault in faults]
        print(json.dumps({"servers": rows, "faults": told}, ensure_ascii=False, indent=2))
        return 0
    for row in rows:
        print(f"{row['name']}  {row['where']}  ({', '.join(row['notes'])})")
    for fault in faults:
        print(f"{fault.server}: {fault.what}")
    if not specs and not faults:
        print("There are no servers. `hermes mcp add NAME -- COMMAND` or `hermes mcp add NAME URL` adds one.")
    return 0


def describe_server(spec: ServerSpec) -> dict[str, Any]:
    """A server as people see it, without starting it; no secret stands in it."""
    home = get_hermes_home()
    known = recall(home, spec)
    tools = None if known is None else len(known.offered(spec))
    notes = ["on" if spec.enabled else "off", "tools not known yet" if tools is None else f"{tools} tools"]
    if spec.transport == STDIO:
        notes.append(f"level {spec.level}")
    elif (home / FOLDER / TOKENS / f"{file_name(spec.name)}.json").exists():
        notes.append("signed in")
    notes.append("trusted" if spec.trust is True else "asks" if not spec.trust else f"trusted: {len(spec.trust)} tools")
    where = (
        " ".join((spec.command, *hide_arguments(spec.args))) if spec.transport == STDIO else describe_address(spec.url)
    )
    shown = config.redactor()(where)
    return {
        "name": spec.name,
        "where": shown if len(shown) <= SHOWN_CHARS else shown[: SHOWN_CHARS - 1] + "…",
        "transport": spec.transport,
        "enabled": spec.enabled,
        "tools": tools,
        "notes": notes,
    }


# --- add, remove


def _add(parsed: argparse.Namespace) -> int:
    pasted = next((text for text in (parsed.url, parsed.name) if text.lstrip().startswith("{")), "")
    if not pasted:
        _check_words(parsed)
        return _write_down({parsed.name: _make_entry(parsed)})
    found = read_pasted(pasted, parsed.name if pasted is parsed.url else "")
    taken = {name: take_over(entry) for name, entry in found.items()}
    done = _write_down({name: entry for name, (entry, _) in taken.items()})
    for name, (entry, left) in taken.items():
        if variables := find_variables(json.dumps(entry)):
            print(f"{name} is given what these say in .env or the environment: {', '.join(variables)}")
        if left:
            print(f"Left out of {name}, as it is for you to say: {', '.join(map(clean_line, left))}")
    return done


def _check_words(parsed: argparse.Namespace) -> None:
    name, url = parsed.name, parsed.url
    if not url and not parsed.program:
        what = f"{name} has neither a command nor a url."
        raise ConfigProblem(what, fix=f"{_PROGRAM_FIX}. An address: hermes mcp add NAME URL")
    if url and "://" not in url:
        what = f"{url[:SHOWN_CHARS]} is no address: none begins without http:// or https://."
        raise ConfigProblem(what, fix=_PROGRAM_FIX)


def _write_down(entries: Mapping[str, dict[str, Any]]) -> int:
    known, specs = config.load_settings().mcp_servers, {}
    for name, entry in entries.items():
        if name in known:
            raise ConfigProblem(f"There is a server called {name}.", fix=f"`hermes mcp remove {name}` takes it out.")
        specs[name] = read_server(name, entry)  # says what is wrong before anything is written
    for name, entry in entries.items():
        for key, value in entry.items():
            config.set_path((SECTION, name, key), value)
        _tell_added(specs[name])
    return 0


def _tell_added(spec: ServerSpec) -> None:
    print(f"Added {spec.name}. {AFTERWARDS}")
    plain = [key for key, text in (*spec.env.items(), *spec.headers.items()) if "${" not in text]
    if plain:
        told = " and ".join(plain)
        print(f"The value of {told} stands in {config.get_config_path()}. A secret is better kept in .env: set it with")
        print("`hermes config set NAME`, and write ${NAME} in its place.")
    print(f"Try it: hermes mcp test {spec.name}")


def _make_entry(parsed: argparse.Namespace) -> dict[str, Any]:
    command, *words = parsed.program or [""]
    given = {
        "command": command,
        "args": words,
        "url": parsed.url,
        "transport": parsed.transport,
        "env": _read_pairs(parsed.env, "="),
        "headers": _read_pairs(parsed.header, "=:"),
        "cwd": parsed.cwd,
        "level": parsed.level,
        "trust": parsed.trust,
    }
    return {key: value for key, value in given.items() if value}


def _read_pairs(given: Sequence[str], signs: str) -> dict[str, str]:
    """`Name: value`, as headers are written, too."""
    pairs = {}
    for pair in given:
        name, sign, value = [*re.split(f"([{signs}])", pair, maxsplit=1), "", ""][:3]
        if not sign or not name.strip():
            raise ConfigProblem(f"'{name[:40]}' is not NAME=VALUE.")
        pairs[name.strip()] = value.strip() if sign == ":" else value
    return pairs


def _remove(parsed: argparse.Namespace) -> int:
    if not config.unset_path((SECTION, parsed.name)):
        raise ConfigProblem(f"There is no server called {parsed.name}.", fix="`hermes mcp list` shows them.")
    forget(get_hermes_home(), parsed.name)
    print(f"Removed {parsed.name}, with its tokens and what was known of its tools.")
    return 0


# --- test


def _test(parsed: argparse.Namespace) -> int:
    """The server is started here, whether a gateway runs or not."""
    spec = _find_server(parsed.name)
    settings = config.load_settings()
    host = mcp_host.host_of(get_hermes_home())
    try:
        host.take_settings(settings)
        known = host.look(spec.name)
        welcome = host.welcome(spec.name)
    except (HermesError, TimeoutError) as problem:
        return _tell_fault(parsed, config.redactor()(str(problem) or "It did not answer in time."))
    finally:
        mcp_host.close_all()
    tools = [{"name": tool.name, "description": tool.description} for tool in known.offered(spec)]
    about = welcome.get("serverInfo") or {}
    named = clean_line(f"{about.get('name', '')} {about.get('version', '')}")
    if parsed.json:
        print(json.dumps({"ok": True, "server": named, "tools": tools}, ensure_ascii=False, indent=2))
        return 0
    others = [word for word, is_there in (("resources", known.resources), ("prompts", known.prompts)) if is_there]
    print(f"{spec.name} answers: {named}, {len(tools)} tools{''.join(f', {word}' for word in others)}.")
    for tool in tools:
        told = tool["description"]
        print(f"  {tool['name']}  {told if len(told) <= SHOWN_CHARS else told[: SHOWN_CHARS - 1] + '…'}")
    return 0


def _tell_fault(parsed: argparse.Namespace, fault: str) -> int:
    if parsed.json:
        print(json.dumps({"ok": False, "fault": fault}, ensure_ascii=False, indent=2))
    else:
        print(fault, file=sys.stderr)
    return 1


def _find_server(name: str) -> ServerSpec:
    section = config.load_settings().mcp_servers
    if name not in section:
        raise ConfigProblem(f"There is no server called {name}.", fix="`hermes mcp list` shows them.")
    spec = read_server(name, section[name])
    if not spec.enabled:
        fix = f"`hermes config set {SECTION}.{name}.enabled true` turns it on."
        raise ConfigProblem(f"The server {name} is off.", fix=fix)
    return spec


# --- login


def _login(parsed: argparse.Namespace) -> int:
    spec = _find_server(parsed.name)
    if spec.transport == STDIO:
        raise ConfigProblem(f"{spec.name} is a program: there is nowhere to sign in.")
    mcp_host.load_live()
    oauth = importlib.import_module("tools.mcp.live.oauth_tokens")
    place = oauth.ServerPlace(get_hermes_home(), config.load_settings(), config.env_value)
    asyncio.run(oauth.sign_in(spec, place, _show_address, _read_pasted if parsed.paste else None))
    print(f"Signed in at {spec.name}. {AFTERWARDS}")
    return 0


def _show_address(url: str) -> None:
    print(f"Sign in here:\n\n  {url}\n", flush=True)
    with suppress(webbrowser.Error):
        webbrowser.open(url)


async def _read_pasted() -> str:
    print("When the browser shows that it cannot go on, paste the address that it was led to:", flush=True)
    pasted: str = await asyncio.to_thread(sys.stdin.readline)
    return pasted.strip()


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {"list": _list, "add": _add, "remove": _remove, "test": _test, "login": _login, "serve": serve_cmd.serve}
)
