"""The account of a platform whose clients read what was said in the store: nothing is sent to them.

Whoever looks is told that there is something. Where clients say what they have shown (`spec.confirms`), a message waits
for that; elsewhere it has arrived when it stands in the store.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from gateway.core.delivery_rules import Pace
from gateway.delivery.chats import CallStore, DropFile, NoteShown
from gateway.platforms.hub import HubAdapter, Posted, Sent
from hermes_base.errors import StoreFailure
from hermes_base.inbound import Address, OutboxRow
from hermes_state.sql.turns_sql import TurnStore

_log = logging.getLogger(__name__)
_NOTE_SECONDS = 0.05

PassRow = Callable[[Address, Sent | Posted, str], None]


class ReadAccount:
    def __init__(
        self, turns: TurnStore, adapter: HubAdapter, call: CallStore, pace: Pace, counts: Counter[str]
    ) -> None:
        self.name = f"{adapter.spec.name}:{adapter.account}"
        self.adapter = adapter
        self.drop_file: DropFile = lambda file: None
        self.note_shown: NoteShown = lambda said: None
        self.pass_on: PassRow | None = None  # to those who look on in other processes
        self._turns = turns
        self._call = call
        self._pace = pace
        self._counts = counts
        self._working: set[asyncio.Task[None]] = set()
        self._confirmed: set[int] = set()  # and not noted yet
        self._looking: asyncio.Task[None] | None = None
        self._noting: asyncio.TimerHandle | None = None  # the moment when what was confirmed is noted

    def start(self) -> None:
        self._looking = self._begin(self._look_out())

    async def stop(self, grace: float) -> None:
        """Note what was confirmed; what is left then is for whoever comes next."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        if self._noting is not None:
            self._noting.cancel()
        self._begin(self._note_confirmed())
        while self._working:
            _, late = await asyncio.wait(self._working, timeout=grace)
            for task in late:
                task.cancel()

    def wake(self, address: Address) -> None:
        """A message was stored for this chat."""
        if self.adapter.spec.confirms:
            self.adapter.hub.show(address.chat, Posted())
            if self.pass_on is not None:
                self.pass_on(address, Posted(), "")
        else:
            self._begin(self._take(address.chat_key))

    def confirm(self, rows: Sequence[int]) -> None:
        """Clients have shown these. They are noted in a moment, with what others confirm meanwhile."""
        if not self._confirmed and self._looking is not None:
            loop = asyncio.get_running_loop()
            self._noting = loop.call_later(_NOTE_SECONDS, lambda: self._begin(self._note_confirmed()))
        self._confirmed.update(rows)

    async def find_unseen(self, chat: str) -> list[OutboxRow]:
        """What waits there for somebody who shows it."""
        rows = await self._call(self._turns.outbox_unsent, self.name, chat)
        return [row for row in rows if row.id not in self._confirmed]

    async def _note_confirmed(self) -> None:
        while rows := sorted(self._confirmed):
            try:
                self._note(await self._call(self._turns.outbox_arrived, self.name, rows))
            except StoreFailure as problem:
                _log.warning("The store could not note what was shown (%s); it is asked for again.", problem)
            self._confirmed.difference_update(rows)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=f"delivery {self.name}")
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    async def _look_out(self) -> None:
        """Now and then, for what nobody told us of, and for what nobody has confirmed."""
        while True:
            try:
                for chat in await self._call(self._turns.outbox_chats, self.name):
                    if self.adapter.spec.confirms:
                        self.adapter.hub.show(chat, Posted(late=True))
                    else:
                        await self._take(chat)
            except StoreFailure as problem:
                _log.warning("The store does not answer the delivery of %s: %s", self.name, problem)
            except Exception:  # noqa: BLE001 - the top of a task that must not end
                _log.exception("The delivery of %s failed; it goes on.", self.name)
            await asyncio.sleep(self._pace.poll)

    async def _take(self, chat: str) -> None:
        try:
            rows = await self._call(self._turns.outbox_arrived_all, self.name, chat)
        except StoreFailure as problem:
            _log.warning("The store could not note a delivery (%s); it is noted later.", problem)
            return
        for row in rows:
            address, sent = row.outgoing.address, Sent(row.id, row.outgoing)
            self.adapter.hub.show(address.chat, sent)
            if self.pass_on is not None:
                self.pass_on(address, sent, row.conversation)
        self._note(rows)

    def _note(self, rows: Sequence[OutboxRow]) -> None:
        self._counts["sent"] += len(rows)
        for row in rows:
            self.note_shown(row.outgoing)
            if row.outgoing.file is not None:
                self._begin(self._drop(row))

    async def _drop(self, row: OutboxRow) -> None:
        """It has arrived, whatever becomes of the copy: one that stays goes with the sweep of old files."""
        try:
            await self._call(self.drop_file, row.outgoing.file)
        except (OSError, StoreFailure) as problem:
            _log.warning("The copy of a file that was sent stays behind: %s", problem)
