"""Keeps every call that a client made, and what was wrong with it."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

MOST_CALLS = 200_000


class ChatClock:
    """The time of a server. It goes on by itself, and jumps when it is told to."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        """Seconds that never go back, for limits and pauses."""
        return time.monotonic() + self._ahead

    def date(self) -> float:
        """Seconds since 1970, for what messages say."""
        return time.time() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds


@dataclass(slots=True)
class ChatCall:
    """One call of a client, whatever became of it."""

    number: int  # counts from 1
    at: float  # by the server's clock
    account: str
    method: str
    chat: str  # empty: no chat is named
    parameters: Mapping[str, Any]  # a file is {"file": name, "size": bytes}
    status: int = 0  # 0: under way, or never answered
    fault: str = ""  # what the plan made of it
    took_effect: bool = False
    problem: str = ""  # the error that it was told


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something that a good client does not do."""

    kind: str
    text: str
    call: int = 0  # its number; 0: no single one


@dataclass(slots=True)
class ChatRecord:
    """All calls, oldest first, and the complaints about them."""

    clock: ChatClock
    calls: deque[ChatCall] = field(default_factory=lambda: deque(maxlen=MOST_CALLS))
    complaints: list[Complaint] = field(default_factory=list)
    _count: int = 0

    def note(self, account: str, method: str, chat: str, parameters: Mapping[str, Any]) -> ChatCall:
        self._count += 1
        call = ChatCall(self._count, self.clock.now(), account, method, chat, parameters)
        self.calls.append(call)
        return call

    def complain(self, kind: str, text: str, call: ChatCall | None = None) -> None:
        self.complaints.append(Complaint(kind, text, call.number if call else 0))

    def forgive(self, kinds: tuple[str, ...]) -> None:
        """Forget the complaints of these kinds; of all, when none is named."""
        self.complaints[:] = [complaint for complaint in self.complaints if kinds and complaint.kind not in kinds]

    def describe_calls(self, method: str = "", chat: str = "") -> list[dict[str, Any]]:
        fitting = (call for call in self.calls if method.lower() in ("", call.method.lower()))
        return [asdict(call) for call in fitting if chat in ("", call.chat)]
