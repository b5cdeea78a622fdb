"""What becomes of a message: `route` is pure, looks at the message and at the state of its conversation, and returns
one decision. The order of its checks is the whole policy of the front door."""

from dataclasses import dataclass

from hermes_base.inbound import Inbound


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing happens and nobody is told; `reason` goes to the log."""

    reason: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One sentence back, without a turn."""

    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True)
class AnswerQuestion:
    """The text answers the question that is open."""

    question: str
    text: str


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A slash command; `plugin` when a plugin brought it."""

    name: str
    args: str
    plugin: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    """It waits for the end of the turn under way; `told` says so to the sender."""

    told: str = ""


@dataclass(frozen=True, slots=True)
class Steer:
    """It goes into the turn under way at its next step."""


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The turn under way stops, and the next one goes on with both messages."""


@dataclass(frozen=True, slots=True)
class StartTurn:
    """It starts a turn."""


Decision = Drop | Reply | AnswerQuestion | RunCommand | Queue | Steer | Interrupt | StartTurn


@dataclass(frozen=True, slots=True)
class Standing:
    """Who a sender is to us."""

    person: str  # id of the person; empty: a stranger
    role: str  # a name from `gateway.people.ROLES`; empty: a stranger


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    id: str
    kind: str  # approval, clarification, confirmation
    choices: tuple[str, ...]
    asked: str  # id of the person whose turn asked


@dataclass(frozen=True, slots=True)
class View:
    """The state of a conversation and of the house, as far as `route` looks at it."""

    sender: Standing
    busy: bool = False  # a turn is under way
    starter: str = ""  # the person whose turn it is
    steerable: bool = True
    depth: int = 0  # how many turns in a row were interrupted by a message
    busy_mode: str = "interrupt"  # interrupt, steer, queue
    question: OpenQuestion | None = None
    waiting: int = 0  # messages of this conversation that wait already
    closing: bool = False  # the gateway is shutting down
    earlier: str = ""  # of an edit: what became of the message before: "", "open", "answered"
    pairing: str = ""  # for a stranger in a direct chat: the sentence with the pairing code; empty: say nothing
    group_open: bool = False  # rules of this group let members speak without a mention
    needs_mention: bool = True
    members_approve: bool = False  # members may approve commands of their own turns
    plugin_commands: frozenset[str] = frozenset()


def route(inbound: Inbound, view: View) -> Decision:
    """One message, one decision."""
    raise NotImplementedError
