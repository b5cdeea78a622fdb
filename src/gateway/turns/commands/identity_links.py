"""One person over several apps: a code that was made in one app makes an identity in another one the same person.

Only the identity that says the code changes whose it is. Names decide nothing (G2); who was removed stays out.
"""

from collections.abc import Callable
from pathlib import Path

from gateway.core.people import find_role
from hermes_base.errors import HermesError
from hermes_base.inbound import NOTE, PEOPLE, Address, Outgoing
from hermes_state.people_store import OWNER, LinkCode, Person
from hermes_state.sql.store_sql import Store

WRONG_CODE = "This code joins nothing: it is wrong, used or more than ten minutes old."
NEW_CODE = "Say /link in the app in which you are known already; it gives you a new one."
JOINED_HERE = "You are {name} ({id}) here, too: the same memory, the same conversations (/resume), the same role."
JOINED_THERE = (
    "{sender} on {platform} is you from now on, by the code that you asked for here. If that was somebody else, take "
    "it back on the machine: hermes people unlink {id} {platform} {sender}"
)


def join_stranger(
    store: Store, code: str, platform: str, sender: str, speaks: Callable[[str], bool]
) -> tuple[Person, LinkCode] | None:
    """Somebody whom nobody let in says a code: who they are now; None when it is no good. Who was known here, and may
    speak no more, is let in again by whoever runs this Hermes alone (G3)."""
    if store.people.is_removed(platform, sender) or store.people.find(platform, sender) is not None:
        return None
    if _find_keeper(store, code, speaks) is None:
        return None
    used = store.habits.use_code(code)
    keeper = store.people.get(used.person) if used else None
    if used is None or keeper is None:
        return None
    return store.people.link(keeper.id, platform, sender, by_code=True), used


def join_person(
    store: Store, home: Path, code: str, other: str, speaks: Callable[[str], bool]
) -> tuple[Person, LinkCode]:
    """Somebody who is a person already says a code: their identities move, if they have nothing to lose by it."""
    keeper = _find_keeper(store, code, speaks)
    if keeper is None:
        raise HermesError(WRONG_CODE, kept="Nothing was changed.", fix=NEW_CODE)
    if keeper.id == other:
        raise HermesError("You are the same person in both already.", kept="Nothing was changed.")
    person = store.people.get(other)
    role = person.role if person is not None else OWNER
    if has_data(store, home, other) or find_role(role).rank > find_role(keeper.role).rank:
        raise HermesError(
            "Here you are somebody already, with conversations, files or rights of your own, which would be lost.",
            kept="Nothing was changed.",
            fix="Ask whoever runs this Hermes. They remove one of the two, which keeps its data, and add its identity "
            f"to the other: hermes people remove {other}, then hermes people link {keeper.id} PLATFORM SENDER",
        )
    used = store.habits.use_code(code)
    if used is None:
        raise HermesError(WRONG_CODE, kept="Nothing was changed.", fix=NEW_CODE)
    return store.people.join(keeper.id, other), used


def _find_keeper(store: Store, code: str, speaks: Callable[[str], bool]) -> Person | None:
    """Whose code it is, if it is good: it is worth no more than the person who asked for it is today (G3)."""
    found = store.habits.find_code(code)
    return store.people.get(found.person) if found is not None and speaks(found.person) else None


def has_data(store: Store, home: Path, person: str) -> bool:
    """Whether something belongs to them: conversations, keys, files. What the owner has is the home itself."""
    known = store.people.get(person)
    if known is None or known.role == OWNER or store.people.has_data(person):
        return True
    return any(path.is_file() for path in (home / PEOPLE / person).rglob("*"))


def make_word(used: LinkCode, person: Person, platform: str, sender: str) -> Outgoing:
    """What is said where the code was asked for."""
    address = Address(used.platform, used.account, used.chat)
    return Outgoing(address, JOINED_THERE.format(id=person.id, platform=platform, sender=sender), NOTE)
