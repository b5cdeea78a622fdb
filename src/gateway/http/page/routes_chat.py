"""Calls on one conversation: what is said, stopped and answered, and the live view of it. Pages and terminals make the
same ones; what differs between them is their `ChatSide`."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.answers import Refusal, answer_json, guarded
from gateway.http.page.telling import View, stream_view
from gateway.http.reading import query_text, read_choice, read_name, read_object, read_text, wrong_field
from gateway.http.streams import stream
from gateway.platforms.face import Refused
from gateway.platforms.hub import HubAdapter, Watch
from hermes_base import command_table
from hermes_base.inbound import FileRef, Inbound

MOST_TEXT = 1_000_000
MOST_FILES = 20
MODES = ("", "queue", "steer")

Fields = Mapping[str, Any]


class ChatSide(Protocol):
    """Who makes the calls: where their messages come from, what they may see, and how it is told."""

    most_body: int
    most_text: int

    @property
    def adapter(self) -> HubAdapter: ...

    async def check(self, conversation: str) -> None:
        """NotThere for a conversation that is not the caller's."""
        ...

    def view(self, conversation: str, request: Request, watch: Watch) -> View: ...

    async def find_files(self, fields: Fields) -> tuple[FileRef, ...]: ...

    def make_inbound(
        self, conversation: str, id: str, text: str, files: tuple[FileRef, ...], fields: Fields
    ) -> Inbound:
        """The message as it is stored."""
        ...

    def explain(self, refused: Refused) -> Refusal: ...

    async def describe_seen(self, inbound: Inbound, conversation: str) -> Mapping[str, Any]:
        """What became of a message that was stored before."""
        ...

    async def stop(self, conversation: str) -> bool: ...

    async def answer(self, question: str, text: str) -> bool: ...


class ChatRoutes:
    def __init__(self, side: ChatSide) -> None:
        self._side = side

    def list(self) -> Sequence[BaseRoute]:
        return [
            Route("/web/live", guarded(self.watch), methods=["GET"]),
            Route("/web/say", guarded(self.say), methods=["POST"]),
            Route("/web/stop", guarded(self.stop), methods=["POST"]),
            Route("/web/answer", guarded(self.answer), methods=["POST"]),
        ]

    async def watch(self, request: Request) -> Response:
        if request.method != "GET":
            raise Refusal(405, "http", "A stream has no end, so there is no head of it alone.")
        conversation, side = query_text(request, "conversation"), self._side
        await side.check(conversation)
        watching = side.adapter.watch(conversation)
        return stream(stream_view(watching, lambda watch: side.view(conversation, request, watch)))

    async def say(self, request: Request) -> Response:
        side = self._side
        fields = await read_object(request, side.most_body)
        conversation, id = read_text(fields, "conversation"), read_name(fields, "id")
        text = read_text(fields, "text", "", side.most_text)
        mode = read_choice(fields, "mode", MODES)
        files = await side.find_files(fields)
        if not text.strip() and not files:
            raise wrong_field("text", "something, or a file has to come with it")
        await side.check(conversation)
        # What becomes of it while a turn is under way; commands know by themselves.
        said = f"/{mode} {text}" if mode and text.strip() and command_table.parse(text) is None else text
        inbound = side.make_inbound(conversation, id, said, files, fields)
        side.adapter.last_seen = time.time()
        taken = await side.adapter.core.take(inbound)
        if isinstance(taken, Refused):
            raise side.explain(taken)
        if taken.seq is not None:
            return answer_json({"seq": taken.seq})
        return answer_json({**await side.describe_seen(inbound, conversation), "again": True})

    async def stop(self, request: Request) -> Response:
        fields = await read_object(request)
        return answer_json({"stopped": await self._side.stop(read_text(fields, "conversation"))})

    async def answer(self, request: Request) -> Response:
        fields = await read_object(request)
        question, text = read_text(fields, "question"), read_text(fields, "text", most=MOST_TEXT)
        return answer_json({"ok": await self._side.answer(question, text)})
