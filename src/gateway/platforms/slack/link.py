"""The line to Slack: the SDK's client for calls, and the same pool of connections for files and sockets. What comes
back is raw JSON, or a `SlackTrouble` without a token in it."""

import asyncio
import logging
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from gateway.platforms.slack.budgets import TIERS, CallBudget
from gateway.platforms.slack.refusals import (
    BAD_APP_TOKEN_FIX,
    BAD_TOKEN_FIX,
    SlackTrouble,
    SlackTroubleKind,
    hide_tokens,
    read_error,
)
from gateway.platforms.slack.wire_out import SlackCall
from hermes_base.errors import ConfigProblem

SLACK = "https://slack.com/api/"
CONNECT_SECONDS, CALL_SECONDS = 5.0, 15.0
CLOSE_SECONDS = 1.0  # for the last words on a socket
FILE_SECONDS = 300.0  # for the bytes of a file, either way
CONNECTIONS = 64
CHUNK = 262_144
MOST_FRAME = 4_194_304
#: Below this level it writes the bodies of calls, which hold what people said.
logging.getLogger("slack_sdk").setLevel(logging.CRITICAL)
_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)


@dataclass(frozen=True, slots=True)
class SlackKeys:
    """The secrets of an account, and where they are good."""

    token: str
    app_token: str = ""
    base_url: str = SLACK

    @property
    def all(self) -> tuple[str, ...]:
        return self.token, self.app_token


class SlackLink:
    """One account's line. Threads: the event loop's only."""

    def __init__(self, keys: SlackKeys, context: ssl.SSLContext) -> None:
        self._keys = keys
        self._closed_until: dict[str, float] = {}  # by method: when a penalty ends
        self._budgets: dict[str, CallBudget] = {}
        # Proxies are found by the environment, as everywhere; the SDK's own look knows no exceptions from them.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=context),
            timeout=aiohttp.ClientTimeout(total=CALL_SECONDS, connect=CONNECT_SECONDS),
            trust_env=True,
        )
        self._web, self._app = (self._make_client(token) for token in (keys.token, keys.app_token))

    def _make_client(self, token: str) -> AsyncWebClient:
        """Without its own repetitions: a message that was taken would be there twice."""
        client = AsyncWebClient(token, self._keys.base_url, session=self._session, retry_handlers=[])
        client.proxy = None
        client.ssl = True  # type: ignore[assignment] # as the pool of connections has it
        return client

    async def close(self) -> None:
        await self._session.close()

    async def call(self, call: SlackCall, *, as_app: bool = False) -> dict[str, Any]:
        """The answer to a call; one beyond the method's tier is not made, and a penalty says for how long."""
        return (await self.ask(call, as_app=as_app))[0]

    async def call_patiently(self, call: SlackCall) -> dict[str, Any]:
        """The same for those who can wait until there is room, and leave some to those who cannot. Nothing is put aside
        for whoever waits: one who gives up takes nothing with them."""
        if call.method in TIERS:
            budget = self._find_budget(call.method)
            while (wait := budget.find_wait(time.monotonic(), patient=True)) > 0:  # noqa: ASYNC110 - time makes room
                await asyncio.sleep(wait)
        return await self.call(call)

    async def ask(self, call: SlackCall, *, as_app: bool = False) -> tuple[dict[str, Any], Mapping[str, str]]:
        """The answer to a call, and its headers with names in small letters."""
        client = self._app if as_app else self._web
        params = dict(call.params)
        self._take_room(call.method)
        try:
            answer = await client.api_call(
                call.method, params=params if call.form else None, json=None if call.form else params
            )
        except SlackApiError as error:
            trouble = _read_refusal(error)
            if trouble.kind is SlackTroubleKind.PENALTY:
                self._closed_until[call.method] = time.monotonic() + trouble.seconds
            raise trouble from None
        except (aiohttp.ClientError, SlackClientError, OSError, TimeoutError, ValueError) as error:
            raise self._describe(error) from None
        if not isinstance(answer.data, dict):
            raise SlackTrouble(SlackTroubleKind.UNSURE, "an answer that is no JSON")
        return answer.data, {str(name).lower(): str(value) for name, value in answer.headers.items()}

    def _take_room(self, method: str) -> None:
        """C8: nothing is sent during a penalty, which is one of the method, nor beyond its tier."""
        now = time.monotonic()
        wait = self._closed_until.get(method, 0.0) - now
        if method in TIERS:
            wait = max(wait, self._find_budget(method).find_wait(now))
        if wait > 0:
            raise SlackTrouble(SlackTroubleKind.PENALTY, "ratelimited", seconds=wait)
        if method in TIERS:
            self._find_budget(method).take()

    def _find_budget(self, method: str) -> CallBudget:
        return self._budgets.setdefault(method, CallBudget(TIERS[method]))

    def has_room(self, method: str, reserve: float) -> bool:
        """Whether a call may be made that could as well be left out; so many are kept for the others."""
        return self._find_budget(method).count_left(time.monotonic()) >= 1.0 + reserve

    # --- files

    async def upload(self, url: str, path: Path) -> None:
        """The bytes of a file to the address that Slack has named for it."""
        timeout = aiohttp.ClientTimeout(total=FILE_SECONDS, connect=CONNECT_SECONDS)
        file = await asyncio.to_thread(path.open, "rb")
        try:
            headers = {"Content-Type": "application/octet-stream"}
            async with self._session.post(url, data=file, headers=headers, timeout=timeout) as answer:
                if answer.status != 200:
                    raise SlackTrouble(SlackTroubleKind.UNSENT, f"the file was not taken ({answer.status})")
        except (aiohttp.ClientError, TimeoutError) as error:  # a file is seen only when it is shared
            raise SlackTrouble(SlackTroubleKind.UNSENT, self._name_error(error)) from None
        finally:
            await asyncio.to_thread(file.close)

    async def fetch(self, file_id: str, path: Path) -> None:
        """The bytes of a file that somebody sent, to a path."""
        if not re.fullmatch(r"[A-Z0-9]+", file_id):
            raise read_error("file_not_found")
        found = (await self.call(SlackCall("files.info", {"file": file_id}, form=True))).get("file")
        file = found if isinstance(found, dict) else {}
        url = str(file.get("url_private_download") or file.get("url_private") or "")
        if not may_see_token(url, self._keys.base_url):
            raise read_error("file_not_found")
        timeout = aiohttp.ClientTimeout(total=FILE_SECONDS, connect=CONNECT_SECONDS)
        headers = {"Authorization": f"Bearer {self._keys.token}"}
        try:
            async with self._session.get(url, headers=headers, timeout=timeout, allow_redirects=False) as answer:
                if answer.status in (404, 410):
                    raise read_error("file_not_found")
                is_page = answer.content_type == "text/html" and file.get("mimetype") != "text/html"
                if answer.status in (401, 403) or (answer.status == 200 and is_page):  # a page to log in
                    raise read_error("missing_scope", needed="files:read")
                if answer.status != 200:
                    raise SlackTrouble(SlackTroubleKind.UNSURE, f"status {answer.status}")
                await _write(answer.content, path)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._describe(error) from None

    # --- sockets

    async def open_socket(self) -> aiohttp.ClientWebSocketResponse:
        """A line on which Slack tells what happens. Each address that it names is good for one."""
        url = str((await self.call(SlackCall("apps.connections.open", {}, form=True), as_app=True)).get("url") or "")
        timeout = aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await self._session.ws_connect(
                    url, autoping=False, max_msg_size=MOST_FRAME, timeout=timeout, proxy=find_proxy(url)
                )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise SlackTrouble(SlackTroubleKind.UNSENT, self._name_error(error)) from None

    # --- troubles

    def _describe(self, error: Exception) -> SlackTrouble:
        unsent = isinstance(error, _UNSENT)
        return SlackTrouble(SlackTroubleKind.UNSENT if unsent else SlackTroubleKind.UNSURE, self._name_error(error))

    def _name_error(self, error: Exception) -> str:
        """Addresses of sockets and uploads are secrets, too: of an error its reason is told, not where it was."""
        reason = getattr(error, "os_error", error)
        text = getattr(reason, "strerror", "") or type(error).__name__
        return hide_tokens(str(text), self._keys.all).rstrip(".")


def may_see_token(url: str, base_url: str) -> bool:
    """Whether the token may be shown there: to Slack, or to the server that the settings name."""
    there, api = urlsplit(url), urlsplit(base_url)
    if (there.scheme, there.netloc) == (api.scheme, api.netloc):
        return True
    host = there.hostname or ""
    return there.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com"))


def find_proxy(url: str) -> str | None:
    """The proxy that the environment names for a socket: that of the same calls without one."""
    parts = urlsplit(url)
    if proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get("https" if parts.scheme == "wss" else "http")


async def _write(content: aiohttp.StreamReader, path: Path) -> None:
    file = await asyncio.to_thread(path.open, "wb")
    try:
        async for chunk in content.iter_chunked(CHUNK):
            await asyncio.to_thread(file.write, chunk)
    finally:
        await asyncio.to_thread(file.close)


def _read_refusal(error: SlackApiError) -> SlackTrouble:
    answer = error.response
    status, data = getattr(answer, "status_code", 0), getattr(answer, "data", None)
    said = data if isinstance(data, dict) else {}
    asked = str(getattr(answer, "headers", {}).get("Retry-After", ""))
    seconds = float(asked) if asked.isdecimal() else 0.0
    if status == 429:
        return read_error("ratelimited", seconds)
    word = str(said.get("error") or "")
    if status >= 500 or not word:
        return SlackTrouble(SlackTroubleKind.UNSURE, word or f"status {status}")
    return read_error(word, seconds, str(said.get("needed") or ""))


def read_keys(settings: Mapping[str, Any], *, needs_app: bool) -> SlackKeys:
    """The tokens as they were set; ConfigProblem for what is none."""
    token, app_token = (str(settings.get(name) or "").strip() for name in ("token", "app_token"))
    if not re.fullmatch(r"xoxb-[A-Za-z0-9-]+", token):
        what = "That is no token of a Slack bot: one begins with xoxb-." if token else "Slack has no bot token."
        raise ConfigProblem(what, fix=BAD_TOKEN_FIX)
    if needs_app and not re.fullmatch(r"xapp-[A-Za-z0-9-]+", app_token):
        what = "That is no token for Socket Mode: one begins with xapp-."
        raise ConfigProblem(what if app_token else "Socket Mode needs the app's token.", fix=BAD_APP_TOKEN_FIX)
    base = str(settings.get("base_url") or SLACK)
    return SlackKeys(token, app_token if needs_app else "", base.rstrip("/") + "/")


async def open_link(keys: SlackKeys) -> SlackLink:
    """A line to Slack. Reading the certificates is no work for the event loop."""
    return SlackLink(keys, await asyncio.to_thread(ssl.create_default_context))
