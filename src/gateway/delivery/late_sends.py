"""Drafts on their way. Whoever gives up waiting leaves the call under way, and whoever comes next finds what became of
it: the draft is edited after all, and its answer takes its place."""

import asyncio
import functools
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.core.drafts import Draft, find_turn, settle_draft
from gateway.platforms.face import NeverTaken, NotNow, Part
from hermes_base.errors import StoreFailure

if TYPE_CHECKING:
    from gateway.delivery.accounts import Account
    from gateway.delivery.chats import ChatSender

_log = logging.getLogger(__name__)
MOST_CLOSED = 1000  # turns that are remembered


class ClosedTurns:
    """Turns whose answers are stored, or are about to be. Their threads close them, the event loop begins drafts; of a
    turn one of both is first: an answer is stored with the draft, or the draft is not sent (C7)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, None] = {}

    def __contains__(self, turn: str) -> bool:
        return turn in self._names

    def close(self, turn: str) -> None:
        with self._lock:
            self._names[turn] = None
            if len(self._names) > MOST_CLOSED:
                del self._names[next(iter(self._names))]

    def unless_closed(self, turn: str, begin: Callable[[], None]) -> bool:
        """Whether the draft of this turn was begun."""
        with self._lock:
            if turn in self._names:
                return False
            begin()
            return True


class LateSends:
    """Of one chat. Where keys are taken there are none: the key tells later what became of a message."""

    def __init__(self, account: "Account", chat: "ChatSender") -> None:
        self._account = account
        self._chat = chat
        self._under_way: dict[str, asyncio.Future[str]] = {}  # by draft
        self._left: set[str] = set()  # drafts whose sending nobody waits for
        self._unnoted: set[str] = set()  # those of them that have arrived

    async def send(self, draft: Draft, part: Part) -> str:
        """Send a draft; the platform's id of it."""
        adapter = self._account.adapter
        if adapter.spec.takes_keys:
            return await adapter.send(part)
        sending = self._under_way[draft.turn] = asyncio.ensure_future(adapter.send(part))
        sending.add_done_callback(functools.partial(self._settle, draft.turn))
        try:
            return await asyncio.shield(sending)
        finally:
            if not sending.done():
                self._left.add(draft.turn)

    def _settle(self, name: str, sending: "asyncio.Future[str]") -> None:
        """What became of it is known as soon as it is: the answer may be stored before anybody looks again."""
        if self._under_way.get(name) is sending:
            del self._under_way[name]
        if name in self._chat.drafts:
            draft = self._chat.drafts[name] = _read_end(self._chat.drafts[name], sending)
            if draft.message and name in self._left:
                self._unnoted.add(name)
        self._left.discard(name)

    async def note(self, draft: Draft) -> None:
        """For whoever goes on with the turn after a restart; with a key the draft is found without."""
        if not draft.turn or self._account.adapter.spec.takes_keys:
            return
        try:
            await self._account.call(self._account.turns.note_draft, find_turn(draft.turn), draft.message)
        except StoreFailure as problem:
            _log.warning("The store could not note a draft: %s", problem)

    async def look(self) -> None:
        """Note what has arrived since nobody waited for it."""
        unnoted, self._unnoted = self._unnoted, set()
        for draft in [self._chat.drafts[name] for name in unnoted if name in self._chat.drafts]:
            await self.note(draft)

    async def wait(self, draft: Draft | None) -> Draft | None:
        """The draft when its sending has ended, or has had the time of any call; None: there is nothing of it."""
        if draft is None or draft.turn not in self._under_way:
            return draft
        await asyncio.wait({self._under_way[draft.turn]}, timeout=self._account.pace.call)
        settled = self._chat.drafts.get(draft.turn, draft)
        return settled if settled.message or settled.unsure else None

    def drop(self) -> None:
        """Delivery ends, and nobody asks for them any more."""
        for sending in list(self._under_way.values()):
            sending.cancel()


def _read_end(draft: Draft, sending: "asyncio.Future[str]") -> Draft:
    error = asyncio.CancelledError() if sending.cancelled() else sending.exception()
    is_certain = error is None or isinstance(error, NotNow | NeverTaken)
    return settle_draft(draft, "" if error else sending.result(), certain=is_certain)
