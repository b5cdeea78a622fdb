"""Kept approvals: rules of which each lets one exact deed of one person happen without a question (G4)."""

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_base.turn.consent import Deed
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


# --- in words, of what the operations tell


def describe_rules(told: Mapping[str, Any]) -> Iterator[str]:
    """For people, each on a line."""
    if not told["approvals"]:
        yield "No approval is kept: what needs one is asked for each time."
    for rule in told["approvals"]:
        where = f"in {rule['folder']}" + (f", {rule['level']}" if rule["level"] else "")
        whose = rule["name"] + (", in one conversation" if rule["conversation"] else "")
        used = {0: "never used", 1: "used once"}.get(rule["times_used"], f"used {rule['times_used']} times")
        made = f"made {_day(rule['created'])} by {rule['made_by_name']}, until {_day(rule['expires'])}, {used}"
        yield f"{rule['id']}  {rule['shown']}  ({where}; for {whose}; {made})"


def describe_revoked(told: Mapping[str, Any]) -> Iterator[str]:
    one = "The rule does not hold any more: it is asked for again."
    yield one if told["revoked"] == 1 else f"{told['revoked']} rules do not hold any more."


def describe_waiting(told: Mapping[str, Any]) -> Iterator[str]:
    if not told["waiting"]:
        yield "Nothing waits for an approval of yours."
    for one in told["waiting"]:
        left = f"{one['expires_in']:.0f} s are left"
        yield f"{one['id']}  {one['text']}  (for {one['name']}; {one['reason']}; {left})"


def describe_answered(told: Mapping[str, Any]) -> Iterator[str]:
    yield f"Your answer to {told['answered']} counts."


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment))
