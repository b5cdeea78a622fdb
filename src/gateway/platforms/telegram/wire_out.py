"""What Telegram is told: a part, a file or a sign becomes the parameters of a call. Pure."""

import hashlib
import hmac
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.platforms.face import MenuCommand, Part
from gateway.platforms.telegram.wire import CUT, UPDATE_KINDS
from hermes_base.inbound import Address, FileRef
from hermes_base.text.whole_text import clean_text

HTML = "telegram_html"  # the dialect of parts that are sent with their markup
MOST_TEXT, MOST_CAPTION = 4096, 1024  # UTF-16 units, without markup
MOST_PHOTO_BYTES = 10_000_000
MOST_BUTTONS, MOST_BUTTON_BYTES, MOST_LABEL = 100, 64, 60
SHORT_LABEL, SHORT_ROW = 18, 3  # so many buttons with labels as short as this stand side by side
MOST_COMMANDS, MOST_SUMMARY = 100, 256
TAKEN_SIGN = "👀"
POLL_SECONDS = 30
_SECRET_FOR = b"hermes telegram webhook"


@dataclass(frozen=True, slots=True)
class BotCall:
    """A method of the Bot API and what it is given; `file`: the field that takes the bytes of the file."""

    method: str
    params: Mapping[str, Any]
    file: str = ""


# --- messages


def make_message(part: Part) -> BotCall:
    return BotCall(
        "sendMessage",
        {
            **_place(part.address),
            **_text("text", part),
            **_reply(part),
            **_buttons(part),
            **_NO_PREVIEW,
        },
    )


def make_edit(message: str, part: Part) -> BotCall:
    """Without choices the buttons of the message go."""
    place = {"chat_id": _chat_id(part.address), "message_id": int(message)}
    return BotCall("editMessageText", {**place, **_text("text", part), **_buttons(part), **_NO_PREVIEW})


def make_typing(address: Address) -> BotCall:
    return BotCall("sendChatAction", {**_place(address), "action": "typing"})


def make_reaction(address: Address, message: str) -> BotCall:
    reaction = [{"type": "emoji", "emoji": TAKEN_SIGN}]
    return BotCall(
        "setMessageReaction", {"chat_id": _chat_id(address), "message_id": int(message), "reaction": reaction}
    )


#: Telegram's servers would open the first address in a text to show a picture of it, before anybody has clicked it.
_NO_PREVIEW: Mapping[str, Any] = {"link_preview_options": {"is_disabled": True}}


def is_message_id(platform_id: str) -> bool:
    return platform_id.isascii() and platform_id.isdecimal()


def _place(address: Address) -> dict[str, Any]:
    thread = {"message_thread_id": int(address.thread)} if is_message_id(address.thread) else {}
    return {"chat_id": _chat_id(address), **thread}


def _chat_id(address: Address) -> int | str:
    chat = address.chat
    return int(chat) if is_message_id(chat.removeprefix("-")) else chat


def _text(field: str, part: Part) -> dict[str, Any]:
    marked = {"parse_mode": "HTML"} if part.markup == HTML else {}
    return {field: clean_text(part.text), **marked}


def _reply(part: Part) -> dict[str, Any]:
    if not is_message_id(part.reply_to):
        return {}
    return {"reply_parameters": {"message_id": int(part.reply_to), "allow_sending_without_reply": True}}


def measure_shown(part: Part) -> int:
    """UTF-16 units of what people see of the text."""
    shown = html.unescape(re.sub(r"<[^<>]*>", "", part.text)) if part.markup == HTML else part.text
    return len(shown.encode("utf-16-le", "surrogatepass")) // 2


# --- buttons


def _buttons(part: Part) -> dict[str, Any]:
    if not part.question or not part.choices:
        return {}
    buttons = [
        {"text": _label(choice), "callback_data": f"{part.question}:{index}"}
        for index, choice in enumerate(part.choices[:MOST_BUTTONS])
    ]
    if any(len(button["callback_data"].encode()) > MOST_BUTTON_BYTES for button in buttons):
        return {}  # a question whose name is this long is answered by a text
    wide = any(len(button["text"]) > SHORT_LABEL for button in buttons)
    step = 1 if wide else SHORT_ROW
    rows = [buttons[start : start + step] for start in range(0, len(buttons), step)]
    return {"reply_markup": {"inline_keyboard": rows}}


def _label(choice: str) -> str:
    line = " ".join(clean_text(choice).split()) or "?"
    return line if len(line) <= MOST_LABEL else line[: MOST_LABEL - 1] + CUT


# --- files

#: By kind and by the end of the name: method, and the field that takes the bytes. All else is a document.
_SENDS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("image", "jpg"): ("sendPhoto", "photo"),
    ("image", "jpeg"): ("sendPhoto", "photo"),
    ("image", "png"): ("sendPhoto", "photo"),
    ("image", "webp"): ("sendPhoto", "photo"),
    ("image", "gif"): ("sendAnimation", "animation"),
    ("audio", "ogg"): ("sendVoice", "voice"),
    ("audio", "opus"): ("sendVoice", "voice"),
    ("audio", "mp3"): ("sendAudio", "audio"),
    ("audio", "m4a"): ("sendAudio", "audio"),
}
_DOCUMENT = ("sendDocument", "document")


def make_file(part: Part, file: FileRef, *, as_document: bool = False) -> BotCall:
    """A file with its caption."""
    send = _SENDS.get((file.kind, file.name.rpartition(".")[2].lower()), _DOCUMENT)
    if as_document or (send[0] == "sendPhoto" and file.size > MOST_PHOTO_BYTES):
        send = _DOCUMENT
    caption = _text("caption", part) if part.text.strip() else {}
    return BotCall(send[0], {**_place(part.address), **caption, **_reply(part), **_buttons(part)}, send[1])


def fits_caption(part: Part) -> bool:
    return measure_shown(part) <= MOST_CAPTION


# --- the menu


def make_menu(commands: Sequence[MenuCommand]) -> tuple[BotCall, dict[str, str]]:
    """The call that sets the menu, and how names of the menu are called here. A name that Telegram does not take is
    left out: it can still be typed."""
    rows, names = [], {}
    for command in commands:
        name = command.name.lower().replace("-", "_")
        if re.fullmatch(r"[a-z0-9_]{1,32}", name) and name not in names:
            names[name] = command.name
            rows.append({"command": name, "description": command.summary.strip()[:MOST_SUMMARY] or name})
    changed = {name: called for name, called in names.items() if name != called}
    return BotCall("setMyCommands", {"commands": rows[:MOST_COMMANDS]}), changed


# --- updates


def make_poll(offset: int | None) -> BotCall:
    start = {} if offset is None else {"offset": offset}
    return BotCall("getUpdates", {**start, "timeout": POLL_SECONDS, "allowed_updates": list(UPDATE_KINDS)})


def make_webhook(url: str, secret: str) -> BotCall:
    return BotCall("setWebhook", {"url": url, "secret_token": secret, "allowed_updates": list(UPDATE_KINDS)})


def derive_secret(token: str, account: str) -> str:
    """What Telegram shows with each request to our webhook: known to whoever has the token, so nothing is stored."""
    return hmac.new(token.encode(), _SECRET_FOR + account.encode(), hashlib.sha256).hexdigest()
