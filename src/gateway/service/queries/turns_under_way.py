"""Turns under way for the page and the API: stops them, answers their questions, tells what came of a message."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.core.people import may_stop
from gateway.core.route import Standing
from gateway.service.queries.thread_queries import ThreadQueries
from hermes_base.chat import Question
from hermes_base.inbound import Outgoing
from hermes_base.query_values import Caller, NotAllowed
from hermes_state.store import UsageSum

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway


class TurnQueries:
    def __init__(self, gateway: "Gateway", threads: ThreadQueries) -> None:
        self._gateway = gateway
        self._threads = threads

    async def stop(self, caller: Caller, conversation: str) -> bool:
        """False: nothing runs there."""
        await self._gateway.call(self._threads.check, caller, conversation)
        lane = await self._gateway.find_lane(conversation)
        if lane is None:
            return False
        starter = lane.starter or lane.coming
        if starter and not may_stop(caller.role, caller.person, starter):
            raise NotAllowed("This turn is somebody else's.", kept="It goes on.")
        return await lane.stop_for_good("stopped by the user")

    async def answer(self, caller: Caller, question: str, text: str) -> bool:
        """False: it is not open, or not the caller's to answer."""
        gateway = self._gateway
        row = await gateway.call(gateway.people.question, question)
        if row is None:
            return False
        await gateway.call(self._threads.check, caller, row.conversation)
        by = Standing(caller.person, caller.role)
        return gateway.questions.answer(question, text, by, conversation=row.conversation)

    async def question(self, caller: Caller, conversation: str) -> Question | None:
        await self._gateway.call(self._threads.check, caller, conversation)
        return self._gateway.questions.showing(conversation)

    async def answers(self, conversation: str, seqs: Sequence[int]) -> Sequence[Outgoing]:
        """What was said to these messages when they were dealt with, from the outbox."""
        gateway = self._gateway
        found = [row for seq in sorted(seqs) for row in await gateway.call(gateway.turns.outbox_of, conversation, seq)]
        return [row.outgoing for row in found]

    async def find_message(self, account: str, stem: str) -> tuple[int, bool] | None:
        """A message that was stored before under this name: its seq, and whether it is dealt with."""
        rows = await self._gateway.call(self._gateway.turns.find_message, account, stem)
        return (rows[-1][0], rows[-1][2]) if rows else None

    async def usage(self, conversation: str, since: float) -> Mapping[str, int]:
        """Tokens of the conversation's calls since then."""
        store = self._gateway.store

        def read() -> UsageSum:
            current = store.current(conversation)
            return store.usage(task=current.task, since=since) if current is not None else UsageSum()

        spent = await self._gateway.call(read)
        return {
            "input": spent.prompt_tokens,
            "cached": spent.cache_read_tokens,
            "output": spent.output_tokens,
            "reasoning": spent.reasoning_tokens,
        }
