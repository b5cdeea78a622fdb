"""Discord's words, on documented examples: what comes in, what goes out, and what its errors and codes mean."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.discord import wire_out
from gateway.platforms.discord.channel_book import ChannelBook
from gateway.platforms.discord.line_rules import (
    LineCut,
    LineEnd,
    as_cut,
    doubts_session,
    find_fault,
    judge_cut,
    keeps_session,
)
from gateway.platforms.discord.probe import describe_bot
from gateway.platforms.discord.refusals import (
    TOKEN_SECONDS,
    DiscordTrouble,
    Trouble,
    as_failure,
    hide_token,
    judge_answer,
)
from gateway.platforms.discord.wire import (
    NO_TEXT,
    ChannelPlace,
    DiscordSelf,
    Interacted,
    LeftOut,
    OddDiscordEvent,
    find_channel,
    find_file_url,
    is_unedited,
    make_snowflake,
    read_interaction,
    read_message,
    read_own_roles,
    read_place,
    read_places,
    read_snowflake,
    read_time,
)
from gateway.platforms.face import MenuCommand, NeverTaken, NotNow, Part
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound

ME = DiscordSelf("bot", "99", "99", frozenset({"77"}), {"do-it": "Do-It"})
US = {"id": "99", "username": "hermes", "discriminator": "0", "avatar": None, "bot": True}
ANN = {"id": "7001", "username": "ann", "global_name": "Ann", "discriminator": "0", "avatar": None}
DM = ChannelPlace("4000", is_dm=True)
CHANNEL = ChannelPlace("4001", guild="3000")
THREAD = ChannelPlace("4002", parent="4001", guild="3000")
NUMBER = "1571872219951267840"
FILE = {"id": "8", "filename": "a b.png", "size": 12, "url": "https://cdn/x?ex=1", "content_type": "image/png"}


def message(**fields: Any) -> dict[str, Any]:
    """As the gateway tells it in MESSAGE_CREATE."""
    return {
        "id": NUMBER,
        "channel_id": "4000",
        "author": ANN,
        "content": "hi",
        "timestamp": "2026-11-16T12:59:01.210000+00:00",
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "pinned": False,
        "type": 0,
        "components": [],
        "flags": 0,
        **fields,
    }


def hear(place: ChannelPlace = CHANNEL, **fields: Any) -> Inbound:
    found = read_message(message(**fields), place, ME)
    assert isinstance(found, Inbound), found
    return found


# --- messages


def test_a_text_has_its_place_its_sender_and_its_time() -> None:
    found = hear(DM)
    assert found.address == Address("discord", "bot", "4000")
    assert (found.message, found.sender, found.sender_name, found.text) == (NUMBER, "7001", "Ann", "hi")
    assert not found.mentioned
    assert abs(found.received - 1794833941.21) < 0.01


def test_a_thread_is_a_conversation_of_its_own_below_its_channel() -> None:
    assert hear(THREAD).address == Address("discord", "bot", "4001", "group", "4002")
    assert hear(CHANNEL).address == Address("discord", "bot", "4001", "group")
    assert find_channel(hear(THREAD).address) == "4002"


@pytest.mark.parametrize(
    ("fields", "mentioned"),
    [
        ({}, False),
        ({"mentions": [US]}, True),
        ({"mentions": [ANN]}, False),
        ({"mention_roles": ["77"]}, True),
        ({"mention_roles": ["78"]}, False),
        ({"type": 19, "referenced_message": message(author=US)}, True),
        ({"type": 19, "referenced_message": message()}, False),
        ({"type": 19, "referenced_message": None}, False),
        ({"content": "@everyone", "mention_everyone": True}, False),
    ],
)
def test_who_speaks_to_us(fields: dict[str, Any], mentioned: bool) -> None:
    """G2: by our id, by the role that came with us, or in reply to us. Everybody is nobody."""
    assert hear(**fields).mentioned is mentioned


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<@99> /stop", "/stop"),
        ("<@!99>, hello", "hello"),
        ("<@&77> hello", "hello"),
        ("<@99>", "<@99>"),
        ("ask <@7001> and <@5>", "ask @Ann and <@5>"),
        ("well <:party:123> <a:dance:4>", "well :party: :dance:"),
    ],
)
def test_a_text_is_as_people_see_it(content: str, text: str) -> None:
    assert hear(content=content, mentions=[ANN]).text == text


@pytest.mark.parametrize(
    "fields",
    [
        {"author": US},
        {"author": {**ANN, "bot": True}},
        {"webhook_id": "5"},
        {"type": 7},  # somebody has joined
        {"type": 21},  # the first message of a thread, once more
        {"content": ""},
        {"author": None},
    ],
)
def test_what_is_no_message_of_a_person_is_left_out(fields: dict[str, Any]) -> None:
    """No bot is answered, so two of them never talk for ever."""
    assert isinstance(read_message(message(**fields), CHANNEL, ME), LeftOut)


def test_a_reply_brings_along_what_it_replies_to() -> None:
    replied = message(id="15", author=US, content="What I said.")
    found = hear(type=19, referenced_message=replied, message_reference={"type": 0, "message_id": "15"})
    assert (found.reply_to, found.quote) == ("15", "What I said.")


def test_forwarded_words_are_no_command_of_the_sender() -> None:
    found = hear(
        content="",
        message_reference={"type": 1, "message_id": "15"},
        message_snapshots=[{"message": {"content": "/stop", "attachments": [FILE]}}],
    )
    assert found.forwarded
    assert found.text == "[forwarded]\n/stop"
    assert [file.name for file in found.files] == ["a b.png"]


def test_a_text_that_we_may_not_read_is_said_plainly() -> None:
    """A reply to us without the message content intent: its text is empty. What does not speak to us is left out."""
    assert hear(content="", type=19, referenced_message=message(author=US)).text == NO_TEXT


def test_an_edit_is_another_revision_and_a_preview_is_none() -> None:
    """C1."""
    edits = [
        hear(content=text, edited_timestamp=f"2026-11-16T12:59:0{n}.000001+00:00") for n, text in enumerate("abc", 1)
    ]
    numbers = [int(edit.revision.partition("-")[0]) for edit in edits]
    assert numbers == sorted(set(numbers))
    assert {edit.stem for edit in edits} == {hear().stem}
    assert is_unedited(message())
    assert not is_unedited(message(edited_timestamp="2026-11-16T12:59:01+00:00"))


def test_files_have_a_name_a_kind_and_where_they_are_found_again() -> None:
    voice = {"id": "9", "filename": "voice.ogg", "size": 3, "content_type": "audio/ogg", "duration_secs": 2.5}
    other = {"id": "10", "filename": "../x", "size": 1}
    files = hear(content="", attachments=[FILE, voice, other]).files
    assert files[0] == FileRef("", "a b.png", "image", 12, f"4001/{NUMBER}/8")
    assert (files[1].kind, files[1].seconds) == ("audio", 2)
    assert files[2].kind == "file"
    assert "/" not in files[2].name
    assert find_file_url(message(attachments=[FILE]), "8") == "https://cdn/x?ex=1"
    assert find_file_url(message(attachments=[FILE]), "9") == ""


def test_what_is_no_text_is_told_in_a_line() -> None:
    poll = {"question": {"text": "Where?"}, "answers": [{"poll_media": {"text": "Here"}}, {"poll_media": {}}]}
    found = hear(content="", sticker_items=[{"id": "1", "name": "Wave ]"}], poll=poll)
    assert found.text == "[sticker Wave )]\n[poll Where? (Here / )]"


def test_numbers_say_when() -> None:
    assert read_time(make_snowflake(1_794_833_941.0)) == 1_794_833_941.0
    assert read_snowflake("command-15") == read_snowflake("15") == 15
    assert read_snowflake("odd") == 0
    assert int(make_snowflake(1_794_833_941.0)) < int(NUMBER) < int(make_snowflake(1_794_833_942.0))


def test_places_are_read_from_channels_and_servers() -> None:
    assert read_place({"id": "4000", "type": 1}) == DM
    guild = {
        "id": "3000",
        "channels": [{"id": "4001", "type": 0, "name": "a", "parent_id": "1"}],
        "threads": [{"id": "4002", "type": 11, "parent_id": "4001"}],
        "roles": [{"id": "77", "tags": {"bot_id": "99"}}, {"id": "78", "tags": {"bot_id": "98"}}, {"id": "79"}],
    }
    assert read_places(guild) == [CHANNEL, THREAD]
    assert read_own_roles(guild, "99") == frozenset({"77"})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(message())), _JSON), st.sampled_from((DM, CHANNEL, THREAD)))
def test_whatever_a_message_holds_it_is_read_or_it_is_odd(fields: dict[str, Any], place: ChannelPlace) -> None:
    try:
        found = read_message(message(**fields), place, ME)
    except OddDiscordEvent:
        return
    assert isinstance(found, Inbound | LeftOut)


# --- buttons and commands


def interaction(**fields: Any) -> dict[str, Any]:
    about = {"id": NUMBER, "application_id": "99", "token": "secret", "version": 1, "channel_id": "4000"}
    return {**about, "user": ANN, **fields}


def test_a_press_says_which_question_it_answers() -> None:
    """G4."""
    part = Part(Address("discord", "bot", "4000"), "Shall I?", question="q-1", choices=("Yes", "x" * 90))
    asked = message(author=US, components=wire_out.make_message(part).body["components"])
    for index, label in enumerate(("Yes", "2")):  # of a label that was cut, the number
        data = {"custom_id": f"q-1:{index}", "component_type": 2}
        found = read_interaction(interaction(type=3, data=data, message=asked), DM, ME)
        assert isinstance(found, Interacted)
        pressed = found.inbound
        assert (pressed.question, pressed.choice, pressed.text) == ("q-1", str(index), label)
        assert (pressed.sender, pressed.reply_to, pressed.message) == ("7001", NUMBER, f"press-{NUMBER}")
        assert (found.token, found.is_command) == ("secret", False)


def test_a_command_of_the_menu_is_what_one_would_type() -> None:
    options = [{"name": "text", "type": 3, "value": "now, please"}]
    data = {"id": "9", "name": "do-it", "type": 1, "options": options}
    member = {"user": ANN, "nick": "Annie", "roles": []}
    event = {**interaction(type=2, data=data, member=member, guild_id="3000"), "user": None}
    found = read_interaction(event, CHANNEL, ME)
    assert isinstance(found, Interacted)
    assert (found.inbound.text, found.inbound.sender_name) == ("/Do-It now, please", "Annie")
    assert found.inbound.mentioned
    assert found.is_command


@pytest.mark.parametrize("fields", [{"type": 4}, {"type": 3, "data": {"custom_id": "other"}, "message": message()}])
def test_what_we_did_not_offer_is_left_out(fields: dict[str, Any]) -> None:
    assert isinstance(read_interaction(interaction(**fields), DM, ME), LeftOut)


@given(st.dictionaries(st.sampled_from(("id", "type", "token", "user", "member", "data", "message")), _JSON))
def test_whatever_an_interaction_holds_it_is_read_or_it_is_odd(fields: dict[str, Any]) -> None:
    try:
        pressed = {"type": 3, "data": {"custom_id": "q:1"}, "message": message(), **fields}
        found = read_interaction(interaction(**pressed), DM, ME)
    except OddDiscordEvent:
        return
    assert isinstance(found, Interacted | LeftOut)


# --- what goes out

PART = Part(Address("discord", "bot", "4001", "group", "4002"), "Hello **there**", key="5:0", row=5)


def test_a_message_rings_for_nobody_and_opens_no_link() -> None:
    body = wire_out.make_message(replace(PART, text="@everyone <@7001>", reply_to="15")).body
    assert body["allowed_mentions"] == {"parse": [], "replied_user": False}
    assert body["flags"] == 4
    assert body["message_reference"] == {"message_id": "15", "fail_if_not_exists": False}
    assert "message_reference" not in wire_out.make_message(replace(PART, reply_to="command-15")).body


def test_a_thread_is_written_to_by_its_own_number() -> None:
    assert wire_out.make_message(PART).parts == {"channel_id": "4002"}
    assert wire_out.make_typing(PART.address).parts == {"channel_id": "4002"}


def test_a_key_is_the_same_for_a_repetition_and_for_nothing_else() -> None:
    """C7: a draft keeps its key while its text grows; rows of a new home are no repetitions of the old one's."""
    name = wire_out.name_nonce
    assert len(name(PART)) == 25
    assert name(PART) == name(replace(PART))
    draft = replace(PART, row=0, key="turn-7")
    assert name(draft) == name(replace(draft, text="Hello there, grown", row=5))
    others = [replace(PART, key="5:1"), replace(PART, text="Another"), draft]
    others += [replace(PART, address=replace(PART.address, thread=""))]
    assert len({name(part) for part in (PART, *others)}) == 5
    assert "nonce" not in wire_out.make_message(replace(PART, key="")).body


@given(st.lists(st.text(max_size=120), min_size=1, max_size=40), st.text(min_size=1, max_size=110))
def test_buttons_are_within_the_limits(choices: list[str], question: str) -> None:
    rows = wire_out.make_message(replace(PART, question=question, choices=tuple(choices))).body.get("components")
    if rows is None:
        assert len(question) > 95
        return
    assert 1 <= len(rows) <= 5
    buttons = [button for row in rows for button in row["components"]]
    assert len(buttons) == min(len(choices), 25)
    assert all(1 <= len(row["components"]) <= 5 for row in rows)
    assert all(1 <= len(button["label"]) <= 80 and len(button["custom_id"]) <= 100 for button in buttons)
    assert len({button["custom_id"] for button in buttons}) == len(buttons)


def test_an_edit_takes_the_buttons_away_unless_it_brings_them() -> None:
    assert wire_out.make_edit("15", PART).body["components"] == []
    asked = replace(PART, question="q", choices=("Yes",))
    assert wire_out.make_edit("15", asked).body["components"] != []


def test_the_menu_has_what_discord_takes() -> None:
    commands = [MenuCommand("Stop", "x" * 120), MenuCommand("do_it", ""), MenuCommand("no way", "?")]
    call, names = wire_out.make_menu("99", commands)
    assert [(row["name"], len(row["description"])) for row in call.body] == [("stop", 100), ("do_it", 5)]
    assert names == {"stop": "Stop"}
    assert call.parts == {"application_id": "99"}


# --- what its errors mean


@pytest.mark.parametrize(
    ("kind", "code", "failure", "words"),
    [
        (Trouble.FORBIDDEN, 50007, NotNow, "no direct messages"),
        (Trouble.FORBIDDEN, 50001, NotNow, "removed from the server"),
        (Trouble.FORBIDDEN, 50013, NotNow, "may not write"),
        (Trouble.FORBIDDEN, 160005, NotNow, "closed"),
        (Trouble.FORBIDDEN, 1, NotNow, "does not let"),
        (Trouble.FORBIDDEN, 200000, NeverTaken, "AutoMod"),
        (Trouble.MISSING, 10003, NotNow, "no such channel"),
        (Trouble.MISSING, 10008, NeverTaken, "not there any more"),
        (Trouble.REFUSED, 40005, NeverTaken, "larger"),
        (Trouble.REFUSED, 50035, NeverTaken, "refused"),
        (Trouble.TOKEN, 0, NotNow, "reset"),
        (Trouble.UNSENT, 0, NotNow, "cannot be reached"),
        (Trouble.UNSURE, 0, DeliveryFailure, "no answer"),
    ],
)
def test_what_a_refusal_means(kind: Trouble, code: int, failure: type[DeliveryFailure], words: str) -> None:
    """C7, C8: whoever sends knows whether to wait, to give up, or to send again in doubt."""
    found = as_failure(DiscordTrouble(kind, "text", code=code))
    assert type(found) is failure
    assert words in str(found)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, 50035, Trouble.REFUSED),
        (403, 50001, Trouble.FORBIDDEN),
        (404, 10003, Trouble.MISSING),
        (413, 0, Trouble.REFUSED),
        (401, 0, Trouble.TOKEN),
        (429, 0, Trouble.PENALTY),
        *((status, 0, Trouble.UNSURE) for status in (400, 403, 404, 405, 407, 408, 409, 451)),
        (403, 403, Trouble.UNSURE),
        (403, 1015, Trouble.UNSURE),
        (403, "forbidden", Trouble.UNSURE),
        (403, None, Trouble.UNSURE),
    ],
)
def test_only_a_code_of_discords_own_is_its_word(status: int, code: object, kind: Trouble) -> None:
    """C7: a proxy, a firewall or a portal may say the rest, and after a 408 the message may even have arrived."""
    assert judge_answer(status, code, "text").kind is kind
    assert judge_answer(status, code, "").text


def test_a_thread_that_is_gone_is_no_chat_to_wait_for() -> None:
    assert type(as_failure(DiscordTrouble(Trouble.MISSING, "x", code=10003), in_thread=True)) is NeverTaken


def test_a_penalty_has_its_seconds_and_its_reach() -> None:
    """C8."""
    found = as_failure(DiscordTrouble(Trouble.PENALTY, "x", seconds=0.5, whole_account=True))
    assert isinstance(found, NotNow)
    assert (found.seconds, found.whole_account) == (0.5, True)


def test_a_token_is_hidden() -> None:
    """G6: also the part of it that is the secret."""
    assert hide_token("for aa.bb.cc and cc", "aa.bb.cc") == "for <token> and <token>"


@pytest.mark.parametrize(
    ("cut", "failures", "told", "seconds"),
    [
        (LineCut(LineEnd.RESUME, "x"), 0, "", 0.0),
        (LineCut(LineEnd.INVALID, "x"), 1, "", None),
        (LineCut(LineEnd.RESUME, "x"), 2, "cannot be reached", None),
        (LineCut(LineEnd.LOST, "x"), 0, "", None),
        (LineCut(LineEnd.LOST, "x"), 1, "cannot be reached", None),
        (LineCut(LineEnd.LOST, "x", seconds=9.0), 0, "", 9.0),
        (LineCut(LineEnd.CLOSED, "x", code=4000), 0, "", None),
        (LineCut(LineEnd.CLOSED, "x", code=4004), 0, "token", TOKEN_SECONDS),
        (LineCut(LineEnd.CLOSED, "x", code=4014), 0, "message content intent", TOKEN_SECONDS),
        (LineCut(LineEnd.CLOSED, "x", code=4013), 0, "4013", TOKEN_SECONDS),
    ],
)
def test_what_the_end_of_a_line_means(cut: LineCut, failures: int, told: str, seconds: float | None) -> None:
    """C13: a cut is taken up again at once; what lasts is told to the owner, and what they can put right, with how."""
    problem, pause = judge_cut(cut, failures)
    assert told in problem
    assert bool(problem) == bool(told)
    assert pause == seconds


def test_a_session_goes_on_unless_discord_says_that_it_is_over() -> None:
    assert keeps_session(LineCut(LineEnd.LOST, "x"))
    assert keeps_session(LineCut(LineEnd.CLOSED, "x", code=4009))
    assert not keeps_session(LineCut(LineEnd.INVALID, "x"))
    assert not keeps_session(LineCut(LineEnd.CLOSED, "x", code=4004))
    assert [doubts_session(failures) for failures in (0, 2, 3, 50)] == [False, False, True, True]
    assert find_fault(as_cut(DiscordTrouble(Trouble.TOKEN, "x"))) is not None
    assert as_cut(DiscordTrouble(Trouble.PENALTY, "x", seconds=7.0)).seconds == 7.0


# --- what is known of channels


def test_whoever_is_back_wakes_what_waits_there_and_below() -> None:
    book, thread, channel = ChannelBook(), PART.address, replace(PART.address, thread="")
    book.note([CHANNEL, THREAD])
    book.note_away(thread)
    book.note_away(channel)
    assert book.is_away(thread)
    assert sorted(book.list_away("3000")) == ["4001", "4002"]
    assert book.list_away("3001") == []
    book.note([ChannelPlace("7", is_dm=True), ChannelPlace("8")])  # nobody knows on which server the second is
    assert book.pick(["7", "8", "9", "4001"], "3001") == ["8", "9"]
    assert book.come_back("4001") == {thread, channel}
    assert not book.is_away(thread)


def test_the_probe_says_whether_it_may_read() -> None:
    me, application = {"username": "hermes"}, {"id": "99", "name": "Hermes", "flags": 1 << 19}
    told = describe_bot(me, application)
    assert told.startswith("It is hermes (Hermes); it may read messages.")
    assert "client_id=99&scope=bot+applications.commands" in told
    assert "may NOT read" in describe_bot(me, {**application, "flags": 0})
