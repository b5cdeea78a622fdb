"""What a wire format is: the path it listens on, how a request is read, how answers and errors are written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hermes_lab.values import Answer, Ask, Problem, Usage

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Overflow:
    """A request that does not fit the window, in tokens."""

    prompt: int
    limit: int | None
    window: int


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    path: str
    call_prefix: str  # of the ids of tool calls
    request_id_header: str
    closing_events: int  # at the end of a stream, after the event that tells the usage
    check_headers: Callable[[Headers], None]  # raises Refused
    decode: Callable[[bytes], Ask]  # raises Refused
    encode_whole: Callable[[Ask, Answer, Usage], bytes]
    encode_stream: Callable[[Ask, Answer, Usage], list[bytes]]  # one item an event
    encode_problem: Callable[[Problem], bytes]
    encode_error_event: Callable[[Problem, int], bytes]  # the error after so many events of a stream
    encode_failed: Callable[[Ask, Problem, int | None], bytes] | None  # an answer that failed, whole or as an event
    describe_overflow: Callable[[Overflow], Problem]
    describe_missing_thoughts: Callable[[str], Problem] | None  # at a place in the request


def find_account(headers: Headers) -> str:
    """The key that a request is charged to; "" without one."""
    key = headers.get("x-api-key") or headers.get("authorization", "")
    return key.removeprefix("Bearer ").strip()


def accept_headers(headers: Headers) -> None:
    """For formats whose local servers take any key and none."""
