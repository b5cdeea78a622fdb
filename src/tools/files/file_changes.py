"""What turns changed in files, kept so that it can be shown and taken back, turn by turn.

The bytes from before lie under `$HERMES_HOME/file-changes/<task>/`, named by their hash, beside a journal.
"""

import contextlib
import difflib
import hashlib
import json
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hermes_base.errors import ToolFailure
from hermes_base.secret_files import SECRET_FILES
from hermes_base.text.harmless import is_hidden
from hermes_constants.ordinary_files import open_private
from tools.files.encodings import decode, printable
from tools.files.roots import (
    FileBytes,
    FilePlace,
    explain,
    make_folders,
    read_bytes,
    remove_empty_folder,
    remove_name,
    replace_by_staged,
    stage_bytes,
)
from tools.files.sensitive import is_secret_path

log = logging.getLogger(__name__)

FOLDER = "file-changes"
JOURNAL = "journal.jsonl"
KEPT_BYTES = 64 * 1024 * 1024  # per task; the oldest turns go first
KEPT_CHANGES = 1000
KEPT_TASKS = 100
#: How much of a change a question shows.
SHOWN_LINES, SHOWN_CHARS = 60, 3000
AROUND_LINES = 2
READ_LIMIT = 64 * 1024 * 1024
TOO_LARGE = "too large to keep"
#: One writer at a time: what was compared is still true when it is replaced.
write_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that was written or removed: hashes of its bytes before and after, None where there was no file."""

    turn: str
    path: str
    before: str | None
    after: str | None
    size: int = 0  # bytes from before
    mode: int | None = None
    folders: tuple[str, ...] = ()  # created for it, outermost first
    time: float = 0.0
    by: str = ""  # the person whose turn it was; empty: it is not known


def hash_bytes(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One file to be replaced: what it was (None: not there) and what it becomes (None: removed)."""

    place: FilePlace
    before: FileBytes | None
    after: bytes | None
    mode: int | None = None  # of a new file that takes the place of another one

    @property
    def changes(self) -> bool:
        return self.after != (self.before.data if self.before else None)


def show_rewrite(rewrite: Rewrite, redact: Callable[[str], str]) -> str:
    """What a person is shown before they agree: the whole path, and a unified diff, up to a limit."""
    before, after = rewrite.before.data if rewrite.before else b"", rewrite.after or b""
    verb = "delete" if rewrite.after is None else "change" if rewrite.before else "create"
    head = f"{verb} {_spell(printable(rewrite.place.path))}"
    there, new = decode(before), decode(after)
    if there is None or new is None:
        return f"{head}: {len(after):,} bytes that are no text (sha256 {hashlib.sha256(after).hexdigest()[:16]})"
    closed = rewrite.place.closed  # then what goes, or stays, is not for everybody who reads the question
    around = 0 if closed else AROUND_LINES
    lines = list(difflib.unified_diff(there.text.splitlines(), new.text.splitlines(), n=around, lineterm=""))[2:]
    shown = [line for line in lines if not (closed and line.startswith("-"))]
    whole = [_spell(line) for line in redact("\n".join(shown)).split("\n") if line]
    kept, chars_left = [], SHOWN_CHARS
    for line in whole[:SHOWN_LINES]:
        chars_left -= len(line)
        if chars_left < 0:
            break
        kept.append(line)
    left = [f"[{len(whole) - len(kept)} more lines are not shown]"] if len(kept) < len(whole) else []
    gone = sum(line.startswith("-") for line in lines)
    hidden = [f"[{gone} lines go]"] if closed and gone else []
    return "\n".join([head, *kept, *left, *hidden])


def _spell(text: str) -> str:
    """Signs that a screen obeys or hides are spelled out."""
    seen = (s == "\t" or (s.isprintable() and not is_hidden(s)) for s in text)
    return "".join(s if is_seen else s.encode("unicode_escape").decode() for s, is_seen in zip(text, seen, strict=True))


def replace_all(rewrites: Sequence[Rewrite], note: Callable[[Rewrite, Sequence[str]], None] | None = None) -> None:
    """Make all the changes or none. All are staged first, so a full disk leaves the files as they are, and `note` hears
    of each, with the folders that were made for it. The caller holds `write_lock`."""
    staged: list[tuple[Rewrite, str]] = []
    created: list[str] = []
    finished: list[Rewrite] = []
    place = FilePlace("", ())
    try:
        for rewrite in rewrites:
            place, before = rewrite.place, rewrite.before
            folders = make_folders(place.folder) if rewrite.after is not None else []
            created += folders
            mode = rewrite.mode if rewrite.mode is not None or before is None else before.status.st_mode
            staged.append((rewrite, "" if rewrite.after is None else stage_bytes(place, rewrite.after, mode)))
            if note is not None:
                note(rewrite, folders)
        for rewrite, name in staged:
            place = rewrite.place
            now = read_bytes(place, READ_LIMIT)
            if (now.data if now else None) != (rewrite.before.data if rewrite.before else None):
                raise ToolFailure(f"{place.path} changed meanwhile; nothing was written.", fix="Read it again.")
            _put(place, name)
            finished.append(rewrite)
    except BaseException as problem:
        _take_back(finished, staged, created)
        if isinstance(problem, OSError):
            raise ToolFailure(str(explain(place.path, problem)), kept="Nothing was changed.") from problem
        raise


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


def record(home: Path, task: str, turn: str, rewrite: Rewrite, folders: Sequence[str] = (), *, by: str = "") -> None:
    """Keep what a file was; called before it is changed, so that a crash in between loses nothing."""
    path, before = rewrite.place.path, rewrite.before
    data = None if before is None else before.data
    kept = hash_bytes(data) if data is None or len(data) <= KEPT_BYTES // 4 else TOO_LARGE
    with write_lock:
        folder = _task_folder(home, task)
        if not folder.is_dir():
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Before a task begins, those that changed nothing for longest make room.
            tasks = sorted(folder.parent.iterdir(), key=lambda task: task.stat().st_mtime_ns)
            for old in tasks[: max(0, len(tasks) - KEPT_TASKS + 1)]:
                shutil.rmtree(old, ignore_errors=True)
            folder.mkdir(mode=0o700)
        if data is not None and kept is not None and kept != TOO_LARGE:
            _write_private(folder / kept, data)
        mode = None if before is None else before.status.st_mode
        size = 0 if data is None else len(data)
        change = FileChange(turn, path, kept, hash_bytes(rewrite.after), size, mode, tuple(folders), time.time(), by)
        _write_journal(folder, _bound([*_read_journal(folder), change]))


def forget_last(home: Path, task: str, count: int) -> None:
    """Take the newest records out again: what they announced was not done."""
    with write_lock:
        folder = _task_folder(home, task)
        changes = _read_journal(folder)
        if count and changes:
            _write_journal(folder, changes[:-count])


def describe(home: Path, task: str, secrets: Sequence[str] = SECRET_FILES) -> str:
    """A unified diff of what undoing the last turn's changes would do; empty when there is nothing to undo.

    What files with the names of secrets hold is not shown.
    """
    with write_lock:
        folder = _task_folder(home, task)
        return "\n".join(_describe_one(folder, change, secrets) for change in _last_turn(folder))


def find_change(home: Path, task: str, path: str, secrets: Sequence[str] = SECRET_FILES) -> tuple[str, str] | None:
    """What a file was before a task changed it last (empty: it was not there), and what it became (empty: it is gone);
    None: that is not known any more, it is no text, or it may hold secrets."""
    with write_lock:
        folder = _task_folder(home, task)
        change = next((change for change in reversed(_read_journal(folder)) if change.path == path), None)
        if change is None or is_secret_path("/".join(path.split("/")[-2:]), secrets):
            return None
        before = _load(folder, change)
        try:
            now = read_bytes(FilePlace(path, ()), READ_LIMIT)
        except (ToolFailure, OSError):
            return None
    if before is None or hash_bytes(None if now is None else now.data) != change.after:
        return None
    there, became = decode(before), decode(now.data if now else b"")
    return None if there is None or became is None else (there.text, became.text)


def find_people(home: Path, task: str) -> set[str]:
    """Whose turn it was that changed files last; an empty name: that is not known."""
    with write_lock:
        return {change.by for change in _last_turn(_task_folder(home, task))}


def undo_last_turn(home: Path, task: str) -> list[str]:
    """Put the files of the last turn back and forget the turn; returns their paths.

    A file that somebody changed meanwhile is named in a ToolFailure, and nothing is done.
    """
    with write_lock:
        folder = _task_folder(home, task)
        changes = _last_turn(folder)
        blocked = [change for change in changes if not _is_as_left(change) or _load(folder, change) is None]
        if blocked:
            raise ToolFailure(
                "These files changed since, or what they were is not kept: " + ", ".join(c.path for c in blocked) + ".",
                kept="Nothing was undone.",
            )
        back = [None if change.before is None else _load(folder, change) for change in changes]
        places = [FilePlace(change.path, ()) for change in changes]
        try:
            now = [read_bytes(place, READ_LIMIT) for place in places]
            modes = [change.mode for change in changes]
            replace_all([Rewrite(*each) for each in zip(places, now, back, modes, strict=True)])
        except ToolFailure as problem:
            raise ToolFailure(f"Undoing failed: {problem.what}", kept="Nothing was undone.") from problem
        for made in reversed([made for change in changes for made in change.folders]):
            remove_empty_folder(made)
        if changes:
            kept = [change for change in _read_journal(folder) if change.turn != changes[0].turn]
            _write_journal(folder, kept)
    return [change.path for change in changes]


def _last_turn(folder: Path) -> list[FileChange]:
    changes = _merge(_read_journal(folder))
    return [change for change in changes if change.turn == changes[-1].turn]


def _merge(changes: Iterable[FileChange]) -> list[FileChange]:
    """A file that one turn changed several times is one change: from what it was first to what it is last."""
    merged: dict[tuple[str, str], FileChange] = {}
    for change in changes:
        first = merged.get((change.turn, change.path), change)
        merged[change.turn, change.path] = FileChange(
            first.turn,
            first.path,
            first.before,
            change.after,
            first.size,
            first.mode,
            first.folders,
            change.time,
            first.by,
        )
    return [change for change in merged.values() if change.before != change.after]


def _is_as_left(change: FileChange) -> bool:
    """Whether the file is what the turn made of it, or still what it was: a crash came before the change."""
    try:
        now = read_bytes(FilePlace(change.path, ()), READ_LIMIT)
    except (ToolFailure, OSError):
        return False
    return hash_bytes(None if now is None else now.data) in (change.after, change.before)


def _load(folder: Path, change: FileChange) -> bytes | None:
    """The bytes from before; empty for a file that was not there, None when they are not kept."""
    if change.before is None:
        return b""
    with contextlib.suppress(OSError):
        data = (folder / change.before).read_bytes()
        return data if hash_bytes(data) == change.before else None
    return None


def _describe_one(folder: Path, change: FileChange, secrets: Sequence[str]) -> str:
    if not _is_as_left(change):
        return f"{change.path} changed since; it cannot be undone.\n"
    now = read_bytes(FilePlace(change.path, ()), READ_LIMIT)
    before = _load(folder, change)
    if before is None:
        return f"{change.path}: what it was is not kept; it cannot be undone.\n"
    if is_secret_path("/".join(change.path.split("/")[-2:]), secrets):  # the file, or the folder it lies in
        return f"{change.path}: {len(before)} bytes come back (not shown: it may hold secrets).\n"
    there, back = decode(now.data if now else b""), decode(before)
    if there is None or back is None:
        return f"{change.path}: {len(before)} bytes come back (not text).\n"
    names = (change.path if now else os.devnull, os.devnull if change.before is None else change.path)
    lines = difflib.unified_diff(there.text.splitlines(True), back.text.splitlines(True), *names)
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def _bound(changes: Sequence[FileChange]) -> list[FileChange]:
    """The newest changes that fit the limits; a turn goes as a whole, the newest turn never goes."""
    kept = list(changes)
    while len({change.turn for change in kept}) > 1 and (
        len(kept) > KEPT_CHANGES or sum({c.before: c.size for c in kept}.values()) > KEPT_BYTES
    ):
        kept = [change for change in kept if change.turn != kept[0].turn]
    return kept


def _task_folder(home: Path, task: str) -> Path:
    """A folder name that no task can use to reach another folder, and no two tasks share."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", task)[:40]
    return Path(home) / FOLDER / f"{readable}-{hashlib.sha256(task.encode()).hexdigest()[:12]}"


def _read_journal(folder: Path) -> list[FileChange]:
    """The journal; a line that a crash cut short is passed over."""
    changes: list[FileChange] = []
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / JOURNAL).read_text("utf-8").splitlines():
            try:
                data = json.loads(line)
                changes.append(FileChange(**{**data, "folders": tuple(data["folders"])}))
            except (ValueError, TypeError, KeyError):
                log.warning("a line of %s cannot be read and is passed over", folder / JOURNAL)
    return changes


def _write_journal(folder: Path, changes: Sequence[FileChange]) -> None:
    """Replace the journal and drop the bytes that it no longer names."""
    text = "".join(json.dumps(asdict(change)) + "\n" for change in changes)
    _write_private(folder / JOURNAL, text.encode(), replace=True)
    named = {change.before for change in changes} | {JOURNAL}
    for entry in list(os.scandir(folder)):
        if entry.name not in named:
            os.unlink(entry.path)


def _write_private(path: Path, data: bytes, *, replace: bool = False) -> None:
    if path.exists() and not replace:
        return
    scratch = path.with_name(path.name + ".new")
    with open(scratch, "wb", opener=lambda name, flags: open_private(name, flags | os.O_NOFOLLOW)) as file:
        file.write(data)
    os.replace(scratch, path)
