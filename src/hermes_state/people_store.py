"""Who may speak and what belongs to whom: plain values.

A *person* has one or more *identities*: platform and the platform's own sender id. Names are for eyes only and never
decide anything (G2). A stranger gets a *pairing* code that a local operator approves. What a person owns hangs on
their conversations: `assign` gives one to them, and its sessions, messages and calls go along. An empty person is the
owner of the machine.
"""

from dataclasses import dataclass

from hermes_base.inbound import Address

OWNER, ADMIN, MEMBER = "owner", "admin", "member"
ROLE_NAMES = (OWNER, ADMIN, MEMBER)

PAIRING_SECONDS = 3600.0
MAX_PAIRINGS = 20  # open requests on one platform; further strangers get no answer

LINK_SECONDS = 600.0  # a code that joins two identities is valid for so long

#: States of a question.
OPEN, ANSWERED, EXPIRED, VOID = "open", "answered", "expired", "void"


@dataclass(frozen=True, slots=True)
class Person:
    id: str
    name: str
    role: str
    created: float
    by_settings: bool = False  # the settings gave them the role; else a command of the machine did


@dataclass(frozen=True, slots=True)
class Identity:
    platform: str
    sender: str
    person: str
    listed: bool = False  # it came from the settings and holds as long as it stands there
    by_code: bool = False  # it was joined by a code, and holds no longer than what the person had before


@dataclass(frozen=True, slots=True)
class Pairing:
    """A stranger's request; `fresh` when this call made it, so that the code is told once."""

    code: str
    platform: str
    sender: str
    name: str
    created: float
    expires: float
    chat: str = ""  # where they wrote
    conversation: str = ""  # where they were told the code
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Habits:
    """Where and when a person wants to hear what they did not ask for."""

    home: Address | None = None  # their home channel; None: they have none that counts
    timezone: str = ""  # a name such as Europe/Berlin; empty: the machine's own
    quiet: str = ""  # `22:00-07:00` in that time zone; empty: none
    set_by: str = ""  # the person who made it the home; empty: the owner, at the machine
    sender: str = ""  # and as whom they spoke there; empty: it was set at the machine


@dataclass(frozen=True, slots=True)
class LinkCode:
    """Whoever says this code elsewhere is this person there, too."""

    code: str
    person: str
    platform: str  # where it was asked for
    account: str
    chat: str
    expires: float


@dataclass(frozen=True, slots=True)
class HeardNote:
    """What the model of a chat hears with its next message: what was said there by somebody else's turn, or what was
    done beside it. `origin`: whose text it is, if it is foreign there (G9)."""

    id: int
    text: str
    origin: str = ""
    task: str = ""  # it is about this session and those that a compaction makes of it, and no other


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question that a turn asked. An answer binds conversation, turn, exact text and who may give it (G4)."""

    id: str
    conversation: str
    turn: str
    kind: str  # approval, clarification, confirmation
    text: str
    choices: tuple[str, ...] = ()
    approver: str = ""  # id of the person whose turn asks
    node: str = ""  # the process that waits for the answer
    created: float = 0.0
    expires: float = 0.0
    state: str = OPEN
    answer: str = ""
    answered_by: str = ""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many of each were deleted; of `calls` only the names went, since money stays counted."""

    sessions: int = 0
    messages: int = 0
    inbox: int = 0
    outbox: int = 0
    conversations: int = 0
    questions: int = 0
    identities: int = 0
    pairings: int = 0
    rules: int = 0
    kept_files: int = 0  # in the store, for all its gateways
    calls: int = 0
