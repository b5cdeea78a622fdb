"""What is made of each end of the line to Discord's gateway, and what to tell the owner. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.platforms.discord.refusals import (
    BAD_TOKEN,
    BAD_TOKEN_FIX,
    NO_INTENT,
    NO_INTENT_FIX,
    TOKEN_SECONDS,
    DiscordTrouble,
    Trouble,
)

NO_NETWORK = "Discord cannot be reached ({}). It is tried again; what people write meanwhile is read from its history."
_REFUSED = "Discord does not take the connection"
_REFUSED_FIX = "Update Hermes and discord.py; the code that Discord gave is {}."


class LineEnd(StrEnum):
    RESUME = "resume"  # the session lives on: it is taken up again where it was
    INVALID = "invalid"  # the session is over: another one begins, and what was missed is in the history
    CLOSED = "closed"  # by Discord, with a code that says why
    LOST = "lost"  # no connection, or none in time


class LineCut(Exception):
    """The line has ended. The text is free of the token."""

    def __init__(self, end: LineEnd, text: str, *, code: int = 0, seconds: float = 0.0) -> None:
        super().__init__(text)
        self.end = end
        self.text = text
        self.code = code
        self.seconds = seconds  # what Discord asks us to wait


@dataclass(frozen=True, slots=True)
class OwnersFault:
    """What the owner can put right."""

    sentence: str
    fix: str


_FAULTS: Mapping[int, OwnersFault] = {
    4004: OwnersFault(BAD_TOKEN, BAD_TOKEN_FIX),
    4014: OwnersFault(NO_INTENT, NO_INTENT_FIX),
    **{code: OwnersFault(f"{_REFUSED}.", _REFUSED_FIX.format(code)) for code in (4010, 4011, 4012, 4013)},
}
_BAD_TOKEN_CODE = 4004
_MOST_RESUMES = 3  # in a row that came to nothing, while Discord itself can be reached
_NORMAL_ENDS = 2  # in a row: a line that was cut, and a session that could not be taken up again


def find_fault(cut: LineCut) -> OwnersFault | None:
    return _FAULTS.get(cut.code)


def as_cut(trouble: DiscordTrouble) -> LineCut:
    """A call that was to find the gateway, and failed."""
    if trouble.kind is Trouble.TOKEN:
        return LineCut(LineEnd.CLOSED, trouble.text, code=_BAD_TOKEN_CODE)
    return LineCut(LineEnd.LOST, trouble.text, seconds=trouble.seconds)


def judge_cut(cut: LineCut, failures: int) -> tuple[str, float | None]:
    """What to tell the owner, and the seconds to wait; None: they grow with each failure. A single cut is nothing to
    tell of: it happens every few hours."""
    fault = find_fault(cut)
    if fault is not None:
        return f"{fault.sentence} {fault.fix}", TOKEN_SECONDS
    lost = cut.end is LineEnd.LOST
    told = NO_NETWORK.format(cut.text) if failures >= (1 if lost else _NORMAL_ENDS) else ""
    if cut.seconds:
        return told, cut.seconds
    return told, 0.0 if cut.end is LineEnd.RESUME and failures < _NORMAL_ENDS else None


def keeps_session(cut: LineCut) -> bool:
    """Whether the session may be taken up again. One that cannot be is refused by Discord, and costs a second."""
    return cut.end is not LineEnd.INVALID and find_fault(cut) is None


def doubts_session(failures: int) -> bool:
    """Whether the trouble may be with the session: each has its own host, and one that is gone refuses nothing."""
    return failures >= _MOST_RESUMES
