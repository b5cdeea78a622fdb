"""What a lane works on: messages as they are found, items that wait, and jobs that are handed to a thread."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.core import bursts
from gateway.core.route import ConversationView, Standing, is_command
from hermes_base.inbound import Inbound
from hermes_state.turns import Claim, Waiting

LOOKED_AT = 200  # new messages that one look sees
BY_NEW_MESSAGE = "a new message came"  # why a turn was stopped


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message as it is found in the store, with what the store knows about its sender."""

    row: Waiting
    inbound: Inbound
    view: ConversationView  # without the state of the lane
    replaces: tuple[int, ...] = ()  # older revisions of it that wait
    skip: bool = False  # a plugin said that it is not for us


@dataclass(frozen=True, slots=True)
class Item:
    """Something that waits for its turn: a message, or a command that may not run beside a turn."""

    row: Waiting
    inbound: Inbound
    sender: Standing
    is_command: bool = field(init=False)  # asked for each message that comes while this one waits

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_command", is_command(self.inbound))

    @property
    def message(self) -> bursts.BurstMessage:
        begun = self.row.attempts > 0 or self.row.taken
        return bursts.BurstMessage(self.row.seq, self.inbound, self.row.accepted, begun, self.sender.role)


@dataclass(frozen=True, slots=True)
class Again:
    """A question that is asked once more, with all that came along with it (`/retry`)."""

    text: str
    parts: tuple[Mapping[str, Any], ...] = ()  # images
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """What is done next, as it is handed to a thread."""

    claim: Claim
    items: tuple[Item, ...]
    depth: int = 0
    again: Again | None = None
    failed: bool = False  # it was tried here before, and something was in the way

    @property
    def turn(self) -> str:
        """The one name of its turn, from the inbox to the log: the same for every attempt, so that a turn that goes on
        takes up the draft that it had."""
        return f"{self.claim.conversation}#{self.first.row.seq}"

    @property
    def seqs(self) -> tuple[int, ...]:
        return tuple(item.row.seq for item in self.items)

    @property
    def first(self) -> Item:
        return self.items[0]


@dataclass(frozen=True, slots=True)
class JobDone:
    """What became of a job."""

    closed: tuple[int, ...] = ()  # messages that are dealt with
    again: Again | None = None  # of a command: what is asked as the turn of the same message
    moved: str = ""  # of a command: the conversation that its sender goes on in
