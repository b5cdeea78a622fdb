"""The calls of the HTTP API: which address is which call, and what each does."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_lab.chats.discord.discord_values import (
    ANSWER_SECONDS,
    API,
    FIELDS,
    INTERACTION_SECONDS,
    LATE_ANSWER,
    LENGTH,
    MOST_COMMAND_SIGNS,
    MOST_COMMANDS,
    MOST_CONTENT,
    MOST_PAGE,
    MOST_SUMMARY,
    NONCE_SECONDS,
    USUAL_PAGE,
    Complain,
    DiscordError,
    JsonObject,
    bad_form,
    too_long,
    unknown,
)
from hermes_lab.chats.discord.discord_world import (
    PLAIN,
    REPLY,
    DiscordBot,
    DiscordChannel,
    DiscordMessage,
    DiscordWorld,
)
from hermes_lab.chats.discord.message_rules import judge_message, read_payload
from hermes_lab.chats.discord.sessions import SessionBook
from hermes_lab.chats.forms import Form, SentFile

_NAME = re.compile(r"[-_'\w]{1,32}")
_BUTTON, _COMMAND = 3, 2  # kinds of interactions
_ANSWERS: Mapping[int, tuple[int, ...]] = {_COMMAND: (4, 5, 9), _BUTTON: (4, 5, 6, 7, 9)}


@dataclass(frozen=True, slots=True)
class DiscordCalling:
    """One call, with the parts of its address by name."""

    world: DiscordWorld
    book: SessionBook
    bot: DiscordBot
    form: Form
    size: int
    parts: Mapping[str, str]
    complain: Complain

    def find_channel(self, *, writes: bool = False) -> DiscordChannel:
        return self.world.find_channel(self.bot, self.parts["channel"], writes=writes)

    def find_message(self) -> DiscordMessage:
        return self.world.find_message(self.find_channel(), self.parts["message"])


Perform = Callable[[DiscordCalling], Any]


def get_me(calling: DiscordCalling) -> Any:
    return calling.bot.describe()


def get_application(calling: DiscordCalling) -> Any:
    return calling.bot.describe_application()


def get_gateway(calling: DiscordCalling) -> Any:
    limit = {"total": 1000, "remaining": 999, "reset_after": 14_400_000, "max_concurrency": 1}
    url = f"{calling.world.address.replace('http', 'ws', 1)}/gateway"
    return {"url": url, "shards": 1, "session_start_limit": limit}


def get_channel(calling: DiscordCalling) -> Any:
    return calling.world.describe_channel(calling.find_channel())


def open_dm(calling: DiscordCalling) -> Any:
    person = calling.world.people.get(str(calling.form.values.get("recipient_id")))
    if person is None:
        raise unknown(10013, "User")
    return calling.world.describe_channel(calling.world.open_dm(calling.bot, person))


# --- messages


def get_messages(calling: DiscordCalling) -> Any:
    channel, asked = calling.find_channel(), calling.form.values
    cursors = [name for name in ("after", "before", "around") if name in asked]
    if len(cursors) > 1:
        raise bad_form("after", "BASE_TYPE_EXCLUSIVE", "Only one of after, before and around can be used.")
    limit = _read_number(asked.get("limit", USUAL_PAGE), "limit")
    if not 1 <= limit <= MOST_PAGE:
        raise bad_form("limit", "NUMBER_TYPE_MAX", f"int value should be less than or equal to {MOST_PAGE}.")
    standing = [message for message in channel.messages.values() if not message.deleted]
    if "after" in asked:
        after = _read_number(asked["after"], "after")
        standing = [message for message in standing if int(message.id) > after][:limit]
    elif "before" in asked:
        before = _read_number(asked["before"], "before")
        standing = [message for message in standing if int(message.id) < before]
    bodies = [calling.world.describe_message(message) for message in standing[-limit:]]
    return [{name: value for name, value in body.items() if name != "guild_id"} for body in reversed(bodies)]


def get_message(calling: DiscordCalling) -> Any:
    return calling.world.describe_message(calling.find_message())


def create_message(calling: DiscordCalling) -> Any:
    channel = calling.find_channel(writes=True)
    payload, files = read_payload(calling.form, calling.size)
    judge_message(payload, bool(files), calling.complain)
    nonce = str(payload.get("nonce") or "")
    if nonce and payload.get("enforce_nonce") is True and (known := _find_repeated(calling, nonce)):
        return known.body
    fields = _read_reply(channel, payload)
    if channel.guild:
        fields["guild_id"] = channel.guild
    fields |= {"content": str(payload.get("content") or "").strip(), "flags": payload.get("flags") or 0}
    fields |= {"components": payload.get("components") or [], "embeds": payload.get("embeds") or []}
    fields["attachments"] = _keep_files(calling, channel, files)
    message = calling.world.add_message(channel, calling.bot.describe(), **fields)
    message.nonce = nonce
    told = {**message.body, "nonce": payload["nonce"]} if nonce else message.body
    calling.book.tell_message(calling.bot, "MESSAGE_CREATE", told)
    return told


def _keep_files(calling: DiscordCalling, channel: DiscordChannel, files: list[SentFile]) -> list[JsonObject]:
    return [calling.world.keep_file(channel, file.name, file.content_type, file.data) for file in files]


def _find_repeated(calling: DiscordCalling, nonce: str) -> DiscordMessage | None:
    since = calling.world.clock.now() - NONCE_SECONDS
    for channel in calling.world.channels.values():
        for message in reversed(channel.messages.values()):
            if message.at < since:
                break
            if message.nonce == nonce and message.body["author"]["id"] == calling.bot.id:
                return message
    return None


def _read_reply(channel: DiscordChannel, payload: Mapping[str, Any]) -> JsonObject:
    reference = payload.get("message_reference")
    if not isinstance(reference, Mapping):
        return {"type": PLAIN}
    number = str(reference.get("message_id"))
    replied = channel.messages.get(number)
    if replied is None or replied.deleted:
        if reference.get("fail_if_not_exists", True) is not False:
            raise bad_form("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return {"type": PLAIN}
    about = {"type": 0, "message_id": number, "channel_id": channel.id}
    return {"type": REPLY, "message_reference": about, "referenced_message": replied.body}


def edit_message(calling: DiscordCalling) -> Any:
    calling.find_channel(writes=True)
    message = calling.find_message()
    if message.body["author"]["id"] != calling.bot.id:
        raise DiscordError(403, 50005, "Cannot edit a message authored by another user", FIELDS)
    payload, files = read_payload(calling.form, calling.size)
    judge_message(payload, bool(files) or bool(message.body["attachments"]), calling.complain, is_edit=True)
    for name in ("content", "components", "embeds", "flags"):
        if payload.get(name) is not None:
            value = payload[name]
            message.body[name] = value.strip() if isinstance(value, str) else value
    message.body["edited_timestamp"] = calling.world.write_time()
    message.edits += 1
    calling.book.tell_message(calling.bot, "MESSAGE_UPDATE", message.body)
    return message.body


def delete_message(calling: DiscordCalling) -> Any:
    calling.find_message().deleted = True
    return None


def type_there(calling: DiscordCalling) -> Any:
    calling.find_channel(writes=True).typing.append(calling.world.clock.now())
    return None


def react(calling: DiscordCalling) -> Any:
    message = calling.find_message()
    if calling.find_channel().muted:
        raise DiscordError(403, 50013, "Missing Permissions")
    emoji = calling.parts["emoji"]
    if emoji.isascii():
        raise DiscordError(400, 10014, "Unknown Emoji", FIELDS)
    if emoji not in message.reactions:
        message.reactions.append(emoji)
    return None


# --- commands and interactions


def put_commands(calling: DiscordCalling) -> Any:
    if calling.parts["application"] != calling.bot.id:
        raise DiscordError(403, 20012, "You are not authorized to perform this action on this application", FIELDS)
    rows = calling.form.values.get("list")
    if not isinstance(rows, list) or len(rows) > MOST_COMMANDS:
        raise bad_form("_misc", "APPLICATION_COMMANDS_LIMIT", "Maximum number of application commands reached.", LENGTH)
    names: set[str] = set()
    for place, row in enumerate(rows):
        _judge_command(str(place), row, names)
    calling.bot.commands = [
        {"id": calling.world.next_id(), "application_id": calling.bot.id, "type": 1, **row} for row in rows
    ]
    return calling.bot.commands


def _judge_command(path: str, row: Any, names: set[str]) -> None:
    if not isinstance(row, Mapping):
        raise bad_form(path, "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
    options = row.get("options") or []
    texts = [str(one.get(name) or "") for one in (row, *options) for name in ("name", "description")]
    for one in (row, *options):
        name, summary = str(one.get("name") or ""), str(one.get("description") or "")
        if not _NAME.fullmatch(name) or name != name.lower():
            raise bad_form(f"{path}.name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid", FIELDS)
        if not 1 <= len(summary) <= MOST_SUMMARY:
            raise too_long(f"{path}.description", MOST_SUMMARY)
    if sum(map(len, texts)) > MOST_COMMAND_SIGNS:
        raise too_long(path, MOST_COMMAND_SIGNS)
    if texts[0] in names:
        raise bad_form(
            f"{path}.name", "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique"
        )
    names.add(texts[0])


def answer_interaction(calling: DiscordCalling) -> Any:
    found = calling.world.interactions.get(calling.parts["interaction"])
    now = calling.world.clock.now()
    if found is None or found.token != calling.parts["token"] or now - found.at > INTERACTION_SECONDS:
        raise unknown(10062, "interaction")
    if found.answers:
        raise DiscordError(400, 40060, "Interaction has already been acknowledged.", FIELDS)
    if now - found.at > ANSWER_SECONDS:
        calling.complain(LATE_ANSWER, f"The answer came {now - found.at:.1f} s after the interaction.")
        raise unknown(10062, "interaction")
    kind, data = calling.form.values.get("type"), calling.form.values.get("data") or {}
    if kind not in _ANSWERS[found.kind]:
        raise bad_form("type", "BASE_TYPE_CHOICES", "This answer is not for interactions of this kind.")
    if kind == 4:
        if not str(data.get("content") or "").strip():
            raise DiscordError(400, 50006, "Cannot send an empty message", LENGTH)
        if len(str(data["content"])) > MOST_CONTENT:
            raise too_long("data.content", MOST_CONTENT)
    found.answers.append({"type": kind, "data": data})
    return None


def _read_number(value: Any, path: str) -> int:
    try:
        return int(value)
    except (ValueError, TypeError) as error:
        raise bad_form(path, "NUMBER_TYPE_COERCE", f'Value "{value}" is not snowflake.') from error


#: Method, address, the name of the call, and what it does.
_CALLS: tuple[tuple[str, str, str, Perform], ...] = (
    ("GET", "/users/@me", "getMe", get_me),
    ("POST", "/users/@me/channels", "openDm", open_dm),
    ("GET", "/oauth2/applications/@me", "getApplication", get_application),
    ("GET", "/applications/@me", "getApplication", get_application),
    ("PUT", "/applications/{application}/commands", "putCommands", put_commands),
    ("GET", "/gateway/bot", "getGateway", get_gateway),
    ("GET", "/channels/{channel}", "getChannel", get_channel),
    ("GET", "/channels/{channel}/messages", "getMessages", get_messages),
    ("POST", "/channels/{channel}/messages", "createMessage", create_message),
    ("GET", "/channels/{channel}/messages/{message}", "getMessage", get_message),
    ("PATCH", "/channels/{channel}/messages/{message}", "editMessage", edit_message),
    ("DELETE", "/channels/{channel}/messages/{message}", "deleteMessage", delete_message),
    ("POST", "/channels/{channel}/typing", "typing", type_there),
    ("PUT", "/channels/{channel}/messages/{message}/reactions/{emoji}/@me", "react", react),
    ("POST", "/interactions/{interaction}/{token}/callback", "answerInteraction", answer_interaction),
)
PERFORM: Mapping[str, Perform] = {name: perform for _, _, name, perform in _CALLS}
_PATTERNS = [
    (method, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", API + path)), name) for method, path, name, _ in _CALLS
]


def find_call(method: str, path: str) -> tuple[str, Mapping[str, str]]:
    """The name of a call and the parts of its address; an empty name: there is none."""
    for known, pattern, name in _PATTERNS:
        if method == known and (match := pattern.fullmatch(path)):
            return name, match.groupdict()
    return "", {}
