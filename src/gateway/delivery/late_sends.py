"""Drafts whose sending takes longer than one waits for it. The call goes on, and whoever comes next finds what became
of it: the draft is edited after all, and its answer takes its place."""

import asyncio
import logging
from typing import TYPE_CHECKING

from gateway.core.drafts import Draft, find_turn, settle_late
from gateway.platforms.face import NeverTaken, NotNow, Part
from hermes_base.errors import StoreFailure

if TYPE_CHECKING:
    from gateway.delivery.accounts import Account

_log = logging.getLogger(__name__)


class LateSends:
    """Of one chat. Where keys are taken there are none: the key tells later what became of a message."""

    def __init__(self, account: "Account") -> None:
        self._account = account
        self._under_way: dict[str, asyncio.Future[str]] = {}  # by draft

    async def send(self, draft: Draft, part: Part) -> str:
        """Send a draft; the platform's id of it. Whoever gives up waiting leaves the call under way."""
        adapter = self._account.adapter
        if adapter.spec.takes_keys:
            return await adapter.send(part)
        sending = self._under_way[draft.turn] = asyncio.ensure_future(adapter.send(part))
        sending.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            return await asyncio.shield(sending)
        finally:
            if sending.done():
                self._under_way.pop(draft.turn, None)

    async def note(self, draft: Draft) -> None:
        """For whoever goes on with the turn after a restart; with a key the draft is found without."""
        if not draft.turn or self._account.adapter.spec.takes_keys:
            return
        try:
            await self._account.call(self._account.turns.note_draft, find_turn(draft.turn), draft.message)
        except StoreFailure as problem:
            _log.warning("The store could not note a draft: %s", problem)

    async def look(self, drafts: dict[str, Draft]) -> None:
        """Write into the drafts of the chat what has ended by now."""
        ended = {name: sending for name, sending in self._under_way.items() if sending.done()}
        self._under_way = {name: sending for name, sending in self._under_way.items() if name not in ended}
        found = {name: _read_end(drafts[name], sending) for name, sending in ended.items() if name in drafts}
        drafts.update(found)
        for draft in found.values():
            if draft.message:
                await self.note(draft)

    async def wait(self, draft: Draft | None, drafts: dict[str, Draft]) -> Draft | None:
        """The draft when its sending has ended, or has had the time of any call; None: there is nothing of it."""
        if draft is None or draft.turn not in self._under_way:
            return draft
        await asyncio.wait({self._under_way[draft.turn]}, timeout=self._account.pace.call)
        await self.look(drafts)
        settled = drafts.get(draft.turn, draft)
        return settled if settled.message or settled.unsure else None

    def drop(self) -> None:
        """Delivery ends, and nobody asks for them any more."""
        for sending in self._under_way.values():
            sending.cancel()
        self._under_way.clear()


def _read_end(draft: Draft, sending: "asyncio.Future[str]") -> Draft:
    error = asyncio.CancelledError() if sending.cancelled() else sending.exception()
    is_certain = error is None or isinstance(error, NotNow | NeverTaken)
    return settle_late(draft, "" if error else sending.result(), certain=is_certain)
