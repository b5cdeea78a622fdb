"""What an operator does with kept approvals: JSON in, JSON out (G4)."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.service.admin.people_admin import Args, Operation, read_text
from hermes_base.query_values import NotThere
from hermes_state.people_store import OWNER
from hermes_state.sql.store_sql import Store

_IDS = "`hermes approvals list` shows the ids."


def list_approvals(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """Those that hold, with the names of whom they are for and who made them."""
    del home, args
    names = {person.id: person.name for person in store.people.people()}
    return {
        "approvals": [
            asdict(rule)
            | {"person": rule.person or OWNER, "name": names.get(rule.person, rule.person or OWNER)}
            | {"made_by_name": names.get(rule.made_by, rule.made_by)}
            for rule in store.approvals.rules()
        ]
    }


def revoke(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """End one, or all of them; from then on it is asked for again."""
    del home
    if args.get("all") is True:
        return {"revoked": store.approvals.revoke_all()}
    id = read_text(args, "id")
    if not store.approvals.revoke(id):
        raise NotThere(f"There is no such rule: {id[:100]!r}.", kept="Nothing was changed.", fix=_IDS)
    return {"revoked": 1}


def list_waiting(store: Store, home: Path, args: Args) -> dict[str, Any]:
    """Questions that wait for somebody who may answer them; without a gateway no turn runs that could ask."""
    del store, home, args
    return {"waiting": []}


def answer_waiting(store: Store, home: Path, args: Args) -> dict[str, Any]:
    del store, home
    raise not_waiting(read_text(args, "id"))


def not_waiting(id: str) -> NotThere:
    return NotThere(
        f"No question {id[:100]!r} waits for an answer: it was answered, or its time was over.",
        kept="Nothing was changed.",
        fix="`hermes approvals waiting` shows what waits.",
    )


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {"list": list_approvals, "revoke": revoke, "waiting": list_waiting, "answer": answer_waiting}
)
