"""Calls of the page on the list of conversations: find, read, name, copy, delete and export them."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.answers import answer_json, answer_large, answer_nothing, guarded
from gateway.http.page.files import make_safe_name
from gateway.http.page.parts import Parts
from gateway.http.page.views import view_entry, view_thread
from gateway.http.reading import NoFields, SmallText, bring_between, read_message, read_query, wrong_field
from gateway.platforms.face import Titled
from gateway.platforms.hub import Lost
from hermes_base.query_values import Thread
from hermes_base.text.whole_text import encode_text

MOST_ROWS = 500
MOST_THREADS = 200
MOST_NUMBER = 2**53
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
FORMS = {"md": "text/markdown; charset=utf-8", "json": "application/json"}


class ThreadsQuery(Struct):
    limit: int = 50
    before: Seconds | None = None
    passing: str = ""


class WordsQuery(Struct):
    words: Annotated[str, Meta(max_length=1_000)] = ""
    limit: int = 20


class EntriesQuery(Struct):
    before: int | None = None
    limit: int = 100


class ExportQuery(Struct):
    form: str = "md"


class TitleMessage(Struct):
    title: SmallText


class ForkMessage(Struct):
    before: Annotated[int, Meta(ge=0, lt=MOST_NUMBER)] | None = None


class ThreadRoutes:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._threads = parts.queries.threads
        self._caller = parts.caller

    def list(self) -> Sequence[BaseRoute]:
        one = "/web/threads/{session}"
        return [
            Route("/web/threads", guarded(self.list_threads), methods=["GET"]),
            Route("/web/threads", guarded(self.open_new), methods=["POST"]),
            Route("/web/search", guarded(self.search), methods=["GET"]),
            Route(one, guarded(self.find), methods=["GET"]),
            Route(one, guarded(self.rename), methods=["PATCH"]),
            Route(one, guarded(self.delete), methods=["DELETE"]),
            Route(f"{one}/entries", guarded(self.list_entries), methods=["GET"]),
            Route(f"{one}/resume", guarded(self.resume), methods=["POST"]),
            Route(f"{one}/fork", guarded(self.fork), methods=["POST"]),
            Route(f"{one}/export", guarded(self.export), methods=["GET"]),
        ]

    # --- reading

    async def list_threads(self, request: Request) -> Response:
        query = read_query(request, ThreadsQuery)
        limit, passing = bring_between(1, query.limit, MOST_THREADS), query.passing == "yes"
        found = await self._threads.list(self._caller, limit=limit + 1, before=query.before, passing=passing)
        return answer_json({"threads": found[:limit], "more": len(found) > limit})

    async def search(self, request: Request) -> Response:
        query = read_query(request, WordsQuery)
        words, limit = query.words.strip(), bring_between(1, query.limit, 100)
        return answer_json({"found": await self._threads.search(self._caller, words, limit=limit) if words else []})

    async def find(self, request: Request) -> Response:
        return _answer(await self._threads.find(self._caller, _session(request)))

    async def list_entries(self, request: Request) -> Response:
        session = _session(request)
        thread = await self._threads.find(self._caller, session)
        query = read_query(request, EntriesQuery)
        before = None if query.before is None else bring_between(0, query.before, MOST_NUMBER)
        limit = bring_between(1, query.limit, MOST_ROWS)
        found = await self._threads.timeline(
            self._caller, thread.conversation, session=session, before=before, limit=limit
        )
        entries = [view_entry(entry, self._parts.shelf) for entry in found.entries]
        return await answer_large({"entries": entries, "more": found.more})

    async def export(self, request: Request) -> Response:
        form = read_query(request, ExportQuery).form
        if form not in FORMS:
            raise wrong_field("form", "must be md or json")
        session = _session(request)
        thread = await self._threads.find(self._caller, session)
        text = await self._threads.export(self._caller, session, form)
        name = make_safe_name(f"{thread.title[:60]}.{form}").encode("ascii", "replace").decode().replace("?", "_")
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return Response(encode_text(text), headers=headers, media_type=FORMS[form])

    # --- changing

    async def open_new(self, request: Request) -> Response:
        await read_message(request, NoFields)
        return answer_json({"conversation": await self._threads.open(self._caller, self._parts.web.spec.name)})

    async def rename(self, request: Request) -> Response:
        title = (await read_message(request, TitleMessage)).title
        thread = await self._threads.rename(self._caller, _session(request), title)
        self._parts.web.hub.show(thread.conversation, Titled(thread.session, thread.title))
        return _answer(thread)

    async def delete(self, request: Request) -> Response:
        thread = await self._threads.find(self._caller, _session(request))
        await self._threads.delete(self._caller, thread.session)
        self._have_reread(thread)
        return answer_nothing()

    async def resume(self, request: Request) -> Response:
        thread = await self._threads.resume(self._caller, _session(request))
        self._have_reread(thread)
        return _answer(thread)

    async def fork(self, request: Request) -> Response:
        before = (await read_message(request, ForkMessage)).before
        thread = await self._threads.fork(self._caller, _session(request), before=before)
        self._have_reread(thread)
        return _answer(thread)

    def _have_reread(self, thread: Thread) -> None:
        """The conversation goes on elsewhere: whoever looks at it has to look again."""
        self._parts.web.hub.show(thread.conversation, Lost())


def _session(request: Request) -> str:
    return str(request.path_params["session"])


def _answer(thread: Thread) -> Response:
    return answer_json({"thread": view_thread(thread)})
