"""Sessions: the caller's conversations, their messages, and what can be done with them."""

import math
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.http.api.door import Api
from gateway.http.api.formats.request_fields import read_json
from gateway.http.api.problems import wrong
from hermes_base.query_values import Caller, Thread, TimelineEntry

MOST_LISTED = 100
MOST_WORDS = 500


async def list_sessions(api: Api, request: Request, caller: Caller) -> Response:
    limit = read_limit(request, 20)
    words = request.query_params.get("words", "")
    if len(words) > MOST_WORDS:
        raise wrong("words", f"words: more than {MOST_WORDS} characters are too many.")
    if words.strip():
        found = await api.queries.threads.search(caller, words, limit=limit)
        hits = [write_session(hit.thread) | {"role": hit.role, "excerpt": hit.excerpt, "at": hit.at} for hit in found]
        return JSONResponse({"object": "list", "data": hits, "has_more": False})
    threads = await api.queries.threads.list(caller, limit=limit + 1, before=_read_moment(request))
    listed = threads[:limit]
    told = {"object": "list", "data": [*map(write_session, listed)], "has_more": len(threads) > limit}
    return JSONResponse(told | ({"before": listed[-1].updated} if listed else {}))


async def get_session(api: Api, request: Request, caller: Caller) -> Response:
    return JSONResponse(write_session(await _find(api, request, caller)))


async def list_messages(api: Api, request: Request, caller: Caller) -> Response:
    thread = await _find(api, request, caller)
    before = read_whole(request, "before")
    timeline = await api.queries.threads.timeline(
        caller, thread.conversation, session=thread.session, before=before, limit=read_limit(request, 50)
    )
    told = [write_entry(entry) for entry in timeline.entries]
    return JSONResponse({"object": "list", "data": told, "has_more": timeline.more})


async def fork_session(api: Api, request: Request, caller: Caller) -> Response:
    """A copy that goes on by itself; with `apart` false it takes the place of the old one in its conversation."""
    body = await read_json(request, needed=False)
    thread = await _find(api, request, caller)
    forked = await api.queries.threads.fork(
        caller, thread.session, before=body.whole("before"), apart=body.flag("apart", default=True)
    )
    return JSONResponse(write_session(forked), 201)


async def change_session(api: Api, request: Request, caller: Caller) -> Response:
    title = (await read_json(request)).text("title", needed=True, most=1_000)
    thread = await _find(api, request, caller)
    return JSONResponse(write_session(await api.queries.threads.rename(caller, thread.session, title)))


async def delete_session(api: Api, request: Request, caller: Caller) -> Response:
    thread = await _find(api, request, caller)
    await api.queries.threads.delete(caller, thread.session)
    return JSONResponse({"id": thread.session, "object": "session", "deleted": True})


async def _find(api: Api, request: Request, caller: Caller) -> Thread:
    return await api.queries.threads.find(caller, request.path_params["id"])


# --- as JSON


def write_session(thread: Thread) -> dict[str, Any]:
    told = asdict(thread)
    return {"id": told.pop("session"), "object": "session", **told}


def write_entry(entry: TimelineEntry) -> dict[str, Any]:
    """Files are named; where they are is the machine's own business."""
    files = [{"name": file.name, "kind": file.kind, "size": file.size} for file in entry.files]
    told = asdict(entry) | {"files": files}
    return {"id": told.pop("id"), "object": "session.entry", **told}


# --- queries


def read_limit(request: Request, default: int) -> int:
    limit = read_whole(request, "limit")
    if limit is None:
        return default
    if not 1 <= limit <= MOST_LISTED:
        raise wrong("limit", f"limit must be between 1 and {MOST_LISTED}.")
    return limit


def read_whole(request: Request, name: str) -> int | None:
    given = request.query_params.get(name)
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise wrong(name, f"{name} must be a whole number that is not negative.")
    return int(given)


def _read_moment(request: Request) -> float | None:
    given = request.query_params.get("before")
    if given is None:
        return None
    try:
        moment = float(given[:30])
    except ValueError as error:
        raise wrong("before", "before must be a number of seconds.") from error
    if not math.isfinite(moment):
        raise wrong("before", "before must be a number of seconds.")
    return moment
