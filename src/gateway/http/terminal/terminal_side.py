"""The side of the terminals: whoever can open the socket is the owner of the machine, and names files by their path."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.answers import Refusal, answer_json, guarded
from gateway.http.page.files import FileShelf
from gateway.http.page.routes_chat import Fields
from gateway.http.reading import MOST_NUMBER, query_text, read_fields, read_object, read_text, wrong_field
from gateway.http.terminal.rows import RowsView
from gateway.platforms.face import Refused
from gateway.platforms.hub import Watch
from gateway.platforms.local.adapter import LocalAdapter
from hermes_base.conversation_key import parse_key
from hermes_base.errors import StoreFailure
from hermes_base.inbound import FileRef, Inbound
from hermes_base.local_wire import MOST_BODY, Cursor, Hello
from hermes_base.query_values import OWNER_ID

_AFTER = re.compile(r"(\d{1,15})-(\d{1,15})", re.ASCII)
_WORDS = ("client", "conversation", "resume", "folder", "model", "provider")
_FLAGS = ("continue_last", "once")


class TerminalSide:
    """Implements `ChatSide`, and has the calls that are the owner's alone."""

    most_body = MOST_BODY
    most_text = MOST_BODY

    def __init__(self, adapter: LocalAdapter) -> None:
        self.adapter = adapter
        self._house = adapter.house
        self._shelf = FileShelf(adapter.home, lambda: 0)  # terminals fetch nothing: they have the paths

    def list(self) -> Sequence[BaseRoute]:
        return [
            Route("/web/open", guarded(self.open), methods=["POST"]),
            Route("/web/got", guarded(self.confirm), methods=["POST"]),
            Route("/web/operate", guarded(self.operate), methods=["POST"]),
        ]

    # --- ChatSide

    async def check(self, conversation: str) -> None:
        """All of them are the owner's."""
        parse_key(conversation)

    def view(self, conversation: str, request: Request, watch: Watch) -> RowsView:
        said = query_text(request, "after")
        found = _AFTER.fullmatch(said)
        if said and found is None:
            raise wrong_field("after", "two numbers with a dash between them")
        after = Cursor(int(found[1]), int(found[2])) if found else None
        return RowsView(self.adapter, conversation, watch, after, self._shelf)

    async def find_files(self, fields: Fields) -> tuple[FileRef, ...]:
        given = fields.get("files", [])
        if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
            raise wrong_field("files", "a list of objects")
        return tuple(_read_file(one) for one in given)

    def make_inbound(
        self, conversation: str, id: str, text: str, files: tuple[FileRef, ...], fields: Fields
    ) -> Inbound:
        address = self.adapter.address_of(conversation)
        return Inbound(
            address,
            id,
            OWNER_ID,
            text,
            mentioned=True,
            folder=read_text(fields, "folder", ""),
            files=files,
            conversation=conversation if address.chat == conversation else "",
            received=time.time(),
        )

    def explain(self, refused: Refused) -> Refusal:
        return Refusal(409 if refused.closing else 503, "not_taken", refused.reason)

    async def describe_seen(self, inbound: Inbound, conversation: str) -> Mapping[str, Any]:
        """With the newest row: when that has come, all has come that was said to the message."""
        try:
            found = await self._house.find(inbound)
            newest, _ = await self._house.latest(conversation)
        except StoreFailure as problem:
            raise Refusal(503, "ask_again", str(problem)) from problem
        return {"seq": found and found.seq, "done": bool(found and found.done), "outbox": newest}

    async def stop(self, conversation: str) -> bool:
        stopped, _ = await self._house.stop(conversation, OWNER_ID)
        return stopped

    async def answer(self, question: str, text: str) -> bool:
        return await self._house.answer(question, text, OWNER_ID)

    # --- the owner's alone

    async def open(self, request: Request) -> Response:
        """Find or make a conversation."""
        fields = await read_object(request)
        asked: dict[str, Any] = {name: read_text(fields, name, "") for name in _WORDS}
        asked |= {name: fields.get(name, False) is True for name in _FLAGS}
        opened = await self._house.open(Hello(**asked))
        told = {"conversation": opened.conversation, "banner": opened.banner, "hint": opened.hint}
        return answer_json({**told, "version": self._house.version})

    async def confirm(self, request: Request) -> Response:
        """Rows were shown."""
        fields = await read_object(request)
        rows = fields.get("rows", [])
        if not isinstance(rows, list) or not all(type(row) is int and 0 < row < MOST_NUMBER for row in rows):
            raise wrong_field("rows", "a list of numbers")
        self.adapter.confirm(read_text(fields, "conversation"), rows)
        return answer_json({})

    async def operate(self, request: Request) -> Response:
        fields = await read_object(request, MOST_BODY)
        return answer_json(await self._house.perform(read_text(fields, "name"), read_fields(fields, "args")))


def _read_file(fields: Fields) -> FileRef:
    size = fields.get("size", 0)
    if type(size) is not int or not 0 <= size < MOST_NUMBER:
        raise wrong_field("size", "a number")
    path, name = read_text(fields, "path"), read_text(fields, "name")
    return FileRef(path, name, read_text(fields, "kind", "file"), size)
