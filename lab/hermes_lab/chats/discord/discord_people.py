"""What people do in Discord and what they see there. Every verb takes and gives values that JSON has."""

import base64
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes_lab.chats.discord.discord_values import GUILDS, MESSAGE_CONTENT, JsonObject
from hermes_lab.chats.discord.discord_world import (
    DM,
    REPLY,
    TEXT,
    THREAD,
    DiscordBot,
    DiscordChannel,
    DiscordMessage,
    DiscordPerson,
    DiscordWorld,
    Guild,
    Interaction,
    role_of,
)
from hermes_lab.chats.discord.sessions import SessionBook
from hermes_lab.values import LabProblem

_SWITCHES = ("muted", "hidden", "locked", "deleted")
_MOST_KEPT = 1000


class DiscordPeople:
    """A channel that is left out is the direct one with the first bot."""

    def __init__(self, world: DiscordWorld, book: SessionBook) -> None:
        self._world = world
        self._book = book
        self._said: deque[DiscordMessage] = deque(maxlen=_MOST_KEPT)
        names = (
            "add_person add_guild add_channel add_thread say send edit delete press command close_dms change_channel "
            "remove_bot admit_bot dm messages seen typing reactions menu interaction redeliver push reconnect "
            "invalidate close_lines freeze lines allow_content set_heartbeat set_resume expire_files name_role"
        )
        self.verbs: dict[str, Callable[..., Any]] = {name: getattr(self, name) for name in names.split()}

    # --- who and where

    def add_person(self, name: str, username: str = "") -> str:
        """Somebody new, who has a direct chat with every bot there is; their id."""
        person = self._world.add_person(name, username)
        for bot in self._world.bots.values():
            self._world.open_dm(bot, person)
        return person.id

    def dm(self, person: str, token: str = "") -> str:
        """The direct channel of somebody and a bot."""
        return self._world.open_dm(self._bot(token), self._person(person)).id

    def add_guild(self, name: str, members: Sequence[str]) -> str:
        """A guild with these people and every bot there is, without a channel; its id."""
        guild = Guild(self._world.next_id(), name, set(members), {bot.id for bot in self._world.bots.values()})
        self._world.guilds[guild.id] = guild
        for bot in self._world.bots.values():
            self._book.tell(bot, "GUILD_CREATE", self._world.describe_guild(guild), GUILDS)
        return guild.id

    def add_channel(self, guild: str, name: str) -> str:
        channel = self._world.add_channel(TEXT, guild=guild, name=name)
        self._announce("CHANNEL_CREATE", channel)
        return channel.id

    def add_thread(self, channel: str, name: str, quiet: bool = False) -> str:
        """A thread of a channel; quiet: nobody is told of it."""
        above = self._channel(channel)
        thread = self._world.add_channel(THREAD, guild=above.guild, parent=above.id, name=name)
        if not quiet:
            self._announce("THREAD_CREATE", thread, newly_created=True)
        return thread.id

    def change_channel(self, channel: str, **changes: bool) -> None:
        """Switch `muted`, `hidden`, `locked` or `deleted`; whoever may see the channel is told."""
        found = self._channel(channel)
        for name, value in changes.items():
            if name not in _SWITCHES:
                raise LabProblem(f"A channel has no {name!r}.", fix=f"Known are: {', '.join(_SWITCHES)}.")
            setattr(found, name, value)
        kind = "THREAD" if found.kind == THREAD else "CHANNEL"
        self._announce(f"{kind}_{'DELETE' if found.deleted else 'UPDATE'}", found)

    def close_dms(self, person: str, closed: bool = True) -> None:
        """They take no direct messages of bots any more."""
        self._person(person).closed = closed

    def remove_bot(self, guild: str, token: str = "") -> None:
        bot = self._bot(token)
        self._world.guilds[guild].bots.discard(bot.id)
        self._book.tell(bot, "GUILD_DELETE", {"id": guild}, GUILDS)

    def admit_bot(self, guild: str, token: str = "") -> None:
        bot, found = self._bot(token), self._world.guilds[guild]
        found.bots.add(bot.id)
        self._book.tell(bot, "GUILD_CREATE", self._world.describe_guild(found), GUILDS)

    def allow_content(self, allowed: bool, token: str = "") -> None:
        """The switch of the message content intent, in the settings of the bot."""
        bot = self._bot(token)
        bot.privileged = bot.privileged | MESSAGE_CONTENT if allowed else bot.privileged & ~MESSAGE_CONTENT

    def name_role(self, guild: str, token: str = "") -> str:
        return role_of(self._bot(token), self._world.guilds[guild])

    # --- what they say

    def say(self, person: str, text: str, channel: str = "", reply_to: str = "", **fields: Any) -> str:
        """Write; the id of the message. `fields` are put into it as they are."""
        return self._post(person, channel, text, reply_to, fields).id

    def send(self, person: str, files: Sequence[Mapping[str, str]], text: str = "", channel: str = "") -> str:
        """Send files, each with name, data (base64) and content_type; the id of the message."""
        found = self._channel(channel or self.dm(person))
        kept = [
            self._world.keep_file(found, one["name"], one["content_type"], base64.b64decode(one["data"]))
            for one in files
        ]
        return self._post(person, found.id, text, "", {"attachments": kept}).id

    def _post(self, person: str, channel: str, text: str, reply_to: str, fields: Mapping[str, Any]) -> DiscordMessage:
        found, who = self._channel(channel or self.dm(person)), self._person(person)
        whole: JsonObject = {"content": text, "mentions": self._find_mentions(text), **fields}
        whole["mention_roles"] = re.findall(r"<@&([0-9]+)>", text)
        if found.guild:
            whole |= {"guild_id": found.guild, "member": {"roles": [], "flags": 0, "nick": None}}
        else:
            whole["channel_type"] = DM
        if reply_to:
            replied = found.messages[reply_to]
            gone = {"referenced_message": None if replied.deleted else replied.body}
            whole |= {"type": REPLY, **gone}
            whole["message_reference"] = {"type": 0, "message_id": reply_to, "channel_id": found.id}
        message = self._world.add_message(found, who.describe(), **whole)
        self._said.append(message)
        self._tell(found, "MESSAGE_CREATE", message)
        return message

    def _find_mentions(self, text: str) -> list[JsonObject]:
        numbers = re.findall(r"<@!?([0-9]+)>", text)
        bots = {bot.id: bot.describe() for bot in self._world.bots.values()}
        people = {person.id: person.describe() for person in self._world.people.values()}
        return [{**bots, **people}[number] for number in dict.fromkeys(numbers) if number in bots or number in people]

    def _tell(self, channel: DiscordChannel, kind: str, message: DiscordMessage) -> None:
        for bot in self._world.bots_of(channel):
            self._book.tell_message(bot, kind, self._world.describe_message(message))

    def _announce(self, kind: str, channel: DiscordChannel, **more: Any) -> None:
        for bot in self._world.bots_of(channel):
            self._book.tell(bot, kind, {**self._world.describe_channel(channel), **more}, GUILDS)

    def edit(self, message: str, text: str, channel: str) -> None:
        found = self._channel(channel)
        changed = found.messages[message]
        changed.body |= {"content": text, "edited_timestamp": self._world.write_time()}
        self._tell(found, "MESSAGE_UPDATE", changed)

    def delete(self, message: str, channel: str) -> None:
        found = self._channel(channel)
        found.messages[message].deleted = True
        for bot in self._world.bots_of(found):
            self._book.tell(bot, "MESSAGE_DELETE", {"id": message, "channel_id": found.id})

    def press(self, person: str, message: str, button: str, channel: str = "") -> str:
        """Press the button with this label or id; the id of the interaction."""
        found = self._channel(channel or self.dm(person))
        body = found.messages[message].body
        buttons = [one for row in body["components"] for one in row["components"]]
        pressed = next((one for one in buttons if button in (one["label"], one["custom_id"])), None)
        if pressed is None:
            raise LabProblem(f"There is no button {button!r}.")
        bot = self._world.find_bot(body["author"]["id"])
        data = {"custom_id": pressed["custom_id"], "component_type": 2}
        return self._interact(bot, person, found, 3, data, message=body)

    def command(self, person: str, name: str, text: str = "", channel: str = "", token: str = "") -> str:
        """Choose a command of the bot's menu; the id of the interaction."""
        bot = self._bot(token)
        known = next((one for one in bot.commands if one["name"] == name), None)
        if known is None:
            raise LabProblem(f"The bot has no command {name!r}.")
        data = {"id": known["id"], "name": name, "type": 1}
        if text:
            data["options"] = [{"name": known["options"][0]["name"], "type": 3, "value": text}]
        return self._interact(bot, person, self._channel(channel or self.dm(person)), 2, data)

    def _interact(
        self, bot: DiscordBot, person: str, channel: DiscordChannel, kind: int, data: JsonObject, **more: Any
    ) -> str:
        number = self._world.next_id()
        made = Interaction(number, f"secret-of-{number}", kind, bot.id, self._world.clock.now())
        self._world.interactions[number] = made
        who = self._person(person).describe()
        where: JsonObject = {"user": who}
        if channel.guild:
            where = {"guild_id": channel.guild, "member": {"user": who, "roles": [], "flags": 0, "permissions": "8"}}
        told = {
            "id": number,
            "application_id": bot.id,
            "type": kind,
            "token": made.token,
            "version": 1,
            "channel_id": channel.id,
            "channel": self._world.describe_channel(channel),
            "entitlements": [],
            "context": 0 if channel.guild else 1,
            "attachment_size_limit": 10_485_760,
            "data": data,
            **where,
            **more,
        }
        self._book.tell(bot, "INTERACTION_CREATE", told)
        return number

    # --- what they see

    def messages(self, channel: str) -> list[JsonObject]:
        """What stands there, oldest first, with the number of its edits and the reactions to it."""
        found = self._channel(channel).messages.values()
        return [{**one.body, "edits": one.edits, "reactions": list(one.reactions)} for one in found if not one.deleted]

    def seen(self, channel: str) -> list[str]:
        """The texts of bots that stand in the channel; of a file its name."""
        shown = [one for one in self.messages(channel) if one["author"].get("bot")]
        return [one["attachments"][0]["filename"] if one["attachments"] else one["content"] for one in shown]

    def typing(self, channel: str) -> int:
        return len(self._channel(channel).typing)

    def reactions(self, message: str, channel: str) -> list[str]:
        return list(self._channel(channel).messages[message].reactions)

    def menu(self, token: str = "") -> list[JsonObject]:
        return self._bot(token).commands

    def interaction(self, number: str) -> JsonObject:
        """The answers that somebody got who pressed or chose something; none: it failed before their eyes."""
        return {"answers": self._world.interactions[number].answers}

    # --- what the service does by itself

    def redeliver(self, count: int = 1, backwards: bool = False) -> int:
        """Tell of the last messages of people once more."""
        last = list(self._said)[-count:]
        for message in reversed(last) if backwards else last:
            self._tell(self._channel(message.body["channel_id"]), "MESSAGE_CREATE", message)
        return len(last)

    def push(self, kind: str, data: JsonObject, token: str = "") -> None:
        """Any event, as it is."""
        self._book.tell(self._bot(token), kind, data)

    def lines(self) -> int:
        return len(self._book.lines())

    def reconnect(self) -> None:
        """Ask every client to connect anew."""
        for line in self._book.lines():
            line.ask_to_reconnect()

    def invalidate(self, resumable: bool = False) -> None:
        for line in self._book.lines():
            line.invalidate(resumable)

    def close_lines(self, code: int) -> None:
        for line in self._book.lines():
            line.close(code)

    def freeze(self) -> None:
        """Lines go silent without an end."""
        for line in self._book.lines():
            line.freeze()

    def set_heartbeat(self, seconds: float) -> None:
        """For lines that are opened from now on."""
        self._book.heartbeat_seconds = seconds

    def set_resume(self, address: str) -> None:
        """Sessions that begin from now on are told to be taken up again there; empty: here."""
        self._book.resume_address = address

    def expire_files(self) -> None:
        """The addresses that were told of files are not good any more."""
        for file in self._world.attachments.values():
            file.expires = 0.0

    def _bot(self, token: str) -> DiscordBot:
        return self._world.bots[token] if token else next(iter(self._world.bots.values()))

    def _person(self, number: str) -> DiscordPerson:
        return self._world.people[number]

    def _channel(self, number: str) -> DiscordChannel:
        return self._world.channels[number]
