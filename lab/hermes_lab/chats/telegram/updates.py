"""The updates of one bot: kept until they are confirmed, given to the one who polls, or brought to a webhook."""

import asyncio
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.chats.record import ChatClock
from hermes_lab.chats.telegram.api_values import DAY, POLLERS, PRESS_SECONDS, ApiError, Complain, Parameters
from hermes_lab.connection import Connection

#: Kinds of updates; those on request come only to who names them.
_USUAL = (
    "message edited_message channel_post edited_channel_post inline_query chosen_inline_result callback_query "
    "shipping_query pre_checkout_query poll poll_answer my_chat_member chat_join_request chat_boost removed_chat_boost"
)
USUAL = tuple(_USUAL.split())
ON_REQUEST = ("chat_member", "message_reaction", "message_reaction_count")
MOST_ANSWER_BYTES = 4 * 1024 * 1024
SPIN_SECONDS, QUICK_SPIN_SECONDS = 3.0, 0.5
LEAVING_LOOKS, LEAVING_SECONDS = 10, 0.01
KEPT = 100_000  # updates that can be brought once more


@dataclass(slots=True)
class BotUpdate:
    id: int
    kind: str
    content: Mapping[str, Any]
    chat: int
    until: float  # kept so long, by the server's clock

    def describe(self) -> dict[str, Any]:
        return {"update_id": self.id, self.kind: self.content}


@dataclass(slots=True)
class UpdateQueue:
    clock: ChatClock
    waiting: deque[BotUpdate] = field(default_factory=deque)
    made: deque[BotUpdate] = field(default_factory=lambda: deque(maxlen=KEPT))
    allowed: tuple[str, ...] = ()  # empty: the usual ones
    webhook: str = ""
    next_id: int = 900_001
    arrived: asyncio.Event = field(default_factory=asyncio.Event)  # for who brings them to a webhook
    _poll: "asyncio.Future[ApiError | None] | None" = None
    _last_poll: tuple[int, float] = (0, -10.0)  # its offset and time
    _last_conflict: float = -10.0

    def is_wanted(self, kind: str) -> bool:
        return kind in (self.allowed or USUAL)

    def add(self, kind: str, content: Mapping[str, Any], chat: int) -> BotUpdate | None:
        """Keep an update for the bot; None: it does not want this kind."""
        if not self.is_wanted(kind):
            return None
        kept_for = PRESS_SECONDS if kind == "callback_query" else DAY
        update = BotUpdate(self.next_id, kind, content, chat, self.clock.now() + kept_for)
        self.next_id += 1
        self.made.append(update)
        self._put(update)
        return update

    def redeliver(self, count: int, same_ids: bool, backwards: bool) -> int:
        """The last ones once more: as if nobody had confirmed them, or as copies with ids of their own."""
        again = list(self.made)[-count:]
        for update in reversed(again) if backwards else again:
            if not same_ids:
                update = BotUpdate(self.next_id, update.kind, update.content, update.chat, update.until)
                self.next_id += 1
            elif any(update is known for known in self.waiting):
                continue
            self._put(update)
        if same_ids and not backwards:
            self.waiting = deque(sorted(self.waiting, key=lambda update: update.id))
        return len(again)

    def _put(self, update: BotUpdate) -> None:
        self.waiting.append(update)
        self.arrived.set()
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(None)

    def forget_old(self) -> None:
        now = self.clock.now()
        self.waiting = deque(update for update in self.waiting if update.until > now)

    def set_allowed(self, names: Sequence[Any] | None) -> None:
        """None: as before. Nothing that is known: the usual ones."""
        if names is not None:
            self.allowed = tuple(name for name in names if name in (*USUAL, *ON_REQUEST))

    # --- polling

    async def poll(
        self, parameters: Parameters, connection: Connection, complain: Complain
    ) -> list[dict[str, Any]] | None:
        """What waits, or what comes within the time. None: the client has left."""
        if self.webhook:
            text = "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
            raise ApiError(409, f"Conflict: {text}", POLLERS)
        offset = parameters.number("offset")
        limit = min(max(parameters.number("limit", 100), 1), 100)
        timeout = float(min(max(parameters.number("timeout"), 0), 50))
        self.set_allowed(parameters.json("allowed_updates", list, "allowed_updates"))
        self._confirm(offset)
        limit, timeout = self._slow_down(offset, limit, timeout)
        if not self.waiting and timeout > 0:
            if not await self._wait(timeout, connection, complain):
                return None
            self.forget_old()
        return self._give(limit)

    def _confirm(self, offset: int) -> None:
        self.forget_old()
        if offset < 0:
            self.waiting = deque(list(self.waiting)[offset:])
        else:
            self.waiting = deque(update for update in self.waiting if update.id >= offset)

    def _slow_down(self, offset: int, limit: int, timeout: float) -> tuple[int, float]:
        """Who asks the same in a circle is made to wait."""
        now = self.clock.now()
        last_offset, last_at = self._last_poll
        self._last_poll = (offset, now)
        if offset != last_offset or now - last_at >= SPIN_SECONDS:
            return limit, timeout
        return (1 if now - last_at < QUICK_SPIN_SECONDS else limit), max(timeout, SPIN_SECONDS)

    async def _wait(self, seconds: float, connection: Connection, complain: Complain) -> bool:
        """Until an update comes or the time is over; False: the client has left. Only the newest caller waits."""
        await self._notice_leaving()
        if self.waiting:
            return True
        if self._poll is not None and not self._poll.done():
            complain(POLLERS, "Two clients poll for the updates of one bot.")
            text = "terminated by other getUpdates request; make sure that only one bot instance is running"
            self.end_poll(ApiError(409, f"Conflict: {text}"))
        mine: asyncio.Future[ApiError | None] = asyncio.get_running_loop().create_future()
        self._poll = mine
        leaving = asyncio.create_task(connection.wait(seconds))
        try:
            ends: list[asyncio.Future[Any]] = [mine, leaving]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if mine.done() and (problem := mine.result()) is not None:
                if problem.status == 409:
                    await self._delay_conflict(connection)
                raise problem
            return not (leaving.done() and leaving.result())
        finally:
            if self._poll is mine:
                self._poll = None
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)

    async def _notice_leaving(self) -> None:
        """Who has hung up polls no more, also when that is heard behind the next call."""
        for _ in range(LEAVING_LOOKS):
            if self._poll is None or self._poll.done():
                return
            await asyncio.sleep(LEAVING_SECONDS)

    async def _delay_conflict(self, connection: Connection) -> None:
        now = self.clock.now()
        soon = now - self._last_conflict < SPIN_SECONDS
        self._last_conflict = now
        if soon:
            await connection.wait(SPIN_SECONDS)

    def end_poll(self, error: ApiError) -> None:
        """Whoever polls is told this."""
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(error)

    def _give(self, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        size = 0
        for update in list(self.waiting)[:limit]:
            described = update.describe()
            size += len(json.dumps(described))
            if found and size > MOST_ANSWER_BYTES:
                break
            found.append(described)
        return found
