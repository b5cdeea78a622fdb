"""Methods that write, change and delete messages, and the small signs beside them."""

from collections.abc import Mapping
from typing import Any

from hermes_lab.chats.telegram.api_values import DAY, FIELDS, LENGTH, PRESS_SECONDS, SAME, bad, rows_of
from hermes_lab.chats.telegram.calling import Calling, Method, find_own, read_place
from hermes_lab.chats.telegram.keyboards import read_keyboard
from hermes_lab.chats.telegram.texts.formatting import describe_text, format_text
from hermes_lab.chats.telegram.world import PRIVATE, ChatMessage

MOST_ANSWER = 200  # characters of the answer to a press
_ACTIONS = (
    "typing upload_photo record_video upload_video record_voice upload_voice record_audio upload_audio upload_document "
    "choose_sticker find_location record_video_note upload_video_note"
)
ACTIONS = frozenset(_ACTIONS.split())
_EMOJI = (
    "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ "
    "🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ "
    "💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡"
)
REACTIONS = frozenset(_EMOJI.split())  # what a bot may react with


def send_message(calling: Calling) -> Any:
    calling.need("chat_id", "text")
    if not calling.parameters.text("text"):
        raise bad("message text is empty", LENGTH)
    chat, fields = read_place(calling)
    fields |= _read_text(calling)
    keyboard = read_keyboard(calling.parameters, calling.complain)
    if keyboard:
        fields["reply_markup"] = keyboard
    return calling.world.add_message(chat, calling.bot.describe(), **fields).body


def _read_text(calling: Calling) -> Mapping[str, Any]:
    parameters = calling.parameters
    given = parameters.json("entities", list, "entities")
    text, entities = format_text(parameters.text("text"), parameters.text("parse_mode"), given, calling.complain)
    if not text:
        raise bad("text must be non-empty", LENGTH)
    return describe_text(text, entities)


def edit_text(calling: Calling) -> Any:
    calling.need("chat_id", "message_id", "text")
    _, message = find_own(calling, calling.parameters.number("message_id"), "message to edit not found")
    if not calling.parameters.text("text"):
        raise bad("message text is empty", LENGTH)
    if "text" not in message.body:
        raise bad("there is no text in the message to edit")
    return _change(calling, message, ("text", "entities"), _read_text(calling))


def edit_caption(calling: Calling) -> Any:
    calling.need("chat_id", "message_id")
    _, message = find_own(calling, calling.parameters.number("message_id"), "message to edit not found")
    if "text" in message.body:
        raise bad("there is no caption in the message to edit")
    return _change(calling, message, ("caption", "caption_entities"), read_caption(calling))


def edit_keyboard(calling: Calling) -> Any:
    calling.need("chat_id", "message_id")
    _, message = find_own(calling, calling.parameters.number("message_id"), "message to edit not found")
    return _change(calling, message, (), {})


def read_caption(calling: Calling, source: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The fields of a caption, from the call or from one piece of an album."""
    parameters = calling.parameters
    if source is None:
        given = parameters.json("caption_entities", list, "caption entities")
        raw, mode = parameters.text("caption"), parameters.text("parse_mode")
    else:
        given = source.get("caption_entities")
        raw, mode = str(source.get("caption", "")), str(source.get("parse_mode", ""))
    text, entities = format_text(raw, mode, given, calling.complain, is_caption=True)
    return describe_text(text, entities, "caption")


def _change(calling: Calling, message: ChatMessage, names: tuple[str, ...], fields: Mapping[str, Any]) -> Any:
    """Put new fields in the place of old ones. A keyboard that is not sent again is gone."""
    keyboard = read_keyboard(calling.parameters, calling.complain)
    wanted = {**fields, **({"reply_markup": keyboard} if keyboard else {})}
    all_names = (*names, "reply_markup")
    if {name: message.body[name] for name in all_names if name in message.body} == wanted:
        calling.complain(SAME, f"Message {message.id} is edited to what it says already.")
        raise bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a current "
            "content and reply markup of the message"
        )
    for name in all_names:
        message.body.pop(name, None)
    message.body |= {**wanted, "edit_date": int(calling.world.clock.date())}
    message.edits += 1
    return message.body


def delete_message(calling: Calling) -> Any:
    calling.need("chat_id", "message_id")
    _delete(calling, calling.parameters.number("message_id"))
    return True


def delete_messages(calling: Calling) -> Any:
    calling.need("chat_id", "message_ids")
    numbers = calling.parameters.json("message_ids", list, "message identifiers") or []
    if not 1 <= len(numbers) <= 100:
        raise bad("there are no messages to delete" if not numbers else "too many message identifiers", FIELDS)
    chat = calling.find_chat()
    for number in numbers:
        if number in chat.messages and not chat.messages[number].deleted:
            _delete(calling, number)
    return True


def _delete(calling: Calling, number: int) -> None:
    chat = calling.find_chat()
    message = calling.world.find_message(chat, number, bad("message to delete not found"))
    is_own = message.author == calling.bot.id or chat.kind == PRIVATE or chat.bots[calling.bot.id] == "administrator"
    is_old = calling.world.clock.date() - message.body["date"] > 2 * DAY
    if not is_own or is_old:
        raise bad("message can't be deleted")
    message.deleted = True


def send_action(calling: Calling) -> Any:
    calling.need("chat_id", "action")
    chat = calling.find_chat()
    action = calling.parameters.text("action")
    if action not in ACTIONS:
        raise bad("wrong parameter action in request", FIELDS)
    thread = calling.parameters.number("message_thread_id")
    if thread not in (0, 1) and thread not in chat.topics:
        raise bad("message thread not found")
    chat.actions.append({"action": action, "thread": thread, "at": calling.world.clock.now()})
    return True


def answer_press(calling: Calling) -> Any:
    calling.need("callback_query_id")
    press = calling.world.presses.get(calling.parameters.text("callback_query_id"))
    now = calling.world.clock.now()
    if press is None or press.bot != calling.bot.id or now - press.at > PRESS_SECONDS:
        raise bad("query is too old and response timeout expired or query ID is invalid")
    text = calling.parameters.text("text")
    if len(text) > MOST_ANSWER:
        raise bad("MESSAGE_TOO_LONG", LENGTH)
    press.answered = True
    press.answer = {"text": text, "show_alert": calling.parameters.flag("show_alert")}
    return True


def react(calling: Calling) -> Any:
    calling.need("chat_id", "message_id")
    chat = calling.find_chat()
    problem = bad("message to react not found")
    message = calling.world.find_message(chat, calling.parameters.number("message_id"), problem)
    wanted = rows_of(calling.parameters.json("reaction", list, "reaction") or [], "reaction")
    if len(wanted) > 1:
        raise bad("REACTIONS_TOO_MANY", FIELDS)
    for reaction in wanted:
        if reaction.get("type") != "emoji" or reaction.get("emoji") not in REACTIONS:
            raise bad("REACTION_INVALID", FIELDS)
        if not chat.reactions and chat.kind != PRIVATE:
            raise bad("REACTION_INVALID")
    message.reactions[calling.bot.id] = list(wanted)
    return True


METHODS: Mapping[str, Method] = {
    "sendMessage": send_message,
    "editMessageText": edit_text,
    "editMessageCaption": edit_caption,
    "editMessageReplyMarkup": edit_keyboard,
    "deleteMessage": delete_message,
    "deleteMessages": delete_messages,
    "sendChatAction": send_action,
    "answerCallbackQuery": answer_press,
    "setMessageReaction": react,
}
