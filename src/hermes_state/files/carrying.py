"""Files of people go along when a store moves: from the folders of a home into one that gateways share, and back."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hermes_base.errors import StoreFailure
from hermes_base.files.home_files import place_file
from hermes_base.inbound import OUTBOX, PEOPLE, SHOWN, UPLOADS
from hermes_base.store_place import StorePlace, is_address
from hermes_state.files.shared_folders import MEMORIES, SKILLS, SharedFolders
from hermes_state.files.stored_files import StoredFiles
from hermes_state.sql.files.files_sql import FileStore
from hermes_state.sql.store_sql import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CarriedFiles:
    """How many files went along, and what has to be told of others."""

    count: int = 0
    words: tuple[str, ...] = ()


def carry_files(home: Path, source: StorePlace, target: StorePlace) -> CarriedFiles:
    """After the rows: from one database to another one the files went with them."""
    if is_address(target):
        if is_address(source):
            return CarriedFiles()
        with closing(Store(target)) as store:
            return take_in(home, store.files)
    with closing(Store(source)) as store:
        count = lay_out_all(home, store.files)
    with closing(Store(target)) as moved:
        moved.files.clear()
    return CarriedFiles(count)


def take_in(home: Path, store: FileStore) -> CarriedFiles:
    """All files of a home are in the store afterwards, compared by their hashes."""
    files, words = StoredFiles(home, store), list[str]()
    for path in _list_tokens(home):
        name = files.name(str(path))
        if name is None:
            continue
        try:
            files.keep(path)
        except StoreFailure as problem:
            words.append(str(problem))
            continue
        kept = store.get(name)
        with path.open("rb") as file:
            if kept is None or bytes(kept.hash) != hashlib.file_digest(file, "sha256").digest():
                raise StoreFailure(f"{path} did not arrive as it is.", kept="It is where it was.", fix="Try again.")
    folders = SharedFolders(home, store)
    for person in _list_people(home):
        revisions = {name: store.read_folder(person, name).revision for name in (MEMORIES, SKILLS)}
        words += folders.lay_out(person, revisions)
    return CarriedFiles(store.count(), tuple(words))


def lay_out_all(home: Path, store: FileStore) -> int:
    """All that is in the store is in the folders of the home afterwards; how many files."""
    files, folders, people, count = StoredFiles(home, store), SharedFolders(home, store), {""}, 0
    for kept in store.list_all():
        people.add(kept.person)
        count += 1
        if kept.path.split("/")[0] not in (MEMORIES, SKILLS):
            files.find(str(place_file(home, kept.name)))
    for person in sorted(people):
        asked = {MEMORIES: store.read_folder(person, MEMORIES), SKILLS: store.read_folder("", SKILLS)}
        folders.lay_out(person, {name: folder.revision for name, folder in asked.items()})
    return count


def _list_people(home: Path) -> list[str]:
    """The owner first."""
    return ["", *sorted(path.name for path in (home / PEOPLE).glob("*") if path.is_dir() and not path.is_symlink())]


def _list_tokens(home: Path) -> Iterator[Path]:
    for person in _list_people(home):
        own = home / PEOPLE / person if person else home
        for folder in (UPLOADS, SHOWN, OUTBOX):
            yield from sorted(path for path in (own / folder).glob("*/*") if path.is_file() and not path.is_symlink())
