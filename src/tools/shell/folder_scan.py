"""Searches a working folder for what commands must not see or change: secrets, and files that other programs obey.

A folder is listed once and again only when it has changed, so that a search before every command is cheap. The search
has a budget; a folder that is too large for it is said to be so.
"""

import contextlib
import hashlib
import os
import re
import stat
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from hermes_constants.ordinary_files import open_file
from tools.files.sensitive import compile_secrets, is_startup_entry, names_prompt

MOST_FOLDERS = 10_000
MOST_ENTRIES = 150_000
MOST_SECRETS = 100  # each is a mount
#: A folder that changed so shortly before it was listed may have changed again in the same tick of the file system.
TICK_NS = 50_000_000
KEPT_SCANS = 32
MOST_MODULES = 500  # folders below `.git/modules`
#: Other people's code and what programs keep for themselves: large, and not where somebody puts a secret.
NOT_ENTERED = frozenset({"node_modules", "site-packages", "__pycache__", ".git", ".hg", ".svn"})
#: Of a git folder: its settings and hooks decide what `git status` runs.
GIT_OBEYED = ("config", "config.worktree", "hooks", "commondir", "gitdir")
#: A Python or conda environment is known by these.
ENVIRONMENT = frozenset({"pyvenv.cfg", "conda-meta"})
CODE_ENDINGS = (".py", ".js", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".rb", ".php", ".c", ".cpp", ".h", ".cs")
#: What lies in these can change without a change of the folder that holds them.
DEEP = frozenset({".git", "node_modules"})
BARE_REPOSITORY = frozenset({"HEAD", "objects", "refs"})
CREDENTIALS = re.compile(rb"://[^/\s:@]+:[^/\s@]+@|extraheader\s*=", re.IGNORECASE)
SMALL_BYTES = 64 * 1024
LARGEST_OBJECT = 1024 * 1024
INDEX_HEAD = b"\xfftOc\x00\x00\x00\x02"  # of a pack
FAN, OBJECT_NAME = 256 * 4, 20


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a search found, as absolute paths without links."""

    secrets: tuple[str, ...] = ()
    obeyed: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    logs_in: bool = False  # a git configuration holds a password
    complete: bool = True  # False: the folder is too large, and only a part of it was searched

    def list_kept(self, *, foreign: bool) -> tuple[str, ...]:
        """What a command must leave as it is; what becomes a prompt is among it when foreign text is in sight."""
        return (*self.obeyed, *self.prompts) if foreign else self.obeyed


@dataclass(slots=True)
class _Listing:
    status: tuple[int, int, int]  # device, inode, time of the last change
    settled: bool  # the listing cannot be older than its time of change
    entries: int
    folders: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    obeyed: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    marks: frozenset[str] = frozenset()  # what in it can change without it
    closed: bool = False  # it cannot be looked into now, but a command that owns it could open it


@dataclass
class FolderScan:
    """The search of one folder, and what it remembers from time to time."""

    root: str
    patterns: tuple[str, ...]
    dotted: bool = True  # False: a home, of which everything with a dot is closed anyway
    _listings: dict[str, _Listing] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def search(self) -> ScanResult:
        """What is there now; names that are moved while they are looked at make it incomplete."""
        try:
            return self._search()
        except OSError:
            return ScanResult(complete=False)

    def _search(self) -> ScanResult:
        with self._lock:
            listings: dict[str, _Listing] = {}
            waiting, entries = [self.root], 0
            while waiting and len(listings) < MOST_FOLDERS and entries < MOST_ENTRIES:
                path = waiting.pop()
                listing = self._list(path, MOST_ENTRIES - entries + 1)
                if listing is not None:
                    listings[path] = listing
                    entries += listing.entries
                    waiting += [os.path.join(path, name) for name in listing.folders]
            self._listings = listings
            if self.root not in listings:
                return ScanResult(complete=False)
            every = listings.items()
            secrets = {os.path.join(path, name) for path, listing in every for name in listing.secrets}
            obeyed = {os.path.join(path, name) for path, listing in every for name in listing.obeyed}
            prompts = {os.path.join(path, name) for path, listing in every for name in listing.prompts}
            secrets = {path for path in secrets if not self._is_public(path)}
            secrets |= set(self._find_other_names(secrets))
            secrets |= {path for path, listing in every if listing.closed and path != self.root}
            return ScanResult(
                tuple(sorted(self._follow(secrets))),
                tuple(sorted(self._follow(obeyed))),
                tuple(sorted(self._follow(prompts))),
                any(CREDENTIALS.search(_read_small(path)) for path in obeyed if path.endswith("/config")),
                complete=not waiting
                and entries <= MOST_ENTRIES
                and len(secrets) <= MOST_SECRETS
                and not listings[self.root].closed,
            )

    def _list(self, path: str, most: int) -> _Listing | None:
        known = self._listings.get(path)
        now = time.time_ns()
        try:
            status = os.stat(path, follow_symlinks=False)
            facts = (status.st_dev, status.st_ino, status.st_ctime_ns)
            if known is not None and known.settled and known.status == facts:
                return known
            if not _is_open(status):
                return _Listing(facts, settled=False, entries=0, closed=True)
            with os.scandir(path) as found:
                return self._read(list(islice(found, most)), path, facts, settled=status.st_ctime_ns < now - TICK_NS)
        except (FileNotFoundError, NotADirectoryError):
            return None  # it has just gone
        except OSError:
            return _Listing((0, 0, 0), settled=False, entries=0, closed=True)

    def _read(
        self, found: list[os.DirEntry[str]], path: str, facts: tuple[int, int, int], *, settled: bool
    ) -> _Listing:
        if path == self.root and not self.dotted:
            found = [entry for entry in found if not entry.name.startswith(".")]
        names = {entry.name for entry in found}
        chosen, excepted = compile_secrets(self.patterns)
        secrets = []
        for name in names:
            if chosen.match(name) and not excepted.match(name):
                inner: list[str] = []
                with contextlib.suppress(OSError):  # it is a file
                    inner = os.listdir(os.path.join(path, name))
                if not any(one.endswith(CODE_ENDINGS) for one in inner):  # a package called `credentials` is no secret
                    secrets.append(name)
        within = os.path.basename(path)
        obeyed = [name for name in names if name != ".git" and is_startup_entry(within, name)]
        prompts = tuple(name for name in names if names_prompt(name))
        if names >= BARE_REPOSITORY:
            obeyed += [name for name in GIT_OBEYED if name in names]
        if names & ENVIRONMENT:  # programs, and what they load: only an installation changes it
            obeyed += ["."] if path != self.root else [name for name in ("bin", "lib", "pyvenv.cfg") if name in names]
        closed = {*NOT_ENTERED, *secrets}
        folders = tuple(
            entry.name for entry in found if entry.name not in closed and entry.is_dir(follow_symlinks=False)
        )
        if ".git" in names:
            obeyed += _list_git(os.path.join(path, ".git"))
        if "node_modules" in names and os.path.isdir(os.path.join(path, "node_modules", ".bin")):
            obeyed.append("node_modules/.bin")
        marks = frozenset(names & DEEP)
        return _Listing(
            facts, settled and not marks, len(found), folders, tuple(secrets), tuple(obeyed), prompts, marks
        )

    def _is_public(self, path: str) -> bool:
        """Whether the repository around a file holds its very content: git shows that to any command anyway."""
        above = os.path.dirname(path)
        while above not in ("/", "") and (above == self.root or above.startswith(self.root + "/")):
            listing = self._listings.get(above)
            if listing is not None and ".git" in listing.marks:
                git = os.path.join(above, ".git")
                return is_committed(path, git if os.path.isdir(git) else find_shared_git(above) or git)
            above = os.path.dirname(above)
        return False

    def _follow(self, paths: set[str]) -> set[str]:
        """Without links: what a link in the folder leads to is meant; outside of the folder nothing is in sight."""
        real = {os.path.realpath(path) for path in paths}
        return {path for path in real if path.startswith(self.root.rstrip("/") + "/") and _may_be_there(path)}

    def _find_other_names(self, secrets: set[str]) -> Iterator[str]:
        """Hard links of secrets under harmless names."""
        wanted = set()
        for path in secrets:
            with contextlib.suppress(OSError):
                status = os.stat(path, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                    wanted.add((status.st_dev, status.st_ino))
        for path in self._listings if wanted else ():
            try:
                with os.scandir(path) as found:
                    for entry in found:
                        status = entry.stat(follow_symlinks=False)
                        if (status.st_dev, status.st_ino) in wanted:
                            yield entry.path
            except OSError:
                continue


def find_shared_git(root: str) -> str:
    """The git folder that a linked worktree shares with its repository; empty: the folder is none.

    A `.git` file can name any place. It is believed only where that place names the worktree, too.
    """
    link = os.path.join(root, ".git")
    own = _read_line(link, "gitdir: ")
    if not own or _read_line(os.path.join(own, "gitdir")) != link:
        return ""
    shared = os.path.realpath(os.path.join(own, _read_line(os.path.join(own, "commondir")) or "."))
    return shared if os.path.isdir(os.path.join(shared, "objects")) else ""


def is_committed(path: str, git: str) -> bool:
    """Whether the content of an ordinary file is an object of the repository whose git folder this is: git shows that
    to whoever sees the repository, hidden or not.

    Read without git, since the repository may be a command's making. Nobody can put a name there without the content.
    """
    try:
        with open_file(path) as file:
            data = file.read(LARGEST_OBJECT + 1)
    except OSError:
        return False
    if len(data) > LARGEST_OBJECT:
        return False
    name = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    objects = os.path.join(git, "objects")
    loose = os.path.join(objects, name.hexdigest()[:2], name.hexdigest()[2:])
    if os.path.isfile(loose):
        return True
    try:
        packs = os.scandir(os.path.join(objects, "pack"))
        indexes = [entry.path for entry in packs if entry.name.endswith(".idx") and entry.is_file()]
        return any(_is_in_index(index, name.digest()) for index in indexes)
    except OSError:
        return False


def _is_in_index(path: str, name: bytes) -> bool:
    with open(path, "rb") as file:
        if file.read(len(INDEX_HEAD)) != INDEX_HEAD:
            return False
        fan = file.read(FAN)
        if len(fan) != FAN:
            return False
        ends = [int.from_bytes(fan[at : at + 4], "big") for at in range(0, FAN, 4)]
        places = range(ends[name[0] - 1] if name[0] else 0, ends[name[0]])  # of the names with this first byte

        def read_name(place: int) -> bytes:
            file.seek(len(INDEX_HEAD) + FAN + OBJECT_NAME * place)
            return file.read(OBJECT_NAME)

        at = bisect_left(places, name, key=read_name)
        return at < len(places) and read_name(places[at]) == name


def _read_line(path: str, start: str = "") -> str:
    """What stands in a small file behind `start`; empty when there is no such file."""
    data = _read_small(path)
    text = os.fsdecode(data).strip()
    return text.removeprefix(start) if text.startswith(start) and "\n" not in text else ""


def _list_git(path: str) -> list[str]:
    """What git obeys in a `.git`, that of submodules and linked worktrees included; a `.git` that is a file leads git
    elsewhere."""
    if not os.path.isdir(path):
        return [".git"]
    found = [f".git/{name}" for name in GIT_OBEYED if os.path.lexists(os.path.join(path, name))]
    for part in ("modules", "worktrees"):
        walked = list(islice(os.walk(os.path.join(path, part)), MOST_MODULES))
        if len(walked) == MOST_MODULES:
            found.append(f".git/{part}")  # too many to tell apart, so all of it stays as it is
            continue
        for folder, names, files in walked:
            inner = os.path.relpath(folder, os.path.dirname(path))
            if "HEAD" in files or "config" in files:
                found += [f"{inner}/{name}" for name in GIT_OBEYED if name in names or name in files]
    return found


def _is_open(status: os.stat_result) -> bool:
    """Whether a folder of ours can be listed and entered; one of others can at least not be opened by a command."""
    return status.st_uid != os.geteuid() or status.st_mode & 0o500 == 0o500


def _may_be_there(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # in a folder that cannot be entered now
    return True


def _read_small(path: str) -> bytes:
    """The beginning of an ordinary file; nothing of a pipe, which would hold us, or of a link."""
    try:
        with open_file(path) as file:
            return file.read(SMALL_BYTES)
    except OSError:
        return b""


_lock = threading.Lock()
_scans: dict[tuple[str, tuple[str, ...], bool], FolderScan] = {}


def search_folder(root: str, patterns: tuple[str, ...], *, dotted: bool = True) -> ScanResult:
    """What there is in a folder now; the searches of the folders in use are remembered."""
    key = root, patterns, dotted
    with _lock:
        scan = _scans.pop(key, None) or FolderScan(root, patterns, dotted)
        _scans[key] = scan
        while len(_scans) > KEPT_SCANS:
            del _scans[next(iter(_scans))]
    return scan.search()
