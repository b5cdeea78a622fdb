"""Back-ups of a home: one archive of all that is the person's, taken beside a running Hermes, and checked to the byte.

The archive begins with a manifest that names each member with its hash. What is not in the manifest is refused. A store
that is a database is in it as the file that a home without one has.
"""

import gzip
import hashlib
import io
import json
import logging
import os
import shutil
import stat
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from hermes_base.errors import ConfigProblem, HermesError, StoreFailure
from hermes_base.files.home_files import place_file
from hermes_base.store_place import StorePlace, find_place, is_address
from hermes_constants import STORE_FILE, VERSION
from hermes_constants.home_names import KEPT, belongs_to, find_database, is_own, may_be_data
from hermes_constants.ordinary_files import open_file, open_private
from hermes_state.sql.engines.sqlite import check_file, copy_file, read_layout
from hermes_state.sql.store_sql import Store
from hermes_state.transfer.moving import save_as_file

log = logging.getLogger(__name__)

FORMAT, FORMAT_VERSION = "hermes-backup", 1
FOLDER = "backups"  # in the home
MANIFEST = "manifest.json"
SECRETS = (".env",)
#: Names below `people/ID` that pass, as they do in the home itself.
PASSING_OF_PEOPLE = frozenset({"outbox", "file-changes"})
FILE, DIRECTORY = "file", "folder"
_PATIENCE = 30.0  # seconds to wait for a store that is locked
_SQLITE = b"SQLite format 3\0"  # how such a file begins
_LOGS = ("-wal", "-journal")  # beside a database that somebody works with
_CHUNK = 1 << 20
_LARGEST_MANIFEST = 256 << 20
_LARGEST_HEADER = 64 << 10  # of what says more about a member than its own block, a long name for example
_LONGEST_NAME, _LONGEST_PATH = 255, 4_095  # bytes that file systems take
_LONGEST_SHOWN = 100
_LARGEST_END = 1 << 20  # bytes after the last member; archives are padded
_UNREADABLE = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError)


@dataclass(frozen=True, slots=True)
class Member:
    """One file or folder of a back-up, by its path in the home."""

    name: str
    kind: str
    mode: int
    size: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a back-up holds; layout 0: there was no store yet."""

    program: str
    created: str
    layout: int
    members: tuple[Member, ...]

    @property
    def has_secrets(self) -> bool:
        return any(member.name in SECRETS for member in self.members)

    @property
    def size(self) -> int:
        return sum(member.size for member in self.members)


@dataclass(frozen=True, slots=True)
class Made:
    """A finished back-up; `left_out` are links and other things that are no files, `unknown` what stands in the home
    and is nobody's as far as is known."""

    path: Path
    manifest: Manifest
    left_out: tuple[str, ...]
    unknown: tuple[str, ...] = ()


class BadBackup(HermesError):
    """The archive is cut, damaged, foreign or newer than this program. It is read before anything is changed."""

    def __init__(self, what: str, fix: str = "Use another back-up.") -> None:
        super().__init__(what, kept="Nothing was changed.", fix=fix)


# --- making one


def create_backup(
    home: Path,
    path: Path | None = None,
    *,
    with_secrets: bool = False,
    plugins: Collection[str] = (),
    named: Collection[str] = (),
) -> Made:
    """Copy what is the person's into a new archive, with the data of these plugins, and what else is named at the top
    of the home; Hermes may run and write meanwhile."""
    path = path or home / FOLDER / time.strftime("hermes-%Y%m%d-%H%M%S.tar.gz")
    if path.exists():
        raise ConfigProblem(f"{path} is there already.", kept="It was not changed.", fix="Choose another name.")
    others = sorted(name for name in os.listdir(home) if not is_own(name)) if home.is_dir() else []
    data = [name for name in others if belongs_to(name, plugins) or (name in named and may_be_data(name))]
    names, place = (*KEPT, *SECRETS, *data) if with_secrets else (*KEPT, *data), find_place(home)
    found = [name for top in names for name in _list_below(home, top)]  # before the copies come to lie anywhere
    if is_address(place) and STORE_FILE not in found:
        found.insert(0, STORE_FILE)
    if not found:
        raise ConfigProblem(f"There is nothing to back up in {home}.", fix="Start Hermes once, or set HERMES_HOME.")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".hermes-backup-", dir=path.parent) as work:
        copies, kept = Path(work) / "copies", Path(work) / "kept"
        copies.mkdir()
        kept.mkdir()
        members = _put_kept(kept, copies, list(_copy_all(home, place, found, copies, kept)))
        layout = read_layout(copies / STORE_FILE) if STORE_FILE in found else 0
        manifest = Manifest(VERSION, time.strftime("%Y-%m-%dT%H:%M:%S%z"), layout, tuple(members))
        archive = Path(work) / "archive"
        _write_archive(archive, manifest, copies)
        os.rename(archive, path)
    sync_folder(path.parent)
    copied = {member.name for member in members}
    left_out = (name for name in found if name not in copied and find_database(name) not in copied)
    unknown = (name for name in others if name not in data and not name.startswith("."))
    return Made(path, manifest, tuple(left_out), tuple(unknown))


def _list_below(home: Path, name: str) -> Iterator[str]:
    """The path itself and, of a folder, what is in it, in a fixed order."""
    place = home / name
    if not os.path.lexists(place):
        return
    yield name
    if place.is_symlink() or not place.is_dir():
        return
    for below in sorted(os.listdir(place)):
        is_person = name.startswith("people/") and name.count("/") == 1
        if not (is_person and below in PASSING_OF_PEOPLE):
            yield from _list_below(home, f"{name}/{below}")


def _copy_all(home: Path, place: StorePlace, found: Sequence[str], copies: Path, kept: Path) -> Iterator[Member]:
    whole: set[str] = set()  # databases that were copied as one state: what belongs to them is in the copy
    for name in found:
        if find_database(name) in whole:
            continue
        if name == STORE_FILE:
            member = _copy_store(place, copies, kept)
        elif (member := _copy_database(home, name, copies)) is not None:
            whole.add(name)
        else:
            member = _copy_member(home, name, copies)
        if member is not None:
            yield member


def _copy_database(home: Path, name: str, copies: Path) -> Member | None:
    """Copy a database that somebody works with as one state of it; None: it is none, or can be copied like any file."""
    source, target = home / name, copies / name
    if find_database(name) != name or not any(os.path.lexists(f"{source}{log}") for log in _LOGS):
        return None
    try:
        status = source.lstat()
        if not stat.S_ISREG(status.st_mode):
            return None
        with open_file(source) as file:
            if file.read(len(_SQLITE)) != _SQLITE:
                return None
        copy_file(source, target, _PATIENCE)
    except (OSError, StoreFailure) as problem:
        log.warning("%s is copied as it lies there: %s", source, problem)
        target.unlink(missing_ok=True)
        return None
    return Member(name, FILE, stat.S_IMODE(status.st_mode) & 0o777, target.stat().st_size, hash_file(target))


def _copy_store(place: StorePlace, copies: Path, kept: Path) -> Member | None:
    """The store as a file, one state of it; None: it is no file, or has gone meanwhile. Files that a database keeps
    come into `kept`, as a home without one has them."""
    target, mode = copies / STORE_FILE, 0o600
    if is_address(place):
        save_as_file(place, target)
        with closing(Store(target)) as store:
            for file in store.files.list_all():
                path = place_file(kept, file.name)
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                path.write_bytes(b"".join(store.files.read(file)))
                path.chmod(file.mode)
            store.files.clear()
    elif not Path(place).is_file() or Path(place).is_symlink():
        return None
    else:
        copy_file(Path(place), target, _PATIENCE)
        mode = stat.S_IMODE(Path(place).stat().st_mode) & 0o777
    return Member(STORE_FILE, FILE, mode, target.stat().st_size, hash_file(target))


def _put_kept(kept: Path, copies: Path, members: list[Member]) -> list[Member]:
    """What the store keeps is newer than what is laid out in this home."""
    if not any(kept.iterdir()):
        return members
    found = {member.name: member for member in members}
    for path in sorted(kept.rglob("*")):
        name, mode = str(path.relative_to(kept)), stat.S_IMODE(path.stat().st_mode) & 0o777
        if path.is_dir():
            (copies / name).mkdir(exist_ok=True)
            found.setdefault(name, Member(name, DIRECTORY, mode))
        else:
            os.replace(path, copies / name)
            size = (copies / name).stat().st_size
            found[name] = Member(name, FILE, mode, size, hash_file(copies / name))
    return sorted(found.values(), key=lambda member: member.name.split("/"))


def _copy_member(home: Path, name: str, copies: Path) -> Member | None:
    """Copy one file or folder; None: it is neither, or has gone meanwhile."""
    source, target = home / name, copies / name
    try:
        status = source.lstat()
        if stat.S_ISDIR(status.st_mode):
            target.mkdir()
            return Member(name, DIRECTORY, stat.S_IMODE(status.st_mode) & 0o777)
        if not stat.S_ISREG(status.st_mode):
            return None
        with open_file(source) as taken, target.open("xb") as put:
            shutil.copyfileobj(taken, put, _CHUNK)
    except FileNotFoundError:
        return None
    return Member(name, FILE, stat.S_IMODE(status.st_mode) & 0o777, target.stat().st_size, hash_file(target))


def _write_archive(path: Path, manifest: Manifest, copies: Path) -> None:
    fields = {"format": FORMAT, "version": FORMAT_VERSION, **asdict(manifest)}
    with open(path, "xb", opener=open_private) as raw:
        with gzip.GzipFile("", "wb", 6, raw) as packed, tarfile.open(fileobj=packed, mode="w|") as archive:
            _add(archive, Member(MANIFEST, FILE, 0o600), json.dumps(fields, ensure_ascii=True, indent=1).encode())
            for member in manifest.members:
                _add(archive, member, copies / member.name)
        raw.flush()
        os.fsync(raw.fileno())


def _add(archive: tarfile.TarFile, member: Member, content: bytes | Path) -> None:
    entry = tarfile.TarInfo(member.name)
    entry.mode, entry.mtime = member.mode, int(time.time())
    if member.kind == DIRECTORY:
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
        return
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as taken:
        entry.size = taken.seek(0, os.SEEK_END)
        taken.seek(0)
        archive.addfile(entry, taken)


# --- reading one


def verify_backup(path: Path) -> Manifest:
    """What the archive holds, after every hash was compared and its store was opened; BadBackup says what is wrong."""
    with tempfile.TemporaryDirectory(prefix="hermes-verify-") as work:
        store = Path(work) / STORE_FILE
        manifest = read_archive(path, lambda member: store if member.name == STORE_FILE else None)
        check_store(path, store, manifest)
    return manifest


def read_archive(
    path: Path, place: Callable[[Member], Path | None], begin: Callable[[Manifest], None] = lambda manifest: None
) -> Manifest:
    """Compare every member with the manifest; those that `place` has a place for are written there. `begin` is called
    before the first one."""
    try:
        if not path.is_file():
            raise BadBackup(f"There is no file {path}.", fix="Check the path.")
        with (
            gzip.open(path, "rb") as packed,
            tarfile.open(fileobj=packed, mode="r|", tarinfo=_ModestInfo) as archive,
        ):
            entries = iter(archive)
            manifest = _read_manifest(path, archive, next(entries, None))
            begin(manifest)
            waiting = {member.name: member for member in manifest.members}
            for entry in entries:
                member = _match(path, entry, waiting)
                _take(path, archive, entry, member, place(member))
            _drain(path, packed)
    except _UNREADABLE as error:
        raise BadBackup(f"{path} is cut, damaged or no back-up: {error}.", fix="Use another one.") from error
    except OSError as error:
        raise BadBackup(
            f"{path} could not be read, or what is in it could not be written: {error.strerror or error}.",
            fix="Check the path, the permissions and the space on the disk.",
        ) from error
    if waiting:
        raise BadBackup(f"{path} is cut: {_show(min(waiting))} is missing.")
    return manifest


class _ModestInfo(tarfile.TarInfo):
    """A header of an archive that does not make us read gigabytes into the memory."""

    _LARGE = frozenset({*tarfile.GNU_TYPES, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE})

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in self._LARGE and self.size > _LARGEST_HEADER:
            raise tarfile.ReadError("a header is too large")
        return super()._proc_member(archive)  # type: ignore[misc]  # where tarfile decides what a header is


def check_store(path: Path, store: Path, manifest: Manifest) -> None:
    """The store of a back-up must open, have a known layout and be whole."""
    if not any(member.name == STORE_FILE for member in manifest.members):
        return
    problem = check_file(store)
    if problem:
        raise BadBackup(f"The store in {path} is damaged: {problem}.")
    layout = read_layout(store)
    if layout != manifest.layout:
        raise BadBackup(f"The store in {path} has layout {layout}, and the manifest says {manifest.layout}.")


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_manifest(path: Path, archive: tarfile.TarFile, entry: tarfile.TarInfo | None) -> Manifest:
    foreign = BadBackup(f"{path} is not a back-up of Hermes.", fix="Check the path.")
    if entry is None or entry.name != MANIFEST or not entry.isreg() or entry.size > _LARGEST_MANIFEST:
        raise foreign
    taken = archive.extractfile(entry)
    assert taken is not None, "a regular file has content"
    try:
        fields = json.loads(taken.read())
        if fields["format"] != FORMAT:
            raise foreign
        if fields["version"] > FORMAT_VERSION:
            newer = _show(str(fields["program"]))
            raise BadBackup(f"{path} was made by a newer Hermes ({newer}).", fix="Update Hermes.")
        return _decode(path, fields)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise foreign from error


def _decode(path: Path, fields: dict[str, Any]) -> Manifest:
    members = tuple(Member(**member) for member in fields["members"])
    folders, names = {""}, set[str]()
    for member in members:
        _check_name(path, member.name)
        is_known = member.kind in (FILE, DIRECTORY) and 0 <= member.mode <= 0o777 and member.size >= 0
        is_plain = type(member.mode) is int and type(member.size) is int and member.name not in names
        if not (is_known and is_plain) or member.name.rpartition("/")[0] not in folders:
            raise ValueError(member.name)
        names.add(member.name)
        if member.kind == DIRECTORY:
            folders.add(member.name)
    return Manifest(str(fields["program"]), str(fields["created"]), int(fields["layout"]), members)


def _check_name(path: Path, name: str) -> None:
    """Only plain paths below the names of the table: an archive decides nothing about where it is written."""
    parts = name.split("/")
    is_known = parts[0] in (*KEPT, *SECRETS) or may_be_data(parts[0])
    if not is_known or {"", ".", ".."} & set(parts) or "\0" in name or not _can_be_named(parts):
        what = f"{path} has a member that does not belong into a home: {_show(name)}."
        raise BadBackup(what, fix="Do not use this file.")


def _can_be_named(parts: list[str]) -> bool:
    """Whether a file system takes these names."""
    try:
        lengths = [len(os.fsencode(part)) for part in parts]
    except UnicodeEncodeError:
        return False
    return max(lengths) <= _LONGEST_NAME and sum(lengths) + len(lengths) <= _LONGEST_PATH


def _match(path: Path, entry: tarfile.TarInfo, waiting: dict[str, Member]) -> Member:
    _check_name(path, entry.name)
    member = waiting.pop(entry.name, None)
    kind = FILE if entry.isreg() else DIRECTORY if entry.isdir() else ""
    if member is None or member.kind != kind or (kind == FILE and entry.size != member.size):
        what = f"{path} was changed: {_show(entry.name)} is not what the manifest says."
        raise BadBackup(what, fix="Do not use this file.")
    return member


def _take(path: Path, archive: tarfile.TarFile, entry: tarfile.TarInfo, member: Member, target: Path | None) -> None:
    if member.kind == DIRECTORY:
        if target is not None:
            target.mkdir(mode=0o700)
        return
    taken = archive.extractfile(entry)
    assert taken is not None, "a regular file has content"
    if _copy_hashed(taken, target, member.mode) != member.sha256:
        raise BadBackup(f"{path} is damaged: {_show(member.name)} does not have the hash that the manifest says.")


def _copy_hashed(taken: IO[bytes], target: Path | None, mode: int) -> str:
    """The hash of what was read; with a target, it is on the disk afterwards."""
    digest = hashlib.sha256()
    with open(target or os.devnull, "xb" if target else "wb", opener=open_private) as put:
        while chunk := taken.read(_CHUNK):
            digest.update(chunk)
            put.write(chunk)
        if target is not None:
            put.flush()
            os.fchmod(put.fileno(), mode)
            os.fsync(put.fileno())
    return digest.hexdigest()


def _drain(path: Path, packed: gzip.GzipFile) -> None:
    """Read on to the end, where the check sum of the whole is; it is near."""
    left = _LARGEST_END
    while chunk := packed.read(_CHUNK):
        left -= len(chunk)
        if left < 0:
            raise BadBackup(f"{path} goes on after its end.", fix="Do not use this file.")


def _show(name: str) -> str:
    """A name from a file that nobody has checked yet must not steer the terminal, nor fill it."""
    return ascii(name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…")
