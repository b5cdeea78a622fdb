"""A small house behind the real local adapter, the real delivery and a real store: it answers with what it heard.

Run as a program it owns a home and serves its socket until it is ended.
"""

import asyncio
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fresh_store import fresh_store

from gateway.delivery.delivery import Delivery
from gateway.http.terminal.local_server import LocalServer
from gateway.platforms.face import Accepted, Begun, Dealt, Heard, LiveEvent, Moved, Refused
from gateway.platforms.local.adapter import LocalAdapter
from gateway.platforms.local.house import OpenedConversation, SeenMessage
from hermes_base.chat import Question, TextDelta, ToolEnded, ToolStarted
from hermes_base.conversation_key import ConversationKey
from hermes_base.errors import HermesError
from hermes_base.inbound import (
    ANSWER,
    FILE,
    NOTE,
    QUESTION,
    Address,
    FileRef,
    Inbound,
    OutboxRow,
    Outgoing,
    read_inbound,
    write_inbound,
)
from hermes_base.local_wire import Hello
from hermes_constants import STORE_FILE
from hermes_state.home_lock import HomeLock
from hermes_state.records import make_session_id
from hermes_state.sql.store_sql import Store
from hermes_state.turns import Claim, NodeInfo, Waiting


class EchoHouse:
    """Answers as `LocalDoor` does. What it does with a message, its first word says."""

    version = "test"

    def __init__(self, home: Path, store: Any = None, settings: Mapping[str, Any] | None = None) -> None:
        self.home = home
        self.store = store if store is not None else fresh_store()
        self.turns = self.store.turns
        self.adapter = LocalAdapter("local", settings or {}, home)
        self.taken: list[Inbound] = []
        self.turns_run: list[str] = []
        self.called: list[tuple[str, Mapping[str, Any]]] = []
        self.ended = asyncio.Event()
        self.refuse = ""
        self._last = ""
        self._stops: dict[str, asyncio.Event] = {}
        self._answers: dict[str, asyncio.Future[str]] = {}
        self._questions: dict[str, Question] = {}
        self._lanes: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        self.node = self.turns.join(NodeInfo("test", alone=True))
        await self.adapter.connect(self)
        self.server = LocalServer(self.adapter)
        await self.server.open()
        self.delivery = Delivery(self.turns, [self.adapter], self.node, asyncio.to_thread)
        await self.delivery.start()
        self._claim_all()

    async def close(self) -> None:
        for lane in self._lanes.values():
            lane.cancel()
        await asyncio.gather(*self._lanes.values(), return_exceptions=True)
        await self.adapter.disconnect()
        await self.server.close()
        await self.delivery.stop(0.1)
        self.turns.leave(self.node)

    # --- Core

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        if self.refuse:
            return Refused(self.refuse)
        self.taken.append(inbound)
        key = inbound.key("default")
        seq = self.turns.accept(key, inbound.address.account_key, inbound.ext_id, write_inbound(inbound))
        if seq is not None:
            await self.show(key, Heard(seq, inbound))
            self._claim_all()
        return Accepted(key, seq)

    def wake_delivery(self, address: Address) -> None:
        self.delivery.wake(address)

    # --- LocalDoor

    async def open(self, hello: Hello) -> OpenedConversation:
        if hello.resume == "unknown":
            raise HermesError("There is no session 'unknown'.", fix="`hermes sessions list` shows the ids.")
        key = hello.conversation or hello.resume or (self._last if hello.continue_last else "")
        self._last = key or str(ConversationKey("default", "local", "dm", make_session_id()))
        return OpenedConversation(self._last, ("Hermes test", f"folder {hello.folder}"))

    async def question(self, conversation: str) -> Question | None:
        return self._questions.get(conversation)

    async def stop(self, conversation: str, by: str) -> tuple[bool, str]:
        if conversation in self._stops:
            self._stops[conversation].set()
            return True, ""
        return False, ""

    async def answer(self, question: str, text: str, by: str) -> bool:
        waiting = self._answers.pop(question, None)
        if waiting is None:
            return False
        waiting.set_result(text)
        return True

    async def perform(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        self.called.append((name, args))
        if name == "shutdown":
            self.ended.set()
            return {}
        if name == "bad":
            raise HermesError("That is not done here.")
        if name == "worse":
            raise ZeroDivisionError
        return {"name": name, "args": dict(args)}

    async def outbox_since(self, conversation: str, row: int, limit: int) -> Sequence[OutboxRow]:
        return self.turns.outbox_since(conversation, row, limit)

    async def unseen_rows(self, address: Address) -> Sequence[OutboxRow]:
        return await self.delivery.find_unseen(address)

    def confirm(self, address: Address, rows: Sequence[int]) -> None:
        self.delivery.confirm(address, rows)

    async def inbox_since(self, conversation: str, seq: int, limit: int) -> Sequence[tuple[int, Inbound, float]]:
        found, times = self.turns.inbox_since(conversation, seq, limit), self.turns.times(conversation, 0, 1 << 40)
        return [(seq, read_inbound(body), times[seq].accepted) for seq, body in found]

    async def latest(self, conversation: str) -> tuple[int, int]:
        return self.turns.latest(conversation)

    async def open_seqs(self, conversation: str) -> Sequence[int]:
        claim = self.turns.claim_one(self.node, conversation)
        return [row.seq for row in self.turns.waiting(claim)] if claim is not None else []

    async def find(self, inbound: Inbound) -> SeenMessage | None:
        found = self.turns.find_message(inbound.address.account_key, inbound.stem)
        return SeenMessage(found[0][0], found[0][2]) if found else None

    # --- turns

    async def show(self, conversation: str, event: LiveEvent) -> None:
        self.adapter.show(conversation, event)

    def _claim_all(self) -> None:
        claims = [*self.turns.claim(self.node, 100), *self.turns.ready(self.node)]
        for claim in claims:
            lane = self._lanes.get(claim.conversation)
            if lane is None or lane.done():
                self._lanes[claim.conversation] = asyncio.get_running_loop().create_task(self._work_on(claim))

    async def _work_on(self, claim: Claim) -> None:
        while rows := self.turns.waiting(claim):
            await self._deal_with(claim, rows[0])

    async def _deal_with(self, claim: Claim, row: Waiting) -> None:
        inbound = read_inbound(row.body)
        self.turns.begin(claim, [row.seq])
        self.turns_run.append(inbound.text)
        await self.show(claim.conversation, Begun((row.seq,)))
        word, _, rest = inbound.text.partition(" ")
        do = {"ask": self._ask, "hold": self._hold, "file": self._file, "/new": self._new, "quiet": self._quiet}
        answers = await do.get(word, self._echo)(claim.conversation, row.seq, inbound, rest)
        self.turns.complete(claim, [row.seq], answers=answers)
        for answer in answers:
            self.delivery.wake(answer.address)
        await self.show(claim.conversation, Dealt((row.seq,)))

    async def _echo(self, conversation: str, seq: int, inbound: Inbound, rest: str) -> list[Outgoing]:
        await self.show(conversation, ToolStarted("1", "listen", ""))
        await self.show(conversation, ToolEnded("1", "listen", True, 0.1, "heard"))
        for piece in ("echo: ", inbound.text):
            await self.show(conversation, TextDelta(piece))
        return [Outgoing(inbound.address, f"echo: {inbound.text}", ANSWER, turn=str(seq))]

    async def _quiet(self, conversation: str, seq: int, inbound: Inbound, rest: str) -> list[Outgoing]:
        return []

    async def _ask(self, conversation: str, seq: int, inbound: Inbound, rest: str) -> list[Outgoing]:
        name = f"q{seq}"
        self._answers[name] = waiting = asyncio.get_running_loop().create_future()
        self._questions[conversation] = Question("approval", rest, ("yes", "no"), id=name)
        asked = Outgoing(inbound.address, rest, QUESTION, level="approval", question=name, choices=("yes", "no"))
        self.turns.post(conversation, name, asked)
        self.delivery.wake(inbound.address)
        answer = await waiting
        del self._questions[conversation]
        return [Outgoing(inbound.address, f"you said {answer}", ANSWER)]

    async def _hold(self, conversation: str, seq: int, inbound: Inbound, rest: str) -> list[Outgoing]:
        await self.show(conversation, TextDelta("holding"))
        self._stops[conversation] = asyncio.Event()
        await self._stops[conversation].wait()
        del self._stops[conversation]
        return [Outgoing(inbound.address, "", ANSWER, completed=False, interrupted=True)]

    async def _file(self, conversation: str, seq: int, inbound: Inbound, rest: str) -> list[Outgoing]:
        path = self.home / "given.txt"
        path.write_text(rest)
        given = Outgoing(inbound.address, "here", FILE, file=FileRef(str(path), "given.txt"))
        return [given, Outgoing(inbound.address, "done", ANSWER)]

    async def _new(self, conversation: str, seq: int, inbound: Inbound, rest: str) -> list[Outgoing]:
        target = str(ConversationKey("default", "local", "dm", make_session_id()))
        await self.show(conversation, Moved(seq, target))
        return [Outgoing(inbound.address, "A new conversation.", NOTE)]


class HouseThread:
    """A house on a loop and thread of its own; used as a `GatewayThread`."""

    def __init__(self, home: Path, lock: HomeLock | None = None, store: Any = None, **settings: Any) -> None:
        self._home, self._lock, self._store, self._settings = home, lock, store, settings
        self._started = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.house.ended.set)
        self._thread.join()

    def run(self, work: Any) -> Any:
        """Run a coroutine on the house's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.house = EchoHouse(self._home, self._store, self._settings)
        try:
            await self.house.start()
        except BaseException as problem:
            self._problem = problem
            return
        finally:
            self._started.set()
        await self.house.ended.wait()
        await self.house.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, left
        if self._lock is not None:
            self._lock.release()


def host_here(home: Path, lock: HomeLock) -> HouseThread:
    """A house on a store that survives; what `joining.HomeGateway` makes when it takes the home."""
    return HouseThread(home, lock, Store(home / STORE_FILE))


def main(home: Path) -> None:
    """Own the home and serve it."""
    lock = HomeLock(home)
    lock.acquire()
    thread = host_here(home, lock)
    thread.start()
    print("ready", flush=True)
    thread._thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
