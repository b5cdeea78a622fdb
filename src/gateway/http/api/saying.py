"""Finds the conversation that a request is meant for, and says there what the client asks."""

import asyncio
import hashlib
import re
import secrets
import time
from dataclasses import dataclass, replace
from functools import partial

from starlette.requests import Request

from gateway.http.api.door import Api
from gateway.http.api.formats.asking import MODEL, Ask
from gateway.http.api.formats.images import keep_images
from gateway.http.api.formats.sent_text import problem_with
from gateway.http.api.problems import ApiProblem, wrong
from gateway.http.api.runs.repeats import (
    GOING_SECONDS,
    KEPT_SECONDS,
    count_repetitions,
    mark_request,
    may_be_unheard,
)
from gateway.http.api.runs.run_record import Record
from gateway.http.api.runs.tickets import RESPONSE, RUN, Ticket, read_ticket
from hermes_base.conversation_key import parse_key
from hermes_base.errors import HermesError
from hermes_base.inbound import QUEUE, Address, FileRef, Inbound
from hermes_base.query_values import Caller, NotThere

PLATFORM = "api"
_SESSION = re.compile(r"\d{8}_\d{6}_[0-9a-f]{6}")
_KEY_CHARS = 255
OTHER_QUESTION = (
    "This Idempotency-Key was sent before with another question. Nothing was begun. Send the same question to get its "
    "answer, or another key with another one."
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the headers of a request say."""

    place: str = ""
    name: str = ""  # of the message, made from its idempotency key; empty: it has none
    commands: bool = False
    events: bool = False
    repetition: int | None = None  # how often the client says that it sent this before; None: it would not say


@dataclass(frozen=True, slots=True)
class TargetConversation:
    """A conversation to speak in."""

    conversation: str
    fresh: bool | None = None  # nothing was said there yet; None: nobody has looked


def read_wish(request: Request, caller: Caller) -> Wish:
    headers = request.headers
    key = headers.get("idempotency-key", "")
    if len(key) > _KEY_CHARS:
        raise wrong("Idempotency-Key", f"Idempotency-Key is longer than {_KEY_CHARS} characters.")
    place = headers.get("x-hermes-conversation", "").strip()
    if len(place) > 500:
        raise wrong("X-Hermes-Conversation", "X-Hermes-Conversation is too long.")
    named = hashlib.sha256(f"{caller.person}\n{caller.key}\n{key}".encode()).hexdigest()[:32] if key else ""
    commands, events = (headers.get(name) == "1" for name in ("x-hermes-commands", "x-hermes-events"))
    return Wish(place, named, commands, events, count_repetitions(headers))


async def say(api: Api, caller: Caller, ask: Ask, wish: Wish) -> Record:
    """Hand the question over; the record of its run. The same idempotency key never begins a second one, and neither
    does a client that repeats itself because it heard nothing. A message for which there is no room is a problem."""
    mark = mark_request(caller, ask, wish.place)
    record = await _find_repeated(api, caller, mark) if wish.repetition else None
    if record is None:
        record = await _begin(api, caller, ask, wish, mark)
    if record.outcome is not None and record.outcome.refused:
        check_answered(record)
    return record


def check_answered(record: Record) -> None:
    """Raise why there is no answer, if there is none."""
    problem = problem_with(record)
    if problem is not None:
        problem.headers = write_headers(record)
        raise problem


async def _find_repeated(api: Api, caller: Caller, mark: str) -> Record | None:
    """The run of a request that a client sends once more, in this process, in another one or in the one before."""
    kept = await api.queries.repeats.find(mark)
    try:
        record = await api.runs.find(caller, Ticket(kept.conversation, kept.message)) if kept is not None else None
    except NotThere:
        return None  # the process ended before the message was stored
    return record if record is not None and may_be_unheard(record) else None


async def _begin(api: Api, caller: Caller, ask: Ask, wish: Wish, mark: str) -> Record:
    await check_model(api, ask.model)
    target = await _find_target(api, caller, ask, wish)
    conversation, fresh = target.conversation, target.fresh
    if fresh is None:
        fresh = (await api.queries.threads.timeline(caller, conversation, limit=1)).thread is None
    text = ask.first_said if fresh else ask.said
    as_command = wish.commands and caller.is_owner and text.lstrip().startswith("/")
    inbound = Inbound(
        Address(PLATFORM, api.adapter.account, conversation),
        wish.name or secrets.token_hex(8),
        caller.person,
        text if as_command else text.strip(),
        way="" if as_command else QUEUE,  # it waits for its turn, and a slash in front of it means nothing
        files=await _keep_images(api, caller, ask),
        conversation=conversation,
        received=time.time(),
    )
    if wish.repetition is not None:
        await api.queries.repeats.keep_latest(mark, conversation, inbound.message, GOING_SECONDS)
    return await api.runs.begin(caller, inbound, ask.model)


async def _keep_images(api: Api, caller: Caller, ask: Ask) -> tuple[FileRef, ...]:
    try:
        keep = partial(keep_images, api.queries.files, api.adapter.home, caller, ask.images)
        return await asyncio.to_thread(keep) if ask.images else ()
    except OSError as problem:
        why = f"The image could not be kept: {problem.strerror}. The message was not taken."
        raise ApiProblem(503, why, "not_taken", retry=True) from problem


async def check_model(api: Api, model: str) -> None:
    if model != MODEL and model not in await api.queries.setup.models():
        fix = f"Use {MODEL!r} for whatever answers here; GET /v1/models lists the others."
        raise ApiProblem(404, f"There is no model {model[:100]!r} here. {fix}", "model_not_found", param="model")


async def _find_target(api: Api, caller: Caller, ask: Ask, wish: Wish) -> TargetConversation:
    """Where it is said; a repetition goes where the first one went. How the answer is to come is no part of it."""
    named = wish.place or ask.place
    if not wish.name:
        return await _open_target(api, caller, ask, named)
    asked = mark_request(caller, replace(ask, stream=False, include_usage=False, events=False, place=""), named)
    async with api.one_at_a_time(wish.name):
        kept = await api.queries.repeats.find(wish.name)
        if kept is None:
            found = await _open_target(api, caller, ask, named)
            kept = await api.queries.repeats.keep_first(wish.name, asked, found.conversation, KEPT_SECONDS)
            if (kept.mark, kept.conversation) == (asked, found.conversation):
                return found
        if kept.mark != asked:
            raise ApiProblem(422, OTHER_QUESTION, "idempotency_key_reused", param="Idempotency-Key")
        return TargetConversation(kept.conversation)


async def _open_target(api: Api, caller: Caller, ask: Ask, named: str) -> TargetConversation:
    """The conversation that is named, or that the response was in, or that has this transcript; else a new one."""
    model = "" if ask.model == MODEL else ask.model
    if ask.follows:
        ticket = read_ticket(ask.follows, RESPONSE)
        if ticket is None:
            raise ApiProblem(404, "previous_response_id: there is no such response.", param="previous_response_id")
        return TargetConversation((await api.runs.find(caller, ticket)).ticket.conversation, fresh=False)
    if named:
        return TargetConversation(await _find_named(api, caller, named, model))
    threads = api.queries.threads
    found = await threads.match(caller, ask.before) if ask.before else ""
    if found and not await api.runs.is_busy(
        found
    ):  # a busy one is about to say something that this client has not heard
        return TargetConversation(found, fresh=False)
    conversation = await threads.open(caller, PLATFORM, model=model)
    if ask.before:
        await threads.begin_with(caller, conversation, ask.before)
    return TargetConversation(conversation, fresh=not ask.before)


async def _find_named(api: Api, caller: Caller, place: str, model: str) -> str:
    """A key, the id of a session, or a name of the caller's own."""
    threads = api.queries.threads
    if place.startswith("agent:"):
        return await _find_key(api, caller, place)
    if _SESSION.fullmatch(place):
        return (await threads.resume(caller, place)).conversation
    return await threads.open(caller, PLATFORM, name=place, model=model)


async def _find_key(api: Api, caller: Caller, key: str) -> str:
    """A conversation of another platform must have begun there. A key has one spelling, which fits into a header."""
    try:
        parsed = parse_key(key)
    except HermesError as error:
        raise NotThere(str(error)) from error
    if str(parsed) != key:
        raise wrong("conversation", f"conversation: {key[:100]!a} is not how a key is written; {str(parsed)[:300]} is.")
    platform = parsed.platform
    timeline = await api.queries.threads.timeline(caller, key, limit=1)
    if timeline.thread is None and platform != PLATFORM:
        raise NotThere("There is no such conversation.")
    return key


def write_headers(record: Record, session: str = "") -> dict[str, str]:
    """The headers that say where the answer is found again."""
    session = session or (record.outcome.session if record.outcome else "")
    told = {"X-Hermes-Conversation": record.ticket.conversation, "X-Hermes-Run": record.ticket.write(RUN)}
    return told | ({"X-Hermes-Session": session} if session else {})
