"""Plans the edits of one call over several files in memory; only when all of them fit is anything written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from tools.files.diffs import FileDiff, read_diff
from tools.files.encodings import FileText, decode
from tools.files.file_changes import Rewrite
from tools.files.patching import apply_hunks, replace_text
from tools.files.roots import WRITE, FileBytes, FilePlace, find_place, read_bytes
from tools.files.writing import FILE_BYTES, refuse_unknown


@dataclass(frozen=True, slots=True)
class Replacement:
    """Search and replace in one file."""

    path: str
    old: str
    new: str
    every: bool


@dataclass
class FileDraft:
    """A file in the middle of the plan."""

    place: FilePlace
    before: FileBytes | None
    data: bytes | None
    mode: int | None = None


Edit = Replacement | FileDiff


def read_edits(args: Mapping[str, Any]) -> list[Edit]:
    """The edits of a call, checked; several files of one diff become several edits."""
    edits = args.get("edits")
    if isinstance(edits, Mapping):
        edits = [edits]
    if not isinstance(edits, list) or not edits:
        raise ToolFailure("patch needs edits.", fix="Give a list of {path, old, new} or {diff}.")
    read: list[Edit] = []
    for number, raw in enumerate(edits, 1):
        if not isinstance(raw, Mapping):
            raise ToolFailure(f"Edit {number} must be an object.", fix="Give {path, old, new} or {diff}.")
        diff = raw.get("diff")
        if isinstance(diff, str) and diff.strip():
            read += read_diff(diff)
            continue
        path, old, new = raw.get("path"), raw.get("old"), raw.get("new")
        if not (isinstance(path, str) and isinstance(old, str) and isinstance(new, str)):
            raise ToolFailure(f"Edit {number} needs path, old and new as text, or diff.")
        read.append(Replacement(path, old, new, raw.get("all") is True))
    return read


def find_places(context: ToolContext, edits: Sequence[Edit]) -> dict[str, FilePlace]:
    """Every path that the edits name, checked before anything is read."""
    names = [name for edit in edits for name in _name_paths(edit)]
    return {name: find_place(context, name, WRITE) for name in dict.fromkeys(names)}


def plan_rewrites(task: str, edits: Sequence[Edit], places: Mapping[str, FilePlace]) -> list[Rewrite]:
    """What the files become; a ToolFailure when one edit does not fit."""
    plan = PatchPlan(task, places)
    for edit in edits:
        path = next(iter(_name_paths(edit)))
        try:
            plan.add(edit)
        except ToolFailure as failure:
            what = f"{path}: {failure.what}"
            raise ToolFailure(what, kept="No file was changed.", fix=failure.fix) from failure
    return plan.rewrites()


class PatchPlan:
    """Drafts of files; later edits see what earlier ones made."""

    def __init__(self, task: str, places: Mapping[str, FilePlace]) -> None:
        self._task = task
        self._places = places
        self._drafts: dict[str, FileDraft] = {}

    def add(self, edit: Edit) -> None:
        if isinstance(edit, Replacement):
            draft = self._open(edit.path)
            if not edit.old and not draft.data:
                draft.data = FileText("").encode(edit.new, edit.path)
            else:
                _rewrite(draft, lambda text: replace_text(text, edit.old, edit.new, every=edit.every))
        elif edit.old is None and edit.new is not None:
            draft = self._open(edit.new)
            if draft.data is not None:
                raise ToolFailure("The diff creates the file, but it exists.", fix="Write the diff against the file.")
            draft.data = FileText("").encode(apply_hunks("", edit.hunks), draft.place.path)
        elif edit.new is None and edit.old is not None:
            self._delete(edit, self._open(edit.old))
        elif edit.old is not None and edit.new is not None:
            draft = self._open(edit.old)
            _rewrite(draft, lambda text: apply_hunks(text, edit.hunks))
            if edit.old == edit.new:
                return
            target = self._open(edit.new)
            if target.data is not None:
                raise ToolFailure(
                    f"The diff renames it to {target.place.path}, which exists.", fix="Choose another name."
                )
            target.data, target.mode = draft.data, draft.before.status.st_mode if draft.before else draft.mode
            draft.data = None

    def rewrites(self) -> list[Rewrite]:
        changed = [d for d in self._drafts.values() if d.data != (d.before.data if d.before else None)]
        if not changed:
            raise ToolFailure("The edits change nothing.")
        return [Rewrite(draft.place, draft.before, draft.data, draft.mode) for draft in changed]

    def _delete(self, diff: FileDiff, draft: FileDraft) -> None:
        if diff.hunks:
            _rewrite(draft, lambda text: apply_hunks(text, diff.hunks))
            if draft.data and decode(draft.data) != FileText(""):
                raise ToolFailure("The diff deletes the file, but the file holds more.", fix="Read the file again.")
        _need(draft)
        draft.data = None

    def _open(self, name: str) -> FileDraft:
        place = self._places[name]
        if place.path not in self._drafts:
            file = read_bytes(place, FILE_BYTES)
            if file is not None and place.closed:  # whether an edit fits tells what the file holds
                refuse_unknown(self._task, place.path, file, "Read it first; the person is asked.")
            self._drafts[place.path] = FileDraft(place, file, file.data if file else None)
        return self._drafts[place.path]


def _need(draft: FileDraft) -> bytes:
    if draft.data is None:
        raise ToolFailure("There is no such file.", fix="Look for it with search_files.")
    return draft.data


def _rewrite(draft: FileDraft, change: Callable[[str], str]) -> None:
    """Change the text of a draft in its own encoding."""
    text = decode(_need(draft))
    if text is None:
        raise ToolFailure("The file is binary; it cannot be patched.", fix="Use the terminal for it.")
    draft.data = text.encode(change(text.text), draft.place.path)


def _name_paths(edit: Edit) -> list[str]:
    if isinstance(edit, Replacement):
        return [edit.path]
    return list(dict.fromkeys(name for name in (edit.old, edit.new) if name is not None))
