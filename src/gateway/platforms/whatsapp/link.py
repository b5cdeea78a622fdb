"""The line to the Cloud API: one client for all calls of a number. What comes back is JSON, or a `GraphTrouble` without
the token in it."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import httpx2

from gateway.platforms.call_errors import describe_call_error
from gateway.platforms.whatsapp.number_settings import NumberSettings
from gateway.platforms.whatsapp.refusals import FILE_GONE, NO_SUCH_NUMBER, GraphTrouble, NoAnswer, hide
from gateway.platforms.whatsapp.wire_out import Body, UploadPlan

CALL_SECONDS = 10.0
FILE_SECONDS = 60.0  # without a byte of a file, either way
CONNECTIONS = 64
CHUNK_BYTES = 1_048_576
MOST_PENALTY = 3600.0
#: Where files lie, besides the host that is asked: the token is shown to nobody else.
FILE_HOSTS = (".fbsbx.com", ".facebook.com", ".whatsapp.net", ".fbcdn.net")
ABOUT_NUMBER = "display_phone_number,verified_name"
#: Below this level these write what is sent and to whom.
for _name in ("httpx2", "httpcore2", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
_NO_SUCH_THING = (100, NO_SUCH_NUMBER)


class GraphLink:
    """One number's line. Threads: the event loop's only."""

    def __init__(self, number: NumberSettings) -> None:
        """Takes its time: whoever makes one on the event loop uses `open_link`."""
        self._number = number
        self._http = httpx2.AsyncClient(
            headers={"authorization": f"Bearer {number.token}", "user-agent": "hermes"},
            timeout=httpx2.Timeout(CALL_SECONDS, connect=5.0, pool=5.0),
            limits=httpx2.Limits(max_connections=CONNECTIONS),
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def describe_number(self) -> Mapping[str, Any]:
        """Who we are there; it needs a token that may see the number."""
        return await self._call("GET", self._number.number, params={"fields": ABOUT_NUMBER})

    async def post(self, body: Body) -> Mapping[str, Any]:
        """Send a message, or a sign."""
        return await self._call("POST", f"{self._number.number}/messages", json=body)

    async def upload(self, name: str, data: bytes, plan: UploadPlan) -> str:
        """Bring a file up; its id there. Whatever fails, nobody has seen anything of it."""
        found = await self._call(
            "POST",
            f"{self._number.number}/media",
            data={"messaging_product": "whatsapp", "type": plan.mime},
            files={"file": (name, data, plan.mime)},
            timeout=httpx2.Timeout(FILE_SECONDS, connect=5.0, pool=5.0),
        )
        media = found.get("id")
        if not isinstance(media, str) or not media:
            raise GraphTrouble(NoAnswer.UNSURE, "it did not tell the id of the file")
        return media

    async def fetch(self, media: str, path: Path) -> None:
        """Write a file that somebody sent to a path. Its address holds for minutes only: it is asked for each time."""
        if not (media.isascii() and media.isalnum()):
            raise GraphTrouble(FILE_GONE, "")
        try:
            found = await self._call("GET", media, params={"phone_number_id": self._number.number})
        except GraphTrouble as trouble:
            if trouble.code not in _NO_SUCH_THING:
                raise
            raise GraphTrouble(FILE_GONE, trouble.text) from None
        url = str(found.get("url") or "")
        if not is_file_address(url, self._number):
            raise GraphTrouble(NoAnswer.UNSURE, "the address of a file leads elsewhere")
        try:
            async with self._http.stream("GET", url, timeout=httpx2.Timeout(FILE_SECONDS, connect=5.0)) as answer:
                if answer.status_code != 200:
                    raise GraphTrouble(NoAnswer.UNSURE, f"status {answer.status_code}")
                await _write(answer, path)
        except httpx2.HTTPError as error:
            raise self._describe(error) from None

    async def _call(self, method: str, path: str, **more: Any) -> Mapping[str, Any]:
        try:
            answer = await self._http.request(method, f"{self._number.root}/{path}", **more)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._describe(error) from None
        found = _read_json(answer)
        if answer.status_code == 200 and found is not None and "error" not in found:
            return found
        raise self._read_error(answer, found)

    def _read_error(self, answer: httpx2.Response, found: Mapping[str, Any] | None) -> GraphTrouble:
        error = found.get("error") if found else None
        if not isinstance(error, Mapping) or not isinstance(code := error.get("code"), int):
            text, pause = f"status {answer.status_code}", _read_pause(answer)
            return GraphTrouble(NoAnswer.UNSURE, text, status=answer.status_code, seconds=pause)
        if code == 100 and error.get("error_subcode") == NO_SUCH_NUMBER:
            code = NO_SUCH_NUMBER
        data = error.get("error_data")
        details = data.get("details") if isinstance(data, Mapping) else None
        text = hide(str(details or error.get("message") or "").strip().rstrip("."), [self._number.token])
        return GraphTrouble(code, text, status=answer.status_code, seconds=_read_pause(answer))

    def _describe(self, error: Exception) -> GraphTrouble:
        """By the kind of the error: its words may hold an address."""
        unsent = isinstance(error, _UNSENT)
        what = describe_call_error(error, (urlsplit(self._number.root).hostname or "") if unsent else "")
        return GraphTrouble(NoAnswer.UNSENT if unsent else NoAnswer.UNSURE, what)


def is_file_address(url: str, number: NumberSettings) -> bool:
    """Whether the token may be shown there: at Meta by https, or where everything else is asked for."""
    try:
        parts, own = urlsplit(url), urlsplit(number.root)
        if (parts.scheme, parts.hostname, parts.port) == (own.scheme, own.hostname, own.port):
            return True
        return parts.scheme == "https" and parts.port in (None, 443) and (parts.hostname or "").endswith(FILE_HOSTS)
    except ValueError:
        return False


async def open_link(number: NumberSettings) -> GraphLink:
    """A line to WhatsApp. Reading the certificates is no work for the event loop."""
    return await asyncio.to_thread(GraphLink, number)


async def _write(answer: httpx2.Response, path: Path) -> None:
    file = await asyncio.to_thread(path.open, "wb")
    try:
        async for piece in answer.aiter_bytes(CHUNK_BYTES):
            await asyncio.to_thread(file.write, piece)
    finally:
        await asyncio.to_thread(_close, file)


def _close(file: BinaryIO) -> None:
    file.close()


def _read_json(answer: httpx2.Response) -> Mapping[str, Any] | None:
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, Mapping) else None


def _read_pause(answer: httpx2.Response) -> float:
    told = answer.headers.get("retry-after", "").strip()
    return min(float(told[:9]), MOST_PENALTY) if told.isascii() and told.isdigit() else 0.0
