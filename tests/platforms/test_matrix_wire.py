"""What Matrix tells and is told, on events as its specification writes them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.markup.dialects import translate
from gateway.platforms.face import NeverTaken, NotNow, Part
from gateway.platforms.matrix import SPEC, wire_out
from gateway.platforms.matrix.refusals import (
    MatrixKind,
    MatrixTrouble,
    as_failure,
    as_file_failure,
    as_upload_failure,
    describe_outage,
    find_pause,
    read_trouble,
)
from gateway.platforms.matrix.rooms import KnownRooms
from gateway.platforms.matrix.session import read_access
from gateway.platforms.matrix.wire import (
    MatrixSelf,
    OddMatrixEvent,
    RoomView,
    Skipped,
    find_arrival,
    find_inviter,
    find_referred,
    name_direct,
    read_event,
    read_redacted,
)
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound

ME = MatrixSelf("bot", "@hermes:example.org", "Hermes")
ROOM = RoomView("!room:example.org", "group", {"@ann:example.org": "Ann"})
PLACE = Address("matrix", "bot", ROOM.id, "group")
MXC = "mxc://example.org/FHyPlCeYUSFFxlgbQYZmoEoe"


def event(content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "m.room.message",
        "event_id": "$143273582443PhrSn:example.org",
        "sender": "@ann:example.org",
        "origin_server_ts": 1432735824653,
        "room_id": ROOM.id,
        "content": content,
        **more,
    }


def text(body: str, **more: Any) -> dict[str, Any]:
    return event({"msgtype": "m.text", "body": body, **more})


def read(given: dict[str, Any], **referred: dict[str, Any] | None) -> Inbound:
    found = read_event(given, {f"${name}": one for name, one in referred.items()}, ROOM, ME)
    assert isinstance(found, Inbound), found
    return found


def skip(given: dict[str, Any], **referred: dict[str, Any] | None) -> str:
    found = read_event(given, {f"${name}": one for name, one in referred.items()}, ROOM, ME)
    assert isinstance(found, Skipped), found
    return found.reason


# --- what comes in


def test_a_message_has_its_place_its_sender_and_its_time() -> None:
    inbound = read(text("This is an example text message"))
    assert (inbound.address, inbound.sender, inbound.sender_name) == (PLACE, "@ann:example.org", "Ann")
    assert (inbound.text, inbound.message) == ("This is an example text message", "$143273582443PhrSn:example.org")
    assert (inbound.received, inbound.mentioned, inbound.revision) == (1432735824.653, False, "")


@pytest.mark.parametrize(
    ("content", "mentioned"),
    [
        ({"body": "hello", "m.mentions": {"user_ids": ["@hermes:example.org"]}}, True),
        ({"body": "hello @hermes:example.org", "m.mentions": {}}, False),
        ({"body": "hello", "m.mentions": {"room": True}}, False),
        ({"body": "hello", "m.mentions": {"user_ids": "@hermes:example.org"}}, False),
        ({"body": "hello @hermes:example.org!"}, True),
        ({"body": "hello @hermes:example.org.evil"}, False),
        ({"body": "hello x@hermes:example.org"}, False),
        ({"body": "Hermes, hello"}, False),  # a name alone says nothing
        (
            {
                "body": "Hermes: hi",
                "formatted_body": '<a href="https://matrix.to/#/@hermes:example.org">Hermes</a>: hi',
            },
            True,
        ),
        (
            {"body": "H: hi", "formatted_body": '<a href="https://matrix.to/#/%40hermes%3Aexample.org">H</a>: hi'},
            True,
        ),
        (
            {"body": "Bob: hi", "formatted_body": '<a href="https://matrix.to/#/@bob:example.org">Bob</a>: hi'},
            False,
        ),
        (
            {
                "body": "> <@hermes:example.org> first\n\nyou?",
                "formatted_body": '<mx-reply><a href="https://matrix.to/#/@hermes:example.org">x</a></mx-reply>you?',
            },
            False,
        ),
    ],
)
def test_a_mention_is_what_the_client_says_or_a_link_or_our_id(content: dict[str, Any], mentioned: bool) -> None:
    """G2: names never match."""
    assert read(event({"msgtype": "m.text", **content})).mentioned is mentioned


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("Hermes: /stop", "/stop"),
        ("hermes, what is it?", "what is it?"),
        ("@hermes:example.org: hi", "hi"),
        ("@Hermes hi", "hi"),
        ("Hermes", "Hermes"),
        ("Hermesian thoughts", "Hermesian thoughts"),
        ("hi Hermes: you", "hi Hermes: you"),
        ("Hermes: !help", "/help"),
    ],
)
def test_our_name_before_a_text_is_no_part_of_it(body: str, said: str) -> None:
    assert read(text(body, **{"m.mentions": {"user_ids": [ME.id]}})).text == said


@pytest.mark.parametrize(
    ("body", "said"), [("!stop", "/stop"), ("!important", "!important"), ("! stop", "! stop"), ("/stop", "/stop")]
)
def test_an_exclamation_mark_does_for_a_slash(body: str, said: str) -> None:
    assert read(text(body)).text == said


def test_a_reply_brings_along_what_it_replies_to() -> None:
    reply = text(
        "> <@bob:example.org> first\n> lines\n\nand more", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$a"}}}
    )
    assert find_referred(reply, {}) == {"$a"}
    inbound = read(reply, a={**text("first"), "sender": "@bob:example.org"})
    assert (inbound.text, inbound.quote, inbound.reply_to) == ("and more", "first", "$a")
    assert not inbound.mentioned
    assert read(reply, a={**text("first"), "sender": ME.id}).mentioned
    assert read(reply, a=None).quote == ""


def test_a_thread_is_a_place_of_its_own() -> None:
    related = {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$x"},
    }
    said = text("in a thread", **{"m.relates_to": related})
    assert find_referred(said, {}) == {"$root"}
    inbound = read(said, root=text("root"))
    assert (inbound.address.thread, inbound.reply_to, inbound.mentioned) == ("$root", "", False)
    assert read(said, root={**text("root"), "sender": ME.id}).mentioned
    meant = text("a reply", **{"m.relates_to": {**related, "is_falling_back": False}})
    assert find_referred(meant, {}) == {"$root", "$x"}
    assert read(meant, root=text("root"), x=text("that")).reply_to == "$x"


def test_an_edit_is_a_revision_of_what_its_sender_wrote() -> None:
    """C1, G2: the server takes an edit of somebody else's message, and no client shows it."""
    new = {"msgtype": "m.text", "body": "better"}
    edit = {
        **text("* better", **{"m.new_content": new, "m.relates_to": {"rel_type": "m.replace", "event_id": "$a"}}),
        "event_id": "$e",
    }
    thread = {"m.relates_to": {"rel_type": "m.thread", "event_id": "$root"}}
    original = {**text("good", **thread), "event_id": "$a"}
    assert find_referred(edit, {}) == {"$a"}
    assert find_referred(edit, {"$a": original}) == {"$root"}
    inbound = read(edit, a=original, root=None)
    assert (inbound.text, inbound.message, inbound.address.thread) == ("better", "$a", "$root")
    assert inbound.revision == "1432735824653-$e"
    assert "did not write" in skip(edit, a={**original, "sender": "@bob:example.org"})
    assert "did not write" in skip(edit, a=None)


@pytest.mark.parametrize(
    "given",
    [
        {**text("ours"), "sender": ME.id},
        event({}),
        {**text("gone"), "unsigned": {"redacted_because": {"type": "m.room.redaction"}}},
        event({"msgtype": "m.notice", "body": "another bot"}),
        event({"msgtype": "m.key.verification.request", "body": "verify"}),
        {**event({"membership": "join"}), "type": "m.room.member", "state_key": "@ann:example.org"},
        {**event({"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}), "type": "m.room.encrypted"},
        {**event({"m.relates_to": {"rel_type": "m.annotation", "key": "👍"}}), "type": "m.reaction"},
    ],
)
def test_what_is_not_for_us_is_skipped(given: dict[str, Any]) -> None:
    assert skip(given)


@pytest.mark.parametrize("field", ["type", "sender", "event_id", "origin_server_ts"])
def test_what_is_not_as_documented_names_the_field_and_nothing_else(field: str) -> None:
    """G6: never what people wrote."""
    with pytest.raises(OddMatrixEvent, match=field) as odd:
        read_event({**text("a secret word"), field: None}, {}, ROOM, ME)
    assert "secret" not in str(odd.value)


@pytest.mark.parametrize(
    ("content", "name", "kind", "caption"),
    [
        ({"msgtype": "m.file", "body": "plan.pdf"}, "plan.pdf", "file", ""),
        ({"msgtype": "m.image", "body": "Look!", "filename": "cat.png"}, "cat.png", "image", "Look!"),
        ({"msgtype": "m.image", "body": "cat.png", "filename": "cat.png"}, "cat.png", "image", ""),
        ({"msgtype": "m.audio", "body": "note.ogg", "org.matrix.msc3245.voice": {}}, "note.ogg", "audio", ""),
        ({"msgtype": "m.video", "body": "../../clip.mp4"}, "clip.mp4", "file", ""),
        ({"msgtype": "m.file", "body": "x.png", "info": {"mimetype": "image/png"}}, "x.png", "image", ""),
    ],
)
def test_files_have_name_kind_and_caption(content: dict[str, Any], name: str, kind: str, caption: str) -> None:
    info = {"size": 46144, "duration": 2140, **content.pop("info", {})}
    inbound = read(event({**content, "url": MXC, "info": info}))
    (file,) = inbound.files
    assert (file.name, file.kind, file.size, file.remote, file.seconds) == (name, kind, 46144, MXC, 2)
    assert inbound.text == caption


def test_an_encrypted_file_keeps_its_key_with_its_address() -> None:
    locked = {"url": MXC, "key": {"k": "aWF6-32KGYaC3A"}, "iv": "w+sE15fzSc0AAA", "hashes": {"sha256": "fdSLu/Yk"}}
    (file,) = read(event({"msgtype": "m.file", "body": "plan.pdf", "file": locked})).files
    assert json.loads(file.remote) == locked
    with pytest.raises(OddMatrixEvent, match="url"):
        read(event({"msgtype": "m.file", "body": "plan.pdf", "url": "https://evil.example/x"}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (event({"msgtype": "m.emote", "body": "waves"}), "* waves"),
        (event({"msgtype": "m.location", "body": "Here", "geo_uri": "geo:1.5,2.5"}), "[location Here geo:1.5,2.5]"),
        ({**event({"body": "A ](cat", "url": MXC}), "type": "m.sticker"}, "[sticker A )(cat]"),
        (
            {
                **event(
                    {
                        "m.poll": {
                            "question": {"m.text": [{"body": "Tea?"}]},
                            "answers": [{"m.text": [{"body": "Yes"}]}, {"m.text": [{"body": "No"}]}],
                        }
                    }
                ),
                "type": "m.poll.start",
            },
            "[poll Tea? (Yes / No)]",
        ),
    ],
)
def test_what_is_neither_text_nor_file_is_a_short_text(given: dict[str, Any], said: str) -> None:
    assert read(given).text == said


# --- rooms


def member(who: str, membership: str, before: str = "", number: str = "$m") -> dict[str, Any]:
    prev = {"unsigned": {"prev_content": {"membership": before}}} if before else {}
    content = {"membership": membership, "displayname": who[1:4].title()}
    return {**event(content, event_id=number), "type": "m.room.member", "state_key": who, **prev}


def test_what_is_for_us_begins_with_our_invitation_or_behind_what_is_known() -> None:
    a, b, c = ({**text(body), "event_id": f"${body}"} for body in "abc")
    invited, joined = member(ME.id, "invite"), member(ME.id, "join", "invite")
    assert find_arrival([a, invited, b, joined, c], ME.id) == (2, False)
    assert find_arrival([b, joined, c], ME.id) == (None, True)
    assert find_arrival([a, member(ME.id, "join"), c], ME.id) == (2, False)
    assert find_arrival([a, member(ME.id, "join", "join"), c], ME.id) == (None, False)  # another name
    assert find_arrival([a, member("@ann:example.org", "join"), c], ME.id) == (None, False)
    assert find_arrival([a, b, c], ME.id, {"$a", "$b"}) == (2, False)
    assert find_arrival([a, b, c], ME.id) == (None, False)


def test_an_invitation_is_whose_it_says() -> None:
    state = [member("@ann:example.org", "join"), {**member(ME.id, "invite"), "sender": "@ann:example.org"}]
    assert find_inviter(state, ME.id) == ("@ann:example.org", "Ann")
    assert find_inviter([member(ME.id, "join")], ME.id) == ("", "")


def test_a_room_of_two_is_direct_and_a_third_makes_it_a_group() -> None:
    rooms = KnownRooms()
    rooms.note_news("!r", [member(ME.id, "join"), member("@ann:example.org", "join")], None)
    assert rooms.view("!r").kind == "dm"
    rooms.note_news("!r", [member("@bob:example.org", "invite")], None)
    assert rooms.view("!r").kind == "group"
    rooms.note_news("!r", [], 2)  # what the homeserver counts holds
    assert rooms.view("!r").kind == "dm"
    assert rooms.view("!r").names["@bob:example.org"] == "Bob"


def test_a_direct_chat_goes_only_where_its_person_is_alone_with_us() -> None:
    """G12"""
    rooms, ann = KnownRooms(), "@ann:example.org"
    place = Address("matrix", "bot", name_direct("!r", ann), thread="$thread")
    made = {**event({"predecessor": {"room_id": "!r"}}), "type": "m.room.create", "state_key": ""}
    rooms.note_news("!r", [member(ME.id, "join"), member(ann, "join")], 2)
    rooms.note_news("!new", [made, member(ME.id, "join"), member("@bob:example.org", "join")], 2)
    assert rooms.succeeds("!r", "!new")
    assert not rooms.succeeds("!new", "!r")
    rooms.note_move("!r", "!new")
    assert rooms.follow(place) == place
    rooms.note_news("!new", [member(ann, "join")], 3)
    assert rooms.follow(place) == place
    rooms.note_news("!new", [member("@bob:example.org", "leave")], 2)
    assert rooms.follow(place) == Address("matrix", "bot", name_direct("!new", ann))
    assert rooms.is_between("!r", ann)
    rooms.note_news("!r", [member("@bob:example.org", "join")], 3)
    assert not rooms.is_between("!r", ann)


def test_rooms_know_what_became_of_them() -> None:
    rooms, waiting = KnownRooms(), Address("matrix", "bot", "!r", "group", "$thread")
    encrypted = {**event({"algorithm": "m.megolm.v1.aes-sha2"}), "type": "m.room.encryption", "state_key": ""}
    ended = {**event({"replacement_room": "!new"}), "type": "m.room.tombstone", "state_key": ""}
    rooms.note_news("!r", [encrypted, ended, {**event({"redacts": "$gone"}), "type": "m.room.redaction"}], 2)
    assert rooms.is_encrypted("!r")
    assert rooms.is_gone("$gone")
    assert rooms.list_successors() == [("!r", "!new", "@ann:example.org")]
    rooms.note_away(waiting)
    assert rooms.is_away(waiting)
    assert rooms.come_back("!r") == {waiting}
    rooms.note_move("!r", "!new")
    assert rooms.follow(waiting) == Address("matrix", "bot", "!new", "group")
    assert rooms.list_successors() == []
    rooms.note_left("!r")
    assert not rooms.is_in("!r")


def test_a_redaction_names_its_event_in_two_places() -> None:
    assert read_redacted({**event({}), "type": "m.room.redaction", "redacts": "$a"}) == "$a"
    assert read_redacted(text("no redaction", redacts="$a")) == ""


# --- what goes out


def part(words: str, **more: Any) -> Part:
    written = translate(words, SPEC.markup)
    return replace(Part(PLACE, written.text, markup=SPEC.markup, plain=written.plain, key="1:0"), **more)


def test_a_message_has_its_text_twice() -> None:
    made = wire_out.make_message(part("**bold** <b>\n\n```py\nx = 1\ny < 2\n```\nend"))
    assert made["msgtype"] == "m.text"
    assert made["format"] == "org.matrix.custom.html"
    assert made["body"].startswith("bold <b>")
    code = '<pre><code class="language-py">x = 1\ny &lt; 2</code></pre>'
    assert made["formatted_body"] == f"<strong>bold</strong> &lt;b&gt;<br><br>{code}<br>end"
    assert made["m.mentions"] == {}
    assert wire_out.make_message(Part(PLACE, "a\nb", markup="plain")) == {
        "msgtype": "m.text",
        "body": "a\nb",
        "m.mentions": {},
    }


def test_an_edit_names_the_first_event_and_has_the_text_for_older_clients() -> None:
    made = wire_out.make_edit("$a", part("*new*"))
    assert made["body"] == "* new"
    assert made["m.new_content"]["formatted_body"] == "<em>new</em>"
    assert made["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$a"}
    assert made["m.mentions"] == made["m.new_content"]["m.mentions"] == {}  # "@room" in a text calls nobody


def test_answers_stand_in_their_thread_and_reply() -> None:
    threaded = replace(PLACE, thread="$root")
    related = wire_out.make_message(part("x", address=threaded))["m.relates_to"]
    assert related == {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$root"},
    }
    related = wire_out.make_message(part("x", address=threaded, reply_to="$a"))["m.relates_to"]
    assert (related["is_falling_back"], related["m.in_reply_to"]) == (False, {"event_id": "$a"})
    assert wire_out.make_message(part("x", reply_to="$a"))["m.relates_to"] == {"m.in_reply_to": {"event_id": "$a"}}


@pytest.mark.parametrize("sign", ["a", "é", '"', "\n&", "<"])
def test_no_event_is_too_large(sign: str) -> None:
    """C9: markup and older clients give way before the text does."""
    words = sign * (SPEC.max_length // len(sign.encode()))
    whole = Part(PLACE, translate(words, SPEC.markup).text, markup=SPEC.markup, plain=words)
    for made in (wire_out.make_message(whole), wire_out.make_edit("$a", whole)):
        assert wire_out.measure(made) <= wire_out.MOST_BYTES
        assert (made.get("m.new_content") or made)["body"] == words


@pytest.mark.parametrize(
    ("name", "kind", "msgtype"),
    [
        ("a.png", "image", "m.image"),
        ("a.ogg", "audio", "m.audio"),
        ("a.mp4", "file", "m.video"),
        ("a", "file", "m.file"),
    ],
)
def test_a_file_has_its_name_and_its_caption(name: str, kind: str, msgtype: str) -> None:
    made = wire_out.make_file(part("as *asked*"), FileRef("/x", name, kind, 5), {"url": MXC})
    assert (made["msgtype"], made["filename"], made["body"], made["url"]) == (msgtype, name, "as asked", MXC)
    assert made["info"]["size"] == 5
    assert wire_out.make_file(part(""), FileRef("/x", name, kind, 5), {"url": MXC})["body"] == name


def test_a_transaction_has_the_same_name_in_one_home_only() -> None:
    """C7: rows of two homes have the same numbers."""
    assert wire_out.make_name("salt", "1:0") == wire_out.make_name("salt", "1:0")
    assert len({wire_out.make_name(salt, key) for salt in ("a", "b") for key in ("1:0", "1:1")}) == 4


# --- refusals


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "M_LIMIT_EXCEEDED", MatrixKind.PENALTY),
        (429, "", MatrixKind.PENALTY),
        (401, "M_UNKNOWN_TOKEN", MatrixKind.TOKEN),
        (403, "M_FORBIDDEN", MatrixKind.FORBIDDEN),
        (404, "M_NOT_FOUND", MatrixKind.MISSING),
        (413, "M_TOO_LARGE", MatrixKind.TOO_LARGE),
        (403, "M_USER_LOCKED", MatrixKind.CLOSED),
        (403, "M_RESOURCE_LIMIT_EXCEEDED", MatrixKind.FULL),
        (400, "M_BAD_JSON", MatrixKind.REFUSED),
        (502, "", MatrixKind.UNSURE),
        (500, "M_UNKNOWN", MatrixKind.UNSURE),
        (404, "", MatrixKind.UNSURE),  # a proxy's page
    ],
)
def test_what_a_homeserver_says_is_understood(status: int, code: str, kind: MatrixKind) -> None:
    assert read_trouble(status, code, "Words.").kind is kind


def test_patience_is_as_long_as_it_asks_for() -> None:
    """C8."""
    failure = as_failure(read_trouble(429, "M_LIMIT_EXCEEDED", "Too Many", retry_after_ms=2500))
    assert isinstance(failure, NotNow)
    assert (failure.seconds, failure.whole_account) == (2.5, True)
    assert read_trouble(429, "", "").seconds > 0


@pytest.mark.parametrize(
    ("kind", "form", "seconds"),
    [
        (MatrixKind.TOKEN, NotNow, 300.0),
        (MatrixKind.CLOSED, NotNow, 300.0),
        (MatrixKind.FULL, NotNow, 300.0),
        (MatrixKind.FORBIDDEN, NotNow, None),
        (MatrixKind.MISSING, NotNow, None),
        (MatrixKind.UNREADABLE, NotNow, None),
        (MatrixKind.UNSENT, NotNow, 3.0),
        (MatrixKind.TOO_LARGE, NeverTaken, 0),
        (MatrixKind.REFUSED, NeverTaken, 0),
        (MatrixKind.UNSURE, DeliveryFailure, 0),
    ],
)
def test_refusals_are_told_in_the_words_of_the_face(kind: MatrixKind, form: type, seconds: float | None) -> None:
    """C7, C9."""
    failure = as_failure(MatrixTrouble(kind, "words"))
    assert type(failure) is form
    if isinstance(failure, NotNow):
        assert failure.seconds == seconds


def test_a_file_that_is_gone_is_waited_for_by_nobody() -> None:
    for kind in (MatrixKind.MISSING, MatrixKind.FORBIDDEN):
        assert isinstance(as_file_failure(MatrixTrouble(kind, "x")), NeverTaken)
    assert isinstance(as_file_failure(MatrixTrouble(MatrixKind.UNSENT, "x")), NotNow)


def test_a_file_that_does_not_go_up_says_nothing_about_the_room() -> None:
    """C9: nobody there is waited for, and nothing there is in doubt."""
    for kind in (MatrixKind.MISSING, MatrixKind.FORBIDDEN, MatrixKind.REFUSED, MatrixKind.TOO_LARGE):
        assert isinstance(as_upload_failure(MatrixTrouble(kind, "x"), "plan.pdf"), NeverTaken)
    failure = as_upload_failure(MatrixTrouble(MatrixKind.UNSURE, "status 502"), "plan.pdf")
    assert isinstance(failure, NotNow)
    assert failure.seconds is not None
    assert not failure.whole_account


def test_the_owner_reads_what_keeps_it_from_hearing() -> None:
    """C13: one failure is no news."""
    cut = MatrixTrouble(MatrixKind.UNSENT, "no connection")
    assert describe_outage(cut, 1) is None
    assert "cannot be reached (no connection)" in str(describe_outage(cut, 2))
    assert find_pause(cut) is None
    revoked = MatrixTrouble(MatrixKind.TOKEN, "x")
    assert "revoked" in str(describe_outage(revoked, 1))
    assert find_pause(revoked) == 300.0
    limited = MatrixTrouble(MatrixKind.PENALTY, "x", seconds=7.0)
    assert (describe_outage(limited, 5), find_pause(limited)) == (None, 7.0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"homeserver": "example.org", "user": "@a:b"},
        {"homeserver": "example.org", "user": "hermes", "password": "x"},
        {"homeserver": "example.org", "user": "@hermes", "token": "x"},
        {"user": "@a:b", "password": "x"},
    ],
)
def test_settings_that_do_not_do_are_said_plainly(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigProblem) as bad:
        read_access(settings)
    assert bad.value.fix
