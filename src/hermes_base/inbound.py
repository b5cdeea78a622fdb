"""What comes in from a platform and what goes out to it: frozen values, and their form in the store and on the wire."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hermes_base import command_table
from hermes_base.conversation_key import write_key

PERSON, NOTICE = "person", "notice"  # origins of an inbound message
WAYS = QUEUE, STEER = "queue", "steer"  # what becomes of a message while a turn is under way, where it says so itself
ANSWER, NOTE, QUESTION, FILE = "answer", "note", "question", "file"  # kinds of outgoing messages
#: Folders of files, in the home and in each person's own: sent to us, handed over and fetched later, on their way out.
UPLOADS, SHOWN, OUTBOX = "uploads", "shown", "outbox"
PEOPLE = "people"  # in the home: a folder for each person


@dataclass(frozen=True, slots=True)
class Address:
    """A place on a platform where one can speak and be answered."""

    platform: str
    account: str  # which of our accounts (bots) there
    chat: str
    kind: str = "dm"  # dm, group, channel
    thread: str = ""

    @property
    def account_key(self) -> str:
        """The name of our account over all platforms, as the store has it."""
        return f"{self.platform}:{self.account}"

    @property
    def chat_key(self) -> str:
        """The name of the chat within the account: what shares one budget and one order."""
        return f"{self.chat}/{self.thread}" if self.thread else self.chat

    def conversation(self, profile: str) -> str:
        """The key of what is said here. Accounts that have names of their own share no conversation, although a chat
        of two of them may have one id."""
        chat = self.chat if self.account == self.platform else f"{self.account}/{self.chat}"
        return write_key(profile, self.platform, self.kind, chat, self.thread or None)


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file that came with a message or goes with an answer. `remote`: the platform has it under this name, and it is
    on this machine only after it was fetched, at `path`."""

    path: str
    name: str
    kind: str = "file"  # image, audio, file
    size: int = 0  # 0: not told
    remote: str = ""
    seconds: int = 0  # how long a recording is, if the platform says so


@dataclass(frozen=True, slots=True)
class Inbound:
    """One message as its platform gave it to us. Identity is platform and sender id; names are for eyes only."""

    address: Address
    message: str  # the platform's own id of it
    sender: str  # the platform's immutable id of whoever sent it
    text: str
    revision: str = ""  # which edit of the message: begins with a number that grows; empty: as it was first sent
    sender_name: str = ""
    mentioned: bool = False  # it speaks to us: by name, or in reply to one of our messages
    question: str = ""  # a pressed button: the question it answers
    choice: str = ""  # and the place of the button among its choices, counted from 0; the text may be a shortened label
    seen: str = ""  # the question that its writer had before them, where clients say so (`PlatformSpec.names_seen`)
    reply_to: str = ""  # platform id of the message it replies to
    folder: str = ""  # the working folder of a terminal
    quote: str = ""  # the text that it replies to, as far as told; without `reply_to` it is from another chat
    forwarded: bool = False  # somebody else wrote it; its text says who
    files: tuple[FileRef, ...] = ()
    source: str = ""  # whose numbering the id is of, where an account may become another bot's: part of its name
    album: str = ""  # messages of one sender with the same name here are one
    conversation: str = ""  # joined by its key; empty: the address says which
    origin: str = PERSON
    way: str = ""  # one of WAYS, and then no slash in the text means anything; empty: as the settings say
    received: float = 0.0  # when it was written, as far as the platform says; else when it reached us
    facts: str = ""  # what its platform says of the chat and of this message, for the model

    @property
    def stem(self) -> str:
        """The message without regard to its edits."""
        message = f"{self.source}:{self.message}" if self.source else self.message
        return f"{self.address.chat_key}/{message}"

    @property
    def ext_id(self) -> str:
        """What the message is called within the account; the same message has the same name however often it comes."""
        return f"{self.stem}/{self.revision}"

    def key(self, profile: str) -> str:
        return self.conversation or self.address.conversation(profile)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to a chat, stored before it is sent."""

    address: Address
    text: str
    kind: str = ANSWER
    level: str = "info"  # of a note: info, warning, error
    reply_to: str = ""  # platform id of the message it answers
    draft: str = ""  # the streamed draft whose place it takes: its platform id, or its key while that is not known
    question: str = ""  # id of the question it asks; of a note: of the one whose end it tells
    choices: tuple[str, ...] = ()
    reason: str = ""  # why it asks; of an answer: who or what stopped it, or why it ends early (EARLY_ENDS)
    file: FileRef | None = None
    turn: str = ""  # whose words they are; empty: Hermes itself speaks
    completed: bool = True  # of an answer: the turn came to its own end
    interrupted: bool = False
    hold_until: float = 0.0  # nobody asked for it: it waits so long, for the quiet hours of `held_for` to end
    held_for: str = ""  # that person
    reader: str = ""  # nobody asked for it: the person who will read it; it is not said once they have no access
    conversation: str = ""  # it stands in this one; empty: in that of whoever says it
    note: str = ""  # what the model there hears of it with the next message, once it has arrived
    note_origin: str = ""  # and whose text that is, if it is foreign there (G9)
    origins: tuple[str, ...] = ()  # foreign text that was in sight when it was written (G9)

    @property
    def ends_question(self) -> bool:
        """Whether it belongs to a message that stands there already: a question with buttons, which are of no use any
        more."""
        return self.kind == NOTE and bool(self.question)


#: States of an outbox row.
WAITING, SENDING, SENT, FAILED = "waiting", "sending", "sent", "failed"


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """The same as it stands in the store."""

    id: int
    conversation: str
    seq: int
    n: int
    outgoing: Outgoing
    state: str
    attempts: int  # how often it was taken for sending
    parts_sent: int  # a long message goes out in parts; so many are known to have arrived
    platform_ids: tuple[str, ...]  # of those parts
    unsure: bool  # it was taken before and nobody noted the end: the next part may have arrived
    created: float


def name_question(question: str) -> str:
    """What a question is called in the outbox."""
    return f"question:{question}"


#: Fields that the version before does not know: left out of the store where they say nothing.
_NEW_FIELDS = ("way", "quote", "forwarded", "choice", "source", "album", "remote", "seconds", "facts")
#: Fields of an outgoing message that are columns of the store, and no part of the message.
_BESIDE = ("hold_until", "held_for", "reader", "conversation", "note", "note_origin", "origins")


def as_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, as they are: `asdict` copies everything below them, which takes ten times as long."""
    return {name: getattr(value, name) for name in value.__match_args__}


def _as_stored(value: Any) -> dict[str, Any]:
    """The same without what is new and says nothing, and without what stands beside it."""
    fields = as_fields(value)
    for name in _NEW_FIELDS:
        if name in fields and not fields[name]:
            del fields[name]
    for name in _BESIDE if isinstance(value, Outgoing) else ():
        del fields[name]
    return fields


#: The form in the store.
write_outgoing = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_as_stored).encode


def write_inbound(inbound: Inbound) -> str:
    """The form in the store, which the version before reads, too: the way stands there as it is typed, if it can be."""
    if not inbound.way:
        return write_outgoing(inbound)
    typed = replace(inbound, way="", text=f"/{inbound.way} {inbound.text}")
    return write_outgoing(typed if read_way(typed) == inbound else inbound)


def read_way(inbound: Inbound) -> Inbound:
    """The message with its way as a field, where its text says it: `/queue TEXT`, `/steer TEXT`."""
    asked = None if inbound.way else command_table.parse(inbound.text)
    if asked is None or asked[0] is None or asked[0].name not in WAYS or not asked[1]:
        return inbound
    return replace(inbound, way=asked[0].name, text=asked[1])


def read_inbound(body: str | Mapping[str, Any]) -> Inbound:
    fields: dict[str, Any] = json.loads(body) if isinstance(body, str) else dict(body)
    files = tuple(FileRef(**file) for file in fields.pop("files"))
    inbound = Inbound(**{**fields, "address": Address(**fields["address"]), "files": files})
    return read_way(inbound) if "/" in inbound.text else inbound


def read_outgoing(body: str | Mapping[str, Any]) -> Outgoing:
    fields: dict[str, Any] = json.loads(body) if isinstance(body, str) else dict(body)
    return Outgoing(
        **{
            **fields,
            "address": Address(**fields["address"]),
            "choices": tuple(fields["choices"]),
            "file": FileRef(**fields["file"]) if fields["file"] else None,
        }
    )
