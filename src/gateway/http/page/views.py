"""What the page reads: values as JSON, with ids and addresses in the place of paths."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from gateway.http.answers import write_labels, write_question
from gateway.http.page.files import FileShelf
from gateway.platforms.face import Heard
from gateway.platforms.picture import Picture
from hermes_base.inbound import ANSWER, FileRef, Outgoing
from hermes_base.query_values import Thread, Timeline, TimelineEntry

Json = dict[str, Any]


def view_thread(thread: Thread | None) -> Json | None:
    return None if thread is None else asdict(thread)


def view_entry(entry: TimelineEntry, shelf: FileShelf) -> Json:
    return {**asdict(entry), "files": view_files(entry.files, shelf)}


def view_files(files: Iterable[FileRef], shelf: FileShelf) -> list[Json]:
    return [view_file(file, shelf) for file in files]


def view_file(file: FileRef, shelf: FileShelf) -> Json:
    """Where it can be fetched, if the page may; a file elsewhere on the machine has a name only."""
    id, size = shelf.name_file(file), file.size
    if id and not size:
        with contextlib.suppress(OSError):  # it was tidied up
            size = os.stat(file.path).st_size
    return {"id": id, "name": file.name, "kind": file.kind, "size": size, "url": f"/web/files/{id}" if id else ""}


def view_heard(heard: Heard, shelf: FileShelf) -> Json:
    said = heard.inbound
    files = view_files(said.files, shelf)
    return {"seq": heard.seq, "text": said.text, "by": said.sender_name, "files": files, "at": said.received}


def view_picture(picture: Picture | None) -> Json | None:
    if picture is None:
        return None
    tools = [asdict(tool) for tool in picture.tools]
    text, reasoning = picture.text, picture.reasoning
    open = {"text": text.open, "reasoning": reasoning.open}
    shown = {"text": text.kept, "reasoning": reasoning.kept, "tools": tools, "open": open}
    return {"seqs": picture.seqs, "at": picture.begun, "taken": sorted(picture.taken), **shown}


def view_snapshot(
    timeline: Timeline, entries: Iterable[TimelineEntry], picture: Picture | None, shelf: FileShelf
) -> Json:
    waiting = [
        {"seq": one.seq, "text": one.text, "by": one.by, "files": view_files(one.files, shelf), "at": one.at}
        for one in timeline.waiting
    ]
    return {
        "type": "snapshot",
        "conversation": timeline.conversation,
        "thread": view_thread(timeline.thread),
        "entries": [view_entry(entry, shelf) for entry in entries],
        "more": timeline.more,
        "version": timeline.version,
        "waiting": waiting,
        "live": view_picture(picture),
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
