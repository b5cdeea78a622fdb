"""The shell of a task: its working folder and its exported variables, kept from call to call."""

import contextlib
import os
import shlex
import shutil
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hermes_base.inbound import UPLOADS
from hermes_base.tool_context import ToolContext
from hermes_cli import config as cli_config
from tools.files_roots import list_homes
from tools.folder_scan import Found, find_shared_git, search_folder
from tools.sandbox import BUBBLEWRAP, STATE_FOLDER, Walls, choose_backend, order_inside, order_outside
from tools.sandbox_view import Ground, Reach, check_root, is_inside, make_environment, make_view
from tools.sensitive import list_secret_patterns
from tools.shell_state import ShellState, choose_inherited, parse_state, take_state
from tools.spawning import Running, keeper

PTY_TERM = "xterm-256color"
ENV_PROGRAM = "/usr/bin/env"
#: What the task has of its own: its /tmp, where its shells note their state.
TMP, STATE = "tmp", "state"
#: A plain command without walls gets nothing of what other commands left.
PLAIN_ENV: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
#: Folders that behind the walls are the task's own.
TASK_FOLDERS = ("/tmp", "/var/tmp")


@dataclass(frozen=True, slots=True)
class Start:
    """Everything about a command that is settled before it runs: what a question shows is what starts."""

    command: str
    state: ShellState
    walls: Walls
    unasked: bool = True
    blind: bool = False  # behind the walls its answer is not about the machine
    found: tuple[Found, ...] = ()  # in its folders, if they were searched just now


@dataclass(frozen=True, slots=True)
class Launched:
    running: Running
    start: Start
    env: Mapping[str, str]  # what the command began with
    note: str  # name of the file in which its shell notes its state
    network: bool  # it could reach the network, so what it says may be anybody's words
    obeyed: frozenset[str]  # files that other programs obey, as they were there


@dataclass
class TaskShell:
    """What a task's terminal remembers. `root` is the folder that the task may write to in a sandbox."""

    root: str
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
        shell = _shells.get(context.task)
        if shell is None:
            shell = _shells[context.task] = _open_shell(context.folder)
        return shell


def forget_shell(task: str) -> None:
    with _lock:
        shell = _shells.pop(task, None)
    if shell is not None and shell.folder:
        shutil.rmtree(shell.folder, ignore_errors=True)


def forget_all_shells() -> None:
    for task in list(_shells):
        forget_shell(task)


def find_state(shell: TaskShell, context: ToolContext) -> ShellState:
    """The state that the next command would find: in the folder it was left in, or at the beginning if that is gone."""
    state = shell.snapshot()
    if os.path.isdir(_on_this_machine(state.folder, shell, context)):
        return state
    return ShellState(shell.root, state.changes)


def identify(folder: str, shell: TaskShell, context: ToolContext) -> tuple[int, int]:
    """Which folder it is, whatever its name; a folder that cannot be seen is none."""
    try:
        status = os.stat(_on_this_machine(folder, shell, context))
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def search_roots(shell: TaskShell, context: ToolContext) -> tuple[Found, ...]:
    """What there is in the folders of the task that commands must not see or change."""
    patterns = list_secret_patterns(context)
    return tuple(search_folder(root, patterns) for root in list_roots(shell, context))


def list_roots(shell: TaskShell, context: ToolContext) -> tuple[str, ...]:
    """The working folder, the git folder it shares with its repository, and what the owner opened beside it."""
    added = (os.path.realpath(os.path.expanduser(root)) for root in context.added_roots())
    beside = [find_shared_git(shell.root), *added]
    return tuple(dict.fromkeys([shell.root, *(root for root in beside if root and os.path.isdir(root))]))


def launch(start: Start, shell: TaskShell, context: ToolContext, *, pty: bool, with_stdin: bool = False) -> Launched:
    """Start what was settled: in its folder, with its variables, behind the walls of its level."""
    own, note = _make_own_folder(shell), uuid.uuid4().hex
    walled = choose_backend(context) == BUBBLEWRAP and start.walls is not Walls.OUTSIDE
    env = ({"TERM": PTY_TERM} if pty else {}) | _choose_environment(start, context, walled=walled)
    obeyed: frozenset[str] = frozenset()
    network = start.walls is not Walls.LOOK  # without walls: all but plain commands
    if walled:
        ground = _survey(shell, context, start.found or search_roots(shell, context))
        obeyed = _list_kept(ground.found, context)
        wished = bool(context.setting("terminal", "network", True))
        reach = Reach(start.walls, network=wished, unasked=start.unasked, foreign=bool(context.foreign))
        script = _script(start.command, f"{STATE_FOLDER}/{note}")
        view = make_view(ground, reach, start.state.folder, env)
        network = view.network
        order = order_inside(script, view, pty=pty)
    else:
        script = _script(start.command, os.path.join(own, STATE, note))
        order = order_outside(script, start.state.folder, env, pty=pty)
    return Launched(keeper.start(order, with_stdin=with_stdin), start, env, note, network, obeyed)


def note_end(launched: Launched, shell: TaskShell) -> ShellState:
    """What the command left to the next one; the shell remembers it."""
    before = launched.start.state
    data = take_state(os.path.join(shell.folder, STATE), launched.note)
    after = parse_state(data, before, launched.env)
    shell.merge(before, after)
    return after


def drop_note(launched: Launched, shell: TaskShell) -> None:
    """A background process leaves nothing to the next command."""
    take_state(os.path.join(shell.folder, STATE), launched.note)


def find_new_obeyed(launched: Launched, shell: TaskShell, context: ToolContext) -> tuple[str, ...]:
    """Files that other programs obey and that were not there before the command."""
    if launched.start.walls is Walls.LOOK or choose_backend(context) != BUBBLEWRAP:
        return ()
    return tuple(sorted(_list_kept(search_roots(shell, context), context) - launched.obeyed))


def _list_kept(found: tuple[Found, ...], context: ToolContext) -> frozenset[str]:
    return frozenset(path for one in found for path in one.list_kept(foreign=bool(context.foreign)))


def _survey(shell: TaskShell, context: ToolContext, found: tuple[Found, ...]) -> Ground:
    homes = list_homes(context)
    check_root(shell.root, homes)
    return Ground(
        roots=list_roots(shell, context),
        tmp=os.path.join(shell.folder, TMP),
        state=os.path.join(shell.folder, STATE),
        masks=_make_masks(),
        home=os.path.realpath(Path.home()),
        hermes=homes,
        readable=_list_uploads(context),
        path=os.environ.get("PATH", ""),  # the person's own: what a command says of its PATH opens nothing
        found=found,
    )


def _choose_environment(start: Start, context: ToolContext, *, walled: bool) -> dict[str, str]:
    if not walled and start.walls is Walls.LOOK:
        return dict(PLAIN_ENV)
    inherited = choose_inherited(
        os.environ, frozenset(map(str, context.setting("terminal", "env", ()))), frozenset(cli_config.secrets())
    )
    return start.state.environment(make_environment(inherited, start.walls) if walled else inherited)


def _list_uploads(context: ToolContext) -> tuple[str, ...]:
    """What the person sent along, which the model is to work with."""
    own = context.own or context.home
    return (os.path.realpath(own / UPLOADS),) if own is not None else ()


def _open_shell(folder: str) -> TaskShell:
    root = os.path.realpath(folder if os.path.isdir(folder) else Path.home())
    return TaskShell(root, "", ShellState(root))


def _on_this_machine(folder: str, shell: TaskShell, context: ToolContext) -> str:
    """Where a folder that the shell names lies; behind the walls /tmp is another one than ours."""
    if choose_backend(context) == BUBBLEWRAP and not any(
        is_inside(folder, root) for root in list_roots(shell, context)
    ):
        for private in TASK_FOLDERS:
            if is_inside(folder, private):
                return os.path.join(_make_own_folder(shell), TMP, os.path.relpath(folder, private))
    return folder


def _make_own_folder(shell: TaskShell) -> str:
    """The task's own folder, made anew when the keeper that owned it has taken it away."""
    with shell.lock:
        if not shell.folder or not os.path.isdir(shell.folder):
            shell.folder = str(keeper.scratch() / f"task-{uuid.uuid4().hex[:12]}")
            for name in (TMP, STATE):
                os.makedirs(os.path.join(shell.folder, name), mode=0o700)
        return shell.folder


def _make_masks() -> str:
    """A file and a folder that nobody may read, to lie over what is hidden."""
    masks = str(keeper.scratch() / "masks")
    if not os.path.isdir(os.path.join(masks, "folder")):
        os.makedirs(masks, mode=0o700, exist_ok=True)
        os.close(os.open(os.path.join(masks, "file"), os.O_WRONLY | os.O_CREAT, 0o000))
        with contextlib.suppress(FileExistsError):  # two commands at a time
            os.mkdir(os.path.join(masks, "folder"), 0o000)
    return masks


def _script(command: str, note: str) -> str:
    """The trap notes the folder and the variables, however the command ends."""
    save = f'{{ printf "%s\\0" "$PWD"; {ENV_PROGRAM} -0; }} >|{shlex.quote(note)}'
    return f"trap {shlex.quote(save)} EXIT\n{command}\n"
