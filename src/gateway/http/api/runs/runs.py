"""Begins runs, follows them until they have ended, and finds them again, from memory or from the store.

A message goes in like that of any platform. What happens to it is watched from before it is stored, so nothing is
missed; when events were given up, or the process was another one, the store tells what came of it.
"""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from gateway.http.api.problems import ApiProblem
from gateway.http.api.runs.outcomes import RunOutcome, find_model, read_outcome
from gateway.http.api.runs.run_record import Record
from gateway.http.api.runs.tickets import Ticket, read_ticket
from gateway.platforms.api.adapter import ApiAdapter
from gateway.platforms.face import Asking, Begun, Dealt, Judged, Refused, TakenOver
from gateway.platforms.hub import Lost, Pictured, StreamEnded, Watch, Watched
from gateway.service.queries.all_queries import Queries
from hermes_base.chat import Notice, ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted
from hermes_base.errors import HermesError, StoreFailure
from hermes_base.inbound import Inbound
from hermes_base.query_values import Caller, NotThere, Timeline, TimelineEntry

log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0  # a run without any event for so long is looked up in the store
_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)  # before a store that does not answer is asked again
JUDGED_SECONDS = 10.0  # so long a request waits for the word on whether its message is taken
KEPT_RUNS, KEPT_CHARS = 500, 16_000_000  # ended runs that are remembered; the store has them all
BROKEN = "The run broke inside of Hermes; the log has the details."


class Runs:
    """All on the event loop."""

    def __init__(self, queries: Queries, adapter: ApiAdapter) -> None:
        self._queries = queries
        self._adapter = adapter
        self._records: OrderedDict[Ticket, Record] = OrderedDict()
        self._tasks: dict[Ticket, asyncio.Task[None]] = {}

    # --- beginning

    async def begin(self, caller: Caller, inbound: Inbound, model: str) -> Record:
        """The run of this message: a new one, or the one that it began before under the same name. A message that is
        refused has ended when this returns."""
        ticket = Ticket(inbound.conversation, inbound.message)
        record = self._records.get(ticket)
        if record is None:
            record = self._records[ticket] = Record(ticket, caller, model, time.time())
            stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._start(record, self._run(record, inbound, stored))
            try:
                await stored
            except ApiProblem:
                self._records.pop(ticket, None)
                raise
        with contextlib.suppress(TimeoutError):  # another process has the conversation: the run tells it later
            async with asyncio.timeout(JUDGED_SECONDS):
                await record.judged.wait()
        return record

    async def is_busy(self, conversation: str) -> bool:
        """Whether something is under way there, or about to be."""
        mine = any(ticket.conversation == conversation for ticket in self._tasks)
        return mine or await self._queries.threads.is_busy(conversation)

    async def find(self, caller: Caller, ticket: Ticket) -> Record:
        """A run that the caller may see; NotThere."""
        await self._queries.threads.timeline(caller, ticket.conversation, limit=1)
        record = self._records.get(ticket)
        if record is not None:
            return record
        found = await self._look(ticket)
        if found is None:
            raise NotThere("There is no such run.")
        if ticket not in self._records:
            record = self._records[ticket] = Record(ticket, caller, "", time.time())
            self._start(record, self._follow_stored(record))
        record, found = self._records[ticket], await self._look(ticket)
        if found is not None and found[1]:
            await record.wait()  # a run that ended before is read whole; one that goes on, from where it is
        return record

    async def find_by_id(self, caller: Caller, id: str, prefix: str, missing: str) -> Record:
        """The same by the id that a client was told; `missing` is the sentence for one that is none."""
        ticket = read_ticket(id, prefix)
        if ticket is None:
            raise ApiProblem(404, missing)
        return await self.find(caller, ticket)

    # --- following

    def _start(self, record: Record, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[record.ticket] = task
        task.add_done_callback(lambda _: self._tasks.pop(record.ticket, None))

    async def _run(self, record: Record, inbound: Inbound, stored: "asyncio.Future[None]") -> None:
        with self._adapter.watch(inbound.conversation) as watch:
            problem = await self._take(record, inbound)
            if problem is None:
                stored.set_result(None)
                await self._watch_over(record, watch)
            else:
                stored.set_exception(problem)
                record.end(RunOutcome("", problem.message, refused=True))

    async def _take(self, record: Record, inbound: Inbound) -> ApiProblem | None:
        """Hand the message over; why that could not be done."""
        try:
            taken = await self._adapter.core.take(inbound)
            if isinstance(taken, Refused):
                code = "closing" if taken.closing else "not_taken"
                return ApiProblem(503, taken.reason, code, retry=taken.closing)
            record.seq = taken.seq or 0
            if taken.seq is None:
                await self._check_stored(record)
                record.judged.set()
        except Exception:  # the top of a run: whoever asked is told
            log.exception("a message of the API could not be handed over")
            return ApiProblem(500, BROKEN)
        return None

    async def _follow_stored(self, record: Record) -> None:
        with self._adapter.watch(record.ticket.conversation) as watch:
            await self._watch_over(record, watch, known=False)

    async def _watch_over(self, record: Record, watch: Watch, *, known: bool = True) -> None:
        """The top of a recorder: whatever happens, the record ends."""
        try:
            if not known:
                await _patiently(self._check_stored, record)
            while not record.is_over:
                events = await watch.wait(LOOK_SECONDS)
                if not events:
                    await _patiently(self._check_stored, record)
                for event in events:
                    if not record.is_over:
                        await _patiently(self._note, record, event)
        except Exception:
            log.exception("a run could not be followed")
            record.end(RunOutcome(record.streamed, BROKEN))
        self._forget_old()

    async def _note(self, record: Record, event: Watched) -> None:
        match event:
            case Judged(seq) if record.seq == seq:
                record.judged.set()
            case Begun(seqs) if record.seq in seqs:
                record.begin(event)
            case Dealt(seqs) if record.seq in seqs:
                await self._end(record, seqs)
            case StreamEnded():
                record.close()
            case Lost(shown):
                record.lossy = record.lossy or shown
                await self._check_stored(record)
            case Pictured(picture) if record.seq in picture.seqs:
                record.redraw(picture)
            case TakenOver() if record.status == "in_progress":
                record.lossy = True
                record.show(TextEnded(kept=False))
            case Asking() if record.status == "in_progress":
                record.ask(event)
            case TextDelta() | ReasoningDelta() | TextEnded() | ToolStarted() | ToolEnded() | Notice():
                if record.status == "in_progress":
                    record.show(event)

    async def _check_stored(self, record: Record) -> None:
        """Learn from the store what was not seen here."""
        found = await self._look(record.ticket)
        if found is None:
            record.end(RunOutcome(record.streamed, "The message is not in the store any more."))
            return
        seq, done = found
        if not record.seq:
            record.lossy = True
        record.seq = seq
        if done:
            await self._end(record, (seq,))
        elif record.status == "queued" and self._queries.threads.is_working(record.ticket.conversation):
            timeline = await self._read(record)
            if timeline is not None and timeline.waiting and timeline.waiting[0].seq == seq:
                record.begin(Begun((seq,)))

    async def _end(self, record: Record, seqs: tuple[int, ...]) -> None:
        conversation, turns = record.ticket.conversation, self._queries.turns
        answers = await turns.answers(conversation, seqs)
        timeline = await self._read(record)
        entries: tuple[TimelineEntry, ...] = timeline.entries if timeline is not None and record.lossy else ()
        outcome = read_outcome(answers, "" if record.lossy and entries else record.streamed, entries)
        session = timeline.thread.session if timeline is not None and timeline.thread is not None else ""
        usage = {} if record.status == "queued" else await turns.usage(conversation, record.seq)
        model = find_model(timeline.entries) if timeline is not None else ""
        record.end(replace(outcome, session=session, usage=usage, model=model))

    async def _read(self, record: Record) -> Timeline | None:
        limit = 100 if record.lossy else 1
        try:
            return await self._queries.threads.timeline(record.caller, record.ticket.conversation, limit=limit)
        except StoreFailure:
            raise
        except HermesError as problem:  # it was deleted meanwhile, or its person was
            log.info("the conversation of a run cannot be read: %s", problem)
            return None

    async def _look(self, ticket: Ticket) -> tuple[int, bool] | None:
        account = f"{self._adapter.spec.name}:{self._adapter.account}"
        return await self._queries.turns.find_message(account, ticket.stem)

    def _forget_old(self) -> None:
        """Ended runs beyond a number and a size are left to the store."""
        ended = [ticket for ticket, record in self._records.items() if record.is_over]
        size = sum(self._records[ticket].size for ticket in ended)
        count = len(ended)
        for ticket in ended:
            if count <= KEPT_RUNS and size <= KEPT_CHARS:
                return
            count, size = count - 1, size - self._records[ticket].size
            del self._records[ticket]


async def _patiently(step: Callable[..., Awaitable[None]], *args: Any) -> None:
    """A step that reads the store. One that does not answer now says nothing about the run."""
    for pause in _PAUSES:
        try:
            return await step(*args)
        except StoreFailure as problem:
            log.warning("The store does not answer a run: %s", problem)
            await asyncio.sleep(pause)
    return await step(*args)
