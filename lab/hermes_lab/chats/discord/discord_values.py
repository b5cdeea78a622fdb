"""What the parts of Discord's server share: its errors, its limits, its kinds of complaints."""

from collections.abc import Callable, Mapping
from typing import Any

API = "/api/v10"
MOST_CONTENT, MOST_NONCE, MOST_EMBEDS, MOST_EMBED_SIGNS = 2000, 25, 10, 6000
MOST_ROWS, MOST_ROW_BUTTONS, MOST_LABEL, MOST_CUSTOM_ID = 5, 5, 80, 100
MOST_FILES, MOST_FILE, MOST_REQUEST = 10, 10 * 1024 * 1024, 25 * 1024 * 1024
MOST_MENTION_IDS, MOST_PAGE, USUAL_PAGE = 100, 100, 50
MOST_COMMANDS, MOST_COMMAND_SIGNS, MOST_SUMMARY = 100, 8000, 100
NONCE_SECONDS = 300.0  # so long a nonce is remembered
ANSWER_SECONDS, INTERACTION_SECONDS = 3.0, 900.0  # for the first answer to an interaction, and for all others
TYPING_SECONDS = 10.0

GUILDS, GUILD_MESSAGES, REACTIONS, DIRECT_MESSAGES = 1 << 0, 1 << 9, 1 << 10, 1 << 12
MEMBERS, PRESENCES, MESSAGE_CONTENT = 1 << 1, 1 << 8, 1 << 15
PRIVILEGED = MEMBERS | PRESENCES | MESSAGE_CONTENT
#: All that there are: the numbers 5, 17 to 19, 22 and 23 are not among them, or have other uses.
KNOWN_INTENTS = sum(1 << bit for bit in (*range(17), 20, 21, 24, 25))
CONTENT_FLAG = 1 << 19  # of an application: it may read messages

#: Kinds of complaints.
LENGTH, FIELDS, BUTTONS, ROUTE, TOKEN, PING = "length", "fields", "buttons", "route", "token", "ping"
HEARTBEAT, IDENTIFY, FRAMES, LATE_ANSWER = "heartbeat", "identify", "frames", "late answer"

Complain = Callable[[str, str], None]
JsonObject = dict[str, Any]


class DiscordError(Exception):
    """An error as Discord tells it. `kind` is that of the complaint about it; empty: it is nobody's fault."""

    def __init__(
        self, status: int, code: int, text: str, kind: str = "", errors: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.kind = kind
        self.errors = errors

    def describe(self) -> JsonObject:
        more = {"errors": self.errors} if self.errors else {}
        return {"message": self.text, "code": self.code, **more}


def bad_form(path: str, code: str, text: str, kind: str = FIELDS) -> DiscordError:
    """A field that is not as it should be; the path has dots, and numbers for places in lists."""
    errors: JsonObject = {"_errors": [{"code": code, "message": text}]}
    for name in reversed(path.split(".")):
        errors = {name: errors}
    return DiscordError(400, 50035, "Invalid Form Body", kind, errors)


def too_long(path: str, most: int, kind: str = LENGTH) -> DiscordError:
    return bad_form(path, "BASE_TYPE_MAX_LENGTH", f"Must be {most} or fewer in length.", kind)


def unknown(code: int, what: str) -> DiscordError:
    return DiscordError(404, code, f"Unknown {what}")
