"""Slack's wire: documented payloads and errors, as tables."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from gateway.platforms.face import HookRequest, NeverTaken, NotNow, Part
from gateway.platforms.slack import SPEC
from gateway.platforms.slack.budgets import TIERS, CallBudget
from gateway.platforms.slack.link import find_proxy, may_see_token
from gateway.platforms.slack.reading_back import MOST_THREADS, ChatReading, plan_reading
from gateway.platforms.slack.refusals import (
    NEEDED_SCOPES,
    WANTED_SCOPES,
    SlackTroubleKind,
    as_failure,
    hide_tokens,
    list_missing,
    read_error,
)
from gateway.platforms.slack.watching import read_content, read_envelope, read_request
from gateway.platforms.slack.wire import (
    Around,
    Entered,
    Needs,
    OddPayload,
    Passed,
    PayloadKind,
    SlackPayload,
    SlackSelf,
    ThreadRoot,
    Uninstalled,
    find_needs,
    read_payload,
)
from gateway.platforms.slack.wire_out import (
    cut_sections,
    is_shown,
    make_edit,
    make_history,
    make_message,
    make_share,
    read_key,
)
from gateway.platforms.slack.wire_text import escape, read_command, show_text, unescape
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, Inbound

ME = SlackSelf("slack", "U0BOT", "T123", "hermes")
DM: dict[str, Any] = {
    "type": "message",
    "channel": "D024BE91L",
    "user": "U2147483697",
    "text": "Hello hello can you hear me?",
    "ts": "1355517523.000005",
    "event_ts": "1355517523.000005",
    "channel_type": "im",
}
FORM = "application/x-www-form-urlencoded"
CHANNEL = {**DM, "channel": "C024BE91L", "channel_type": "channel"}


def read(event: dict[str, Any], around: Around | None = None, me: SlackSelf = ME) -> Any:
    return read_payload(SlackPayload(PayloadKind.EVENT, event), me, around or Around())


# --- what comes


def test_a_direct_message() -> None:
    assert read(DM, Around({"U2147483697": "Ann"})) == Inbound(
        Address("slack", "slack", "D024BE91L"),
        "1355517523.000005",
        "U2147483697",
        "Hello hello can you hear me?",
        sender_name="Ann",
        source="T123",
        received=1355517523.000005,
    )


@pytest.mark.parametrize(
    ("fields", "kind", "thread"),
    [
        ({}, "dm", ""),
        ({"thread_ts": "1355517523.000005"}, "dm", ""),
        ({"thread_ts": "1355517000.000001"}, "dm", "1355517000.000001"),
        ({"channel": "C1", "channel_type": "channel"}, "group", "1355517523.000005"),
        ({"channel": "C1", "channel_type": "channel", "thread_ts": "1.000001"}, "group", "1.000001"),
        ({"channel": "G1", "channel_type": "mpim"}, "group", "1355517523.000005"),
        ({"channel": "G1", "channel_type": "group", "thread_ts": "no"}, "group", "1355517523.000005"),
        ({"channel": "C1", "channel_type": "", "type": "app_mention"}, "group", "1355517523.000005"),
        ({"channel_type": ""}, "dm", ""),
    ],
)
def test_where_it_was_said(fields: dict[str, Any], kind: str, thread: str) -> None:
    inbound = read({**DM, **fields})
    assert (inbound.address.kind, inbound.address.thread) == (kind, thread)


def test_without_threads_a_channel_is_one_place() -> None:
    me = SlackSelf("slack", "U0BOT", "T123", in_threads=False)
    assert read(CHANNEL, me=me).address.thread == ""
    assert read({**CHANNEL, "thread_ts": "1.000001"}, me=me).address.thread == "1.000001"


@pytest.mark.parametrize(
    ("fields", "root", "mentioned"),
    [
        ({}, None, False),
        ({"text": "<@U0BOT> hi"}, None, True),
        ({"text": "ask <@U0BOT|hermes>"}, None, True),
        ({"text": "<@U0BOTTOM> hi"}, None, False),
        ({"text": "@hermes U0BOT hi"}, None, False),
        ({"thread_ts": "1.000001", "parent_user_id": "U0BOT"}, None, True),
        ({"thread_ts": "1.000001"}, ThreadRoot("U0BOT", "ours"), True),
        ({"thread_ts": "1.000001"}, ThreadRoot("U9", "<@U0BOT> begin"), True),
        ({"thread_ts": "1.000001"}, ThreadRoot("U9", "lunch"), False),
    ],
)
def test_what_speaks_to_us(fields: dict[str, Any], root: ThreadRoot | None, mentioned: bool) -> None:
    """G2: names are nothing, ids are."""
    assert read({**CHANNEL, **fields}, Around(root=root)).mentioned is mentioned


@pytest.mark.parametrize(
    "fields",
    [
        {"bot_id": "B1"},
        {"subtype": "bot_message", "user": None},
        {"app_id": "A1"},
        {"user": "U0BOT"},
        {"user": "USLACKBOT"},
        {"user": None},
        {"subtype": "channel_join"},
        {"subtype": "channel_topic"},
        {"subtype": "reminder_add"},
        {"subtype": "message_changed", "message": {**DM, "bot_id": "B1", "edited": {"ts": "2.000000"}}},
        {"subtype": "message_changed", "message": DM},
        {
            "subtype": "message_changed",
            "message": {**DM, "edited": {"ts": "2.000000"}},
            "previous_message": {**DM, "edited": {"ts": "2.000000"}},
        },
        {"subtype": "message_changed", "message": {**DM, "subtype": "tombstone", "edited": {"ts": "2.000000"}}},
        {"subtype": "message_deleted", "previous_message": {**DM, "bot_id": "B1"}},
        {"subtype": "message_deleted"},
        {"text": ""},
        {"type": "reaction_added"},
    ],
)
def test_what_is_no_persons_word(fields: dict[str, Any]) -> None:
    event = {**DM, **fields}
    assert isinstance(read(event), Passed)
    if "message" not in fields:
        assert find_needs(SlackPayload(PayloadKind.EVENT, event), ME).thread == ""


def test_an_edit_has_the_id_of_the_message_and_a_number_that_grows() -> None:
    """C1."""
    change = {
        "type": "message",
        "subtype": "message_changed",
        "hidden": True,
        "channel": "D024BE91L",
        "channel_type": "im",
        "ts": "1358878755.000001",
        "message": {**DM, "text": "Hello, world!", "edited": {"user": "U2147483697", "ts": "1355517536.000001"}},
        "previous_message": DM,
    }
    edit = read(change)
    assert (edit.stem, edit.text, edit.revision) == (read(DM).stem, "Hello, world!", "1355517536000001")


def test_a_deletion_is_an_edit_to_nothing() -> None:
    gone = {
        "type": "message",
        "subtype": "message_deleted",
        "hidden": True,
        "channel": "C024BE91L",
        "channel_type": "channel",
        "ts": "1358878755.000001",
        "deleted_ts": DM["ts"],
        "previous_message": {**DM, "text": "<@U0BOT> never mind"},
    }
    taken_back = read(gone)
    assert (taken_back.stem, taken_back.text) == (read(CHANNEL).stem, "")
    assert (taken_back.revision, taken_back.mentioned) == ("1358878755000001", True)


def test_somebody_of_another_workspace_is_named_with_it() -> None:
    """G2."""
    assert read({**DM, "user_team": "T123"}).sender == "U2147483697"
    assert read({**DM, "user_team": "T999"}).sender == "T999/U2147483697"


def test_files_become_references_or_lines() -> None:
    files = [
        {"id": "F1", "name": "../plan.png", "mimetype": "image/png", "size": 10, "mode": "hosted"},
        {"id": "F2", "title": "a note", "mimetype": "audio/mp4", "size": None},
        {"id": "F3", "name": "doc", "title": "A doc", "mode": "external", "external_url": "https://far.example"},
        {"id": "F4", "mode": "tombstone"},
    ]
    inbound = read({**DM, "subtype": "file_share", "text": "look", "files": files})
    assert [(file.name, file.kind, file.size, file.remote) for file in inbound.files] == [
        ("plan.png", "image", 10, "F1"),
        ("a note", "audio", 0, "F2"),
    ]
    assert inbound.text == "look\n[a file kept elsewhere A doc https://far.example]\n[a deleted file]"


def test_a_shared_message_is_marked_and_no_command() -> None:
    row = {"is_share": True, "author_name": "Bob [x]", "text": "!stop &amp; go", "from_url": "https://a.example"}
    inbound = read({**DM, "text": "", "attachments": [row, {"title": "a preview", "text": "of a page"}]})
    assert (inbound.text, inbound.forwarded) == ("[forwarded from Bob (x)]\n!stop & go", True)


def test_the_root_of_a_thread_is_quoted_the_first_time() -> None:
    event, root = {**CHANNEL, "thread_ts": "1.000001"}, ThreadRoot("U9", "is <@U8> &lt;here&gt;?")
    first = read(event, Around({"U8": "Bob"}, root, is_first=True))
    assert (first.quote, first.reply_to) == ("is @Bob <here>?", "1.000001")
    later = read(event, Around({}, root))
    assert (later.quote, later.reply_to) == ("", "")


@pytest.mark.parametrize(
    ("event", "needs"),
    [
        (DM, Needs(("U2147483697",))),
        ({**CHANNEL, "text": "<@U0BOT> and <@U8> <@U8>"}, Needs(("U2147483697", "U8"))),
        ({**DM, "thread_ts": "1.000001"}, Needs(("U2147483697",), "1.000001")),
        ({**DM, "thread_ts": DM["ts"]}, Needs(("U2147483697",))),
        ({**DM, "bot_id": "B1", "thread_ts": "1.000001"}, Needs()),
        ({"type": "team_join", "user": {"id": "U1"}}, Needs()),
    ],
)
def test_what_has_to_be_looked_up(event: dict[str, Any], needs: Needs) -> None:
    assert find_needs(SlackPayload(PayloadKind.EVENT, event), ME) == needs


def test_other_events() -> None:
    joined = {"type": "member_joined_channel", "user": "U0BOT", "channel": "C1"}
    assert read(joined) == Entered("C1")
    assert isinstance(read({**joined, "user": "U9"}), Passed)
    assert read({"type": "channel_unarchive", "channel": "C1", "user": "U9"}) == Entered("C1")
    assert read({"type": "app_uninstalled"}) == Uninstalled()
    assert read({"type": "tokens_revoked", "tokens": {"oauth": [], "bot": ["U0BOT"]}}) == Uninstalled()
    assert isinstance(read({"type": "tokens_revoked", "tokens": {"oauth": ["U9"]}}), Passed)


PRESS: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "U222", "username": "ann", "team_id": "T123"},
    "api_app_id": "A1",
    "container": {
        "type": "message",
        "message_ts": "1548261231.000200",
        "channel_id": "C111",
        "thread_ts": "1548261200.000100",
    },
    "channel": {"id": "C111", "name": "ops"},
    "trigger_id": "12321423423.333649436676.d8c1bb837935619ccad0f624c448ffb3",
    "actions": [
        {
            "type": "button",
            "action_id": "choice-1",
            "block_id": "=qXel",
            "text": {"type": "plain_text", "text": "No &amp; stop", "emoji": False},
            "value": "q-4711:1",
            "action_ts": "1548426417.840180",
        }
    ],
}


def test_a_pressed_button() -> None:
    """G4."""
    pressed = read_payload(SlackPayload(PayloadKind.ACTION, PRESS), ME, Around({"U222": "Ann"}))
    assert isinstance(pressed, Inbound)
    assert (pressed.question, pressed.choice, pressed.text) == ("q-4711", "1", "No & stop")
    assert pressed.address == Address("slack", "slack", "C111", "group", "1548261200.000100")
    assert (pressed.sender, pressed.sender_name, pressed.mentioned) == ("U222", "Ann", True)
    assert (pressed.message, pressed.reply_to) == ("press-1548261231.000200-1548426417.840180", "1548261231.000200")


@pytest.mark.parametrize("changes", [{"type": "view_submission"}, {"actions": []}, {"actions": [{"value": "theirs"}]}])
def test_buttons_of_others(changes: dict[str, Any]) -> None:
    assert isinstance(read_payload(SlackPayload(PayloadKind.ACTION, {**PRESS, **changes}), ME, Around()), Passed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stop", "/stop"),
        ("/stop", "/stop"),
        ("!STOP now", "/stop now"),
        ("", "/help"),
        ("reset", "/reset"),
        ("what is &lt;this&gt;?", "what is <this>?"),
    ],
)
def test_a_slash_command(text: str, said: str) -> None:
    form = {"command": "/hermes", "text": text, "user_id": "U2", "user_name": "ann", "team_id": "T123"}
    where = {"channel_id": "D1", "channel_name": "directmessage", "trigger_id": "13345224609.738474920.8088"}
    inbound = read_payload(SlackPayload(PayloadKind.COMMAND, {**form, **where}), ME, Around())
    assert isinstance(inbound, Inbound)
    assert (inbound.text, inbound.sender, inbound.address) == (said, "U2", Address("slack", "slack", "D1"))


@pytest.mark.parametrize(
    "event",
    [{**DM, "ts": "yesterday"}, {**DM, "ts": None}, {**DM, "channel": 7}, {**DM, "files": [{"name": "x"}]}],
)
def test_of_what_is_odd_only_the_field_is_told(event: dict[str, Any]) -> None:
    """G6."""
    with pytest.raises(OddPayload) as odd:
        read(event)
    assert "Hello" not in str(odd.value)
    assert "yesterday" not in str(odd.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("<@U0BOT> hi", "hi"),
        ("<@U0BOT|hermes>: hi", "hi"),
        ("hi <@U0BOT>", "hi @hermes"),
        ("<@U1> and <@U2|bob> and <@U3>", "@Ann and @bob and @U3"),
        ("in <#C1|ops> and <#C2>", "in #ops and #C2"),
        ("<!here> <!channel|channel> <!subteam^S1|@team> <!date^1^{date}|Monday>", "@here channel @team Monday"),
        ("<https://a.example> <https://a.example|https://a.example>", "https://a.example https://a.example"),
        ("<https://a.example/?x=1&amp;y|the page>", "the page (https://a.example/?x=1&y)"),
        ("<mailto:a@b.example|a@b.example>", "a@b.example"),
        ("2 &lt; 3 <", "2 < 3 <"),
    ],
)
def test_texts_are_read_as_people_see_them(text: str, shown: str) -> None:
    assert show_text(text, {"U1": "Ann"}, "U0BOT", "hermes") == shown


def test_escapes_come_back_as_they_were() -> None:
    for text in ("<!channel> & &amp; &lt;b>", "", "plain"):
        assert unescape(escape(text)) == text
        assert "<" not in escape(text)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("!stop", "/stop"), ("!Stop now", "/Stop now".lower()), ("!dice 6", "/dice 6"), ("!!", "!!"), ("!nope", "!nope")],
)
def test_commands_can_be_typed(typed: str, meant: str) -> None:
    assert read_command(typed, frozenset({"dice"})) == meant


# --- by which way


def test_envelopes_and_requests_bring_the_same() -> None:
    wrapped = {"type": "event_callback", "event_id": "Ev1", "team_id": "T123", "event": DM}
    envelope = {"envelope_id": "e1", "type": "events_api", "payload": wrapped, "retry_attempt": 1}
    expected = SlackPayload(PayloadKind.EVENT, DM)
    assert read_envelope(envelope) == expected
    assert read_content(wrapped) == expected
    assert read_envelope({"type": "interactive", "payload": PRESS}) == SlackPayload(PayloadKind.ACTION, PRESS)
    assert read_content(PRESS) == SlackPayload(PayloadKind.ACTION, PRESS)
    assert read_envelope({"type": "hello"}) is None
    assert read_envelope({"type": "events_api", "payload": {"event": None}}) is None
    assert expected.channel == "D024BE91L"
    assert SlackPayload(PayloadKind.ACTION, PRESS).channel == "C111"


@pytest.mark.parametrize(
    ("kind", "body", "found"),
    [
        ("application/json; charset=utf-8", b'{"type": "event_callback"}', {"type": "event_callback"}),
        (
            "application/x-www-form-urlencoded",
            b"payload=%7B%22type%22%3A%22block_actions%22%7D",
            {"type": "block_actions"},
        ),
        (FORM, b"command=%2Fhermes&text=a+b", {"command": "/hermes", "text": "a b"}),
        ("application/json", b"[1]", None),
        ("application/json", b"{", None),
        (FORM, b"payload=nothing", None),
        (FORM, b"\xff", None),
    ],
)
def test_requests_are_json_or_forms(kind: str, body: bytes, found: dict[str, Any] | None) -> None:
    assert read_request(HookRequest("POST", "", {"content-type": kind}, {}, body)) == found


# --- what goes


def test_a_message_calls_nobody_and_opens_no_link() -> None:
    at = Address("slack", "slack", "C1", "group", "1355517523.000005")
    assert make_message(Part(at, "*bold* &lt;", key="k1", markup="slack")).params == {
        "channel": "C1",
        "text": "*bold* &lt;",
        "thread_ts": "1355517523.000005",
        "metadata": {"event_type": "hermes_message", "event_payload": {"key": "k1"}},
        "unfurl_links": False,
        "unfurl_media": False,
        "parse": "none",
        "link_names": False,
    }
    plain = make_message(Part(at, "<!here> *", markup="plain")).params
    assert (plain["text"], plain["mrkdwn"]) == ("&lt;!here&gt; *", False)


def test_an_edit_without_choices_has_no_buttons() -> None:
    at = Address("slack", "slack", "C1", "group", "1.000001")
    assert make_edit("2.000002", Part(at, "x", markup="slack")).params["blocks"] == []
    asked = make_edit("2.000002", Part(at, "x", markup="slack", question="q", choices=("Yes",))).params["blocks"]
    assert [block["type"] for block in asked] == ["section", "actions"]
    assert asked[1]["elements"][0]["value"] == "q:0"
    assert make_message(Part(at, "x", question="q" * 2000, choices=("Yes",))).params.get("blocks") is None


def test_the_files_of_a_thread_go_there() -> None:
    at = Address("slack", "slack", "C1", "group", "1.000001")
    call = make_share(Part(at, "", markup="slack"), "F1", "plan.txt")
    assert call.params == {
        "files": [{"id": "F1", "title": "plan.txt"}],
        "channel_id": "C1",
        "thread_ts": "1.000001",
    }


def test_long_texts_are_cut_into_sections() -> None:
    for text in ("a" * 9000, "word " * 1500, "```\n" + "line\n" * 1200 + "```", "x\n" * 4000):
        pieces = cut_sections(text)
        assert all(0 < len(piece) <= 3000 for piece in pieces)
        assert all(piece.count("```") % 2 == 0 for piece in pieces)
        assert sum(piece.count("line") + piece.count("word") for piece in pieces) == text.count("line") + text.count(
            "word"
        )


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ({"shares": {"private": {"D1": [{"ts": "1.000001"}]}}}, True),
        ({"shares": {"public": {"C1": []}}}, False),
        ({"ims": ["D1"]}, True),
        ({"channels": ["C1"], "shares": None}, False),
        (None, False),
    ],
)
def test_a_file_is_known_to_stand_in_a_chat(file: Any, shown: bool) -> None:
    assert is_shown(file, "D1") is shown


@pytest.mark.parametrize(
    ("url", "may"),
    [
        ("https://files.slack.com/files-pri/T1-F1/plan.txt", True),
        ("http://127.0.0.1:4711/files/F1", True),
        ("http://127.0.0.1:4712/files/F1", False),
        ("https://slack.com.evil.example/x", False),
        ("http://files.slack.com/x", False),
        ("https://evil.example/slack.com", False),
        ("https://files.slack.com@evil.example/x", False),
        ("", False),
    ],
)
def test_the_token_is_shown_to_slack_alone(url: str, may: bool) -> None:
    """G6, G8: an address of a file that leads elsewhere is not followed."""
    assert may_see_token(url, "http://127.0.0.1:4711/api/") is may


def test_sockets_go_by_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert find_proxy("wss://wss.slack.com/link") == "http://proxy.example:3128"
    assert find_proxy("wss://127.0.0.1/link") is None


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("step", [0.0, 0.3, 1.0, 7.0])
def test_a_tier_is_kept_in_any_minute(step: float, patient: bool) -> None:
    """C8: no more than 50 within 60 seconds, however they come."""
    budget, now, made = CallBudget(TIERS["conversations.history"]), 100.0, []
    for _ in range(150):
        while (wait := budget.find_wait(now, patient=patient)) > 0:
            now += wait + 1e-6
        budget.take()
        made.append(now)
        now += step
    assert max(sum(at <= other < at + 60.0 for other in made) for at in made) <= 50


def test_the_patient_leave_room_to_those_who_cannot_wait() -> None:
    tier = TIERS["conversations.history"]
    budget = CallBudget(tier)
    for _ in range(tier.burst - tier.kept):
        assert budget.find_wait(1.0, patient=True) == 0.0
        budget.take()
    assert budget.find_wait(1.0, patient=True) > 0.0
    assert budget.find_wait(1.0) == 0.0
    assert budget.count_left(1.0) == tier.kept


def test_keys_are_found_again() -> None:
    metadata = make_message(Part(Address("slack", "s", "C1"), "x", key="k1")).params["metadata"]
    assert read_key({"metadata": metadata}) == "k1"
    assert read_key({"metadata": {"event_type": "theirs", "event_payload": {"key": "k1"}}}) == ""
    assert read_key({}) == ""


def test_histories_are_asked_for_as_forms() -> None:
    assert make_history("C1", "", "1.0", "", 200).method == "conversations.history"
    replies = make_history("C1", "1.000001", "", "next", 200)
    assert (replies.method, replies.form, replies.params["cursor"]) == ("conversations.replies", True, "next")


def test_what_is_read_after_an_absence() -> None:
    """C1: a chat from its newest known message on, and the threads in which something was said last."""

    def at(chat: str, thread: str = "", kind: str = "group") -> Address:
        return Address("slack", "s", chat, kind, thread)

    last = {
        at("D1", kind="dm"): "5.000000",
        at("D1", "3.000000", "dm"): "6.000000",
        at("C1", "7.000000"): "9.000000",
        at("C1", "8.000000"): "8.000000",
        at("C2"): "slash-1.2",
    }
    assert plan_reading(last) == [
        ChatReading("C1", "group", "8.000000", (("7.000000", "9.000000"), ("8.000000", "8.000000"))),
        ChatReading("D1", "dm", "5.000000", (("3.000000", "6.000000"),)),
    ]
    old = {at("C1", "1700000000.000000"): "1700000000.000000", at("C1", "1800000000.000000"): "1800000000.000000"}
    assert plan_reading(old)[0].threads == (("1800000000.000000", "1800000000.000000"),)
    many = {at("C1", f"{n}.000000"): f"{n}.000000" for n in range(100, 200)}
    (reading,) = plan_reading(many)
    assert len(reading.threads) == MOST_THREADS
    assert ("199.000000", "199.000000") in reading.threads


# --- refusals


@pytest.mark.parametrize(
    ("error", "kind", "seconds"),
    [
        ("ratelimited", NotNow, 7.0),
        ("invalid_auth", NotNow, 300.0),
        ("account_inactive", NotNow, 300.0),
        ("missing_scope", NotNow, 300.0),
        ("not_in_channel", NotNow, None),
        ("channel_not_found", NotNow, None),
        ("is_archived", NotNow, None),
        ("message_not_found", NeverTaken, None),
        ("cant_update_message", NeverTaken, None),
        ("invalid_blocks", NeverTaken, None),
        ("no_such_word", NeverTaken, None),
        ("internal_error", DeliveryFailure, None),
        ("fatal_error", DeliveryFailure, None),
    ],
)
def test_errors_in_the_words_of_the_face(error: str, kind: type[DeliveryFailure], seconds: float | None) -> None:
    failure = as_failure(read_error(error, 7.0, "chat:write"))
    assert type(failure) is kind
    if isinstance(failure, NotNow):
        assert failure.seconds == seconds
    assert getattr(failure, "markup", False) is (error == "invalid_blocks")


def test_scopes_and_tokens() -> None:
    assert read_error("missing_scope", needed="files:read").kind is SlackTroubleKind.SCOPE
    assert "the scope files:read" in str(as_failure(read_error("missing_scope", needed="files:read")))
    assert list_missing(["chat:write"])[0] == ["im:history"]
    assert hide_tokens("a xoxb-1 b", ("xoxb-1", "")) == "a <token> b"


def test_no_secret_of_the_set_up_is_told_back() -> None:
    """G6: an answer that does not fit its pattern is repeated to whoever gave it."""
    assert not [question.key for question in SPEC.setup if question.env and question.pattern]


def test_the_manifest_of_the_document_asks_for_what_is_needed() -> None:
    text = (Path(__file__).parents[2] / "docs/platforms/slack.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    manifest = YAML(typ="safe").load(block)
    assert {*NEEDED_SCOPES, *WANTED_SCOPES} <= set(manifest["oauth_config"]["scopes"]["bot"])
    assert {"app_mention", "message.im", "message.channels"} <= set(
        manifest["settings"]["event_subscriptions"]["bot_events"]
    )
    assert manifest["settings"]["interactivity"]["is_enabled"] is True
    assert [row["command"] for row in manifest["features"]["slash_commands"]] == ["/hermes"]
