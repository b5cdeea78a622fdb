"""What a method is given, and what several of them do the same way."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_lab.chats.telegram.api_values import FIELDS, Complain, Parameters, bad, need
from hermes_lab.chats.telegram.texts.entities import cut_units, units
from hermes_lab.chats.telegram.updates import UpdateQueue
from hermes_lab.chats.telegram.world import (
    GENERAL,
    BotAccount,
    ChatMessage,
    TelegramChat,
    World,
    quote_of,
)


@dataclass(frozen=True, slots=True)
class Calling:
    """One call of a method."""

    world: World
    bot: BotAccount
    queue: UpdateQueue
    parameters: Parameters
    complain: Complain

    def find_chat(self) -> TelegramChat:
        return self.world.find_chat(self.bot, self.parameters.text("chat_id"))

    def need(self, *names: str) -> None:
        """Complain about what a client should always send; what becomes of it is said elsewhere."""
        for name in names:
            if not self.parameters.has(name):
                self.complain(FIELDS, f"There is no {name}.")


Method = Callable[[Calling], Any | Awaitable[Any]]


def read_place(calling: Calling) -> tuple[TelegramChat, dict[str, Any]]:
    """Where a message goes: the chat, and the fields of topic and reply."""
    chat = calling.find_chat()
    if chat.muted:
        raise bad("not enough rights to send text messages to the chat")
    fields: dict[str, Any] = {}
    thread = calling.parameters.number("message_thread_id")
    if thread:
        if thread == GENERAL or thread not in chat.topics:
            raise bad("message thread not found")
        if thread in chat.closed_topics:
            raise bad("TOPIC_CLOSED")
        fields |= {"message_thread_id": thread, "is_topic_message": True}
    reply = calling.parameters.json("reply_parameters", dict, "reply parameters")
    if reply is None and calling.parameters.has("reply_to_message_id"):
        allowed = calling.parameters.flag("allow_sending_without_reply")
        reply = {
            "message_id": calling.parameters.number("reply_to_message_id"),
            "allow_sending_without_reply": allowed,
        }
    if reply is not None:
        fields |= _read_reply(calling, chat, reply)
    return chat, fields


def _read_reply(calling: Calling, chat: TelegramChat, reply: Mapping[str, Any]) -> dict[str, Any]:
    number = need(reply, "message_id", int, "reply parameters")
    if "chat_id" in reply:
        chat = calling.world.find_chat(calling.bot, str(reply["chat_id"]))
    message = chat.messages.get(number)
    if message is None or message.deleted:
        if reply.get("allow_sending_without_reply") is True:
            return {}
        raise bad("message to be replied not found")
    fields: dict[str, Any] = {"reply_to_message": quote_of(message)}
    quoted = reply.get("quote")
    if quoted:
        whole = message.body.get("text") or message.body.get("caption") or ""
        if quoted not in whole:
            raise bad("QUOTE_TEXT_INVALID")
        position = units(whole[: whole.index(quoted)])
        cut = cut_units(whole, position, position + units(quoted))
        fields["quote"] = {"text": cut, "position": position, "is_manual": True}
    return fields


def find_own(calling: Calling, number: int, problem: str) -> tuple[TelegramChat, ChatMessage]:
    """A message of the bot that it wants to change."""
    chat = calling.find_chat()
    message = calling.world.find_message(chat, number, bad(problem))
    if message.author != calling.bot.id:
        raise bad("message can't be edited")
    return chat, message
