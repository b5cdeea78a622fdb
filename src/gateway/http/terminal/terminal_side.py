"""The side of the terminals: whoever can open the socket is the owner of the machine, and names files by their path."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.routing import BaseRoute, Route

from gateway.http.answers import Refusal
from gateway.http.page.files import FileShelf
from gateway.http.page.routes_chat import SaidMessage
from gateway.http.page.views import Json
from gateway.http.reading import SmallText, read_message, served, wrong_field
from gateway.http.terminal.rows import RowsView
from gateway.platforms.face import Refused
from gateway.platforms.hub import Watch
from gateway.platforms.local.adapter import LocalAdapter
from gateway.service.local_door import LocalDoor
from hermes_base.conversation_key import parse_key
from hermes_base.errors import StoreFailure
from hermes_base.inbound import FileRef, Inbound
from hermes_base.local_wire import MOST_BODY, Cursor, Hello
from hermes_base.query_values import OWNER_ID

_AFTER = re.compile(r"(\d{1,15})-(\d{1,15})", re.ASCII)
Count = Annotated[int, Meta(ge=0, lt=2**53)]


class NamedFile(Struct):
    path: SmallText
    name: SmallText
    kind: SmallText = "file"
    size: Count = 0


class SaidInTerminal(SaidMessage):
    files: tuple[NamedFile, ...] = ()
    folder: SmallText = ""


class Operation(Struct):
    name: SmallText
    args: dict[str, Any] = {}


class TerminalSide:
    """Implements `ChatSide`, and has the calls that are the owner's alone."""

    most_body = MOST_BODY
    said = SaidInTerminal

    def __init__(self, adapter: LocalAdapter) -> None:
        self.adapter = adapter
        self._door = cast(LocalDoor, adapter.core)
        self._shelf = FileShelf(adapter.home, lambda: 0)  # terminals fetch nothing: they have the paths

    def list(self) -> Sequence[BaseRoute]:
        return [
            Route("/web/open", served(self.open), methods=["POST"]),
            Route("/web/got", served(self.confirm), methods=["POST"]),
            Route("/web/operate", served(self.operate), methods=["POST"]),
        ]

    # --- ChatSide

    async def check(self, conversation: str) -> None:
        """All of them are the owner's."""
        parse_key(conversation)

    def view(self, conversation: str, request: Request, watch: Watch) -> RowsView:
        said = request.query_params.get("after", "")
        found = _AFTER.fullmatch(said)
        if said and found is None:
            raise wrong_field("after", "must be two numbers with a dash between them")
        after = Cursor(int(found[1]), int(found[2])) if found else None
        return RowsView(self.adapter, self._door, conversation, watch, after, self._shelf)

    async def find_files(self, said: SaidInTerminal) -> tuple[FileRef, ...]:
        return tuple(FileRef(file.path, file.name, file.kind, file.size) for file in said.files)

    def make_inbound(self, said: SaidInTerminal, text: str, files: tuple[FileRef, ...]) -> Inbound:
        address = self.adapter.address_of(said.conversation)
        return Inbound(
            address,
            said.id,
            OWNER_ID,
            text,
            mentioned=True,
            folder=said.folder,
            files=files,
            conversation=said.conversation if address.chat == said.conversation else "",
            received=time.time(),
        )

    def explain(self, refused: Refused) -> Refusal:
        return Refusal(409 if refused.closing else 503, "not_taken", refused.reason)

    async def describe_seen(self, inbound: Inbound, conversation: str) -> Mapping[str, Any]:
        """With the newest row: when that has come, all has come that was said to the message."""
        try:
            found = await self._door.find(inbound)
            newest, _ = await self._door.latest(conversation)
        except StoreFailure as problem:
            raise Refusal(503, "ask_again", str(problem)) from problem
        return {"seq": found and found.seq, "done": bool(found and found.done), "outbox": newest}

    async def stop(self, conversation: str) -> bool:
        stopped, _ = await self._door.stop(conversation, OWNER_ID)
        return stopped

    async def answer(self, question: str, text: str) -> bool:
        return await self._door.answer(question, text, OWNER_ID)

    # --- the owner's alone

    async def open(self, request: Request) -> Json:
        """Find or make a conversation."""
        opened = await self._door.open(await read_message(request, Hello))
        told = {
            "conversation": opened.conversation,
            "banner": opened.banner,
            "hint": opened.hint,
            "commands": opened.commands,
        }
        return {**told, "version": self._door.version}

    async def confirm(
        self, conversation: SmallText, rows: Annotated[tuple[Count, ...], Meta(max_length=10_000)] = ()
    ) -> Json:
        """Rows were shown."""
        self._door.confirm(self.adapter.address_of(conversation), rows)
        return {}

    async def operate(self, request: Request) -> Json:
        asked = await read_message(request, Operation)
        return dict(await self._door.perform(asked.name, asked.args))
