"""Writes files, several at once, all or nothing; remembers what a task has read so that nothing is lost silently."""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from hermes_constants import get_hermes_home
from tools.files import file_changes
from tools.files.file_changes import Rewrite, hash_bytes, show_rewrite, write_lock
from tools.files.roots import WRITE, FileBytes, ask_for_consent, name_deed, read_bytes

FILE_BYTES = 32 * 1024 * 1024
READ_FIRST = "Read it first, or set overwrite to true."
MOST_QUESTIONS = 3
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

    While the person thinks, nobody else waits. If a file changed meanwhile, what would be done now is asked for (G4).
    """
    for _ in range(MOST_QUESTIONS):
        with write_lock:
            rewrites = plan()
            asked = [rewrite for rewrite in rewrites if rewrite.place.reasons]
            if not asked:
                _apply(context, rewrites)
                return rewrites
        _ask(context, asked)
        with write_lock:
            if all(map(_is_as_planned, rewrites)):
                _apply(context, rewrites)
                return rewrites
    raise ToolFailure("A file changed each time while it was asked for; nothing was written.", fix="Read it again.")


def _ask(context: ToolContext, asked: Sequence[Rewrite]) -> None:
    what = "\n\n".join(show_rewrite(rewrite, context.redact) for rewrite in asked)
    reasons = tuple(dict.fromkeys(reason for rewrite in asked for reason in rewrite.place.reasons))
    paths = [rewrite.place.path for rewrite in asked]
    gone = [rewrite.place.path for rewrite in asked if rewrite.after is None]
    use = "delete" if gone else WRITE  # a rule that lets a file be written does not let it be deleted
    shown = f"{use} {', '.join(paths)}"
    deed = name_deed(context, use, paths, shown, [rewrite.place.reasons for rewrite in asked])
    ask_for_consent(context, what, ", ".join(paths), WRITE, reasons, deed)


def _is_as_planned(rewrite: Rewrite) -> bool:
    """Whether the file is still what the person was shown."""
    now = read_bytes(rewrite.place, FILE_BYTES)
    return (now.data if now else None) == (rewrite.before.data if rewrite.before else None)


def _apply(context: ToolContext, rewrites: Sequence[Rewrite]) -> None:
    """Make all the changes or none, and keep what the files were. The caller holds `write_lock`."""
    rewrites = [rewrite for rewrite in rewrites if rewrite.changes]
    home, recorded = context.own or context.home or get_hermes_home(), 0

    def keep(rewrite: Rewrite, folders: Sequence[str]) -> None:
        nonlocal recorded
        file_changes.record(home, context.task, context.turn, rewrite, folders, by=context.sender)
        recorded += 1

    try:
        file_changes.replace_all(rewrites, keep)
    except BaseException:
        file_changes.forget_last(home, context.task, recorded)
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
