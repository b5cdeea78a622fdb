"""Messages that an agent sends on its own to somebody who may be elsewhere: what a tool knows of where they can go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes_base.inbound import Address, FileRef
from hermes_base.turn.cancel import CancelToken


@dataclass(frozen=True, slots=True)
class MessageTarget:
    """A place that the person of a turn may send a message to."""

    name: str  # what it is called by: "home", the id of a person, or platform and chat
    address: Address
    person: str = ""  # whose direct chat or home it is; empty: a group
    label: str = ""  # how people call it, for eyes alone
    own: bool = False  # it is the person's own: their home, or a direct chat of theirs
    here: bool = False  # the conversation of the turn itself
    is_program: bool = False  # a program reads it there, and whoever stands behind that

    @property
    def where(self) -> str:
        return f"{self.address.platform} {self.address.chat_key}"

    @property
    def is_read_by_others(self) -> bool:
        return not self.own or self.is_program or self.address.kind != "dm"


@dataclass(frozen=True, slots=True)
class MessageSent:
    """What became of it by now; it is stored in any case."""

    delivered: bool
    detail: str = ""  # why not yet


class Messenger(Protocol):
    """Bound to a conversation; whose turn it is there decides what may be addressed. Called on threads of tools; raises
    ToolFailure with what is wrong."""

    def targets(self) -> Sequence[MessageTarget]: ...

    def find(self, to: str) -> MessageTarget:
        """The target that a text names: `home`, the id or the name of a person, or a chat as `targets` shows it."""
        ...

    def compose(self, target: MessageTarget, text: str, origins: Sequence[str]) -> str:
        """The text as it is sent there: others are told from whom it is, and oneself from where, if the turn has read
        foreign text (`origins`)."""
        ...

    def send(
        self,
        target: MessageTarget,
        text: str,
        file: tuple[FileRef, bytes] | None,
        origins: Sequence[str],
        cancel: CancelToken,
    ) -> MessageSent:
        """Store the message, then see whether it is delivered soon. `origins`: foreign text that the turn has read."""
        ...
