"""Unpacks an archive of a stranger: files and folders below one folder, no links, no more than a limit."""

import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from hermes_base.errors import ConfigProblem
from hermes_cli.plugins.plugin_seals import MOST_BYTES, MOST_FILES

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, ValueError)
_CHUNK = 1 << 16
_MOST_PATH = 1_000  # characters
_ENCRYPTED = 0x1
#: The methods of zip that are unpacked piece by piece; all others give back whatever a few bytes stand for at once.
_BOUNDED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


class BadArchive(ConfigProblem):
    """An archive that is not unpacked."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path.name} is not unpacked: {what}.", kept="Nothing was installed.")


def unpack(path: Path, target: Path) -> str:
    """Unpack into an empty folder; the commit that the archive was made from, if it says so."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                _Unpacker(path, target).write_zip(archive)
                return archive.comment.decode("ascii", "replace") if len(archive.comment) == 40 else ""
        with _open_plain(path) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
            _Unpacker(path, target).write_tar(tar)
            return str(tar.pax_headers.get("comment", ""))[:40]
    except _BROKEN as problem:
        raise BadArchive(path, f"it is broken ({problem})") from problem
    except (RuntimeError, NotImplementedError) as problem:  # of zip: a password, or a method that is not known
        raise BadArchive(path, f"it cannot be read ({problem})") from problem
    except OSError as problem:
        raise BadArchive(
            path, f"{problem.filename or 'it'} cannot be written ({problem.strerror or problem})"
        ) from problem


@contextmanager
def _open_plain(path: Path) -> Iterator[Any]:
    """A tar without its compression, of which no more is unpacked than may be."""
    with path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not is_gzip:
            yield _Limited(path, file)
            return
        with gzip.GzipFile(fileobj=file) as plain:
            yield _Limited(path, plain)


class _Limited:
    """Reads so many bytes and no more: what a header claims does not count."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path, self._file, self._left = path, file, 2 * MOST_BYTES

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(_CHUNK if size < 0 else size)
        self._left -= len(data)
        if self._left < 0:
            raise BadArchive(self._path, "it is too large")
        return data


class _Unpacker:
    """Writes members below the target, each once."""

    def __init__(self, path: Path, target: Path) -> None:
        self._path, self._target = path, target
        self._left_bytes, self._left_files = MOST_BYTES, MOST_FILES
        self._written: set[str] = set()

    def write_tar(self, archive: tarfile.TarFile) -> None:
        for member in archive:
            if member.isdir():
                self._make_folder(member.name)
            elif member.isreg():
                content = archive.extractfile(member)
                assert content is not None
                self._write(member.name, content, member.mode)
            else:
                raise BadArchive(self._path, f"{member.name[:80]!r} is a link or a device")

    def write_zip(self, archive: zipfile.ZipFile) -> None:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if info.flag_bits & _ENCRYPTED:
                raise BadArchive(self._path, "it has a password")
            if info.compress_type not in _BOUNDED:
                raise BadArchive(self._path, f"{info.filename[:80]!r} is packed in a way that is not taken")
            if info.is_dir():
                self._make_folder(info.filename)
            elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise BadArchive(self._path, f"{info.filename[:80]!r} is a link or a device")
            else:
                with archive.open(info) as content:
                    self._write(info.filename, content, mode)

    def _make_folder(self, name: str) -> None:
        self._count()
        place = self._find_place(name)
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)

    def _write(self, name: str, content: IO[bytes], mode: int) -> None:
        self._count()
        place = self._find_place(name)
        if place is None or str(place) in self._written:
            raise BadArchive(self._path, f"it holds {name[:80]!r} twice")
        self._written.add(str(place))
        place.parent.mkdir(parents=True, exist_ok=True)
        # "x": nothing that an earlier member made is ever written through.
        with open(place, "xb") as file:
            while data := content.read(_CHUNK):
                self._left_bytes -= len(data)
                if self._left_bytes < 0:
                    raise BadArchive(self._path, "it is too large")
                file.write(data)
        os.chmod(place, 0o755 if mode & 0o100 else 0o644)

    def _count(self) -> None:
        self._left_files -= 1
        if self._left_files < 0:
            raise BadArchive(self._path, "it holds too many files")

    def _find_place(self, name: str) -> Path | None:
        """Where a member goes; None: the folder itself."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        hostile = name.startswith("/") or "\\" in name or ".." in parts or len(name) > _MOST_PATH
        if hostile or any(ord(char) < 32 for char in name) or (parts and ":" in parts[0]):
            raise BadArchive(self._path, f"{name[:80]!r} leads out of it")
        return self._target.joinpath(*parts) if parts else None
