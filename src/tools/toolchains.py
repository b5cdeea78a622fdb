"""What of a person's home a sandboxed command sees: the programs on their PATH, and what those need beside them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tools.sensitive import is_secret_name

BINS = frozenset({"bin", "sbin", "shims"})
#: Beside a folder of programs: what programs load. Caches, settings and tokens have other names.
BESIDE = ("bin", "sbin", "shims", "lib", "lib64", "libexec", "include", "pyvenv.cfg")
#: What some need more: a program that they have, and the names beside it.
MORE = {
    "pyenv": ("versions", "version", "plugins"),
    "go": ("pkg", "src", "misc", "VERSION", "go.env"),
    "java": ("conf", "jmods", "jre"),
    "node": ("share",),
    "volta": ("tools",),
    "asdf": ("installs", "plugins"),
    "conda": ("share", "condabin", "envs"),
}
#: Folders that belong to many programs, or keep their programs elsewhere in the home: what is shown for their `bin`.
NAMED = {
    ".local": (".local/bin", ".local/lib", ".local/share/uv/python", ".local/share/uv/tools", ".local/share/pipx"),
    ".cargo": (".cargo/bin", ".rustup"),
    ".pyenv": (".pyenv",),
    ".asdf": (".asdf",),
    ".local/share/mise": (".local/share/mise/shims", ".local/share/mise/installs"),
    ".volta": (".volta/bin", ".volta/tools"),
}
MOST_PROGRAMS = 2_000


@dataclass(frozen=True, slots=True)
class Toolchains:
    """Paths of the home that are shown, and what is hidden among them."""

    shown: tuple[str, ...]
    hidden: tuple[str, ...]


def find_toolchains(path: str, home: str, root: str) -> Toolchains:
    """For a PATH, and for the interpreters that the environments of the working folder lead to."""
    own = tuple(os.path.join(root, name, "bin", "python") for name in (".venv", "venv"))
    return _find(path, os.path.realpath(home), tuple(os.path.realpath(link) for link in own if os.path.lexists(link)))


@lru_cache(maxsize=64)
def _find(path: str, home: str, interpreters: tuple[str, ...]) -> Toolchains:
    shown: set[str] = set()
    seen: set[str] = set()
    named = [folder for folder in path.split(":") if os.path.isabs(folder)]
    waiting = [*named, *map(os.path.realpath, named), *map(os.path.dirname, interpreters)]
    while waiting:
        folder = waiting.pop()
        if folder in seen or not os.path.isdir(folder):
            continue
        seen.add(folder)
        if _is_in(folder, home):
            shown.update(_list_beside(folder, home))
        # Links on the PATH often lead to another place of the home: `~/.local/bin/ruff`, the Python of an environment.
        for target in _list_targets(folder):
            if os.path.basename(os.path.dirname(target)) in BINS:
                waiting.append(os.path.dirname(target))
            elif _is_in(target, home):
                shown.add(target)
    shown -= {home}
    outer = [place for place in shown if not any(place != other and _is_in(place, other) for other in shown)]
    return Toolchains(tuple(sorted(outer)), tuple(sorted(_list_secrets(outer))))


def _list_beside(folder: str, home: str) -> Iterator[str]:
    parent = os.path.dirname(folder)
    above = os.path.relpath(parent, home)
    if os.path.basename(folder) not in BINS or above == ".":
        yield folder
        return
    names = [os.path.join(parent, name) for name in BESIDE]
    if above in NAMED:
        names = [os.path.join(home, place) for place in NAMED[above]]
    for program, more in MORE.items():
        if os.path.exists(os.path.join(folder, program)) and above not in NAMED:
            names += [os.path.join(parent, name) for name in more]
    yield from (name for name in names if os.path.exists(name))


def _list_targets(folder: str) -> Iterator[str]:
    """Where the links among the programs of a folder lead."""
    yield from (os.path.realpath(entry.path) for entry in _scan(folder) if entry.is_symlink())


def _list_secrets(shown: list[str]) -> Iterator[str]:
    for place in shown:
        yield from (entry.path for entry in _scan(place) if is_secret_name(entry.name) and not entry.is_symlink())


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return [entry for _, entry in zip(range(MOST_PROGRAMS), found, strict=False)]
    except OSError:
        return []  # a file, or closed to us


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
