"""`hermes people`: shows who may speak, lets strangers in by their code, ends access, and forgets.

The owner of the home does the work: a running gateway, or this command itself when there is none.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from hermes_cli.cmds import owner
from hermes_state.people_store import MEMBER, OWNER, ROLE_NAMES

_NOBODY = "Nobody but the owner of this machine may speak. Who writes on a connected platform gets a code to approve."
_OUT = "out"  # in the place of a role: the settings let them in once, and do no more
#: By whether an identity came from the settings, and whether it lets somebody in today.
_PLACE_NOTES: Mapping[tuple[bool, bool], str] = MappingProxyType(
    {
        (True, True): ", from the settings",
        (True, False): ", not in the settings any more",
        (False, True): "",
        (False, False): ", which lets nobody in any more",
    }
)


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes people", description="Decide who may speak with this Hermes.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="people with their roles, and open requests")
    approve = actions.add_parser("approve", help="let in who was given this code")
    approve.add_argument("code", metavar="CODE")
    approve.add_argument("--role", choices=ROLE_NAMES, default=MEMBER, help=f"their role ({MEMBER})")
    approve.add_argument("--name", help="how they are called here")
    remove = actions.add_parser("remove", help="end a person's access at once; their data stays")
    role = actions.add_parser("role", help="change a person's role")
    link = actions.add_parser("link", help="add another platform's identity to a person")
    unlink = actions.add_parser("unlink", help="take an identity from a person")
    home = actions.add_parser("home", help="show or set where a person hears what they did not ask for")
    timezone = actions.add_parser("timezone", help="show or set a person's time zone")
    quiet = actions.add_parser("quiet", help="show or set when a person is told nothing unasked")
    forget = actions.add_parser("forget", help="delete a person or group with all that belongs to them")
    for action in (remove, role, link, unlink, home, timezone, quiet, forget):
        action.add_argument("id", metavar="ID", help="as `hermes people list` shows it; owner: you")
    role.add_argument("role", metavar="ROLE", choices=ROLE_NAMES, help=", ".join(ROLE_NAMES))
    for action in (link, unlink):
        action.add_argument("platform", metavar="PLATFORM")
        action.add_argument("sender", metavar="SENDER", help="the platform's own id of them, not their name")
    home.add_argument("platform", metavar="PLATFORM", nargs="?", help="off: they have none")
    home.add_argument("chat", metavar="CHAT", nargs="?", help="the platform's own id of the chat")
    home.add_argument("--account", metavar="NAME", help="which account of the platform, where it has several")
    timezone.add_argument("zone", metavar="ZONE", nargs="?", help="such as Europe/Berlin, or off")
    quiet.add_argument("hours", metavar="HOURS", nargs="?", help="such as 22:00-07:00, or off")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    for action in (listing, approve, remove, role, link, unlink, home, timezone, quiet, forget):
        action.add_argument("--json", action="store_true", help="for programs")
    parsed = parser.parse_args(args)
    if parsed.action == "forget" and not parsed.yes:
        what = f"{owner.clean_line(parsed.id)} with their conversations, memory, files and identities"
        if not owner.confirm("Forgetting", f"Delete {what} for good?"):
            print("Nothing was deleted.")
            return 1
    return owner.run_action("people", parsed, _WORDS)


# --- in words


def _tell_list(told: Mapping[str, Any]) -> Iterator[str]:
    if not told["people"]:
        yield _NOBODY
    for person in told["people"]:
        places = ", ".join(map(_describe_place, person["identities"])) or "no identity"
        role = person["role"] if person["let_in"] else _OUT
        yield f"{person['id']}  {role:<6}  {person['name']}  ({places})"
        habits = _describe_habits(person["habits"])
        if habits:
            yield f"    {habits}"
    own = _describe_habits(told["owner"]) if "owner" in told else ""
    if own and not any(person["role"] == OWNER for person in told["people"]):
        yield f"{OWNER}  on this machine: {own}"
    for request in told["pairings"]:
        minutes = max(1, round((request["expires"] - time.time()) / 60))
        who = f"{request['name']} ({request['platform']} {request['sender']})"
        yield f"{request['code']}  wants in: {who}; `hermes people approve {request['code']}` within {minutes} min"


def _describe_place(identity: Mapping[str, Any]) -> str:
    note = _PLACE_NOTES[bool(identity["listed"]), bool(identity["lets_in"])]
    return f"{identity['platform']} {identity['sender']}{note}"


def _describe_habits(habits: Mapping[str, Any]) -> str:
    home = habits["home"]
    parts = {
        "home": f"{home['platform']} {home['chat']}{_describe_trouble(habits)}" if home else "",
        "time zone": habits["timezone"],
        "quiet": habits["quiet"],
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items() if value)


def _describe_trouble(habits: Mapping[str, Any]) -> str:
    return f", which cannot be reached: {habits['trouble']}" if habits.get("trouble") else ""


def _tell_habits(told: Mapping[str, Any]) -> Iterator[str]:
    yield f"{told['id']}: {_describe_habits(told['habits']) or 'no home channel, no time zone, no quiet hours'}"
    if told.get("warning"):
        yield str(told["warning"])


def _tell_remove(told: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_name(told)} may not speak any more. What belongs to them is kept."
    yield f"`hermes people forget {told['removed']}` deletes it."


def _tell_forget(told: Mapping[str, Any]) -> Iterator[str]:
    counts = ((name.replace("_", " "), count) for name, count in told["deleted"].items() if name != "calls")
    deleted = ", ".join(f"{name} {count}" for name, count in counts if count)
    yield f"{told['removed']} is forgotten. Deleted: {deleted or 'nothing was left'}."
    if told["deleted"]["calls"]:
        yield f"{told['deleted']['calls']} model calls stay counted, without a name."


def _name(told: Mapping[str, Any]) -> str:
    return f"{told['person']['name']} ({told['person']['id']})"


_WORDS: owner.Words = MappingProxyType(
    {
        "list": _tell_list,
        "approve": lambda told: [f"{_name(told)} may speak as {told['person']['role']}."],
        "remove": _tell_remove,
        "role": lambda told: [f"{_name(told)} is {told['person']['role']} now."],
        "link": lambda told: [f"{_name(told)} is known there, too."],
        "unlink": lambda told: [f"{_name(told)} is not known there any more."],
        "home": _tell_habits,
        "timezone": _tell_habits,
        "quiet": _tell_habits,
        "forget": _tell_forget,
    }
)
