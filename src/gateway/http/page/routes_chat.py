"""Calls of the page on one conversation: what is said, stopped and answered, and the live view of it."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.answers import Refusal
from gateway.http.page.live import stream_view
from gateway.http.page.parts import Parts
from gateway.http.page.views import Json
from gateway.http.reading import NAME, SmallText, served, wrong_field
from gateway.http.streams import stream
from gateway.platforms.face import Refused
from hermes_base import command_table
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.query_values import OWNER_ID

MOST_TEXT = 1_000_000
MOST_FILES = 20
MOST_CHECKED = 2_000
MODES = ("", "queue", "steer")
LongText = Annotated[str, Meta(max_length=MOST_TEXT)]


class ChatRoutes:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._checked: OrderedDict[str, None] = OrderedDict()  # conversations that are the caller's

    def list(self) -> Sequence[BaseRoute]:
        return [
            Route("/web/live", served(self.watch), methods=["GET"]),
            Route("/web/say", served(self.say), methods=["POST"]),
            Route("/web/stop", served(self.stop), methods=["POST"]),
            Route("/web/answer", served(self.answer), methods=["POST"]),
        ]

    async def check(self, conversation: str) -> None:
        """NotThere for a conversation of somebody else; whose one is does not change."""
        if conversation in self._checked:
            return
        await self._parts.queries.turns.question(self._parts.caller, conversation)
        self._checked[conversation] = None
        if len(self._checked) > MOST_CHECKED:
            self._checked.popitem(last=False)

    async def watch(self, request: Request, conversation: Annotated[str, Meta(max_length=1_000)] = "") -> Response:
        if request.method != "GET":
            raise Refusal(405, "http", "A stream has no end, so there is no head of it alone.")
        await self.check(conversation)
        return stream(stream_view(self._parts, conversation))

    async def say(
        self,
        request: Request,
        conversation: SmallText,
        id: Annotated[str, Meta(pattern=NAME)],
        text: LongText = "",
        mode: str = "",
        files: Annotated[tuple[str, ...], Meta(max_length=MOST_FILES)] = (),
        seen: SmallText = "",
    ) -> Json:
        del request
        if mode not in MODES:
            raise wrong_field("mode", f"must be one of {MODES}")
        found = await asyncio.to_thread(self._find_files, files)
        if not text.strip() and not found:
            raise wrong_field("text", "must say something, or a file has to come with it")
        await self.check(conversation)
        web = self._parts.web
        inbound = Inbound(
            Address(web.spec.name, web.account, conversation),
            id,
            OWNER_ID,
            # What becomes of it while a turn is under way; commands know by themselves.
            f"/{mode} {text}" if mode and text.strip() and command_table.parse(text) is None else text,
            files=found,
            conversation=conversation,
            seen=seen,
            received=time.time(),
        )
        web.last_seen = time.time()
        taken = await web.core.take(inbound)
        if isinstance(taken, Refused):
            raise self._explain(taken)
        if taken.seq is not None:
            return {"seq": taken.seq}
        before = await self._parts.queries.turns.find_message(inbound.address.account_key, inbound.stem)
        return {"seq": before[0] if before else 0, "again": True}

    def _explain(self, refused: Refused) -> Refusal:
        if refused.closing:
            return Refusal(409, "closing", refused.reason)
        if not self._parts.shelf.has_room():
            return Refusal(507, "disk_full", refused.reason)
        return Refusal(503, "not_taken", refused.reason)

    def _find_files(self, ids: Sequence[str]) -> tuple[FileRef, ...]:
        found = [self._parts.shelf.find_upload(id) for id in ids]
        files = tuple(file for file in found if file is not None)
        if len(files) != len(ids):
            raise wrong_field("files", "must be ids of uploaded files that are still there")
        return files

    async def stop(self, request: Request, conversation: SmallText) -> Json:
        del request
        return {"stopped": await self._parts.queries.turns.stop(self._parts.caller, conversation)}

    async def answer(self, request: Request, question: SmallText, text: LongText) -> Json:
        del request
        return {"ok": await self._parts.queries.turns.answer(self._parts.caller, question, text)}
