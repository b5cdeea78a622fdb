"""What a sandboxed command sees of the programs that do not belong to the system: those on the person's PATH, most of
them in the home, with what they need beside them, and without the caches and tokens that lie there, too.

The PATH and its links are the person's. What lies in a working folder is not: a command could have made it.
"""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tools.files.sensitive import is_secret_name

BINS = frozenset({"bin", "sbin", "shims"})
#: Beside a folder of programs: what programs load. Caches, settings and tokens have other names.
BESIDE = ("bin", "sbin", "shims", "lib", "lib64", "libexec", "include", "pyvenv.cfg")
#: What some need more: a program that they have, and the names beside it.
MORE = {
    "go": ("pkg", "src", "misc", "VERSION", "go.env"),
    "java": ("conf", "jmods", "jre"),
    "node": ("share",),
    "conda": ("share", "condabin", "envs"),
    "brew": ("Cellar", "opt", "share"),
}
#: Folders of the home that belong to many programs, or keep them elsewhere: what is shown for their `bin`.
NAMED = {
    ".local": (
        ".local/bin",
        ".local/lib/python3*",
        ".local/share/uv/python",
        ".local/share/uv/tools",
        ".local/share/pipx",
    ),
    ".cargo": (".cargo/bin", ".rustup"),
    ".pyenv": (".pyenv",),
    ".asdf": (".asdf",),
    ".local/share/mise": (".local/share/mise/shims", ".local/share/mise/installs"),
    ".volta": (".volta/bin", ".volta/tools"),
}
#: Where the interpreter of an environment may lie in the home; a link to anywhere else shows nothing.
INTERPRETERS = (
    *(".pyenv/versions", ".local/share/uv/python", ".asdf/installs", ".local/share/mise/installs", ".rye/py"),
    *("miniconda3", "anaconda3", "miniforge3", "mambaforge", ".conda/envs"),
)
#: What the system itself shows.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix", "/gnu", "/run", "/proc", "/sys", "/dev", "/etc")
MOST_PROGRAMS = 2_000
#: Programs that are shown one by one, of a folder that holds other things, too.
MOST_SINGLE = 40
MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Toolchains:
    """Paths that are shown, and what is hidden among them."""

    shown: tuple[str, ...]
    hidden: tuple[str, ...]


def find_toolchains(path: str, home: str, roots: tuple[str, ...]) -> Toolchains:
    """For a PATH, and for the interpreters that the environments of the working folder lead to."""
    links = [os.path.join(roots[0], name, "bin", "python") for name in (".venv", "venv")]
    interpreters = [os.path.realpath(link) for link in links if os.path.lexists(link)]
    home = os.path.realpath(home)
    known = [target for target in interpreters if any(_is_in(target, f"{home}/{place}") for place in INTERPRETERS)]
    return _find(path, home, tuple(known), roots)


@lru_cache(maxsize=64)
def _find(path: str, home: str, interpreters: tuple[str, ...], roots: tuple[str, ...]) -> Toolchains:
    named = [folder for folder in path.split(":") if os.path.isabs(folder)]
    waiting = [*named, *map(os.path.realpath, named), *map(os.path.dirname, interpreters)]
    shown: set[str] = set()
    seen: set[str] = set()
    while waiting:
        folder = waiting.pop()
        if folder in seen or not os.path.isdir(folder) or _is_elsewhere(folder, roots):
            continue
        seen.add(folder)
        if not any(_is_in(folder, place) for place in SYSTEM):
            shown.update(_list_beside(folder, home))
        # Links on the PATH often lead to another place of the home: `~/.local/bin/ruff`, the Python of an environment.
        for entry in _scan(folder):
            if not (entry.is_symlink() and os.path.isfile(entry.path) and os.access(entry.path, os.X_OK)):
                continue
            target = os.path.realpath(entry.path)
            if os.path.basename(os.path.dirname(target)) in BINS:
                waiting.append(os.path.dirname(target))
            elif not any(_is_in(target, place) for place in SYSTEM) and not _is_elsewhere(target, roots):
                shown.add(target)
    shown -= {home, "/"}
    outer = [place for place in shown if not any(place != other and _is_in(place, other) for other in shown)]
    outer = sorted(outer, key=lambda place: (place.count("/"), place))[:MOST_SHOWN]
    inner = [entry for place in outer for entry in _scan(place)]
    hidden = [entry.path for entry in inner if is_secret_name(entry.name) and not entry.is_symlink()]
    return Toolchains(tuple(outer), tuple(sorted(hidden)))


def _is_elsewhere(path: str, roots: tuple[str, ...]) -> bool:
    """In a working folder, where it is in sight anyway and its links are not the person's."""
    return any(_is_in(path, root) for root in roots)


def _list_beside(folder: str, home: str) -> Iterator[str]:
    parent = os.path.dirname(folder)
    above = os.path.relpath(parent, home)
    if os.path.basename(folder) not in BINS or above == ".":
        # Of a folder that is no `bin`, its programs alone: what else lies there is not known to be for others.
        programs = [entry.path for entry in _scan(folder) if entry.is_file() and os.access(entry.path, os.X_OK)]
        yield from sorted(programs)[:MOST_SINGLE]
        return
    names = [os.path.join(parent, name) for name in BESIDE]
    if above in NAMED:
        names = [os.path.join(home, place) for place in NAMED[above]]
    for program, more in MORE.items():
        if os.path.exists(os.path.join(folder, program)) and above not in NAMED:
            names += [os.path.join(parent, name) for name in more]
    yield from (found for name in names for found in glob.glob(name))


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return [entry for _, entry in zip(range(MOST_PROGRAMS), found, strict=False)]
    except OSError:
        return []  # a file, or closed to us


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
