"""Tells people that a message of theirs was not stored, or cannot be read: once for a row of refusals, or the notes
would be a flood themselves, and never while the service asks for patience (C8). A word that one chat does not take now
is told later, and nobody who writes waits for it."""

import asyncio
import functools
import logging
import math
import time
from collections.abc import Awaitable, Callable

from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Accepted, NeverTaken, NotNow, Part, Refused
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # between tries of which nobody knows whether they arrived
SEND_SECONDS = 15.0  # whoever writes waits no longer for a word to somebody else
TOLD_SECONDS = 3600.0  # who goes on as before is told again so seldom
LATE_SECONDS = 3600.0  # so long a word is tried that a chat does not take
MOST_TOLD, MOST_LATE = 1000, 100


class RefusalNotes:
    def __init__(
        self,
        send: Callable[[Part], Awaitable[str]],
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._send = send
        self._clock = clock
        self._rest = rest
        self._told: dict[str, tuple[str, float]] = {}  # by chat: the last refusal since a message was taken, and when
        self._closed_until = -math.inf  # the whole account
        self._late: dict[str, Part] = {}  # by chat: what could not be told yet
        self._telling: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._telling:
            task.cancel()

    async def settle(self, inbound: Inbound, taken: Accepted | Refused, reply_to: str = "") -> bool:
        """True when the message is stored, or its sender knows that it is not; otherwise it has to come again."""
        if not isinstance(taken, Refused):
            self.note_taken(inbound.address.chat_key)
            return True
        key = f"refusal {inbound.ext_id}"
        note = Part(inbound.address, taken.reason, key=key, reply_to=reply_to, markup="plain")
        return not taken.closing and await self.tell(note)

    def note_taken(self, chat: str) -> None:
        """A message of this chat was stored: the next refusal there is news."""
        self._told.pop(chat, None)

    async def tell(self, note: Part) -> bool:
        """Whether it is seen to: they know it, nobody can tell them, or they hear it as soon as their chat takes it.
        False: the whole account is closed, so the message is not settled and comes here again; however often it does,
        nothing is sent before its time."""
        chat = note.address.chat_key
        text, at = self._told.get(chat, ("", -math.inf))
        if text == note.text and self._clock() - at < TOLD_SECONDS:
            return True
        if chat in self._late:
            self._late[chat] = note
            return True
        if self._clock() < self._closed_until:
            return False
        failure = await self._try(note)
        if failure is None:
            return True
        if isinstance(failure, NotNow) and failure.whole_account:
            return False
        self._put_off(note, failure)
        return True

    async def _try(self, note: Part) -> DeliveryFailure | None:
        """Why nobody could be told now; None: it was told, or nobody ever can be, and that is said in the log."""
        chat, failure = note.address.chat_key, await self._call(note)
        if failure is not None:
            _log.warning("Nobody in %s was told that a message was refused: %s", chat, failure)
            if not _is_lasting(failure):
                if isinstance(failure, NotNow) and failure.whole_account:
                    self._closed_until = self._clock() + (failure.seconds or 0.0)
                return failure
        while len(self._told) >= MOST_TOLD:
            del self._told[next(iter(self._told))]
        self._told[chat] = (note.text, self._clock())
        return None

    async def _call(self, note: Part) -> DeliveryFailure | None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._send(note)
        except DeliveryFailure as failure:
            return failure
        except TimeoutError:
            return DeliveryFailure("no answer in time")
        except Exception as error:  # noqa: BLE001 - the boundary to an adapter: its fault is no reason to hear nobody
            return DeliveryFailure(f"the adapter failed ({type(error).__name__})")
        return None

    # --- what is told later

    def _put_off(self, note: Part, failure: DeliveryFailure) -> None:
        chat = note.address.chat_key
        if len(self._late) >= MOST_LATE:
            _log.error("Nobody in %s is told that a message was refused: too many words wait.", chat)
            return
        self._late[chat] = note
        task = asyncio.create_task(self._tell_late(chat, failure), name=f"late word to {chat}")
        self._telling.add(task)
        task.add_done_callback(functools.partial(self._end_late, chat))

    def _end_late(self, chat: str, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        del self._late[chat]

    async def _tell_late(self, chat: str, failure: DeliveryFailure | None) -> None:
        pauses, end = Pauses(FIRST_PAUSE, LONGEST_PAUSE), self._clock() + LATE_SECONDS
        while failure is not None:
            if self._clock() >= end:
                _log.error("Nobody in %s is told any more that a message was refused: %s", chat, failure)
                return
            asked = failure.seconds if isinstance(failure, NotNow) else None
            await self._rest(max(asked or pauses.next(), self._closed_until - self._clock()))
            note = self._late[chat]
            failure = await self._try(note)
            if failure is None and self._late[chat].text != note.text:  # another came meanwhile
                failure = await self._try(self._late[chat])


def _is_lasting(problem: DeliveryFailure) -> bool:
    """Where nobody can be reached, or nothing is ever taken, there is nobody to tell, and others must not wait."""
    return isinstance(problem, NeverTaken) or (isinstance(problem, NotNow) and problem.seconds is None)
