"""`hermes setup`: a few questions, each skippable. All answers are gathered first; a model counts as set up, and is
kept, only after a real call to it went through (H5)."""

import argparse
import getpass
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agent import choosing, probing
from agent.auxiliary_client import find_runtime
from hermes_base.errors import ConfigProblem
from hermes_base.query_values import Probed, ProviderChoice, ProviderView
from hermes_cli import config
from hermes_cli.cmds import platform_setup_cmd, search_setup_cmd
from hermes_cli.cmds.gateway import gateway_cmd

OK, FAILED, INTERRUPTED = 0, 1, 130
WEB = "web"  # no chat app: what searches the web
PASSWORD = "HERMES_WEB_PASSWORD"
SHORTEST_PASSWORD = 8
_SYSTEMD_RUNS = Path("/run/systemd/system")
_UNCHANGED = "Nothing was changed."
_WITHOUT_TERMINAL = """\
This asks questions, and there is no terminal to ask them in. What it would set, set like this:
  hermes config set OPENROUTER_API_KEY    a provider's key, read from standard input
  hermes config set model.provider NAME   who answers, if more than one key is there
  hermes config set model.base_url URL    the address of a model server of your own
  hermes config set model.default NAME    the model
`hermes config list` explains them all. `hermes doctor` says what is missing."""


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes setup", description="Set up a model, and what else one wants at first.")
    parser.add_argument(
        "platform",
        nargs="?",
        metavar="PLATFORM",
        help="set up a chat app instead, such as telegram, or web: the search",
    )
    platform = parser.parse_args(args).platform
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        if platform == WEB:
            return search_setup_cmd.print_without_terminal()
        if platform:
            return platform_setup_cmd.print_without_terminal(platform)
        print(_WITHOUT_TERMINAL)
        return FAILED
    try:
        if platform == WEB:
            return search_setup_cmd.main()
        if platform:
            return platform_setup_cmd.main(platform)
        code, wants_service = _run()
    except (KeyboardInterrupt, EOFError):
        print(f"\n{_UNCHANGED}")
        return INTERRUPTED
    if wants_service:  # after all else, which is kept whatever becomes of this
        return gateway_cmd.main(["install", "--enable"]) or code
    return code


def _run() -> tuple[int, bool]:
    print("Enter skips a question; Ctrl-C leaves everything as it was.\n")
    try:
        runtime = find_runtime(config.load_settings())
        print(f"Now {runtime.model} answers: {runtime.label}, {runtime.source}.")
    except ConfigProblem as problem:
        print(problem)
    choice = _ask_choice()
    password = _ask_password()
    can_install = _SYSTEMD_RUNS.is_dir() and shutil.which("systemctl") is not None
    question = "\nStart Hermes with the machine, as a service? [no]: "
    wants_service = can_install and _ask(question).lower() in ("y", "yes")
    probed = _try(choice)
    if password:
        if config.set_value(PASSWORD, password).source == "the environment":
            print(f"The password is kept, but the environment sets {PASSWORD}, too, and wins.")
        else:
            print("The password is kept; it counts when Hermes starts again.")
        print("To let other machines reach the page: hermes config set web.host 0.0.0.0")
    if probed.ok:
        print("`hermes` opens a chat here; `hermes gateway run` serves the web page.")
        print("`hermes setup telegram` (or another chat app) lets you write to it from there.")
    return OK if probed.ok else FAILED, wants_service


# --- questions


def _ask_choice() -> ProviderChoice | None:
    """Who should answer; None: as it is."""
    views = choosing.list_providers()
    print("\nWho should answer?")
    for number, view in enumerate(views, start=1):
        print(f"  {number:>2}  {view.label:<18}{_describe(view)}".rstrip())
    chosen = _ask_view(views)
    if chosen is None:
        return None
    address = key = ""
    if chosen.asks_address or chosen.local:
        address = _ask(f"Address [{chosen.base_url or 'such as http://127.0.0.1:8000/v1'}]: ")
    if not chosen.local:
        usual = "the one that is there" if chosen.has_key else "none"
        key = getpass.getpass(f"Key for {chosen.label}, not shown [{usual}]: ").strip()
    model = _ask(f"Model [{chosen.default_model or 'the first one there'}]: ")
    return ProviderChoice(chosen.name, key, model, address)


def _describe(view: ProviderView) -> str:
    if view.has_key:
        return "a key is there"
    return "runs on this machine" if view.local and view.default_model else ""


def _ask_view(views: Sequence[ProviderView]) -> ProviderView | None:
    while True:
        text = _ask("Number or name [as it is]: ").lower()
        if not text:
            return None
        if text.isdecimal() and 1 <= int(text) <= len(views):
            return views[int(text) - 1]
        found = [view for view in views if text in (view.name, view.label.lower())]
        if found:
            return found[0]
        print(f"There is no {text!r} in the list.")


def _ask_password() -> str:
    usual = "as it is" if config.env_value(PASSWORD) else "none: this machine only"
    while True:
        first = getpass.getpass(f"\nPassword for the web page from other machines, not shown [{usual}]: ")
        if not first:
            return ""
        if len(first) < SHORTEST_PASSWORD:
            print(f"That is too short: it needs {SHORTEST_PASSWORD} characters.")
        elif getpass.getpass("Once more: ") != first:
            print("The two are not the same.")
        else:
            return first


def _ask(question: str) -> str:
    return input(question).strip()


# --- the probe


def _try(choice: ProviderChoice | None) -> Probed:
    """Make the call; after one that failed, ask again until it goes through or is left as it is."""
    while choice is not None:
        print("\nTrying it with one small call …", flush=True)
        try:
            probed = choosing.use_choice(choice).probed
        except ConfigProblem as problem:
            probed = Probed(False, problem.what + (f" {problem.fix}" if problem.fix else ""))
        if probed.ok:
            print(f"It works: {probed.text}\nKept in {config.get_config_path()}.")
            return probed
        print(f"That did not work. {probed.text}\n{_UNCHANGED}")
        choice = _ask_choice()
    return _try_present()


def _try_present() -> Probed:
    print("\nTrying what is set up with one small call …", flush=True)
    try:
        probed = probing.probe(find_runtime(config.load_settings())).probed
    except ConfigProblem as problem:
        probed = Probed(False, str(problem))
    print(f"It works: {probed.text}" if probed.ok else f"It does not work yet. {probed.text}")
    return probed
