"""The workspace: people, channels, messages and files, and the one app in it."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.chats.record import ChatClock
from hermes_lab.values import LabProblem

TEAM, APP, BOT_USER, BOT = "T0LAB", "A0LAB", "U0BOT", "B0BOT"
ALL_SCOPES = (
    "app_mentions:read",
    "channels:history",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "im:history",
    "mpim:history",
    "reactions:write",
    "users:read",
)
Message = dict[str, Any]


class SlackError(Exception):
    """What the Web API answers in place of a result. `kind`: a good client would not have asked for it."""

    def __init__(self, error: str, kind: str = "", **more: Any) -> None:
        super().__init__(error)
        self.error, self.kind, self.more = error, kind, more


@dataclass(slots=True)
class SlackPerson:
    id: str
    name: str
    dm: str = ""


@dataclass(slots=True)
class SlackChannel:
    id: str
    kind: str  # im, channel, group, mpim
    name: str = ""
    members: set[str] = field(default_factory=set)
    archived: bool = False
    messages: dict[str, Message] = field(default_factory=dict)  # by ts, in order

    @property
    def history_scope(self) -> str:
        return {"im": "im", "mpim": "mpim", "group": "groups"}.get(self.kind, "channels") + ":history"


@dataclass(slots=True)
class SlackFile:
    id: str
    name: str
    size: int
    mimetype: str = "application/octet-stream"
    data: bytes | None = None
    shares: list[str] = field(default_factory=list)  # channels


@dataclass(slots=True)
class SlackApp:
    token: str = "xoxb-100-200-labLABlabLABlabLAB"
    app_token: str = "xapp-1-A0LAB-300-abcdef0123456789"
    signing_secret: str = "8f742231b10e8888abcd99yyyzzz85a5"
    name: str = "lab"
    scopes: tuple[str, ...] = ALL_SCOPES
    revoked: bool = False
    socket_mode: bool = True


class SlackWorld:
    def __init__(self, clock: ChatClock) -> None:
        self.clock = clock
        self.app = SlackApp()
        self.people: dict[str, SlackPerson] = {}
        self.channels: dict[str, SlackChannel] = {}
        self.files: dict[str, SlackFile] = {}
        self._numbers = itertools.count(1)
        self._last_ts = 0

    def number(self) -> int:
        return next(self._numbers)

    def next_ts(self) -> str:
        """A moment that no other message has."""
        self._last_ts = max(self._last_ts + 1, int(self.clock.date() * 1_000_000))
        return f"{self._last_ts // 1_000_000}.{self._last_ts % 1_000_000:06d}"

    # --- finding

    def person(self, id: str) -> SlackPerson:
        if id not in self.people:
            raise LabProblem(f"There is no person {id}.")
        return self.people[id]

    def channel(self, id: str) -> SlackChannel:
        if id not in self.channels:
            raise LabProblem(f"There is no channel {id}.")
        return self.channels[id]

    def find_channel(self, id: str) -> SlackChannel:
        """For the app: one that it may write to and read."""
        channel = self.channels.get(id)
        if channel is None or (BOT_USER not in channel.members and channel.kind != "channel"):
            raise SlackError("channel_not_found")
        if BOT_USER not in channel.members:
            raise SlackError("not_in_channel")
        return channel

    # --- making

    def add_person(self, name: str) -> str:
        person = SlackPerson(f"U0P{self.number():04d}", name)
        self.people[person.id] = person
        person.dm = self.add_channel("", "im", {person.id, BOT_USER})
        return person.id

    def add_channel(self, name: str, kind: str, members: set[str]) -> str:
        letter = {"im": "D", "mpim": "G"}.get(kind, "C")
        channel = SlackChannel(f"{letter}0{self.number():05d}", kind, name, members)
        self.channels[channel.id] = channel
        return channel.id

    def add_file(self, name: str, size: int, data: bytes | None = None, mimetype: str = "") -> SlackFile:
        file = SlackFile(f"F0{self.number():05d}", name, size, mimetype or _guess_type(name), data)
        self.files[file.id] = file
        return file

    def post(self, channel: SlackChannel, message: Message, thread: str = "") -> Message:
        """Put a message into a channel, or below one of its messages."""
        whole: Message = {"type": "message", "team": TEAM, **message, "ts": self.next_ts()}
        if thread:
            root = channel.messages[thread]
            whole |= {"thread_ts": thread, "parent_user_id": root.get("user", "")}
            root |= {"thread_ts": thread, "reply_count": root.get("reply_count", 0) + 1, "latest_reply": whole["ts"]}
        channel.messages[whole["ts"]] = whole
        return whole

    def describe_file(self, file: SlackFile, address: str) -> dict[str, Any]:
        url = f"{address}/files/{file.id}/{file.name}"
        shown = {"id": file.id, "name": file.name, "title": file.name, "mimetype": file.mimetype, "size": file.size}
        links = {"url_private": url, "url_private_download": f"{url}?download=1", "mode": "hosted"}
        shares = {"public": {channel: [{"ts": "0"}] for channel in file.shares}}
        return {**shown, **links, **({"shares": shares} if file.shares else {})}


def list_thread(channel: SlackChannel, root: str) -> Iterator[Message]:
    """A message and the answers below it, the oldest first."""
    return (one for ts, one in channel.messages.items() if ts == root or one.get("thread_ts") == root)


def _guess_type(name: str) -> str:
    ends = {"txt": "text/plain", "png": "image/png", "md": "text/markdown", "html": "text/html"}
    return ends.get(name.rpartition(".")[2].lower(), "application/octet-stream")
