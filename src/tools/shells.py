"""The shell of a task: its working folder and its exported variables, kept from call to call."""

import os
import shlex
import shutil
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from hermes_base.inbound import UPLOADS
from hermes_base.tool_context import ToolContext
from hermes_cli import config as cli_config
from tools.keeper import STATE_FD
from tools.sandbox import Place, choose_backend
from tools.spawning import Order, Running, keeper

#: Bash sets these anew in every shell; they say nothing about what the command wanted.
OWN_NAMES = frozenset({"_", "SHLVL", "PWD"})
PTY_TERM = "xterm-256color"


@dataclass(frozen=True, slots=True)
class ShellState:
    folder: str
    env: dict[str, str]


@dataclass(frozen=True, slots=True)
class Launched:
    running: Running
    before: ShellState  # what the command found


@dataclass
class TaskShell:
    """What a task's terminal remembers. `root` is the folder that the task may write to in a sandbox."""

    root: str
    tmp: str
    state: ShellState
    lock: threading.Lock = field(default_factory=threading.Lock)

    def snapshot(self) -> ShellState:
        with self.lock:
            return ShellState(self.state.folder, dict(self.state.env))

    def merge(self, before: ShellState, after: ShellState) -> None:
        """Take over what a command changed; what it left alone belongs to whoever changed it meanwhile."""
        changed = {name: value for name, value in after.env.items() if before.env.get(name) != value}
        removed = before.env.keys() - after.env.keys()
        with self.lock:
            env = {name: value for name, value in self.state.env.items() if name not in removed} | changed
            self.state = ShellState(after.folder if after.folder != before.folder else self.state.folder, env)


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
    if shell is not None:
        shutil.rmtree(shell.tmp, ignore_errors=True)


def forget_all_shells() -> None:
    for task in list(_shells):
        forget_shell(task)


def launch(command: str, shell: TaskShell, context: ToolContext, *, pty: bool, with_stdin: bool = False) -> Launched:
    """Start a command in the shell's folder, with its variables, behind the walls of the backend."""
    backend = choose_backend(context)
    state = shell.snapshot()
    place = Place(
        root=shell.root,
        folder=state.folder,
        tmp=_make_tmp(shell),
        network=bool(context.setting("terminal", "network", True)),
        secret_home=str(context.home or ""),
        readable=_list_uploads(context),
        pty=pty,
    )
    if not os.path.isdir(backend.find_folder(state.folder, place)):
        place = replace(place, folder=shell.root)
    env = {"TERM": PTY_TERM, **state.env} if pty else state.env
    start_in = place.folder if os.path.isdir(place.folder) else "/"
    order = Order(backend.argv(_script(command), place), start_in, env, pty)
    return Launched(keeper.start(order, with_stdin=with_stdin), ShellState(place.folder, env))


def _list_uploads(context: ToolContext) -> tuple[str, ...]:
    """What the person sent along, which the model is to work with."""
    own = context.own or context.home
    return (os.path.realpath(own / UPLOADS),) if own is not None else ()


def read_state(data: bytes, before: ShellState) -> ShellState:
    """What the shell wrote when it ended: its folder, then its variables; unchanged when it did not get to it."""
    folder, *pairs = data.decode("utf-8", "surrogateescape").split("\0")
    if not folder or not pairs:
        return before
    env = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    return ShellState(folder, {name: value for name, value in env.items() if name not in OWN_NAMES})


def _open_shell(folder: str) -> TaskShell:
    root = os.path.abspath(folder) if os.path.isdir(folder) else str(Path.home())
    hidden = OWN_NAMES.union(cli_config.secrets())  # keys of the owner are not the model's to use (G6)
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    return TaskShell(root, "", ShellState(root, env))


def _make_tmp(shell: TaskShell) -> str:
    """The task's own /tmp, made anew when the keeper that owned it has taken it away."""
    with shell.lock:
        if not shell.tmp or not os.path.isdir(shell.tmp):
            shell.tmp = str(keeper.scratch() / f"tmp-{os.urandom(6).hex()}")
            os.makedirs(shell.tmp, mode=0o700)
        return shell.tmp


def _script(command: str) -> str:
    """The trap notes the folder and the variables, however the command ends."""
    env = shlex.quote(shutil.which("env") or "/usr/bin/env")
    save = f'{{ printf "%s\\\\0" "$PWD"; {env} -0; }} >&{STATE_FD}'
    return f"trap {shlex.quote(save)} EXIT\n{command}\n"
