"""What Telegram tells: an update, as raw JSON, becomes a message or a note on a chat. Pure.

Of a field that is missing or of another type only its name gets into an error, never what people wrote.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.platforms.telegram import SPEC
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.text.file_names import make_safe_name
from hermes_base.text.own_name import drop_name

JsonObject = Mapping[str, Any]
CUT = "…"  # the end of a button's label that was too long


@dataclass(frozen=True, slots=True)
class BotSelf:
    """Who we are there."""

    account: str
    id: int
    name: str  # without the @
    commands: Mapping[str, str]  # of the menu: as Telegram has them -> as they are called


@dataclass(frozen=True, slots=True)
class Press:
    """A pressed button; `query` is to be answered when it is stored."""

    inbound: Inbound
    query: str


@dataclass(frozen=True, slots=True)
class Membership:
    """We were let into a chat, or put out of it."""

    chat: str
    is_in: bool


@dataclass(frozen=True, slots=True)
class GroupMove:
    """A group became a supergroup, under another id."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing for us, and why."""

    reason: str
    query: str = ""  # of a button: its person waits for a sign all the same


UpdateRead = Inbound | Press | Membership | GroupMove | Ignored


class OddUpdate(ValueError):
    """An update that is not as documented."""


def read_update(update: Any, me: BotSelf) -> UpdateRead:
    """What an update says; OddUpdate when it is not as documented."""
    update = _as_object(update, "update")
    for kind, read in _READERS.items():
        if kind in update:
            return read(_as_object(update[kind], kind), me)
    kinds = sorted(key for key in update if key != "update_id")
    return Ignored(f"of a kind that is not asked for ({', '.join(kinds)})")


def read_update_id(update: Any) -> int | None:
    """The number of an update; None: it has none."""
    number = update.get("update_id") if isinstance(update, Mapping) else None
    return number if isinstance(number, int) else None


# --- messages


def _read_message(message: JsonObject, me: BotSelf) -> UpdateRead:
    chat = _object(message, "chat")
    address = _read_address(chat, message, me.account)
    for field, old, new in (
        ("migrate_to_chat_id", address.chat, str(message.get("migrate_to_chat_id"))),
        ("migrate_from_chat_id", str(message.get("migrate_from_chat_id")), address.chat),
    ):
        if field in message:
            return GroupMove(old, new)
    if "forum_topic_reopened" in message:
        return Membership(address.chat, True)
    sender = _read_sender(message)
    if isinstance(sender, Ignored) or address.kind == "channel":
        return sender if isinstance(sender, Ignored) else Ignored("a post of a channel")
    text, entities = _read_text(message)
    if "edit_date" in message and "location" in message:
        return Ignored("a place that moves")
    shown = "\n".join(part for part in (_show_links(text, entities), _describe(message)) if part)
    files = _read_files(message)
    if not shown and not files:
        return Ignored("a service message")
    shown, addressee = _read_command(drop_name(shown, _find_name(text, entities, me)), me)
    if addressee and addressee != me.name.lower():
        return Ignored("a command for another bot")
    replied, origin = _read_reply(message), _show_origin(message)
    return Inbound(
        address,
        str(_number(message, "message_id")),
        sender[0],
        origin + shown,
        revision=_name_revision(message),
        sender_name=sender[1],
        mentioned=bool(addressee) or _names_us(text, entities, me) or _sender_id(replied) == me.id,
        reply_to=str(replied["message_id"]) if replied else "",
        quote=_read_quote(message, replied),
        forwarded=bool(origin) or bool(replied and _show_origin(replied)),
        files=files,
        source=str(me.id),
        album=str(message.get("media_group_id") or ""),
        received=float(message.get("edit_date") or _number(message, "date")),
    )


def _name_revision(message: JsonObject) -> str:
    """Which edit it is. Telegram tells whole seconds only, so what was written counts, too."""
    if "edit_date" not in message:
        return ""
    text, entities = _read_text(message)
    return f"{_number(message, 'edit_date')}-{zlib.crc32(repr((text, entities)).encode('utf-8', 'replace')):08x}"


def _read_address(chat: JsonObject, message: JsonObject, account: str) -> Address:
    kind = {"private": "dm", "channel": "channel"}.get(str(chat.get("type")), "group")
    # Answers in groups without topics have a thread id, too; and the General topic is no thread.
    thread = message.get("message_thread_id") if message.get("is_topic_message") is True else None
    return Address(SPEC.name, account, str(_number(chat, "id")), kind, str(thread) if thread not in (None, 1) else "")


def _read_sender(message: JsonObject) -> tuple[str, str] | Ignored:
    """The id and the name of whoever wrote. Who writes in the name of a chat is that chat, and nobody else (G2)."""
    if message.get("is_automatic_forward"):
        return Ignored("a post of the linked channel")
    if "sender_chat" in message:
        chat = _object(message, "sender_chat")
        return str(_number(chat, "id")), str(chat.get("title") or chat.get("username") or "")
    if "from" not in message:
        return Ignored("without a sender")
    person = _object(message, "from")
    if person.get("is_bot") is True:
        return Ignored("written by a bot")
    return str(_number(person, "id")), _name_person(person)


def _name_person(person: JsonObject) -> str:
    names = (person.get("first_name"), person.get("last_name"))
    return " ".join(str(name) for name in names if name) or str(person.get("username") or "")


def _read_text(message: JsonObject) -> tuple[str, list[JsonObject]]:
    for field, marks in (("text", "entities"), ("caption", "caption_entities")):
        if isinstance(text := message.get(field), str):
            found = message.get(marks)
            return text, [mark for mark in found if isinstance(mark, Mapping)] if isinstance(found, list) else []
    return "", []


# --- the text


def cut_utf16(text: str, offset: Any, length: Any) -> str:
    """A stretch of a text, counted as Telegram counts: in UTF-16 units."""
    if not isinstance(offset, int) or not isinstance(length, int) or offset < 0 or length < 0:
        return ""
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def _show_links(text: str, entities: list[JsonObject]) -> str:
    """The text with the addresses that stand behind words of it."""
    units = text.encode("utf-16-le", "surrogatepass")
    ends = {}
    for mark in entities:
        offset, length, url = mark.get("offset"), mark.get("length"), mark.get("url")
        if mark.get("type") == "text_link" and isinstance(offset, int) and isinstance(length, int) and url:
            ends[2 * (offset + length)] = f" ({url})".encode("utf-16-le", "surrogatepass")
    for end in sorted((end for end in ends if 0 < end <= len(units)), reverse=True):
        units = units[:end] + ends[end] + units[end:]
    return units.decode("utf-16-le", "replace")


_COMMAND = re.compile(r"/([A-Za-z0-9_]+)(?:@([A-Za-z0-9_]+))?(?=\s|$)")


def _read_command(text: str, me: BotSelf) -> tuple[str, str]:
    """The text with a command as it is called here, and the bot that it names."""
    typed = _COMMAND.match(text)
    if typed is None:
        return text, ""
    name = me.commands.get(typed[1].lower(), typed[1])
    return f"/{name}{text[typed.end() :]}", (typed[2] or "").lower()


def _names_us(text: str, entities: list[JsonObject], me: BotSelf) -> bool:
    return any(_is_our_name(text, mark, me) for mark in entities)


def _is_our_name(text: str, mark: JsonObject, me: BotSelf) -> bool:
    if mark.get("type") == "text_mention":
        return _sender_id({"from": mark.get("user")}) == me.id
    named = cut_utf16(text, mark.get("offset"), mark.get("length")) if mark.get("type") == "mention" else ""
    return named.lower() == f"@{me.name}".lower()


def _find_name(text: str, entities: list[JsonObject], me: BotSelf) -> str:
    """Our name as the text begins with it; empty: it does not."""
    first = (mark for mark in entities if mark.get("offset") == 0 and _is_our_name(text, mark, me))
    return next((cut_utf16(text, 0, mark.get("length")) for mark in first), "")


def _show_origin(message: JsonObject) -> str:
    """A line before words that somebody else wrote, or another bot. So a forwarded command is none, either."""
    if isinstance(bot := message.get("via_bot"), Mapping):
        return f"[written by the bot {_clean_line(_name_person(bot))}]\n"
    if not isinstance(origin := message.get("forward_origin"), Mapping):
        return ""
    who = origin.get("sender_user") or origin.get("sender_chat") or origin.get("chat")
    name = (who.get("title") or _name_person(who)) if isinstance(who, Mapping) else origin.get("sender_user_name")
    return f"[forwarded from {_clean_line(str(name or 'somebody'))}]\n"


def _clean_line(text: str) -> str:
    return " ".join(text.replace("[", "(").replace("]", ")").split())


# --- what it replies to


def _read_reply(message: JsonObject) -> JsonObject | None:
    """The message that it replies to. What is written in a topic replies, in form, to the topic's first line."""
    replied = message.get("reply_to_message")
    if not isinstance(replied, Mapping) or "forum_topic_created" in replied or "message_id" not in replied:
        return None
    return replied


def _sender_id(message: JsonObject | None) -> int | None:
    sender = message.get("from") if message else None
    number = sender.get("id") if isinstance(sender, Mapping) else None
    return number if isinstance(number, int) else None


def _read_quote(message: JsonObject, replied: JsonObject | None) -> str:
    chosen = message.get("quote")
    if isinstance(chosen, Mapping) and isinstance(chosen.get("text"), str):
        return str(chosen["text"])
    return _read_text(replied)[0] if replied else ""


# --- what is no text

#: Field of a message, kind of file, and the name of one that has none.
_FILES = (
    ("animation", "file", "animation_{}.mp4"),
    ("document", "file", "document_{}"),
    ("audio", "audio", "audio_{}.mp3"),
    ("voice", "audio", "voice_{}.ogg"),
    ("video", "file", "video_{}.mp4"),
    ("video_note", "file", "video_note_{}.mp4"),
)
_KINDS = {"image": "image", "audio": "audio"}


def _read_files(message: JsonObject) -> tuple[FileRef, ...]:
    sizes = message.get("photo")
    if isinstance(sizes, list) and sizes:
        largest = max((_as_object(size, "photo") for size in sizes), key=lambda size: int(size.get("width") or 0))
        return (_read_file(largest, "image", "photo_{}.jpg"),)
    for field, kind, name in _FILES:
        if field in message:
            return (_read_file(_object(message, field), kind, name),)
    return ()


def _read_file(file: JsonObject, kind: str, name: str) -> FileRef:
    remote = file.get("file_id")
    if not isinstance(remote, str) or not remote:
        raise OddUpdate("file_id is missing")
    given = file.get("file_name") or name.format(file.get("file_unique_id") or "unnamed")
    if kind == "file":
        kind = _KINDS.get(str(file.get("mime_type") or "").partition("/")[0], kind)
    size = file.get("file_size")
    return FileRef("", make_safe_name(str(given)), kind, size if isinstance(size, int) else 0, remote)


def _show_place(place: JsonObject) -> str:
    return f"{place.get('latitude')}, {place.get('longitude')}"


def _show_venue(venue: JsonObject) -> str:
    where = venue.get("location")
    return f"{venue.get('title')}, {venue.get('address')} ({_show_place(where if isinstance(where, Mapping) else {})})"


def _show_contact(contact: JsonObject) -> str:
    return f"{_name_person(contact)}, {contact.get('phone_number')}"


def _show_poll(poll: JsonObject) -> str:
    options = poll.get("options")
    listed = options if isinstance(options, list) else []
    texts = [str(option.get("text")) for option in listed if isinstance(option, Mapping)]
    return f"{poll.get('question')} ({' / '.join(texts)})"


def _show_nothing(_: JsonObject) -> str:
    return ""


#: Field of a message, the word for it, and what is said of it; the first that is there.
_DESCRIBED: tuple[tuple[str, str, Callable[[JsonObject], str]], ...] = (
    ("sticker", "sticker", lambda sticker: str(sticker.get("emoji") or "")),
    ("venue", "place", _show_venue),
    ("location", "location", _show_place),
    ("contact", "contact", _show_contact),
    ("poll", "poll", _show_poll),
    ("dice", "dice", lambda dice: f"{dice.get('emoji')} {dice.get('value')}"),
    ("game", "game", lambda game: str(game.get("title") or "")),
    ("checklist", "checklist", lambda checklist: str(checklist.get("title") or "")),
    ("story", "story", _show_nothing),
    ("invoice", "invoice", lambda invoice: str(invoice.get("title") or "")),
    ("paid_media", "paid media", _show_nothing),
    ("giveaway", "giveaway", _show_nothing),
)


def _describe(message: JsonObject) -> str:
    """A line for what is neither text nor a file."""
    for field, word, show in _DESCRIBED:
        if field in message:
            return f"[{f'{word} {_clean_line(show(_object(message, field)))}'.strip()}]"
    return ""


# --- buttons and chats


def _read_press(query: JsonObject, me: BotSelf) -> UpdateRead:
    number, message = str(query.get("id") or ""), query.get("message")
    question, _, index = str(query.get("data") or "").rpartition(":")
    if not number or not question or not index.isdecimal() or not isinstance(message, Mapping):
        return Ignored("a button that is not ours", number)
    person = _object(query, "from")
    address = _read_address(_object(message, "chat"), message, me.account)
    inbound = Inbound(
        address,
        f"press-{number}",
        str(_number(person, "id")),
        _find_label(message, str(query["data"])) or str(int(index) + 1),
        sender_name=_name_person(person),
        mentioned=True,
        question=question,
        choice=str(int(index)),
        source=str(me.id),
        reply_to=str(message.get("message_id") or ""),
    )
    return Press(inbound, number)


def _find_label(message: JsonObject, data: str) -> str:
    """The whole label of the pressed button; empty when it is not told, or was shortened."""
    markup = message.get("reply_markup")
    rows = markup.get("inline_keyboard") if isinstance(markup, Mapping) else None
    for button in _list_buttons(rows):
        if button.get("callback_data") == data:
            label = str(button.get("text") or "")
            return "" if label.endswith(CUT) else label
    return ""


def _list_buttons(rows: Any) -> Iterator[JsonObject]:
    for row in rows if isinstance(rows, list) else ():
        yield from (button for button in row if isinstance(button, Mapping)) if isinstance(row, list) else ()


def _read_membership(change: JsonObject, me: BotSelf) -> UpdateRead:
    del me
    after = _object(change, "new_chat_member")
    status = after.get("status")
    restricted = status == "restricted" and after.get("is_member") is True and after.get("can_send_messages") is True
    return Membership(
        str(_number(_object(change, "chat"), "id")), status in ("member", "administrator", "creator") or restricted
    )


_READERS: Mapping[str, Callable[[JsonObject, BotSelf], UpdateRead]] = {
    "message": _read_message,
    "edited_message": _read_message,
    "callback_query": _read_press,
    "my_chat_member": _read_membership,
}
#: What Telegram is asked for.
UPDATE_KINDS = tuple(_READERS)


# --- fields


def _as_object(value: Any, name: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise OddUpdate(f"{name} is no object")
    return value


def _object(value: JsonObject, field: str) -> JsonObject:
    return _as_object(value.get(field), field)


def _number(value: JsonObject, field: str) -> int:
    number = value.get(field)
    if not isinstance(number, int) or isinstance(number, bool):
        raise OddUpdate(f"{field} is no number")
    return number
