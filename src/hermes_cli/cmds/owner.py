"""Has the owner of the home do what only an owner may: through the socket of a running gateway, or here, with the
home's lock."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gateway.service.admin import approval_admin, key_admin, people_admin
from hermes_base.errors import HermesError, HomeBusy
from hermes_base.store_place import find_place
from hermes_base.text.harmless import clean_name
from hermes_cli.chat.local_client import call_owner
from hermes_cli.plugins import discover_plugins
from hermes_constants import get_hermes_home
from hermes_state.home_lock import HomeLock
from hermes_state.sql.store_sql import Store

if TYPE_CHECKING:
    from gateway.turns.endings import Endings

CALL_SECONDS = 60.0
_PATIENCE_SECONDS = 5.0  # for an owner that is about to listen, or to leave
_LOOK_SECONDS = 0.1

Operation = Callable[[Store, Path, Mapping[str, Any]], dict[str, Any]]
#: By the name of an action: the lines that say what came of it.
Words = Mapping[str, Callable[[Mapping[str, Any]], Iterable[str]]]


def perform(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """What came of it; HermesError when it is refused, HomeBusy when the owner neither listens nor leaves."""
    home = get_hermes_home()
    begun = time.monotonic()
    while True:
        told = call_owner(home, name, dict(args), CALL_SECONDS)
        if told is not None:
            return told
        try:
            with HomeLock(home), closing(Store(find_place(home))) as store:
                if name not in OPERATIONS:
                    raise HermesError(f"There is no operation {name!r}.")
                return OPERATIONS[name](store, home, args)
        except HomeBusy:
            if time.monotonic() - begun > _PATIENCE_SECONDS:
                raise
        time.sleep(_LOOK_SECONDS)


def run_action(group: str, parsed: argparse.Namespace, words: Words) -> int:
    """Have the owner do what the arguments ask for, and print what came of it, in words or for programs."""
    given = {name: value for name, value in vars(parsed).items() if name not in ("action", "json", "yes")}
    told = perform(f"{group}.{parsed.action}", given)
    if parsed.json:
        print(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        for line in words[parsed.action](told):
            print(clean_line(line))
    return 0


def confirm(deed: str, question: str) -> bool:
    """Whether a person agrees; HermesError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise HermesError(f"{deed} needs your consent, and nobody can be asked here.", fix="Add --yes.")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def clean_line(text: str) -> str:
    """Names come from strangers: nothing in them may steer the terminal."""
    return clean_name(text)


def delete_session(store: Store, home: Path, args: Mapping[str, Any]) -> dict[str, Any]:
    """As the gateway does it: who has to hear of the end of a session hears of it."""
    del home
    return {"deleted": _make_endings(store).delete(str(args["session"]))}


def remove_person(store: Store, home: Path, args: Mapping[str, Any]) -> dict[str, Any]:
    removed = people_admin.remove(store, home, args)
    _make_endings(store).end_person(str(removed["removed"]))
    return removed


def forget_person(store: Store, home: Path, args: Mapping[str, Any]) -> dict[str, Any]:
    _make_endings(store).end_person(people_admin.check_forget(store, home, args))
    return people_admin.forget(store, home, args)


def _make_endings(store: Store) -> "Endings":
    """Ends by what is stored; nothing is warm here, and nothing runs."""
    from gateway.run import GatewayRunner  # noqa: PLC0415 - the same
    from gateway.turns.endings import Endings  # noqa: PLC0415 - loading agents takes a while, and few operations need them

    discover_plugins()
    return Endings(store, GatewayRunner())


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "sessions.delete": delete_session,
        **{f"people.{name}": operation for name, operation in people_admin.OPERATIONS.items()},
        "people.remove": remove_person,
        "people.forget": forget_person,
        **{f"keys.{name}": operation for name, operation in key_admin.OPERATIONS.items()},
        **{f"approvals.{name}": operation for name, operation in approval_admin.OPERATIONS.items()},
    }
)
