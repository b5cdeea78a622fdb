"""Remembers which tool calls the model made after thinking, to notice a client that drops the thinking."""

from collections.abc import Iterable

from hermes_lab.values import Replay

_MOST_CALLS = 50_000


class Thoughts:
    """Tool call ids, and whether thinking was sent with them."""

    def __init__(self) -> None:
        self._with_thinking: dict[str, bool] = {}

    def note(self, call_ids: Iterable[str], with_thinking: bool) -> None:
        for call_id in call_ids:
            self._with_thinking.pop(call_id, None)
            self._with_thinking[call_id] = with_thinking
        while len(self._with_thinking) > _MOST_CALLS:
            del self._with_thinking[next(iter(self._with_thinking))]

    def are_missing(self, replay: Replay) -> bool:
        """True when the calls came with thinking, or may have, and the client sent none back."""
        if replay.has_thinking or not replay.calls:
            return False
        return self._with_thinking.get(replay.calls[0], replay.must_think)
