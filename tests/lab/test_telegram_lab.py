"""The lab's Telegram through the real SDK: every method, every error, and what the server complains about."""

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import telegram
from telegram import (
    Bot,
    BotCommandScopeChat,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    InputMediaPhoto,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, NetworkError, RetryAfter

from hermes_lab.chats.rates import Rate
from hermes_lab.chats.telegram import parameter_names, service
from hermes_lab.chats.telegram.people import POINT
from hermes_lab.chats.telegram.service import TelegramRates
from hermes_lab.chats.telegram.telegram_lab import TelegramLab

#: The SDK will name times by another type one day, and has advice on how to call it.
pytestmark = pytest.mark.filterwarnings("ignore::telegram.warnings.PTBUserWarning")
FREE = TelegramRates(None, None, None)
Steps = Callable[[TelegramLab, Bot, int], Awaitable[None]]


def run(steps: Steps, rates: TelegramRates = FREE, complaints: tuple[str, ...] = ()) -> None:
    """With a person in a private chat; `complaints`: the kinds that are there at the end."""

    async def all_steps() -> None:
        async with TelegramLab(rates=rates) as lab:
            person = lab.add_person("Ann", "ann")
            async with Bot(lab.token, base_url=lab.base_url, base_file_url=lab.base_file_url) as bot:
                await steps(lab, bot, person)
            assert tuple(complaint["kind"] for complaint in lab.complaints) == complaints

    asyncio.run(all_steps())


def ask(lab: TelegramLab, path: str) -> Any:
    """A call without the SDK."""
    line = http.client.HTTPConnection(lab.address.removeprefix("http://"))
    try:
        line.request("GET", path)
        answer = line.getresponse()
        said = json.loads(answer.read())
        assert said.get("error_code", 200) == answer.status
        return said
    finally:
        line.close()


def buttons(*rows: tuple[str, ...]) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton(text, callback_data=text) for text in row] for row in rows])


def test_who_the_bot_is() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        me = await bot.get_me()
        assert (me.username, me.can_read_all_group_messages) == ("lab_bot", False)
        assert lab.calls("getMe")[0]["status"] == 200

    run(steps)


def test_texts_are_sent_edited_and_deleted() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        asked = lab.say(person, "What is up?")
        sent = await bot.send_message(
            person,
            "<b>all</b> is well",
            "HTML",
            reply_parameters=ReplyParameters(asked, quote="up"),
            reply_markup=buttons(("a",)),
        )
        assert sent.text == "all is well"
        assert sent.entities == (MessageEntity("bold", 0, 3),)
        assert sent.reply_to_message is not None
        assert sent.quote is not None
        assert (sent.reply_to_message.message_id, sent.quote.position) == (asked, 8)
        edited = await bot.edit_message_text("*new*", person, sent.message_id, parse_mode="MarkdownV2")
        assert isinstance(edited, telegram.Message)
        assert (edited.text, edited.reply_markup) == ("new", None)
        assert edited.edit_date is not None
        await bot.edit_message_reply_markup(person, sent.message_id, reply_markup=buttons(("b",)))
        assert lab.messages(person)[1]["reply_markup"]["inline_keyboard"][0][0]["text"] == "b"
        other = await bot.send_message(person, "x", entities=[MessageEntity("italic", 0, 1)])
        assert lab.seen(person) == ["new", "x"]
        await bot.delete_message(person, sent.message_id)
        await bot.delete_messages(person, [other.message_id, 4711])
        assert lab.seen(person) == []

    run(steps)


def test_files_go_both_ways() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        photo = await bot.send_photo(person, POINT, caption="<i>p</i>", parse_mode="HTML", filename="p.png")
        assert photo.photo[-1].width == 1
        assert photo.caption_entities == (MessageEntity("italic", 0, 1),)
        document = await bot.send_document(person, b"plan", filename="plän.txt")
        assert document.document is not None
        assert (document.document.file_name, document.document.mime_type) == ("plän.txt", "text/plain")
        assert (await bot.send_document(person, document.document.file_id)).document == document.document
        assert (await bot.send_voice(person, b"OggS")).voice is not None
        assert (await bot.send_audio(person, b"ID3", filename="a.mp3")).audio is not None
        assert (await bot.send_video(person, b"mp4", filename="v.mp4")).video is not None
        got = await bot.get_file(document.document.file_id)
        assert bytes(await got.download_as_bytearray()) == b"plan"
        album = await bot.send_media_group(
            person, [InputMediaPhoto(POINT, caption="one", filename="1.png"), InputMediaPhoto(photo.photo[-1].file_id)]
        )
        assert len({message.media_group_id for message in album}) == 1
        assert [message.caption for message in album] == ["one", None]
        await bot.send_media_group(
            person, [InputMediaDocument(b"1", filename="1"), InputMediaDocument(b"2", filename="2")]
        )
        assert lab.seen(person)[:2] == ["p.png", "plän.txt"]
        assert lab.seen(person)[-2:] == ["1", "2"]
        await bot.edit_message_caption(person, photo.message_id, caption="other")
        assert lab.messages(person)[0]["caption"] == "other"

    run(steps)


def test_files_of_people_are_fetched() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        lab.send(person, "document", b"hello", "h.txt", caption="look")
        lab.send(person, "photo")
        lab.send(person, "sticker")
        lab.send(person, "document", size=20 * 1024 * 1024 + 1, name="big.bin")
        lab.send_album(person, [{"caption": "two"}, {}])
        updates = await bot.get_updates(timeout=5)
        messages = [update.message for update in updates if update.message]
        assert messages[0].document is not None
        file = await bot.get_file(messages[0].document.file_id)
        assert bytes(await file.download_as_bytearray()) == b"hello"
        assert bytes(await (await messages[1].photo[-1].get_file()).download_as_bytearray()) == POINT
        assert messages[2].sticker is not None
        assert messages[2].sticker.emoji == "🙂"
        assert messages[3].document is not None
        with pytest.raises(BadRequest, match="too big"):
            await bot.get_file(messages[3].document.file_id)
        with pytest.raises(BadRequest, match="file_id"):
            await bot.get_file("no such file")
        assert messages[4].media_group_id == messages[5].media_group_id
        assert lab.calls("downloadFile")[0]["status"] == 200

    run(steps)


def test_signs_commands_and_chats() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        asked = lab.say(person, "hi")
        await bot.send_chat_action(person, "typing")
        assert [action["action"] for action in lab.actions(person)] == ["typing"]
        await bot.set_message_reaction(person, asked, "👀")
        assert lab.messages(person)[0]["reactions"] == {str(bot.id): [{"type": "emoji", "emoji": "👀"}]}
        await bot.set_my_commands([("help", "what there is")])
        await bot.set_my_commands([("mine", "only here")], scope=BotCommandScopeChat(person))
        assert [command.command for command in await bot.get_my_commands()] == ["help"]
        assert [command["command"] for command in lab.menu(person)] == ["mine"]
        await bot.delete_my_commands(BotCommandScopeChat(person))
        assert [command["command"] for command in lab.menu(person)] == ["help"]
        assert (await bot.get_chat(person)).first_name == "Ann"
        group = lab.add_group("Ops", [person], admin=True)
        assert (await bot.get_chat(group)).title == "Ops"
        assert (await bot.get_chat_member(group, bot.id)).status == "administrator"
        assert (await bot.get_chat_member(group, person)).status == "member"

    run(steps)


def test_buttons_are_pressed_and_answered() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        sent = await bot.send_message(person, "Shall I?", reply_markup=buttons(("Yes", "No")))
        press = lab.press(person, sent.message_id, "No")
        (update,) = await bot.get_updates(timeout=5)
        query = update.callback_query
        assert query is not None
        assert (query.id, query.data, query.from_user.id) == (press, "No", person)
        await bot.answer_callback_query(query.id, "Fine.")
        assert lab.press_state(press) == {"answered": True, "text": "Fine.", "show_alert": False}
        late = lab.press(person, sent.message_id, "Yes")
        lab.advance(151)
        assert await bot.get_updates(offset=update.update_id + 1) == ()
        with pytest.raises(BadRequest, match="too old"):
            await bot.answer_callback_query(late)

    run(steps)


def test_groups_topics_and_migration() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        forum = lab.add_group("Ops", [person], forum=True)
        topic = lab.add_topic(forum, "Plans")
        sent = await bot.send_message(forum, "here", message_thread_id=topic)
        assert (sent.message_thread_id, sent.is_topic_message) == (topic, True)
        for thread in (1, 4711):
            with pytest.raises(BadRequest, match="Message thread not found"):
                await bot.send_message(forum, "there", message_thread_id=thread)
        small = lab.add_group("Small", [person], kind="group")
        await bot.send_message(small, "hello")
        grown = lab.migrate(small)
        with pytest.raises(ChatMigrated) as error:
            await bot.send_message(small, "hello again")
        assert error.value.new_chat_id == grown
        await bot.send_message(grown, "hello again")
        assert (lab.seen(forum, topic), lab.seen(grown)) == (["here"], ["hello again"])

    run(steps)


def test_privacy_mode() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        group = lab.add_group("Ops", [person])
        sent = await bot.send_message(group, "I am here")
        lab.say(person, "among us", chat=group)
        lab.say(person, "hey @lab_bot", chat=group)
        lab.say(person, "/help@other_bot", chat=group)
        lab.say(person, "/help", chat=group)
        lab.say(person, "so are we", chat=group, reply_to=sent.message_id, quote="here")
        updates = await bot.get_updates(timeout=5)
        assert [update.message.text for update in updates if update.message] == ["hey @lab_bot", "/help", "so are we"]

    run(steps)


def test_who_cannot_be_reached() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        group, kicked = lab.add_group("Ops", [person], kind="group"), lab.add_group("Old", [person])
        new, gone = lab.add_person("Ben", started=False), lab.add_person("Cy")
        lab.deactivate(gone)
        lab.block(person)
        lab.remove_bot(group, left=True)
        lab.remove_bot(kicked)
        for chat, problem in (
            (person, "bot was blocked by the user"),
            (new, "bot can't initiate conversation with a user"),
            (gone, "user is deactivated"),
            (group, "bot is not a member of the group chat"),
            (kicked, "bot was kicked from the supergroup chat"),
        ):
            with pytest.raises(Forbidden, match=problem):
                await bot.send_message(chat, "hello?")
        with pytest.raises(BadRequest, match="Chat not found"):
            await bot.send_message(4711, "hello?")
        lab.unblock(person)
        await bot.send_message(person, "hello!")
        standings = [update.my_chat_member for update in await bot.get_updates(timeout=5)]
        assert [told.new_chat_member.status for told in standings if told] == ["kicked", "left", "kicked", "member"]
        muted = lab.add_group("Quiet", [person])
        lab.change_chat(muted, muted=True)
        with pytest.raises(BadRequest, match="ot enough rights"):
            await bot.send_message(muted, "hello?")

    run(steps)


@pytest.mark.parametrize(
    ("call", "problem", "kinds"),
    [
        (lambda bot, person: bot.send_message(person, ""), "Message text is empty", ("fields", "length")),
        (lambda bot, person: bot.send_message(person, " \n "), "Text must be non-empty", ("length",)),
        (lambda bot, person: bot.send_message(person, "<b> </b>", "HTML"), "Text must be non-empty", ("length",)),
        (lambda bot, person: bot.send_message(person, "a" * 4097), "Message is too long", ("length",)),
        (lambda bot, person: bot.send_message(person, "a" * 40000), "Text is too long", ("length",)),
        (lambda bot, person: bot.send_message(person, "a", "XML"), "Unsupported parse_mode", ("fields",)),
        (lambda bot, person: bot.send_message(person, "a_b.", "MarkdownV2"), "an't parse entities", ("markup",)),
        (
            lambda bot, person: bot.send_message(person, "x", reply_markup=buttons(("é" * 33,))),
            "Button_data_inv",
            ("buttons",),
        ),
        (
            lambda bot, person: bot.send_message(person, "x", reply_markup=buttons(*[(str(n),) for n in range(101)])),
            "Reply_markup_too_long",
            ("buttons",),
        ),
        (lambda bot, person: bot.send_document(person, b"x", caption="c" * 1025), "caption is too long", ("length",)),
        (lambda bot, person: bot.send_photo(person, b"no picture"), "Image_process_failed", ()),
        (lambda bot, person: bot.edit_message_text("x", person, 4711), "Message to edit not found", ()),
        (lambda bot, person: bot.edit_message_text("x", person, 1), "Message can't be edited", ()),
        (lambda bot, person: bot.delete_message(person, 4711), "Message to delete not found", ()),
        (
            lambda bot, person: bot.send_message(person, "x", reply_parameters=ReplyParameters(4711)),
            "Message to be replied not found",
            (),
        ),
        (lambda bot, person: bot.send_chat_action(person, "sleeping"), "Wrong parameter action", ("fields",)),
        (lambda bot, person: bot.set_message_reaction(person, 1, "🧱"), "Reaction_invalid", ("fields",)),
        (lambda bot, person: bot.set_my_commands([("Bad-Name", "x")]), "Bot_command_invalid", ("fields",)),
        (lambda bot, person: bot.answer_callback_query("1"), "Query is too old", ()),
        (lambda bot, person: bot.set_webhook("http://example.org/x"), "An https url must", ("fields",)),
        (lambda bot, person: bot.set_webhook("https://example.org:444/x"), "only on ports", ("fields",)),
        (lambda bot, person: bot.set_webhook("http://127.0.0.1:9/", secret_token="a b"), "unallowed char", ("fields",)),
        (lambda bot, person: bot.do_api_request("sendSmoke"), "not found", ("method",)),
        (
            lambda bot, person: bot.do_api_request("sendMessage", {"text": "x"}),
            "Chat_id is empty",
            ("fields", "fields"),
        ),
        (
            lambda bot, person: bot.do_api_request(
                "sendMessage", {"chat_id": person, "text": "x", "reply_markup": "{"}
            ),
            "can't parse reply keyboard markup",
            ("fields",),
        ),
    ],
)
def test_errors_and_complaints(
    call: Callable[[Bot, int], Awaitable[Any]], problem: str, kinds: tuple[str, ...]
) -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        lab.say(person, "hello")
        with pytest.raises(telegram.error.TelegramError) as error:
            await call(bot, person)
        assert problem.lower() in str(error.value).lower()
        assert lab.seen(person) == []

    run(steps, complaints=kinds)


def test_every_method_has_its_parameters() -> None:
    assert set(parameter_names._NAMES) == set(service._NAMES.values())


def test_a_parameter_that_nobody_knows() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        await bot.send_message(person, "x", api_kwargs={"parse_mod": "HTML"})

    run(steps, complaints=("fields",))


def test_people_come_and_go_and_send_other_things() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        other = lab.add_person("Ben")
        group = lab.add_group("Ops", [person])
        lab.join(other, group)
        lab.leave(other, group)
        lab.post(person, {"location": {"latitude": 1.0, "longitude": 2.0}})
        come, gone, place = (update.message for update in await bot.get_updates(timeout=5))
        assert come is not None
        assert gone is not None
        assert place is not None
        assert [user.id for user in come.new_chat_members] == [other]
        assert gone.left_chat_member is not None
        assert place.location is not None
        sent = await bot.send_message(person, "?", reply_markup=buttons(("a",)))
        press = lab.press(person, sent.message_id, "a")
        assert lab.unanswered == [press]

    run(steps)


def test_an_edit_to_the_same_text() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        sent = await bot.send_message(person, "<b>x</b>", "HTML")
        with pytest.raises(BadRequest, match="Message is not modified: specified new message content"):
            await bot.edit_message_text("*x*", person, sent.message_id, parse_mode="MarkdownV2")

    run(steps, complaints=("same text",))


def test_lengths_count_after_parsing() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        await bot.send_message(person, "<b>" + "&amp;" * 4096 + "</b>", "HTML")
        assert lab.seen(person) == ["&" * 4096]

    run(steps)


def test_tokens() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        for token, text in (("nonsense", "Unauthorized: invalid token specified"), ("123:abc", "Unauthorized")):
            assert await asyncio.to_thread(ask, lab, f"/bot{token}/getMe") == {
                "ok": False,
                "error_code": 401,
                "description": text,
            }
        lab.revoke()
        with pytest.raises(InvalidToken):
            await bot.send_message(person, "x")
        lab.advance(1)
        with pytest.raises(InvalidToken):
            await bot.send_message(person, "x")
        lab.advance(11)
        with pytest.raises(InvalidToken):
            await bot.get_me()

    run(steps, complaints=("token",))


def test_a_penalty_is_told_with_the_time_that_is_left() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        other = lab.add_person("Ben")
        lab.plan([{"kind": "too_many", "method": "sendMessage", "seconds": 30}])
        with pytest.raises(RetryAfter) as first:
            await bot.send_message(person, "one")
        assert "30" in str(first.value)
        await bot.send_message(other, "to somebody else")
        lab.advance(10)
        with pytest.raises(RetryAfter):
            await bot.send_chat_action(person, "typing")
        told = lab.calls("sendChatAction")[0]["problem"]
        assert 0 < int(told.removeprefix("Too Many Requests: retry after ")) <= 20
        lab.advance(20)
        await bot.send_message(person, "two")
        assert (lab.seen(person), lab.seen(other)) == (["two"], ["to somebody else"])

    run(steps, complaints=("penalty",))


def test_rates_are_watched() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        for n in range(4):
            await bot.send_message(person, f"{n}")
        with pytest.raises(RetryAfter):
            await bot.send_message(person, "too much")
        with pytest.raises(RetryAfter):
            await bot.send_message(person, "still")
        await bot.get_updates()
        lab.advance(1000)
        await bot.send_message(person, "4")
        assert lab.seen(person) == ["0", "1", "2", "3", "4"]

    run(steps, TelegramRates(chat=Rate(1, 1000.0, burst=3)), complaints=("rate",))


def test_a_group_and_the_account_have_limits_of_their_own() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        group = lab.add_group("Ops", [person])
        lab.set_rates(group=Rate(2, 60.0, slack=0))
        for _ in range(2):
            await bot.send_message(group, "x")
        with pytest.raises(RetryAfter):
            await bot.send_message(group, "x")
        lab.set_rates(account=Rate(1, 1000.0, burst=1, slack=0))
        await bot.send_message(person, "x")
        with pytest.raises(RetryAfter):
            await bot.send_message(lab.add_person("Ben"), "x")

    run(steps, complaints=("rate", "rate"))


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("error", []),
        ("page", []),
        ("cut_before", []),
        ("cut_after", ["hello"]),
        ("silent", []),
        ("silent_after", ["hello"]),
        ("late", ["hello"]),
    ],
)
def test_faults(kind: str, seen: list[str]) -> None:
    """Whether the call took effect is in the record, whatever the client could see of it."""

    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        lab.plan([{"kind": kind, "method": "sendmessage", "seconds": 0.01}])
        if kind == "late":
            await bot.send_message(person, "hello")
        else:
            with pytest.raises(NetworkError):
                await bot.send_message(person, "hello", read_timeout=0.5)
        assert lab.seen(person) == seen
        (call,) = lab.calls("sendMessage", person)
        assert (call["fault"], call["took_effect"]) == (kind, bool(seen))
        assert lab.faults_left == 0
        await bot.send_message(person, "again")

    run(steps)
