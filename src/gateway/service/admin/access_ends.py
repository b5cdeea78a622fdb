"""Ends what goes on for somebody who has lost access (G3): at once where they are removed, and in every other process
of the store as soon as that hears of it."""

from collections.abc import Collection

from gateway.turns.lane import Lane
from gateway.turns.lanes import Lanes
from gateway.turns.run_turn import GatewayParts
from gateway.turns.sender import LOCAL_OWNER, Senders
from gateway.turns.threads import start_thread
from hermes_base.conversation_key import parse_key
from hermes_base.inbound import NOTICE
from tools.process_registry import process_registry

REMOVED = "the person was removed"


class AccessEnds:
    """On the event loop."""

    def __init__(self, parts: GatewayParts, lanes: Lanes, senders: Senders) -> None:
        self._parts = parts
        self._lanes = lanes
        self._senders = senders

    async def end_person(self, person: str) -> None:
        """G3: turns stopped, approvals void, what they have going ended."""
        self._parts.questions.void_person(person)
        for lane in self._lanes.at_work.values():
            lane.look_again(person)
        for lane in [lane for lane in self._lanes.at_work.values() if lane.starter == person]:
            lane.stop(REMOVED)
            while lane.slot is not None and lane.starter == person:
                await lane.slot.ended.wait()  # within five seconds, whatever it waits for
        await start_thread(lambda: self._parts.endings.end_person(person), "end person")

    def end_there(self, person: str, platform: str) -> None:
        """An identity there is theirs no more: what was begun by it is not gone on with (G3)."""
        for lane in [lane for lane in self._lanes.at_work.values() if parse_key(lane.key).platform == platform]:
            lane.look_again(person)
            if lane.starter == person:
                lane.stop(REMOVED)

    async def look(self) -> None:
        """Somebody has lost access, perhaps through another process: all that goes on here for people is looked at."""
        turns = [lane for lane in self._lanes.at_work.values() if lane.starter not in ("", LOCAL_OWNER.person)]
        starters = {lane.starter for lane in turns}
        for person in await self._parts.call(self._find_gone, starters):
            await self.end_person(person)
        for lane in self._lanes.at_work.values():
            lane.look_again()
        for lane in turns:
            if lane.slot is not None and await self._parts.call(self._is_anothers, lane):
                lane.stop(REMOVED)

    # --- on a store thread

    def _find_gone(self, starters: Collection[str]) -> list[str]:
        """Who is nobody any more and has a turn or, in a direct chat, a process here. Of somebody who was forgotten no
        session is left."""
        store, running = self._parts.store, process_registry.running()
        last = {task: store.last_of(task) for task in {entry.task for entry in running}}
        sessions = filter(None, last.values())
        direct = (session.conversation for session in sessions if parse_key(session.conversation).kind == "dm")
        spoke = {str(store.turns.choices(conversation).get("person", "")) for conversation in direct}
        asked = {entry.sender for entry in running if last[entry.task] is None}
        found = {*starters, *spoke, *asked} - {"", LOCAL_OWNER.person}
        return sorted(person for person in found if store.people.get(person) is None)

    def _is_anothers(self, lane: Lane) -> bool:
        """Whether whoever began its turn could not begin it now: their identity is theirs no more."""
        slot = lane.slot
        if slot is None:
            return False
        first = slot.job.first
        person = self._senders.find_speaker(lane.key, first.inbound)
        return first.inbound.origin != NOTICE and person != first.view.sender.person
