"""Slack for tests and for trying by hand: `SlackLab` is a server on a thread."""

import base64
from typing import Any

from hermes_lab.chats.chat_app import ChatApp
from hermes_lab.chats.chat_server import ChatControl, ChatServer
from hermes_lab.chats.slack.bringing import ACK_SECONDS, RETRY_PAUSES
from hermes_lab.chats.slack.slack_service import SlackService
from hermes_lab.hosting import describe_address, open_listener, serve_in_foreground


class SlackControl(ChatControl):
    """What people do and see, in words with types. A channel that is left out is the direct one of the person."""

    @property
    def base_url(self) -> str:
        return f"{self.address}/api/"

    def add_person(self, name: str) -> str:
        return str(self.do("add_person", name=name))

    def add_channel(self, name: str, members: list[str], kind: str = "channel", bot: bool = True) -> str:
        return str(self.do("add_channel", name=name, members=members, kind=kind, bot=bot))

    def dm(self, person: str) -> str:
        return str(self.do("dm", person=person))

    def say(self, person: str, text: str, **more: Any) -> str:
        """Write; the ts of the message. More: channel, thread, and fields of the message."""
        return str(self.do("say", person=person, text=text, **more))

    def say_as_bot(self, text: str, channel: str) -> str:
        return str(self.do("say_as_bot", text=text, channel=channel))

    def send(self, person: str, name: str, data: bytes, **more: Any) -> str:
        return str(self.do("send", person=person, name=name, data=base64.b64encode(data).decode(), **more))

    def edit(self, person: str, ts: str, text: str, channel: str = "") -> None:
        self.do("edit", person=person, ts=ts, text=text, channel=channel)

    def unfurl(self, ts: str, channel: str) -> None:
        self.do("unfurl", ts=ts, channel=channel)

    def delete(self, ts: str, channel: str) -> None:
        self.do("delete", ts=ts, channel=channel)

    def press(self, person: str, ts: str, label: str, channel: str = "") -> None:
        self.do("press", person=person, ts=ts, label=label, channel=channel)

    def slash(self, person: str, text: str, channel: str = "") -> None:
        self.do("slash", person=person, text=text, channel=channel)

    def invite_bot(self, channel: str) -> None:
        self.do("invite_bot", channel=channel)

    def remove_bot(self, channel: str) -> None:
        self.do("remove_bot", channel=channel)

    def archive(self, channel: str, archived: bool = True) -> None:
        self.do("archive", channel=channel, archived=archived)

    def messages(self, channel: str, thread: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("messages", channel=channel, thread=thread)
        return found

    def seen(self, channel: str, thread: str = "") -> list[str]:
        """The texts of the app that stand in the channel; of a file its name."""
        found: list[str] = self.do("seen", channel=channel, thread=thread)
        return found

    def revoke(self) -> None:
        """The tokens are worth nothing from now on."""
        self.do("revoke")

    def set_scopes(self, *scopes: str) -> None:
        self.do("set_scopes", scopes=list(scopes))

    def set_hook(self, url: str) -> None:
        """Events come to this address, signed, and to no socket."""
        self.do("set_hook", url=url)

    def socket_mode(self, on: bool) -> None:
        self.do("socket_mode", on=on)

    def disconnect(self, reason: str = "warning") -> int:
        """Say on each socket that it ends; it is closed a moment later."""
        return int(self.do("disconnect", reason=reason))

    def freeze(self) -> None:
        """Nothing more comes or goes on the sockets, and nobody says so."""
        self.do("freeze")

    @property
    def sockets(self) -> int:
        return int(self.do("sockets"))

    def redeliver(self, count: int = 1, backwards: bool = False) -> int:
        return int(self.do("redeliver", count=count, backwards=backwards))

    def pending(self) -> int:
        """What was not confirmed yet, and will be brought again."""
        return int(self.do("pending"))

    def attempts(self) -> list[dict[str, Any]]:
        """The requests to the hook: status (0: nobody answered), retry."""
        found: list[dict[str, Any]] = self.do("attempts")
        return found

    def request(self, body: str, **more: Any) -> dict[str, Any]:
        """A request to the hook by hand; more: kind (its content type), secret, age (seconds)."""
        found: dict[str, Any] = self.do("request", body=body, **more)
        return found

    def push(self, event: dict[str, Any]) -> None:
        self.do("push", event=event)


class SlackLab(SlackControl, ChatServer):
    """The server on a thread. `ack_seconds`, `pauses`: when something is brought again."""

    def __init__(
        self, *, ack_seconds: float = ACK_SECONDS, pauses: tuple[float, ...] = RETRY_PAUSES, port: int = 0
    ) -> None:
        self.service = SlackService(ack_seconds, pauses)
        app = self.service.world.app
        self.token, self.app_token, self.signing_secret = app.token, app.app_token, app.signing_secret
        ChatServer.__init__(self, ChatApp(self.service, self.service.bringing.attend), "hermes-lab-slack", port=port)

    def start(self) -> None:
        ChatServer.start(self)
        self.service.be_at(self.address)


def serve(port: int = 0) -> None:
    """Serve until SIGINT or SIGTERM, with a person in a direct chat; prints what one needs to know."""
    service = SlackService()
    person = service.world.add_person("Ann")
    channel = service.world.person(person).dm
    listener = open_listener("127.0.0.1", port)
    address = describe_address(listener)
    service.be_at(address)
    app = ChatApp(service, service.bringing.attend)
    lines = (
        f"hermes lab slack: {address}/api/ (Ctrl-C ends it)",
        f"token: {service.world.app.token}",
        f"app_token: {service.world.app.app_token}",
        f"signing_secret: {service.world.app.signing_secret}",
        f"person: {person}",
        f'say: curl -s {address}/lab/say -d \'{{"person": "{person}", "text": "Hello!"}}\'',
        f'see: curl -s {address}/lab/seen -d \'{{"channel": "{channel}"}}\'',
        f"judgement: curl -s {address}/lab/complaints -d '{{}}'",
    )
    serve_in_foreground(app, listener, "\n".join(lines), app.leave)
