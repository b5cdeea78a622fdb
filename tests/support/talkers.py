"""People who go on talking to several gateways while something happens to those: to their bot, or in a terminal."""

import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from gateway_nodes import Node, Nodes
from gateway_process import Person
from nodes_audit import was_given_up
from waiting import wait_until

from gateway.core.drafts import UNFINISHED

PATIENCE = 180.0
EACH_ALONE = {"gateway": {"busy": "queue"}}  # what comes while a turn is slow is answered by one of its own


class Talker:
    """One person: says something, waits for the answer, and goes on, until all is said or nobody wants to hear more."""

    apart = 0.1  # seconds after each message

    def __init__(self, number: int, count: int) -> None:
        self.tokens: list[str] = []  # of what was said
        self.waits: list[tuple[float, float]] = []  # when the last of a row was said, and how long its answer took
        self.problem: BaseException | None = None
        self._number, self._count = number, count
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def _talk(self) -> None:
        try:
            while len(self.tokens) < self._count and not self._enough.is_set():
                wait_until(self._may_go_on, math.inf)
                for number in range(min(self._count - len(self.tokens), self.choose_row())):
                    time.sleep(self.apart if number else 0.0)
                    token = f"m{self._number}.{len(self.tokens) + 1}"
                    self.tokens.append(token)
                    given_up = self._count_given_up()
                    self.say(f"{token} [[stall 0.2]] [[say answer {token}]]")
                    began = time.monotonic()
                wait_until(partial(self._was_answered, self.tokens[-1], given_up), PATIENCE)
                self.waits.append((began, time.monotonic() - began))
                time.sleep(self.apart)
        except BaseException as problem:
            self.problem = problem

    def _may_go_on(self) -> bool:
        return self._enough.is_set() or self.may_say(len(self.tokens))

    def may_say(self, number: int) -> bool:
        """Whether it is time for the message of this number."""
        return True

    def _was_answered(self, token: str, given_up: int) -> bool:
        """Or told that the work on it broke off again and again, more often than before it was said."""
        answered = any(f"answer {token}" in text and not text.endswith(UNFINISHED) for text in self.seen)
        return answered or self._count_given_up() > given_up

    def _count_given_up(self) -> int:
        return sum(map(was_given_up, self.seen))

    def choose_row(self) -> int:
        """How many things are said in a row."""
        return 1

    def say(self, text: str) -> None:
        raise NotImplementedError

    @property
    def seen(self) -> list[str]:
        """What stands in their chat."""
        raise NotImplementedError

    def hear_enough(self) -> None:
        """After the next answer nothing more is said."""
        self._enough.set()

    def join(self) -> None:
        self._thread.join(2 * PATIENCE)
        assert not self._thread.is_alive()
        if self.problem is not None:
            raise self.problem


class BotTalker(Talker):
    """Speaks to the bot, now and then two things in a row."""

    apart = 1.5  # what is closer, by Telegram's clock of whole seconds, is one turn

    def __init__(
        self,
        nodes: Nodes,
        number: int,
        person: int,
        *,
        count: int,
        seed: int,
        is_time: Callable[[float], bool] = lambda share: True,
    ) -> None:
        """`is_time`: whether this share of what they have to say may be said by now."""
        self.person = person
        self._nodes, self._is_time = nodes, is_time
        self._random = random.Random(f"{seed}-{number}")
        super().__init__(number, count)

    def choose_row(self) -> int:
        return self._random.choice((1, 1, 1, 2))

    def may_say(self, number: int) -> bool:
        return self._is_time(number / self._count)

    def say(self, text: str) -> None:
        self._nodes.telegram.say(self.person, text)

    @property
    def seen(self) -> list[str]:
        return self._nodes.seen(self.person)


class TerminalTalker(Talker):
    """Speaks to one gateway's socket, and waits while nobody is there."""

    def __init__(self, node: Node, number: int, *, count: int) -> None:
        self._terminal = Person(node.home, f"person-{number}")
        super().__init__(number, count)

    def say(self, text: str) -> None:
        self._terminal.say(text)

    @property
    def seen(self) -> list[str]:
        return [shown.outgoing.text for shown in self._terminal.shown]

    def close(self) -> None:
        self._terminal.close()


def wait_all_answered(talkers: Sequence[Talker]) -> None:
    """Until each of them has said something more and was answered."""
    before = {talker: len(talker.waits) for talker in talkers}
    wait_until(lambda: all(talker.problem or len(talker.waits) > count for talker, count in before.items()), PATIENCE)
