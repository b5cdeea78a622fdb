"""Telegram for tests and for trying by hand: `TelegramLab` is a server on a thread, `TelegramRemote` steers another."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hermes_lab.chats.chat_app import ChatApp
from hermes_lab.chats.chat_server import ChatControl, ChatRemote, ChatServer
from hermes_lab.chats.rates import Rate
from hermes_lab.chats.telegram.service import TelegramRates, TelegramService
from hermes_lab.chats.telegram.world import SUPERGROUP
from hermes_lab.hosting import describe_address, open_listener, serve_in_foreground

BOT = "lab_bot"


class TelegramControl(ChatControl):
    """What people do and see, in words with types. A chat that is left out is the private one of the person."""

    token: str = ""

    @property
    def base_url(self) -> str:
        """What an SDK takes as `base_url`; that of files is `base_file_url`."""
        return f"{self.address}/bot"

    @property
    def base_file_url(self) -> str:
        return f"{self.address}/file/bot"

    def add_bot(self, username: str, token: str = "", privacy: bool = True) -> str:
        return str(self.do("add_bot", username=username, token=token, privacy=privacy))

    def add_person(self, name: str, username: str = "", id: int = 0, started: bool = True) -> int:
        return int(self.do("add_person", name=name, username=username, id=id, started=started))

    def add_group(
        self,
        title: str,
        members: Sequence[int],
        kind: str = SUPERGROUP,
        forum: bool = False,
        admin: bool = False,
    ) -> int:
        found = self.do("add_group", title=title, members=list(members), kind=kind, forum=forum, admin=admin)
        return int(found)

    def add_topic(self, chat: int, name: str, by: int = 0) -> int:
        return int(self.do("add_topic", chat=chat, name=name, by=by))

    def join(self, person: int, chat: int) -> int:
        return int(self.do("join", person=person, chat=chat))

    def leave(self, person: int, chat: int) -> int:
        return int(self.do("leave", person=person, chat=chat))

    def post(self, person: int, fields: Mapping[str, Any], chat: int = 0, thread: int = 0) -> int:
        """A message of another kind, as a location or a poll, by its own fields."""
        return int(self.do("post", person=person, fields=fields, chat=chat, thread=thread))

    def say(self, person: int, text: str, **more: Any) -> int:
        """Write; the id of the message. More: chat, thread, reply_to, quote, entities, bot (a token)."""
        return int(self.do("say", person=person, text=text, **more))

    def send(
        self, person: int, kind: str, data: bytes = b"", name: str = "", caption: str = "", size: int = 0, **where: int
    ) -> int:
        """Send a file; the id of the message. `where`: chat, thread, reply_to."""
        content = base64.b64encode(data).decode()
        told = {"kind": kind, "data": content, "size": size, "name": name, "caption": caption}
        return int(self.do("send", person=person, where=where, **told))

    def send_album(self, person: int, items: Iterable[Mapping[str, Any]], **where: int) -> list[int]:
        """Send an album; the ids of its messages. An item: kind, data (bytes), name, caption."""
        whole = [{**item, "data": base64.b64encode(item.get("data", b"")).decode()} for item in items]
        found: list[int] = self.do("send_album", person=person, items=whole, where=where)
        return found

    def edit(self, person: int, message: int, text: str, chat: int = 0) -> None:
        self.do("edit", person=person, message=message, text=text, chat=chat)

    def delete(self, chat: int, message: int) -> None:
        self.do("delete", chat=chat, message=message)

    def press(self, person: int, message: int, button: str, chat: int = 0) -> str:
        """Press the button with this label or data; the id of the press."""
        return str(self.do("press", person=person, message=message, button=button, chat=chat))

    def press_state(self, press: str) -> dict[str, Any]:
        found: dict[str, Any] = self.do("press_state", press=press)
        return found

    @property
    def unanswered(self) -> list[str]:
        """The presses that nobody has answered: their buttons go on spinning."""
        found: list[str] = self.do("unanswered")
        return found

    def react(self, person: int, message: int, emoji: str, chat: int = 0) -> None:
        self.do("react", person=person, message=message, emoji=emoji, chat=chat)

    def block(self, person: int) -> None:
        self.do("block", person=person)

    def unblock(self, person: int) -> None:
        self.do("unblock", person=person)

    def deactivate(self, person: int) -> None:
        self.do("deactivate", person=person)

    def remove_bot(self, chat: int, left: bool = False) -> None:
        self.do("remove_bot", chat=chat, left=left)

    def admit_bot(self, chat: int, admin: bool = False) -> None:
        self.do("admit_bot", chat=chat, admin=admin)

    def migrate(self, chat: int) -> int:
        return int(self.do("migrate", chat=chat))

    def change_chat(self, chat: int, **changes: bool) -> None:
        """Switch `muted`, `deleted` or `reactions` of a group."""
        self.do("change_chat", chat=chat, **changes)

    def close_topic(self, chat: int, thread: int) -> None:
        self.do("close_topic", chat=chat, thread=thread)

    def messages(self, chat: int, thread: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("messages", chat=chat, thread=thread)
        return found

    def seen(self, chat: int, thread: int = 0) -> list[str]:
        """The texts of bots that stand in the chat; of a file its name."""
        found: list[str] = self.do("seen", chat=chat, thread=thread)
        return found

    def actions(self, chat: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("actions", chat=chat)
        return found

    def menu(self, person: int, chat: int = 0, language: str = "") -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.do("menu", person=person, chat=chat, language=language)
        return found

    def redeliver(self, count: int = 1, same_ids: bool = False, backwards: bool = False) -> int:
        """Bring the last updates once more: copies under new ids, or, unless it has confirmed them, the same."""
        return int(self.do("redeliver", count=count, same_ids=same_ids, backwards=backwards))

    def pending(self, bot: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("pending", bot=bot)
        return found

    def push(self, kind: str, content: Mapping[str, Any], chat: int = 0) -> int:
        return int(self.do("push", kind=kind, content=content, chat=chat))

    def revoke(self, token: str = "") -> None:
        """The token is worth nothing from now on."""
        self.do("revoke", token=token or self.token)

    def attempts(self, token: str = "") -> list[dict[str, Any]]:
        """The deliveries to a webhook: update, chat, at, status (0: nobody answered)."""
        found: list[dict[str, Any]] = self.do("attempts", token=token or self.token)
        return found

    def set_rates(self, **changes: Rate | float | None) -> None:
        """Other limits: chat, group, account (None: none), penalty_seconds."""
        whole = {
            name: {part: getattr(rate, part) for part in Rate.__slots__} if isinstance(rate, Rate) else rate
            for name, rate in changes.items()
        }
        self.do("rates", **whole)


class TelegramLab(TelegramControl, ChatServer):
    """The server on a thread, with one bot; more are added. `hook_pause`: seconds before a webhook is tried again."""

    def __init__(
        self,
        *,
        rates: TelegramRates | None = None,
        privacy: bool = True,
        hook_pause: float = 1.0,
        loopback_hooks: bool = True,
        port: int = 0,
    ) -> None:
        self.service = TelegramService(rates, hook_pause, loopback_hooks)
        self.token = self.service.add_bot(BOT, privacy=privacy)
        ChatServer.__init__(self, ChatApp(self.service), "hermes-lab-telegram", port=port)


class TelegramRemote(TelegramControl, ChatRemote):
    """Steers a server in another process."""

    def __init__(self, address: str, token: str) -> None:
        ChatRemote.__init__(self, address)
        self.token = token


def serve(port: int = 0) -> None:
    """Serve until SIGINT or SIGTERM, with a person in a private chat; prints what one needs to know."""
    service = TelegramService()
    token = service.add_bot(BOT)
    person = service.people.add_person("Ann", "ann")
    listener = open_listener("127.0.0.1", port)
    address = describe_address(listener)
    app = ChatApp(service)
    lines = (
        f"hermes lab telegram: {address}/bot (Ctrl-C ends it)",
        f"token: {token}",
        f"person: {person}",
        f'say: curl -s {address}/lab/say -d \'{{"person": {person}, "text": "Hello!"}}\'',
        f"see: curl -s {address}/lab/seen -d '{{\"chat\": {person}}}'",
        f"judgement: curl -s {address}/lab/complaints -d '{{}}'",
    )
    serve_in_foreground(app, listener, "\n".join(lines), app.leave)
