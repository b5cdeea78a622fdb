"""What a command behind the walls has in sight: decided by its level, its folders and what was found in them.

The walls are built up from nothing: the system, the task's own /tmp, the programs of the person's home, the working
folder. Each mount stands at its path, and deeper ones come later, so whatever is hidden inside a folder stays hidden
however the folders lie in each other.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from hermes_base.errors import ToolFailure
from tools.folder_scan import Found
from tools.sandbox import STATE_FOLDER, View, Walls
from tools.toolchains import find_toolchains

#: The system as every program expects it, read-only.
SYSTEM = ("/usr", "/etc", "/opt", "/nix", "/gnu", "/var/lib/dpkg", "/var/lib/pacman", "/run/current-system")
#: Links into /usr on most systems, folders of their own on others.
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: Names are looked up through files that some systems keep here.
RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/mnt/wsl/resolv.conf")
#: A folder that is one of these, or lies in one of the second kind, cannot be a working folder behind walls.
NO_ROOTS = ("/", "/usr", "/var", "/home", "/tmp", "/var/tmp", "/mnt", "/media", "/opt", "/srv", "/run", "/Users")
NO_ROOT_BELOW = ("/proc", "/sys", "/dev", "/boot", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/lib")
#: What programs keep for the next time goes to the task's /tmp; nothing of it is in the person's home.
CACHES: Mapping[str, str] = {
    "XDG_CACHE_HOME": "/tmp/.cache",
    "XDG_CONFIG_HOME": "/tmp/.config",
    "XDG_DATA_HOME": "/tmp/.data",
    "XDG_STATE_HOME": "/tmp/.state",
    "PIP_CACHE_DIR": "/tmp/.cache/pip",
    "UV_CACHE_DIR": "/tmp/.cache/uv",
    "npm_config_cache": "/tmp/.cache/npm",
    "CARGO_HOME": "/tmp/.cache/cargo",
    "GOCACHE": "/tmp/.cache/go-build",
    "GOMODCACHE": "/tmp/.cache/go-mod",
    "GRADLE_USER_HOME": "/tmp/.cache/gradle",
    "DOTNET_CLI_HOME": "/tmp/.cache/dotnet",
    "TMPDIR": "/tmp",
}
#: What only looks tries to write in passing, and need not.
QUIET: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "npm_config_update_notifier": "false",
}


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a command may reach: its level, the network as it is set, and whether a person was asked."""

    walls: Walls
    network: bool = True
    unasked: bool = True
    foreign: bool = False  # the turn has foreign text in sight, so what becomes a prompt is not for it to change


@dataclass(frozen=True, slots=True)
class Ground:
    """The folders around a command, as they lie on this machine (absolute, without links)."""

    roots: tuple[str, ...]  # the working folder first
    tmp: str  # the task's own /tmp
    state: str  # where its shell notes its state
    masks: str  # holds the file and the folder that nobody may read
    home: str  # the person's home
    hermes: tuple[str, ...] = ()  # homes of Hermes
    readable: tuple[str, ...] = ()  # folders in them that may be looked at all the same
    path: str = ""  # where programs are looked for
    found: tuple[Found, ...] = field(default=())  # in each root

    @property
    def mask_file(self) -> str:
        return os.path.join(self.masks, "file")

    @property
    def mask_folder(self) -> str:
        return os.path.join(self.masks, "folder")


def check_root(root: str, hermes: tuple[str, ...]) -> None:
    """Refuse a working folder that would bring the machine, or Hermes itself, behind the walls."""
    if root in NO_ROOTS or any(is_inside(root, place) for place in NO_ROOT_BELOW):
        raise ToolFailure(
            f"The working folder is {root}: no walls can be put around the system itself, and nothing was run.",
            fix='Work in a folder of your own, or ask for level "outside", which a person has to approve.',
        )
    if root in hermes:
        raise ToolFailure(
            f"The working folder {root} is the home of Hermes, which commands do not see; nothing was run.",
            fix="Work in another folder.",
        )


def make_environment(inherited: Mapping[str, str], walls: Walls) -> dict[str, str]:
    """The variables that a command behind the walls begins with."""
    return {**inherited, **CACHES, **(QUIET if walls is Walls.LOOK else {})}


def make_view(ground: Ground, reach: Reach, folder: str, env: Mapping[str, str]) -> View:
    """What runs unasked never has both the secrets of the folder and the network."""
    walls = reach.walls
    network = reach.network and walls is not Walls.LOOK
    hide = walls is Walls.LOOK or (reach.unasked and network)
    if reach.unasked and any(found.logs_in for found in ground.found):
        network = False  # git has to read its configuration, and a password stands in it
    mounts: dict[str, tuple[str, ...]] = {}
    mounts.update(_show_system(network=network))
    mounts.update(_show_task(ground))
    mounts.update(_show_home(ground))
    for root in ground.roots:
        mounts[root] = ("--ro-bind" if walls is Walls.LOOK else "--bind", root, root)
    if walls is Walls.WORK:
        obeyed = [path for found in ground.found for path in found.list_kept(foreign=reach.foreign)]
        mounts.update(_hold(obeyed, ground.roots))
        mounts.update((path, ("--ro-bind", path, path)) for path in obeyed)
    secrets = [path for found in ground.found for path in found.secrets] if hide else []
    if walls is not Walls.LOOK:
        mounts.update((path, mount) for path, mount in _hold(secrets, ground.roots) if path not in mounts)
    mounts.update(_mask(secrets, ground))
    mounts.update(_hide_private(ground))
    paths = sorted(mounts, key=lambda path: (path.count("/"), path))
    for path in paths:
        if mounts[path][1] == ground.mask_folder and any(is_inside(other, path) for other in paths if other != path):
            mounts[path] = close_folder(path)  # something in it is in sight, and needs a place to stand
    return View(tuple(mounts[path] for path in paths), folder, env, network)


def close_folder(path: str) -> tuple[str, ...]:
    """An empty folder that can be gone through but neither listed nor written to."""
    return "--perms", "0111", "--tmpfs", path


def _show_system(*, network: bool) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from _list_system()
    yield "/dev", ("--dev", "/dev")
    yield "/proc", ("--proc", "/proc")
    if network:
        yield from ((path, ("--ro-bind", path, path)) for path in RESOLVERS if os.path.exists(path))


@lru_cache(maxsize=1)
def _list_system() -> tuple[tuple[str, tuple[str, ...]], ...]:
    mounts = [(path, ("--ro-bind", path, path)) for path in SYSTEM if os.path.isdir(path)]
    for path in SYSTEM_LINKS:
        if os.path.islink(path):
            mounts.append((path, ("--symlink", os.readlink(path), path)))
        elif os.path.isdir(path):
            mounts.append((path, ("--ro-bind", path, path)))
    return tuple(mounts)


@lru_cache(maxsize=1)
def _list_closed() -> tuple[str, ...]:
    """What other users of the machine may not read in /etc: root could read it behind the walls, too. Locks aside."""
    closed = []
    for place, folders, files in os.walk("/etc"):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            try:
                status = os.stat(path, follow_symlinks=False)
            except OSError:
                continue
            closed_to_others = not status.st_mode & (stat.S_IROTH | stat.S_IXOTH)
            if closed_to_others and status.st_size and not stat.S_ISLNK(status.st_mode):
                closed.append(path)
        folders[:] = [name for name in folders if os.path.join(place, name) not in closed]
    return tuple(closed)


def _show_task(ground: Ground) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "/tmp", ("--bind", ground.tmp, "/tmp")
    yield "/var/tmp", ("--symlink", "/tmp", "/var/tmp")
    yield STATE_FOLDER, ("--bind", ground.state, STATE_FOLDER)


def _show_home(ground: Ground) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The home itself is closed; programs on the PATH that lie in it are there."""
    if ground.home not in ("/", *ground.roots):
        yield ground.home, close_folder(ground.home)
    toolchains = find_toolchains(ground.path, ground.home, ground.roots[0])
    for path in toolchains.shown:
        if not any(is_inside(path, root) and root != ground.home for root in ground.roots):
            yield path, ("--ro-bind", path, path)
    yield from _mask(toolchains.hidden, ground)


def _hold(paths: Iterable[str], roots: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Make mounts of the folders above: a mount cannot be moved away, and what lies at its path stays what it is."""
    for path in paths:
        root = next(root for root in roots if is_inside(path, root))
        above = os.path.dirname(path)
        while is_inside(above, root) and above != root:
            yield above, ("--bind", above, above)
            above = os.path.dirname(above)


def _mask(paths: Iterable[str], ground: Ground) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Something that answers "permission denied" to everybody lies over each of them."""
    for path in paths:
        yield path, ("--ro-bind", ground.mask_folder if os.path.isdir(path) else ground.mask_file, path)


def _hide_private(ground: Ground) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The homes of Hermes, wherever they lie; in a home that is the working folder, everything with a dot."""
    if os.geteuid() == 0:
        yield from _mask(_list_closed(), ground)
    if ground.home in ground.roots:
        shown = find_toolchains(ground.path, ground.home, ground.roots[0]).shown
        for entry in sorted(os.listdir(ground.home)):
            path = os.path.join(ground.home, entry)
            if not entry.startswith(".") or os.path.islink(path):
                continue
            if path not in shown:
                yield from _mask([path], ground)
    for home in ground.hermes:
        unseen = is_inside(home, ground.home) and not any(is_inside(home, root) for root in ground.roots)
        if os.path.isdir(home) and not unseen:  # each mount costs, and a closed home hides it already
            yield home, close_folder(home)
    for path in ground.readable:
        if os.path.isdir(path):
            yield path, ("--ro-bind", path, path)


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
