"""Calls of the page on one conversation: what is said, stopped and answered, and the live view of it."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.answers import Refusal, answer_json, guarded
from gateway.http.page.live import stream_view
from gateway.http.page.parts import Parts
from gateway.http.reading import NAME, SmallText, read_message, read_query, wrong_field
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


class ViewQuery(Struct):
    conversation: Annotated[str, Meta(max_length=1_000)] = ""


class SaidMessage(Struct):
    conversation: SmallText
    id: Annotated[str, Meta(pattern=NAME)]
    text: LongText = ""
    mode: str = ""
    files: Annotated[list[str], Meta(max_length=MOST_FILES)] = msgspec.field(default_factory=list)
    seen: SmallText = ""


class StopMessage(Struct):
    conversation: SmallText


class AnswerMessage(Struct):
    question: SmallText
    text: LongText


class ChatRoutes:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._checked: OrderedDict[str, None] = OrderedDict()  # conversations that are the caller's

    def list(self) -> Sequence[BaseRoute]:
        return [
            Route("/web/live", guarded(self.watch), methods=["GET"]),
            Route("/web/say", guarded(self.say), methods=["POST"]),
            Route("/web/stop", guarded(self.stop), methods=["POST"]),
            Route("/web/answer", guarded(self.answer), methods=["POST"]),
        ]

    async def check(self, conversation: str) -> None:
        """NotThere for a conversation of somebody else; whose one is does not change."""
        if conversation in self._checked:
            return
        await self._parts.queries.turns.question(self._parts.caller, conversation)
        self._checked[conversation] = None
        if len(self._checked) > MOST_CHECKED:
            self._checked.popitem(last=False)

    async def watch(self, request: Request) -> Response:
        if request.method != "GET":
            raise Refusal(405, "http", "A stream has no end, so there is no head of it alone.")
        conversation = read_query(request, ViewQuery).conversation
        await self.check(conversation)
        return stream(stream_view(self._parts, conversation))

    async def say(self, request: Request) -> Response:
        said = await read_message(request, SaidMessage)
        conversation, text, mode = said.conversation, said.text, said.mode
        if mode not in MODES:
            raise wrong_field("mode", f"must be one of {MODES}")
        files = await asyncio.to_thread(self._find_files, said.files)
        if not text.strip() and not files:
            raise wrong_field("text", "must say something, or a file has to come with it")
        await self.check(conversation)
        web = self._parts.web
        inbound = Inbound(
            Address(web.spec.name, web.account, conversation),
            said.id,
            OWNER_ID,
            # What becomes of it while a turn is under way; commands know by themselves.
            f"/{mode} {text}" if mode and text.strip() and command_table.parse(text) is None else text,
            files=files,
            conversation=conversation,
            seen=said.seen,
            received=time.time(),
        )
        web.last_seen = time.time()
        taken = await web.core.take(inbound)
        if isinstance(taken, Refused):
            raise self._explain(taken)
        if taken.seq is not None:
            return answer_json({"seq": taken.seq})
        found = await self._parts.queries.turns.find_message(inbound.address.account_key, inbound.stem)
        return answer_json({"seq": found[0] if found else 0, "again": True})

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

    async def stop(self, request: Request) -> Response:
        asked = await read_message(request, StopMessage)
        stopped = await self._parts.queries.turns.stop(self._parts.caller, asked.conversation)
        return answer_json({"stopped": stopped})

    async def answer(self, request: Request) -> Response:
        given = await read_message(request, AnswerMessage)
        ok = await self._parts.queries.turns.answer(self._parts.caller, given.question, given.text)
        return answer_json({"ok": ok})
