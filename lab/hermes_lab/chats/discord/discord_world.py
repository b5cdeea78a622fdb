"""Who and what there is on the server: bots, people, guilds, channels, threads and what was said in them."""

import hashlib
import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hermes_lab.chats.discord.discord_values import CONTENT_FLAG, MESSAGE_CONTENT, DiscordError, JsonObject, unknown
from hermes_lab.chats.record import ChatClock

EPOCH_MS = 1_420_070_400_000
TEXT, DM, THREAD = 0, 1, 11  # types of channels
PLAIN, REPLY = 0, 19  # types of messages
_ALL = str((1 << 50) - 1)


@dataclass(slots=True)
class DiscordBot:
    id: str
    token: str
    username: str
    privileged: int = MESSAGE_CONTENT  # the intents that its owner has switched on
    revoked: bool = False
    told_revoked: float = 0.0  # when a client last heard of it; 0: never
    commands: list[JsonObject] = field(default_factory=list)

    def describe(self) -> JsonObject:
        return _describe_user(self.id, self.username, self.username.title(), bot=True)

    def describe_application(self) -> JsonObject:
        flags = CONTENT_FLAG if self.privileged & MESSAGE_CONTENT else 0
        return {"id": self.id, "name": self.username.title(), "icon": None, "description": "", "flags": flags} | {
            "bot_public": True,
            "bot_require_code_grant": False,
            "verify_key": "0" * 64,
            "owner": _describe_user("1", "lab_owner", "Owner"),
        }


@dataclass(slots=True)
class DiscordPerson:
    id: str
    name: str
    username: str
    closed: bool = False  # takes no direct messages of bots

    def describe(self) -> JsonObject:
        return _describe_user(self.id, self.username, self.name)


@dataclass(slots=True)
class Guild:
    id: str
    name: str
    people: set[str] = field(default_factory=set)
    bots: set[str] = field(default_factory=set)


@dataclass(slots=True)
class DiscordMessage:
    body: JsonObject
    nonce: str = ""
    at: float = 0.0
    edits: int = 0
    deleted: bool = False
    reactions: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        return str(self.body["id"])


@dataclass(slots=True)
class DiscordChannel:
    id: str
    kind: int
    guild: str = ""
    parent: str = ""
    name: str = ""
    person: str = ""  # of a direct chat
    bot: str = ""
    muted: bool = False  # the bot may not write
    hidden: bool = False  # the bot may not even look
    locked: bool = False
    deleted: bool = False
    messages: dict[str, DiscordMessage] = field(default_factory=dict)
    typing: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Interaction:
    id: str
    token: str
    kind: int  # 2: a command, 3: a button
    bot: str
    at: float
    answers: list[JsonObject] = field(default_factory=list)


@dataclass(slots=True)
class Attachment:
    id: str
    name: str
    content_type: str
    data: bytes
    channel: str
    expires: float


class DiscordWorld:
    def __init__(self, clock: ChatClock) -> None:
        self.clock = clock
        self.address = ""
        self.bots: dict[str, DiscordBot] = {}  # by token
        self.people: dict[str, DiscordPerson] = {}
        self.guilds: dict[str, Guild] = {}
        self.channels: dict[str, DiscordChannel] = {}
        self.interactions: dict[str, Interaction] = {}
        self.attachments: dict[str, Attachment] = {}
        self._last_id = 0
        self._secrets = itertools.count(1)

    # --- making

    def next_id(self) -> str:
        """A number that says when it was made, larger than any before."""
        made = (int(self.clock.date() * 1000) - EPOCH_MS) << 22
        self._last_id = max(self._last_id + 1, made)
        return str(self._last_id)

    def add_bot(self, username: str) -> DiscordBot:
        number = self.next_id()
        secret = hashlib.sha256(f"lab {number} {next(self._secrets)} {time.time_ns()}".encode()).hexdigest()
        bot = DiscordBot(number, f"MTI{secret[:21]}.{secret[21:27]}.{secret[27:]}", username)
        self.bots[bot.token] = bot
        return bot

    def add_person(self, name: str, username: str) -> DiscordPerson:
        number = self.next_id()
        person = DiscordPerson(number, name, username or f"{name.lower().replace(' ', '_')}{number[-6:]}")
        self.people[number] = person
        return person

    def open_dm(self, bot: DiscordBot, person: DiscordPerson) -> DiscordChannel:
        for channel in self.channels.values():
            if channel.kind == DM and (channel.bot, channel.person) == (bot.id, person.id):
                return channel
        return self.add_channel(DM, person=person.id, bot=bot.id)

    def add_channel(self, kind: int, **more: Any) -> DiscordChannel:
        channel = DiscordChannel(self.next_id(), kind, **more)
        self.channels[channel.id] = channel
        return channel

    def add_message(self, channel: DiscordChannel, author: JsonObject, **fields: Any) -> DiscordMessage:
        body: JsonObject = {
            "id": self.next_id(),
            "channel_id": channel.id,
            "author": author,
            "content": "",
            "timestamp": self.write_time(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": [],
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "type": PLAIN,
            "components": [],
            "flags": 0,
            **fields,
        }
        message = DiscordMessage(body, at=self.clock.now())
        channel.messages[message.id] = message
        return message

    def keep_file(self, channel: DiscordChannel, name: str, content_type: str, data: bytes) -> JsonObject:
        file = Attachment(self.next_id(), name, content_type, data, channel.id, self.clock.now() + 86_400)
        self.attachments[file.id] = file
        return self.describe_file(file)

    def describe_file(self, file: Attachment) -> JsonObject:
        """Its address is signed, and good for a day; then it has another."""
        if self.clock.now() > file.expires:
            file.expires = self.clock.now() + 86_400
        url = f"{self.address}/attachments/{file.channel}/{file.id}/{file.name}?ex=1&hm={self.sign(file)}"
        return {
            "id": file.id,
            "filename": file.name,
            "size": len(file.data),
            "content_type": file.content_type,
            "url": url,
            "proxy_url": url,
        }

    def sign(self, file: Attachment) -> str:
        return hashlib.sha256(f"{file.id} {file.expires}".encode()).hexdigest()[:16]

    def write_time(self) -> str:
        return datetime.fromtimestamp(self.clock.date(), UTC).isoformat()

    # --- finding

    def find_bot(self, number: str) -> DiscordBot:
        return next(bot for bot in self.bots.values() if bot.id == number)

    def find_channel(self, bot: DiscordBot, number: str, *, writes: bool = False) -> DiscordChannel:
        """A channel that the bot sees, and may write to; the error of Discord where it may not."""
        channel = self.channels.get(number)
        if channel is None or channel.deleted or (channel.kind == DM and channel.bot != bot.id):
            raise unknown(10003, "Channel")
        if channel.kind == DM:
            if writes and self.people[channel.person].closed:
                raise DiscordError(403, 50007, "Cannot send messages to this user")
            return channel
        above = self.channels.get(channel.parent, channel)
        if bot.id not in self.guilds[channel.guild].bots or channel.hidden or above.hidden:
            raise DiscordError(403, 50001, "Missing Access")
        if writes and (channel.muted or above.muted):
            raise DiscordError(403, 50013, "Missing Permissions")
        if writes and channel.locked:
            raise DiscordError(403, 160005, "Thread is locked")
        return channel

    def find_message(self, channel: DiscordChannel, number: str) -> DiscordMessage:
        message = channel.messages.get(number)
        if message is None or message.deleted:
            raise unknown(10008, "Message")
        return message

    def bots_of(self, channel: DiscordChannel) -> Iterable[DiscordBot]:
        """Those who hear what is said there."""
        if channel.kind == DM:
            return [self.find_bot(channel.bot)]
        above = self.channels.get(channel.parent, channel)
        seen = not (channel.hidden or above.hidden)
        return [bot for bot in self.bots.values() if seen and bot.id in self.guilds[channel.guild].bots]

    # --- describing

    def describe_channel(self, channel: DiscordChannel) -> JsonObject:
        if channel.kind == DM:
            recipients = [self.people[channel.person].describe()]
            return {"id": channel.id, "type": DM, "recipients": recipients, "last_message_id": None}
        told: JsonObject = {"id": channel.id, "type": channel.kind, "name": channel.name, "guild_id": channel.guild}
        if channel.kind == THREAD:
            return {
                **told,
                "parent_id": channel.parent,
                "owner_id": min(self.guilds[channel.guild].people, default="1"),
                "message_count": len(channel.messages),
                "member_count": 1,
                "thread_metadata": {
                    "archived": False,
                    "locked": channel.locked,
                    "auto_archive_duration": 1440,
                    "archive_timestamp": self.write_time(),
                },
            }
        return {**told, "position": 0, "permission_overwrites": [], "parent_id": None}

    def describe_guild(self, guild: Guild) -> JsonObject:
        inside = [one for one in self.channels.values() if one.guild == guild.id and not one.deleted and not one.hidden]
        roles = [{"id": guild.id, "name": "@everyone", "permissions": _ALL, "position": 0}]
        roles += [
            {"id": role_of(bot, guild), "name": bot.username, "permissions": "0", "tags": {"bot_id": bot.id}}
            for bot in self.bots.values()
            if bot.id in guild.bots
        ]
        return {
            "id": guild.id,
            "name": guild.name,
            "owner_id": min(guild.people, default="1"),
            "member_count": len(guild.people) + len(guild.bots),
            "roles": roles,
            "channels": [self.describe_channel(one) for one in inside if one.kind == TEXT],
            "threads": [self.describe_channel(one) for one in inside if one.kind == THREAD],
            "members": [],
            "emojis": [],
            "unavailable": False,
        }

    def describe_message(self, message: DiscordMessage) -> JsonObject:
        """With addresses of its files that are good."""
        files = [self.describe_file(self.attachments[file["id"]]) for file in message.body["attachments"]]
        return {**message.body, "attachments": files}


def role_of(bot: DiscordBot, guild: Guild) -> str:
    """The role that a bot brings along; people name it by mistake."""
    return str(int(bot.id) ^ (int(guild.id) & 0xFFFF) ^ 1)


def _describe_user(number: str, username: str, name: str, bot: bool = False) -> JsonObject:
    told = {"id": number, "username": username, "global_name": name, "discriminator": "0", "avatar": None}
    return {**told, "bot": True} if bot else told
