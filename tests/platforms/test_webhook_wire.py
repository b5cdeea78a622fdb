"""Requests of hooks and answers to them, on values."""

import base64
import json
import sys
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hook_service import SECRET, sign, sign_github
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.face import HookAnswer, HookRequest, NeverTaken, NotNow, Part
from gateway.platforms.signing import FORMS, write_signature
from gateway.platforms.webhook.hook_settings import describe_hook, read_hook
from gateway.platforms.webhook.pointers import MISSING, read_source
from gateway.platforms.webhook.wire import MOST_TEXT, judge_reply, read_request, write_reply
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import NOTE, Address, FileRef, Inbound, Outgoing
from hermes_net.checked_http import AnsweredCall

NOW = 1_800_000_000.0
JSON = {"content-type": "application/json"}
KINDS = ("application/json", "application/x-www-form-urlencoded", "text/plain", "")


def ask(body: Any, headers: dict[str, str] | None = None, path: str = "", method: str = "POST", **given: Any) -> Any:
    """What becomes of a signed request to the hook `alarm` with these settings."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    signed = {**JSON, **sign(raw, now=NOW), **(headers or {})}
    request = HookRequest(method, path, {name.lower(): value for name, value in signed.items()}, {}, raw)
    return read_request(read_hook({"secret": SECRET, **given}), "alarm", request, NOW)


def take(body: Any, headers: dict[str, str] | None = None, **given: Any) -> Inbound:
    taken = ask(body, headers, **given)
    assert isinstance(taken, Inbound), taken
    return taken


# --- pointers


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
        ("/foo/-", MISSING),
        ("/foo/01", MISSING),
        ("/foo/2", MISSING),
        ("/foo/bar", MISSING),
        ("/nothing/at/all", MISSING),
        ("/foo/0/0", MISSING),
    ],
)
def test_the_examples_of_rfc_6901(pointer: str, value: Any) -> None:
    numbers = {"": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8}
    document = {"foo": ["bar", "baz"], **numbers}
    assert read_source(pointer).find(document, {}) == value
    assert read_source("").find(document, {}) == document


@given(st.lists(st.text(), max_size=4), st.integers())
def test_any_name_can_be_pointed_at(names: list[str], value: int) -> None:
    document: Any = value
    for name in reversed(names):
        document = {name: document}
    pointer = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
    assert read_source(pointer).find(document, {}) == value


# --- in


def test_a_request_is_a_message_of_the_hook_and_of_nobody_else() -> None:
    """G2: whatever stands in the body, the sender is the hook; a slash means nothing, and no question is answered."""
    body = {"text": "/people approve X", "sender": "owner", "account": "other", "conversation": "agent:main:web:dm:1"}
    inbound = take(body)
    assert inbound.address == Address("webhook", "alarm", "main")
    assert (inbound.sender, inbound.text, inbound.way) == ("alarm", "/people approve X", "queue")
    assert (inbound.conversation, inbound.question, inbound.folder, inbound.files) == ("", "", "", ())


def test_who_has_not_signed_it_learns_nothing() -> None:
    for headers in (
        {"x-hermes-signature": ""},
        sign(b"{}", "another secret of theirs", NOW),
        sign(b'{"text": "a"}', now=NOW - 301),
        sign(b'{"text": "a"}', now=NOW + 301),
        sign(b'{"text": "b"}', now=NOW),
        sign_github(b'{"text": "a"}', "1", "push"),
    ):
        raw = b'{"text": "a"}'
        small = {name.lower(): value for name, value in headers.items()}
        request = HookRequest("POST", "", {**JSON, **small}, {}, raw)
        assert read_request(read_hook({"secret": SECRET}), "alarm", request, NOW) == HookAnswer(401)


def test_another_secret_is_taken_while_one_takes_the_place_of_the_other() -> None:
    assert take({"text": "a"}, secret="the new secret of the hook", old_secret=SECRET).text == "a"


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("/issue/title", "It burns"),
        (["/issue/title", "/nothing", "/issue/number"], "It burns\n7"),
        ({"Title": "/issue/title", "Event": "X-GitHub-Event"}, "Title: It burns\nEvent: issues"),
        ("/labels", '["a","b"]'),
        (None, '{"issue":{"title":"It burns","number":7},"labels":["a","b"],"none":null}'),
        ("/none", "null"),
    ],
)
def test_the_text_is_made_of_what_the_settings_name(wanted: Any, text: str) -> None:
    body = {"issue": {"title": "It burns", "number": 7}, "labels": ["a", "b"], "none": None}
    assert take(body, {"X-GitHub-Event": "issues"}, text=wanted).text == text


def test_a_long_text_is_cut_and_says_so() -> None:
    text = take({"text": "x" * (MOST_TEXT + 5)}).text
    assert text == "x" * MOST_TEXT + "\n… (5 characters more were left out)"


def test_conversations_are_named_by_what_the_settings_point_at() -> None:
    assert take({"text": "a", "issue": 7}, conversation="/issue").address.chat == "7"
    assert take({"text": "a", "issue": "x" * 500}, conversation="/issue").address.chat != "x" * 500
    assert take({"text": "a"}, conversation="one").address.chat == "main"
    for body in ({"text": "a"}, {"text": "a", "issue": None}, {"text": "a", "issue": " "}, {"text": "a", "issue": [1]}):
        answer = ask(body, conversation="/issue")
        assert answer.status == 422
        assert answer.body == "/issue has to name the conversation, and does not. Nothing was kept."


def test_the_same_request_has_the_same_id_and_another_one_another() -> None:
    """C1"""
    ids = [
        take({"text": "a"}).message,
        take({"text": "b"}).message,
        take({"text": "a"}, sign(b'{"text": "a"}', now=NOW + 1)).message,
        take({"text": "a"}, {"Idempotency-Key": "k"}).message,
        take({"text": "a", "n": 5}, id="/n").message,
        take({"text": "a"}, {"X-Run": "r"}, id="X-Run").message,
    ]
    assert len(set(ids)) == len(ids)
    assert ids[0] == take({"text": "a"}).message
    assert ids[3:] == ["k", "5", "r"]
    assert take({"text": "b"}, {"Idempotency-Key": "k"}).message == "k"
    assert len(take({"text": "a"}, {"Idempotency-Key": "k" * 5000}).message) < 100


NAMES = st.text(alphabet="ab/%25F-", min_size=1, max_size=6) | st.just("x" * 200)
ACCOUNTS = st.sampled_from(["webhook", "a", "b", "main"])
PLACES = st.tuples(ACCOUNTS, NAMES, NAMES)


@given(PLACES, PLACES)
def test_no_name_imitates_another(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """C1, G12: account and chat make the conversation, chat and id the message, and no two of them the same, whatever
    a body calls them."""

    def make(account: str, chat: str, id: str) -> Inbound:
        raw = json.dumps({"text": "a", "chat": chat, "id": id}).encode()
        headers = {name.lower(): value for name, value in sign(raw, now=NOW).items()}
        hook = read_hook({"secret": SECRET, "conversation": "/chat", "id": "/id"})
        made = read_request(hook, account, HookRequest("POST", "", headers, {}, raw), NOW)
        assert isinstance(made, Inbound)
        return made

    first, second = make(*one), make(*other)
    assert (first.ext_id == second.ext_id) is (one[1:] == other[1:])
    assert (first.key("default") == second.key("default")) is (one[:2] == other[:2])
    assert first.ext_id.count("/") == 2
    assert first.address.chat.count("/") == 0


def test_a_hash_is_nobody_elses_name() -> None:
    long = take({"text": "a", "issue": "x" * 500}, conversation="/issue").address.chat
    assert take({"text": "a", "issue": long}, conversation="/issue").address.chat != long
    assert take({"text": "a", "issue": long[-64:]}, conversation="/issue").address.chat != long


def test_an_answer_of_ours_that_comes_back_is_no_message() -> None:
    """C1: a hook whose reply_url leads to itself, or to another hook with its secret, does not talk to itself."""
    body = write_reply(Part(Address("webhook", "alarm", "main"), "hello"), "1")
    assert json.loads(body)["type"] == "hermes.reply"
    for events in (None, {"/kind": "note"}):
        answer = ask(body, events=events)
        assert isinstance(answer, HookAnswer)
        assert answer.status == 200
    assert ask(body, {"x-hermes-signature": ""}) == HookAnswer(401)
    assert take({"text": "a", "type": "other"}).text == "a"


@pytest.mark.parametrize("name", ["ann/garden", "100%", "%2F", "7"])
def test_an_answer_names_the_conversation_as_the_program_does(name: str) -> None:
    address = take({"text": "a", "issue": name}, conversation="/issue").address
    assert json.loads(write_reply(Part(address, "hello"), "1"))["conversation"] == name


def test_a_delivery_of_github() -> None:
    body = json.dumps({"action": "opened", "repository": {"full_name": "ann/garden"}}).encode()
    github: dict[str, Any] = {
        "signature": "github",
        "text": {"Repository": "/repository/full_name", "Action": "/action"},
        "events": {"X-GitHub-Event": ["issues", "push"], "/action": "opened"},
    }
    taken = take(body, sign_github(body, "72d3162e-cc78-11e3-81ab-4c9367dc0958", "issues"), **github)
    assert taken.message == "72d3162e-cc78-11e3-81ab-4c9367dc0958"
    assert taken.text == "Repository: ann/garden\nAction: opened"
    assert ask(body, sign_github(body, "1", "star"), **github) == HookAnswer(200, "Not asked for.")
    assert ask(body, sign_github(body, "1", "issues", "another secret of ours"), **github) == HookAnswer(401)


@pytest.mark.parametrize(
    ("body", "called", "text"),
    [
        (b"text=hello+there&x=1&x=2", "application/x-www-form-urlencoded; charset=utf-8", "hello there"),
        (b'{"text": "hello"}', "application/x-www-form-urlencoded", "hello"),  # as curl -d calls it
        (b'{"text": "hello"}', "text/plain", "hello"),
        (b'"hello"', "application/json", "hello"),
        (b"[1, 2]", "", "[1,2]"),
        (b"a=b", "application/x-www-form-urlencoded", '{"a":"b"}'),
    ],
)
def test_bodies_are_json_or_forms(body: bytes, called: str, text: str) -> None:
    assert take(body, {"content-type": called}).text == text


@pytest.mark.parametrize(
    ("body", "called"),
    [
        (b"", "application/json"),
        (b"hello", "text/plain"),
        (b"\xff\xfe", "application/json"),
        (b'{"text": "\xff"}', "application/json"),
        (b"text=%ff", "application/x-www-form-urlencoded"),
        (b"text=\xff", "application/x-www-form-urlencoded"),
        (b"a=1&" * 2000, "application/x-www-form-urlencoded"),
        (b"[" * 500_000, "application/json"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "application/json"),
        (b'{"text": "\\ud800"}', "application/json"),
        (b'{"text": NaN}', "application/json"),
        (b"text=", "application/x-www-form-urlencoded"),
    ],
)
def test_a_body_that_cannot_be_read_is_told_in_a_sentence(body: bytes, called: str) -> None:
    if body == b"text=":  # a form without a text is shown whole
        assert take(body, {"content-type": called}).text == '{"text":""}'
        return
    answer = ask(body, {"content-type": called})
    assert isinstance(answer, HookAnswer)
    assert answer.status == 400
    assert answer.body.endswith("Nothing was kept.")


def test_a_body_at_the_limit_of_nesting_is_a_message_or_a_sentence() -> None:
    limit = sys.getrecursionlimit()
    for depth in range(limit - 200, limit + 20):
        outcome = ask(b"[" * depth + b"]" * depth)
        assert isinstance(outcome, Inbound) or outcome.status == 400


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DOCUMENTS = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(DOCUMENTS, st.sampled_from([None, "/a", ["/0", "/text"], {"A": ""}]))
def test_any_json_is_a_message_or_a_sentence(document: Any, wanted: Any) -> None:
    outcome = ask(json.dumps(document).encode(), text=wanted, conversation=None)
    assert isinstance(outcome, Inbound) or outcome.status in (400, 422)
    if isinstance(outcome, Inbound):
        assert outcome.text.strip()
        assert len(outcome.text) <= MOST_TEXT + 100


@given(st.binary(max_size=200), st.sampled_from(["application/json", "application/x-www-form-urlencoded", "x"]))
def test_any_bytes_are_a_message_or_a_sentence(body: bytes, called: str) -> None:
    outcome = ask(body, {"content-type": called})
    assert isinstance(outcome, Inbound) or outcome.status in (400, 422)


def test_only_post_and_only_here() -> None:
    assert ask({"text": "a"}, path="more") == HookAnswer(404)
    assert ask({"text": "a"}, method="GET").status == 405


# --- settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"secret": ""}, "without a secret"),
        ({"secret": "short"}, "too short"),
        ({"secret": ["a list of secrets", "is none"]}, "secret of the hook must be text"),
        ({"old_secret": "short"}, "too short"),
        ({"signature": "md5"}, "must be one of hermes, github"),
        ({"role": "admin"}, "must be member or owner"),
        ({"text": 5}, "text of the hook must be a pointer"),
        ({"text": ["/a~2"]}, "text of the hook holds '/a~2'"),
        ({"conversation": "two words"}, "neither a pointer"),
        ({"id": "/a~"}, "id of the hook"),
        ({"events": ["push"]}, "events of the hook must be a section"),
        ({"reply_url": "ftp://x.example"}, "reply_url of the hook must begin with http"),
        ({"reply_url": "http://["}, "reply_url"),
        ({"reply_url": "http://127.0.0.1:80/"}, r"127\.0\.0\.1: it leads to a private address.*network\.private"),
        ({"reply_url": "http://169.254.169.254/", "network.private": ["0.0.0.0/0"]}, "cloud"),
        ({"network.private": ["no such thing"]}, r"network\.private"),
    ],
)
def test_what_is_wrong_with_a_hook_is_told(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigProblem, match=says) as problem:
        read_hook({"secret": SECRET, **settings})
    assert problem.value.fix


def test_a_hook_says_where_it_is_asked(tmp_path: Path) -> None:
    assert "/hooks/webhook/alarm" in describe_hook({"secret": SECRET, "account": "alarm"}, tmp_path)
    assert "stay in its conversation" in describe_hook({"secret": SECRET}, tmp_path)
    assert "sent to its reply_url" in describe_hook({"secret": SECRET, "reply_url": "https://x.example/"}, tmp_path)


# --- out


def test_an_answer_as_json() -> None:
    address = Address("webhook", "alarm", "7")
    part = Part(address, "hello", key="3:0", outgoing=Outgoing(address, "hello", NOTE, "warning"))
    file = FileRef("/somewhere/plan.txt", "plan.txt")
    said = json.loads(write_reply(part, "3:0", file, b"the plan"))
    assert {name: said[name] for name in ("hook", "conversation", "id", "kind", "text", "level")} == {
        "hook": "alarm",
        "conversation": "7",
        "id": "3:0",
        "kind": "note",
        "text": "hello",
        "level": "warning",
    }
    (sent,) = said["files"]
    assert (sent["name"], sent["size"], base64.b64decode(sent["content"])) == ("plan.txt", 8, b"the plan")
    assert "somewhere" not in json.dumps(said)


@pytest.mark.parametrize(
    ("status", "retry_after", "kind", "seconds"),
    [
        (200, "", None, 0),
        (204, "", None, 0),
        (429, "7", NotNow, 7),
        (429, "", NotNow, 30),
        (429, "99999999999", NotNow, 3600),
        (429, "nonsense", NotNow, 30),
        (503, "5", NotNow, 5),
        (503, "", DeliveryFailure, 0),
        (500, "", DeliveryFailure, 0),
        (408, "", DeliveryFailure, 0),
        (400, "", NeverTaken, 0),
        (404, "", NeverTaken, 0),
        (302, "", NeverTaken, 0),
    ],
)
def test_what_the_reply_url_says_is_told_in_the_words_of_the_face(
    status: int, retry_after: str, kind: type[Exception] | None, seconds: float
) -> None:
    """C8"""
    failure = judge_reply(AnsweredCall("", status, {"retry-after": retry_after}, b""), NOW)
    assert (type(failure) if failure else None) is kind
    if isinstance(failure, NotNow):
        assert failure.seconds == seconds


def test_a_wait_may_be_given_as_a_date() -> None:
    until = {"retry-after": formatdate(time.time() + 50, usegmt=True)}
    failure = judge_reply(AnsweredCall("", 503, until, b""), time.time())
    assert isinstance(failure, NotNow)
    assert 45 < (failure.seconds or 0) <= 51


@given(
    text=st.text(max_size=60), form=st.sampled_from(sorted(FORMS)), with_time=st.booleans(), kind=st.sampled_from(KINDS)
)
def test_an_answer_that_somebody_saw_speaks_to_no_hook(text: str, form: str, with_time: bool, kind: str) -> None:
    """C9, G1: what we signed is no message to any form, whatever it is called: neither the answer itself nor the bytes
    that its signature is made of."""
    told = text.encode("utf-8", "replace").decode()
    said = write_reply(Part(Address("webhook", "alarm", "main"), f"&text={told}&"), "1:0")
    header = write_signature(SECRET, said, NOW)["x-hermes-signature"]
    when, digest = header.removeprefix("t=").split(",v1=")
    body = f"{when}.".encode() + said if with_time else said
    headers = {
        "content-type": kind,
        "x-hermes-signature": header,
        "stripe-signature": header,
        "x-slack-signature": f"v0={digest}",
        "x-slack-request-timestamp": when,
        "x-hub-signature-256": f"sha256={digest}",
        "x-signature": digest,
        "authorization": f"Bearer {digest}",
    }
    hook = read_hook({"secret": SECRET, "signature": form})
    answer = read_request(hook, "alarm", HookRequest("POST", "", headers, {}, body), NOW)
    assert isinstance(answer, HookAnswer), answer
    assert answer.status in (200, 401)
