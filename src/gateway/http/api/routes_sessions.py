"""Sessions: the caller's conversations, their messages, and what can be done with them."""

import msgspec
from msgspec import UNSET
from starlette.requests import Request

from gateway.http.api.door import Api, CallTable
from gateway.http.api.messages import (
    DeletedAnswer,
    EntryAnswer,
    ForkRequest,
    ListAnswer,
    MessagesQuery,
    SessionAnswer,
    SessionsQuery,
    TitleRequest,
)
from hermes_base.query_values import Caller, FoundWords, Thread

CALLS = CallTable()


@CALLS.call("GET", "/v1/sessions", ListAnswer[SessionAnswer])
async def list_sessions(api: Api, caller: Caller, query: SessionsQuery) -> ListAnswer[SessionAnswer]:
    """Your sessions, those with the newest activity first, or those with these words."""
    if query.words.strip():
        found = await api.queries.threads.search(caller, query.words, limit=query.limit)
        return ListAnswer([_write_hit(hit) for hit in found])
    threads = await api.queries.threads.list(caller, limit=query.limit + 1, before=query.before)
    listed = [write_session(thread) for thread in threads[: query.limit]]
    return ListAnswer(listed, len(threads) > query.limit, listed[-1].updated if listed else UNSET)


@CALLS.call("GET", "/v1/sessions/{id}", SessionAnswer, errors=(404,))
async def get_session(api: Api, request: Request, caller: Caller) -> SessionAnswer:
    """A session."""
    return write_session(await _find(api, request, caller))


@CALLS.call("GET", "/v1/sessions/{id}/messages", ListAnswer[EntryAnswer], errors=(404,))
async def list_messages(api: Api, request: Request, caller: Caller, query: MessagesQuery) -> ListAnswer[EntryAnswer]:
    """What people see of a session, in order; the newest ones, or those before a position. Files are named; where they
    are is the machine's own business."""
    thread = await _find(api, request, caller)
    timeline = await api.queries.threads.timeline(
        caller, thread.conversation, session=thread.session, before=query.before, limit=query.limit
    )
    return ListAnswer(msgspec.convert(timeline.entries, list[EntryAnswer], from_attributes=True), timeline.more)


@CALLS.call("POST", "/v1/sessions/{id}/fork", SessionAnswer, status=201, errors=(404, 409, 413))
async def fork_session(api: Api, request: Request, caller: Caller, body: ForkRequest) -> SessionAnswer:
    """A copy of a session, which goes on by itself. With `apart` false it takes the old one's place."""
    thread = await _find(api, request, caller)
    forked = await api.queries.threads.fork(caller, thread.session, before=body.before, apart=body.apart is not False)
    return write_session(forked)


@CALLS.call("PATCH", "/v1/sessions/{id}", SessionAnswer, errors=(404, 413))
async def change_session(api: Api, request: Request, caller: Caller, body: TitleRequest) -> SessionAnswer:
    """Give a session a title."""
    thread = await _find(api, request, caller)
    return write_session(await api.queries.threads.rename(caller, thread.session, body.title))


@CALLS.call("DELETE", "/v1/sessions/{id}", DeletedAnswer, errors=(404, 409))
async def delete_session(api: Api, request: Request, caller: Caller) -> DeletedAnswer:
    """Delete a session for good."""
    thread = await _find(api, request, caller)
    await api.queries.threads.delete(caller, thread.session)
    return DeletedAnswer(thread.session)


async def _find(api: Api, request: Request, caller: Caller) -> Thread:
    return await api.queries.threads.find(caller, request.path_params["id"])


def write_session(thread: Thread) -> SessionAnswer:
    return msgspec.convert(thread, SessionAnswer, from_attributes=True)


def _write_hit(hit: FoundWords) -> SessionAnswer:
    return msgspec.structs.replace(write_session(hit.thread), role=hit.role, excerpt=hit.excerpt, at=hit.at)
