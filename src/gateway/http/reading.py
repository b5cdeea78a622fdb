"""Reads what the page sends: bodies up to a limit, and fields that are what they should be, or a sentence that says
which one is not."""

import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from gateway.http.answers import Refusal
from hermes_base.text.whole_text import clean_text

MOST_BODY = 2 * 1024 * 1024
MOST_NUMBER = 2**53
SMALL_TEXT = 10_000

_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


async def read_object(request: Request, most: int = MOST_BODY) -> Mapping[str, Any]:
    """The JSON object of a body. An empty body is an empty object."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "not_json", "This call takes JSON: send `Content-Type: application/json`.")
    body = await read_body(request, most)
    if not body.strip():
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "malformed", "The body is no JSON that can be read.") from error
    if not isinstance(value, dict):
        raise Refusal(400, "malformed", "The body has to be a JSON object.")
    return value


async def read_body(request: Request, most: int) -> bytes:
    """The body, given up as soon as it is known to be too large."""
    check_length(request, most)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise too_large(most)
    return bytes(body)


def check_length(request: Request, most: int) -> int:
    """What the client says that it sends; 0: it does not say."""
    said = request.headers.get("content-length", "")
    length = int(said) if said.isascii() and said.isdigit() else 0
    if length > most:
        raise too_large(most)
    return length


def too_large(most: int) -> Refusal:
    size = f"{most / 1024 / 1024:.0f} MB" if most >= 1024 * 1024 else f"{most} bytes"
    return Refusal(413, "too_large", f"That is too large: at most {size} are taken. Nothing was kept.")


# --- fields


def read_text(fields: Mapping[str, Any], name: str, default: str | None = None, most: int = SMALL_TEXT) -> str:
    """A text; without a default it has to be there. Halves of characters are replaced: nothing can store them."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise wrong_field(name, "a text")
    if len(value) > most:
        raise wrong_field(name, f"at most {most} characters long")
    return clean_text(value)


def read_name(fields: Mapping[str, Any], name: str) -> str:
    value = read_text(fields, name)
    if _NAME.fullmatch(value) is None:
        raise wrong_field(name, "1 to 64 letters, digits, dots, dashes or underscores")
    return value


def read_names(fields: Mapping[str, Any], name: str, most: int) -> tuple[str, ...]:
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise wrong_field(name, "a list of texts")
    if len(value) > most:
        raise wrong_field(name, f"a list of at most {most}")
    return tuple(value)


def read_choice(fields: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    value = read_text(fields, name, choices[0])
    if value not in choices:
        raise wrong_field(name, "one of " + ", ".join(repr(choice) for choice in choices))
    return value


def read_position(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_NUMBER:
        raise wrong_field(name, "a number that is not negative, or null")
    return value


def read_fields(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise wrong_field(name, "an object")
    return value


def query_number(request: Request, name: str, default: int | None, least: int, most: int) -> int | None:
    """A number of the query; one that is too large or too small is brought into the range."""
    said = request.query_params.get(name)
    if said is None or said == "":
        return default
    if re.fullmatch(r"-?\d{1,15}", said, re.ASCII) is None:
        raise wrong_field(name, "a whole number")
    return min(max(int(said), least), most)


def query_count(request: Request, name: str, default: int, most: int) -> int:
    found = query_number(request, name, default, 1, most)
    assert found is not None, "there is a default"
    return found


def query_time(request: Request, name: str) -> float | None:
    said = request.query_params.get(name)
    if not said:
        return None
    if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", said, re.ASCII) is None:
        raise wrong_field(name, "a time in seconds")
    return float(said)


def query_text(request: Request, name: str, most: int = 1_000) -> str:
    return read_text(request.query_params, name, "", most)


def wrong_field(name: str, should_be: str) -> Refusal:
    return Refusal(422, "wrong_field", f"`{name}` has to be {should_be}.")
