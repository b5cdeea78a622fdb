"""The shell of a task: its working folder and its exported variables, kept from call to call."""

import contextlib
import logging
import os
import shlex
import tempfile
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hermes_base.errors import ToolFailure
from hermes_base.inbound import UPLOADS
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import config as cli_config
from hermes_cli.config.lent_env import exported_environment
from hermes_constants.ordinary_files import expand_home
from tools.files.roots import is_inside, list_homes
from tools.shell.folder_scan import ScanResult, find_shared_git, search_folder
from tools.shell.git_settings import read_git_settings
from tools.shell.keeper import remove_folder
from tools.shell.network_client import CommandLeave, make_proxy_environment, network_client, take_refusals
from tools.shell.sandbox import (
    BUBBLEWRAP,
    STATE_FOLDER,
    CommandNetwork,
    Walls,
    choose_backend,
    find_filter_problem,
    order_inside,
    order_outside,
)
from tools.shell.sandbox_view import (
    NO_WAITING,
    CommandFolders,
    Reach,
    check_root,
    choose_network,
    identify_place,
    is_in_sight,
    list_kept_by_mounts,
    make_environment,
    make_view,
)
from tools.shell.shell_state import PROXY, ShellState, choose_inherited, read_state, take_state
from tools.shell.spawning import Running, keeper

log = logging.getLogger(__name__)

PTY_TERM = "xterm-256color"
ENV_PROGRAM = "/usr/bin/env"
#: What the task has of its own: its /tmp, where its shells note their state.
TMP, STATE = "tmp", "state"
#: A plain command without walls gets nothing of what other commands left.
PLAIN_ENV: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
GUARD_SECONDS = 0.25
#: Folders that behind the walls are the task's own.
TASK_FOLDERS = ("/tmp", "/var/tmp")


@dataclass(frozen=True, slots=True)
class ShellStart:
    """Everything about a command that is settled before it runs: what a question shows is what starts."""

    command: str
    state: ShellState
    walls: Walls
    place: tuple[int, int] | None = None  # the folder by device and inode; what has another name may be another folder
    unasked: bool = True
    blind: bool = False  # behind the walls its answer is not about the machine
    found: tuple[ScanResult, ...] = ()  # in its folders, if they were searched just now
    readable: tuple[str, ...] = ()  # folders beside its own that it sees, read-only


@dataclass(frozen=True, slots=True)
class Launched:
    running: Running
    start: ShellStart
    env: Mapping[str, str]  # what the command began with
    note: str  # name of the file in which its shell notes its state
    reached: CommandNetwork
    obeyed: Mapping[str, tuple[int, ...]]  # files that other programs obey, as they were
    foreign: bool  # foreign text was in sight when it started
    shell: "TaskShell"  # of the task that it was started for; it may be forgotten before the command ends
    guarded: Mapping[str, int]  # what its walls hide or hold, open, so that no other file gets its number
    refusals: str = ""  # the file in which the proxy notes what it refused it
    replaced: threading.Event = field(default_factory=threading.Event)  # and so the command was ended

    @property
    def network(self) -> bool:
        """It could reach the network, so what it says may be anybody's words."""
        return self.reached is not CommandNetwork.NONE

    def list_refusals(self) -> list[str]:
        return take_refusals(self.refusals) if self.reached is CommandNetwork.PROXY else []


@dataclass
class TaskShell:
    """What a task's terminal remembers. `root` is the folder that the task may write to in a sandbox."""

    root: str
    named: str  # the root as it was given; a part of it may be a link
    folder: str  # of the task's own, for what belongs to it; empty: not made yet
    state: ShellState
    lock: threading.Lock = field(default_factory=threading.Lock)

    def snapshot(self) -> ShellState:
        with self.lock:
            return self.state

    def merge(self, before: ShellState, after: ShellState) -> None:
        """Take over what a command changed; what it left alone belongs to whoever changed it meanwhile."""
        missing = object()
        changed = {name: value for name, value in after.changes.items() if before.changes.get(name, missing) != value}
        with self.lock:
            folder = after.folder if after.folder != before.folder else self.state.folder
            self.state = ShellState(folder, {**self.state.changes, **changed})


_lock = threading.Lock()
_shells: dict[str, TaskShell] = {}


def shell_of(context: ToolContext) -> TaskShell:
    """The shell of the context's task; the first to ask decides where it begins."""
    with _lock:
        if context.task not in _shells:
            named = os.path.abspath(expand_home(context.folder))
            if not os.path.isdir(named):
                raise ToolFailure(
                    f"The working folder {named} is not there; nothing was run.", fix="Make it, or choose another."
                )
            root = os.path.realpath(named)
            _shells[context.task] = TaskShell(root, named, "", ShellState(root))
        return _shells[context.task]


def forget_shell(task: str) -> None:
    with _lock:
        shell = _shells.pop(task, None)
    network_client.forget(task)
    if shell is not None and shell.folder:
        remove_folder(shell.folder)


def find_state(shell: TaskShell, context: ToolContext, *, outside: bool = False) -> ShellState:
    """The state that the next command would find: in the folder it was left in, by its real name, or at the beginning
    if that is gone or out of sight."""
    state = shell.snapshot()
    folder, walled = state.folder, _is_walled(context, outside)
    try:
        roots = list_roots(shell, context) if walled else ()
        if not walled:
            real = os.path.realpath(folder) if os.path.isdir(folder) else ""
        elif any(is_inside(folder, own) for own in TASK_FOLDERS) and not any(is_inside(folder, root) for root in roots):
            there = os.path.realpath(_on_this_machine(folder, shell))
            real = folder if os.path.isdir(there) and is_inside(there, os.path.realpath(shell.folder)) else ""
        else:
            there = os.path.realpath(folder)
            real = there if os.path.isdir(there) and is_in_sight(there, roots) else ""
    except OSError:
        real = ""  # it is being moved just now
    return ShellState(real or shell.root, state.changes)


def identify(folder: str, shell: TaskShell, context: ToolContext, *, outside: bool) -> tuple[int, int]:
    """Which folder it is, whatever its name; a folder that cannot be seen is none."""
    try:
        status = os.stat(_on_this_machine(folder, shell) if _is_walled(context, outside) else folder)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def _is_walled(context: ToolContext, outside: bool) -> bool:
    return not outside and choose_backend(context) == BUBBLEWRAP


def search_roots(shell: TaskShell, context: ToolContext) -> tuple[ScanResult, ...]:
    """What there is in the folders of the task that commands must not see or change."""
    patterns = context.settings.files.secrets
    home = os.path.realpath(Path.home())
    return tuple(search_folder(root, patterns, dotted=root != home) for root in list_roots(shell, context))


def list_roots(shell: TaskShell, context: ToolContext) -> tuple[str, ...]:
    """The working folder, the git folder it shares with its repository, and what the owner opened beside it."""
    named = [os.path.abspath(expand_home(root)) for root in context.added_roots()]
    # One that lies in the working folder is there already, and a command could have made a link of it.
    added = [os.path.realpath(root) for root in named if not is_inside(root, shell.root)]
    beside = [find_shared_git(shell.root), *added]
    return tuple(dict.fromkeys([shell.root, *(root for root in beside if root and os.path.isdir(root))]))


def launch(
    start: ShellStart, shell: TaskShell, context: ToolContext, *, pty: bool, with_stdin: bool = False
) -> Launched:
    """Start what was settled: in its folder, with its variables, behind the walls of its level."""
    own, note = _make_own_folder(shell), uuid.uuid4().hex
    walled = choose_backend(context) == BUBBLEWRAP and start.walls is not Walls.OUTSIDE
    term = {"TERM": PTY_TERM} if pty else {}
    obeyed: Mapping[str, tuple[int, ...]] = {}
    foreign = bool(context.foreign)
    guarded: dict[str, int] = {}
    if walled:
        folders = _prepare_folders(shell, context, start.found or search_roots(shell, context))
        folders = replace(folders, readable=(*folders.readable, *start.readable))
        obeyed = _fingerprint(folders.found, foreign=foreign)
        reach = _choose_reach(start, context, foreign=foreign)
        reached = choose_network(folders, reach)
        env = term | _choose_walled_environment(start, shell, context, reached)
        script = _script(start.command, f"{STATE_FOLDER}/{note}")
        view = make_view(folders, reach, start.state.folder, env)
        if start.unasked and reached is not CommandNetwork.NONE:
            for path in (*(path for path, _, _ in view.held), *(path for path, _ in view.masks)):
                with contextlib.suppress(OSError):  # what has gone just now is found by the check that comes first
                    guarded[path] = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        order = order_inside(script, view, pty=pty)
    else:
        reached = CommandNetwork.NONE if start.walls is Walls.LOOK else CommandNetwork.OPEN  # plain ones reach nothing
        env = term | _choose_bare_environment(start, context)
        script = _script(start.command, os.path.join(own, STATE, note))
        order = order_outside(script, start.state.folder, start.place, env, pty=pty)
    refusals = os.path.join(own, f"refused-{note}")
    try:
        if reached is CommandNetwork.PROXY:
            leave = CommandLeave(context.task, tuple(context.settings.network.private), refusals)
            running = network_client.start(order, leave, with_stdin=with_stdin)
        else:
            running = keeper.start(order, with_stdin=with_stdin)
    except ToolFailure:
        for pinned in guarded.values():
            os.close(pinned)
        raise
    launched = Launched(running, start, env, note, reached, obeyed, foreign, shell, guarded, refusals)
    if guarded:
        threading.Thread(target=_stand_guard, args=(launched,), name="walls-guard", daemon=True).start()
    return launched


def _stand_guard(launched: Launched) -> None:
    """A file that the person replaces, as editors do, loses the mount that hides it from a command that is running.
    What runs unasked with the network is ended then."""
    try:
        while not launched.running.ended.wait(GUARD_SECONDS):
            now = {path: os.fstat(pinned) for path, pinned in launched.guarded.items()}
            if any(identify_place(path) != (status.st_dev, status.st_ino) for path, status in now.items()):
                launched.replaced.set()
                launched.running.end(0)
                return
    finally:
        for pinned in launched.guarded.values():
            os.close(pinned)


def note_end(launched: Launched) -> ShellState:
    """What the command left to the next one; the shell remembers it."""
    before = launched.start.state
    after = read_state(take_note(launched), before, launched.env)
    launched.shell.merge(before, after)
    return after


def take_note(launched: Launched) -> bytes:
    """What the command's shell noted of its state; the note is gone then."""
    return take_state(os.path.join(launched.shell.folder, STATE), launched.note)


def find_new_obeyed(launched: Launched, context: ToolContext) -> tuple[str, ...]:
    """Files that other programs obey and that work made, or changed where they lie too deep to be held fast."""
    if launched.start.walls is not Walls.WORK or choose_backend(context) != BUBBLEWRAP:
        return ()
    now = _fingerprint(search_roots(launched.shell, context), foreign=launched.foreign)
    return tuple(sorted(path for path, print_ in now.items() if launched.obeyed.get(path) != print_))


def _fingerprint(found: tuple[ScanResult, ...], *, foreign: bool) -> dict[str, tuple[int, ...]]:
    """Each with what changes when it does; what mounts hold fast cannot, whatever lies in it is read."""
    held = set(list_kept_by_mounts(found, foreign=foreign))
    paths = [path for one in found for path in one.list_kept(foreign=foreign)]
    return {path: () if path in held else _stamp(path) for path in paths}


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return (0,)
    return status.st_ino, status.st_ctime_ns


def _prepare_folders(shell: TaskShell, context: ToolContext, found: tuple[ScanResult, ...]) -> CommandFolders:
    """What lies around a command. A file and a folder that nobody may read, to lie over what is hidden, and the
    person's settings for git are made where they are missing."""
    homes, own = list_homes(context), context.own or context.home
    check_root(shell.root, homes)
    props = str(keeper.scratch() / "props")
    with _lock:
        if not os.path.isdir(props):
            made = tempfile.mkdtemp(dir=keeper.scratch())
            os.close(os.open(os.path.join(made, "file"), os.O_WRONLY | os.O_CREAT, 0o000))
            os.mkdir(os.path.join(made, "folder"), 0o000)
            os.rename(made, props)
        settings = read_git_settings(shell.root)
        for name, text in (("git", settings.text), ("ignore", settings.ignored)):
            path = Path(props, f"{name}-{settings.name}")
            if not path.exists():
                path.write_text(text)
    return CommandFolders(
        roots=list_roots(shell, context),
        tmp=os.path.join(shell.folder, TMP),
        state=os.path.join(shell.folder, STATE),
        props=props,
        home=os.path.realpath(Path.home()),
        links=tuple(link for name in (shell.named, str(Path.home())) if (link := find_link(name)) is not None),
        hermes=homes,
        readable=(os.path.realpath(own / UPLOADS),) if own is not None else (),  # what the person sent along
        path=os.environ.get("PATH", ""),  # the person's own: what a command says of its PATH opens nothing
        found=found,
    )


def _choose_reach(start: ShellStart, context: ToolContext, *, foreign: bool) -> Reach:
    wished = context.settings.terminal.network and start.walls is not Walls.LOOK
    filtered = not wished or not find_filter_problem(context.settings.terminal.backend)  # tried when it is needed
    return Reach(start.walls, wished, start.unasked, filtered, foreign)


def _choose_bare_environment(start: ShellStart, context: ToolContext) -> dict[str, str]:
    if start.walls is Walls.LOOK:
        return dict(PLAIN_ENV)
    return start.state.environment({**_choose_inherited(context), **NO_WAITING})


def _choose_walled_environment(
    start: ShellStart, shell: TaskShell, context: ToolContext, reached: CommandNetwork
) -> dict[str, str]:
    """A proxy that the person uses is not in the network of a command; ours is."""
    inherited = _choose_inherited(context)
    if reached is not CommandNetwork.OPEN:
        inherited = {name: value for name, value in inherited.items() if not PROXY.fullmatch(name)}
    if reached is CommandNetwork.PROXY:
        inherited |= make_proxy_environment(context.settings.network.private)
    return start.state.environment(make_environment(inherited, start.walls, read_git_settings(shell.root).name))


def _choose_inherited(context: ToolContext) -> dict[str, str]:
    named = frozenset(context.settings.terminal.env)
    return choose_inherited(exported_environment(), named, frozenset(cli_config.secrets()))


def _on_this_machine(folder: str, shell: TaskShell) -> str:
    """Where a folder lies that a command behind the walls names; its /tmp is another one than ours."""
    private = next((place for place in TASK_FOLDERS if is_inside(folder, place)), None)
    if private is None or is_inside(folder, shell.root):
        return folder
    return os.path.join(_make_own_folder(shell), TMP, os.path.relpath(folder, private))


def _make_own_folder(shell: TaskShell) -> str:
    """The task's own folder, made anew when the keeper that owned it has taken it away."""
    with shell.lock:
        if not shell.folder or not os.path.isdir(shell.folder):
            shell.folder = str(keeper.scratch() / f"task-{uuid.uuid4().hex[:12]}")
            for name in (TMP, STATE):
                os.makedirs(os.path.join(shell.folder, name), mode=0o700)
        return shell.folder


def find_link(name: str) -> tuple[str, str] | None:
    """The first part of a path that is a link, and where it leads; None: there is none."""
    parts = name.split("/")
    for at in range(2, len(parts) + 1):
        above = "/".join(parts[:at])
        if os.path.islink(above):
            return above, os.path.realpath(above)
    return None


def _script(command: str, note: str) -> str:
    """The trap notes the folder and the variables, however the command ends."""
    save = f'{{ printf "%s\\0" "$PWD"; {ENV_PROGRAM} -0; }} >|{shlex.quote(note)}'
    return f"trap {shlex.quote(save)} EXIT\n{command}\n"
