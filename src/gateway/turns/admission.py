"""Finds out who a sender is: known to the store, listed in the settings, or a stranger who gets a pairing code."""

from pathlib import Path

from gateway.core.people import OWNER, Scope, listed_role
from gateway.core.route import Standing
from hermes_base.errors import ConfigProblem, StoreFailure
from hermes_base.inbound import PEOPLE
from hermes_base.settings import Settings
from hermes_state.people_store import Person
from hermes_state.sql.people_sql import PeopleStore

#: Whoever reaches a trusted platform (the socket of this user) is the owner of the machine.
LOCAL_OWNER = Standing(person="owner", role=OWNER)
STRANGER = Standing(person="", role="")
WORKSPACE = "workspace"

PAIRING_SENTENCE = (
    "I do not know you yet. Give this code to the owner of this Hermes; it is valid for an hour: {code}\n"
    "They let you in with: hermes people approve {code}"
)


def standing(person: Person | None) -> Standing:
    return STRANGER if person is None else Standing(person.id, person.role)


def admit(people: PeopleStore, settings: Settings, platform: str, sender: str, name: str = "") -> Standing:
    """Who the sender is. Whom the settings list becomes a person at first contact, unless they were removed.

    An identity from the settings holds as long as it stands there. Names decide nothing (G2).
    """
    role = listed_role(settings, platform, sender)
    person = people.find(platform, sender)
    if person is None:
        return standing(_let_in(people, role, platform, sender, name) if role else None)
    if role == OWNER and person.role != OWNER and _find_owner(people) is None:
        return standing(people.set_role(person.id, OWNER))
    if role:
        return standing(person)
    listed = {(one.platform, one.sender) for one in people.identities(person.id) if one.listed}
    return standing(None if (platform, sender) in listed else person)


def find_standing(people: PeopleStore, settings: Settings, person: str) -> Standing:
    """Who somebody we know by id is today: a stranger once they were removed, or when only the settings let them in
    and do so no more."""
    if person == LOCAL_OWNER.person:
        return LOCAL_OWNER
    known = people.get(person) if person else None
    identities = people.identities(person) if known is not None else ()
    gone = [one.listed and not listed_role(settings, one.platform, one.sender) for one in identities]
    return STRANGER if gone and all(gone) else standing(known)


def open_folder(home: Path, scope: Scope) -> Path | None:
    """The own folder of a person or group, with its workspace; None for the owner, who has the home itself."""
    if not scope.folder:
        return None
    own = home / scope.folder
    make_folders(home / PEOPLE, own, own / WORKSPACE)
    return own


def make_folders(*folders: Path) -> Path:
    """Folders of ours that may be there already; the last of them."""
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            fix = "Check the disk's space and permissions."
            raise ConfigProblem(f"{folder} cannot be made: {problem.strerror}.", fix=fix) from problem
    return folders[-1]


def _let_in(people: PeopleStore, role: str, platform: str, sender: str, name: str) -> Person | None:
    if people.is_removed(platform, sender):
        return None
    owner = _find_owner(people) if role == OWNER else None
    try:
        if owner is not None:
            return people.link(owner.id, platform, sender, listed=True)
        return people.add(name, role, platform, sender, listed=True)
    except StoreFailure:
        known = people.find(platform, sender)  # another message of theirs was faster
        if known is None:
            raise
        return known


def _find_owner(people: PeopleStore) -> Person | None:
    return next((person for person in people.people() if person.role == OWNER), None)
