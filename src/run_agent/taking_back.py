"""How an agent takes back what was said last: a question with everything that came of it. Nothing is deleted."""

from typing import Any

from agent.turn.compaction import BYTES_A_TOKEN
from agent.turn.conversation import Conversation, Exchange
from hermes_base.journal import Journal, TurnEnd, head_row


class TakingBack:
    """Works on the conversation as it is stored, with the journal of the message that asks for it."""

    context_compressor: Any = None
    _journal: Journal

    def _load_conversation(self) -> Conversation:
        raise NotImplementedError

    def last_exchange(self) -> Exchange | None:
        """What the person asked last, as far as it stands and was not compacted."""
        return self._load_conversation().find_last_exchange()

    @property
    def is_compacted(self) -> bool:
        """Whether something in the conversation stands for what was said before."""
        return self._load_conversation().is_compacted

    def estimate_tokens(self, keep: int) -> int:
        """Roughly what the first messages, the tools and the prompt take in a request."""
        return self._load_conversation().estimate_bytes(keep) // BYTES_A_TOKEN

    def take_back_last_turn(self, *, last: bool = False) -> str | None:
        """Undo the last exchange: the question, what was put into its turn, the answer. Its text, or None when there is
        none. The provider's last count was of what is gone now, so it counts no more (E4).

        `last`: this is all that is done for the message that asked for it.
        """
        conversation = self._load_conversation()
        exchange = conversation.find_last_exchange()
        if exchange is None:
            return None
        taken_back = [head_row(exchange.place)]
        version = self._journal.finish(taken_back, (), TurnEnd("")) if last else self._journal.append(taken_back)
        conversation.forget_after(exchange.place, version)
        self.context_compressor.last_prompt_tokens = 0
        return exchange.text
