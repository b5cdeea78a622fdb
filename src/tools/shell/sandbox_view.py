"""What a command behind the walls has in sight: decided by its level, its folders and what was found in them.

The walls are built up from nothing: the system, the task's own /tmp, the programs of the person's home, the working
folder. Each mount stands at its path, and deeper ones come later. One rule decides where they meet (`arrange`): below
something closed only what is named is in sight.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache

from hermes_base.errors import ToolFailure
from tools.files.roots import is_inside, open_folder
from tools.shell.folder_scan import ScanResult
from tools.shell.sandbox import STATE_FOLDER, CommandNetwork, CommandView, Walls
from tools.shell.toolchains import Toolchains, find_toolchains

#: The system as every program expects it, read-only.
SYSTEM = ("/usr", "/etc", "/nix", "/gnu", "/var/lib/dpkg", "/var/lib/pacman", "/run/current-system")
#: Certificates that /etc leads to.
CERTIFICATES = ("/var/lib/ca-certificates",)
#: Links into /usr on most systems, folders of their own on others.
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: Settings of the kernel.
KERNEL = ("/proc/sys", "/proc/irq", "/proc/bus")  # what else is there, bubblewrap covers or needs privileges
#: Names are looked up through files that some systems keep here.
RESOLVERS = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/mnt/wsl/resolv.conf")
#: A folder that is one of these, or lies in one of the second kind, cannot be a working folder behind walls.
NO_ROOTS = ("/", "/usr", "/var", "/home", "/tmp", "/var/tmp", "/mnt", "/media", "/opt", "/srv", "/run", "/Users")
NO_ROOT_BELOW = ("/proc", "/sys", "/dev", "/boot", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/lib")
#: What programs keep for the next time goes to the task's /tmp; nothing of it is in the person's home.
CACHES: Mapping[str, str] = {
    "XDG_CACHE_HOME": "/tmp/.cache",
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
#: Where a command finds what we put up for it: the masks, to compare with, and the person's settings for git.
PROPS = "/run/hermes-props"
#: So many files that other programs obey are kept by a mount each, the shallowest first: every mount costs.
MOST_KEPT = 60
#: Nobody sits at the other end: an editor or a pager would wait for ever.
NO_WAITING: Mapping[str, str] = {
    **dict.fromkeys(("GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), ":"),
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER"), "cat"),
}
#: What only looks tries to write in passing, and need not.
QUIET: Mapping[str, str] = {
    "GIT_OPTIONAL_LOCKS": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "npm_config_update_notifier": "false",
}


class Kind(IntEnum):
    """What a mount is there for; at the same path the higher one counts."""

    NAMED = 0  # it is in sight, wherever it lies
    KEPT = 1  # it lies in a folder that is writable, and cannot be changed or moved away
    CLOSED = 2  # neither it nor what lies in it is in sight


@dataclass(frozen=True, slots=True)
class Mount:
    path: str
    kind: Kind
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a command may reach: its level, the network as it is set, and whether a person was asked."""

    walls: Walls
    network: bool = True
    unasked: bool = True
    filtered: bool = True  # the network can be led through the proxy
    foreign: bool = False  # the turn has foreign text in sight, so what becomes a prompt is not for it to change


@dataclass(frozen=True, slots=True)
class CommandFolders:
    """The folders around a command, as they lie on this machine (absolute, without links)."""

    roots: tuple[str, ...]  # the working folder first
    tmp: str  # the task's own /tmp
    state: str  # where its shell notes its state
    props: str  # holds the file and the folder that nobody may read, and the person's name for git
    home: str  # the person's home
    hermes: tuple[str, ...] = ()  # homes of Hermes
    readable: tuple[str, ...] = ()  # folders in them that may be looked at all the same
    links: tuple[tuple[str, str], ...] = ()  # names under which home and folder are known, and where they lead
    path: str = ""  # where programs are looked for
    found: tuple[ScanResult, ...] = field(default=())  # in each root


def check_root(root: str, hermes: tuple[str, ...]) -> None:
    """Refuse a working folder that would bring the machine, or Hermes itself, behind the walls."""
    if not os.path.isdir(root):
        raise ToolFailure(f"The working folder {root} is gone; nothing was run.", fix="Make it again, or start anew.")
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


def is_in_sight(folder: str, roots: tuple[str, ...]) -> bool:
    """Whether a folder can be the current one behind the walls."""
    return any(is_inside(folder, place) for place in (*roots, *SYSTEM, *SYSTEM_LINKS))


def make_environment(inherited: Mapping[str, str], walls: Walls, git: str) -> dict[str, str]:
    """The variables that a command behind the walls begins with; `git` names the person's settings for git."""
    settings = {"GIT_CONFIG_GLOBAL": f"{PROPS}/git-{git}"}
    return {**inherited, **NO_WAITING, **CACHES, **settings, **(QUIET if walls is Walls.LOOK else {})}


def choose_network(folders: CommandFolders, reach: Reach) -> CommandNetwork:
    """Nothing reaches the network unasked that cannot be led through the proxy, or together with a password."""
    if not reach.network or reach.walls is Walls.LOOK:
        return CommandNetwork.NONE
    # git has to read its configuration, and a password may stand in it.
    if reach.unasked and (not reach.filtered or any(found.logs_in for found in folders.found)):
        return CommandNetwork.NONE
    return CommandNetwork.PROXY if reach.filtered else CommandNetwork.OPEN


def make_view(folders: CommandFolders, reach: Reach, folder: str, env: Mapping[str, str]) -> CommandView:
    """What runs unasked never has both the secrets of the folder and the network."""
    walls = reach.walls
    network = choose_network(folders, reach)
    hide = walls is Walls.LOOK or (reach.unasked and reach.network)
    secrets = [path for found in folders.found for path in found.secrets] if hide else []
    obeyed = list_kept_by_mounts(folders.found, foreign=reach.foreign) if walls is Walls.WORK else []
    option = "--ro-bind" if walls is Walls.LOOK else "--bind"
    inside = any(is_inside(root, "/var/tmp") for root in folders.roots)
    var_tmp = ("--bind", folders.tmp, "/var/tmp") if inside else ("--symlink", "/tmp", "/var/tmp")  # a link is cheaper
    mounts = [
        *_show_system(network=network is CommandNetwork.OPEN),
        Mount("/tmp", Kind.NAMED, ("--bind", folders.tmp, "/tmp")),
        Mount("/var/tmp", Kind.NAMED, var_tmp),
        Mount(STATE_FOLDER, Kind.NAMED, ("--bind", folders.state, STATE_FOLDER)),
        Mount(PROPS, Kind.NAMED, ("--ro-bind", folders.props, PROPS)),
        *_show_toolchains(folders),
        *(Mount(root, Kind.NAMED, (option, root, root)) for root in folders.roots),
        *(_show(path) for path in folders.readable if os.path.isdir(path)),
        *(_hold([*obeyed, *secrets], folders.roots) if walls is not Walls.LOOK else ()),
        *(Mount(path, Kind.KEPT, ("--ro-bind", path, path)) for path in obeyed),
        *(_close(path, folders) for path in (*secrets, *_list_private(folders))),
    ]
    arranged = arrange(mounts)
    held = [(mount.path, *identify_place(mount.path)) for mount in arranged if mount.kind is Kind.KEPT]
    masked = [mount for mount in arranged if mount.path in secrets and mount.words[0] == "--ro-bind"]
    placed = {mount.path for mount in arranged}
    links = [link for link in folders.links if _find_above(link[0], placed) in ("", folders.home)]
    words = [mount.words for mount in arranged] + [("--symlink", target, name) for name, target in links]
    # What is written to a folder that is only there to be gone through would be lost, so it cannot be.
    words += [("--remount-ro", mount.path) for mount in arranged if "--tmpfs" in mount.words] + [("--remount-ro", "/")]
    masks = tuple((mount.path, os.path.join(PROPS, os.path.basename(mount.words[1]))) for mount in masked)
    return CommandView(tuple(words), folder, env, network, tuple(held), masks)


def identify_place(path: str) -> tuple[int, int]:
    """Device and inode of what lies there now; a link on the way, or at its end, is none."""
    try:
        with open_folder(os.path.dirname(path)) as parent:
            status = os.stat(os.path.basename(path), dir_fd=parent, follow_symlinks=False)
    except (OSError, ToolFailure):
        return 0, 0
    return status.st_dev, status.st_ino


def arrange(mounts: Iterable[Mount]) -> list[Mount]:
    """Outer ones first. Below something closed only what is named is in sight, and what is closed there again."""
    highest: dict[str, Mount] = {}
    for mount in mounts:
        known = highest.get(mount.path)
        if known is None or mount.kind >= known.kind:
            highest[mount.path] = mount
    placed: dict[str, Mount] = {}
    for path in sorted(highest, key=lambda path: (path.count("/"), path)):
        mount = highest[path]
        above = placed.get(_find_above(path, placed.keys()))
        if above is not None and above.kind is Kind.CLOSED:
            if mount.kind is not Kind.NAMED:
                continue
            placed[above.path] = replace(above, words=close_folder(above.path))  # so that it can be gone through
        placed[path] = mount
    return list(placed.values())


def close_folder(path: str) -> tuple[str, ...]:
    """An empty folder that can be gone through but neither listed nor written to."""
    return "--perms", "0111", "--tmpfs", path


def list_kept_by_mounts(found: Iterable[ScanResult], *, foreign: bool) -> list[str]:
    """Of what a command must leave as it is, what is held fast; what is deeper is looked at afterwards."""
    paths = [path for one in found for path in one.list_kept(foreign=foreign)]
    return sorted(paths, key=lambda path: (path.count("/"), path))[:MOST_KEPT]


def _show(path: str) -> Mount:
    return Mount(path, Kind.NAMED, ("--ro-bind", path, path))


def _close(path: str, folders: CommandFolders) -> Mount:
    """Something that answers "permission denied" to everybody lies over it. In the home programs look for files that
    they can do without, so it says that these are not there."""
    if path == folders.home:
        return Mount(path, Kind.CLOSED, close_folder(path))
    mask = os.path.join(folders.props, "folder" if os.path.isdir(path) else "file")
    return Mount(path, Kind.CLOSED, ("--ro-bind", mask, path))


def _show_system(*, network: bool) -> Iterator[Mount]:
    for path in (*SYSTEM, *CERTIFICATES, *(RESOLVERS if network else ())):
        if os.path.exists(path):
            yield _show(path)
    for path in SYSTEM_LINKS:
        if os.path.islink(path):
            yield Mount(path, Kind.NAMED, ("--symlink", os.readlink(path), path))
        elif os.path.isdir(path):
            yield _show(path)
    yield Mount("/dev", Kind.NAMED, ("--dev", "/dev"))
    yield Mount("/proc", Kind.NAMED, ("--proc", "/proc"))
    if os.geteuid() == 0:  # what root may write there changes the machine, walls or not
        yield from (_show(path) for path in KERNEL if os.path.exists(path))


def _show_toolchains(folders: CommandFolders) -> Iterator[Mount]:
    """Programs on the PATH that do not lie in the system; in a working folder they are there already."""
    toolchains = _find_toolchains(folders)
    for path in toolchains.shown:
        if os.path.exists(path) and not any(is_inside(path, home) for home in folders.hermes):
            yield _show(path)
    for path in toolchains.hidden:
        if os.path.exists(path):
            yield _close(path, folders)


def _find_toolchains(folders: CommandFolders) -> Toolchains:
    """A home that is a working folder is still the person's own place for programs."""
    roots = tuple(root for root in folders.roots if root != folders.home) or (os.path.join(folders.home, "none"),)
    return find_toolchains(folders.path, folders.home, roots)


def _hold(paths: Iterable[str], roots: tuple[str, ...]) -> Iterator[Mount]:
    """Make mounts of the folders above: a mount cannot be moved away, and what lies at its path stays what it is."""
    for path in paths:
        root = max((root for root in roots if is_inside(path, root)), key=len)
        above = os.path.dirname(path)
        while is_inside(above, root) and above != root:
            yield Mount(above, Kind.KEPT, ("--bind", above, above))
            above = os.path.dirname(above)


def _list_private(folders: CommandFolders) -> Iterator[str]:
    """The home, or in a home that is the working folder everything with a dot; the homes of Hermes, wherever they lie;
    what other users of the machine may not read."""
    if folders.home not in ("/", *folders.roots):
        yield folders.home
    elif folders.home != "/":
        shown = _find_toolchains(folders).shown
        dotted = [os.path.join(folders.home, name) for name in os.listdir(folders.home) if name.startswith(".")]
        yield from (path for path in dotted if path not in shown and not os.path.islink(path))
    yield from (home for home in folders.hermes if os.path.isdir(home))
    if os.geteuid() == 0:
        yield from (path for path in _list_closed_to_others() if os.path.exists(path))


@lru_cache(maxsize=1)
def _list_closed_to_others() -> tuple[str, ...]:
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
            ours = status.st_uid == os.geteuid() or status.st_gid in os.getgroups()  # without privileges no others'
            if closed_to_others and ours and status.st_size and not stat.S_ISLNK(status.st_mode):
                closed.append(path)
        folders[:] = [name for name in folders if os.path.join(place, name) not in closed]
    return tuple(closed)


def _find_above(path: str, placed: Collection[str]) -> str:
    """The nearest folder above that is among them; empty: none is."""
    above = os.path.dirname(path)
    while above not in placed and above != "/":
        above = os.path.dirname(above)
    return above if above in placed else ""
