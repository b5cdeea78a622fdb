"""Calls of the page on the list of conversations: find, read, name, copy, delete and export them."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.calls import (
    NoFields,
    SmallText,
    answer_large,
    answer_nothing,
    bring_between,
    read_message,
    served,
    wrong_field,
)
from gateway.http.page.parts import Parts
from gateway.http.page.views import Json, view_entry, view_thread
from gateway.platforms.face import Titled
from hermes_base.query_values import Thread
from hermes_base.text.file_names import make_safe_name
from hermes_base.text.whole_text import encode_text

MOST_ROWS = 500
MOST_THREADS = 200
MOST_NUMBER = 2**53
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Position = Annotated[int, Meta(ge=0, lt=MOST_NUMBER)]
Name = Annotated[str, Meta(max_length=1_000)]
FORMS = {"md": "text/markdown; charset=utf-8", "json": "application/json"}


class ThreadRoutes:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._threads = parts.queries.threads
        self._caller = parts.caller

    def list(self) -> Sequence[BaseRoute]:
        one = "/web/threads/{session}"
        return [
            Route("/web/threads", served(self.list_threads), methods=["GET"]),
            Route("/web/threads", served(self.open_new), methods=["POST"]),
            Route("/web/search", served(self.search), methods=["GET"]),
            Route(one, served(self.find), methods=["GET"]),
            Route(one, served(self.rename), methods=["PATCH"]),
            Route(one, served(self.delete), methods=["DELETE"]),
            Route(f"{one}/entries", served(self.list_entries), methods=["GET"]),
            Route(f"{one}/resume", served(self.resume), methods=["POST"]),
            Route(f"{one}/fork", served(self.fork), methods=["POST"]),
            Route(f"{one}/export", served(self.export), methods=["GET"]),
        ]

    # --- reading

    async def list_threads(self, limit: int = 50, before: Seconds | None = None, passing: str = "") -> Json:
        limit = bring_between(1, limit, MOST_THREADS)
        found = await self._threads.list(self._caller, limit=limit + 1, before=before, passing=passing == "yes")
        return {"threads": found[:limit], "more": len(found) > limit}

    async def search(self, words: Name = "", limit: int = 20) -> Json:
        words, limit = words.strip(), bring_between(1, limit, 100)
        return {"found": await self._threads.search(self._caller, words, limit=limit) if words else []}

    async def find(self, request: Request) -> Json:
        return _show(await self._threads.find(self._caller, _session(request)))

    async def list_entries(self, request: Request, before: int | None = None, limit: int = 100) -> Response:
        session = _session(request)
        thread = await self._threads.find(self._caller, session)
        before = None if before is None else bring_between(0, before, MOST_NUMBER)
        limit = bring_between(1, limit, MOST_ROWS)
        found = await self._threads.timeline(
            self._caller, thread.conversation, session=session, before=before, limit=limit
        )
        entries = [view_entry(entry, self._parts.shelf) for entry in found.entries]
        return await answer_large({"entries": entries, "more": found.more})

    async def export(self, request: Request, form: str = "md") -> Response:
        if form not in FORMS:
            raise wrong_field("form", "must be md or json")
        session = _session(request)
        thread = await self._threads.find(self._caller, session)
        text = await self._threads.export(self._caller, session, form)
        name = make_safe_name(f"{thread.title[:60]}.{form}").encode("ascii", "replace").decode().replace("?", "_")
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return Response(encode_text(text), headers=headers, media_type=FORMS[form])

    # --- changing

    async def open_new(self, request: Request) -> Json:
        await read_message(request, NoFields)
        return {"conversation": await self._threads.open(self._caller, self._parts.web.spec.name)}

    async def rename(self, request: Request, title: SmallText) -> Json:
        thread = await self._threads.rename(self._caller, _session(request), title)
        self._parts.web.hub.show(thread.conversation, Titled(thread.session, thread.title))
        return _show(thread)

    async def delete(self, request: Request) -> Response:
        thread = await self._threads.find(self._caller, _session(request))
        await self._threads.delete(self._caller, thread.session)
        self._have_reread(thread)
        return answer_nothing()

    async def resume(self, request: Request) -> Json:
        thread = await self._threads.resume(self._caller, _session(request))
        self._have_reread(thread)
        return _show(thread)

    async def fork(self, request: Request, before: Position | None = None) -> Json:
        thread = await self._threads.fork(self._caller, _session(request), before=before)
        self._have_reread(thread)
        return _show(thread)

    def _have_reread(self, thread: Thread) -> None:
        """The conversation goes on elsewhere: whoever looks at it has to look again."""
        self._parts.web.have_reread(thread.conversation)


def _session(request: Request) -> str:
    return str(request.path_params["session"])


def _show(thread: Thread) -> Json:
    return {"thread": view_thread(thread)}
