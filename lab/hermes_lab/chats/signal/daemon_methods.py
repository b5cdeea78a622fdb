"""The daemon's methods: judges what each is given, performs it, and writes results and errors."""

import base64
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_lab.chats.record import ChatCall, ChatRecord
from hermes_lab.chats.signal.signal_people import SignalPeople
from hermes_lab.chats.signal.signal_world import EDIT_SECONDS, MOST_EDITS, SignalMessage, SignalWorld

VERSION = "0.14.6"
MOST_TEXT = 2000  # bytes
USER, UNTRUSTED, RATE = -1, -4, -5
INTERNAL, NO_METHOD, BAD_PARAMS = -32603, -32601, -32602
#: Kinds of complaints.
FIELDS, LENGTH, STYLES, EDIT, OWN, TRUST, FILE = "fields", "length", "styles", "edit", "own", "trust", "file"
STYLE_NAMES = ("BOLD", "ITALIC", "SPOILER", "STRIKETHROUGH", "MONOSPACE")
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;filename=([^;,]+))?;base64,([A-Za-z0-9+/]*={0,2})")
_TO = {"recipient", "groupId"}
#: What each method may be given. The daemon itself leaves out what it does not know, without a word.
_PARAMS: Mapping[str, set[str]] = {
    "version": set(),
    "listAccounts": set(),
    "getUserStatus": {"recipient"},
    "subscribeReceive": set(),
    "unsubscribeReceive": {"subscription"},
    "send": _TO
    | {"message", "attachments", "textStyle", "editTimestamp", "quoteTimestamp", "quoteAuthor", "quoteMessage"},
    "sendTyping": _TO | {"stop"},
    "sendReceipt": {"recipient", "targetTimestamp", "type"},
    "getAttachment": _TO | {"id"},
    "trust": {"recipient", "trustAllKnownKeys", "verifiedSafetyNumber"},
}


class DaemonError(Exception):
    """What the daemon says instead of a result."""

    def __init__(self, code: int, text: str, response: Any = None) -> None:
        super().__init__(text)
        self.code, self.text = code, text
        self.data = None if response is None else {"response": response}


@dataclass(frozen=True, slots=True)
class DaemonAsk:
    """A call, read."""

    method: str
    params: Mapping[str, Any]
    call: ChatCall

    @property
    def chat(self) -> str:
        return find_chat(self.params)


def find_chat(params: Mapping[str, Any]) -> str:
    to = params.get("groupId") or params.get("recipient") or ""
    return str(to[0] if isinstance(to, list) and to else to or "")


class DaemonMethods:
    """`several`: the daemon has more accounts than ours, and every call has to name its own."""

    def __init__(self, world: SignalWorld, people: SignalPeople, record: ChatRecord) -> None:
        self.world, self.people, self.record = world, people, record
        self.several = True
        self.is_linked = True  # the daemon has our account
        self.tells_id = True  # in Signal's directory
        self.token = ""  # of the captcha that a penalty asks for
        self._methods: Mapping[str, Callable[[DaemonAsk], Any]] = {
            "version": lambda _: {"version": VERSION},
            "listAccounts": self._list_accounts,
            "getUserStatus": self._get_status,
            "send": self._send,
            "sendTyping": self._type,
            "sendReceipt": self._take_receipt,
            "getAttachment": self._get_attachment,
            "trust": self._trust,
        }

    def check(self, ask: DaemonAsk) -> None:
        """DaemonError for a call that the daemon would not perform; complaints on what it would not mind."""
        if ask.method not in _PARAMS or (ask.method == "listAccounts" and not self.several):
            raise DaemonError(NO_METHOD, "Method not implemented")
        unknown = set(ask.params) - _PARAMS[ask.method] - {"account"}
        if unknown:
            self._complain(FIELDS, f"{ask.method} has no {sorted(unknown)[0]}", ask)
        if self.several and ask.method != "listAccounts":
            if "account" not in ask.params:
                raise DaemonError(BAD_PARAMS, "Method requires valid account parameter")
            if ask.params["account"] != self.world.number or not self.is_linked:
                raise DaemonError(BAD_PARAMS, "Specified account does not exist")

    def perform(self, ask: DaemonAsk) -> Any:
        return self._methods[ask.method](ask)

    def refuse(self, ask: DaemonAsk, seconds: float) -> DaemonError:
        """The answer to a call that comes too early."""
        told: dict[str, Any] = {"retryAfterSeconds": max(1, math.ceil(seconds - 1e-6))}
        told |= {"token": self.token} if self.token else {}
        results = [self._result(ask.chat, "RATE_LIMIT_FAILURE", **told)]
        response = {"timestamp": self.world.make_time(), "results": results}
        return DaemonError(RATE, "Failed to send message due to rate limiting", response)

    # --- who is there

    def _list_accounts(self, ask: DaemonAsk) -> Any:
        del ask
        return [{"number": self.world.number}, {"number": "+4915199999999"}] if self.is_linked else []

    def _get_status(self, ask: DaemonAsk) -> Any:
        asked = ask.params.get("recipient")
        if asked != [self.world.number] or not self.tells_id:
            raise DaemonError(-3, "Unable to check if users are registered")
        own = {"recipient": self.world.number, "number": self.world.number, "uuid": self.world.own}
        return [{**own, "isRegistered": True}]

    # --- messages

    def _send(self, ask: DaemonAsk) -> Any:
        params, members = ask.params, self._find_members(ask)
        text, attachments = params.get("message"), params.get("attachments") or []
        if not text and not attachments:
            raise DaemonError(
                USER, "Sending empty message is not allowed, either a message or attachment must be given."
            )
        if ("quoteTimestamp" in params) != ("quoteAuthor" in params):
            raise DaemonError(USER, "quoteTimestamp and quoteAuthor are given together")
        self._judge_text(str(text or ""), ask)
        file, data = self._read_file(attachments, ask)
        results = [self._judge_member(member, ask) for member in members]
        now = self.world.make_time()
        response = {"timestamp": now, "results": results}
        if results and not any(one["type"] == "SUCCESS" for one in results):
            only = {one["type"] for one in results}
            code = UNTRUSTED if only == {"IDENTITY_FAILURE"} else USER
            raise DaemonError(code, "Failed to send message", response)
        missed = [one["recipientAddress"]["uuid"] for one in results if one["type"] != "SUCCESS"]
        if "editTimestamp" in params:
            self._edit(params["editTimestamp"], now, ask)
        else:
            styles = [str(one) for one in params.get("textStyle") or []]
            quote = int(params.get("quoteTimestamp") or 0)
            message = SignalMessage(now, self.world.own, str(text or ""), styles, file, data, quote, missed=missed)
            self.world.add_message(ask.chat, message)
        for member in members:
            if member not in missed:
                self.people.tell_receipt(member, now)
        return response

    def _find_members(self, ask: DaemonAsk) -> list[str]:
        to, group = ask.params.get("recipient"), ask.params.get("groupId")
        if (to is None) == (group is None):
            raise DaemonError(USER, "No recipients given")
        if group is not None:
            found = self.world.groups.get(str(group))
            if found is None:
                raise DaemonError(USER, f"Group not found: {group}")
            if found.is_left:
                raise DaemonError(USER, f"User is not a member in group: {found.name} ({group})")
            if found.is_for_admins:
                raise DaemonError(USER, f"User is not allowed to send message to group: {found.name} ({group})")
            return found.members
        everyone = [str(one) for one in (to if isinstance(to, list) else [to])]
        for one in everyone:
            if one in (self.world.own, self.world.number):
                self._complain(OWN, "a message to our own account", ask)
            if one not in self.world.people:
                raise DaemonError(USER, f"The user {one} is not registered.")
        return everyone

    def _judge_member(self, member: str, ask: DaemonAsk) -> dict[str, Any]:
        del ask
        person = self.world.people[member]
        failures = {
            "UNREGISTERED_FAILURE": person.is_gone,
            "IDENTITY_FAILURE": person.is_distrusted,
            "NETWORK_FAILURE": person.is_cut_off,
        }
        return self._result(member, next((kind for kind, failed in failures.items() if failed), "SUCCESS"))

    def _result(self, member: str, kind: str, **more: Any) -> dict[str, Any]:
        person = self.world.people.get(member)
        address = {"uuid": member, "number": person.number if person else None, "username": None}
        return {"recipientAddress": address, "type": kind, **more}

    def _judge_text(self, text: str, ask: DaemonAsk) -> None:
        if len(text.encode()) > MOST_TEXT:
            self._complain(LENGTH, "the text becomes an attachment", ask)
        units = len(text.encode("utf-16-le")) // 2
        for style in _as_list(ask.params.get("textStyle")):
            found = re.fullmatch(r"([0-9]+):([0-9]+):([A-Z]+)", str(style))
            if not found or found[3] not in STYLE_NAMES:
                raise DaemonError(USER, f"Invalid textStyle syntax ({style})")
            start, length = int(found[1]), int(found[2])
            if not length or start + length > units:
                self._complain(STYLES, "a style is beside the text", ask)
            elif _cuts_pair(text, start) or _cuts_pair(text, start + length):
                self._complain(STYLES, "a style begins or ends within a character", ask)

    def _edit(self, target: Any, now: int, ask: DaemonAsk) -> None:
        """As clients do: an edit that does not name the newest one of a message is dropped without a word."""
        message = self.world.find_sent(ask.chat, target) if isinstance(target, int) else None
        if message is None or message.author != self.world.own:
            self._complain(EDIT, "no message of ours was sent then", ask)
        elif target != message.latest:
            self._complain(EDIT, "an edit names another one than the last, and is dropped", ask)
        elif len(message.edits) >= MOST_EDITS:
            self._complain(EDIT, "one edit too many", ask)
        elif now - message.timestamp > EDIT_SECONDS * 1000:
            self._complain(EDIT, "the message is too old", ask)
        else:
            message.edits.append(now)
            message.text = str(ask.params.get("message") or "")
            message.styles = [str(one) for one in _as_list(ask.params.get("textStyle"))]

    # --- signs and files

    def _type(self, ask: DaemonAsk) -> Any:
        self._find_members(ask)
        self.world.typing[ask.chat] = self.world.typing.get(ask.chat, 0) + 1
        return {}

    def _take_receipt(self, ask: DaemonAsk) -> Any:
        author, target = str(ask.params.get("recipient")), ask.params.get("targetTimestamp")
        if ask.params.get("type") not in ("read", "viewed"):
            raise DaemonError(USER, "Unknown receipt type")
        every = [one for messages in self.world.chats.values() for one in messages]
        found = next((one for one in every if one.author == author and target in (one.timestamp, *one.edits)), None)
        if found is None:
            self._complain(FIELDS, "a receipt for a message that nobody sent", ask)
        else:
            found.read = True
        return {}

    def _read_file(self, attachments: Any, ask: DaemonAsk) -> tuple[str, bytes]:
        for one in _as_list(attachments):
            found = _DATA.fullmatch(str(one))
            if not found:
                self._complain(FILE, "an attachment that is no data", ask)
                raise DaemonError(INTERNAL, "Failed to send message: no such file (AttachmentInvalidException)")
            return found[2] or "unnamed", base64.b64decode(found[3])
        return "", b""

    def _get_attachment(self, ask: DaemonAsk) -> Any:
        id = str(ask.params.get("id"))
        if "/" in id or ".." in id:
            self._complain(FILE, "a path in place of an id", ask)
        chat, data = self.world.files.get(id, ("", b""))
        if not chat:
            raise DaemonError(INTERNAL, f"An error occurred reading attachment: {id}")
        if chat != ask.chat:
            self._complain(FILE, "a file of another chat", ask)
        return {"data": base64.b64encode(data).decode()}

    def _trust(self, ask: DaemonAsk) -> Any:
        self._complain(TRUST, "a key is trusted by a program", ask)
        return {}

    def _complain(self, kind: str, text: str, ask: DaemonAsk) -> None:
        self.record.complain(kind, f"{ask.method}: {text}.", ask.call)


def _as_list(value: Any) -> Iterable[Any]:
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


def _cuts_pair(text: str, at: int) -> bool:
    """Whether a place in UTF-16 units is inside of a character."""
    after = text.encode("utf-16-le")[2 * at : 2 * at + 2]
    return bool(after) and 0xDC00 <= int.from_bytes(after, "little") <= 0xDFFF
