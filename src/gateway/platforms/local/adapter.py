"""The account of this machine's terminals: they read the store, and say what they have shown.

A row for a terminal waits until somebody has confirmed it, so that an answer which nobody saw is there for whoever
comes next.
"""

from gateway.platforms.hub import PicturedAdapter
from gateway.platforms.local import SPEC
from hermes_base.conversation_key import parse_key
from hermes_base.inbound import Address


class LocalAdapter(PicturedAdapter):
    spec = SPEC
    has_own_socket = True

    def address_of(self, conversation: str) -> Address:
        """Where a client of this conversation is spoken to; the chat of a foreign conversation is its whole key."""
        key = parse_key(conversation)
        own = key.platform == self.spec.name and key.kind == "dm" and key.thread is None
        return Address(self.spec.name, self.account, key.chat if own else conversation)

    def place(self, conversation: str) -> str:
        return self.address_of(conversation).chat
