"""The conversations that this process works on: a lane for each that has something open, and the claims under which no
other process works there."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from gateway.core.fair_share import Share, count_now, count_surplus, find_room
from gateway.delivery.hints import ALL_NODES
from gateway.platforms.face import TakenOver
from gateway.turns.lane import Lane, LaneHost
from hermes_base.chat import Notice
from hermes_base.errors import StoreFailure
from hermes_state.turns import Claim, Control

log = logging.getLogger(__name__)

CLAIMED_AT_ONCE = 1000
BY_OPERATOR = "stopped by the operator"


TakeControl = Callable[[Control], Coroutine[Any, Any, None]]


async def _ignore_control(control: Control) -> None:
    log.info("nothing to do for %s of %s", control.kind, control.conversation)


def name_topic(node: str) -> str:
    """Of the hints for one process."""
    return f"node {node}"


class Lanes:
    """On the event loop."""

    def __init__(self, host: LaneHost, node: str, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self.host = host
        self.node = node
        self.at_work: Mapping[str, Lane] = {}  # never changed in its place: other threads walk through it
        self.claims: dict[str, Claim] = {}
        self.looked = time.monotonic()  # when work that nobody does was last looked for
        self._spawn = spawn
        self._call, self._turns = host.parts.call, host.parts.store.turns
        self._coming: dict[str, asyncio.Event] = {}  # set when the lane of a conversation has been made, or cannot be
        self._claiming = asyncio.Lock()  # claims are taken and given back one after the other
        self._hints = host.parts.hints
        self._looks_soon = False
        self._share = Share()  # when one last looked
        self.take_control: TakeControl = _ignore_control
        self._hints.listen(ALL_NODES, self._look_soon)
        self._hints.listen(name_topic(node), self._follow_hint)
        self._hints.tell(ALL_NODES)  # from now on there is one more to share with

    def wake(self, key: str) -> None:
        """There is something to do for this conversation."""
        lane = self.at_work.get(key)
        if lane is not None:
            lane.look_for_new()
        elif not self.host.closing:
            self._coming.setdefault(key, asyncio.Event())
            self._spawn(self._work(key))

    def _follow_hint(self, key: str) -> None:
        """Another process has stored something for this conversation of ours, or, without one, for some of them."""
        if key in self.at_work:
            self.at_work[key].look_for_new()
        elif key in self.claims:
            self.wake(key)
        else:
            self._look_soon(key)

    def _look_soon(self, _: str) -> None:
        if not self._looks_soon:
            self._looks_soon = True
            self._spawn(self._look_now())

    async def _look_now(self) -> None:
        self._looks_soon = False
        try:
            await self.look()
        except StoreFailure as problem:
            log.warning("the store cannot be looked at: %s", problem)

    def tell_node(self, node: str) -> None:
        """There is a word for a conversation of that process: it looks at once for all that waits for it."""
        self._hints.tell(name_topic(node))

    async def tell_owner(self, key: str) -> None:
        """Something was stored for a conversation of another process, or of none: whoever has it looks at once."""
        owner = await self._call(self._turns.owner, key)
        if owner != self.node:
            self._hints.tell(name_topic(owner) if owner else ALL_NODES, key)

    def find_claim(self, key: str) -> Claim | None:
        """Under which something is at work there, or could be; others may have taken the conversation meanwhile."""
        lane = self.at_work.get(key)
        return lane.claim if lane is not None else self.claims.get(key)

    def give_way(self, key: str) -> bool:
        """Others have taken it: what is at work there ends. False: nothing is."""
        lane = self.at_work.get(key)
        if lane is not None and not lane.suspended:
            lane.suspend("another gateway goes on with it")
        return lane is not None

    async def find(self, key: str) -> Lane | None:
        """The lane of a conversation at work; waits for one that is being made."""
        while key in self._coming:
            await self._coming[key].wait()
        return self.at_work.get(key)

    async def _work(self, key: str) -> None:
        try:
            claim = self.claims.get(key)
            if claim is None or claim.node != self.node:
                async with self._claiming:
                    claim = await self._call(self._turns.claim_one, self.node, key)
            if claim is None:
                log.debug("%s is worked on by another process", key)
                await self.tell_owner(key)
                return
            if key in self.at_work:
                self.at_work[key].look_for_new()
                return
            self.claims[key] = claim
            lane = Lane(self.host, claim)
            self.at_work = {**self.at_work, key: lane}
        except StoreFailure as problem:
            log.warning("%s cannot be claimed now: %s", key, problem)
            return
        finally:
            if key in self._coming:
                self._coming.pop(key).set()
        try:
            await lane.work()
        finally:
            self.at_work = {other: kept for other, kept in self.at_work.items() if other != key}
            if lane.suspended:
                given_up = self.claims.pop(key, None)
                if not self.host.closing:
                    self.host.parts.live_events.show(key, TakenOver())
                if given_up is not None and self.host.draining:
                    await self._call(self._turns.release, given_up)
                    await self.tell_owner(key)

    def take_node(self, node: str) -> None:
        """This process is another node from now on. What runs goes on under its old claim, which holds as long as
        nobody has taken the conversation over."""
        self._hints.end(name_topic(self.node), self._follow_hint)
        self._hints.listen(name_topic(node), self._follow_hint)
        self.node = node
        self.claims = {key: lane.claim for key, lane in self.at_work.items()}
        self.host.parts.questions.node = node
        if self.host.draining:
            self._spawn(self._call(self._turns.drain, node))
        self.host.parts.delivery.rejoin(node)

    async def look(self) -> None:
        """Take up what nobody works on: messages of a dead process, and those whose wake was lost. What runs here under
        the claim of an earlier node is left alone: it would be taken over from ourselves."""
        closing = self.host.closing
        if not closing and all(lane.claim.node == self.node for lane in self.at_work.values()):
            self._share = Share(*await self._call(self._turns.fair, self.node))
            room = find_room(self._share, CLAIMED_AT_ONCE)
            # Without room, what nobody has taken for some time is taken all the same.
            taken = await self._call(self._turns.claim, self.node, room or CLAIMED_AT_ONCE, not room)
            for claim in taken:
                self.claims[claim.conversation] = claim
                self.wake(claim.conversation)
        elif not closing:
            for holding in await self._call(self._turns.holdings, CLAIMED_AT_ONCE):
                if holding.pending and not holding.live and holding.conversation not in self.at_work:
                    self.wake(holding.conversation)  # which claims it
        for claim in await self._call(self._turns.ready, self.node):
            self.wake(claim.conversation)
        for control in await self._call(self._turns.take_controls, self.node):
            self._spawn(self.take_control(control))
        await self.host.parts.look_for_shown()
        self.looked = time.monotonic()

    def takes(self, key: str) -> bool:
        """Whether a new message makes this conversation ours, if it is nobody's: what is at work or warm here stays,
        and of the rest this process takes its fair share."""
        if key in self.at_work:  # unless it runs under a claim of an earlier node
            return self.at_work[key].claim.node == self.node
        if key in self.claims or self.host.parts.runner.cached_agent(key) is not None:
            return True
        return find_room(count_now(self._share, len(self.claims)), 1) > 0

    async def give_up_surplus(self) -> None:
        """Idle conversations above the fair share go to others, the coldest first, and their agents with them."""
        surplus = count_surplus(count_now(self._share, len(self.claims)))
        if not surplus:
            return
        warm = self.host.parts.runner.cached_agent
        idle = sorted((key for key in self.claims if key not in self.at_work), key=lambda key: warm(key) is not None)
        await self._give_up(idle[:surplus])

    async def give_up_all(self) -> None:
        """Everything in which nothing runs, also what waits: others begin it."""
        for lane in list(self.at_work.values()):
            if lane.slot is None:
                lane.suspend("another gateway goes on with it")
        await self._give_up([key for key in self.claims if key not in self.at_work])

    async def _give_up(self, keys: Sequence[str]) -> None:
        for key in keys:
            async with self._claiming:
                if key not in self.at_work and key in self.claims:
                    await self._call(self._turns.give_up, self.claims.pop(key))
                    self.host.parts.runner._evict_cached_agent(key, "given up")

    async def release_cold(self) -> None:
        """Give back the claims on conversations that nobody is warm for."""
        warm = self.host.parts.runner.cached_agent
        for key in [key for key in self.claims if key not in self.at_work and not warm(key)]:
            async with self._claiming:
                if key not in self.at_work and key in self.claims:
                    await self._call(self._turns.release, self.claims.pop(key))

    def tell_all(self, notice: Notice) -> None:
        """In every conversation that is ours; a chat that nobody looks at hears nothing."""
        for conversation in list(self.claims):
            self.host.parts.live_events.show(conversation, notice)
