"""Discord for tests and for trying by hand: `DiscordLab` is a server on a thread, `DiscordRemote` steers another."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_lab.chats.chat_app import ChatApp
from hermes_lab.chats.chat_server import ChatControl, ChatRemote, ChatServer
from hermes_lab.chats.discord.discord_service import DiscordRates, DiscordService
from hermes_lab.chats.discord.discord_values import API
from hermes_lab.chats.rates import Rate
from hermes_lab.hosting import describe_address, open_listener, serve_in_foreground

BOT = "lab_bot"


class DiscordControl(ChatControl):
    """What people do and see, in words with types. A channel that is left out is the direct one of the person."""

    token: str = ""

    @property
    def base_url(self) -> str:
        return f"{self.address}{API}"

    def add_bot(self, username: str) -> str:
        return str(self.do("add_bot", username=username))

    def add_person(self, name: str, username: str = "") -> str:
        return str(self.do("add_person", name=name, username=username))

    def dm(self, person: str, token: str = "") -> str:
        return str(self.do("dm", person=person, token=token))

    def add_guild(self, name: str, members: Sequence[str]) -> str:
        return str(self.do("add_guild", name=name, members=list(members)))

    def add_channel(self, guild: str, name: str) -> str:
        return str(self.do("add_channel", guild=guild, name=name))

    def add_thread(self, channel: str, name: str, quiet: bool = False) -> str:
        return str(self.do("add_thread", channel=channel, name=name, quiet=quiet))

    def change_channel(self, channel: str, **changes: bool) -> None:
        """Switch `muted`, `hidden`, `locked` or `deleted` of a channel."""
        self.do("change_channel", channel=channel, **changes)

    def close_dms(self, person: str, closed: bool = True) -> None:
        self.do("close_dms", person=person, closed=closed)

    def remove_bot(self, guild: str) -> None:
        self.do("remove_bot", guild=guild)

    def admit_bot(self, guild: str) -> None:
        self.do("admit_bot", guild=guild)

    def allow_content(self, allowed: bool) -> None:
        """The switch of the message content intent."""
        self.do("allow_content", allowed=allowed)

    def name_role(self, guild: str) -> str:
        """The role that the bot has brought into a guild."""
        return str(self.do("name_role", guild=guild))

    def say(self, person: str, text: str, channel: str = "", reply_to: str = "", **fields: Any) -> str:
        """Write; the id of the message. `fields` are put into it as they are."""
        return str(self.do("say", person=person, text=text, channel=channel, reply_to=reply_to, **fields))

    def send(
        self, person: str, files: Mapping[str, bytes], text: str = "", channel: str = "", content_type: str = ""
    ) -> str:
        """Send files, by name; the id of the message."""
        kind = content_type or "application/octet-stream"
        rows = [
            {"name": name, "data": base64.b64encode(data).decode(), "content_type": kind}
            for name, data in files.items()
        ]
        return str(self.do("send", person=person, files=rows, text=text, channel=channel))

    def edit(self, message: str, text: str, channel: str) -> None:
        self.do("edit", message=message, text=text, channel=channel)

    def delete(self, message: str, channel: str) -> None:
        self.do("delete", message=message, channel=channel)

    def press(self, person: str, message: str, button: str, channel: str = "") -> str:
        """Press the button with this label or id; the id of the interaction."""
        return str(self.do("press", person=person, message=message, button=button, channel=channel))

    def command(self, person: str, name: str, text: str = "", channel: str = "") -> str:
        """Choose a command of the menu; the id of the interaction."""
        return str(self.do("command", person=person, name=name, text=text, channel=channel))

    def answers(self, interaction: str) -> list[dict[str, Any]]:
        """What somebody saw who pressed or chose something: at most one; none: it failed before their eyes."""
        found: list[dict[str, Any]] = self.do("interaction", number=interaction)["answers"]
        return found

    def messages(self, channel: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("messages", channel=channel)
        return found

    def seen(self, channel: str) -> list[str]:
        """The texts of bots that stand in the channel; of a file its name."""
        found: list[str] = self.do("seen", channel=channel)
        return found

    def typing(self, channel: str) -> int:
        return int(self.do("typing", channel=channel))

    def reactions(self, message: str, channel: str) -> list[str]:
        found: list[str] = self.do("reactions", message=message, channel=channel)
        return found

    @property
    def menu(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("menu")
        return found

    def redeliver(self, count: int = 1, backwards: bool = False) -> int:
        """Tell of the last messages once more."""
        return int(self.do("redeliver", count=count, backwards=backwards))

    def push(self, kind: str, data: Mapping[str, Any]) -> None:
        self.do("push", kind=kind, data=dict(data))

    @property
    def lines(self) -> int:
        """Lines to the gateway that are open."""
        return int(self.do("lines"))

    def reconnect(self) -> None:
        self.do("reconnect")

    def invalidate(self, resumable: bool = False) -> None:
        """Sessions are not valid any more, or ask to be resumed."""
        self.do("invalidate", resumable=resumable)

    def close_lines(self, code: int) -> None:
        self.do("close_lines", code=code)

    def freeze(self) -> None:
        """Lines go silent without an end."""
        self.do("freeze")

    def set_heartbeat(self, seconds: float) -> None:
        self.do("set_heartbeat", seconds=seconds)

    def set_resume(self, address: str) -> None:
        """Sessions that begin from now on are told to be taken up again there, as at a host that has died."""
        self.do("set_resume", address=address)

    def expire_files(self) -> None:
        self.do("expire_files")

    def revoke(self, token: str = "") -> None:
        """The token is worth nothing from now on."""
        self.do("revoke", token=token or self.token)

    def set_rates(self, **changes: Rate | None) -> None:
        """Other limits: channel, account (None: none)."""
        whole = {
            name: {part: getattr(rate, part) for part in Rate.__slots__} if isinstance(rate, Rate) else rate
            for name, rate in changes.items()
        }
        self.do("rates", **whole)


class DiscordLab(DiscordControl, ChatServer):
    """The server on a thread, with one bot; more are added."""

    def __init__(self, *, rates: DiscordRates | None = None, port: int = 0) -> None:
        self.service = DiscordService(rates)
        self.token = self.service.add_bot(BOT)
        ChatServer.__init__(self, ChatApp(self.service, self.service.converse), "hermes-lab-discord", port=port)

    def start(self) -> None:
        super().start()
        self.service.world.address = self.address

    @property
    def bot(self) -> str:
        """The id of the bot."""
        return self.service.world.bots[self.token].id


class DiscordRemote(DiscordControl, ChatRemote):
    """Steers a server in another process."""

    def __init__(self, address: str, token: str) -> None:
        ChatRemote.__init__(self, address)
        self.token = token


def serve(port: int = 0) -> None:
    """Serve until SIGINT or SIGTERM, with a person in a direct chat; prints what one needs to know."""
    service = DiscordService()
    token = service.add_bot(BOT)
    person = service.people.add_person("Ann", "ann")
    channel = service.people.dm(person)
    listener = open_listener("127.0.0.1", port)
    address = service.world.address = describe_address(listener)
    app = ChatApp(service, service.converse)
    lines = (
        f"hermes lab discord: {address}{API} (Ctrl-C ends it)",
        f"token: {token}",
        f"person: {person}",
        f'say: curl -s {address}/lab/say -d \'{{"person": "{person}", "text": "Hello!"}}\'',
        f'see: curl -s {address}/lab/seen -d \'{{"channel": "{channel}"}}\'',
        f"judgement: curl -s {address}/lab/complaints -d '{{}}'",
    )
    serve_in_foreground(app, listener, "\n".join(lines), app.leave)
