"""What several ask for at about the same time is loaded once: a mail for each of its files."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

KEEP_SECONDS = 10.0  # after it is there
T = TypeVar("T")


class SharedLoads(Generic[T]):
    """At most so many at once; what is there is kept for a moment, of the newest ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._room = asyncio.Semaphore(most)
        self._loads: dict[Hashable, asyncio.Task[T]] = {}

    async def share(self, key: Hashable, load: Callable[[], Awaitable[T]]) -> T:
        """What `load` brings, now or for whoever asked before. One that failed is loaded again by whoever asks next."""
        task = self._loads.get(key)
        if task is None:
            task = self._loads[key] = asyncio.create_task(self._load(load), name="mail of a file")
            task.add_done_callback(lambda done: self._note_end(key, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        loads, self._loads = self._loads, {}
        for task in loads.values():
            task.cancel()
        await asyncio.gather(*loads.values(), return_exceptions=True)

    async def _load(self, load: Callable[[], Awaitable[T]]) -> T:
        async with self._room:
            return await load()

    def _note_end(self, key: Hashable, task: asyncio.Task[T]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._drop(key, task)
            return
        asyncio.get_running_loop().call_later(KEEP_SECONDS, self._drop, key, task)
        done = [other for other, load in self._loads.items() if load.done()]
        for other in done[: -self._most]:
            del self._loads[other]

    def _drop(self, key: Hashable, task: asyncio.Task[T]) -> None:
        if self._loads.get(key) is task:
            del self._loads[key]
