"""Server-sent events: how they are written, and the answer that carries them."""

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any

from starlette.responses import StreamingResponse

from gateway.http.answers import write_json

PULSE_SECONDS = 15.0
#: A comment, which every client skips; it keeps proxies from closing a silent connection.
PULSE = b": still here\n\n"
DONE = b"data: [DONE]\n\n"
_HEADERS: Mapping[str, str] = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def write_event(data: Any, *, event: str = "", id: str = "") -> bytes:
    numbered, named = (f"{name}: {value}\n" if value else "" for name, value in (("id", id), ("event", event)))
    return b"%b%bdata: %b\n\n" % (numbered.encode(), named.encode(), write_json(data))


def stream(pieces: AsyncIterator[bytes], headers: Mapping[str, str] = MappingProxyType({})) -> StreamingResponse:
    return StreamingResponse(pieces, media_type="text/event-stream", headers={**_HEADERS, **headers})
