"""`hermes setup web`: which service searches the web, its key or address; kept after a search went through (H5)."""

import getpass
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.settings import Settings
from hermes_base.turn.cancel import CancelToken
from hermes_cli import config
from tools.web.search_services import SETTING, TableService
from tools.web.search_table import BY_NAME, SERVICES, ServiceRow, WebHit

OK, FAILED = 0, 1
PROBE = "Hermes, messenger of the gods"
_HITS = 3


@dataclass(frozen=True, slots=True)
class SearchChoice:
    row: ServiceRow
    key: str = ""  # empty: the one that is there
    address: str = ""  # empty: the one that is there, or the service's own


def main() -> int:
    """Ask until a search goes through; Ctrl-C leaves everything as it was."""
    print("Web search. web_extract reads pages without any set-up; to search, Hermes needs one of these services.")
    print("Enter skips a question; Ctrl-C leaves everything as it was.\n")
    while True:
        choice = _ask_choice(config.load_settings())
        if choice is None:
            print("Nothing was changed.")
            return OK
        print("\nTrying it with one search …", flush=True)
        try:
            hits = try_choice(choice, config.load_settings())
        except ToolFailure as problem:
            print(f"That did not work. {problem}\nNothing was changed.\n")
            continue
        _keep(choice)
        told = f"the first of {len(hits)} hits is {hits[0].url}" if hits else "it found nothing, but it answered"
        print(f"It works: {told}.\nKept in {config.get_config_path()}; keys in {config.get_env_path()}.")
        print("New conversations can search (`/new` begins one).")
        return OK


def print_without_terminal() -> int:
    print("This asks questions, and there is no terminal to ask them in. What it would set, set like this:")
    for row in SERVICES:
        what = row.key_env or f"web.{row.name}_url URL"
        print(f"  hermes config set {what:<22} {row.label}: {row.from_where}")
    print(f"  hermes config set {SETTING} NAME      which one, if several are set")
    return FAILED


def try_choice(choice: SearchChoice, settings: Settings) -> Sequence[WebHit]:
    """One real search with what was chosen; nothing is kept."""
    given: dict[str, Any] = {f"{choice.row.name}_url": choice.address} if choice.address else {}
    chosen = replace(settings, web=replace(settings.web, search_backend=choice.row.name, **given))
    service = TableService(choice.row, (lambda _: choice.key) if choice.key else config.env_value)
    return service.search(PROBE, _HITS, chosen, CancelToken())


def _keep(choice: SearchChoice) -> None:
    if choice.key and config.set_value(choice.row.key_env, choice.key).source == "the environment":
        print(f"The key is kept, but the environment sets {choice.row.key_env}, too, and wins.")
    if choice.address:
        config.set_value(f"web.{choice.row.name}_url", choice.address)
    config.set_value(SETTING, choice.row.name)


def _ask_choice(settings: Settings) -> SearchChoice | None:
    """Which service, with what it needs; None: as it is."""
    for number, one in enumerate(SERVICES, start=1):
        has = "" if TableService(one).find_missing(settings) else "is set up"
        print(f"  {number}  {one.label:<11}{has or one.from_where}")
    row = _ask_row()
    if row is None:
        return None
    is_there = not TableService(row).find_missing(settings)
    if row.key_env:
        usual = "the one that is there" if is_there else f"none; to be had at {row.from_where}"
        return SearchChoice(row, key=getpass.getpass(f"Key for {row.label}, not shown [{usual}]: ").strip())
    usual = getattr(settings.web, f"{row.name}_url") or "such as http://127.0.0.1:8888"
    return SearchChoice(row, address=input(f"Address of {row.label} [{usual}]: ").strip())


def _ask_row() -> ServiceRow | None:
    while True:
        text = input("Number or name [as it is]: ").strip().lower()
        if not text:
            return None
        if text.isdecimal() and 1 <= int(text) <= len(SERVICES):
            return SERVICES[int(text) - 1]
        if text in BY_NAME:
            return BY_NAME[text]
        print(f"There is no {text!r} in the list.")
