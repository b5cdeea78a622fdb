"""What an operator does with people: JSON in, JSON out. The running gateway calls it, or the command itself when none
runs. `removed` in an answer names the person whose turns must end at once (G3)."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.core.quiet_hours import find_zone, hold_until, read_quiet
from gateway.platforms.platform_list import spec_of
from gateway.service.admin import home_chats
from gateway.turns.sender import opens_door, role_today
from hermes_base.errors import HermesError
from hermes_base.inbound import NOTE, PEOPLE, Outgoing
from hermes_base.query_values import NotThere
from hermes_base.text.harmless import clean_name
from hermes_cli import config as cli_config
from hermes_state.files.shared_folders import list_traces
from hermes_state.people_records import name_pairing, pick_pairing
from hermes_state.people_store import MEMBER, OWNER, ROLE_NAMES, Habits, Pairing, Person
from hermes_state.sql.store_sql import Store

Args = Mapping[str, Any]
Operation = Callable[[Store, Path, Args], dict[str, Any]]
LET_IN = "You are let in. Write to me here; /help shows what I understand."


def list_people(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """Everybody with their identities, and the open requests, as the settings of today have it."""
    del home, args
    people, habits, settings = store.people, store.habits.every(), cli_config.load_last_good()
    every, show = people.identities(), partial(_show_reachable, store)

    def show_person(person: Person) -> dict[str, Any]:
        own = [one for one in every if one.person == person.id]
        identities = [
            {"platform": one.platform, "sender": one.sender, "listed": one.listed}
            | {"lets_in": opens_door(one, own, settings)}
            for one in own
        ]
        return _show(person) | {
            "role": role_today(person, own, settings),
            "let_in": not own or any(one["lets_in"] for one in identities),
            "identities": identities,
            "habits": show(habits.get(OWNER if person.role == OWNER else person.id, Habits())),
        }

    return {
        "people": [show_person(person) for person in people.people()],
        **({"owner": show(habits[OWNER])} if OWNER in habits else {}),
        "pairings": [_show(pairing) for pairing in people.pairings()],
    }


def approve(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """Let a stranger in by the code of their request, and tell them so; the answer says where they wrote."""
    del home
    code, role = read_text(args, "code"), _read_role(args.get("role") or MEMBER)
    request = pick_pairing(code, store.people.pairings())
    person = store.people.approve(code, role, read_text(args, "name", needed=False))
    place = {"platform": request.platform, "sender": request.sender, "chat": request.chat} if request else {}
    return {"person": asdict(person), **place, **(_welcome(store, request) if request else {})}


def _welcome(store: Store, request: Pairing) -> dict[str, Any]:
    """The stranger hears it where their code was shown; `told` is that address."""
    asked = store.turns.find_posted(request.conversation, name_pairing(request.code))
    if asked is None:
        return {}
    store.turns.post(request.conversation, f"let-in:{request.code}", Outgoing(asked.address, LET_IN, NOTE))
    return {"told": asdict(asked.address)}


def remove(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """End a person's access; their data stays until it is forgotten."""
    del home
    person = store.people.remove(_read_known(store, args))
    return {"removed": person.id, "person": asdict(person)}


def set_role(store: Store, home: Path, args: Args) -> dict[str, Any]:
    del home
    return {"person": asdict(store.people.set_role(_read_known(store, args), _read_role(args.get("role"))))}


def link(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """Give a person one more identity."""
    del home
    spec = spec_of(read_text(args, "platform"))
    sender = spec.person_ids.bring(read_text(args, "sender"))
    if not spec.person_ids.fits(sender):
        what = f"Nobody on {spec.label} is called {sender[:100]!r}: an id there {spec.person_ids.says}."
        raise HermesError(what, kept="Nothing was changed.")
    return {"person": asdict(store.people.link(_read_known(store, args), spec.name, sender))}


def unlink(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """Take one identity from a person; the others stay theirs. `unlinked`: where their turns must end at once."""
    del home
    platform = read_text(args, "platform")
    sender = spec_of(platform).person_ids.bring(read_text(args, "sender"))
    person = store.people.unlink(_read_known(store, args), platform, sender)
    store.habits.leave_home(person.id, platform)  # whose chat it is now, nobody knows
    return {"person": asdict(person), "unlinked": platform}


def set_home(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """A person's home channel: show it, set it to a chat, or take it away (`off`)."""
    del home
    id, platform = _read_someone(store, args), read_text(args, "platform", needed=False)
    if platform == OFF:
        store.habits.set_home(id, None)
    elif platform:
        chosen, warning = home_chats.choose_home(
            store, platform, read_text(args, "chat"), read_text(args, "account", needed=False)
        )
        store.habits.set_home(id, chosen)
        more = {"warning": warning} if warning else {}
        return {"id": id, "habits": _show_habits(store.habits.get(id)), **more}
    return {"id": id, "habits": _show_habits(store.habits.get(id))}


def set_timezone(store: Store, home: Path, args: Args) -> dict[str, Any]:
    del home
    id, name = _read_someone(store, args), read_text(args, "zone", needed=False)
    if name:
        store.habits.set_timezone(id, "" if name.lower() == OFF else str(find_zone(name)))
        _hold_anew(store, id)
    return {"id": id, "habits": _show_habits(store.habits.get(id))}


def set_quiet(store: Store, home: Path, args: Args) -> dict[str, Any]:
    del home
    id, hours = _read_someone(store, args), read_text(args, "hours", needed=False)
    if hours:
        store.habits.set_quiet(id, "" if hours.lower() == OFF else str(read_quiet(hours)))
        _hold_anew(store, id)
    return {"id": id, "habits": _show_habits(store.habits.get(id))}


def forget(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """Delete what belongs to a person or group: rows of the store and their folder."""
    id = check_forget(store, home, args)
    folder = _find_folder(home, id)
    counts = asdict(store.people.forget(id))
    files = _delete_folder(folder) if folder is not None else 0
    for trace in list_traces(home, id) if folder is not None else ():
        files += _delete_folder(trace) if trace.is_dir() else 0
        trace.unlink(missing_ok=True)
    return {"removed": id, "deleted": {**counts, "files": files}}


def check_forget(store: Store, home: Path, args: Args) -> str:
    """Whose data is to go; raises what is wrong with that, before anything of theirs is ended."""
    id = read_text(args, "id")
    person = store.people.get(id)
    folder = _find_folder(home, id)
    if person is not None and person.role == OWNER:
        fix = "`hermes people remove` ends the access of their identities; the data is the home itself."
        raise HermesError("What the owner has belongs to this home as a whole and is not forgotten this way.", fix=fix)
    if person is None and folder is None and not store.people.conversations_of(id):
        raise HermesError(f"There is nobody with the id {id!r}, and nothing of them.", fix=_IDS)
    return id


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "list": list_people,
        "approve": approve,
        "remove": remove,
        "role": set_role,
        "link": link,
        "unlink": unlink,
        "home": set_home,
        "timezone": set_timezone,
        "quiet": set_quiet,
        "forget": forget,
    }
)
OFF = "off"
_IDS = "`hermes people list` shows the ids."


def _read_known(store: Store, args: Args) -> str:
    """The id of somebody who is there."""
    id = read_text(args, "id")
    if store.people.get(id) is None:
        raise NotThere(f"There is nobody with the id {id[:100]!r}.", kept="Nothing was changed.", fix=_IDS)
    return id


def _read_someone(store: Store, args: Args) -> str:
    """The same, or the owner of the machine, who need not be anybody in an app."""
    return OWNER if args.get("id") == OWNER else _read_known(store, args)


def _hold_anew(store: Store, id: str) -> None:
    """What waits is held by the new habits."""
    habits = store.habits.get(id)
    until = hold_until(habits.quiet, habits.timezone, store.turns.now())
    store.turns.hold_anew(store.habits.key_of(id), until)


def _show(known: Person | Pairing) -> dict[str, Any]:
    return asdict(known) | {"name": clean_name(known.name)}


def _show_habits(habits: Habits) -> dict[str, Any]:
    home = asdict(habits.home) if habits.home is not None else None
    return {"home": home, "timezone": habits.timezone, "quiet": habits.quiet}


def _show_reachable(store: Store, habits: Habits) -> dict[str, Any]:
    """The same, with what keeps their home from being told anything."""
    if habits.home is None:
        return _show_habits(habits)
    trouble = home_chats.find_trouble(cli_config.load_last_good(), habits.home, store.habits.knows)
    return _show_habits(habits) | ({"trouble": trouble} if trouble else {})


def read_text(args: Args, name: str, *, needed: bool = True) -> str:
    value = args.get(name)
    if value is None and not needed:
        return ""
    if not isinstance(value, str) or (needed and not value.strip()):
        raise HermesError(f"{name} must be given as text.", kept="Nothing was changed.")
    return value.strip()


def _read_role(role: object) -> str:
    if role not in ROLE_NAMES:
        raise HermesError(f"There is no role {role!r}.", kept="Nothing was changed.", fix=f"Choose {_ROLES}.")
    return str(role)


_ROLES = ", ".join(ROLE_NAMES[:-1]) + " or " + ROLE_NAMES[-1]


def _find_folder(home: Path, id: str) -> Path | None:
    """The person's folder; an id that is no plain name (a path, a link's way out) has none."""
    if Path(id).name != id or id.startswith("."):
        return None
    folder = home / PEOPLE / id
    return folder if folder.is_dir() and not folder.is_symlink() else None


def _delete_folder(folder: Path) -> int:
    """How many files were in it. Links are removed, never followed."""
    files = sum(1 for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    try:
        shutil.rmtree(folder)
    except OSError as problem:
        raise HermesError(
            f"{folder} could not be deleted whole: {problem.strerror}.",
            kept="What the store had of this person is deleted.",
            fix="Delete the folder by hand.",
        ) from problem
    return files
