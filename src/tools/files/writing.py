"""Writes files, several at once, all or nothing; remembers what a task has read so that nothing is lost silently."""

import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from hermes_base.errors import ToolFailure
from hermes_base.tool_context import ToolContext
from hermes_constants import get_hermes_home
from tools.files import file_changes
from tools.files.file_changes import Rewrite, hash_bytes, show_rewrite, write_lock
from tools.files.roots import (
    WRITE,
    FileBytes,
    FilePlace,
    ask_for_consent,
    explain,
    make_folders,
    read_bytes,
    remove_empty_folder,
    remove_name,
    replace_by_staged,
    stage_bytes,
)

log = logging.getLogger(__name__)

FILE_BYTES = 32 * 1024 * 1024
READ_FIRST = "Read it first, or set overwrite to true."
_REMEMBERED = 20_000
_known_lock = threading.Lock()
_known: OrderedDict[tuple[str, str], str | None] = OrderedDict()  # task and path: the hash of what was read


def note_read(task: str, path: str, file: FileBytes) -> None:
    """This task knows the file as it is now."""
    with _known_lock:
        _known[task, path] = hash_bytes(file.data)
        _known.move_to_end((task, path))
        while len(_known) > _REMEMBERED:
            _known.popitem(last=False)


def refuse_unknown(task: str, path: str, file: FileBytes, fix: str = READ_FIRST) -> None:
    """A ToolFailure unless this task has read the file and nobody changed it since."""
    with _known_lock:
        known = _known.get((task, path))
    if known is None:
        raise ToolFailure(f"{path} exists and was not read.", fix=fix)
    if known != hash_bytes(file.data):
        raise ToolFailure(f"{path} changed since it was read; nothing was written.", fix="Read it again.")


def change_files(context: ToolContext, plan: Callable[[], Sequence[Rewrite]]) -> Sequence[Rewrite]:
    """Make the planned changes, all or none; where a person decides, they see them first, and exactly those are made.

    While the person thinks, nobody else waits; a file that changes meanwhile ends it.
    """
    with write_lock:
        rewrites = plan()
        asked = [rewrite for rewrite in rewrites if rewrite.place.reasons]
        if not asked:
            _apply(context, rewrites)
            return rewrites
    what = "\n\n".join(show_rewrite(rewrite, context.redact) for rewrite in asked)
    reasons = tuple(dict.fromkeys(reason for rewrite in asked for reason in rewrite.place.reasons))
    ask_for_consent(context, what, ", ".join(rewrite.place.path for rewrite in asked), WRITE, reasons)
    with write_lock:
        _apply(context, rewrites)
    return rewrites


def _apply(context: ToolContext, rewrites: Sequence[Rewrite]) -> None:
    """Make all the changes or none, and keep what the files were. The caller holds `write_lock`."""
    rewrites = [rewrite for rewrite in rewrites if rewrite.changes]
    home, done = context.own or context.home or get_hermes_home(), 0
    staged: list[tuple[Rewrite, str]] = []
    created: list[str] = []
    finished: list[Rewrite] = []
    try:
        for rewrite in rewrites:
            folders = make_folders(rewrite.place.folder) if rewrite.after is not None else []
            created += folders
            mode = rewrite.before.status.st_mode if rewrite.before else rewrite.mode
            name = "" if rewrite.after is None else stage_bytes(rewrite.place, rewrite.after, mode)
            staged.append((rewrite, name))
            file_changes.record(home, context.task, context.turn, rewrite, folders)
            done += 1
        for rewrite, name in staged:
            now = read_bytes(rewrite.place, FILE_BYTES)
            if (now.data if now else None) != (rewrite.before.data if rewrite.before else None):
                raise ToolFailure(f"{rewrite.place.path} changed meanwhile; nothing was written.", fix="Read it again.")
            _put(rewrite.place, name)
            finished.append(rewrite)
    except BaseException as problem:
        _take_back(finished, staged, created)
        file_changes.forget_last(home, context.task, done)
        if isinstance(problem, OSError):
            where = rewrites[min(len(finished), len(rewrites) - 1)].place.path
            raise ToolFailure(str(explain(where, problem)), kept="Nothing was changed.") from problem
        raise
    for rewrite in rewrites:
        file = None
        with contextlib.suppress(OSError, ToolFailure):
            file = read_bytes(rewrite.place, FILE_BYTES)
        if file is not None:
            note_read(context.task, rewrite.place.path, file)
            continue
        with _known_lock:
            _known.pop((context.task, rewrite.place.path), None)


def _put(place: FilePlace, staged: str) -> None:
    if staged:
        replace_by_staged(place, staged)
    else:
        remove_name(place, place.name)


def _take_back(finished: Sequence[Rewrite], staged: Sequence[tuple[Rewrite, str]], created: Sequence[str]) -> None:
    """Undo the part that was done; each file is tried, whatever happens to the others."""
    for rewrite, name in staged:
        if name and rewrite not in finished:
            with contextlib.suppress(OSError, ToolFailure):
                remove_name(rewrite.place, name)
    for rewrite in reversed(finished):
        try:
            before = rewrite.before
            _put(rewrite.place, stage_bytes(rewrite.place, before.data, before.status.st_mode) if before else "")
        except (OSError, ToolFailure):
            log.exception("%s could not be put back", rewrite.place.path)
    for folder in reversed(created):
        remove_empty_folder(folder)
