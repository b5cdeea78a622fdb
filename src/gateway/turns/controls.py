"""Stop and answer for a turn, wherever it runs: here, or in another process that is told through the store (B8). Who
asks hears what came of it, or that it did not arrive."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gateway.core.people import may_stop
from gateway.core.route import Standing
from gateway.turns.lane import STOP_PATIENCE, Lane
from gateway.turns.lanes import BY_OPERATOR, Lanes
from hermes_base.errors import HermesError, StoreFailure
from hermes_base.query_values import NotAllowed
from hermes_state.turns import Control

log = logging.getLogger(__name__)

TAKEN_SECONDS = 3.0  # in which the other process takes what it is told
DONE_SECONDS = STOP_PATIENCE + 3.0  # in which it has done it
LOOK_SECONDS = 0.1  # between two looks whether it has
STOP, ANSWER = "stop", "answer"
DONE, REFUSED = "done", "refused"  # of an outcome


class NotReached(HermesError):
    """The process that has the turn does not answer."""


class Controls:
    """On the event loop."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = self._lanes = lanes
        self._call, self._turns = lanes.host.parts.call, lanes.host.parts.store.turns
        self._questions = lanes.host.parts.questions
        lanes.take_control = self._take

    async def stop(self, key: str, reason: str, by: Standing | None = None) -> bool:
        """False: nothing runs there. NotAllowed: the turn is somebody else's; without `by` it is the operator who
        asks. Returns when the end of the turn is stored."""
        lane = await self._lanes.find(key)
        if lane is not None:
            return await _stop(lane, reason, by)
        return await self._ask(key, STOP, {"reason": reason, "by": asdict(by) if by else None})

    async def answer(self, key: str, question: str, text: str, by: Standing) -> bool:
        """False: it is not open, or not theirs to answer."""
        if self._questions.answer(question, text, by, conversation=key):
            return True
        return await self._ask(key, ANSWER, {"question": question, "text": text, "by": asdict(by)})

    async def _ask(self, key: str, kind: str, body: Mapping[str, Any]) -> bool:
        """Tell the process that has the conversation, and wait for what comes of it; False: it is nobody else's."""
        owner = await self._call(self._turns.owner, key)
        if not owner or owner == self._lanes.node:
            return False
        sent = await self._call(self._turns.send_control, key, kind, body)
        self._lanes.tell_node(owner)
        outcome = await self._wait(sent.id)
        if outcome is None:
            raise NotReached(
                "The gateway that works on this conversation did not take it in time.",
                kept="Nothing was done.",
                fix="Try again: if that gateway is gone, another one takes the conversation over within seconds.",
            )
        if REFUSED in outcome:
            raise NotAllowed(str(outcome[REFUSED]), kept="It goes on.")
        return bool(outcome.get(DONE))

    async def _wait(self, control: int) -> Mapping[str, Any] | None:
        """None: it was not taken, and is not any more."""
        taken_by, done_by = time.monotonic() + TAKEN_SECONDS, time.monotonic() + DONE_SECONDS
        while True:
            taken, outcome = await self._call(self._turns.control_outcome, control)
            now = time.monotonic()
            if outcome or now > done_by:
                return outcome
            if not taken and now > taken_by and await self._call(self._turns.withdraw_control, control):
                return None
            await asyncio.sleep(LOOK_SECONDS)

    # --- what others ask of us

    async def _take(self, control: Control) -> None:
        try:
            outcome: dict[str, Any] = {DONE: await self._perform(control)}
        except NotAllowed as refusal:
            outcome = {REFUSED: refusal.what}
        try:
            await self._call(self._turns.end_control, control, outcome)
        except StoreFailure as problem:
            log.warning("what came of %s for %s is not told: %s", control.kind, control.conversation, problem)

    async def _perform(self, control: Control) -> bool:
        told = control.body.get("by")
        by = Standing(str(told.get("person", "")), str(told.get("role", ""))) if isinstance(told, Mapping) else None
        if control.kind == STOP:
            lane = await self._lanes.find(control.conversation)
            return lane is not None and await _stop(lane, str(control.body.get("reason") or BY_OPERATOR), by)
        if control.kind == ANSWER and by is not None:
            question, text = str(control.body.get("question", "")), str(control.body.get("text", ""))
            return self._questions.answer(question, text, by, conversation=control.conversation)
        log.info("nothing to do for %s of %s", control.kind, control.conversation)
        return False


async def _stop(lane: Lane, reason: str, by: Standing | None) -> bool:
    starter = lane.starter or lane.coming
    if by is not None and starter and not may_stop(by.role, by.person, starter):
        raise NotAllowed("This turn is somebody else's.", kept="It goes on.")
    return await lane.stop_for_good(reason)
