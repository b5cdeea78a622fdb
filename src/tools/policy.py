"""The policy for shell commands: allow, ask or deny, decided on the parsed command and explained in a sentence."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tools.policy_paths import Place, tidy
from tools.policy_rules import Finding, Walk, judge_source
from tools.policy_tables import Level

Decision = Literal["allow", "ask", "deny"]
#: How far a command may go without a question.
FREE = {"ask": Level.READ, "auto": Level.WORK, "deny": Level.READ}


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    reason: str = ""


def judge(command: str, *, folder: str = ".", roots: Iterable[str] = (), mode: str = "ask", home: str = "") -> Verdict:
    """What may happen with the command in the folder; `roots` are further folders it may use, `home` is Hermes' own.

    Nothing is looked up on the disk. A mode that is not known counts as `ask`.
    """
    places = (tidy(folder or "."), *(tidy(root) for root in roots if root))
    place = Place(places[:1], places, tidy(home) if home else "")
    return decide(judge_source(command, Walk(place, place)), mode)


def decide(finding: Finding, mode: str) -> Verdict:
    if finding.level is Level.DENY:
        return Verdict("deny", finding.reason)
    if finding.level <= FREE.get(mode, Level.READ):
        return Verdict("allow", finding.reason)
    if mode == "deny":
        return Verdict("deny", f"only commands that read are allowed; {finding.reason}")
    return Verdict("ask", finding.reason)
