"""Kept approvals: rules of which each lets one exact deed of one person happen without a question (G4)."""

import secrets
from dataclasses import dataclass

from hermes_base.consent import Deed
from hermes_state.texts import clean

RULE_SECONDS = 90 * 86_400.0


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """One rule. It holds when all of the deed is the same; other words, another folder or other walls ask again."""

    id: str
    person: str  # whose turns; empty: the owner's
    conversation: str  # only there; empty: in every one of theirs
    task: str  # and only until that conversation begins anew; empty with `conversation`
    kind: str  # command, change, read
    folder: str
    backend: str
    level: str
    words: str  # the deed in its one form
    shown: str  # as people read it
    made_by: str
    created: float
    expires: float
    last_used: float | None = None
    times_used: int = 0


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What a rule is made of when an answer is kept."""

    deed: Deed
    person: str  # whose turns
    conversation: str = ""  # only there; empty: everywhere


def make_rule(kept: KeptAnswer, made_by: str, now: float) -> ApprovalRule:
    deed, where = kept.deed, clean(kept.conversation)
    return ApprovalRule(
        make_rule_id(),
        clean(kept.person),
        where,
        deed.task if where else "",
        deed.kind,
        deed.folder,
        deed.backend,
        deed.level,
        deed.words,
        clean(deed.shown),
        clean(made_by),
        now,
        now + RULE_SECONDS,
    )


def make_rule_id() -> str:
    return f"r-{secrets.token_hex(4)}"
