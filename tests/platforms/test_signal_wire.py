"""What Signal says and is told, on documented lines and envelopes, and on any others."""

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.markup.dialects import STYLE_SIGNS, translate
from gateway.core.markup.leaves import EMPHASIS, MONO, STRIKE, STRONG
from gateway.core.text.lengths import measure
from gateway.core.text.render import mark_repeated, render_parts
from gateway.platforms.face import NeverTaken, NotNow, Part
from gateway.platforms.signal import SPEC, edit_chains, wire, wire_out
from gateway.platforms.signal.edit_chains import EditChains, keep_chains, read_chains
from gateway.platforms.signal.refusals import (
    CUT,
    UNLINKED,
    LineTrouble,
    RpcTrouble,
    as_failure,
    judge_results,
    read_results,
)
from gateway.platforms.signal.rpc_line import OddLine, RpcAnswer, RpcError, RpcNews, read_line, write_call
from gateway.platforms.signal.signal_settings import SignalSettings, read_settings
from gateway.platforms.signal.wire import (
    OddEnvelope,
    OwnEnvelope,
    ReadingBooks,
    SignalSelf,
    SkippedEnvelope,
    read_envelope,
    read_news,
    read_remote,
)
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef, Inbound, Outgoing

ME = SignalSelf("signal", "+15550001111", "aaaaaaaa-0000-4000-8000-000000000001")
ANN, BEN = "bbbbbbbb-0000-4000-8000-000000000002", "cccccccc-0000-4000-8000-000000000003"
GROUP = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI="
SENT = 1631458508784
DM = Address("signal", "signal", ANN)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=12,
)


def envelope(data: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """As the manual shows it."""
    made = {
        "source": "+33123456789",
        "sourceNumber": "+33123456789",
        "sourceUuid": ANN,
        "sourceName": "Ann",
        "sourceDevice": 1,
        "timestamp": SENT,
        "serverReceivedTimestamp": SENT + 200,
    }
    if data is not None:
        made["dataMessage"] = {"timestamp": SENT, "message": None, "expiresInSeconds": 0, "viewOnce": False, **data}
    return {**made, **more}


def read(data: dict[str, Any] | None = None, books: ReadingBooks | None = None, **more: Any) -> Any:
    return read_envelope(envelope(data, **more), ME, books or ReadingBooks())


def read_message(data: dict[str, Any], **more: Any) -> Inbound:
    found = read(data, **more)
    assert isinstance(found, Inbound)
    return found


# --- lines


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"jsonrpc":"2.0","result":{"timestamp":999},"id":4}', RpcAnswer(4, {"timestamp": 999})),
        ('{"jsonrpc":"2.0","result":0,"id":7}', RpcAnswer(7, 0)),
        ('{"jsonrpc":"2.0","result":null,"id":7}', RpcAnswer(7, None)),
        (
            '{"jsonrpc":"2.0","error":{"code":-32600,"message":"method field must be set","data":null},"id":null}',
            RpcError(None, -32600, "method field must be set"),
        ),
        ('{"jsonrpc":"2.0","error":{"code":-1,"message":null},"id":3}', RpcError(3, -1, "")),
        (
            '{"jsonrpc":"2.0","method":"receive","params":{"envelope":{}}}',
            RpcNews("receive", {"envelope": {}}),
        ),
    ],
)
def test_documented_lines(line: str, message: object) -> None:
    assert read_line(line.encode()) == [message]


def test_several_in_one_line() -> None:
    both = b'[{"jsonrpc":"2.0","result":1,"id":1},{"jsonrpc":"2.0","result":2,"id":2}]'
    assert read_line(both) == [RpcAnswer(1, 1), RpcAnswer(2, 2)]


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"null", b"1", b"{}", b'{"id":1}', b'{"result":1}', b"[1]"])
def test_other_lines_are_one_named_error(line: bytes) -> None:
    with pytest.raises(OddLine):
        read_line(line)


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_line_raises_anything_else(line: bytes) -> None:
    try:
        read_line(line)
    except OddLine:
        pass


def test_a_line_that_is_nested_without_end() -> None:
    with pytest.raises(OddLine):
        read_line(b"[" * 100_000)


@given(st.text(max_size=100))
def test_a_call_is_one_line_whatever_it_says(text: str) -> None:
    line = write_call(1, "send", {"message": text})
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert json.loads(line)["params"]["message"] == text


# --- news


def test_both_forms_of_news() -> None:
    body = {"envelope": {"timestamp": 1}, "account": "+1"}
    alone, asked = read_news(body), read_news({"subscription": 0, "result": body})
    assert (alone.account, alone.envelope, alone.asked_for) == ("+1", {"timestamp": 1}, False)
    assert (asked.account, asked.envelope, asked.asked_for) == ("+1", {"timestamp": 1}, True)
    broken = read_news({"envelope": {}, "exception": {"message": "words", "type": "UntrustedIdentityException"}})
    assert broken.problem == "UntrustedIdentityException"


@pytest.mark.parametrize("params", [{}, {"result": 1}, {"envelope": []}, {"result": {"envelope": None}}])
def test_odd_news(params: dict[str, Any]) -> None:
    with pytest.raises(OddEnvelope):
        read_news(params)


# --- messages


def test_a_direct_message() -> None:
    found = read_message({"message": "foobar"})
    assert found.address == DM
    assert (found.message, found.sender, found.text) == (f"{SENT}:{ANN}", ANN, "foobar")
    assert (found.sender_name, found.revision, found.mentioned) == ("Ann", "", False)
    assert found.received == (SENT + 200) / 1000


def test_who_hides_their_number_is_known_all_the_same() -> None:
    assert read_message({"message": "x"}, sourceNumber=None, source=ANN).sender == ANN


def test_a_number_that_somebody_else_has_now_is_somebody_else() -> None:
    """G2: the id counts, and nothing else."""
    assert read_message({"message": "x"}, sourceUuid=BEN).sender == BEN


@pytest.mark.parametrize("sender", [None, "", 4, "+33123456789", "PNI:" + ANN, ANN.upper()])
def test_without_an_id_nobody_speaks(sender: object) -> None:
    assert isinstance(read({"message": "x"}, sourceUuid=sender), SkippedEnvelope)


def test_a_group() -> None:
    found = read_message({"message": "x", "groupInfo": {"groupId": GROUP, "type": "DELIVER"}})
    assert found.address == Address("signal", "signal", GROUP, "group")
    assert found.sender == ANN


@pytest.mark.parametrize("group", [1, {}, {"groupId": ""}, {"groupId": "../x"}, {"groupId": 7}, {"groupId": "a b"}])
def test_an_odd_group(group: object) -> None:
    with pytest.raises(OddEnvelope):
        read({"message": "x", "groupInfo": group})


def test_two_in_a_group_who_wrote_in_the_same_moment() -> None:
    """C1: they have two messages."""
    group = {"groupInfo": {"groupId": GROUP}}
    first, second = read_message({"message": "x", **group}), read_message({"message": "x", **group}, sourceUuid=BEN)
    assert first.ext_id != second.ext_id


@pytest.mark.parametrize(
    "more",
    [
        {"syncMessage": {"sentMessage": {"message": "/stop", "timestamp": 1}}},
        {"syncMessage": {}, "dataMessage": {"timestamp": 1, "message": "/stop"}},
        {"sourceUuid": ME.id, "dataMessage": {"timestamp": 1, "message": "/stop"}},
        {"sourceUuid": None, "sourceNumber": ME.number, "dataMessage": {"timestamp": 1, "message": "/stop"}},
    ],
)
def test_what_our_own_devices_do_is_no_message(more: dict[str, Any]) -> None:
    assert isinstance(read(None, **more), OwnEnvelope)


def test_somebody_who_had_our_number_before_is_not_us() -> None:
    assert read_message({"message": "x"}, sourceNumber=ME.number).sender == ANN


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"reaction": {"emoji": "👍"}}, "a reaction"),
        ({"remoteDelete": {"timestamp": 1}}, "something was deleted"),
        ({"isExpirationUpdate": True, "expiresInSeconds": 60}, "how long messages stay"),
        ({"groupCallUpdate": {"eraId": "x"}}, "a call"),
        ({"groupInfo": {"groupId": GROUP, "type": "UPDATE"}}, "a service message"),
        ({"message": " \n"}, "a service message"),
        ({"message": 7}, "a service message"),
    ],
)
def test_what_is_no_message(data: dict[str, Any], reason: str) -> None:
    found = read(data)
    assert isinstance(found, SkippedEnvelope)
    assert found.reason == reason
    assert found.chat in (ANN, GROUP)


@pytest.mark.parametrize("kind", ["receiptMessage", "typingMessage", "callMessage", "storyMessage"])
def test_other_envelopes(kind: str) -> None:
    assert read(None, **{kind: {}}) == SkippedEnvelope(f"of another kind ({kind})")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"sticker": {"packId": "x", "stickerId": 1}}, "[sticker]"),
        (
            {"contacts": [{"name": {"display": "Ben [x]"}, "phone": [{"value": "+1"}]}]},
            "[contact Ben (x), +1]",
        ),
        ({"contacts": [{"name": {"given": "Ben", "family": "B"}}]}, "[contact Ben B]"),
        ({"contacts": [{}]}, "[contact]"),
        ({"pollCreate": {"question": "When?", "options": ["now", "later"]}}, "[poll When? (now / later)]"),
        ({"message": "look", "sticker": {}}, "look\n[sticker]"),
    ],
)
def test_what_is_neither_text_nor_a_file(data: dict[str, Any], text: str) -> None:
    assert read_message(data).text == text


# --- mentions and quotes


def mention(start: int, id: str | None, number: str | None = None, length: int = 1) -> dict[str, Any]:
    return {"name": number or id, "number": number, "uuid": id, "start": start, "length": length}


def test_a_mention_at_the_beginning_is_no_part_of_a_command() -> None:
    found = read_message({"message": "\ufffc /stop", "mentions": [mention(0, ME.id)]})
    assert (found.text, found.mentioned) == ("/stop", True)


def test_places_are_counted_in_utf16() -> None:
    names = ReadingBooks({BEN: "Ben"})
    data = {"message": "🙂🙂\ufffc and \ufffc!", "mentions": [mention(10, ME.id), mention(4, BEN)]}
    found = read(data, names)
    assert found.text == f"🙂🙂@Ben and @{ME.number}!"
    assert found.mentioned


def test_a_mention_of_somebody_else_does_not_speak_to_us() -> None:
    found = read_message({"message": "\ufffc hello", "mentions": [mention(0, BEN)]})
    assert (found.text, found.mentioned) == (f"@{BEN} hello", False)


def test_before_our_id_is_known_we_go_by_the_number() -> None:
    nameless = SignalSelf("signal", ME.number)
    data = {"message": "\ufffc hello", "mentions": [mention(0, ME.id, ME.number)]}
    found = read_envelope(envelope(data), nameless, ReadingBooks())
    assert isinstance(found, Inbound)
    assert (found.text, found.mentioned) == ("hello", True)


@pytest.mark.parametrize(
    "mentions",
    [7, [7], [{}], [mention(-1, ME.id)], [mention(9, BEN)], [mention(0, BEN, length=99)], [mention(0, BEN, length=0)]],
)
def test_odd_mentions_leave_the_text_alone(mentions: Any) -> None:
    assert read_message({"message": "hello", "mentions": mentions}).text == "hello"


def test_mentions_that_lie_over_each_other() -> None:
    data = {"message": "ab\ufffccd", "mentions": [mention(2, BEN), mention(1, BEN, length=3), mention(2, ANN)]}
    assert read_message(data).text == f"a@{BEN}d"


def test_a_quote_of_ours_speaks_to_us() -> None:
    quote = {"id": 77, "authorUuid": ME.id, "authorNumber": ME.number, "text": "said"}
    found = read_message({"message": "why?", "quote": quote})
    assert (found.mentioned, found.reply_to, found.quote) == (True, "77", "said")


def test_a_quote_of_an_edit_of_ours_names_the_message() -> None:
    books = ReadingBooks(find_ours=lambda sent: {78: 77}.get(sent, sent))
    assert read({"message": "why?", "quote": {"id": 78, "authorUuid": ME.id}}, books).reply_to == "77"


def test_a_quote_of_somebody_else() -> None:
    found = read_message({"message": "why?", "quote": {"id": 77, "authorUuid": BEN, "text": "said"}})
    assert (found.mentioned, found.reply_to, found.quote) == (False, f"77:{BEN}", "said")


@pytest.mark.parametrize("quote", [7, {}, {"id": "x", "authorUuid": BEN}, {"id": 5, "authorUuid": "../"}])
def test_an_odd_quote(quote: Any) -> None:
    assert read_message({"message": "x", "quote": quote}).reply_to == ""


# --- edits


def test_an_edit_is_another_revision_of_the_message() -> None:
    data = {"timestamp": SENT + 9000, "message": "first"}
    found = read(None, editMessage={"targetSentTimestamp": SENT, "dataMessage": data})
    assert (found.message, found.revision, found.text) == (f"{SENT}:{ANN}", str(SENT + 9000), "first")


def test_an_edit_of_an_edit_is_of_the_same_message() -> None:
    chains = EditChains()
    chains.note_theirs(ANN, SENT + 1, SENT)
    edit = {"targetSentTimestamp": SENT + 1, "dataMessage": {"timestamp": SENT + 2, "message": "x"}}
    found = read(None, ReadingBooks(find_first=chains.find_first), editMessage=edit)
    assert found.message == f"{SENT}:{ANN}"
    assert chains.find_first(BEN, SENT + 1) == SENT + 1


@pytest.mark.parametrize("edit", [{}, {"targetSentTimestamp": 1}, {"dataMessage": {"timestamp": 1, "message": "x"}}])
def test_an_odd_edit(edit: Any) -> None:
    with pytest.raises(OddEnvelope):
        read(None, editMessage=edit)


# --- files


def attachment(**more: Any) -> dict[str, Any]:
    return {"contentType": "image/png", "filename": "a.png", "id": "x1_-.png", "size": 10, **more}


def test_files() -> None:
    voice = attachment(contentType="audio/aac", filename=None, id="v.aac")
    image, sound = read_message({"attachments": [attachment(), voice]}).files
    assert (image.name, image.kind, image.size) == ("a.png", "image", 10)
    assert read_remote(image.remote) == ("x1_-.png", Address("signal", "", ANN))
    assert (sound.name, sound.kind) == ("audio_v.aac", "audio")
    (there,) = read_message({"attachments": [attachment()], "groupInfo": {"groupId": GROUP}}).files
    assert read_remote(there.remote) == ("x1_-.png", Address("signal", "", GROUP, "group"))


@pytest.mark.parametrize(
    "id", ["../../etc/passwd", "..", ".", "a/b", "a\\b", "", None, 7, "a..b", "x" * 300, "a\n", "~"]
)
def test_an_id_that_is_a_path_is_never_asked_for(id: Any) -> None:
    """G7."""
    found = read_message({"attachments": [attachment(id=id)]})
    assert found.files == ()
    assert found.text == "[a file that cannot be fetched]"


@pytest.mark.parametrize("remote", ["", "x", "x dm", "../y dm z", "x other z", "no such file"])
def test_an_odd_name_of_a_file(remote: str) -> None:
    assert read_remote(remote) is None


def test_names_of_files_are_made_safe() -> None:
    (file,) = read_message({"attachments": [attachment(filename="../../.bashrc")]}).files
    assert "/" not in file.name
    assert not file.name.startswith(".")


def test_nobody_sends_files_without_end() -> None:
    found = read_message({"attachments": [attachment(id=f"f{number}") for number in range(1000)]})
    assert len(found.files) == wire.MOST_FILES
    assert found.text == "[968 more files, which were left out]"


def test_what_is_to_be_seen_once_is_not_kept() -> None:
    found = read_message({"attachments": [attachment()], "viewOnce": True})
    assert (found.files, found.text) == ((), wire.VIEW_ONCE)


def test_a_long_text_is_put_together() -> None:
    whole = "word " * 1000
    long = attachment(contentType=wire.LONG_TEXT, id="long")
    cut = envelope({"message": whole[:2000], "attachments": [long, attachment()]})
    file = wire.find_long_text(cut)
    assert file is not None
    assert read_remote(file.remote) == ("long", Address("signal", "", ANN))
    found = read_envelope(wire.put_long_text(cut, whole), ME, ReadingBooks())
    assert isinstance(found, Inbound)
    assert found.text == whole
    assert [one.name for one in found.files] == ["a.png"]
    assert wire.put_long_text(cut, "something else") == cut
    for size in (None, "x", 0, -5, wire.MOST_LONG_TEXT + 1):
        huge = {**long, "size": size}
        assert wire.find_long_text(envelope({"message": "x", "attachments": [huge]})) is None
    assert wire.find_long_text(envelope({"message": "x", "attachments": [attachment()]})) is None


@given(JSON | st.fixed_dictionaries({"sourceUuid": st.just(ANN), "dataMessage": JSON}))
def test_no_envelope_raises_anything_else(found: Any) -> None:
    if not isinstance(found, dict):
        return
    wire.find_long_text(found)
    try:
        read_envelope(found, ME, ReadingBooks())
    except OddEnvelope:
        pass


@given(
    st.fixed_dictionaries(
        {
            "timestamp": st.just(SENT) | JSON,
            "message": st.text(max_size=30) | JSON,
            "mentions": st.lists(
                st.fixed_dictionaries({"start": st.integers(-2, 40), "length": st.integers(-1, 9), "uuid": JSON})
            )
            | JSON,
            "quote": st.fixed_dictionaries({"id": JSON, "authorUuid": JSON, "text": JSON, "mentions": JSON}) | JSON,
            "attachments": st.lists(st.fixed_dictionaries({"id": JSON, "filename": JSON, "size": JSON})) | JSON,
            "contacts": JSON,
            "pollCreate": JSON,
            "groupInfo": st.none() | JSON,
        }
    )
)
def test_no_message_raises_anything_else(data: dict[str, Any]) -> None:
    try:
        found = read(data)
    except OddEnvelope:
        return
    if isinstance(found, Inbound):
        found.text.encode()
        assert all(read_remote(file.remote) for file in found.files)


# --- styles


def part(text: str, markup: str = "styles", **more: Any) -> Part:
    return Part(DM, text, markup=markup, **more)


def test_the_signs_are_those_of_the_dialect() -> None:
    styles = {STRONG: "BOLD", EMPHASIS: "ITALIC", STRIKE: "STRIKETHROUGH", MONO: "MONOSPACE"}
    for mark, (begin, end) in STYLE_SIGNS.items():
        assert wire_out.read_styles(part(f"a{begin}b{end}c")) == wire_out.StyledText("abc", (f"1:1:{styles[mark]}",))


@pytest.mark.parametrize(
    ("markdown", "text", "styles"),
    [
        ("**bold** and *soft*", "bold and soft", ("0:4:BOLD", "9:4:ITALIC")),
        ("🙂 **b🙂**", "🙂 b🙂", ("3:3:BOLD",)),
        ("**a *b* c**", "a b c", ("0:5:BOLD", "2:1:ITALIC")),
        ("~~gone~~ `x < 1`", "gone x < 1", ("0:4:STRIKETHROUGH", "5:5:MONOSPACE")),
        ("```py\na\nb\n```", "a\nb", ("0:3:MONOSPACE",)),
        ("# Title\n\ntext", "Title\n\ntext", ("0:5:BOLD",)),
        ("[page](https://a.org)", "page (https://a.org)", ()),
        ("a \x0e b", "a  b", ()),
    ],
)
def test_markdown_becomes_text_and_styles(markdown: str, text: str, styles: tuple[str, ...]) -> None:
    assert wire_out.read_styles(part(translate(markdown, "styles").text)) == wire_out.StyledText(text, styles)


@given(st.text(st.sampled_from("ab *_~`#\n🙂é\x0e\x0f\x10\x15>-|1."), max_size=150) | st.text(max_size=100))
def test_styles_are_within_the_text_and_between_characters(markdown: str) -> None:
    written = translate(markdown, "styles")
    styled = wire_out.read_styles(part(written.text))
    assert styled.text == wire_out.read_styles(part(written.shown)).text
    units = styled.text.encode("utf-16-le")
    for style in styled.styles:
        start, length, _ = style.split(":")
        stretch = units[2 * int(start) : 2 * (int(start) + int(length))]
        assert len(stretch) == 2 * int(length) > 0
        stretch.decode("utf-16-le")  # no half of a character


@given(st.text(max_size=60), st.text(st.sampled_from("\x0e\x0f\x10\x11\x12\x13\x14\x15ab"), max_size=40))
def test_signs_in_any_order_are_read(text: str, signs: str) -> None:
    shown = wire_out.read_styles(part(signs + text + signs)).text
    assert not set(shown) & set("\x0e\x0f\x10\x11\x12\x13\x14\x15")
    shown.encode()


def test_plain_text_has_no_styles() -> None:
    assert wire_out.read_styles(part("**a** \x0eb", "plain")) == wire_out.StyledText("**a** b")


@given(st.text(st.sampled_from("word *é🙂`\n#-漢 "), min_size=1, max_size=6000))
def test_an_answer_is_cut_into_messages_that_fit(text: str) -> None:
    """No message is longer than what the daemon sends as text, also with the mark that it comes again."""
    for made in render_parts(Outgoing(DM, text), SPEC, 1):
        for one in (made, mark_repeated(made, SPEC)):
            assert wire_out.measure_shown(one) <= wire_out.MOST_TEXT
            assert measure(one.plain, "bytes") <= wire_out.MOST_TEXT


# --- what is sent


def test_a_message() -> None:
    made = wire_out.make_message(part("\x0ehello\x0f", reply_to=f"77:{BEN}"), "what was said")
    assert made == {
        "recipient": [ANN],
        "message": "hello",
        "textStyle": ["0:5:BOLD"],
        "quoteTimestamp": 77,
        "quoteAuthor": BEN,
        "quoteMessage": "what was said",
    }


def test_a_message_to_a_group() -> None:
    group = Part(Address("signal", "signal", GROUP, "group"), "hello", markup="plain", reply_to="77")
    assert wire_out.make_message(group) == {"groupId": GROUP, "message": "hello"}


def test_an_edit() -> None:
    assert wire_out.make_edit(99, part("x"))["editTimestamp"] == 99


def test_a_receipt() -> None:
    assert wire_out.make_receipt(f"77:{BEN}") == {"recipient": BEN, "targetTimestamp": 77, "type": "read"}
    for other in ("", "77", f"x:{BEN}", "77:ben", f"-1:{BEN}", f"{'9' * 30}:{BEN}"):
        assert wire_out.make_receipt(other) is None


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("plan.txt", "data:text/plain;filename=plan.txt;base64,"),
        ("Bild ü.png", "data:image/png;filename=Bild ü.png;base64,"),
        ("a;b,c=d%20.bin", "data:application/octet-stream;filename=a_b_c_d_20.bin;base64,"),
        ("x", "data:application/octet-stream;filename=x;base64,"),
    ],
)
def test_a_file(name: str, begins: str) -> None:
    made = wire_out.make_file(part("here"), FileRef("", name), b"\x00\x01")
    (data,) = made["attachments"]
    assert data.startswith(begins)
    assert base64.b64decode(data.rpartition(",")[2]) == b"\x00\x01"
    assert made["message"] == "here"
    assert "message" not in wire_out.make_file(part(" "), FileRef("", name), b"")


# --- edits that are ours


def test_each_edit_names_the_one_before_it() -> None:
    chains = EditChains()
    for number in range(edit_chains.MOST_EDITS):
        named = chains.begin_edit(1000, 2.0)
        assert named == (1000 if number == 0 else 1000 + number)
        chains.end_edit(1000, 1001 + number)
        assert chains.find_ours(1001 + number) == 1000
    with pytest.raises(NeverTaken, match="no more edits"):
        chains.begin_edit(1000, 2.0)


def test_an_edit_that_was_not_sent_does_not_count() -> None:
    chains = EditChains()
    for _ in range(20):
        assert chains.begin_edit(1000, 2.0) == 1000
        chains.end_edit(1000, None)


def test_an_edit_in_doubt_is_the_last() -> None:
    chains = EditChains()
    chains.begin_edit(1000, 2.0)
    with pytest.raises(NeverTaken, match="not known"):
        chains.begin_edit(1000, 2.0)


def test_an_old_message_is_not_edited() -> None:
    with pytest.raises(NeverTaken, match="a day old"):
        EditChains().begin_edit(1000, 24 * 3600.0)


def test_what_is_in_doubt_is_so_after_a_kill(tmp_path: Path) -> None:
    """C7."""
    path, chains = tmp_path / "a" / "edits.json", EditChains()
    chains.begin_edit(1000, 2.0)
    chains.end_edit(1000, 1001)
    chains.begin_edit(2000, 2.0)
    chains.note_theirs(ANN, 5, 4)
    keep_chains(path, chains.describe())
    assert path.stat().st_mode & 0o077 == 0
    again = read_chains(path)
    assert again.begin_edit(1000, 2.0) == 1001
    assert again.find_first(ANN, 5) == 4
    with pytest.raises(NeverTaken):
        again.begin_edit(2000, 2.0)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"ours": 1}', '{"ours": [[1]], "theirs": []}', "null", "[" * 9999]
)
def test_an_odd_file_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "edits.json").write_text(text)
    assert read_chains(tmp_path / "edits.json").describe() == {"ours": [], "theirs": []}


def test_the_books_do_not_grow_without_end() -> None:
    chains = EditChains()
    for number in range(1, 2 * edit_chains.MOST_CHAINS):
        chains.begin_edit(number * 10, 2.0)
        chains.note_theirs(ANN, number * 10 + 1, number * 10)
    described = chains.describe()
    assert len(described["ours"]) == len(described["theirs"]) == edit_chains.MOST_CHAINS


# --- refusals


def result(kind: str, **more: Any) -> dict[str, Any]:
    return {"recipientAddress": {"uuid": ANN, "number": None, "username": None}, "type": kind, **more}


def refusal(code: int, text: str = "", *results: dict[str, Any]) -> DeliveryFailure:
    data = {"response": {"timestamp": 1, "results": list(results)}} if results else None
    return as_failure(RpcTrouble(LineTrouble.REFUSED, text, code=code, data=data))


@pytest.mark.parametrize(
    ("failure", "kind", "seconds", "words"),
    [
        (refusal(-4, "x", result("IDENTITY_FAILURE")), NotNow, 300.0, f"trust -v SAFETY-NUMBER {ANN}"),
        (refusal(-4), NotNow, 300.0, "safety number"),
        (refusal(-5, "x", result("RATE_LIMIT_FAILURE", retryAfterSeconds=77)), NotNow, 77.0, "77 s of patience"),
        (
            refusal(-5, "x", result("RATE_LIMIT_FAILURE", retryAfterSeconds=7, token="tok-1")),
            NotNow,
            7.0,
            "--challenge tok-1",
        ),
        (refusal(-5), NotNow, 60.0, "patience"),
        (refusal(-6), NotNow, 60.0, "captcha"),
        (refusal(-1, "x", result("UNREGISTERED_FAILURE")), NotNow, None, "not on Signal any more"),
        (refusal(-1, f"The user {ANN} is not registered."), NotNow, None, "not on Signal any more"),
        (refusal(-1, f"Group not found: {GROUP}"), NotNow, None, "no such group"),
        (refusal(-1, "User is not a member in group: null (x)"), NotNow, None, "not in the group"),
        (refusal(-1, "User is not allowed to send message to group: x"), NotNow, None, "admins"),
        (refusal(-1, "Sending empty message is not allowed"), NeverTaken, 0, "empty message"),
        (refusal(-1, "x", result("NETWORK_FAILURE")), DeliveryFailure, 0, "could not be reached"),
        (refusal(-1, "x", result("INVALID_PRE_KEY_FAILURE")), DeliveryFailure, 0, "INVALID_PRE_KEY_FAILURE"),
        (refusal(-3, "Failed to send message: timeout"), DeliveryFailure, 0, "timeout"),
        (refusal(-32603, "Failed to get response (IOException)"), DeliveryFailure, 0, "IOException"),
        (refusal(-32603, "x (AttachmentInvalidException)"), NeverTaken, 0, "AttachmentInvalid"),
        (refusal(-32603, "Retry after 4 seconds (AttachmentInvalidException)"), NotNow, 4.0, "4 s"),
        (refusal(-32603, "[413] Response"), NeverTaken, 0, "too large"),
        (refusal(-32603, "[403] Authorization failed (AuthorizationFailedException)"), NotNow, 300.0, UNLINKED),
        (refusal(-32602, "Specified account does not exist"), NotNow, 300.0, "does not know the account"),
        (refusal(-32601, "Method not implemented"), NeverTaken, 0, "too old"),
        (as_failure(RpcTrouble(LineTrouble.UNSENT, "no line")), NotNow, 3.0, "no line"),
        (as_failure(RpcTrouble(LineTrouble.UNSURE, CUT)), DeliveryFailure, 0, "broke off"),
    ],
)
def test_each_refusal_in_the_words_of_the_face(failure: DeliveryFailure, kind: type, seconds: Any, words: str) -> None:
    """H8: what happened, what was kept, what to do."""
    assert type(failure) is kind
    assert words in str(failure)
    if isinstance(failure, NotNow):
        assert failure.seconds == seconds


@pytest.mark.parametrize(
    ("code", "text", "seconds", "words"),
    [
        (-3, "Failed to send message: [413] Rate limit exceeded: 413 (RateLimitException)", 60.0, "60 s of patience"),
        (-3, "Failed to send message: [429] Rate limit exceeded: 429 (RateLimitException)", 60.0, "60 s of patience"),
        (-3, "Failed to send message: [429] ", 60.0, "60 s of patience"),
        (-3, "Failed to send message: Retry after 3600 seconds (RetryLaterException)", 3600.0, "3600 s of patience"),
        (-5, "Failed to send message due to rate limiting: Retry after 90 seconds", 90.0, "90 s of patience"),
        (-3, "[428] (ProofRequiredException)", 60.0, "captcha"),
        (-32603, "Retry after 999999 seconds", 86400.0, "86400 s"),
    ],
)
def test_a_limit_told_in_words_is_one_of_the_account(code: int, text: str, seconds: float, words: str) -> None:
    """C8, C9: it is kept, and nothing is sent to anybody until then."""
    failure = refusal(code, text)
    assert isinstance(failure, NotNow)
    assert (failure.seconds, failure.whole_account) == (seconds, True)
    assert words in str(failure)


def test_somebody_of_a_group_got_it() -> None:
    every = [result("SUCCESS"), result("IDENTITY_FAILURE"), result("RATE_LIMIT_FAILURE", retryAfterSeconds=5)]
    assert judge_results(read_results({"results": every})) is None
    assert judge_results(read_results({"timestamp": 1, "results": []})) is None


def test_in_a_group_the_doubt_of_one_is_the_doubt_of_all() -> None:
    """C7: for one of them it may have arrived."""
    every = [result("IDENTITY_FAILURE"), result("NETWORK_FAILURE")]
    assert type(judge_results(read_results({"results": every}))) is DeliveryFailure


@given(JSON, st.integers(-40000, 10), st.text(max_size=40))
def test_no_refusal_raises(data: Any, code: int, text: str) -> None:
    trouble = RpcTrouble(LineTrouble.REFUSED, text, code=code, data={"response": {"results": data}})
    failure = as_failure(trouble)
    assert str(failure)
    if isinstance(failure, NotNow) and failure.seconds is not None:
        assert 0 < failure.seconds < math.inf
    read_results({"results": [data, {"recipientAddress": data, "type": data, "retryAfterSeconds": data}]})


# --- settings


@pytest.mark.parametrize(
    ("daemon", "expected"),
    [
        ("/run/signal/socket", SignalSettings("+4915112345678", path="/run/signal/socket")),
        ("localhost:7583", SignalSettings("+4915112345678", host="localhost", port=7583)),
        ("[::1]:7583", SignalSettings("+4915112345678", host="::1", port=7583)),
    ],
)
def test_settings(daemon: str, expected: SignalSettings) -> None:
    assert read_settings({"daemon": daemon, "number": " +4915112345678 "}) == expected
    assert expected.is_near
    assert expected.place == daemon


def test_a_number_that_yaml_has_read_as_one() -> None:
    assert read_settings({"daemon": "/s", "number": 4915112345678}).number == "+4915112345678"


def test_a_daemon_elsewhere_is_not_near() -> None:
    assert not read_settings({"daemon": "signal.example.org:7583", "number": ANN}).is_near


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"number": "+4915112345678"},
        {"number": "0151 123", "daemon": "/s"},
        {"number": "+4915112345678", "daemon": "socket"},
        {"number": "+4915112345678", "daemon": "host:99999"},
        {"number": "+4915112345678", "daemon": "host:0"},
        {"number": "+4915112345678", "daemon": "http://host:80"},
        {"number": "+4915112345678", "daemon": "/" + "x" * 107},
    ],
)
def test_settings_that_will_not_do(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigProblem) as problem:
        read_settings(settings)
    assert problem.value.fix
