"""Telegram behind its server: finds the bot and the method of a call, performs it, and writes answers and errors."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hermes_lab.chats.chat_app import GRACE, ChatAsk, ChatReply
from hermes_lab.chats.forms import BadForm, Form, read_form
from hermes_lab.chats.rates import ACCOUNT, Rate, Share, whole_seconds
from hermes_lab.chats.record import ChatCall, ChatClock, ChatRecord
from hermes_lab.chats.telegram import bot_methods, media, sending
from hermes_lab.chats.telegram.api_values import (
    FIELDS,
    LENGTH,
    MOST_UPLOAD,
    TOKEN,
    UNKNOWN_METHOD,
    ApiError,
    Parameters,
)
from hermes_lab.chats.telegram.calling import Calling, Method
from hermes_lab.chats.telegram.parameter_names import find_unknown
from hermes_lab.chats.telegram.people import People
from hermes_lab.chats.telegram.updates import UpdateQueue
from hermes_lab.chats.telegram.webhooks import Webhook
from hermes_lab.chats.telegram.world import BotAccount, World
from hermes_lab.connection import JSON, Connection

#: Methods that wait, or that need more than the world; they are performed here.
_OWN = ("getUpdates", "setWebhook", "deleteWebhook", "getWebhookInfo")
_METHODS: Mapping[str, Method] = {**sending.METHODS, **media.METHODS, **bot_methods.METHODS}
_NAMES: Mapping[str, str] = {name.lower(): name for name in (*_METHODS, *_OWN)}
#: Methods that no limit and no penalty is for, and those that count as messages.
_FREE = frozenset(name for name in _NAMES.values() if name.startswith("get")) | {"setWebhook", "deleteWebhook"}
_MESSAGES = frozenset(name for name in _METHODS if name.startswith(("send", "edit"))) - {"sendChatAction"}
_NOT_INLINE = frozenset({"setWebhook", "deleteWebhook", "close", "logOut"})
_USUAL_TEXTS: Mapping[int, str] = {
    500: "Internal Server Error: restart",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
#: A bot whose token was revoked may look again after this many seconds.
REVOKED_PAUSE = 10.0
DOWNLOAD = "downloadFile"  # what the record calls the fetching of a file
_ROOM_FOR_FORM = 1_000_000


CHAT_RATE = Rate(1, 1.0, burst=3)
GROUP_RATE = Rate(20, 60.0)
ACCOUNT_RATE = Rate(30, 1.0, burst=30, slack=3)


@dataclass(frozen=True, slots=True)
class TelegramRates:
    """The documented limits, with room for what waits on its way here; None: no limit."""

    chat: Rate | None = CHAT_RATE
    group: Rate | None = GROUP_RATE
    account: Rate | None = ACCOUNT_RATE
    penalty_seconds: float = 3.0  # at least so long does a client wait that sent too much


class TelegramService:
    def __init__(
        self, rates: TelegramRates | None = None, hook_pause: float = 1.0, loopback_hooks: bool = True
    ) -> None:
        self.record = ChatRecord(ChatClock())
        self.world = World(self.record.clock)
        self.rates = rates or TelegramRates()
        self.queues: dict[int, UpdateQueue] = {}
        self.webhooks: dict[int, Webhook] = {}
        self._hooks = (hook_pause, loopback_hooks)
        self.people = People(self.world, self.queues)
        self.verbs: Mapping[str, Callable[..., Any]] = {
            **self.people.verbs,
            "add_bot": self.add_bot,
            "revoke": self._revoke,
            "rates": self._set_rates,
            "attempts": lambda token: [asdict(attempt) for attempt in self._webhook(token).attempts],
        }

    def add_bot(self, username: str, token: str = "", privacy: bool = True) -> str:
        """Another bot; its token."""
        bot = self.world.add_bot(username, token)
        bot.privacy = privacy
        self.queues[bot.id] = UpdateQueue(self.record.clock)
        pause, loopback = self._hooks

        async def perform_inline(asked: Mapping[str, Any]) -> None:
            await self._perform_inline(bot, asked)

        self.webhooks[bot.id] = Webhook(self.queues[bot.id], perform_inline, loopback, pause)
        return bot.token

    def _webhook(self, token: str) -> Webhook:
        return self.webhooks[self.world.bots[token].id]

    def _revoke(self, token: str) -> None:
        bot = self.world.bots[token]
        bot.revoked = True
        self.queues[bot.id].end_poll(ApiError(401, "Unauthorized"))

    def _set_rates(self, **changes: Any) -> None:
        made = {name: Rate(**row) if isinstance(row, Mapping) else row for name, row in changes.items()}
        self.rates = TelegramRates(**{**{n: getattr(self.rates, n) for n in TelegramRates.__slots__}, **made})

    async def leave(self) -> None:
        for webhook in self.webhooks.values():
            await webhook.stop()

    # --- one call

    def accounts(self) -> list[str]:
        return list(self.world.bots)

    def read(self, connection: Connection, body: bytes) -> ChatAsk | ChatReply:
        if connection.path.startswith("/file/bot"):
            return _read_download(connection.path.removeprefix("/file/bot"))
        token, _, name = connection.path.removeprefix("/bot").partition("/")
        if not connection.path.startswith("/bot") or not name:
            return _fail(ApiError(404, "Not Found"))
        method = _NAMES.get(name.lower(), "")
        try:
            form = read_form(connection.query, dict(connection.headers).get("content-type", ""), body)
        except BadForm as problem:
            form = Form({"bad form": str(problem)})
        chat = str(form.values.get("chat_id", ""))
        ask = ChatAsk(token, method or name, chat, form, form.describe())
        if len(body) > MOST_UPLOAD + _ROOM_FOR_FORM:
            form.values["too large"] = str(len(body))
        ask.shares = self._share(method, chat, form)
        ask.penalty_seconds = self.rates.penalty_seconds
        return ask

    def _share(self, method: str, chat: str, form: Form) -> list[Share]:
        """What the call takes of the limits."""
        if not method or method in _FREE:
            return []
        if method not in _MESSAGES:
            return [Share(ACCOUNT), *([Share(chat)] if chat else [])]
        rates, weight = self.rates, _count_messages(form) if method == "sendMediaGroup" else 1
        shares = [Share(ACCOUNT, rates.account, weight), Share(chat, rates.chat, weight)]
        if chat.startswith("-"):
            shares.append(Share(chat, rates.group, weight))
        return shares

    async def perform(self, ask: ChatAsk, call: ChatCall, connection: Connection) -> ChatReply | None:
        try:
            bot = self._find_bot(ask.account, call)
            if ask.method == DOWNLOAD:
                return self._give_file(ask.shown["path"])
            result = await self._call(bot, ask, call, connection)
        except ApiError as error:
            if error.kind:
                self.record.complain(error.kind, f"{ask.method}: {error.text}", call)
            return _fail(error)
        return None if result is None else _write({"ok": True, "result": result})

    def _find_bot(self, token: str, call: ChatCall) -> BotAccount:
        if ":" not in token or token.startswith("0") or "/" in token or len(token) > 80:
            raise ApiError(401, "Unauthorized: invalid token specified")
        bot = self.world.bots.get(token)
        if bot is None:
            raise ApiError(401, "Unauthorized")
        if bot.revoked:
            self._judge_revoked(bot, call)
            raise ApiError(401, "Unauthorized")
        return bot

    def _judge_revoked(self, bot: BotAccount, call: ChatCall) -> None:
        """What was on its way when the first call was refused is nobody's fault."""
        now = self.record.clock.now()
        since = now - bot.told_revoked
        if bot.told_revoked and GRACE < since < REVOKED_PAUSE:
            self.record.complain(TOKEN, f"{call.method} {since:.1f} s after the token was refused.", call)
        if since > GRACE:
            bot.told_revoked = now

    async def _call(self, bot: BotAccount, ask: ChatAsk, call: ChatCall, connection: Connection) -> Any:
        form: Form = ask.parameters
        if "too large" in form.values:
            raise ApiError(413, "Request Entity Too Large", LENGTH)
        if "bad form" in form.values:
            raise ApiError(400, "Bad Request: strings must be encoded in UTF-8", FIELDS)
        queue, webhook, parameters = self.queues[bot.id], self.webhooks[bot.id], Parameters(form)

        def complain(kind: str, text: str) -> None:
            self.record.complain(kind, f"{ask.method}: {text}", call)

        for name in find_unknown(ask.method, form.values):
            complain(FIELDS, f"There is no parameter {name}.")
        match ask.method:
            case "getUpdates":
                return await queue.poll(parameters, connection, complain)
            case "setWebhook":
                return await webhook.set_up(parameters)
            case "deleteWebhook":
                return await webhook.delete(parameters)
            case "getWebhookInfo":
                return webhook.describe()
        method = _METHODS.get(ask.method)
        if method is None:
            raise ApiError(404, "Not Found: method not found", UNKNOWN_METHOD)
        found = method(Calling(self.world, bot, queue, parameters, complain))
        return await found if inspect.isawaitable(found) else found

    async def _perform_inline(self, bot: BotAccount, asked: Mapping[str, Any]) -> None:
        """A method in the answer to a webhook; what comes of it is lost."""
        method = _NAMES.get(str(asked["method"]).lower(), "")
        if not method or method.startswith("get") or method in _NOT_INLINE:
            return
        values = {name: value for name, value in asked.items() if name != "method"}
        call = self.record.note(bot.token, method, str(values.get("chat_id", "")), values)
        try:
            _METHODS[method](
                Calling(self.world, bot, self.queues[bot.id], Parameters(Form(values)), self.record.complain)
            )
            call.status, call.took_effect = 200, True
        except ApiError as error:
            call.status, call.problem = error.status, error.text

    def _give_file(self, path: str) -> ChatReply:
        file = media.find_download(self.world, path)
        if file is None:
            raise ApiError(404, "Not Found")
        return ChatReply(200, file.data, (("content-type", "application/octet-stream"),))

    def refuse(self, seconds: float) -> ChatReply:
        wait = whole_seconds(seconds)
        error = ApiError(429, f"Too Many Requests: retry after {wait}", "", {"retry_after": wait})
        return _fail(error, (*JSON, ("retry-after", str(wait))))

    def fail(self, status: int, text: str) -> ChatReply:
        return _fail(ApiError(status, text or _USUAL_TEXTS.get(status, "Bad Request: lab")))


def _read_download(rest: str) -> ChatAsk:
    token, _, path = rest.partition("/")
    return ChatAsk(token, DOWNLOAD, "", Form(), {"path": path})


def _count_messages(form: Form) -> int:
    """How many messages an album is; what is no album is told later."""
    try:
        pieces = Parameters(form).json("media", list, "media")
    except ApiError:
        return 1
    return max(1, len(pieces or ()))


def _fail(error: ApiError, headers: tuple[tuple[str, str], ...] = tuple(JSON)) -> ChatReply:
    said: dict[str, Any] = {"ok": False, "error_code": error.status, "description": error.text}
    if error.parameters:
        said["parameters"] = error.parameters
    return ChatReply(error.status, json.dumps(said).encode(), headers, error.text)


def _write(value: Any) -> ChatReply:
    return ChatReply(200, json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
