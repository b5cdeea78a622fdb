"""Discord behind its server: finds the bot and the call, performs it, and writes answers and errors."""

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from hermes_lab.chats.chat_app import GRACE, ChatAsk, ChatReply
from hermes_lab.chats.chat_socket import ChatSocket
from hermes_lab.chats.discord.discord_people import DiscordPeople
from hermes_lab.chats.discord.discord_values import FIELDS, ROUTE, TOKEN, DiscordError
from hermes_lab.chats.discord.discord_world import DiscordBot, DiscordWorld
from hermes_lab.chats.discord.http_calls import PERFORM, DiscordCalling, find_call
from hermes_lab.chats.discord.sessions import GatewayLine, SessionBook
from hermes_lab.chats.forms import BadForm, Form, read_form
from hermes_lab.chats.rates import ACCOUNT, Rate, Share
from hermes_lab.chats.record import ChatCall, ChatClock, ChatRecord
from hermes_lab.connection import JSON, Connection

REVOKED_PAUSE = 10.0  # a bot whose token was revoked may look again after this many seconds
DOWNLOAD = "download"  # what the record calls the fetching of a file
_FREE = frozenset({"answerInteraction", DOWNLOAD})  # of the limit of the account
_OPEN = frozenset({"answerInteraction"})  # without a token of a bot
_BY_CHANNEL = ("createMessage", "editMessage")
_AGENT = re.compile(r"DiscordBot \(\S+,? \S+\).*")
_USUAL_TEXTS: Mapping[int, str] = {500: "500: Internal Server Error", 502: "502: Bad Gateway", 503: "503: Unavailable"}

CHANNEL_RATE = Rate(5, 5.0)
ACCOUNT_RATE = Rate(50, 1.0)


@dataclass(frozen=True, slots=True)
class DiscordRates:
    """The limits that are known, with room for what waits on its way here; None: no limit."""

    channel: Rate | None = CHANNEL_RATE  # of each of sending and editing
    account: Rate | None = ACCOUNT_RATE


class DiscordService:
    def __init__(self, rates: DiscordRates | None = None) -> None:
        self.record = ChatRecord(ChatClock())
        self.world = DiscordWorld(self.record.clock)
        self.rates = rates or DiscordRates()
        self.book = SessionBook(self.world, self.record)
        self._times: dict[tuple[str, str], deque[float]] = {}  # by kind of call and channel
        self.people = DiscordPeople(self.world, self.book)
        self.verbs: Mapping[str, Callable[..., Any]] = {
            **self.people.verbs,
            "add_bot": self.add_bot,
            "revoke": self._revoke,
            "rates": self._set_rates,
        }

    def add_bot(self, username: str) -> str:
        """Another bot; its token."""
        return self.world.add_bot(username).token

    def _revoke(self, token: str) -> None:
        bot = self.world.bots[token]
        bot.revoked = True
        for session in self.book.sessions.values():
            if session.bot is bot:
                session.ended = True
                if session.line is not None:
                    session.line.close(4004)

    def _set_rates(self, **changes: Any) -> None:
        made = {name: Rate(**row) if isinstance(row, Mapping) else row for name, row in changes.items()}
        self.rates = DiscordRates(**{**{n: getattr(self.rates, n) for n in DiscordRates.__slots__}, **made})

    async def leave(self) -> None:
        """Lines end when their connections are closed."""

    async def converse(self, socket: ChatSocket) -> None:
        await GatewayLine(self.book, socket).run()

    # --- one call

    def accounts(self) -> list[str]:
        return list(self.world.bots)

    def read(self, connection: Connection, body: bytes) -> ChatAsk | ChatReply:
        headers = dict(connection.headers)
        if connection.path.startswith("/attachments/"):
            return ChatAsk("", DOWNLOAD, "", Form(), {"path": connection.path, "query": connection.query})
        name, parts = find_call(connection.method, connection.path)
        parts = {part: unquote(value) for part, value in parts.items()}
        form = _read_body(connection.query, headers.get("content-type", ""), body)
        token = headers.get("authorization", "").removeprefix("Bot ")
        ask = ChatAsk(token, name or f"{connection.method} {connection.path}", parts.get("channel", ""), form, {})
        ask.shown = {**form.describe(), "agent": headers.get("user-agent", ""), "size": len(body), "parts": parts}
        if not headers.get("authorization", "").startswith("Bot "):
            ask.account = ""
        ask.shares = self._share(name, ask.chat)
        return ask

    def _share(self, name: str, channel: str) -> list[Share]:
        """What the call takes of the limits: sending and editing have one each, in each channel."""
        if not name or name in _FREE:
            return []
        shares = [Share(ACCOUNT, self.rates.account)]
        if channel and not name.startswith("get"):  # whoever only looks has limits of their own
            shares.append(Share(channel))
        if name in _BY_CHANNEL:
            shares.append(Share(f"{name} {channel}", self.rates.channel))
        return shares

    async def perform(self, ask: ChatAsk, call: ChatCall, connection: Connection) -> ChatReply | None:
        del connection
        try:
            if ask.method == DOWNLOAD:
                return self._give_file(ask.shown["path"], ask.shown["query"])
            return self._call(ask, call)
        except DiscordError as error:
            if error.kind:
                self.record.complain(error.kind, f"{ask.method}: {error.describe()}", call)
            return _fail(error)

    def _call(self, ask: ChatAsk, call: ChatCall) -> ChatReply:
        if not _AGENT.fullmatch(ask.shown["agent"]):
            self.record.complain(
                FIELDS, f"{ask.method}: the User-Agent is not of the form that Discord asks for.", call
            )
        perform = PERFORM.get(ask.method)
        if perform is None:
            raise DiscordError(404, 0, "404: Not Found", ROUTE)
        bot = self._find_bot(ask, call)
        form: Form = ask.parameters
        if "bad form" in form.values:
            raise DiscordError(400, 50109, "The request body contains invalid JSON.", FIELDS)

        def complain(kind: str, text: str) -> None:
            self.record.complain(kind, f"{ask.method}: {text}", call)

        size, parts = int(ask.shown["size"]), ask.shown["parts"]
        limits = self._describe_limit(ask)
        found = perform(DiscordCalling(self.world, self.book, bot, form, size, parts, complain))
        return ChatReply(204, b"", limits) if found is None else _write(200, found, limits)

    def _describe_limit(self, ask: ChatAsk) -> tuple[tuple[str, str], ...]:
        """What is left of the limit of this kind of call in this channel."""
        rate = self.rates.channel
        if ask.method not in _BY_CHANNEL or rate is None:
            return ()
        now, times = self.record.clock.now(), self._times.setdefault((ask.method, ask.chat), deque())
        while times and times[0] <= now - rate.seconds:
            times.popleft()
        times.append(now)
        return (
            ("x-ratelimit-limit", str(rate.calls)),
            ("x-ratelimit-remaining", str(max(0, rate.calls - len(times)))),
            ("x-ratelimit-reset-after", f"{times[0] + rate.seconds - now:.3f}"),
            ("x-ratelimit-bucket", hashlib.sha256(ask.method.encode()).hexdigest()[:16]),
        )

    def _find_bot(self, ask: ChatAsk, call: ChatCall) -> DiscordBot:
        if ask.method in _OPEN:
            number = ask.shown["parts"]["interaction"]
            known = self.world.interactions.get(number)
            return self.world.find_bot(known.bot) if known else next(iter(self.world.bots.values()))
        bot = self.world.bots.get(ask.account)
        if bot is None or bot.revoked:
            if bot is not None:
                self._judge_revoked(bot, call)
            raise DiscordError(401, 0, "401: Unauthorized")
        return bot

    def _judge_revoked(self, bot: DiscordBot, call: ChatCall) -> None:
        """What was on its way when the first call was refused is nobody's fault."""
        now = self.record.clock.now()
        since = now - bot.told_revoked
        if bot.told_revoked and GRACE < since < REVOKED_PAUSE:
            self.record.complain(TOKEN, f"{call.method} {since:.1f} s after the token was refused.", call)
        if since > GRACE:
            bot.told_revoked = now

    def _give_file(self, path: str, query: str) -> ChatReply:
        parts = path.split("/")
        file = self.world.attachments.get(parts[3]) if len(parts) == 5 else None
        if file is None or self.world.clock.now() > file.expires or f"hm={self.world.sign(file)}" not in query:
            return ChatReply(404, b"This content is no longer available.", (("content-type", "text/plain"),), "gone")
        return ChatReply(200, file.data, (("content-type", file.content_type),))

    def refuse(self, seconds: float) -> ChatReply:
        return _limit(seconds, whole=False)

    def fail(self, status: int, text: str) -> ChatReply:
        if status == 429:
            return _limit(float(text or 1), whole=True)
        code = 50035 if status == 400 else 0
        return _fail(DiscordError(status, code, text or _USUAL_TEXTS.get(status, f"{status}: lab")))


def _limit(seconds: float, whole: bool) -> ChatReply:
    """Too many calls: of one kind in one channel, or of the whole account."""
    wait = max(round(seconds, 3), 0.001)
    scope = "global" if whole else "user"
    headers = [
        *JSON,
        ("retry-after", f"{wait:.3f}"),
        ("x-ratelimit-scope", scope),
        ("x-ratelimit-reset-after", f"{wait:.3f}"),
        ("via", "1.1 google"),
    ]
    if whole:
        headers.append(("x-ratelimit-global", "true"))
    said = {"message": "You are being rate limited.", "retry_after": wait, "global": whole}
    return ChatReply(429, json.dumps(said).encode(), tuple(headers), "rate limited")


def _read_body(query: str, content_type: str, body: bytes) -> Form:
    """A list, as commands are put, stands under `list`."""
    if content_type == "application/json" and body.lstrip()[:1] == b"[":
        try:
            return Form({"list": json.loads(body)})
        except ValueError as problem:
            return Form({"bad form": str(problem)})
    try:
        return read_form(query, content_type, body)
    except BadForm as problem:
        return Form({"bad form": str(problem)})


def _fail(error: DiscordError) -> ChatReply:
    return ChatReply(error.status, json.dumps(error.describe()).encode(), JSON, error.text)


def _write(status: int, value: Any, more: tuple[tuple[str, str], ...]) -> ChatReply:
    return ChatReply(status, json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), (*JSON, *more))
