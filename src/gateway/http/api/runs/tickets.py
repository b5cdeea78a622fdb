"""Ids of runs, completions and responses: they hold the conversation and the message's name, so that what came of a
message is found in the store, whichever process took it."""

import base64
import binascii
from dataclasses import dataclass

RUN, COMPLETION, RESPONSE, ITEM = "run_", "chatcmpl-", "resp_", "msg_"
MOST_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Ticket:
    conversation: str
    message: str

    def write(self, prefix: str) -> str:
        packed = base64.urlsafe_b64encode(f"{self.conversation}\n{self.message}".encode())
        return prefix + packed.decode().rstrip("=")

    @property
    def stem(self) -> str:
        """The message's name within the account."""
        return f"{self.conversation}/{self.message}"


def read_ticket(text: str, prefix: str) -> Ticket | None:
    """None: this is no such id."""
    packed = text.removeprefix(prefix)
    if packed == text or len(text) > MOST_CHARS:
        return None
    try:
        inner = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    conversation, _, message = inner.partition("\n")
    ticket = Ticket(conversation, message)
    return ticket if conversation and message and ticket.write(prefix) == text else None
