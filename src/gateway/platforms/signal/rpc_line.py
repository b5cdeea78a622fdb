"""The daemon's lines: each is one JSON-RPC object, or several in a list. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JsonObject = Mapping[str, Any]


class OddLine(ValueError):
    """A line that is not as documented. Nothing of it is in the error."""


@dataclass(frozen=True, slots=True)
class RpcAnswer:
    """What came of one of our calls."""

    call: int
    result: Any = None


@dataclass(frozen=True, slots=True)
class RpcError:
    """What the daemon says instead of a result; `call` None: it does not say of which."""

    call: int | None
    code: int
    text: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class RpcNews:
    """Something that nobody asked for."""

    method: str
    params: JsonObject


RpcMessage = RpcAnswer | RpcError | RpcNews


def write_call(number: int, method: str, params: JsonObject) -> bytes:
    """One line, whatever is in it."""
    call = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(call, separators=(",", ":")).encode("ascii") + b"\n"


def read_line(data: bytes) -> list[RpcMessage]:
    """What a line says; OddLine when it is not as documented."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise OddLine("it is no JSON") from None
    return [_read_one(one) for one in (found if isinstance(found, list) else [found])]


def _read_one(found: Any) -> RpcMessage:
    if not isinstance(found, Mapping):
        raise OddLine("it is no object")
    number = found.get("id")
    call = number if isinstance(number, int) and not isinstance(number, bool) else None
    method = found.get("method")
    if isinstance(method, str):
        params = found.get("params")
        return RpcNews(method, params if isinstance(params, Mapping) else {})
    error = found.get("error")
    if isinstance(error, Mapping):
        code = error.get("code")
        return RpcError(call, code if isinstance(code, int) else 0, str(error.get("message") or ""), error.get("data"))
    if call is None or "result" not in found:
        raise OddLine("it is neither an answer nor news")
    return RpcAnswer(call, found["result"])
