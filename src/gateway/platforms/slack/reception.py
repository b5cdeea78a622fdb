"""Hands over to the gateway what Slack brings: in order within a chat, chats beside each other. What is stored, or
whose sender knows that it is not, is settled; what cannot be stored now is tried again, and what follows it waits."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from gateway.platforms.face import Core, Part, Refused
from gateway.platforms.refusal_notes import RefusalNotes
from gateway.platforms.slack.acquaintances import Acquaintances
from gateway.platforms.slack.reading_back import Call, ChatReading, plan_reading, read_missed
from gateway.platforms.slack.refusals import SlackTrouble, SlackTroubleKind, say_scope
from gateway.platforms.slack.wire import (
    Entered,
    OddPayload,
    Passed,
    PayloadKind,
    PayloadRead,
    SlackPayload,
    SlackSelf,
    Uninstalled,
    find_needs,
    read_payload,
)
from hermes_base.inbound import Address, Inbound

_log = logging.getLogger(__name__)
MOST_CAUGHT = 10_000
REFUSED_TOKEN_SECONDS = 60.0  # it may have been a slip of Slack, and people wait
RETRY_SECONDS = 1.0  # after a message that could not be stored, or a trouble that names no time

Work = Callable[[], Awaitable[bool]]


class SlackReception:
    def __init__(
        self,
        me: Callable[[], SlackSelf],
        call: Call,
        glance: Call,
        core: Core,
        come_back: Callable[[str], None],
        send: Callable[[Part], Awaitable[str]],
        end: Callable[[], None],
    ) -> None:
        """`glance`: a call for what can be done without. `come_back`: somebody is in this chat. `end`: our token was
        taken from us."""
        self._me = me
        self._call = call
        self._core = core
        self._come_back = come_back
        self._end = end
        self._known = Acquaintances(call, glance)
        self._notes = RefusalNotes(send)
        self._lanes: dict[str, deque[tuple[Work, asyncio.Future[bool]]]] = {}
        self._working: set[asyncio.Task[None]] = set()
        self._to_read: set[str] = set()  # chats whose history is waited for
        self._caught: set[tuple[str, str]] = set()  # read in a history: the same may be on its way, too

    def put(self, payload: SlackPayload) -> asyncio.Future[bool]:
        """Take something in; the future says whether it is settled. It never is when the gateway ends first."""
        return self._enqueue(payload.channel, partial(self._take_new, payload))

    def read_on(self, last: Mapping[Address, str]) -> None:
        """Read what was said since, before anything that comes from now on."""
        self._caught.clear()
        for reading in plan_reading(last):
            if reading.channel not in self._to_read:  # what waits to be read is read up to the moment when it is
                self._to_read.add(reading.channel)
                self._enqueue(reading.channel, partial(self._take_missed, reading))

    async def close(self) -> None:
        self._notes.close()
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)

    # --- lanes

    def _enqueue(self, channel: str, work: Work) -> asyncio.Future[bool]:
        settled = asyncio.get_running_loop().create_future()
        if channel not in self._lanes:
            self._lanes[channel] = deque()
            task = asyncio.create_task(self._work(channel), name=f"slack {channel}")
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        self._lanes[channel].append((work, settled))
        return settled

    async def _work(self, channel: str) -> None:
        lane = self._lanes[channel]
        try:
            while lane:
                work, settled = lane[0]
                done = await self._insist(work)
                lane.popleft()
                if not settled.done():
                    settled.set_result(done)
        finally:
            del self._lanes[channel]
            for _, settled in lane:
                settled.cancel()

    async def _insist(self, work: Work) -> bool:
        while True:
            try:
                return await work()
            except SlackTrouble as trouble:
                _log.warning("What Slack brought cannot be read yet: %s", trouble)
                usual = REFUSED_TOKEN_SECONDS if trouble.kind is SlackTroubleKind.TOKEN else RETRY_SECONDS
                await asyncio.sleep(trouble.seconds or usual)
            except Exception:  # noqa: BLE001 - the boundary to the gateway: the message is kept here and at Slack
                _log.exception("A message could not be handed over; it is tried again.")
                await asyncio.sleep(RETRY_SECONDS)

    # --- one message

    async def _take_missed(self, reading: ChatReading) -> bool:
        self._to_read.discard(reading.channel)
        try:
            missed = await read_missed(self._call, reading)
        except SlackTrouble as trouble:
            if trouble.kind not in (SlackTroubleKind.REFUSED, SlackTroubleKind.SCOPE):
                raise
            what = say_scope(trouble.needed) if trouble.kind is SlackTroubleKind.SCOPE else trouble
            _log.warning("What was said in %s meanwhile cannot be read: %s", reading.channel, what)
            return True
        for event in missed:
            if not await self._insist(partial(self._take, SlackPayload(PayloadKind.EVENT, event))):
                return False
            if len(self._caught) < MOST_CAUGHT:
                self._caught.add((reading.channel, str(event["ts"])))
        return True

    async def _take_new(self, payload: SlackPayload) -> bool:
        name = (payload.channel, str(payload.content.get("ts")))
        if payload.content.get("type") == "message" and name in self._caught:
            self._caught.discard(name)
            return True
        return await self._take(payload)

    async def _take(self, payload: SlackPayload) -> bool:
        read = await self._read(payload)
        match read:
            case Inbound():
                return await self._hand_over(read)
            case Entered(channel):
                _log.info("The bot is in the channel %s now.", channel)
                self._come_back(channel)
            case Uninstalled():
                self._end()
            case Passed(reason):
                _log.debug("Something of Slack is passed over: %s.", reason)
        return True

    async def _read(self, payload: SlackPayload) -> PayloadRead:
        """One payload that is not as documented takes none of the others with it; its text is in no log."""
        try:
            around = await self._known.look_up(payload.channel, find_needs(payload, self._me()))
            return read_payload(payload, self._me(), around)
        except SlackTrouble:
            raise
        except OddPayload as odd:
            _log.warning("Something of Slack cannot be read (%s); it is left out.", odd)
        except Exception as error:  # noqa: BLE001 - whatever it is: the same payload would come for ever
            _log.error("Something of Slack cannot be read (%s); it is left out.", type(error).__name__)
        return Passed("it cannot be read")

    async def _hand_over(self, inbound: Inbound) -> bool:
        """True when the message is stored, or its sender knows that it is not."""
        taken = await self._core.take(inbound)
        self._come_back(inbound.address.chat)
        if isinstance(taken, Refused) and taken.closing:
            return False
        if not await self._notes.settle(inbound, taken):
            raise SlackTrouble(SlackTroubleKind.UNSENT, "nobody could be told of a refusal")
        if not isinstance(taken, Refused):
            self._known.note_heard(inbound)
        return True
