"""Where commands run: `local`, with the person's own rights, or `bubblewrap`, behind walls.

Behind the walls a command sees the system, its working folder and its own /tmp, and nothing else; what it may do with
them is its level. `sandbox_view.py` decides what is in sight, this module makes a program of it.
"""

import logging
import os
import shlex
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Self

from hermes_base.errors import ToolFailure
from hermes_base.settings import Settings
from hermes_base.turn.tool_context import ToolContext
from tools.files.programs import CLEAN_ENVIRONMENT, find_program
from tools.shell.keeper import ARGUMENTS_FD, BLOCK_FD, INFO_FD, NETWORK, PORTER
from tools.shell.spawning import Order, Running, keeper

log = logging.getLogger(__name__)

AUTO, LOCAL, BUBBLEWRAP = "auto", "local", "bubblewrap"
BACKENDS = (LOCAL, BUBBLEWRAP)
PROBE_SECONDS = 10.0
WORD_BYTES = 1024
TRIAL = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--perms", "0111", "--tmpfs", "/tmp"),
    *("--unshare-pid", "--clearenv", "--cap-drop", "ALL"),
)
#: Makes the network of a task, and waits until the porter has been there. No /dev: with one, whoever is not root would
#: be root in there.
MAKE_NETWORK = (
    *("--ro-bind", "/", "/", "--unshare-net", "--die-with-parent", "--cap-drop", "ALL"),
    *("--info-fd", str(INFO_FD), "--block-fd", str(BLOCK_FD)),
)
NO_SANDBOX = "there is no sandbox"
SYSTEM_BASH = "/bin/bash"
#: Where the shell behind the walls notes its state.
STATE_FOLDER = "/run/hermes"
STAT = "/usr/bin/stat"
#: How a command ends whose walls did not stand as they should, and what it says then.
NOT_BUILT, MOVED = 125, "hermes-walls-moved"


class Walls(StrEnum):
    """How far a command may reach."""

    LOOK = "look"  # the folder read-only, no network, no secrets
    WORK = "work"  # the folder writable, the network as set
    SETUP = "setup"  # as work, and what other programs obey is writable, too
    OUTSIDE = "outside"  # no walls


class CommandNetwork(StrEnum):
    """What a command behind the walls reaches."""

    NONE = "none"
    PROXY = "proxy"  # the network of its task, and the proxy in it
    OPEN = "open"  # whatever this machine reaches


@dataclass(frozen=True, slots=True)
class CommandView:
    """What a command has in sight behind the walls. `mounts` are in order: what comes later lies over the earlier."""

    mounts: tuple[tuple[str, ...], ...]
    folder: str
    env: Mapping[str, str]
    network: CommandNetwork
    held: tuple[tuple[str, int, int], ...] = ()  # what must lie at a path that is writable: device and inode
    masks: tuple[tuple[str, str], ...] = ()  # what must lie over a secret: a mask, by its own name behind the walls


def find_bash() -> str:
    return SYSTEM_BASH if os.path.exists(SYSTEM_BASH) else find_program("bash") or SYSTEM_BASH


def find_bubblewrap() -> str:
    """The sandbox program by its whole path; empty when there is none."""
    return find_program("bwrap") or ""


def order_inside(script: str, view: CommandView, *, pty: bool) -> Order:
    """The program that runs a script behind the walls: no privileges even for root, its own processes only."""
    words = [word for mount in view.mounts for word in mount]
    words += ["--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    if view.network is CommandNetwork.NONE:
        words.append("--unshare-net")
    if not pty:  # with a pty the session that owns it must stay, or job control would not work
        words.append("--new-session")
    words += ["--clearenv"]
    for name, value in view.env.items():
        words += ["--setenv", name, value]
    words += ["--chdir", view.folder]
    # Checked before anything of the command runs: bubblewrap finds by name what it mounts, and names can be moved.
    fails = f"|| {{ echo {MOVED} >&2; exit {NOT_BUILT}; }}\n"
    checks = [f"[ {shlex.quote(path)} -ef {shlex.quote(mask)} ] {fails}" for path, mask in view.masks]
    if view.held:
        paths = " ".join(shlex.quote(path) for path, _, _ in view.held)
        expected = shlex.quote("\n".join(f"{device}:{inode}" for _, device, inode in view.held))
        checks.append(f'[ "$({STAT} -c %d:%i -- {paths} 2>&1)" = {expected} ] {fails}')
    argv = [find_bubblewrap(), "--args", str(ARGUMENTS_FD), "--", find_bash(), "-c", "".join(checks) + script]
    return Order(argv, "/", CLEAN_ENVIRONMENT, pty, arguments=words, joins=view.network is CommandNetwork.PROXY)


def order_outside(
    script: str, folder: str, place: tuple[int, int] | None, env: Mapping[str, str], *, pty: bool
) -> Order:
    """No walls: the script may do what the person may do. It starts in the folder that was meant, or not at all."""
    return Order([find_bash(), "--noprofile", "--norc", "-c", script], folder, env, pty, place)


def choose_backend(context: ToolContext) -> str:
    """The backend that the settings name; "auto" is bubblewrap where it works."""
    return active_backend(context.settings.terminal.backend)


def active_backend(wanted: str = AUTO) -> str:
    """The name of the backend that commands get with this setting."""
    if wanted == AUTO:
        return BUBBLEWRAP if is_bubblewrap_usable() else LOCAL
    if wanted not in BACKENDS:
        raise ToolFailure(
            f"There is no terminal backend called '{wanted}'.",
            fix=f"Set terminal.backend to auto, {' or '.join(BACKENDS)}.",
        )
    if wanted == BUBBLEWRAP and not is_bubblewrap_usable():
        raise ToolFailure(
            "terminal.backend is bubblewrap, but bwrap does not work on this machine; nothing was run.",
            fix="Install bubblewrap and allow user namespaces, or set terminal.backend to local.",
        )
    return wanted


@lru_cache(maxsize=1)
def is_bubblewrap_usable() -> bool:
    """Installed, and the kernel lets it build its walls; tried once, and once more on a machine that was too busy."""
    if not find_bubblewrap():
        return False
    for _ in range(2):
        try:
            done = subprocess.run(
                [find_bubblewrap(), *TRIAL, "--unshare-net", "--", find_bash(), "-c", "exit 0"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_SECONDS,
                check=False,
                env=dict(CLEAN_ENVIRONMENT),
            )
        except subprocess.TimeoutExpired as problem:
            log.warning("bubblewrap does not answer: %s", problem)
        except OSError as problem:
            log.warning("bubblewrap is installed but does not run: %s", problem)
            return False
        else:
            if done.returncode != 0:
                reason = done.stderr.decode("utf-8", "replace").strip()
                log.warning("bubblewrap is installed but does not work here: %s", reason)
            return done.returncode == 0
    return False


def find_filter_problem(wanted: str) -> str:
    """Why the network of commands cannot be led through the proxy, with this setting of the backend; empty: it can."""
    if wanted == LOCAL or not is_bubblewrap_usable():
        return NO_SANDBOX
    return _try_network()


@lru_cache(maxsize=1)
def _try_network() -> str:
    """Whether a port can be opened in a network, and a command run there; tried once, and once more if not."""
    why = _run_in_trial_network() and _run_in_trial_network()
    if not why:
        return ""
    log.warning("the network of commands cannot be led through the proxy here: %s", why)
    return f"no port can be opened in the network of a command ({why})"


def _run_in_trial_network() -> str:
    """Why it did not work; empty: it did."""
    try:
        with make_network() as network:
            running = keeper.start(_order_nothing(*TRIAL, joins=True), given={NETWORK: network.space})
    except (OSError, ToolFailure) as problem:
        return str(problem)
    return _wait_for_nothing(running)


@dataclass(frozen=True, slots=True)
class OpenedNetwork:
    """A network with nothing but one port in it. It is there as long as this is open, or anything runs in it."""

    space: int
    listener: socket.socket  # of the port

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.space)
        self.listener.close()


def make_network() -> OpenedNetwork:
    """A network that no process is in; an OSError says why there is none."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            running = keeper.start(_order_nothing(*MAKE_NETWORK), given={PORTER: theirs.fileno()})
        ours.settimeout(PROBE_SECONDS)
        try:
            said, fds, _, _ = socket.recv_fds(ours, WORD_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
        except OSError as problem:
            said, fds = str(problem).encode(), []
    # Only at its end has the sandbox program done all: the porter comes before loopback is up and users are mapped.
    why = _wait_for_nothing(running)
    if not fds:
        raise OSError(said.decode("utf-8", "replace") or why or "the sandbox ended at once")
    made = OpenedNetwork(fds[0], socket.socket(fileno=fds[1]))
    if why:
        with made:
            raise OSError(why)
    return made


def _order_nothing(*words: str, joins: bool = False) -> Order:
    """The sandbox, and in it a program that ends at once."""
    argv = [find_bubblewrap(), "--args", str(ARGUMENTS_FD), "--", find_bash(), "-c", "exit 0"]
    return Order(argv, "/", CLEAN_ENVIRONMENT, arguments=words, joins=joins)


def _wait_for_nothing(running: Running) -> str:
    """Why it did not end well; empty: it did."""
    in_time = running.pump(PROBE_SECONDS)
    said = running.spool.read(0, WORD_BYTES)[1].decode("utf-8", "replace").strip()
    running.end(0)
    running.finish()
    running.spool.close()
    return "" if in_time and running.exit_code == 0 else said or "the sandbox does not end"


def describe_network(settings: Settings) -> str:
    """How commands reach the network with these settings, in a sentence."""
    problem = find_filter_problem(settings.terminal.backend)
    if problem:
        return f"What uses the network asks each time, since nothing can filter it: {problem}."
    if not settings.terminal.network:
        return "They have no network (terminal.network)."
    return "They reach the network through a proxy alone, which judges every address (network.private)."


def describe_walls(settings: Settings) -> tuple[str, str]:
    """The backend that commands get with these settings, and which walls stand then, in a sentence."""
    wanted = settings.terminal.backend
    try:
        active = active_backend(wanted)
    except ToolFailure as problem:
        return "none", str(problem)
    if active == BUBBLEWRAP:
        return active, (
            "Commands run in a sandbox; what runs unasked cannot write outside of its folder, and never has both the "
            f"secrets of the folder (files.secrets) and the network. {describe_network(settings)}"
        )
    if wanted == LOCAL and settings.approvals.mode == "auto":
        return active, (
            "There is no sandbox (terminal.backend is local) and approvals.mode is auto: ordinary work runs unasked "
            "with your own rights, and whatever the project's code does, it can do to your files. "
            f"{describe_network(settings)}"
        )
    return active, (
        "There is no sandbox: commands run with your own rights, and all but a few plain ones ask first. "
        f"{describe_network(settings)}"
    )
