"""Telegram's words, on documented examples: what comes in, what goes out, and what its errors mean."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.face import MenuCommand, NeverTaken, NotNow, Part
from gateway.platforms.telegram import wire_out
from gateway.platforms.telegram.known_chats import KnownChats
from gateway.platforms.telegram.link import read_token
from gateway.platforms.telegram.poll_rules import (
    FOREIGN_WEBHOOK,
    HOOK_TAKEN,
    NORMAL_CONFLICTS,
    QUIET_SECONDS,
    TWO_POLLERS,
    PollState,
    after_success,
    after_trouble,
    find_pause,
    judge_webhook,
)
from gateway.platforms.telegram.refusals import (
    BAD_TOKEN_FIX,
    TOKEN_SECONDS,
    BotTrouble,
    TroubleKind,
    as_failure,
    fix_token,
    hide_token,
    is_bad_photo,
    is_unmodified,
)
from gateway.platforms.telegram.wire import (
    BotSelf,
    GroupMove,
    Ignored,
    Membership,
    OddUpdate,
    Press,
    UpdateRead,
    cut_utf16,
    read_update,
    read_update_id,
)
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound

ME = BotSelf("bot", 99, "Hermes_bot", {"reload_all": "reload-all"})
US = {"id": 99, "is_bot": True, "first_name": "Hermes", "username": "Hermes_bot"}
ANN = {"id": 7001, "is_bot": False, "first_name": "Ann", "username": "ann"}
PRIVATE = {"id": 7001, "type": "private", "first_name": "Ann"}
GROUP = {"id": -1001234567890, "type": "supergroup", "title": "Ops", "is_forum": True}
CHAT = Address("telegram", "bot", "7001")
SIZE = {"file_unique_id": "q", "height": 90}


def message(**fields: Any) -> dict[str, Any]:
    return {"message_id": 1, "from": ANN, "chat": PRIVATE, "date": 1700000000, **fields}


def read(kind: str = "message", **fields: Any) -> UpdateRead:
    return read_update({"update_id": 9001, kind: message(**fields)}, ME)


def read_inbound(**fields: Any) -> Inbound:
    found = read(**fields)
    assert isinstance(found, Inbound), found
    return found


def marked(kind: str, offset: int, length: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length, **more}


# --- messages


def test_a_text_has_its_place_its_sender_and_its_time() -> None:
    """G2: who speaks is a number; the name is for eyes."""
    found = read_inbound(text="/start hi", entities=[marked("bot_command", 0, 6)])
    assert found == Inbound(CHAT, "1", "7001", "/start hi", sender_name="Ann", source="99", received=1700000000.0)


def test_an_edit_is_another_revision_of_the_same_message() -> None:
    """C1."""
    first = read_inbound(text="old")
    edited = read("edited_message", text="new", edit_date=1700000001)
    assert isinstance(edited, Inbound)
    assert (edited.stem, edited.text) == (first.stem, "new")
    assert edited.revision.startswith("1700000001-")
    assert edited.received == 1700000001.0
    again = read("edited_message", text="newer", edit_date=1700000001)
    assert isinstance(again, Inbound)
    assert again.ext_id != edited.ext_id  # Telegram tells whole seconds


def test_the_numbers_of_another_bot_are_other_numbers() -> None:
    """C1: whoever changes the token has a bot whose messages are counted anew."""
    message = {"message_id": 1, "date": 1700000000, "chat": PRIVATE, "from": ANN, "text": "hi"}
    one, other = (read_update({"update_id": 1, "message": message}, replace(ME, id=id)) for id in (99, 100))
    assert isinstance(one, Inbound)
    assert isinstance(other, Inbound)
    assert one.ext_id != other.ext_id


def test_words_of_an_inline_bot_are_marked_and_no_answer() -> None:
    """G4, G9: the person chose them by their title, and another bot wrote them."""
    inbound = read_inbound(text="always", via_bot={"id": 5, "is_bot": True, "first_name": "Gif"})
    assert (inbound.text, inbound.forwarded) == ("[written by the bot Gif]\nalways", True)


def test_a_topic_that_is_opened_again_is_a_place_to_write_to() -> None:
    found = read(chat=GROUP, message_thread_id=42, is_topic_message=True, forum_topic_reopened={})
    assert found == Membership(str(GROUP["id"]), True)


def test_topics_are_threads_and_the_general_one_is_none() -> None:
    in_topic = read_inbound(chat=GROUP, message_thread_id=42, is_topic_message=True, text="x")
    assert in_topic.address == Address("telegram", "bot", "-1001234567890", "group", "42")
    assert read_inbound(chat=GROUP, text="x").address.thread == ""
    assert read_inbound(chat=GROUP, message_thread_id=1, is_topic_message=True, text="x").address.thread == ""
    # In a group without topics an answer has the number of what it answers.
    assert read_inbound(chat=GROUP, message_thread_id=17, text="x").address.thread == ""


@pytest.mark.parametrize(
    ("fields", "mentioned"),
    [
        ({"text": "hello all"}, False),
        ({"text": "😀 @hermes_BOT hi", "entities": [marked("mention", 3, 11)]}, True),
        ({"text": "@hermes_bot2 hi", "entities": [marked("mention", 0, 12)]}, False),
        ({"text": "you there", "entities": [marked("text_mention", 0, 3, user=US)]}, True),
        ({"text": "you there", "entities": [marked("text_mention", 0, 3, user=ANN)]}, False),
        ({"text": "/stop@Hermes_bot now", "entities": [marked("bot_command", 0, 16)]}, True),
        ({"text": "/stop", "entities": [marked("bot_command", 0, 5)]}, False),
        ({"text": "yes", "reply_to_message": message(**{"from": US}, text="Sure?")}, True),
        ({"text": "yes", "reply_to_message": message(text="Sure?")}, False),
        ({"photo": [{"file_id": "f", **SIZE, "width": 90}], "caption": "@hermes_bot see"}, False),
        (
            {
                "photo": [{"file_id": "f", **SIZE, "width": 90}],
                "caption": "@hermes_bot see",
                "caption_entities": [marked("mention", 0, 11)],
            },
            True,
        ),
    ],
)
def test_in_a_group_what_names_us_or_answers_us_is_for_us(fields: dict[str, Any], mentioned: bool) -> None:
    assert read_inbound(chat=GROUP, **fields).mentioned is mentioned


def test_a_topic_that_we_opened_is_no_message_of_ours_to_answer() -> None:
    opened = message(**{"from": US}, forum_topic_created={"name": "T", "icon_color": 7322096})
    found = read_inbound(chat=GROUP, message_thread_id=42, is_topic_message=True, text="x", reply_to_message=opened)
    assert (found.mentioned, found.reply_to) == (False, "")


@pytest.mark.parametrize(
    ("typed", "called"),
    [
        ("/stop@hermes_bot", "/stop"),
        ("/model@Hermes_bot gpt x", "/model gpt x"),
        ("/reload_all", "/reload-all"),
        ("/RELOAD_ALL now", "/reload-all now"),
        ("/other_name", "/other_name"),
        ("/usr/bin@x is a path", "/usr/bin@x is a path"),
        ("see /stop@other", "see /stop@other"),
    ],
)
def test_commands_are_called_as_everywhere(typed: str, called: str) -> None:
    assert read_inbound(text=typed).text == called


def test_links_behind_words_are_shown() -> None:
    entities = [marked("text_link", 3, 4, url="https://x.example/a"), marked("bold", 3, 4)]
    assert read_inbound(text="😀 here, ok", entities=entities).text == "😀 here (https://x.example/a), ok"
    assert read_inbound(text="x", entities=[marked("text_link", 0, 99, url="https://x.example")]).text == "x"


def test_a_reply_carries_what_it_replies_to() -> None:
    replied = message(message_id=5, text="pick one of these")
    whole = read_inbound(text="that", reply_to_message=replied)
    assert (whole.reply_to, whole.quote) == ("5", "pick one of these")
    quote = {"text": "pick", "position": 0, "is_manual": True}
    assert read_inbound(text="that", reply_to_message=replied, quote=quote).quote == "pick"
    captioned = message(message_id=5, photo=[], caption="the plan")
    assert read_inbound(text="that", reply_to_message=captioned).quote == "the plan"
    assert read_inbound(text="that", external_reply={"origin": {}}, quote=quote).quote == "pick"


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": {"id": 1, "first_name": "Bob", "last_name": "B"}}, "Bob B"),
        ({"type": "hidden_user", "sender_user_name": "Some\n[one]"}, "Some (one)"),
        ({"type": "channel", "chat": {"id": -1, "title": "News"}}, "News"),
        ({"type": "odd"}, "somebody"),
    ],
)
def test_forwarded_words_are_marked_and_no_command(origin: dict[str, Any], name: str) -> None:
    inbound = read_inbound(text="/stop", forward_origin=origin)
    assert (inbound.text, inbound.forwarded) == (f"[forwarded from {name}]\n/stop", True)


# --- files and other things


@pytest.mark.parametrize(
    ("fields", "file"),
    [
        (
            {
                "photo": [
                    {"file_id": "big", **SIZE, "width": 800, "file_size": 900},
                    {"file_id": "small", **SIZE, "width": 90},
                ]
            },
            FileRef("", "photo_q.jpg", "image", 900, "big"),
        ),
        (
            {"document": {"file_id": "d", "file_unique_id": "u", "file_name": "../a\\b/plan.pdf", "file_size": 7}},
            FileRef("", "plan.pdf", "file", 7, "d"),
        ),
        (
            {"document": {"file_id": "d", "file_unique_id": "u", "file_name": "cat.png", "mime_type": "image/png"}},
            FileRef("", "cat.png", "image", 0, "d"),
        ),
        (
            {"voice": {"file_id": "v", "file_unique_id": "u", "duration": 3, "mime_type": "audio/ogg"}},
            FileRef("", "voice_u.ogg", "audio", 0, "v"),
        ),
        (
            {"audio": {"file_id": "a", "file_unique_id": "u", "duration": 3, "file_name": "song.mp3"}},
            FileRef("", "song.mp3", "audio", 0, "a"),
        ),
        ({"video": {"file_id": "w", "file_unique_id": "u"}}, FileRef("", "video_u.mp4", "file", 0, "w")),
        ({"video_note": {"file_id": "w", "file_unique_id": "u"}}, FileRef("", "video_note_u.mp4", "file", 0, "w")),
        (
            {
                "animation": {"file_id": "g", "file_unique_id": "u"},
                "document": {"file_id": "g", "file_unique_id": "u"},
            },
            FileRef("", "animation_u.mp4", "file", 0, "g"),
        ),
    ],
)
def test_files_stay_with_telegram_until_they_are_fetched(fields: dict[str, Any], file: FileRef) -> None:
    assert read_inbound(**fields, caption="see").files == (file,)
    assert read_inbound(**fields, caption="see").text == "see"


def test_pieces_of_an_album_name_it() -> None:
    found = read_inbound(photo=[{"file_id": "f", **SIZE, "width": 1}], media_group_id="1357", caption="three")
    assert (found.album, found.text, len(found.files)) == ("1357", "three", 1)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"sticker": {"file_id": "s", "type": "regular", "emoji": "🙂"}}, "[sticker 🙂]"),
        ({"sticker": {"file_id": "s", "type": "regular"}}, "[sticker]"),
        ({"location": {"latitude": 52.5, "longitude": 13.4}}, "[location 52.5, 13.4]"),
        (
            {
                "location": {"latitude": 1, "longitude": 2},
                "venue": {"title": "Bar", "address": "Road 1", "location": {"latitude": 1, "longitude": 2}},
            },
            "[place Bar, Road 1 (1, 2)]",
        ),
        ({"contact": {"first_name": "Bo]\nb", "phone_number": "+49"}}, "[contact Bo) b, +49]"),
        ({"poll": {"question": "Tea?", "options": [{"text": "yes"}, {"text": "no"}]}}, "[poll Tea? (yes / no)]"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[dice 🎲 4]"),
        ({"story": {"id": 1, "chat": {}}}, "[story]"),
    ],
)
def test_what_is_neither_text_nor_file_is_described(fields: dict[str, Any], text: str) -> None:
    assert read_inbound(**fields).text == text


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ({"channel_post": message(chat={"id": -5, "type": "channel"}, text="x")}, "not asked for"),
        ({"message": message(chat={"id": -5, "type": "channel"}, text="x")}, "channel"),
        ({"message": message(new_chat_members=[ANN])}, "service"),
        ({"message": message(forum_topic_created={"name": "T"}, chat=GROUP)}, "service"),
        ({"message": message(**{"from": US}, text="x")}, "bot"),
        ({"message": message(chat=GROUP, text="/stop@other_bot")}, "another bot"),
        ({"message": message(chat=GROUP, is_automatic_forward=True, sender_chat=GROUP, text="x")}, "linked channel"),
        ({"edited_message": message(edit_date=5, location={"latitude": 1, "longitude": 2})}, "moves"),
        ({"message_reaction": {"chat": GROUP, "message_id": 5, "user": ANN}}, "not asked for"),
        ({"something_new": 1}, "something_new"),
    ],
)
def test_what_is_not_for_us_is_ignored_with_a_reason(update: dict[str, Any], reason: str) -> None:
    found = read_update({"update_id": 1, **update}, ME)
    assert isinstance(found, Ignored)
    assert reason in found.reason


def test_who_writes_in_the_name_of_a_group_is_nobody_else() -> None:
    """G2: anonymous admins share one account; they are the group, and never a person."""
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    found = read_inbound(**{"from": anonymous}, chat=GROUP, sender_chat=GROUP, text="x")
    assert (found.sender, found.sender_name) == ("-1001234567890", "Ops")


def test_two_people_of_one_name_are_two() -> None:
    """G2: names never identify."""
    other = {**ANN, "id": 7002}
    first, second = read_inbound(text="x"), read_inbound(**{"from": other}, text="x")
    assert first.sender_name == second.sender_name
    assert first.sender != second.sender


# --- buttons and chats


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("@HERMES_bot yes", "yes"),
        ("@Hermes_bot, no: not now", "no: not now"),
        ("@Hermes_bot: /sethome", "/sethome"),
        ("@Hermes_bot /reload_all off", "/reload-all off"),
        ("@Hermes_bot", "@Hermes_bot"),
        ("@ann yes, says @Hermes_bot", "@ann yes, says @Hermes_bot"),
        ("@Hermes_bot @ann yes", "@ann yes"),
    ],
)
def test_our_own_name_at_the_beginning_is_no_part_of_what_is_said(text: str, told: str) -> None:
    """C3, G4: so a yes in a group is a yes, and a command a command; other names stay."""
    marks = [marked("mention", found.start(), len(found[0])) for found in re.finditer(r"@\w+", text)]
    found = read_inbound(text=text, entities=marks)
    assert (found.text, found.mentioned) == (told, True)


def press(data: str = "q1:1", **fields: Any) -> UpdateRead:
    shown = message(**{"from": US}, message_id=11, reply_markup=keyboard("q1", "approve", "deny"))
    query = {"id": "438", "from": ANN, "message": shown, "chat_instance": "-42", "data": data, **fields}
    return read_update({"update_id": 9004, "callback_query": query}, ME)


def keyboard(question: str, *choices: str) -> dict[str, Any]:
    params = wire_out.make_message(Part(CHAT, "Sure?", question=question, choices=choices)).params
    return params["reply_markup"]


def test_a_pressed_button_is_the_answer_to_its_question() -> None:
    found = press()
    assert isinstance(found, Press)
    assert found.query == "438"
    inbound = found.inbound
    assert (inbound.question, inbound.text, inbound.sender, inbound.reply_to) == ("q1", "deny", "7001", "11")
    assert inbound.address == CHAT


def test_a_press_on_a_message_that_is_gone_gives_the_number_of_the_choice() -> None:
    found = press(message={"chat": PRIVATE, "message_id": 11, "date": 0})
    assert isinstance(found, Press)
    assert (found.inbound.question, found.inbound.text) == ("q1", "2")


def test_a_label_that_was_shortened_is_not_taken_for_the_choice() -> None:
    shown = message(**{"from": US}, message_id=11, reply_markup=keyboard("q1", "short", "long " * 40))
    first, second = press("q1:0", message=shown), press("q1:1", message=shown)
    assert isinstance(first, Press)
    assert isinstance(second, Press)
    assert (first.inbound.text, second.inbound.text) == ("short", "2")


@pytest.mark.parametrize("fields", [{"data": ":0"}, {"data": "y"}, {"data": "q1:x"}, {"data": None}, {"message": None}])
def test_a_button_that_is_not_ours_still_gets_its_sign(fields: dict[str, Any]) -> None:
    assert press(**{"data": "q1:1", **fields}) == Ignored("a button that is not ours", "438")


@pytest.mark.parametrize(
    ("after", "is_in"),
    [
        ({"status": "kicked", "until_date": 0}, False),
        ({"status": "left"}, False),
        ({"status": "member"}, True),
        ({"status": "administrator"}, True),
        ({"status": "restricted", "is_member": True, "can_send_messages": False}, False),
        ({"status": "restricted", "is_member": True, "can_send_messages": True}, True),
    ],
)
def test_who_let_us_in_or_put_us_out(after: dict[str, Any], is_in: bool) -> None:
    change = {"chat": PRIVATE, "from": ANN, "date": 1, "new_chat_member": {"user": US, **after}}
    assert read_update({"update_id": 9006, "my_chat_member": change}, ME) == Membership("7001", is_in)


def test_a_group_that_became_a_supergroup_is_told_from_both_sides() -> None:
    old = {"id": -5, "type": "group", "title": "Ops"}
    assert read(chat=old, migrate_to_chat_id=-1001234567890) == GroupMove("-5", "-1001234567890")
    assert read(chat=GROUP, migrate_from_chat_id=-5) == GroupMove("-5", "-1001234567890")


# --- odd updates


@pytest.mark.parametrize(
    "update",
    [
        None,
        [],
        {"message": 5},
        {"message": {"message_id": 1}},
        {"message": message(chat={"id": "x", "type": "private"}, text="secret words")},
        {"message": message(message_id=None, text="secret words")},
        {"message": message(date="x", text="secret words")},
        {"message": message(document={"file_name": "secret words"})},
        {"callback_query": {"id": "1", "data": "q:1", "message": {}, "from": ANN}},
        {"my_chat_member": {"chat": PRIVATE}},
    ],
)
def test_an_odd_update_says_what_is_odd_and_nothing_of_what_was_written(update: Any) -> None:
    with pytest.raises(OddUpdate) as odd:
        read_update(update, ME)
    assert "secret" not in str(odd.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "from",
        "chat",
        "date",
        "text",
        "entities",
        "caption",
        "photo",
        "document",
        "voice",
        "sticker",
        "venue",
        "location",
        "contact",
        "poll",
        "dice",
        "quote",
        "reply_to_message",
        "forward_origin",
        "message_thread_id",
        "is_topic_message",
        "media_group_id",
        "edit_date",
        "sender_chat",
        "migrate_to_chat_id",
        "caption_entities",
    ]
)


@given(st.dictionaries(FIELDS, JSON, max_size=6))
def test_whatever_comes_is_read_or_called_odd(fields: dict[str, Any]) -> None:
    """One update must not take a batch with it."""
    try:
        read_update({"update_id": 1, "message": message(**{"text": "x", **fields})}, ME)
    except OddUpdate:
        pass


def test_the_number_of_an_update() -> None:
    assert read_update_id({"update_id": 5}) == 5
    assert [read_update_id(odd) for odd in ({}, {"update_id": "5"}, None, [])] == [None] * 4


@given(st.text(), st.text(), st.text())
def test_stretches_are_counted_in_utf16(before: str, middle: str, after: str) -> None:
    def size(text: str) -> int:
        return len(text.encode("utf-16-le")) // 2

    assert cut_utf16(before + middle + after, size(before), size(middle)) == middle


# --- what goes out


def part(text: str = "hello", **more: Any) -> Part:
    return Part(**{"address": CHAT, "text": text, "markup": "telegram_html", **more})


def test_a_message_with_markup_and_one_without() -> None:
    call = wire_out.make_message(part("<b>hi</b>"))
    assert call.method == "sendMessage"
    assert call.params == {
        "chat_id": 7001,
        "text": "<b>hi</b>",
        "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": True},
    }
    for markup in ("plain", "markdown"):
        assert "parse_mode" not in wire_out.make_message(part("*hi*", markup=markup)).params


def test_a_message_in_a_topic_that_answers_another() -> None:
    topic = Address("telegram", "bot", "-100123", "group", "42")
    params = wire_out.make_message(part(address=topic, reply_to="17")).params
    assert (params["chat_id"], params["message_thread_id"]) == (-100123, 42)
    assert params["reply_parameters"] == {"message_id": 17, "allow_sending_without_reply": True}
    assert "reply_parameters" not in wire_out.make_message(part(reply_to="press-438")).params
    assert wire_out.make_message(part(address=replace(topic, chat="@news"))).params["chat_id"] == "@news"


def test_halves_of_characters_are_mended() -> None:
    """One of them would break the call, whenever it is made."""
    assert wire_out.make_message(part("a\ud83db")).params["text"] == "a\ufffdb"


@given(st.lists(st.text(min_size=1, max_size=200), min_size=1, max_size=120))
def test_buttons_are_within_the_limits(choices: list[str]) -> None:
    rows = keyboard("0123456789ab", *choices)["inline_keyboard"]
    buttons = [button for row in rows for button in row]
    assert len(buttons) == min(len(choices), 100)
    assert max(map(len, rows)) <= 8
    for index, button in enumerate(buttons):
        assert button["callback_data"] == f"0123456789ab:{index}"
        assert len(button["callback_data"].encode()) <= 64
        assert button["text"].strip()
        assert len(button["text"]) <= 60


def test_long_labels_stand_below_each_other() -> None:
    assert [len(row) for row in keyboard("q", "yes", "no", "always", "never")["inline_keyboard"]] == [3, 1]
    assert [len(row) for row in keyboard("q", "yes", "for this whole conversation")["inline_keyboard"]] == [1, 1]


def test_an_edit_without_choices_takes_the_buttons_away() -> None:
    call = wire_out.make_edit("11", part("done"))
    assert (call.method, call.params["message_id"], call.params["text"]) == ("editMessageText", 11, "done")
    assert "reply_markup" not in call.params
    assert "message_thread_id" not in wire_out.make_edit("11", part(address=replace(CHAT, thread="4"))).params


@pytest.mark.parametrize(
    ("name", "kind", "size", "method"),
    [
        ("cat.png", "image", 10_000_000, "sendPhoto"),
        ("cat.JPG", "image", 5, "sendPhoto"),
        ("cat.png", "image", 10_000_001, "sendDocument"),
        ("cat.gif", "image", 5, "sendAnimation"),
        ("cat.tiff", "image", 5, "sendDocument"),
        ("note.ogg", "audio", 5, "sendVoice"),
        ("song.mp3", "audio", 5, "sendAudio"),
        ("song.wav", "audio", 5, "sendDocument"),
        ("cat.png", "file", 5, "sendDocument"),
        ("README", "file", 5, "sendDocument"),
    ],
)
def test_files_go_as_what_they_are(name: str, kind: str, size: int, method: str) -> None:
    call = wire_out.make_file(part("see", reply_to="3"), FileRef("/x", name, kind, size))
    assert call.method == method
    assert call.file == method.removeprefix("send").lower()
    assert (call.params["caption"], call.params["parse_mode"]) == ("see", "HTML")
    assert wire_out.make_file(part(""), FileRef("/x", name, kind, size), as_document=True).method == "sendDocument"
    assert "caption" not in wire_out.make_file(part(""), FileRef("/x", name, kind, size)).params


def test_a_caption_is_measured_without_its_markup() -> None:
    assert wire_out.fits_caption(part(f"<b>{'&amp;' * 1024}</b>"))
    assert not wire_out.fits_caption(part("a" * 1025))
    assert not wire_out.fits_caption(part("🙂" * 513, markup="plain"))
    assert not wire_out.fits_caption(part("<b>" + "a" * 1022, markup="plain"))


def test_the_menu_has_names_that_telegram_takes() -> None:
    commands = [
        MenuCommand("help", "Show the commands."),
        MenuCommand("reload-all", " x " * 300),
        MenuCommand("new", ""),
    ]
    call, names = wire_out.make_menu([*commands, MenuCommand("été", "no"), MenuCommand("reload_all", "twice")])
    rows = call.params["commands"]
    assert [row["command"] for row in rows] == ["help", "reload_all", "new"]
    assert [len(row["description"]) for row in rows] == [18, 256, 3]
    assert names == {"reload_all": "reload-all"}
    many = wire_out.make_menu([MenuCommand(f"c{n}", "x") for n in range(150)])[0]
    assert len(many.params["commands"]) == 100


def test_the_secret_of_a_webhook_is_made_from_the_token() -> None:
    """G6: nothing is stored, and it does not tell the token."""
    secret = wire_out.derive_secret("1:abc", "bot")
    assert secret == wire_out.derive_secret("1:abc", "bot")
    assert len({secret, wire_out.derive_secret("1:abd", "bot"), wire_out.derive_secret("1:abc", "b")}) == 3
    assert set(secret) <= set("0123456789abcdef")
    assert len(secret) <= 256
    assert "abc" not in wire_out.make_webhook("https://x.example/hooks", secret).params["url"]


def test_only_what_is_read_is_asked_for() -> None:
    params = wire_out.make_poll(None).params
    assert params["allowed_updates"] == ["message", "edited_message", "callback_query", "my_chat_member"]
    assert "offset" not in params
    assert wire_out.make_poll(7).params["offset"] == 7
    json.dumps(params)


# --- errors

REFUSED, FORBIDDEN = TroubleKind.REFUSED, TroubleKind.FORBIDDEN


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (FORBIDDEN, "Forbidden: bot was blocked by the user", "blocked the bot"),
        (FORBIDDEN, "Forbidden: user is deactivated", "closed"),
        (FORBIDDEN, "Forbidden: bot was kicked from the supergroup chat", "removed from the chat"),
        (FORBIDDEN, "Forbidden: bot is not a member of the supergroup chat", "not in the chat"),
        (FORBIDDEN, "Forbidden: bot is not a member of the channel chat", "not in the chat"),
        (FORBIDDEN, "Forbidden: the group chat was deleted", "deleted"),
        (FORBIDDEN, "Forbidden: bot can't initiate conversation with a user", "not written to the bot yet"),
        (FORBIDDEN, "Forbidden: something new", "something new"),
        (REFUSED, "Chat not found", "no such chat"),
        (REFUSED, "Not enough rights to send text messages to the chat", "may not write"),
        (REFUSED, "CHAT_WRITE_FORBIDDEN", "may not write"),
        (REFUSED, "TOPIC_CLOSED", "topic is closed"),
    ],
)
def test_who_cannot_be_reached_is_waited_for(kind: TroubleKind, text: str, told: str) -> None:
    """C9: nothing is lost; the message waits until somebody is there again."""
    failure = as_failure(BotTrouble(kind, text))
    assert isinstance(failure, NotNow)
    assert failure.seconds is None
    assert told in str(failure)


@pytest.mark.parametrize(
    ("text", "markup"),
    [
        ('Can\'t parse entities: unsupported start tag "p" at byte offset 0', True),
        ("Message text is empty", False),
        ("Text must be non-empty", False),
        ("Message is too long", False),
        ("Message caption is too long", False),
        ("Chat_id is empty", False),
        ("Message thread not found", False),
        ("Reply markup is too long", False),
        ("Message to edit not found", False),
        ("Message to be replied not found", False),
        ("Message can't be edited", False),
        ("There is no text in the message to edit", False),
        ("BUTTON_DATA_INVALID", False),
        ("Unsupported parse_mode", False),
        ("File is too big", False),
        ("Wrong file_id or the file is temporarily unavailable", False),
    ],
)
def test_what_is_refused_for_good_is_given_up_and_only_bad_markup_goes_plain(text: str, markup: bool) -> None:
    failure = as_failure(BotTrouble(REFUSED, text))
    assert isinstance(failure, NeverTaken)
    assert failure.markup is markup


def test_other_troubles() -> None:
    """C7, C8: who sends knows whether to wait, or to send again in doubt."""
    patience = as_failure(BotTrouble(TroubleKind.PENALTY, "x", seconds=17.0))
    assert isinstance(patience, NotNow)
    assert patience.seconds == 17.0
    revoked = as_failure(BotTrouble(TroubleKind.TOKEN, "x"))
    assert isinstance(revoked, NotNow)
    assert (revoked.seconds, revoked.whole_account) == (TOKEN_SECONDS, True)
    unsent = as_failure(BotTrouble(TroubleKind.UNSENT, "no route"))
    assert isinstance(unsent, NotNow)
    assert unsent.seconds is not None
    assert type(as_failure(BotTrouble(TroubleKind.UNSURE, "Timed out"))) is DeliveryFailure
    assert type(as_failure(BotTrouble(TroubleKind.UNSURE, "Internal Server Error: restart"))) is DeliveryFailure
    assert isinstance(as_failure(BotTrouble(TroubleKind.UNSURE, "Request Entity Too Large")), NeverTaken)


def test_some_refusals_are_none() -> None:
    same = "Message is not modified: specified new message content and reply markup are exactly the same"
    assert is_unmodified(BotTrouble(REFUSED, same))
    assert not is_unmodified(BotTrouble(REFUSED, "Message to edit not found"))
    assert is_bad_photo(BotTrouble(REFUSED, "PHOTO_INVALID_DIMENSIONS"))
    assert is_bad_photo(BotTrouble(REFUSED, "IMAGE_PROCESS_FAILED"))
    assert not is_bad_photo(BotTrouble(REFUSED, "Message caption is too long"))


@given(st.text(), st.text())
def test_the_token_is_taken_out_of_any_text(before: str, after: str) -> None:
    """G6."""
    token = "123456:AAsecretHALF"
    text = hide_token(f"{before}https://api.example/bot{token}/sendMessage{after} AAsecretHALF", token)
    assert "AAsecretHALF" not in text


# --- polling


def conflict(text: str = "Conflict: terminated by other getUpdates request") -> BotTrouble:
    return BotTrouble(TroubleKind.CONFLICT, text)


def test_a_few_conflicts_after_a_start_are_normal_and_more_are_told() -> None:
    state = PollState()
    for n in range(NORMAL_CONFLICTS):
        state = after_trouble(state, conflict(), float(n))
        assert state.problem == ""
    assert after_trouble(state, conflict(), 10.0).problem == TWO_POLLERS


def test_a_conflict_is_over_only_after_a_while_of_quiet() -> None:
    """Two pollers end each other's calls in turn: each has good moments."""
    state = PollState()
    for n in range(NORMAL_CONFLICTS + 1):
        state = after_trouble(state, conflict(), float(n))
        state = after_success(state, float(n) + 0.5)
    assert state.problem == TWO_POLLERS
    last = float(NORMAL_CONFLICTS)
    assert after_success(state, last + QUIET_SECONDS - 1).problem == TWO_POLLERS
    assert after_success(state, last + QUIET_SECONDS) == PollState()


def test_troubles_of_polling_are_told_each_in_its_sentence() -> None:
    webhook = conflict("Conflict: can't use getUpdates method while webhook is active; use deleteWebhook")
    assert after_trouble(replace(PollState(), conflicts=NORMAL_CONFLICTS), webhook, 0.0).problem == FOREIGN_WEBHOOK
    revoked = BotTrouble(TroubleKind.TOKEN, "Unauthorized")
    assert "revoked" in after_trouble(PollState(), revoked, 0.0).problem
    cut = BotTrouble(TroubleKind.UNSENT, "no route to host")
    once = after_trouble(PollState(), cut, 0.0)
    twice = after_trouble(once, cut, 0.0)
    assert (once.problem, "no route to host" in twice.problem) == ("", True)
    assert after_success(twice, 1.0).problem == ""
    asked = BotTrouble(TroubleKind.PENALTY, "x", seconds=9.0)
    assert [find_pause(trouble) for trouble in (asked, revoked, cut, webhook)] == [9.0, TOKEN_SECONDS, None, None]


def test_a_webhook_that_another_program_took_or_that_fails_is_told() -> None:
    url = "https://x.example/hooks/telegram/bot"
    assert judge_webhook({"url": url, "pending_update_count": 0}, url, 1000.0) == ""
    assert judge_webhook({"url": ""}, url, 1000.0) == HOOK_TAKEN
    failing = {"url": url, "pending_update_count": 2, "last_error_date": 900, "last_error_message": "Bad Gateway"}
    assert "Bad Gateway" in judge_webhook(failing, url, 1000.0)
    assert judge_webhook({**failing, "pending_update_count": 0}, url, 1000.0) == ""
    assert judge_webhook(failing, url, 9000.0) == ""


# --- chats


def test_groups_that_moved_are_followed_over_several_moves() -> None:
    where, group = KnownChats(), Address("telegram", "bot", "-5", "group", "")
    where.note_move("-5", "-1005")
    where.note_move("-1005", "-1006")
    assert where.follow(group).chat == "-1006"
    where.note_move("-1006", "-5")  # nonsense, and no endless loop
    assert where.follow(group).chat in ("-5", "-1005", "-1006")


def test_who_is_away_comes_back_with_all_their_threads() -> None:
    where = KnownChats()
    topics = {Address("telegram", "bot", "-5", "group", thread) for thread in ("1", "2")}
    for topic in topics:
        where.note_away(topic)
    assert all(where.is_away(topic) for topic in topics)
    assert not where.is_away(replace(min(topics, key=str), thread="3"))
    assert where.come_back("-5") == topics
    assert where.come_back("-5") == set()
    assert not any(where.is_away(topic) for topic in topics)


def test_a_bad_token_names_what_sets_it() -> None:
    """Of several accounts each has a variable of its own, and the questions are for one without a name."""
    assert fix_token("telegram") == fix_token("") == BAD_TOKEN_FIX
    fix = fix_token("two")
    assert "hermes config set TELEGRAM_BOT_TOKEN_TWO" in fix
    assert "hermes setup" not in fix
    revoked = BotTrouble(TroubleKind.TOKEN, "x", fix=fix)
    assert fix in str(as_failure(revoked))
    assert after_trouble(PollState(), revoked, 0.0).problem.endswith(fix)
    with pytest.raises(ConfigProblem, match="TELEGRAM_BOT_TOKEN_TWO"):
        read_token("", "two")
