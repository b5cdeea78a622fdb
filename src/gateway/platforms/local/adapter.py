"""The account of this machine's terminals: they read the store, and say what they have shown.

A row for a terminal waits until somebody has confirmed it, so that an answer which nobody saw is there for whoever
comes next. Terminals find rows by themselves; delivery only asks that they look.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.platforms.face import NotNow, Part
from gateway.platforms.hub import PicturedAdapter, Sent, Watch
from gateway.platforms.local import SPEC
from hermes_base.conversation_key import parse_key
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, FileRef, Outgoing

CONFIRM_SECONDS = 10.0
_MOST_REMEMBERED = 1_000  # rows


class LocalAdapter(PicturedAdapter):
    spec = SPEC
    has_own_socket = True

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self._asked: dict[int, tuple[str, asyncio.Future[None]]] = {}  # rows that delivery waits for, and their chat
        self._early: OrderedDict[int, str] = OrderedDict()  # confirmed before delivery asked: row -> chat
        self._sent: OrderedDict[int, None] = OrderedDict()

    def address_of(self, conversation: str) -> Address:
        """Where a client of this conversation is spoken to; the chat of a foreign conversation is its whole key."""
        key = parse_key(conversation)
        own = key.platform == self.spec.name and key.kind == "dm" and key.thread is None
        return Address(self.spec.name, self.account, key.chat if own else conversation)

    @contextlib.contextmanager
    def watch(self, conversation: str) -> Iterator[Watch]:
        """Whoever waits for the last watcher alone waits no longer when it goes."""
        address = self.address_of(conversation)
        try:
            with self.hub.watch(address.chat) as watch:
                self.core.wake_delivery(address)
                yield watch
        finally:
            self._give_up(address.chat)

    def _give_up(self, chat: str) -> None:
        if self.hub.is_watched(chat):
            return
        for asked, confirmed in self._asked.values():
            if asked == chat and not confirmed.done():
                confirmed.set_exception(DeliveryFailure("The client went away before it confirmed the message."))

    def place(self, conversation: str) -> str:
        return self.address_of(conversation).chat

    def reachable(self, address: Address) -> bool:
        return self.hub.is_watched(address.chat) or address.chat in self._early.values()

    # --- delivery

    async def send(self, part: Part, file: FileRef | None = None) -> str:
        """Have everyone who looks at the conversation look for the row; done when one of them has confirmed it."""
        if self._early.pop(part.row, None) is None:
            await self._have_confirmed(part, file)
        _remember(self._sent, part.row, None)
        return str(part.row)

    async def _have_confirmed(self, part: Part, file: FileRef | None) -> None:
        chat = part.address.chat
        if not self.hub.is_watched(chat):
            raise NotNow("Nobody looks at this conversation now.")
        outgoing = part.outgoing or Outgoing(part.address, part.text)
        confirmed = asyncio.get_running_loop().create_future()
        self._asked[part.row] = chat, confirmed
        self.hub.show(chat, Sent(part.row, replace(outgoing, file=file or outgoing.file)))
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                await confirmed
        except TimeoutError as error:
            raise DeliveryFailure("No client confirmed the message.") from error
        finally:
            del self._asked[part.row]

    def confirm(self, conversation: str, rows: Iterable[int]) -> None:
        """A client has shown these rows; delivery may be about to ask for them, or may have been told before."""
        address = self.address_of(conversation)
        for row in rows:
            if row in self._asked:
                _, confirmed = self._asked[row]
                if not confirmed.done():
                    confirmed.set_result(None)
            elif row not in self._sent:
                _remember(self._early, row, address.chat)
                self.core.wake_delivery(address)


def _remember(known: OrderedDict[int, Any], row: int, value: Any) -> None:
    known[row] = value
    while len(known) > _MOST_REMEMBERED:
        known.popitem(last=False)
