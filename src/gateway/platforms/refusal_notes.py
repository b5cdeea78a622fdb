"""Tells people that a message of theirs was not stored: once for a row of refusals, or the notes would be a flood
themselves, and never while the service asks for patience (C8)."""

import logging
import time
from collections.abc import Awaitable, Callable

from gateway.platforms.backoff import Pauses
from gateway.platforms.face import NeverTaken, NotNow, Part
from hermes_base.errors import DeliveryFailure

_log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # between tries of which nobody knows whether they arrived
MOST_TOLD = 1000
_ALL = ""  # the whole account, among the chats


class RefusalNotes:
    def __init__(self, send: Callable[[Part], Awaitable[str]], clock: Callable[[], float] = time.monotonic) -> None:
        self._send = send
        self._clock = clock
        self._told: dict[str, str] = {}  # by chat: the last refusal since a message was taken
        self._closed_until: dict[str, float] = {}  # by chat
        self._pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)

    def note_taken(self, chat: str) -> None:
        """A message of this chat was stored: the next refusal there is news."""
        self._told.pop(chat, None)

    async def tell(self, note: Part) -> bool:
        """Whether they know it, or nobody can tell them. False: they have to be told yet, so the message is not settled
        and comes here again; however often it does, nothing is sent before its time."""
        chat = note.address.chat_key
        if self._told.get(chat) == note.text:
            return True
        if self._clock() < max(self._closed_until.get(chat, 0.0), self._closed_until.get(_ALL, 0.0)):
            return False
        try:
            await self._send(note)
        except DeliveryFailure as problem:
            _log.warning("Nobody in %s was told that a message was refused: %s", chat, problem)
            if not self._is_lasting(problem):
                whole = isinstance(problem, NotNow) and problem.whole_account
                self._closed_until[_ALL if whole else chat] = self._clock() + self._find_pause(problem)
                return False
        self._pauses.reset()
        self._closed_until.pop(chat, None)
        while len(self._told) >= MOST_TOLD:
            del self._told[next(iter(self._told))]
        self._told[chat] = note.text
        return True

    @staticmethod
    def _is_lasting(problem: DeliveryFailure) -> bool:
        """Where nobody can be reached, or nothing is ever taken, there is nobody to tell, and others must not wait."""
        return isinstance(problem, NeverTaken) or (isinstance(problem, NotNow) and problem.seconds is None)

    def _find_pause(self, problem: DeliveryFailure) -> float:
        asked = problem.seconds if isinstance(problem, NotNow) else None
        return self._pauses.next() if asked is None else asked
