"""Files of people, as they are kept for all gateways of a store: each by whose it is and its path, its bytes in parts.

A part is a blob by its hash, so the same bytes stand there once. Nobody asks by a hash: whoever asks names a person and
a path, and gets what that person has there (I7).
"""

import hashlib
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hermes_base.errors import StoreFailure
from hermes_base.files.home_files import OwnName
from hermes_state.sql import statements
from hermes_state.sql.engines.engine import Sql, StorePart, Transaction
from hermes_state.texts import clean

PART_BYTES = 1 << 20
MOST_BYTES = 100 * PART_BYTES

_FILE = "id, person, path, hash, size, mode, kept"
GET_FILE = f"select {_FILE} from kept_file where person = ? and path = ?"
GET_FILES_BELOW = f"select {_FILE} from kept_file where person = ? and path >= ? and path < ? order by path"
GET_PART = "select b.body from kept_part p join blob b on b.hash = p.hash where p.file = ? and p.n = ?"
GET_PART_HASHES = "select distinct hash from kept_part where file = ?"
ADD_FILE = (
    "insert into kept_file (person, path, hash, size, mode, kept) values (?, ?, ?, 0, ?, clock()) "
    "on conflict (person, path) do nothing returning id"
)
END_FILE = "update kept_file set hash = ?, size = ? where id = ?"
ADD_PART = "insert into kept_part (file, n, hash) values (?, ?, ?)"
#: Whoever changes a file keeps others from it until the end of their transaction.
LOCK_FILE = f"{GET_FILE} for update"
DROP_FILE = "delete from kept_file where id = ?"
FILES_OF = f"select {_FILE} from kept_file where person = ? for update"
DROP_FOLDERS = "delete from kept_folder where person = ?"

RAISE_REVISION = (
    "insert into kept_folder (person, folder, revision) values (?, ?, 1) "
    "on conflict (person, folder) do update set revision = kept_folder.revision + 1 returning revision"
)
GET_FILES = f"select {_FILE} from kept_file order by id"
COUNT_FILES = "select count(*) from kept_file"
CLEAR_FOLDERS = "delete from kept_folder"
#: What came, was handed over or is on its way, and was kept before then.
OLD_FILES = (
    f"select {_FILE} from kept_file where kept < ? and id > ? and (path like 'uploads/%' or path like 'shown/%' "
    "or path like 'outbox/%') order by id limit ?"
)
GET_REVISION = "select revision from kept_folder where person = ? and folder = ?"
#: What names this store, however often it moves: what a home remembers of it is about no other one.
STORE_NAME = "name"
ADD_NAME = "insert into meta (key, value) values (?, ?) on conflict (key) do nothing"

Pieces = Callable[[], Iterable[bytes]]  # the bytes of a file, again each time it is called


@dataclass(frozen=True, slots=True)
class KeptFile:
    id: int  # of these bytes: other ones under the same name have another
    person: str
    path: str
    hash: bytes
    size: int
    mode: int
    kept: float  # when

    @property
    def name(self) -> OwnName:
        return OwnName(self.person, self.path)


@dataclass(frozen=True, slots=True)
class KeptFolder:
    """All files of a folder at one moment, by path; 0: nothing was ever kept there."""

    revision: int
    files: Mapping[str, KeptFile]


@dataclass(frozen=True, slots=True)
class FolderEdit:
    path: str
    data: bytes | None  # None: it goes
    mode: int = 0o600


ReadKept = Callable[[KeptFile], bytes]
PlanChanges = Callable[[Mapping[str, KeptFile], ReadKept], Sequence[FolderEdit]]


class FileStore(StorePart):
    def put(self, name: OwnName, pieces: Pieces, mode: int = 0o600) -> None:
        """Keep these bytes under this name, in the place of what was there; StoreFailure when they are too many."""
        self._db.write(lambda db: put_file(db, name, pieces, mode))

    def get(self, name: OwnName) -> KeptFile | None:
        found = self._db.find(GET_FILE, (clean(name.person), clean(name.path)))
        return KeptFile(*found[0]) if found else None

    def list_below(self, person: str, folder: str) -> list[KeptFile]:
        """What a person has below a folder, by path."""
        below = clean(folder)
        return [KeptFile(*row) for row in self._db.find(GET_FILES_BELOW, (clean(person), f"{below}/", f"{below}0"))]

    def read(self, file: KeptFile) -> Iterator[bytes]:
        """Its bytes, a part at a time; StoreFailure when it went meanwhile, or is not what was kept."""
        digest, left, n = hashlib.sha256(), file.size, 0
        while left:
            found = self._db.find(GET_PART, (file.id, n))
            body = bytes(found[0][0]) if found else b""
            digest.update(body)
            left, n = left - len(body), n + 1
            if not body or left < 0:
                break
            yield body
        if digest.digest() != bytes(file.hash):
            raise StoreFailure(f"The file {file.path} in the store went away, or is damaged.", fix="Send it again.")

    def read_folder(self, person: str, folder: str) -> KeptFolder:
        return self._db.read(lambda db: _read_folder(db, clean(person), clean(folder)))

    def change_folder(self, person: str, folder: str, plan: PlanChanges, fence: Sql | None = None) -> KeptFolder:
        """Make the changes that `plan` makes of what is there, which nobody else changes meanwhile; what is there
        then. `plan` may be called again from the start. With `fence`, first that is looked at."""
        owner, name = clean(person), clean(folder)

        def change(db: Transaction) -> KeptFolder:
            db.run(*([fence] if fence is not None else []), Sql(RAISE_REVISION, (owner, name)))
            for one in plan(_read_folder(db, owner, name).files, lambda file: _read_whole(db, file)):
                if one.data is None:
                    drop_file(db, OwnName(owner, one.path))
                else:
                    put_file(db, OwnName(owner, one.path), partial(_give, one.data), one.mode)
            return _read_folder(db, owner, name)

        return self._db.write(change)

    def list_all(self) -> list[KeptFile]:
        return [KeptFile(*row) for row in self._db.find(GET_FILES)]

    def count(self) -> int:
        return int(self._db.find(COUNT_FILES)[0][0])

    def list_old(self, before: float, after: int, limit: int) -> list[KeptFile]:
        """What came or goes and was kept before then, from the file of this number on."""
        return [KeptFile(*row) for row in self._db.find(OLD_FILES, (before, after, limit))]

    def clear(self) -> None:
        """They stand in a home's folders from now on."""

        def clear(db: Transaction) -> None:
            for row in db.execute(GET_FILES).rows:
                _drop(db, KeptFile(*row))
            db.execute(CLEAR_FOLDERS)

        self._db.write(clear)

    def name_store(self) -> str:
        """What the store is called, to those who remember something of it."""
        found = self._db.find(statements.GET_META, (STORE_NAME,))
        if not found:
            self._db.run(Sql(ADD_NAME, (STORE_NAME, secrets.token_hex(8))))
            found = self._db.find(statements.GET_META, (STORE_NAME,))
        return str(found[0][0])

    def drop(self, name: OwnName) -> bool:
        """False when there is none."""
        return self._db.write(lambda db: drop_file(db, name))


# --- the steps of those calls, inside their transaction


def put_file(db: Transaction, name: OwnName, pieces: Pieces, mode: int) -> None:
    person, path = clean(name.person), clean(name.path)
    drop_file(db, name)
    while not (added := db.execute(ADD_FILE, (person, path, b"", mode))).rows:
        drop_file(db, name)  # somebody else was faster
    id, digest, size = int(added.rows[0][0]), hashlib.sha256(), 0
    for n, part in enumerate(_cut(pieces())):
        size += len(part)
        if size > MOST_BYTES:
            raise say_too_large(path)
        if n == 1:
            db.take_time()
        digest.update(part)
        hash = hashlib.sha256(part).digest()
        db.run(Sql(statements.ADD_BLOB, (hash, part)), Sql(ADD_PART, (id, n, hash)))
    db.execute(END_FILE, (digest.digest(), size, id))


def drop_file(db: Transaction, name: OwnName) -> bool:
    found = db.execute(LOCK_FILE, (clean(name.person), clean(name.path))).first
    if found is not None:
        _drop(db, KeptFile(*found))
    return found is not None


def forget_files(db: Transaction, person: str) -> int:
    """All that a person has; how many files."""
    found = db.execute(FILES_OF, (person,)).rows
    for row in found:
        _drop(db, KeptFile(*row))
    db.execute(DROP_FOLDERS, (person,))
    return len(found)


def _give(data: bytes) -> Sequence[bytes]:
    return (data,)


def _read_folder(db: Transaction, person: str, folder: str) -> KeptFolder:
    revision, rows = db.run(
        Sql(GET_REVISION, (person, folder)), Sql(GET_FILES_BELOW, (person, f"{folder}/", f"{folder}0"))
    )
    files = (KeptFile(*row) for row in rows.rows)
    return KeptFolder(int(revision.rows[0][0]) if revision.rows else 0, {file.path: file for file in files})


def _read_whole(db: Transaction, file: KeptFile) -> bytes:
    parts = math.ceil(file.size / PART_BYTES)
    found = db.run(*(Sql(GET_PART, (file.id, n)) for n in range(parts))) if parts else []
    return b"".join(bytes(one.rows[0][0]) for one in found)


def say_too_large(path: str) -> StoreFailure:
    return StoreFailure(
        f"{path.rpartition('/')[2]} has more than {MOST_BYTES // 2**20} MB, the most that is kept for all gateways.",
        kept="It was not kept.",
        fix="Make it smaller, or cut it into pieces.",
    )


def _drop(db: Transaction, file: KeptFile) -> None:
    hashes = db.execute(GET_PART_HASHES, (file.id,)).rows
    db.run(Sql(DROP_FILE, (file.id,)), *(Sql(statements.DROP_UNUSED_BLOB, one) for one in hashes))


def _cut(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in parts of one size."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= PART_BYTES:
            yield bytes(waiting[:PART_BYTES])
            del waiting[:PART_BYTES]
    if waiting:
        yield bytes(waiting)
