"""What the store of people decides: codes and ids, how they are compared, and the sentences of their refusals."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from hermes_base.errors import StoreFailure
from hermes_state.people_store import ROLE_NAMES, LinkCode, Pairing, QuestionRow
from hermes_state.texts import clean

#: Without signs that look like another one when they are read aloud or copied by hand.
CODE_SIGNS = "ACDEFGHJKMNPQRTUVWXY34679"
CODE_LENGTH = 8
NAME_CHARS = 100
_Coded = TypeVar("_Coded", Pairing, LinkCode)


def make_code() -> str:
    return "".join(secrets.choice(CODE_SIGNS) for _ in range(CODE_LENGTH))


def make_person_id() -> str:
    """An id that can be the name of a folder."""
    return f"p-{secrets.token_hex(4)}"


def name_pairing(code: str) -> str:
    """The name of the word that tells a stranger their code."""
    return f"pairing:{code}"


def pick_pairing(code: str, pairings: Iterable[Pairing]) -> Pairing | None:
    """The request with this code."""
    return _pick(code, pairings)


def pick_code(code: str, codes: Iterable[LinkCode]) -> LinkCode | None:
    """The same for a code that joins two identities."""
    return _pick(code, codes)


def _pick(code: str, every: Iterable[_Coded]) -> _Coded | None:
    """All are compared, each in constant time, so that the time tells nothing."""
    given = "".join(sign for sign in code.upper() if sign.isalnum()).encode("utf-8", "replace")
    found = None
    for one in every:
        if hmac.compare_digest(given, one.code.encode()):
            found = one
    return found


def mark_identity(platform: str, sender: str) -> bytes:
    """What is kept of an identity that was removed."""
    return hashlib.sha256(f"{len(platform)}:{platform}:{sender}".encode("utf-8", "surrogatepass")).digest()


def clean_name(name: str, instead: str) -> str:
    """A name in one line; who has none is called by their id."""
    return " ".join(clean(name).split())[:NAME_CHARS] or clean(instead)


def complete_question(question: QuestionRow, now: float) -> QuestionRow:
    """The question as it is kept."""
    return replace(
        question,
        id=clean(question.id),
        conversation=clean(question.conversation),
        turn=clean(question.turn),
        text=clean(question.text),
        choices=tuple(clean(choice) for choice in question.choices),
        created=now,
    )


def check_role(role: str) -> str:
    if role not in ROLE_NAMES:
        raise StoreFailure(f"There is no role {role!r}.", kept="Nothing was changed.", fix=_ROLE_FIX)
    return role


def check_identity(platform: str, sender: str) -> tuple[str, str]:
    """The identity; an empty one would be everybody's, and one that cannot be stored as it is could be another's."""
    if not is_identity(platform, sender):
        raise StoreFailure("An identity needs a platform and a sender id in plain text.", kept="Nothing was changed.")
    return platform, sender


def is_identity(platform: str, sender: str) -> bool:
    """Whether both are there and come back from the store sign by sign as they are."""
    return all(name.strip() and clean(name) == name for name in (platform, sender))


def check_person(person: str) -> str:
    if not person:
        raise StoreFailure("What has no person belongs to the owner of the machine and is not forgotten this way.")
    return person


def missing_person(person: str) -> StoreFailure:
    return StoreFailure(f"There is nobody with the id {person!r}.", fix="`hermes people list` shows the ids.")


def taken_identity(platform: str, sender: str, person: str) -> StoreFailure:
    return StoreFailure(
        f"{sender} on {platform} is {person} already.", kept="Nothing was changed.", fix="Remove that person first."
    )


def not_theirs(platform: str, sender: str, person: str) -> StoreFailure:
    return StoreFailure(
        f"{sender} on {platform} is not {person}.",
        kept="Nothing was changed.",
        fix="`hermes people list` shows who is who.",
    )


def second_owner(person: str) -> StoreFailure:
    return StoreFailure(
        f"There is an owner already: {person}.",
        kept="Nothing was changed.",
        fix=f"`hermes people link {person} PLATFORM SENDER` gives them one more identity.",
    )


def asked_already(question: str) -> StoreFailure:
    return StoreFailure(f"There is a question {question} already.", kept="It is as it was.")


def wrong_code() -> StoreFailure:
    return StoreFailure(
        "There is no open request with this code: it is wrong, used or more than an hour old.",
        kept="Nobody was let in.",
        fix="`hermes people list` shows the open requests; who writes again gets a new code.",
    )


_ROLE_FIX = f"Choose one of: {', '.join(ROLE_NAMES)}."
