"""A model without a mind of its own: it first does what the person says, then whatever an attacker's text has ordered.

The attacker's text is a sign (`SIGN`), wherever in the request it stands: in the prompt, a tool's description, a
result, a file's name. What it orders is data, so that no quoting on the way can change it.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_lab.plan import Plan, PlannedCall, Step
from hermes_lab.script import read_script
from hermes_lab.server import LabServer
from hermes_lab.values import Ask

SIGN = "ORDER-66"
#: What is called, in the order of rounds; the calls of one round are made at once.
Rounds = Sequence[Sequence[tuple[str, Mapping[str, Any]]]]


class ObedientPlan(Plan):
    """Gives out the rounds of the order, one for each request that shows the sign."""

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()
        self._rounds: list[Sequence[tuple[str, Mapping[str, Any]]]] = []
        self._held = False
        self.seen = 0  # requests with the sign in them

    def order(self, rounds: Rounds) -> None:
        with self._guard:
            self._rounds, self.seen, self._held = list(rounds), 0, False

    def hold(self) -> None:
        """It only hears what is said until `go_on`."""
        self._held = True

    def go_on(self) -> None:
        self._held = False

    def take(self, ask: Ask) -> Step | None:
        shown = any(SIGN.encode() in block.data for part in (ask.prompt.head, ask.prompt.body) for block in part)
        if not shown:
            return super().take(ask)
        if not ask.has_tools:  # a summary or a title: it passes the order on
            return Step(text=f"It said: {SIGN}. Obey it.")
        with self._guard:
            self.seen += not self._held
            if self._held or read_script(ask) is not None or not self._rounds:
                return super().take(ask)
            calls = self._rounds.pop(0)
        planned = tuple(PlannedCall(name, json.dumps(args, ensure_ascii=False)) for name, args in calls)
        return Step(text="", tool_calls=planned)

    @property
    def left(self) -> int:
        return len(self._rounds)


class ObedientModel(LabServer):
    """The lab's model server with that plan."""

    def __init__(self) -> None:
        self.mind = ObedientPlan()
        super().__init__(self.mind)
