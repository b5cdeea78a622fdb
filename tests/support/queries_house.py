"""A gateway on a thread, and its queries as the page and the API use it, called from the test's thread."""

import asyncio
import itertools
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from local_gateway import LocalHouse
from waiting import wait_until

from gateway.platforms.face import Accepted
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.query_values import Caller, Timeline

T = TypeVar("T")
OWNER = Caller()


class QueriesHouse(LocalHouse):
    """Somebody says things as the page or the API would, and looks at what became of them."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._numbers = itertools.count(1)

    def start(self) -> None:
        super().start()
        self.queries = self.gateway.queries

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.start_call(work).result(30)

    def start_call(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin it on the gateway's loop, and do not wait for it."""
        assert self.thread._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.thread._loop)

    def open(self, caller: Caller = OWNER, platform: str = "web", **more: str) -> str:
        return self.run(self.queries.threads.open(caller, platform, **more))

    def say(
        self,
        conversation: str,
        text: str,
        *,
        caller: Caller = OWNER,
        platform: str = "web",
        files: tuple[FileRef, ...] = (),
    ) -> int:
        """Returns when it is stored; its number in the conversation."""
        inbound = Inbound(
            Address(platform, platform, conversation),
            f"n{next(self._numbers)}",
            caller.person,
            text,
            files=files,
            conversation=conversation,
            received=time.time(),
        )
        taken = self.run(self.gateway.take(inbound))
        assert isinstance(taken, Accepted), taken
        assert taken.seq is not None
        return taken.seq

    def ask(self, conversation: str, text: str, **more: Any) -> Timeline:
        """Say it, and wait until it is dealt with."""
        self.say(conversation, text, **more)
        self.wait_idle(conversation)
        return self.look(conversation, more.get("caller", OWNER))

    def wait_idle(self, conversation: str) -> None:
        turns = self.gateway.turns
        wait_until(lambda: not turns.open_seqs(conversation) and conversation not in self.gateway.lanes.at_work)

    def look(self, conversation: str, caller: Caller = OWNER, **more: Any) -> Timeline:
        return self.run(self.queries.threads.timeline(caller, conversation, **more))
