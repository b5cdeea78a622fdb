"""Runs: start one and leave, look at it, follow it, stop it, and answer what it asks."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.http.answers import write_question
from gateway.http.api.door import Api
from gateway.http.api.formats.asking import MODEL, Ask
from gateway.http.api.formats.request_fields import read_json
from gateway.http.api.formats.writing_chat import problem_with, write_extras, write_usage
from gateway.http.api.problems import ApiProblem, wrong
from gateway.http.api.runs.run_record import CLOSING, ENDED, Record
from gateway.http.api.runs.tickets import RUN
from gateway.http.api.saying import read_wish, say, write_headers
from gateway.http.streams import PULSE, PULSE_SECONDS, stream, write_event
from hermes_base.query_values import Caller


async def start_run(api: Api, request: Request, caller: Caller) -> Response:
    body = await read_json(request)
    ask = Ask(
        body.text("input", needed=True),
        body.text("instructions"),
        model=body.text("model", most=200) or MODEL,
        place=body.text("conversation", most=500),
    )
    record = await say(api, caller, ask, read_wish(request, caller))
    return await _show(api, record, caller, status=202)


async def get_run(api: Api, request: Request, caller: Caller) -> Response:
    return await _show(api, await _find(api, request, caller), caller)


async def follow_run(api: Api, request: Request, caller: Caller) -> Response:
    """What has happened so far and what happens next, from the beginning or after `Last-Event-ID`."""
    record = await _find(api, request, caller)

    async def write_events() -> AsyncIterator[str]:
        async for event in record.follow(request.headers.get("last-event-id", ""), PULSE_SECONDS):
            if event is None:
                yield PULSE
                continue
            data = {"type": event.kind, **event.data}
            if event.kind in (ENDED, CLOSING):
                data["run"] = write_run(record)
            yield write_event(data, event=event.kind, id=record.write_id(event))

    return stream(write_events(), write_headers(record))


async def stop_run(api: Api, request: Request, caller: Caller) -> Response:
    """Stops the turn under way; the run's end tells what came of it. What still waits is not stopped."""
    record = await _find(api, request, caller)
    running = not record.is_over and record.status == "in_progress"
    stopped = running and await api.queries.turns.stop(caller, record.ticket.conversation)
    return JSONResponse({"id": record.ticket.write(RUN), "stopped": stopped, "status": record.status})


async def answer_run(api: Api, request: Request, caller: Caller) -> Response:
    """Answers the question that is open; one that is not open any more is a conflict.

    An answer without an id is for the run's first question: sent again, it must not approve a second one that nobody
    has read (G4)."""
    record = await _find(api, request, caller)
    body = await read_json(request)
    named, choice = body.text("question", most=200), body.text("choice", needed=True, most=10_000)
    question = await api.queries.turns.question(caller, record.ticket.conversation)
    if question is None or question.id != (named or record.first_question):
        raise ApiProblem(409, "This question is not open any more; nothing was changed.", "not_open")
    if question.choices and choice not in question.choices:
        told = ", ".join(question.choices)
        raise wrong("choice", f"That is not one of the choices: {told}. The question is still open.")
    if not await api.queries.turns.answer(caller, question.id, choice):
        raise ApiProblem(403, "This question is not open any more, or not yours to answer.")
    return JSONResponse({"id": record.ticket.write(RUN), "question": question.id, "answered": choice})


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
    told = {**write_run(record), "session": session or None, "question": write_question(question)}
    return JSONResponse(told, status, write_headers(record, session))


def write_run(record: Record) -> dict[str, Any]:
    outcome = record.outcome
    problem = problem_with(record) if record.is_over else None
    return {
        "id": record.ticket.write(RUN),
        "object": "run",
        "status": record.status,
        "conversation": record.ticket.conversation,
        "session": outcome.session or None if outcome else None,
        "created": int(record.created),
        "output": outcome.text if outcome and problem is None else None,
        "error": problem.describe() if problem else None,
        "usage": write_usage(outcome.usage) if outcome else None,
        **(write_extras(outcome) if outcome else {}),
    }
