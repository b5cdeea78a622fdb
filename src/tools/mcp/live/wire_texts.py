"""What a server wrote, read as far as it can be understood. Pure.

Programs cut texts in the middle of a sign, and then write half of one as an escape, which strict readers refuse with
everything around it. A call waits for such an answer in vain.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from mcp.types import JSONRPCMessage

from mcp import types

NO_ANSWER = "its answer is no message of MCP"
_HALF_SIGN = re.compile(rb"\\u[dD][89a-fA-F]")
#: A backslash that is meant as one, a whole sign in two halves, or half a sign.
_ESCAPES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_HALF_BYTES = 6
#: The end of a piece in which an escape may go on in the next one.
_OPEN_END = re.compile(rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u[0-9a-fA-F]{0,3})?)?\Z")
_BACKSLASH = 0x5C


def mend_escapes(data: bytes) -> bytes:
    """With a sign of its own in the place of half a sign."""
    if _HALF_SIGN.search(data) is None:
        return data
    return _ESCAPES.sub(lambda found: b"\\ufffd" if len(found[0]) == _HALF_BYTES else found[0], data)


def split_open_end(data: bytes) -> tuple[bytes, bytes]:
    """What can be read by itself, and the beginning of an escape at its end, if there is one."""
    found = _OPEN_END.search(data, max(0, len(data) - 11))
    assert found is not None  # the empty end always fits
    start = found.start()
    before = start
    while before and data[before - 1] == _BACKSLASH:
        before -= 1
    return (data, b"") if (start - before) % 2 else (data[:start], data[start:])


def read_message(line: bytes) -> JSONRPCMessage | None:
    """The message on a line; an answer that is none of the protocol's becomes an error for the call that waits for
    it. None: it is no message at all."""
    plain = mend_escapes(line.decode("utf-8", "replace").removeprefix("\ufeff").encode())
    try:
        return JSONRPCMessage.model_validate_json(plain)
    except ValueError:
        return _read_odd_answer(plain)


def _read_odd_answer(line: bytes) -> JSONRPCMessage | None:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(told, Mapping) or "method" in told or not told.keys() & {"result", "error"}:
        return None
    call, result = told.get("id"), told.get("result")
    if isinstance(call, bool) or not isinstance(call, int | str):
        return None
    try:
        if isinstance(result, dict):
            return JSONRPCMessage(types.JSONRPCResponse(jsonrpc="2.0", id=call, result=result))
        return JSONRPCMessage(make_error(call, types.INTERNAL_ERROR, find_words(told) or NO_ANSWER))
    except ValueError:
        return None


def find_words(answer: Any) -> str:
    """What an answer says went wrong; empty: nothing."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    words = error.get("message") if isinstance(error, Mapping) else error
    return words if isinstance(words, str) else ""


def make_error(call: str | int, code: int, words: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=call, error=types.ErrorData(code=code, message=words))
