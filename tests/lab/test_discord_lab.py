"""The lab's Discord judges as Discord does: its HTTP API by plain requests, its gateway by a plain websocket."""

import http.client
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from hermes_lab.chats.discord.discord_lab import DiscordLab, DiscordRemote
from hermes_lab.values import LabProblem

AGENT = "DiscordBot (https://example.org, 1.0)"
GUILDS, MESSAGES, DIRECT, CONTENT = 1, 1 << 9, 1 << 12, 1 << 15
ALL = GUILDS | MESSAGES | DIRECT | CONTENT
PATIENCE = 20.0


@pytest.fixture
def lab() -> Iterator[DiscordLab]:
    with DiscordLab() as server:
        yield server


def ask(lab: DiscordLab, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """One request; the status, and what came back."""
    line = http.client.HTTPConnection(urlsplit(lab.address).netloc, timeout=PATIENCE)
    given = {"Authorization": f"Bot {lab.token}", "User-Agent": AGENT, "Content-Type": "application/json"}
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    line.request(method, f"/api/v10{path}", content, {**given, **headers})
    answer = line.getresponse()
    told = answer.read()
    line.close()
    return answer.status, json.loads(told) if told else None


def send(lab: DiscordLab, channel: str, **body: Any) -> tuple[int, Any]:
    return ask(lab, "POST", f"/channels/{channel}/messages", {"allowed_mentions": {"parse": []}, **body})


def kinds(lab: DiscordLab) -> list[str]:
    return [complaint["kind"] for complaint in lab.complaints]


class Line:
    """A websocket to the gateway."""

    socket: ClientConnection

    def __init__(self, lab: DiscordLab, query: str = "v=10&encoding=json", path: str = "/gateway") -> None:
        self.lab = lab
        self._url = f"{lab.address.replace('http', 'ws')}{path}?{query}"
        self._open = ExitStack()

    def __enter__(self) -> "Line":
        self.socket = self._open.enter_context(connect(self._url))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.socket.recv(PATIENCE))
        return found

    def put(self, op: int, data: Any) -> None:
        self.socket.send(json.dumps({"op": op, "d": data}))

    def identify(self, token: str = "", intents: int = ALL) -> None:
        about = {"os": "x", "browser": "x", "device": "x"}
        self.put(2, {"token": token or self.lab.token, "properties": about, "intents": intents})

    def begin(self, intents: int = ALL) -> dict[str, Any]:
        """From hello to READY."""
        assert self.read()["op"] == 10
        self.identify(intents=intents)
        ready = self.read()
        assert ready["t"] == "READY"
        return ready

    def end(self) -> int:
        """The code that the line is closed with."""
        try:
            while True:
                self.socket.recv(PATIENCE)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 0


# --- the HTTP API


def test_whoever_calls_needs_a_token_a_name_and_a_route(lab: DiscordLab) -> None:
    assert ask(lab, "GET", "/users/@me")[1]["username"] == "lab_bot"
    assert lab.complaints == []
    assert ask(lab, "GET", "/users/@me", Authorization=lab.token)[0] == 401
    assert ask(lab, "GET", "/users/@me", Authorization="Bot a.b.c")[1] == {"message": "401: Unauthorized", "code": 0}
    assert ask(lab, "GET", "/nothing")[0] == 404
    ask(lab, "GET", "/users/@me", **{"User-Agent": "curl"})
    assert kinds(lab) == ["route", "fields"]


@pytest.mark.parametrize(
    ("body", "path", "code"),
    [
        ({"content": "x" * 2001}, "content", "BASE_TYPE_MAX_LENGTH"),
        ({"content": "x", "nonce": "n" * 26}, "nonce", "BASE_TYPE_MAX_LENGTH"),
        ({"content": "x", "embeds": [{"title": "t"}] * 11}, "embeds", "BASE_TYPE_MAX_LENGTH"),
        ({"content": "x", "embeds": [{"description": "t" * 6001}]}, "embeds", "MAX_EMBED_SIZE_EXCEEDED"),
        (
            {"content": "x", "components": [{"type": 1, "components": []}]},
            "components.0.components",
            "BASE_TYPE_BAD_LENGTH",
        ),
        ({"content": "x", "message_reference": {"message_id": "1"}}, "message_reference", "REPLIES_UNKNOWN_MESSAGE"),
    ],
)
def test_a_form_that_is_wrong_is_told_with_its_path(lab: DiscordLab, body: Any, path: str, code: str) -> None:
    status, told = send(lab, lab.dm(lab.add_person("Ann")), **body)
    assert (status, told["code"]) == (400, 50035)
    errors = told["errors"]
    for name in path.split("."):
        errors = errors[name]
    assert errors["_errors"][0]["code"] == code
    assert len(lab.complaints) == 1


def button(number: int, **more: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "label": "b", "custom_id": f"b{number}", **more}


@pytest.mark.parametrize(
    "rows",
    [
        [[button(n) for n in range(6)]],
        [[button(n)] for n in range(6)],
        [[button(1), button(1)]],
        [[button(1, label="x" * 81)]],
        [[button(1, custom_id="x" * 101)]],
        [[button(1, style=9)]],
    ],
)
def test_buttons_beyond_the_limits_are_refused(lab: DiscordLab, rows: list[Any]) -> None:
    components = [{"type": 1, "components": row} for row in rows]
    status, told = send(lab, lab.dm(lab.add_person("Ann")), content="x", components=components)
    assert (status, told["code"]) == (400, 50035)
    assert kinds(lab) == ["buttons"]


def test_a_nonce_is_enforced_for_some_minutes(lab: DiscordLab) -> None:
    channel = lab.dm(lab.add_person("Ann"))
    first, again = (send(lab, channel, content=text, nonce="n", enforce_nonce=True)[1] for text in "ab")
    assert (first["id"], again["content"]) == (again["id"], "a")
    lab.advance(301)
    assert send(lab, channel, content="c", nonce="n", enforce_nonce=True)[1]["id"] != first["id"]
    assert lab.seen(channel) == ["a", "c"]


def test_empty_texts_foreign_messages_and_unknown_places_are_refused(lab: DiscordLab) -> None:
    ann = lab.add_person("Ann")
    channel = lab.dm(ann)
    said = lab.say(ann, "hello")
    assert send(lab, channel, content="  ")[1]["code"] == 50006
    assert send(lab, "1", content="x")[1]["code"] == 10003
    edits = f"/channels/{channel}/messages"
    assert ask(lab, "PATCH", f"{edits}/{said}", {"content": "x"})[1]["code"] == 50005
    assert ask(lab, "PATCH", f"{edits}/1", {"content": "x"})[1]["code"] == 10008
    assert ask(lab, "POST", edits, b"{nonsense")[1]["code"] == 50109
    lab.close_dms(ann)
    assert send(lab, channel, content="x")[1]["code"] == 50007


def test_a_text_that_would_ring_for_everyone_is_noted(lab: DiscordLab) -> None:
    channel = lab.dm(lab.add_person("Ann"))
    send(lab, channel, content="@everyone", allowed_mentions=None)
    send(lab, channel, content="@everyone", allowed_mentions={"parse": ["everyone"]})
    assert kinds(lab) == ["ping", "ping"]
    twice = {"parse": ["users"], "users": ["1"]}
    assert send(lab, channel, content="x", allowed_mentions=twice)[1]["code"] == 50035


def test_limits_are_told_and_kept(lab: DiscordLab) -> None:
    """Each channel has its own; during a penalty what is left of it is told."""
    first, second = (lab.dm(lab.add_person(name)) for name in ("Ann", "Bob"))
    statuses = [send(lab, first, content="x")[0] for _ in range(7)]
    assert statuses == [200] * 6 + [429]  # one more passes, for what waited on the way
    status, told = send(lab, first, content="x")
    assert status == 429
    assert 0 < told["retry_after"] <= 5
    assert isinstance(told["retry_after"], float)
    assert send(lab, second, content="x")[0] == 200
    assert kinds(lab) == ["rate"]


def test_history_is_read_by_one_cursor_the_newest_first(lab: DiscordLab) -> None:
    ann = lab.add_person("Ann")
    channel = lab.dm(ann)
    said = [lab.say(ann, f"{n}") for n in range(120)]
    path = f"/channels/{channel}/messages"
    page = ask(lab, "GET", f"{path}?after={said[4]}&limit=100")[1]
    assert [one["id"] for one in page] == said[104:4:-1]
    assert [one["content"] for one in ask(lab, "GET", f"{path}?limit=2")[1]] == ["119", "118"]
    assert ask(lab, "GET", f"{path}?after=1&before=2")[0] == 400
    assert ask(lab, "GET", f"{path}?limit=101")[0] == 400


def test_an_interaction_is_answered_once_and_in_three_seconds(lab: DiscordLab) -> None:
    ann = lab.add_person("Ann")
    rows = [{"type": 1, "components": [button(1)]}]
    message = send(lab, lab.dm(ann), content="?", components=rows)[1]["id"]

    def answer(number: str, kind: int) -> Any:
        path = f"/interactions/{number}/secret-of-{number}/callback"
        return ask(lab, "POST", path, {"type": kind}, Authorization="")[1]

    first, second = lab.press(ann, message, "b"), lab.press(ann, message, "b")
    assert answer(first, 8)["code"] == 50035
    assert answer(first, 6) is None
    assert answer(first, 6)["code"] == 40060
    lab.advance(4)
    assert answer(second, 6)["code"] == 10062
    assert "late answer" in kinds(lab)
    with pytest.raises(LabProblem, match="no button"):
        lab.press(ann, message, "other")


def test_it_is_steered_over_http_as_well(lab: DiscordLab) -> None:
    remote = DiscordRemote(lab.address, lab.token)
    ann = remote.add_person("Ann")
    remote.say(ann, "hello")
    assert [one["content"] for one in lab.messages(remote.dm(ann))] == ["hello"]
    with pytest.raises(LabProblem, match="no verb"):
        remote.do("nonsense")


# --- the gateway


@pytest.mark.parametrize(
    ("misdeed", "code"),
    [
        (lambda line: line.put(3, {}), 4003),
        (lambda line: line.put(99, {}), 4001),
        (lambda line: line.socket.send("{nonsense"), 4002),
        (lambda line: line.put(1, "x" * 5000), 4002),
        (lambda line: line.identify(token="a.b.c"), 4004),
        (lambda line: (line.identify(), line.identify()), 4005),
        (lambda line: line.identify(intents=1 << 30), 4013),
        (lambda line: line.identify(intents=1 << 1), 4014),
        (lambda line: [line.put(1, None) for _ in range(130)], 4008),
        (lambda line: line.put(6, {"token": "a.b.c", "session_id": "x", "seq": 1}), 4004),
    ],
)
def test_a_misdeed_ends_the_line_with_its_code(lab: DiscordLab, misdeed: Callable[[Line], Any], code: int) -> None:
    with Line(lab) as line:
        line.read()
        misdeed(line)
        assert line.end() == code


def test_another_version_is_refused(lab: DiscordLab) -> None:
    with Line(lab, "v=6&encoding=json") as line:
        assert line.end() == 4012


def test_who_presents_themselves_too_soon_is_sent_away_once(lab: DiscordLab) -> None:
    with Line(lab) as first, Line(lab) as second:
        first.begin()
        second.read()
        second.identify()
        assert second.read() == {"op": 9, "d": False, "s": None, "t": None}
        lab.advance(5)
        second.identify()
        assert second.read()["t"] == "READY"
    assert lab.complaints == []


def test_a_session_is_taken_up_where_it_was(lab: DiscordLab) -> None:
    ann = lab.add_person("Ann")
    with Line(lab) as line:
        session = line.begin()["d"]["session_id"]
        lab.say(ann, "one")
        assert line.read()["s"] == 2
    lab.say(ann, "lost")  # that line was closed with 1000: nobody resumes it
    with Line(lab, path="/gateway/resume") as line:
        line.read()
        line.put(6, {"token": lab.token, "session_id": session, "seq": 1})
        assert line.read()["op"] == 9
        lab.advance(5)
        line.identify()
        again = line.read()["d"]["session_id"]
        for text in ("two", "three"):
            lab.say(ann, text)
        line.socket.close(4000)
    lab.say(ann, "four")
    with Line(lab) as line:
        line.read()
        line.put(6, {"token": lab.token, "session_id": again, "seq": 2})
        told = [line.read() for _ in range(3)]
        assert [(one["s"], one["t"]) for one in told] == [(3, "MESSAGE_CREATE"), (4, "MESSAGE_CREATE"), (5, "RESUMED")]
        assert [one["d"].get("content") for one in told[:2]] == ["three", "four"]


def test_who_names_more_than_was_sent_is_sent_away(lab: DiscordLab) -> None:
    with Line(lab) as line:
        session = line.begin()["d"]["session_id"]
        line.socket.close(4000)
    with Line(lab) as line:
        line.read()
        line.put(6, {"token": lab.token, "session_id": session, "seq": 50})
        assert line.end() == 4007


def test_a_heart_that_stops_ends_the_line(lab: DiscordLab) -> None:
    lab.set_heartbeat(0.1)
    with Line(lab) as line:
        line.begin()
        line.put(1, 1)
        assert line.read()["op"] == 11
        assert line.end() == 4009
    assert kinds(lab) == ["heartbeat"]


def test_what_is_told_is_what_was_asked_for(lab: DiscordLab) -> None:
    """Without the message content intent only what is private, our own or names us has a text."""
    ann = lab.add_person("Ann")
    channel = lab.add_channel(lab.add_guild("Ops", [ann]), "plans")
    with Line(lab) as line:
        line.begin(intents=MESSAGES | DIRECT)
        for text, where in (("hidden", channel), (f"<@{lab.bot}> shown", channel), ("private", "")):
            lab.say(ann, text, where)
        send(lab, channel, content="ours")
        told = [line.read()["d"]["content"] for _ in range(4)]
    assert told == ["", f"<@{lab.bot}> shown", "private", "ours"]


def test_lines_may_be_packed(lab: DiscordLab) -> None:
    """One stream for the whole line, each frame flushed."""
    with Line(lab, "v=10&encoding=json&compress=zlib-stream") as line:
        unpacker = zlib.decompressobj()

        def read() -> Any:
            frame = line.socket.recv(PATIENCE)
            assert isinstance(frame, bytes)
            assert frame.endswith(b"\x00\x00\xff\xff")
            return json.loads(unpacker.decompress(frame))

        assert read()["op"] == 10
        line.identify()
        assert read()["t"] == "READY"
