"""The side of the terminals: whoever can open the socket is the owner of the machine, and names files by their path.

Each has a view of one conversation, live: rows of the outbox and what happens, as one stream in one order. The store
may be ahead of the events. An answer is told when they have told the end of its turn, so it never overtakes its own
text; and what they tell of a turn whose answer was there before the terminal came is left out.
"""

import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar, cast

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from gateway.http.calls import PULSE_SECONDS, Refusal, SmallText, read_message, served, write_question, wrong_field
from gateway.http.page.files import FileShelf
from gateway.http.page.routes_chat import SaidMessage
from gateway.http.page.views import Json, describe_event, view_heard, view_picture
from gateway.platforms.face import Begun, Dealt, Heard, Refused, Taken, TakenOver
from gateway.platforms.hub import Lost, Posted, StreamEnded, Watch, Watched
from gateway.platforms.local.adapter import LocalAdapter
from gateway.platforms.local.house import PAGE
from gateway.service.local_door import LocalDoor
from hermes_base.chat import Question, ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted, join_deltas
from hermes_base.conversation_key import parse_key
from hermes_base.errors import StoreFailure
from hermes_base.inbound import ANSWER, SENDING, WAITING, FileRef, Inbound, OutboxRow, as_fields
from hermes_base.local_wire import MOST_BODY, Cursor, Hello
from hermes_base.query_values import OWNER_ID

_AFTER = re.compile(r"(\d{1,15})-(\d{1,15})", re.ASCII)
Count = Annotated[int, Meta(ge=0, lt=2**53)]
MISSED_AT_ONCE = 100  # of what was missed, in one piece
MISSED_CHARS = 1_000_000  # of its text
#: What the picture of a turn has in it.
_PICTURED = (Begun, Taken, TextDelta, ReasoningDelta, TextEnded, ToolStarted, ToolEnded)
Word = tuple[int, Inbound, float]  # its seq, the message, and when it was stored
_Item = TypeVar("_Item", Word, OutboxRow)


class NamedFile(Struct):
    path: SmallText
    name: SmallText
    kind: SmallText = "file"
    size: Count = 0


class SaidInTerminal(SaidMessage):
    files: tuple[NamedFile, ...] = ()
    folder: SmallText = ""


class Operation(Struct):
    name: SmallText
    args: dict[str, Any] = {}


class RowsView:
    """What one terminal knows of a conversation, and what it is told next."""

    def __init__(
        self,
        adapter: LocalAdapter,
        door: LocalDoor,
        conversation: str,
        watch: Watch,
        after: Cursor | None,
        shelf: FileShelf,
    ) -> None:
        """`after`: what the terminal has seen; None: it is new, and nothing of what was before is for it."""
        self._adapter = adapter
        self._door = door
        self._conversation = conversation
        self._watch = watch
        self._after = after
        self._shelf = shelf
        self._row = 0  # rows up to here are told, or were there before a new terminal came
        self._word = 0  # messages up to here, of those that were missed
        self._seq = 0  # the newest message that we know of
        self._open: set[int] = set()  # messages whose end was not told
        self._over: frozenset[int] = frozenset()  # messages of a turn whose answer came before its events
        self._waits_for_end = 0  # the row that was not told last time, since its turn goes on
        self._unconfirmed: set[int] = set()  # rows that it was past at the last late look
        self._held: list[OutboxRow] = []  # answers from before we came, while a turn is under way
        self._late: list[Watched] = []  # what no store has, of events that were given up
        self._missed: AsyncIterator[Word | OutboxRow] | None = None  # until it is abreast
        self._blocked = False  # of those, a row may not be told yet
        self.ended = False

    # --- where it stands

    async def begin(self) -> list[Json]:
        """Say where the conversation stands; what was missed comes next, as fast as it is read."""
        newest = await self._look()
        first = self._snapshot(newest, None, None)
        if self._after is not None:
            self._row, self._word = min(self._after.outbox, newest.outbox), self._after.seq
            self._missed = self._find_missed()
            self._blocked = False
            return [first, *await self._tell_unseen()]
        self._row, self._word = newest.outbox, newest.seq
        unseen = await self._tell_unseen()
        *came, abreast = await self._catch_up_with_events()
        return [first, *unseen, *came, abreast] if unseen or came else [abreast]

    async def _look(self) -> Cursor:
        """Find out which messages are open: by the store, or by the events, which may be behind it."""
        newest = Cursor(*await self._door.latest(self._conversation))
        waiting = await self._door.open_seqs(self._conversation)
        picture = self._adapter.picture(self._conversation)
        self._open = {*waiting, *(picture.seqs if picture is not None else ())}
        self._seq = max(self._seq, newest.seq)
        return newest

    async def go_on(self) -> list[Json]:
        if self._missed is not None:
            return await self._tell_missed(self._missed)
        events = join_deltas(await self._watch.wait(PULSE_SECONDS))
        if any(isinstance(event, Lost) for event in events):
            return await self._begin_again(events)
        return [told for event in events for told in await self._tell(event)]

    async def _begin_again(self, events: Iterable[Watched]) -> list[Json]:
        """Events were given up: what they told is in the store, but for what is passing."""
        self._after = Cursor(self._row, self._word)
        self._late = [event for event in events if not isinstance(event, (*_PICTURED, Heard, Dealt, Posted, Lost))]
        return await self.begin()

    async def _tell_missed(self, missed: AsyncIterator[Word | OutboxRow]) -> list[Json]:
        """The next of what it missed; then it is abreast."""
        told: list[Json] = []
        size = 0
        async for item in missed:
            if not isinstance(item, OutboxRow):
                told.append(self._tell_word(*item[:2]))
                size += len(item[1].text)
            elif not self._blocked and self._may_tell(item):
                told.append(self._tell_row(item))
                size += len(item.outgoing.text)
            else:
                self._blocked = True  # it comes with the end of its turn, and so do those behind it
            if len(told) == MISSED_AT_ONCE or size > MISSED_CHARS:
                return told
        self._missed = None
        return told + await self._catch_up_with_events()

    async def _catch_up_with_events(self) -> list[Json]:
        """What came while the store was read, and then the turn under way as it was at that moment."""
        picture = self._adapter.picture(self._conversation)
        self._note_begun(picture.seqs if picture is not None else ())
        live = None if self._over else view_picture(picture)
        came, self._late = [*self._late, *self._watch.take_all()], []
        if any(isinstance(event, Lost) for event in came):
            return await self._begin_again(came)
        others = [event for event in came if not isinstance(event, _PICTURED)]
        told = [one for event in others for one in await self._tell(event)]
        question = await self._door.question(self._conversation)
        return [*told, self._snapshot(Cursor(self._row, self._seq), live, question)]

    def _snapshot(self, cursor: Cursor, live: Json | None, question: Question | None) -> Json:
        return {
            "type": "snapshot",
            "conversation": self._conversation,
            "cursor": as_fields(cursor),
            "waiting": [{"seq": seq} for seq in sorted(self._open)],
            "live": live,
            "question": write_question(question),
        }

    # --- what happens

    async def _tell(self, event: Watched) -> list[Json]:
        match event:
            case Heard(seq, inbound):
                self._note(seq)
                return [self._tell_word(seq, inbound)]
            case Begun(seqs):
                self._note_begun(seqs)
            case Dealt(seqs):
                self._note(*seqs)
                self._open.difference_update(seqs)
                self._over = frozenset() if self._over & set(seqs) else self._over
                told = await self._tell_rows()
                held, self._held = self._held, []
                return [*map(_write_row, held), *told, {"type": "settled", "seqs": seqs}]
            case Posted(late):
                again, waited = await self._tell_again() if late else [], self._waits_for_end
                told = again + await self._tell_rows()
                if waited and self._waits_for_end == waited:  # it may be over, and nobody has told us
                    await self._look()
                    told += await self._tell_rows()
                return told
            case TakenOver():
                return await self._begin_again(())
            case StreamEnded():
                self.ended = True
        return [] if self._over and isinstance(event, _PICTURED) else describe_event(event, self._shelf)

    def _note(self, *seqs: int) -> None:
        """New messages are open, and so are those before them that nobody has named yet."""
        newest = max(seqs, default=0)
        self._open.update(range(self._seq + 1, newest + 1))
        self._seq = max(self._seq, newest)

    def _note_begun(self, seqs: tuple[int, ...]) -> None:
        self._note(*seqs)
        self._over = frozenset(seqs) if self._open.isdisjoint(seqs) else frozenset()

    async def _tell_unseen(self) -> list[Json]:
        """What nobody has confirmed of the rows that were there before this terminal came. The answers among them wait
        for the end of a turn under way."""
        unseen = await self._find_unseen()
        self._held = [row for row in unseen if row.outgoing.kind == ANSWER and self._open]
        return [_write_row(row) for row in unseen if row not in self._held]

    async def _tell_again(self) -> list[Json]:
        """What was told, and nobody has confirmed it from one late look to the next."""
        before, unseen = self._unconfirmed, await self._find_unseen()
        self._unconfirmed = {row.id for row in unseen}
        return [_write_row(row) for row in unseen if row.id in before and row not in self._held]

    async def _find_unseen(self) -> list[OutboxRow]:
        unseen = await self._door.unseen_rows(self._adapter.address_of(self._conversation))
        return [row for row in unseen if row.id <= self._row]

    # --- rows and words

    async def _tell_rows(self) -> list[Json]:
        told: list[Json] = []
        self._waits_for_end = 0
        async for row in _read_pages(partial(self._door.outbox_since, self._conversation), self._row):
            if not self._may_tell(row):
                self._waits_for_end = row.id
                break
            told.append(self._tell_row(row))
        return told

    async def _find_missed(self) -> AsyncGenerator[Word | OutboxRow]:
        """What came while it was away, in the order in which it happened: messages and rows have an order each, and are
        merged by their time."""
        said = _read_pages(partial(self._door.inbox_since, self._conversation), self._word)
        rows = _read_pages(partial(self._door.outbox_since, self._conversation), self._row)
        word, row = await anext(said, None), await anext(rows, None)
        while word is not None or row is not None:
            if row is None or (word is not None and word[2] <= row.created):
                if word is not None:
                    yield word
                word = await anext(said, None)
            else:
                yield row
                row = await anext(rows, None)

    def _may_tell(self, row: OutboxRow) -> bool:
        """Not the answer of a turn whose end is not told yet."""
        return row.outgoing.kind != ANSWER or (row.seq <= self._seq and row.seq not in self._open)

    def _tell_row(self, row: OutboxRow) -> Json:
        self._row = row.id
        ours = row.outgoing.address.account_key == f"{self._adapter.spec.name}:{self._adapter.account}"
        return _write_row(row, ours=ours)

    def _tell_word(self, seq: int, inbound: Inbound) -> Json:
        """A message has its id where terminals gave it one: by that they know their own."""
        self._word = max(self._word, seq)
        own = inbound.address.platform == self._adapter.spec.name
        named = {"id": inbound.message if own else "", "by": inbound.sender_name or ("" if own else inbound.sender)}
        return {"type": "heard", **view_heard(Heard(seq, inbound), self._shelf), **named}


def _write_row(row: OutboxRow, *, ours: bool = True) -> Json:
    """Only a row for terminals waits for one that confirms it."""
    fields, file = as_fields(row.outgoing), row.outgoing.file
    outgoing = {**fields, "address": as_fields(row.outgoing.address), "file": file and as_fields(file)}
    return {"type": "row", "row": row.id, "outgoing": outgoing, "waits": ours and row.state in (WAITING, SENDING)}


async def _read_pages(fetch: Callable[[int, int], Awaitable[Sequence[_Item]]], after: int) -> AsyncIterator[_Item]:
    while True:
        page = await fetch(after, PAGE)
        for item in page:
            yield item
            after = item.id if isinstance(item, OutboxRow) else item[0]
        if len(page) < PAGE:
            return


class TerminalSide:
    """Implements `ChatSide`, and has the calls that are the owner's alone."""

    most_body = MOST_BODY
    said = SaidInTerminal

    def __init__(self, adapter: LocalAdapter) -> None:
        self.adapter = adapter
        self._door = cast(LocalDoor, adapter.core)
        self._shelf = FileShelf(adapter.home, lambda: 0)  # terminals fetch nothing: they have the paths

    def list(self) -> Sequence[BaseRoute]:
        return [
            Route("/web/open", served(self.open), methods=["POST"]),
            Route("/web/got", served(self.confirm), methods=["POST"]),
            Route("/web/operate", served(self.operate), methods=["POST"]),
        ]

    # --- ChatSide

    async def check(self, conversation: str) -> None:
        """All of them are the owner's."""
        parse_key(conversation)

    def view(self, conversation: str, request: Request, watch: Watch) -> RowsView:
        said = request.query_params.get("after", "")
        found = _AFTER.fullmatch(said)
        if said and found is None:
            raise wrong_field("after", "must be two numbers with a dash between them")
        after = Cursor(int(found[1]), int(found[2])) if found else None
        return RowsView(self.adapter, self._door, conversation, watch, after, self._shelf)

    async def make_inbound(self, said: SaidInTerminal) -> Inbound:
        address = self.adapter.address_of(said.conversation)
        return Inbound(
            address,
            said.id,
            OWNER_ID,
            said.text,
            mentioned=True,
            folder=said.folder,
            files=tuple(FileRef(file.path, file.name, file.kind, file.size) for file in said.files),
            conversation=said.conversation if address.chat == said.conversation else "",
            received=time.time(),
        )

    def explain(self, refused: Refused) -> Refusal:
        return Refusal(409 if refused.closing else 503, "not_taken", refused.reason)

    async def describe_seen(self, inbound: Inbound, conversation: str) -> Mapping[str, Any]:
        """With the newest row: when that has come, all has come that was said to the message."""
        try:
            found = await self._door.find(inbound)
            newest, _ = await self._door.latest(conversation)
        except StoreFailure as problem:
            raise Refusal(503, "ask_again", str(problem)) from problem
        return {"seq": found and found.seq, "done": bool(found and found.done), "outbox": newest}

    async def stop(self, conversation: str) -> bool:
        stopped, _ = await self._door.stop(conversation, OWNER_ID)
        return stopped

    async def answer(self, question: str, text: str) -> bool:
        return await self._door.answer(question, text, OWNER_ID)

    # --- the owner's alone

    async def open(self, request: Request) -> Json:
        """Find or make a conversation."""
        opened = await self._door.open(await read_message(request, Hello))
        told = {
            "conversation": opened.conversation,
            "banner": opened.banner,
            "hint": opened.hint,
            "commands": opened.commands,
        }
        return {**told, "version": self._door.version}

    async def confirm(
        self, conversation: SmallText, rows: Annotated[tuple[Count, ...], Meta(max_length=10_000)] = ()
    ) -> Json:
        """Rows were shown."""
        self._door.confirm(self.adapter.address_of(conversation), rows)
        return {}

    async def operate(self, request: Request) -> Json:
        asked = await read_message(request, Operation)
        return dict(await self._door.perform(asked.name, asked.args))
