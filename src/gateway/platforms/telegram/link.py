"""The line to Telegram: the SDK's Bot, with a pool of connections for polling and one for all else. What comes back is
raw JSON, or a `BotTrouble` without the token in it."""

import asyncio
import logging
import os
import re
from pathlib import Path
from typing import Any

from telegram import Bot, InputFile
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    RetryAfter,
    TelegramError,
)
from telegram.request import HTTPXRequest
from telegram.warnings import PTBUserWarning

from gateway.platforms.call_errors import describe_call_error
from gateway.platforms.telegram.refusals import BotTrouble, TroubleKind, fix_token, hide_token
from gateway.platforms.telegram.wire_out import BotCall
from hermes_base.errors import ConfigProblem

TELEGRAM = "https://api.telegram.org"
CONNECT_SECONDS, POOL_SECONDS, WRITE_SECONDS, READ_SECONDS = 5.0, 5.0, 10.0, 10.0
FILE_SECONDS = 60.0  # for the bytes of a file, either way
CONNECTIONS, POLLS = 64, 2
#: Below this level these write the addresses of requests, which hold the token, or what people said.
for _name in ("httpx", "httpcore", "telegram"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

#: The SDK asks for it: times are spans, as they will be in its next version.
os.environ.setdefault("PTB_TIMEDELTA", "true")
#: Failures of the HTTP client before anything was sent.
_UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")


class _RawBot(Bot):
    """Calls are made by the names of their methods, on purpose: the SDK's warning against it is not for us."""

    @classmethod
    def _warn(
        cls, message: str | PTBUserWarning, category: type[Warning] = PTBUserWarning, stacklevel: int = 0
    ) -> None:
        del message, category, stacklevel


class BotLink:
    """One token's line. Threads: the event loop's only."""

    def __init__(self, token: str, base_url: str, fix: str) -> None:
        """`fix`: what helps if the token is refused. Takes its time: on the event loop it is made by `open_link`."""
        self._fix = fix
        root = (base_url or TELEGRAM).rstrip("/").removesuffix("/bot")
        self._token = token
        self._pools = tuple(
            HTTPXRequest(size, READ_SECONDS, WRITE_SECONDS, CONNECT_SECONDS, POOL_SECONDS)
            for size in (CONNECTIONS, POLLS)
        )
        self._bot = _RawBot(
            token, f"{root}/bot", f"{root}/file/bot", request=self._pools[0], get_updates_request=self._pools[1]
        )

    async def close(self) -> None:
        for pool in self._pools:
            await pool.shutdown()

    async def call(self, call: BotCall, *, seconds: float = READ_SECONDS, data: bytes = b"", name: str = "") -> Any:
        """The result of a call. `data` and `name` are of the file that goes along."""
        params = dict(call.params)
        if call.file:
            params[call.file] = InputFile(data, filename=name)
            seconds = FILE_SECONDS
        try:
            return await self._bot.do_api_request(
                call.method, api_kwargs=params, read_timeout=seconds, write_timeout=max(seconds, WRITE_SECONDS)
            )
        except TelegramError as error:
            raise self._describe(error) from None

    async def fetch(self, file_id: str) -> bytes:
        """The bytes of a file that somebody sent."""
        try:
            file = await self._bot.get_file(file_id, read_timeout=READ_SECONDS)
        except TelegramError as error:
            raise self._describe(error) from None
        try:
            return bytes(await file.download_as_bytearray(read_timeout=FILE_SECONDS))
        except InvalidToken:  # here a 404 is said of the file
            raise BotTrouble(TroubleKind.REFUSED, "file is temporarily unavailable") from None
        except TelegramError as error:
            raise self._describe(error) from None

    def _describe(self, error: TelegramError) -> BotTrouble:
        said = str(error).partition(". Parsing the server response")[0]  # what follows is a proxy's page
        text = hide_token(said.rstrip("."), self._token)
        match error:
            case RetryAfter():
                return BotTrouble(TroubleKind.PENALTY, text, seconds=_count_seconds(error))
            case ChatMigrated():
                return BotTrouble(TroubleKind.MOVED, text, moved_to=str(error.new_chat_id))
            case InvalidToken() | EndPointNotFound():
                unknown = "method not found" in str(error.__cause__).lower()
                return BotTrouble(TroubleKind.REFUSED if unknown else TroubleKind.TOKEN, text, fix=self._fix)
        kinds = {Forbidden: TroubleKind.FORBIDDEN, BadRequest: TroubleKind.REFUSED, Conflict: TroubleKind.CONFLICT}
        unsent = type(error.__cause__).__name__ in _UNSENT
        text = describe_call_error(error, "Telegram") if unsent else text
        return BotTrouble(kinds.get(type(error), TroubleKind.UNSENT if unsent else TroubleKind.UNSURE), text)


def _count_seconds(error: RetryAfter) -> float:
    """A number, or a span of time where the environment asks the SDK for one."""
    asked = error.retry_after
    return float(asked) if isinstance(asked, int) else asked.total_seconds()


def read_token(token: object, account: str = "") -> str:
    """The token as it was set for an account; ConfigProblem for what is none."""
    text, fix = str(token or "").strip(), fix_token(account)
    if not text:
        raise ConfigProblem("Telegram has no bot token.", fix=fix)
    if not re.fullmatch(r"[0-9]+:[A-Za-z0-9_-]+", text):
        raise ConfigProblem(
            "That is no token of a Telegram bot: one is a number, a colon, and letters and digits.", fix=fix
        )
    return text


async def open_link(token: str, base_url: str = "", account: str = "") -> BotLink:
    """A line to Telegram. Reading the certificates is no work for the event loop."""
    return await asyncio.to_thread(BotLink, token, base_url, fix_token(account))


def read_upload(path: str) -> bytes:
    return Path(path).read_bytes()
