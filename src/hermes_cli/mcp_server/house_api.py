"""The API of the running gateway, for one caller: what a key may see and do is decided there, and nowhere else."""

import asyncio
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from gateway.http.access import read_token
from gateway.service.admin.key_admin import digest_of
from hermes_base.errors import HermesError
from hermes_base.store_place import find_place, has_store
from hermes_cli import config
from hermes_cli.chat.local_client import connect
from hermes_cli.cmds.web_cmd import find_address
from hermes_state.people_store import QuestionRow
from hermes_state.sql.store_sql import Store

CALL_SECONDS = 30.0
ANSWER_SECONDS = 10.0
_NOT_JSON = "The gateway answered something that is not understood."


@dataclass(frozen=True, slots=True)
class ProgramCaller:
    """Who calls: an empty key is whoever started the server on stdio, and so the owner of the home."""

    key: str = field(default="", repr=False)
    may_approve: bool = False


class HouseApi:
    """Calls the gateway that runs now; HermesError with its words when it refuses, or when there is none."""

    def __init__(self, home: Path) -> None:
        self._home = home

    # --- who calls

    def find_caller(self, key: str) -> ProgramCaller | None:
        """The caller with this key; None: it does not hold."""
        if not key:
            return ProgramCaller()
        digest, place = digest_of(key), find_place(self._home)
        if not digest or not has_store(place):
            return None
        with closing(Store.open_readonly(place)) as store:
            row = store.keys.find(digest)
        if row is None:
            return None
        scoped = not row.person and row.id in config.load_last_good().approvals.keys
        return ProgramCaller(key, scoped)

    # --- calls

    async def get(self, caller: ProgramCaller, path: str, **query: Any) -> dict[str, Any]:
        wanted = {name: value for name, value in query.items() if value not in (None, "")}
        return await self._call(caller, "GET", path, params=wanted)

    async def post(self, caller: ProgramCaller, path: str, **body: Any) -> dict[str, Any]:
        return await self._call(caller, "POST", path, json=body)

    async def _call(self, caller: ProgramCaller, method: str, path: str, **sent: Any) -> dict[str, Any]:
        address, token = await asyncio.to_thread(self._find_gateway)
        secret = caller.key or token
        if not secret:
            raise HermesError(
                "The page of this gateway is not on this machine's own address, so its token does not hold.",
                kept="Nothing was sent.",
                fix="Give the server a key: make one with `hermes api-keys create`, and set it as HERMES_API_KEY.",
            )
        try:
            async with httpx2.AsyncClient(base_url=address, timeout=CALL_SECONDS, trust_env=False) as client:
                answer = await client.request(method, path, headers={"authorization": f"Bearer {secret}"}, **sent)
                told = answer.json()
        except (httpx2.HTTPError, ValueError) as problem:
            fix = "`hermes status` says how it is; ask again."
            raise HermesError("The gateway did not answer.", kept="What it took is kept.", fix=fix) from problem
        if not isinstance(told, dict):
            raise HermesError(_NOT_JSON)
        if answer.is_error:
            raise HermesError(str((told.get("error") or {}).get("message") or _NOT_JSON))
        return told

    def _find_gateway(self) -> tuple[str, str]:
        """Its address, and the token of its page where that holds."""
        address, _, token = find_address(self._home).partition("?token=")
        return address, token and read_token(self._home)

    # --- questions

    async def find_questions(self, conversation: str) -> list[QuestionRow]:
        """What is open in a conversation that the caller may see."""

        def read() -> list[QuestionRow]:
            with closing(Store.open_readonly(find_place(self._home))) as store:
                return list(store.people.open_questions(conversation))

        return await asyncio.to_thread(read)

    async def answer(self, question: str, choice: str) -> bool:
        """As the owner of the home; False: it is not open any more."""

        def ask() -> bool:
            connection = connect(self._home)
            if connection is None:
                return False
            with closing(connection):
                sent = {"question": question, "text": choice}
                return bool(connection.call("/web/answer", sent, ANSWER_SECONDS).get("ok"))

        return await asyncio.to_thread(ask)
