"""Questions that stand in a chat with buttons of a plugin's own, so that whatever draws them can say what was pressed.

Whoever asks adds one with what is done with the answer; a button names its conversation, or the question.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

APPROVAL, CLARIFICATION = "approval", "clarification"


@dataclass(eq=False, slots=True)
class OpenAsk:
    id: str
    session_key: str
    kind: str
    question: str = ""
    choices: tuple[str, ...] = ()
    settle: Callable[[str, str], object] | None = None  # the answer, and a word that goes with a refusal
    by_plugin: bool = False  # the plugin itself asks, and waits
    awaits_text: bool = False  # the next message there is the answer
    response: str | None = None
    answered: threading.Event = field(default_factory=threading.Event)

    # As plugins call them.
    @property
    def clarify_id(self) -> str:
        return self.id


class OpenAsks:
    """Of this process; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, OpenAsk] = {}

    def add(self, ask: OpenAsk) -> None:
        with self._lock:
            self._open[ask.id] = ask

    def drop(self, id: str) -> OpenAsk | None:
        with self._lock:
            return self._open.pop(id, None)

    def find(self, id: str) -> OpenAsk | None:
        return self._open.get(id)

    def of_session(self, session_key: str, kind: str) -> list[OpenAsk]:
        """The oldest first."""
        with self._lock:
            return [ask for ask in self._open.values() if (ask.session_key, ask.kind) == (session_key, kind)]

    def list_sessions(self, kind: str) -> list[str]:
        with self._lock:
            return list(dict.fromkeys(ask.session_key for ask in self._open.values() if ask.kind == kind))

    def answer(self, id: str, response: str, word: str = "") -> bool:
        """Whether it was open, and may be answered by a button; the first answer counts."""
        ask = self.find(id)
        if ask is None or (ask.settle is None and not ask.by_plugin) or self.drop(id) is None:
            return False
        ask.response = response
        if ask.settle is not None:
            ask.settle(response, word)
        ask.answered.set()
        return True


class AskQueues(dict[str, list[Any]]):
    """What is open, by conversation, the oldest first; a dict, since plugins look at one. What somebody puts there
    itself stands behind what is asked, and is counted when it is settled."""

    def __init__(self, asks: OpenAsks, kind: str) -> None:
        super().__init__()
        self._asks, self._kind = asks, kind

    def take_own(self, key: str, *, every: bool) -> list[Any]:
        """What somebody put there for this conversation goes: all of it, or the oldest."""
        waiting = dict.get(self, key) or []
        taken = waiting[:] if every else waiting[:1]
        del waiting[: len(taken)]
        if not waiting:
            dict.pop(self, key, None)
        return taken

    def _read(self) -> dict[str, list[Any]]:
        asked = self._asks.list_sessions(self._kind)
        found: dict[str, list[Any]] = {key: list(self._asks.of_session(key, self._kind)) for key in asked}
        for key, own in dict.items(self):
            found[key] = [*found[key], *own] if key in found else own
        return found

    def __getitem__(self, key: str) -> list[Any]:
        return self._read()[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self._read().get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __eq__(self, other: object) -> bool:
        return self._read() == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self._read())

    def keys(self) -> Any:
        return self._read().keys()

    def values(self) -> Any:
        return self._read().values()

    def items(self) -> Any:
        return self._read().items()

    def copy(self) -> dict[str, list[Any]]:
        return self._read()


open_asks = OpenAsks()
