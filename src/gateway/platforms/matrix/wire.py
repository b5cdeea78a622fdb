"""What a room tells: an event, as raw JSON, becomes a message. Pure.

Of a field that is missing or of another type only its name gets into an error, never what people wrote.
"""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from gateway.platforms.matrix import SPEC
from gateway.platforms.matrix.soundness import MOST_NUMBER, JsonObject
from hermes_base import command_table
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.text.between import drop_between
from hermes_base.text.file_names import make_safe_name
from hermes_base.text.whole_text import clean_text

MESSAGE, STICKER, ENCRYPTED, MEMBER = "m.room.message", "m.sticker", "m.room.encrypted", "m.room.member"
REDACTION, TOMBSTONE, ENCRYPTION = "m.room.redaction", "m.room.tombstone", "m.room.encryption"
CREATE = "m.room.create"
DIRECT, GROUP = "dm", "group"
_BETWEEN = "|"  # neither in the id of a room nor in that of a person
POLLS = ("m.poll.start", "org.matrix.msc3381.poll.start")
_REPLACE, _THREAD = "m.replace", "m.thread"
MOST_ID = 255  # bytes of the name of an event


@dataclass(frozen=True, slots=True)
class MatrixSelf:
    """Who we are there."""

    account: str
    id: str
    name: str = ""  # as people see it; typed before a text, it speaks to us


def name_direct(room: str, person: str) -> str:
    """The chat of an address: the direct chat with this person in this room."""
    return f"{room}{_BETWEEN}{person}"


def split_chat(chat: str) -> tuple[str, str]:
    """The room of a chat, and the person whose direct chat it is; empty: everybody's."""
    room, _, person = chat.partition(_BETWEEN)
    return room, person


@dataclass(frozen=True, slots=True)
class RoomView:
    """What has to be known of a room to read what is said there."""

    id: str
    kind: str  # dm, group
    names: Mapping[str, str] = field(default_factory=dict)  # of people, by id

    def name_chat(self, sender: str) -> str:
        """Where somebody speaks: a direct chat is with a person, not with whoever is in the room later."""
        return name_direct(self.id, sender) if self.kind == DIRECT else self.id


@dataclass(frozen=True, slots=True)
class Skipped:
    """Nothing for us, and why."""

    reason: str


class OddMatrixEvent(ValueError):
    """An event that is not as documented."""


# --- what an event refers to


def find_referred(event: JsonObject, known: Mapping[str, JsonObject | None]) -> set[str]:
    """The ids of events that have to be looked up before this one can be read, beyond those that are known already."""
    related = _relation(event)
    wanted = set()
    if related.get("rel_type") == _REPLACE:
        wanted.add(_event_id(related))
        original = known.get(_event_id(related))
        related = _relation(original) if original else {}
    wanted.update((_replied_id(related), _thread_id(related)))
    return wanted - {""} - known.keys()


def _relation(event: JsonObject) -> JsonObject:
    return _object(_object(event, "content"), "m.relates_to")


def _replied_id(related: JsonObject) -> str:
    """A reply that somebody meant; in a thread each message also replies, in form, for clients without threads."""
    if related.get("rel_type") == _THREAD and related.get("is_falling_back") is not False:
        return ""
    return _event_id(_object(related, "m.in_reply_to"))


def _thread_id(related: JsonObject) -> str:
    return _event_id(related) if related.get("rel_type") == _THREAD else ""


def _event_id(related: JsonObject) -> str:
    """The event that is named there; empty: none is, or the name is none that an event can have."""
    named = _text(related, "event_id")
    return named if named.startswith("$") and len(named.encode()) <= MOST_ID else ""


# --- messages


def read_event(
    event: JsonObject, referred: Mapping[str, JsonObject | None], room: RoomView, me: MatrixSelf
) -> Inbound | Skipped:
    """What an event says; OddMatrixEvent when it is not as documented. `referred`: the events that it speaks of."""
    kind, sender = _needed(event, "type"), _needed(event, "sender")
    content, related = _object(event, "content"), _relation(event)
    if sender == me.id:
        return Skipped("our own")
    if not content or "redacted_because" in _object(event, "unsigned"):
        return Skipped("taken back by its writer")
    message, revision = _needed(event, "event_id"), ""
    if related.get("rel_type") == _REPLACE:
        original = referred.get(_event_id(related))
        if not original or original.get("sender") != sender or _relation(original).get("rel_type") == _REPLACE:
            return Skipped("an edit of what its sender did not write")
        revision = f"{_number(event, 'origin_server_ts')}-{message}"
        message, content = _needed(original, "event_id"), _object(content, "m.new_content")
        kind, related = _needed(original, "type"), _relation(original)
    text, files = _read_body(kind, content)
    if text is None:
        return Skipped(f"of a kind that is not read ({kind} {_text(content, 'msgtype')})".replace(" )", ")"))
    replied = referred.get(_replied_id(related))
    root = referred.get(_thread_id(related))
    if _replied_id(related):
        text = _drop_fallback(text)
    mentioned = names_us(content, me) or any(one is not None and one.get("sender") == me.id for one in (replied, root))
    return Inbound(
        Address(SPEC.name, me.account, room.name_chat(sender), room.kind, _thread_id(related)),
        message,
        sender,
        _as_command(_drop_name(text, me) if mentioned else text),
        revision=revision,
        sender_name=room.names.get(sender, ""),
        mentioned=mentioned,
        reply_to=_replied_id(related),
        quote=read_quote(replied),
        files=files,
        received=_number(event, "origin_server_ts") / 1000,
    )


def read_quote(replied: JsonObject | None) -> str:
    """The text of an event that is replied to, as far as it has one."""
    if not replied:
        return ""
    text = _read_body(_text(replied, "type"), _object(replied, "content"))[0] or ""
    return _drop_fallback(text) if _replied_id(_relation(replied)) else text


def _drop_fallback(text: str) -> str:
    """Without the lines in which older clients repeat what they reply to."""
    if not text.startswith("> "):
        return text
    lines = text.split("\n")
    quoted = sum(1 for _ in itertools.takewhile(lambda line: line.startswith("> "), lines))
    rest = lines[quoted:]
    return "\n".join(rest[1:] if rest and not rest[0] else rest)


# --- whom it speaks to

_PILL = re.compile(r"matrix\.to/#/([^\"'?\s<>]+)")


def names_us(content: JsonObject, me: MatrixSelf) -> bool:
    """Whether a message mentions us. Where a client says whom it mentions, that alone counts; what older ones write is
    a link to an id, or the id itself."""
    mentions = content.get("m.mentions")
    if isinstance(mentions, Mapping):
        listed = mentions.get("user_ids")
        return isinstance(listed, list) and me.id in listed
    html = drop_between(_text(content, "formatted_body"), "<mx-reply>", "</mx-reply>")
    if any(unquote(pill) == me.id for pill in _PILL.findall(html)):
        return True
    body = _drop_fallback(_text(content, "body"))
    return re.search(rf"(?<!\S){re.escape(me.id)}(?![\w.-])", body) is not None


def _drop_name(text: str, me: MatrixSelf) -> str:
    """Without our name before it: what follows may be a command."""
    for name in (me.id, me.name, me.id[1:].partition(":")[0]):
        typed = re.match(rf"@?{re.escape(name)}(?:[:,]\s*|\s+)(?=\S)", text, re.IGNORECASE) if name else None
        if typed:
            return text[typed.end() :]
    return text


def _as_command(text: str) -> str:
    """Clients keep a slash for commands of their own: an exclamation mark does as well."""
    asked = command_table.parse(f"/{text[1:]}") if text.startswith("!") else None
    return f"/{text[1:]}" if asked is not None and asked[0] is not None else text


# --- what is in it


def _read_body(kind: str, content: JsonObject) -> tuple[str | None, tuple[FileRef, ...]]:
    """The text and the files; None: it is nothing that people say."""
    if kind == STICKER:
        return f"[sticker {_clean_line(_text(content, 'body'))}]", ()
    if kind in POLLS:
        return _show_poll(content), ()
    if kind != MESSAGE:
        return None, ()
    msgtype, body = _text(content, "msgtype"), _text(content, "body")
    if msgtype in _FILES:
        return _read_media(msgtype, content)
    show = _SHOWN.get(msgtype)
    return (show(body, content) if show else None), ()


#: Texts of messages, by what they are. A notice is a program's; nobody answers those, or two would never end.
_SHOWN: Mapping[str, Callable[[str, JsonObject], str]] = {
    "m.text": lambda body, _: body,
    "m.emote": lambda body, _: f"* {body}",
    "m.location": lambda body, content: f"[location {_clean_line(body + ' ' + _text(content, 'geo_uri'))}]",
}
_FILES = {"m.image": "image", "m.audio": "audio", "m.video": "file", "m.file": "file"}


def _read_media(msgtype: str, content: JsonObject) -> tuple[str, tuple[FileRef, ...]]:
    body, info = _text(content, "body"), _object(content, "info")
    name = _text(content, "filename") or body or msgtype.removeprefix("m.")
    caption = body if _text(content, "filename") and body != name else ""
    locked = _object(content, "file")
    remote = _describe_locked(locked) if locked else _text(content, "url")
    if not _text(locked or content, "url").startswith("mxc://"):
        raise OddMatrixEvent("url is missing")
    kind = _FILES[msgtype]
    if kind == "file":
        kind = {"image": "image", "audio": "audio"}.get(_text(info, "mimetype").partition("/")[0], kind)
    size, milliseconds = _amount(info, "size"), _amount(info, "duration")
    return caption, (FileRef("", make_safe_name(name), kind, size, remote, milliseconds // 1000),)


def _describe_locked(file: JsonObject) -> str:
    """What is needed to fetch and decrypt an encrypted file, and nothing else that somebody wrote there."""
    key, hashes = _object(file, "key"), _object(file, "hashes")
    needed = {"url": _text(file, "url"), "iv": _text(file, "iv"), "key": {"k": _text(key, "k")}}
    return json.dumps({**needed, "hashes": {"sha256": _text(hashes, "sha256")}}, sort_keys=True)


def _show_poll(content: JsonObject) -> str:
    poll = _object(content, "m.poll") or _object(content, "org.matrix.msc3381.poll.start")
    answers = poll.get("answers")
    options = [_any_text(one) for one in answers if isinstance(one, Mapping)] if isinstance(answers, list) else []
    return f"[poll {_clean_line(_any_text(_object(poll, 'question')))} ({_clean_line(' / '.join(options))})]"


def _any_text(value: JsonObject) -> str:
    """The text of a part of a poll, in the forms that there are."""
    parts = value.get("m.text")
    if isinstance(parts, list) and parts and isinstance(parts[0], Mapping):
        return _text(parts[0], "body")
    return _text(value, "org.matrix.msc1767.text") or _text(value, "body")


def _clean_line(text: str) -> str:
    return " ".join(text.replace("[", "(").replace("]", ")").split())


# --- rooms


def find_arrival(events: list[JsonObject], me: str, known: Iterable[str] = ()) -> tuple[int | None, bool]:
    """Where what is for us begins in these events, the oldest first: behind the last that is known, or behind our own
    invitation, or behind our joining where nobody invited us; None: not in these. And whether we joined by an
    invitation that must stand before them."""
    known, invited = frozenset(known), False
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if event.get("event_id") in known:
            return index + 1, False
        if event.get("type") != MEMBER or event.get("state_key") != me:
            continue
        membership = _text(_object(event, "content"), "membership")
        before = _text(_object(_object(event, "unsigned"), "prev_content"), "membership")
        if membership == "invite":
            return index + 1, False
        if membership == "join" and before == "invite":
            invited = True
        elif membership == "join" and before != "join":
            return index + 1, False
    return None, invited


def find_inviter(state: Iterable[JsonObject], me: str) -> tuple[str, str]:
    """Who invites us into a room, and the name they have there; empty: nobody says so."""
    events = [event for event in state if event.get("type") == MEMBER]
    inviter = next(
        (
            _text(event, "sender")
            for event in events
            if event.get("state_key") == me and _text(_object(event, "content"), "membership") == "invite"
        ),
        "",
    )
    names = (_text(_object(event, "content"), "displayname") for event in events if event.get("state_key") == inviter)
    return inviter, next(names, "")


def read_redacted(event: JsonObject) -> str:
    """The id of the event that this one takes away; room versions have it in two places."""
    if event.get("type") != REDACTION:
        return ""
    return _text(event, "redacts") or _text(_object(event, "content"), "redacts")


# --- fields


def _object(value: JsonObject, name: str) -> JsonObject:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(value: JsonObject, name: str) -> str:
    found = value.get(name)
    return clean_text(found) if isinstance(found, str) else ""


def _needed(value: JsonObject, name: str) -> str:
    if not _text(value, name):
        raise OddMatrixEvent(f"{name} is no text")
    return _text(value, name)


def _amount(value: JsonObject, name: str) -> int:
    """A count that a sender gives; 0: none that can be meant."""
    found = value.get(name)
    return int(found) if isinstance(found, int | float) and 0 <= found <= MOST_NUMBER else 0


def _number(value: JsonObject, name: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= MOST_NUMBER:
        raise OddMatrixEvent(f"{name} is no number")
    return found
