"""What an operator does with keys of the API: JSON in, JSON out. A key is told once, when it is made; what is kept is
its digest."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.service.admin.people_admin import Args, Operation, read_text
from gateway.turns.sender import may_speak
from hermes_base.errors import HermesError
from hermes_state.key_store import KeyRow
from hermes_state.people_store import OWNER
from hermes_state.sql.store_sql import Store

PREFIX = "hk_"
_MOST_NAME = 200
_KEY = re.compile(re.escape(PREFIX) + r"[A-Za-z0-9_-]{43}")
_IDS = "`hermes api-keys list` shows the ids."
_PEOPLE = "`hermes people list` shows who there is."


def make_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest_of(key: str) -> str:
    """What is kept of a key. It is random and long, so a plain hash of it tells nothing; empty: this is no key."""
    return hashlib.sha256(key.encode()).hexdigest() if _KEY.fullmatch(key) else ""


def create(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """A new key for a person, the owner if nobody is named. This answer is the only place where it stands."""
    del home
    name, person = read_text(args, "name", needed=False), read_text(args, "person", needed=False)
    if len(name) > _MOST_NAME:
        raise HermesError(f"A key's name has at most {_MOST_NAME} characters.", kept="No key was made.")
    known = store.people.get(person) if person else None
    if person and person != OWNER and known is None:
        raise HermesError(f"There is nobody with the id {person!r}.", kept="No key was made.", fix=_PEOPLE)
    key = make_key()
    row = store.keys.add(
        name, known.id if known else "", digest_of(key)
    )  # a person's stays theirs, whatever they become
    return {"key": key, **_show(row)}


def list_keys(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """All keys, the revoked ones too. Those of a person who was removed were revoked with them; `barred`: of somebody
    who may not speak today."""
    del home, args
    rows = store.keys.keys()
    people = {row.person for row in rows if row.person and not row.revoked}
    barred = {person for person in people if not may_speak(store.people, person)}
    return {"keys": [{**_show(row), "barred": not row.revoked and row.person in barred} for row in rows]}


def revoke(store: Store, home: Path, args: Args) -> dict[str, Any]:
    del home
    id = read_text(args, "id", needed=False)
    if not store.keys.revoke(id):
        raise HermesError(f"There is no key {id!r} that holds.", kept="Nothing was changed.", fix=_IDS)
    return {"revoked": id}


OPERATIONS: Mapping[str, Operation] = MappingProxyType({"create": create, "list": list_keys, "revoke": revoke})


def _show(row: KeyRow) -> dict[str, Any]:
    return asdict(row) | {"person": row.person or OWNER}
