"""What goes wrong, by plan: for the n-th call of a method, for the next ones, or with a chance from a seeded die."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from hermes_lab.values import LabProblem

#: The call is refused with a time to wait, and so is everything else until that time is over.
TOO_MANY = "too_many"
#: An error of the service itself (`status`), or a page of a proxy in front of it.
ERROR, PAGE = "error", "page"
#: The connection is cut: before anything was done, or after the call took effect.
CUT_BEFORE, CUT_AFTER = "cut_before", "cut_after"
#: No answer until the client gives up: without effect, or after it.
SILENT, SILENT_AFTER = "silent", "silent_after"
#: The answer comes late.
LATE = "late"
KINDS = (TOO_MANY, ERROR, PAGE, CUT_BEFORE, CUT_AFTER, SILENT, SILENT_AFTER, LATE)


@dataclass(frozen=True, slots=True)
class ChatFault:
    kind: str
    method: str = "*"  # a name, or a pattern as `send*`
    chat: str = ""  # empty: any
    skip: int = 0  # so many fitting calls are left alone first
    times: int = 1  # so many meet it; 0: no end
    chance: float = 1.0  # of each fitting call
    seconds: float = 1.0  # to wait, or of lateness
    status: int = 502  # of error, and of page
    text: str = ""  # of error; empty: the usual one
    whole_account: bool = False  # of too_many: every chat has to wait

    def fits(self, method: str, chat: str) -> bool:
        return fnmatchcase(method.lower(), self.method.lower()) and self.chat in ("", chat)


FaultInput = Iterable[ChatFault | Mapping[str, Any]]


class FaultPlan:
    """The faults still to come; a call meets the first one that fits it."""

    def __init__(self) -> None:
        self._left: list[tuple[ChatFault, int, int]] = []  # with how many to skip and how often it still comes
        self._die = random.Random(0)

    def replace(self, faults: FaultInput, seed: int = 0) -> None:
        self._die = random.Random(seed)
        whole = [fault if isinstance(fault, ChatFault) else read_fault(fault) for fault in faults]
        self._left = [(fault, fault.skip, fault.times) for fault in whole]

    def count_left(self) -> int:
        return len(self._left)

    def take(self, method: str, chat: str) -> ChatFault | None:
        for place, (fault, skip, times) in enumerate(self._left):
            if not fault.fits(method, chat):
                continue
            if skip:
                self._left[place] = (fault, skip - 1, times)
            elif fault.chance >= 1.0 or self._die.random() < fault.chance:
                self._left[place : place + 1] = [] if times == 1 else [(fault, 0, max(times - 1, 0))]
                return fault
        return None


def read_fault(data: Mapping[str, Any]) -> ChatFault:
    known = {field.name for field in fields(ChatFault)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise LabProblem(f"A fault has no {unknown[0]!r}.", fix=f"Known are: {', '.join(sorted(known))}.")
    if data.get("kind") not in KINDS:
        raise LabProblem(f"{data.get('kind')!r} is no fault.", fix=f"Known are: {', '.join(KINDS)}.")
    return ChatFault(**data)
