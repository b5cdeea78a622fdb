"""What the web page and the API may read and change beside sending messages: the desks of the house.

Everything a desk gives is a frozen value; everything it refuses is a HermesError with a sentence. All calls are made on
the gateway's event loop. A caller sees what belongs to them and nothing else; the owner's page and keys are the owner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes_base.chat import Question
from hermes_base.errors import HermesError
from hermes_base.inbound import FileRef, Outgoing
from hermes_base.text.tool_views import ToolPart

OWNER_ID = "owner"
#: Kinds of entries.
USER, ASSISTANT, TOOL, NOTE, FILE = "user", "assistant", "tool", "note", "file"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a person of this house, and the key that they came with."""

    person: str = OWNER_ID
    role: str = "owner"
    key: str = ""  # id of the API key; empty: the page

    @property
    def is_owner(self) -> bool:
        return self.role == "owner"


class NotThere(HermesError):
    """What was asked for does not exist, or is not the caller's to see: nobody can tell the two apart."""


class Conflict(HermesError):
    """It cannot be done while something else is under way."""


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
    level: str = (
        "info"  # of a note: info, warning, error; of an answer: warning: it stopped early, error: there is none
    )
    name: str = ""  # of a tool
    detail: str = ""  # of a tool: what it was called with, in short; of an answer that stopped early: why
    ok: bool | None = None  # of a tool: None while nothing came back
    reasoning: str = ""  # of an assistant's message, as far as it may be shown
    files: tuple[FileRef, ...] = ()
    model: str = ""  # of an assistant's message: who wrote it, provider/model
    parts: tuple[ToolPart, ...] = ()  # of a tool: the call and what came back, as people read them


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A stored message that is not in the transcript yet."""

    seq: int
    text: str
    by: str = ""
    files: tuple[FileRef, ...] = ()
    at: float = 0.0


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


class Threads(Protocol):
    """Past and present conversations."""

    async def list(
        self, caller: Caller, *, limit: int = 50, before: float | None = None, passing: bool | None = None
    ) -> Sequence[Thread]:
        """Newest activity first; `before`: only those whose last activity is older; `passing`: only those of the API
        and of single questions, or only the others."""
        ...

    async def search(self, caller: Caller, words: str, *, limit: int = 20) -> Sequence[FoundWords]: ...

    async def find(self, caller: Caller, session: str) -> Thread:
        """By its id; NotThere."""
        ...

    async def timeline(
        self, caller: Caller, conversation: str, *, session: str = "", before: int | None = None, limit: int = 100
    ) -> Timeline:
        """The newest `limit` rows of the current session (or of `session`), or those before a position. A conversation
        that nobody has spoken in yet is empty; one that belongs to somebody else is NotThere."""
        ...

    async def open(self, caller: Caller, platform: str, *, name: str = "", model: str = "") -> str:
        """The key of a conversation of the caller on this platform, new or known by its `name`; with `model`, what
        answers there. Nothing is stored but that choice."""
        ...

    async def resume(self, caller: Caller, session: str) -> Thread:
        """Make a session its conversation's current one; NotNow while another one is at work there."""
        ...

    async def fork(self, caller: Caller, session: str, *, before: int | None = None, apart: bool = False) -> Thread:
        """A copy, up to a position if one is given, now the current session of the same conversation; `apart`: of a
        conversation of its own. The old one stays. Works for the empty copy, too."""
        ...

    async def rename(self, caller: Caller, session: str, title: str) -> Thread: ...

    async def delete(self, caller: Caller, session: str) -> None:
        """NotNow while it is worked on."""
        ...

    async def export(self, caller: Caller, session: str, form: str) -> str:
        """The whole session as "md" or "json"."""
        ...

    async def match(self, caller: Caller, exchanges: Sequence[PastExchange]) -> str:
        """The conversation of this key whose transcript is just this; empty: there is none."""
        ...

    async def plant(self, caller: Caller, conversation: str, exchanges: Sequence[PastExchange]) -> None:
        """Begin a new conversation with what was said elsewhere."""
        ...


class Desk(Protocol):
    """Turns under way."""

    async def stop(self, caller: Caller, conversation: str) -> bool:
        """False: nothing runs there."""
        ...

    async def answer(self, caller: Caller, question: str, text: str) -> bool:
        """False: it is not open, or not the caller's to answer."""
        ...

    async def question(self, caller: Caller, conversation: str) -> Question | None: ...

    async def answers(self, conversation: str, seqs: Sequence[int]) -> Sequence[Outgoing]:
        """What was said to these messages when they were dealt with, from the outbox."""
        ...

    async def find_message(self, account: str, stem: str) -> tuple[int, bool] | None:
        """A message that was stored before under this name: its seq, and whether it is dealt with."""
        ...

    async def usage(self, conversation: str, since: float) -> Mapping[str, int]:
        """Tokens of the conversation's calls since then: input, cached, output, reasoning."""
        ...

    def is_working(self, conversation: str) -> bool: ...


# --- the house


class HousePanel(Protocol):
    """What runs, what it costs, who is there. JSON in, JSON out."""

    async def status(self) -> Mapping[str, Any]: ...

    async def usage(self, days: int) -> Mapping[str, Any]:
        """By day and by model, with hit rate, cost and prefix breaks by reason."""
        ...

    async def log_tail(self, lines: int) -> Sequence[str]: ...

    async def perform(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """An operation of the operator (`people.list`, `people.approve`, …)."""
        ...

    async def metrics(self) -> str:
        """In the text format of Prometheus (H9)."""
        ...

    async def is_ready(self) -> str:
        """Why no message would be taken and answered now; empty: it would."""
        ...

    def warning(self) -> str:
        """What the operator should look at, though messages are taken; empty: nothing."""
        ...


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


class SetupDesk(Protocol):
    async def settings(self) -> Sequence[SettingView]:
        """Those that are safe to change here."""
        ...

    async def change(self, key: str, text: str) -> SettingView:
        """ConfigProblem for a value or key that cannot be; nothing was changed then."""
        ...

    async def model(self) -> ModelView: ...

    async def models(self) -> Sequence[str]:
        """Names that a conversation may choose: the default one first, then the fallbacks."""
        ...

    async def providers(self) -> Sequence[ProviderView]: ...

    async def probe(self, choice: ProviderChoice) -> Probed:
        """Make one small real call; nothing is kept."""
        ...

    async def use(self, choice: ProviderChoice) -> Probed:
        """Probe, and keep the choice only if the probe went through."""
        ...


class KeyDesk(Protocol):
    async def check(self, secret: str) -> Caller | None:
        """Whose key this is; None: nobody's, or it was revoked."""
        ...


class Cockpit(Protocol):
    """The house, seen from the page and the API."""

    version: str
    profile: str
    threads: Threads
    desk: Desk
    house: HousePanel
    setup: SetupDesk
    keys: KeyDesk
