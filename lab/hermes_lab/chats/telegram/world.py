"""What Telegram knows: bots, people, chats, messages and files. Everything lives on the server's loop."""

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.chats.record import ChatClock
from hermes_lab.chats.telegram.api_values import ApiError, bad, forbidden

PRIVATE, GROUP, SUPERGROUP, CHANNEL = "private", "group", "supergroup", "channel"
MEMBER, LEFT, KICKED, ADMIN = "member", "left", "kicked", "administrator"
GENERAL = 1  # the topic that has no id of its own in a call


@dataclass(slots=True)
class Person:
    id: int
    first_name: str
    username: str = ""
    deactivated: bool = False
    language: str = "en"

    def describe(self) -> dict[str, Any]:
        names = {"username": self.username} if self.username else {}
        return {"id": self.id, "is_bot": False, "first_name": self.first_name, "language_code": self.language, **names}


@dataclass(slots=True)
class StoredFile:
    file_id: str
    unique_id: str
    kind: str
    name: str
    content_type: str
    size: int
    data: bytes
    path: str
    owner: int = 0  # the bot whose upload it is; 0: a person's

    def describe(self) -> dict[str, Any]:
        return {"file_id": self.file_id, "file_unique_id": self.unique_id, "file_size": self.size}


@dataclass(slots=True)
class ChatMessage:
    """A message and what happened to it; `body` is what the Bot API tells."""

    body: dict[str, Any]
    author: int
    file: str = ""  # the name it was uploaded under
    deleted: bool = False
    edits: int = 0
    reactions: dict[int, list[Any]] = field(default_factory=dict)  # by who reacted

    @property
    def id(self) -> int:
        number: int = self.body["message_id"]
        return number

    @property
    def thread(self) -> int:
        number: int = self.body.get("message_thread_id", 0)
        return number


@dataclass(slots=True)
class TelegramChat:
    id: int
    kind: str
    title: str = ""
    is_forum: bool = False
    people: set[int] = field(default_factory=set)
    admins: set[int] = field(default_factory=set)
    topics: dict[int, str] = field(default_factory=dict)
    closed_topics: set[int] = field(default_factory=set)
    bots: dict[int, str] = field(default_factory=dict)  # the standing of each bot in it
    muted: bool = False  # bots may not write
    deleted: bool = False
    reactions: bool = True
    migrated_to: int = 0
    messages: dict[int, ChatMessage] = field(default_factory=dict)
    actions: list[dict[str, Any]] = field(default_factory=list)  # typing and the like
    next_id: int = 1

    def describe(self, person: Person | None = None) -> dict[str, Any]:
        if person is not None:
            names = {"username": person.username} if person.username else {}
            return {"id": self.id, "type": PRIVATE, "first_name": person.first_name, **names}
        forum = {"is_forum": True} if self.is_forum else {}
        return {"id": self.id, "type": self.kind, "title": self.title, **forum}


@dataclass(slots=True)
class BotAccount:
    id: int
    token: str
    username: str
    first_name: str
    privacy: bool = True  # of groups it sees only what speaks to it
    revoked: bool = False
    told_revoked: float = 0.0  # when a client last heard of it; 0: never
    commands: dict[tuple[str, str], list[dict[str, str]]] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        return {"id": self.id, "is_bot": True, "first_name": self.first_name, "username": self.username}

    def describe_self(self) -> dict[str, Any]:
        abilities = {
            "can_join_groups": True,
            "can_read_all_group_messages": not self.privacy,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
        }
        return {**self.describe(), **abilities}


@dataclass(slots=True)
class Press:
    """A button that somebody pressed."""

    id: str
    bot: int
    person: int
    data: str
    at: float
    answered: bool = False
    answer: Mapping[str, Any] = field(default_factory=dict)


class World:
    def __init__(self, clock: ChatClock) -> None:
        self.clock = clock
        self.bots: dict[str, BotAccount] = {}  # by token
        self.people: dict[int, Person] = {}
        self.chats: dict[tuple[int, int], TelegramChat] = {}  # by bot (0: shared by all) and id
        self.files: dict[str, StoredFile] = {}  # by id
        self.presses: dict[str, Press] = {}
        self.numbers = itertools.count(1)
        self._people_ids = itertools.count(7001)
        self._group_ids = itertools.count(1)

    # --- making

    def add_bot(self, username: str, token: str = "") -> BotAccount:
        number = 110_201_543 + len(self.bots)
        secret = hashlib.sha256(f"lab {number}".encode()).hexdigest()[:35]
        token = token or f"{number}:{secret}"
        bot = BotAccount(int(token.partition(":")[0]), token, username, username.removesuffix("_bot").title())
        self.bots[token] = bot
        return bot

    def add_person(self, name: str, username: str, id: int) -> Person:
        person = Person(id or next(self._people_ids), name, username)
        self.people[person.id] = person
        return person

    def add_group(self, title: str, kind: str) -> TelegramChat:
        number = next(self._group_ids)
        chat = TelegramChat(-number if kind == GROUP else -1_001_000_000_000 - number, kind, title)
        self.chats[0, chat.id] = chat
        return chat

    def open_private(self, bot: BotAccount, person: Person) -> TelegramChat:
        key = (bot.id, person.id)
        if key not in self.chats:
            self.chats[key] = TelegramChat(person.id, PRIVATE, people={person.id}, bots={bot.id: MEMBER})
        return self.chats[key]

    def keep_file(self, kind: str, name: str, content_type: str, data: bytes, size: int = 0) -> StoredFile:
        number = next(self.numbers)
        unique = hashlib.sha256(data or f"{name} {size}".encode()).hexdigest()[:14]
        ending = name.rpartition(".")[2] if "." in name else "bin"
        path = f"{kind}s/file_{number}.{ending}"
        file = StoredFile(f"{kind}-{number}-{unique}", unique, kind, name, content_type, size or len(data), data, path)
        self.files[file.file_id] = file
        return file

    # --- finding

    def find_chat(self, bot: BotAccount, chat_id: str) -> TelegramChat:
        """A chat that the bot may write to; the error of Telegram where it may not."""
        if not chat_id:
            raise bad("chat_id is empty", "fields")
        number = self._find_number(chat_id)
        person = self.people.get(number)
        if person is not None:
            return self._find_private(bot, person)
        chat = self.chats.get((0, number))
        if chat is None:
            raise bad("chat not found")
        if chat.migrated_to:
            raise bad("group chat was upgraded to a supergroup chat", "", migrate_to_chat_id=chat.migrated_to)
        if chat.deleted:
            raise forbidden("the group chat was deleted")
        standing = chat.bots.get(bot.id)
        what = f"{chat.kind} chat"
        if standing == KICKED:
            raise forbidden(f"bot was kicked from the {what}")
        if standing not in (MEMBER, ADMIN):
            raise forbidden(f"bot is not a member of the {what}")
        return chat

    def _find_number(self, chat_id: str) -> int:
        if chat_id.startswith("@"):
            named = (person.id for person in self.people.values() if person.username == chat_id[1:])
            return next(named, 0)
        try:
            return int(chat_id)
        except ValueError as error:
            raise bad("chat not found", "fields") from error

    def _find_private(self, bot: BotAccount, person: Person) -> TelegramChat:
        chat = self.chats.get((bot.id, person.id))
        if person.deactivated:
            raise forbidden("user is deactivated")
        if chat is None:
            raise forbidden("bot can't initiate conversation with a user")
        if chat.bots[bot.id] == KICKED:
            raise forbidden("bot was blocked by the user")
        return chat

    def describe_chat(self, chat: TelegramChat) -> dict[str, Any]:
        return chat.describe(self.people[chat.id] if chat.kind == PRIVATE else None)

    def add_message(self, chat: TelegramChat, author: dict[str, Any] | None, **fields: Any) -> ChatMessage:
        body: dict[str, Any] = {"message_id": chat.next_id}
        if author is not None:
            body["from"] = author
        body |= {"chat": self.describe_chat(chat), "date": int(self.clock.date()), **fields}
        message = ChatMessage(body, author["id"] if author else 0)
        chat.next_id += 1
        chat.messages[message.id] = message
        return message

    def find_message(self, chat: TelegramChat, number: int, problem: ApiError) -> ChatMessage:
        message = chat.messages.get(number)
        if message is None or message.deleted:
            raise problem
        return message


def quote_of(message: ChatMessage) -> dict[str, Any]:
    """A message as another one names it that replies to it: never nested deeper."""
    return {name: value for name, value in message.body.items() if name not in ("reply_to_message", "quote")}
