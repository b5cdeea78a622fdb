"""What becomes of a message that was not taken, and how fast delivery goes about it. Pure."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.platforms.face import NeverTaken, NotNow
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import NOTE, Outgoing

MISSING = "Something that belongs here could not be shown:"


@dataclass(frozen=True, slots=True)
class Pace:
    """Times and bounds of delivery, in seconds and chats."""

    lease: float = 30.0  # of an account; renewed at each poll, and over with the life of its node
    claim: float = 1.5  # between two tries to get an account that another process has
    let_go: float = 1.5  # before others may take this process for dead, it ends what it does for its accounts
    call: float = 15.0  # a platform that has not answered by then is taken for gone
    slowest_upload: float = 100_000.0  # bytes a second: a file has so much more time
    uploads: int = 2  # of an account at once: each may hold its file in memory
    file_tries: int = 3  # of a file, at least, before it is left out,
    file_patience: float = 600.0  # and for so long: what comes after it waits meanwhile
    draft_call: float = 5.0  # the same for a draft: its answer waits for it
    poll: float = 5.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    recovering: int = 16  # chats with old messages at work at once; fresh ones do not wait for them
    busy: int = 2000  # chats at work at once in all
    strange_attempts: int = 10  # an adapter that fails in a way it must not is asked so often


@dataclass(frozen=True, slots=True)
class SendAgain:
    """Try again after so many seconds (infinity: when woken); not `certain`: it may have arrived."""

    seconds: float
    certain: bool
    penalty: bool = False  # the platform asked for it: nothing is sent until then
    whole_account: bool = False
    reason: str = field(default="", compare=False)  # in the platform's words


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It will never be taken; it is kept with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class FileTries:
    """What became of the file of a message: a platform that takes it for long neither now nor never is not waited for.
    Then the message goes without it, with a word in its place."""

    row: int = 0
    count: int = 0
    since: float = 0.0
    left_out: str = ""  # why it goes no more; empty: it goes

    def note_failure(self, row: int, failure: DeliveryFailure, now: float, pace: Pace) -> "FileTries":
        """One more try of the file of this row was in vain, though the platform is there. What keeps the whole account,
        or waits for somebody to come, says nothing about the file."""
        if isinstance(failure, NotNow) and (failure.whole_account or failure.seconds is None):
            return self
        before = self if self.row == row else FileTries(row, 0, now)
        count = before.count + 1
        is_long = count >= pace.file_tries and now - before.since >= pace.file_patience
        over = isinstance(failure, NeverTaken) or is_long
        return replace(before, count=count, left_out=str(failure) if over else "")

    def why_without(self, row: int) -> str:
        """Why this row goes without its file; empty: it goes with it."""
        return self.left_out if row == self.row else ""


def judge(error: Exception, failures: int, attempts: int, pace: Pace, chance: float) -> SendAgain | GiveUp:
    """What to do after a failed call: `failures` of the chat in a row, `attempts` of the message, `chance` up to 1."""
    if isinstance(error, NotNow):
        seconds = math.inf if error.seconds is None else max(error.seconds, 0.1)
        is_penalty = error.seconds is not None
        return SendAgain(seconds, True, penalty=is_penalty, whole_account=error.whole_account, reason=str(error))
    if isinstance(error, NeverTaken):
        return GiveUp(str(error))
    if not isinstance(error, DeliveryFailure) and attempts >= pace.strange_attempts:
        return GiveUp(f"The adapter failed ({type(error).__name__}); the log says how.")  # its words may hold secrets
    return SendAgain(pause_after(failures, pace, chance), certain=False)


def tell_refusal(outgoing: Outgoing, reason: str) -> Outgoing | None:
    """A word to the chat in which something is missing; None for a note, whose refusal nobody misses. If that word is
    refused in a thread, which may be gone, it is said in the chat beside its threads."""
    address = outgoing.address
    if outgoing.kind == NOTE:
        is_missed = address.thread and outgoing.text.startswith(MISSING)
        return replace(outgoing, address=replace(address, thread="")) if is_missed else None
    text = f"{MISSING} {reason} It is kept; `hermes doctor` names it."
    return Outgoing(address, text, NOTE, "error")


def tell_wait(wait: Mapping[str, Any]) -> str:
    """A sentence for the operator on a chat, or (none named) an account, whose service asked for patience."""
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wait["until"]))
    where = f" to chat {wait['chat']}" if wait["chat"] else ""
    return f"Nothing is sent by {wait['account']}{where} until {until}: {wait['reason']}"


def pause_after(failures: int, pace: Pace, chance: float) -> float:
    """Twice as long after each failure, up to the longest; up to half of it is left to chance."""
    longest = min(pace.longest_pause, pace.first_pause * 2.0 ** min(failures, 30))
    return longest * (1 - chance / 2)
