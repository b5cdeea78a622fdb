"""What Discord is told: a part, a file or a sign becomes a call of its HTTP API. Pure."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.platforms.discord.wire import CUT, find_channel
from gateway.platforms.face import MenuCommand, Part
from hermes_base.inbound import Address
from hermes_base.text.whole_text import clean_text

MOST_TEXT = 2000  # signs of a message; Discord may count fewer than UTF-16 does, never more
MOST_BUTTONS, ROW, MOST_LABEL, MOST_ID = 25, 5, 80, 100
SHORT_LABEL, SHORT_ROW = 18, 3  # so many buttons with labels as short as this stand side by side
MOST_COMMANDS, MOST_SUMMARY = 100, 100
MOST_NONCE = 25
PAGE = 100  # messages of one look into the history
TAKEN_SIGN, TAKEN_WORD = "👀", "Taken."
_ONLY_FOR_THEM, _NO_PREVIEW = 1 << 6, 1 << 2  # flags of messages
_ANSWER, _QUIET_ANSWER = 4, 6  # answers to interactions
#: A model's words ring for nobody.
_NO_PINGS: Mapping[str, Any] = {"parse": [], "replied_user": False}


@dataclass(frozen=True, slots=True)
class DiscordCall:
    """A call of the HTTP API: the parts of the address stand in it by name."""

    method: str
    path: str
    parts: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)


# --- messages


def make_message(part: Part, file: str = "") -> DiscordCall:
    """`file`: the name of the file that goes along."""
    body = {
        "content": clean_text(part.text),
        "allowed_mentions": _NO_PINGS,
        "flags": _NO_PREVIEW,  # Discord would open every address in a text, before anybody has clicked it
        **_key(part),
        **_reply(part),
        **_buttons(part),
    }
    if file:
        body["attachments"] = [{"id": 0, "filename": file}]
    return DiscordCall("POST", "/channels/{channel_id}/messages", _place(part.address), body)


def make_edit(message: str, part: Part) -> DiscordCall:
    """Without choices the buttons of the message go."""
    body = {"content": clean_text(part.text), "allowed_mentions": _NO_PINGS, "components": [], **_buttons(part)}
    parts = {**_place(part.address), "message_id": message}
    return DiscordCall("PATCH", "/channels/{channel_id}/messages/{message_id}", parts, body)


def make_typing(address: Address) -> DiscordCall:
    return DiscordCall("POST", "/channels/{channel_id}/typing", _place(address))


def make_reaction(address: Address, message: str) -> DiscordCall:
    parts = {**_place(address), "message_id": message, "emoji": TAKEN_SIGN}
    return DiscordCall("PUT", "/channels/{channel_id}/messages/{message_id}/reactions/{emoji}/@me", parts)


def is_message_id(platform_id: str) -> bool:
    return platform_id.isascii() and platform_id.isdecimal()


def _place(address: Address) -> dict[str, str]:
    return {"channel_id": find_channel(address)}


def name_nonce(part: Part) -> str:
    """What Discord knows a message by for some minutes. A key that only counts rows begins anew with a new home, so
    there the text counts, too; that of a draft stays while its text grows."""
    text = part.text if part.row and part.key.startswith(f"{part.row}:") else ""
    name = "\0".join((part.address.account_key, part.address.chat_key, part.key, text))
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:MOST_NONCE]


def _key(part: Part) -> dict[str, Any]:
    return {"nonce": name_nonce(part), "enforce_nonce": True} if part.key else {}


def _reply(part: Part) -> dict[str, Any]:
    if not is_message_id(part.reply_to):
        return {}
    return {"message_reference": {"message_id": part.reply_to, "fail_if_not_exists": False}}


def measure_text(part: Part) -> int:
    """UTF-16 units."""
    return len(part.text.encode("utf-16-le", "surrogatepass")) // 2


# --- buttons


def _buttons(part: Part) -> dict[str, Any]:
    if not part.question or not part.choices:
        return {}
    wide = any(len(_label(choice)) > SHORT_LABEL for choice in part.choices)
    fits = len(part.choices) <= ROW  # a button of its own row each, as long as there are rows
    step = 1 if wide and fits else ROW if len(part.choices) > ROW * SHORT_ROW else SHORT_ROW
    buttons: list[dict[str, Any]] = [
        {"type": 2, "style": 2, "label": _label(choice), "custom_id": f"{part.question}:{index}"}
        for index, choice in enumerate(part.choices[:MOST_BUTTONS])
    ]
    if any(len(button["custom_id"]) > MOST_ID for button in buttons):
        return {}  # a question whose name is this long is answered by a text
    rows = [{"type": 1, "components": buttons[start : start + step]} for start in range(0, len(buttons), step)]
    return {"components": rows}


def _label(choice: str) -> str:
    line = " ".join(clean_text(choice).split()) or "?"
    return line if len(line) <= MOST_LABEL else line[: MOST_LABEL - 1] + CUT


# --- answers to what was pressed or chosen


def make_answer(interaction: str, token: str, *, is_command: bool) -> DiscordCall:
    """A press is answered by nothing that one sees; a command by a word that only its person sees."""
    word = {"content": TAKEN_WORD, "flags": _ONLY_FOR_THEM, "allowed_mentions": _NO_PINGS}
    body = {"type": _ANSWER, "data": word} if is_command else {"type": _QUIET_ANSWER}
    parts = {"webhook_id": interaction, "webhook_token": token}
    return DiscordCall("POST", "/interactions/{webhook_id}/{webhook_token}/callback", parts, body)


# --- the menu


def make_menu(application: str, commands: Sequence[MenuCommand]) -> tuple[DiscordCall, dict[str, str]]:
    """The call that sets the menu, and how names of the menu are called here. A name that Discord does not take is
    left out: it can still be typed."""
    rows: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for command in commands:
        name = command.name.lower()
        summary = command.summary.strip()[:MOST_SUMMARY] or name
        words = {"name": "text", "description": "What follows the command", "type": 3, "required": False}
        if re.fullmatch(r"[-_a-z0-9]{1,32}", name) and name not in names:
            names[name] = command.name
            rows.append({"name": name, "description": summary, "type": 1, "options": [words]})
    changed = {name: called for name, called in names.items() if name != called}
    call = DiscordCall(
        "PUT", "/applications/{application_id}/commands", {"application_id": application}, rows[:MOST_COMMANDS]
    )
    return call, changed


# --- looking things up


def make_history(channel: str, after: str) -> DiscordCall:
    query = {"after": after, "limit": str(PAGE)}
    return DiscordCall("GET", "/channels/{channel_id}/messages", {"channel_id": channel}, query=query)


def make_channel_look(channel: str) -> DiscordCall:
    return DiscordCall("GET", "/channels/{channel_id}", {"channel_id": channel})


def make_message_look(channel: str, message: str) -> DiscordCall:
    parts = {"channel_id": channel, "message_id": message}
    return DiscordCall("GET", "/channels/{channel_id}/messages/{message_id}", parts)


GET_ME = DiscordCall("GET", "/users/@me")
GET_APPLICATION = DiscordCall("GET", "/applications/@me")
GET_GATEWAY = DiscordCall("GET", "/gateway/bot")
