"""The policy for shell commands: allow, ask or deny, decided on the parsed command and explained in a sentence.

It decides about comfort. What a command that runs unasked can do is decided by the walls it runs behind; without walls
only what cannot be led astray (`plain.py`) runs unasked.
"""

from dataclasses import dataclass, replace
from typing import Literal

from hermes_base.secret_files import SECRET_FILES
from tools.policy.judging import CommandFinding, Walk, ask, judge_source
from tools.policy.paths import CommandPlace, tidy
from tools.policy.plain import is_plain
from tools.policy.tables import Level
from tools.shell.sandbox import Walls

Decision = Literal["allow", "ask", "deny"]
#: How far a command may go without a question.
FREE = {"ask": Level.LOOK, "auto": Level.WORK, "deny": Level.LOOK}
#: How far a command goes that the model wants to run at this level.
ASKED_FOR = {Walls.WORK: Level.WORK, Walls.SETUP: Level.ASK, Walls.OUTSIDE: Level.ASK}


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    reason: str = ""
    walls: Walls = Walls.WORK  # where it runs, if it runs
    blind: bool = False  # behind walls its answer would not be about the machine
    reaches: bool = False  # it uses the network
    moves: bool = False  # it brings other versions of files into the folder


@dataclass(frozen=True, slots=True)
class Terms:
    """What the judgement goes by beside the command."""

    folder: str = "."  # the working folder
    at: str = ""  # where the shell is; empty: in the working folder
    roots: tuple[str, ...] = ()  # further folders that it may use
    mode: str = "ask"  # one that is not known counts as `ask`
    home: str = ""  # of Hermes
    secrets: tuple[str, ...] = SECRET_FILES
    walled: bool = True  # there is a sandbox
    unfiltered: str = ""  # why nothing judges what a command calls, which then asks; empty: the proxy does
    own_word: bool = False  # the owner chose to do without one, and it is their own turn
    wanted: Walls | None = None  # the level that the model asked for


def judge(command: str, terms: Terms) -> Verdict:
    """What may happen with the command. Behind walls nothing is looked up on the disk."""
    roots = tuple(tidy(root) for root in (terms.folder or ".", *terms.roots) if root)
    at = tidy(terms.at) if terms.at else roots[0]
    place = CommandPlace((at,), roots, tidy(terms.home) if terms.home else "", terms.secrets)
    walk = Walk(place, place)
    finding = judge_source(command, walk)
    if not terms.walled and terms.own_word and terms.mode == "auto" and terms.wanted is None:
        walls = Walls.WORK  # there are no walls, and one command finds what another left
    elif terms.wanted is Walls.OUTSIDE:
        walls = Walls.OUTSIDE
    elif terms.wanted is Walls.SETUP or (walk.sets_up and finding.level is Level.ASK):
        walls = Walls.SETUP
    else:
        walls = Walls.LOOK if finding.level is Level.LOOK and terms.wanted is None else Walls.WORK
    if finding.level is Level.DENY:
        return Verdict("deny", finding.reason, walls)
    # What the model wants more than the command needs, and what the missing walls make dangerous, is asked for.
    wanted = ASKED_FOR.get(terms.wanted, Level.LOOK) if terms.wanted else Level.LOOK
    if wanted > finding.level:
        finding = CommandFinding(wanted, f"it is to run at level {terms.wanted}")
    if walk.reaches and terms.unfiltered:
        why = f"it uses the network, and nothing judges what it calls: {terms.unfiltered}"
        finding = ask(f"{why}{'; ' if finding.reason else ''}{finding.reason}")
    trusted = (
        terms.walled
        or finding.level is Level.ASK
        or (terms.own_word and terms.mode == "auto")
        or (finding.level is Level.LOOK and is_plain(command, place))
    )
    if not trusted:
        finding = ask(f"there is no sandbox around it{'; ' if finding.reason else ''}{finding.reason}")
    verdict = decide(finding, terms.mode)
    if verdict.decision == "ask" and walls is Walls.LOOK:
        walls = Walls.WORK  # a person agrees to it, so it need not be held back
    verdict = replace(verdict, walls=walls, blind=bool(walk.blind))
    return replace(verdict, reaches=bool(walk.reaches), moves=bool(walk.moves))


def decide(finding: CommandFinding, mode: str) -> Verdict:
    if finding.level is Level.DENY:
        return Verdict("deny", finding.reason)
    if finding.level <= FREE.get(mode, Level.LOOK):
        return Verdict("allow", finding.reason)
    if mode == "deny":
        return Verdict("deny", f"only commands that look are allowed; {finding.reason}")
    return Verdict("ask", finding.reason)
