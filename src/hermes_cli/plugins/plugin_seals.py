"""What the owner agreed to run (G10): the hashes of a plugin's files, taken at its first load or when it is enabled.

Changed code is not imported until it is enabled again. Whatever a checked plugin imports from its own folder goes
through the loaders here, now or later: only files that were agreed to, from their source, never from cached bytecode.
"""

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any
from urllib.parse import quote

from hermes_base.errors import HermesError
from hermes_cli.config.own_files import hold_folder, replace_file
from hermes_constants import get_hermes_home
from hermes_constants.home_names import find_database

FOLDER = "plugin-seals"  # in the home; nothing in it is ever imported
MOST_FILES, MOST_BYTES = 20_000, 256 << 20
#: Folders that hold no code of a plugin: nothing in them can be imported.
_LEFT_OUT = frozenset({"__pycache__", ".git"})
#: What plugins write beside their code as they run, and what owners set up there, changes without being code: databases
#: with what belongs to them, logs, locks, settings and tables.
_DATA = re.compile(r"\.(log|lock|pid|jsonl?|ya?ml|toml|ini|cfg|csv|tsv)$|(^|/)\.env$")
_MANIFEST = re.compile(r"^plugin\.ya?ml$")


class CodeChanged(HermesError):
    """The code is not what the owner agreed to."""

    def __init__(self, name: str, change: str) -> None:
        what = f"{name} was not loaded: its code is not what was enabled ({change})."
        super().__init__(what, fix=f"Look at it, then: hermes plugins enable {name}")


@dataclass(frozen=True, slots=True)
class Code:
    """The files of a plugin as they are now: their path below `root` and the hash of what they hold."""

    root: Path  # a folder, or the one file
    files: Mapping[str, str]


# --- agreeing and checking


def check(name: str, root: Path) -> Code:
    """The code of a plugin if it may run. At first sight it is recorded: that the settings name it is the consent."""
    code, agreed = read_code(name, root), _read_seal(name)
    if agreed is None:
        return agree(name, root)
    change = describe_change(agreed, code.files)
    if change:
        raise CodeChanged(name, change)
    return code


def agree(name: str, root: Path) -> Code:
    """The owner enables the plugin: what is there now may run."""
    code = read_code(name, root)
    _write_seal(name, code.files)
    _just_agreed.add(name)
    return code


def settle(name: str, root: Path) -> None:
    """The plugin was loaded: what it laid down beside its code when it ran for the first time belongs to it. What was
    there before stays as it was agreed to."""
    if name not in _just_agreed:
        return
    _just_agreed.discard(name)
    agreed, found = _read_seal(name), read_code(name, root).files
    if agreed is not None and not set(found) <= set(agreed):
        _write_seal(name, {**found, **agreed})


_just_agreed: set[str] = set()  # plugins that were not loaded since


def _write_seal(name: str, files: Mapping[str, str]) -> None:
    path = _seal_path(name)
    with hold_folder(path.parent):
        replace_file(path, json.dumps({"plugin": name, "files": files}, ensure_ascii=True, indent=1))


def forget(name: str) -> None:
    """The plugin is gone: what comes under its name later is something else."""
    _seal_path(name).unlink(missing_ok=True)


def name_code(name: str) -> str:
    """A short name of the code that was agreed to, the same wherever that is the same."""
    agreed = _read_seal(name) or {}
    code = sorted((file, digest) for file, digest in agreed.items() if not is_data(file))
    return _hash(json.dumps(code).encode())[:12]


def is_agreed(name: str) -> bool:
    """Whether there is a record of it, good or bad."""
    return _seal_path(name).exists()


def find_change(name: str, root: Path) -> CodeChanged | None:
    """Why the code would not be loaded; None: it would be, or it never was. Records nothing."""
    try:
        agreed = _read_seal(name)
        change = describe_change(agreed, read_code(name, root).files) if agreed is not None else ""
        return CodeChanged(name, change) if change else None
    except CodeChanged as problem:
        return problem


def describe_change(agreed: Mapping[str, str], found: Mapping[str, str]) -> str:
    """The first file that makes the difference, and how many others do; empty: none."""
    differing = sorted(name for name in {*agreed, *found} if agreed.get(name) != found.get(name) and not is_data(name))
    if not differing:
        return ""
    first = differing[0]
    how = "is new" if first not in agreed else "is gone" if first not in found else "was changed"
    others = f", and {len(differing) - 1} more" if differing[1:] else ""
    return f"{first} {how}{others}"


def is_data(name: str) -> bool:
    """Whether a file of a plugin may change without being code."""
    return find_database(name) != "" or (_DATA.search(name) is not None and not _MANIFEST.match(name))


def _seal_path(name: str) -> Path:
    return get_hermes_home() / FOLDER / f"{quote(name, safe='')}.json"


def _read_seal(name: str) -> Mapping[str, str] | None:
    try:
        kept = json.loads(_seal_path(name).read_text(encoding="utf-8"))
        return {str(file): str(digest) for file, digest in kept["files"].items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CodeChanged(name, "the record of it cannot be read") from None


# --- reading


def read_code(name: str, root: Path) -> Code:
    """All files of a folder, links followed, or one file; CodeChanged when they cannot all be read."""
    files: dict[str, str] = {}
    left = MOST_BYTES
    try:
        for path in _list_files(root):
            inner = str(path.relative_to(root)) if path != root else root.name
            data = b"" if find_database(inner) else path.read_bytes()  # one that grows is no reason to be refused
            left -= len(data)
            if left < 0 or len(files) >= MOST_FILES:
                raise CodeChanged(name, f"{root} is too large to be checked")
            files[inner] = _hash(data)
    except OSError as problem:
        raise CodeChanged(name, f"{problem.filename or root} cannot be read: {problem.strerror}") from problem
    return Code(root, files)


def _list_files(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    seen = set()
    for folder, names, files in os.walk(root, followlinks=True, onerror=_raise):
        place = os.stat(folder)
        if (place.st_dev, place.st_ino) in seen:  # a link back up
            names.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        names[:] = sorted(set(names) - _LEFT_OUT)
        yield from (Path(folder, file) for file in sorted(files) if _is_code(Path(folder, file)))


def _is_code(path: Path) -> bool:
    """Whether it is a file that can hold something; bytecode is never run, and a link to nowhere leads nowhere."""
    try:
        return path.suffix != ".pyc" and stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _raise(problem: OSError) -> None:
    raise problem


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- importing what was agreed to

_allowed: dict[Path, "Allowed"] = {}  # by root


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be imported from one root, by real paths: a link leads to the same file as the way around it."""

    files: Mapping[str, str]
    folders: frozenset[str]  # the root and what its links lead to; everything below them is its code

    def holds(self, path: str) -> bool:
        real = os.path.realpath(path)
        return real in self.files or any(real == root or real.startswith(root + os.sep) for root in self.folders)


def allow(code: Code) -> None:
    """From now on imports from this root take these files and no others."""
    is_folder = code.root.is_dir()
    base = code.root if is_folder else code.root.parent
    files = {os.path.realpath(base / name): digest for name, digest in code.files.items()}
    folders = {os.path.realpath(base), *map(os.path.dirname, files)} if is_folder else ()
    allowed = _allowed[code.root] = Allowed(files, frozenset(folders))
    if _find_sealed not in sys.path_hooks:
        sys.path_hooks.insert(0, _find_sealed)
    for known in tuple(sys.path_importer_cache):  # other threads import meanwhile, which changes it
        if allowed.holds(known):
            sys.path_importer_cache.pop(known, None)


def is_allowed(path: str) -> bool:
    """Whether the path is code that was checked, or lies where only such code may be."""
    return any(allowed.holds(path) for allowed in _allowed.values())


class SealedSource(SourceFileLoader):
    """Compiles what was agreed to; a cached compilation may be anybody's."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(_read_allowed(path), path)
        return code


class SealedExtension(ExtensionFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _read_allowed(self.path)
        return super().create_module(spec)


def _find_sealed(folder: str) -> Any:
    """A hook of `sys.path_hooks`: finds modules in folders of checked plugins, however an import comes there."""
    if not is_allowed(folder):
        raise ImportError(f"{folder} belongs to no plugin")
    return FileFinder(folder, (SealedSource, SOURCE_SUFFIXES), (SealedExtension, EXTENSION_SUFFIXES))


def _read_allowed(path: str) -> bytes:
    data, real = Path(path).read_bytes(), os.path.realpath(path)
    if not any(allowed.files.get(real) == _hash(data) for allowed in _allowed.values()):
        raise ImportError(f"{path} is not what was enabled; look at it, then enable its plugin again", path=path)
    return data
