"""Drains the outbox: whoever holds an account's lease sends its messages, each chat in order, fresh chats first."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from gateway.core.delivery_rules import Pace
from gateway.core.drafts import Draft, add_line
from gateway.delivery.accounts import Account
from gateway.delivery.chats import CallStore, DropFile, NoteShown
from gateway.platforms.face import Adapter
from hermes_base.inbound import Address
from hermes_state.sql.turns_sql import TurnStore


class Delivery:
    """All accounts. Calls are made on the event loop, but for `wake` and `find_draft`, which any thread may call."""

    def __init__(
        self,
        turns: TurnStore,
        adapters: Iterable[Adapter],
        node: str,
        call: CallStore,
        pace: Pace | None = None,
        drop_file: DropFile = lambda file: None,
        note_shown: NoteShown = lambda question: None,
    ) -> None:
        """`drop_file` is called, on a store thread, with a file that was sent; `note_shown`, on the event loop, with
        the id of a question when the whole of it has arrived."""
        self.counts: Counter[str] = Counter()  # sent, again, failed, waiting; progress: calls for drafts and typing
        self._accounts: dict[str, Account] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        for adapter in adapters:
            account = Account(turns, adapter, node, call, pace or Pace(), self.counts)
            account.drop_file, account.note_shown = drop_file, note_shown
            self._accounts[account.name] = account

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for account in self._accounts.values():
            account.start()

    async def stop(self, grace: float = 5.0) -> None:
        """End the calls under way, give back what was not sent, let go of the leases."""
        await asyncio.gather(*(account.stop(grace) for account in self._accounts.values()))
        self._loop = None

    def rejoin(self, node: str) -> None:
        """The process has another node id now; its leases are taken anew."""
        for account in self._accounts.values():
            account.rejoin(node)

    def wake(self, address: Address) -> None:
        """There is something for this chat, or somebody who could not be reached is there again."""
        if self._loop is not None and address.account_key in self._accounts:
            self._loop.call_soon_threadsafe(self._accounts[address.account_key].wake, address)

    def draft(self, address: Address, text: str, turn: str = "") -> None:
        """The answer of the turn so far, from its beginning; shown as the platform and its budget allow."""
        self._show(address, turn, lambda draft: replace(draft, text=text))

    def progress(self, address: Address, line: str, turn: str = "") -> None:
        """A line on what a tool does; shown with the draft."""
        self._show(address, turn, lambda draft: add_line(draft, line))

    def typing(self, address: Address, turn: str = "") -> None:
        """The turn is at work: show so until its draft ends."""
        self._show(address, turn, lambda draft: draft)

    def find_draft(self, address: Address, turn: str) -> str:
        """Where the answer of the turn goes, as far as it is known by now, for `Outgoing.draft`. Any thread may ask;
        nothing is waited for."""
        account = self._accounts.get(address.account_key)
        chat = account.chats.get(address.chat_key) if account else None
        draft = chat.draft if chat else None
        return draft.place if draft and draft.turn == turn else ""

    async def tell(self, address: Address, text: str) -> None:
        """A word to a chat while the store does not answer; it may be lost. Platforms with events are shown it."""
        account = self._find_account(address)
        if account is not None:
            await account.tell(address, text)

    def leases(self) -> dict[str, int | None]:
        """The accounts with the epoch of their lease; None: it is not ours."""
        return {name: account.epoch for name, account in self._accounts.items()}

    def at_work(self) -> int:
        """Chats that are held in memory."""
        return sum(len(account.chats) for account in self._accounts.values())

    def _show(self, address: Address, turn: str, change: Callable[[Draft], Draft]) -> None:
        account = self._find_account(address)
        if account is not None:
            account.show(address, turn, change)

    def _find_account(self, address: Address) -> Account | None:
        """Who says what is not stored, while delivery runs; None where events are shown instead."""
        account = self._accounts.get(address.account_key) if self._loop is not None else None
        return None if account is None or account.adapter.spec.shows_events else account
