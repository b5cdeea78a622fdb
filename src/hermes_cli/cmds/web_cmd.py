"""`hermes web`: prints the address of the running gateway's page, with the token that opens it."""

import argparse
import time
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.http.access import make_token, read_token
from gateway.http.guard import is_loopback
from hermes_base.errors import HermesError
from hermes_cli import config
from hermes_cli.chat.local_client import call_owner
from hermes_constants import get_hermes_home

OK = 0
_CALL_SECONDS = 10.0
_OPENING_SECONDS = 5.0
_LOOK_SECONDS = 0.1
NOBODY = "No gateway runs in {home}, so there is no page."
NOT_SERVED = "The gateway that runs in {home} serves no page."
HOSTED = "A chat in a terminal (process {pid}) hosts Hermes in {home}, and a chat serves no page."
END_CHAT = "Close that chat with /quit, then `hermes gateway start`; chats join it."


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes web", description="Print the address of the web page, with its token.")
    parser.add_argument("--open", action="store_true", help="also open it in a browser")
    parser.add_argument(
        "--new-token", action="store_true", help="make a new token first: old addresses and log-ins hold no longer"
    )
    parsed = parser.parse_args(args)
    home = get_hermes_home()
    if parsed.new_token:
        make_token(home)
        print("There is a new token. Whoever was logged in has to come by the new address, or log in again.")
    address = find_address(home)
    print(address)
    if parsed.open and not webbrowser.open(address):
        raise HermesError("No browser could be opened.", fix="Open the address above by hand.")
    return OK


def find_address(home: Path) -> str:
    """Of the running gateway's page; with the token only where the token opens it."""
    status = _ask(home)
    if status.get("guest"):
        raise HermesError(HOSTED.format(pid=status.get("pid"), home=home), fix=END_CHAT)
    while not _read_address(status) and time.time() - float(status.get("since") or 0) < _OPENING_SECONDS:
        time.sleep(_LOOK_SECONDS)  # it has just been started: the page opens a moment after the gateway
        status = _ask(home)
    address = _read_address(status)
    if not address:
        fix = "Is web.enabled false? The log says what else may be wrong: `hermes logs`."
        raise HermesError(NOT_SERVED.format(home=home), fix=fix)
    host = config.load_last_good().web.host
    return f"{address}?token={read_token(home)}" if is_loopback(host) else address


def is_chat(home: Path) -> bool:
    """Whether a chat in a terminal hosts Hermes: it serves no page, and nothing but its end ends it."""
    try:
        return bool(_ask(home).get("guest"))
    except HermesError:  # nobody listens, or nobody answers: it starts or ends
        return False


def _ask(home: Path) -> dict[str, Any]:
    told = call_owner(home, "status", {}, _CALL_SECONDS)
    if told is None:
        raise HermesError(NOBODY.format(home=home), fix="`hermes gateway start` starts one.")
    return told


def _read_address(status: Mapping[str, Any]) -> str:
    return str((status.get("web") or {}).get("address") or "")
