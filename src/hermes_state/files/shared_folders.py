"""Memory and skills on several gateways: laid out in the home before a turn, and what the turn has changed is kept.

Of each file three forms are known: as it stands here, as it is in the store, and as it was when both were the same.
Whichever of the two was changed since is taken; where both were, notes are put together, and of any other file both
forms stay. So it does not matter who changed what, when, and whether a process was killed in between.
"""

import base64
import glob
import hashlib
import json
import logging
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hermes_base.errors import Fenced, StoreFailure
from hermes_base.files.note_merge import merge_notes
from hermes_base.inbound import PEOPLE
from hermes_constants.ordinary_files import hold_folder, open_private, read_file
from hermes_state.sql.engines.engine import Sql
from hermes_state.sql.files.files_sql import FileStore, FolderEdit, KeptFile, KeptFolder, ReadKept

log = logging.getLogger(__name__)

MEMORIES, SKILLS = "memories", "skills"
INDEX_FOLDER = "laid-out"  # in the home: what is known of each folder, and what was put aside
MOST_FILES = 2_000  # of a folder
MOST_BYTES = 10_000_000  # of a file
_NOTES = ".md"  # in `memories`: files of notes
_SETTLED = 50_000_000  # nanoseconds: a file that was changed longer ago shows each later change by its stamp
_TRIES = 3

LEFT_OUT = "{path} is not shared with other gateways: {why}. It stays on this machine."
BOTH_KEPT = "{path} was changed on two machines at the same time. What was written here is kept beside it, as {other}."


@dataclass(frozen=True, slots=True)
class KnownForm:
    """A file as it was when home and store had the same."""

    hash: bytes
    notes: str | None = None  # of a file of notes


@dataclass(frozen=True, slots=True)
class LocalFile:
    hash: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What becomes of a file, here and in the store; None: it goes."""

    path: str
    data: bytes | None
    mode: int
    kept: bool = False  # the store gets it
    laid_out: bool = False  # the home gets it
    double_of: str = ""  # it is what was written here under that name


class SharedFolders:
    """Of one home. Called on threads of turns."""

    def __init__(self, home: Path, store: FileStore) -> None:
        self._home = home
        self._store = store
        self._lock = threading.Lock()
        self._folders: dict[tuple[str, str], SharedFolder] = {}
        self.place = f"{_name_home(home)} {socket.gethostname()}:{home}"  # the home's name, and where people find it

    def lay_out(self, person: str, revisions: Mapping[str, int], fence: Sql | None = None) -> list[str]:
        """Before a turn for this person: what was changed elsewhere comes here, what was changed here is kept.
        `revisions` are those of the store; `fence` has to hold for whatever is written there. What is to be told."""
        return [word for folder in self._list(person) for word in folder.settle(fence, revisions.get(folder.name, 0))]

    def write_back(self, person: str, fence: Sql | None) -> list[str]:
        """What the turn has changed is kept, unless it is not its owner's turn any more: then it is put aside, and
        Fenced is raised. What is to be told."""
        words: list[str] = []
        fenced: Fenced | None = None
        for folder in self._list(person):
            try:
                words += folder.settle(fence)
            except Fenced as problem:  # the others put theirs aside, too
                fenced = problem
        if fenced is not None:
            raise fenced
        return words

    def _list(self, person: str) -> "tuple[SharedFolder, SharedFolder]":
        return self._get(person, MEMORIES), self._get("", SKILLS)

    def _get(self, person: str, name: str) -> "SharedFolder":
        with self._lock:
            found = self._folders.get((person, name))
            if found is None:
                found = self._folders[person, name] = SharedFolder(self._home, self._store, person, name)
            return found


class SharedFolder:
    """One folder of a person in one home."""

    def __init__(self, home: Path, store: FileStore, person: str, name: str) -> None:
        self.name = name
        self._person = person
        self._store = store
        own = home / PEOPLE / person if person else home
        self._own, self._place = own, own / name
        self._aside = home / INDEX_FOLDER
        self._index = self._aside / f"{person or 'owner'}-{name}.json"
        self._lock = threading.Lock()
        self._revision = -1  # of the store, when it was last looked at; -1: it never was
        self._known: dict[str, KnownForm] | None = None  # None: not read yet
        self._stamps: dict[str, tuple[tuple[int, ...], LocalFile]] = {}
        self._told: set[str] = set()

    def settle(self, fence: Sql | None, revision: int | None = None) -> list[str]:
        """Make home and store the same; `revision` is that of the store, as far as it was asked. What is to be told."""
        with self._lock:
            known = self._read_index() if self._known is None else self._known
            if revision is not None and revision < self._revision:  # perhaps another turn here has kept something since
                revision = self._store.read_folder(self._person, self.name).revision
            if revision is not None and revision < self._revision:
                log.warning("the store is older than what is known of it: nothing goes in %s for that", self._place)
                known = self._known = {}
            words: list[str] = []
            local = self._scan(words)
            self._revision = 0 if not (revision or known or local) else self._revision  # there is nothing anywhere
            if revision in (None, self._revision) and _hashes(local) == _hashes(known):
                return words
            try:
                with hold_folder(self._place):
                    return words + self._settle_held(fence, drops=revision is None)
            except OSError as problem:
                what = f"{self._place} cannot be brought up to date: {problem.strerror}."
                fix = "Check the disk's space and rights."
                raise StoreFailure(what, kept="Nothing of it was lost.", fix=fix) from problem

    # --- the steps, while nobody else writes here

    def _settle_held(self, fence: Sql | None, *, drops: bool) -> list[str]:
        """With `drops`, what was changed here is put aside when the fence does not hold."""
        local = self._scan([])
        if not local and len({path.split("/")[1] for path in self._known or {}}) > 1:
            log.warning("%s has lost all its files at once: they are laid out again", self._place)
            self._known = {}  # a disk that is not there deletes nothing
        if _hashes(local) == _hashes(self._known or {}):
            self._take(local)
            return []
        settled: list[Settled] = []

        def plan(files: Mapping[str, KeptFile], read: ReadKept) -> Sequence[FolderEdit]:
            settled[:] = self._compare(local, files, read)
            return [FolderEdit(one.path, one.data, one.mode) for one in settled if one.kept]

        try:
            kept = self._store.change_folder(self._person, self.name, plan, fence)
        except Fenced:
            if drops:
                self._put_aside(local)
            raise
        for one in settled:
            if one.laid_out:
                self._write(one)
        self._note(kept, {one.path: one.data for one in settled if one.data is not None})
        return [BOTH_KEPT.format(path=one.double_of, other=one.path) for one in settled if one.double_of]

    def _take(self, local: Mapping[str, LocalFile]) -> None:
        """Nothing was changed here: the store's form is laid out."""
        for _ in range(_TRIES):
            kept = self._store.read_folder(self._person, self.name)
            try:
                wanted = {
                    path: b"".join(self._store.read(file))
                    for path, file in kept.files.items()
                    if path not in local or local[path].hash != bytes(file.hash)
                }
                break
            except StoreFailure as problem:  # it was changed meanwhile
                failure = problem
        else:
            raise failure
        for path, data in wanted.items():
            self._write(Settled(path, data, kept.files[path].mode))
        for path in local.keys() - kept.files.keys():
            self._write(Settled(path, None, 0))
        self._note(kept, wanted)

    def _compare(
        self, local: Mapping[str, LocalFile], files: Mapping[str, KeptFile], read: ReadKept
    ) -> Iterator[Settled]:
        known = self._known or {}
        for path in sorted({*local, *files, *known}):
            here, there, before = local.get(path), files.get(path), known.get(path)
            mine, theirs = here and here.hash, there and bytes(there.hash)
            was = before and before.hash
            mode = here.mode if here is not None else there.mode if there is not None else 0o600
            if mine == theirs:
                continue
            if mine == was:
                data, mode = (read(there), there.mode) if there else (None, mode)
                yield Settled(path, data, mode, laid_out=True)
            elif theirs == was:
                yield Settled(path, self._read(path) if here else None, mode, kept=True)
            elif _is_notes(path):
                told = [
                    before.notes if before and before.notes else "",
                    _as_text(self._read(path)) if here else "",
                    _as_text(read(there)) if there else "",
                ]
                merged = _as_bytes(merge_notes(*told))
                yield Settled(path, merged, mode, kept=True, laid_out=True)
            elif there is None:  # it went there, and has a new form here
                yield Settled(path, self._read(path), mode, kept=True)
            else:
                yield Settled(path, read(there), there.mode, laid_out=True)
                if here is not None:
                    double = _name_double(path, here)
                    yield Settled(double, self._read(path), mode, kept=True, laid_out=True, double_of=path)

    def _put_aside(self, local: Mapping[str, LocalFile]) -> None:
        """A turn that is not its owner's any more has changed something here: that does not count."""
        known = self._known or {}
        place = self._aside / f"dropped-{time.strftime('%Y%m%d-%H%M%S')}" / (self._person or "owner")
        for path, file in local.items():
            if path not in known or known[path].hash != file.hash:
                (place / path).parent.mkdir(parents=True, mode=0o700, exist_ok=True)
                os.replace(self._own / path, place / path)
                log.warning("what a turn that went to another gateway had written is put aside: %s", place / path)
        try:
            self._take(self._scan([]))
        except StoreFailure as problem:
            log.warning("%s is brought up to date later: %s", self._place, problem)

    # --- files of the home

    def _scan(self, words: list[str]) -> dict[str, LocalFile]:
        found: dict[str, LocalFile] = {}
        now = time.time_ns()
        for path, facts in _walk(self._own, self.name):
            why = "it is too large" if facts.st_size > MOST_BYTES else ""
            why = why or (f"there are more than {MOST_FILES:,} files" if len(found) >= MOST_FILES else "")
            if why:
                if path not in self._told:
                    self._told.add(path)
                    words.append(LEFT_OUT.format(path=path, why=why))
                continue
            stamp = (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino)
            before = self._stamps.get(path)
            if before is None or before[0] != stamp:
                try:
                    data = self._read(path)
                except OSError:
                    continue  # it went meanwhile
                before = stamp, LocalFile(hashlib.sha256(data).digest(), stat.S_IMODE(facts.st_mode) & 0o777)
                if abs(now - max(facts.st_mtime_ns, facts.st_ctime_ns)) > _SETTLED:
                    self._stamps[path] = before
            found[path] = before[1]
        return found

    def _read(self, path: str) -> bytes:
        return read_file(self._own / path, MOST_BYTES)

    def _write(self, one: Settled) -> None:
        """The file has its new form, or the old one."""
        place = self._own / one.path
        self._stamps.pop(one.path, None)
        if one.data is None:
            place.unlink(missing_ok=True)
            for folder in place.parents:
                if folder == self._place:
                    return
                with suppress(OSError):  # something else is in it
                    folder.rmdir()
            return
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.parent.resolve().is_relative_to(self._place.resolve()):
            log.warning("%s is not laid out: a link leads out of %s", place, self._place)
            return
        _replace(place, one.data, one.mode)

    # --- what is known

    def _read_index(self) -> dict[str, KnownForm]:
        """Of this store; what is known of another one says nothing here."""
        try:
            told: dict[str, Any] = json.loads(self._index.read_bytes())
            is_ours = told["store"] == self._store.name_store()
            forms = {path: KnownForm(base64.b64decode(hash), notes) for path, (hash, notes) in told["files"].items()}
            self._revision, self._known = (int(told["revision"]), forms) if is_ours else (-1, {})
        except FileNotFoundError:
            self._known = {}
        except (OSError, ValueError, TypeError, KeyError) as problem:
            log.warning("%s cannot be read, and is made anew: %s", self._index, problem)
            self._known = {}
        return self._known

    def _note(self, kept: KeptFolder, data: Mapping[str, bytes]) -> None:
        """Home and store are the same now."""
        before, forms = self._known or {}, dict[str, KnownForm]()
        for path, file in kept.files.items():
            hash = bytes(file.hash)
            known = before.get(path)
            if known is None or known.hash != hash:
                notes = None
                if _is_notes(path):
                    notes = _as_text(data[path] if path in data else self._read(path))
                known = KnownForm(hash, notes)
            forms[path] = known
        told = {
            "store": self._store.name_store(),
            "revision": kept.revision,
            "files": {path: (base64.b64encode(form.hash).decode(), form.notes) for path, form in forms.items()},
        }
        self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(self._index, json.dumps(told).encode(), 0o600)
        self._revision, self._known = kept.revision, forms


def list_traces(home: Path, person: str) -> list[Path]:
    """What of this person lies in a home beside their folder: what is known of it, and what was put aside."""
    aside, name = home / INDEX_FOLDER, glob.escape(person)
    return [*aside.glob(f"{name}-*.json"), *aside.glob(f"dropped-*/{name}")]


def _name_home(home: Path) -> str:
    """Its own for ever: machines and folders get other names, as containers do at each start."""
    path = home / INDEX_FOLDER / "home"
    with suppress(FileNotFoundError):
        if found := path.read_text(errors="replace").strip():
            return found
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = secrets.token_hex(6)
    _replace(path, name.encode(), 0o600)
    return name


def _walk(own: Path, name: str) -> Iterator[tuple[str, os.stat_result]]:
    """Plain files below a folder, in order; what begins with a dot, and what is a link, belongs to the machine."""
    try:
        entries = sorted(os.scandir(own / name), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__pycache__" or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _walk(own, f"{name}/{entry.name}")
        elif entry.is_file():
            with suppress(FileNotFoundError):
                yield f"{name}/{entry.name}", entry.stat()


def _replace(place: Path, data: bytes, mode: int) -> None:
    new = place.with_name(f".{place.name}.new")
    new.unlink(missing_ok=True)
    try:
        with open(new, "xb", opener=open_private) as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode & 0o777)
            os.fsync(file.fileno())
        os.replace(new, place)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _hashes(forms: Mapping[str, KnownForm] | Mapping[str, LocalFile]) -> dict[str, bytes]:
    return {path: form.hash for path, form in forms.items()}


def _is_notes(path: str) -> bool:
    return path.startswith(f"{MEMORIES}/") and path.endswith(_NOTES)


def _name_double(path: str, file: LocalFile) -> str:
    pure = PurePosixPath(path)
    return str(pure.with_name(f"{pure.stem}.other-{file.hash.hex()[:8]}{pure.suffix}"))


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
