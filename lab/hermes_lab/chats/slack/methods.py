"""The methods of the Web API that an app like ours calls: what each takes, needs and answers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hermes_lab.chats.slack.judging import FIELDS, Complain, judge_blocks, judge_text
from hermes_lab.chats.slack.slack_world import (
    APP,
    BOT,
    BOT_USER,
    TEAM,
    Message,
    SlackChannel,
    SlackError,
    SlackWorld,
    list_thread,
)

DOUBLE, THREAD = "double", "thread"  # kinds of complaints
MOST_PAGE = 999


@dataclass(slots=True)
class MethodAsking:
    """One call of the app."""

    world: SlackWorld
    values: Mapping[str, Any]
    address: str  # of this server
    complain: Complain
    open_socket: Callable[[], str]

    def text(self, name: str) -> str:
        found = self.values.get(name)
        return "" if found is None else str(found)

    def value(self, name: str) -> Any:
        """A list or an object: as it is in JSON, as JSON in a text of a form."""
        found = self.values.get(name)
        try:
            return json.loads(found) if isinstance(found, str) else found
        except ValueError:
            raise SlackError("invalid_arguments", FIELDS) from None

    def flag(self, name: str) -> bool:
        return self.values.get(name) in (True, "1", "true", "True", 1)


def auth_test(ask: MethodAsking) -> dict[str, Any]:
    app = ask.world.app
    return {"url": "https://lab.example/", "team": "Lab", "user": app.name, "team_id": TEAM, "user_id": BOT_USER} | {
        "bot_id": BOT
    }


def connections_open(ask: MethodAsking) -> dict[str, Any]:
    if not ask.world.app.socket_mode:
        raise SlackError("socket_mode_not_enabled")
    return {"url": ask.open_socket()}


# --- messages


def post_message(ask: MethodAsking) -> dict[str, Any]:
    channel = _find_open(ask)
    text, blocks = ask.text("text"), ask.value("blocks")
    if not text and not blocks:
        raise SlackError("no_text", FIELDS)
    judge_text(text, ask.complain)
    metadata = ask.value("metadata")
    key = _read_key(metadata)
    if key and any(_read_key(one.get("metadata")) == key for one in channel.messages.values()):
        ask.complain(DOUBLE, "The same message is posted a second time.")
    message: Message = {"user": BOT_USER, "bot_id": BOT, "app_id": APP, "text": text}
    if blocks:
        message["blocks"] = judge_blocks(blocks, ask.complain)
    if metadata:
        message["metadata"] = metadata
    posted = ask.world.post(channel, message, _find_thread(ask, channel))
    return {"channel": channel.id, "ts": posted["ts"], "message": posted}


def update_message(ask: MethodAsking) -> dict[str, Any]:
    channel, ts, text, blocks = _find_open(ask), ask.text("ts"), ask.text("text"), ask.value("blocks")
    message = channel.messages.get(ts)
    if message is None:
        raise SlackError("message_not_found")
    if message.get("bot_id") != BOT:
        raise SlackError("cant_update_message")
    judge_text(text, ask.complain, update=True)
    message["text"] = text
    message["edits"] = message.get("edits", 0) + 1
    message.pop("blocks", None)
    if blocks:
        message["blocks"] = judge_blocks(blocks, ask.complain)
    return {"channel": channel.id, "ts": ts, "text": text, "message": message}


def _read_key(metadata: Any) -> str:
    if not isinstance(metadata, Mapping):
        return ""
    if not isinstance(metadata.get("event_type"), str) or not isinstance(metadata.get("event_payload"), Mapping):
        raise SlackError("metadata_must_be_sent_from_app", FIELDS)
    return str(metadata["event_payload"].get("key") or "")


def _find_open(ask: MethodAsking, name: str = "channel") -> SlackChannel:
    channel = ask.world.find_channel(ask.text(name))
    if channel.archived:
        raise SlackError("is_archived")
    return channel


def _find_thread(ask: MethodAsking, channel: SlackChannel) -> str:
    """The message to answer below. It has to be one that stands in the channel itself."""
    thread = ask.text("thread_ts")
    if not thread:
        return ""
    root = channel.messages.get(thread)
    if root is None:
        raise SlackError("thread_not_found")
    if root.get("thread_ts", thread) != thread:
        ask.complain(THREAD, "An answer names an answer, and not what the thread stands under.")
    return thread


def add_reaction(ask: MethodAsking) -> dict[str, Any]:
    channel = ask.world.find_channel(ask.text("channel"))
    message = channel.messages.get(ask.text("timestamp"))
    if message is None:
        raise SlackError("message_not_found")
    reactions = message.setdefault("reactions", [])
    if ask.text("name") in reactions:
        raise SlackError("already_reacted")
    reactions.append(ask.text("name"))
    return {}


# --- reading


def read_history(ask: MethodAsking) -> dict[str, Any]:
    """The newest first, without the answers in threads."""
    channel = _find_readable(ask)
    shown = [one for ts, one in channel.messages.items() if one.get("thread_ts", ts) == ts]
    return _make_page(ask, list(reversed(_cut(ask, shown))))


def read_replies(ask: MethodAsking) -> dict[str, Any]:
    """The oldest first; what the thread stands under comes with them in any case."""
    channel, root = _find_readable(ask), ask.text("ts")
    if root not in channel.messages:
        raise SlackError("thread_not_found")
    first, *replies = list_thread(channel, root)
    return _make_page(ask, [first, *_cut(ask, replies)])


def _find_readable(ask: MethodAsking) -> SlackChannel:
    channel = ask.world.find_channel(ask.text("channel"))
    if channel.history_scope not in ask.world.app.scopes:
        raise SlackError("missing_scope", needed=channel.history_scope, provided=",".join(ask.world.app.scopes))
    return channel


def _cut(ask: MethodAsking, messages: list[Message]) -> list[Message]:
    oldest = float(ask.text("oldest") or 0)
    return [one for one in messages if float(one["ts"]) > oldest]


def _make_page(ask: MethodAsking, messages: list[Message]) -> dict[str, Any]:
    limit, start = int(ask.text("limit") or 100), int(ask.text("cursor") or 0)
    if not 1 <= limit <= MOST_PAGE:
        raise SlackError("invalid_limit", FIELDS)
    hidden = () if ask.flag("include_all_metadata") else ("metadata",)
    page = [{name: value for name, value in one.items() if name not in hidden} for one in messages[start:][:limit]]
    more = start + limit < len(messages)
    return {
        "messages": page,
        "has_more": more,
        **({"response_metadata": {"next_cursor": str(start + limit)}} if more else {}),
    }


def user_info(ask: MethodAsking) -> dict[str, Any]:
    person = ask.world.people.get(ask.text("user"))
    if person is None:
        raise SlackError("user_not_found")
    profile = {"display_name": person.name, "real_name": person.name}
    return {"user": {"id": person.id, "team_id": TEAM, "name": person.name.lower(), "profile": profile}}


# --- files


def get_upload_url(ask: MethodAsking) -> dict[str, Any]:
    length = int(ask.text("length") or 0)
    if not ask.text("filename") or length <= 0:
        raise SlackError("invalid_arguments", FIELDS)
    file = ask.world.add_file(ask.text("filename"), length)
    return {"upload_url": f"{ask.address}/upload/{file.id}", "file_id": file.id}


def complete_upload(ask: MethodAsking) -> dict[str, Any]:
    rows, channel = ask.value("files"), _find_open(ask, "channel_id")
    if not isinstance(rows, list) or not rows:
        raise SlackError("invalid_arguments", FIELDS)
    files = []
    for row in rows:
        file = ask.world.files.get(str(row.get("id")))
        if file is None or file.data is None:
            raise SlackError("file_not_found", FIELDS)
        file.shares.append(channel.id)
        files.append(file)
    judge_text(ask.text("initial_comment"), ask.complain)
    shown = [ask.world.describe_file(file, ask.address) for file in files]
    message: Message = {"user": BOT_USER, "bot_id": BOT, "text": ask.text("initial_comment"), "files": shown}
    ask.world.post(channel, message, _find_thread(ask, channel))
    return {"files": [{"id": file.id, "title": file.name} for file in files]}


def file_info(ask: MethodAsking) -> dict[str, Any]:
    file = ask.world.files.get(ask.text("file"))
    if file is None:
        raise SlackError("file_not_found")
    return {"file": ask.world.describe_file(file, ask.address)}


@dataclass(frozen=True, slots=True)
class SlackMethod:
    """`scope`: empty, none is needed. `takes`: the parameters that are known."""

    perform: Callable[[MethodAsking], dict[str, Any]]
    takes: frozenset[str]
    scope: str = ""
    of_app: bool = False
    per_minute: int = 50
    takes_json: bool = True


def _takes(*names: str) -> frozenset[str]:
    return frozenset(names)


_PAGE = ("channel", "limit", "cursor", "oldest", "latest", "inclusive", "include_all_metadata")
_POST = ("channel", "text", "blocks", "thread_ts", "metadata", "mrkdwn", "unfurl_links", "unfurl_media")
_UPDATE = ("channel", "ts", "text", "blocks", "metadata", "parse", "link_names")
_SHARE = ("files", "channel_id", "thread_ts", "initial_comment")
METHODS: Mapping[str, SlackMethod] = {
    "auth.test": SlackMethod(auth_test, _takes(), per_minute=1000),
    "apps.connections.open": SlackMethod(connections_open, _takes(), of_app=True, per_minute=100),
    "chat.postMessage": SlackMethod(post_message, _takes(*_POST, "parse", "link_names"), "chat:write", per_minute=300),
    "chat.update": SlackMethod(update_message, _takes(*_UPDATE), "chat:write"),
    "reactions.add": SlackMethod(add_reaction, _takes("channel", "timestamp", "name"), "reactions:write"),
    "conversations.history": SlackMethod(read_history, _takes(*_PAGE), takes_json=False),
    "conversations.replies": SlackMethod(read_replies, _takes(*_PAGE, "ts"), takes_json=False),
    "users.info": SlackMethod(user_info, _takes("user"), "users:read", per_minute=100, takes_json=False),
    "files.info": SlackMethod(file_info, _takes("file"), "files:read", per_minute=100, takes_json=False),
    "files.getUploadURLExternal": SlackMethod(
        get_upload_url, _takes("filename", "length"), "files:write", per_minute=100, takes_json=False
    ),
    "files.completeUploadExternal": SlackMethod(complete_upload, _takes(*_SHARE), "files:write", per_minute=100),
}
