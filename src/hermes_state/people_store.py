"""Who may speak and what belongs to whom: the interface, without any engine.

A *person* has one or more *identities*: platform and the platform's own sender id. Names are for eyes only and never
decide anything (G2). A stranger gets a *pairing* code that a local operator approves. What a person owns hangs on
their conversations: `assign` gives one to them, and its sessions, messages and calls go along. An empty person is the
owner of the machine. `SqliteStore.people` and `MemoryStore.people` implement this and pass one conformance suite.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

OWNER, ADMIN, MEMBER = "owner", "admin", "member"
ROLE_NAMES = (OWNER, ADMIN, MEMBER)

PAIRING_SECONDS = 3600.0
MAX_PAIRINGS = 20  # open requests on one platform; further strangers get no answer

#: States of a question.
OPEN, ANSWERED, EXPIRED, VOID = "open", "answered", "expired", "void"


@dataclass(frozen=True, slots=True)
class Person:
    id: str
    name: str
    role: str
    created: float


@dataclass(frozen=True, slots=True)
class Identity:
    platform: str
    sender: str
    person: str
    listed: bool = False  # it came from the settings and holds as long as it stands there


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
    fresh: bool = False


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
    calls: int = 0


class PeopleStore(Protocol):
    # --- people
    def find(self, platform: str, sender: str) -> Person | None:
        """Whom this identity belongs to; None: a stranger."""
        ...

    def get(self, person: str) -> Person | None: ...

    def people(self) -> list[Person]:
        """The earliest first."""
        ...

    def identities(self, person: str | None = None) -> list[Identity]:
        """Those of one person, or all."""
        ...

    def add(self, name: str, role: str, platform: str, sender: str, *, listed: bool = False) -> Person:
        """A new person with this identity; StoreFailure when it is somebody's already, or for a second owner."""
        ...

    def link(self, person: str, platform: str, sender: str, *, listed: bool = False) -> Person:
        """One more identity for a person; StoreFailure when it is another person's."""
        ...

    def set_role(self, person: str, role: str) -> Person: ...

    def remove(self, person: str) -> Person:
        """The person and their identities go, their open questions are void, their API keys hold no more, their data
        stays (G3). The settings do not bring a removed identity back; an approval does."""
        ...

    def is_removed(self, platform: str, sender: str) -> bool:
        """Whether this identity was somebody's who was removed, and nobody let it in again."""
        ...

    # --- requests of strangers
    def pair(self, platform: str, sender: str, name: str, chat: str) -> Pairing | None:
        """The open request of this identity, made if there is none; None for a known one, for none at all, and while
        MAX_PAIRINGS requests are open on the platform."""
        ...

    def pairings(self) -> list[Pairing]:
        """The open ones, the earliest first."""
        ...

    def approve(self, code: str, role: str = MEMBER, name: str = "") -> Person:
        """Make a person of the request with this code, which is used up; StoreFailure when there is none."""
        ...

    # --- questions
    def ask(self, question: QuestionRow) -> None:
        """Keep an open question; `created` is given by the store."""
        ...

    def close_question(self, question: str, answer: str, by: str) -> bool:
        """Note the answer, once; False when the question is not open any more, or has expired."""
        ...

    def open_questions(self, conversation: str) -> list[QuestionRow]:
        """The earliest first; expired ones are left out."""
        ...

    def question(self, question: str) -> QuestionRow | None: ...

    def void_turn(self, conversation: str, turn: str) -> int:
        """The turn has ended: nobody waits for its questions any more; how many were open."""
        ...

    def void_questions(self, node: str | None = None) -> int:
        """The same for a process that has ended; None: for all of them."""
        ...

    # --- what belongs to whom
    def assign(self, conversation: str, person: str) -> str:
        """Give a conversation that is nobody's to a person; whose it is now. One that has a person keeps it."""
        ...

    def person_of(self, conversation: str) -> str:
        """Whose the conversation is; empty: the owner's."""
        ...

    def conversations_of(self, person: str) -> Sequence[str]: ...

    def spoken_last_by(self, person: str) -> Sequence[str]:
        """Conversations in which this person spoke last, whosesoever they are (the choice `person`). It reads all
        conversations, so it is for what happens rarely."""
        ...

    def forget(self, person: str) -> Forgotten:
        """Delete what belongs to a person, and the person: sessions with rows, search entries and blobs nobody else
        uses, messages that came in and went out in their conversations, identities, requests, questions, API keys.
        Calls stay in the ledger without the names of conversation and session (G12)."""
        ...
