"""What the queries of the web page and the API take and give: frozen values, and errors with a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_base.chat import Question
from hermes_base.errors import HermesError
from hermes_base.inbound import FileRef
from hermes_base.text.tool_views import ToolPart

OWNER_ID = "owner"
#: Kinds of entries.
USER, ASSISTANT, TOOL, NOTE, FILE = "user", "assistant", "tool", "note", "file"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a person known here, and the key that they came with."""

    person: str = OWNER_ID
    role: str = "owner"
    key: str = ""  # id of the API key; empty: the page

    @property
    def is_owner(self) -> bool:
        return self.role == "owner"


class NotThere(HermesError):
    """What was asked for does not exist, or is not the caller's to see: nobody can tell the two apart."""


class Conflict(HermesError):
    """It cannot be done as things stand: something is under way, or was begun already."""


class NotAllowed(HermesError):
    """The caller may not do this."""


# --- conversations


@dataclass(frozen=True, slots=True)
class Thread:
    """One session as a list shows it."""

    session: str
    conversation: str
    title: str  # given, or made from what was said first
    preview: str
    platform: str
    model: str
    started: float
    updated: float
    messages: int
    task: str = ""
    parent: str = ""
    current: bool = False  # its conversation goes on here
    working: bool = False  # a turn is under way
    asking: bool = False  # and waits for a person's answer


@dataclass(frozen=True, slots=True)
class FoundWords:
    thread: Thread
    role: str  # who said it; "title": it is the conversation's title
    excerpt: str  # the found words stand between « and »
    at: float


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that people see in a conversation, in order."""

    id: str  # "m<position>" of a transcript row (a tool call adds ".<number>"), "o<row>" of an outbox row
    kind: str  # user, assistant, tool, note, file
    text: str = ""
    at: float = 0.0
    position: int = -1  # of the transcript row: where to branch
    #: Of a note: info, warning, error; of an answer: warning: it stopped early, error: there is none.
    level: str = "info"
    name: str = ""  # of a tool
    detail: str = ""  # of a tool: what it was called with, in short; of an answer that stopped early: why
    ok: bool | None = None  # of a tool: None while nothing came back
    reasoning: str = ""  # of an assistant's message, as far as it may be shown
    files: tuple[FileRef, ...] = ()
    model: str = ""  # of an assistant's message: who wrote it, provider/model
    parts: tuple[ToolPart, ...] = ()  # of a tool: the call and what came back, as people read them
    turn: int = 0  # of a transcript row: the first message of the turn that wrote it; 0: none did
    place: int = 0  # and which row of that turn it is


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A stored message that is not in the transcript yet."""

    seq: int
    text: str
    by: str = ""
    files: tuple[FileRef, ...] = ()
    at: float = 0.0
    id: str = ""  # that its sender gave it
    begun: float = 0.0  # when a turn was first begun for it, by the store's clock; 0: none was


@dataclass(frozen=True, slots=True)
class Timeline:
    """A conversation as it stands: the newest entries of one session, and what is open."""

    conversation: str
    thread: Thread | None  # None: nothing was said yet
    entries: tuple[TimelineEntry, ...] = ()
    more: bool = False  # there are earlier ones, before the first one's position
    version: int = 0  # of the transcript
    waiting: tuple[WaitingMessage, ...] = ()
    question: Question | None = None
    model: str = ""  # that answers next; empty: none can
    answered: str = ""  # the model that answered last in the place of the chosen one; empty: the chosen one did


@dataclass(frozen=True, slots=True)
class PastExchange:
    """What a client says was said: a question, and all that was answered to it."""

    asked: str
    answered: str


# --- settings and providers


@dataclass(frozen=True, slots=True)
class SettingView:
    key: str
    kind: str
    value: Any
    default: Any
    doc: str
    takes_effect: str
    choices: tuple[str, ...] = ()
    breaks_prefix: bool = False
    changed: bool = False  # it differs from the default


@dataclass(frozen=True, slots=True)
class ProviderView:
    name: str
    label: str
    needs_key: bool
    key_env: str = ""
    has_key: bool = False
    default_model: str = ""
    base_url: str = ""
    asks_address: bool = False  # the person has to say where it is
    local: bool = False


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    provider: str
    key: str = field(default="", repr=False)
    model: str = ""
    base_url: str = ""


@dataclass(frozen=True, slots=True)
class PlatformQuestion:
    """What a set-up asks, and what is set; of a secret only whether there is one."""

    key: str
    text: str
    secret: bool = False
    value: str = ""
    has_value: bool = False
    default: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlatformView:
    name: str
    label: str
    enabled: bool
    missing: bool  # what it needs is not installed: `install` is the command
    install: str
    questions: tuple[PlatformQuestion, ...]
    accounts: Mapping[str, tuple[PlatformQuestion, ...]] = field(default_factory=dict)  # those that are there, by name
    barred: str = ""  # why it cannot be set up by these questions now; empty: it can


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of one real call (H5)."""

    ok: bool
    text: str  # a sentence: what answered, or what is wrong and what to do
    model: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelView:
    """What answers now."""

    model: str
    provider: str
    label: str
    source: str
    built_in: bool = False  # the small model of this machine: there is something better to set up
    window: int = 0
    problem: str = ""  # no model can be found: why
