"""What is asked of a call, what it comes to, and how it fails: without the HTTP client, which is slow to load."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hermes_base.errors import HermesError
from hermes_net.address_rules import IpAddress

Resolve = Callable[[str, int], Awaitable[Sequence[IpAddress]]]


class AddressRefused(HermesError):
    """The address leads where nothing may be called; nothing was sent there."""

    was_led = False  # by a redirect: somebody else chose the address


class CallFailed(HermesError):
    """The call came to no answer; `sent`: what it said may have arrived all the same."""

    def __init__(self, what: str, *, sent: bool) -> None:
        super().__init__(what)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class HttpCall:
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    redirects: int = 0  # that are followed
    seconds: float = 30.0  # for all of it
    most_bytes: int = 1_048_576  # of the answer; a longer one is cut
    unpacks: bool = False  # whether the answer may be compressed; the limit is that of what comes out
    wants_body: bool = True  # else the status alone is the answer, whatever comes behind it


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    url: str  # where it came from, after redirects
    status: int
    headers: Mapping[str, str]  # names in small letters
    body: bytes
    cut: bool = False  # there was more
