"""What people do in the workspace, and what they see."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from hermes_lab.chats.slack.bringing import ACTIONS, COMMANDS, Bringing
from hermes_lab.chats.slack.judging import unescape
from hermes_lab.chats.slack.slack_world import APP, BOT, BOT_USER, TEAM, Message, SlackChannel, SlackWorld
from hermes_lab.values import LabProblem


class SlackPeople:
    def __init__(self, world: SlackWorld, bringing: Bringing) -> None:
        self.world = world
        self.bringing = bringing
        self.address = ""
        self.verbs: Mapping[str, Callable[..., Any]] = {
            "add_person": world.add_person,
            "add_channel": self.add_channel,
            "dm": lambda person: world.person(person).dm,
            "say": self.say,
            "send": self.send,
            "edit": self.edit,
            "unfurl": self.unfurl,
            "delete": self.delete,
            "press": self.press,
            "slash": self.slash,
            "say_as_bot": self.say_as_bot,
            "invite_bot": self.invite_bot,
            "remove_bot": self.remove_bot,
            "archive": self.archive,
            "messages": lambda channel, thread="": self._list(channel, thread),
            "seen": self.seen,
        }

    def add_channel(self, name: str, members: list[str], kind: str = "channel", bot: bool = True) -> str:
        return self.world.add_channel(name, kind, {*members, *([BOT_USER] if bot else [])})

    # --- doing

    def say(self, person: str, text: str, channel: str = "", thread: str = "", **fields: Any) -> str:
        """Write; the ts of the message. `fields`: more of the message, as Slack has them."""
        place = self.world.channel(channel or self.world.person(person).dm)
        if person not in place.members:
            raise LabProblem(f"{person} is not in {place.id}.")
        message = {"user": person, "text": text, "client_msg_id": f"msg-{self.world.number()}", **fields}
        return self._tell_posted(place, self.world.post(place, message, thread))

    def say_as_bot(self, text: str, channel: str, user: str = "U0OTHERBOT") -> str:
        """Another app writes."""
        place = self.world.channel(channel)
        posted = self.world.post(place, {"bot_id": "B0OTHER", "app_id": "A0OTHER", "user": user, "text": text})
        return self._tell_posted(place, posted)

    def send(
        self, person: str, name: str, data: str, text: str = "", channel: str = "", thread: str = "", **about: Any
    ) -> str:
        """Send a file; `data` in base 64, `about`: more of the file, as Slack has it."""
        content = base64.b64decode(data)
        file = self.world.add_file(name, len(content), content)
        shown = {**self.world.describe_file(file, self.address), **about}
        return self.say(person, text, channel, thread, subtype="file_share", files=[shown])

    def _tell_posted(self, place: SlackChannel, posted: Message) -> str:
        self._tell(place, posted)
        if f"<@{BOT_USER}" in posted["text"] and place.kind != "im" and not posted.get("bot_id"):
            whole = {name: value for name, value in posted.items() if name not in ("type", "subtype")}
            self._tell(place, {**whole, "type": "app_mention"})
        return str(posted["ts"])

    def _tell(self, place: SlackChannel, event: Mapping[str, Any]) -> None:
        if BOT_USER in place.members:
            about = {"channel": place.id, "event_ts": event.get("event_ts", event.get("ts", ""))}
            kind = {} if event.get("type") == "app_mention" else {"channel_type": place.kind}
            self.bringing.tell_event({**event, **about, **kind})

    def edit(self, person: str, ts: str, text: str, channel: str = "") -> None:
        place = self.world.channel(channel or self.world.person(person).dm)
        message, before = place.messages[ts], dict(place.messages[ts])
        message |= {"text": text, "edited": {"user": person, "ts": self.world.next_ts()}}
        self._tell_changed(place, message, before)

    def unfurl(self, ts: str, channel: str) -> None:
        """Slack adds the preview of a link: nobody has edited anything."""
        place = self.world.channel(channel)
        message, before = place.messages[ts], dict(place.messages[ts])
        message["attachments"] = [{"from_url": "https://a.example", "title": "A page", "text": "its words"}]
        self._tell_changed(place, message, before)

    def _tell_changed(self, place: SlackChannel, message: Message, before: Message) -> None:
        change = {"type": "message", "subtype": "message_changed", "hidden": True, "ts": self.world.next_ts()}
        self._tell(place, {**change, "message": dict(message), "previous_message": before})

    def delete(self, ts: str, channel: str) -> None:
        place = self.world.channel(channel)
        gone = place.messages.pop(ts)
        about = {"subtype": "message_deleted", "hidden": True, "deleted_ts": ts, "previous_message": gone}
        self._tell(place, {"type": "message", "ts": self.world.next_ts(), **about})

    def press(self, person: str, ts: str, label: str, channel: str = "") -> None:
        place = self.world.channel(channel or self.world.person(person).dm)
        message = place.messages[ts]
        rows = [block for block in message.get("blocks", ()) if block["type"] == "actions"]
        buttons = [button for row in rows for button in row["elements"] if button["text"]["text"] == label]
        if not buttons:
            raise LabProblem(f"There is no button {label!r}.")
        thread = {"thread_ts": message["thread_ts"]} if "thread_ts" in message else {}
        payload = {
            "type": "block_actions",
            "user": {"id": person, "username": "somebody", "team_id": TEAM},
            "api_app_id": APP,
            "team": {"id": TEAM, "domain": "lab"},
            "container": {"type": "message", "message_ts": ts, "channel_id": place.id, **thread},
            "channel": {"id": place.id, "name": place.name or "directmessage"},
            "message": {name: value for name, value in message.items() if name != "edits"},
            "trigger_id": f"1.2.{self.world.number()}",
            "actions": [{**buttons[0], "block_id": "b", "action_ts": self.world.next_ts()}],
        }
        self.bringing.tell(ACTIONS, payload, place.id)

    def slash(self, person: str, text: str, channel: str = "") -> None:
        place = self.world.channel(channel or self.world.person(person).dm)
        name = place.name or "directmessage"
        about = {"command": "/hermes", "text": text, "trigger_id": f"1.2.{self.world.number()}", "api_app_id": APP}
        who = {"user_id": person, "user_name": self.world.person(person).name.lower(), "team_id": TEAM}
        where = {"channel_id": place.id, "channel_name": name, "token": "unused"}
        self.bringing.tell(COMMANDS, {**about, **who, **where}, place.id)

    def invite_bot(self, channel: str) -> None:
        place = self.world.channel(channel)
        place.members.add(BOT_USER)
        self._tell(place, {"type": "member_joined_channel", "user": BOT_USER, "ts": self.world.next_ts()})

    def remove_bot(self, channel: str) -> None:
        self.world.channel(channel).members.discard(BOT_USER)

    def archive(self, channel: str, archived: bool = True) -> None:
        place = self.world.channel(channel)
        place.archived = archived
        if not archived:
            self._tell(place, {"type": "channel_unarchive", "user": "U0ADMIN", "ts": self.world.next_ts()})

    # --- seeing

    def _list(self, channel: str, thread: str = "") -> list[Message]:
        messages = self.world.channel(channel).messages.values()
        return [dict(one) for one in messages if not thread or one.get("thread_ts") == thread]

    def seen(self, channel: str, thread: str = "") -> list[str]:
        """The texts of the app that stand in the channel; of a file its name."""
        ours = (one for one in self._list(channel, thread) if one.get("bot_id") == BOT)
        return [one["files"][0]["name"] if one.get("files") else unescape(one["text"]) for one in ours]
