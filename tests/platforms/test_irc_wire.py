"""Lines of IRC as the documents of the protocol and real servers write them, and what becomes of them. No network."""

import asyncio
import base64
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretending import HeardCore
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.face import NeverTaken, NotNow
from gateway.platforms.irc import SPEC
from gateway.platforms.irc.connection.handshake import Handshake, Introduced, write_proof
from gateway.platforms.irc.connection.irc_line import BadLine, IrcLine, fold, is_name, read_line, write_line
from gateway.platforms.irc.irc_books import JoinedChannels, NickBook, NickWatch
from gateway.platforms.irc.irc_settings import IrcSettings, find_pace, read_settings
from gateway.platforms.irc.missed import MissedLines
from gateway.platforms.irc.refusals import as_failure, is_about_message
from gateway.platforms.irc.wire import ClientQuestion, IrcSelf, Remembered, Unheard, Unidentified, read_message
from gateway.platforms.irc.wire_out import answer_client, make_tags, make_texts
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, Inbound

ME = IrcSelf("irc", "hermes")
SETTINGS = read_settings({"server": "irc.example.org", "password": "sesame"})


def line(text: str) -> IrcLine:
    found = read_line(text.encode())
    assert found is not None
    return found


def read(text: str, **more: Any) -> Any:
    return read_message(line(text), ME, "local-1", **more)


# --- lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PING :a b", IrcLine("PING", ("a b",))),
        (":irc.test 001 hermes :Welcome", IrcLine("001", ("hermes", "Welcome"), "irc.test")),
        (":a!b@c PRIVMSG #x ::) hi ", IrcLine("PRIVMSG", ("#x", ":) hi "), "a!b@c")),
        (":a!b@c PRIVMSG #x :", IrcLine("PRIVMSG", ("#x", ""), "a!b@c")),
        ("@id=234AB;k;+x/y=a\\:b\\sc\\\\\\r\\n :n join #x", IrcLine(
            "JOIN", ("#x",), "n", {"id": "234AB", "k": "", "+x/y": "a;b c\\\r\n"})),
        ("@a=b\\ :n X", IrcLine("X", (), "n", {"a": "b"})),
    ],
)  # fmt: skip
def test_lines_are_read_as_documented(text: str, expected: IrcLine) -> None:
    assert line(text) == expected


def test_letters_of_other_clients_are_read() -> None:
    latin = read_line("PRIVMSG x :schöne Grüße".encode("cp1252"))
    assert latin is not None
    assert latin.params[1] == "schöne Grüße"
    cut = read_line("PRIVMSG x :ééé".encode()[:-1])
    assert cut is not None
    assert cut.params[1] == "éé"
    assert read_line(b"") is read_line(b"@a=b :c") is None


@given(st.lists(st.text(max_size=8), min_size=1, max_size=4), st.dictionaries(st.just("+a"), st.text(max_size=9)))
def test_whatever_is_written_is_one_line(words: list[str], tags: dict[str, str]) -> None:
    """Injection: nothing that anybody says can end a line."""
    try:
        data = write_line("PRIVMSG", *words, tags=tags)
    except BadLine:
        return
    assert data.endswith(b"\r\n")
    assert not re.search(rb"[\r\n\0]", data[:-2])
    back = read_line(data[:-2])
    assert back is not None
    assert back.command == "PRIVMSG"


@pytest.mark.parametrize("words", [("a\nb",), ("a b", "c"), ("", "c"), (":a", "c"), ("a\0",), ("a\r", "b")])
def test_what_cannot_be_a_line_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadLine):
        write_line("PRIVMSG", *words)
    with pytest.raises(BadLine):
        write_line("QUIT\r\n", "x")


def test_names_are_compared_as_the_server_does() -> None:
    assert fold("Ann[x]~", "rfc1459") == "ann{x}^"
    assert fold("Ann[x]~", "rfc1459-strict") == "ann{x}~"
    assert fold("Ann[x]", "ascii") == fold("Ann[x]", "unheard of") == "ann[x]"
    assert [is_name(name) for name in ("ann", "#ops", "a b", "", ":a", "a,b", "a!b", "a\n")] == [True, True] + [
        False
    ] * 6


# --- messages


def test_a_message_is_the_accounts() -> None:
    """G2."""
    heard = read(
        "@time=2026-01-02T03:04:05.678Z;msgid=m1;account=ann :Nick!u@h PRIVMSG HERMES :\x02hi\x02 \x0304,01you"
    )
    assert heard == Inbound(
        Address("irc", "irc", "ann"), "m1", "ann", "hi you", sender_name="Nick", received=1767323045.678
    )
    assert read("@account=ann :Nick!u@h PRIVMSG hermes :hi").message == "local-1"


@pytest.mark.parametrize("tags", ["", "@time=x ", "@account= ", "@account=* ", "@account=0 ", "@+account=ann "])
def test_without_an_account_nobody_is_known(tags: str) -> None:
    """G1: also when a client makes up a tag of its own."""
    assert read(f"{tags}:ann!u@h PRIVMSG hermes :hi") == Unidentified("ann!u@h")
    assert isinstance(read(f"{tags}:ann!u@h PRIVMSG #x :hermes: hi"), Unheard)


@pytest.mark.parametrize(
    ("said", "text", "mentioned"),
    [
        ("hermes: hi", "hi", True),
        ("Hermes, hi", "hi", True),
        ("@hermes: /stop", "/stop", True),
        ("hermes :hi", "hi", True),
        ("hi hermes!", "hi hermes!", True),
        ("hermes", "hermes", True),
        ("hermesx: hi", "hermesx: hi", False),
        ("a-hermes: hi", "a-hermes: hi", False),
        ("hermes_ is another", "hermes_ is another", False),
        ("nobody", "nobody", False),
        ("\x01ACTION pokes hermes\x01", "* ann pokes hermes", True),
        ("\x01ACTION sleeps\x01", "* ann sleeps", False),
    ],
)
def test_who_names_us_speaks_to_us(said: str, text: str, mentioned: bool) -> None:
    heard = read(f"@account=ann :ann!u@h PRIVMSG #Ops :{said}")
    assert (heard.text, heard.mentioned) == (text, mentioned)
    assert heard.address == Address("irc", "irc", "#ops", "group")


@pytest.mark.parametrize(
    "text",
    [
        "@account=x :hermes!u@h PRIVMSG #x :hermes: me",
        "@account=x :irc.test PRIVMSG hermes :a server",
        "@account=x;bot :b!u@h PRIVMSG #x :hermes: a bot",
        "@account=x;inspircd.org/bot :b!u@h PRIVMSG hermes :a bot",
        "@account=x :b!u@h PRIVMSG @#x :hermes: for operators",
        "@account=x :b!u@h PRIVMSG $* :to all the server",
        "@account=x :b!u@h PRIVMSG #x :\x01VERSION\x01",
        "@account=x :b!u@h PRIVMSG #x :hermes: \x02",
        "@account=x :b!u@h PRIVMSG",
    ],
)
def test_what_is_not_for_us(text: str) -> None:
    assert isinstance(read(text), Unheard)


def test_replies_bring_along_what_they_reply_to() -> None:
    ours = {"m1": Remembered("hermes", "the answer", own=True), "m2": Remembered("bob", "a word")}
    first = read("@account=ann;+draft/reply=m1 :ann!u@h PRIVMSG #x :why?", recall=ours.get)
    other = read("@account=ann;+reply=m2 :ann!u@h PRIVMSG #x :why?", recall=ours.get)
    assert (first.mentioned, first.reply_to, first.quote) == (True, "m1", "the answer")
    assert (other.mentioned, other.reply_to, other.quote) == (False, "m2", "a word")


def test_clients_ask_and_few_are_answered() -> None:
    asked = read(":b!u@h PRIVMSG hermes :\x01PING 1\x02 2\x01")
    assert asked == ClientQuestion("b", "PING", "1\x02 2")
    assert answer_client(asked) == "\x01PING 1 2\x01"
    assert answer_client(ClientQuestion("b", "DCC", "SEND x")) == answer_client(ClientQuestion("b", "TIME", "")) == ""


# --- texts


@given(st.text(max_size=900), st.integers(0, 120), st.integers(1, 60))
def test_every_text_arrives_whole(text: str, prefix: int, target: int) -> None:
    """512 bytes, as others get it: with our name before it; no letter is cut."""
    name, to = "p" * prefix, "#" + "c" * target
    for one in make_texts(text, to, name, "irc"):
        assert one.strip()
        assert len(f":{name or 'x' * 110} PRIVMSG {to} :{one}\r\n".encode()) <= 512
        assert not re.search(r"[\r\n\0\x01]", one)
        write_line("PRIVMSG", to, one)


def test_marks_stay_only_where_they_are_markup() -> None:
    assert make_texts("a \x02b\x02\tc\x03", "x", "p", "irc") == ["a \x02b\x02    c"]
    assert make_texts("a \x02b\x02\n\n \x02\x02\nc", "x", "p", "plain") == ["a b", "c"]


def test_a_reply_names_what_the_server_named() -> None:
    assert make_tags("m1") == {"+draft/reply": "m1"}
    assert make_tags("local-1") == make_tags("") == {}


# --- refusals


@pytest.mark.parametrize(
    ("text", "kind", "seconds"),
    [
        (":s 401 hermes ann :No such nick", NotNow, None),
        (":s 404 hermes #x :Cannot send to channel (+m)", NotNow, None),
        (":s 716 hermes ann :is in +g mode", NotNow, None),
        (":s 439 hermes ann :Target change too fast. Please wait 12 seconds.", NotNow, 12.0),
        (":s 263 hermes PRIVMSG :Please wait a while and try again.", NotNow, 30.0),
        (":s 417 hermes :Input line was too long", NeverTaken, None),
        (":s 412 hermes :No text to send", NeverTaken, None),
    ],
)
def test_refusals_are_told_in_the_words_of_the_face(text: str, kind: type[DeliveryFailure], seconds: float) -> None:
    """C7, C8."""
    failure = as_failure(line(text))
    assert type(failure) is kind
    assert getattr(failure, "seconds", None) == seconds
    assert is_about_message(line(text))


def test_other_commands_have_refusals_of_their_own() -> None:
    for text in (
        ":s 421 hermes CHATHISTORY :Unknown command",
        ":s 461 hermes JOIN :Not enough",
        ":s 366 hermes #x :End",
    ):
        assert not is_about_message(line(text))
    assert is_about_message(line(":s FAIL PRIVMSG CANNOT_SEND :no"))
    assert not is_about_message(line(":s FAIL CHATHISTORY INVALID_TARGET :no"))


def test_a_channel_without_colours_may_take_it_plain() -> None:
    """C9."""
    for said in ("Can't send colors to channel (+c is set)", "cannot send messages containing formatting characters"):
        failure = as_failure(line(f":s 404 hermes #x :{said}"))
        assert isinstance(failure, NeverTaken)
        assert failure.markup


# --- the handshake


def shake(settings: IrcSettings, *lines: str) -> tuple[Handshake, list[str]]:
    handshake = Handshake(settings)
    sent = handshake.begin()
    for one in lines:
        sent += handshake.take(line(one))
    return handshake, [data.decode().strip() for data in sent]


def test_a_handshake_logs_in_before_it_begins() -> None:
    handshake, sent = shake(
        SETTINGS,
        ":s CAP * LS * :account-tag sasl=PLAIN,EXTERNAL unheard/of",
        ":s CAP * LS :message-tags echo-message",
        ":s CAP * ACK :account-tag message-tags echo-message sasl",
        "AUTHENTICATE +",
        ":s 900 hermes hermes!u@h hermes :You are now logged in as hermes",
        ":s 903 hermes :SASL authentication successful",
        ":s 433 * hermes :Nickname is already in use",
        ":s 001 hermes_ :Welcome",
        ":s 005 hermes_ NETWORK=Test CASEMAPPING=ascii BOT=B :are supported by this server",
        ":s 422 hermes_ :No MOTD",
    )
    proof = base64.b64encode(b"\0hermes\0sesame").decode()
    assert sent == [
        "CAP LS :302",
        "NICK :hermes",
        "USER hermes 0 * :Hermes",
        "CAP REQ :account-tag message-tags echo-message sasl",
        "AUTHENTICATE :PLAIN",
        f"AUTHENTICATE :{proof}",
        "CAP :END",
        "NICK :hermes_",
    ]
    found = handshake.found
    assert handshake.done
    assert (found.nick, found.account, found.mapping, found.supports["NETWORK"]) == (
        "hermes_",
        "hermes",
        "ascii",
        "Test",
    )


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        ((":s CAP * LS :sasl echo-message",), ConfigProblem, "account-tag"),
        ((":s CAP * LS :account-tag",), NotNow, "services"),
        ((":s CAP * LS :account-tag sasl", ":s 904 h :SASL authentication failed"), ConfigProblem, "password"),
        ((":s CAP * NAK :account-tag",), DeliveryFailure, "takes back"),
        ((":s 465 h :You are banned",), NotNow, "banned"),
        ((":s 464 h :Password incorrect",), ConfigProblem, "password"),
        ((":s 432 * hermes :Erroneous Nickname",), ConfigProblem, "nick"),
        ((":s 421 * CAP :Unknown command", ":s 001 hermes :Welcome"), ConfigProblem, "account-tag"),
        (
            (":s CAP * LS :account-tag sasl", ":s CAP * ACK :account-tag sasl", ":s 001 h :Hi"),
            ConfigProblem,
            "password",
        ),
        ((":s 433 * h :in use",) * 9, NotNow, "taken"),
        (("ERROR :Closing link: Too many connections",), DeliveryFailure, "Too many"),
    ],
)
def test_what_keeps_us_out_is_a_sentence(lines: tuple[str, ...], kind: type[Exception], words: str) -> None:
    """G6: and no sentence holds the password."""
    with pytest.raises(kind, match=words) as failure:
        shake(SETTINGS, *lines)
    assert failure.type is kind
    assert "sesame" not in str(failure.value)
    assert "sesame" not in repr(SETTINGS)


def test_a_long_proof_comes_in_pieces() -> None:
    lengths = [[len(data.split(b":")[1].strip()) for data in write_proof(b"x" * size)] for size in (9, 300, 301)]
    assert lengths == [[12], [400, 1], [400, 4]]


# --- settings


@pytest.mark.parametrize(
    ("server", "more", "expected"),
    [
        ("irc.example.org", {}, ("irc.example.org", 6697)),
        ("irc.example.org:7000", {}, ("irc.example.org", 7000)),
        ("irc.example.org", {"tls": False}, ("irc.example.org", 6667)),
        ("[::1]:7000", {}, ("::1", 7000)),
    ],
)
def test_a_server_has_a_port(server: str, more: dict[str, Any], expected: tuple[str, int]) -> None:
    found = read_settings({"server": server, **more})
    assert (found.host, found.port) == expected
    assert found.tls is more.get("tls", True)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"server": "a b"},
        {"server": "x:99999"},
        {"server": "x", "nick": "a b"},
        {"server": "x", "login": "a\nQUIT"},
        {"server": "x", "channels": "ops"},
        {"server": "x", "channels": ["#a,#b\r\nQUIT"]},
        {"server": "x", "tls": False, "cert_file": "c.pem"},
        {"server": "x", "line_seconds": "fast"},
        {"server": "x", "line_seconds": 0},
        {"server": "x", "line_seconds": float("nan")},
        {"server": "x", "line_seconds": 61},
    ],
)
def test_settings_that_will_not_do_are_told(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigProblem) as problem:
        read_settings(settings)
    assert problem.value.fix


def test_the_page_names_every_setting() -> None:
    """H11."""
    page = (Path(__file__).parents[2] / "docs" / "platforms" / "irc.md").read_text("utf-8")
    assert [name for name in SPEC.settings if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(("value", "seconds"), [(None, 2.0), ("", 2.0), (0.5, 0.5), ("0.5", 0.5), (60, 60.0)])
def test_the_pace_of_messages_follows_that_of_lines(value: Any, seconds: float) -> None:
    """C8: not all lines are messages."""
    assert read_settings({"server": "x", "line_seconds": value}).line_seconds == seconds
    assert find_pace({"line_seconds": value}) == pytest.approx(0.9 / seconds)
    assert find_pace({"line_seconds": "fast"}) == SPEC.account_calls_per_second


def test_channels_may_have_keys() -> None:
    assert read_settings({"server": "x", "channels": "#a, #b key"}).channels == {"#a": "", "#b": "key"}
    assert read_settings({"server": "x", "channels": ["#a", "#b key"]}).channels == {"#a": "", "#b": "key"}


# --- the books


def test_a_nick_is_believed_for_a_moment() -> None:
    """G2."""
    book = NickBook()
    book.note("ann", "Ann", 100.0)
    assert book.is_proven("ann", 101.0)
    assert not book.is_proven("ann", 200.0)
    book.rename("ANN", "Ann2")
    assert book.find("ann") == "Ann2"
    book.note("bob", "ann2", 102.0)
    assert book.find("ann") == ""
    book.lose("Ann2")
    assert book.find("bob") == ""


def test_a_nick_that_is_watched_is_believed_longer() -> None:
    """G2: but only what was proven since the server watches it."""
    watch, book = NickWatch({"MONITOR": "2"}, "ascii"), NickBook()
    assert watch.add("Ann") == [("+", "Ann")]
    assert watch.add("ann") == []
    book.note("ann", "Ann", 99.0)
    watch.note("Ann", 100.0)
    assert not book.is_proven("ann", 110.0, watch.find("ann"))
    book.note("ann", "Ann", 101.0)
    assert book.is_proven("ann", 110.0, watch.find("ann"))
    watch.note("ann", math.inf)
    assert not book.is_proven("ann", 110.0, watch.find("ann"))
    assert watch.add("bob") + watch.add("eve") == [("+", "bob"), ("-", "ann"), ("+", "eve")]
    assert NickWatch({}, "ascii").add("ann") == []
    assert NickWatch({"MONITOR": ""}, "ascii").add("ann") == [("+", "ann")]


def test_who_was_put_out_waits_before_they_come_back() -> None:
    book = JoinedChannels({"#a": "", "#b": "key"})
    assert book.due(0.0) == [("#a", ""), ("#b", "key")]
    assert book.due(1.0) == []
    book.note_join("#A")
    book.note_out("#b", "it is full", 2.0)
    book.invite("#c")
    assert book.due(3.0) == [("#c", "")]
    book.note_out("#c", "one has to be invited", 3.0)
    assert book.problem == "Not in every channel: #b: it is full. It is tried again."
    assert book.due(1000.0) == [("#b", "key")]
    book.begin()
    assert not book.is_in("#a")


# --- what was missed


class _Missing:
    """A chat's history, without a server."""

    def __init__(self, last: dict[str, str]) -> None:
        self.heard: list[str] = []
        self.asked: list[str] = []
        caps = frozenset({"message-tags", "batch", "draft/chathistory"})
        self.missed = MissedLines(
            lambda lines: self.heard.extend(one.params[1] for one in lines),
            lambda inbound: self.heard.append(inbound.text),
        )
        found = Introduced(nick="hermes", caps=caps, supports={"CHATHISTORY": "50"})
        self.missed.begin(found, last, lambda data: self.asked.append(data.decode().strip()))

    def take(self, *lines: str) -> None:
        for one in lines:
            assert self.missed.take(line(one))


def test_a_history_is_heard_before_anything_new() -> None:
    """C1, C3: from the last stored message on, page by page; what comes meanwhile waits."""
    scene = _Missing({"#ops": "m1"})
    scene.missed.ask("#ops", "#Ops")
    assert scene.asked == ["CHATHISTORY AFTER #Ops msgid=m1 :50"]
    new = Inbound(Address("irc", "irc", "#ops", "group"), "m9", "ann", "new")
    assert scene.missed.hold(new)
    assert not scene.missed.hold(Inbound(Address("irc", "irc", "bob"), "m8", "bob", "elsewhere"))
    scene.take(
        ":s BATCH +1 chathistory #Ops",
        "@batch=1;msgid=m2 :a!u@h PRIVMSG #Ops :missed 1",
        "@batch=1;msgid=m3 :a!u@h PRIVMSG #Ops :missed 2",
        ":s BATCH -1",
    )
    assert scene.asked[1:] == ["CHATHISTORY AFTER #Ops msgid=m3 :50"]
    scene.take(":s BATCH +2 chathistory #Ops", ":s BATCH -2")
    assert scene.heard == ["missed 1", "missed 2", "new"]
    assert not scene.missed.hold(new)


def test_a_history_that_fails_holds_nobody_up() -> None:
    scene = _Missing({"ann": "m1", "#x": "local-7"})
    scene.missed.ask("ann", "Ann")
    scene.missed.ask("#x", "#x")
    assert len(scene.asked) == 1
    scene.missed.hold(Inbound(Address("irc", "irc", "ann"), "m9", "ann", "new"))
    scene.take("FAIL CHATHISTORY INVALID_TARGET AFTER Ann :Messages could not be retrieved")
    assert scene.heard == ["new"]


def test_what_a_server_shows_by_itself_counts_from_where_we_were() -> None:
    """A channel that is new to us has a past that was not for us."""
    shown = (
        ":s BATCH +1 chathistory #ops",
        "@batch=1;msgid=m1 :a!u@h PRIVMSG #ops :known",
        "@batch=1;msgid=m2 :a!u@h PRIVMSG #ops :missed",
        ":s BATCH -1",
    )
    known, strange = _Missing({"#ops": "m1"}), _Missing({})
    for scene in (known, strange):
        scene.take(*shown)
    assert (known.heard, strange.heard) == (["missed"], [])


# --- the whole adapter at a server that keeps a history, which InspIRCd does not


class _Keeper:
    """A server with `chathistory`, as the draft describes it: just what a client needs to be let in and to catch up."""

    kept = ("before", "missed 1", "missed 2")

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.readline():
                told = line(data.decode().strip())
                writer.writelines(f"{one}\r\n".encode() for one in self.answer(told, data.decode().strip()))
        finally:
            writer.close()

    def answer(self, told: IrcLine, text: str) -> list[str]:
        match told.command, told.param(0):
            case "CAP", "LS":
                return [":s CAP * LS :account-tag message-tags batch echo-message draft/chathistory"]
            case "CAP", "REQ":
                return [f":s CAP * ACK :{told.param(1)}"]
            case "CAP", "END":
                return [":s 001 hermes :Hi", ":s 005 hermes CHATHISTORY=50 CASEMAPPING=ascii :ok", ":s 422 hermes :-"]
            case "JOIN", channel:
                return [f":hermes!u@h JOIN {channel}", self.say("new", channel)]
            case "CHATHISTORY", _:
                self.asked.append(text)
                last = self.kept.index(told.param(2).removeprefix("msgid=m-").replace("_", " "))
                page = [self.say(text, told.param(1), ";batch=1") for text in self.kept[last + 1 :]]
                return [f":s BATCH +1 chathistory {told.param(1)}", *page, ":s BATCH -1"]
        return []

    def say(self, text: str, channel: str, tags: str = "") -> str:
        return f"@account=ann;msgid=m-{text.replace(' ', '_')}{tags} :Ann!u@h PRIVMSG {channel} :hermes: {text}"


def test_what_was_said_during_an_absence_is_heard_once_and_in_order(tmp_path: Path) -> None:
    """C1, C3: from the last stored message on, and what is new comes after it."""

    async def steps() -> None:
        keeper, core = _Keeper(), HeardCore()
        server = await asyncio.start_server(keeper.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = {"server": f"127.0.0.1:{port}", "tls": False, "channels": "#ops"}
        adapter = platform_list.make_adapter(platform_list.find_spec("irc"), "irc", settings, tmp_path)
        core.taken.append(Inbound(Address("irc", "irc", "#ops", "group"), "m-before", "ann", "before"))
        try:
            await adapter.connect(core)
            assert adapter.spec.has_history
            await until(lambda: len(core.taken) >= 4)
            assert [inbound.text for inbound in core.taken] == ["before", "missed 1", "missed 2", "new"]
            assert all(inbound.mentioned for inbound in core.taken[1:])
            assert len(keeper.asked) == 2
        finally:
            await adapter.disconnect()
            server.close()
            await server.wait_closed()

    asyncio.run(steps())
