"""The face of a platform: a few calls, and every fact that the core needs to know about it as data."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gateway.platforms.id_forms import ANY_ID, IdForm
from hermes_base.chat import Event, Question
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound, Outgoing

FRESH_SECONDS = 90.0  # C13: connected is what gave a sign of life in this time


@dataclass(frozen=True, slots=True)
class SetupQuestion:
    """One thing that `hermes setup NAME` and the page ask for. The answer is `platforms.<name>.<key>`, or, where `env`
    names a variable, a secret in `.env`; the adapter finds both in its settings under `key`."""

    key: str
    text: str
    env: str = ""
    default: str = ""
    choices: tuple[str, ...] = ()
    pattern: str = ""  # what an answer has to look like, as a regular expression; `says` is the sentence on it
    says: str = ""
    names_account: bool = False  # it says who we are there: no two accounts have the same


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """What a probe has found, in sentences for whoever set the account up."""

    told: str  # which account it is
    worry: str = ""  # what works now, and will cost them something; empty: nothing


@dataclass(frozen=True, slots=True)
class PlatformSpec:
    """What the core knows about a platform. No code outside of the platform's folder asks for its name."""

    name: str
    label: str
    factory: str  # "module:Class" of the adapter; called with (account, settings: Mapping, home: Path)
    person_ids: IdForm = ANY_ID  # how it writes the ids of people
    chat_ids: IdForm = ANY_ID
    # --- text
    max_length: int = 0  # of one message; 0: no limit
    length_unit: str = "chars"  # chars, utf16, bytes
    one_line: bool = False  # of one message: each line of a text is a message of its own
    most_parts: int = 0  # an answer of more messages is one message and a file with the whole of it; 0: all are sent
    markup: str = "markdown"  # the dialect that its people see: a name of `gateway.core.markup`
    # --- abilities
    can_edit: bool = False
    takes_keys: bool = False  # a message sent twice with the same key shows once
    has_buttons: bool = False
    has_typing: bool = False
    has_receipts: bool = False  # a message can be marked as taken (`acknowledge`)
    marks_each: bool = (
        False  # its adapter hears of every message that is taken, whether or not there is room for a call
    )
    has_menu: bool = False  # it offers commands to its people (`offer_commands`)
    takes_files: bool = False
    fetches_files: bool = False  # its clients fetch files from here later: a copy is kept for them
    max_file_bytes: int = 0  # 0: no limit
    shows_events: bool = False  # it takes live events (`show`), and its clients read the rest in the store
    confirms: bool = False  # those say what they have shown: until then a message waits for whoever comes
    shows_titles: bool = False  # its people see a list of conversations by name: new ones are given a title
    # --- limits: calls to one chat
    calls_per_second: float = 0.0  # 0: no limit
    group_calls_per_second: float = 0.0  # in a chat of several people; 0: as in any other
    burst_calls: int = 5
    reserved_calls: int = 1  # of the burst, kept for finals and approvals
    edit_seconds: float = 1.0  # at most one edit of a draft in this time
    most_edits: int = 0  # of one message, ever: the last ones are kept for the answer; 0: no limit
    # --- limits: calls of the whole account
    account_calls_per_second: float = 0.0  # 0: no limit
    account_burst_calls: int = 30
    longest_pause: float = 300.0  # seconds between two tries to connect, when many have failed
    # --- messages that come in
    burst_seconds: float = 0.4  # messages of one sender within this time are one turn
    album_seconds: float = 2.0  # those of one album (`Inbound.album`)
    split_length: int = 0  # its clients cut a longer text into several messages; in `length_unit`, 0: they do not
    has_history: bool = False  # what was said while we were away can be read later, from `Core.find_last` on
    forgets: bool = False  # what it has brought it never brings again: all of it is stored, also while we end
    trusted: bool = False  # whoever can connect is the owner of the machine
    is_program: bool = False  # its accounts are programs, let in by their settings; what they say is foreign text (G9)
    knows_people: bool = False  # it has checked who speaks: the sender is the id of a person, or "owner"
    joins: bool = False  # its clients say which conversation they speak in, and can be moved to another
    answers_invitations: bool = False  # people reach it by an invitation, and only those who are let in
    always_on: bool = False  # it belongs to Hermes itself, and no setting switches it on
    takes_edits: bool = True  # people change what they have said: a message may come again as another revision
    needs_mention: bool = True  # in a group only what speaks to us is for us
    drops_name: bool = False  # a text comes without our own name at its beginning; else what looks like it is dropped
    awaits_each: bool = False  # its clients wait for what becomes of each message: each is told, however many there are
    names_seen: bool = False  # its clients say with a text which question its writer saw (`Inbound.seen`); none: none
    # --- requests that the service makes, below /hooks/<platform>/<account>
    takes_hooks: bool = False
    max_hook_bytes: int = 1_048_576
    # --- how it is set up
    settings: Mapping[str, str] = field(default_factory=dict)  # what `platforms.<name>` may hold: name -> what it is
    switches: frozenset[str] = frozenset()  # of these settings, those that are true or false
    reply_setting: str = ""  # without this setting nobody reads what is sent to an account; empty: somebody always does
    setup: tuple[SetupQuestion, ...] = ()  # empty: nobody is asked
    #: "module:function", called with (settings: Mapping, home: Path): a sentence on which account it is, or ProbeAnswer
    probe: str = ""
    extra: str = ""  # of hermes-agent: what has to be installed for it
    needs: tuple[str, ...] = ()  # the modules that come with the extra
    toolsets: tuple[str, ...] = ()  # offered in its conversations; empty: as `agent.toolsets` says
    hint: str = ""  # what the model is told of it with the first message of a conversation (A3)
    # --- of a plugin's platform: what its registration and the owner's variables say, asked each time
    variables: tuple[str, ...] = ()  # of the owner, that it reads
    switched_on: Callable[[], bool] | None = None  # where the settings do not say whether it is on
    lets_in: Callable[[str], bool] | None = None  # whether variables of the owner name a sender
    set_up: Callable[[], Any] | None = None  # asks its own questions, in a terminal
    home_chat: Callable[[], str] | None = None  # the chat for what is sent to the platform itself; empty: none

    def asks_for(self, variable: str) -> bool:
        """Whether it reads this variable, or its set-up asks for a secret in it; a named account has its name behind
        it."""
        if variable in self.variables:
            return True
        names = [question.env for question in self.setup if question.env]
        return any(variable == name or variable.startswith(f"{name}_") for name in names)


@dataclass(frozen=True, slots=True)
class Part:
    """What is sent in one call: a whole message or a piece of a long one."""

    address: Address
    text: str
    key: str = ""  # idempotency key; the same for a repetition
    reply_to: str = ""
    question: str = ""
    choices: tuple[str, ...] = ()
    row: int = 0  # the outbox row it comes from; 0: a draft
    markup: str = "markdown"  # the dialect of the text
    plain: str = ""  # the same without markup, for a platform that does not take it
    document: str = ""  # it goes with a file that holds this text
    outgoing: Outgoing | None = None  # the whole message, for platforms that show more than text


class NotNow(DeliveryFailure):
    """The platform asks us to wait; nothing was sent. `seconds` None: until the adapter wakes the delivery."""

    def __init__(self, what: str, seconds: float | None = None, *, whole_account: bool = False) -> None:
        super().__init__(what)
        self.seconds = seconds
        self.whole_account = whole_account


class NeverTaken(DeliveryFailure):
    """The platform will not take this message however often it is sent; `markup`: it might take it as plain text."""

    def __init__(self, what: str, *, markup: bool = False) -> None:
        super().__init__(what)
        self.markup = markup


@dataclass(frozen=True, slots=True)
class Heard:
    """A message was stored in a conversation: everyone who looks at it may show it."""

    seq: int
    inbound: Inbound


@dataclass(frozen=True, slots=True)
class Judged:
    """It was decided what becomes of a message; one that was refused is dealt with by now."""

    seq: int


@dataclass(frozen=True, slots=True)
class Dealt:
    """These messages are dealt with; what there is to say about them is in the outbox."""

    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """Whoever sent this message goes on in another conversation."""

    seq: int
    conversation: str
    inbound: Inbound | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """From here on events belong to the turn of these messages, and so does what the transcript gets from now on."""

    seqs: tuple[int, ...]
    at: float = field(default_factory=time.time, compare=False)  # for people: no time of the store is like it
    rows: int = 0  # that the turn has in the transcript by now, from attempts that broke off


@dataclass(frozen=True, slots=True)
class Taken:
    """These messages stand in the transcript of the turn under way: it has read them."""

    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TakenOver:
    """The turn under way is not ours any more: nothing that was shown of it counts, and others go on with it."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The question that is open in a conversation from now on; None: none is."""

    question: Question | None


@dataclass(frozen=True, slots=True)
class Titled:
    """A session of the conversation has this name from now on."""

    session: str
    title: str


#: What a platform that shows events is told: what happens in a turn, and what became of messages.
LiveEvent = Event | Heard | Judged | Begun | Taken | Dealt | TakenOver | Moved | Asking | Titled


@dataclass(frozen=True, slots=True)
class Accepted:
    """The message is stored (or was before); only now may the platform be told that it was received."""

    conversation: str
    seq: int | None  # None: it was seen before


@dataclass(frozen=True, slots=True)
class Refused:
    """The message was not stored; `reason` is a sentence for whoever sent it.

    `closing`: the gateway ends. A platform that brings unconfirmed messages again leaves it unconfirmed, so that the
    next start finds it; the others tell the reason. `barred`: whoever sends may not speak, however often they try.
    """

    reason: str
    closing: bool = False
    barred: bool = False


@dataclass(frozen=True, slots=True)
class HookRequest:
    """What a service asks of an account. Nothing of it is known to be true before its signature is checked."""

    method: str
    path: str  # below the account; empty: the account itself
    headers: Mapping[str, str]  # names in small letters
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HookAnswer:
    status: int = 200
    body: str = ""
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class MenuCommand:
    """A slash command as a platform's menu shows it."""

    name: str
    summary: str


class Core(Protocol):
    """What an adapter may call: the gateway, seen from a platform."""

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        """Hand a message over; returns when it is stored, or refused. When it raises, the message was not stored and
        nobody may be told why, as in a group of strangers: it is kept, by the platform or the adapter, and handed over
        again, and nothing after it in its chat is before that."""
        ...

    def wake_delivery(self, address: Address) -> None:
        """Somebody who could not be reached is there again."""
        ...

    async def take_back(self, address: Address, platform_id: str, failure: DeliveryFailure) -> bool:
        """The platform tells later that a message which it took has not arrived. NotNow: it waits until delivery is
        woken there; anything else: it is kept with the reason, and the chat is told. False: no message there has this
        id, or none yet."""
        ...

    async def find_last(self, account_key: str) -> Mapping[Address, str]:
        """Of a platform with a history: the last message that was stored of each chat of the account. What came after
        it is handed over before anything new of that chat, the oldest first: then a crash in the middle loses none."""
        ...

    async def knows(self, platform: str, sender: str, name: str = "") -> bool:
        """Whether somebody was let in, for what is no message: an invitation is accepted from nobody else (G1)."""
        ...


class Adapter(Protocol):
    """One account on one platform. All calls are made on the gateway's event loop."""

    spec: PlatformSpec
    account: str
    last_seen: float  # time.time() of the last sign of life from the platform (C13), for people; 0.0: never
    problem: str  # what keeps it, or a part of it, from working now, in a sentence for its owner; empty: nothing
    hears: bool  # the problem is one of a part: it is connected all the same, and hears the rest
    replies: bool  # what is sent to it is read by somebody; else its person hears of it at home, too
    expects_hooks: bool  # the service asks it, where its platform `takes_hooks`; else nothing is read, and it is 404
    #: Without it no request is the service's, and none is read, but for a GET, which is handed over without its body: a
    #: service may ask who is there. In small letters; empty: not known.
    hook_header: str

    @property
    def silence(self) -> float:
        """Seconds since the last sign of life, for whatever is decided: the time of day may be set meanwhile. Infinity:
        there was none."""
        ...

    async def connect(self, core: Core) -> None:
        """Start to receive; returns when connected. Raises ConfigProblem for what the owner can put right."""
        ...

    async def disconnect(self) -> None: ...

    async def stop_hearing(self) -> None:
        """Where the service `forgets`: ask it for no more messages, if it can be asked, and store those that came. What
        we have to say still goes out, until `disconnect`."""
        ...

    async def send(self, part: Part) -> str:
        """Send; the platform's id of the message. Raises NotNow or NeverTaken (nothing arrived), or DeliveryFailure,
        after which it may have arrived."""
        ...

    async def edit(self, platform_id: str, part: Part) -> None:
        """Replace the text of a message that was sent; same failures as `send`."""
        ...

    async def typing(self, address: Address) -> None: ...

    async def send_file(self, part: Part, file: FileRef) -> str: ...

    async def fetch(self, file: FileRef, path: Path) -> None:
        """Write a file that came with a message (`FileRef.remote`) to a path; same failures as `send`."""
        ...

    async def acknowledge(self, address: Address, message: str) -> None:
        """Mark a message of a person as taken."""
        ...

    async def offer_commands(self, commands: Sequence[MenuCommand]) -> None:
        """Show these in the platform's menu from now on."""
        ...

    async def receive_hook(self, request: HookRequest) -> HookAnswer:
        """A request of the service. 401 for what is not signed by it, 200 only when what it brings is stored."""
        ...

    def show(self, conversation: str, event: LiveEvent) -> None:
        """A live event, for platforms with `shows_events`; may be dropped. It takes no time."""
        ...

    def reachable(self, address: Address) -> bool:
        """Whether a message would find anybody now; if not, it waits for `Core.wake_delivery`."""
        ...


class BaseAdapter:
    """What most platforms do the same way: nothing where they lack the ability."""

    spec: PlatformSpec
    problem: str = ""
    hears: bool = False
    replies: bool = True
    expects_hooks: bool = True
    hook_header: str = ""

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        self.account = account
        self.settings = settings
        self.home = home
        self._last_seen, self._heard = 0.0, -math.inf  # the same moment: by the time of day, and by time.monotonic()

    @property
    def last_seen(self) -> float:
        return self._last_seen

    @last_seen.setter
    def last_seen(self, at: float) -> None:
        self._last_seen, self._heard = at, time.monotonic() - (time.time() - at)

    @property
    def silence(self) -> float:
        return time.monotonic() - self._heard

    async def stop_hearing(self) -> None:
        pass

    async def edit(self, platform_id: str, part: Part) -> None:
        raise NeverTaken(f"{self.spec.label} cannot edit messages.")

    async def typing(self, address: Address) -> None:
        del address

    async def send_file(self, part: Part, file: FileRef) -> str:
        raise NeverTaken(f"{self.spec.label} takes no files.")

    async def fetch(self, file: FileRef, path: Path) -> None:
        raise NeverTaken(f"{self.spec.label} keeps no files for us.")

    async def acknowledge(self, address: Address, message: str) -> None:
        del address, message

    async def offer_commands(self, commands: Sequence[MenuCommand]) -> None:
        del commands

    async def receive_hook(self, request: HookRequest) -> HookAnswer:
        del request
        return HookAnswer(404)

    def show(self, conversation: str, event: LiveEvent) -> None:
        del conversation, event

    def reachable(self, address: Address) -> bool:
        del address
        return True
