"""The lab's Slack judges: each thing that a good app does not do is a complaint, or Slack's own word for it."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from hermes_lab.chats.faults import ERROR, TOO_MANY, ChatFault
from hermes_lab.chats.slack.slack_lab import SlackLab
from hermes_lab.chats.slack.slack_world import ALL_SCOPES, BOT_USER

LONG = {"type": "mrkdwn", "text": "x" * 3001}


@pytest.fixture
def slack() -> Iterator[SlackLab]:
    with SlackLab() as lab:
        yield lab


class Caller:
    """An app that does what it is told, good or bad."""

    def __init__(self, slack: SlackLab) -> None:
        self.slack = slack
        self.ann = slack.add_person("Ann")
        self.dm = slack.dm(self.ann)

    def ask(self, url: str, body: bytes | None = None, **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        """One request on one connection: status, headers and body."""
        parts = urlsplit(url)
        line = http.client.HTTPConnection(parts.netloc)
        try:
            line.request("GET" if body is None else "POST", f"{parts.path}?{parts.query}", body, headers)
            answer = line.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            line.close()

    def call(self, method: str, token: str = "", form: str = "", **values: Any) -> dict[str, Any]:
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        headers = {"Authorization": f"Bearer {token or self.slack.token}", "Content-Type": kind}
        body = b"" if form else json.dumps(values).encode()
        status, told, answer = self.ask(f"{self.slack.base_url}{method}?{form}", body, **headers)
        found: dict[str, Any] = json.loads(answer)
        return {**found, "status": status, "wait": told.get("Retry-After", "")}

    def post(self, text: str = "hello", **values: Any) -> dict[str, Any]:
        return self.call("chat.postMessage", channel=values.pop("channel", self.dm), text=text, **values)

    @property
    def complaints(self) -> list[str]:
        return [complaint["kind"] for complaint in self.slack.complaints]


@pytest.fixture
def app(slack: SlackLab) -> Caller:
    return Caller(slack)


def button(label: str = "Yes", **more: Any) -> dict[str, Any]:
    text = {"type": "plain_text", "text": label}
    return {"type": "button", "action_id": "a", "value": "q:0", "text": text, **more}


def test_a_good_message_is_seen_and_nothing_is_said_of_it(app: Caller) -> None:
    posted = app.post("*bold* &lt;b&gt; <https://a.example|a page>\n> quoted")
    assert posted["ok"] is True
    assert app.call("chat.update", channel=app.dm, ts=posted["ts"], text="changed", blocks=[])["ok"] is True
    assert app.slack.seen(app.dm) == ["changed"]
    assert app.complaints == []


@pytest.mark.parametrize(
    ("values", "error", "kinds"),
    [
        ({"text": ""}, "no_text", ["fields"]),
        ({"text": "a" * 40_001}, "msg_too_long", ["length"]),
        ({"text": "a" * 4_001}, "", ["length"]),
        ({"text": "<!channel> come"}, "", ["calls"]),
        ({"text": f"<@{BOT_USER}>"}, "", ["calls"]),
        ({"text": "a < b & c"}, "", ["markup"]),
        ({"channel": "C0NONE"}, "channel_not_found", []),
        ({"thread_ts": "1.000001"}, "thread_not_found", []),
        ({"colour": "red"}, "", ["fields"]),
        ({"blocks": "none"}, "invalid_arguments", ["fields"]),
        ({"blocks": [{"type": "carousel"}]}, "invalid_blocks", ["blocks"]),
        ({"blocks": [{"type": "actions", "elements": []}]}, "invalid_blocks", ["blocks"]),
        ({"blocks": [{"type": "actions", "elements": [button(), button()]}]}, "invalid_blocks", ["blocks"]),
        ({"blocks": [{"type": "actions", "elements": [button("x" * 76)]}]}, "invalid_blocks", ["blocks"]),
        ({"blocks": [{"type": "actions", "elements": [button(value="x" * 2001)]}]}, "invalid_blocks", ["blocks"]),
        ({"blocks": [{"type": "section", "text": LONG}]}, "invalid_blocks", ["blocks"]),
    ],
)
def test_messages_are_judged(app: Caller, values: dict[str, Any], error: str, kinds: list[str]) -> None:
    assert app.post(**values).get("error", "") == error
    assert app.complaints == kinds


def test_what_is_posted_twice_and_answers_to_answers_are_noticed(app: Caller) -> None:
    metadata = {"event_type": "x", "event_payload": {"key": "k1"}}
    root = app.post(metadata=metadata)["ts"]
    app.post(metadata=metadata)
    answer = app.post(thread_ts=root)["ts"]
    app.slack.advance(10)
    app.post(thread_ts=answer)
    assert app.complaints == ["double", "thread"]


def test_only_own_messages_are_edited(app: Caller) -> None:
    said = app.slack.say(app.ann, "mine")
    assert app.call("chat.update", channel=app.dm, ts=said, text="yours")["error"] == "cant_update_message"
    assert app.call("chat.update", channel=app.dm, ts="1.000001", text="x")["error"] == "message_not_found"


def test_tokens_and_scopes_are_looked_at(app: Caller) -> None:
    assert app.call("auth.test", token="xoxb-wrong")["error"] == "invalid_auth"
    assert app.call("apps.connections.open")["error"] == "not_allowed_token_type"
    assert app.call("apps.connections.open", token=app.slack.app_token)["ok"] is True
    app.slack.set_scopes(*(scope for scope in ALL_SCOPES if scope != "chat:write"))
    refused = app.post()
    assert (refused["error"], refused["needed"]) == ("missing_scope", "chat:write")
    app.slack.revoke()
    assert app.call("auth.test")["error"] == "token_revoked"
    assert app.complaints == ["token"]


def test_histories_are_read_page_by_page_and_only_as_forms(app: Caller) -> None:
    root = app.slack.say(app.ann, "one")
    app.slack.say(app.ann, "below", thread=root)
    last = app.slack.say(app.ann, "two")
    page = app.call("conversations.history", form=f"channel={app.dm}&limit=1")
    assert ([one["text"] for one in page["messages"]], page["has_more"]) == (["two"], True)
    following = page["response_metadata"]["next_cursor"]
    page = app.call("conversations.history", form=f"channel={app.dm}&limit=1&cursor={following}")
    assert [one["text"] for one in page["messages"]] == ["one"]
    page = app.call("conversations.history", form=f"channel={app.dm}&oldest={last}")
    assert page["messages"] == []
    page = app.call("conversations.replies", form=f"channel={app.dm}&ts={root}")
    assert [one["text"] for one in page["messages"]] == ["one", "below"]
    assert app.call("conversations.history", channel=app.dm)["error"] == "invalid_form_data"


def test_a_file_is_what_was_announced(app: Caller) -> None:
    asked = app.call("files.getUploadURLExternal", form="filename=a.txt&length=5")
    share = {"files": [{"id": asked["file_id"]}], "channel_id": app.dm}
    assert app.call("files.completeUploadExternal", **share)["error"] == "file_not_found"
    assert app.ask(asked["upload_url"], b"123456")[0] == 400
    assert app.ask(asked["upload_url"], b"12345")[::2] == (200, b"OK - 5")
    assert app.call("files.completeUploadExternal", **share)["ok"] is True
    assert app.slack.seen(app.dm) == ["a.txt"]
    assert app.complaints == ["fields", "fields"]


def test_a_file_without_the_token_is_a_page_to_log_in(app: Caller) -> None:
    app.slack.send(app.ann, "plan.txt", b"the plan")
    url = app.slack.messages(app.dm)[0]["files"][0]["url_private"]
    for token, kind in (("", "text/html"), (f"Bearer {app.slack.token}", "text/plain")):
        status, headers, _ = app.ask(url, Authorization=token)
        assert (status, headers.get_content_type()) == (200, kind)


def test_more_than_one_message_a_second_is_too_many(app: Caller) -> None:
    refused = next(answer for answer in (app.post() for _ in range(100)) if answer["status"] == 429)
    assert (refused["error"], int(refused["wait"]) >= 1) == ("ratelimited", True)
    assert app.complaints == ["rate"]


def test_faults_come_by_plan(app: Caller) -> None:
    app.slack.plan([ChatFault(ERROR, "chat.*", status=200, text="is_archived"), ChatFault(TOO_MANY, "chat.*", skip=0)])
    assert app.post()["error"] == "is_archived"
    assert app.post()["status"] == 429
    assert app.slack.faults_left == 0
