"""An account with a line of its own to its service: how the line is made, kept and given up, and what is said of it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.face import BaseAdapter, Core, NeverTaken, NotNow
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import FileRef

_log = logging.getLogger(__name__)
AGAIN_SECONDS = 5.0  # before what failed or ended begins anew


class LineAdapter(BaseAdapter):
    """A platform fills in `_begin` and `_close`; both are called by nobody but this class."""

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self._opening: asyncio.Task[None] | None = None  # while it connects
        self._kept: list[asyncio.Task[None]] = []

    # --- what a platform fills in

    async def _begin(self, core: Core) -> None:
        """Open the line, and `_keep` what has to run from now on. Raises ConfigProblem for what the owner can put
        right, or DeliveryFailure; whatever it raises, `_close` follows."""
        raise NotImplementedError

    async def _part(self) -> None:
        """Before what runs is ended: a farewell, or time for what is being stored."""

    async def _close(self) -> None:
        """Close what is open; nothing runs any more. It may come twice, and after a beginning that came to nothing."""
        raise NotImplementedError

    # --- the line

    async def connect(self, core: Core) -> None:
        """Whoever disconnects meanwhile ends it, and waits for its end: nothing is left open or goes on by itself."""
        await self.disconnect()
        opening = self._opening = asyncio.create_task(self._try_begin(core), name=f"{self._name_line()} connects")
        try:
            await asyncio.wait({opening})
        except asyncio.CancelledError:
            await self.disconnect()
            raise
        if opening.cancelled():
            raise NotNow(f"{self.spec.label} was switched off while it was connected.")
        self._opening = None
        opening.result()

    async def _try_begin(self, core: Core) -> None:
        try:
            await self._begin(core)
        except BaseException as problem:
            await self._end()
            if isinstance(problem, ConfigProblem | DeliveryFailure):
                self.problem, self.hears = str(problem), False
            raise

    async def disconnect(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        try:
            await self._part()
        finally:
            await self._end()

    async def _end(self) -> None:
        kept, self._kept = self._kept, []
        for task in kept:
            task.cancel()
        await asyncio.gather(*kept, return_exceptions=True)
        await self._close()

    def _keep(self, run: Callable[[], Awaitable[Any]], what: str = "") -> None:
        """Run it for as long as the line is there."""
        name = f"{self._name_line()} {what}".rstrip()
        self._kept.append(asyncio.create_task(self._run_on(run), name=name))

    async def _run_on(self, run: Callable[[], Awaitable[Any]]) -> None:
        """Whatever happens, it goes on: an account that sends and does not hear would look alive."""
        while True:
            try:
                await run()
            except Exception as error:  # noqa: BLE001 - the top of a task; an error may hold what people wrote
                _log.error("Listening to %s failed (%s) and begins anew.", self.spec.label, type(error).__name__)
            await asyncio.sleep(AGAIN_SECONDS)

    def _name_line(self) -> str:
        return f"{self.spec.name} {self.account}"

    # --- what is said of it

    def _note_life(self, problem: str = "", *, hears: bool = False) -> None:
        """C13: heard from; that something was sent is no sign that we hear."""
        self.last_seen = time.time()
        self._note_problem(problem, hears=hears)

    def _note_problem(self, problem: str, *, hears: bool = False) -> None:
        """`hears`: it is one of a part, such as a room, and the account is connected all the same."""
        if problem != self.problem:
            _log.log(logging.ERROR if problem else logging.INFO, "%s", problem or f"{self.spec.label} is well again.")
        self.problem, self.hears = problem, hears and bool(problem)

    # --- files

    async def _read_upload(self, file: FileRef) -> bytes:
        try:
            data = await asyncio.to_thread(Path(file.path).read_bytes)
        except OSError as error:
            raise NeverTaken(f"The file {file.name} cannot be read any more: {error.strerror}.") from error
        if len(data) > self.spec.max_file_bytes > 0:
            raise NeverTaken(f"The file {file.name} is larger than {self.spec.label} takes.")
        return data
