"""The calls that ask the agent something in a format of OpenAI: chat completions and responses."""

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.http.api.door import Api
from gateway.http.api.formats.asking import Ask
from gateway.http.api.formats.reading_chat import read_chat
from gateway.http.api.formats.reading_responses import read_response_request
from gateway.http.api.formats.request_fields import read_json
from gateway.http.api.formats.writing_chat import write_chunks, write_completion
from gateway.http.api.formats.writing_responses import write_response, write_typed_events
from gateway.http.api.runs.run_record import Record
from gateway.http.api.runs.tickets import RESPONSE
from gateway.http.api.saying import check_answered, read_wish, say, write_headers
from gateway.http.streams import stream
from hermes_base.query_values import Caller


async def complete_chat(api: Api, request: Request, caller: Caller) -> Response:
    ask = read_chat(await read_json(request))
    ask, record = await _begin(api, request, caller, ask)
    if ask.stream:
        pieces = write_chunks(record, usage=ask.include_usage, events=ask.events)
        return stream(pieces, write_headers(record))
    await record.wait()
    check_answered(record)
    return JSONResponse(write_completion(record), headers=write_headers(record))


async def create_response(api: Api, request: Request, caller: Caller) -> Response:
    body = await read_json(request)
    ask, background = read_response_request(body), body.flag("background")
    ask, record = await _begin(api, request, caller, ask)
    if ask.stream:
        return stream(write_typed_events(record, events=ask.events), write_headers(record))
    if not background:
        await record.wait()
        check_answered(record)
    return _show_response(record, ask.follows)


async def get_response(api: Api, request: Request, caller: Caller) -> Response:
    return _show_response(await _find(api, request, caller))


async def cancel_response(api: Api, request: Request, caller: Caller) -> Response:
    """Returns when it has ended; what waits behind another turn goes on waiting."""
    record = await _find(api, request, caller)
    if not record.is_over and record.status == "in_progress":
        await api.queries.turns.stop(caller, record.ticket.conversation)
        await record.wait()
    return _show_response(record)


async def _begin(api: Api, request: Request, caller: Caller, ask: Ask) -> tuple[Ask, Record]:
    wish = read_wish(request, caller)
    ask = replace(ask, events=ask.events or wish.events)
    return ask, await say(api, caller, ask, wish)


async def _find(api: Api, request: Request, caller: Caller) -> Record:
    return await api.runs.find_by_id(caller, request.path_params["id"], RESPONSE, "There is no such response.")


def _show_response(record: Record, follows: str = "") -> Response:
    written = write_response(record) | {"previous_response_id": follows or None}
    return JSONResponse(written, headers=write_headers(record))
