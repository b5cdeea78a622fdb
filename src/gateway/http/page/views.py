"""What pages and terminals are told: values and events as JSON, with ids and addresses in the place of paths, and the
stream of them."""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any, Protocol

from gateway.core.timeline import describe_row
from gateway.http.calls import write_events, write_labels, write_question
from gateway.http.page.files import FileShelf
from gateway.platforms.face import Asking, Begun, Heard, Moved, Taken, Titled
from gateway.platforms.hub import Picture, Sent, StreamEnded, Watch, Watched
from hermes_base.chat import EVENT_NAMES
from hermes_base.errors import HermesError
from hermes_base.inbound import ANSWER, FileRef, Outgoing, as_fields
from hermes_base.query_values import Thread, Timeline, TimelineEntry

Json = dict[str, Any]

log = logging.getLogger(__name__)

_LONG_TEXT = 200_000  # characters of a row
_NO_ROW = {"text": ""}
#: Events whose fields are what is told.
_NAMES = {**EVENT_NAMES, Begun: "begun", Taken: "taken", Titled: "title"}


def view_thread(thread: Thread | None) -> Json | None:
    return None if thread is None else asdict(thread)


def view_entry(entry: TimelineEntry, shelf: FileShelf) -> Json:
    return {**asdict(entry), "files": [view_file(file, shelf) for file in entry.files]}


def view_file(file: FileRef, shelf: FileShelf) -> Json:
    """Where it can be fetched, if the page may; a file elsewhere on the machine has a name only."""
    id, size = shelf.name_file(file), file.size
    if id and not size:
        with contextlib.suppress(OSError):  # it was tidied up
            size = os.stat(file.path).st_size
    return {"id": id, "name": file.name, "kind": file.kind, "size": size, "url": f"/web/files/{id}" if id else ""}


def view_heard(heard: Heard, shelf: FileShelf) -> Json:
    said = heard.inbound
    files = [view_file(file, shelf) for file in said.files]
    named = {"seq": heard.seq, "id": said.message, "by": said.sender_name}
    return {**named, "text": said.text, "files": files, "at": said.received}


def view_picture(picture: Picture | None, begun: float = 0.0) -> Json | None:
    """`begun`: when its turn began by the store's clock, if that is known."""
    if picture is None:
        return None
    tools = [asdict(tool) for tool in picture.tools]
    text, reasoning = picture.text, picture.reasoning
    open = {"text": text.open, "reasoning": reasoning.open}
    shown = {"text": text.kept, "reasoning": reasoning.kept, "tools": tools, "open": open}
    return {"seqs": picture.seqs, "at": begun or picture.begun, "taken": sorted(picture.taken), **shown}


def view_snapshot(
    timeline: Timeline, entries: Iterable[TimelineEntry], picture: Picture | None, shelf: FileShelf
) -> Json:
    waiting = [
        {
            "seq": one.seq,
            "text": one.text,
            "by": one.by,
            "files": [view_file(file, shelf) for file in one.files],
            "at": one.at,
            "id": one.id,
        }
        for one in timeline.waiting
    ]
    begun = next((one.begun for one in timeline.waiting if picture is not None and one.seq in picture.seqs), 0.0)
    return {
        "type": "snapshot",
        "conversation": timeline.conversation,
        "thread": view_thread(timeline.thread),
        "entries": [view_entry(entry, shelf) for entry in entries],
        "more": timeline.more,
        "version": timeline.version,
        "waiting": waiting,
        "live": view_picture(picture, begun),
        "question": write_question(timeline.question),
        "labels": write_labels(timeline.question),
        **view_models(timeline),
    }


def view_models(timeline: Timeline) -> Json:
    return {"model": timeline.model, "answered": timeline.answered}


def view_end(answers: Iterable[Outgoing]) -> Mapping[str, Any]:
    """How a turn ended, from what was said at its end."""
    ends = [answer for answer in answers if answer.kind == ANSWER]
    last = ends[-1] if ends else None
    return {
        "completed": last is None or last.completed,
        "interrupted": last is not None and last.interrupted,
        "reason": last.reason if last is not None else "",
    }


# --- what happens: one vocabulary for pages and terminals


class View(Protocol):
    """One watcher's view of a conversation."""

    ended: bool

    async def begin(self) -> list[Json]:
        """The first that it is told."""
        ...

    async def go_on(self) -> list[Json]:
        """What there is to tell next; empty after a while in which nothing happened."""
        ...


def describe_event(event: Watched, shelf: FileShelf) -> list[Json]:
    """What is told of an event; nothing of those that are none of a watcher's business."""
    if type(event) in _NAMES:
        return [{"type": _NAMES[type(event)], **as_fields(event)}]
    match event:
        case Heard():
            return [{"type": "heard", **view_heard(event, shelf)}]
        case Asking(question):
            return [{"type": "asked", "question": write_question(question), "labels": write_labels(question)}]
        case Sent(row, outgoing):
            entry = describe_row(row, outgoing, time.time())
            return [{"type": "note", "entry": view_entry(entry, shelf)}] if entry else []
        case Moved(seq, conversation):
            return [{"type": "moved", "seq": seq, "conversation": conversation}]
        case StreamEnded():
            return [{"type": "closing"}]
    return []


async def stream_view(
    watching: AbstractContextManager[Watch], make_view: Callable[[Watch], View]
) -> AsyncIterator[bytes]:
    """What a watcher is told until the gateway closes; each piece is one or more events. Whatever goes wrong ends the
    stream: who comes back finds the truth in the store."""
    try:
        with watching as watch:
            view = make_view(watch)
            told = await view.begin()
            while True:
                # What may hold megabytes is not written on the event loop.
                large = any(
                    one["type"] == "snapshot"
                    or "entries" in one
                    or len(one.get("outgoing", _NO_ROW)["text"]) > _LONG_TEXT
                    for one in told
                )
                yield await asyncio.to_thread(write_events, told) if large else write_events(told)
                if view.ended:
                    return
                told = await view.go_on()
    except HermesError as problem:
        log.warning("somebody's view of a conversation ended: %s", problem)
        yield write_events([{"type": "closing", "reason": str(problem)}])
    except Exception:  # the boundary to a request
        log.exception("somebody's view of a conversation broke")
