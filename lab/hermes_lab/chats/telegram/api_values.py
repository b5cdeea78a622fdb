"""What the methods of Telegram's server share: its errors, its limits, and the readers of parameters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes_lab.chats.forms import Form, SentFile

MOST_TEXT, MOST_CAPTION, MOST_ENTITIES, MOST_RAW_BYTES = 4096, 1024, 100, 32_768
MOST_UPLOAD, MOST_PHOTO, MOST_DOWNLOAD = 50_000_000, 10_000_000, 20 * 1024 * 1024
DAY, PRESS_SECONDS = 86_400.0, 150.0  # how long updates are kept, and presses of a button

#: Kinds of complaints.
LENGTH, MARKUP, ENTITIES, BUTTONS = "length", "markup", "entities", "buttons"
FIELDS, SAME, UNKNOWN_METHOD, TOKEN, POLLERS = "fields", "same text", "method", "token", "pollers"


class ApiError(Exception):
    """An error as Telegram tells it. `kind` is that of the complaint about it; empty: it is nobody's fault."""

    def __init__(self, status: int, text: str, kind: str = "", parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.kind = kind
        self.parameters = parameters


def bad(text: str, kind: str = "", **parameters: Any) -> ApiError:
    return ApiError(400, f"Bad Request: {text}", kind, parameters or None)


def forbidden(text: str) -> ApiError:
    return ApiError(403, f"Forbidden: {text}")


class Complain(Protocol):
    def __call__(self, kind: str, text: str) -> None: ...


@dataclass(slots=True)
class Parameters:
    """The parameters of one call. They come as texts; lists and objects as JSON in a text."""

    form: Form = field(default_factory=Form)

    def has(self, name: str) -> bool:
        return self.form.values.get(name) not in (None, "") or name in self.form.files

    def text(self, name: str, default: str = "") -> str:
        value = self.form.values.get(name, default)
        return value if isinstance(value, str) else json.dumps(value)

    def number(self, name: str, default: int = 0) -> int:
        value = self.form.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise bad(f"invalid {name} specified", FIELDS)
        try:
            return int(value) if value != "" else default
        except ValueError as error:
            raise bad(f"invalid {name} specified", FIELDS) from error

    def flag(self, name: str) -> bool:
        value = self.form.values.get(name, False)
        if value in (True, "true", "True", "1", "yes"):
            return True
        if value in (False, "", "false", "False", "0", "no"):
            return False
        raise bad(f"parameter {name} must be a Boolean", FIELDS)

    def json(self, name: str, kind: type, what: str) -> Any:
        """The value of a JSON parameter, None where it is left out; `what` is named in the error."""
        value = self.form.values.get(name)
        if value in (None, ""):
            return None
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError as error:
                raise bad(f"can't parse {what} JSON object", FIELDS) from error
        if not isinstance(value, kind):
            raise bad(
                f"object expected as {what}" if kind is dict else f"can't parse {what}: expected an Array", FIELDS
            )
        return value

    def file(self, name: str) -> SentFile | None:
        return self.form.files.get(name)


def need(row: Mapping[str, Any], name: str, kind: type, what: str) -> Any:
    """A field of an object that must be there and of this type."""
    value = row.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise bad(f'can\'t parse {what}: field "{name}" must be of type {kind.__name__}', FIELDS)
    return value


def rows_of(values: Sequence[Any], what: str) -> list[Mapping[str, Any]]:
    for value in values:
        if not isinstance(value, Mapping):
            raise bad(f"can't parse {what}: expected an Object", FIELDS)
    return list(values)
