"""What people do: each of it is told to the webhook."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from hermes_lab.chats.whatsapp.hook_calls import HookCaller
from hermes_lab.chats.whatsapp.media_store import MediaStore
from hermes_lab.chats.whatsapp.number_world import NumberWorld, WhatsAppMessage, WhatsAppPerson
from hermes_lab.values import LabProblem

_USUAL_TYPES: Mapping[str, str] = {
    "image": "image/jpeg",
    "sticker": "image/webp",
    "audio": "audio/ogg; codecs=opus",
    "video": "video/mp4",
    "document": "application/octet-stream",
}


class WhatsAppPeople:
    def __init__(self, world: NumberWorld, media: MediaStore, hooks: HookCaller) -> None:
        self._world = world
        self._media = media
        self._hooks = hooks
        self.verbs: Mapping[str, Callable[..., Any]] = {
            "add_person": world.add_person,
            "say": self.say,
            "send": self.send,
            "post": self.post,
            "press": self.press,
            "change_number": self.change_number,
            "read_all": self.read_all,
            "block": lambda person, gone=True: setattr(world.find(person), "gone", gone),
            "seen": lambda person: list(world.seen(person)),
            "messages": lambda person: [message.describe() for message in world.find(person).messages],
            "typing": lambda person: world.find(person).typing,
            "user_id": lambda person: world.find(person).user_id,
        }

    def say(self, person: str, text: str, reply_to: str = "", forwarded: bool = False) -> str:
        context = self._make_context(reply_to, forwarded)
        return self._tell(person, "text", {"body": text}, text, context)

    def send(
        self, person: str, kind: str, data: str, name: str = "", caption: str = "", voice: bool = False, mime: str = ""
    ) -> str:
        """Send a file; the id of the message."""
        stored = self._media.add(name, mime or _USUAL_TYPES[kind], base64.b64decode(data))
        content: dict[str, Any] = {"id": stored.id, "mime_type": stored.mime, "sha256": stored.describe()["sha256"]}
        content |= {"caption": caption} if caption else {}
        content |= {"filename": name} if kind == "document" else {}
        content |= {"voice": voice} if kind == "audio" else {}
        return self._tell(person, kind, content, caption)

    def post(self, person: str, kind: str, content: Any, context: Mapping[str, Any] | None = None) -> str:
        """A message of another kind, as a location, by its own fields."""
        return self._tell(person, kind, content, "", dict(context or {}))

    def press(self, person: str, label: str, message: str = "") -> str:
        """Choose an answer of a message of ours, by its title or its id; without one, of the newest that has any."""
        asked = [one for one in self._world.find(person).messages if one.ours and one.kind == "interactive"]
        found = next((one for one in reversed(asked) if message in ("", one.id)), None)
        if found is None:
            raise LabProblem("There is nothing to choose from.")
        interactive = found.body["interactive"]
        form = "button_reply" if interactive["type"] == "button" else "list_reply"
        choice = next((one for one in _list_choices(interactive) if label in (one["title"], one["id"])), None)
        if choice is None:
            raise LabProblem(f"There is no choice {label!r}.")
        content = {"type": form, form: choice}
        return self._tell(person, "interactive", content, choice["title"], self._make_context(found.id, False))

    def change_number(self, person: str, new: str) -> None:
        one = self._world.find(person)
        body = f"User {one.name} changed from {person} to {new}"
        system = {"body": body, "type": "user_changed_number", "wa_id": new, "previous_user_id": one.user_id}
        message = {**self._envelope(one, self._world.make_id(one)), "type": "system", "system": system}
        del self._world.people[person]
        one.number, one.user_id = new, f"{one.user_id}9"
        self._world.people[new] = one
        self._hooks.bring(person, self._change({"messages": [message]}))

    def read_all(self, person: str) -> None:
        """They look at the chat."""
        one = self._world.find(person)
        for message in one.messages:
            if message.ours and not message.read:
                message.read = True
                self.tell_status(one, message, "read")

    def tell_status(
        self, person: WhatsAppPerson, message: WhatsAppMessage, state: str, error: dict[str, Any] | None = None
    ) -> None:
        status: dict[str, Any] = {"id": message.id, "status": state, "timestamp": str(int(self._world.clock.date()))}
        status |= {"recipient_user_id": person.user_id} | ({} if person.hidden else {"recipient_id": person.number})
        if data := message.body.get("biz_opaque_callback_data"):
            status["biz_opaque_callback_data"] = data
        if error:
            status["errors"] = [error]
        self._hooks.bring(f"{person.number} {state}", self._change({"statuses": [status]}))

    def _tell(self, person: str, kind: str, content: Any, text: str, context: Mapping[str, Any] | None = None) -> str:
        one = self._world.find(person)
        one.said_at = self._world.clock.date()
        id = self._world.make_id(one)
        message = {**self._envelope(one, id), "type": kind, kind: content}
        if context:
            message["context"] = dict(context)
        one.messages.append(WhatsAppMessage(id, False, kind, text, one.said_at, message))
        contact = {"profile": {"name": one.name}, "user_id": one.user_id}
        contact |= {} if one.hidden else {"wa_id": one.number}
        self._hooks.bring(person, self._change({"contacts": [contact], "messages": [message]}))
        return id

    def _envelope(self, person: WhatsAppPerson, id: str) -> dict[str, Any]:
        shown = {} if person.hidden else {"from": person.number}
        return {**shown, "from_user_id": person.user_id, "id": id, "timestamp": str(int(self._world.clock.date()))}

    def _change(self, value: dict[str, Any]) -> dict[str, Any]:
        metadata = {"display_phone_number": self._world.display, "phone_number_id": self._world.number}
        return {"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": metadata, **value}}

    def _make_context(self, reply_to: str, forwarded: bool) -> dict[str, Any]:
        context: dict[str, Any] = {"forwarded": True} if forwarded else {}
        return context | ({"from": self._world.display, "id": reply_to} if reply_to else {})


def _list_choices(interactive: Mapping[str, Any]) -> list[dict[str, Any]]:
    action = interactive["action"]
    if interactive["type"] == "button":
        return [button["reply"] for button in action["buttons"]]
    return [row for section in action["sections"] for row in section["rows"]]
