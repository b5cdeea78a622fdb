"""What Discord tells: an event of its gateway, or a message of a history, as raw JSON, becomes a message. Pure.

Of a field that is missing or of another type only its name gets into an error, never what people wrote.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gateway.platforms.discord import SPEC
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.text.file_names import make_safe_name

JsonObject = Mapping[str, Any]
CUT = "…"  # the end of a button's label that was too long
EPOCH_SECONDS = 1_420_070_400.0  # from which ids count
NO_TEXT = "[Discord does not show the text of this message: the bot's message content intent is off]"
DM_KIND, THREAD_KINDS = 1, (10, 11, 12)  # types of channels
_PLAIN, _REPLY = 0, 19  # types of messages that people write; all others are the app's own
COMMAND, BUTTON = 2, 3  # types of interactions
_FORWARD = 1  # the type of a reference that brings another message along


@dataclass(frozen=True, slots=True)
class DiscordSelf:
    """Who we are there."""

    account: str
    id: str
    application: str
    roles: frozenset[str]  # that the bot has brought along: people name them by mistake
    commands: Mapping[str, str]  # of the menu: as Discord has them -> as they are called


@dataclass(frozen=True, slots=True)
class ChannelPlace:
    """Where a channel is. A thread has the channel above it."""

    channel: str
    is_dm: bool = False
    parent: str = ""
    guild: str = ""

    def find_address(self, account: str) -> Address:
        kind = "dm" if self.is_dm else "group"
        if self.parent:
            return Address(SPEC.name, account, self.parent, kind, self.channel)
        return Address(SPEC.name, account, self.channel, kind)


@dataclass(frozen=True, slots=True)
class Interacted:
    """A pressed button, or a command of the menu; Discord waits three seconds for an answer."""

    inbound: Inbound
    id: str
    token: str
    is_command: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Nothing for us, and why."""

    reason: str


class OddDiscordEvent(ValueError):
    """An event that is not as documented."""


def find_channel(address: Address) -> str:
    """The channel that an address is, in Discord's own number."""
    return address.thread or address.chat


def read_place(channel: Any) -> ChannelPlace:
    """Where a channel is, as Discord describes it."""
    told = _as_object(channel, "channel")
    number, kind = _text(told, "id"), told.get("type")
    parent = str(told.get("parent_id") or "") if kind in THREAD_KINDS else ""
    return ChannelPlace(number, kind == DM_KIND, parent, str(told.get("guild_id") or ""))


def read_time(snowflake: str) -> float:
    """When an id was made, in seconds since 1970."""
    return (read_snowflake(snowflake) >> 22) / 1000 + EPOCH_SECONDS


def make_snowflake(seconds: float) -> str:
    """The smallest id of this time."""
    return str(max(0, int((seconds - EPOCH_SECONDS) * 1000)) << 22)


def read_snowflake(message: str) -> int:
    """The number in one of our names of a message: an id of a message, or of an interaction behind a word."""
    digits = message.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() else 0


# --- messages


def read_message(body: Any, place: ChannelPlace, me: DiscordSelf) -> Inbound | LeftOut:
    """What a message says; OddDiscordEvent when it is not as documented."""
    message = _as_object(body, "message")
    author = message.get("author")
    if not isinstance(author, Mapping):
        return LeftOut("it has no author: only its looks have changed")
    if author.get("bot") is True or "webhook_id" in message:
        return LeftOut("written by a program")
    if message.get("type") not in (_PLAIN, _REPLY):
        return LeftOut("a message of Discord itself")
    number, replied = _text(message, "id"), _read_reply(message)
    mentioned = _names_us(message, me) or (replied is not None and _author_id(replied) == me.id)
    snapshot = _read_forwarded(message)
    text = "\n".join(part for part in (_show_text(message, me), _show_forwarded(snapshot), _describe(message)) if part)
    files = (*_read_files(message, place, number), *_read_files(snapshot or {}, place, number))
    if not text and not files:
        if place.is_dm or not mentioned:
            return LeftOut("without a text that we may read")
        text = NO_TEXT
    return Inbound(
        place.find_address(me.account),
        number,
        _text(author, "id"),
        text,
        revision=_name_revision(message),
        sender_name=_name_person(author, message.get("member")),
        mentioned=mentioned,
        reply_to=_text(replied, "id") if replied is not None else "",
        quote=_show_text(replied, me) if replied is not None else "",
        forwarded=snapshot is not None,
        files=files,
        received=_read_date(message.get("edited_timestamp")) or read_time(number),
    )


def _name_revision(message: JsonObject) -> str:
    """Which edit it is: when it was made, and what was written."""
    edited = _read_date(message.get("edited_timestamp"))
    if not edited:
        return ""
    said = repr((message.get("content"), message.get("attachments")))
    return f"{int(edited * 1_000_000)}-{zlib.crc32(said.encode('utf-8', 'replace')):08x}"


def is_unedited(body: Any) -> bool:
    """An update that Discord made by itself, as it does when it finds a picture behind a link."""
    return not (isinstance(body, Mapping) and body.get("edited_timestamp"))


def _read_date(text: Any) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else 0.0
    except ValueError:
        return 0.0


def _name_person(person: JsonObject, member: Any) -> str:
    nick = member.get("nick") if isinstance(member, Mapping) else None
    return str(nick or person.get("global_name") or person.get("username") or "")


def _names_us(message: JsonObject, me: DiscordSelf) -> bool:
    people = [_author_id({"author": person}) for person in _rows(message, "mentions")]
    roles = message.get("mention_roles")
    return me.id in people or any(str(role) in me.roles for role in (roles if isinstance(roles, list) else ()))


def _author_id(message: JsonObject) -> str:
    author = message.get("author")
    return str(author.get("id") or "") if isinstance(author, Mapping) else ""


# --- the text

_EMOJI = re.compile(r"<a?:(\w+):[0-9]+>")
_PERSON = re.compile(r"<@!?([0-9]+)>")


def _show_text(message: JsonObject, me: DiscordSelf) -> str:
    """The text as people see it. Our own name at its beginning is left out: a command may follow it."""
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    ours = "|".join([f"@!?{re.escape(me.id)}", *(f"@&{re.escape(role)}" for role in sorted(me.roles))])
    bare = re.sub(rf"^\s*<(?:{ours})>[\s,:]*", "", text)
    names = {str(person.get("id")): _name_person(person, person.get("member")) for person in _rows(message, "mentions")}
    shown = _PERSON.sub(lambda found: f"@{names[found[1]]}" if names.get(found[1]) else found[0], bare or text)
    return _EMOJI.sub(r":\1:", shown)


def _read_reply(message: JsonObject) -> JsonObject | None:
    replied = message.get("referenced_message")
    return replied if isinstance(replied, Mapping) and message.get("type") == _REPLY else None


def _read_forwarded(message: JsonObject) -> JsonObject | None:
    reference = message.get("message_reference")
    if not isinstance(reference, Mapping) or reference.get("type") != _FORWARD:
        return None
    first = next(_rows(message, "message_snapshots"), {}).get("message")
    return first if isinstance(first, Mapping) else {}


def _show_forwarded(snapshot: JsonObject | None) -> str:
    """A line before words that somebody else wrote. So a forwarded command is none, either."""
    if snapshot is None:
        return ""
    content = snapshot.get("content")
    return f"[forwarded]\n{content if isinstance(content, str) else ''}".rstrip()


# --- what is no text


def _read_files(message: JsonObject, place: ChannelPlace, number: str) -> Iterator[FileRef]:
    for file in _rows(message, "attachments"):
        remote = f"{place.channel}/{number}/{_text(file, 'id')}"
        kind = str(file.get("content_type") or "").partition("/")[0]
        size, length = file.get("size"), file.get("duration_secs")
        yield FileRef(
            "",
            make_safe_name(str(file.get("filename") or "unnamed")),
            kind if kind in ("image", "audio") else "file",
            size if isinstance(size, int) else 0,
            remote,
            int(length) if isinstance(length, int | float) else 0,
        )


def find_file_url(body: Any, attachment: str) -> str:
    """Where the bytes of an attachment are now: addresses are good for a day only. Empty: it is not there."""
    message = _as_object(body, "message")
    for source in (message, _read_forwarded(message) or {}):
        for file in _rows(source, "attachments"):
            if str(file.get("id")) == attachment and isinstance(file.get("url"), str):
                return str(file["url"])
    return ""


def _describe(message: JsonObject) -> str:
    """A line for each thing that is neither text nor a file."""
    stickers = [f"[sticker {_clean_line(str(one.get('name')))}]" for one in _rows(message, "sticker_items")]
    poll = message.get("poll")
    if isinstance(poll, Mapping):
        answers = [_read_poll_text(one.get("poll_media")) for one in _rows(poll, "answers")]
        stickers.append(f"[poll {_clean_line(_read_poll_text(poll.get('question')))} ({' / '.join(answers)})]")
    return "\n".join(stickers)


def _read_poll_text(media: Any) -> str:
    return _clean_line(str(media.get("text") or "")) if isinstance(media, Mapping) else ""


def _clean_line(text: str) -> str:
    return " ".join(text.replace("[", "(").replace("]", ")").split())


# --- buttons and commands


def read_interaction(body: Any, place: ChannelPlace, me: DiscordSelf) -> Interacted | LeftOut:
    """What was pressed or chosen; OddDiscordEvent when it is not as documented."""
    event = _as_object(body, "interaction")
    if event.get("type") not in (COMMAND, BUTTON):
        return LeftOut("an interaction of a kind that we do not offer")
    read = _read_chosen if event["type"] == COMMAND else _read_pressed
    member = event.get("member")
    person = member.get("user") if isinstance(member, Mapping) else event.get("user")
    inbound = read(event, place.find_address(me.account), me)
    if isinstance(inbound, LeftOut):
        return inbound
    who, number = _as_object(person, "user"), _text(event, "id")
    whole = replace(
        inbound,
        sender=_text(who, "id"),
        sender_name=_name_person(who, member),
        mentioned=True,
        received=read_time(number),
    )
    return Interacted(whole, number, _text(event, "token"), event["type"] == COMMAND)


def _read_chosen(event: JsonObject, address: Address, me: DiscordSelf) -> Inbound | LeftOut:
    data = _as_object(event.get("data"), "data")
    name = _text(data, "name")
    words = [str(option.get("value") or "") for option in _rows(data, "options")]
    text = " ".join([f"/{me.commands.get(name, name)}", *words]).strip()
    return Inbound(address, f"command-{_text(event, 'id')}", "", text)


def _read_pressed(event: JsonObject, address: Address, me: DiscordSelf) -> Inbound | LeftOut:
    del me
    data, message = _as_object(event.get("data"), "data"), event.get("message")
    question, mark, index = str(data.get("custom_id") or "").rpartition(":")
    if not mark or not index.isdecimal() or not isinstance(message, Mapping):
        return LeftOut("a button that is not ours")
    return Inbound(
        address,
        f"press-{_text(event, 'id')}",
        "",
        _find_label(message, str(data["custom_id"])) or str(int(index) + 1),
        question=question,
        choice=str(int(index)),
        reply_to=str(message.get("id") or ""),
    )


def _find_label(message: JsonObject, custom_id: str) -> str:
    """The whole label of the pressed button; empty when it is not told, or was shortened."""
    for row in _rows(message, "components"):
        for button in _rows(row, "components"):
            if button.get("custom_id") == custom_id:
                label = str(button.get("label") or "")
                return "" if label.endswith(CUT) else label
    return ""


# --- fields


def read_channel_id(body: Any) -> str:
    """The channel of a message or an interaction; OddDiscordEvent when it has none."""
    return _text(_as_object(body, "event"), "channel_id")


def read_own_roles(guild: Any, bot: str) -> frozenset[str]:
    """The roles of a server that belong to the bot."""
    found = set()
    for role in _rows(_as_object(guild, "guild"), "roles"):
        tags = role.get("tags")
        if isinstance(tags, Mapping) and str(tags.get("bot_id")) == bot:
            found.add(str(role.get("id")))
    return frozenset(found)


def read_places(guild: Any) -> list[ChannelPlace]:
    """The channels and threads of a server."""
    told = _as_object(guild, "guild")
    number = _text(told, "id")
    rows = [*_rows(told, "channels"), *_rows(told, "threads")]
    return [read_place({**row, "guild_id": number}) for row in rows]


def _rows(value: JsonObject, field: str) -> Iterator[JsonObject]:
    found = value.get(field)
    yield from (row for row in found if isinstance(row, Mapping)) if isinstance(found, list) else ()


def _as_object(value: Any, name: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise OddDiscordEvent(f"{name} is no object")
    return value


def _text(value: JsonObject, field: str) -> str:
    """An id, a name or a token; ids may come as numbers."""
    found = value.get(field)
    if isinstance(found, bool) or not isinstance(found, int | str) or found == "":
        raise OddDiscordEvent(f"{field} is missing")
    return str(found)
