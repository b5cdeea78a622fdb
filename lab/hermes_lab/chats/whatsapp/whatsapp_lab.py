"""WhatsApp for tests and for trying by hand: `WhatsAppLab` is a server on a thread, `WhatsAppRemote` steers another."""

import base64
from collections.abc import Mapping
from typing import Any

from hermes_lab.chats.chat_app import ChatApp
from hermes_lab.chats.chat_server import ChatControl, ChatRemote, ChatServer
from hermes_lab.chats.whatsapp.service import APP_SECRET, FIRST_TOKEN, NUMBER, WhatsAppRates, WhatsAppService
from hermes_lab.hosting import describe_address, open_listener, serve_in_foreground


class WhatsAppControl(ChatControl):
    """What people do and see, in words with types. A person is named by their number."""

    token = FIRST_TOKEN
    number = NUMBER
    app_secret = APP_SECRET

    def set_hook(self, url: str, verify_token: str) -> int:
        """Name the webhook; 200 when it knew the token, and everything is brought there from now on."""
        return int(self.do("set_hook", url=url, verify_token=verify_token))

    def add_person(self, name: str, number: str = "", wrote: bool = True, hidden: bool = False) -> str:
        """Somebody who wrote just now (else: never), and shows their number (else: only an id)."""
        return str(self.do("add_person", name=name, number=number, wrote=wrote, hidden=hidden))

    def say(self, person: str, text: str, reply_to: str = "", forwarded: bool = False) -> str:
        return str(self.do("say", person=person, text=text, reply_to=reply_to, forwarded=forwarded))

    def send(self, person: str, kind: str, data: bytes, name: str = "", **more: Any) -> str:
        """Send a file; the id of the message. More: caption, voice, mime."""
        content = base64.b64encode(data).decode()
        return str(self.do("send", person=person, kind=kind, data=content, name=name, **more))

    def post(self, person: str, kind: str, content: Any, context: Mapping[str, Any] | None = None) -> str:
        return str(self.do("post", person=person, kind=kind, content=content, context=context))

    def press(self, person: str, label: str, message: str = "") -> str:
        return str(self.do("press", person=person, label=label, message=message))

    def change_number(self, person: str, new: str) -> None:
        self.do("change_number", person=person, new=new)

    def read_all(self, person: str) -> None:
        self.do("read_all", person=person)

    def block(self, person: str, gone: bool = True) -> None:
        """Nothing can be brought to them."""
        self.do("block", person=person, gone=gone)

    def seen(self, person: str) -> list[str]:
        """The texts of ours that stand in the chat; of a file its name."""
        found: list[str] = self.do("seen", person=person)
        return found

    def messages(self, person: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("messages", person=person)
        return found

    def typing(self, person: str) -> int:
        return int(self.do("typing", person=person))

    def user_id(self, person: str) -> str:
        return str(self.do("user_id", person=person))

    def redeliver(self, count: int = 1, backwards: bool = False) -> int:
        """Bring what people said last once more, byte for byte."""
        return int(self.do("redeliver", count=count, backwards=backwards))

    def gather(self) -> None:
        """Bring nothing, until `bring_gathered` brings all of it in one request."""
        self.do("gather")

    def bring_gathered(self, backwards: bool = False) -> int:
        return int(self.do("bring_gathered", backwards=backwards))

    def push(self, change: Mapping[str, Any]) -> None:
        """Something of your own making."""
        self.do("push", change=change)

    def forge(self, body: str, signature: str) -> int:
        """Post something with a signature that is not the app's; the status."""
        return int(self.do("forge", body=body, signature=signature))

    def attempts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("attempts")
        return found

    def pending(self) -> int:
        """How many requests to the webhook were not taken yet."""
        return int(self.do("pending"))

    def revoke(self) -> None:
        self.do("revoke")

    def fail_late(self, late: bool = True) -> None:
        """What cannot be brought is taken first, and a status tells that it failed."""
        self.do("fail_late", late=late)


class WhatsAppLab(WhatsAppControl, ChatServer):
    """The server on a thread. `hook_pause`: seconds before a webhook is tried again."""

    def __init__(self, *, rates: WhatsAppRates | None = None, hook_pause: float = 1.0, port: int = 0) -> None:
        self.service = WhatsAppService(rates, hook_pause)
        ChatServer.__init__(self, ChatApp(self.service), "hermes-lab-whatsapp", port=port)


class WhatsAppRemote(WhatsAppControl, ChatRemote):
    """Steers a server in another process."""


def serve(port: int = 0) -> None:
    """Serve until SIGINT or SIGTERM, with a person in it; prints what one needs to know."""
    service = WhatsAppService()
    person = service.world.add_person("Ann")
    listener = open_listener("127.0.0.1", port)
    address = describe_address(listener)
    app = ChatApp(service)
    hook = "http://127.0.0.1:PORT/hooks/whatsapp/whatsapp"
    lines = (
        f"hermes lab whatsapp: {address} (Ctrl-C ends it)",
        f"phone_number_id: {NUMBER}",
        f"token: {FIRST_TOKEN}",
        f"app secret: {APP_SECRET}",
        f"person: {person}",
        f'webhook: curl -s {address}/lab/set_hook -d \'{{"url": "{hook}", "verify_token": "WORD"}}\'',
        f'say: curl -s {address}/lab/say -d \'{{"person": "{person}", "text": "Hello!"}}\'',
        f'see: curl -s {address}/lab/seen -d \'{{"person": "{person}"}}\'',
        f"judgement: curl -s {address}/lab/complaints -d '{{}}'",
    )
    serve_in_foreground(app, listener, "\n".join(lines), app.leave)
