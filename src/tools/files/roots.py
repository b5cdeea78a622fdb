"""Which files a tool may touch, and how they are opened so that the answer still holds at the moment of use.

A path is resolved once; afterwards every part of the resolved path is opened without following links.
"""

import contextlib
import errno
import fnmatch
import itertools
import os
import stat
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hermes_base.errors import ToolFailure
from hermes_base.inbound import PEOPLE, UPLOADS
from hermes_base.text.foreign import UPLOADED
from hermes_base.turn.consent import Deed
from hermes_base.turn.tool_context import ToolContext
from hermes_constants import SIGN_INS_FOLDER, WEB_TOKEN_FILE, get_hermes_home
from hermes_constants.ordinary_files import expand_home, open_file
from tools.approval import ask_approval, make_deed
from tools.files.encodings import printable
from tools.files.sensitive import (
    is_secret_name,
    is_secret_path,
    is_system_path,
    names_program,
    names_prompt,
    names_startup,
)

READ, WRITE, SEND = "read", "write", "send"
#: Why a person decides, in the words of the question.
OUTSIDE, SECRET = "it is outside of the allowed folders", "it may hold secrets"
STARTUP = "other programs obey it"
#: Folders of a home whose files stand in prompts, beside those with such a name.
PROMPT_FOLDERS = frozenset({"skills", "memories"})
FIXES = {OUTSIDE: "Work inside the working folder, or ask the owner to add the folder to files.roots."}
WORKSPACE = "workspace"
NEW_FILE_MODE = 0o666
#: Names in a home that no tool reads or writes: keys, settings, the store, locks, what undo keeps, the page's token,
#: what is known of MCP servers and of files on other machines, sign-ins of the browser.
PRIVATE_NAMES = (
    *(
        ".env*",
        "config.yaml*",
        "*.db",
        "*.db-*",
        "*.lock",
        "file-changes",
        "mcp",
        "cron",
        "laid-out",
        f"{WEB_TOKEN_FILE}*",
    ),
    SIGN_INS_FOLDER,
)
#: Where the sandbox keeps the files of its commands, of every task and person.
SCRATCH = os.path.join(os.path.realpath(tempfile.gettempdir()), "hermes-terminal-")
#: What lies here is the machine itself (the environment of this process among it), not files.
BARRED_FOLDERS = ("/proc", "/sys", "/dev")
#: How far hard links are looked for: entries of a folder, and folders in a folder that holds secrets.
SCANNED, SECRET_DEPTH = 2000, 2
# O_PATH, where it exists, passes through folders that may be entered but not listed.
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTING_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

Inode = tuple[int, int]  # device and number: what a file is, whatever it is called


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A resolved path that may be used: absolute, without links, `.` and `..`."""

    path: str
    homes: tuple[str, ...]
    reasons: tuple[str, ...] = ()  # why a person is shown what is written here before it is
    closed: bool = False  # reading it is asked for, too
    known: "KnownFiles | None" = None  # what must not be read under another name

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


class KnownFiles:
    """What files with a private or secret name are on disk, looked up when it is first asked: a hard link to one is
    known for what it is."""

    def __init__(self, homes: tuple[str, ...], folders: tuple[str, ...], secrets: tuple[str, ...]) -> None:
        self._homes, self._folders, self._secrets = homes, folders, secrets

    @cached_property
    def private(self) -> frozenset[Inode]:
        """Of the homes and their profiles."""
        profiles = [entry.path for home in self._homes for entry in _scan(os.path.join(home, "profiles"))]
        every = [entry for home in (*self._homes, *profiles) for entry in _scan(home) if _is_private_part(entry.name)]
        return frozenset(inode for entry in every for inode in _list_inodes(entry, 0))

    @cached_property
    def secret(self) -> frozenset[Inode]:
        """Of the working folder and the folder of the person who runs this."""
        named = [e for folder in self._folders for e in _scan(folder) if is_secret_name(e.name, self._secrets)]
        return frozenset(inode for entry in named for inode in _list_inodes(entry, SECRET_DEPTH))


@dataclass(frozen=True, slots=True)
class FileBytes:
    """A file as it was read: its bytes and its status at that moment."""

    data: bytes
    status: os.stat_result


def find_place(context: ToolContext, path: object, use: str) -> FilePlace:
    """Resolve a path and judge it; this is the one place that decides (G7).

    What may not be read unasked is asked for here. What may not be written unasked is asked for by `change_files`,
    which can show what will be written.
    """
    real = resolve_path(context, path)
    homes = list_homes(context)
    refuse_private(real, homes)
    if is_foreign(context, real, homes):
        raise ToolFailure(f"{real} belongs to somebody else.", fix="Work inside the working folder.")
    reasons = find_reasons(context, real, use, homes)
    closed = bool(reasons if use != WRITE else find_reasons(context, real, READ, homes))
    if use != WRITE and reasons:
        what = f"{use} {printable(real)}"
        ask_for_consent(context, what, real, use, reasons, name_deed(context, use, [real], what, [reasons]))
    if use == READ:
        note_upload(context, real)
    folders = tuple(dict.fromkeys(map(os.path.realpath, (expand_home("~"), context.folder))))
    return FilePlace(real, homes, reasons, closed, KnownFiles(homes, folders, context.settings.files.secrets))


def find_reasons(context: ToolContext, path: str, use: str, homes: tuple[str, ...]) -> tuple[str, ...]:
    """Why a person decides about this path; empty: it may be used. Secrets and start files count inside roots, too."""
    roots = [root for root in open_roots(path, list_roots(context), homes) if is_inside(path, root)]
    # What the folders above a root are called says nothing: a project may lie in a folder called `secrets`.
    below = path[len(max(roots, key=len)) :] if roots else path
    writes = use == WRITE
    found = {
        OUTSIDE: not roots,
        SECRET: is_secret_path(below, context.settings.files.secrets),
        STARTUP: writes and (names_startup(below) or names_program(below) or is_system_path(path)),
    }
    prompt = find_prompt_reason(context, path, homes) if writes else ""
    return (*(reason for reason, holds in found.items() if holds), *((prompt,) if prompt else ()))


def find_prompt_reason(context: ToolContext, path: str, homes: tuple[str, ...]) -> str:
    """Why what becomes a part of prompts is not written unasked: foreign text may be behind it (G9), or it stands in
    the prompts of others; empty: it is the person's own."""
    home = find_home_around(path, homes)
    inside = path[len(home) :].strip("/").split("/")[0] if home else ""
    if not names_prompt(path) and inside not in PROMPT_FOLDERS:
        return ""
    if context.foreign:
        return f"it becomes a part of prompts, and this conversation holds {' and '.join(context.foreign.origins)}"
    own = context.own is None or is_inside(path, os.path.realpath(context.own))
    return "" if own else "it becomes a part of the prompts of others"


def note_upload(context: ToolContext, path: str) -> None:
    """What somebody sent along is foreign text, whoever sent it (G9)."""
    home = find_home_around(path, list_homes(context))
    names = path[len(home) :].strip("/").split("/") if home else []
    if names[:1] == [UPLOADS] or (names[:1] == [PEOPLE] and names[2:3] == [UPLOADS]):
        context.foreign.note(UPLOADED)


def name_deed(
    context: ToolContext, use: str, paths: Sequence[str], shown: str, reasons: Iterable[tuple[str, ...]]
) -> Deed | None:
    """What a kept approval of this use of these files is about. None: secrets, what other programs obey and what
    becomes a part of prompts is asked for each time, and so is handing a file over."""
    if use == SEND or any(one != (OUTSIDE,) for one in reasons):
        return None
    return make_deed(context, use, os.path.realpath(expand_home(context.folder)), sorted(paths), shown)


def ask_for_consent(
    context: ToolContext, what: str, path: str, use: str, reasons: tuple[str, ...], deed: Deed | None = None
) -> None:
    """A ToolFailure unless the person agrees to exactly this."""
    why = "; ".join(reasons)
    consent = ask_approval(context, what, why, deed=deed)
    if not consent:
        raise ToolFailure(
            f"To {use} {printable(path)} needs the consent of the person ({why}): {consent.why}.",
            kept="Nothing was done.",
            fix=FIXES.get(reasons[0], "Tell the person what you need it for."),
        )


def resolve_path(context: ToolContext, path: object) -> str:
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise ToolFailure("A path is needed.", fix="Give it as text, absolute or relative to the working folder.")
    joined = os.path.join(os.path.abspath(expand_home(context.folder)), expand_home(path))
    try:
        return os.path.realpath(joined)
    except OSError as problem:  # a link that went away in the middle of it
        raise explain(joined, problem) from problem


def list_roots(context: ToolContext) -> tuple[str, ...]:
    """The working folder, the home's workspace, what was uploaded, /tmp and what the owner added as `files.roots`.

    For anybody but the owner: their own workspace and uploads, and `people.roots`; /tmp is everybody's (G12).
    """
    own = context.own or _home(context)
    usual = [str(own / WORKSPACE), str(own / UPLOADS)]
    every = [*([context.folder, "/tmp"] if context.own is None else []), *usual, *context.added_roots()]
    return tuple(os.path.realpath(expand_home(root)) for root in every)


def list_homes(context: ToolContext) -> tuple[str, ...]:
    """The home in use first, then the home that its profile belongs to, and the usual one (G13)."""
    home = Path(os.path.realpath(_home(context)))
    above = [home.parent.parent] if home.parent.name == "profiles" else []
    usual = os.path.realpath(expand_home("~/.hermes"))
    return tuple(dict.fromkeys(map(str, (home, *above, usual))))


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def find_home_around(path: str, homes: tuple[str, ...]) -> str:
    """The home that holds the path, a profile's own if it lies in one; empty: none does."""
    found = ""
    for home in homes:
        if is_inside(path, home):
            names = path[len(home) :].strip("/").split("/")
            own = os.path.join(home, *names[:2]) if names[0] == "profiles" and len(names) > 1 else home
            found = max(found, own, key=len)
    return found


def open_roots(path: str, roots: tuple[str, ...], homes: tuple[str, ...]) -> tuple[str, ...]:
    """The roots that count for a path: in a home only those that lie in it; neither the home itself nor what is
    around it opens it."""
    home = find_home_around(path, homes)
    return tuple(root for root in roots if root != home and is_inside(root, home)) if home else roots


def is_inside_roots(path: str, roots: tuple[str, ...], homes: tuple[str, ...]) -> bool:
    return any(is_inside(path, root) for root in open_roots(path, roots, homes))


def is_private(path: str, homes: tuple[str, ...]) -> bool:
    """Whether the path names something of the sandbox, of a home or of a profile that tools never touch."""
    return path.startswith(SCRATCH) or any(
        _is_private_part(path[len(home) :].strip("/")) for home in homes if is_inside(path, home)
    )


def is_foreign(context: ToolContext, path: str, homes: tuple[str, ...]) -> bool:
    """Whether a home holds it for the owner or for other people: nobody's consent opens that (G12)."""
    if context.own is None or not any(is_inside(path, home) for home in homes):
        return False
    return not is_inside_roots(path, list_roots(context), homes)


def refuse_private(path: str, homes: tuple[str, ...]) -> None:
    if is_private(path, homes):
        raise ToolFailure(f"{path} belongs to Hermes itself; tools neither read nor write it.")
    if any(is_inside(path, folder) for folder in BARRED_FOLDERS):
        raise ToolFailure(f"{path} is no ordinary file.", fix="Use the terminal to look at devices and the system.")


@contextlib.contextmanager
def open_folder(path: str) -> Iterator[int]:
    """A descriptor of a resolved folder; a link anywhere on the way was put there after the check (G7)."""
    descriptor = os.open("/", _FOLDER_FLAGS)
    try:
        for part in path.strip("/").split("/"):
            if not part:
                continue
            try:
                deeper = os.open(part, _FOLDER_FLAGS, dir_fd=descriptor)
            except OSError as problem:
                if problem.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(part, descriptor):
                    raise explain(path, OSError(errno.ELOOP, "")) from problem
                raise
            os.close(descriptor)
            descriptor = deeper
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_listing(path: str) -> Iterator[int]:
    """A descriptor of a resolved folder whose names can be read."""
    with open_folder(path) as folder:
        descriptor = os.open(".", _LISTING_FLAGS, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_folders(path: str) -> list[str]:
    """Create what is missing of a resolved folder, link-free; returns what was created, outermost first."""
    missing: list[str] = []
    while not os.path.lexists(path):
        missing.insert(0, path)
        path = os.path.dirname(path)
    for folder in missing:
        with open_folder(os.path.dirname(folder)) as parent, contextlib.suppress(FileExistsError):
            os.mkdir(os.path.basename(folder), dir_fd=parent)
    return missing


def read_bytes(place: FilePlace, limit: int) -> FileBytes | None:
    """The bytes of an ordinary file, or None when there is none; anything else is refused by name."""
    try:
        with open_folder(place.folder) as folder:
            opened = open_file(place.name, folder=folder)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise explain(place.path, problem) from problem
    with opened as file:
        status = os.fstat(file.fileno())
        if status.st_nlink > 1 and place.known is not None:
            # A hard link has a name of its own, which says nothing of what the file is.
            inode = status.st_dev, status.st_ino
            if inode in place.known.private:
                raise ToolFailure(
                    f"{place.path} is another name of a file of Hermes itself; tools neither read nor write it."
                )
            if SECRET not in place.reasons and inode in place.known.secret:
                raise ToolFailure(
                    f"{place.path} is another name of a file that may hold secrets.", fix="Use its own name."
                )
        if status.st_size > limit:
            raise ToolFailure(
                f"{place.path} has {status.st_size:,} bytes; files up to {limit:,} bytes are read whole.",
                fix="Use search_files, or the terminal (for example sed -n), for a part of it.",
            )
        try:
            return FileBytes(file.read(limit + 1), status)
        except OSError as problem:
            raise explain(place.path, problem) from problem


def stage_bytes(place: FilePlace, data: bytes, mode: int | None) -> str:
    """Write the bytes beside the file under a name of their own; returns that name."""
    name = f".{uuid.uuid4().hex[:12]}{place.name[-80:]}"  # with its ending: what is a secret is known for one
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open_folder(place.folder) as folder:
        descriptor = os.open(name, flags, NEW_FILE_MODE, dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:
                if mode is not None:
                    os.fchmod(descriptor, stat.S_IMODE(mode))
                file.write(data)
                file.flush()
                os.fsync(descriptor)
        except BaseException:
            os.unlink(name, dir_fd=folder)
            raise
    return name


def replace_by_staged(place: FilePlace, staged: str) -> None:
    """The staged bytes take the file's place in one step."""
    with open_folder(place.folder) as folder:
        os.replace(staged, place.name, src_dir_fd=folder, dst_dir_fd=folder)


def remove_name(place: FilePlace, name: str) -> None:
    with contextlib.suppress(FileNotFoundError), open_folder(place.folder) as folder:
        os.unlink(name, dir_fd=folder)


def remove_empty_folder(path: str) -> None:
    """Remove a folder; one that is in use, or gone, stays as it is."""
    with contextlib.suppress(OSError, ToolFailure), open_folder(os.path.dirname(path)) as parent:
        os.rmdir(os.path.basename(path), dir_fd=parent)


def explain(path: str, problem: OSError) -> ToolFailure:
    """The failure of the system in a sentence."""
    if problem.errno == errno.ELOOP:
        return ToolFailure(f"{path} became a link while it was used; nothing was done.", fix="Look at it again.")
    return ToolFailure(f"{path} cannot be used: {problem.strerror or problem}.")


def _home(context: ToolContext) -> Path:
    return context.home or get_hermes_home()


def _is_private_part(part: str) -> bool:
    names = part.split("/")
    if names[0] == "profiles" and len(names) > 2:
        names = names[2:]
    return any(fnmatch.fnmatchcase(names[0].lower(), pattern) for pattern in PRIVATE_NAMES)


def _scan(folder: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(itertools.islice(entries, SCANNED))
    return []


def _list_inodes(entry: os.DirEntry[str], depth: int) -> Iterator[Inode]:
    """The file, or the files of the folder; links are not followed."""
    with contextlib.suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            for inner in _scan(entry.path) if depth else ():
                yield from _list_inodes(inner, depth - 1)
        else:
            status = entry.stat(follow_symlinks=False)
            yield status.st_dev, status.st_ino


def _is_link(part: str, descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISLNK(os.stat(part, dir_fd=descriptor, follow_symlinks=False).st_mode)
    return False
