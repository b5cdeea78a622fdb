"""The calls that ask the agent something in a format of OpenAI: chat completions and responses."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from gateway.http.api.door import TALK, TALK_ERRORS, Api, CallTable
from gateway.http.api.formats.asking import Ask
from gateway.http.api.formats.reading_requests import read_chat, read_response_request
from gateway.http.api.formats.sent_text import SentText, problem_with
from gateway.http.api.formats.writing_chat import ChatStream, write_completion
from gateway.http.api.formats.writing_responses import ResponseStream, write_response
from gateway.http.api.messages import ChatAnswer, ChatRequest, ResponseAnswer, ResponseRequest
from gateway.http.api.runs.run_record import Record, RunEnded, TextVoid
from gateway.http.api.runs.tickets import RESPONSE
from gateway.http.api.saying import check_answered, read_wish, say, write_headers
from gateway.http.calls import PULSE, PULSE_SECONDS, answer_json, stream
from gateway.platforms.hub import StreamEnded
from hermes_base.chat import TextDelta, TextEnded
from hermes_base.query_values import Caller

CALLS = CallTable()


@CALLS.call("POST", "/v1/chat/completions", ChatAnswer, headers=TALK, streams=True, errors=TALK_ERRORS)
async def complete_chat(api: Api, request: Request, caller: Caller, body: ChatRequest) -> Response:
    """Ask, in the Chat Completions format."""
    ask, record = await _begin(api, request, caller, read_chat(body))
    if ask.stream:
        form = ChatStream(record, usage=ask.include_usage, events=ask.events)
        return stream(_write_stream(record, form), write_headers(record))
    await record.wait()
    check_answered(record)
    return answer_json(write_completion(record), headers=write_headers(record))


@CALLS.call("POST", "/v1/responses", ResponseAnswer, headers=TALK, streams=True, errors=TALK_ERRORS)
async def create_response(api: Api, request: Request, caller: Caller, body: ResponseRequest) -> Response:
    """Ask, in the Responses format."""
    ask, record = await _begin(api, request, caller, read_response_request(body))
    if ask.stream:
        return stream(_write_stream(record, ResponseStream(record, events=ask.events)), write_headers(record))
    if not body.background:
        await record.wait()
        check_answered(record)
    return _show_response(record, ask.follows)


@CALLS.call("GET", "/v1/responses/{id}", ResponseAnswer, errors=(404,))
async def get_response(api: Api, request: Request, caller: Caller) -> Response:
    """A response as it stands."""
    return _show_response(await _find(api, request, caller))


@CALLS.call("POST", "/v1/responses/{id}/cancel", ResponseAnswer, errors=(403, 404))
async def cancel_response(api: Api, request: Request, caller: Caller) -> Response:
    """Stop a response under way. Returns when it has ended; what waits behind another turn goes on waiting."""
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
    written = write_response(record)
    written.previous_response_id = follows or None
    return answer_json(written, headers=write_headers(record))


async def _write_stream(record: Record, form: ChatStream | ResponseStream) -> AsyncIterator[bytes]:
    """The run in pieces, from its beginning, however far it is already."""
    for piece in form.begin():
        yield piece
    sent = SentText(record)
    async for recorded in record.follow(pulse=PULSE_SECONDS):
        match recorded.event if recorded is not None else None:
            case None:
                pieces: Sequence[bytes] = [PULSE]
            case TextDelta() | TextEnded() | TextVoid() as event:
                new = sent.take(event)
                pieces = form.write_text(new) if new else form.fail(sent.problem) if sent.problem else ()
            case RunEnded() | StreamEnded():
                problem = problem_with(record)
                if problem is None and record.outcome is not None:
                    sent.finish(record.outcome.text)
                problem = problem or sent.problem
                pieces = form.fail(problem) if problem else form.finish(record.outcome) if record.outcome else ()
            case event:
                pieces = form.write_event(event)
        for piece in pieces:
            yield piece
        if sent.problem is not None:
            return
