"""What a request asks and what the model answers, in words that belong to no wire format."""

from dataclasses import dataclass
from enum import StrEnum

from hermes_lab.prompt import Prompt

DEFAULT_CHUNK_SIZE = 16


class Finish(StrEnum):
    """Why the model stopped; a format translates it into its own word."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back since the model's last word."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Replay:
    """The model message whose tool calls this request answers, as the client sent it back."""

    calls: tuple[str, ...]
    place: str  # where it stands in the request
    has_thinking: bool
    must_think: bool  # the rules want thinking there, whoever wrote the message


class Want(StrEnum):
    """What a request asks to see of the model's reasoning."""

    REASONING = "reasoning"  # its text
    SEALED_REASONING = "sealed_reasoning"  # a text that only the server can read


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that passed the format's rules, reduced to what decides the answer."""

    model: str
    seed: str  # hash of the body: every id in the answer comes from it
    user_text: str  # the newest user message
    round: int  # model calls since that message
    results: tuple[ToolResult, ...]  # tool results since the newest assistant message
    prompt: Prompt
    limit: int | None = None  # tokens of the answer
    has_tools: bool = False
    stream: bool = False
    include_usage: bool = False
    thinks: bool = True  # the model may reason
    wants: frozenset[Want] = frozenset({Want.REASONING})
    replay: Replay | None = None


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    name: str
    arguments: str  # as the model wrote it; need not be JSON


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counts them.

    Cached and written are parts of prompt, those written for an hour a part of written, reasoning a part of completion.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def uncached_tokens(self) -> int:
        return max(self.prompt_tokens - self.cached_tokens - self.cache_write_tokens, 0)

    @property
    def cache_write_5m_tokens(self) -> int:
        return max(self.cache_write_tokens - self.cache_write_1h_tokens, 0)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says to one request, and into how many pieces a stream cuts it."""

    text: str = ""
    reasoning: str = ""
    hides_reasoning: bool = False  # it is billed and replayed, but its text is never shown
    calls: tuple[Call, ...] = ()
    finish: Finish = Finish.STOP
    chunks: int | None = None
    chunk_size: int = DEFAULT_CHUNK_SIZE

    def split(self, text: str) -> list[str]:
        """Pieces that join to `text`: `chunks` of them (at most one a character), or each of `chunk_size`."""
        if self.chunks is None:
            return [text[at : at + self.chunk_size] for at in range(0, len(text), self.chunk_size)]
        size, count = len(text), min(self.chunks, len(text))
        return [text[size * n // count : size * (n + 1) // count] for n in range(count)]


@dataclass(frozen=True, slots=True)
class Problem:
    """An error answer; a format writes it in its own shape."""

    status: int
    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None


class LabProblem(Exception):
    """A plan, a file or an address that whoever starts the lab can put right; `fix` says how."""

    def __init__(self, what: str, *, fix: str = "") -> None:
        super().__init__(f"{what} {fix}".rstrip())


class Refused(Exception):
    """The request breaks a rule of its format."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
