"""Runs: start one and leave, look at it, follow it, stop it, and answer what it asks."""

from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.api.door import TALK, Api, CallTable
from gateway.http.api.formats.asking import MODEL, Ask
from gateway.http.api.formats.sent_text import EVENT_NAMES, describe_event, problem_with
from gateway.http.api.formats.writing_chat import write_extras, write_usage
from gateway.http.api.messages import (
    AnsweredQuestion,
    AnswerRequest,
    AskedQuestion,
    RunAnswer,
    RunRequest,
    StoppedAnswer,
)
from gateway.http.api.problems import ApiProblem, wrong
from gateway.http.api.runs.run_record import Record, RunEnded
from gateway.http.api.runs.tickets import RUN
from gateway.http.api.saying import read_wish, say, write_headers
from gateway.http.calls import PULSE, PULSE_SECONDS, answer_json, stream, write_event
from gateway.platforms.hub import StreamEnded
from hermes_base.query_values import Caller
from hermes_base.turn.consent import split_answer

CALLS = CallTable()


@CALLS.call("POST", "/v1/runs", RunAnswer, status=202, headers=TALK[:3], errors=(404, 409, 413, 422, 429, 503))
async def start_run(api: Api, request: Request, caller: Caller, body: RunRequest) -> Response:
    """Ask, and do not wait."""
    ask = Ask(body.input, body.instructions or "", model=body.model or MODEL, place=body.conversation or "")
    record = await say(api, caller, ask, read_wish(request, caller))
    return await _show(api, record, caller, status=202)


@CALLS.call("GET", "/v1/runs/{id}", RunAnswer, errors=(404,))
async def get_run(api: Api, request: Request, caller: Caller) -> Response:
    """A run as it stands."""
    return await _show(api, await _find(api, request, caller), caller)


@CALLS.call("GET", "/v1/runs/{id}/events", headers=("Last-Event-ID",), streams=True, errors=(404,))
async def follow_run(api: Api, request: Request, caller: Caller) -> Response:
    """What happens in a run, from its beginning or after `Last-Event-ID`."""
    record = await _find(api, request, caller)

    async def write_events() -> AsyncIterator[bytes]:
        async for recorded in record.follow(request.headers.get("last-event-id", ""), PULSE_SECONDS):
            if recorded is None:
                yield PULSE
                continue
            event, name = recorded.event, EVENT_NAMES[type(recorded.event)]
            data = {"type": name, **describe_event(event)}
            if isinstance(event, RunEnded | StreamEnded):
                data["run"] = write_run(record)
            yield write_event(data, event=name, id=record.write_id(recorded))

    return stream(write_events(), write_headers(record))


@CALLS.call("POST", "/v1/runs/{id}/stop", StoppedAnswer, errors=(403, 404))
async def stop_run(api: Api, request: Request, caller: Caller) -> StoppedAnswer:
    """Stop a run under way; the run's end tells what came of it. What still waits is not stopped."""
    record = await _find(api, request, caller)
    running = not record.is_over and record.status == "in_progress"
    stopped = running and await api.queries.turns.stop(caller, record.ticket.conversation)
    return StoppedAnswer(record.ticket.write(RUN), stopped, record.status)


@CALLS.call("POST", "/v1/runs/{id}/approve", AnsweredQuestion, errors=(403, 404, 409, 413))
async def answer_run(api: Api, request: Request, caller: Caller, body: AnswerRequest) -> AnsweredQuestion:
    """Answer the question that a run asks. One that is not open any more is a conflict.

    An answer without an id is for the run's first question: sent again, it must not approve a second one that nobody
    has read (G4)."""
    record = await _find(api, request, caller)
    question = await api.queries.turns.question(caller, record.ticket.conversation)
    if question is None or question.id != (body.question or record.first_question):
        raise ApiProblem(409, "This question is not open any more; nothing was changed.", "not_open")
    if question.choices and split_answer(body.choice)[0] not in question.choices:
        told = ", ".join(question.choices)
        raise wrong("choice", f"That is not one of the choices: {told}. The question is still open.")
    if not await api.queries.turns.answer(caller, question.id, body.choice):
        raise ApiProblem(403, "This question is not open any more, or not yours to answer.")
    return AnsweredQuestion(record.ticket.write(RUN), question.id, body.choice)


async def _find(api: Api, request: Request, caller: Caller) -> Record:
    return await api.runs.find_by_id(caller, request.path_params["id"], RUN, "There is no such run.")


async def _show(api: Api, record: Record, caller: Caller, *, status: int = 200) -> Response:
    question = None
    session = record.outcome.session if record.outcome else ""
    if not record.is_over:
        timeline = await api.queries.threads.timeline(caller, record.ticket.conversation, limit=1)
        session = timeline.thread.session if timeline.thread is not None else ""
        question = timeline.question if record.status == "in_progress" else None
        record.note_first(question)  # it is shown before its event may have come
    told = write_run(record)
    told.session = session or None
    told.question = msgspec.convert(question, AskedQuestion | None, from_attributes=True)
    return answer_json(told, status, write_headers(record, session))


def write_run(record: Record) -> RunAnswer:
    outcome = record.outcome
    problem = problem_with(record) if record.is_over else None
    return RunAnswer(
        id=record.ticket.write(RUN),
        status=record.status,
        conversation=record.ticket.conversation,
        session=outcome.session or None if outcome else None,
        created=int(record.created),
        output=outcome.text if outcome and problem is None else None,
        error=problem.describe() if problem else None,
        usage=write_usage(outcome.usage) if outcome else None,
        hermes=write_extras(outcome),
    )
