"""What people do in Telegram and what they see there. Every verb takes and gives values that JSON has."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes_lab.chats.telegram.bot_methods import describe_member, find_commands
from hermes_lab.chats.telegram.media import describe_media
from hermes_lab.chats.telegram.texts.entities import find_entities, units
from hermes_lab.chats.telegram.texts.formatting import describe_text
from hermes_lab.chats.telegram.updates import UpdateQueue
from hermes_lab.chats.telegram.world import (
    ADMIN,
    GENERAL,
    KICKED,
    LEFT,
    MEMBER,
    PRIVATE,
    SUPERGROUP,
    BotAccount,
    ChatMessage,
    Person,
    Press,
    TelegramChat,
    World,
    quote_of,
)
from hermes_lab.values import LabProblem

#: Contents for files that a test does not care about: a picture of one point, and a bit of sound.
POINT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_CONTENTS: Mapping[str, tuple[str, bytes]] = {
    "photo": ("image/png", POINT),
    "voice": ("audio/ogg", b"OggS" + bytes(60)),
    "audio": ("audio/mpeg", b"ID3" + bytes(60)),
    "video": ("video/mp4", bytes(64)),
    "video_note": ("video/mp4", bytes(64)),
    "animation": ("video/mp4", bytes(64)),
    "sticker": ("image/webp", bytes(64)),
    "document": ("application/octet-stream", bytes(64)),
}


class People:
    def __init__(self, world: World, queues: Mapping[int, UpdateQueue]) -> None:
        self._world = world
        self._queues = queues
        names = (
            "add_person add_group join leave add_topic close_topic say post send send_album edit delete press react "
            "block unblock remove_bot admit_bot migrate change_chat deactivate messages seen actions press_state "
            "unanswered menu redeliver pending push"
        )
        self.verbs: dict[str, Callable[..., Any]] = {name: getattr(self, name) for name in names.split()}

    # --- who and where

    def add_person(self, name: str, username: str = "", id: int = 0, started: bool = True) -> int:
        """Somebody new, who has started every bot there is; their id, which is that of the private chat, too."""
        person = self._world.add_person(name, username, id)
        for bot in self._world.bots.values() if started else ():
            self._world.open_private(bot, person)
        return person.id

    def add_group(
        self, title: str, members: Sequence[int], kind: str = SUPERGROUP, forum: bool = False, admin: bool = False
    ) -> int:
        """A group with these people and every bot there is; its id."""
        chat = self._world.add_group(title, kind)
        chat.is_forum = forum
        chat.next_id = GENERAL + 1 if forum else 1
        chat.people |= set(members)
        chat.bots |= {bot.id: ADMIN if admin else MEMBER for bot in self._world.bots.values()}
        return chat.id

    def join(self, person: int, chat: int) -> int:
        """Somebody comes into a group; the id of the message that says so."""
        found = self._group(chat)
        found.people.add(person)
        return self._announce(found, person, new_chat_members=[self._person(person).describe()])

    def leave(self, person: int, chat: int) -> int:
        found = self._group(chat)
        found.people.discard(person)
        return self._announce(found, person, left_chat_member=self._person(person).describe())

    def _announce(self, chat: TelegramChat, person: int, **fields: Any) -> int:
        message = self._world.add_message(chat, self._person(person).describe(), **fields)
        self._tell(chat, "message", message.body)
        return message.id

    def add_topic(self, chat: int, name: str, by: int = 0) -> int:
        """A topic of a forum; its id."""
        found = self._group(chat)
        fields = {"forum_topic_created": {"name": name, "icon_color": 7_322_096}, "is_topic_message": True}
        person = self._person(by or min(found.people))
        message = self._world.add_message(found, person.describe(), message_thread_id=found.next_id, **fields)
        found.topics[message.id] = name
        self._tell(found, "message", message.body)
        return message.id

    def close_topic(self, chat: int, thread: int) -> None:
        self._group(chat).closed_topics.add(thread)

    def change_chat(self, chat: int, **changes: bool) -> None:
        """Switch `muted`, `deleted` or `reactions` of a group."""
        found = self._group(chat)
        for name, value in changes.items():
            if name not in ("muted", "deleted", "reactions"):
                raise LabProblem(f"A chat has no switch {name!r}.")
            setattr(found, name, value)

    def deactivate(self, person: int) -> None:
        self._person(person).deactivated = True

    # --- speaking

    def say(
        self,
        person: int,
        text: str,
        chat: int = 0,
        thread: int = 0,
        reply_to: int = 0,
        quote: str = "",
        entities: Sequence[Mapping[str, Any]] = (),
        bot: str = "",
    ) -> int:
        """Write a text; the id of the message. Commands, mentions and addresses are found in it; other entities, as
        `text_link` and `text_mention`, are given."""
        found = [entity.describe() for entity in find_entities(text)]
        fields: dict[str, Any] = {"text": text}
        if found or entities:
            fields["entities"] = sorted([*found, *entities], key=lambda row: int(row["offset"]))
        return self._speak(person, chat, thread, reply_to, quote, fields, bot)

    def post(self, person: int, fields: Mapping[str, Any], chat: int = 0, thread: int = 0) -> int:
        """A message of another kind, as a location or a poll, by its own fields."""
        return self._speak(person, chat, thread, 0, "", dict(fields), "")

    def send(
        self,
        person: int,
        kind: str,
        data: str = "",
        size: int = 0,
        name: str = "",
        caption: str = "",
        where: Mapping[str, int] | None = None,
    ) -> int:
        """Send a file (`data` in base64; with `size` alone it only says that it is so large). `where` may name chat,
        thread and reply_to. Kinds: photo, document, voice, audio, video, video_note, animation, sticker."""
        return self._send(person, kind, data, size, name, caption, where or {}, {})

    def send_album(
        self, person: int, items: Sequence[Mapping[str, Any]], where: Mapping[str, int] | None = None
    ) -> Any:
        """Send several files as one album; the ids of its messages. An item has kind, data, name, caption."""
        album = {"media_group_id": str(135_000_000 + next(self._world.numbers))}
        return [
            self._send(
                person,
                item.get("kind", "photo"),
                item.get("data", ""),
                item.get("size", 0),
                item.get("name", ""),
                item.get("caption", ""),
                where or {},
                album,
            )
            for item in items
        ]

    def _send(
        self,
        person: int,
        kind: str,
        data: str,
        size: int,
        name: str,
        caption: str,
        where: Mapping[str, int],
        more: Mapping[str, Any],
    ) -> int:
        if kind not in _CONTENTS:
            raise LabProblem(f"Nobody can send a {kind!r}.", fix=f"Known are: {', '.join(_CONTENTS)}.")
        content_type, usual = _CONTENTS[kind]
        content = base64.b64decode(data) if data else b"" if size else usual
        ending = content_type.rpartition("/")[2]
        plain = "🙂" if kind == "sticker" else f"{kind}.{ending}"
        file = self._world.keep_file(kind, name or plain, content_type, content, size)
        fields = {**describe_media(file), **describe_text(caption, find_entities(caption), "caption"), **more}
        place = (where.get("chat", 0), where.get("thread", 0), where.get("reply_to", 0))
        return self._speak(person, *place, "", fields, "", file.name)

    def _speak(
        self,
        person: int,
        chat: int,
        thread: int,
        reply_to: int,
        quote: str,
        fields: dict[str, Any],
        bot: str,
        file: str = "",
    ) -> int:
        speaker = self._person(person)
        places = self._places(speaker, chat, bot)
        numbers = []
        for place in places:
            whole = {**fields, **self._reply(place, reply_to, quote)}
            if thread:
                whole |= {"message_thread_id": thread, "is_topic_message": True}
            message = self._world.add_message(place, speaker.describe(), **whole)
            message.file = file
            self._tell(place, "message", message.body, message)
            numbers.append(message.id)
        return numbers[0]

    def _reply(self, chat: TelegramChat, reply_to: int, quote: str) -> dict[str, Any]:
        if not reply_to:
            return {}
        message = chat.messages.get(reply_to)
        if message is None:
            raise LabProblem(f"There is no message {reply_to} in chat {chat.id}.")
        fields: dict[str, Any] = {"reply_to_message": quote_of(message)}
        if quote:
            whole = message.body.get("text") or message.body.get("caption") or ""
            position = units(whole[: max(whole.find(quote), 0)])
            fields["quote"] = {"text": quote, "position": position, "is_manual": True}
        return fields

    def edit(self, person: int, message: int, text: str, chat: int = 0) -> None:
        """Change a text that somebody wrote."""
        place = self._places(self._person(person), chat, "")[0]
        found = place.messages[message]
        name = "text" if "text" in found.body else "caption"
        found.body = {k: v for k, v in found.body.items() if k not in ("entities", "caption_entities")}
        found.body |= describe_text(text, find_entities(text), "" if name == "text" else name)
        found.edits += 1
        now = int(self._world.clock.date())
        found.body["edit_date"] = max(now, int(found.body.get("edit_date", found.body["date"])) + 1)
        self._tell(place, "edited_message", found.body, found)

    def delete(self, chat: int, message: int) -> None:
        """A message is gone. Bots are not told."""
        self._any_chat(chat).messages[message].deleted = True

    def press(self, person: int, message: int, button: str, chat: int = 0) -> str:
        """Press the button with this label or data; the id of the press."""
        presser = self._person(person)
        place = self._places(presser, chat, "")[0]
        found = place.messages[message]
        rows = found.body.get("reply_markup", {}).get("inline_keyboard", [])
        pressed = next((b for row in rows for b in row if button in (b["text"], b.get("callback_data"))), None)
        if pressed is None or found.deleted:
            raise LabProblem(f"Message {message} has no button {button!r}.")
        number = f"4380{next(self._world.numbers):012d}"
        bot = self._bot_of(found.author)
        self._world.presses[number] = Press(number, bot.id, person, pressed["callback_data"], self._world.clock.now())
        content = {
            "id": number,
            "from": presser.describe(),
            "message": found.body,
            "chat_instance": str(-42 - place.id),
            "data": pressed["callback_data"],
        }
        self._queues[bot.id].add("callback_query", _copy(content), place.id)
        return number

    def react(self, person: int, message: int, emoji: str, chat: int = 0) -> None:
        """React to a message; an empty emoji takes the reaction back."""
        place = self._places(self._person(person), chat, "")[0]
        found = place.messages[message]
        new = [{"type": "emoji", "emoji": emoji}] if emoji else []
        old, found.reactions[person] = found.reactions.get(person, []), new
        content = {
            "chat": self._world.describe_chat(place),
            "message_id": message,
            "user": self._person(person).describe(),
            "date": int(self._world.clock.date()),
            "old_reaction": old,
            "new_reaction": new,
        }
        for bot, standing in place.bots.items():
            if place.kind == PRIVATE or standing == ADMIN:
                self._queues[bot].add("message_reaction", content, place.id)

    # --- the bot's standing

    def block(self, person: int) -> None:
        self._stand(self._person(person), self._private(person), KICKED)

    def unblock(self, person: int) -> None:
        self._stand(self._person(person), self._private(person), MEMBER)

    def remove_bot(self, chat: int, by: int = 0, left: bool = False) -> None:
        """The bot is thrown out of a group; `left`: it is no member, but may come back."""
        found = self._group(chat)
        self._stand(self._person(by or min(found.people)), found, LEFT if left else KICKED)

    def admit_bot(self, chat: int, by: int = 0, admin: bool = False) -> None:
        found = self._group(chat)
        self._stand(self._person(by or min(found.people)), found, ADMIN if admin else MEMBER)

    def _stand(self, by: Person, chat: TelegramChat, standing: str) -> None:
        for number, old in list(chat.bots.items()):
            user = self._bot_of(number).describe()
            chat.bots[number] = standing
            content = {
                "chat": self._world.describe_chat(chat),
                "from": by.describe(),
                "date": int(self._world.clock.date()),
                "old_chat_member": describe_member(user, old),
                "new_chat_member": describe_member(user, standing),
            }
            self._queues[number].add("my_chat_member", content, chat.id)

    def migrate(self, chat: int) -> int:
        """A group becomes a supergroup; its new id."""
        old = self._group(chat)
        new = self._world.add_group(old.title, SUPERGROUP)
        new.people, new.bots = set(old.people), dict(old.bots)
        by = self._person(min(old.people)).describe()
        last = self._world.add_message(old, by, migrate_to_chat_id=new.id)
        first = self._world.add_message(new, by, migrate_from_chat_id=old.id)
        self._tell(old, "message", last.body)
        self._tell(new, "message", first.body)
        old.migrated_to = new.id
        return new.id

    # --- seeing

    def messages(self, chat: int, thread: int = 0) -> list[dict[str, Any]]:
        """The messages that stand in a chat, as the Bot API tells them; `file` is the name of what was uploaded."""
        return [_show(message) for message in self._standing(chat, thread)]

    def seen(self, chat: int, thread: int = 0) -> list[str]:
        """The texts of bots that stand in a chat; of a file its name."""
        bots = {bot.id for bot in self._world.bots.values()}
        shown = (message for message in self._standing(chat, thread) if message.author in bots)
        return [message.file or message.body.get("text", "") for message in shown]

    def _standing(self, chat: int, thread: int) -> list[ChatMessage]:
        found = self._any_chat(chat).messages.values()
        return [message for message in found if not message.deleted and thread in (0, message.thread)]

    def actions(self, chat: int) -> list[dict[str, Any]]:
        """Typing and the like: action, thread, at."""
        return self._any_chat(chat).actions

    def press_state(self, press: str) -> dict[str, Any]:
        """Whether a press was answered, and with what."""
        found = self._world.presses[press]
        return {"answered": found.answered, **found.answer}

    def unanswered(self) -> list[str]:
        """The presses that nobody has answered: their buttons go on spinning."""
        return [press.id for press in self._world.presses.values() if not press.answered]

    def menu(self, person: int, chat: int = 0, language: str = "", bot: str = "") -> list[dict[str, str]]:
        """The commands that somebody is offered in a chat."""
        return find_commands(self._bot(bot), chat or person, person, language)

    # --- the way to the bot

    def redeliver(self, count: int = 1, same_ids: bool = False, backwards: bool = False, bot: str = "") -> int:
        """Bring the last updates once more; how many. A client that polls has confirmed their ids: it is brought
        copies under new ones. With `same_ids` they come as they were, as after a lost confirmation."""
        return self._queues[self._bot(bot).id].redeliver(count, same_ids, backwards)

    def pending(self, bot: str = "") -> list[dict[str, Any]]:
        """The updates that nobody has confirmed."""
        return [update.describe() for update in self._queues[self._bot(bot).id].waiting]

    def push(self, kind: str, content: Mapping[str, Any], chat: int = 0, bot: str = "") -> int:
        """An update of a test's own making; its id, 0 when the bot does not want such."""
        update = self._queues[self._bot(bot).id].add(kind, content, chat)
        return update.id if update else 0

    def _tell(self, chat: TelegramChat, kind: str, body: Mapping[str, Any], message: ChatMessage | None = None) -> None:
        """The update for every bot in the chat that may see the message."""
        for number, standing in chat.bots.items():
            bot = self._bot_of(number)
            if standing in (MEMBER, ADMIN) and (message is None or sees(bot, standing, chat, message)):
                self._queues[number].add(kind, _copy(body), chat.id)

    # --- finding

    def _person(self, number: int) -> Person:
        if number not in self._world.people:
            raise LabProblem(f"There is no person {number}.")
        return self._world.people[number]

    def _places(self, person: Person, chat: int, bot: str) -> list[TelegramChat]:
        if chat and chat != person.id:
            return [self._group(chat)]
        return [self._world.open_private(self._bot(bot), person)]

    def _private(self, person: int) -> TelegramChat:
        return self._world.open_private(self._bot(""), self._person(person))

    def _group(self, chat: int) -> TelegramChat:
        if (0, chat) not in self._world.chats:
            raise LabProblem(f"There is no group {chat}.")
        return self._world.chats[0, chat]

    def _any_chat(self, chat: int) -> TelegramChat:
        return self._private(chat) if chat in self._world.people else self._group(chat)

    def _bot(self, token: str) -> BotAccount:
        return self._world.bots[token] if token else next(iter(self._world.bots.values()))

    def _bot_of(self, number: int) -> BotAccount:
        return next(bot for bot in self._world.bots.values() if bot.id == number)


def sees(bot: BotAccount, standing: str, chat: TelegramChat, message: ChatMessage) -> bool:
    """Privacy mode: of a group a bot sees only commands, mentions and replies to itself, unless it is an admin."""
    if chat.kind == PRIVATE or not bot.privacy or standing == ADMIN:
        return True
    body = message.body
    if body.get("reply_to_message", {}).get("from", {}).get("id") == bot.id:
        return True
    text: str = body.get("text") or body.get("caption") or ""
    for entity in body.get("entities", body.get("caption_entities", ())):
        data = text.encode("utf-16-le", "surrogatepass")
        part = data[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")
        named = part.partition("@")[2].lower()
        if entity["type"] == "bot_command" and named in ("", bot.username.lower()):
            return True
        if entity["type"] == "mention" and named == bot.username.lower():
            return True
        if entity["type"] == "text_mention" and entity["user"]["id"] == bot.id:
            return True
    return False


def _show(message: ChatMessage) -> dict[str, Any]:
    told = {
        "file": message.file,
        "edits": message.edits,
        "reactions": {str(k): v for k, v in message.reactions.items()},
    }
    return {**message.body, **told}


def _copy(body: Mapping[str, Any]) -> dict[str, Any]:
    """As it is now: what is changed later is not in an update that was made before."""
    return {name: _copy(value) if isinstance(value, Mapping) else value for name, value in body.items()}
