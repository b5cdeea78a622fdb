"""Mails that their server does not hand out: each is tried a few times and then set aside, so that none holds up the
others for ever. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

MOST_TRIES = 3  # of one mail, before it is set aside
MOST_ASIDE = 100
MOST_NAMED = 5
WITHHELD = (
    "Mails that the mail server does not hand out: {count} ({numbers}). All others are read; these stay in the mailbox "
    "and are tried again every ten minutes. If it stays so, look at them there, and move or delete them."
)


class MailFate(StrEnum):
    SETTLED = "settled"  # it is stored, needs no answer, or is gone
    WAITS = "waits"  # those after it wait with it, so that order is kept
    ASIDE = "aside"  # those after it go on


class WithheldMail(Exception):
    """A server that goes on speaking does not hand a mail out."""

    def __init__(self, fate: MailFate) -> None:
        super().__init__(fate)
        self.fate = fate


class WithheldTries:
    """Counts how often a mail was not handed out. Numbers are those of one mailbox (UIDVALIDITY)."""

    def __init__(self) -> None:
        self._tries: Counter[int] = Counter()
        self._apart_until = 0

    def group(self, uids: Sequence[int], most: int) -> Iterator[Sequence[int]]:
        """What is asked for together. Of those that came to nothing together each is asked for alone, so that the one
        at fault is found."""
        alone = [uid for uid in uids if uid <= self._apart_until]
        yield from ([uid] for uid in alone)
        for at in range(len(alone), len(uids), most):
            yield uids[at : at + most]

    def note_failure(self, uids: Sequence[int], aside: Sequence[int]) -> MailFate:
        """What becomes of mails that were asked for together and not handed out, where those in `aside` are already."""
        if len(uids) > 1:
            self._apart_until = max(uids)
            return MailFate.WAITS
        (uid,) = uids
        self._tries[uid] += 1
        may_go_aside = self._tries[uid] >= MOST_TRIES and not is_too_much(aside)
        return MailFate.ASIDE if uid in aside or may_go_aside else MailFate.WAITS

    def forget(self, uid: int) -> None:
        """It was handed out after all, or is gone."""
        self._tries.pop(uid, None)


def is_too_much(aside: Sequence[int]) -> bool:
    """Whether so many are set aside that the server is to blame itself: then the mailbox waits for it."""
    return len(aside) >= MOST_ASIDE


def describe_aside(uids: Sequence[int]) -> str:
    """For the owner; empty: there is nothing to tell."""
    named = ", ".join(map(str, uids[:MOST_NAMED])) + (", …" if len(uids) > MOST_NAMED else "")
    return WITHHELD.format(count=len(uids), numbers=f"UID {named}") if uids else ""
