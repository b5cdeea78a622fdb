"""Errors as the Graph API writes them, and what a call is judged by."""

import json
from collections.abc import Mapping
from typing import Any

from hermes_lab.chats.chat_app import ChatReply
from hermes_lab.connection import JSON

#: Kinds of complaints, besides the toolkit's own.
FIELDS, LENGTH, BUTTONS, MEDIA, CONTEXT, TOKEN, VERSION, METHOD = (
    "fields",
    "length",
    "buttons",
    "media",
    "context",
    "token",
    "version",
    "method",
)
BAD_PARAMETER, MISSING_PARAMETER, BAD_VALUE = 100, 131008, 131009
BAD_TOKEN, PAIR_LIMIT, WINDOW_CLOSED, UNDELIVERABLE, SOMETHING_WRONG = 190, 131056, 131047, 131026, 131000
MEDIA_REFUSED = 131053

_TEXTS: Mapping[int, str] = {
    4: "Application request limit reached",
    10: "Application does not have permission for this action",
    BAD_PARAMETER: "Invalid parameter",
    BAD_TOKEN: "Error validating access token: Session has expired",
    368: "Temporarily blocked for policies violations",
    80007: "Rate limit issues",
    130429: "Rate limit hit",
    SOMETHING_WRONG: "Something went wrong",
    131016: "Service unavailable",
    131021: "Recipient cannot be sender",
    UNDELIVERABLE: "Message undeliverable",
    131030: "Recipient phone number not in allowed list",
    131031: "Business Account locked",
    WINDOW_CLOSED: "Re-engagement message",
    PAIR_LIMIT: "(Business Account, Consumer Account) pair rate limit hit",
    133010: "Account not registered",
}
_STATUSES: Mapping[int, int] = {
    BAD_TOKEN: 401,
    10: 403,
    4: 400,
    130429: 429,
    SOMETHING_WRONG: 500,
    131016: 503,
    UNDELIVERABLE: 400,
}
#: The code of an error that is planned by its status alone.
USUAL_CODES: Mapping[int, int] = {400: BAD_PARAMETER, 401: BAD_TOKEN, 403: 10, 429: 130429, 503: 131016}


class GraphError(Exception):
    """A call that is refused. `kind`: a good client would not have made it."""

    def __init__(self, code: int, details: str = "", kind: str = "", subcode: int = 0, status: int = 0) -> None:
        self.text = _TEXTS.get(code, "Unknown error")
        super().__init__(details or self.text)
        self.code, self.details, self.kind, self.subcode = code, details or self.text, kind, subcode
        self.status = status or _STATUSES.get(code, 400)

    def describe(self) -> dict[str, Any]:
        """As a status of a message tells it."""
        return {
            "code": self.code,
            "title": self.text,
            "message": self.text,
            "error_data": {"details": self.details},
            "href": "https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes/",
        }

    def reply(self) -> ChatReply:
        error: dict[str, Any] = {
            "message": f"(#{self.code}) {self.text}",
            "type": "OAuthException",
            "code": self.code,
            "error_data": {"messaging_product": "whatsapp", "details": self.details},
            "fbtrace_id": "Az8or2yhqkZfEZ-lab",
        }
        if self.subcode:
            error["error_subcode"] = self.subcode
        return ChatReply(self.status, json.dumps({"error": error}).encode(), JSON, f"{self.code} {self.details}")


def need(body: Mapping[str, Any], name: str, kind: type, where: str = "") -> Any:
    """A field that has to be there, and of this type."""
    value = body.get(name)
    if value is None or value == "":
        raise GraphError(MISSING_PARAMETER, f"Required parameter is missing: {where}{name}", FIELDS)
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
        raise GraphError(BAD_VALUE, f"Parameter value is not valid: {where}{name}", FIELDS)
    return value


def refuse_unknown(body: Mapping[str, Any], known: set[str], where: str = "") -> None:
    unknown = sorted(set(body) - known)
    if unknown:
        raise GraphError(BAD_PARAMETER, f"Unexpected key {where}{unknown[0]}", FIELDS)


def limit(text: str, most: int, where: str, kind: str = LENGTH) -> str:
    """Counted in characters, as the documents do."""
    if len(text) > most:
        raise GraphError(BAD_PARAMETER, f"Param {where} must be at most {most} characters long.", kind)
    return text
