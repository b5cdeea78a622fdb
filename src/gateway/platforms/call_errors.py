"""Why a service could not be reached, in words for people: the names of a library's errors say nothing to them."""

import socket
import ssl
from collections.abc import Iterator, Mapping

_WORDS: Mapping[type[BaseException], str] = {
    socket.gaierror: "the name of the server is not known",
    ConnectionRefusedError: "nobody takes the connection",
    ssl.SSLCertVerificationError: "its certificate is not trusted",
    ssl.SSLError: "it does not speak TLS as we do",
    ConnectionError: "the connection broke off",
    TimeoutError: "no answer in time",
}


def describe_call_error(error: BaseException, host: str = "") -> str:
    """The reason that stands behind an error; `host` is where the call went. Nothing that an error itself says is
    told: it may hold an address with a key in it."""
    causes = list(_list_causes(error))
    known = (words for cause in causes for kind, words in _WORDS.items() if isinstance(cause, kind))
    told = (cause.strerror for cause in causes if isinstance(cause, OSError) and cause.errno and cause.strerror)
    reason = next(known, "") or next(told, "") or type(error).__name__
    return f"no connection to {host}: {reason}" if host else reason


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what caused it, the nearest first; each once."""
    waiting, seen = [error], {id(error)}
    while waiting:
        cause = waiting.pop(0)
        yield cause
        inner = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        for one in (getattr(cause, "os_error", None), cause.__cause__, cause.__context__, *inner):
            if isinstance(one, BaseException) and id(one) not in seen:
                seen.add(id(one))
                waiting.append(one)
