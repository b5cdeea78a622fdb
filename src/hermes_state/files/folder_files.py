"""The files of a home that has its store for itself: they stand in the home, and nowhere else."""

import sys
from collections.abc import Sequence
from pathlib import Path

from hermes_base.files.home_files import OwnName, find_below, find_own_name, place_file


class FolderFiles:
    """Implements `HomeFiles`."""

    travels = False
    most_bytes = sys.maxsize

    def __init__(self, home: Path) -> None:
        self._home = home.resolve()
        self._homes = (home.resolve(), home.absolute())  # the same place, as rows may have it

    def name(self, path: str) -> OwnName | None:
        """Of another home there is nothing here."""
        below = find_below(self._homes, path)
        return find_own_name(below) if below else None

    def keep(self, path: Path) -> None:
        """It is kept where it is."""

    def keep_bytes(self, name: OwnName, data: bytes) -> Path:
        path = place_file(self._home, name)
        path.parent.mkdir(parents=True, mode=0o700)
        path.write_bytes(data)
        return path

    def find(self, path: str) -> Path | None:
        return Path(path) if Path(path).is_file() else None

    def find_in(self, person: str, folder: str) -> Sequence[Path]:
        return list_plain(place_file(self._home, OwnName(person, folder)))

    def drop(self, path: str) -> None:
        drop_alone(Path(path))


def list_plain(folder: Path) -> list[Path]:
    """The plain files of a folder that no link leads to; none when it is not there."""
    try:
        if folder.resolve() != folder:
            return []
        return sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    except OSError:
        return []


def drop_alone(path: Path) -> None:
    """A file, and the folder that it had for itself."""
    path.unlink(missing_ok=True)
    path.parent.rmdir()
