"""Calls of the page on one conversation: what is said, stopped and answered, and the live view of it."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.answers import Refusal, answer_json, guarded
from gateway.http.page.live import stream_view
from gateway.http.page.parts import Parts
from gateway.http.reading import query_text, read_choice, read_name, read_names, read_object, read_text, wrong_field
from gateway.http.streams import stream
from gateway.platforms.face import Refused
from hermes_base import command_table
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.query_values import OWNER_ID

MOST_TEXT = 1_000_000
MOST_FILES = 20
MOST_CHECKED = 2_000
MODES = ("", "queue", "steer")


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
        conversation = query_text(request, "conversation")
        await self.check(conversation)
        return stream(stream_view(self._parts, conversation))

    async def say(self, request: Request) -> Response:
        fields = await read_object(request)
        conversation, id = read_text(fields, "conversation"), read_name(fields, "id")
        text = read_text(fields, "text", "", MOST_TEXT)
        mode = read_choice(fields, "mode", MODES)
        files = await asyncio.to_thread(self._find_files, read_names(fields, "files", MOST_FILES))
        if not text.strip() and not files:
            raise wrong_field("text", "something, or a file has to come with it")
        await self.check(conversation)
        web = self._parts.web
        inbound = Inbound(
            Address(web.spec.name, web.account, conversation),
            id,
            OWNER_ID,
            # What becomes of it while a turn is under way; commands know by themselves.
            f"/{mode} {text}" if mode and text.strip() and command_table.parse(text) is None else text,
            files=files,
            conversation=conversation,
            seen=read_text(fields, "seen", ""),
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
            raise wrong_field("files", "ids of uploaded files that are still there")
        return files

    async def stop(self, request: Request) -> Response:
        fields = await read_object(request)
        stopped = await self._parts.queries.turns.stop(self._parts.caller, read_text(fields, "conversation"))
        return answer_json({"stopped": stopped})

    async def answer(self, request: Request) -> Response:
        fields = await read_object(request)
        question, text = read_text(fields, "question"), read_text(fields, "text", most=MOST_TEXT)
        return answer_json({"ok": await self._parts.queries.turns.answer(self._parts.caller, question, text)})
