"""What a wire format is: the path it listens on, how a request is read, how answers and errors are written."""

from collections.abc import Callable
from dataclasses import dataclass

from hermes_lab.values import Answer, Ask, Problem, Usage


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    path: str
    key_header: str  # names the account
    decode: Callable[[bytes], Ask]  # raises Refused
    encode_whole: Callable[[Ask, Answer, Usage], bytes]
    encode_stream: Callable[[Ask, Answer, Usage], list[bytes]]  # one item an event
    encode_problem: Callable[[Problem], bytes]
