"""What happens in a conversation, as whoever watches it is told: one vocabulary for pages and terminals."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Protocol

from gateway.core.timeline import describe_row
from gateway.http.answers import write_events, write_labels, write_question
from gateway.http.page.files import FileShelf
from gateway.http.page.views import Json, view_entry, view_heard
from gateway.platforms.face import Asking, Begun, Heard, Moved, Taken, Titled
from gateway.platforms.hub import Sent, StreamEnded, Watch, Watched
from hermes_base.chat import EVENT_NAMES, list_fields
from hermes_base.errors import HermesError

log = logging.getLogger(__name__)

_LONG_TEXT = 200_000  # characters of a row
#: Events whose fields are what is told.
_NAMES = {**EVENT_NAMES, Begun: "begun", Taken: "taken", Titled: "title"}


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
        return [{"type": _NAMES[type(event)], **list_fields(event)}]
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
                large = any(map(_may_be_large, told))
                yield await asyncio.to_thread(write_events, told) if large else write_events(told)
                if view.ended:
                    return
                told = await view.go_on()
    except HermesError as problem:
        log.warning("somebody's view of a conversation ended: %s", problem)
        yield write_events([{"type": "closing", "reason": str(problem)}])
    except Exception:  # the boundary to a request
        log.exception("somebody's view of a conversation broke")


def _may_be_large(told: Json) -> bool:
    """What may hold megabytes is not written on the event loop."""
    if told["type"] == "row":
        return len(told["outgoing"]["text"]) > _LONG_TEXT
    return told["type"] == "snapshot" or "entries" in told
