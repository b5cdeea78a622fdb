"""What a turn under way has shown so far, for pages that come in the middle of it; bounded, whatever the turn says."""

from dataclasses import dataclass, replace

from gateway.platforms.face import LiveEvent, Taken
from hermes_base.chat import ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted, TurnTexts

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


class Picture:
    """One turn, from its beginning on."""

    def __init__(self, seqs: tuple[int, ...], begun: float) -> None:
        self.seqs = seqs
        self.begun = begun  # what the transcript got since then is part of this picture
        self.taken: frozenset[int] = frozenset()  # messages that the turn has read
        self.text = TurnTexts(MOST_TEXT)
        self.reasoning = TurnTexts(MOST_REASONING)
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
