"""What a turn under way has shown so far, for pages that come in the middle of it; bounded, whatever the turn says."""

from collections import deque
from dataclasses import dataclass, replace

from gateway.platforms.face import LiveEvent, Taken
from hermes_base.chat import GAP, ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted

MOST_TEXT = 1_000_000
MOST_REASONING = 200_000
MOST_TOOLS = 300


@dataclass(frozen=True, slots=True)
class ToolShown:
    id: str
    name: str
    preview: str
    ok: bool | None = None  # None: it works
    seconds: float | None = None
    result: str = ""


class Tail:
    """The end of a growing text. Pieces go as wholes and the rest is cut when it is read, so that a piece costs what it
    is long."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pieces: deque[str] = deque()
        self._size = 0
        self._cut = False

    def add(self, text: str) -> None:
        self._pieces.append(text[-self._most :])
        self._size += len(self._pieces[-1])
        self._cut = self._cut or self._size > self._most or len(text) > self._most
        while self._size - len(self._pieces[0]) >= self._most:
            self._size -= len(self._pieces.popleft())

    def read(self) -> str:
        """The whole, joined so that the next reader finds it joined."""
        whole = "".join(self._pieces)[-self._most :]
        self._pieces, self._size = deque([whole] if whole else []), len(whole)
        return f"…{whole}" if self._cut else whole

    def __bool__(self) -> bool:
        return bool(self._size)


class GrowingText:
    """The ends of what stands and of what is under way, which may still be taken back."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept, self._open = Tail(most), Tail(most)

    @property
    def kept(self) -> str:
        return self._kept.read()

    @property
    def open(self) -> str:
        return self._open.read()

    def add(self, piece: str) -> None:
        self._open.add(GAP + piece if self._kept and not self._open else piece)

    def end(self, kept: bool) -> None:
        if kept and self._open:
            self._kept.add(self._open.read())
        self._open = Tail(self._most)


class Picture:
    """One turn, from its beginning on."""

    def __init__(self, seqs: tuple[int, ...], begun: float) -> None:
        self.seqs = seqs
        self.begun = begun  # what the transcript got since then is part of this picture
        self.taken: frozenset[int] = frozenset()  # messages that the turn has read
        self.text = GrowingText(MOST_TEXT)
        self.reasoning = GrowingText(MOST_REASONING)
        self._tools: dict[str, ToolShown] = {}

    @property
    def tools(self) -> tuple[ToolShown, ...]:
        return tuple(self._tools.values())

    def add(self, event: LiveEvent) -> None:
        match event:
            case Taken(seqs):
                self.taken |= set(seqs)
            case TextDelta(text):
                self.text.add(text)
            case ReasoningDelta(text):
                self.reasoning.add(text)
            case TextEnded(kept):
                self.text.end(kept)
                self.reasoning.end(kept)
            case ToolStarted(id, name, preview):
                self._tools[id] = ToolShown(id, name, preview)
                if len(self._tools) > MOST_TOOLS:
                    del self._tools[next(iter(self._tools))]
            case ToolEnded(id, name, ok, seconds, preview):
                started = self._tools.get(id)
                if started is not None:
                    self._tools[id] = replace(started, ok=ok, seconds=seconds, result=preview)
