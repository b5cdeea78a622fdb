"""The side of the page: its conversations are the caller's, its files were uploaded before."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta
from starlette.requests import Request

from gateway.http.calls import MOST_BODY, Refusal, SmallText, wrong_field
from gateway.http.page.live import LiveView
from gateway.http.page.parts import Parts
from gateway.http.page.routes_chat import MOST_FILES, LongText, SaidMessage
from gateway.platforms.face import Refused
from gateway.platforms.hub import Watch
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.query_values import OWNER_ID

MOST_CHECKED = 2_000


class SaidOnPage(SaidMessage):
    text: LongText = ""
    files: Annotated[tuple[str, ...], Meta(max_length=MOST_FILES)] = ()
    seen: SmallText = ""


class PageSide:
    """Implements `ChatSide`."""

    most_body = MOST_BODY
    said = SaidOnPage

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.adapter = parts.web
        self._checked: OrderedDict[str, None] = OrderedDict()  # conversations that are the caller's

    async def check(self, conversation: str) -> None:
        """Whose one is does not change."""
        if conversation in self._checked:
            return
        await self._parts.queries.turns.question(self._parts.caller, conversation)
        self._checked[conversation] = None
        if len(self._checked) > MOST_CHECKED:
            self._checked.popitem(last=False)

    def view(self, conversation: str, request: Request, watch: Watch) -> LiveView:
        del request
        return LiveView(self._parts, conversation, watch)

    def _find_uploads(self, ids: Sequence[str]) -> tuple[FileRef, ...]:
        found = [self._parts.shelf.find_upload(id) for id in ids]
        files = tuple(file for file in found if file is not None)
        if len(files) != len(ids):
            raise wrong_field("files", "must be ids of uploaded files that are still there")
        return files

    async def make_inbound(self, said: SaidOnPage) -> Inbound:
        files = await asyncio.to_thread(self._find_uploads, said.files) if said.files else ()
        await self.check(said.conversation)
        return Inbound(
            Address(self.adapter.spec.name, self.adapter.account, said.conversation),
            said.id,
            OWNER_ID,
            said.text,
            files=files,
            conversation=said.conversation,
            seen=said.seen,
            received=time.time(),
        )

    def explain(self, refused: Refused) -> Refusal:
        if refused.closing:
            return Refusal(409, "closing", refused.reason)
        if not self._parts.shelf.has_room():
            return Refusal(507, "disk_full", refused.reason)
        return Refusal(503, "not_taken", refused.reason)

    async def describe_seen(self, inbound: Inbound, conversation: str) -> Mapping[str, Any]:
        del conversation
        found = await self._parts.queries.turns.find_message(inbound.address.account_key, inbound.stem)
        return {"seq": found[0] if found else 0}

    async def stop(self, conversation: str) -> bool:
        return await self._parts.queries.turns.stop(self._parts.caller, conversation)

    async def answer(self, question: str, text: str) -> bool:
        return await self._parts.queries.turns.answer(self._parts.caller, question, text)
