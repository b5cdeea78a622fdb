"""WhatsApp behind its server: finds what is asked for, judges it, performs it, and writes answers and errors."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from hermes_lab.chats.chat_app import GRACE, ChatAsk, ChatReply
from hermes_lab.chats.forms import BadForm, Form, read_form
from hermes_lab.chats.rates import ACCOUNT, Rate, Share
from hermes_lab.chats.record import ChatCall, ChatClock, ChatRecord
from hermes_lab.chats.whatsapp.graph_values import (
    BAD_PARAMETER,
    BAD_TOKEN,
    BAD_VALUE,
    CONTEXT,
    FIELDS,
    METHOD,
    PAIR_LIMIT,
    SOMETHING_WRONG,
    TOKEN,
    UNDELIVERABLE,
    USUAL_CODES,
    VERSION,
    GraphError,
    need,
    refuse_unknown,
)
from hermes_lab.chats.whatsapp.hook_calls import HookCaller
from hermes_lab.chats.whatsapp.judging import MEDIA_KINDS, judge_message
from hermes_lab.chats.whatsapp.media_store import MediaStore
from hermes_lab.chats.whatsapp.number_world import NumberWorld, WhatsAppMessage
from hermes_lab.chats.whatsapp.people import WhatsAppPeople
from hermes_lab.connection import Connection

NUMBER, DISPLAY, ACCOUNT_ID = "106540352242922", "15550783881", "102290129340398"
APP_SECRET, FIRST_TOKEN = "lab0app0secret0", "EAAGlabtoken1"
REVOKED_PAUSE = 10.0  # seconds after which one may look again with a token that was refused
#: What the record calls calls.
SEND, READ, UPLOAD, MEDIA, DOWNLOAD, ABOUT = "send", "read", "upload", "media", "download", "number"
PAIR_RATE = Rate(1, 6.0, burst=45)
NUMBER_RATE = Rate(80, 1.0, slack=5)


@dataclass(frozen=True, slots=True)
class WhatsAppRates:
    """The documented limits, with room for what waits on its way here; None: no limit."""

    pair: Rate | None = PAIR_RATE
    number: Rate | None = NUMBER_RATE


class WhatsAppService:
    def __init__(self, rates: WhatsAppRates | None = None, hook_pause: float = 1.0) -> None:
        self.record = ChatRecord(ChatClock())
        clock = self.record.clock
        self.world = NumberWorld(clock, NUMBER, DISPLAY)
        self.media = MediaStore(clock)
        self.hooks = HookCaller(clock, ACCOUNT_ID, APP_SECRET, hook_pause)
        self.people = WhatsAppPeople(self.world, self.media, self.hooks)
        self.rates = rates or WhatsAppRates()
        self.token = FIRST_TOKEN
        self._told_bad = -REVOKED_PAUSE  # when a token was last refused
        self.verbs: Mapping[str, Callable[..., Any]] = {
            **self.people.verbs,
            "set_hook": self.hooks.set_up,
            "redeliver": lambda count=1, backwards=False: self.hooks.again(count, backwards),
            "gather": self.hooks.gather,
            "bring_gathered": self.hooks.bring_gathered,
            "push": lambda change, lane="pushed": self.hooks.bring(lane, change),
            "forge": lambda body, signature: self.hooks.post(body.encode(), signature),
            "attempts": self.hooks.describe_attempts,
            "pending": self.hooks.count_pending,
            "revoke": self._revoke,
            "fail_late": self._fail_late,
        }
        self._methods: Mapping[str, Callable[[ChatAsk], Any]] = {
            SEND: self._send,
            READ: self._read,
            UPLOAD: lambda ask: {"id": self.media.upload(ask.parameters).id},
            MEDIA: lambda ask: self.media.open_address(ask.shown["id"], ask.shown["root"]),
            ABOUT: self._describe,
        }

    def _revoke(self) -> None:
        """The token is worth nothing from now on."""
        self.token = ""

    def _fail_late(self, late: bool = True) -> None:
        """What cannot be brought is taken, and told to have failed by a status."""
        self.world.late = late

    async def leave(self) -> None:
        await self.hooks.stop()

    # --- one call

    def accounts(self) -> list[str]:
        return [self.token]

    def read(self, connection: Connection, body: bytes) -> ChatAsk | ChatReply:
        headers = dict(connection.headers)
        token = headers.get("authorization", "").removeprefix("Bearer ")
        root = f"http://{headers.get('host', '')}"
        if found := re.fullmatch(r"/attachments/(\d+)", connection.path):
            mark = parse_qs(connection.query).get("ext", [""])[0]
            return ChatAsk(token, DOWNLOAD, "", Form(), {"id": found[1], "mark": mark})
        asked = re.fullmatch(r"/(v\d+\.\d+)/(\d+)(/messages|/media)?", connection.path)
        if asked is None:
            kind = METHOD if re.match(r"/v\d+\.\d+/", connection.path) else VERSION
            self.record.complain(kind, f"There is no {connection.method} {connection.path}.")
            return GraphError(BAD_PARAMETER, "Unknown path components", status=400).reply()
        try:
            form = read_form(connection.query, headers.get("content-type", ""), body)
        except BadForm as problem:
            form = Form({"bad form": str(problem)})
        method = self._name_method(connection.method, asked[2], asked[3] or "", form)
        shown = {**form.describe(), "id": asked[2], "root": root}
        person = self.world.find_recipient(form.values) if method == SEND else None
        chat = person.number if person else ""
        ask = ChatAsk(token, method, chat, form, shown)
        if method == SEND:
            ask.shares = [Share(ACCOUNT, self.rates.number), Share(chat, self.rates.pair)]
        return ask

    def _name_method(self, method: str, id: str, rest: str, form: Form) -> str:
        if method == "POST" and rest == "/messages":
            return READ if "status" in form.values else SEND
        if method == "POST" and rest == "/media":
            return UPLOAD
        if method == "GET" and not rest:
            return ABOUT if id == self.world.number or "fields" in form.values else MEDIA
        return f"{method} {rest}"

    async def perform(self, ask: ChatAsk, call: ChatCall, connection: Connection) -> ChatReply | None:
        del connection
        try:
            self._judge_token(ask, call)
            if ask.method == DOWNLOAD:
                return self._give_file(ask)
            if "bad form" in ask.shown:
                raise GraphError(BAD_PARAMETER, str(ask.shown["bad form"]), FIELDS)
            if ask.method not in self._methods:
                raise GraphError(BAD_PARAMETER, "Unsupported request", METHOD)
            if ask.method not in (MEDIA,) and ask.shown["id"] != self.world.number:
                raise GraphError(BAD_PARAMETER, "Unsupported request. Object does not exist", subcode=33)
            result = self._methods[ask.method](ask)
        except GraphError as error:
            if error.kind:
                self.record.complain(error.kind, f"{ask.method}: {error.details}", call)
            return error.reply()
        return ChatReply(200, json.dumps(result).encode())

    def _judge_token(self, ask: ChatAsk, call: ChatCall) -> None:
        """What was on its way when the first call was refused is nobody's fault."""
        if ask.account == self.token and self.token:
            return
        since = self.record.clock.now() - self._told_bad
        if not self.token and GRACE < since < REVOKED_PAUSE:
            self.record.complain(TOKEN, f"{ask.method} {since:.1f} s after the token was refused.", call)
        if since > GRACE:
            self._told_bad = self.record.clock.now()
        raise GraphError(BAD_TOKEN, "Error validating access token")

    def _give_file(self, ask: ChatAsk) -> ChatReply:
        data = self.media.download(ask.shown["id"], ask.shown["mark"])
        if data is None:
            return ChatReply(404, b"", (("content-type", "text/plain"),), "the address holds no more")
        return ChatReply(200, data, (("content-type", "application/octet-stream"),))

    def _describe(self, ask: ChatAsk) -> dict[str, Any]:
        known = {
            "id": self.world.number,
            "display_phone_number": f"+{self.world.display}",
            "verified_name": "Lab",
            "quality_rating": "GREEN",
        }
        wanted = str(ask.shown.get("fields") or "display_phone_number,verified_name").split(",")
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise GraphError(BAD_PARAMETER, f"Tried accessing nonexisting field ({unknown[0]})", FIELDS)
        return {**{name: known[name] for name in wanted}, "id": self.world.number}

    def _send(self, ask: ChatAsk) -> dict[str, Any]:
        body: dict[str, Any] = ask.parameters.values
        kind = judge_message(body)
        person = self.world.find_recipient(body)
        if person is None:
            raise GraphError(UNDELIVERABLE, "Message undeliverable.")
        context = body.get("context")
        if context is not None:
            replied = need(context, "message_id", str, "context.")
            if replied not in [message.id for message in person.messages]:
                raise GraphError(BAD_VALUE, "context.message_id is not known", CONTEXT)
        file = self.media.find_for(kind, body[kind]["id"]).name if kind in MEDIA_KINDS else ""
        fault = self.world.find_fault(person)
        if fault is not None and not self.world.late:
            raise fault
        text = _find_text(body, kind)
        at = self.world.clock.date()
        message = WhatsAppMessage(
            self.world.make_id(person), True, kind, text, at, body, file, failed=fault is not None
        )
        person.messages.append(message)
        if fault is not None:
            self.people.tell_status(person, message, "failed", fault.describe())
        else:
            for state in ("sent", "delivered"):
                self.people.tell_status(person, message, state)
        contact = {"input": body.get("to") or body.get("recipient"), "wa_id": person.number}
        return {"messaging_product": "whatsapp", "contacts": [contact], "messages": [{"id": message.id}]}

    def _read(self, ask: ChatAsk) -> dict[str, Any]:
        body: dict[str, Any] = ask.parameters.values
        refuse_unknown(body, {"messaging_product", "status", "message_id", "typing_indicator"})
        if need(body, "messaging_product", str) != "whatsapp" or body["status"] != "read":
            raise GraphError(BAD_PARAMETER, "Param status must be read", FIELDS)
        found = self.world.find_message(need(body, "message_id", str))
        if found is None or found[1].ours:
            raise GraphError(BAD_PARAMETER, "message_id is of no message that came in", CONTEXT)
        person, message = found
        message.read = True
        typing = body.get("typing_indicator")
        if typing is not None:
            if typing != {"type": "text"}:
                raise GraphError(BAD_PARAMETER, "typing_indicator.type must be text", FIELDS)
            person.typing += 1
        return {"success": True}

    def refuse(self, seconds: float) -> ChatReply:
        """No time is named: who is told so waits longer each time."""
        del seconds
        return GraphError(PAIR_LIMIT).reply()

    def fail(self, status: int, text: str) -> ChatReply:
        """A text that is a number is the code of the error."""
        if text.isdecimal():
            return GraphError(int(text)).reply()
        return GraphError(USUAL_CODES.get(status, SOMETHING_WRONG), text, status=status).reply()


def _find_text(body: Mapping[str, Any], kind: str) -> str:
    content = body[kind]
    if kind == "interactive":
        return str(content["body"]["text"])
    return str(content.get("body") or content.get("caption") or content.get("emoji") or "")
