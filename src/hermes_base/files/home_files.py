"""Files of people, as tools and platforms need them: in the home. Where else they are kept is not their business."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from hermes_base.inbound import OUTBOX, PEOPLE, SHOWN, UPLOADS

#: A file that came or goes: in a folder of its own, whose name nobody can guess.
_OWN_PATH = re.compile(
    rf"(?:^|.*?/)(?:{PEOPLE}/(?P<person>[\w-]{{1,64}})/)?"
    rf"(?P<path>(?:{UPLOADS}|{SHOWN}|{OUTBOX})/[\w-]{{8,64}}/(?!\.{{1,2}}\Z)[^/\0]+)",
    re.ASCII | re.DOTALL,
)


class OwnName(NamedTuple):
    """What a file is called in every home: whose it is (empty: the owner's), and its path below their folder."""

    person: str
    path: str


class HomeFiles(Protocol):
    """The files of one home. Called on threads that may wait for the disk and the store."""

    travels: bool  # they are kept in the store for all its gateways, and are laid out in the home that needs them
    most_bytes: int  # the largest that is kept

    def name(self, path: str) -> OwnName | None:
        """What a path of a stored message, perhaps of another home, is called; None: it is none of these files."""

    def keep(self, path: Path) -> None:
        """A file of this home is whole: every gateway of the store can have it from now on; StoreFailure when that is
        not so. What is not there, or none of these files, is left as it is."""

    def keep_bytes(self, name: OwnName, data: bytes) -> Path:
        """The same for what does not stand in the home yet; where it will be found."""

    def find(self, path: str) -> Path | None:
        """Where the file is in this home, laid out if need be; None: it is nowhere any more."""

    def find_in(self, person: str, folder: str) -> Sequence[Path]:
        """The same for all files of a folder."""

    def drop(self, path: str) -> None:
        """It is of no use any more, here or elsewhere."""


def find_own_name(path: str) -> OwnName | None:
    """The end of a path says what the file is called, whatever home it begins with."""
    found = _OWN_PATH.fullmatch(path)
    return OwnName(found["person"] or "", found["path"]) if found else None


def find_below(homes: Sequence[Path], path: str) -> str:
    """The path below the first of these folders that it is in; empty: it is in none."""
    home = next((home for home in homes if Path(path).is_relative_to(home)), None)
    return "" if home is None else str(Path(path).relative_to(home))


def place_file(home: Path, name: OwnName) -> Path:
    """Where a file of this name stands in a home."""
    return (home / PEOPLE / name.person if name.person else home) / name.path
