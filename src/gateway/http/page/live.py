"""One page's view of one conversation, live: first the whole truth from the store, then what happens, in order.

Whenever the two could differ (another session, messages taken back, a reader that was too slow), the whole truth again.
"""

from collections.abc import Iterable, Sequence

from gateway.http.calls import PULSE_SECONDS
from gateway.http.page.parts import Parts
from gateway.http.page.views import Json, describe_event, view_end, view_entry, view_models, view_snapshot, view_thread
from gateway.platforms.face import Asking, Dealt, Heard, Moved, TakenOver, Titled
from gateway.platforms.hub import Lost, Picture, Sent, StreamEnded, Watch, Watched
from hermes_base.chat import Notice, join_deltas
from hermes_base.query_values import ASSISTANT, TOOL, USER, Timeline, TimelineEntry

PAGE_ROWS = 100
MOST_KNOWN = 1_000
SNAPSHOT_TRIES = 4

#: What a snapshot read from the store may or may not have in it already.
_STORED = (Heard, Dealt, Sent, Asking, Lost)
#: What no snapshot has.
_PASSING = (Notice, Moved, Titled, StreamEnded)
_TRANSCRIPT = frozenset({USER, ASSISTANT, TOOL})

Mark = tuple[str, int]  # an entry's id, and what it says


def mark(entry: TimelineEntry) -> Mark:
    return entry.id, hash((entry.kind, entry.text, entry.ok, entry.reasoning, entry.level))


def find_fresh(known: Sequence[Mark], entries: Sequence[TimelineEntry], more: bool) -> Sequence[TimelineEntry] | None:
    """The entries behind those that the page has; None: they are not what they were, so it needs them all.

    With `more`, there are earlier ones than the first, and the page may have them.
    """
    marks = [mark(entry) for entry in entries]
    if not known:
        return entries
    if not marks or marks[0] not in known:
        return None
    first = known.index(marks[0])
    rest = list(known[first:])
    stands = marks[: len(rest)] == rest and (more or first == 0)
    return entries[len(rest) :] if stands else None


def cut_picture(entries: Iterable[TimelineEntry], picture: Picture | None) -> list[TimelineEntry]:
    """The entries without what the turn under way has written: that is in its picture, and comes whole at its end."""
    if picture is None:
        return list(entries)
    return [entry for entry in entries if entry.kind not in _TRANSCRIPT or not picture.holds(entry.turn, entry.place)]


class LiveView:
    """What one page knows of a conversation, and what it is told next."""

    def __init__(self, parts: Parts, conversation: str, watch: Watch) -> None:
        self._parts = parts
        self._conversation = conversation
        self._watch = watch
        self._known: list[Mark] = []
        self._session = ""
        self._shown = 0  # how often the whole truth was told
        self.ended = False

    async def go_on(self) -> list[Json]:
        """What there is to tell; empty after a while in which nothing happened."""
        told: list[Json] = []
        events = join_deltas(await self._watch.wait(PULSE_SECONDS))
        shown = self._shown
        if any(isinstance(event, Lost) for event in events):
            self.ended = StreamEnded() in events
            if self.ended:
                return [{"type": "closing"}]
            told += await self.begin()
        for event in events:
            if shown == self._shown or isinstance(event, _PASSING):  # all else is in the truth that was told after it
                told += await self._tell(event)
        return told

    # --- the whole truth

    async def begin(self) -> list[Json]:
        """Watched first, read then, and read again if what was read has changed meanwhile."""
        late: list[Watched] = []
        for _ in range(SNAPSHOT_TRIES):
            timeline = await self._read()
            came = self._watch.take_all()
            late += [event for event in came if isinstance(event, _PASSING)]
            if not any(isinstance(event, _STORED) for event in came):
                break
        else:  # it does not come to rest; told twice is better than never
            late += [event for event in came if isinstance(event, Heard | Dealt | Sent | Asking)]
        self._shown += 1
        picture = self._parts.web.picture(self._conversation)
        entries = cut_picture(timeline.entries, picture)
        self._known = [mark(entry) for entry in entries][-MOST_KNOWN:]
        self._session = timeline.thread.session if timeline.thread else ""
        told = [view_snapshot(timeline, entries, picture, self._parts.shelf)]
        for event in late:
            told += await self._tell(event)
        return told

    async def _read(self) -> Timeline:
        parts = self._parts
        return await parts.queries.threads.timeline(parts.caller, self._conversation, limit=PAGE_ROWS)

    # --- what happens

    async def _tell(self, event: Watched) -> list[Json]:
        web = self._parts.web
        if isinstance(event, Dealt):
            return await self._settle(event.seqs)
        if isinstance(event, TakenOver):
            return await self.begin()
        if isinstance(event, Moved) and not (event.inbound and event.inbound.address.platform == web.spec.name):
            return []  # a page did not say it
        self.ended = self.ended or isinstance(event, StreamEnded)
        return describe_event(event, self._parts.shelf)

    async def _settle(self, seqs: tuple[int, ...]) -> list[Json]:
        """What the transcript has got, if all that the page knows still stands."""
        timeline = await self._read()
        session = timeline.thread.session if timeline.thread else ""
        entries = cut_picture(timeline.entries, self._parts.web.picture(self._conversation))
        fresh = find_fresh(self._known, entries, timeline.more)
        if fresh is None or self._session not in ("", session):
            return await self.begin()
        self._known = [*self._known, *(mark(entry) for entry in fresh)][-MOST_KNOWN:]
        self._session = session
        answers = await self._parts.queries.turns.answers(self._conversation, seqs)
        settled = {
            "type": "settled",
            "seqs": seqs,
            "thread": view_thread(timeline.thread),
            "entries": [view_entry(entry, self._parts.shelf) for entry in fresh],
            "version": timeline.version,
            **view_models(timeline),
            **view_end(answers),
        }
        return [settled]
