"""Reads the body of a request: bounded, strictly JSON, field by field, with a sentence for whatever is not right."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request

from gateway.http.api.problems import ApiProblem, wrong

BODY_BYTES = 10 * 1024 * 1024
SMALL_BYTES = 32 * 1024  # what is larger is parsed beside the event loop
MOST_CHARS = 2_000_000  # of one text
TOO_LARGE = f"The request is larger than {BODY_BYTES // 1024 // 1024} MB, images included."


async def read_json(request: Request, *, needed: bool = True) -> "Fields":
    """The body, which must be a JSON object; unless it is needed, no body at all says as much as an empty object."""
    body = await _read_bytes(request)
    if not needed and not body.strip():
        return Fields({})
    value = parse_json(body) if len(body) <= SMALL_BYTES else await asyncio.to_thread(parse_json, body)
    return Fields(value)


async def _read_bytes(request: Request) -> bytes:
    """The limit holds while it is being read, whatever the client announced."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > BODY_BYTES:
        raise ApiProblem(413, TOO_LARGE, "too_large")
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES:
                raise ApiProblem(413, TOO_LARGE, "too_large")
    except ClientDisconnect as gone:
        raise ApiProblem(400, "The request ended before its body did.", "incomplete_body") from gone
    return bytes(body)


def parse_json(body: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise wrong("", "The body is not UTF-8.", "invalid_json") from error
    except RecursionError as error:
        raise wrong("", "The body is nested too deeply.", "invalid_json") from error
    except ValueError as error:
        raise wrong("", f"The body is not valid JSON: {str(error)[:200]}.", "invalid_json") from error
    if not isinstance(value, dict):
        raise wrong("", "The body must be a JSON object.", "invalid_json")
    if b"\\ud" in body.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except (UnicodeEncodeError, RecursionError) as error:  # half a character can neither be stored nor sent on
            raise wrong("", "The body holds half a character (a lone surrogate).", "invalid_json") from error
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class Fields:
    """A JSON object whose fields are read by kind. A field that is null is a field that is not there."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = values
        self._path = path

    def name(self, field: str) -> str:
        """The field as the client finds it."""
        return f"{self._path}.{field}" if self._path else field

    def get(self, field: str) -> Any:
        return self._values.get(field)

    def has(self, field: str) -> bool:
        return self._values.get(field) is not None

    def text(self, field: str, *, needed: bool = False, most: int = MOST_CHARS) -> str:
        value = self._values.get(field)
        if value is None and not needed:
            return ""
        if not isinstance(value, str):
            raise wrong(self.name(field), f"{self.name(field)} must be a text.")
        if needed and not value.strip():
            raise wrong(self.name(field), f"{self.name(field)} must not be empty.")
        if len(value) > most:
            raise wrong(self.name(field), f"{self.name(field)} is longer than {most:,} characters.")
        return value

    def flag(self, field: str, *, default: bool = False) -> bool:
        value = self._values.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong(self.name(field), f"{self.name(field)} must be true or false.")
        return value

    def whole(self, field: str) -> int | None:
        value = self._values.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
            raise wrong(self.name(field), f"{self.name(field)} must be a whole number that is not negative.")
        return value

    def section(self, field: str) -> "Fields":
        value = self._values.get(field)
        if value is None:
            return Fields({}, self.name(field))
        if not isinstance(value, Mapping):
            raise wrong(self.name(field), f"{self.name(field)} must be an object.")
        return Fields(value, self.name(field))

    def entries(self, field: str, *, most: int = 5_000) -> Sequence["Fields"]:
        """A list of objects."""
        value = self._values.get(field)
        if not isinstance(value, list):
            raise wrong(self.name(field), f"{self.name(field)} must be a list.")
        if len(value) > most:
            raise wrong(self.name(field), f"{self.name(field)} has more than {most:,} entries.")
        for number, entry in enumerate(value):
            if not isinstance(entry, Mapping):
                raise wrong(f"{self.name(field)}[{number}]", f"{self.name(field)}[{number}] must be an object.")
        return [Fields(entry, f"{self.name(field)}[{number}]") for number, entry in enumerate(value)]

    def refuse(self, field: str, why: str) -> None:
        """What cannot be honoured, and would be missed, is refused instead of ignored; empty is as good as absent."""
        if self._values.get(field) not in (None, [], {}, False, ""):
            raise wrong(self.name(field), f"{self.name(field)}: {why}", "unsupported")
