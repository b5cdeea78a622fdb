"""An event loop on a thread of its own, for the code of one plugin: what blocks there blocks nobody else."""

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from hermes_base.errors import DeliveryFailure

log = logging.getLogger(__name__)
T = TypeVar("T")
END_SECONDS = 1.0  # for tasks that are left when the loop ends


class PluginFault(Exception):
    """The code of a plugin raised something; its cause says what."""


class PluginLoop:
    def __init__(self, name: str) -> None:
        self.name = name
        self._loop = asyncio.new_event_loop()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name=f"plugin {name}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._ends

    def owns_thread(self) -> bool:
        """Whether the caller is on it."""
        return threading.current_thread() is self._thread

    async def call(self, work: Callable[[], Any], seconds: float) -> Any:
        """What `work` gives back on the plugin's loop, awaited there if it can be. PluginFault for whatever it raises,
        DeliveryFailure when it does not come back in time: it is told to end then, and not waited for."""
        if not self.is_alive:
            raise DeliveryFailure(f"The plugin of {self.name} does not run.")
        future: concurrent.futures.Future[Any] = asyncio.run_coroutine_threadsafe(_guard(work), self._loop)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError as late:
            raise DeliveryFailure(f"The plugin of {self.name} did not answer within {seconds:g} s.") from late

    def stop(self) -> None:
        """End the loop as soon as the plugin lets it; from any thread, and nobody waits."""
        if not self._ends:
            self._ends = True
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._ends:
            try:
                self._loop.run_forever()
            except BaseException:  # the top of a plugin's thread: SystemExit of a task of its own, too
                log.exception("a task of the plugin of %s failed in a way it must not", self.name)
        try:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=END_SECONDS))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        except BaseException:
            log.exception("the loop of the plugin of %s did not end in order", self.name)
        finally:
            self._loop.close()


async def _guard(work: Callable[[], Any]) -> Any:
    try:
        made = work()
        return await made if isinstance(made, Awaitable) else made
    except asyncio.CancelledError:
        raise
    except BaseException as problem:  # a plugin's SystemExit ends neither its loop nor us
        raise PluginFault(f"{type(problem).__name__}: {problem}") from problem
