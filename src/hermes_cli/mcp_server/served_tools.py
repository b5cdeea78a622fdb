"""What other programs can do with Hermes, as tools: conversations, messages, what waits for a person."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hermes_base.errors import HermesError
from hermes_base.turn.consent import KEPT
from hermes_cli.mcp_server.house_api import HouseApi, ProgramCaller

MOST_LISTED = 100
MOST_WAIT, USUAL_WAIT = 600, 60  # seconds
LOOKED_THROUGH = 100  # sessions, for those that ask
_LOOK_SECONDS, _SLOWEST_LOOK = 0.2, 2.0
_OVER = frozenset({"completed", "failed", "stopped"})

Args = Mapping[str, Any]
Work = Callable[[HouseApi, ProgramCaller, Args], Awaitable[dict[str, Any]]]
TEXT, NUMBER = {"type": "string"}, {"type": "integer", "minimum": 1, "maximum": MOST_LISTED}
SECONDS = {"type": "number", "minimum": 0, "maximum": MOST_WAIT}


@dataclass(frozen=True, slots=True)
class ServedTool:
    name: str
    description: str
    fields: Mapping[str, Any]
    needed: tuple[str, ...]
    work: Work
    changes: bool = False  # something is done, and not only looked at
    approves: bool = False  # offered to keys that may approve, and to nobody else

    @property
    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": dict(self.fields),
            "required": list(self.needed),
            "additionalProperties": False,
        }


def offer(caller: ProgramCaller) -> list[ServedTool]:
    """The tools that this caller has."""
    return [tool for tool in TOOLS if caller.may_approve or not tool.approves]


async def use(house: HouseApi, caller: ProgramCaller, name: str, args: Args) -> dict[str, Any]:
    """What came of it; HermesError in words."""
    tool = next((tool for tool in offer(caller) if tool.name == name), None)
    if tool is None:
        raise HermesError(f"There is no tool {name!r} for this caller.")
    return await tool.work(house, caller, args)


# --- looking


async def _list_conversations(house: HouseApi, caller: ProgramCaller, args: Args) -> dict[str, Any]:
    words, limit, before = args.get("words"), args.get("limit", 20), args.get("before")
    told = await house.get(caller, "/v1/sessions", words=words, limit=limit, before=before)
    fields = ("title", "preview", "platform", "conversation", "updated", "messages", "working", "asking", "excerpt")
    listed = [{"session": each["id"], **{name: each[name] for name in fields if name in each}} for each in told["data"]]
    return {"conversations": listed, "more": bool(told.get("has_more"))}


async def _read_messages(house: HouseApi, caller: ProgramCaller, args: Args) -> dict[str, Any]:
    path = f"/v1/sessions/{quote(args['session'], safe='')}/messages"
    told = await house.get(caller, path, limit=args.get("limit", 50), before=args.get("before"))
    messages = [
        {
            "by": each["name"] if each["kind"] == "tool" else each["kind"],
            "text": each["text"] or each["detail"],
            "at": each["at"],
            "position": each["position"],
            **({"files": [file["name"] for file in each["files"]]} if each.get("files") else {}),
        }
        for each in told["data"]
    ]
    return {"messages": messages, "more": bool(told.get("has_more"))}


# --- speaking


async def _send_message(house: HouseApi, caller: ProgramCaller, args: Args) -> dict[str, Any]:
    place = {"conversation": args["conversation"]} if args.get("conversation") else {}
    run = await house.post(caller, "/v1/runs", input=args["text"], **place)
    return await _wait(house, caller, run, float(args.get("wait_seconds", USUAL_WAIT)))


async def _get_answer(house: HouseApi, caller: ProgramCaller, args: Args) -> dict[str, Any]:
    run = await house.get(caller, _run_path(args))
    return await _wait(house, caller, run, float(args.get("wait_seconds", 0)))


async def _stop(house: HouseApi, caller: ProgramCaller, args: Args) -> dict[str, Any]:
    told = await house.post(caller, f"{_run_path(args)}/stop")
    return {"stopped": bool(told.get("stopped"))}


def _run_path(args: Args) -> str:
    return f"/v1/runs/{quote(args['run'], safe='')}"


async def _wait(house: HouseApi, caller: ProgramCaller, run: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Until it is over, asks a person, or the time is up; it goes on in any case."""
    until, pause = time.monotonic() + min(seconds, MOST_WAIT), _LOOK_SECONDS
    while run["status"] not in _OVER and not run.get("question") and time.monotonic() < until:
        await asyncio.sleep(min(pause, max(0.0, until - time.monotonic())))
        pause = min(pause * 1.5, _SLOWEST_LOOK)
        run = await house.get(caller, f"/v1/runs/{quote(run['id'], safe='')}")
    return describe_run(run)


def describe_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """A message that was sent, and what came of it."""
    question, error = run.get("question"), run.get("error") or {}
    told = {
        "run": run["id"],
        "conversation": run.get("conversation"),
        "session": run.get("session"),
        "status": run["status"],
        "answer": run.get("output"),
        "error": error.get("message"),
        "question": question
        and {name: question[name] for name in ("id", "kind", "text", "choices") if name in question},
    }
    return {name: value for name, value in told.items() if value}


# --- what waits for a person


async def _list_waiting(house: HouseApi, caller: ProgramCaller, args: Args) -> dict[str, Any]:
    del args
    told = await house.get(caller, "/v1/sessions", limit=LOOKED_THROUGH)
    waiting = [
        {
            "id": question.id,
            "kind": question.kind,
            "text": question.text,
            "choices": list(question.choices),
            "session": session["id"],
            "title": session["title"],
        }
        for session in told["data"]
        if session["asking"]
        for question in await house.find_questions(session["conversation"])
    ]
    return {"waiting": waiting}


async def _answer_waiting(house: HouseApi, caller: ProgramCaller, args: Args) -> dict[str, Any]:
    """A program's yes holds once: it makes no rule (G4)."""
    found = (await _list_waiting(house, caller, {}))["waiting"]
    question = next((each for each in found if each["id"] == args["id"]), None)
    if question is None:
        raise HermesError("This question is not open any more.", kept="Nothing was changed.")
    choice = str(args["choice"]).strip()
    offered = [each for each in question["choices"] if each not in KEPT]
    if not choice or (offered and choice not in offered):
        told = ", ".join(offered)
        raise HermesError("That is not one of the choices.", kept="The question is still open.", fix=f"Take: {told}")
    if not await house.answer(question["id"], choice):
        raise HermesError("This question is not open any more.", kept="Nothing was changed.")
    return {"answered": question["id"], "choice": choice}


TOOLS: tuple[ServedTool, ...] = (
    ServedTool(
        "list_conversations",
        "List conversations with Hermes, newest first, or those in which words were said.",
        {"words": TEXT, "limit": NUMBER, "before": {"type": "number", "description": "`updated` of the last one."}},
        (),
        _list_conversations,
    ),
    ServedTool(
        "read_messages",
        "Read what was said in a session, the newest part or what is before a position.",
        {"session": TEXT, "limit": NUMBER, "before": {"type": "integer", "minimum": 0}},
        ("session",),
        _read_messages,
    ),
    ServedTool(
        "send_message",
        "Say something to Hermes and wait for its answer. Without conversation a new one begins. When the time is up "
        "it goes on: ask with get_answer.",
        {
            "text": {"type": "string", "minLength": 1},
            "conversation": {"type": "string", "description": "A session, or a name of your own."},
            "wait_seconds": SECONDS,
        },
        ("text",),
        _send_message,
        changes=True,
    ),
    ServedTool(
        "get_answer",
        "How a sent message stands: its answer, or what Hermes asks a person.",
        {"run": TEXT, "wait_seconds": SECONDS},
        ("run",),
        _get_answer,
    ),
    ServedTool("stop_message", "Stop the turn of a sent message.", {"run": TEXT}, ("run",), _stop, changes=True),
    ServedTool("list_waiting", "What Hermes asks and nobody has answered yet.", {}, (), _list_waiting),
    ServedTool(
        "answer_waiting",
        "Answer a question of Hermes with one of its choices, once.",
        {"id": TEXT, "choice": TEXT},
        ("id", "choice"),
        _answer_waiting,
        changes=True,
        approves=True,
    ),
)
