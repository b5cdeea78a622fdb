"""What people do: each of it becomes an envelope that waits for the daemon."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from hermes_lab.chats.signal.signal_world import SignalMessage, SignalWorld
from hermes_lab.values import LabProblem

PLACE = "\ufffc"  # stands in a text where somebody is mentioned
ME = "me"  # our own account, as tests name it


class SignalPeople:
    def __init__(self, world: SignalWorld, changed: Callable[[], None]) -> None:
        """`changed`: something waits for the daemon."""
        self._world = world
        self._changed = changed
        self.verbs: Mapping[str, Callable[..., Any]] = {
            "own_id": lambda: world.own,
            "add_person": world.add_person,
            "add_group": world.add_group,
            "say": self.say,
            "edit": self.edit,
            "send": self.send,
            "post": self.post,
            "say_elsewhere": self.say_elsewhere,
            "fail_decryption": self.fail_decryption,
            "bring": self.bring,
            "redeliver": self.redeliver,
            "seen": lambda chat: list(world.list_seen(chat)),
            "messages": lambda chat: [one.describe(one.author == world.own) for one in world.chats.get(chat, [])],
            "typing": lambda chat: world.typing.get(chat, 0),
            "waiting": lambda: len(world.queue),
            "change_person": self.change_person,
            "change_group": self.change_group,
        }

    def say(
        self,
        person: str,
        text: str,
        chat: str = "",
        mentions: tuple[str, ...] | list[str] = (),
        quote: int = 0,
    ) -> int:
        """The timestamp. Each U+FFFC of the text is one of the mentions, in order; `me` is our own account."""
        more: dict[str, Any] = {}
        if mentions:
            more["mentions"] = self._make_mentions(text, list(mentions))
        if quote:
            more["quote"] = self._make_quote(chat or person, quote)
        return self.post(person, {"message": text, **more}, chat)

    def edit(self, person: str, timestamp: int, text: str, chat: str = "") -> int:
        """Change what somebody said. As clients do, it names the edit before it."""
        message = self._world.find_sent(chat or person, timestamp)
        if message is None or message.author != person:
            raise LabProblem("There is no such message of theirs.")
        now, target = self._world.make_time(), message.latest
        message.edits.append(now)
        message.text = text
        data = {**self._make_data(now, chat), "message": text}
        self._bring(person, now, {"editMessage": {"targetSentTimestamp": target, "dataMessage": data}})
        return now

    def send(
        self, person: str, data: str, name: str | None = None, mime: str = "application/octet-stream", **more: Any
    ) -> int:
        """A file, in base64. More: caption, chat, id (as the daemon calls it)."""
        chat, content = str(more.get("chat") or ""), base64.b64decode(data)
        id = str(more.get("id") or f"{len(self._world.files):06d}file.bin")
        self._world.files[id] = (chat or person, content)
        attachment = {"contentType": mime, "filename": name, "id": id, "size": len(content), "caption": None}
        return self.post(person, {"message": more.get("caption"), "attachments": [attachment]}, chat)

    def post(self, person: str, data: Mapping[str, Any], chat: str = "") -> int:
        """A message by its own fields."""
        now = self._world.make_time()
        self._world.find_person(person)
        text = data.get("message")
        self._world.add_message(chat or person, SignalMessage(now, person, text if isinstance(text, str) else ""))
        self._bring(person, now, {"dataMessage": {**self._make_data(now, chat), **data}})
        return now

    def say_elsewhere(self, text: str, to: str) -> int:
        """Somebody writes on another device of our own account."""
        now = self._world.make_time()
        sent = {**self._make_data(now, ""), "message": text, "destinationUuid": to, "destination": to}
        envelope = self._make_envelope(self._world.own, self._world.number, "", now)
        self._world.bring({"envelope": {**envelope, "syncMessage": {"sentMessage": sent}}})
        self._changed()
        return now

    def fail_decryption(self, person: str, kind: str) -> None:
        one = self._world.find_person(person)
        envelope = self._make_envelope(one.id, one.number, one.name, self._world.make_time())
        self._world.bring({"envelope": envelope, "exception": {"message": "secret words", "type": kind}}, again=False)
        self._changed()

    def bring(self, body: dict[str, Any]) -> None:
        """Something of your own making."""
        self._world.bring(body, again=False)
        self._changed()

    def redeliver(self, count: int = 1, backwards: bool = False) -> int:
        """What people said last comes once more."""
        last = self._world.brought[-count:]
        for envelope in reversed(last) if backwards else last:
            self._world.bring(envelope, again=False)
        self._changed()
        return len(last)

    def change_person(self, person: str, **changes: Any) -> None:
        """Set `number`, `is_gone`, `is_distrusted` or `is_cut_off`."""
        for name, value in changes.items():
            setattr(self._world.find_person(person), name, value)

    def change_group(self, group: str, **changes: Any) -> None:
        """Set `is_left`, `is_for_admins` or `members`."""
        for name, value in changes.items():
            setattr(self._world.find_group(group), name, value)

    # --- envelopes

    def tell_receipt(self, person: str, timestamp: int) -> None:
        """Their telephone has our message."""
        now = self._world.make_time()
        receipt = {"when": now, "isDelivery": True, "isRead": False, "isViewed": False, "timestamps": [timestamp]}
        one = self._world.find_person(person)
        envelope = self._make_envelope(one.id, one.number, one.name, now)
        self._world.bring({"envelope": {**envelope, "receiptMessage": receipt}}, again=False)
        self._changed()

    def _bring(self, person: str, now: int, content: Mapping[str, Any]) -> None:
        one = self._world.find_person(person)
        self._world.bring({"envelope": {**self._make_envelope(one.id, one.number, one.name, now), **content}})
        self._changed()

    def _make_envelope(self, id: str, number: str | None, name: str, now: int) -> dict[str, Any]:
        return {
            "source": number or id,
            "sourceNumber": number,
            "sourceUuid": id,
            "sourceName": name,
            "sourceDevice": 1,
            "timestamp": now,
            "serverReceivedTimestamp": now + 1,
            "serverDeliveredTimestamp": now + 2,
        }

    def _make_data(self, now: int, chat: str) -> dict[str, Any]:
        data: dict[str, Any] = {"timestamp": now, "message": None, "expiresInSeconds": 0, "viewOnce": False}
        if chat in self._world.groups:
            group = {"groupId": chat, "groupName": self._world.groups[chat].name, "revision": 1, "type": "DELIVER"}
            data["groupInfo"] = group
        return data

    def _make_mentions(self, text: str, who: list[str]) -> list[dict[str, Any]]:
        units = text.encode("utf-16-le")
        places = [at // 2 for at in range(0, len(units), 2) if units[at : at + 2] == PLACE.encode("utf-16-le")]
        made = []
        for start, name in zip(places, who, strict=True):
            is_own = name == ME
            number = self._world.number if is_own else self._world.find_person(name).number
            id = self._world.own if is_own else name
            made.append({"name": number or id, "number": number, "uuid": id, "start": start, "length": 1})
        return made

    def _make_quote(self, chat: str, timestamp: int) -> dict[str, Any]:
        quoted = self._world.find_sent(chat, timestamp)
        if quoted is None:
            raise LabProblem("There is no such message.")
        number = self._world.number if quoted.author == self._world.own else None
        author = {"author": number or quoted.author, "authorNumber": number, "authorUuid": quoted.author}
        return {"id": timestamp, **author, "text": quoted.text, "attachments": []}
