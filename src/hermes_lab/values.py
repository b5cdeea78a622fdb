"""What a request asks and what the model answers, in words that belong to no wire format."""

from dataclasses import dataclass
from enum import StrEnum

from hermes_base.errors import HermesError

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
class Ask:
    """A request that passed the format's rules, reduced to what decides the answer."""

    model: str
    seed: str  # hash of the body: every id in the answer comes from it
    user_text: str  # the newest user message
    round: int  # assistant messages since that message
    results: tuple[ToolResult, ...]  # tool results since the newest assistant message
    prompt: tuple[bytes, ...]  # tools, then messages: what is billed and what a prefix cache compares
    has_tools: bool = False
    stream: bool = False
    include_usage: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    name: str
    arguments: str  # as the model wrote it; need not be JSON


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counts them: cached and written are parts of prompt, reasoning is a part of completion."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says to one request, and into how many pieces a stream cuts it."""

    text: str = ""
    reasoning: str = ""
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


class Refused(HermesError):
    """The request breaks a rule of its format."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
