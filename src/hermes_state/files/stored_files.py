"""The files of a home whose store several gateways share: kept in the store, and laid out here when they are needed."""

import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from hermes_base.errors import StoreFailure
from hermes_base.files.home_files import OwnName, find_below, find_own_name, place_file
from hermes_constants.ordinary_files import open_file, open_private
from hermes_state.files.folder_files import drop_alone, list_plain
from hermes_state.sql.files.files_sql import MOST_BYTES, PART_BYTES, FileStore, KeptFile

ARRIVING = ".arriving-"  # before the name of a file that is being laid out
_MOST_KNOWN = 10_000


class StoredFiles:
    """Implements `HomeFiles`."""

    travels = True
    most_bytes = MOST_BYTES

    def __init__(self, home: Path, store: FileStore) -> None:
        self._home = home.resolve()
        self._homes = (home.resolve(), home.absolute())
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[OwnName, None] = OrderedDict()  # they are in the store; such files never change

    def name(self, path: str) -> OwnName | None:
        return find_own_name(find_below(self._homes, path) or path)

    def keep(self, path: Path) -> None:
        name = self.name(str(path))
        if name is None or name in self._known or not path.is_file():
            return
        if self._store.get(name) is None:
            self._store.put(name, partial(_read_pieces, path))
        self._note(name)

    def keep_bytes(self, name: OwnName, data: bytes) -> Path:
        """It is laid out by whoever needs it."""
        self._store.put(name, lambda: (data,))
        self._note(name)
        return place_file(self._home, name)

    def find(self, path: str) -> Path | None:
        name = self.name(path)
        place = Path(path) if name is None else place_file(self._home, name)
        if name is None or place.is_file():
            return place if place.is_file() else None
        kept = self._store.get(name)
        if kept is None:
            return None
        self._lay_out(kept, place)
        self._note(name)
        return place

    def find_in(self, person: str, folder: str) -> Sequence[Path]:
        place = place_file(self._home, OwnName(person, folder))
        if not place.exists():
            for kept in self._store.list_below(person, folder):
                self._lay_out(kept, place_file(self._home, kept.name))
        return list_plain(place)

    def drop(self, path: str) -> None:
        name = self.name(path)
        if name is None:
            return
        with suppress(FileNotFoundError):
            drop_alone(place_file(self._home, name))
        with self._lock:
            self._known.pop(name, None)
        self._store.drop(name)

    def _note(self, name: OwnName) -> None:
        with self._lock:
            self._known[name] = None
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def _lay_out(self, kept: KeptFile, place: Path) -> None:
        """Under its name there is the whole file or none, whoever else does the same at this moment."""
        arriving = place.parent.parent / f"{ARRIVING}{secrets.token_hex(8)}"
        try:
            _make_folders(place.parent)
            try:
                with open(arriving, "xb", opener=open_private) as file:
                    file.writelines(self._store.read(kept))
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(arriving, place)
            except BaseException:
                arriving.unlink(missing_ok=True)
                raise
        except OSError as problem:
            what = f"{place.name} cannot be laid out in {place.parent}: {problem.strerror}."
            raise StoreFailure(what, kept="It is in the store.", fix="Check the disk's space and rights.") from problem


def _read_pieces(path: Path) -> Iterator[bytes]:
    try:
        with open_file(path) as file:
            while piece := file.read(PART_BYTES):
                yield piece
    except OSError as problem:
        raise StoreFailure(f"{path.name} cannot be read: {problem.strerror}.", kept="It was not kept.") from problem


def _make_folders(folder: Path) -> None:
    """For their owner alone, whichever of them are missing."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
