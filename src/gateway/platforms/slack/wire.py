"""What Slack tells: an event, a pressed button or a slash command, as raw JSON, becomes a message or a note. Pure.

Of a field that is missing or of another type only its name gets into an error, never what people wrote.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gateway.platforms.slack import SPEC
from gateway.platforms.slack.wire_text import list_people, names_person, read_command, show_text
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.text.file_names import make_safe_name

JsonObject = Mapping[str, Any]
MOST_NAMED = 10  # people of one message whose names are looked up; the others keep their ids
CUT = "…"  # the end of a button's label that was too long
SLACKBOT = "USLACKBOT"
#: Subtypes of what people write; every other one is a note of Slack's own.
_WRITTEN = frozenset({"", "file_share", "me_message", "thread_broadcast"})
_TS = re.compile(r"[0-9]{1,12}\.[0-9]{6}")


@dataclass(frozen=True, slots=True)
class SlackSelf:
    """Who we are there."""

    account: str
    user: str  # our id as a member
    team: str
    name: str = ""
    commands: frozenset[str] = frozenset()  # what can be typed as !name
    in_threads: bool = True  # what is said in a channel is answered in a thread


class PayloadKind(StrEnum):
    EVENT = "events_api"
    ACTION = "interactive"
    COMMAND = "slash_commands"


@dataclass(frozen=True, slots=True)
class SlackPayload:
    """One thing that Slack brings, by whatever way."""

    kind: PayloadKind
    content: JsonObject  # of an event: the event itself

    @property
    def channel(self) -> str:
        """The chat it is about; empty: none."""
        found = self.content.get("channel") or self.content.get("channel_id")
        if isinstance(found, Mapping):
            found = found.get("id")
        return found if isinstance(found, str) else ""


@dataclass(frozen=True, slots=True)
class ThreadRoot:
    """The message under which a thread stands, as far as it can be read."""

    user: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Around:
    """What is known beside the payload itself."""

    names: Mapping[str, str] = field(default_factory=dict)  # by id
    root: ThreadRoot | None = None  # of the thread that it stands in
    is_first: bool = False  # of this thread nothing was read before: its root goes along as a quote


@dataclass(frozen=True, slots=True)
class Entered:
    """We are in this chat from now on."""

    channel: str


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """Our token is worth nothing any more."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Nothing for us, and why."""

    reason: str


PayloadRead = Inbound | Entered | Uninstalled | Passed


class OddPayload(ValueError):
    """A payload that is not as documented."""


def read_payload(payload: SlackPayload, me: SlackSelf, around: Around) -> PayloadRead:
    """What a payload says; OddPayload when it is not as documented."""
    match payload.kind:
        case PayloadKind.ACTION:
            return _read_action(payload.content, me, around)
        case PayloadKind.COMMAND:
            return _read_slash(payload.content, me)
    return _READERS.get(str(payload.content.get("type")), _read_other)(payload.content, me, around)


def is_ts(value: str) -> bool:
    """Whether it is the id of a message."""
    return _TS.fullmatch(value) is not None


# --- what has to be known to read it


@dataclass(frozen=True, slots=True)
class Needs:
    """What has to be looked up to read a payload: people by id, and the root of a thread."""

    people: tuple[str, ...] = ()
    thread: str = ""


def find_needs(payload: SlackPayload, me: SlackSelf) -> Needs:
    """Of what is nothing for us nothing is looked up."""
    content = payload.content
    if payload.kind is not PayloadKind.EVENT:
        user = content.get("user")
        found = user.get("id") if isinstance(user, Mapping) else content.get("user_id")
        return Needs((found,) if isinstance(found, str) else ())
    message = content.get("message") if content.get("subtype") == "message_changed" else content
    if not isinstance(message, Mapping) or content.get("type") not in ("message", "app_mention"):
        return Needs()
    if _find_reason_to_pass(message, me) or content.get("subtype") == "message_deleted":
        return Needs()
    thread, text = str(message.get("thread_ts") or ""), str(message.get("text") or "")
    people = dict.fromkeys((str(message["user"]), *list_people(text)[:MOST_NAMED]))
    people.pop(me.user, None)
    is_reply = is_ts(thread) and thread != message.get("ts")
    return Needs(tuple(people), thread if is_reply else "")


# --- messages


def _read_message(event: JsonObject, me: SlackSelf, around: Around) -> PayloadRead:
    channel = _text(event, "channel")
    kind = str(event.get("channel_type") or "")
    subtype = event.get("subtype")
    if subtype == "message_changed":
        return _read_edit(event, channel, kind, me, around)
    if subtype == "message_deleted":
        return _read_deletion(event, channel, kind, me)
    return _read_written(event, channel, kind, me, around)


def _read_edit(event: JsonObject, channel: str, kind: str, me: SlackSelf, around: Around) -> PayloadRead:
    """Slack tells of a change also when it adds the preview of a link: then nobody has edited anything."""
    message, before = _object(event, "message"), event.get("previous_message")
    edited = _read_edited(message)
    if not edited or (isinstance(before, Mapping) and _read_edited(before) == edited):
        return Passed("a change that nobody made")
    return _read_written(message, channel, kind, me, around, revision=edited)


def _read_edited(message: JsonObject) -> str:
    """When it was edited, as a number that grows; empty: never."""
    edited = message.get("edited")
    moment = edited.get("ts") if isinstance(edited, Mapping) else None
    return _number_of(moment) if isinstance(moment, str) and is_ts(moment) else ""


def _read_deletion(event: JsonObject, channel: str, kind: str, me: SlackSelf) -> PayloadRead:
    """The message without a word in it: what still waits is taken back."""
    before, moment = event.get("previous_message"), str(event.get("event_ts") or event.get("ts") or "")
    if not isinstance(before, Mapping) or not is_ts(moment):
        return Passed("what was deleted is not told")
    if reason := _find_reason_to_pass(before, me):
        return Passed(reason)
    ts = _ts(before, "ts")
    return Inbound(
        _read_address(before, channel, kind, me),
        ts,
        _read_sender(before, me),
        "",
        revision=_number_of(moment),
        mentioned=names_person(str(before.get("text") or ""), me.user),
        source=me.team,
        received=float(moment),
    )


def _read_written(
    message: JsonObject, channel: str, kind: str, me: SlackSelf, around: Around, revision: str = ""
) -> PayloadRead:
    if reason := _find_reason_to_pass(message, me):
        return Passed(reason)
    ts, raw = _ts(message, "ts"), str(message.get("text") or "")
    address, files = _read_address(message, channel, kind, me), tuple(_read_files(message))
    shown = read_command(show_text(raw, around.names, me.user, me.name), me.commands)
    shared = _show_shared(message, around)
    text = "\n".join(part for part in (shared, shown, *_describe_files(message)) if part)
    if not text and not files:
        return Passed("without words")
    thread, root = str(message.get("thread_ts") or ""), around.root
    is_reply = is_ts(thread) and thread != ts
    ours = is_reply and root is not None and (root.user == me.user or names_person(root.text, me.user))
    quoted = root if is_reply and root is not None and around.is_first else None
    return Inbound(
        address,
        ts,
        _read_sender(message, me),
        text,
        revision=revision,
        sender_name=around.names.get(str(message["user"]), ""),
        mentioned=names_person(raw, me.user) or message.get("parent_user_id") == me.user or ours,
        reply_to=thread if quoted else "",
        quote=show_text(quoted.text, around.names, "", "") if quoted else "",
        forwarded=bool(shared),
        files=files,
        source=me.team,
        received=int(revision) / 1e6 if revision else float(ts),
    )


def _find_reason_to_pass(message: JsonObject, me: SlackSelf) -> str:
    """Why a message is not a person's word to us; empty: it is one. Bots are never answered, or two would talk for
    ever."""
    if message.get("bot_id") or message.get("subtype") == "bot_message" or message.get("app_id"):
        return "written by a bot"
    if str(message.get("subtype") or "") not in _WRITTEN:
        return "a note of Slack's own"
    user = message.get("user")
    if not isinstance(user, str) or not user:
        return "without a sender"
    return "written by us" if user in (me.user, SLACKBOT) else ""


def _read_address(message: JsonObject, channel: str, kind: str, me: SlackSelf) -> Address:
    """A thread is a place of its own. What is said in a channel itself begins one, in which it is answered."""
    is_dm = kind == "im" or (not kind and channel.startswith("D"))
    thread, ts = str(message.get("thread_ts") or ""), message.get("ts")
    if not is_ts(thread) or thread == ts:
        thread = str(ts) if me.in_threads and not is_dm else ""
    return Address(SPEC.name, me.account, channel, "dm" if is_dm else "group", thread)


def _read_sender(message: JsonObject, me: SlackSelf) -> str:
    """The id of whoever wrote. Somebody of another workspace, in a channel that both share, is named with theirs."""
    team, user = message.get("user_team"), str(message["user"])
    return f"{team}/{user}" if isinstance(team, str) and team and team != me.team else user


def _number_of(ts: str) -> str:
    """A moment as a whole number, which grows."""
    return ts.replace(".", "")


def _show_shared(message: JsonObject, around: Around) -> str:
    """What somebody else wrote and this message passes on."""
    listed = message.get("attachments")
    rows = [row for row in listed if isinstance(row, Mapping)] if isinstance(listed, list) else []
    return "\n".join(
        f"[forwarded from {_clean_line(str(row.get('author_name') or 'somebody'))}]\n"
        + show_text(str(row.get("text") or row.get("fallback") or ""), around.names, "", "")
        for row in rows
        if row.get("is_share") is True
    )


def _clean_line(text: str) -> str:
    return " ".join(text.replace("[", "(").replace("]", ")").split())


# --- files

_KINDS = {"image": "image", "audio": "audio"}
#: Files whose bytes Slack does not have, or not for us: what is said of them.
_ELSEWHERE = {"external": "a file kept elsewhere", "tombstone": "a deleted file", "hidden_by_limit": "a hidden file"}


def _list_files(message: JsonObject) -> list[JsonObject]:
    listed = message.get("files")
    return [file for file in listed if isinstance(file, Mapping)] if isinstance(listed, list) else []


def _read_files(message: JsonObject) -> Iterator[FileRef]:
    for file in _list_files(message):
        if file.get("mode") in _ELSEWHERE:
            continue
        remote, size = _text(file, "id"), file.get("size")
        kind = _KINDS.get(str(file.get("mimetype") or "").partition("/")[0], "file")
        name = make_safe_name(str(file.get("name") or file.get("title") or f"file_{remote}"))
        yield FileRef("", name, kind, size if isinstance(size, int) else 0, remote)


def _describe_files(message: JsonObject) -> Iterator[str]:
    for file in _list_files(message):
        word = _ELSEWHERE.get(str(file.get("mode")))
        if word:
            shown = (str(file.get(name) or "") for name in ("title", "external_url"))
            yield f"[{_clean_line(' '.join((word, *shown)))}]"


# --- buttons and slash commands


def _read_action(payload: JsonObject, me: SlackSelf, around: Around) -> PayloadRead:
    actions = payload.get("actions")
    action = actions[0] if isinstance(actions, list) and actions else None
    if payload.get("type") != "block_actions" or not isinstance(action, Mapping):
        return Passed("no button")
    question, mark, index = str(action.get("value") or "").rpartition(":")
    if not mark or not index.isdecimal():
        return Passed("a button that is not ours")
    person, place = _object(payload, "user"), _object(payload, "container")
    user, ts = _text(person, "id"), _ts(place, "message_ts")
    message = {"ts": ts, "user": user, "user_team": person.get("team_id"), "thread_ts": place.get("thread_ts")}
    label = _object(action, "text").get("text") if isinstance(action.get("text"), Mapping) else ""
    whole = isinstance(label, str) and label and not label.endswith(CUT)
    return Inbound(
        _read_address(message, _text(place, "channel_id"), "", me),
        f"press-{ts}-{_ts(action, 'action_ts')}",
        _read_sender(message, me),
        show_text(str(label), {}, "", "") if whole else str(int(index) + 1),
        sender_name=around.names.get(user, ""),
        mentioned=True,
        question=question,
        choice=str(int(index)),
        reply_to=ts,
        source=me.team,
    )


def _read_slash(payload: JsonObject, me: SlackSelf) -> PayloadRead:
    """`/hermes stop` is the command, `/hermes anything else` is said as it stands. It has no thread."""
    channel, user, said = _text(payload, "channel_id"), _text(payload, "user_id"), str(payload.get("text") or "")
    message = {"user": user, "user_team": payload.get("team_id")}
    kind = "dm" if channel.startswith("D") else "group"
    text = show_text(said, {}, "", "").strip().lstrip("!/")
    return Inbound(
        Address(SPEC.name, me.account, channel, kind),
        f"slash-{_text(payload, 'trigger_id')}",
        _read_sender(message, me),
        read_command(f"!{text or 'help'}", me.commands).removeprefix("!"),
        revision="0",  # so it counts as no place in the history of its chat, where it does not stand
        sender_name=str(payload.get("user_name") or ""),
        mentioned=True,
        source=me.team,
    )


# --- other events


def _read_joining(event: JsonObject, me: SlackSelf, around: Around) -> PayloadRead:
    del around
    return Entered(_text(event, "channel")) if event.get("user") == me.user else Passed("somebody else came")


def _read_opening(event: JsonObject, me: SlackSelf, around: Around) -> PayloadRead:
    del me, around
    return Entered(_text(event, "channel"))


def _read_end(event: JsonObject, me: SlackSelf, around: Around) -> PayloadRead:
    del event, me, around
    return Uninstalled()


def _read_revocation(event: JsonObject, me: SlackSelf, around: Around) -> PayloadRead:
    del around
    bots = _object(event, "tokens").get("bot")
    return Uninstalled() if isinstance(bots, list) and me.user in bots else Passed("somebody else's token")


def _read_other(event: JsonObject, me: SlackSelf, around: Around) -> PayloadRead:
    del me, around
    return Passed(f"of a kind that is not asked for ({event.get('type')})")


_READERS: Mapping[str, Callable[[JsonObject, SlackSelf, Around], PayloadRead]] = {
    "message": _read_message,
    "app_mention": _read_message,  # comes beside the message itself, with the same id
    "member_joined_channel": _read_joining,
    "channel_unarchive": _read_opening,
    "group_unarchive": _read_opening,
    "app_uninstalled": _read_end,
    "tokens_revoked": _read_revocation,
}


# --- fields


def _object(value: JsonObject, name: str) -> JsonObject:
    found = value.get(name)
    if not isinstance(found, Mapping):
        raise OddPayload(f"{name} is no object")
    return found


def _text(value: JsonObject, name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise OddPayload(f"{name} is no text")
    return found


def _ts(value: JsonObject, name: str) -> str:
    found = _text(value, name)
    if not is_ts(found):
        raise OddPayload(f"{name} is no time stamp")
    return found
