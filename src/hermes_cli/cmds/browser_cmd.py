"""`hermes browser`: sites that the model's browser is signed in to, for each person: sign in, import, list, forget."""

import argparse
import asyncio
import importlib
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from hermes_base.errors import ConfigProblem
from hermes_base.store_place import find_place, has_store
from hermes_cli import config
from hermes_constants import get_hermes_home
from hermes_state.sql.store_sql import Store
from tools.browser.launching import find_missing
from tools.browser.sign_ins import (
    OWNER,
    SignIn,
    forget_sign_in,
    keep_sign_in,
    list_sign_ins,
    read_cookies,
    read_site,
)

MOST_BYTES = 4_000_000


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes browser", description="Sites that the model's browser is signed in to.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="login|cookies|list|forget")
    login = actions.add_parser("login", help="sign in by hand, in a window of the browser")
    login.add_argument("url", metavar="URL")
    login.add_argument("--site", help="for which the sign-in counts, with all below it (default: the host of URL)")
    cookies = actions.add_parser("cookies", help="take cookies over from another browser")
    cookies.add_argument("what", choices=["import"])
    cookies.add_argument("file", metavar="FILE", help="cookies.txt, or JSON")
    cookies.add_argument("site", metavar="SITE")
    listing = actions.add_parser("list", help="the sites, and since when")
    forget = actions.add_parser("forget", help="delete what is kept of a site")
    forget.add_argument("site", metavar="SITE")
    for action in (login, cookies, listing, forget):
        action.add_argument("--person", default="", help="as `hermes people list` shows them (default: the owner)")
    parsed = parser.parse_args(args)
    _check_person(parsed.person)
    return {"login": _login, "cookies": _import, "list": _list, "forget": _forget}[parsed.action](parsed)


def _check_person(person: str) -> None:
    """A slip of the pen would keep a sign-in for nobody."""
    if person in ("", OWNER):
        return
    place = find_place(_home())
    if has_store(place):
        with closing(Store.open_readonly(place)) as store:
            if store.people.get(person) is not None:
                return
    fix = "`hermes people list` shows the ids."
    raise ConfigProblem(f"There is nobody with the id {person[:100]!r}.", kept="Nothing was changed.", fix=fix)


def _login(parsed: argparse.Namespace) -> int:
    settings = config.load_settings()
    missing = find_missing(settings.browser)
    if missing is not None:
        raise ConfigProblem(missing.what, fix=missing.fix)
    site = read_site(parsed.site or parsed.url)
    # Late: it loads the driver, which nothing else here needs.
    signing_in = importlib.import_module("tools.browser.signing_in")
    url = parsed.url if "://" in parsed.url else f"https://{parsed.url}"
    state = asyncio.run(signing_in.sign_in(url, settings, partial(_wait_for_enter, site)))
    return _keep(parsed.person, site, state)


async def _wait_for_enter(site: str, page: Any) -> None:  # noqa: ARG001 - whoever waits is given it
    """The window is open. Without a terminal it alone says when it is done."""
    print(f"Sign in to {site} in the window, then press Enter here, or close the window.", flush=True)
    loop, pressed = asyncio.get_running_loop(), asyncio.Event()
    if sys.stdin.isatty():
        loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
    finally:
        if sys.stdin.isatty():
            loop.remove_reader(sys.stdin)


def _import(parsed: argparse.Namespace) -> int:
    site = read_site(parsed.site)
    try:
        with open(parsed.file, "rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigProblem(f"{parsed.file} cannot be read: {error.strerror}.", kept="Nothing was changed.") from error
    return _keep(parsed.person, site, {"cookies": read_cookies(text, site), "origins": []})


def _keep(person: str, site: str, state: dict[str, Any]) -> int:
    if not state.get("cookies") and not state.get("origins"):
        raise ConfigProblem(f"{site} left nothing to be known by.", kept="Nothing was changed.", fix="Sign in there.")
    keep_sign_in(_home(), person, SignIn(site, state))
    print(f"Kept for {person or 'the owner'}: {site} ({len(state.get('cookies', ()))} cookies).")
    print("The model's browser is signed in there from now on. `hermes browser forget` takes it back.")
    return 0


def _list(parsed: argparse.Namespace) -> int:
    found = list_sign_ins(_home(), parsed.person)
    for one in found:
        saved = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.saved))
        print(f"{one.site}  (since {saved}, {len(one.state.get('cookies', ()))} cookies)")
    if not found:
        print("The browser is signed in nowhere. `hermes browser login URL` opens a window to do so.")
    return 0


def _forget(parsed: argparse.Namespace) -> int:
    site = read_site(parsed.site)
    if not forget_sign_in(_home(), parsed.person, site):
        raise ConfigProblem(f"Nothing is kept of {site}.", fix="`hermes browser list` shows what is.")
    print(f"{site} is forgotten. Tabs that are open stay signed in until they are closed; sign out at the site, too.")
    return 0


def _home() -> Path:
    return get_hermes_home()
