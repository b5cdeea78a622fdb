"""Server-sent events: how they are written, and the answer that carries them."""

import json
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

from starlette.responses import StreamingResponse

PULSE_SECONDS = 15.0
#: A comment, which every client skips; it keeps proxies from closing a silent connection.
PULSE = ": still here\n\n"
DONE = "data: [DONE]\n\n"
_HEADERS: Mapping[str, str] = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def write_event(data: Mapping[str, Any], *, event: str = "", id: str = "") -> str:
    named = f"event: {event}\n" if event else ""
    numbered = f"id: {id}\n" if id else ""
    return f"{numbered}{named}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n"


def stream(
    pieces: AsyncIterator[str] | AsyncIterator[bytes], headers: Mapping[str, str] = MappingProxyType({})
) -> StreamingResponse:
    return StreamingResponse(pieces, media_type="text/event-stream", headers={**_HEADERS, **headers})
