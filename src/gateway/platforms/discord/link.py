"""The line to Discord: the SDK's HTTP client and its websocket, one try for each call, and raw JSON. Nothing of the SDK
is changed for others: the address of an account is its own."""

import asyncio
import contextlib
import json
import logging
import math
import time
import urllib.request
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import yarl

from gateway.platforms.call_errors import describe_call_error
from gateway.platforms.discord.line_rules import LineCut, LineEnd, as_cut
from gateway.platforms.discord.refusals import (
    BAD_TOKEN_FIX,
    DiscordTrouble,
    Trouble,
    doubt_token,
    hide_token,
    judge_answer,
)
from gateway.platforms.discord.wire_out import GET_GATEWAY, GET_ME, DiscordCall
from hermes_base.errors import ConfigProblem

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)  # for voices, which we do not use
    import discord
    from discord.gateway import DiscordWebSocket, ReconnectWebSocket
    from discord.http import HTTPClient, Ratelimit, Route

CALL_SECONDS, FILE_SECONDS = 15.0, 90.0
OPEN_SECONDS = 30.0  # for the websocket and the greeting
CLOSE_SECONDS = 3.0
IDENTIFY_SECONDS = 5.0  # Discord takes one presentation in this time
SILENT_SECONDS = 60.0  # a line on which nothing comes for so long is dead; a heartbeat comes each 41 s
#: Below this level it writes what people said, and addresses that hold secrets.
logging.getLogger("discord").setLevel(logging.CRITICAL)

Hear = Callable[[str, Any], None]
#: What comes out of the SDK, and of what it stands on; each is told in our own words.
SDK_ERRORS = (
    DiscordTrouble,
    discord.DiscordException,
    ReconnectWebSocket,
    aiohttp.ClientError,
    OSError,  # a timeout is one
    RuntimeError,
    LookupError,
    ValueError,
)
_CALL_ERRORS = (*SDK_ERRORS, TypeError, AttributeError)  # the SDK stumbles over answers that are none of Discord's
_PAGE_SIGNS = 200  # so much of an error's text is told


@dataclass(frozen=True, slots=True)
class SessionMark:
    """Where a session is taken up again."""

    session: str
    sequence: int
    gateway: yarl.URL


class _ToldLimit(Ratelimit):
    """The limit of one kind of call in one channel, as Discord tells it. The SDK would wait for its end by itself; here
    whoever comes too early is told to come again."""

    async def __aenter__(self) -> Self:
        self._last_request = self._loop.time()  # one that is not used for long is forgotten
        left = (self.expires or 0.0) - self._last_request
        if self.remaining <= 0 and left > 0:
            raise DiscordTrouble(Trouble.PENALTY, "the limit is used up", seconds=left)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace


class _OneTryHTTP(HTTPClient):
    """Each call is made once, and to this account's address."""

    def __init__(self, base_url: str) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(_stop_at_refusal)
        proxy = find_proxy(base_url or Route.BASE)
        super().__init__(asyncio.get_running_loop(), proxy=proxy, http_trace=trace)
        self._base_url = base_url

    def get_ratelimit(self, key: str) -> Ratelimit:
        if key not in self._buckets:
            self._try_clear_expired_ratelimits()
            self._buckets[key] = _ToldLimit(None)
        return self._buckets[key]

    async def request(self, route: Route, **more: Any) -> Any:
        if self._base_url:
            route.url = self._base_url + route.url.removeprefix(Route.BASE)
        return await super().request(route, **more)


async def _stop_at_refusal(session: Any, context: Any, asked: aiohttp.TraceRequestEndParams) -> None:
    """Before the SDK would sleep and try again."""
    del session, context
    response = asked.response
    if response.status != 429 and response.status < 500:
        return
    headers = response.headers
    response.close()
    if response.status != 429:
        raise DiscordTrouble(Trouble.UNSURE, f"its server failed with {response.status}")
    whole = headers.get("X-RateLimit-Global", "").lower() == "true" or "Via" not in headers
    seconds = _read_seconds(headers.get("Retry-After") or headers.get("X-RateLimit-Reset-After"))
    raise DiscordTrouble(Trouble.PENALTY, "too many calls", seconds=seconds, whole_account=whole)


def _read_seconds(text: str | None) -> float:
    try:
        return max(float(text or 1.0), 0.1)
    except ValueError:
        return 1.0


class _RawClient(discord.Client):
    """What the SDK's websocket asks for; nobody logs in with it."""

    identified_at = -math.inf  # when we last presented ourselves

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """The SDK would wait here, on a line that may break meanwhile."""
        del shard_id, initial
        self.identified_at = time.monotonic()


class DiscordLink:
    """One token's line. Threads: the event loop's only."""

    def __init__(self, token: str, base_url: str, intents: discord.Intents, hear: Hear, kinds: tuple[str, ...]) -> None:
        """`hear` is told of events of these kinds."""
        self._token = token
        self._http = _OneTryHTTP(base_url.rstrip("/"))
        self._client = _RawClient(
            intents=intents, max_messages=None, chunk_guilds_at_startup=False, heartbeat_timeout=SILENT_SECONDS
        )
        self._client.http = self._http
        # The SDK reads events into objects of its own there, and stumbles over odd ones.
        state = self._client._connection
        state.parsers = {kind: _tell(hear, kind) for kind in kinds}
        state._update_references = self._note_socket  # type: ignore[method-assign]
        self._opened: DiscordWebSocket | None = None  # also one that has not said hello yet

    async def login(self) -> Mapping[str, Any]:
        """Who we are."""
        await self._client._async_setup_hook()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return dict(await self._http.static_login(self._token))
        except discord.LoginFailure:
            self._http.token = self._token  # the SDK has forgotten it, and it is asked for once more
        except _CALL_ERRORS as error:
            raise self._describe_trouble(error) from None
        found = await self.call(GET_ME)
        if not isinstance(found, dict):
            raise DiscordTrouble(Trouble.UNSURE, "it did not say who we are")
        return found

    async def close(self) -> None:
        await self.close_socket(1000)
        await self._http.close()

    # --- calls

    async def call(self, call: DiscordCall, *, data: bytes = b"", name: str = "") -> Any:
        """The result of a call. `data` and `name` are of the file that goes along."""
        more: dict[str, Any] = {"timeout": aiohttp.ClientTimeout(total=FILE_SECONDS if name else CALL_SECONDS)}
        if call.query:
            more["params"] = dict(call.query)
        if name:
            payload = {"name": "payload_json", "value": json.dumps(call.body)}
            file = {"name": "files[0]", "value": data, "filename": name, "content_type": "application/octet-stream"}
            more["form"] = [payload, file]
        elif call.body is not None:
            more["json"] = call.body
        try:
            return await self._http.request(Route(call.method, call.path, **call.parts), **more)
        except _CALL_ERRORS as error:
            trouble = self._describe_trouble(error)
        if trouble.kind is Trouble.TOKEN and not await self._is_token_refused():
            trouble = doubt_token(trouble)
        raise trouble

    async def _is_token_refused(self) -> bool:
        """A 401 counts when Discord does not want to say who we are, either: a single one may be anybody's."""
        try:
            timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
            await self._http.request(Route(GET_ME.method, GET_ME.path), timeout=timeout)
        except _CALL_ERRORS as error:
            return self._describe_trouble(error).kind is Trouble.TOKEN
        return False

    async def fetch(self, url: str) -> bytes:
        """The bytes of a file that somebody sent. Where files are, Discord gives no codes."""
        try:
            async with asyncio.timeout(FILE_SECONDS):
                return await self._http.get_from_cdn(url)
        except discord.NotFound:
            raise DiscordTrouble(Trouble.MISSING, "the file is not there") from None
        except SDK_ERRORS as error:
            raise self._describe_trouble(error) from None

    def _describe_trouble(self, error: Exception) -> DiscordTrouble:
        """The context of an SDK's error may hold the token: whoever raises this leaves it behind."""
        if isinstance(error, DiscordTrouble):
            return error
        if not isinstance(error, discord.HTTPException):
            unsent = isinstance(error, aiohttp.ClientConnectorError)
            what = describe_call_error(error, error.host if isinstance(error, aiohttp.ClientConnectorError) else "")
            return DiscordTrouble(Trouble.UNSENT if unsent else Trouble.UNSURE, what)
        said = " ".join(hide_token(str(error.text), self._token).split())[:_PAGE_SIGNS].rstrip(".")
        return judge_answer(error.status, error.code, said)

    # --- the websocket

    async def open_socket(self, mark: SessionMark | None) -> None:
        """Open the websocket and present ourselves, or take a session up again. LineCut when that fails."""
        if mark is None:
            await asyncio.sleep(self._client.identified_at + IDENTIFY_SECONDS - time.monotonic())
        try:
            gateway = mark.gateway if mark else await self._find_gateway()
            resume: dict[str, Any] = (
                {"session": mark.session, "sequence": mark.sequence, "resume": True} if mark else {}
            )
            async with asyncio.timeout(OPEN_SECONDS):
                await DiscordWebSocket.from_client(self._client, gateway=gateway, compress=False, **resume)
        except DiscordTrouble as trouble:
            raise as_cut(trouble) from None
        except SDK_ERRORS as error:
            raise self._describe_end(error) from None

    async def is_reached(self) -> bool:
        """Whether Discord answers, wherever the host of our session is."""
        try:
            await self._find_gateway()
        except SDK_ERRORS as error:
            return isinstance(error, DiscordTrouble) and error.kind is Trouble.TOKEN
        return True

    async def listen(self) -> None:
        """Wait for one thing that comes; LineCut at the end of the line."""
        if self._opened is None:
            raise LineCut(LineEnd.LOST, "the line is closed")
        try:
            async with asyncio.timeout(SILENT_SECONDS + CLOSE_SECONDS):  # a dead line is not even closed in time
                await self._opened.poll_event()
        except SDK_ERRORS as error:
            raise self._describe_end(error) from None

    def mark(self) -> SessionMark | None:
        """Where the session of the line is; None: none has begun."""
        socket = self._opened
        if socket is None or socket.session_id is None or socket.sequence is None:
            return None
        return SessionMark(socket.session_id, socket.sequence, socket.gateway)

    async def close_socket(self, code: int = 4000) -> None:
        """With 1000 the session ends; with 4000 it can be taken up again."""
        socket, self._opened = self._opened, None
        if socket is not None:
            with contextlib.suppress(*SDK_ERRORS):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await socket.close(code)

    def _note_socket(self, ws: DiscordWebSocket) -> None:
        self._opened = ws

    async def _find_gateway(self) -> yarl.URL:
        found = await self.call(GET_GATEWAY)
        if not isinstance(found, dict):
            raise DiscordTrouble(Trouble.UNSURE, "it did not say where its gateway is")
        limit = found.get("session_start_limit") or {}
        if limit.get("remaining") == 0:
            seconds = float(limit.get("reset_after") or 0) / 1000
            raise DiscordTrouble(Trouble.PENALTY, "too many sessions were begun today", seconds=seconds)
        return yarl.URL(str(found["url"]))

    def _describe_end(self, error: Exception) -> LineCut:
        match error:
            case ReconnectWebSocket():
                return LineCut(LineEnd.RESUME if error.resume else LineEnd.INVALID, "Discord asked to connect anew")
            case discord.ConnectionClosed():
                return LineCut(LineEnd.CLOSED, f"closed with {error.code}", code=error.code)
            case DiscordTrouble():
                return as_cut(error)
        return LineCut(LineEnd.LOST, describe_call_error(error))


def find_proxy(url: str) -> str | None:
    """What the environment (`HTTPS_PROXY`, `NO_PROXY`) says of this address."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    return None if urllib.request.proxy_bypass(parts.netloc) else proxies.get(parts.scheme)


def _tell(hear: Hear, kind: str) -> Callable[[Any], None]:
    return lambda data: hear(kind, data)


def choose_intents(message_content: bool) -> discord.Intents:
    """What Discord is asked for: servers, messages, and what they say."""
    return discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=message_content)


def read_token(token: object) -> str:
    """The token as it was set; ConfigProblem for what is none."""
    text = str(token or "").strip().removeprefix("Bot ").strip()
    if not text:
        raise ConfigProblem("Discord has no bot token.", fix=BAD_TOKEN_FIX)
    if text.count(".") != 2 or not text.isascii() or any(sign.isspace() for sign in text):
        raise ConfigProblem(
            "That is no token of a Discord bot: one has three parts with dots between.", fix=BAD_TOKEN_FIX
        )
    return text
