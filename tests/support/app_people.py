"""People in chat apps, the same way for every app: somebody comes, says something, and sees what stands in their chat.
The other side is the lab's server of the app, or a real one."""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import httpx2
from hook_service import SECRET, ReplyBox, sign
from irc_peer import ACCOUNTS, BOT, IrcPeer, IrcPerson
from irc_peer import PASSWORD as IRC_PASSWORD
from mail_peer import AUTHSERV_ID, MailHouse, read_text
from mail_peer import PASSWORD as MAIL_PASSWORD
from mail_rig import write_mail
from matrix_peer import PASSWORD as MATRIX_PASSWORD
from matrix_peer import MatrixPerson, MatrixServer
from waiting import wait_until
from whatsapp_rig import VERIFY, make_settings
from xmpp_peer import PASSWORD as XMPP_PASSWORD
from xmpp_peer import XmppPerson, XmppServer

from hermes_lab.chats.discord.discord_lab import DiscordLab
from hermes_lab.chats.signal.signal_lab import SignalLab
from hermes_lab.chats.slack.slack_lab import SlackLab
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_lab.chats.whatsapp.whatsapp_lab import WhatsAppLab

LOOK_SECONDS = 0.5  # a homeserver that is asked all the time has none for anybody else
BOX = "hermes@home.test"


class AppPeople(ABC):
    """The people of one app."""

    name: str  # of the platform

    def __init__(self) -> None:
        self.people: list[str] = []

    def come(self, name: str) -> str:
        """Somebody in a chat with us, who is let in; their id."""
        self.people.append(self.add_person(name))
        return self.people[-1]

    @abstractmethod
    def add_person(self, name: str) -> str:
        """Somebody in a chat with us; their id, as `allow` has it."""

    @abstractmethod
    def say(self, person: str, text: str) -> None: ...

    @abstractmethod
    def seen(self, person: str) -> list[str]:
        """What stands in the chat with this person of ours, in order."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """Of the platform, without who is let in."""

    def section(self) -> dict[str, Any]:
        """The platform's section of the settings, with everybody who has come."""
        return {"enabled": True, **self.settings(), "allow": self.people}

    def meet(self, port: int) -> None:
        """The gateway's web server listens there: a service that makes requests is told so."""
        del port


class TelegramPeople(AppPeople):
    name = "telegram"

    def __init__(self, lab: TelegramLab) -> None:
        super().__init__()
        self.lab = lab

    def add_person(self, name: str) -> str:
        return str(self.lab.add_person(name))

    def say(self, person: str, text: str) -> None:
        self.lab.say(int(person), text)

    def seen(self, person: str) -> list[str]:
        return self.lab.seen(int(person))

    def settings(self) -> Mapping[str, Any]:
        return {"token": self.lab.token, "base_url": self.lab.base_url}


class SignalPeople(AppPeople):
    name = "signal"

    def __init__(self, lab: SignalLab) -> None:
        super().__init__()
        self.lab = lab

    def add_person(self, name: str) -> str:
        return self.lab.add_person(name)

    def say(self, person: str, text: str) -> None:
        self.lab.say(person, text)

    def seen(self, person: str) -> list[str]:
        return self.lab.seen(person)

    def settings(self) -> Mapping[str, Any]:
        return {"daemon": f"127.0.0.1:{self.lab.tcp_port}", "number": self.lab.number}


class DiscordPeople(AppPeople):
    name = "discord"

    def __init__(self, lab: DiscordLab) -> None:
        super().__init__()
        self.lab = lab
        self._channels: dict[str, str] = {}

    def add_person(self, name: str) -> str:
        person = self.lab.add_person(name)
        self._channels[person] = self.lab.dm(person)
        return person

    def say(self, person: str, text: str) -> None:
        self.lab.say(person, text)

    def seen(self, person: str) -> list[str]:
        return self.lab.seen(self._channels[person])

    def settings(self) -> Mapping[str, Any]:
        return {"token": self.lab.token, "base_url": self.lab.base_url}


class SlackPeople(AppPeople):
    name = "slack"

    def __init__(self, lab: SlackLab) -> None:
        super().__init__()
        self.lab = lab
        self._channels: dict[str, str] = {}

    def add_person(self, name: str) -> str:
        person = self.lab.add_person(name)
        self._channels[person] = self.lab.dm(person)
        return person

    def say(self, person: str, text: str) -> None:
        self.lab.say(person, text)

    def seen(self, person: str) -> list[str]:
        return self.lab.seen(self._channels[person])

    def settings(self) -> Mapping[str, Any]:
        return {"token": self.lab.token, "app_token": self.lab.app_token, "base_url": self.lab.base_url}


class WhatsAppPeople(AppPeople):
    name = "whatsapp"

    def __init__(self, lab: WhatsAppLab) -> None:
        super().__init__()
        self.lab = lab

    def add_person(self, name: str) -> str:
        return self.lab.add_person(name)

    def say(self, person: str, text: str) -> None:
        self.lab.say(person, text)

    def seen(self, person: str) -> list[str]:
        return [one["text"] for one in self.lab.messages(person) if one["ours"] and not one["failed"]]

    def settings(self) -> Mapping[str, Any]:
        return make_settings(self.lab)

    def meet(self, port: int) -> None:
        url = f"http://127.0.0.1:{port}/hooks/whatsapp/whatsapp"
        wait_until(lambda: self.lab.set_hook(url, VERIFY) == 200, 60)


class _Watched:
    """A person, their room, and what they have seen there: asked for now and then, and only what is new."""

    def __init__(self, person: MatrixPerson, room: str, bot: str) -> None:
        self.person, self.room, self.bot = person, room, bot
        self._lock = threading.Lock()
        self._since = ""
        self._looked = 0.0
        self._shown: dict[str, str] = {}

    def look(self) -> list[str]:
        with self._lock:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                news = self.person.sync(self._since)
                self._since, self._looked = news["next_batch"], time.monotonic()
                told = news.get("rooms", {}).get("join", {}).get(self.room, {}).get("timeline", {})
                assert not (told.get("limited") and self._shown), "more was said than a look shows"
                for event in told.get("events", ()):
                    if event["type"] == "m.room.message" and event["sender"] == self.bot:
                        self._note(event)
            return list(self._shown.values())

    def _note(self, event: dict[str, Any]) -> None:
        related = event["content"].get("m.relates_to", {})
        if related.get("rel_type") == "m.replace":
            self._shown[related["event_id"]] = event["content"]["m.new_content"]["body"]
        else:
            self._shown[event["event_id"]] = event["content"]["body"]


class MatrixPeople(AppPeople):
    name = "matrix"

    def __init__(self, server: MatrixServer, address: str = "") -> None:
        """`address`: where the gateway finds the homeserver; without it where it is."""
        super().__init__()
        self.server = server
        self.address = address or server.address
        self.bot = server.add_person("Hermes")
        self.watched: dict[str, _Watched] = {}

    def add_person(self, name: str) -> str:
        person = self.server.add_person(name)
        self.watched[person.id] = _Watched(person, person.make_room(self.bot.id), self.bot.id)
        return person.id

    def say(self, person: str, text: str) -> None:
        self.watched[person].person.say(self.watched[person].room, text)

    def seen(self, person: str) -> list[str]:
        return self.watched[person].look()

    def settings(self) -> Mapping[str, Any]:
        return {"homeserver": self.address, "user": self.bot.id, "password": MATRIX_PASSWORD}


class XmppPeople(AppPeople):
    name = "xmpp"

    def __init__(self, server: XmppServer, port: int = 0) -> None:
        """`port`: where the gateway finds the server; without it where it is."""
        super().__init__()
        self.server = server
        self.port = port or server.port
        self.bot = server.add_account("hermes")
        self._there: dict[str, XmppPerson] = {}

    def add_person(self, name: str) -> str:
        person = self.server.add_person("person")
        self._there[person.jid] = person
        return person.jid

    def say(self, person: str, text: str) -> None:
        self._there[person].say(self.bot, text)

    def seen(self, person: str) -> list[str]:
        return [one["text"] for one in self._there[person].messages(self.bot)]

    def settings(self) -> Mapping[str, Any]:
        return {"jid": self.bot, "password": XMPP_PASSWORD, "server": f"127.0.0.1:{self.port}", "tls": False}


class MailPeople(AppPeople):
    name = "mail"

    def __init__(self, house: MailHouse) -> None:
        super().__init__()
        self.house = house
        house.make_box(BOX)

    def add_person(self, name: str) -> str:
        return f"{name.lower().replace(' ', '.')}@friends.test"

    def say(self, person: str, text: str) -> None:
        """All of one person in one thread."""
        mail = write_mail(person, BOX, text, References=f"<root-{person}>")
        self.house.post(person, BOX, mail.as_bytes())

    def seen(self, person: str) -> list[str]:
        return [read_text(mail) for mail in self.house.read_sent(person)]

    def settings(self) -> Mapping[str, Any]:
        return {
            "address": BOX,
            "password": MAIL_PASSWORD,
            "imap": f"imap://127.0.0.1:{self.house.imap}",
            "smtp": f"smtp://127.0.0.1:{self.house.smtp}",
            "authserv_id": AUTHSERV_ID,
            "ca_file": self.house.ca_file,
        }


class IrcPeople(AppPeople):
    name = "irc"

    def __init__(self, peer: IrcPeer) -> None:
        super().__init__()
        self.peer = peer
        self._persons: dict[str, IrcPerson] = {}

    def add_person(self, name: str) -> str:
        account = ACCOUNTS[len(self._persons)]
        self._persons[account] = self.peer.person(account, account)
        return account

    def say(self, person: str, text: str) -> None:
        self._persons[person].send(f"PRIVMSG {BOT} :{text}")

    def seen(self, person: str) -> list[str]:
        return self._persons[person].said()

    def settings(self) -> Mapping[str, Any]:
        return {"server": f"127.0.0.1:{self.peer.port}", "tls": False, "nick": BOT, "password": IRC_PASSWORD}


class WebhookPeople(AppPeople):
    """Programs: each is a hook, with an address of its own for the answers."""

    name = "webhook"

    def __init__(self) -> None:
        super().__init__()
        self.boxes: dict[str, ReplyBox] = {}
        self._port = 0

    def add_person(self, name: str) -> str:
        account = name.lower().replace(" ", "-")
        self.boxes[account] = ReplyBox()
        return account

    def say(self, person: str, text: str) -> None:
        body = json.dumps({"text": text}).encode()
        url = f"http://127.0.0.1:{self._port}/hooks/webhook/{person}"
        httpx2.post(url, content=body, headers=sign(body), timeout=60).raise_for_status()

    def seen(self, person: str) -> list[str]:
        return self.boxes[person].texts()

    def settings(self) -> Mapping[str, Any]:
        return {"accounts": {name: {"secret": SECRET, "reply_url": box.url} for name, box in self.boxes.items()}}

    def section(self) -> dict[str, Any]:
        return {"enabled": True, **self.settings()}

    def meet(self, port: int) -> None:
        self._port = port

    def leave(self) -> None:
        for box in self.boxes.values():
            box.close()
