"""What Signal tells: an envelope, as the daemon's JSON has it, becomes a message or a note. Pure.

Of a field that is missing or of another type only its name gets into an error, never what people wrote.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.platforms.signal import SPEC
from gateway.platforms.signal.signal_settings import is_account_id
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.text.file_names import make_safe_name
from hermes_base.text.own_name import drop_name
from hermes_base.text.whole_text import clean_text

JsonObject = Mapping[str, Any]
LONG_TEXT = "text/x-signal-plain"  # the type of an attachment that is the whole of a text which was cut
MOST_LONG_TEXT = 65_536
MOST_GROUP_ID = 128
MOST_FILES = 32  # of one message, as in Signal's own apps
VIEW_ONCE = "[something to be looked at once; it was not kept]"
_FILE_ID = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_GROUP_ID = re.compile(r"[A-Za-z0-9+/_=-]+")
_MOST_FILE_ID = 200
_KINDS = {"image": "image", "audio": "audio"}


@dataclass(frozen=True, slots=True)
class SignalSelf:
    """Who we are there."""

    account: str  # as it is called here
    number: str  # or the id, where it has no number
    id: str = ""  # empty: not known yet

    def is_me(self, id: object, number: object) -> bool:
        """Whose id is known is known by that; a number is a person's while they have it."""
        if self.id and is_account_id(id):
            return id == self.id
        return bool(number) and number == self.number


@dataclass(frozen=True, slots=True)
class EnvelopeNews:
    """An envelope, and what the daemon says beside it."""

    account: str  # whose it is; empty: not told
    envelope: JsonObject
    asked_for: bool  # it came because we listen; otherwise the daemon receives by itself
    problem: str = ""  # why it cannot be read: the type of an exception


@dataclass(frozen=True, slots=True)
class SkippedEnvelope:
    """Nothing for us, and why. `chat`: somebody is there."""

    reason: str
    chat: str = ""


@dataclass(frozen=True, slots=True)
class OwnEnvelope:
    """Another device of our own account has done something."""

    id: str


EnvelopeRead = Inbound | SkippedEnvelope | OwnEnvelope


@dataclass(slots=True)
class ReadingBooks:
    """What has to be known to read an envelope."""

    names: Mapping[str, str] = field(default_factory=dict)  # by id, for eyes only
    find_first: Callable[[str, int], int] = lambda _, sent: sent  # of a person's edits: the message that they are of
    find_ours: Callable[[int], int] = lambda sent: sent  # the same of ours


class OddEnvelope(ValueError):
    """An envelope that is not as documented."""


def read_news(params: JsonObject) -> EnvelopeNews:
    """The envelope in what the daemon brings, in either of the two forms."""
    asked_for = "result" in params
    body = _as_object(params["result"], "result") if asked_for else params
    problem = body.get("exception")
    kind = str(problem.get("type") or "unknown") if isinstance(problem, Mapping) else ""
    return EnvelopeNews(str(body.get("account") or ""), _object(body, "envelope"), asked_for, kind)


def name_message(sent: int, author: str) -> str:
    """What a message of a person is called: both are needed to quote it."""
    return f"{sent}:{author}"


def read_name(message: str) -> tuple[int, str] | None:
    """When a message was sent, and by whom; None: that is no name of one."""
    sent, _, author = message.partition(":")
    return (int(sent), author) if is_timestamp(sent) and is_account_id(author) else None


def is_timestamp(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < len(text) <= 15


# --- envelopes


def read_envelope(envelope: JsonObject, me: SignalSelf, books: ReadingBooks) -> EnvelopeRead:
    """What an envelope says; OddEnvelope when it is not as documented."""
    sender = envelope.get("sourceUuid")
    if "syncMessage" in envelope or me.is_me(sender, envelope.get("sourceNumber")):
        return OwnEnvelope(str(sender) if is_account_id(sender) else "")
    for kind in ("dataMessage", "editMessage"):
        if isinstance(envelope.get(kind), Mapping):
            break
    else:
        kinds = sorted(key for key in envelope if key.endswith("Message"))
        return SkippedEnvelope(f"of another kind ({', '.join(kinds) or 'none'})")
    if not isinstance(sender, str) or not is_account_id(sender):
        return SkippedEnvelope("without the id of its sender")
    if kind == "dataMessage":
        return _read_data(_object(envelope, kind), envelope, sender, me, books)
    edit = _object(envelope, kind)
    read = _read_data(_object(edit, "dataMessage"), envelope, sender, me, books)
    if not isinstance(read, Inbound):
        return read
    first = books.find_first(sender, _number(edit, "targetSentTimestamp"))
    return replace(read, message=name_message(first, sender), revision=read.message.partition(":")[0])


def _read_data(
    data: JsonObject, envelope: JsonObject, sender: str, me: SignalSelf, books: ReadingBooks
) -> Inbound | SkippedEnvelope:
    address = _read_address(data, sender, me)
    for part, reason in _NO_MESSAGES.items():
        if data.get(part):
            return SkippedEnvelope(reason, address.chat)
    mentions = _read_mentions(data.get("mentions"))
    text = _show_mentions(_text(data, "message"), mentions, me, books.names)
    files, missing = _read_files(data, address)
    shown = "\n".join(part for part in (text, *_describe(data), *missing) if part)
    if not shown.strip() and not files:
        return SkippedEnvelope("a service message", address.chat)
    quote = _object(data, "quote") if isinstance(data.get("quote"), Mapping) else {}
    quotes_us = me.is_me(quote.get("authorUuid"), quote.get("authorNumber"))
    sent = _number(data, "timestamp")
    return Inbound(
        address,
        name_message(sent, sender),
        sender,
        drop_name(shown, _find_own_name(text, mentions, me)),
        sender_name=_line(envelope.get("sourceName")),
        mentioned=quotes_us or any(me.is_me(one.id, one.number) for one in mentions),
        reply_to=_name_quoted(quote, quotes_us, books),
        quote=_show_mentions(_text(quote, "text"), _read_mentions(quote.get("mentions")), me, books.names),
        files=files,
        received=_read_time(envelope, sent) / 1000,
    )


#: Parts of a data message that make it none to be answered.
_NO_MESSAGES: Mapping[str, str] = {
    "reaction": "a reaction",
    "remoteDelete": "something was deleted",
    "adminDelete": "something was deleted",
    "isExpirationUpdate": "how long messages stay",
    "groupCallUpdate": "a call",
    "pollVote": "a vote",
    "pollTerminate": "the end of a poll",
    "pinMessage": "something was pinned",
    "unpinMessage": "something was unpinned",
}


def _read_address(data: JsonObject, sender: str, me: SignalSelf) -> Address:
    group = data.get("groupInfo")
    if group is None:
        return Address(SPEC.name, me.account, sender)
    name = _as_object(group, "groupInfo").get("groupId")
    if not isinstance(name, str) or len(name) > MOST_GROUP_ID or not _GROUP_ID.fullmatch(name):
        raise OddEnvelope("groupId is none")
    return Address(SPEC.name, me.account, name, "group")


def _read_time(envelope: JsonObject, sent: int) -> int:
    """When Signal's server had it; the clock of a telephone may be wrong."""
    at = envelope.get("serverReceivedTimestamp")
    return at if isinstance(at, int) and not isinstance(at, bool) and at > 0 else sent


def _name_quoted(quote: JsonObject, is_ours: bool, books: ReadingBooks) -> str:
    sent, author = quote.get("id"), quote.get("authorUuid")
    if not isinstance(sent, int) or isinstance(sent, bool) or sent <= 0:
        return ""
    if is_ours:
        return str(books.find_ours(sent))
    return name_message(books.find_first(str(author), sent), str(author)) if is_account_id(author) else ""


# --- mentions


@dataclass(frozen=True, slots=True)
class SignalMention:
    """Somebody is named, in place of a sign of the text; counted in UTF-16 units."""

    start: int
    length: int
    id: str
    number: str


def _read_mentions(found: Any) -> list[SignalMention]:
    """In their order; those that are not as documented are left out."""
    mentions = []
    for one in found if isinstance(found, list) else ():
        start, length = (one.get("start"), one.get("length")) if isinstance(one, Mapping) else (None, None)
        if isinstance(start, int) and isinstance(length, int) and start >= 0 and length > 0:
            id, number = one.get("uuid"), one.get("number")
            known, shown = id if is_account_id(id) else "", number if isinstance(number, str) else ""
            mentions.append(SignalMention(start, length, known, shown))
    return sorted(mentions, key=lambda one: one.start)


def _name_mentioned(mention: SignalMention, me: SignalSelf, names: Mapping[str, str]) -> str:
    if me.is_me(mention.id, mention.number):
        return f"@{me.number}"
    return f"@{_line(names.get(mention.id)) or mention.id or _line(mention.number) or 'somebody'}"


def _show_mentions(text: str, mentions: list[SignalMention], me: SignalSelf, names: Mapping[str, str]) -> str:
    """The text with names in the places that were left for them."""
    units = text.encode("utf-16-le", "surrogatepass")
    bits, at = [], 0
    for mention in mentions:
        start, end = 2 * mention.start, 2 * (mention.start + mention.length)
        if start < at or end > len(units):
            continue
        bits += [units[at:start], _name_mentioned(mention, me, names).encode("utf-16-le", "surrogatepass")]
        at = end
    return b"".join([*bits, units[at:]]).decode("utf-16-le", "replace")


def _find_own_name(text: str, mentions: list[SignalMention], me: SignalSelf) -> str:
    """Our name as the text begins with it; empty: it does not."""
    first = mentions[0] if mentions and mentions[0].start == 0 else None
    name = _name_mentioned(first, me, {}) if first and me.is_me(first.id, first.number) else ""
    return name if name and text.startswith(name) else ""


# --- long texts


def find_long_text(envelope: JsonObject) -> FileRef | None:
    """The attachment with the whole of a text that was cut; None: it is all there, or too long to be one. A stranger's
    is fetched, too, so it has to be small."""
    data = _find_data(envelope)
    sender = envelope.get("sourceUuid")
    for one in _list(data, "attachments"):
        size = one.get("size")
        is_text = one.get("contentType") == LONG_TEXT and isinstance(size, int) and 0 < size <= MOST_LONG_TEXT
        if is_text and _is_file_id(one.get("id")) and is_account_id(sender):
            group = data.get("groupInfo")
            chat = str(group.get("groupId")) if isinstance(group, Mapping) else str(sender)
            kind = "group" if isinstance(group, Mapping) else "dm"
            return FileRef("", "text.txt", remote=_name_remote(str(one["id"]), Address("", "", chat, kind)))
    return None


def put_long_text(envelope: JsonObject, text: str) -> JsonObject:
    """The envelope with the whole text, and without the attachment; unchanged where it is another text."""
    data = _find_data(envelope)
    if not text.startswith(_text(data, "message").rstrip("\ufffd")):
        return envelope
    rest = [one for one in _list(data, "attachments") if one.get("contentType") != LONG_TEXT]
    whole = {**data, "message": text, "attachments": rest}
    edit = envelope.get("editMessage")
    if isinstance(edit, Mapping):
        return {**envelope, "editMessage": {**edit, "dataMessage": whole}}
    return {**envelope, "dataMessage": whole}


def _find_data(envelope: JsonObject) -> JsonObject:
    edit = envelope.get("editMessage")
    data = (edit if isinstance(edit, Mapping) else envelope).get("dataMessage")
    return data if isinstance(data, Mapping) else {}


# --- files


def _read_files(data: JsonObject, address: Address) -> tuple[tuple[FileRef, ...], list[str]]:
    """The files, and a line for each that cannot be had."""
    found = _list(data, "attachments")
    if data.get("viewOnce") is True:
        return (), [VIEW_ONCE] if found else []
    files, missing = [], []
    for one in found[:MOST_FILES]:
        if _is_file_id(one.get("id")):
            files.append(_read_file(one, address))
        else:  # G7: it would be a path on the daemon's machine
            missing.append("[a file that cannot be fetched]")
    if len(found) > MOST_FILES:
        missing.append(f"[{len(found) - MOST_FILES} more files, which were left out]")
    return tuple(files), missing


def _read_file(one: JsonObject, address: Address) -> FileRef:
    id, given, size = str(one["id"]), one.get("filename"), one.get("size")
    kind = _KINDS.get(str(one.get("contentType") or "").partition("/")[0], "file")
    name = make_safe_name(given) if isinstance(given, str) and given.strip() else make_safe_name(f"{kind}_{id}")
    return FileRef("", name, kind, max(size, 0) if isinstance(size, int) else 0, _name_remote(id, address))


def _name_remote(id: str, address: Address) -> str:
    return f"{id} {'group' if address.kind == 'group' else 'dm'} {address.chat}"


def read_remote(remote: str) -> tuple[str, Address] | None:
    """The id of a file and the chat that it came in; None: that is none."""
    id, _, rest = remote.partition(" ")
    kind, _, chat = rest.partition(" ")
    if not _is_file_id(id) or kind not in ("dm", "group") or not chat:
        return None
    return id, Address(SPEC.name, "", chat, kind)


def _is_file_id(id: Any) -> bool:
    return isinstance(id, str) and len(id) <= _MOST_FILE_ID and _FILE_ID.fullmatch(id) is not None


# --- what is neither text nor a file


def _describe(data: JsonObject) -> list[str]:
    lines = []
    if isinstance(data.get("sticker"), Mapping):
        lines.append("[sticker]")
    for contact in _list(data, "contacts"):
        lines.append(f"[{f'contact {_show_contact(contact)}'.strip()}]")
    poll = data.get("pollCreate")
    if isinstance(poll, Mapping):
        options = poll.get("options")
        listed = [_line(one) for one in options] if isinstance(options, list) else []
        lines.append(f"[poll {_line(poll.get('question'))} ({' / '.join(listed)})]")
    if isinstance(data.get("payment"), Mapping):
        lines.append("[payment]")
    return lines


def _show_contact(contact: JsonObject) -> str:
    name = contact.get("name")
    parts = [name.get(key) for key in ("given", "family")] if isinstance(name, Mapping) else []
    shown = _line(name.get("display")) if isinstance(name, Mapping) else ""
    phones = [_line(one.get("value")) for one in _list(contact, "phone")]
    return ", ".join(filter(None, [shown or " ".join(_line(part) for part in parts if part), *phones]))


# --- fields


def _as_object(value: Any, name: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise OddEnvelope(f"{name} is no object")
    return value


def _object(value: JsonObject, name: str) -> JsonObject:
    return _as_object(value.get(name), name)


def _number(value: JsonObject, name: str) -> int:
    number = value.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 10**15:
        raise OddEnvelope(f"{name} is no time")
    return number


def _text(value: JsonObject, name: str) -> str:
    text = value.get(name)
    return clean_text(text) if isinstance(text, str) else ""


def _list(value: JsonObject, name: str) -> list[JsonObject]:
    found = value.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _line(text: Any) -> str:
    """A few words of somebody else's choice, as part of a line of ours."""
    if not isinstance(text, str):
        return ""
    return " ".join(clean_text(text).replace("[", "(").replace("]", ")").split())[:200]
