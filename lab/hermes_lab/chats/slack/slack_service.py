"""Slack behind its server: finds the app and the method of a call, judges and performs it, and attends to sockets."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from hermes_lab.chats.chat_app import GRACE, ChatAsk, ChatReply
from hermes_lab.chats.forms import BadForm, Form, read_form
from hermes_lab.chats.rates import ACCOUNT, Rate, Share, whole_seconds
from hermes_lab.chats.record import ChatCall, ChatClock, ChatRecord
from hermes_lab.chats.slack.bringing import ACK_SECONDS, RETRY_PAUSES, Bringing
from hermes_lab.chats.slack.judging import FIELDS
from hermes_lab.chats.slack.methods import METHODS, MethodAsking, SlackMethod
from hermes_lab.chats.slack.slack_people import SlackPeople
from hermes_lab.chats.slack.slack_world import SlackError, SlackWorld
from hermes_lab.connection import JSON, Connection

POST, UPLOAD, DOWNLOAD = "chat.postMessage", "upload", "download"
TOKEN = "token"  # a kind of complaint
REVOKED_PAUSE = 10.0  # an app whose token was revoked may look again after this many seconds
#: One message a second for a channel, with a little more at once.
CHANNEL_RATE = Rate(1, 1.0, burst=3)
_PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>"


class SlackService:
    def __init__(self, ack_seconds: float = ACK_SECONDS, pauses: tuple[float, ...] = RETRY_PAUSES) -> None:
        self.record = ChatRecord(ChatClock())
        self.world = SlackWorld(self.record.clock)
        self.bringing = Bringing(self.world, self.record, ack_seconds, pauses)
        self.people = SlackPeople(self.world, self.bringing)
        self._told_revoked = 0.0
        self.verbs: Mapping[str, Callable[..., Any]] = {
            **self.people.verbs,
            "revoke": self._revoke,
            "set_scopes": self._set_scopes,
            "set_hook": self._set_hook,
            "socket_mode": self._set_socket_mode,
            "disconnect": self.bringing.disconnect,
            "freeze": self.bringing.freeze,
            "redeliver": self.bringing.redeliver,
            "pending": self.bringing.count_open,
            "sockets": lambda: len(self.bringing.sockets),
            "attempts": lambda: list(self.bringing.attempts),
            "request": self._request,
            "push": lambda event: self.bringing.tell_event(event),
        }

    def be_at(self, address: str) -> None:
        """Where this server is reached: addresses of files and sockets begin with it."""
        self.people.address = address

    async def leave(self) -> None:
        await self.bringing.leave()

    # --- what a test changes

    def _revoke(self) -> None:
        self.world.app.revoked = True

    def _set_scopes(self, scopes: list[str]) -> None:
        self.world.app.scopes = tuple(scopes)

    def _set_hook(self, url: str) -> None:
        self.bringing.hook = url

    def _set_socket_mode(self, on: bool) -> None:
        self.world.app.socket_mode = on
        if not on:
            self.bringing.disconnect("link_disabled")

    async def _request(
        self, body: str, kind: str = "application/json", secret: str = "", age: float = 0.0
    ) -> dict[str, Any]:
        """A request by hand, signed with another secret or at another time."""
        status, answer = await self.bringing.post(body.encode(), kind, {}, secret, age)
        return {"status": status, "body": answer.decode()}

    # --- one call

    def accounts(self) -> list[str]:
        return [self.world.app.token]

    def read(self, connection: Connection, body: bytes) -> ChatAsk | ChatReply:
        headers = dict(connection.headers)
        token = headers.get("authorization", "").removeprefix("Bearer ")
        top, _, rest = connection.path.lstrip("/").partition("/")
        if top in (UPLOAD, "files"):
            name = UPLOAD if top == UPLOAD else DOWNLOAD
            return ChatAsk(token, name, "", body, {"file": rest.partition("/")[0], "size": len(body)})
        if top != "api" or connection.method != "POST":
            return ChatReply(404, b"{}", problem="no such page")
        try:
            form = read_form(connection.query, headers.get("content-type", ""), body)
        except BadForm as problem:
            form = Form({"bad form": str(problem)})
        if "application/json" in headers.get("content-type", "") and rest in METHODS and not METHODS[rest].takes_json:
            form.values["as json"] = True
        chat = str(form.values.get("channel") or form.values.get("channel_id") or "")
        ask = ChatAsk(token, rest, chat, form, form.describe())
        method = METHODS.get(rest)
        if method is not None:
            ask.shares = self._share(rest, method, chat)
        return ask

    def _share(self, name: str, method: SlackMethod, chat: str) -> list[Share]:
        """Each method has a tier of its own; a message counts for its channel, too, whose penalties are for edits as
        well."""
        shares = [Share(ACCOUNT), Share(name, Rate(method.per_minute, 60.0))]
        own = chat and name.startswith("chat.")
        return [*shares, *([Share(chat, CHANNEL_RATE if name == POST else None)] if own else [])]

    async def perform(self, ask: ChatAsk, call: ChatCall, connection: Connection) -> ChatReply | None:
        if ask.method == UPLOAD:
            return self._take_file(ask.shown["file"], ask.parameters)
        if ask.method == DOWNLOAD:
            return self._give_file(ask)
        try:
            method = METHODS.get(ask.method)
            if method is None:
                raise SlackError("unknown_method", FIELDS)
            self._judge_caller(ask, method, call)
            answer = method.perform(self._ask(ask, method, call))
        except SlackError as error:
            if error.kind:
                self.record.complain(error.kind, f"{ask.method}: {error.error}", call)
            said = {"ok": False, "error": error.error, **error.more}
            return ChatReply(200, json.dumps(said).encode(), self._headers(), error.error)
        del connection
        return ChatReply(200, json.dumps({"ok": True, **answer}).encode(), self._headers())

    def _headers(self) -> tuple[tuple[str, str], ...]:
        return *JSON, ("x-oauth-scopes", ",".join(self.world.app.scopes))

    def _ask(self, ask: ChatAsk, method: SlackMethod, call: ChatCall) -> MethodAsking:
        form: Form = ask.parameters
        if "bad form" in form.values or "as json" in form.values:
            raise SlackError("invalid_form_data", FIELDS)

        def complain(kind: str, text: str) -> None:
            self.record.complain(kind, f"{ask.method}: {text}", call)

        for name in sorted(set(form.values) - method.takes):
            complain(FIELDS, f"There is no parameter {name}.")
        address = self.people.address
        return MethodAsking(self.world, form.values, address, complain, lambda: self.bringing.make_url(address))

    def _judge_caller(self, ask: ChatAsk, method: SlackMethod, call: ChatCall) -> None:
        app = self.world.app
        if not ask.account:
            raise SlackError("not_authed")
        if ask.account not in (app.token, app.app_token):
            raise SlackError("invalid_auth")
        if app.revoked:
            self._judge_revoked(call)
            raise SlackError("token_revoked")
        if (ask.account == app.app_token) != method.of_app:
            raise SlackError("not_allowed_token_type", TOKEN)
        if method.scope and method.scope not in app.scopes:
            raise SlackError("missing_scope", needed=method.scope, provided=",".join(app.scopes))

    def _judge_revoked(self, call: ChatCall) -> None:
        """What was on its way when the first call was refused is nobody's fault."""
        now = self.record.clock.now()
        since = now - self._told_revoked
        if self._told_revoked and GRACE < since < REVOKED_PAUSE and call.method == POST:
            self.record.complain(TOKEN, f"{call.method} {since:.1f} s after the token was refused.", call)
        if since > GRACE:
            self._told_revoked = now

    # --- files

    def _take_file(self, id: str, data: bytes) -> ChatReply:
        file = self.world.files.get(id)
        if file is None or len(data) != file.size:
            self.record.complain(FIELDS, "What is uploaded is not what was announced.")
            return ChatReply(400, b"length", (("content-type", "text/plain"),), "length")
        file.data = data
        return ChatReply(200, f"OK - {len(data)}".encode(), (("content-type", "text/plain"),))

    def _give_file(self, ask: ChatAsk) -> ChatReply:
        """Whoever shows no good token gets the page to log in, as if all were well."""
        app, file = self.world.app, self.world.files.get(ask.shown["file"])
        if ask.account != app.token or app.revoked or "files:read" not in app.scopes:
            return ChatReply(200, _PAGE, (("content-type", "text/html; charset=utf-8"),), "a page")
        if file is None or file.data is None:
            return ChatReply(404, b"", problem="no file")
        return ChatReply(200, file.data, (("content-type", file.mimetype),))

    # --- what goes wrong

    def refuse(self, seconds: float) -> ChatReply:
        wait = str(whole_seconds(seconds))
        said = json.dumps({"ok": False, "error": "ratelimited"}).encode()
        return ChatReply(429, said, (*JSON, ("retry-after", wait)), "ratelimited")

    def fail(self, status: int, text: str) -> ChatReply:
        """With status 200 the text is Slack's word for an error."""
        error = text or "internal_error"
        return ChatReply(status, json.dumps({"ok": False, "error": error}).encode(), self._headers(), error)
