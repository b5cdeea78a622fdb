"""Calls on one conversation: what is said, stopped and answered, and the live view of it. Pages and terminals make the
same ones; what differs between them is their `ChatSide`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.calls import NAME, Refusal, SmallText, read_message, served, stream, wrong_field
from gateway.http.page.views import Json, View, stream_view
from gateway.platforms.face import Refused
from gateway.platforms.hub import HubAdapter, Watch
from hermes_base import command_table
from hermes_base.inbound import WAYS, Inbound

MOST_TEXT = 1_000_000
MOST_FILES = 20
MODES = ("", *WAYS)
LongText = Annotated[str, Meta(max_length=MOST_TEXT)]


class SaidMessage(Struct, kw_only=True):
    """What is said; each side adds fields of its own."""

    conversation: SmallText
    id: Annotated[str, Meta(pattern=NAME)]
    text: str = ""
    mode: str = ""
    files: tuple[Any, ...] = ()


class ChatSide(Protocol):
    """Who makes the calls: where their messages come from, what they may see, and how it is told."""

    most_body: int

    @property
    def said(self) -> type[SaidMessage]: ...

    @property
    def adapter(self) -> HubAdapter: ...

    async def check(self, conversation: str) -> None:
        """NotThere for a conversation that is not the caller's."""
        ...

    def view(self, conversation: str, request: Request, watch: Watch) -> View: ...

    async def make_inbound(self, said: Any) -> Inbound:
        """The message as it is stored; NotThere as `check`."""
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
            Route("/web/live", served(self.watch), methods=["GET"]),
            Route("/web/say", served(self.say), methods=["POST"]),
            Route("/web/stop", served(self.stop), methods=["POST"]),
            Route("/web/answer", served(self.answer), methods=["POST"]),
        ]

    async def watch(self, request: Request, conversation: Annotated[str, Meta(max_length=1_000)] = "") -> Response:
        if request.method != "GET":
            raise Refusal(405, "http", "A stream has no end, so there is no head of it alone.")
        side = self._side
        await side.check(conversation)
        watching = side.adapter.watch(conversation)
        return stream(stream_view(watching, lambda watch: side.view(conversation, request, watch)))

    async def say(self, request: Request) -> Json:
        side = self._side
        said = await read_message(request, side.said, side.most_body)
        if said.mode not in MODES:
            raise wrong_field("mode", f"must be one of {MODES}")
        text = said.text
        if not text.strip() and not said.files:
            raise wrong_field("text", "must say something, or a file has to come with it")
        inbound = await side.make_inbound(said)
        if said.mode and text.strip() and command_table.parse(text) is None:  # commands know by themselves
            inbound = replace(inbound, way=said.mode, text=text.strip())
        taken = await side.adapter.take(inbound)
        if isinstance(taken, Refused):
            raise side.explain(taken)
        if taken.seq is not None:
            return {"seq": taken.seq}
        return {**await side.describe_seen(inbound, said.conversation), "again": True}

    async def stop(self, conversation: SmallText) -> Json:
        return {"stopped": await self._side.stop(conversation)}

    async def answer(self, question: SmallText, text: LongText) -> Json:
        return {"ok": await self._side.answer(question, text)}
