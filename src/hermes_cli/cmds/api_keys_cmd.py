"""`hermes api-keys`: makes keys of the API, shows which there are, and revokes them.

The owner of the home does the work: a running gateway, or this command itself when there is none.
"""

import argparse
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from hermes_cli.cmds import owner


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes api-keys", description="Keys for programs that use the API.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument("--name", help="what it is for")
    create.add_argument("--person", metavar="ID", help="whose it is, as `hermes people list` shows it (the owner)")
    listing = actions.add_parser("list", help="the keys, without their secrets")
    revoke = actions.add_parser("revoke", help="end a key, within seconds")
    revoke.add_argument("id", metavar="ID", help="as `hermes api-keys list` shows it")
    for action in (create, listing, revoke):
        action.add_argument("--json", action="store_true", help="for programs")
    return owner.run_action("keys", parser.parse_args(args), _WORDS)


# --- in words


def _tell_create(told: Mapping[str, Any]) -> Iterator[str]:
    yield told["key"]
    yield f"This is {told['id']} of {told['person']}. It is shown only now: keep it where others cannot read it."


def _tell_list(told: Mapping[str, Any]) -> Iterator[str]:
    if not told["keys"]:
        yield "There are no keys. `hermes api-keys create` makes one."
    for key in told["keys"]:
        used = f"used {_date(key['last_used'])}" if key["last_used"] else "never used"
        state = ", revoked" if key["revoked"] else ", refused: its person may not speak now" if key["barred"] else ""
        notes = f"made {_date(key['created'])}, {used}{state}"
        yield f"{key['id']}  {key['person']}  {key['name']}  ({notes})"


def _date(moment: float) -> str:
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")


_WORDS: owner.Words = MappingProxyType(
    {
        "create": _tell_create,
        "list": _tell_list,
        "revoke": lambda told: [f"{told['revoked']} does not hold any more."],
    }
)
