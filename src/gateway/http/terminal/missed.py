"""What a client missed while it was away: messages and outbox rows, each in its own order, merged by their time."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from gateway.platforms.local.house import PAGE, LocalHouse, StoredRow
from hermes_base.inbound import Inbound
from hermes_base.local_wire import Cursor

Word = tuple[int, Inbound]  # its seq, and the message
_Item = TypeVar("_Item", Word, StoredRow)


async def find_missed(house: LocalHouse, conversation: str, after: Cursor) -> AsyncGenerator[Word | StoredRow]:
    """Everything after the cursor, in the order in which it happened."""
    said = _read_pages(lambda last: house.inbox_since(conversation, last), lambda word: word[0], after.seq)
    rows = read_rows(house, conversation, after.outbox)
    word, row = await anext(said, None), await anext(rows, None)
    while word is not None or row is not None:
        if row is None or (word is not None and word[1].received <= row.created):
            if word is not None:
                yield word
            word = await anext(said, None)
        else:
            yield row
            row = await anext(rows, None)


def read_rows(house: LocalHouse, conversation: str, after: int) -> AsyncIterator[StoredRow]:
    return _read_pages(lambda last: house.outbox_since(conversation, last), lambda row: row.id, after)


async def _read_pages(
    fetch: Callable[[int], Awaitable[Sequence[_Item]]], number: Callable[[_Item], int], after: int
) -> AsyncIterator[_Item]:
    while True:
        page = await fetch(after)
        for item in page:
            yield item
        if len(page) < PAGE:
            return
        after = number(page[-1])
