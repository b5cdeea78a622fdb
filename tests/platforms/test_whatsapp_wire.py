"""WhatsApp's words, on documented examples: what comes in, what goes out, and what its errors mean."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.face import NeverTaken, NotNow, Part
from gateway.platforms.whatsapp import wire_out
from gateway.platforms.whatsapp.link import is_file_address
from gateway.platforms.whatsapp.number_settings import GRAPH, VERSION, NumberSettings, read_number
from gateway.platforms.whatsapp.refusals import (
    CALM_SECONDS,
    LONGEST_PAIR,
    OWNER_SECONDS,
    GraphTrouble,
    NoAnswer,
    as_failure,
    as_late_failure,
    find_meaning,
    hide,
)
from gateway.platforms.whatsapp.sent_memory import MOST_CHATS, MOST_KEYS, TYPING_SECONDS, SentMemory
from gateway.platforms.whatsapp.wire import (
    HookItem,
    NumberChange,
    NumberSelf,
    OddHook,
    PassedOver,
    SentStatus,
    read_hook,
)
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound

NUMBER = "106540352242922"
ME = NumberSelf("number", NUMBER)
ANN = Address("whatsapp", "number", "16505551234")
METADATA = {"display_phone_number": "15550783881", "phone_number_id": NUMBER}
CONTACT = {"profile": {"name": "Sheena Nelson"}, "wa_id": "16505551234", "user_id": "US.13491208655302741918"}
GIVEN = {"phone_number_id": NUMBER, "token": "EAAx", "app_secret": "abc", "verify_token": "long enough"}


def change(**value: Any) -> dict[str, Any]:
    return {"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": METADATA, **value}}


def body(*changes: Any) -> bytes:
    entry = [{"id": "102290129340398", "changes": list(changes)}]
    return json.dumps({"object": "whatsapp_business_account", "entry": entry}).encode()


def message(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    envelope = {"from": "16505551234", "from_user_id": "US.13491208655302741918", "id": "wamid.A1"}
    return {**envelope, "timestamp": "1749416383", "type": kind, kind: content, **more}


def read(*messages: Any) -> list[HookItem]:
    return read_hook(body(change(contacts=[CONTACT], messages=list(messages))), ME)


def read_one(kind: str, content: Any, **more: Any) -> Inbound:
    (item,) = read(message(kind, content, **more))
    assert isinstance(item, Inbound)
    return item


# --- in


def test_a_text_has_its_sender_its_place_and_its_time() -> None:
    """G2: the number identifies, the name is for eyes only."""
    inbound = read_one("text", {"body": "Does it come in another color?"})
    assert inbound == Inbound(
        ANN,
        "wamid.A1",
        "16505551234",
        "Does it come in another color?",
        sender_name="Sheena Nelson",
        received=1749416383.0,
    )


def test_who_shows_no_number_has_an_id() -> None:
    """G2."""
    told = message("text", {"body": "hi"})
    del told["from"]
    contact = {"profile": {"name": "Sheena Nelson", "username": "@sheena"}, "user_id": "US.13491208655302741918"}
    (inbound,) = read_hook(body(change(contacts=[contact], messages=[told])), ME)
    assert isinstance(inbound, Inbound)
    assert inbound.sender == inbound.address.chat == "US.13491208655302741918"
    assert inbound.sender_name == "Sheena Nelson"


MEDIA = {"mime_type": "image/jpeg", "sha256": "SfInY0gGKTsJlUWbwxC1k+FAD0FZHvzwfpvO0zX0GUI=", "id": "1003383421387256"}


@pytest.mark.parametrize(
    ("kind", "content", "text", "name", "file_kind"),
    [
        ("image", {**MEDIA, "caption": "Taj Mahal"}, "Taj Mahal", "image_383421387256.jpg", "image"),
        ("sticker", {**MEDIA, "mime_type": "image/webp"}, "[sticker]", "sticker_383421387256.webp", "image"),
        (
            "audio",
            {**MEDIA, "mime_type": "audio/ogg; codecs=opus", "voice": True},
            "",
            "voice_383421387256.ogg",
            "audio",
        ),
        ("audio", {**MEDIA, "mime_type": "audio/mpeg"}, "", "audio_383421387256.mp3", "audio"),
        ("video", {**MEDIA, "mime_type": "video/mp4", "caption": "look"}, "look", "video_383421387256.mp4", "file"),
        ("document", {**MEDIA, "mime_type": "application/pdf", "filename": "../plan.pdf"}, "", "plan.pdf", "file"),
        ("document", {**MEDIA, "mime_type": "image/png", "filename": "a.png"}, "", "a.png", "image"),
        ("document", {**MEDIA, "mime_type": ""}, "", "document_383421387256.bin", "file"),
    ],
)
def test_media_are_files(kind: str, content: Any, text: str, name: str, file_kind: str) -> None:
    inbound = read_one(kind, content)
    assert inbound.text == text
    assert inbound.files == (FileRef("", name, file_kind, remote="1003383421387256"),)


def test_pictures_that_are_chosen_together_may_be_one_message() -> None:
    """Nothing says that they are; a voice note never is."""
    albums = [read_one(kind, MEDIA).album for kind in ("image", "video", "document", "audio", "sticker")]
    assert albums == ["files", "files", "files", "", ""]


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        ("location", {"latitude": 37.44, "longitude": -122.16}, "[location 37.44, -122.16]"),
        (
            "location",
            {"latitude": 37.44, "longitude": -122.16, "name": "Philz [Coffee]", "address": "101 Forest Ave"},
            "[location Philz (Coffee), 101 Forest Ave (37.44, -122.16)]",
        ),
        (
            "contacts",
            [{"name": {"formatted_name": "Barbara J. Johnson"}, "phones": [{"phone": "+1 650 555 9999"}]}, {}],
            "[contact Barbara J. Johnson, +1 650 555 9999]\n[contact ]",
        ),
        ("reaction", {"message_id": "wamid.B2", "emoji": "👍"}, "[reaction 👍]"),
        ("button", {"payload": "Unsubscribe", "text": "Stop it"}, "Stop it"),
        ("unsupported", {"type": "edit"}, "[a message of a kind that WhatsApp does not hand over]"),
        ("order", {"catalog_id": "1"}, "[a message of a kind that WhatsApp does not hand over (order)]"),
        (
            "interactive",
            {"type": "nfm_reply", "nfm_reply": {"name": "flow"}},
            "[a message of a kind that WhatsApp does not hand over (interactive, nfm_reply)]",
        ),
    ],
)
def test_what_is_no_text_is_said_in_a_line(kind: str, content: Any, text: str) -> None:
    assert read_one(kind, content).text == text


def test_a_reaction_is_about_a_message() -> None:
    assert read_one("reaction", {"message_id": "wamid.B2", "emoji": "👍"}).reply_to == "wamid.B2"
    assert read(message("reaction", {"message_id": "wamid.B2", "emoji": ""})) == [
        PassedOver("a reaction that was taken back")
    ]


def test_replies_and_forwarded_words() -> None:
    """A forwarded command is none."""
    assert read_one("text", {"body": "yes"}, context={"from": "15550783881", "id": "wamid.B2"}).reply_to == "wamid.B2"
    for context in ({"forwarded": True}, {"frequently_forwarded": True}):
        inbound = read_one("text", {"body": "/stop"}, context=context)
        assert inbound.forwarded
        assert inbound.text == "[forwarded]\n/stop"


@pytest.mark.parametrize(
    ("reply", "text", "question", "choice"),
    [
        ({"button_reply": {"id": "q-4711:0", "title": "Yes, once"}}, "Yes, once", "q-4711", "0"),
        ({"list_reply": {"id": "a:b:2", "title": "Always", "description": "x"}}, "Always", "a:b", "2"),
        (
            {
                "list_reply": {
                    "id": "q:1",
                    "title": "Yes, in this conversat…",
                    "description": "Yes, in this conversation",
                }
            },
            "Yes, in this conversation",
            "q",
            "1",
        ),
        ({"list_reply": {"id": "q:1", "title": "Yes, in…", "description": "Yes, in this…"}}, "2", "q", "1"),
        ({"button_reply": {"id": "of another", "title": "Maybe"}}, "Maybe", "", ""),
        ({"button_reply": {"id": f"q:{'9' * 5000}", "title": "Maybe"}}, "Maybe", "", ""),
    ],
)
def test_a_choice_names_its_question(reply: dict[str, Any], text: str, question: str, choice: str) -> None:
    """G4."""
    (kind,) = reply
    inbound = read_one("interactive", {"type": kind, **reply}, context={"id": "wamid.Q"})
    assert (inbound.text, inbound.question, inbound.choice) == (text, question, choice)
    assert inbound.reply_to == "wamid.Q"


def test_a_batch_is_read_whole_and_in_the_order_of_its_times() -> None:
    """C3: whatever comes in between, and for whom."""
    late = message("text", {"body": "late"}, id="wamid.3", timestamp="30")
    early = message("text", {"body": "early"}, id="wamid.1", timestamp="10")
    foreign = change(messages=[message("text", {"body": "not for us"})])
    foreign["value"]["metadata"] = {"phone_number_id": "7"}
    odd = [{"type": "text"}, {**early, "text": "no object"}, {**early, "from": "a/b"}, {**early, "timestamp": "now"}, 5]
    items = read_hook(
        body(change(messages=[late, *odd]), foreign, {"field": "flows", "value": {}}, change(messages=[early])), ME
    )
    assert [item.text for item in items if isinstance(item, Inbound)] == ["early", "late"]
    reasons = [item.reason for item in items if isinstance(item, PassedOver)]
    assert reasons == [
        "it cannot be read: from is missing",
        "it cannot be read: text is no object",
        "it cannot be read: from is no id",
        "it cannot be read: timestamp is no time",
        "for another number",
        "of a field that is not read (flows)",
    ]


def test_words_of_a_group_are_not_for_us() -> None:
    assert read(message("text", {"body": "hi"}, group_id="Y2FwaV9n")) == [PassedOver("said in a group")]


def test_a_number_that_changes_is_told() -> None:
    """G2: and nothing else comes of it."""
    system = {
        "body": "User A changed",
        "type": "user_changed_number",
        "wa_id": "16505559999",
        "previous_user_id": "US.1",
    }
    assert read(message("system", system)) == [NumberChange("16505551234", "16505559999")]
    assert read(message("system", {"body": "something"})) == [PassedOver("a note of WhatsApp itself")]


def test_what_becomes_of_a_message_is_told() -> None:
    sent = {"id": "wamid.O", "status": "sent", "timestamp": "1750030073", "recipient_id": "16505551234"}
    error = {
        "code": 131047,
        "title": "Re-engagement message",
        "message": "Re-engagement message",
        "error_data": {"details": "More than 24 hours have passed."},
    }
    failed = {**sent, "status": "failed", "errors": [error], "biz_opaque_callback_data": "4:0"}
    hidden = {"id": "wamid.P", "status": "read", "timestamp": "1750030074", "recipient_user_id": "US.1"}
    first, second, third = read_hook(body(change(statuses=[sent, failed, hidden])), ME)
    assert first == SentStatus("wamid.O", "sent", ANN, 1750030073.0)
    assert isinstance(second, SentStatus)
    assert (second.key, second.trouble and second.trouble.code) == ("4:0", 131047)
    assert isinstance(third, SentStatus)
    assert third.address.chat == "US.1"
    bare = {**sent, "status": "failed"}
    (told,) = read_hook(body(change(statuses=[bare])), ME)
    assert isinstance(told, SentStatus)
    assert isinstance(told.trouble and as_late_failure(told.trouble), NeverTaken)


@pytest.mark.parametrize("told", [b"", b"[]", b'{"object": "page"}', b"\xff", b"[" * 100_000])
def test_what_is_no_webhook_of_whatsapp(told: bytes) -> None:
    with pytest.raises(OddHook):
        read_hook(told, ME)


def test_errors_beside_messages_are_noted() -> None:
    assert read_hook(body(change(errors=[{"code": 130429}])), ME) == [PassedOver("WhatsApp reports error 130429")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = ["text", "image", "interactive", "reaction", "location", "contacts", "system", "button", "unsupported", "x"]


@given(kind=st.sampled_from(KINDS), content=JSON, more=st.dictionaries(st.sampled_from(["context", "from"]), JSON))
def test_nothing_that_comes_breaks_the_reading(kind: str, content: Any, more: dict[str, Any]) -> None:
    """One that cannot be read is left out, and the one beside it is read."""
    good = message("text", {"body": "good"}, id="wamid.G")
    items = read({**message(kind, content), **more}, good)
    assert "good" in [item.text for item in items if isinstance(item, Inbound)]


# --- out


def part(text: str = "Hello", **more: Any) -> Part:
    return Part(ANN, text, **more)


def test_a_text_as_it_is_documented() -> None:
    (made,) = wire_out.make_messages(part(key="4:0", reply_to="wamid.A1"))
    assert made == {
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": "16505551234",
        "type": "text",
        "text": {"body": "Hello", "preview_url": False},
        "context": {"message_id": "wamid.A1"},
        "biz_opaque_callback_data": "4:0",
    }
    (made,) = wire_out.make_messages(replace(part(reply_to="7"), address=replace(ANN, chat="US.1")))
    assert made["recipient"] == "US.1"
    assert "to" not in made
    assert "context" not in made


def ask(*choices: str, text: str = "Shall I?", question: str = "q-1") -> list[dict[str, Any]]:
    return wire_out.make_messages(part(text, question=question, choices=choices, key="4:0"))


def test_up_to_three_short_answers_are_buttons() -> None:
    (made,) = ask("Yes, once", "No")
    assert made["interactive"] == {
        "type": "button",
        "body": {"text": "Shall I?"},
        "action": {
            "buttons": [
                {"type": "reply", "reply": {"id": "q-1:0", "title": "Yes, once"}},
                {"type": "reply", "reply": {"id": "q-1:1", "title": "No"}},
            ]
        },
    }


@pytest.mark.parametrize("choices", [("a", "b", "c", "d"), ("x" * 21, "b"), ("same", "same")])
def test_more_or_longer_answers_are_a_list(choices: tuple[str, ...]) -> None:
    (made,) = ask(*choices)
    assert made["interactive"]["type"] == "list"
    (section,) = made["interactive"]["action"]["sections"]
    assert [row["id"] for row in section["rows"]] == [f"q-1:{n}" for n in range(len(choices))]


def test_a_long_answer_stands_below_its_line() -> None:
    (made,) = ask("Yes, in this conversation and in all others", "No")
    first, second = made["interactive"]["action"]["sections"][0]["rows"]
    assert first["title"] == "Yes, in this conversati…"
    assert first["description"] == "Yes, in this conversation and in all others"
    assert second == {"id": "q-1:1", "title": "No"}


def test_a_long_question_goes_ahead_of_its_answers() -> None:
    ahead, asked = ask("Yes", "No", text="x" * 1025)
    assert ahead["text"]["body"] == "x" * 1025
    assert asked["interactive"]["body"]["text"] == wire_out.ASKED_ABOVE
    assert wire_out.read_key(ahead) != wire_out.read_key(asked) == "4:0"


@pytest.mark.parametrize(
    ("choices", "question"), [(tuple(f"choice {n}" for n in range(11)), "q"), (("Yes", "No"), "q" * 200)]
)
def test_what_fits_no_list_is_numbered(choices: tuple[str, ...], question: str) -> None:
    (made,) = ask(*choices, question=question)
    assert made["text"]["body"].startswith(f"Shall I?\n\n1. {choices[0]}\n2. {choices[1]}")
    ahead, numbered = ask(*choices, question=question, text="x" * 4090)
    assert ahead["text"]["body"] == "x" * 4090
    assert numbered["text"]["body"].startswith("1. ")


@given(labels=st.lists(st.text(min_size=1), min_size=1, max_size=12), text=st.text(min_size=1, max_size=2000))
def test_whatever_is_asked_keeps_the_limits(labels: list[str], text: str) -> None:
    for made in ask(*labels, text=text):
        if made["type"] == "text":
            assert wire_out.measure(made["text"]["body"]) <= wire_out.MOST_TEXT
            continue
        assert wire_out.measure(made["interactive"]["body"]["text"]) <= 1024
        action = made["interactive"]["action"]
        rows = [button["reply"] for button in action.get("buttons", [])] or action["sections"][0]["rows"]
        assert len(rows) <= (3 if "buttons" in action else 10)
        for row in rows:
            assert 0 < wire_out.measure(row["title"]) <= (20 if "buttons" in action else 24)
            assert wire_out.measure(row.get("description", "")) <= 72


@pytest.mark.parametrize(
    ("name", "data", "kind", "mime"),
    [
        ("a.JPG", b"x", "image", "image/jpeg"),
        ("a.png", b"x", "image", "image/png"),
        ("a.ogg", b"x", "audio", "audio/ogg"),
        ("a.mp4", b"x", "video", "video/mp4"),
        ("a.pdf", b"x", "document", "application/pdf"),
        ("answer.md", "größer".encode(), "document", "text/plain"),
        ("noname", ("ü" * 40_000).encode(), "document", "text/plain"),
        ("odd", b"a" + ("ü" * 40_000).encode(), "document", "text/plain"),
    ],
)
def test_a_file_goes_up_as_what_whatsapp_knows(name: str, data: bytes, kind: str, mime: str) -> None:
    assert wire_out.plan_upload(FileRef("", name), data) == wire_out.UploadPlan(kind, mime)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.zip", b"PK\0", "takes no files like a.zip"),
        ("a.gif", b"GIF89a\xff", "takes no files like a.gif"),
        ("a.png", bytes(5_000_001), "larger than the 5 MB"),
        ("a.mp3", bytes(16_000_001), "larger than the 16 MB"),
        ("a.txt", b"", "is empty"),
    ],
)
def test_what_whatsapp_never_takes_is_said(name: str, data: bytes, words: str) -> None:
    with pytest.raises(NeverTaken, match=words):
        wire_out.plan_upload(FileRef("", name), data)


def test_captions_stand_where_they_may() -> None:
    document, sound = wire_out.UploadPlan("document", "text/plain"), wire_out.UploadPlan("audio", "audio/ogg")
    (made,) = wire_out.make_file(part("as asked"), FileRef("", "a.txt"), document, "77")
    assert made["document"] == {"id": "77", "filename": "a.txt", "caption": "as asked"}
    (made,) = wire_out.make_file(part(""), FileRef("", "a.txt"), document, "77")
    assert made["document"] == {"id": "77", "filename": "a.txt"}
    ahead, made = wire_out.make_file(part("as asked"), FileRef("", "a.ogg"), sound, "77")
    assert ahead["text"]["body"] == "as asked"
    assert made["audio"] == {"id": "77"}
    ahead, made = wire_out.make_file(part("x" * 1025), FileRef("", "a.txt"), document, "77")
    assert "caption" not in made["document"]


def test_signs_are_about_a_message() -> None:
    assert wire_out.make_read("wamid.1") == {"messaging_product": "whatsapp", "status": "read", "message_id": "wamid.1"}
    assert wire_out.make_typing("wamid.1")["typing_indicator"] == {"type": "text"}


# --- errors


@pytest.mark.parametrize(
    ("code", "status", "kind", "seconds", "whole"),
    [
        (190, 401, NotNow, OWNER_SECONDS, True),
        (0, 401, NotNow, OWNER_SECONDS, True),
        (10, 403, NotNow, OWNER_SECONDS, True),
        (230, 403, NotNow, OWNER_SECONDS, True),
        (4, 400, NotNow, 60.0, True),
        (80007, 400, NotNow, 60.0, True),
        (130429, 429, NotNow, 5.0, True),
        (131056, 400, NotNow, 4.0, False),
        (131047, 400, NotNow, None, False),
        (131048, 400, NotNow, CALM_SECONDS, True),
        (131031, 403, NotNow, OWNER_SECONDS, True),
        (NoAnswer.UNSENT, 0, NotNow, 3.0, True),
        (100, 400, NeverTaken, None, False),
        (131009, 400, NeverTaken, None, False),
        (131026, 400, NeverTaken, None, False),
        (131053, 400, NeverTaken, None, False),
        (131000, 500, DeliveryFailure, None, False),
        (131016, 503, DeliveryFailure, None, False),
        (99, 500, DeliveryFailure, None, False),
        (NoAnswer.UNSURE, 502, DeliveryFailure, None, False),
        (NoAnswer.UNSURE, 404, DeliveryFailure, None, False),
        (-1, 500, DeliveryFailure, None, False),
        (-1, 400, DeliveryFailure, None, False),
        (-2, 400, NeverTaken, None, False),
        *((code, 400, NotNow, 60.0, True) for code in (17, 32, 341, 613, 80008, 80014)),
        (NoAnswer.UNSURE, 429, NotNow, 60.0, True),
        (987654, 429, NotNow, 60.0, True),
    ],
)
def test_an_error_means_to_wait_to_give_up_or_to_doubt(
    code: int | NoAnswer, status: int, kind: type, seconds: float | None, whole: bool
) -> None:
    """C8."""
    failure = as_failure(GraphTrouble(code, "told so", status=status))
    assert type(failure) is kind
    assert str(failure).endswith(".")
    if isinstance(failure, NotNow):
        assert (failure.seconds, failure.whole_account) == (seconds, whole)


def test_pauses_for_one_person_grow() -> None:
    """C8: no time is named; each pause is four times the one before."""
    pauses = [as_failure(GraphTrouble(131056, ""), n) for n in range(5)]
    assert [failure.seconds for failure in pauses if isinstance(failure, NotNow)] == [4, 16, 64, 256, LONGEST_PAIR]
    named = as_failure(GraphTrouble(131056, "", seconds=7.0), 3)
    assert isinstance(named, NotNow)
    assert named.seconds == 7.0


def test_what_fails_later_waits_for_its_person_or_is_kept() -> None:
    """C9."""
    waits = as_late_failure(GraphTrouble(131047, "24 hours"))
    assert isinstance(waits, NotNow)
    assert waits.seconds is None
    for code in (131026, 131000, 130472, 131056):
        assert isinstance(as_late_failure(GraphTrouble(code, "no")), NeverTaken)


def test_the_window_is_said_plainly() -> None:
    assert "24 hours" in find_meaning(GraphTrouble(131047, "")).sentence
    assert "waits" in find_meaning(GraphTrouble(131047, "")).sentence


def test_no_secret_is_told() -> None:
    """G6."""
    assert hide("Malformed access token EAAx", ["EAAx", ""]) == "Malformed access token <token>"
    assert "EAAx" not in repr(read_number(GIVEN))
    assert "abc" not in repr(read_number(GIVEN))


# --- settings


def test_settings_make_a_number() -> None:
    number = read_number({**GIVEN, "base_url": "http://127.0.0.1:8080/"})
    assert number.root == f"http://127.0.0.1:8080/{VERSION}"
    assert read_number({**GIVEN, "version": "v23.0"}).root == f"{GRAPH}/v23.0"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"phone_number_id": ""}, "no phone number ID"),
        ({"phone_number_id": "+1 555"}, "digits only"),
        ({"token": ""}, "no access token"),
        ({"token": "two words"}, "no access token"),
        ({"app_secret": None}, "no app secret"),
        ({"verify_token": ""}, "no verify token"),
        ({"verify_token": "short"}, "fewer than"),
        ({"base_url": "graph.example"}, "no address"),
        ({"version": "23"}, "version"),
    ],
)
def test_what_is_missing_is_said(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigProblem, match=words):
        read_number({**GIVEN, **wrong})


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://lookaside.fbsbx.com/whatsapp_business/attachments/?mid=1&ext=2", True),
        (f"{GRAPH}/x", True),
        ("http://lookaside.fbsbx.com/x", False),
        ("https://lookaside.fbsbx.com:8443/x", False),
        ("https://fbsbx.com.example.org/x", False),
        ("https://evilfbsbx.com/x", False),
        ("http://169.254.169.254/latest", False),
        ("https://[::1", False),
        ("", False),
    ],
)
def test_the_token_is_shown_to_whatsapp_only(url: str, expected: bool) -> None:
    """G6, G8: files lie where WhatsApp says, if that is WhatsApp's."""
    assert is_file_address(url, NumberSettings(NUMBER, "t", "s", "v")) is expected


# --- memory


def test_what_is_remembered_is_bounded() -> None:
    memory = SentMemory()
    for n in range(MOST_CHATS + 10):
        memory.note_heard(str(n), "m", 1.0)
        memory.choose_typing(str(n), 0.0)
    assert not memory.has_written_since("0", 1.0)
    assert memory.has_written_since(str(MOST_CHATS), 1.0)
    for n in range(MOST_KEYS + 1):
        memory.begin(str(n))
    memory.note_arrived("0", "wamid.0")
    memory.note_arrived("1", "wamid.1")
    assert (memory.find_arrived("0"), memory.find_arrived("1"), memory.find_arrived("1")) == ("", "wamid.1", "")


def test_typing_is_shown_again_when_it_is_over_or_for_another_message() -> None:
    memory = SentMemory()
    assert memory.choose_typing("a", 0.0) == ""
    memory.note_heard("a", "m1", 1.0)
    assert memory.choose_typing("a", 100.0) == "m1"
    assert memory.choose_typing("a", 101.0) == ""
    assert memory.choose_typing("a", 100.0 + TYPING_SECONDS) == "m1"
    memory.note_heard("a", "m2", 1.0)
    assert memory.choose_typing("a", 100.1 + TYPING_SECONDS) == "m2"
