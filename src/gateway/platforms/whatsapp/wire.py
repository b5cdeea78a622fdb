"""What WhatsApp tells: the body of a webhook becomes messages, and notes on messages of ours. Pure.

Of a field that is missing or of another type only its name gets into an error, never what people wrote.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.platforms.whatsapp import SPEC
from gateway.platforms.whatsapp.refusals import GraphTrouble
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.text.file_names import make_safe_name

JsonObject = Mapping[str, Any]
CUT = "…"  # the end of a label that was too long
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class NumberSelf:
    """Who we are there."""

    account: str
    number: str  # the id of our number


@dataclass(frozen=True, slots=True)
class SentStatus:
    """What became of a message of ours."""

    message: str
    state: str  # sent, delivered, read, failed, ...
    address: Address
    at: float
    key: str = ""  # that went with it
    trouble: GraphTrouble | None = None


@dataclass(frozen=True, slots=True)
class NumberChange:
    """Somebody has another number from now on, and nothing else says so."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Nothing for us, and why."""

    reason: str


HookItem = Inbound | SentStatus | NumberChange | PassedOver


class OddHook(ValueError):
    """A webhook that is not as documented."""


def read_hook(body: bytes, me: NumberSelf) -> list[HookItem]:
    """All that a webhook brings: messages in the order of their times, then the rest. OddHook when it is no webhook of
    WhatsApp; a piece of it that cannot be read takes none of the others with it."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OddHook("it is no JSON") from error
    if not isinstance(document, Mapping) or document.get("object") != "whatsapp_business_account":
        raise OddHook("it is not about a WhatsApp account")
    items = [item for change in _list_changes(document) for item in _read_change(change, me)]
    messages = [item for item in items if isinstance(item, Inbound)]
    return [*sorted(messages, key=lambda item: item.received), *(one for one in items if not isinstance(one, Inbound))]


def _list_changes(document: JsonObject) -> Iterator[JsonObject]:
    for entry in _list(document, "entry"):
        yield from _list(entry, "changes")


def _read_change(change: JsonObject, me: NumberSelf) -> Iterator[HookItem]:
    value = change.get("value")
    if change.get("field") != "messages" or not isinstance(value, Mapping):
        yield PassedOver(f"of a field that is not read ({change.get('field')})")
        return
    metadata = value.get("metadata")
    number = metadata.get("phone_number_id") if isinstance(metadata, Mapping) else None
    if number != me.number:
        yield PassedOver("for another number")
        return
    names = dict(_list_names(value))
    for message in _list(value, "messages"):
        yield _guard(_read_message, message, me, names)
    for status in _list(value, "statuses"):
        yield _guard(_read_status, status, me, names)
    for error in _list(value, "errors"):
        yield PassedOver(f"WhatsApp reports error {error.get('code')}")


def _guard(
    read: Callable[[JsonObject, NumberSelf, Mapping[str, str]], HookItem],
    piece: JsonObject,
    me: NumberSelf,
    names: Mapping[str, str],
) -> HookItem:
    try:
        return read(piece, me, names)
    except OddHook as odd:
        return PassedOver(f"it cannot be read: {odd}")


def _list_names(value: JsonObject) -> Iterator[tuple[str, str]]:
    """Names of people, for eyes only, by each of their ids."""
    for contact in _list(value, "contacts"):
        profile = contact.get("profile")
        name = profile.get("name") if isinstance(profile, Mapping) else None
        for id in (contact.get("wa_id"), contact.get("user_id")):
            if isinstance(id, str) and isinstance(name, str):
                yield id, name


# --- messages


@dataclass(frozen=True, slots=True)
class MessageContent:
    text: str = ""
    files: tuple[FileRef, ...] = ()
    album: str = ""
    question: str = ""
    choice: str = ""
    about: str = ""  # the message that it is about


def _read_message(message: JsonObject, me: NumberSelf, names: Mapping[str, str]) -> HookItem:
    kind = str(message.get("type") or "unknown")
    if kind == "system":
        return _read_system(message)
    if message.get("group_id"):
        return PassedOver("said in a group")
    sender, id = _find_sender(message), _text(message, "id")
    if kind == "reaction" and not _object(message, kind).get("emoji"):
        return PassedOver("a reaction that was taken back")
    content = _READERS.get(kind, _read_unknown)(message, kind)
    context = message.get("context")
    context = context if isinstance(context, Mapping) else {}
    forwarded = context.get("forwarded") is True or context.get("frequently_forwarded") is True
    replied = context.get("id")
    return Inbound(
        Address(SPEC.name, me.account, sender),
        id,
        sender,
        f"[forwarded]\n{content.text}".strip() if forwarded else content.text,
        sender_name=names.get(sender, ""),
        question=content.question,
        choice=content.choice,
        reply_to=content.about or (replied if isinstance(replied, str) else ""),
        forwarded=forwarded,
        files=content.files,
        album=content.album,
        received=_read_time(message),
    )


def _find_sender(message: JsonObject) -> str:
    """The number of whoever wrote; of somebody who shows none, the id that WhatsApp gives them for us (G2)."""
    for field in ("from", "from_user_id"):
        if isinstance(found := message.get(field), str) and found:
            if "/" in found or len(found) > 160:
                raise OddHook(f"{field} is no id")
            return found
    raise OddHook("from is missing")


def _read_time(message: JsonObject) -> float:
    told = message.get("timestamp")
    if isinstance(told, str) and told.isascii() and told.isdecimal() and len(told) <= 12:
        return float(told)
    raise OddHook("timestamp is no time")


def _read_system(message: JsonObject) -> HookItem:
    system = _object(message, "system")
    new = system.get("wa_id") or system.get("new_wa_id") or system.get("user_id")
    if isinstance(new, str) and new:
        return NumberChange(str(message.get("from") or system.get("previous_user_id") or ""), new)
    return PassedOver("a note of WhatsApp itself")


def _read_text(message: JsonObject, kind: str) -> MessageContent:
    return MessageContent(_text(_object(message, kind), "body"))


#: By the type of a message: kind of file, and its ending where its own type is not known here.
_FILES: Mapping[str, tuple[str, str]] = {
    "image": ("image", "jpg"),
    "sticker": ("image", "webp"),
    "audio": ("audio", "ogg"),
    "video": ("file", "mp4"),
    "document": ("file", "bin"),
}
_ENDINGS: Mapping[str, str] = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "audio/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/aac": "aac",
    "audio/amr": "amr",
    "video/mp4": "mp4",
    "video/3gpp": "3gp",
    "application/pdf": "pdf",
    "text/plain": "txt",
}
_KINDS = {"image": "image", "audio": "audio"}
#: Files that people choose several of at once come one by one, and nothing says that they belong together: those that
#: were sent within a moment do.
_CHOSEN_TOGETHER = frozenset({"image", "video", "document"})


def _read_media(message: JsonObject, kind: str) -> MessageContent:
    media = _object(message, kind)
    remote = _text(media, "id")
    mime = str(media.get("mime_type") or "").partition(";")[0].strip().lower()
    file_kind, ending = _FILES[kind]
    word = "voice" if media.get("voice") is True else kind
    name = media.get("filename") or f"{word}_{remote[-12:]}.{_ENDINGS.get(mime, ending)}"
    file_kind = _KINDS.get(mime.partition("/")[0], file_kind)
    caption = media.get("caption")
    text = caption if isinstance(caption, str) else "[sticker]" if kind == "sticker" else ""
    file = FileRef("", make_safe_name(str(name)), file_kind, remote=remote)
    return MessageContent(text, (file,), "files" if kind in _CHOSEN_TOGETHER else "")


def _read_press(message: JsonObject, kind: str) -> MessageContent:
    """A chosen button or row. Its id is ours: the question, and the place of the choice."""
    interactive = _object(message, kind)
    reply = interactive.get(str(interactive.get("type")))
    if not isinstance(reply, Mapping) or "id" not in reply:
        return _read_unknown(message, f"interactive, {interactive.get('type')}")
    question, mark, index = str(reply["id"]).rpartition(":")
    title, whole = str(reply.get("title") or ""), str(reply.get("description") or "")
    label = title if not title.endswith(CUT) else whole if whole and not whole.endswith(CUT) else ""
    if not mark or not (index.isascii() and index.isdecimal() and len(index) <= 3):
        return MessageContent(title)
    return MessageContent(label or str(int(index) + 1), question=question, choice=str(int(index)))


def _read_button(message: JsonObject, kind: str) -> MessageContent:
    return MessageContent(_text(_object(message, kind), "text"))


def _read_reaction(message: JsonObject, kind: str) -> MessageContent:
    reaction = _object(message, kind)
    return MessageContent(
        f"[reaction {_clean_line(_text(reaction, 'emoji'))}]", about=str(reaction.get("message_id") or "")
    )


def _read_location(message: JsonObject, kind: str) -> MessageContent:
    place = _object(message, kind)
    named = ", ".join(str(place[field]) for field in ("name", "address") if place.get(field))
    where = f"{place.get('latitude')}, {place.get('longitude')}"
    return MessageContent(f"[location {_clean_line(f'{named} ({where})' if named else where)}]")


def _read_contacts(message: JsonObject, kind: str) -> MessageContent:
    lines = []
    for contact in _list(message, kind):
        name = contact.get("name")
        shown = str(name.get("formatted_name") or "") if isinstance(name, Mapping) else ""
        phones = [str(phone["phone"]) for phone in _list(contact, "phones") if phone.get("phone")]
        lines.append(f"[contact {_clean_line(', '.join(filter(None, (shown, *phones))))}]")
    return MessageContent("\n".join(lines) or "[contact]")


def _read_unknown(message: JsonObject, kind: str) -> MessageContent:
    del message
    what = "" if kind in ("unsupported", "unknown") else f" ({_clean_line(kind)})"
    return MessageContent(f"[a message of a kind that WhatsApp does not hand over{what}]")


_READERS: Mapping[str, Callable[[JsonObject, str], MessageContent]] = {
    "text": _read_text,
    **dict.fromkeys(_FILES, _read_media),
    "interactive": _read_press,
    "button": _read_button,
    "reaction": _read_reaction,
    "location": _read_location,
    "contacts": _read_contacts,
}


def _clean_line(text: str) -> str:
    return " ".join(text.replace("[", "(").replace("]", ")").split())


# --- what became of messages of ours


def _read_status(status: JsonObject, me: NumberSelf, names: Mapping[str, str]) -> HookItem:
    del names
    who = status.get("recipient_id") or status.get("recipient_user_id")
    trouble = None
    state = _text(status, "status")
    if state == FAILED:
        trouble = _read_errors(status)
    key = status.get("biz_opaque_callback_data")
    address = Address(SPEC.name, me.account, who if isinstance(who, str) else "")
    key = key if isinstance(key, str) else ""
    return SentStatus(_text(status, "id"), state, address, _read_time(status), key, trouble)


def _read_errors(status: JsonObject) -> GraphTrouble:
    error = next(_list(status, "errors"), {})
    data = error.get("error_data")
    details = data.get("details") if isinstance(data, Mapping) else None
    code = error.get("code")
    text = details or error.get("message") or error.get("title") or "no reason is given"
    return GraphTrouble(code if isinstance(code, int) else 1, str(text), status=400)


# --- fields


def _list(value: JsonObject, field: str) -> Iterator[JsonObject]:
    """The objects of a list; what is none, and what is no list, is left out."""
    found = value.get(field)
    yield from (one for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()


def _object(value: JsonObject, field: str) -> JsonObject:
    found = value.get(field)
    if not isinstance(found, Mapping):
        raise OddHook(f"{field} is no object")
    return found


def _text(value: JsonObject, field: str) -> str:
    found = value.get(field)
    if not isinstance(found, str) or not found:
        raise OddHook(f"{field} is no text")
    return found
